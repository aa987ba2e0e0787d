#!/usr/bin/env bash
# Checks that --help of every command names every option, and that the man pages and the completion are
# well-formed.
. "$(dirname -- "$0")/common.bash"

run 0 --help
out_has 'usage: weft COMMAND'
run 0 --version
out_has 'weft '
run 0 help
out_has 'usage: weft COMMAND'
run 2 help nonsense
err_has "no command 'nonsense'"
run 2 help --man nonsense
err_has "no command 'nonsense'"

run 0 help --man
holds test "$(head -c 9 out)" = '.TH WEFT '
cp out man
# The formatter reports no warnings.
well_formed() {
    if command -v mandoc >/dev/null; then
        holds mandoc -T lint -W error "$1"
    elif command -v groff >/dev/null; then
        holds test -z "$(groff -man -ww -T utf8 "$1" 2>&1 >/dev/null)"
    fi
}
well_formed man
run 0 help --completion
holds bash -n out
cp out completion

# Output to a full disk is an error for every kind of help.
for args in --version --help help 'help --man' 'help --man train' 'help --completion' 'help plan' 'plan --help' 'plan --list'; do
    to_full $args
done

# The completion has exactly the options of each command.
for command in $("$WEFT" --help | awk '/^  [a-z]+ +[a-z]/ && $1 != "weft" { print $1 }'); do
    run 0 "$command" --help
    out_has "usage: weft $command"
    out_has 'Examples:'
    out_has "  weft $command"
    cp out help
    run 0 help "$command"
    holds cmp out help
    run 0 help --man "$command"
    cp out page
    well_formed page
    for part in NAME SYNOPSIS DESCRIPTION OPTIONS EXAMPLES 'EXIT STATUS' 'SEE ALSO'; do
        holds grep -qE "^\.SH \"?$part\"?\$" page
    done
    cp help out
    options=$(awk -v c="    $command)" '$0 == c { on = 1 } on && /\*\) words=/ { print; exit }' completion |
        grep -o -- '--[a-z-]*')
    holds test -n "$options"
    for option in $options; do
        [ "$option" != --help ] || continue
        out_has "$option"
        holds grep -qF -- "$(printf '%s' "$option" | sed 's/-/\\-/g')" man
        holds grep -qF -- "$(printf '%s' "$option" | sed 's/-/\\-/g')" page
    done
done

# Completions.
offers() {
    bash -c '. ./completion; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weft; printf "%s\n" "${COMPREPLY[@]}"' _ "$@" >out
}
what='completion'
offers weft pl
holds grep -qx plan out
offers weft plan --schedule zb-
holds grep -qx zb-h1 out
offers weft plan --format p
holds grep -qx pytorch out
offers weft check --tr
holds grep -qx -- --transport out

finish
