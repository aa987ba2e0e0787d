#!/usr/bin/env bash
# Shows weft at work.  Every line that starts with "$" is a command you can type yourself.
#
#   tools/demo.sh [path of the weft binary]
set -euo pipefail

weft=$(realpath -- "${1:-$(dirname -- "$0")/../build/release/weft}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

say() { printf '\n%s\n' "$*"; }
run() {
    printf '\n$ %s\n' "$*"
    "$@"
}
weft() { "$weft" "$@"; }

say 'The schedules that weft can plan:'
run weft plan --list

say 'One forward, one backward, on 4 ranks with 8 micro-batches:'
run weft plan --schedule 1f1b --ranks 4 --micros 8

say 'The backward split in two, so that weight gradients fill the waits:'
run weft plan --schedule zb-h1 --ranks 4 --micros 8

say 'A schedule is data: write one to a file, and prove the file right:'
run weft plan --schedule zb-v --ranks 4 --micros 8 --format csv -o zb-v.csv
run weft check zb-v.csv
