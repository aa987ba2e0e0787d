#!/usr/bin/env bash
# Builds every program of examples/ (a file, or a directory with main.c) against an installation, as C11 and
# as C++17 without warnings, and runs it as its first comment shows: "./a.out ..." on threads; as C11 also
# "mpirun -n N ./a.out ..." under every MPI that is installed.  The public headers compile as C++17, too.
set -euo pipefail
: "${WEFT_BUILD_DIR:?}" "${WEFT_SOURCE_DIR:?}" "${CMAKE:=cmake}" "${CC:=cc}" "${CXX:=g++}"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
DESTDIR=$folder "$CMAKE" --install "$WEFT_BUILD_DIR" --prefix /opt/weft >"$folder/log"
root=$folder/opt/weft
export PKG_CONFIG_PATH=$root/lib/pkgconfig LD_LIBRARY_PATH=$root/lib
unset WEFT_MODULES # an installed library finds its modules
eval "flags=($(pkg-config --cflags --libs weft-conformance weft))"
warnings=(-pedantic -Wall -Wextra -Werror)

fail() {
    echo "examples: $*" >&2
    sed 's/^/    /' "$folder/out" >&2
    exit 1
}
: >"$folder/out"

# Allows more ranks than cores, also as root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_orte_tmpdir_base=$folder HWLOC_HIDE_ERRORS=2
mpis=()
for mpi in openmpi mpich; do
    if command -v "mpirun.$mpi" >/dev/null && [ -e "$WEFT_BUILD_DIR/weft-$mpi.so" ]; then
        mpis+=("$mpi")
    fi
done

# The public functions are convenient enough: a program that trains and generates is short.
n_lines=$(wc -l <"$WEFT_SOURCE_DIR/examples/train.c")
[ "$n_lines" -lt 60 ] || fail "train.c has $n_lines lines (maximum 59)"

compilers=("$CC -std=c11")
if command -v "$CXX" >/dev/null; then
    compilers+=("$CXX -x c++ -std=c++17")
    for header in "$root"/include/weft/*.h; do
        echo "#include <weft/${header##*/}>" >"$folder/header.cpp"
        "$CXX" -std=c++17 "${warnings[@]}" "${flags[@]}" -fsyntax-only "$folder/header.cpp"
    done
else
    echo "examples: $CXX is not installed; only C11 is tested"
fi

n_runs=0
# run COMMAND...: runs an example in an empty directory with a text that it may read.
run() {
    rm -rf "$folder/work"
    mkdir "$folder/work"
    cp "$WEFT_SOURCE_DIR/README.md" "$folder/work/book.txt"
    (cd "$folder/work" && timeout -k 5 120 "$@") >"$folder/out" 2>&1 </dev/null ||
        fail "$what: '$*' fails"
    n_runs=$((n_runs + 1))
}

# run_all PROGRAM SOURCE MPI...: runs the commands of the first comment.  A description follows two blanks.
run_all() {
    local program=$1 source=$2 line words n=0
    shift 2
    while IFS= read -r line; do
        read -ra words <<<"${line%%  *}"
        n=$((n + 1))
        case ${words[0]} in
        ./a.out) run "$program" "${words[@]:1}" ;;
        mpirun) # -n N ./a.out ...
            for mpi; do
                run "mpirun.$mpi" -n "${words[2]}" "$program" "${words[@]:4}"
            done
            ;;
        esac
    done < <(sed -n '1,/\*\//s/^ \*  *\(\(\.\/a\.out\|mpirun\).*\)/\1/p' "$source" | sed 's/ *\*\/$//')
    [ "$n" -gt 0 ] || fail "$what: the first comment has no line './a.out ...'"
    # A program that starts ranks under MPI shows it.
    ! grep -q weft_comm_run_mpi "$source" || sed '/\*\//q' "$source" | grep -q 'mpirun -n [0-9]' ||
        fail "$what: the first comment has no line 'mpirun -n N ./a.out ...'"
}

for source in "$WEFT_SOURCE_DIR"/examples/*.c "$WEFT_SOURCE_DIR"/examples/*/main.c; do
    sources=("$source")
    [[ $source != */main.c ]] || sources=("${source%/*}"/*.c)
    for compiler in "${compilers[@]}"; do
        what="${source#"$WEFT_SOURCE_DIR"/examples/} with $compiler"
        # shellcheck disable=SC2086 # words
        $compiler "${warnings[@]}" -O1 "${sources[@]}" -x none "${flags[@]}" -lm -o "$folder/example" ||
            fail "$what: does not compile without warnings"
        case $compiler in
        *c++*) run_all "$folder/example" "$source" ;;
        *) run_all "$folder/example" "$source" "${mpis[@]}" ;;
        esac
    done
done
echo "examples: $n_runs runs; ${#compilers[@]} languages; MPI: ${mpis[*]:-none}"
