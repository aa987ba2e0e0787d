#!/usr/bin/env bash
# Checks every #include under src/ and include/ against layers.txt, and the size of src/cli.
#
#   tools/check_layers.sh [root of the repository]
#
# A file includes its own module's headers, headers of the modules that layers.txt allows, and public
# headers (weft/...).  It never includes the *_priv.h of another module.  Public headers include only
# public headers.  src/cli only parses and prints, so it stays under 6,000 lines: what makes it grow
# belongs to a module that other front ends can use.  Prints file:line for each violation and exits with 1 if there was one.
set -euo pipefail
reader=$(cat -- "$(dirname -- "$0")/layers.awk")
cd -- "${1:-$(dirname -- "$0")/..}"

find . -type f \( -path './src/*.[ch]' -o -path './include/*.[ch]' \) -printf '%P\0' | sort -z |
    xargs -0 -r awk "$reader"'
BEGIN { read_layers("layers.txt") }

FNR == 1 {
    n_files++
    public = FILENAME ~ /^include\//
    module = public ? "weft" : module_of(substr(FILENAME, 5))
    if (module == "")
        wrong(FILENAME, 1, "its directory is not a module of layers.txt")
}

module == "cli" { n_cli++ }

/^[ \t]*#[ \t]*include[ \t]*["<]/ {
    quoted = $0 ~ /^[^"<]*"/
    name = $0
    sub(/^[^"<]*["<]/, "", name)
    sub(/[">].*/, "", name)
    if (name ~ /^weft\//)
        next
    target = module_of(name)
    if (target == "") {
        if (quoted)
            wrong(FILENAME, FNR, "\"" name "\": write the path from src/")
        next # a system header
    }
    if (public)
        wrong(FILENAME, FNR, "a public header may not include \"" name "\"")
    else if (target == module)
        next
    else if (name ~ /_priv\.h$/)
        wrong(FILENAME, FNR, "\"" name "\" is private to " target)
    else if (!((module, target) in allowed))
        wrong(FILENAME, FNR, module " may not include " target " (\"" name "\"): see layers.txt")
}

END {
    if (n_cli >= 6000)
        wrong("src/cli", n_cli, "too many lines (maximum 5999)")
    if (n_wrong > 0)
        exit 1
    printf "layers: %d files follow layers.txt; src/cli has %d lines\n", n_files, n_cli
}' || exit 1
