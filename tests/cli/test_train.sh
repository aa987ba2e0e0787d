#!/usr/bin/env bash
# Checks weft train end to end: settings, the run directory, stopping, and errors.
. "$(dirname -- "$0")/common.bash"

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
cat >run.yaml <<END
model: {dir: "$tiny"}
data: {train: "$tiny/tokens.bin", seq: 24, batch: 8}
parallel: {micros: 4, threads: 2}
train: {steps: 8}
optim: {lr: 1e-3, min_lr: 1e-4, warmup: 3, decay_steps: 10, weight_decay: 0.1}
END

# values FILE KEY: prints a figure of every step.
values() {
    sed -n "s/.*\"$2\":\([^,}]*\).*/\1/p" "$1"
}
# near A B: checks that two lists of numbers agree to 2e-5.
near() {
    paste "$1" "$2" | awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d <= 2e-5 * $2)) bad = 1 }
                           END { exit bad || NR == 0 }'
}

run 0 train run.yaml --log.dir=runs/a
out_has 'model    gpt2, 4 layers of dimension 48, 122,400 parameters, from'
out_has '1 file, 1,537 tokens; 8 x 24 = 192 per step in 4 micros'
out_has 'machine  2 threads, '
out_has 'memory   '
out_has 'step 1/8 | loss 4.8709 | norm 1.085 | lr 3.3e-04 | '
out_has 'step 8/8 | loss 4.64'
out_has ' tok/s | mfu '
out_has '% | eta 0:00:00'
out_lacks 'bubble'
out_lacks 'sums     fast'
out_has 'saved    runs/a/model'
holds test "$(wc -l <runs/a/metrics.jsonl)" -eq 8
holds test "$(values runs/a/metrics.jsonl step | tr '\n' ' ')" = '1 2 3 4 5 6 7 8 '
holds test "$(values runs/a/metrics.jsonl bubble | sort -u)" = 0
for key in loss grad_norm lr tokens ms tok_s mfu bubble bubble_plan; do
    holds test "$(values runs/a/metrics.jsonl $key | wc -l)" -eq 8
done
for key in loss grad_norm; do
    values runs/a/metrics.jsonl $key >got
    awk -v k="\"$key\":" '$1 == k { on = 1; next } /\]/ { on = 0 } on { sub(",", ""); print $1 }' \
        "$tiny/expect.json" >want
    holds near got want
done
holds test "$(ls runs/a/model | tr '\n' ' ')" = 'config.json expect.json model.safetensors run.json '

# The config.yaml of a run gives the same settings.
run 0 train runs/a/config.yaml --print-config
holds cmp out runs/a/config.yaml
run 0 train run.yaml --log.dir=runs/a --print-config
holds cmp out runs/a/config.yaml
out_has 'warmup: 3'
to_full train --print-config

# A finished run is not changed.
cp runs/a/metrics.jsonl before
run 2 train run.yaml --log.dir=runs/a
err_has 'log.dir runs/a has a finished run'
holds cmp before runs/a/metrics.jsonl
run 2 train run.yaml --log.dir=run.yaml
err_has 'is a file'

# Another number of threads gives the same bits; flags override the file.
run 0 train run.yaml --log.dir runs/b --parallel.threads 1
out_has 'machine  1 thread, '
holds cmp runs/a/model/model.safetensors runs/b/model/model.safetensors
for key in loss grad_norm lr; do
    holds test "$(values runs/a/metrics.jsonl $key)" = "$(values runs/b/metrics.jsonl $key)"
done
run 0 train run.yaml --train.reduction=fast --train.steps=1
out_has 'sums     fast'
out_has 'run      nothing is kept'
out_lacks 'saved'

# The saved weights can be trained further; only steps 1, 3, 6 and 7 are printed.
run 0 train run.yaml --model.dir=runs/a/model --train.steps=7 --log.every=3 --train.precision=bf16
out_has 'bf16 up to'
holds test "$(grep -c '^step' out)" -eq 4
run 0 train --model.spec=d1 --model.vocab=128 --model.ctx=16 --data.train="$tiny/tokens.bin" \
    --data.batch=2 --train.steps=2 --log.dir=runs/new
out_has 'new, seed 1'
holds test -f runs/new/model/model.safetensors

# Invalid settings.
run 2 train run.yaml --optim.lrr=1
err_has 'optim.lr'
run 2 train run.yaml --optim.lr=fast
run 2 train run.yaml --nothing
run 2 train nothing.yaml
err_has 'nothing.yaml'
run 2 train
err_has 'no model is specified'
run 2 train run.yaml --data.seq=65
err_has 'longer than the model'
run 2 train run.yaml --parallel.micros=9
err_has 'parallel.micros 9'
run 2 train run.yaml --eval.every=2
err_has 'set data.val'
run 2 train run.yaml --parallel.pp=5
err_has '4 layers cannot fill 5 stages'
run 2 train run.yaml --parallel.dp=8
err_has 'parallel.dp 8 is greater than parallel.micros (4 micros'
run 2 train run.yaml --parallel.schedule=1f1c
err_has '1f1b'
run 2 train run.yaml --parallel.transport=mpi
err_has 'this process was started without MPI'
run 3 train --model.spec=d1 --model.vocab=64 --model.ctx=16 --data.train="$tiny/tokens.bin"
err_has 'step 1, micro 0: '
err_has 'tokens.bin'
run 3 train run.yaml --data.train=nothing.bin
run 4 train run.yaml --model.dir=nothing
holds test ! -e nothing

# More threads and ranks than cores work, too.
run 0 train run.yaml --train.steps=1 --parallel.threads=$((8 * $(nproc)))
run 0 train run.yaml --train.steps=1 --parallel.pp=4 --parallel.threads=$((2 * $(nproc)))
out_has 'on 4 ranks, maximum on rank '

# train.max_time.
run 0 train run.yaml --train.steps=100000000 --train.max_time=0.2
out_has 'kept     nothing: log.dir is not set'
run 0 train run.yaml --train.steps=100000000 --train.max_time=0.2 --checkpoint.every=1000000 --log.dir="runs/it's"
out_has "resume   weft train 'runs/it'\\''s/config.yaml' --checkpoint.resume=auto"
run 0 train "runs/it's/config.yaml" --checkpoint.resume=auto # the printed command
out_has 'resumed  from the checkpoint of step '
run 0 train run.yaml --train.steps=100000000 --train.max_time=0.2 --log.dir=runs/t
out_has 'train.max_time has elapsed'
out_has 'kept     weights and metrics, but no checkpoint'
out_has 'start a new run from these weights with --model.dir=runs/t/model'
holds test "$(tail -n 1 out)" = 'report   runs/t/report.html'
holds test -f runs/t/model/model.safetensors

# After a signal the current step is finished, and the weights are saved.
stop_with() {
    local signal=$1 want=$2 code=0 folder=runs/$1 tries=0
    what="weft train, SIG$signal"
    "$WEFT" train run.yaml --train.steps=100000000 --log.every=1000 --log.dir="$folder" >out 2>err &
    local pid=$!
    while [ ! -s "$folder/metrics.jsonl" ] && [ $tries -lt 300 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    kill -s "$signal" $pid
    wait $pid || code=$?
    holds test "$code" -eq "$want"
    out_has 'received a signal'
    out_has "saved    $folder/model"
    out_has 'kept     weights and metrics'
    holds test -f "$folder/model/config.json"
    holds test ! -s err
}
stop_with INT 130
stop_with TERM 143

# A new run replaces an unfinished one.
mkdir -p runs/u && cp before runs/u/metrics.jsonl
run 0 train run.yaml --train.steps=1 --log.dir=runs/u
out_has 'replaces an unfinished run, whose metrics are now in runs/u/metrics-1.jsonl'
holds cmp before runs/u/metrics-1.jsonl
holds test "$(wc -l <runs/u/metrics.jsonl)" -eq 1

# After a failed step the weights of the previous step are saved.
cp "$tiny/tokens.bin" late.bin
chmod u+w late.bin
printf '\377\377' | dd of=late.bin bs=1 seek=$((1024 + 2 * 250)) conv=notrunc status=none
run 3 train run.yaml --data.train=late.bin --log.dir=runs/late
out_has 'step 1/8 | loss '
out_has 'stopped after step 1 of 8: the next step failed'
out_has 'saved    runs/late/model'
err_has 'step 2'
err_has 'token 250'
holds test -s runs/late/model/model.safetensors

# Non-finite weights are an error: the first weight of the file becomes NaN.
cp -r "$tiny" sick
chmod -R u+w sick
data=$((8 + $(od -An -tu8 -N8 sick/model.safetensors)))
printf '\000\000\300\177' | dd of=sick/model.safetensors bs=1 seek=$data conv=notrunc status=none
run 7 train run.yaml --model.dir=sick
err_has 'transformer.wte.weight is non-finite at element 0'

WEFT_ISA=quick run 2 train run.yaml
err_has "WEFT_ISA: unknown instruction set 'quick'"

finish
