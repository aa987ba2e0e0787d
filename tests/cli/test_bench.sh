#!/usr/bin/env bash
# Checks that weft bench train, checkpoint and sim print figures and leave no files.  Speed is not checked.
. "$(dirname -- "$0")/common.bash"

shape=(--spec d1 --batch 1 --seq 8 --threads 1)
tiny=("${shape[@]}" --steps 3 --repeat 2)
mkdir disk
run 0 bench train "${shape[@]}" --repeat 2
out_has 'd1, fp32, 1 x 8 tokens in 1 micro-batch, 1 thread,'
out_has ' of peak ('
out_has ' GFLOP/s during the steps, '
out_has 'exact sums cost '
run 0 bench train --spec d1 --batch 4 --seq 8 --micros 2 --threads 2 --repeat 1 --json
for key in tok_s share peak burst exact_cost; do
    out_has "\"$key\":"
done
run 0 bench checkpoint "${tiny[@]}" --dir disk
out_has 'd1, 1 x 8 tokens per step, a checkpoint of '
out_has ' with saving: stall '
out_has 'plain write and fsync'
out_has 'plain read'
holds test -z "$(ls -A disk)"
run 0 bench checkpoint "${tiny[@]}" --json
for key in stall processor_time save_share load_share plain_write_bytes_s plain_read_bytes_s; do
    out_has "\"$key\":"
done
holds test "$(ls)" = "$(printf 'disk\nerr\nout')"
run 8 bench checkpoint "${tiny[@]}" --dir nowhere
err_has 'nowhere: cannot create a directory'
run 2 bench checkpoint --spec nothing
run 2 bench checkpoint "${tiny[@]}" --micros 2
# A stopped benchmark leaves no files, either.
for when in 'INT 0.2' 'TERM 0.7'; do
    read -r signal seconds <<<"$when"
    what="weft bench checkpoint, $signal after $seconds s" code=0
    "$WEFT" bench checkpoint "${shape[@]}" --steps 5 --repeat 100 --dir disk >out 2>err &
    pid=$!
    for _ in $(seq 300); do [ -n "$(ls -A disk)" ] && break; sleep 0.1; done
    sleep "$seconds"
    kill -s "$signal" $pid
    wait $pid || code=$?
    holds test "$code" -eq $((128 + $(kill -l "$signal")))
    holds test -z "$(ls -A disk)"
    holds test ! -s err
done
run 0 bench sim --repeat 1 --json
for key in actions_s action_scenarios_s fleet_step_s reference_cache; do
    out_has "\"$key\":"
done
run 2 bench nothing
err_has 'generate or checkpoint'
holds test "$(ls)" = "$(printf 'disk\nerr\nout')"
finish
