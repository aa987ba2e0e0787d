#!/usr/bin/env bash
# Checks that every name has one meaning under src/ and include/.
#
#   tools/check_names.sh [root of the repository]
#
# A tag (struct, union, enum) and a non-static function are defined once, and a static function does not
# have the name of a non-static one.  Static functions of different files may share a name.  Prints each
# violation and exits with 1 if there was one.
set -euo pipefail
cd -- "${1:-$(dirname -- "$0")/..}"

find src include -name '*.[ch]' -print0 | sort -z | xargs -0 -r awk '
function report(what, name, first, second)
{
    printf "%s: %s %s is also defined in %s\n", second, what, name, first
    n_wrong++
}

# clang-format puts definitions at the start of a line.  A function definition ends with the line "{".
FNR == 1 { pending = ""; body = "" }

/^(struct|union|enum) [a-z_][a-z0-9_]* \{/ && !/WEFT_ISA/ {
    tag = $2
    if (tag in tag_file)
        report("tag", tag, tag_file[tag], FILENAME)
    tag_file[tag] = FILENAME
    n_tags++
}

/^(static )?(inline )?[a-z_][a-zA-Z0-9_ *]*[ *][a-z_][a-z0-9_]*\(/ && !/;$/ { pending = $0 }
/;$/ { pending = "" }
/^\{/ && pending != "" {
    name = pending
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    if (pending ~ /^static /) {
        if (!(name in static_file))
            static_file[name] = FILENAME
    } else {
        if (name in function_file && name != "main")
            report("function", name, function_file[name], FILENAME)
        function_file[name] = FILENAME
        n_functions++
    }
    pending = ""
}

END {
    for (name in static_file)
        if (name in function_file && function_file[name] != static_file[name])
            report("function", name, function_file[name], static_file[name])
    if (n_wrong > 0)
        exit 1
    printf "names: %d tags and %d functions are unique\n", n_tags, n_functions
}' || exit 1
