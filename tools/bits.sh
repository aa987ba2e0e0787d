#!/usr/bin/env bash
# Trains small models in many layouts and compares bits: losses, norms and final weights must equal those
# of one rank, for every schedule, number of ranks, transport, number of threads and cache.
#
#   tools/bits.sh           all layouts
#   tools/bits.sh --quick   one layout per schedule, and one per MPI
#   tools/bits.sh --only zb-v   the layouts of one schedule
#
# The program is $WEFT, or build/release/weft.  Prints one line per layout: its settings, the hash of the
# final weights (weft inspect --hash), and a hash of the losses and norms in metrics.jsonl.  Another number
# of micros is another computation with other hashes.
set -euo pipefail

# MPI libraries leak memory and are unloaded before the leak check.
no_leaks=ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
source_dir=$(cd -- "$(dirname -- "$0")/.." && pwd)
weft=$(realpath -- "${WEFT:-$source_dir/build/release/weft}")
data=$source_dir/tests/data/train
limit=400 # seconds per layout: a hang is a failure
quick='' only=''
case $#,${1:-} in
0,) ;;
1,--quick) quick=yes ;;
2,--only) only=$2 ;;
*) echo 'usage: tools/bits.sh [--quick | --only SCHEDULE]' >&2; exit 2 ;;
esac
[ -x "$weft" ] || { echo "bits: $weft does not exist: build first, or set WEFT" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

# The runs: three of the tests, and models of 12 layers with block residuals, which suffice for every number
# of stages here.  16 micros do not divide 24 sequences, so micros differ in size.
#
# run     micros  pp chunks dp  schedule    cache    threads transport
quick_layouts='
gpt2       6  3 1 3  gpipe             off      2 inproc
llama      8  2 1 2  1f1b              off      1 inproc
tied       8  4 1 1  eager-1f1b        full     2 inproc
gpt2-12   16  2 1 4  1f1b-split        full     1 inproc
gpt2-12   12  3 2 3  interleaved-1f1b  received 2 inproc
llama-12  12  2 3 1  looped-bfs        full     1 inproc
gpt2       8  4 1 2  zb-h1             off      2 inproc
llama      6  3 1 4  zb-h2             off      1 inproc
gpt2       4  4 1 1  zb-auto           off      2 inproc
tied       6  2 2 3  interleaved-zb    received 1 inproc
llama-12  16  4 2 4  zb-v              received 2 inproc
tied       4  2 2 2  zb-v-auto         off      1 inproc
gpt2-12   16  4 2 4  v-half            off      2 inproc
gpt2-12   12  3 2 2  v-min             full     1 inproc
llama      4  2 2 3  1f1b-v            off      2 inproc
llama-12  12  3 3 1  wave              off      1 inproc
llama      8  2 1 3  chimera           off      2 inproc
gpt2       8  2 1 1  dualpipe          off      1 inproc
llama-12  16  3 2 2  dualpipe-v        full     2 inproc
llama-12  16  4 4 4  bitpipe           received 1 inproc
llama-12  12  4 3 4  greedy-gpipe      off      2 inproc
tied       4  2 3 2  greedy-1f1b       full     1 inproc
llama-12  16  3 1 2  1f1b              full     1 openmpi
gpt2       8  3 1 2  1f1b-split        off      2 mpich
'
other_layouts='
tied       6  2 2 1  gpipe             received 2 inproc
tied       8  3 1 3  1f1b              off      1 inproc
llama      4  3 1 2  eager-1f1b        off      2 inproc
llama      6  3 1 3  1f1b-split        off      1 inproc
gpt2       4  4 1 1  interleaved-1f1b  off      2 inproc
gpt2-12   12  4 3 4  looped-bfs        received 1 inproc
tied       8  3 1 3  zb-h1             full     2 inproc
gpt2       6  2 1 2  zb-h2             off      1 inproc
llama      4  2 1 2  zb-auto           off      2 inproc
gpt2-12   16  4 3 4  interleaved-zb    off      1 inproc
tied       4  3 2 1  zb-v              received 2 inproc
gpt2-12   12  4 2 1  zb-v-auto         full     1 inproc
gpt2       6  1 2 3  v-half            off      2 inproc
llama-12  12  4 2 4  v-min             full     1 inproc
tied       6  1 2 4  1f1b-v            off      2 inproc
llama      6  2 2 2  wave              off      1 inproc
gpt2       4  4 1 3  chimera           off      2 inproc
llama      8  4 1 1  dualpipe          off      1 inproc
gpt2-12   16  4 2 1  dualpipe-v        received 2 inproc
gpt2-12   16  4 4 2  bitpipe           off      1 inproc
gpt2       8  1 1 2  greedy-gpipe      off      2 inproc
llama-12  16  3 3 4  greedy-1f1b       received 1 inproc
gpt2-12   12  4 3 4  gpipe             full     2 inproc
gpt2       6  4 1 4  1f1b              off      1 inproc
gpt2       8  2 1 3  eager-1f1b        off      2 inproc
tied       6  2 1 2  1f1b-split        off      1 inproc
tied       8  2 3 3  interleaved-1f1b  full     2 inproc
tied       4  3 2 1  looped-bfs        received 1 inproc
llama      8  4 1 3  zb-h1             off      2 inproc
tied       6  3 1 3  zb-h2             off      1 inproc
tied       4  3 1 3  zb-auto           full     2 inproc
llama      4  1 1 1  interleaved-zb    off      1 inproc
gpt2       4  2 2 1  zb-v              off      2 inproc
llama-12  12  3 2 4  zb-v-auto         off      1 inproc
llama      6  1 2 2  v-half            off      2 inproc
tied       8  3 2 1  v-min             received 1 inproc
llama-12  16  4 2 4  1f1b-v            full     2 inproc
gpt2-12   12  4 3 4  wave              received 1 inproc
gpt2-12   16  2 1 2  chimera           off      2 inproc
llama-12  12  2 1 3  dualpipe          received 1 inproc
tied       8  3 2 1  dualpipe-v        off      2 inproc
llama-12  16  4 4 1  bitpipe           off      1 inproc
tied       4  2 3 2  greedy-gpipe      full     2 inproc
gpt2       4  1 1 4  greedy-1f1b       off      1 inproc
llama      8  2 2 2  gpipe             off      2 inproc
gpt2       8  4 1 3  1f1b              off      1 inproc
gpt2-12   12  4 1 4  eager-1f1b        full     2 inproc
gpt2       6  3 1 4  1f1b-split        off      1 inproc
llama-12  12  4 2 2  interleaved-1f1b  full     2 inproc
llama      4  1 3 2  looped-bfs        off      1 inproc
gpt2-12   16  2 1 2  zb-h1             received 2 inproc
llama      6  4 1 4  zb-h2             off      1 inproc
llama-12  16  4 1 3  zb-auto           received 2 inproc
llama-12  12  3 3 3  interleaved-zb    off      1 inproc
gpt2-12   12  4 2 1  zb-v              off      2 inproc
llama      6  1 2 3  zb-v-auto         off      1 inproc
tied       6  3 2 1  v-half            received 2 inproc
llama      8  1 2 1  v-min             off      1 inproc
gpt2       6  1 2 3  1f1b-v            off      2 inproc
gpt2       8  1 1 4  wave              off      1 inproc
tied       6  4 1 4  chimera           off      2 inproc
tied       8  2 1 2  dualpipe          full     1 inproc
gpt2       4  2 2 1  dualpipe-v        off      2 inproc
gpt2-12   12  4 4 3  bitpipe           full     1 inproc
gpt2-12   16  3 3 1  greedy-gpipe      received 2 inproc
llama      4  1 3 2  greedy-1f1b       off      1 inproc
gpt2       4  1 1 4  zb-h1             off      1 openmpi
gpt2       6  2 2 1  interleaved-zb    off      2 openmpi
llama      6  1 2 3  zb-v              off      1 openmpi
llama      8  2 1 3  chimera           off      2 openmpi
gpt2-12   12  2 1 3  dualpipe          off      1 openmpi
tied       4  2 3 1  wave              received 2 openmpi
llama-12  16  1 3 4  gpipe             off      1 openmpi
gpt2-12   16  3 1 2  zb-h2             full     2 mpich
llama      4  1 1 4  interleaved-1f1b  off      1 mpich
llama-12  12  4 2 1  v-half            received 2 mpich
llama      8  1 2 4  dualpipe-v        off      1 mpich
llama-12  16  4 4 1  bitpipe           off      2 mpich
tied       8  2 3 2  looped-bfs        off      1 mpich
gpt2       6  4 1 1  chimera           off      2 mpich
'

# Impossible layouts, which must be refused as wrong settings, and a word of the message.
#
# run     micros  pp chunks dp  schedule    why
refused_layouts='
gpt2       4  1 1 1  chimera           even
gpt2       4  3 1 1  chimera           even
gpt2       8  3 1 1  dualpipe          even
gpt2       6  2 1 2  dualpipe          micros
gpt2       4  2 2 2  dualpipe-v        micros
gpt2-12   12  2 4 1  bitpipe           ranks
llama-12  16  4 4 3  bitpipe           micros
gpt2       4  2 2 1  1f1b              chunk
gpt2       4  2 1 1  zb-v              chunk
gpt2       4  2 3 1  v-half            chunk
gpt2       4  3 2 1  gpipe             layers
tied       8  4 2 1  wave              layers
gpt2       4  1 1 5  gpipe             micros
'

# -- the runs ---------------------------------------------------------------------------------

# setting FILE KEY: prints a number of a run.json
setting() { sed -n "s/^ *\"$2\": *\([^,]*\),\{0,1\}$/\1/p" "$1"; }

# make_tokens FILE: writes a shard of 1,600 pseudo-random tokens below 128.  Numbers are little-endian: four
# bytes each in the header, two bytes per token.
make_tokens() {
    local i token state=1 text='\x88\xd8\x34\x01\x01\0\0\0\x40\x06\0\0'
    for ((i = 12; i < 1024; i++)); do text+='\0'; done
    for ((i = 0; i < 1600; i++)); do
        state=$(((state * 1103515245 + 12345) & 0x7fffffff))
        printf -v token '\\x%02x\\0' $((state >> 16 & 127))
        text+=$token
    done
    printf '%b' "$text" >"$1"
}

# settings_of RUN: sets the array `flags`
settings_of() {
    local folder=$data/$1 r own=(--model.layers=12 --model.dim=32 --model.heads=2
        --model.ffn=64 --model.vocab=128 --model.ctx=16 --model.residual_block_layers=4
        "--data.train=$work/tokens.bin" --data.batch=24 --data.seq=16 --train.steps=4
        --optim.lr=1e-3 --optim.warmup=2 --optim.clip=0.5)
    case $1 in
    gpt2 | llama) folder=$data/$1-tiny ;;
    tied) folder=$data/llama-tiny-tied-residual ;;
    gpt2-12) flags=(--model.arch=gpt2 "${own[@]}") && return ;;
    llama-12) flags=(--model.arch=llama --model.kv_heads=1 "${own[@]}") && return ;;
    esac
    r=$folder/run.json
    flags=("--model.dir=$folder" "--data.train=$folder/tokens.bin"
        "--data.batch=$(setting "$r" batch)" "--data.seq=$(setting "$r" seq)"
        "--train.steps=$(setting "$r" steps)" "--optim.lr=$(setting "$r" lr)"
        "--optim.min_lr=$(setting "$r" min_lr)" "--optim.warmup=$(setting "$r" warmup)"
        "--optim.decay_steps=$(setting "$r" decay_steps)" "--optim.beta1=$(setting "$r" beta1)"
        "--optim.beta2=$(setting "$r" beta2)" "--optim.eps=$(setting "$r" eps)"
        "--optim.weight_decay=$(setting "$r" wd)" "--optim.clip=$(setting "$r" clip)")
}

# -- transports -------------------------------------------------------------------------------

# can_run TRANSPORT: false if this machine lacks the transport; then `why` is the reason
can_run() {
    [ "$1" != inproc ] || return 0
    local module=weft-$1.so
    why='no module'
    [ -e "${weft%/*}/$module" ] || [ -e "${weft%/*}/../lib/weft/$module" ] ||
        compgen -G "${weft%/*}/../lib/*/weft/$module" >/dev/null || return 1
    why="no mpirun.$1"
    command -v "mpirun.$1" >/dev/null
}

# launcher TRANSPORT RANKS: sets the array `launch` to the words before the command
launcher() {
    case $1 in
    inproc) launch=() ;;
    openmpi)
        launch=(env "$no_leaks" mpirun.openmpi --oversubscribe --mca mpi_yield_when_idle 1 -n "$2")
        [ "$(id -u)" -ne 0 ] || launch+=(--allow-run-as-root)
        ;;
    mpich) launch=(env "$no_leaks" mpirun.mpich -n "$2") ;;
    esac
}

# -- one layout -------------------------------------------------------------------------------

# train RUN MICROS PP CHUNKS DP SCHEDULE CACHE THREADS TRANSPORT: trains into $work/run.  Sets `command` to
# the command line.
train() {
    local flags launch
    settings_of "$1"
    launcher "$9" $(($3 * $5))
    command=("${launch[@]}" "$weft" train "${flags[@]}" "--parallel.micros=$2" "--parallel.pp=$3"
        "--parallel.chunks=$4" "--parallel.dp=$5" "--parallel.schedule=$6" "--parallel.cache=$7"
        "--parallel.threads=$8" --train.slow=off --train.timeout=60)
    rm -rf "$work/run"
    timeout -k 5 $limit "${command[@]}" "--log.dir=$work/run" >"$work/out" 2>"$work/err" </dev/null
}

# hashes: prints the hashes of the weights and of the metrics in $work/run
hashes() {
    local weights figures
    weights=$("$weft" inspect --hash "$work/run") || return 1
    figures=$(sed -n 's/.*\("loss":[^,]*,"grad_norm":[^,]*\),.*/\1/p' "$work/run/metrics.jsonl" |
        sha256sum)
    printf '%s %s\n' "${weights%% *}" "${figures:0:16}"
}

n_failed=0
failed() {
    n_failed=$((n_failed + 1))
    printf '  FAILED: %s\n  %s\n' "$1" "${command[*]}"
    tail -n 3 "$work/err" | cut -c 1-300 | sed 's/^/  /'
}

declare -A want skipped=()
# expect RUN MICROS: sets want[...] to the hashes of one rank
expect() {
    [ -z "${want[$1 $2]:-}" ] || return 0
    if ! train "$1" "$2" 1 1 1 1f1b off 1 inproc || ! want[$1 $2]=$(hashes); then
        failed 'a single rank fails'
        exit 1
    fi
    printf '%-9s %2d micros  one rank: %s\n' "$1" "$2" "${want[$1 $2]}"
}

n_layouts=0
check() {
    local got status=0
    if ! can_run "$9"; then
        skipped[$9]="$why"
        return
    fi
    expect "$1" "$2"
    train "$@" || status=$?
    n_layouts=$((n_layouts + 1))
    printf '%-9s %2d micros  pp %d chunks %d dp %d  %-16s cache %-8s threads %d  %-7s ' "$@"
    if [ $status -eq 124 ] || [ $status -eq 137 ]; then
        printf 'none\n'
        failed "not finished after $limit s"
    elif [ $status -ne 0 ]; then
        printf 'none\n'
        failed "exit code $status"
    elif ! got=$(hashes 2>"$work/err"); then
        printf 'none\n'
        failed 'no weights were written'
    else
        printf '%s\n' "$got"
        [ "$got" = "${want[$1 $2]}" ] || failed "the bits differ from one rank: ${want[$1 $2]}"
    fi
}

n_refused=0
check_refused() {
    local status=0
    train "$1" "$2" "$3" "$4" "$5" "$6" off 1 inproc || status=$?
    n_refused=$((n_refused + 1))
    if [ $status -ne 2 ] || ! grep -qF -e "$7" "$work/err"; then
        printf '%s\n' "$*"
        failed "exit code $status, want 2 and a message with '$7'"
    fi
}

# covers WHAT COLUMNS VALUE...: fails unless each value occurs in a layout
covers() {
    local what=$1 columns=$2 value
    shift 2
    for value; do
        awk -v columns="$columns" -v value="$value" '
            NF { n = split(columns, c, ","); t = $c[1]; for (i = 2; i <= n; i++) t = t "," $c[i] }
            NF && t == value { found = 1 }
            END { exit !found }' <<<"$layouts" && continue
        echo "  FAILED: no layout has $what $value: add one to tools/bits.sh"
        n_failed=$((n_failed + 1))
    done
}

# -- main -------------------------------------------------------------------------------------

make_tokens "$work/tokens.bin"
layouts=$quick_layouts
[ -n "$quick" ] || layouts+=$other_layouts
mapfile -t schedules < <("$weft" plan --list | awk '/^$/ { exit } /^[a-z0-9]/ { print $1 }')
covers schedule 6 "${schedules[@]}"
if [ -z "$quick" ]; then
    covers 'pp and chunks' 3,4 {1..4},{1..3}
    covers dp 5 {1..4}
    covers cache 7 off received full
    covers threads 8 1 2
    covers transport 9 inproc openmpi mpich
fi
rows() { awk -v only="$only" 'NF && (only == "" || $6 == only)' <<<"$1"; }
while read -r -a row; do
    check "${row[@]}"
done < <(rows "$layouts")
while read -r -a row; do
    check_refused "${row[@]}"
done < <(rows "$refused_layouts")

for transport in "${!skipped[@]}"; do
    echo "$transport skipped: ${skipped[$transport]}"
done
echo "$n_refused impossible layouts are refused"
if [ $n_failed -gt 0 ]; then
    echo "$n_layouts layouts, $n_failed failed"
    exit 1
fi
[ $n_layouts -gt 0 ] || { echo "no layout has the schedule $only"; exit 1; }
echo "$n_layouts layouts, one hash each"
