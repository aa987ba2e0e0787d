#!/usr/bin/env bash
# Checks that all tracked C files are formatted by .clang-format, and the form of their comments, which
# clang-format does not change.
#
#   tools/check_format.sh          prints the differences and exits with 1
#   tools/check_format.sh --fix    rewrites the files, but not their comments
set -euo pipefail
cd -- "$(dirname -- "$0")/.."

case "${1-}" in
'') args=(--dry-run -Werror) ;;
--fix) args=(-i) ;;
*) echo "usage: tools/check_format.sh [--fix]" >&2; exit 2 ;;
esac
[ "${args[0]}" = -i ] || tools/check_comments.sh
command -v clang-format >/dev/null ||
    { echo 'clang-format is missing: run "tools/setup.sh --dev" first' >&2; exit 1; }

list=$(mktemp)
trap 'rm -f "$list"' EXIT
# Skips tracked files that were removed from the working tree.
git ls-files -z -- '*.c' '*.h' |
    while IFS= read -r -d '' file; do
        [ ! -f "$file" ] || printf '%s\0' "$file"
    done >"$list"
xargs -0 -r -n 32 clang-format "${args[@]}" --style=file <"$list"
echo "format: $(tr -cd '\0' <"$list" | wc -c) files"
