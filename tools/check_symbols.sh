#!/usr/bin/env bash
# Compares what the libraries export with the public headers.
#
#   tools/check_symbols.sh BUILD_DIRECTORY
#
# libweft-plan.so exports exactly the functions of weft/plan.h, libweft.so exactly those of weft/weft.h.
# In the static libraries every symbol has the prefix weft_ (public) or wf_ (internal), and only functions
# that a public header declares have the prefix weft_.  libweft-conformance is static only, and calls only
# exported functions of libweft.
set -euo pipefail
[ $# -eq 1 ] || { echo 'usage: tools/check_symbols.sh BUILD_DIRECTORY' >&2; exit 2; }
build=$1
root=$(cd -- "$(dirname -- "$0")/.." && pwd)
status=0

# declared HEADER: prints the functions that the header and its includes mark with WEFT_API.
declared() {
    printf '#include "%s"\n' "$1" | ${CC:-cc} -E -P -I "$root/include" - |
        tr '\n' ' ' | tr ';{}' '\n\n\n' | grep -F 'visibility("default")' |
        sed -E 's/__attribute__\(\(visibility\("default"\)\)\)//; s/^[^(]*[ *](weft_[a-z0-9_]+) *\(.*/\1/' | sort
}

# symbols LIBRARY [nm options]: prints the global symbols that the library defines.
symbols() {
    nm --extern-only --defined-only --format=posix "${@:2}" -- "$1" | awk '$2 ~ /^[A-Za-z]$/ { print $1 }' | sort
}

# compare NAME HEADER
compare() {
    local lib=$build/lib$1 want got
    want=$(declared "$2")
    got=$(symbols "$lib.so" -D)
    if [ "$want" != "$got" ]; then
        echo "lib$1.so: exports differ from $2 (< declared only, > exported only):"
        diff <(echo "$want") <(echo "$got") | grep '^[<>]' || true
        status=1
    fi
    got=$(symbols "$lib.a" | grep -v '^wf_' || true)
    if [ "$want" != "$got" ]; then
        echo "lib$1.a: names without the prefix wf_ differ from $2 (< declared only, > defined only):"
        diff <(echo "$want") <(echo "$got") | grep '^[<>]' || true
        status=1
    fi
    [ $status -ne 0 ] || echo "lib$1: $(wc -l <<<"$want") public functions, as $2 declares them"
}

# compare_conformance: compares libweft-conformance.a with what weft/conformance.h adds to weft/weft.h.
compare_conformance() {
    local lib=$build/libweft-conformance.a want got private
    want=$(comm -23 <(declared weft/conformance.h) <(declared weft/weft.h))
    got=$(symbols "$lib" | grep -v '^wf_' || true)
    if [ "$want" != "$got" ]; then
        echo 'libweft-conformance.a: names without the prefix wf_ differ from weft/conformance.h:'
        diff <(echo "$want") <(echo "$got") | grep '^[<>]' || true
        status=1
    fi
    private=$(nm --undefined-only --format=posix -- "$lib" | awk '$1 ~ /^(weft|wf)_/ { print $1 }' |
        sort -u | comm -23 - <(symbols "$lib" | sort -u) | comm -23 - <(symbols "$build/libweft.so" -D | sort -u))
    if [ -n "$private" ]; then
        echo "libweft-conformance.a: calls functions that libweft.so does not export: $private"
        status=1
    fi
    [ $status -ne 0 ] || echo "libweft-conformance: $(wc -l <<<"$want") public functions"
}

compare weft-plan weft/plan.h
if [ -e "$build/libweft.a" ]; then # not in a plan-only build
    compare weft weft/weft.h
    compare_conformance
fi
exit $status
