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

say 'The schedules that weft can plan:'
run weft plan --list

say 'One forward, one backward, on 4 ranks with 8 micro-batches:'
run weft plan --schedule 1f1b --ranks 4 --micros 8

say 'The backward split in two, so that weight gradients fill the waits:'
run weft plan --schedule zb-h1 --ranks 4 --micros 8

say 'All schedules for 8 ranks and 24 micro-batches, the same share of the model each:'
run weft compare --ranks 8 --micros 24 --cost F=10,I=12,W=8,C=1

say 'Beyond them: the best order for a tight memory limit, with a proven bound:'
run weft tune --ranks 8 --micros 24 --whole --cost F=10,I=12,W=8,C=1 --mem-limit 5 --seconds 5

say 'On a cluster of two nodes, with times that vary:'
run weft simulate --schedule 1f1b --ranks 4 --micros 8 --cost F=10,I=10,W=10 --bytes 64e6 \
    --cluster 'node:2 rank:2 intra:200GB/s,2us inter:25GB/s,8us' --samples 1000

say 'A schedule is data: write one to a file, prove the file right, and draw it:'
run weft plan --schedule zb-v --ranks 4 --micros 8 --format csv -o zb-v.csv
run weft check zb-v.csv
run weft draw zb-v.csv -o zb-v.html
cp zb-v.html "$here/build/zb-v.html" && say "The page is in build/zb-v.html: open it in a browser."
