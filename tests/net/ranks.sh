# Functions for tests of whole runs under MPI, which source this file: start training in the background,
# find and signal its ranks, and check that nothing remains afterwards.
#
# A test redefines `launch` if a run does not start with $MPI_RUN.
# shellcheck shell=bash disable=SC2034 # the tests use variables that this file sets

: "${MPI:?}" "${WEFT:?}" "${WEFT_TEST_DATA:?}" "${FLIGHT:?}"
[ -n "${MPI_RUN-}" ] || {
    echo "skipped: $MPI is not installed, or was not when weft was configured"
    exit 77
}

# All in seconds.  The machine may be busy: patience and limit are upper limits that only a hang reaches.
timeout=2                         # train.timeout
patience=$((30 * ${PATIENCE:-1})) # how much later the last process may end
limit=$((120 * ${PATIENCE:-1}))   # duration of one run

folder=$(mktemp -d)
mark=$(basename -- "$folder")
launcher= # process id of the running launcher
case_name=start

# Prints the processes of the run.  All of them inherit a variable, also the daemons of MPI.  Zombies
# have no environment.
all_left() { grep -lzsxF "NET_RUN=$mark" /proc/[0-9]*/environ | cut -d/ -f3 || true; }

end_all() {
    local pid
    for pid in $(all_left); do
        kill -KILL "$pid" 2>/dev/null || true
    done
}
clean_up() {
    end_all
    [ -z "$launcher" ] || wait "$launcher" 2>/dev/null || true
    if declare -F remove_hosts >/dev/null; then remove_hosts; fi
    rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

fail() {
    echo "$MPI, $case_name: $*" >&2
    tail -n 6 "$folder/out" "$folder/err" "$folder/inspected" >&2 2>/dev/null || true
    show_records >&2 || true
    exit 1
}

# Whole stacks separate the leaks of MPI libraries from those of weft.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0"

run=("$MPI_RUN")
if [ "$MPI" = openmpi ]; then
    run+=(--oversubscribe --mca mpi_yield_when_idle 1 --mca orte_tmpdir_base "$folder")
    [ "$(id -u)" -ne 0 ] || run+=(--allow-run-as-root)
fi

# A model that takes milliseconds per step.
tiny=$WEFT_TEST_DATA/train/gpt2-tiny
train=("$WEFT" train "--model.dir=$tiny" "--data.train=$tiny/tokens.bin" --data.batch=8
    --data.seq=24 --parallel.micros=4 --optim.lr=1e-3 --parallel.threads=1
    "--train.timeout=$timeout" --train.slow=off)

launch() { exec "${run[@]}" "$@"; }

# -- short runs ------------------------------------------------------------------------------------

# run_all ARGUMENT...: runs to the end; sets $code.  Ranks that end before MPI_Init close their pipes early:
# the launcher of MPICH may then end with SIGPIPE (141) and lose their output, so it is run again.
run_all() {
    local tries
    for ((tries = 0; tries < 20; tries++)); do
        run_once "$@"
        [ "$MPI" = mpich ] && [ $code -eq 141 ] || break
    done
}

run_once() {
    code=0
    (
        export NET_RUN=$mark
        launch "$@"
    ) >"$folder/out" 2>"$folder/err" </dev/null &
    launcher=$!
    await "$limit" is_over_or_done || fail "the run does not end in $limit s"
    await "$patience" is_over || give_up_on_finalize || fail "the launcher does not end"
    [ -n "$launcher" ] || return 0
    wait "$launcher" || code=$?
    launcher=
}

# MPICH 4.0 over UCX and TCP sometimes hangs in MPI_Finalize: one rank waits for connections to close
# that the others no longer serve.  weft has finished its work by then.
all_done() { # every rank has a flight record, "rank 2 of 3: done, ..."
    show_records 2>/dev/null | awk '{ n += $5 == "done,"; size = $4 + 0 } END { exit !(n > 0 && n == size && n == NR) }'
}
is_over_or_done() { is_over || { [ "$MPI" = mpich ] && all_done; }; }
give_up_on_finalize() {
    [ "$MPI" = mpich ] && all_done || return 1
    echo "mpich, $case_name: all ranks are done, but MPI_Finalize hangs: ended by the test"
    end_all
    wait "$launcher" 2>/dev/null || true
    launcher=
}

hash_of() { sha256sum "$1/model/model.safetensors" | cut -d' ' -f1; }

# Prints the hash of the weights that one process trains with the same settings.
reference() {
    "${train[@]}" --train.steps=8 "--log.dir=$folder/alone" >"$folder/out" 2>"$folder/err" ||
        fail 'one process cannot train'
    hash_of "$folder/alone"
}

# -- waiting ---------------------------------------------------------------------------------------

now() { echo $(($(date +%s%N) / 1000000)); }

# await SECONDS COMMAND...: repeats COMMAND until it succeeds; false if it does not in time.
await() {
    local end=$(($(now) + 1000 * $1))
    shift
    until "$@"; do
        [ "$(now)" -lt "$end" ] || return 1
        sleep 0.05
    done
}

is_over() { ! kill -0 "$launcher" 2>/dev/null || is_zombie "$launcher"; }
is_zombie() { grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }
nothing_left() { [ -z "$(all_left)" ]; }
no_rank_left() { [ -z "$(ranks_left)" ]; }

# Sleeps for 0.2 to 1.5 s, so that every fault hits another point of a step.
sleep_a_while() {
    local ms=$((200 + RANDOM % 1300))
    sleep "$((ms / 1000)).$(printf '%03d' $((ms % 1000)))"
}

# -- ranks -----------------------------------------------------------------------------------------

# Prints "RANK PID" for each rank that is running.
ranks_left() {
    local pid rank
    for pid in $(all_left); do
        [ "/proc/$pid/exe" -ef "$WEFT" ] || continue
        rank=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" |
            sed -nE 's/^(OMPI_COMM_WORLD_RANK|PMI_RANK)=//p') || continue
        [ -z "$rank" ] || echo "$rank $pid"
    done
}

pid_of() { awk -v rank="$1" '$1 == rank { print $2 }' <<<"$pids"; }

# Prints the flight records of all ranks: "rank 2 of 3: failed, step 118, at 1F3: <why>".
show_records() {
    local file
    for file in "$folder"/run/ranks/*; do
        "$FLIGHT" "$file"
    done
}

# reports_lost RANK: true if weft inspect names the rank as lost, and its last action.
reports_lost() {
    "$WEFT" inspect "$folder/run" >"$folder/inspected" 2>&1 || true
    grep -qE "^lost +rank $1 .* step [0-9]+, ." "$folder/inspected"
}

# -- long runs -------------------------------------------------------------------------------------

makes_steps() { grep -qs '^step 5/' "$folder/out"; }

# start NAME N ARGUMENT...: starts N ranks that train until a signal or a fault ends them.  The arguments
# before -- are for the launcher, those after it for weft.  Sets $pids.
start() {
    run_long "$@"
    sleep_a_while
    begin=$(now)
}

# run_long: like start, but returns right after the first steps.
run_long() {
    local n=$2 of_launcher=()
    case_name=$1
    shift 2
    while [ "$1" != -- ]; do
        of_launcher+=("$1")
        shift
    done
    shift
    rm -rf "$folder/run" "$folder/out" "$folder/err"
    (
        export NET_RUN=$mark
        launch "${of_launcher[@]}" -n "$n" "${train[@]}" --train.steps=1000000 --log.every=5 \
            "--log.dir=$folder/run" "$@"
    ) >"$folder/out" 2>"$folder/err" </dev/null &
    launcher=$!
    await "$limit" makes_steps || fail 'the run does not complete any steps'
    pids=$(ranks_left)
    [ "$(wc -l <<<"$pids")" -eq "$n" ] || fail "expected $n ranks, found: $pids"
}

# Waits until all ranks have ended.  Sets $took, in milliseconds.
finish_ranks() {
    await $((timeout + patience)) no_rank_left ||
        fail "still running after $((timeout + patience)) s (rank, process): $(ranks_left)"
    took=$(($(now) - begin))
}

# Waits until the launcher and all other processes have ended.  Sets $code.
finish_launcher() {
    await "$patience" is_over || fail "all ranks have ended, but the launcher of $MPI is running"
    code=0
    wait "$launcher" || code=$?
    launcher=
    await "$patience" nothing_left || fail "processes are still running: $(all_left)"
}

# is_code EXPECTED: compares $code.  The launcher of MPICH kills the remaining ranks when the first one
# has ended, and may then exit with the number of that signal.
is_code() { [ "$code" -eq "$1" ] || { [ "$MPI" = mpich ] && [ "$code" -eq 9 ]; }; }

# blames FILE PATTERN: true if the file reports lost ranks, and all of them match the pattern.
blames() {
    local all
    all=$(grep -o 'rank [0-9]* has sent no heartbeat' "$1") || return 1
    ! grep -vqE "^rank ($2) has" <<<"$all"
}

# Reports of a lost rank.  If TCP gives up on a connection before the time-out, the MPI library may report
# an error for a message to the lost rank; that error is then the reason.
silent='rank ([0-9]+) \(.* rank ([0-9]+) has sent no heartbeat'
broken='rank ([0-9]+): cannot (send to|receive from) rank ([0-9]+): MPI error'

# crosses FILE PATTERN: true if the file reports lost ranks, and in every report exactly one of the
# reporting rank and the lost rank matches the pattern.
crosses() {
    local by about pairs
    pairs=$(sed -nE -e "s/.*$silent.*/\1 \2/p" -e "s/.*$broken.*/\1 \3/p" "$1")
    [ -n "$pairs" ] || return 1
    while read -r by about; do
        if [[ $by =~ ^($2)$ ]]; then
            [[ ! $about =~ ^($2)$ ]] || return 1
        else
            [[ $about =~ ^($2)$ ]] || return 1
        fi
    done <<<"$pairs"
}

# -- shared memory ---------------------------------------------------------------------------------

# Prints the shared memory that may belong to MPI or weft, by its names.
shared_memory() {
    find /dev/shm -maxdepth 1 -type f -printf "%f\n" 2>/dev/null | grep -iE 'vader|ompi|open-mpi|osc|mpich|ucx|weft' |
        grep -v '^weft-test-' || true
    [ ! -r /proc/sysvipc/shm ] || awk 'NR > 1 { print "System V " $2 }' /proc/sysvipc/shm
}
shm_before=$(shared_memory)

# Prints new shared memory that no process has mapped.
shm_left() {
    local name
    shared_memory | grep -vxF -e "$shm_before" | while read -r name; do
        case $name in
        'System V '*) awk -v id="${name##* }" '$2 == id && $7 == 0 { print "System V " id }' \
            /proc/sysvipc/shm ;;
        *) grep -qsF "/dev/shm/$name" /proc/[0-9]*/maps || [ ! -e "/dev/shm/$name" ] ||
            echo "/dev/shm/$name" ;;
        esac
    done
}
no_shm_left() { [ -z "$(shm_left)" ]; }
check_shm() { await "$patience" no_shm_left || fail "shared memory remains: $(shm_left)"; }
