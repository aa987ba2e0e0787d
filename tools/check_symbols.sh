#!/usr/bin/env bash
# Checks that libraries define no global symbol outside the weft_ name space.
#
#   tools/check_symbols.sh libweft.so libweft.a
set -euo pipefail
[ $# -gt 0 ] || { echo 'usage: tools/check_symbols.sh LIBRARY...' >&2; exit 2; }

status=0
for library in "$@"; do
    dynamic=()
    [[ $library == *.a ]] || dynamic=(-D)
    symbols=$(nm "${dynamic[@]}" --extern-only --defined-only --format=posix -- "$library" |
        awk '$2 ~ /^[A-Za-z]$/ { print $1 }')
    foreign=$(grep -v '^weft_' <<<"$symbols" || true)
    if [ -z "$symbols" ]; then
        echo "$library: defines no symbol at all"
        status=1
    elif [ -n "$foreign" ]; then
        echo "$library: symbols that do not start with weft_: ${foreign//$'\n'/ }"
        status=1
    else
        echo "$library: $(wc -l <<<"$symbols") symbols, all weft_"
    fi
done
exit $status
