#!/usr/bin/env bash
# Checks docs/reference-systems.md: every row has three cells and is complete, every test file that it links
# exists, and every name of weft that it gives exists: functions, structs and constants in the public headers, commands and
# options in --help, settings in --print-config, schedules in --list.
set -uo pipefail
: "${WEFT:?}" "${WEFT_SOURCE_DIR:?}"
cd -- "$WEFT_SOURCE_DIR" || exit 1
n_rows=0 n_names=0 bad=0
wrong() { echo "docs/reference-systems.md:$line: $*" && bad=$((bad + 1)); }

names=$(grep -ohE '\b(weft|WEFT)_[A-Za-z0-9_]+' include/weft/*.h | sort -u)
options=$(for command in plan simulate compare tune train check draw inspect eval convert; do
    "$WEFT" help $command | grep -oE '(^|[ ,])--[a-z][a-z-]*' | tr -d ' ,'
done | sort -u)
settings=$("$WEFT" train --print-config |
    awk '/^[a-z]+:/ { group = $1; sub(/:/, "", group) } /^  [a-z0-9_]+:/ { sub(/:.*/, "", $1); print group "." $1 }')
schedules=$("$WEFT" plan --list | awk 'NF { print $1 }')
commands=$("$WEFT" --help | awk '/^  [a-z]+ +[a-z]/ { print $1 }')
has() { grep -qxF -e "$2" <<<"$1"; }

# check_name NAME: a text in backquotes in the column of weft.
check_name() {
    local name=$1
    n_names=$((n_names + 1))
    case $name in
    weft/*.h) [ -e "include/$name" ] ;;
    'weft '*) has "$commands" "${name#weft }" ;;
    'struct '* | 'enum '*) has "$names" "${name#* }" ;;
    weft_* | WEFT_*) has "$names" "$name" ;;
    --*) has "$options" "$name" ;;
    *.*) has "$settings" "$name" ;;
    *) has "$schedules" "$name" ;;
    esac || wrong "weft has no '$name'"
}

line=0
while IFS= read -r text; do
    line=$((line + 1))
    [[ $text == '| '* && $text != '| item |'* ]] || continue
    n_rows=$((n_rows + 1))
    IFS='|' read -r _ item weft tests rest <<<"$text"
    [ -z "$rest" ] && [ -n "${item// /}" ] && [ -n "${weft// /}" ] || wrong 'not three cells'
    ! grep -qiE '\b(missing|partly|todo)\b|pending' <<<"$text" || wrong 'the row is not complete'
    found=$(grep -oE '`[^`]+`' <<<"$weft" | tr -d '`')
    [ -n "$found" ] || grep -qE '\bWEFT_' <<<"$weft" || wrong 'names nothing of weft'
    while IFS= read -r name; do
        [ -z "$name" ] || check_name "$name"
    done <<<"$found"
    files=$(grep -oE '\(\.\./tests/[^)]+\)' <<<"$tests" | tr -d '()')
    [ -n "$files" ] || wrong 'names no test'
    for file in $files; do
        [ -e "docs/$file" ] || wrong "no test $file"
    done
done <docs/reference-systems.md

line=0
! grep -nE '<!--' docs/reference-systems.md || wrong 'a comment, which readers do not see'
echo "$n_rows rows, $n_names names, $bad errors"
[ "$bad" -eq 0 ] && [ "$n_rows" -gt 100 ]
