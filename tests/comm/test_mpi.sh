#!/usr/bin/env bash
# Ranks launched by $MPI (openmpi, mpich) with $MPI_RUN: $MPI_RANKS is one of them.  Everything that
# is started here ends within a time limit, and nothing is left behind.
set -euo pipefail
: "${MPI:?}" "${MPI_RANKS:?}"
if [ -z "${MPI_RUN-}" ]; then
    echo "skipped: $MPI is not installed, or was not when weft was configured"
    exit 77
fi

folder=$(mktemp -d)
launcher= # the process that is under way
ranks=()  # and those that it started
clean_up() {
    local pid
    for pid in $launcher "${ranks[@]}"; do
        kill "$pid" 2>/dev/null || true
        kill -CONT "$pid" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap clean_up EXIT
fail() {
    echo "$MPI: $*" >&2
    sed 's/^/    /' "$folder"/out "$folder"/err >&2 || true
    exit 1
}

# With whole stacks, what a library keeps is told from what weft loses.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0"

# A rank with a sanitizer is slow, and the machine may be busy: figures are only upper limits.
limit=25
options=()
if [ "$MPI" = openmpi ]; then
    options=(--oversubscribe --mca mpi_yield_when_idle 1 --mca orte_tmpdir_base "$folder")
    [ "$(id -u)" -ne 0 ] || options+=(--allow-run-as-root)
fi

# run N ARGUMENT...: sets $code; what was printed is in out and err.
run() {
    local n=$1
    shift
    code=0
    timeout -k 5 "$limit" "$MPI_RUN" "${options[@]}" -n "$n" "$MPI_RANKS" "$@" \
        >"$folder/out" 2>"$folder/err" </dev/null || code=$?
}

# Nothing loads MPI in a process that was just started.
[ "$("$MPI_RANKS" launcher)" = none ] || fail 'a plain start has a launcher'
run 1 launcher
[ "$(cat "$folder/out")" = "$MPI" ] || fail 'the launcher is not recognized'

for n in 1 2 4; do
    run $n all
    [ $code -eq 0 ] || fail "$n ranks: exit code $code"
done
for test in '2 busy' '3 own'; do
    # shellcheck disable=SC2086 # words
    run $test
    [ $code -eq 0 ] || fail "after long work, $test: exit code $code"
done
# Messages above the limit of what one count can say; here it is 64 KiB.
WEFT_MODULES=$(dirname -- "$MPI_RANKS")/small
export WEFT_MODULES
run 2 sizes
[ $code -eq 0 ] || fail "sizes in blocks: exit code $code"
WEFT_MODULES=$folder
run 2 all
[ $code -eq 2 ] || fail "no module: exit code $code"
grep -q "weft-$MPI.so cannot be loaded: it is not in WEFT_MODULES" "$folder/err" ||
    fail 'a module that is not there is not named'
unset WEFT_MODULES

# is_code EXPECTED: MPICH's launcher kills the ranks that have not ended when the first has, and may
# then end with the signal's number.
is_code() { [ "$code" -eq "$1" ] || { [ "$MPI" = mpich ] && [ "$code" -eq 9 ]; }; }

# Every living rank tells of the trouble, the same one, and the launcher ends with its code.
while read -r expected tellers name; do
    run 3 trouble "$name"
    is_code "$expected" || fail "trouble '$name': exit code $code, not $expected"
    [ "$(grep -c '^as foreseen' "$folder/err")" -eq "$tellers" ] ||
        fail "trouble '$name': not $tellers ranks tell of it"
    ! grep -q '^WRONG' "$folder/err" || fail "trouble '$name'"
done < <("$MPI_RANKS" troubles)

# start N TIMEOUT: ranks at work in the background; sets $launcher and $ranks.
start() {
    local i
    timeout -k 5 "$limit" "$MPI_RUN" "${options[@]}" -n "$1" "$MPI_RANKS" work "$2" "$limit" \
        >"$folder/out" 2>"$folder/err" </dev/null &
    launcher=$!
    for ((i = 0; i < 150; i++)); do
        [ "$(grep -c 'is process' "$folder/out")" -ne "$1" ] || break
        sleep 0.1
    done
    mapfile -t ranks < <(sort "$folder/out" | awk '/is process/ { print $5 }')
    [ ${#ranks[@]} -eq "$1" ] || fail "$1 ranks do not start"
    sleep 0.3
}

# A zombie has ended, too: it is its parent's business.
is_there() { [ -e "/proc/$1" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }

# finish: waits for the launcher; sets $code and $took (milliseconds since $begin).
finish() {
    local pid i
    code=0
    wait "$launcher" || code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
    launcher=
    for pid in "${ranks[@]}"; do
        for ((i = 0; i < 50; i++)); do
            is_there "$pid" || break
            sleep 0.1
        done
        ! is_there "$pid" || fail "process $pid is left running"
    done
    ranks=()
}

# A rank that is killed: the launcher ends all others.
start 3 10
begin=$(date +%s%N)
kill -KILL "${ranks[1]}"
finish
[ $code -ne 0 ] || fail 'a rank was killed, and the launcher says that all is well'
[ $took -lt 8000 ] || fail "a rank was killed, and the rest took $took ms to end"
killed=$took

# A rank that is stopped: the others name it, and end by themselves.  It may do so too, when the
# launcher wakes it before it kills it.
start 4 1
begin=$(date +%s%N)
kill -STOP "${ranks[2]}"
finish
is_code 6 || fail "a rank was stopped: exit code $code"
[ "$(grep -c '^weft: .*rank 2 gives no heartbeat' "$folder/err")" -ge 3 ] ||
    fail 'a rank was stopped: the three others do not all name it'
[ $took -lt 8000 ] || fail "a rank was stopped for more than 1 s: the rest took $took ms to end"

echo "$MPI: all as foreseen; ended $killed ms after a kill, $took ms after a stop (timeout 1 s)"
