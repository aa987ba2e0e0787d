# Reads layers.txt, for tools/check_layers.sh and tools/check_links.sh.

function wrong(file, line, what)
{
    printf "%s:%d: %s\n", file, line, what
    n_wrong++
}

# Fills floor_of[module] and allowed[module, other].
function read_layers(path,    line, n, i, words, nr, floor, below)
{
    while ((getline line < path) > 0) {
        nr++
        sub(/#.*/, "", line)
        if (line !~ /[^ \t]/)
            continue
        n = split(line, words, /[: \t]+/)
        if (line ~ /^floor [a-z]+:/) {
            floor = words[2]
            for (i = 3; i <= n; i++)
                if (words[i] != "") {
                    if (!(words[i] in floors))
                        wrong(path, nr, "floor " floor " may only name floors above it, not " words[i])
                    below[floor, words[i]] = 1
                }
            floors[floor] = 1
            continue
        }
        if (line !~ /^[a-z][a-z0-9_]*:/ || floor == "") {
            wrong(path, nr, "expected \"floor name: floors...\" or \"module: modules...\"")
            continue
        }
        if (words[1] in floor_of)
            wrong(path, nr, "module " words[1] " has two lines")
        for (i = 2; i <= n; i++) {
            if (words[i] == "")
                continue
            if (!(words[i] in floor_of))
                wrong(path, nr, words[1] " may only name modules above it, not " words[i])
            else if (floor_of[words[i]] != floor && !((floor, floor_of[words[i]]) in below))
                wrong(path, nr, words[1] " may not use " words[i] ": floor " floor \
                      " does not stand on floor " floor_of[words[i]])
            allowed[words[1], words[i]] = 1
        }
        floor_of[words[1]] = floor
    }
    if (nr == 0)
        wrong(path, 0, "missing or empty")
}

# The module of a path relative to src/: "planning/sched/gen/tick.c" -> "sched", "cli/main.c" ->
# "cli", "" if there is none.
function module_of(path,    part, n)
{
    n = split(path, part, "/")
    if (n > 2 && part[2] in floor_of && floor_of[part[2]] == part[1])
        return part[2]
    return n > 1 && part[1] in floor_of ? part[1] : ""
}
