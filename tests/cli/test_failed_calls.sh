#!/usr/bin/env bash
# Checks that a cause outside of a file never condemns the file: after a failed open, read or allocation
# weft ends with exit code 8, and a good checkpoint is not skipped.
. "$(dirname -- "$0")/common.bash"
: "${FAIL_CALLS:?the library that makes calls fail}"

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
settings=(--model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.batch=8 --data.seq=24
    --parallel.threads=1 --train.steps=9 --checkpoint.every=off --log.dir=run)

# with_failure "VARIABLES" ARGS...: runs weft with failing calls; sets code.
with_failure() {
    local variables=$1
    shift
    code=0
    what="$variables weft $*"
    # shellcheck disable=SC2086 # several variables
    env $variables LD_PRELOAD="$FAIL_CALLS" ASAN_OPTIONS=verify_asan_link_order=0 "$WEFT" "$@" \
        >out 2>err </dev/null || code=$?
}

# A run with checkpoints of the steps 2, 4, 6 and 8, whose final weights are known.
run 0 train "${settings[@]}" --checkpoint.every=2 --checkpoint.keep=9 --checkpoint.async=false
run 0 inspect --hash run/model
cut -d ' ' -f 1 out >want
rm -rf run/model run/report.html run/checkpoints/step-00000009
cp -r run unfinished
newest=run/checkpoints/step-00000008

# outcome: the last command ended with 8 and named no damage, or it did all its work.
outcome() {
    n_checks=$((n_checks + 1))
    if [ "$code" -eq 8 ]; then
        [ "$(grep -c '^weft: ' err)" -eq 1 ] || fail 'the error is not one line'
    elif [ "$code" -eq 0 ]; then
        grep -q 'step 9/9' out || fail 'step 9 is missing'
        ! grep -q 'step 8/9' out || fail 'an older checkpoint was used'
        "$WEFT" inspect --hash run/model 2>/dev/null | cut -d ' ' -f 1 | cmp -s - want || fail 'other weights'
    else
        fail "exit code $code, want 8 or 0"
    fi
    rm -rf run
    cp -r unfinished run
}

# EMFILE (24) and EIO (5) at the files of the newest checkpoint.
for variables in 'FAIL_CALL=open FAIL_ERRNO=24 FAIL_PATH=manifest.json' \
    'FAIL_CALL=open FAIL_ERRNO=5 FAIL_PATH=manifest.json' \
    'FAIL_CALL=open FAIL_ERRNO=24 FAIL_PATH=rank-' 'FAIL_CALL=open FAIL_ERRNO=12 FAIL_PATH=rank-' \
    "FAIL_CALL=pread FAIL_PATH=$newest/manifest" "FAIL_CALL=pread FAIL_PATH=$newest/" \
    "FAIL_CALL=pread FAIL_PATH=$newest/ FAIL_AFTER=4" 'FAIL_CALL=open FAIL_ERRNO=24 FAIL_PATH=checkpoints'; do
    with_failure "$variables FAIL_TIMES=1" train "${settings[@]}" --checkpoint.resume=auto
    holds test "$code" -eq 8
    err_has 'run/checkpoints'
    case $variables in
    *ERRNO=24*) err_has 'Too many open files' ;;
    *ERRNO=12*) err_has 'Cannot allocate memory' ;;
    *) err_has 'Input/output error' ;;
    esac
    outcome
done

# The same for data, tokenizers, models, settings and costs.
cat >costs.yaml <<<'f: 1'
cp "$tiny/config.json" config.json
cat >run.yaml <<'END'
train:
  steps: 1
END
while IFS='|' read -r path args; do
    for call in 'FAIL_CALL=open FAIL_ERRNO=24' 'FAIL_CALL=open FAIL_ERRNO=12'; do
        # shellcheck disable=SC2086 # words
        with_failure "$call FAIL_PATH=$path FAIL_TIMES=1" $args
        holds test "$code" -eq 8
        err_has "$path"
    done
done <<END
tokens.bin|train --model.dir=$tiny --data.train=$tiny/tokens.bin --dry-run
config.json|inspect $tiny
model.safetensors|inspect $tiny
run.yaml|train run.yaml --dry-run
costs.yaml|plan --schedule 1f1b --ranks 2 --micros 2 --cost-file costs.yaml
END

# Failed allocations from the first manifest on: every one in the deep test.
since="FAIL_CALL=malloc FAIL_SINCE=manifest.json"
with_failure "$since FAIL_AFTER=1000000000 FAIL_COUNT=$dir/count" train "${settings[@]}" \
    --checkpoint.resume=auto
outcome
n=$(cat count)
holds test "$n" -gt 200
step=$((n / 60 + 1))
[ -z "${WEFT_TEST_DEEP-}" ] || step=1
for ((i = 0; i < n; i += step)); do
    with_failure "$since FAIL_AFTER=$i FAIL_TIMES=1" train "${settings[@]}" --checkpoint.resume=auto
    outcome
done

finish
