#!/usr/bin/env bash
# Runs the code blocks of one page of docs/, from top to bottom, in an empty directory.  $PAGE is the
# page.  The language of a fenced block determines how it is tested:
#
#   ```sh           runs the commands; each must succeed
#   ```console      runs each "$ command" and compares its output; "..." matches any text, and no
#                   output at all matches everything; hashes of several models must be equal
#   ```c            a complete program that starts with "/* name.c": is compiled and run
#   ```yaml csv text ...   starts with "# name": is written to the file of that name
#
# A comment directly above a block changes this:
#
#   <!-- test: mpi -->        runs only if both MPIs are installed
#   <!-- test: cluster -->    commands for several machines: runs their `weft train` with --dry-run
#   <!-- test: elsewhere -->  not run: another test runs it, or it takes too long
#
# A picture of the page must equal the output of its command; WEFT_UPDATE_PICTURES=1 updates it.
here=$(realpath -- "$(dirname -- "$0")")
. "$here/../cli/common.bash"
: "${PAGE:?}" "${WEFT_SOURCE_DIR:?}" "${WEFT_BUILD_DIR:?}"

page=$WEFT_SOURCE_DIR/docs/$PAGE
mkdir "$dir/blocks" "$dir/bin" "$dir/away" "$dir/work"
ln -s "$WEFT" "$dir/bin/weft"
export PATH=$dir/bin:$PATH WEFT_MODULES=$WEFT_BUILD_DIR COLUMNS=110 NO_COLOR=1 LC_ALL=C.UTF-8
# Allows Open MPI to run as root and with more ranks than cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 HWLOC_HIDE_ERRORS=2
: >"$dir/out"
: >"$dir/err"
cd "$dir/work" || exit 1

# Replacements for launchers of other machines: they run the command itself with --dry-run.
for launcher in srun mpirun.openmpi mpirun.mpich; do
    cat >"$dir/away/$launcher" <<'AWAY'
#!/bin/bash
while [ $# -gt 0 ] && [ "$1" != weft ]; do shift; done
[ "${1-}" = weft ] || exit 1
exec "$@" --dry-run
AWAY
    chmod +x "$dir/away/$launcher"
done
printf '#!/bin/sh\nexec bash "$1"\n' >"$dir/away/sbatch"
chmod +x "$dir/away/sbatch"

# Programs of the page are built against an installation.
if grep -q 'pkg-config' "$page"; then
    DESTDIR=$dir "${CMAKE:-cmake}" --install "$WEFT_BUILD_DIR" --prefix /opt >"$dir/log" || exit 1
    export PKG_CONFIG_PATH=$dir/opt/lib/pkgconfig LD_LIBRARY_PATH=$dir/opt/lib
fi

has_mpi() {
    local mpi
    for mpi in openmpi mpich; do
        command -v "mpirun.$mpi" >/dev/null && [ -e "$WEFT_BUILD_DIR/weft-$mpi.so" ] || return 1
    done
}

if [ "$PAGE" = tour.md ]; then
    . "$here/prepare_tour.bash"
elif [ "$PAGE" = pytorch.md ]; then # profiles of two ranks
    for rank in 0 1; do
        cp "${WEFT_TEST_DATA:?}/kineto_1f1b_rank$rank.json" "rank$rank.json"
    done
fi

# Splits the page into blocks/001 etc., with their line numbers and info strings in blocks/index.
awk -v to="$dir/blocks" '
    BEGIN { printf "" > (to "/index") }
    /^```/ && !on { on = 1; name = sprintf("%03d", ++n); print name, NR, substr($0, 4) tag > (to "/index")
                    printf "" > (to "/" name); next }
    /^```/ { on = 0; next }
    !on { tag = "" }
    !on && /^<!-- test: [a-z]+ -->$/ { tag = " " $3 }
    on { print > (to "/" name) }
    !on && /^    (\$ )?(weft|mpirun|srun|cc) / { print NR ": a command outside of a block: " $0 > (to "/astray") }
' "$page"
what=$PAGE
n_checks=1
[ ! -e "$dir/blocks/astray" ] || fail "$(cat "$dir/blocks/astray")"

# run_commands FILE: runs all commands in one shell and names the one that fails.
run_commands() {
    local code=0
    bash -c "set -eEuo pipefail; trap 'echo \"failed: \$BASH_COMMAND\" >&2' ERR
$(cat "$1")" >"$dir/out" 2>"$dir/err" </dev/null || code=$?
    n_checks=$((n_checks + 1))
    [ "$code" -eq 0 ] || fail "exit code $code"
}

# check_transcript FILE: runs the "$ command" lines and compares their output.
check_transcript() {
    local line command='' want=''
    while IFS= read -r line || [ -n "$line" ]; do
        if [[ $line == '$ '* ]]; then
            compare "$command" "$want"
            command=${line#'$ '} want=
        elif [[ $command == *\\ && -z $want ]]; then
            command+=$'\n'$line
        else
            want+=$line$'\n'
        fi
    done <"$1"
    compare "$command" "$want"
}

# compare COMMAND TEXT: checks that the output equals TEXT, except for blanks at the ends of lines.
compare() {
    local got pattern code=0
    [ -n "$1" ] || return 0
    what="$PAGE: $1"
    bash -c "set -o pipefail; $1" >"$dir/out" 2>&1 </dev/null || code=$?
    : >"$dir/err"
    n_checks=$((n_checks + 1))
    # weft check exits with 5 if it finds errors, which pages show on purpose.
    [ "$code" -eq 0 ] || [[ $1 == 'weft check '* && $code -eq 5 ]] || fail "exit code $code"
    if [[ $1 == 'weft inspect --hash '* && $1 != *'|'* ]]; then # equal models
        holds test "$(cut -d ' ' -f 1 "$dir/out" | sort -u | wc -l)" -eq 1
    fi
    [ -n "$2" ] || return 0
    got=$(sed 's/ *$//' "$dir/out")
    pattern=$(printf '%s' "$2" | sed 's/ *$//; s/[][*?\\]/\\&/g; s/\.\.\.\.*/*/g')
    # shellcheck disable=SC2053 # a pattern
    [[ $got == $pattern ]] || fail "the output differs from:"$'\n'"$2"
}

# keep_file BLOCK: writes a block to the file that its first line names in a comment, and prints the name.
keep_file() {
    local name
    name=$(sed -nE '1s/^(\/\*|#|;) ([A-Za-z0-9_.-]+\.[a-z]+)\b.*/\2/p' "$1")
    [ -z "$name" ] || cp "$1" "$name"
    echo "$name"
}

programs=()
n_away=0 n_blocks=0
while read -r name line info; do
    block=$dir/blocks/$name
    what="$PAGE:$line"
    n_blocks=$((n_blocks + 1))
    case $info in
    sh) run_commands "$block" ;;
    'sh mpi') if has_mpi; then run_commands "$block"; else n_away=$((n_away + 1)); fi ;;
    'console mpi') if has_mpi; then check_transcript "$block"; else n_away=$((n_away + 1)); fi ;;
    'sh cluster')
        n_away=$((n_away + 1))
        PATH=$dir/away:$PATH run_commands "$block"
        ;;
    'sh elsewhere') n_away=$((n_away + 1)) ;;
    console) check_transcript "$block" ;;
    c)
        program=$(keep_file "$block")
        holds test -n "$program"
        programs+=("$program")
        ;;
    yaml | csv | ini | text | json | python) keep_file "$block" >/dev/null ;;
    *) fail "unknown kind of block '$info'" ;;
    esac
done <"$dir/blocks/index"

for program in "${programs[@]}"; do
    what="$PAGE: $program"
    n_checks=$((n_checks + 1))
    packages=weft
    ! grep -q 'weft/conformance\.h' "$program" || packages='weft-conformance weft'
    # shellcheck disable=SC2086
    eval "flags=($(pkg-config --cflags --libs $packages))"
    "${CC:-cc}" -std=c11 -pedantic -Wall -Wextra -Werror "$program" "${flags[@]}" -o built 2>"$dir/err" ||
        fail 'does not compile without warnings'
    # Most pages run the program themselves and show its output.
    [ -x "${program%.c}" ] || holds ./built >"$dir/out"
done

# The picture of README.md is checked with docs/schedules.md.
pictures=$(grep -oE '!\[[^]]*\]\([^)]+\)' "$page" | sed -E 's/.*\(([^)]+)\)/\1/')
[ "$PAGE" != ../README.md ] || pictures=
for picture in $pictures; do
    what="$PAGE: $picture"
    [ -z "${WEFT_UPDATE_PICTURES-}" ] || cp "$(basename "$picture")" "$(dirname "$page")/$picture"
    holds cmp "$(dirname "$page")/$picture" "$(basename "$picture")"
done

echo "$PAGE: $n_blocks blocks, $n_away of them not run unchanged"
finish
