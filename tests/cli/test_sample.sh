#!/usr/bin/env bash
# Checks log.sample: samples do not change the bits of a run, every layout writes the same samples, weft
# generate reproduces the last one, and a resumed run has each sample once.
. "$(dirname -- "$0")/common.bash"

for i in $(seq 1 400); do printf 'the quick brown fox %s jumps over %s lazy dogs\n' "$i" "$((i * i))"; done >text.txt
run 0 tokenize text.txt -o data --train-bpe 320
settings=(--model.arch=gpt2 --model.layers=4 --model.dim=32 --model.heads=2 --model.vocab=320 --model.ctx=64 --data.train=data --data.batch=4
    --parallel.micros=4 --parallel.threads=1 --train.slow=off --optim.lr=3e-3 --train.steps=12)
sampled=(--log.sample=5 '--log.sample_prompt=the quick ' --log.sample_tokens=40)

hash_of() { "$WEFT" inspect --hash "$1/model" | cut -d ' ' -f 1; }

run 0 train "${settings[@]}" --log.dir=plain
out_lacks sample
holds test ! -e plain/samples.jsonl
run 0 train "${settings[@]}" "${sampled[@]}" --log.dir=a
for step in 5 10 12; do out_has "sample $step/12"; done
out_has '         the quick '
holds test "$(hash_of plain)" = "$(hash_of a)"
holds test "$(sed 's/,"lr".*//' plain/metrics.jsonl)" = "$(sed 's/,"lr".*//' a/metrics.jsonl)"
holds test "$(grep -c '^{"step":[0-9]*,"text":"the quick ' a/samples.jsonl)" -eq 3
holds grep -q '<h2>Samples</h2>' <("$WEFT" report a -o -)

# weft generate with the finished model gives the last sample.
run 0 generate --model a/model --prompt 'the quick ' --max-tokens 40 --json
text=$(sed -n 's/.*"text":\("[^"]*"\).*/\1/p' out)
last=$(sed -n '3s/.*"text":"the quick \([^"]*"\).*/"\1/p' a/samples.jsonl)
holds test -n "$text"
holds test "${text%\\u000a*}" = "${last%\\u000a*}"

# Every layout writes the same samples.
n=0
for layout in '--parallel.pp=2 --parallel.schedule=zb-h1' '--parallel.dp=2 --parallel.pp=2' \
    '--parallel.pp=2 --parallel.chunks=2 --parallel.schedule=interleaved-1f1b' '--parallel.dp=3'; do
    n=$((n + 1))
    # shellcheck disable=SC2086 # words
    run 0 train "${settings[@]}" "${sampled[@]}" --log.dir=r$n $layout
    holds cmp a/samples.jsonl r$n/samples.jsonl
    holds test "$(hash_of r$n)" = "$(hash_of a)"
done

# A resumed run repeats a sample that it had written before.
run 0 train "${settings[@]}" "${sampled[@]}" --log.dir=s --checkpoint.every=4 --checkpoint.async=false
rm -rf s/model s/checkpoints/step-*12
run 0 train "${settings[@]}" "${sampled[@]}" --log.dir=s --checkpoint.every=4 --checkpoint.async=false --checkpoint.resume=auto
out_has 'resumed  from the checkpoint of step 8'
holds cmp a/samples.jsonl s/samples.jsonl
holds test "$(hash_of s)" = "$(hash_of a)"

# The run, its model and its samples have the same tokenizer, which is found in the folder of a data file
# or of a list, in model.dir, or by name.  A tokenizer with more tokens than the model is not used.
found=(--data.batch=4 --parallel.micros=4 --parallel.threads=1 --train.steps=1 --checkpoint.every=1 --log.sample=1 --log.sample_tokens=2)
new=(--model.arch=gpt2 --model.layers=1 --model.dim=32 --model.heads=2 --model.ctx=64)
shard=$(echo data/*.bin)
mkdir bare
cp "$shard" bare/
run 0 train "${new[@]}" "${found[@]}" --model.vocab=320 --data.train="$shard" --log.dir=of-file
run 0 train "${new[@]}" "${found[@]}" --model.vocab=320 --data.train="$shard,$shard" --log.dir=of-list
run 0 train "${found[@]}" --model.dir=of-file/model --data.train=bare --log.dir=of-model
run 0 train "${new[@]}" "${found[@]}" --model.vocab=320 --data.train=bare --data.tokenizer=data --log.dir=of-name
for run in of-file of-list of-model of-name; do
    holds cmp data/tokenizer.json $run/tokenizer.json
    holds cmp data/tokenizer.json $run/model/tokenizer.json
    run 0 generate --model $run/checkpoints/step-00000001 --prompt 'the quick ' -n 1 --json
    holds test "$(sed 's/.*"prompt":\[\([^]]*\).*/\1/' out | tr -cd , | wc -c)" -lt 9 # fewer than bytes
done
cp "$WEFT_TEST_DATA/train/gpt2-tiny/tokens.bin" bare/few.bin
cp data/tokenizer.json bare/
run 0 train "${new[@]}" "${found[@]}" --model.vocab=300 --data.train=bare/few.bin --log.dir=of-none
holds test ! -e of-none/tokenizer.json -a ! -e of-none/model/tokenizer.json

# The samples of an untrained byte model contain control characters, which are escaped.
run 0 train --model.spec=d1 --model.vocab=257 --model.ctx=64 --data.train="$WEFT_TEST_DATA/train/gpt2-tiny/tokens.bin" \
    --data.batch=2 --train.steps=6 --optim.lr=1e-6 --log.sample=1 --log.sample_tokens=60 --log.dir=b
holds test "$(grep -c '^sample' out)" -eq 6
holds test "$(LC_ALL=C tr -d '\n -~' <out | wc -c)" -le 600
n_checks=$((n_checks + 1))
! LC_ALL=C grep -q $'[\001-\010\013-\037\177]' out || fail 'a control character is printed'
out_has '\x'
# Without a tokenizer samples are token numbers, and a prompt is an error.
tiny=(--model.dir="$WEFT_TEST_DATA/train/gpt2-tiny" --data.train="$WEFT_TEST_DATA/train/gpt2-tiny/tokens.bin"
    --data.seq=24 --data.batch=2 --train.steps=1 --log.sample=1)
run 0 train "${tiny[@]}" --log.sample_tokens=3
holds grep -qx ' *[0-9]* [0-9]* [0-9]*' out
run 2 train "${tiny[@]}" --log.sample_prompt=x
err_has 'no tokenizer'
run 2 train "${settings[@]}" --log.sample=1 --log.sample_prompt="$(head -c 1500 text.txt)"
err_has "expected fewer than the model's context of 64"
run 3 train "${settings[@]}" --log.sample=1 --data.tokenizer=nowhere

finish
