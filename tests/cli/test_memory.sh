#!/usr/bin/env bash
# Checks that commands that use hwloc and fontconfig fail with an error, not with a crash, if they start with
# too little memory.
. "$(dirname -- "$0")/common.bash"

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
run 0 --version
if grep -q '+' out || ! (ulimit -v 1000000 && "$WEFT" --version) >/dev/null 2>&1; then
    echo 'skipped: a sanitizer needs all of the address space'
    finish
fi

# The smallest limit, in KiB, at which the program starts at all.
low=1000 high=1000000
while [ $((high - low)) -gt 100 ]; do
    middle=$(((low + high) / 2))
    if (ulimit -v $middle && "$WEFT" --version) >/dev/null 2>&1; then
        high=$middle
    else
        low=$middle
    fi
done

# limited KIB ARGS...: a success, or exit code 8 and a line that names the memory.
limited() {
    local code=0 limit=$1
    shift
    what="ulimit -v $limit; weft $*"
    (ulimit -v "$limit" && exec "$WEFT" "$@") >"$dir/out" 2>"$dir/err" </dev/null || code=$?
    [ $code -eq 0 ] && check_exit 0 0 && return
    check_exit 8 $code
    n_checks=$((n_checks + 1))
    grep -qE 'memory|thread' "$dir/err" || fail 'the error does not name the memory'
}

for more in 100 300 600 1000 2000 3000 4000 5000 6000 8000 12000 20000; do
    limited $((high + more)) train --model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.batch=4 --data.seq=8 \
        --parallel.threads=1 --train.steps=1
    limited $((high + more)) plan -s 1f1b -p 4 -m 4 -o plan.png
    limited $((high + more)) plan -s 1f1b -p 4 -m 4 -o plan.pdf
done

finish
