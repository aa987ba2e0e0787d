#!/usr/bin/env bash
# Ranks are killed or stopped ($FAULT is KILL or STOP) while it trains under $MPI on one
# host: everything ends in time, the others say who is missing, and the records show what it did.
set -euo pipefail
here=$(dirname -- "${BASH_SOURCE[0]}")
# shellcheck source=tests/net/ranks.sh
. "$here/ranks.sh"
: "${FAULT:?}"

longest=0
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
    [ $took -lt $longest ] || longest=$took
}

# The launcher ends the others, and they may have no time to say anything.
check_KILL() {
    [ $code -ne 0 ] || fail 'the launcher says that all is well'
    grep -qE "^rank $2 of $1: running, step [0-9]+, ." "$folder/records" ||
        fail "rank $2 was killed, and its record does not say what it did"
    says_lost "$2" || fail "rank $2 was killed, and weft inspect does not say so"
}

# The others end by themselves.
check_STOP() {
    is_code 6 || fail "exit code $code"
    blames "$folder/err" "$2" || fail "not rank $2 is blamed, or not alone"
    [ "$(grep -v "^rank $2 of" "$folder/records" |
        grep -c ": failed, .* rank $2 gives no heartbeat")" -eq $(($1 - 1)) ] ||
        fail 'not all others have recorded who is missing'
}

# All ranks in turn when there is time: WEFT_THOROUGH=1.
three='1' four='0 3'
[ -z "${WEFT_THOROUGH-}" ] || three='0 1 2' four='0 1 2 3'
for rank in $three; do
    fault 3 "$rank" --parallel.pp=3 --parallel.schedule=zb-h1
done
for rank in $four; do
    fault 4 "$rank" --parallel.pp=2 --parallel.dp=2
done
check_shm
echo "$MPI: $FAULT of rank $three of 3 and of $four of 4; all ended within $longest ms (timeout $timeout s)"
