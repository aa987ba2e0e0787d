#!/usr/bin/env bash
# Shows weft at work.  Every line that starts with "$" is a command you can type yourself.
#
#   tools/demo.sh [path of the weft binary]
set -euo pipefail

weft=$(realpath -- "${1:-$(dirname -- "$0")/../build/release/weft}")
here=$(realpath -- "$(dirname -- "$0")/..")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

say() { printf '\n%s\n' "$*"; }
run() {
    local word
    printf '\n$'
    for word; do
        case $word in
        *' '*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@"
}
weft() { "$weft" "$@"; }

say '-- Plan: a pipeline of 4 ranks, 8 micro-batches, weight gradients in the gaps ------------------'
run weft plan --schedule zb-h1 --ranks 4 --micros 8

say '-- Choose: all schedules for 8 ranks and 24 micro-batches, the same share of the model each -----'
run weft compare --ranks 8 --micros 24 --cost F=10,I=12,W=8,C=1

say '-- Text to tokens: the sources and documents of weft itself, with a vocabulary learnt from them -'
run weft tokenize "$here/src" "$here/include" "$here/docs" "$here/README.md" -o data --train-bpe 1024 --val 0.05

say '-- Train: a pipeline of two ranks, about a minute on two cores ---------------------------------'
run weft train --model.spec=d4 --model.vocab=1024 --model.ctx=128 --data.train=data --data.val=data \
    --data.shuffle=true --data.batch=16 --parallel.micros=8 --parallel.pp=2 --parallel.schedule=zb-h1 \
    --train.steps=200 --optim.lr=3e-3 --optim.min_lr=3e-4 --optim.warmup=20 --eval.every=100 \
    --checkpoint.every=100 --log.every=10 --log.trace_steps=3 --log.dir=run

say '-- What was planned over what was measured -----------------------------------------------------'
run weft draw run

say '-- The model goes on with a line of C ----------------------------------------------------------'
run weft generate --model run/model --prompt 'static enum weft_status ' --max-tokens 120 --temperature 0.7

say '-- What is there, and all of it on one page -----------------------------------------------------'
run weft inspect run
run weft report run

rm -rf "$here/build/demo"
cp -r run "$here/build/demo"
first=$(sed -n '1s/.*"loss":\([0-9.]*\).*/\1/p' run/metrics.jsonl)
last=$(sed -n '$s/.*"loss":\([0-9.]*\).*/\1/p' run/metrics.jsonl)
say "The loss fell from $(printf %.2f "$first") to $(printf %.2f "$last").  The run is in build/demo, its page is build/demo/report.html."
awk -v a="$first" -v b="$last" 'BEGIN { exit !(b < 0.6 * a) }' || { say 'It should have fallen below 60 %.'; exit 1; }
