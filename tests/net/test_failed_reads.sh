#!/usr/bin/env bash
# Checks that a failed read of tokens on one rank of two ends every rank with exit code 8 and a line that
# names the file and the cause, while messages of that rank are in flight.
#
# Without MPI the ranks are threads.
. "$(dirname -- "$0")/../cli/common.bash"
: "${FAIL_CALLS:?the library that makes calls fail}" "${MPI:?threads, openmpi or mpich}"
if [ "$MPI" != threads ] && [ -z "${MPI_RUN-}" ]; then
    echo "skipped: $MPI is not installed, or was not when weft was configured"
    exit 77
fi

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
settings=(--model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.val="$tiny/tokens.bin"
    --data.batch=8 --data.seq=24 --parallel.micros=4 --parallel.threads=1 --train.timeout=30
    --train.slow=off --train.steps=40)
runs=5
[ "$MPI" = threads ] && runs=25
[ -z "${WEFT_TEST_DEEP-}" ] || runs=100

launch=()
if [ "$MPI" = openmpi ]; then
    launch=("$MPI_RUN" --oversubscribe --mca mpi_yield_when_idle 1 --mca orte_tmpdir_base "$dir" -n 2)
    [ "$(id -u)" -ne 0 ] || launch+=(--allow-run-as-root)
elif [ "$MPI" = mpich ]; then
    launch=("$MPI_RUN" -n 2)
fi

# fail_read RANK AFTER SETTINGS...: reads of the tokens fail on a rank after so many calls.
fail_read() {
    local rank=$1 after=$2 code=0
    shift 2
    rm -rf run
    what="rank $rank fails after $after reads: $*"
    "${launch[@]}" env LD_PRELOAD="$FAIL_CALLS" ASAN_OPTIONS=verify_asan_link_order=0 FAIL_CALL=pread \
        FAIL_PATH=tokens.bin FAIL_RANK="$rank" FAIL_AFTER="$after" \
        "$WEFT" train "${settings[@]}" "$@" --log.dir=run >out 2>err </dev/null || code=$?
    n_checks=$((n_checks + 1))
    [ "$code" -eq 8 ] || fail "exit code $code, want 8"
    err_has "tokens.bin: at byte"
    err_has "Input/output error"
    # Every rank reports the same error; launchers add lines of their own.
    holds test "$(grep '^weft: ' err | sort -u | wc -l)" -eq 1
    [ "$MPI" = threads ] || holds test "$(grep -c '^weft: ' err)" -ge 1
}

# During steps: the reductions of replicas, and activations between stages, are in flight.
for ((i = 0; i < runs; i++)); do
    fail_read $((i % 2)) $((140 + 7 * i % 300)) --parallel.dp=2
    [ $((i % 5)) -ne 0 ] || fail_read $((i / 5 % 2)) $((140 + 9 * i % 300)) --parallel.pp=2
done

# During an evaluation.
fail_read 1 185 --parallel.dp=2 --eval.every=2 --eval.batches=2

# During the start: the error is no difference between the data of the ranks, and ranks that all fail do
# not agree on it.
for rank in 0 1; do
    fail_read $rank 20 --parallel.dp=2
    err_has "tokens.bin: at byte"
done
fail_read '' 20 --parallel.dp=2

finish
