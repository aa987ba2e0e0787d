#!/usr/bin/env bash
# Checks weft draw: every format from traces and schedules, and errors with advice.
. "$(dirname -- "$0")/common.bash"
measured=$WEFT_TEST_DATA/trace_measured.trace

run 0 plan -s zb-v -p 2 -m 3 -o plan.csv
for form in svg png pdf html json txt trace; do
    run 0 draw plan.csv -o "plan.$form"
    holds grep -q "^wrote " out
    holds test -s "plan.$form"
done
run 0 draw plan.csv -o plan.trace
for form in svg png pdf html json txt trace; do # a trace contains everything that is drawn of a schedule
    run 0 draw plan.trace -o "again.$form"
    holds cmp "plan.$form" "again.$form"
done
run 0 draw plan.csv -f svg -o picture
holds grep -q '^<svg ' picture
run 0 draw plan.csv -f chrome
out_has '"traceEvents":['
holds test "$(head -c 4 plan.pdf)" = '%PDF'
holds test "$(head -c 4 plan.png | tail -c 3)" = PNG

# Drawings on the terminal.
run 0 draw plan.csv --width 80
out_has 'zb-v: 2 ranks, 4 stages, 3 micros'
out_has 'makespan '
run 0 draw "$measured"
out_has 'measured: 4 ranks'
out_has ' ms, bubble '
run 0 draw "$measured" plan.csv --unit 20ms --title 'Both of them' --color always
out_has 'Both of them'
run 0 plan -s 1f1b -p 1 -m 4 -o alone.csv
run 0 draw alone.csv --cost F=3,I=2,W=1 # 4 times 3 + 2 + 1
out_has 'makespan 24, bubble 0.0%'
run_with plan.csv 0 draw -
out_has 'zb-v'

# weft plan draws, too; .json remains the plan.
for form in svg png pdf html trace trace.json; do
    run 0 plan -s zb-v -p 2 -m 3 -o "by_plan.$form"
    holds test -s "by_plan.$form"
done
holds cmp by_plan.svg plan.svg
holds cmp by_plan.trace plan.trace
holds cmp by_plan.trace.json plan.json
run 0 plan -s zb-v -p 2 -m 3 -o plan.json
holds grep -q '^{"schedule":"zb-v"' plan.json

# Errors.
run 2 draw
err_has 'draw needs a FILE'
run 5 draw no-such-file.csv
err_has 'no-such-file.csv: No such file'
run 2 draw plan.csv -o plan.gif
err_has 'plan.gif: unknown file name extension (expected one of .svg .png'
holds test ! -e plan.gif
run 2 draw plan.csv "$measured"
err_has 'length of an abstract unit with --unit'
run 2 draw plan.csv --unit 5
err_has "--unit: '5' is not a time"
run 2 draw plan.csv --unit -1ms
run 2 draw plan.csv --unit nan
run 2 draw plan.csv --cost F=-1
run 2 draw plan.csv --cost F=1:2
run 2 draw plan.csv --width 20 -o x.svg
err_has 'picture width 20 is out of range'
run 2 draw plan.csv plan.csv -o two.trace
err_has 'a trace file contains one trace (2 given)'
run 5 draw "$WEFT_TEST_DATA/bad_deadlock.csv"
err_has 'weft check shows all'
printf '# weft trace 1\n# weft ranks 1 stages 1 micros 1\n0 compute 0F0 nan 1\n' >bad.trace
run 3 draw bad.trace
err_has "bad.trace:3:15: start: 'nan' is not a number"
printf '# weft trace 1\n# weft ranks 1 stages 1 micros 1\n0 compute 0F0 0 0\n' >none.trace
run 3 draw none.trace -o none.svg
err_has 'takes any time'
holds test ! -e none.svg
run 8 draw plan.csv -o no/such/folder/x.svg
if [ -w /dev/full ]; then
    for form in svg png pdf html chrome text; do
        run 8 draw plan.csv -f $form -o /dev/full
    done
fi

# The profiles of PyTorch are the ranks of one trace.  The makespan of each is the end of rank 0's
# last annotation minus the start of the first one of both (docs/formats/trace.md).
for rank in 0 1; do
    cp "$WEFT_TEST_DATA/kineto_1f1b_rank$rank.json" "rank$rank.json"
    gzip -c "rank$rank.json" >"rank$rank.json.gz"
done
run 0 draw rank1.json rank0.json --width 100
out_has 'torch: 2 ranks, 2 stages, 8 micros'
out_has 'makespan 1.03689 s'
out_lacks 'wait'
run 0 draw rank0.json.gz rank1.json --lanes --width 100
holds test "$(grep -c '^  wait ' out)" = 2
holds test "$(grep -c '^  recv ' out)" = 2
run 0 plan -s 1f1b -p 2 -m 8 -o torch.csv
run 0 draw torch.csv rank0.json rank1.json --unit 10ms -o both.html
holds grep -q '1f1b: 2 ranks' both.html
holds grep -q 'torch: 2 ranks' both.html
run 2 draw torch.csv rank0.json rank1.json
err_has 'give the length of an abstract unit'
run 0 draw rank0.json rank1.json --lanes -o lanes.svg
holds grep -q '>wait<' lanes.svg
holds grep -q '>coll<' lanes.svg
run 0 draw rank0.json rank1.json -o torch.trace
holds grep -q '^1 wait 1F0 ' torch.trace
run 0 draw torch.trace -o again.trace
holds cmp torch.trace again.trace
run 3 draw rank0.json rank0.json.gz
err_has 'rank0.json.gz: rank 0 is also the rank of rank0.json'
head -c 900 rank0.json.gz >cut.json.gz
run 3 draw cut.json.gz
err_has 'cut.json.gz: the compressed data is truncated'
{ head -c 900 rank0.json.gz; head -c 900 rank1.json.gz; } >damaged.json.gz
run 3 draw damaged.json.gz
err_has 'damaged.json.gz: the compressed data is damaged'
head -c 900 rank0.json >cut.json
run 3 draw cut.json
err_has 'cut.json: byte 901: the JSON text is incomplete'
echo '{"a": 1}' >other.json
run 3 draw other.json
err_has 'other.json: not a profile of PyTorch: it has no traceEvents'

# The traces of a run that continues in another layout match its schedule.
tiny=$WEFT_TEST_DATA/train/gpt2-tiny
settings=(--model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.batch=10 --data.seq=8 --parallel.micros=5
    --parallel.threads=1 --train.slow=off --optim.decay_steps=30 --checkpoint.async=false --checkpoint.every=1 --log.dir=run)
traces() { (cd run && echo trace*/*); }
run 0 train "${settings[@]}" --train.steps=2 --log.trace_steps=2 --parallel.pp=2
run 0 draw run
run 0 train "${settings[@]}" --train.steps=4 --log.trace_steps=1 --parallel.pp=4 --checkpoint.resume=auto
holds test "$(traces)" = 'trace-1/step-000001.trace trace-1/step-000002.trace trace/step-000003.trace'
run 0 draw run
out_has '4 ranks'
run 0 train "${settings[@]}" --train.steps=6 --log.trace_steps=1 --parallel.pp=4 --checkpoint.resume=auto
holds test "$(traces)" = 'trace-1/step-000001.trace trace-1/step-000002.trace trace/step-000003.trace trace/step-000005.trace'
run 0 draw run
run 0 train "${settings[@]}" --train.steps=7 --log.trace_steps=1 --parallel.pp=2 --parallel.dp=2 --checkpoint.resume=auto
holds test "$(cd run && echo trace/*)" = 'trace/step-000007-replica-0.trace trace/step-000007-replica-1.trace'
run 0 draw run
run 0 train "${settings[@]}" --train.steps=8 --checkpoint.resume=auto
run 3 draw run
err_has 'run has no traces; '
# A schedule with another number of ranks or micros is an error.
cp -r run/trace-2 run/trace
for sizes in '-p 2 -m 5 --chunks 2 -s interleaved-1f1b' '-p 4 -m 6 -s 1f1b'; do
    # shellcheck disable=SC2086 # words
    run 0 plan $sizes -o run/schedule.csv
    run 5 draw run
    err_has "run/schedule.csv does not match the sizes of the trace"
done

holds test -z "$(find . -name '*.tmp-*')"

finish
