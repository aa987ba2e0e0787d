#!/usr/bin/env bash
# Checks the Markdown pages of the project: relative links lead to existing files and headings, every
# page can be reached from README.md, README.md has at most 120 lines, and prose is at most 100 columns
# wide.
set -uo pipefail
cd -- "${WEFT_SOURCE_DIR:?}" || exit 1
n=0 bad=0

# Prints the anchors of a page's headings: lower case, dashes for blanks, without punctuation.
anchors() {
    awk '/^```/ { on = !on } !on && /^#+ / { sub(/^#+ +/, ""); print }' "$1" |
        tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

while IFS= read -r page; do
    while IFS= read -r link; do
        [[ $link != *://* && $link != mailto:* ]] || continue
        n=$((n + 1))
        file=${link%%#*} anchor=
        [[ $link != *#* ]] || anchor=${link#*#}
        path=$page
        [ -z "$file" ] || path=$(dirname "$page")/$file
        if [ ! -e "$path" ]; then
            echo "$page: $link: no such file" && bad=$((bad + 1))
        elif [ -n "$anchor" ] && ! anchors "$path" | grep -qxF -- "$anchor"; then
            echo "$page: $link: no such heading" && bad=$((bad + 1))
        fi
    done < <(awk '/^```/ { on = !on } !on' "$page" | grep -oE '\]\([^) ]+\)' | sed -E 's/^\]\((.*)\)$/\1/')
done < <(ls ./*.md && find docs -name '*.md')

# Every page can be reached from README.md in a few clicks.
reached=README.md
while :; do
    more=$(for page in $reached; do
        echo "$page"
        awk '/^```/ { on = !on } !on' "$page" 2>/dev/null | grep -oE '\]\([^)# ]+\.md' | sed 's/^](//' |
            while read -r link; do realpath --relative-to=. "$(dirname "$page")/$link"; done
    done | sort -u)
    [ "$more" != "$reached" ] || break
    reached=$more
done
while IFS= read -r page; do
    grep -qxF "$page" <<<"$reached" || { echo "no page links to $page" && bad=$((bad + 1)); }
done < <(find docs -name '*.md')

# Width and length.  Tables and code are exempt.
while IFS= read -r line; do
    echo "$line" && bad=$((bad + 1))
done < <(awk '/^```/ { on = !on } !on && !/^\|/ && !/^<!--/ && length > 100 && / / { print FILENAME ":" FNR ": wider than 100 columns" }' \
    ./*.md $(find docs -name '*.md'))
[ "$(wc -l <README.md)" -le 120 ] || { echo 'README.md has more than 120 lines' && bad=$((bad + 1)); }

echo "$n links, $bad errors"
[ "$bad" -eq 0 ] && [ "$n" -gt 0 ]
