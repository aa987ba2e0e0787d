#!/usr/bin/env bash
# Checks invalid options, costs and schedules of the planning commands; test_errors.sh checks all commands.
. "$(dirname -- "$0")/common.bash"

run 2 plam
err_has "no command 'plam': did you mean plan?"
run 2 plan
err_has 'give --schedule NAME'
run 2 plan --schedul 1f1b
err_has 'unknown option --schedul: did you mean --schedule?'
run 2 plan --zzzzzzzzzzzzzz
err_has 'unknown option --zzzzzzzzzzzzzz (see --help)'
run 2 plan -Z
err_has 'unknown option -Z'
run 2 plan -s 1f1c -p 2 -m 2
err_has 'no schedule is called 1f1c: did you mean 1f1b?'
run 2 plan -s 1f1b -p 2
err_has 'needs --ranks P and --micros M'
run 2 plan -s 1f1b -p
err_has '--ranks needs a value'
run 2 plan -s 1f1b -s gpipe -p 2 -m 2
err_has '--schedule is given twice'
run 2 plan --list=yes
err_has '--list takes no value'
run 2 plan -s 1f1b -p 2 -m 2 extra
err_has "not 'extra'"
for option in ranks micros chunks group pipes layers; do
    run 2 plan -s 1f1b --$option 0
    err_has "--$option is 0; give at least 1"
    run 2 plan -s 1f1b --$option=-1
    err_has "--$option: '-1' is not a whole number"
    run 2 plan -s 1f1b --$option 1.5
    err_has "--$option: '1.5' is not a whole number"
    run 2 plan -s 1f1b --$option 99999999999999999999
    err_has "--$option: 99999999999999999999 is too large"
done
run 2 plan -s 1f1b -p 2 -m 2 --format xml
err_has "--format: 'xml' is not one of text|csv|pytorch"
run 2 plan -s 1f1b -p 2 -m 2 --json --format csv
err_has 'give --json or --format, not both'
run 2 plan -s 1f1b -p 2 -m 2 --events
err_has '--events needs --json'
run 2 plan -s 1f1b -p 2 -m 2 --cost F=
err_has '--cost'
run 2 plan -s 1f1b -p 2 -m 2 --cost X=1
err_has "--cost: 'X=1' is not KEY=value with one of F, I, W, B, FB, C"
run 2 plan -s 1f1b -p 2 -m 2 --cost F=1:2:3
err_has 'cost F has 3 values for 2 stages; give one value, or one per stage'
run 2 plan -s zb-v -p 2 -m 2 --cost W=1:2:3
err_has 'cost W has 3 values for 4 stages'
run 2 plan -s 1f1b -p 2 -m 2 --chunks 3
err_has '1f1b has 1 chunk per rank (got 3)'
run 2 plan -s 1f1b -p 4294967294 -m 4294967294
run 5 plan -s ./none.csv
err_has './none.csv: No such file or directory'
run 2 plan -s none -p 2 -m 2
err_has 'no schedule is called none'

# Costs whose sum is not finite.
finite() {
    n_checks=$((n_checks + 1))
    ! grep -qiwE 'inf|infinity|-?nan' out err || fail 'inf or nan is printed'
}
run 2 plan -s zb-auto -p 2 -m 2 --cost F=1e300
err_has 'cost F: 1e+300 is out of range'
for name in 1f1b zb-auto zb-v-auto greedy-1f1b; do
    for cost in F=1e99,I=1e99 F=1e100 F=1e307,W=1e308 C=1e99 F=1e-320 F=1e99,I=1e-99; do
        for form in '' --json --events; do
            what="weft plan -s $name -p 2 -m 2 --cost $cost $form"
            code=0
            "$WEFT" plan -s $name -p 2 -m 2 --cost $cost ${form:+--json $form} >out 2>err </dev/null || code=$?
            [ "$code" -eq 2 ] || [ "$code" -eq 0 ] || fail "exit code $code, want 0 or 2"
            check_exit "$code" "$code"
            finite
        done
    done
done

# The layout string of a partition is printed, and can be given again.
run 0 plan -s 1f1b -p 4 -m 8 --layers-per-stage 3,2,2,0
out_has 'layout            Et*3|(tt|)*2,L'
run 0 plan -s 1f1b -p 4 -m 8 --partition 'Et*3|(tt|)*2,m*2L' --json
out_has '"head":true,"mtp_layers":2}'
run 0 plan -s 1f1b -p 4 -m 8 --partition 'Et*3|(tt|)*2,m*2L' --layer-cost F=1,I=1,W=1
out_has 'layers            E+3 2 2 0+2m+L'
out_has 'layout            Et*3|(tt|)*2,mmL'
run 0 plan -s 1f1b -p 4 -m 8 --export torchtitan -o titan.py
holds grep -q '^    \["layers.3", "norm", "lm_head"\],$' titan.py
run 0 plan -s 1f1b -p 4 -m 8
out_lacks 'layout'

# A limit applies to the order that a search finds, not only to the initial one: the result is an error,
# or bytes within the limits.
limits=20:36:28:20:3
what="weft plan -s zb-auto --bytes-limit $limits"
code=0
"$WEFT" plan -s zb-auto -p 5 -m 12 --layers 15 --layer-cost F=1,I=4,W=2,act=1 \
    --embedding-cost F=20 --head-cost F=16,I=16 --mem-limit 10 --cost C=5 \
    --partition balanced --json --bytes-limit $limits >out 2>err </dev/null || code=$?
if [ "$code" -eq 0 ]; then
    check_exit 0 0
    holds test "$(sed -n 's/.*"rank_bytes":\[\([0-9.,e+]*\)\].*/\1/p' out |
        awk -F, -v limits=$limits '{ n = split(limits, max, ":"); ok = n == NF
            for (i = 1; i <= n; i++) ok = ok && $i <= max[i] } END { print ok + 0 }')" = 1
else
    check_exit 2 "$code"
    err_has 'over its limit of'
    holds test ! -s out
fi
# The same expression finds the bytes if there is no limit.
run 0 plan -s 1f1b -p 2 -m 2 --layers 2 --layer-cost bytes=7,act=1 --json
holds grep -qE '"rank_bytes":\[[0-9.,e+]*\]' out

run 2 check
err_has 'check needs FILE'
run 2 check a b
err_has "check takes one FILE, not 'b'"
run 5 check none.csv
err_has 'none.csv: No such file or directory'
mkdir folder
run 5 check folder
err_has 'folder: is a directory'
run 2 check folder --transport fast
err_has "--transport: 'fast' is not one of buffered, rendezvous, depth=N"
for depth in depth= depth=x depth=-1 depth=1x depth=18446744073709551616; do
    run 2 check folder --transport $depth
    err_has "'$depth' is not one of"
done
run 2 check folder --channels both
err_has "--channels: 'both' is not one of direction|pair"

# Recomputation reduces the bytes of a plan and adds time.
gpipe=(-s gpipe -p 2 -m 4 --model d4 --json)
figure() { sed -n "s/.*\"$1\":\[*\([0-9.e+]*\).*/\1/p" out | head -n 1; }
run 0 plan "${gpipe[@]}"
makespan=$(figure makespan) bytes=$(figure rank_bytes)
for what_is in full full:0-3 full:s0-1; do
    run 0 plan "${gpipe[@]}" --recompute "$what_is"
    awk "BEGIN { exit !($(figure makespan) > $makespan) }" || fail "makespan is not above $makespan"
    awk "BEGIN { exit !($(figure rank_bytes) < $bytes) }" || fail "bytes are not below $bytes"
done
run 2 plan "${gpipe[@]}" --recompute fulll
err_has "--recompute: column 5: unexpected 'l'"
run 2 plan "${gpipe[@]}" --recompute full:4
err_has '--recompute: column 6: there is no layer 4; expected 0 to 3'
run 2 plan "${gpipe[@]}" --recompute auto
err_has '--recompute: auto is for training'
run 2 plan -s gpipe -p 2 -m 4 --recompute full
err_has '--recompute needs --model'
run 0 simulate "${gpipe[@]}" --recompute full
# The parts of the state: 4 bytes of weights, 8 of gradients and 8 of moments per parameter.
weights=$(figure weight_bytes)
check_figure() { [ "$(figure "$1")" = "$2" ] || fail "$1 is $(figure "$1"), not $2"; }
check_figure gradient_bytes $((2 * weights))
check_figure state_bytes $((weights + $(figure packed_bytes) + 2 * weights + $(figure optimizer_bytes)))
run 0 compare -p 2 -m 4 --model d4 --recompute full
layouts=(tune -p 2 --model d4 --global-batch 2 --iterations 1)
run 0 "${layouts[@]}" --recompute full:0-3
run 2 "${layouts[@]}" --recompute full:s0
err_has '--recompute: layouts have different stages; list the layers'
run 2 tune -p 2 --layers 4 --global-batch 2 --recompute full
err_has '--recompute needs --model'

: >empty.csv
run 5 check empty.csv
err_has 'empty.csv: no actions'
printf '\177ELF\002\001\001\000\000,\n\377\376' >binary.csv
run 5 check binary.csv
err_has "binary.csv:1:1: '?ELF"
run 5 check "$WEFT"
printf '0F0,0B0\n1F0,1G0\n' >letter.csv
run 5 check letter.csv
err_has "letter.csv:2:5: '1G0' is not an action"
run 5 plan -s ./letter.csv
err_has "./letter.csv:2:5: '1G0' is not an action"
run_with letter.csv 5 check -
err_has "'1G0' is not an action"
for file in "$WEFT_TEST_DATA"/bad_*.csv; do
    run 5 check "$file"
done

if [ "$(id -u)" -ne 0 ]; then # root reads everything
    printf '0F0,0B0\n' >secret.csv
    chmod 000 secret.csv
    run 5 check secret.csv
    err_has 'secret.csv: Permission denied'
fi

finish
