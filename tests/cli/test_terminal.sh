#!/usr/bin/env bash
# Checks the progress bar on a pseudo-terminal (script, from bsdutils): it is redrawn in place, fits and
# is removed.  Without a terminal there is no bar.
. "$(dirname -- "$0")/common.bash"
export TERM=xterm

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
cat >run.yaml <<END
model: {dir: "$tiny"}
data: {train: "$tiny/tokens.bin", seq: 24, batch: 8, val: "$tiny/tokens.bin"}
parallel: {micros: 4, threads: 1}
train: {steps: 40}
END

lacks() { ! grep "$@"; }

# on_terminal CODE COLUMNS COMMAND: writes the output of COMMAND to raw, and the final contents of the
# screen to seen.  It interprets carriage return and "clear to the end of the line", which weft uses.
on_terminal() {
    local code=0
    what=$3
    script -qec "stty cols $2; exec $3" /dev/null >raw 2>err </dev/null || code=$?
    render_screen "$1" "$code"
}
render_screen() {
    n_checks=$((n_checks + 1))
    [ "$2" -eq "$1" ] || fail "exit code $2, want $1"
    tr -d '\a' <raw | sed 's/\r$//' | awk '{
        line = ""
        n = split($0, parts, "\r")
        for (i = 1; i <= n; i++) {
            part = parts[i]
            if (sub(/\033\[K/, "", part)) line = part
            else line = part substr(line, length(part) + 1)
        }
        print line
    }' >seen
    cp seen out
}
# Prints every bar that was drawn, one per line.
bars() { tr '\r' '\n' <raw | sed -n 's/\x1b\[K$//; /^\(step\|tokens\|learning\) .*%/p'; }
no_bar_is_left() { holds lacks -q '%\|\[[#.]\|'$'\033' <(grep -v '^step.*| eta\|^machine' seen); }
fits() { bars >drawn; holds test -s drawn; holds test "$(awk '{ if (length > n) n = length } END { print n }' drawn)" -le "$1"; }

for columns in 200 60 20; do
    on_terminal 0 $columns "$WEFT train run.yaml --eval.every=20"
    fits $((columns - 3))
    no_bar_is_left
    holds test "$(grep -c '^step .*eta' seen)" -eq 21 # 1, 2, 4 ... 40
    holds test "$(grep -c '^eval' seen)" -eq 2
done
on_terminal 0 100 "$WEFT train run.yaml"
bars >drawn
holds grep -q '^step 1/40 \[\.*\]   2% | loss 4\.[0-9]* | eta 0:[0-9:]* | [0-9,]* tok/s$' drawn
holds grep -q '^step 40/40 \[#*\] 100% | loss ' drawn

# The terminal becomes narrower after the first bar; then the test waits for two bars that fit.
cat >narrow.sh <<END
wait_for_bars() { # COUNT COLUMNS: waits for COUNT complete bars of at most COLUMNS columns
    for _ in \$(seq 300); do
        tr '\r' '\n' <raw | awk -v n=\$1 -v max=\$2 '
            /^step .*%.*\033\[K\$/ && length <= max + 3 { n-- } END { exit n > 0 }' && return
        sleep 0.1
    done
}
stty cols 120
$WEFT train run.yaml --train.steps=100000000 --train.max_time=90 --log.every=100000000 & run=\$!
wait_for_bars 1 117
stty cols 50
wait_for_bars 2 47
kill -TERM \$run
wait \$run
END
on_terminal 143 120 'bash narrow.sh'
bars >drawn
holds test "$(tail -n 2 drawn | awk '{ print (length > 47) }' | sort -u)" = 0
holds test "$(head -n 1 drawn | wc -c)" -gt 50

# Without a bar, lines are printed.
NO_COLOR=1 on_terminal 0 100 "$WEFT train run.yaml"
holds test "$(grep -c '^step' seen)" -eq 40
holds lacks -q $'\033' raw
TERM=dumb on_terminal 0 100 "$WEFT train run.yaml --log.every=10"
holds test "$(grep -c '^step' seen)" -eq 5
holds lacks -q $'\033' raw
run 0 train run.yaml
holds test "$(grep -c '^step' out)" -eq 40
holds lacks -q $'\r' out

# Checkpoints, warnings and errors have their own lines.
on_terminal 0 100 "$WEFT train run.yaml --log.dir=a --checkpoint.every=20"
out_has 'saved    checkpoint of step 20'
no_bar_is_left
cp "$tiny/tokens.bin" late.bin
chmod u+w late.bin
printf '\377\377' | dd of=late.bin bs=1 seek=$((1024 + 2 * 250)) conv=notrunc status=none
on_terminal 3 100 "$WEFT train run.yaml --data.train=late.bin"
holds grep -q '^weft: .*token 250' seen
no_bar_is_left

# Ctrl-C is pressed once.
what='Ctrl-C'
code=0
{
    for _ in $(seq 1 300); do [ -s b/metrics.jsonl ] && break; sleep 0.1; done
    printf '\003'
    sleep 2
} | script -qec "stty cols 100; exec $WEFT train run.yaml --train.steps=100000000 --log.dir=b" /dev/null >raw 2>err || code=$?
render_screen 130 "$code"
out_has 'stopping after this step'
out_has 'received a signal'
no_bar_is_left

# weft tokenize has a bar, too.
seq 1 200000 >text.txt
on_terminal 0 80 "$WEFT tokenize text.txt -o data --threads 1"
fits 77
no_bar_is_left
TERM=dumb on_terminal 0 80 "$WEFT tokenize text.txt -o data2 --threads 1"
holds lacks -q $'\033' raw

finish
