#!/usr/bin/env bash
# Checks that a finished run continues if train.steps is raised: it gives the bits of a run with that
# number of steps from the start, and loses nothing.
. "$(dirname -- "$0")/common.bash"

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
settings=(--model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.batch=8 --data.seq=24
    --parallel.micros=4 --parallel.threads=1 --train.slow=off --checkpoint.async=false)
fixed=("${settings[@]}" --optim.decay_steps=30 --optim.warmup=3)
hash_of() { "$WEFT" inspect --hash "$1" 2>/dev/null | cut -c 1-32; }
steps() { sed 's/,"lr".*//' "$1/metrics.jsonl"; }

run 0 train "${fixed[@]}" --train.steps=12 --log.dir=whole
run 0 train "${fixed[@]}" --train.steps=8 --log.dir=run --checkpoint.every=3
first=$(hash_of run)

# Without more steps or without checkpoint.resume nothing changes.
run 2 train "${fixed[@]}" --train.steps=12 --log.dir=run
err_has 'log.dir run has a finished run; continue it with checkpoint.resume=auto and more train.steps'
for steps in 8 5; do
    run 0 train "${fixed[@]}" --train.steps=$steps --log.dir=run --checkpoint.resume=auto
    out_has 'run is already finished: 8 steps are done; raise train.steps to continue it'
    out_lacks '| loss'
done
run 2 train "${fixed[@]}" --train.steps=12 --log.dir=run \
    --checkpoint.resume=run/checkpoints/step-00000008
err_has 'has a finished run; continue it with checkpoint.resume=auto, or use another directory'
holds test "$(hash_of run)" = "$first"
holds test "$(ls -d run/model*)" = run/model
holds test "$(wc -l <run/metrics.jsonl)" -eq 8

# The run continues in another layout, too.
run 0 train "${fixed[@]}" --train.steps=12 --log.dir=run --checkpoint.every=3 \
    --checkpoint.resume=auto --parallel.pp=2
out_has 'resumed  from the checkpoint of step 8'
out_has 'continues a finished run, whose weights are now in run/model-step-00000008'
holds test "$(hash_of run)" = "$(hash_of whole)"
holds test "$(steps run)" = "$(steps whole)"
holds test "$(hash_of run/model-step-00000008)" = "$first"

# If the last checkpoint is broken, the run repeats the steps after the previous one.
newest=$(ls -d run/checkpoints/step-* | tail -n 1)
truncate -s -1 "$newest/rank-00000.safetensors"
what='weft train continues despite a broken checkpoint'
run 0 train "${fixed[@]}" --train.steps=12 --log.dir=run --checkpoint.resume=auto
out_has 'run is already finished: 12 steps are done'
holds "$WEFT" train "${fixed[@]}" --train.steps=15 --log.dir=run --checkpoint.every=3 \
    --checkpoint.resume=auto >out 2>err </dev/null
err_has "$(basename "$newest")"
run 0 train "${fixed[@]}" --train.steps=15 --log.dir=whole15
holds test "$(hash_of run)" = "$(hash_of whole15)"
holds test "$(steps run)" = "$(steps whole15)"
holds test "$(hash_of run/model-step-00000012)" = "$(hash_of whole)"

# Values that do not match their hash are detected by the rank that reads them; all ranks then use the
# previous checkpoint.
flip() { # FILE AT
    byte=$(od -An -tu1 -j "$2" -N1 "$1")
    printf "\\x$(printf %x $((byte ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
run 0 train "${fixed[@]}" --train.steps=9 --log.dir=flipped --checkpoint.every=3 \
    --checkpoint.keep=3 --parallel.pp=2
rm -r flipped/model
for where in '0 20000' '1 700000'; do
    for layout in '' --parallel.pp=2 --parallel.dp=2 '--parallel.pp=2 --parallel.dp=2'; do
        # shellcheck disable=SC2086 # words
        set -- $where
        rm -rf again
        cp -r flipped again
        flip again/checkpoints/step-00000009/rank-0000$1.safetensors "$2"
        what="weft train continues despite a flipped bit in rank $1 at $2, $layout"
        # shellcheck disable=SC2086 # words
        holds "$WEFT" train "${fixed[@]}" --train.steps=12 --log.dir=again \
            --checkpoint.resume=auto $layout >out 2>err </dev/null
        out_has 'resumed  from the checkpoint of step 6'
        err_has "again/checkpoints/step-00000009: rank-0000$1.safetensors: "
        holds test "$(wc -l <err)" -eq 1
        holds test "$(hash_of again)" = "$(hash_of whole)"
    done
done
rm -r again/model
for step in 3 6 9; do
    flip again/checkpoints/step-0000000$step/rank-00001.safetensors 30000
done
rm -rf again/checkpoints/step-00000012
for layout in --parallel.pp=1 --parallel.pp=2; do
    run 4 train "${fixed[@]}" --train.steps=12 --log.dir=again --checkpoint.resume=auto $layout
    err_has 'no checkpoint in again/checkpoints can be used: again/checkpoints/step-00000009: rank-00001'
done
run 4 train "${fixed[@]}" --train.steps=12 --log.dir=other \
    --checkpoint.resume=again/checkpoints/step-00000006
err_has 'again/checkpoints/step-00000006: rank-00001.safetensors: '

# If the learning rate decays over all steps, more steps change the run, and weft prints a warning.
run 0 train "${settings[@]}" --train.steps=4 --log.dir=curve --checkpoint.every=2
what='weft train continues with another learning rate curve'
holds "$WEFT" train "${settings[@]}" --train.steps=6 --log.dir=curve --checkpoint.every=2 \
    --checkpoint.resume=auto >out 2>err </dev/null
holds test "$(wc -l <err)" -eq 1
err_has 'train.steps was 4 and is 6'

# A continued run that is stopped can be continued again; until then its model is its checkpoint.
run 0 train "${fixed[@]}" --train.steps=8 --log.dir=ended --checkpoint.every=3
more=("${fixed[@]}" --train.steps=90 --log.dir=ended --checkpoint.every=3 --checkpoint.resume=auto)
run 0 train "${more[@]}" --train.max_time=0.001
holds test ! -e ended/model
holds test "$(hash_of ended/model-step-00000008)" = "$first"
what='weft inspect --hash of a stopped run'
holds "$WEFT" inspect --hash ended >out 2>err
err_has 'ended is not finished: using its checkpoint of step '
run 0 train "${more[@]}"
run 0 train "${fixed[@]}" --train.steps=90 --log.dir=whole90
holds test "$(hash_of ended)" = "$(hash_of whole90)"

# A run without checkpoints is finished, too, but cannot be continued.
run 0 train "${fixed[@]}" --train.steps=12 --log.dir=whole --checkpoint.resume=auto
out_has 'whole is already finished: 12 steps are done'
run 2 train "${fixed[@]}" --train.steps=20 --log.dir=whole --checkpoint.resume=auto
err_has 'has a finished run without checkpoints, which cannot be continued; use another directory'
err_has 'start a new run from its weights with model.dir=whole/model'
finish
