# Functions that the shell tests share.  A test sources this file, calls run and the checks, and ends with
# `finish`.  A failed check prints its command, and the test continues.
set -u
: "${WEFT:?the binary to test}" "${WEFT_TEST_DATA:?the folder of test data}"
unset COLUMNS NO_COLOR
export LC_ALL=C
dir=$(mktemp -d)
trap 'chmod -R u+rwx "$dir"; rm -rf "$dir"' EXIT
cd "$dir" || exit 1
n_checks=0 n_failed=0 what=

fail() {
    n_failed=$((n_failed + 1))
    printf 'FAILED: %s\n  %s\n' "$what" "$*"
    sed 's/^/  out: /' "$dir/out" | head -n 20
    sed 's/^/  err: /' "$dir/err" | head -n 20
}

# run CODE ARGS...: checks the exit code of weft; an error is one line on stderr that starts with "weft: ".
run() {
    local want=$1 code=0
    shift
    what="weft $*"
    "$WEFT" "$@" >"$dir/out" 2>"$dir/err" </dev/null || code=$?
    check_exit "$want" "$code"
}

# run_with INPUT CODE ARGS...: the same with a file as standard input.
run_with() {
    local input=$1 want=$2 code=0
    shift 2
    what="weft $* <$input"
    "$WEFT" "$@" >"$dir/out" 2>"$dir/err" <"$input" || code=$?
    check_exit "$want" "$code"
}

check_exit() {
    n_checks=$((n_checks + 1))
    [ "$2" -eq "$1" ] || fail "exit code $2, want $1"
    if [ "$1" -eq 0 ]; then
        [ ! -s "$dir/err" ] || fail 'stderr is not empty'
    else
        [ "$(wc -l <"$dir/err")" -eq 1 ] && grep -q '^weft: ' "$dir/err" ||
            fail 'the error is not one line that starts with "weft: "'
    fi
}

# Checks that the output (the error) of the last command contains a text.
out_has() {
    n_checks=$((n_checks + 1))
    grep -qF -e "$1" "$dir/out" || fail "the output lacks: $1"
}
out_lacks() {
    n_checks=$((n_checks + 1))
    ! grep -qF -e "$1" "$dir/out" || fail "the output has: $1"
}
err_has() {
    n_checks=$((n_checks + 1))
    grep -qF -e "$1" "$dir/err" || fail "the error lacks: $1"
}

# to_full ARGS...: checks that output to a full disk is an error (exit code 8).  Does nothing without
# such a device.
to_full() {
    [ -w /dev/full ] || return 0
    local code=0
    what="weft $* >/dev/full"
    : >"$dir/out"
    "$WEFT" "$@" >/dev/full 2>"$dir/err" </dev/null || code=$?
    check_exit 8 "$code"
    err_has 'cannot write standard output'
}

# Checks a condition.
holds() {
    n_checks=$((n_checks + 1))
    "$@" || fail "false: $*"
}

finish() {
    echo "$n_checks checks, $n_failed failed"
    [ "$n_failed" -eq 0 ] && [ "$n_checks" -gt 0 ]
    exit
}
