# For tests of whole runs under MPI, which source this: training runs in the background, their ranks,
# what is done to them, and what must be left of them: nothing.
#
# A test sets its own `launch` when runs do not simply begin with $MPI_RUN.
# shellcheck shell=bash disable=SC2034 # some of what is set here is for those who source it

: "${MPI:?}" "${WEFT:?}" "${WEFT_TEST_DATA:?}" "${FLIGHT:?}"
[ -n "${MPI_RUN-}" ] || {
    echo "skipped: $MPI is not installed, or was not when weft was configured"
    exit 77
}

timeout=2                       # train.timeout, in seconds
patience=$((5 * ${PATIENCE:-1})) # how much later the last process may end; sanitizers are slow
limit=$((30 * ${PATIENCE:-1}))   # of a run, whatever happens

folder=$(mktemp -d)
mark=$(basename -- "$folder")
launcher= # the process that is under way
case_name=start

# Processes of the run: they all inherit a variable, daemons of MPI included.  Those that have ended
# and wait for their parent have no environment.
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

# With whole stacks, what a library keeps is told from what weft loses.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0"

run=("$MPI_RUN")
if [ "$MPI" = openmpi ]; then
    run+=(--oversubscribe --mca mpi_yield_when_idle 1 --mca orte_tmpdir_base "$folder")
    [ "$(id -u)" -ne 0 ] || run+=(--allow-run-as-root)
fi

# A model that takes milliseconds a step.
tiny=$WEFT_TEST_DATA/train/gpt2-tiny
train=("$WEFT" train "--model.dir=$tiny" "--data.train=$tiny/tokens.bin" --data.batch=8
    --data.seq=24 --parallel.micros=4 --optim.lr=1e-3 --parallel.threads=1
    "--train.timeout=$timeout" --train.slow=off)

launch() { exec "${run[@]}" "$@"; }

# -- short runs ------------------------------------------------------------------------------------

# run_all ARGUMENT...: until it ends; sets $code.
run_all() {
    code=0
    (
        export NET_RUN=$mark
        launch "$@"
    ) >"$folder/out" 2>"$folder/err" </dev/null &
    launcher=$!
    await "$limit" is_over || give_up_on_finalize || fail "it does not end in $limit s"
    [ -n "$launcher" ] || return 0
    wait "$launcher" || code=$?
    launcher=
}

# MPICH 4.0 over UCX and TCP now and then hangs in MPI_Finalize: one rank waits for connections to
# close that the others no longer look after.  weft has done all its work by then.
give_up_on_finalize() {
    [ "$MPI" = mpich ] && [ -d "$folder/run/ranks" ] || return 1
    ! show_records | grep -qv ': done, ' || return 1
    echo "mpich, $case_name: all ranks are done, and MPI_Finalize hangs: ended by the test"
    end_all
    wait "$launcher" 2>/dev/null || true
    launcher=
}

hash_of() { sha256sum "$1/model/model.safetensors" | cut -d' ' -f1; }

# What one process makes of the same settings.
reference() {
    "${train[@]}" --train.steps=8 "--log.dir=$folder/alone" >"$folder/out" 2>"$folder/err" ||
        fail 'one process cannot train'
    hash_of "$folder/alone"
}

# -- waiting ---------------------------------------------------------------------------------------

now() { echo $(($(date +%s%N) / 1000000)); }

# await SECONDS COMMAND...: until it succeeds; false when it does not.
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

# A sleep of 0.2 to 1.5 s: another point of a step each time.
sleep_a_while() {
    local ms=$((200 + RANDOM % 1300))
    sleep "$((ms / 1000)).$(printf '%03d' $((ms % 1000)))"
}

# -- ranks -----------------------------------------------------------------------------------------

# Lines "RANK PID" of the ranks that have not ended.
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

# What the ranks have recorded: "rank 2: failed, step 118, at 1F3: <why>".
show_records() {
    local file
    for file in "$folder"/run/ranks/*; do
        "$FLIGHT" "$file"
    done
}

# says_lost RANK: weft inspect does, and what it was last at.
says_lost() {
    "$WEFT" inspect "$folder/run" >"$folder/inspected" 2>&1 || true
    grep -qE "^lost +rank $1 .* step [0-9]+, ." "$folder/inspected"
}

# -- long runs -------------------------------------------------------------------------------------

makes_steps() { grep -qs '^step 5/' "$folder/out"; }

# start NAME N ARGUMENT...: N ranks that train, until something ends them; the arguments are of the
# launcher and, after --, of weft.  Sets $pids.
start() {
    run_long "$@"
    sleep_a_while
    begin=$(now)
}

# The same, but right after the first steps.
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
    await "$limit" makes_steps || fail 'it does not begin to train'
    pids=$(ranks_left)
    [ "$(wc -l <<<"$pids")" -eq "$n" ] || fail "there are not $n ranks but these: $pids"
}

# All ranks end within the timeout and some patience.  Sets $took, in milliseconds.
finish_ranks() {
    await $((timeout + patience)) no_rank_left ||
        fail "after $((timeout + patience)) s these are left (rank, process): $(ranks_left)"
    took=$(($(now) - begin))
}

# And so does everything else.  Sets $code.
finish_launcher() {
    await "$patience" is_over || fail "the ranks have ended, and $MPI's launcher does not"
    code=0
    wait "$launcher" || code=$?
    launcher=
    await "$patience" nothing_left || fail "processes are left: $(all_left)"
}

# is_code EXPECTED: MPICH's launcher kills the ranks that have not ended when the first has, and may
# then end with the signal's number.
is_code() { [ "$code" -eq "$1" ] || { [ "$MPI" = mpich ] && [ "$code" -eq 9 ]; }; }

# blames FILE PATTERN: every complaint is about a rank that fits, and there is one.
blames() {
    local all
    all=$(grep -o 'rank [0-9]* gives no heartbeat' "$1") || return 1
    ! grep -vqE "^rank ($2) gives" <<<"$all"
}

# crosses FILE PATTERN: every complaint is by a rank that fits about one that does not, or the other
# way round, and there is one.
crosses() {
    local by about pairs
    pairs=$(sed -nE 's/.*rank ([0-9]+) \(.* rank ([0-9]+) gives no sign.*/\1 \2/p' "$1")
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

# What MPI and weft would name so; others put their own files there.
shared_memory() {
    find /dev/shm -maxdepth 1 -type f -printf "%f\n" 2>/dev/null | grep -iE 'vader|ompi|open-mpi|osc|mpich|ucx|weft' |
        grep -v '^weft-test-' || true
    [ ! -r /proc/sysvipc/shm ] || awk 'NR > 1 { print "System V " $2 }' /proc/sysvipc/shm
}
shm_before=$(shared_memory)

# Others use it as well: what a process has mapped is not left behind.
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
check_shm() { await 5 no_shm_left || fail "shared memory is left: $(shm_left)"; }
