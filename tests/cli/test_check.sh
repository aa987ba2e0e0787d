#!/usr/bin/env bash
# weft check: right and wrong schedules, transports, and what is drawn.
. "$(dirname -- "$0")/common.bash"

printf '0F0,0B0\r\n1F0,1B0\r\n' >right.csv
run 0 check right.csv
out_has 'right.csv: 2 ranks, 2 stages (linear), 1 micros'
out_has 'right: 4 actions, every stage and micro once each way, 2 messages over 2 channels agree'
out_has 'peak activations  1 1'
run 0 check ./right.csv --transport rendezvous --channels pair
run 0 check -- right.csv

printf '0F0,0F1,0B0,0B1\n1F0,1B0,1B1,1F1\n' >order.csv
run 5 check order.csv
err_has 'order.csv is wrong: rank 1, action 2: 1B1 runs before its forward'
out_has 'order: rank 1, action 2: 1B1 runs before its forward'
# The arrow stands under the cell that it speaks of.
holds awk '/^  rank 1 / { cell = index($0, "1B1") } /\^\^\^ 1B1/ { arrow = index($0, "^") }
           END { exit !(cell > 0 && cell == arrow) }' out

printf '0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n' >circle.csv
run 5 check circle.csv
out_has 'deadlock: rank 0, action 1: 0B0 waits for 1B0 of rank 1'
out_has 'deadlock: rank 1, action 0: 1F1 waits for 0F1 of rank 0'
holds test "$(grep -c '\^' out)" -eq 2

# Steady 1F1B with blocking sends: a deadlock with late receives, none in PyTorch's order.
run 0 plan -s 1f1b -p 4 -m 8 --format csv -o 1f1b.csv
run 0 check 1f1b.csv
run 0 check 1f1b.csv --transport depth=1
run 5 check 1f1b.csv --transport rendezvous
out_has 'deadlock: '
out_has ' waits for '
run 5 check 1f1b.csv --transport depth=0
run 0 check 1f1b.csv --transport rendezvous --lower-like pytorch

# A file with its messages is judged as it is.
run 0 plan -s 1f1b -p 4 -m 8 --lower --format csv -o lowered.csv
run 0 check lowered.csv
run 5 check lowered.csv --transport rendezvous
sed '/^[0-9]/s/3RECV_F0/3RECV_F1/;t;s/3RECV_F1/3RECV_F0/' lowered.csv >swapped.csv
run 5 check swapped.csv

# More findings than anyone reads are cut, and counted.
{
    printf '0F0'
    for m in $(seq 1 99); do printf ',0F%d' "$m"; done
    echo
} >many.csv
run 5 check many.csv
out_has 'and 68 more'

# Pipes, and every schedule in both forms of text.
for name in $("$WEFT" plan --list | awk '/^[a-z0-9]/ { print $1 }'); do
    "$WEFT" plan -s "$name" -p 4 -m 8 --format csv >plan.csv 2>err || fail "plan $name"
    run_with plan.csv 0 check -
    "$WEFT" plan -s "$name" -p 4 -m 8 --format pytorch >plan.csv 2>err || fail "plan $name"
    run_with plan.csv 0 check -
    holds test "$(grep -c '#' plan.csv)" -eq 0
    # What is read is what was written.
    run 0 plan -s ./plan.csv --format pytorch -o again.csv
    holds cmp plan.csv again.csv
done

# A full disk is an error here too.
if [ -w /dev/full ]; then
    what='weft check >/dev/full'
    code=0
    "$WEFT" check right.csv >/dev/full 2>err || code=$?
    judge 8 "$code"
    err_has 'cannot write standard output'
fi

finish
