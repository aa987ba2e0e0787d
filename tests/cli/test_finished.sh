#!/usr/bin/env bash
# Checks checkpoint.resume=auto at the end of a run: a finished run ends with exit code 0, a run that was
# killed while it wrote its last files completes them, and a restart loop ends.
. "$(dirname -- "$0")/common.bash"

for ((i = 0; i < 400; i++)); do echo "line $i of the text $((i * i))"; done >text.txt
run 0 tokenize --train-bpe 300 text.txt --output data
settings=(--model.arch=gpt2 --model.vocab=300 --model.ctx=16 --model.layers=2 --model.dim=32 --model.heads=2 --data.train=data --data.batch=4 --data.seq=16
    --parallel.threads=1 --train.slow=off --train.steps=20 --parallel.micros=2 --checkpoint.every=2 --checkpoint.async=false)
auto=("${settings[@]}" --checkpoint.resume=auto --log.dir=run)
hash_of() { "$WEFT" inspect --hash "$1" 2>/dev/null | cut -c 1-32; }
files() { (cd "$1" && find . -type f ! -name lock ! -path './ranks/*' ! -path './checkpoints/*' | sort); }

run 0 train "${settings[@]}" --log.dir=whole
want=$(hash_of whole/model)
holds test -n "$want"
holds test -s whole/model/tokenizer.json

# Nothing changes in a finished run, whatever the layout.
cp -r whole run
touch run/report.html
for layout in --parallel.dp=1 --parallel.dp=2 --parallel.pp=2; do
    run 0 train "${auto[@]}" "$layout"
    out_has 'run is already finished: 20 steps are done; raise train.steps to continue it'
    out_lacks 'report '
    holds test "$(hash_of run/model)" = "$want"
    holds cmp run/metrics.jsonl whole/metrics.jsonl
    holds test "$(files run)" = "$(files whole)"
done
run 2 train "${settings[@]}" --log.dir=run
err_has 'log.dir run has a finished run; continue it with checkpoint.resume=auto'

# The files that a run writes last: the weights, their tokenizer, the report.
rm -r run/model run/report.html
run 0 train "${auto[@]}"
out_has 'saved    run/model'
holds test "$(hash_of run/model)" = "$want"
holds test "$(files run)" = "$(files whole)"
holds cmp run/metrics.jsonl whole/metrics.jsonl

rm run/model/tokenizer.json run/report.html
run 0 train "${auto[@]}"
out_has 'run is already finished'
out_has 'report   run/report.html'
holds cmp run/model/tokenizer.json whole/model/tokenizer.json
holds test "$(files run)" = "$(files whole)"

touch -d '1 hour ago' run/report.html # of an earlier process that was stopped
run 0 train "${auto[@]}"
out_has 'report   run/report.html'

# A run that was stopped without checkpoints has weights, but is not finished.
run 0 train "${settings[@]}" --checkpoint.every=off --train.steps=100000 --train.max_time=1s --log.dir=stopped
run 2 train "${settings[@]}" --checkpoint.every=off --train.steps=100000 --checkpoint.resume=auto \
    --log.dir=stopped
err_has 'which cannot be continued'

# A restart loop: kill -9 at any time, until a process ends with 0.
rm -rf run
code=1
for ((i = 0; i < 40 && code != 0; i++)); do
    what="restart $i"
    code=0
    "$WEFT" train "${auto[@]}" >out 2>err </dev/null &
    sleep "$(printf "0.%03d" $((10 + 13 * i)))"
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null || code=$?
    holds test "$code" -eq 0 -o "$code" -eq 137
done
run 0 train "${auto[@]}"
run 0 train "${auto[@]}"
out_has 'run is already finished: 20 steps are done'
holds test "$(hash_of run/model)" = "$want"
holds cmp run/model/tokenizer.json whole/model/tokenizer.json
holds test -s run/report.html
finish
