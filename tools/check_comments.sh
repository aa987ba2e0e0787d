#!/usr/bin/env bash
# Checks the form of the code that the formatter does not check: comments and paragraphs.
#
#   tools/check_comments.sh [root of the repository]
#
# A file begins with a comment that states what the file is responsible for.  A comment line in src/ and
# include/ has at most 96 columns, because the formatter checks only code, and the title of a section has one
# line.  The comment of a function in include/ starts with a verb in the third person ("Returns ...").  A
# function of 20 lines or more in src/ and examples/ has a blank line between its steps.  Prints each violation
# and exits with 1 if there was one.
set -euo pipefail
cd -- "${1:-$(dirname -- "$0")/..}"

# Directories in which longer comment lines and functions without paragraphs are still allowed.
unfinished='src/bench src/cli src/config src/planning/planner src/planning/sched src/planning/sim
      src/planning/trace src/planning/tune src/planning/verify src/runtime/exec src/training/inspect src/training/layout
      src/training/run src/training/settings'

find src include tests examples fuzz cmake tools \
    -name '*.[ch]' -o -name '*.sh' -o -name '*.js' -o -name '*.css' -o -name '*.cmake' -o -name '*.awk' |
    LC_ALL=C sort | LC_ALL=C xargs awk -v unfinished="$unfinished" '
function report(what)
{
    printf "%s:%d: %s\n", FILENAME, FNR, what
    n_wrong++
}

# Counts characters, not the bytes of UTF-8.
function columns(line)
{
    gsub(/[\200-\277]/, "", line)
    return length(line)
}

BEGIN {
    n_unfinished = split(unfinished, dirs)
}

FNR == 1 {
    n_files++
    first = 1 # the first line of the file, or the second after "#!"
    in_comment = 0
    last_comment = ""
    checked = FILENAME ~ /^(src|include)\/.*\.[ch]$/
    divided = FILENAME ~ /^(src|examples)\/.*\.[ch]$/
    body = 0
    for (i = 1; i <= n_unfinished; i++)
        if (index(FILENAME, dirs[i] "/") == 1)
            checked = divided = 0
}

FNR == 1 && /^#!/ { next }
first {
    first = 0
    if ($0 !~ /^(\/\*|#) +[^ ]+ +[^ ]+/)
        report("the file does not begin with a comment that states what it is responsible for")
}

# "last_comment" is the text of the comment that ended in the line before.
{
    starts = /^ *\/\*/
    if (starts)
        text = ""
    if (starts || in_comment) {
        line = $0
        sub(/^ *(\/\*|\*\/?) */, "", line)
        text = text " " line
        if (checked && columns($0) > 96)
            report("a comment line has " columns($0) " columns; expected at most 96")
        if (checked && starts && / -- / && !/\*\//)
            report("the title of a section has more than one line")
    }
    in_comment = (starts || in_comment) && !/\*\//
}
FILENAME ~ /^include\// && /^WEFT_API / {
    n_functions++
    word = last_comment
    sub(/^ *(Unstable: )?/, "", word)
    if (word !~ /^[A-Z][a-z]*s[ ,]/)
        report("the comment of the function does not start with a verb in the third person")
}
{ last_comment = /\*\/$/ && text !~ /^ -- / ? text : "" }

# Functions: clang-format puts their braces at the start of a line.
/^\{$/ { body = FNR; blank = 0 }
/^$/ { blank = 1 }
/^\}$/ && body {
    if (divided && FNR - body > 20 && !blank)
        report("the function has " FNR - body - 1 " lines without a blank line between its steps")
    body = 0
}

END {
    if (n_wrong > 0)
        exit 1
    printf "comments: %d files begin with one, %d public functions have one\n", n_files, n_functions
}' || exit 1
