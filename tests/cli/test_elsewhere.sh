#!/usr/bin/env bash
# Checks that a run's own config.yaml continues the run from any directory, also after the run was moved.
. "$(dirname -- "$0")/common.bash"

cp -r "$WEFT_TEST_DATA/train/gpt2-tiny" tiny
settings=(--model.dir=tiny --data.train=./tiny/tokens.bin,tiny/tok*.bin --data.val=tiny/tokens.bin --data.batch=4
    --data.seq=8 --parallel.threads=1 --checkpoint.every=2 --optim.decay_steps=100)
mkdir -p other deep/er

run 0 train "${settings[@]}" --train.steps=4 --log.dir=runs/a
out_lacks 'resumed'
out_has 'run      runs/a'
holds grep -q "train: .*$dir/tiny/tokens.bin,$dir/tiny/tok\*.bin" runs/a/config.yaml
holds grep -q "dir: .*$dir/runs/a" runs/a/config.yaml
holds cp -r runs/a copy

# From another directory, with more steps: the same run continues, and no other run is started.
cd other
run 0 train ../runs/a/config.yaml --checkpoint.resume=auto --train.steps=6
out_has 'resumed  from the checkpoint of step 4'
holds test ! -e runs
cd ../runs/a
run 0 train config.yaml --checkpoint.resume=auto --train.steps=8
out_has 'resumed  from the checkpoint of step 6'
cd ../..
holds test "$(wc -l <runs/a/metrics.jsonl)" -eq 8

# A run that was moved stays where it is.
mv copy deep/er/b
cd deep
run 0 train er/b/config.yaml --checkpoint.resume=auto --train.steps=6
out_has 'run      er/b'
out_has 'resumed  from the checkpoint of step 4'
cd ..
holds test "$(wc -l <deep/er/b/metrics.jsonl)" -eq 6
holds test "$(wc -l <runs/a/metrics.jsonl)" -eq 8
# A flag has precedence, and a settings file that is not of a run means the current directory.
run 0 train runs/a/config.yaml --log.dir=runs/c --train.steps=2
out_has 'run      runs/c'
cp runs/a/config.yaml own.yaml
sed -i "s|dir: .*runs/a.*|dir: here|" own.yaml
run 0 train own.yaml --train.steps=2
out_has 'run      here'

# Without a checkpoint the output says where there is none.
run 0 train "${settings[@]}" --train.steps=2 --log.dir=runs/d --checkpoint.resume=auto
out_has 'resumed  nothing: there is no checkpoint in runs/d/checkpoints'

finish
