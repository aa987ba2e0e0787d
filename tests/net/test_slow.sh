#!/usr/bin/env bash
# Checks that a slow rank under $MPI is named in a warning during the run, and that a healthy run prints
# no warning.
set -euo pipefail
here=$(dirname -- "${BASH_SOURCE[0]}")
# shellcheck source=tests/net/ranks.sh
. "$here/ranks.sh"

# The model is large enough to predict the costs of ranks within some tenths.
timeout=20
train=("$WEFT" train --model.arch=gpt2 --model.layers=8 --model.dim=64 --model.heads=4
    --model.vocab=512 --model.ctx=96 --data.seq=64 "--data.train=$tiny/tokens.bin" --data.batch=8
    --parallel.micros=4 --parallel.threads=1 "--train.timeout=$timeout")
# Healthy ranks compute in wall-clock time, so on a busy machine their paces differ by up to 5 for some
# seconds.  The slow rank works for 1/30 of the time.
factor=10

# slow_down PID: stops and continues the process.
slow_down() {
    local pid=$1
    while kill -STOP "$pid" 2>/dev/null; do
        sleep 0.58
        kill -CONT "$pid" 2>/dev/null || break
        sleep 0.02
    done
}
is_named() { grep -q '^weft: warning: rank 1 is slow' "$folder/err"; }

# The first signal ends the run after its step, with a checkpoint.
stop_run() {
    kill -TERM "$(pid_of 0)"
    await "$limit" is_over || fail 'the run does not stop'
    wait "$launcher" || true
    launcher=
    await "$patience" nothing_left || fail "processes are still running: $(all_left)"
    grep -q '^saved' "$folder/out" || fail 'the run did not save a checkpoint'
}

layouts=('--parallel.pp=2 --parallel.dp=2')
[ -z "${WEFT_TEST_DEEP-}" ] || layouts+=('--parallel.pp=3')
for layout in "${layouts[@]}"; do
    n=3
    [[ $layout != *dp* ]] || n=4
    # shellcheck disable=SC2086 # words
    run_long "healthy, $layout" $n -- $layout --train.slow=$factor --train.max_time=6
    await "$limit" is_over || fail 'the run does not stop'
    wait "$launcher" || fail 'the healthy run fails'
    launcher=
    ! grep -q 'warning' "$folder/err" || fail 'the healthy run prints a warning'

    # shellcheck disable=SC2086 # words
    run_long "slow, $layout" $n -- $layout --train.slow=$factor
    slow_down "$(pid_of 1)" &
    slower=$!
    await "$limit" is_named || fail 'the slow rank is not named'
    ! grep -q 'warning: rank [^1] ' "$folder/err" || fail 'another rank is named'
    kill "$slower" 2>/dev/null || true
    wait "$slower" 2>/dev/null || true
    kill -CONT "$(pid_of 1)"
    stop_run
done
check_shm
echo "$MPI: the slow rank is named, others are not"
