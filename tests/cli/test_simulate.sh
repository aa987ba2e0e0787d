#!/usr/bin/env bash
# Checks the output and the errors of weft simulate and weft compare.
. "$(dirname -- "$0")/common.bash"

two_nodes='node:2 rank:2 intra:200GB/s,2us inter:25GB/s,8us'

run 0 simulate -s 1f1b -p 4 -m 8
out_has 'makespan          33 time units, bubble 27.3%'
out_has 'idle by cause     warm-up'
out_has 'critical path'
out_has 'bound             33: the makespan is at most 0.0% above the optimum'
run 0 simulate -s 1f1b -p 4 -m 8 -c F=10,I=10,W=10 --bytes 1e9 --cluster "$two_nodes"
out_has 'busiest link'
run 0 simulate -s 1f1b -p 4 -m 8 -c F=1 --bytes 1e6 --cluster 'rank:4 intra:1GB/s' --transfers link
run 0 simulate -s zb-v -p 4 -m 8 --samples 100 --jitter lognormal:0.1
out_has 'samples           100: p5'
run 0 simulate -s 1f1b -p 2 -m 4 --speed 1:2 --json
out_has '"critical_path"'
out_has '"bound":{"makespan":27,' # rank 1: F of rank 0, 4 x 3 x 2, B of rank 0
run 0 simulate -s chimera -p 2 -m 4 --speed 1:2 --json
out_lacks '"bound"' # every stage runs on both ranks

# The closed forms (P - 1) / M and 1 - (P - 1) / M, in both commands.
for command in plan simulate; do
    run 0 $command -s 1f1b -p 3 -m 8 --json
    out_has '"bubble_ratio":0.25,"efficiency":0.75,'
    run 0 $command -s 1f1b -p 4 -m 2 --json
    out_has '"bubble_ratio":1.5,"efficiency":-0.5,'
done

# The output is reproducible.
run 0 simulate -s zb-h1 -p 4 -m 8 --samples 200 --json
cp out first
run 0 simulate -s zb-h1 -p 4 -m 8 --samples 200 --json
holds cmp out first

# Costs from a measured trace of stages 0 and 1; the second takes twice as long.
cp "$WEFT_TEST_DATA/trace_two_stages.trace" run.trace
run 0 simulate -s 1f1b -p 2 -m 4 --cost-from run.trace
out_has 'makespan          54' # 2 + 4 x 12 + 4
run 2 simulate -s 1f1b -p 4 -m 4 --cost-from run.trace
err_has '2 values for 4 stages'
run 2 simulate -s 1f1b -p 2 -m 4 --cost-from run.trace --cost F=1
err_has 'not both'
printf '# weft trace 1\nnonsense\n' >bad.trace
run 3 simulate -s 1f1b -p 2 -m 4 --cost-from bad.trace
err_has 'bad.trace:2:1'

# Costs from the profiles of PyTorch.  With two stages, 1f1b takes 8 times F + B of the slower stage
# at least; a hop was measured, so that a plan with it takes longer than one without.
for rank in 0 1; do cp "$WEFT_TEST_DATA/kineto_1f1b_rank$rank.json" "rank$rank.json"; done
gzip rank1.json
run 0 simulate -s 1f1b -p 2 -m 8 --cost-from rank0.json,rank1.json.gz --json
with=$(grep -o '"makespan":[0-9]*' out | head -n 1)
run 0 simulate -s 1f1b -p 2 -m 8 --cost-from rank0.json,rank1.json.gz --json \
    --cluster 'rank:2 intra:1GB/s,0us'
without=$(grep -o '"makespan":[0-9]*' out | head -n 1)
holds test "${with#*:}" -gt "${without#*:}"
holds test "${without#*:}" -gt 800
run 0 plan -s zb-h1 -p 2 -m 8 --cost-from rank0.json,rank1.json.gz
run 0 compare -p 2 -m 8 --cost-from rank0.json,rank1.json.gz
out_has 'zb-h1'
cp rank0.json 'a,b.json'
run 3 simulate -s 1f1b -p 2 -m 8 --cost-from rank0.json,a,b.json
err_has 'a: No such file'
run 3 simulate -s 1f1b -p 2 -m 8 --cost-from rank0.json,rank0.json
err_has 'rank 0 is also the rank of'
run 2 simulate -s 1f1b -p 2 -m 8 --cost-from rank0.json,run.trace
err_has '2 measured traces'
run 0 simulate -s gpipe -p 1 -m 8 --cost-from a,b.json

# Costs in a file.
printf 'F: [11, 8, 12]\nI: [6, 7, 14]\nW: [4, 8, 3]\nC: 1\nmem: {F: 3, I: -1, W: -2}\nmem_limit: 18\n' >cost.yaml
run 0 plan -s zb-auto -p 3 -m 6 --cost-file cost.yaml --json
cp out by_file
run 0 plan -s zb-auto -p 3 -m 6 -c F=11:8:12,I=6:7:14,W=4:8:3,C=1 --mem F=3,I=-1,W=-2 --mem-limit 18 --json
holds cmp out by_file
for bad in 'F: x' 'F: -1' 'F: [1, [2]]' 'G: 1' 'F: 1
F: 2' 'F: .nan' '[1]' 'mem: 3' 'F: [' ''; do
    printf '%s' "$bad" >bad.yaml
    run 2 plan -s 1f1b -p 3 -m 6 --cost-file bad.yaml
    err_has 'bad.yaml'
done
run 2 plan -s 1f1b -p 3 -m 6 --cost-file cost.yaml --cost F=1
err_has 'give one of --cost-file'

run 2 simulate -s 1f1b -p 4 -m 8 --cluster 'rank:2'
err_has 'too small for 4 ranks'
run 2 simulate -s 1f1b -p 4 -m 8 --cluster 'rank:4 intra:fast'
err_has 'cluster, column 14'
run 2 simulate -s 1f1b -p 4 -m 8 --cluster 'rank:4' --cost C=1
err_has 'leave out --cost C'
run 2 simulate -s 1f1b -p 4 -m 8 --unit s
err_has '--unit needs --cluster'
run 2 simulate -s 1f1b -p 4 -m 8 --speed 1:2
err_has '2 values for 4'
run 2 simulate -s 1f1b -p 4 -m 8 --speed -1
err_has 'out of range'
run 2 simulate -s 1f1b -p 4 -m 8 --jitter lognormal:1
err_has 'needs --samples'
run 2 simulate -s 1f1b -p 4 -m 8 --samples 10 --jitter normal:1
err_has 'lognormal'
run 2 simulate -s 1f1b -p 4 -m 8 --transfers link
err_has 'cluster'
run 2 simulate -s 1f1b -p 4 -m 8 --cost F=nan
run 2 simulate -s 1f1b -p 4 -m 8 --bytes -5 --cluster 'rank:4'

run 0 simulate -s interleaved-1f1b -p 2 -m 4 --chunks 2 --residual-block-layers 1 --payload-bytes 100 \
    --gradient-payload-bytes 800
out_has 'residual blocks   5, cache full'
out_has 'stage 0 to 1, rank 0 to 1:  blocks 0-1'
out_has 'stage 1 to 2, rank 1 to 0:  block 2'
out_has '4 sends each way of 9'
out_has '2.8kB: 16 blocks and 12 activations of 100B'
out_has '14kB: 16 block gradients of 800B and 12 gradients of 100B'
out_has 'peak cached bytes'
run 0 simulate -s greedy-gpipe -p 4 -m 1 --chunks 2 --layers 8 --cache-model reference --layers-per-block 8 \
    --payload-bytes 100 --communication block_residual_cache \
    --cache enabled=1,policy=resident_block_summaries,reuse=0,inflight=2
out_has '1100 sent, 300 saved'
out_has 'hit rate 21.4%'
out_has 'sent by rank      300 300 300 200'

run 0 compare -p 4 -m 8
out_has '* interleaved-zb '
out_has 'dualpipe '
run 0 compare -p 4 -m 8 --mem-limit 3 --sort memory
holds grep -qE '^  gpipe +1  rank 0 peaks at 8, over its memory limit of 3' out
out_has 'v-min'
run 0 compare -p 3 -m 5 --chunks 2:3 --json
holds grep -q '"schedule":"1f1b"' out
holds grep -q '"schedule":"chimera","chunks":1,"reason":' out # an odd number of ranks
run 0 compare -p 3 -m 6 --cost F=11:8:12,I=6:7:14,W=4:8:3 --bytes 1e6 --cluster 'rank:3 intra:1GB/s' --speed 1:2:1
out_has 'omitted'
out_has '3 values for 6 stages'
run 2 compare -p 4
err_has '--micros'
run 2 compare -p 4 -m 8 --chunks 0
err_has 'chunks: 0 is not a whole number'
run 2 compare -p 4 -m 8 --cost F=1:2
err_has '2 values for 4 stages; '

finish
