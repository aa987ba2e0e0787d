#!/usr/bin/env bash
# Checks runs of several ranks: traces, full disks, and resuming with other settings.
. "$(dirname -- "$0")/common.bash"

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
settings=(--model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.batch=8 --data.seq=24
    --parallel.threads=1 --train.timeout=20 --train.slow=off)

# ordered TRACE: checks that no action starts before the actions of other ranks that it depends on end.
ordered() {
    awk '$2 == "compute" { begin[$3] = $4; end[$3] = $4 + $5 }
         END { for (m = 0; m < 3; m++)
                   bad += begin["1F" m] < end["0F" m] || begin["0B" m] < end["1B" m]
               exit bad }' "$1"
}

# Replicas with different numbers of micros have different numbers of events; evaluations are not
# traced.
run 0 train "${settings[@]}" --data.val="$tiny/tokens.bin" --eval.every=1 --eval.batches=1 \
    --parallel.micros=5 --parallel.pp=2 --parallel.dp=2 --train.steps=2 --log.trace_steps=2 \
    --log.dir=traced
for step in 1 2; do
    for replica in 0 1; do
        trace=traced/trace/step-00000$step-replica-$replica.trace
        holds ordered "$trace"
        holds test "$(grep -c 'compute .B' "$trace")" -eq $((6 - 2 * replica))
        holds test "$(awk '/compute .B/ && $5 < 1000' "$trace" | wc -l)" -eq 0
    done
done

# With one micro, one rank keeps gradients in fp32, and a pipeline keeps them as exact sums.  With 8 x 24
# tokens this includes the head, with 32 x 24 only the layers.
for case in 'gpt2-tiny fp32 8' 'gpt2-tiny bf16 8' 'gpt2-tiny fp32 32' 'llama-tiny fp32 8'; do
    read -r name precision batch <<<"$case"
    model=$WEFT_TEST_DATA/train/$name
    for pp in 1 2; do
        run 0 train --model.dir="$model" --data.train="$model/tokens.bin" --data.seq=24 \
            --data.batch="$batch" --train.precision="$precision" --parallel.micros=1 \
            --parallel.pp=$pp --parallel.threads=1 --train.steps=3 --train.timeout=20 \
            --log.dir="one-$pp"
        run 0 inspect --hash "one-$pp/model"
        cut -d ' ' -f 1 out >"hash-$pp"
    done
    what="one micro, $case"
    holds test -s hash-1
    holds cmp hash-1 hash-2
    rm -rf one-1 one-2
done

# If a checkpoint cannot be written, a finished run still saves its weights, and a stopped run reports an
# error.  Files are limited to 600 KiB.
limited() {
    local want=$1 code=0
    shift
    what="weft $*"
    (
        trap '' XFSZ
        ulimit -f 600
        exec "$WEFT" "$@"
    ) >out 2>err </dev/null || code=$?
    holds test "$code" -eq "$want"
}
for layout in '' '--parallel.pp=2' '--parallel.dp=2' '--parallel.pp=2 --checkpoint.async=false'; do
    rm -rf full
    # shellcheck disable=SC2086 # words
    limited 0 train "${settings[@]}" --parallel.micros=4 --train.steps=3 --checkpoint.every=3 \
        --log.dir=full $layout
    err_has 'weft: warning: no checkpoint of step 3: '
    out_has 'saved    full/model'
    # shellcheck disable=SC2086 # words
    limited 8 train "${settings[@]}" --parallel.micros=4 --train.steps=1000000 \
        --checkpoint.every=1000000 --train.max_time=0.01 --log.dir=stopped $layout
    err_has 'weft: no checkpoint of step '
    holds test ! -e stopped/model
done

# Models with equal shapes but different numbers of heads are different.
shape=(--model.arch=gpt2 --model.layers=2 --model.dim=32 --model.vocab=128 --model.ctx=64
    --data.train="$tiny/tokens.bin" --data.seq=24 --parallel.threads=1 --train.timeout=20)
run 0 train "${shape[@]}" --model.heads=4 --data.batch=8 --train.steps=1000000 \
    --checkpoint.every=1000000 --train.max_time=0.01 --log.dir=heads
run 4 train "${shape[@]}" --model.heads=8 --data.batch=8 --train.steps=1000000 --log.dir=heads \
    --checkpoint.resume=auto --parallel.pp=2
err_has 'is a checkpoint of another model'
err_has '"n_head": 4 where the settings have "n_head": 8'
# A run with other data continues with a warning.
holds "$WEFT" train "${shape[@]}" --model.heads=4 --data.batch=6 --train.steps=1000000 \
    --log.dir=heads --checkpoint.resume=auto --parallel.pp=2 --train.max_time=0.01 \
    --checkpoint.every=1000000 >out 2>err
err_has 'weft: warning: the run continues with settings that differ from its checkpoint: data.batch was 8 and is 6'
out_has 'resumed  from the checkpoint of step'
run 0 train "${shape[@]}" --model.heads=4 --data.batch=6 --train.steps=1000000 \
    --log.dir=heads --checkpoint.resume=auto --train.max_time=0.01 --checkpoint.every=1000000
# The learning rate decays over all steps, unless optim.decay_steps is set.
holds "$WEFT" train "${shape[@]}" --model.heads=4 --data.batch=6 --train.steps=2000000 \
    --log.dir=heads --checkpoint.resume=auto --train.max_time=0.01 --checkpoint.every=1000000 \
    >out 2>err
err_has 'train.steps was 1000000 and is 2000000'

# Resuming from an older checkpoint needs another directory: new checkpoints would be the oldest and be
# deleted first.
run 0 train "${settings[@]}" --parallel.micros=4 --train.steps=4 --checkpoint.every=2 \
    --checkpoint.async=false --log.dir=back
rm -r back/model
run 2 train "${settings[@]}" --parallel.micros=4 --train.steps=4 --checkpoint.every=1 \
    --log.dir=back --checkpoint.resume=back/checkpoints/step-00000002 --parallel.pp=2
err_has 'log.dir back has a checkpoint of step 4'
run 0 train "${settings[@]}" --parallel.micros=4 --train.steps=4 --checkpoint.every=1 \
    --log.dir=forth --checkpoint.resume=back/checkpoints/step-00000002 --parallel.pp=2
run 0 train "${settings[@]}" --parallel.micros=4 --train.steps=4 --log.dir=back \
    --checkpoint.resume=back/checkpoints/step-00000004

finish
