#!/usr/bin/env bash
# Runs the conformance suite under $MPI (openmpi or mpich), whose launcher is $MPI_RUN.
# $MPI_RANKS is the program of one rank.  Every run ends within a time limit and leaves no process.
set -euo pipefail
: "${MPI:?}" "${MPI_RANKS:?}"
if [ -z "${MPI_RUN-}" ]; then
    echo "skipped: $MPI is not installed, or was not when weft was configured"
    exit 77
fi

folder=$(mktemp -d)
launcher= # process id of the running launcher
ranks=()  # process ids of its ranks
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

# Whole stacks separate the leaks of MPI libraries from those of weft.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0"

# Upper limits in seconds, which only a hang reaches: the machine may be busy, and a sanitizer makes a
# rank several times slower.
limit=100
patience=60 # for processes to end after a rank was killed or stopped
options=()
if [ "$MPI" = openmpi ]; then
    options=(--oversubscribe --mca mpi_yield_when_idle 1 --mca orte_tmpdir_base "$folder")
    [ "$(id -u)" -ne 0 ] || options+=(--allow-run-as-root)
fi

# run N ARGUMENT...: sets $code; the output is in out and err.  Ranks that end before MPI_Init close their
# pipes early: the launcher of MPICH may then end with SIGPIPE (141) and lose their output, so it is run again.
run() {
    local n=$1 tries
    shift
    for ((tries = 0; tries < 20; tries++)); do
        code=0
        timeout -k 5 "$limit" "$MPI_RUN" "${options[@]}" -n "$n" "$MPI_RANKS" "$@" \
            >"$folder/out" 2>"$folder/err" </dev/null || code=$?
        [ "$MPI" = mpich ] && [ $code -eq 141 ] || break
    done
}

# A process without a launcher does not load MPI.
[ "$("$MPI_RANKS" launcher)" = none ] || fail 'a launcher is reported for a plain start'
run 1 launcher
[ "$(cat "$folder/out")" = "$MPI" ] || fail 'the launcher is not recognized'

for n in $("$MPI_RANKS" sizes | sort -nu); do
    run "$n" good
    [ $code -eq 0 ] || fail "$n ranks: exit code $code"
done
# Messages above the maximum of one MPI count, which is 64 KiB in these modules.
WEFT_MODULES=$(dirname -- "$MPI_RANKS")/small
export WEFT_MODULES
run 2 case 'sizes from 0 to 30 MB in both directions'
[ $code -eq 0 ] || fail "messages in segments: exit code $code"
WEFT_MODULES=$folder
run 2 good
[ $code -eq 2 ] || fail "no module: exit code $code"
grep -q "weft-$MPI.so cannot be loaded: it is not in the directory WEFT_MODULES" "$folder/err" ||
    fail 'the missing module is not named'
unset WEFT_MODULES

# is_code EXPECTED: compares $code.  The launcher of MPICH kills the remaining ranks when the first one
# has ended, and may then exit with the number of that signal.
is_code() { [ "$code" -eq "$1" ] || { [ "$MPI" = mpich ] && [ "$code" -eq 9 ]; }; }

# Every living rank reports the same fault, and the launcher exits with its code.
while read -r expected n n_reporting name; do
    run "$n" case "$name"
    is_code "$expected" || fail "fault '$name': exit code $code, expected $expected"
    [ "$(grep -c '^as expected' "$folder/err")" -eq "$n_reporting" ] ||
        fail "fault '$name': not reported by $n_reporting ranks"
    ! grep -q '^WRONG' "$folder/err" || fail "fault '$name': wrong status or message"
done < <("$MPI_RANKS" faults)

# start N TIMEOUT: starts N working ranks in the background; sets $launcher and $ranks.
start() {
    local i
    timeout -k 5 "$limit" "$MPI_RUN" "${options[@]}" -n "$1" "$MPI_RANKS" work "$2" "$limit" \
        >"$folder/out" 2>"$folder/err" </dev/null &
    launcher=$!
    for ((i = 0; i < limit * 10; i++)); do
        [ "$(grep -c 'is process' "$folder/out")" -ne "$1" ] || break
        sleep 0.1
    done
    mapfile -t ranks < <(sort "$folder/out" | awk '/is process/ { print $5 }')
    [ ${#ranks[@]} -eq "$1" ] || fail "not all of $1 ranks have started"
    sleep 0.3
}

# is_running PID: false for a zombie, which has ended.
is_running() { [ -e "/proc/$1" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }

# finish: waits for the launcher and the ranks; sets $code and $took (milliseconds since $begin).
finish() {
    local pid i
    code=0
    wait "$launcher" || code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
    launcher=
    for pid in "${ranks[@]}"; do
        for ((i = 0; i < patience * 10; i++)); do
            is_running "$pid" || break
            sleep 0.1
        done
        ! is_running "$pid" || fail "process $pid is still running"
    done
    ranks=()
}

# A rank is killed: the launcher ends all others.
start 3 30
begin=$(date +%s%N)
kill -KILL "${ranks[1]}"
finish
[ $code -ne 0 ] || fail 'a rank was killed, but the launcher exits with 0'
[ $took -lt $((patience * 1000)) ] || fail "a rank was killed: the others ended after $took ms"
killed=$took

# A rank is stopped: the others name it and end by themselves.  So may the stopped rank, if the
# launcher continues it before killing it.
start 4 2
begin=$(date +%s%N)
kill -STOP "${ranks[2]}"
finish
is_code 6 || fail "a rank was stopped: exit code $code"
[ "$(grep -c '^weft: .*rank 2 has sent no heartbeat' "$folder/err")" -ge 3 ] ||
    fail 'a rank was stopped: not all of the three others name it'
[ $took -lt $((patience * 1000)) ] || fail "a rank was stopped: the others ended after $took ms"

echo "$MPI: passed; ended $killed ms after a kill, $took ms after a stop (time-out 2 s)"
