#!/usr/bin/env bash
# Checks that a model is neither trained with nor evaluated on tokens of another tokenizer, and that a
# changed shard is noticed when a run is resumed.
. "$(dirname -- "$0")/common.bash"

for i in $(seq 400); do echo "the thread number $i goes forward and back"; done >a.txt
for i in $(seq 400); do echo "une autre phrase $((i * 7)) pour un autre vocabulaire"; done >b.txt
run 0 tokenize a.txt -o a --train-bpe 300 --val 0.2
run 0 tokenize b.txt -o b --train-bpe 300 --val 0.2
run 0 tokenize a.txt -o bytes --val 0.2
run 0 tokenize b.txt -o a2 --tokenizer a/tokenizer.json --val 0.2

# The header of a shard has the hash of the tokenizer: bytes 24 to 31, least significant byte first.
holds test "$(od -A n -t x8 -j 24 -N 8 bytes/train-000000.bin | tr -d ' ')" = 084af64e696e7445
holds cmp <(head -c 1024 a/train-000000.bin | tail -c 1012) <(head -c 1024 a2/val-000000.bin | tail -c 1012)

new=(--model.arch=gpt2 --model.layers=1 --model.dim=16 --model.heads=2 --model.vocab=300 --model.ctx=16 --data.batch=4 --data.seq=8
    --parallel.threads=1 --train.steps=4 --checkpoint.every=2 --optim.decay_steps=100)
another='has the tokenizer'

run 0 train "${new[@]}" --data.train=a --data.val=a --log.dir=run
holds grep -q "\"tokenizer\":\"$(od -A n -t x8 -j 24 -N 8 a/train-000000.bin | tr -d ' ')\"" run/checkpoints/step-00000004/manifest.json

# Validation data, a tokenizer, a model and a checkpoint of another tokenizer are refused.
run 3 train "${new[@]}" --data.train=a --data.val=b --log.dir=no
err_has "$another"
run 3 train "${new[@]}" --data.train=a --data.tokenizer=b/tokenizer.json --log.dir=no
err_has "$another"
run 3 train "${new[@]}" --data.train=a/train-000000.bin,b/train-000000.bin --log.dir=no
err_has "$another"
tuned=(--model.dir=run/model --data.batch=4 --data.seq=8 --parallel.threads=1 --train.steps=1)
run 3 train "${tuned[@]}" --data.train=b
err_has 'b/train-000000.bin has the tokenizer'
err_has "tokenize the text with the model's tokenizer"
run 0 train "${tuned[@]}" --data.train=a2
run 0 train "${tuned[@]}" --data.train=b --data.verify=false
run 3 train "${new[@]}" --data.train=b --checkpoint.resume=run/checkpoints/step-00000004 --train.steps=6 --log.dir=no
err_has "$another"
# Bytes and this vocabulary differ, too, although every byte is a token of it.
run 3 train "${tuned[@]}" --data.train=bytes
err_has "$another"

holds test ! -e no

# Evaluation and conversion: the hash is in the model, whatever its form.
run 0 eval --model run --data a2 --batches 1
run 3 eval --model run --data b --batches 1
err_has "$another"
run 0 convert run ckpt --to checkpoint
run 3 eval --model ckpt --data b --batches 1
err_has "$another"
run 0 convert ckpt hf
run 3 eval --model hf --data b --batches 1
run 0 eval --model hf --data a2 --batches 1
# A checkpoint whose tokenizer.json was replaced is not used with it.
cp b/tokenizer.json ckpt/tokenizer.json
run 3 convert ckpt hf2
err_has 'is another tokenizer than the one with which ckpt was trained'
run 3 generate --model ckpt --prompt the -n 2
err_has 'is another tokenizer'

# Shards without a hash are read as before; the tokenizer in their directory identifies them.
cp -r b old && rm old/*.json
for f in old/*.bin; do
    dd if=/dev/zero of="$f" bs=1 seek=12 count=20 conv=notrunc status=none
done
run 0 train "${tuned[@]}" --data.train=old
cp b/tokenizer.json old/
run 3 train "${tuned[@]}" --data.train=old
err_has "$another"
# An extension of a newer weft is refused.
cp -r a newer
printf '\2' | dd of=newer/train-000000.bin bs=1 seek=16 conv=notrunc status=none
run 3 train "${tuned[@]}" --data.train=newer
err_has 'use a newer weft'

# A shard that changed between two starts: refused, named, and accepted on request.
resume=("${new[@]}" --data.train=a --log.dir=run2 --checkpoint.resume=auto)
run 0 train "${new[@]}" --data.train=a --log.dir=run2
run 0 train "${resume[@]}" --train.steps=6
cp a/train-000000.bin kept
printf 'x' | dd of=a/train-000000.bin bs=1 seek=3000 conv=notrunc status=none
for ranks in 1 2; do
    run 3 train "${resume[@]}" --train.steps=8 --parallel.dp=$ranks --parallel.micros=2
    err_has 'a/train-000000.bin has changed since the checkpoint of step 6'
done
cp kept a/train-000000.bin
run 0 train "${resume[@]}" --train.steps=8
cp a/train-000000.bin a/train-000001.bin
run 3 train "${resume[@]}" --train.steps=10
err_has 'data.train has 2 shards, but had 1 at the checkpoint of step 8'
run 0 train "${resume[@]}" --train.steps=10 --data.verify=false
# Data of another name is a change of the settings, and reported as one.
holds "$WEFT" train "${resume[@]}" --train.steps=12 --data.train=a2 >out 2>err
err_has 'is a2'

finish
