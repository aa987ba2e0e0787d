#!/usr/bin/env bash
# weft convert: there and back, files of llm.c, and what is refused.
. "$(dirname -- "$0")/common.bash"

data=$WEFT_TEST_DATA/train
tokens() {
    "$WEFT" generate --model "$1" --tokens 1,2,3 -n 20 --json | sed 's/,"prompt_ms.*//'
}

for model in gpt2-tiny llama-tiny llama-tiny-tied-residual; do
    run 0 convert "$data/$model" "$model"
    out_has "$model: "
    holds test "$(ls "$model" | tr '\n' ' ')" = 'config.json model.safetensors '
    run 0 convert "$model" "$model-again"
    holds cmp "$model/model.safetensors" "$model-again/model.safetensors"
    holds cmp "$model/config.json" "$model-again/config.json"
    holds test "$(tokens "$data/$model")" = "$(tokens "$model")"
    # bf16 stays what it is, in one file or in many.
    run 0 convert "$model" "$model-short" --type bf16
    out_has ', bf16'
    holds grep -q bfloat16 "$model-short/config.json"
    run 0 convert "$model-short" "$model-many" --type bf16 --shard-bytes 40000
    holds test -e "$model-many/model.safetensors.index.json"
    run 0 convert "$model-many" "$model-one" -t bf16
    holds cmp "$model-short/model.safetensors" "$model-one/model.safetensors"
    run 0 convert "$model-many" "$model-long" --type f32
    run 0 convert "$model-long" "$model-back" --type bf16
    holds cmp "$model-short/model.safetensors" "$model-back/model.safetensors"
done

# Tokens that begin and end documents are kept.
mkdir ends
cp "$data/gpt2-tiny/model.safetensors" ends
sed 's/^{/{"bos_token_id": 3, "eos_token_id": [5, 6],/' "$data/gpt2-tiny/config.json" \
    >ends/config.json
run 0 convert ends ends-out
holds grep -q '"eos_token_id": 5' ends-out/config.json
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
err_has 'it was cut short'
llmc 2 360 >old.bin
run 4 convert old.bin old
err_has 'version 2'
head -c 2000 /dev/urandom >noise.bin
run 4 convert noise.bin noise
run 4 convert nowhere out-dir
run 4 convert . out-dir
# A config that promises more than there is makes nobody reserve memory for it.
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
err_has 'takes what to read and what to write'
run 2 convert a b c
run 2 convert gpt2.bin x --shard-bytes 0
run 2 convert gpt2.bin x --shard-bytes 1e9
run 2 convert gpt2.bin x --type f16
run 8 convert gpt2.bin nowhere/at/all
holds test -z "$(ls -a | grep -i tmp)"
finish
