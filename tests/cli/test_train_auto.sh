#!/usr/bin/env bash
# Checks that parallel.auto gives the bits of a run without it, whatever it chooses, and the output of
# --dry-run.
. "$(dirname -- "$0")/common.bash"

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
settings=(--model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.batch=8 --data.seq=24
    --parallel.micros=4 --train.steps=3 --train.timeout=20 --train.slow=off)

hash_of() { "$WEFT" inspect "$1/model" --hash | cut -d' ' -f1; }
losses() { grep -o '"loss":[^,]*' "$1/metrics.jsonl"; }
same() { cmp <(losses "$1") <(losses "$2") && [ "$(hash_of "$1")" = "$(hash_of "$2")" ]; }

run 0 train "${settings[@]}" --log.dir=plain
run 0 train "${settings[@]}" --parallel.auto=true --log.dir=chosen
out_has 'auto     measured and compared in'
out_has 'ms/step  bubble    bytes/rank'
out_lacks 'as given'
holds same plain chosen

# The config.yaml of the run contains the choice, so a repeated run measures nothing.
holds grep -q '^  auto: false' chosen/config.yaml
holds grep -q '^  threads: [1-9]' chosen/config.yaml
run 0 train chosen/config.yaml --log.dir=repeated
out_lacks 'auto '
holds same plain repeated
holds cmp chosen/schedule.csv repeated/schedule.csv

# Given settings are kept, even if they equal the default.
run 0 train "${settings[@]}" --parallel.auto=true --parallel.pp=2 --log.dir=pipeline
out_has 'as given: parallel.pp; remove'
holds grep -q '^  pp: 2' pipeline/config.yaml
holds same plain pipeline
printf 'parallel:\n  pp: 1\n  dp: 1\n  schedule: 1f1b\n  threads: auto\n' >given.yaml
run 0 train given.yaml "${settings[@]}" --parallel.auto=true --log.dir=given
out_has 'as given: parallel.pp, dp, schedule; remove'
holds grep -q '^  pp: 1' given/config.yaml
holds same plain given
run 0 train "${settings[@]}" --parallel.auto=true --parallel.threads=1 --dry-run
out_has '1 thread each'

# A file of --print-config has all keys; those with default values are not regarded as given.
"$WEFT" train --print-config "${settings[@]}" >printed.yaml
run 0 train printed.yaml --parallel.auto=true --log.dir=printed
out_lacks 'as given'
holds same plain printed
run 0 train printed.yaml --parallel.auto=true --parallel.pp=2 --dry-run
out_has 'as given: parallel.pp; remove'

# --dry-run trains nothing and writes nothing.
run 0 train "${settings[@]}" --parallel.auto=true --dry-run --log.dir=dry
out_has 'auto     measured and compared in'
out_has 'stages   0 on rank'
holds test ! -e dry

# Impossible layouts.
run 2 train "${settings[@]}" --parallel.auto=true --parallel.pp=5
err_has 'parallel.auto: no layout can run: 4 layers cannot fill 5 stages'
run 2 train "${settings[@]}" --parallel.auto=true --parallel.dp=5
err_has 'parallel.auto: no layout can run: parallel.dp 5 is greater than parallel.micros (4 micros'
run 2 train "${settings[@]}" --parallel.auto=true --parallel.schedule=1f1c
err_has '1f1b'
# More micros are tried only if they can help, even if the batch is large.
model=(--model.arch=gpt2 --model.layers=2 --model.dim=16 --model.heads=2 --model.vocab=512
    --model.ctx=24 --data.train="$tiny/tokens.bin" --data.batch=512 --parallel.auto=true --dry-run)
begin=$SECONDS
run 2 train "${model[@]}" --parallel.pp=8
err_has 'parallel.auto: no layout can run: 2 layers cannot fill 8 stages'
run 0 train "${model[@]}" --parallel.pp=2 --parallel.dp=300
out_has 'auto     parallel.micros is 300, the minimum that can run here'
holds test $((SECONDS - begin)) -lt 90

# The printed plan: layers per stage, units, singular forms, a stage with only the head.
run 0 train "${settings[@]}" --parallel.partition=4,0 --parallel.pp=2 --parallel.threads=1 \
    --dry-run
# 4 micros of 2 x 24 x 48 floats in each direction; 128 x 48 gradients of 8 bytes of the tied embedding.
out_has 'traffic  72.0 KiB per step in the pipeline, maximum from rank 0 to rank 1: 36.0 KiB'
out_has 'traffic  48.0 KiB of gradients and 24.0 KiB of weights per step between ranks that share parameters'
out_has 'ranks    2: pp 2 x dp 1, 1 thread each; schedule 1f1b, 2 stages, 4 micros of 2 sequences'
out_has 'stages   0 on rank 0: embedding, layers 0 to 3'
out_has '         1 on rank 1: head'
out_has 'the B (or I and W) of stage 1 takes no time'
holds grep -Eq 'makespan [0-9.]+ (µ|m|)s, bubble ' out
run 0 train --model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.batch=1 --dry-run
out_has '1 stage, 1 micro of 1 sequence'
out_lacks 'traffic'
out_has 'stages   0 on rank 0: embedding, layers 0 to 3, head'
run 0 train "${settings[@]}" --parallel.pp=2 --parallel.dp=2 --parallel.schedule=chimera --dry-run
out_has 'stages   0 on ranks 0, 1: embedding'
out_has 'the timeline shows the first replica'
out_has 'per step in each pipeline, maximum from rank'
run 0 train "${settings[@]}" --parallel.dp=2 --train.reduction=fast --dry-run
out_has 'traffic  478 KiB of gradients and 478 KiB of weights' # 122400 floats

# Under MPI all started ranks are used, and all make the same choice.
mpi=$(command -v mpirun.openmpi) && [ -e "$WEFT_BUILD_DIR/weft-openmpi.so" ] && {
    what='mpirun -n 2 weft train'
    options=(--oversubscribe --mca mpi_yield_when_idle 1)
    [ "$(id -u)" -ne 0 ] || options+=(--allow-run-as-root)
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0"
    code=0
    "$mpi" "${options[@]}" -n 2 "$WEFT" train "${settings[@]}" --parallel.auto=true \
        --log.dir=ranks >out 2>err </dev/null || code=$?
    holds test "$code" -eq 0
    out_has 'auto     measured and compared in'
    holds test "$(grep -c 'measured and compared' out)" -eq 1
    out_has 'ranks    2 (mpi)'
    holds same plain ranks
    "$mpi" "${options[@]}" -n 2 "$WEFT" train "${settings[@]}" --parallel.auto=true --dry-run \
        >out 2>err </dev/null
    holds test "$(grep -c '^stages ' out)" -eq 1
    code=0
    "$mpi" "${options[@]}" -n 2 "$WEFT" train "${settings[@]}" --parallel.pp=3 --dry-run \
        >out 2>err </dev/null || code=$?
    holds test "$code" -eq 2
    err_has 'parallel.pp 3 x parallel.dp 1 needs 3 ranks, and 2 were started; use mpirun -n 3'

    # Rank 0 divides the cores, and rank 1 uses all of them: both still measure the same layouts.
    what='mpirun, ranks with different numbers of cores'
    code=0
    "$mpi" "${options[@]}" -n 1 "$WEFT" train "${settings[@]}" --parallel.auto=true \
        --log.dir=uneven : -n 1 env -u OMPI_COMM_WORLD_LOCAL_SIZE "$WEFT" train \
        "${settings[@]}" --parallel.auto=true --log.dir=uneven >out 2>err </dev/null || code=$?
    holds test "$code" -eq 0
    out_has 'auto     measured and compared in'
    holds same plain uneven

    # A different setting is named before anything is measured.
    for other in --parallel.auto=false --parallel.pp=2 --optim.lr=0.5; do
        what="mpirun, rank 1 has $other"
        code=0
        "$mpi" "${options[@]}" -n 1 "$WEFT" train "${settings[@]}" --parallel.auto=true \
            --log.dir=no : -n 1 "$WEFT" train "${settings[@]}" --parallel.auto=true \
            --log.dir=no "$other" >out 2>err </dev/null || code=$?
        holds test "$code" -eq 2
        err_has 'rank 1 does not have the settings of rank 0'
        key=${other#--*.}
        err_has "and rank 1 '${key/=/: }"
    done
}
finish
