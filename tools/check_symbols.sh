#!/usr/bin/env bash
# Compares what the libraries export with the public headers.
#
#   tools/check_symbols.sh BUILD_DIRECTORY
#
# libweft-plan.so exports exactly the functions of weft/plan.h, libweft.so exactly those of weft/weft.h.
# In the static libraries every symbol has the prefix weft_ (public) or wf_ (internal), and only functions
# that a public header declares have the prefix weft_.
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

compare weft-plan weft/plan.h
[ ! -e "$build/libweft.a" ] || compare weft weft/weft.h # not in a plan-only build
exit $status
