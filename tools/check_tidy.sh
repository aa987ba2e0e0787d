#!/usr/bin/env bash
# Runs clang-tidy, including the clang static analyser, with the checks of .clang-tidy on src/.
#
#   tools/check_tidy.sh [--no-analyser] [FILE...]      without files: all of src/
#
# Compiler options are those of build/release.  Prints the warnings and exits with 1 if there is one.
set -euo pipefail
cd -- "$(dirname -- "$0")/.."

options=(--quiet --extra-arg=-UNDEBUG) # assertions inform the analyser
if [ "${1-}" = --no-analyser ]; then
    options+=(--checks=-clang-analyzer-*)
    shift
fi
command -v clang-tidy >/dev/null ||
    { echo 'clang-tidy is missing: run "tools/setup.sh --dev" first' >&2; exit 1; }
[ -f build/release/compile_commands.json ] || { echo 'tidy: run "make" first' >&2; exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Keeps the first command of each file: kernels are compiled once per instruction set.
awk 'BEGIN { RS = "}"; printf "[" }
    match($0, /"file": "[^"]*"/) {
        file = substr($0, RSTART, RLENGTH)
        if (file ~ /\/src\// && !seen[file]++) {
            sub(/^[^{]*/, "")
            printf "%s%s}", n++ ? "," : "", $0
        }
    }
    END { print "]" }' build/release/compile_commands.json >"$folder/compile_commands.json"

[ $# -gt 0 ] || mapfile -t -d '' all < <(find src -name '*.c' -print0 | sort -z)
[ $# -gt 0 ] || set -- "${all[@]}"
status=0
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p "$folder" "${options[@]}" \
    >"$folder/out" 2>"$folder/err" || status=1
# stderr has the counts of suppressed warnings, and errors of clang-tidy itself.
grep -v 'warnings\? generated\|warnings\? treated as error\|^Suppressed\|^Use -header-filter' "$folder/err" >&2 || true
cat "$folder/out"
[ $status -eq 0 ] || exit 1
echo "tidy: $# files"
