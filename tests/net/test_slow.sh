#!/usr/bin/env bash
# A rank under $MPI that is slow is named while the run goes on; a healthy run has no such warning.
set -euo pipefail
here=$(dirname -- "${BASH_SOURCE[0]}")
# shellcheck source=tests/net/ranks.sh
. "$here/ranks.sh"

# A model that is large enough for its costs to be known: ranks differ by some tenths.
timeout=20
train=("$WEFT" train --model.arch=gpt2 --model.layers=8 --model.dim=64 --model.heads=4
    --model.vocab=512 --model.ctx=96 --data.seq=64 "--data.train=$tiny/tokens.bin" --data.batch=8
    --parallel.micros=4 --parallel.threads=1 "--train.timeout=$timeout")
factor=5 # with more ranks than cores, and others at work, healthy ones differ by this, for a while

# Rank 1 works for a tenth of the time only.
slow_down() {
    local pid=$1
    while kill -STOP "$pid" 2>/dev/null; do
        sleep 0.18
        kill -CONT "$pid" 2>/dev/null || break
        sleep 0.02
    done
}
is_named() { grep -q '^weft: warning: rank 1 takes' "$folder/err"; }

# Ends with a checkpoint's worth of good order: the first signal stops the run after its step.
stop_run() {
    kill -TERM "$(pid_of 0)"
    await "$limit" is_over || fail 'it does not stop'
    wait "$launcher" || true
    launcher=
    await "$patience" nothing_left || fail "processes are left: $(all_left)"
    grep -q '^saved' "$folder/out" || fail 'the run did not end in good order'
}

layouts=('--parallel.pp=2 --parallel.dp=2')
[ -z "${WEFT_THOROUGH-}" ] || layouts+=('--parallel.pp=3')
for layout in "${layouts[@]}"; do
    n=3
    [[ $layout != *dp* ]] || n=4
    # shellcheck disable=SC2086 # words
    run_long "healthy, $layout" $n -- $layout --train.slow=$factor --train.max_time=6
    await "$limit" is_over || fail 'it does not stop'
    wait "$launcher" || fail 'a healthy run fails'
    launcher=
    ! grep -q 'warning' "$folder/err" || fail 'a healthy run has a warning'

    # shellcheck disable=SC2086 # words
    run_long "slow, $layout" $n -- $layout --train.slow=$factor
    slow_down "$(pid_of 1)" &
    slower=$!
    await "$limit" is_named || fail 'a slow rank is not named'
    ! grep -q 'warning: rank [^1] ' "$folder/err" || fail 'another rank is named'
    kill "$slower" 2>/dev/null || true
    wait "$slower" 2>/dev/null || true
    kill -CONT "$(pid_of 1)"
    stop_run
done
check_shm
echo "$MPI: slow ranks are named, others are not"
