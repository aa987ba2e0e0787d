#!/usr/bin/env bash
# A run that is killed again and again, and goes on in another layout each time, ends with the same
# bits as one that was never stopped.  WEFT_KILLS says how often (10).
. "$(dirname -- "$0")/common.bash"

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
settings=(--model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.batch=8 --data.seq=24
    --parallel.micros=4 --parallel.threads=1 --train.timeout=20 --train.slow=off)
layouts=('' '--parallel.pp=2' '--parallel.dp=3' '--parallel.pp=4 --parallel.schedule=zb-h1'
    '--parallel.pp=2 --parallel.schedule=zb-v --checkpoint.async=false'
    '--parallel.pp=2 --parallel.dp=2' '--parallel.pp=2 --parallel.schedule=dualpipe')

kills=${WEFT_KILLS:-10}
steps=$((kills * 40))
run 0 train "${settings[@]}" --train.steps=$steps --log.dir=whole
run 0 inspect --hash whole
want=$(cut -d ' ' -f 1 out)

RANDOM=7
killed=0
for ((i = 0; i < kills; i++)); do
    # shellcheck disable=SC2206 # words
    layout=(${layouts[i % ${#layouts[@]}]})
    [ ! -e broken/model ] || break
    "$WEFT" train "${settings[@]}" --train.steps=$steps --log.dir=broken --checkpoint.every=3 --checkpoint.resume=auto \
        "${layout[@]}" >log 2>&1 &
    pid=$!
    sleep "0.$((RANDOM % 300 + 100))"
    kill -9 $pid 2>/dev/null && killed=$((killed + 1))
    wait $pid 2>/dev/null || true
done
echo "killed $killed times"
[ -e broken/model ] || run 0 train "${settings[@]}" --train.steps=$steps --log.dir=broken --checkpoint.every=3 \
    --checkpoint.resume=auto
holds test "$killed" -ge $((kills / 2))
run 0 inspect --hash broken
holds test "$(cut -d ' ' -f 1 out)" = "$want"
# Every step once, with the same losses and norms.
steps() { sed 's/,"lr".*//' "$1/metrics.jsonl"; }
holds test "$(steps broken)" = "$(steps whole)"

# A signal leaves a checkpoint, and the run goes on from it.
"$WEFT" train "${settings[@]}" --train.steps=100000 --log.dir=told --checkpoint.every=1000 >log 2>&1 &
pid=$!
for _ in $(seq 100); do
    grep -q 'step 2/' log && break
    sleep 0.05
done
# A second run in the same directory is refused while the first one has it.
run 2 train "${settings[@]}" --train.steps=60 --log.dir=told --checkpoint.resume=auto
err_has 'locked'
kill -TERM $pid
status=0
wait $pid || status=$?
holds test $status -eq 143
holds grep -q 'saved    checkpoint of step' log
run 2 train "${settings[@]}" --train.steps=60 --log.dir=told
err_has 'checkpoint.resume=auto'
run 0 train "${settings[@]}" --log.dir=told --checkpoint.resume=auto --train.max_time=1 \
    --train.steps=100000 --checkpoint.every=1000
out_has 'resumed  from the checkpoint of step'

# A broken checkpoint is named, and the one before it taken.
run 0 train "${settings[@]}" --train.steps=10 --log.dir=flip --checkpoint.every=5 --checkpoint.async=false
rm -r flip/model
newest=$(ls -d flip/checkpoints/step-* | tail -n 1)
printf 'x' | dd of="$newest/rank-00000.safetensors" bs=1 seek=5000 conv=notrunc status=none
holds "$WEFT" train "${settings[@]}" --train.steps=10 --log.dir=flip --checkpoint.every=5 \
    --checkpoint.resume=auto >out 2>err
err_has "$(basename "$newest")"
out_has 'resumed  from the checkpoint of step 5'
run 4 train "${settings[@]}" --train.steps=10 --checkpoint.resume="$newest.nowhere"

finish
