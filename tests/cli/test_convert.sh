#!/usr/bin/env bash
# Checks weft convert: round trips, llm.c files, and errors.
. "$(dirname -- "$0")/common.bash"

data=$WEFT_TEST_DATA/train
tokens() {
    "$WEFT" generate --model "$1" --tokens 1,2,3 -n 20 --json | sed 's/,"prompt_ms.*//'
}

for model in gpt2-tiny llama-tiny llama-tiny-tied-residual; do
    run 0 convert "$data/$model" "$model"
    out_has "$model: "
    holds test "$(ls "$model" | grep -v '^modeling_weft.py$' | tr '\n' ' ')" = \
        'config.json expect.json model.safetensors run.json '
    run 0 convert "$model" "$model-again"
    holds cmp "$model/model.safetensors" "$model-again/model.safetensors"
    holds cmp "$model/config.json" "$model-again/config.json"
    holds test "$(tokens "$data/$model")" = "$(tokens "$model")"
    # bf16 is preserved, in one file or in several.
    run 0 convert "$model" "$model-short" --type bf16
    out_has ', bf16'
    holds grep -q bfloat16 "$model-short/config.json"
    run 0 convert "$model-short" "$model-many" --type bf16 --shard-bytes 40kB
    holds test -e "$model-many/model.safetensors.index.json"
    run 0 convert "$model-many" "$model-one" -t bf16
    holds cmp "$model-short/model.safetensors" "$model-one/model.safetensors"
    run 0 convert "$model-many" "$model-long" --type f32
    run 0 convert "$model-long" "$model-back" --type bf16
    holds cmp "$model-short/model.safetensors" "$model-back/model.safetensors"
done

# A checkpoint as a Hugging Face directory, and back.
tiny=$data/gpt2-tiny
settings=(--data.train="$tiny/tokens.bin" --data.batch=8 --data.seq=24 --parallel.micros=4
    --parallel.threads=1 --train.slow=off)
hash_of() { "$WEFT" inspect --hash "$1" 2>/dev/null | cut -c 1-32; }
run 0 train "${settings[@]}" --model.dir="$tiny" --train.steps=10 --log.dir=saved \
    --checkpoint.every=5 --parallel.pp=2
five=saved/checkpoints/step-00000005
run 0 convert $five five
run 0 convert five five-again --to checkpoint --step 5
out_has 'five-again: a checkpoint of step 5, 52 tensors, moments zero'
run 0 inspect --hash $five five five-again
holds test "$(cut -c 1-32 out | sort -u | wc -l)" -eq 1
holds test "$(hash_of five)" != "$(hash_of saved)"
holds test "$(tokens $five)" = "$(tokens five)"
run 0 convert saved/checkpoints/step-00000010 ten
holds cmp ten/model.safetensors saved/model/model.safetensors
run 0 convert $five five-short --type bf16
run 0 convert five five-rounded --type bf16
holds cmp five-short/model.safetensors five-rounded/model.safetensors
run 0 inspect five-again
out_has 'a checkpoint of step 5, run convert; all hashes match'

# A run from the checkpoint of a model equals a run from the model, whatever weights it replaces.
run 0 convert five start --to checkpoint
run 0 train "${settings[@]}" --model.dir=five --train.steps=4 --log.dir=from-model
run 0 train "${settings[@]}" --model.dir="$tiny" --train.steps=4 --log.dir=from-start \
    --checkpoint.resume=start
holds cmp from-model/model/model.safetensors from-start/model/model.safetensors
run 0 train "${settings[@]}" --model.dir=five --train.steps=9 --log.dir=from-five \
    --checkpoint.resume=five-again
out_has 'resumed  from the checkpoint of step 5'
holds test "$(hash_of from-five)" != "$(hash_of from-model)"

# A new model that is exported before its first step trains to the same bits as without the export.
new=(--model.spec=d1 --model.vocab=128 --model.ctx=64 --model.seed=7)
run 0 train "${settings[@]}" "${new[@]}" --train.steps=6 --log.dir=direct
run 0 train "${settings[@]}" "${new[@]}" --train.steps=1 --log.dir=fresh --optim.lr=0 \
    --optim.min_lr=0
run 0 convert fresh exported
run 0 train "${settings[@]}" --model.dir=exported --train.steps=6 --log.dir=imported \
    --parallel.dp=2
holds cmp direct/model/model.safetensors imported/model/model.safetensors
losses() { sed 's/,"lr".*//' "$1/metrics.jsonl"; }
holds test "$(losses direct)" = "$(losses imported)"

# The tokenizer is copied unchanged.
for i in $(seq 200); do echo "so the weft goes over the warp and under it, $i times"; done >text.txt
run 0 tokenize text.txt -o words --train-bpe 300
what='weft tokenize --train-bpe'
holds test -s words/tokenizer.json
spoken=(--model.spec=d1 --model.vocab=320 --model.ctx=64 --data.train=words --data.batch=4
    --data.seq=16 --parallel.micros=2 --parallel.threads=1)
run 0 train "${spoken[@]}" --train.steps=2 --log.dir=spoken --checkpoint.every=1
prompt() { sed 's/,"tokens".*//' out; }
run 0 generate --model spoken --prompt 'over the warp' -n 1 --json
want=$(prompt)
holds test "$(tr -cd , <<<"$want" | wc -c)" -lt 12 # fewer tokens than bytes
echo '{"x": 1}' >spoken/model/tokenizer_config.json
run 0 convert spoken worded
holds cmp spoken/model/tokenizer.json worded/tokenizer.json
holds cmp spoken/model/tokenizer_config.json worded/tokenizer_config.json
mv words moved # the run has its own copy
run 0 convert spoken/checkpoints/step-00000001 worded-one
holds cmp spoken/tokenizer.json worded-one/tokenizer.json
run 0 convert worded worded-start --to checkpoint
run 0 convert worded-start worded-back
holds cmp worded/tokenizer.json worded-back/tokenizer.json
for model in worded-one worded-start worded-back spoken/checkpoints/step-00000001; do
    run 0 generate --model $model --prompt 'over the warp' -n 1 --json
    holds test "$(prompt)" = "$want"
done
# If the tokenizer is too large to be written, no checkpoint is written, either.
run 0 train --model.arch=gpt2 --model.layers=1 --model.dim=8 --model.heads=1 --model.ctx=16 --model.vocab=300 --data.train=moved \
    --data.batch=2 --train.steps=1 --log.dir=wordy
sed -i "s/<|endoftext|>/<|$(printf %060000d 0)|>/g" wordy/model/tokenizer.json
sed -i '/"eos_token"/d' wordy/model/tokenizer_config.json
ls -A >files
what='weft convert with a tokenizer that cannot be written'
code=0
(ulimit -f 80 && exec "$WEFT" convert wordy no-room --to checkpoint) >out 2>err || code=$?
check_exit 8 $code
err_has 'tokenizer.json'
holds test "$(ls -A)" = "$(cat files)"
run 0 convert wordy no-room --to checkpoint
# A tokenizer two directories above is used only if that is a run.
mkdir -p by/chance by/checkpoints
cp worded/tokenizer.json by/
run 0 convert five by/chance/five --to checkpoint
run 0 convert five by/checkpoints/five --to checkpoint
cp -r spoken/checkpoints/step-00000001 by/chance/one
for model in five one; do
    run 0 convert by/chance/$model by/hf-$model
    holds test ! -e by/hf-$model/tokenizer.json
done
run 0 convert by/checkpoints/five by/hf-kept
holds test ! -e by/hf-kept/tokenizer.json
what='weft convert inside the folder of a checkpoint'
holds env -C spoken/checkpoints/step-00000001 "$WEFT" convert . "$PWD/by/hf-here" >out 2>err
holds cmp spoken/tokenizer.json by/hf-here/tokenizer.json
echo '{}' >worded-back/tokenizer.json
what='weft convert with a tokenizer of another kind'
holds "$WEFT" convert worded-back worded-none --to checkpoint >out 2>err
err_has 'weft: warning: the tokenizer is left out: '
holds test ! -e worded-none/tokenizer.json

# For an unfinished run weft uses its newest complete checkpoint and prints a line that names it.
# noted ARGS...: checks that weft succeeds and prints one line on stderr.
noted() {
    what="weft $*"
    holds "$WEFT" "$@" >out 2>err </dev/null
    holds test "$(wc -l <err)" -eq 1
}
cp -r saved torn
rm -r torn/model
for command in 'inspect --hash' convert; do
    noted $command torn $([ "$command" != convert ] || echo newest)
    err_has 'weft: torn is not finished: using its checkpoint of step 10'
done
holds cmp newest/model.safetensors saved/model/model.safetensors
printf x | dd of=torn/checkpoints/step-00000010/rank-00000.safetensors bs=1 seek=9999 \
    conv=notrunc status=none
noted convert torn older
err_has 'using its checkpoint of step 5; skipped: torn/checkpoints/step-00000010: rank-0'
holds cmp older/model.safetensors five/model.safetensors
noted eval --model torn --data "$tiny/tokens.bin"
err_has 'using its checkpoint of step 5'
noted generate --model torn --tokens 1 --json
run 4 convert torn/checkpoints/step-00000010 bad
err_has 'does not match its hash'
rm torn/checkpoints/step-00000005/manifest.json
run 4 convert torn bad
err_has 'none of the 2 checkpoints in torn/checkpoints can be used'
rm -r torn/checkpoints/*
for command in 'convert torn bad' 'generate --model torn' 'inspect --hash torn' \
    "eval --model torn --data $tiny/tokens.bin"; do
    run 4 $command
    err_has 'torn is an unfinished run without a checkpoint'
done
# Paths that are not models: the error names what was expected and found, with one exit code.
mkdir some && touch some/a some/b some/c some/d
for command in 'convert some bad' 'generate --model some' 'inspect --hash some' \
    "eval --model some --data $tiny/tokens.bin"; do
    run 4 $command
    err_has 'some is not a model: expected config.json (Hugging Face), manifest.json'
    err_has 'found a, b, c and 1 more'
    run 4 ${command//some/nowhere}
    err_has 'nowhere cannot be opened: No such file'
done
holds test ! -e bad

# The tokens that start and end documents are preserved.
mkdir ends
cp "$data/gpt2-tiny/model.safetensors" ends
sed 's/^{/{"bos_token_id": 3, "eos_token_id": [5, 6],/' "$data/gpt2-tiny/config.json" \
    >ends/config.json
run 0 convert ends ends-out
holds grep -q '"eos_token_id": \[5, 6\]' ends-out/config.json
holds grep -q '"bos_token_id": 3' ends-out/config.json

# A model of llm.c: 90 zeros.
llmc() { # VERSION BYTES
    printf '\xc6\xd7\x34\x01'
    printf "\\x$1\0\0\0"
    printf '\2\0\0\0\3\0\0\0\1\0\0\0\1\0\0\0\2\0\0\0\4\0\0\0'
    head -c $((1024 - 32 + $2)) /dev/zero
}
llmc 3 360 >gpt2.bin
what='a file of llm.c'
holds test "$(od -An -td4 -N4 gpt2.bin | tr -d ' ')" = 20240326
run 0 convert gpt2.bin from-llmc
out_has 'from-llmc: gpt2, 1 layer of dimension 2, '
holds grep -q '"vocab_size": 3' from-llmc/config.json
run 0 generate --model from-llmc --tokens 1 -n 1 --json
run 0 generate --model gpt2.bin --tokens 1 -n 1 --json
llmc 5 180 >half.bin
run 0 convert half.bin from-half
holds cmp from-llmc/model.safetensors from-half/model.safetensors

llmc 3 359 >cut.bin
run 4 convert cut.bin cut
err_has 'it is truncated'
llmc 2 360 >old.bin
run 4 convert old.bin old
err_has 'version 2'
head -c 2000 /dev/urandom >noise.bin
run 4 convert noise.bin noise
run 4 convert nowhere out-dir
run 4 convert . out-dir
# Sizes in a config are checked against the files before memory is allocated.
mkdir greedy
cp "$data/gpt2-tiny/model.safetensors" greedy
for key in n_layer n_embd vocab_size n_positions; do
    sed -E "s/(\"$key\": *)[0-9]+/\\1960000/" "$data/gpt2-tiny/config.json" >greedy/config.json
    for command in 'convert greedy broken' 'generate --tokens 1 --model greedy' \
        "eval --model greedy --data $data/gpt2-tiny/tokens.bin"; do
        run 4 $command
    done
done
err_has 'describes a model of '
head -c 3000 "$data/gpt2-tiny/model.safetensors" >ends/model.safetensors
run 4 convert ends broken
for made in cut old noise out-dir broken; do
    holds test ! -e $made
done
run 2 convert gpt2.bin ends
err_has 'exists and is not empty'
run 2 convert gpt2.bin
err_has 'convert needs IN and OUT'
run 2 convert a b c
run 2 convert gpt2.bin x --shard-bytes 0
run 2 convert gpt2.bin x --shard-bytes 1e9
run 2 convert gpt2.bin x --shard-bytes 1ms
err_has 'give bytes, as in 80GB'
run 2 convert gpt2.bin x --shard-bytes 0.1B
run 2 convert gpt2.bin x --type f16
run 2 convert gpt2.bin x --to nothing
run 2 convert gpt2.bin x --step 3
err_has '--step needs --to checkpoint'
for bad in '' -1 1.5 x 9999999999999999999; do
    run 2 convert gpt2.bin x --to checkpoint --step "$bad"
done
run 2 convert gpt2.bin x --to checkpoint --type bf16
run 2 convert gpt2.bin x --to checkpoint --shard-bytes 9
run 2 convert gpt2.bin step-00000003 --to checkpoint
err_has 'is named after step 3'
run 2 convert gpt2.bin ends --to checkpoint
err_has 'exists and is not empty'
run 8 convert gpt2.bin nowhere/at/all --to checkpoint
holds test ! -e x -a ! -e step-00000003
run 8 convert gpt2.bin nowhere/at/all
holds test -z "$(ls -a | grep -i tmp)"
finish
