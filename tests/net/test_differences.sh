#!/usr/bin/env bash
# Checks runs under $MPI in which one rank has a different setting, schedule, data file or program.  All
# ranks exit with code 2 before the first step, and the message names the rank and the difference.  Ranks
# may have different instruction sets.
set -euo pipefail
here=$(dirname -- "${BASH_SOURCE[0]}")
# shellcheck source=tests/net/ranks.sh
. "$here/ranks.sh"

train+=(--train.timeout=60) # no time-outs, even on a busy machine
usual=(--train.steps=3 --parallel.pp=3 "--log.dir=$folder/run")

# differs NAME WORDS COMMAND...: rank 1 of three runs COMMAND.
differs() {
    local words=$2
    case_name="another $1"
    shift 2
    rm -rf "$folder/run"
    run_all -n 1 "${train[@]}" "${usual[@]}" : -n 1 "$@" : -n 1 "${train[@]}" "${usual[@]}"
    is_code 2 || fail "exit code $code"
    grep -q "^weft: rank 1 does not have the $words" "$folder/err" || fail "'$words' is not printed"
    ! grep -q '^step' "$folder/out" || fail 'a step was run'
    nothing_left || await "$patience" nothing_left || fail "processes are still running: $(all_left)"
}
# same_but PROGRAM [FLAG]: sets `other` to the usual command with this flag replaced.
same_but() {
    local program=$1 flag=${2-} word
    other=("$program")
    for word in "${train[@]:1}" "${usual[@]}"; do
        [ "${word%%=*}" = "${flag%%=*}" ] || other+=("$word")
    done
    [ -z "$flag" ] || other+=("$flag")
}

# The number of threads may differ.
same_but "$WEFT" --parallel.threads=2
run_all -n 1 "${train[@]}" "${usual[@]}" : -n 1 "${other[@]}" : -n 1 "${train[@]}" "${usual[@]}"
[ $code -eq 0 ] || fail "no difference: exit code $code"
# A rank with invalid settings ends before settings are compared.
for flag in --optim.lr=much --parallel.pp=0 --no-such-flag; do
    case_name="$flag on one rank"
    same_but "$WEFT" $flag
    run_all -n 1 "${train[@]}" "${usual[@]}" : -n 1 "${other[@]}" : -n 1 "${train[@]}" "${usual[@]}"
    is_code 2 || fail "exit code $code"
    grep -q "^weft: .*${flag%%=*}" "$folder/err" || fail 'the flag is not named'
    ! grep -q '^step' "$folder/out" || fail 'a step was run'
done

same_but "$WEFT" --optim.lr=2e-3
differs 'learning rate' "settings of rank 0: in optim rank 0 has 'lr: 0.001.*' and rank 1 'lr: 0.002" \
    "${other[@]}"
same_but "$WEFT" --parallel.schedule=gpipe
differs 'name of a schedule' \
    "settings of rank 0: in parallel rank 0 has 'schedule: .1f1b.*' and rank 1 'schedule: gpipe" \
    "${other[@]}"
same_but "$WEFT" --train.precision=bf16
differs precision "settings of rank 0: in train rank 0 has 'precision: fp32" "${other[@]}"

# Files with the same name and different contents, as on hosts that do not share files.
mkdir "$folder/0" "$folder/1"
"$WEFT" plan --schedule 1f1b --ranks 3 --micros 4 --format csv >"$folder/0/list.csv"
"$WEFT" plan --schedule gpipe --ranks 3 --micros 4 --format csv >"$folder/1/list.csv"
cp "$tiny/tokens.bin" "$folder/0"
cp "$tiny/tokens.bin" "$folder/1"
printf '\1' | dd of="$folder/1/tokens.bin" bs=1 seek=2000 conv=notrunc status=none
in_folder() {
    # shellcheck disable=SC2016 # expanded by the other shell
    here=(sh -c 'cd "$0" && exec "$@"' "$folder/$1" "${other[@]}")
}
differs_in_folder() { # NAME WORDS FLAG
    local zero one
    same_but "$WEFT" "$3"
    in_folder 0
    zero=("${here[@]}")
    in_folder 1
    one=("${here[@]}")
    case_name="another $1"
    rm -rf "$folder/run"
    run_all -n 1 "${zero[@]}" : -n 1 "${one[@]}" : -n 1 "${zero[@]}"
    is_code 2 || fail "exit code $code"
    grep -q "^weft: rank 1 does not have the $2 of rank 0" "$folder/err" || fail "'$2' is not printed"
}
differs_in_folder schedule schedule --parallel.schedule=list.csv
differs_in_folder data data --data.train=tokens.bin

# A file is missing on one rank: the message names the rank and the setting.
cp "$tiny/tokens.bin" "$folder/0/val.bin"
same_but "$WEFT" --data.val=val.bin
in_folder 0
zero=("${here[@]}")
in_folder 1
case_name='no validation data'
rm -rf "$folder/run"
run_all -n 1 "${zero[@]}" : -n 1 "${here[@]}" : -n 1 "${zero[@]}"
is_code 3 || fail "exit code $code"
grep -q '^weft: rank 1: data\.val: val\.bin: ' "$folder/err" || fail 'the rank or the setting is not named'
[ ! -e "$folder/run" ] || fail 'the directory of the run exists'

# Another program of the same compiler.
mkdir "$folder/bin"
cp "$WEFT" "$folder/bin/weft"
printf '\n' >>"$folder/bin/weft"
same_but "$folder/bin/weft"
export WEFT_MODULES=${WEFT_BUILD_DIR:-$(dirname -- "$WEFT")}
differs program 'program of rank 0' "${other[@]}"
unset WEFT_MODULES

# Ranks with different instruction sets give the weights of ranks with the same one.
for precision in fp32 bf16; do
    case_name="different instruction sets, $precision"
    same=("${train[@]}" "${usual[@]}" --train.precision=$precision)
    rm -rf "$folder/run"
    run_all -n 3 "${same[@]}"
    [ $code -eq 0 ] || fail "one instruction set: exit code $code"
    want=$(hash_of "$folder/run")
    rm -rf "$folder/run"
    run_all -n 1 "${same[@]}" : -n 1 env WEFT_ISA=portable "${same[@]}" : \
        -n 1 env WEFT_ISA=avx2 "${same[@]}"
    [ $code -eq 0 ] || fail "exit code $code"
    [ "$(hash_of "$folder/run")" = "$want" ] || fail 'the weights differ'
done

check_shm
echo "$MPI: every difference is named before the first step, and instruction sets may differ"
