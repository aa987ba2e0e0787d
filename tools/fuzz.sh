#!/usr/bin/env bash
# Fuzzes every target for some seconds, starting from its stored corpus, which does not change.
#
#   tools/fuzz.sh SECONDS [TARGET...]      TARGET is the x of fuzz/fuzz_x.c
#
# Exits with 1 if a target crashed, leaked or hung; the input is kept in build/fuzz/crashes/.
set -euo pipefail
export MAKEFLAGS=--no-print-directory
cd -- "$(dirname -- "$0")/.."

seconds=${1-}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo 'usage: tools/fuzz.sh SECONDS [TARGET...]' >&2; exit 2; }
shift
if [ $# -eq 0 ]; then
    for source in fuzz/fuzz_*.c; do
        [ ! -f "$source" ] || set -- "$@" "$(basename "${source#fuzz/fuzz_}" .c)"
    done
fi
[ $# -gt 0 ] || { echo 'fuzz: no targets'; exit 0; }

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)"

export ASAN_OPTIONS=${ASAN_OPTIONS-detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
crashes=build/fuzz/crashes
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$crashes"
status=0
for target; do
    mkdir "$scratch/$target"
    [ ! -d "fuzz/corpus/$target" ] || cp -r "fuzz/corpus/$target/." "$scratch/$target"
    echo "fuzz: $target for $seconds s, from $(find "$scratch/$target" -type f | wc -l) inputs"
    log=build/fuzz/$target.log
    if "build/fuzz/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$crashes/$target-" \
        "$scratch/$target" </dev/null >"$log" 2>&1; then
        awk '/^stat::number_of_executed_units/ { print "fuzz: " $2 " runs without a fault" }' "$log"
    else
        tail -n 60 "$log"
        echo "fuzz: $target FAILED; the input is in $crashes/, the log is $log"
        status=1
    fi
done
exit $status
