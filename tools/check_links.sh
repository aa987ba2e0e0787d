#!/usr/bin/env bash
# Checks the symbols that object files use against layers.txt.
#
#   tools/check_links.sh [build directory]
#
# Public headers may be included everywhere, so tools/check_layers.sh cannot see a call from one module
# into another one through them.  The objects show it: every symbol that an object leaves undefined
# and another object of src/ defines is a use of that object's module.  The script also reports names
# that two objects define.  Prints each violation and exits with 1 if there was one.
set -euo pipefail
root=$(cd -- "$(dirname -- "$0")/.." && pwd)
build=$(cd -- "${1:-$root/build/release}" && pwd)
reader=$(cat -- "$root/tools/layers.awk")
cd -- "$root"

# Objects of the sources that exist; an incremental build may leave others behind.
objects() {
    local object source
    find "$build/CMakeFiles" -path '*.dir/src/*.c.o' | sort | while IFS= read -r object; do
        source=${object##*.dir/}
        [ ! -f "${source%.o}" ] || printf '%s\0' "$object"
    done
}

# Each line: object, symbol, type.
objects |
    xargs -0 -r nm -A -g --format=posix |
    awk "$reader"'
BEGIN { read_layers("layers.txt") }

{
    object = $1
    sub(/\[.*/, "", object)
    sub(/:$/, "", object)
    target = object
    sub(/\.dir\/.*/, "", target)
    sub(/.*\//, "", target)
    sub(/.*\.dir\/src\//, "", object)
    sub(/\.o$/, "", object)
    if (target ~ /^weft_(openmpi|mpich)$/)
        next # modules that are loaded at run time; they have their own copy of base/error.c
    if (!(object in seen)) {
        seen[object] = 1
        n_objects++
    }
    if ($3 == "U")
        used[object, $2] = 1
    else if ($3 ~ /^[TDBRC]$/) {
        if ($2 in defined_by && defined_by[$2] != object) {
            printf "%s: defined in %s and in %s\n", $2, defined_by[$2], object
            n_wrong++
        }
        defined_by[$2] = object
    }
}

END {
    for (pair in used) {
        split(pair, part, SUBSEP)
        if (!(part[2] in defined_by))
            continue
        from = module_of(part[1])
        to = module_of(defined_by[part[2]])
        if (from == to || (from, to) in allowed)
            continue
        printf "src/%s: calls %s of %s, but %s may not use %s: see layers.txt\n", part[1], part[2],
               defined_by[part[2]], from, to
        n_wrong++
    }
    if (n_objects == 0) {
        print "no object files: build first"
        n_wrong++
    }
    if (n_wrong > 0)
        exit 1
    printf "links: %d objects follow layers.txt\n", n_objects
}' || exit 1
