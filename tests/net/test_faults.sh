#!/usr/bin/env bash
# Kills or stops ranks ($FAULT is KILL or STOP) of a training run under $MPI on one host.  All processes
# end in time, the other ranks name the lost one, and its flight record shows its last action.
set -euo pipefail
here=$(dirname -- "${BASH_SOURCE[0]}")
# shellcheck source=tests/net/ranks.sh
. "$here/ranks.sh"
: "${FAULT:?}"

max_ms=0
# fault N RANK ARGUMENT...
fault() {
    local n=$1 rank=$2
    shift 2
    start "$FAULT rank $rank, $n ranks, $*" "$n" -- "$@"
    kill -"$FAULT" "$(pid_of "$rank")"
    finish_ranks
    finish_launcher
    show_records >"$folder/records"
    "check_$FAULT" "$n" "$rank"
    [ $took -lt $max_ms ] || max_ms=$took
}

# The launcher ends the other ranks, possibly before they report anything.
check_KILL() {
    [ $code -ne 0 ] || fail 'the launcher exits with 0'
    grep -qE "^rank $2 of $1: running, step [0-9]+, ." "$folder/records" ||
        fail "rank $2 was killed, but its record does not show its action"
    # MPICH kills the others within milliseconds; then weft inspect lists the rank as possible.
    reports_lost "$2" ||
        { [ "$MPI" = mpich ] && grep -qE "^note +it may have been rank ([0-9]+, )*$2[, ]" "$folder/inspected"; } ||
        fail "rank $2 was killed, but weft inspect does not report it"
}

# The other ranks end by themselves.
check_STOP() {
    is_code 6 || fail "exit code $code"
    blames "$folder/err" "$2" || fail "the reports do not name rank $2 alone"
    [ "$(grep -v "^rank $2 of" "$folder/records" |
        grep -c ": failed, .* rank $2 has sent no heartbeat")" -eq $(($1 - 1)) ] ||
        fail 'not all other ranks have recorded the lost rank'
}

# The deep test tries every rank.
three='1' four='0 3'
[ -z "${WEFT_TEST_DEEP-}" ] || three='0 1 2' four='0 1 2 3'
for rank in $three; do
    fault 3 "$rank" --parallel.pp=3 --parallel.schedule=zb-h1
done
for rank in $four; do
    fault 4 "$rank" --parallel.pp=2 --parallel.dp=2
done
check_shm
echo "$MPI: $FAULT of rank $three of 3 and of $four of 4; all ended within $max_ms ms (time-out $timeout s)"
