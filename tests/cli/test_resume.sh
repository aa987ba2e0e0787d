#!/usr/bin/env bash
# Checks that a run that is killed repeatedly and resumed in another layout each time gives the bits of
# a run that was never stopped.  The deep test kills it more often.
. "$(dirname -- "$0")/common.bash"

kills=10
[ -z "${WEFT_TEST_DEEP-}" ] || kills=60

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
settings=(--model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.batch=8 --data.seq=24
    --parallel.micros=4 --parallel.threads=1 --train.timeout=60 --train.slow=off
    --optim.decay_steps=1000)
layouts=('' '--parallel.pp=2' '--parallel.dp=3' '--parallel.pp=4 --parallel.schedule=zb-h1'
    '--parallel.pp=2 --parallel.schedule=zb-v --checkpoint.async=false'
    '--parallel.pp=2 --parallel.dp=2' '--parallel.pp=2 --parallel.schedule=dualpipe')
resumed=(--log.dir=broken --checkpoint.every=3 --checkpoint.resume=auto)

# last_step RUN: prints the number of the last step in metrics.jsonl, or 0.
last_step() {
    local line
    line=$(tail -n 1 "$1/metrics.jsonl" 2>/dev/null)
    line=${line#*\"step\":}
    line=${line%%[!0-9]*}
    echo "${line:-0}"
}

# The run does not end by itself, and each kill waits for new steps.  So the kill always hits a training
# run, whatever the speed and load of the machine.
RANDOM=7
for ((i = 0; i < kills; i++)); do
    # shellcheck disable=SC2206 # words
    layout=(${layouts[i % ${#layouts[@]}]})
    target=$(($(last_step broken) + 5 + RANDOM % 20))
    "$WEFT" train "${settings[@]}" "${resumed[@]}" --train.steps=100000000 "${layout[@]}" >log 2>&1 &
    pid=$!
    while [ "$(last_step broken)" -lt $target ] && kill -0 $pid 2>/dev/null; do
        sleep 0.01
    done
    holds kill -9 $pid
    wait $pid 2>/dev/null || true
done
steps=$(($(last_step broken) + 10))
run 0 train "${settings[@]}" "${resumed[@]}" --train.steps=$steps
run 0 inspect --hash broken
got=$(cut -d ' ' -f 1 out)
run 0 train "${settings[@]}" --train.steps=$steps --log.dir=whole
run 0 inspect --hash whole
holds test "$got" = "$(cut -d ' ' -f 1 out)"
echo "killed $kills times in $steps steps"
# Every step is recorded once, with the same loss and norm.
steps() { sed 's/,"lr".*//' "$1/metrics.jsonl"; }
holds test "$(steps broken)" = "$(steps whole)"

# After a signal the run saves a checkpoint, and can be resumed from it.
"$WEFT" train "${settings[@]}" --train.steps=100000 --log.dir=signalled --checkpoint.every=1000 >log 2>&1 &
pid=$!
for _ in $(seq 600); do
    grep -q 'step 2/' log && break
    sleep 0.1
done
# A second run in the same directory is rejected while the first one is running.
run 2 train "${settings[@]}" --train.steps=60 --log.dir=signalled --checkpoint.resume=auto
err_has 'locked'
kill -TERM $pid
status=0
wait $pid || status=$?
holds test $status -eq 143
holds grep -q 'saved    checkpoint of step' log
run 2 train "${settings[@]}" --train.steps=60 --log.dir=signalled
err_has 'checkpoint.resume=auto'
run 0 train "${settings[@]}" --log.dir=signalled --checkpoint.resume=auto --train.max_time=1 \
    --train.steps=100000 --checkpoint.every=1000
out_has 'resumed  from the checkpoint of step'

# A broken checkpoint is named, and the previous one is used.
run 0 train "${settings[@]}" --train.steps=10 --log.dir=flip --checkpoint.every=5 --checkpoint.async=false
rm -r flip/model
newest=$(ls -d flip/checkpoints/step-* | tail -n 1)
printf 'x' | dd of="$newest/rank-00000.safetensors" bs=1 seek=5000 conv=notrunc status=none
holds "$WEFT" train "${settings[@]}" --train.steps=10 --log.dir=flip --checkpoint.every=5 \
    --checkpoint.resume=auto >out 2>err
err_has "$(basename "$newest")"
out_has 'resumed  from the checkpoint of step 5'
run 4 train "${settings[@]}" --train.steps=10 --checkpoint.resume="$newest.nowhere"

numbers() { sed 's/.*"step":\([0-9]*\).*/\1/' "$1/metrics.jsonl"; }
# The metrics of a run that was killed without a checkpoint are kept, but not mixed with those of the
# next run.
sampled=("${settings[@]}" --log.sample=2 --log.sample_tokens=3 --checkpoint.async=false --optim.decay_steps=30)
run 0 train "${sampled[@]}" --train.steps=12 --log.dir=once
run 0 train "${sampled[@]}" --train.steps=9 --log.dir=twice --optim.lr=0.01
rm -r twice/model
cp twice/metrics.jsonl dead
run 0 train "${sampled[@]}" --train.steps=6 --log.dir=twice --checkpoint.every=3
out_has 'replaces an unfinished run, whose metrics are now in twice/metrics-1.jsonl'
rm -r twice/model
run 0 train "${sampled[@]}" --train.steps=12 --log.dir=twice --checkpoint.every=3 --checkpoint.resume=auto
out_lacks 'replaces an unfinished run'
holds test "$(steps twice)" = "$(steps once)"
holds cmp dead twice/metrics-1.jsonl
holds cmp once/samples.jsonl twice/samples.jsonl
holds test -s twice/samples-1.jsonl -a ! -e twice/metrics-2.jsonl
# The same applies if the checkpoint is in another directory, but not if it is in the run's own one.
run 0 train "${sampled[@]}" --train.steps=9 --log.dir=guest --optim.lr=0.01
rm -r guest/model
run 0 train "${sampled[@]}" --train.steps=14 --log.dir=guest --checkpoint.every=1 \
    --checkpoint.resume=twice/checkpoints/step-00000012
out_has 'replaces an unfinished run, whose metrics are now in guest/metrics-1.jsonl'
holds test "$(numbers guest)" = $'13\n14'
rm -r guest/model
run 0 train "${sampled[@]}" --train.steps=16 --log.dir=guest --checkpoint.every=1 \
    --checkpoint.resume=guest/checkpoints/step-00000014/
holds test "$(numbers guest)" = "$(seq 13 16)"
holds test ! -e guest/metrics-2.jsonl

finish
