#!/usr/bin/env bash
# Fuzzes every target for some seconds, starting from its stored corpus, which does not change.
#
#   tools/fuzz.sh SECONDS [TARGET...]      TARGET is the x of fuzz/fuzz_x.c
#
# With FUZZ_SEED, the mutations are the same in every call; CI uses this.
# Prints a table: runs, runs per second of processor time, and covered edges of each target.
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

# A small quarantine: freed memory is still checked for a while, but stays in the caches.
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_stack_use_after_return=1:quarantine_size_mb=16}
export UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
crashes=build/fuzz/crashes
# In memory, if possible: one target writes directories.
scratch=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$crashes"
export TMPDIR=$scratch
TIMEFORMAT='%U %S'
status=0
total_runs=0
total_time=0

# print_row NAME RUNS CPU_SECONDS EDGES
print_row() {
    awk -v name="$1" -v runs="$2" -v seconds="$3" -v edges="$4" 'BEGIN {
        rate = seconds == 0 ? 0 : runs / seconds
        printf "%-12s %12d %8.1f %10.0f %8s\n", name, runs, seconds, rate, edges
    }'
}

printf '%-12s %12s %8s %10s %8s\n' target runs 'CPU s' 'runs/CPU s' edges
for target; do
    mkdir "$scratch/$target"
    [ ! -d "fuzz/corpus/$target" ] || cp -r "fuzz/corpus/$target/." "$scratch/$target"
    log=build/fuzz/$target.log
    ok=1
    { time "build/fuzz/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 -seed="${FUZZ_SEED-0}" \
        -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$crashes/$target-" \
        "$scratch/$target" </dev/null >"$log" 2>&1 || ok=0; } 2>"$scratch/time"
    runs=$(awk '/^stat::number_of_executed_units/ { n = $2 } END { print n + 0 }' "$log")
    edges=$(awk '{ for (i = 1; i < NF; i++) if ($i == "cov:") n = $(i + 1) } END { print n + 0 }' "$log")
    time=$(awk '{ print $1 + $2 }' "$scratch/time")
    print_row "$target" "$runs" "$time" "$edges"
    total_runs=$((total_runs + runs))
    total_time=$(awk -v a="$total_time" -v b="$time" 'BEGIN { print a + b }')
    if [ $ok -eq 0 ]; then
        tail -n 60 "$log"
        echo "fuzz: $target FAILED; the input is in $crashes/, the log is $log"
        status=1
    fi
done
print_row total "$total_runs" "$total_time" ''
exit $status
