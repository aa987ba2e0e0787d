#!/usr/bin/env bash
# Demonstrates weft in build/demo.  Every line that starts with "$" is a command that can be typed in this
# order.
#
#   tools/demo.sh [path of the weft program]      without a path, weft is built
set -euo pipefail

root=$(realpath -- "$(dirname -- "$0")/..")
folder=$root/build/demo
begin=$SECONDS

say() { printf '\n%s\n' "$*"; }
# show WORD...: prints a command as it can be typed, in lines of a readable width.
show() {
    local word line='$' width=106
    for word; do
        case $word in
        *[!A-Za-z0-9_./,=:@%+-]* | '') word="'${word//\'/\'\\\'\'}'" ;;
        esac
        if [ $((${#line} + ${#word})) -gt $width ]; then
            printf '%s \\\n' "$line"
            line='   '
        fi
        line+=" $word"
    done
    printf '%s\n' "$line"
}
run() {
    echo
    show "$@"
    "$@"
}

# Builds only the program, without output.
build() {
    local log=$root/build/demo-build.log start=$SECONDS
    printf 'building weft (%s) ... ' "${log#"$root"/}"
    mkdir -p -- "$root/build"
    if ! (cd -- "$root" && cmake --preset release && cmake --build --preset release --target weft -j "$(nproc)") >"$log" 2>&1; then
        echo 'failed:'
        tail -n 40 -- "$log"
        exit 1
    fi
    echo "$((SECONDS - start)) s"
}

if [ $# -gt 0 ]; then
    binary=$(realpath -- "$1")
else
    build
    binary=$root/build/release/weft
fi
rm -rf -- "$folder"
mkdir -p -- "$folder"
cd -- "$folder"
export PATH="${binary%/*}:$PATH"

say '-- Everything happens in one directory, where the commands can be repeated ----------------------'
printf '$ rm -rf %q; mkdir -p %q; cd %q\n' "$folder" "$folder" "$folder"
# shellcheck disable=SC2016 # printed, not expanded
printf '$ export PATH=%q:$PATH\n' "${binary%/*}"

say '-- Plan: a pipeline of 4 ranks, 8 micro-batches, weight gradients in the gaps ------------------'
run weft plan --schedule zb-h1 --ranks 4 --micros 8

say '-- Choose: all schedules for 8 ranks and 24 micro-batches, with equal stages ---------------------'
run weft compare --ranks 8 --micros 24 --cost F=10,I=12,W=8,C=1

say '-- Tokenize: the sources and documents of weft, with a vocabulary learnt from them ---------------'
run weft tokenize ../../src ../../include ../../docs ../../README.md -o data --train-bpe 1024 --val 0.05

say '-- Train: a pipeline of two ranks, about a minute on two cores, with text samples ---------------'
run weft train --model.spec=d4 --model.vocab=1024 --model.ctx=128 --data.train=data --data.val=data \
    --data.shuffle=true --data.batch=16 --parallel.micros=8 --parallel.pp=2 --parallel.schedule=zb-h1 \
    --train.steps=160 --optim.lr=3e-3 --optim.min_lr=3e-4 --optim.warmup=20 --eval.every=80 \
    --checkpoint.every=80 --log.every=20 --log.trace_steps=3 --log.sample=80 \
    --log.sample_prompt='static enum weft_status ' --log.dir=small-c

say '-- Draw: the plan above the measured run -------------------------------------------------------'
run weft draw small-c

say '-- Generate: the model continues a line of C ---------------------------------------------------'
run weft generate --model small-c/model --prompt 'static enum weft_status ' --max-tokens 120 --temperature 0.7

say '-- Inspect: the contents of the run directory --------------------------------------------------'
run weft inspect small-c

first=$(sed -n '1s/.*"loss":\([0-9.]*\).*/\1/p' small-c/metrics.jsonl)
last=$(sed -n '$s/.*"loss":\([0-9.]*\).*/\1/p' small-c/metrics.jsonl)
say "The loss fell from $(printf %.2f "$first") to $(printf %.2f "$last"), in $((SECONDS - begin)) s in total.  The report is
    $folder/small-c/report.html
To continue, with PATH set as above:
    cd $folder
    weft train small-c/config.yaml --log.dir=other --optim.lr=1e-3   # again, with a setting changed
    weft report small-c other -o both.html                           # both on one page
    weft generate --model small-c/model --prompt '#include'"
awk -v a="$first" -v b="$last" 'BEGIN { exit !(b < 0.6 * a) }' || { say 'It should have fallen below 60 % of the first loss.'; exit 1; }
