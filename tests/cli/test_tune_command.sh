#!/usr/bin/env bash
# Checks that the command that weft tune prints gives the makespan and span of its best result, and that
# tune and compare accept the options of weft plan and weft simulate.
. "$(dirname -- "$0")/common.bash"
mkdir bin
ln -s "$WEFT" bin/weft
PATH=$dir/bin:$PATH

cluster='node:2 rank:2 intra:200GB/s,2us inter:25GB/s,8us'

# figure KEY FILE: the first number of a key in JSON.
figure() {
    grep -oE "\"$1\":[0-9.e+-]+" "$2" | head -n 1 | sed 's/.*://'
}

# repeats: runs the command in the JSON file `result` and compares makespan and span.
repeats() {
    local command
    command=$(sed -n 's/.*"command":"\([^"]*\)".*/\1/p' result)
    n_checks=$((n_checks + 1))
    [ -n "$command" ] || fail 'no command'
    bash -c "set -o pipefail; $command --json" >again 2>err || fail "the command fails: $command"
    for key in makespan span; do
        n_checks=$((n_checks + 1))
        awk -v a="$(figure $key result)" -v b="$(figure $key again)" \
            'BEGIN { d = a - b; exit !(a > 0 && d * d <= 1e-18 * a * a) }' ||
            fail "$key $(figure $key result), but $(figure $key again) by: $command"
    done
}

# best SCHEDULE ARGS...: the best layout has this schedule and is repeated.
best() {
    local want=$1
    shift
    run 0 tune --global-batch "$@" --json
    # the figures of the first layout follow its name
    sed 's/"layouts":\[.*/\n&/' out >split
    { head -n 1 split && sed -n 's/.*"layouts":\[\({[^}]*}\).*/\1/p' out; } >result
    holds grep -qF "{\"schedule\":\"$want\"" result
    holds grep -q '"layers_per_stage":\[[0-9]' result
    holds grep -q '"stopped":false' out
    repeats
}

best interleaved-zb 8 -p 4 --layers 8
best zb-auto 8 -p 4 --layers 8 --cost C=30 # two rows per micro
best dualpipe 32 -p 4 --layers 16 --head-cost F=2,I=2,W=2
best tuned 16 -p 4 --layers 8 --head-cost F=2,I=2,W=2,bytes=1e9 \
    --layer-cost F=10,I=12,W=8,bytes=2e8,act=1e8 --bytes-limit 1.4GB
best tuned 16 --model gpt2-124m --tflops 10 --seq 256 --bytes-limit 1.3GB --cluster "$cluster"
best zb-auto 12 -p 4 --layers 4 --layer-cost F=10ms,I=12ms,W=8ms,act=1GB --bytes-limit 3.2GB
best zb-h2 12 -p 3 --layers 7 --layer-cost F=10ms,I=12ms,W=8ms,act=1GB --metric span --cost C=1ms
best zb-auto 12 -p 4 --layers 4 --layer-cost F=10,I=12,W=8,act=1 --bytes-limit 2 --cost C=3
# A limit that all layouts keep changes nothing, also not for looped placements.
for limit in '' '--bytes-limit 1TB'; do
    # shellcheck disable=SC2086
    best tuned 5 -p 3 --layers 9 --layer-cost F=4,I=2,W=5,bytes=1e6,act=1e3 --max-chunks 3 \
        --embedding-cost F=3,W=3 --head-cost F=3,W=3 --iterations 2000 $limit
    holds grep -q '"makespan":210,' result
done
best dualpipe 8 -p 4 --model gpt2-124m --seq 256 --recompute full:0-5
run 2 tune --global-batch 8 -p 4 --model gpt2-124m --recompute full:s0
err_has '--recompute: layouts have different stages'

# Text has the same command and the partition.
run 0 tune --global-batch 8 -p 4 --layers 8
out_has 'layers            E+1 1 1 1 1 1 1 1+L'
out_has 'command           weft simulate --schedule interleaved-zb --ranks 4 --micros 8 --chunks 2'

# With one rank, the number of chunks has no effect: a schedule is listed once.
run 0 tune --global-batch 8 -p 1 --layers 8 --top 20
holds test "$(grep -c ' gpipe ' out)" -eq "$(grep ' gpipe ' out | awk '{ print $1, $5 }' | sort -u | wc -l)"

# A file: standard output has the summary.
run 0 tune --global-batch 8 -p 4 --layers 8 -o best.csv
out_has 'wrote best.csv'
out_has 'time (units)'
out_has 'command           weft simulate --schedule interleaved-zb'
run 0 tune -p 4 -m 8 --cost F=10,I=12,W=8,C=1 --mem-limit 3 --iterations 500 -o best.csv
out_has 'wrote best.csv'
out_has 'makespan 342 time units, the optimum for this memory limit (proven)'
out_has 'command           weft simulate --schedule best.csv --cost F=10,I=12,W=8,C=1 --mem-limit 3'
run 0 tune -p 4 -m 8 --cost F=10,I=12,W=8,C=1 --mem-limit 3 --iterations 500 -o best.json
out_has 'makespan 342 time units'
cp best.json result
repeats
run 0 tune -p 2 -m 4 --seconds 1 --json # the search cannot be repeated
out_lacks '"command"'

# The search for an order takes what weft simulate takes.
cp "$WEFT_TEST_DATA/trace_two_stages.trace" run.trace
printf 'F: [11, 8, 12]\nI: [6, 7, 14]\nW: [4, 8, 3]\nC: 1\nmem: {F: 3, I: -1, W: -2}\nmem_limit: 18\n' >cost.yaml
while IFS='|' read -r args; do
    eval "run 0 tune --iterations 300 --json $args"
    cp out result
    repeats
done <<'END'
-p 2 -m 4 --cost-from run.trace
-p 3 -m 6 --cost-file cost.yaml
-p 4 -m 8 --cost F=10,I=12,W=8 --speed 1:1:2:1
-p 4 -m 8 --cost F=10ms --cluster 'rank:4 intra:1GB/s,1us' --bytes 3MB --gradient-bytes 1MB
-p 4 -m 8 --model gpt2-124m
-p 4 -m 8 --model gpt2-124m --tflops 10 --rows 2 --seq 128 --partition balanced --cluster 'rank:4 intra:1GB/s'
-p 4 -m 8 --model gpt2-124m --mem-limit 1.9GB
-p 4 -m 8 --model gpt2-124m --recompute full:s0-1,attention:s2
-p 4 -m 8 --model gpt2-124m --tflops 5TFLOPS --placement v --layers-per-stage 2,2,1,1,1,1,2,2
-p 2 -m 4 --layers 5 --layer-cost F=2,I=3,W=1 --head-cost F=4 --metric span
END
run 0 tune --iterations 300 -p 4 -m 8 --model gpt2-124m --bytes-limit 1.9GB
out_has 'peak memory       309MB 315MB 315MB 161MB' # two micros, as in test_units.sh
run 2 tune -p 4 -m 8 --transfers link --cluster 'rank:4 intra:1GB/s'
err_has 'leave out --transfers'
run 2 tune -p 2 --layers 4 --global-batch 4 --speed 1:2
err_has 'layouts differ in their stages'
run 2 tune -p 2 --layers 4 --global-batch 4 --cost-file cost.yaml
err_has 'layouts differ in their stages'
run 2 tune -p 2 -m 4 --global-batch 4 --layers 4
err_has 'leave out --micros, --chunks, --placement, --whole, --mem'

# compare takes the variants of schedules: they apply to the schedules that have them.
run 0 compare -p 4 -m 8 --group 4 --pipes 4 --minimize span --json
cp out variants
run 0 compare -p 4 -m 8 --pipes 4
holds grep -qE '^[* ] chimera +[0-9]+ .* 4 +[0-9]+ +[0-9.]+%$' out # four copies
holds grep -q '"schedule":"1f1b","chunks":1' variants
run 0 compare -p 4 -m 8 --forward-only
holds grep -qE '^[* ] 1f1b +1 +11 ' out # M + P - 1 forwards
run 0 compare -p 4 -m 8 --cost F=1,I=2,W=1 --minimize span --sort name
holds grep -qE ' zb-auto ' out

finish
