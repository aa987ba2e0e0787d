#!/usr/bin/env bash
# Checks weft check: valid and invalid schedules, transports, and the drawing of findings.
. "$(dirname -- "$0")/common.bash"

printf '0F0,0B0\r\n1F0,1B0\r\n' >right.csv
run 0 check right.csv
out_has 'right.csv: 2 ranks, 2 stages (linear), 1 micro'
out_has 'correct: 4 actions; every stage runs every micro once forward and once backward; 2 messages over 2 channels match'
out_has 'peak activations  1 1'
run 0 check ./right.csv --transport rendezvous --channels pair
run 0 check -- right.csv

# lines_equal N TEXT: checks that N lines of the output contain TEXT.
lines_equal() {
    n_checks=$((n_checks + 1))
    [ "$(grep -cF -e "$2" out)" -eq "$1" ] || fail "not $1 lines with: $2"
}

# under ROW CELL LINE: checks that the line below ROW is LINE and starts below CELL.
under() {
    n_checks=$((n_checks + 1))
    awk -v row="  $1 " -v cell=" $2 " -v line="$3" '
        at > 0 { sub(/ *$/, ""); right = index($0, line) == at && substr($0, at) == line; at = 0 }
        index($0, row) == 1 { at = index($0 " ", cell); at += at > 0 }
        right { exit }
        END { exit !right }' out || fail "not below $2 of $1: $3"
}

printf '0F0,0F1,0B0,0B1\n1F0,1B0,1B1,1F1\n' >order.csv
run 5 check order.csv
err_has 'order.csv is wrong: rank 1, action 2: 1B1 runs before its forward'
# The arrow is below the cell of its finding, and no finding is printed twice.
under 'rank 1' 1B1 '^^^ 1B1 runs before its forward'
holds test "$(grep -c 'runs before' out)" -eq 1
out_lacks 'order: '

printf '0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n' >circle.csv
run 5 check circle.csv
under 'rank 0' 0B0 '^^^ 0B0 waits for 1B0 of rank 1'
under 'rank 1' 1F1 '^^^ 1F1 waits for 0F1 of rank 0'
lines_equal 2 '^'
out_lacks 'deadlock: '

# A pair is one cell; the finding names the waiting half.
printf '(0F0;0B0)OVERLAP_F_B\n' >pair.csv
run 5 check pair.csv
err_has 'rank 0, action 1: 0B0 waits for 0F0 of rank 0'
under 'rank 0' '0F0&0B0' '^^^^^^^ 0B0 waits for 0F0 of rank 0'

# A missing action has an arrow, too: at the last action of its stage and micro, or after the row.
printf '0F0,0F1,0B1\n' >no_backward.csv
run 5 check no_backward.csv
under 'rank 0' 0F0 '^^^ stage 0, micro 0: no backward'
printf '0F0,0F2,0B0,0B2\n' >gap.csv
run 5 check gap.csv
err_has 'gap.csv is wrong: stage 0, micro 1: no forward'
holds awk '/^  rank 0 / { sub(/ *$/, ""); end = length($0) }
           /\^ stage 0, micro 1: no forward$/ { arrow = index($0, "^") }
           END { exit !(end > 0 && arrow > end) }' out
# The second finding of a row is printed as a line with its rule.
out_has '  missing: stage 0, micro 1: no backward'
lines_equal 1 '^'
out_lacks 'more'

# Either all ranks reduce, or none.
printf '0F0,0B0\n1F0,1B0,1REDUCE_GRAD\n' >one_reduces.csv
run 5 check one_reduces.csv
under 'rank 0' 0B0 '^^^ 0REDUCE_GRAD is missing: either all ranks reduce all of their stages, or none'
printf ',0F0,,0B0,\n1F0,1B0,1REDUCE_GRAD\n' >idle.csv
run 5 check idle.csv --lower=torch-2.15
under 'rank 0' 0B0 '^^^ 0REDUCE_GRAD is missing: either all ranks reduce all of their stages, or none'
printf '0F0,0B0,0REDUCE_GRAD\n1F0,1B0,1REDUCE_GRAD\n' >all_reduce.csv
run 0 check all_reduce.csv

# 1F1B with blocking sends deadlocks with late receives, but not in PyTorch's order.
run 0 plan -s 1f1b -p 4 -m 8 --format csv -o 1f1b.csv
run 0 check 1f1b.csv
run 0 check 1f1b.csv --transport depth=1
run 5 check 1f1b.csv --transport rendezvous
holds grep -q '\^^* [0-9]*[A-Z_]*[0-9]* waits for ' out
holds test "$(grep -c ' waits for ' out)" -eq "$(grep -c '\^' out)"
run 5 check 1f1b.csv --transport depth=0
out_has ', or with --lower=torch-2.10'
run 0 check 1f1b.csv --transport rendezvous --lower=torch-2.10
run 0 check 1f1b.csv --transport rendezvous --channels pair --lower torch-2.15
run 5 check 1f1b.csv --transport rendezvous --lower=torch-2.15-late
run 2 check 1f1b.csv --lower=pytorch
err_has "--lower: 'pytorch' is not one of weft|torch-2.10|torch-2.15"

# A file that contains messages is checked unchanged.
run 0 plan -s 1f1b -p 4 -m 8 --lower --format csv -o lowered.csv
run 0 check lowered.csv
run 5 check lowered.csv --transport rendezvous
run 2 check lowered.csv --lower=torch-2.10
err_has 'lowered.csv already contains messages; none can be added'
run 2 check lowered.csv --lower=weft
sed '/^[0-9]/s/3RECV_F0/3RECV_F1/;t;s/3RECV_F1/3RECV_F0/' lowered.csv >swapped.csv
run 5 check swapped.csv

# A long list of findings is truncated, and the rest is counted.
{
    printf '0F0,0B0'
    for m in $(seq 1 100); do printf ',0F%d' "$m"; done
    echo
} >many.csv
run 5 check many.csv
lines_equal 1 '^'
lines_equal 8 '  missing: stage 0, micro '
out_has '  and 91 more (--json shows 64)'

# There is at most one arrow per row, and at most eight in all.
for r in $(seq 0 19); do printf '%dB0,%dF0\n' "$r" "$r"; done >rows.csv
run 5 check rows.csv
lines_equal 8 '^^^ '
lines_equal 16 ' runs before its forward'
lines_equal 8 '  order: rank '
out_has '  and 4 more (--json shows 64)'
for r in $(seq 0 15); do printf '%dB0,%dF0\n' "$r" "$r"; done >rows.csv
run 5 check rows.csv
lines_equal 16 ' runs before its forward'
out_lacks 'more'

# More paths through the ranks than the maximum (256 x 257 > 65535) are an error of the file.
write_paths() {
    awk -v n="$1" 'BEGIN {
        for (m = 0; m < n; m++) {
            a = m % 256; b = int(m / 256)
            first[a] = first[a] ",0F" m; second[b] = second[b] ",1F" m
            third[b] = third[b] ",1B" m; fourth[a] = fourth[a] ",0B" m
        }
        for (r = 0; r < 257; r++) {
            row = first[r] second[r] third[r] fourth[r]
            if (row != "") print substr(row, 2)
        }
    }'
}
write_paths 65535 >paths.csv
run 0 check paths.csv
out_has '256 ranks, 2 stages'
write_paths 65536 >paths.csv
run 5 check paths.csv
err_has 'too many different paths through the ranks (maximum 65535)'

# A long pipeline with messages in PyTorch's order takes seconds, not minutes.
run 0 plan -s 1f1b -p 40000 -m 1 --lower=torch-2.15 -o long.csv
run 0 check long.csv
out_has '40000 ranks'
run 0 plan -s 1f1b -p 40000 -m 1 -o long.csv
run 0 check long.csv --lower torch-2.10
out_has '79998 messages'

# Malformed schedules as JSON.
printf '0F0,1G0\n' >letter.csv
run 5 check letter.csv --json
err_has "letter.csv:1:5: '1G0' is not an action"
holds grep -qE '^\{"file":"letter.csv","ok":false,"error":"letter.csv:1:5: .*"\}$' out
run 5 check none.csv --json
out_has '"ok":false,"error":"none.csv: No such file'

# Comments and header lines may be indented.
run 0 plan -s zb-v -p 2 -m 3 -o plain.csv
sed 's/^#/ \t #/' plain.csv >indented.csv
run 0 plan -s ./indented.csv -o again.csv
holds cmp plain.csv again.csv
run 0 check indented.csv
out_has 'indented.csv: zb-v, 2 ranks'

# Schedules from standard input: every schedule in both text formats.
names=$("$WEFT" plan --list | awk '/^$/ { exit } /^[a-z0-9]/ { print $1 }')
holds test "$(wc -w <<<"$names")" -ge 20
for name in $names; do
    "$WEFT" plan -s "$name" -p 4 -m 8 --format csv >plan.csv 2>err || fail "plan $name"
    run_with plan.csv 0 check -
    # PyTorch cannot run schedules with several ranks per stage, so they are not written for it.
    case $name in
    chimera | dualpipe | bitpipe)
        run 5 plan -s "$name" -p 4 -m 8 --format pytorch -o refused.csv
        err_has "PyTorch cannot run $name: a stage runs on several ranks; PyTorch runs each stage on one rank"
        holds test ! -e refused.csv
        run 5 plan -s "$name" -p 4 -m 8 --lower=torch-2.15
        continue
        ;;
    esac
    "$WEFT" plan -s "$name" -p 4 -m 8 --format pytorch >plan.csv 2>err || fail "plan $name"
    run_with plan.csv 0 check - --for torch
    holds test "$(grep -c '#' plan.csv)" -eq 0
    # Reading and writing does not change a file.
    run 0 plan -s ./plan.csv --format pytorch -o again.csv
    holds cmp plan.csv again.csv
    # Every dialect is valid as PyTorch runs it.
    for how in torch-2.10 torch-2.15 torch-2.10-late torch-2.15-late; do
        run 0 plan -s "$name" -p 4 -m 8 --lower=$how --format pytorch -o lowered.csv
        run 0 check lowered.csv --for torch
        out_has 'channels: one queue per directed pair of ranks (PyTorch), from the form of the file; also correct with one queue per pair of ranks and direction of data (weft)'
    done
done

# weft's own messages are not for PyTorch: there F and B of two ranks share a queue.
run 2 plan -s zb-v -p 2 -m 3 --lower --format pytorch
err_has "PyTorch cannot run weft's messages; give --lower=torch-2.10 or --lower=torch-2.15"
run 0 plan -s zb-v -p 2 -m 3 --lower -o weft.csv
run 0 check weft.csv
out_has 'channels: one queue per pair of ranks and direction of data (weft), from the form of the file; wrong with one queue per directed pair of ranks (PyTorch): rank '
grep -v '^#' weft.csv >rows.csv
run 5 check rows.csv
out_has '(PyTorch), from the form of the file; correct with one queue per pair of ranks and direction of data (weft)'
run 0 check rows.csv --channels direction
run 5 check weft.csv --for torch
run 5 check weft.csv --channels pair --json
out_has '"channels_by":"pair"'
out_has '"other_channels":{"by":"direction","ok":true}'

# What PyTorch runs with wrong results.
printf '0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n' >losses.csv
run 0 check losses.csv
run 5 check losses.csv --for torch
err_has 'losses.csv is wrong for PyTorch: rank 1, action 0: the last stage runs micro 1 before micro 0'
run 5 plan -s losses.csv --format pytorch
printf '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n' >unscaled.csv
run 0 check unscaled.csv
run 5 check unscaled.csv --for torch --json
out_has '"severity":"wrong","text":"REDUCE_GRAD is missing: PyTorch scales gradients there, so they are 2 times too large"'
run 0 plan -s zb-v -p 2 -m 4 --format pytorch -o split.csv
run 0 check split.csv --for torch
out_has 'torch: note: PyTorch computes the whole backward of stage 0 in its W: its costs are I=0, W=B'

# --for torch: stage 0 computes its whole backward in W, and stages are on one rank.
run 0 plan -s zb-h1 -p 2 -m 4 --json --events
out_has '[1,0,0,0,1,0]'
run 0 plan -s 1f1b-split -p 1 -m 1 --cost F=1,I=4,W=2 --for torch --json --events
out_has '"events":[[0,0,0,0,0,0],[1,0,0,0,0,2],[1,0,0,0,0,3]]'
run 5 plan -s chimera -p 4 -m 8 --for torch
run 0 compare -p 4 -m 8 --for torch
out_has 'PyTorch runs each stage on one rank'
run 0 tune -p 2 -m 4 --iterations 500 --for torch
run 0 tune -p 2 --global-batch 8 --layers 8 --iterations 100
out_has chimera
run 0 tune -p 2 --global-batch 8 --layers 8 --iterations 100 --for torch
out_lacks chimera
out_lacks dualpipe

# Output to a full disk is an error.
to_full check right.csv
to_full check right.csv --json
to_full check order.csv

# A file without any backward is forward-only; a file with some backwards is incomplete.
printf '0F0,0F1\n1F0,1F1\n' >forward.csv
run 0 check forward.csv
out_has '2 ranks, 2 stages (linear), 2 micros, forward-only'
out_has 'correct: 4 actions; every stage runs every micro once forward; 2 messages over 1 channels match'
out_has 'peak activations  1 1'
run 0 check forward.csv --json
out_has '"forward_only":true'
printf '0F0,0F1,0B0\n1F0,1F1,1B0\n' >some.csv
run 5 check some.csv
err_has 'some.csv is wrong: stage 0, micro 1: no backward'
out_has 'stage 1, micro 1: no backward'
run 0 plan -s dualpipe -p 4 -m 8 --forward-only --lower --format csv -o dualpipe.csv
run 0 check dualpipe.csv --transport depth=1
out_has '(bidirectional), 8 micros, forward-only'
out_has '24 messages over 6 channels'
holds grep -q 'SEND_F' dualpipe.csv
holds sh -c '! grep -qE "[0-9](B|I|W|SEND_B|RECV_B|REDUCE_GRAD)" dualpipe.csv'
run 0 plan -s dualpipe.csv --json
out_has '"forward_only":true'
run 0 plan -s zb-v -p 2 -m 4 --forward-only
out_has 'zb-v: 2 ranks, 4 stages (v), 4 micros, forward-only'
out_has 'proven            every stage runs every micro once forward, no deadlock'
out_has 'peak activations  1 1'
run 0 simulate -s 1f1b -p 4 -m 6 --forward-only --cost F=2,C=1
out_has 'makespan          21 time units, bubble 42.9%'
out_has 'bound             21'
run 0 simulate -s 1f1b -p 4 -m 6 --forward-only --bytes 100 --json
out_has '"backward_bytes":0'
run 0 draw dualpipe.csv -o dualpipe.svg
run 2 simulate -s 1f1b -p 2 -m 2 --forward-only --cache-model reference --layers-per-block 1 --payload-bytes 8
err_has 'the schedule is forward-only; the reference system counts training steps'

finish
