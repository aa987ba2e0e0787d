#!/usr/bin/env bash
# The command lines of docs/tutorial.md, one after the other.
. "$(dirname -- "$0")/common.bash"

mkdir bin
ln -s "$WEFT" bin/weft
export PATH=$dir/bin:$PATH
awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' "$WEFT_SOURCE_DIR/docs/tutorial.md" >lines
# shellcheck disable=SC2013
n=0 line=
while IFS= read -r part; do
    line+=$part
    if [[ $line == *\\ ]]; then
        line=${line%\\}
        continue
    fi
    what=$line
    bash -c "$line" >out 2>err </dev/null || fail "exit code $?"
    n=$((n + 1))
    case $line in
    'weft inspect --hash'*) holds test "$(cut -d ' ' -f 1 out | sort -u | wc -l)" -eq 1 ;;
    esac
    line=
done <lines
holds test "$n" -ge 20
holds test -s two.svg
holds test -s both.html
holds test -e small/model.safetensors

finish
