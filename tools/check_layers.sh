#!/usr/bin/env bash
# Checks every #include under src/ and include/ against layers.txt.
#
#   tools/check_layers.sh [root of the repository]
#
# A file of a module includes its own module's headers, those of the modules that layers.txt allows,
# and the public ones (weft/...); never another module's *_priv.h.  Public headers include only
# public headers.  Prints file:line for all that is wrong, and exits 1 if anything was.
set -euo pipefail
cd -- "${1:-$(dirname -- "$0")/..}"

find . -type f \( -path './src/*.[ch]' -o -path './include/*.[ch]' \) -printf '%P\0' | sort -z |
    xargs -0 -r awk '
function wrong(file, line, what)
{
    printf "%s:%d: %s\n", file, line, what
    n_wrong++
}

# "module: others..." -> known[module], allowed[module, other]
function read_layers(path,    line, n, i, words, nr)
{
    while ((getline line < path) > 0) {
        nr++
        sub(/#.*/, "", line)
        if (line !~ /[^ \t]/)
            continue
        if (line !~ /^[a-z][a-z0-9_]*:/) {
            wrong(path, nr, "expected \"module: modules...\"")
            continue
        }
        n = split(line, words, /[: \t]+/)
        if (words[1] in known)
            wrong(path, nr, "module " words[1] " has two lines")
        for (i = 2; i <= n; i++) {
            if (words[i] == "")
                continue
            if (!(words[i] in known))
                wrong(path, nr, words[1] " may only name modules above it, not " words[i])
            allowed[words[1], words[i]] = 1
        }
        known[words[1]] = 1
    }
    if (nr == 0)
        wrong(path, 0, "missing or empty")
}

BEGIN { read_layers("layers.txt") }

FNR == 1 {
    n_files++
    n = split(FILENAME, part, "/")
    public = part[1] == "include"
    module = public ? "weft" : n > 2 ? part[2] : ""
    if (module == "")
        wrong(FILENAME, 1, "belongs to no module: sources lie in src/<module>/")
    else if (!public && !(module in known) && !(module in reported)) {
        wrong(FILENAME, 1, "module " module " has no line in layers.txt")
        reported[module] = 1
    }
}

/^[ \t]*#[ \t]*include[ \t]*["<]/ {
    quoted = $0 ~ /^[^"<]*"/
    name = $0
    sub(/^[^"<]*["<]/, "", name)
    sub(/[">].*/, "", name)
    target = name
    if (!sub(/\/.*/, "", target)) {
        if (quoted)
            wrong(FILENAME, FNR, "\"" name "\": write includes from src/, module first")
        next
    }
    if (target == "weft")
        next
    if (!quoted && !(target in known))
        next # the system: <sys/stat.h>
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
    if (n_wrong > 0)
        exit 1
    printf "layers: %d files keep to layers.txt\n", n_files
}' || exit 1
