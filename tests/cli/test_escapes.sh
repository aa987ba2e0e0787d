#!/usr/bin/env bash
# Checks that no command passes escape sequences of names and files to a terminal.
. "$(dirname -- "$0")/common.bash"

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
esc=$'\033]0;title\007\033[31m'
c1=$'\302\2332J'
cp -r "$tiny" "m$esc"
settings=(--model.dir="m$esc" --data.train="m$esc/tokens.bin" --data.batch=4 --data.seq=8 --train.steps=2
    --checkpoint.every=1 --parallel.threads=1 --optim.decay_steps=10)

# clean CODE ARGS...: runs weft and checks that neither output contains a control character.
clean() {
    run "$@"
    holds test -z "$(LC_ALL=C tr -d '\n\t\40-\176\200-\377' <"$dir/out" | od -An -c)"
    holds test -z "$(LC_ALL=C tr -d '\n\t\40-\176\200-\377' <"$dir/err" | od -An -c)"
    holds test "$(LC_ALL=C grep -c $'\302\233' "$dir/out" "$dir/err" | cut -d: -f2 | tr -d '\n')" = 00
}

clean 0 train "${settings[@]}" --log.dir="r$esc$c1"
out_has 'run      r?]0;title??[31m'
clean 2 train "${settings[@]}" --log.dir="r$esc$c1"
clean 0 train "${settings[@]}" --log.dir="r$esc$c1" --print-config
clean 0 train "${settings[@]}" --log.dir="z$esc" --dry-run
clean 0 train "${settings[@]}" --log.dir="r$esc$c1" --checkpoint.resume=auto --train.steps=3
# The command that continues a run works although the terminal shows no control character.
clean 0 train "${settings[@]}" --log.dir="z$esc" --train.steps=100000000 --train.max_time=0.5
out_has "resume   weft train \$'z\\033]0;title\\007\\033[31m/config.yaml' --checkpoint.resume=auto"

clean 0 inspect "r$esc$c1" "r$esc$c1/config.yaml" "r$esc$c1/model" "r$esc$c1/checkpoints/step-00000003"
out_has 'r?]0;title??[31m'
clean 0 inspect --json "r$esc$c1"
clean 0 inspect --hash "r$esc$c1"
clean 3 inspect "no$esc"
# Text of a file: the name of a tensor, and a value of the settings.
header='{"a\u001b[31m":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   '
{
    # shellcheck disable=SC2059 # an octal escape
    printf "\\$(printf %03o ${#header})\0\0\0\0\0\0\0"
    printf '%s\0\0\0\0' "$header"
} >t.safetensors
clean 4 inspect t.safetensors
err_has 'a?[31m'
printf 'data:\n  train: "a\\e[31mb"\n' >c.yaml
clean 0 inspect c.yaml
out_has 'a?[31mb'

clean 0 report "r$esc$c1" -o "p$esc.html"
clean 3 report "no$esc"
clean 0 eval --model "r$esc$c1" --data "m$esc/tokens.bin" --batches 1
clean 3 eval --model "r$esc$c1" --data "no$esc"
clean 0 convert "r$esc$c1" "o$esc"
clean 2 convert "r$esc$c1" "o$esc"
clean 4 generate --model "no$esc" --prompt x
clean 0 plan -s 1f1b -p 2 -m 2 -o "p$esc.csv"
clean 0 check "p$esc.csv"
clean 0 simulate -s "p$esc.csv"
clean 2 plan -s "no$esc"
clean 2 "no$esc"
seq 100 >"t$esc.txt"
clean 0 tokenize "t$esc.txt" -o "d$esc"
clean 2 tokenize "t$esc.txt" -o "d$esc"

finish
