#!/usr/bin/env bash
# Checks units: every option and setting that takes bytes, times or rates accepts them, a wrong unit is
# one error that names what is accepted, and outputs state their units.
. "$(dirname -- "$0")/common.bash"

cluster='node:2 rank:2 intra:200GB/s,2us inter:200Gbit/s,8us'
plan='plan -s zb-auto -p 4 -m 8'
simulate='simulate -s 1f1b -p 4 -m 8 --cluster rank:4'
residual='simulate -s 1f1b -p 4 -m 8 --residual-block-layers 1'
layouts='tune -p 2 --layers 4 --global-batch 4 --iterations 100'

# same WITH | WITHOUT: both commands give the same JSON, except for the names of units.
same() {
    # shellcheck disable=SC2086
    run 0 $1
    sed 's/"time_unit":"[^"]*"//g; s/"memory_unit":"[^"]*"//g; s/"command":"[^"]*"//g' out >with
    # shellcheck disable=SC2086
    run 0 $2
    sed 's/"time_unit":"[^"]*"//g; s/"memory_unit":"[^"]*"//g; s/"command":"[^"]*"//g' out >without
    what="weft $1"
    holds cmp with without
}

# One row per option: the command, and the same values with and without units.
while IFS='|' read -r command with without; do
    case $command in
    '' | '#'*) continue ;;
    esac
    same "$command --json $with" "$command --json $without"
done <<END
$plan|--cost F=40ms,I=0.03s,W=20000us,C=1ms|--cost F=40,I=30,W=20,C=1
$plan|--cost F=40ms|--cost F=40,I=40,W=40
$plan|--cost F=40ms,B=90ms|--cost F=40,B=90,I=45,W=45
$plan|--cost F=40ms:50ms:60ms:0,I=1ms,W=1ms|--cost F=40:50:60:0,I=1,W=1
$plan|--mem F=1.5GB,I=-1MB --mem-limit 6GB|--mem F=1.5e9,I=-1e6 --mem-limit 6e9
$plan|--mem F=1KiB --mem-limit 4KiB:4KiB:3KiB:4KiB|--mem F=1024 --mem-limit 4096:4096:3072:4096
$plan|--model gpt2-124m --tflops 312TFLOPS|--model gpt2-124m --tflops 312
$plan|--model gpt2-124m --tflops 0.5PFLOPS|--model gpt2-124m --tflops 500
$plan --layers 8|--layer-cost F=2ms,I=3ms,W=1ms,bytes=1.5MB,act=2kB --head-cost F=1ms|--layer-cost F=2,I=3,W=1,bytes=1500000,act=2000 --head-cost F=1,I=1,W=1
$plan --layers 8|--layer-cost F=2ms --embedding-cost bytes=3MiB|--layer-cost F=2,I=2,W=2 --embedding-cost bytes=3145728
$plan --model gpt2-124m --partition balanced|--bytes-limit 4.5GB|--bytes-limit 4500000000
$plan --model gpt2-124m --partition balanced|--bytes-limit 4GiB:4GiB:4GiB:5GiB|--bytes-limit 4294967296:4294967296:4294967296:5368709120
$simulate|--cost F=40ms --bytes 16MB --gradient-bytes 8MB|--cost F=40,I=40,W=40 --bytes 16e6 --gradient-bytes 8e6
$simulate|--cost F=40ms --bytes 16MB:8MB:1KiB|--cost F=40,I=40,W=40 --bytes 16e6:8e6:1024
$simulate --unit us|--cost F=40ms|--cost F=40000,I=40000,W=40000
$residual|--payload-bytes 64KiB --gradient-payload-bytes 1MB|--payload-bytes 65536 --gradient-payload-bytes 1000000
compare -p 4 -m 8|--cost F=40ms --mem F=1GB --mem-limit 50GB|--cost F=40,I=40,W=40 --mem F=1e9 --mem-limit 50e9
compare -p 4 -m 8 --cluster rank:4|--bytes 16MB|--bytes 16e6
tune -p 3 -m 4 --iterations 200|--cost F=4ms --mem F=1GB --mem-limit 2GB|--cost F=4,I=4,W=4 --mem F=1e9 --mem-limit 2e9
tune -p 3 -m 4 --iterations 200 --seconds 1h|--cost F=4ms|--cost F=4,I=4,W=4
tune -p 2 -m 2|--seconds 60s|--seconds 60
tune -p 2 -m 2|--seconds 1min|--seconds 60
$layouts|--layer-cost F=2ms,bytes=1GB,act=1MB --bytes-limit 4GB|--layer-cost F=2,I=2,W=2,bytes=1e9,act=1e6 --bytes-limit 4e9
$layouts --cluster rank:2|--boundary-bytes 1.5MB|--boundary-bytes 1.5e6
END

# Wrong units, units of another quantity, and values that mix both forms.
while IFS='|' read -r command wrong message; do
    case $command in
    '' | '#'*) continue ;;
    esac
    # shellcheck disable=SC2086
    run 2 $command $wrong
    err_has "$message"
done <<END
$plan|--cost F=40mss|--cost: '40mss' has an unknown unit; give a time, as in 40ms (ns, us, ms, s, min, h, d)
$plan|--cost F=4GB|--cost: '4GB' has an unknown unit; give a time
$plan|--cost F=40ms,I=2|--cost: '40ms' has a unit and '2' has none; give all of them a unit, or none
$plan|--cost F=40ms:2:3:4|has a unit and '2' has none
$plan|--cost I=40ms|'40ms' has a unit, but F is not given
$plan|--mem F=1GB,I=2|--mem: '1GB' has a unit and '2' has none
$plan|--mem F=1GB --mem-limit 8|memory: '1GB' has a unit and '8' has none
$plan|--mem-limit 80GB|'80GB' has a unit, but the memory of a forward is not given
$plan|--mem-limit 80gb|--mem-limit: '80gb' has an unknown unit; give bytes, as in 80GB
$plan|--model gpt2-124m --tflops 3GB|--tflops: '3GB' has an unknown unit; give a rate, as in 312TFLOPS
$plan|--model gpt2-124m --cost C=1ms|the times of --model are operation counts; give --tflops as well
$plan|--layer-cost F=2ms --cost C=1|times: '2ms' has a unit and '1' has none
$plan|--head-cost F=2ms|'2ms' has a unit, but --layer-cost is not given
$plan|--unit ms|--unit needs --cluster, --tflops or times with units
$plan --model gpt2-124m --partition balanced|--bytes-limit 4ms|--bytes-limit: '4ms' has an unknown unit
$simulate|--bytes 16M|--bytes: '16M' has an unknown unit; give bytes
$simulate|--gradient-bytes 16Mb|--gradient-bytes: '16Mb' has an unknown unit
$residual|--payload-bytes 1s|--payload-bytes: '1s' has an unknown unit
tune -p 2 -m 2|--seconds 5GB|--seconds: '5GB' has an unknown unit; give a time
$layouts --cluster rank:2|--boundary-bytes 5s|--boundary-bytes: '5s' has an unknown unit
simulate -s 1f1b -p 4 -m 8 --cluster rank:4|--speed 1ms|--speed: '1ms' is not a number
END

# Settings.
while IFS='|' read -r flag want; do
    run 0 train --print-config "$flag"
    out_has "$want"
done <<'END'
--train.memory_limit=80GB|  memory_limit: 80000000000
--train.memory_limit=1.5KiB|  memory_limit: 1536
--train.memory_limit=1000|  memory_limit: 1000
--train.timeout=2min|  timeout: 120
--train.timeout=90|  timeout: 90
--train.max_time=2h|  max_time: 7200
--train.max_time=40ms|  max_time: 0.04
END
run 2 train --print-config --train.memory_limit=1.5
err_has "'1.5' is not a whole number; give auto, or 1 to 9007199254740992 (bytes, as in 80GB)"
run 2 train --print-config --train.memory_limit=80s
err_has 'bytes, as in 80GB'
run 2 train --print-config --train.timeout=5GB
err_has "'5GB' is not a number; give 1 to 1000000 (a time, as in 40ms)"
printf 'train:\n  memory_limit: 2GiB\n  max_time: 1d\n' >run.yaml
run 0 train --print-config run.yaml
out_has '  memory_limit: 2147483648'
out_has '  max_time: 86400'

# Cost files.
printf 'F: [40ms, 0.05s]\nI: 30ms\nW: 20ms\nC: 500us\nmem: {F: 1GB}\nmem_limit: 3GB\n' >with.yaml
printf 'F: [40, 50]\nI: 30\nW: 20\nC: 0.5\nmem: {F: 1e9}\nmem_limit: 3e9\n' >without.yaml
same 'plan -s zb-auto -p 2 -m 4 --json --cost-file with.yaml' 'plan -s zb-auto -p 2 -m 4 --json --cost-file without.yaml'
printf 'F: 40ms\nI: 3\n' >mixed.yaml
run 2 plan -s 1f1b -p 2 -m 4 --cost-file mixed.yaml
err_has "mixed.yaml: '40ms' has a unit and '3' has none"
printf 'F: 40GB\n' >wrong.yaml
run 2 plan -s 1f1b -p 2 -m 4 --cost-file wrong.yaml
err_has 'wrong.yaml:1:4'
err_has 'unknown unit (expected a time, as in 40ms): 40GB'
printf 'F: 1\nmem: {F: 4ms}\n' >wrong.yaml
run 2 plan -s 1f1b -p 2 -m 4 --cost-file wrong.yaml
err_has 'unknown unit (expected bytes, as in 80GB): 4ms'

# Help and the man page name the kinds of values.
for command in plan simulate compare tune; do
    run 0 $command --help
    holds grep -qE -- '--cost .*\(a time, as in 40ms' out
    holds grep -qE -- '--mem-limit .*\(bytes, as in 80GB' out
    holds grep -qE -- '--tflops .*\(a rate, as in 312TFLOPS' out
done
run 0 train --help
holds grep -qE -- '--train.memory_limit .*\(bytes, as in 80GB' out
run 0 help --man
out_has '(bytes, as in 80GB)'

# Outputs state their units: real time if it is known, otherwise "time units", ticks or operations.
while IFS='|' read -r command text unit; do
    # shellcheck disable=SC2086
    run 0 $command
    out_has "$text"
    # shellcheck disable=SC2086
    run 0 $command --json
    out_has "\"time_unit\":\"$unit\""
done <<END
plan -s 1f1b -p 4 -m 8|makespan          33 time units, bubble|time units
plan -s greedy-1f1b -p 4 -m 8| ticks, bubble|ticks
plan -s 1f1b -p 4 -m 8 --model gpt2-124m| operations, bubble|operations
plan -s 1f1b -p 4 -m 8 --cost F=40ms|makespan          1.32 s, bubble|ms
plan -s 1f1b -p 4 -m 8 --cost F=4us|makespan          132 us, bubble|ms
plan -s 1f1b -p 4 -m 8 --cost F=4us --unit us|makespan          132 us, bubble|us
simulate -s 1f1b -p 4 -m 8 --cost F=40ms|critical path     22 actions, computing 1.32 s|ms
simulate -s 1f1b -p 4 -m 8 --cluster rank:4|makespan          33 ms, bubble|ms
simulate -s 1f1b -p 4 -m 8 --cluster rank:4 --unit s|makespan          33 s, bubble|s
compare -p 4 -m 8|time (units)|time units
compare -p 4 -m 8 --cost F=40ms|time (ms)|ms
compare -p 4 -m 8 --cost F=40ms|times are in ms, memory is in activations|ms
tune -p 2 -m 4 --iterations 50|makespan 13 time units|time units
tune -p 2 -m 4 --iterations 50 --cost F=2ms|makespan 26 ms|ms
$layouts|time (units)|time units
$layouts --layer-cost F=2ms|time (ms)|ms
END
run 0 simulate -s 1f1b -p 4 -m 8 --cluster "$cluster" --bytes 16MB
out_has 'bytes             768MB in total; busiest link'
run 0 compare -p 4 -m 8 --model gpt2-124m --tflops 10
out_has 'memory is in bytes'
holds grep -qE '^[* ] 1f1b +1 .* [0-9.]+GB ' out
run 0 plan -s 1f1b -p 2 -m 4 --mem F=1.5GB
out_has 'peak memory       3GB 1.5GB'
run 0 plan -s 1f1b -p 4 -m 8 --cost F=40ms -o plan.trace
holds grep -q '^# weft unit 0.001$' plan.trace

run 0 plan -s 1f1b -p 4 -m 8 -o plan.csv
run 0 draw plan.csv --cost F=40ms
out_has 'makespan 1.32 s, bubble'
run 0 draw plan.csv --unit 1min
out_has 'makespan 1980 s, bubble'
run 2 draw plan.csv --unit 5
err_has "--unit: '5' is not a time such as 1ms"
run 2 draw plan.csv --cost F=40ms,I=2
err_has "'40ms' has a unit and '2' has none"

# A memory limit in bytes applies to all memory of a rank, as weft simulate reports it.
run 0 plan -s zb-auto -p 4 -m 8 --model gpt2-124m --mem-limit 1.85GB
out_has 'peak activations  2 2 2 1'
run 2 plan -s 1f1b -p 4 -m 8 --model gpt2-124m --mem-limit 1.85GB
err_has 'rank 0 peaks at 1.89GB, over its memory limit of 1.85GB'
run 0 plan -s 1f1b -p 4 -m 8 --model gpt2-124m --mem-limit 1.91GB
out_has 'peak activations  4 3 2 1'

finish
