#!/usr/bin/env bash
# Checks the files beside the weights of a model: what weft writes for new models, and what
# fine-tuning and conversion keep.
. "$(dirname -- "$0")/common.bash"

# has FILE TEXT: checks that the file has this text; blanks and line breaks do not count.
has() {
    holds grep -qF -- "${2// /}" <(tr -d ' \n' <"$1")
}

for i in $(seq 60); do echo "the weft goes over the warp and under it, $i times"; done >text.txt
run 0 tokenize text.txt -o bytes
run 0 tokenize text.txt -o words --train-bpe 300
shape=(--model.layers=1 --model.dim=16 --model.heads=2 --model.ffn=32 --model.ctx=32
    --data.batch=2 --data.seq=16 --parallel.micros=1 --parallel.threads=1)

# A new model has everything that transformers needs for the same tokens and the same end.
words=$(sed 's/.*"document_end":\([0-9]*\).*/\1/' words/meta.json)
for case in 'gpt2 bytes 256' 'llama bytes 256' "gpt2 words $words" "llama words $words"; do
    read -r arch data end <<<"$case"
    run 0 train "${shape[@]}" --model.arch="$arch" --model.vocab=300 --data.train="$data" \
        --train.steps=1 --log.dir="new-$arch-$data"
    model=new-$arch-$data/model
    holds cmp "$data/tokenizer.json" "$model/tokenizer.json"
    for file in config generation_config; do
        for role in bos eos pad; do
            has "$model/$file.json" "\"${role}_token_id\": $end"
        done
    done
    has "$model/tokenizer_config.json" '"tokenizer_class": "PreTrainedTokenizerFast"'
    has "$model/tokenizer_config.json" '"model_max_length": 32'
    for file in tokenizer_config special_tokens_map; do
        has "$model/$file.json" '"eos_token": "<|endoftext|>"'
    done
done
# The file of the byte tokenizer reads back as bytes.
run 0 tokenize text.txt -o again --tokenizer bytes/tokenizer.json
holds cmp bytes/train-000000.bin again/train-000000.bin
holds grep -q '"tokenizer":"bytes"' again/meta.json

# Block residuals have a type of their own, which transformers does not take for Llama.
run 0 train "${shape[@]}" --model.arch=llama --model.residual_block_layers=1 --model.vocab=257 \
    --data.train=bytes --train.steps=1 --log.dir=blocks
has blocks/model/config.json '"model_type": "weft_llama"'
has blocks/model/config.json '"AutoModelForCausalLM": "modeling_weft.WeftLlamaForCausalLM"'
holds grep -q '^class WeftLlamaForCausalLM' blocks/model/modeling_weft.py
run 0 convert blocks blocks-again
holds cmp blocks/model/config.json blocks-again/config.json
holds cmp blocks/model/modeling_weft.py blocks-again/modeling_weft.py
holds cmp blocks/model/model.safetensors blocks-again/model.safetensors

# Everything that a directory has is kept: files, keys, and lists of tokens.
cp -r new-llama-words/model source
sed -i -e 's/"eos_token_id": [0-9]*/"eos_token_id": [299, 7, 9]/' \
    -e 's/"pad_token_id": [0-9]*/"pad_token_id": 3/' \
    -e 's/"bos_token_id": [0-9]*/"bos_token_id": null/' \
    -e 's/"initializer_range": 0.02/"initializer_range": 0.1/' \
    -e 's/^{/{"a key": {"list": [1, 2.5, "x\\"y"], "off": false, "none": null},/' source/config.json
echo '{"chat_template": "{{ messages }}"}' >source/tokenizer_config.json
echo '{"eos_token_id": [299, 9], "temperature": 0.6}' >source/generation_config.json
echo '{{ messages }}' >source/chat_template.jinja
echo 'terms' >source/LICENSE
echo 'no' >source/.hidden
echo 'no' >source/optimizer.bin
mkdir source/additional_chat_templates
echo '{{ tools }}' >source/additional_chat_templates/tools.jinja
# kept DIR: checks that the directory has everything of the directory `source`.
kept() {
    for file in tokenizer.json tokenizer_config.json generation_config.json chat_template.jinja \
        special_tokens_map.json LICENSE additional_chat_templates/tools.jinja; do
        holds cmp "source/$file" "$1/$file"
    done
    has "$1/config.json" '"a key": {"list": [1, 2.5, "x\"y"], "off": false, "none": null}'
    has "$1/config.json" '"bos_token_id": null, "eos_token_id": [299, 7, 9], "pad_token_id": 3'
    has "$1/config.json" '"initializer_range": 0.1'
    holds test ! -e "$1/.hidden" -a ! -e "$1/optimizer.bin"
}
run 0 convert source converted --type bf16
kept converted
has converted/config.json '"dtype": "bfloat16"'
run 0 convert converted twice --type bf16
holds cmp converted/config.json twice/config.json
tune=(--data.train=words --data.batch=2 --data.seq=16 --parallel.micros=1 --parallel.threads=1)
run 0 train "${tune[@]}" --model.dir=source --train.steps=2 --checkpoint.every=1 --log.dir=tuned
kept tuned/model
has tuned/model/config.json '"dtype": "float32"'
# The run has its own copy: the source may be gone when a checkpoint is converted.
mv source moved
run 0 convert tuned/checkpoints/step-00000001 early
mv moved source
kept early
run 0 train "${tune[@]}" --model.dir=tuned/model --train.steps=1 --log.dir=further
kept further/model

# A tokenizer that weft cannot read is copied, and the run prints the reason.
cp -r source strange
echo '{"model": {"type": "WordPiece"}}' >strange/tokenizer.json
what='weft train with an unreadable tokenizer'
mkdir plain && cp words/train-000000.bin plain/
holds "$WEFT" train --data.train=plain "${tune[@]:1}" --model.dir=strange \
    --train.steps=1 --log.dir=strangely >out 2>err
cat err >>out
out_has 'is copied, but weft cannot read it: '
holds cmp strange/tokenizer.json strangely/model/tokenizer.json
holds cmp strange/chat_template.jinja strangely/model/chat_template.jinja
has strangely/model/config.json '"eos_token_id": [299, 7, 9]'

# With another tokenizer, the files and tokens of the old one are of no use.
what='weft train with another tokenizer'
holds "$WEFT" train --data.train=bytes "${tune[@]:1}" --model.dir=source --train.steps=1 \
    --log.dir=other >out 2>err
cat err >>out
out_has 'the model gets the tokenizer of the data'
holds cmp bytes/tokenizer.json other/model/tokenizer.json
holds test ! -e other/model/chat_template.jinja
has other/model/config.json '"eos_token_id": 256'
has other/model/generation_config.json '"eos_token_id": 256'
has other/model/config.json '"a key": {"list"'
holds cmp source/LICENSE other/model/LICENSE
finish
