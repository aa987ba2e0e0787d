#!/usr/bin/env bash
# Checks weft generate: the same seed gives the same tokens with any number of threads; text, token
# numbers, limits.
. "$(dirname -- "$0")/common.bash"

data=$WEFT_TEST_DATA/train

# run_summary CODE ARGS...: like run, but expects one line on stderr with a summary.
run_summary() {
    local want=$1 code=0
    shift
    what="weft $*"
    "$WEFT" "$@" >"$dir/out" 2>"$dir/err" </dev/null || code=$?
    n_checks=$((n_checks + 1))
    [ "$code" -eq "$want" ] || fail "exit code $code, want $want"
    n_checks=$((n_checks + 1))
    [ "$(wc -l <"$dir/err")" -eq 1 ] || fail 'not one line on stderr'
}

for model in gpt2-tiny llama-tiny llama-tiny-tied-residual; do
    run_summary 0 generate --model "$data/$model" --tokens 5,6,7 --max-tokens 20 --seed 3 --threads 1
    err_has '20 tokens after 3, '
    err_has 'stopped by: max-tokens'
    cp out first
    holds test "$(wc -w <first)" -eq 20
    for threads in 2 3; do
        run_summary 0 generate --model "$data/$model" --tokens 5,6,7 -n 20 --seed 3 --threads $threads
        holds cmp out first
    done
    # Continuing from its output gives the same tokens: a token depends on seed and position only.
    run_summary 0 generate --model "$data/$model" -n 12 --seed 3 \
        --tokens "5,6,7,$(cut -d' ' -f1-8 <first | tr ' ' ,)"
    holds test "$(cat out)" = "$(cut -d' ' -f9- <first)"
    run_summary 0 generate --model "$data/$model" --tokens 5,6,7 -n 20 --seed 4
    holds test "$(cat out)" != "$(cat first)"
    # Without options, the defaults of the help apply.
    run_summary 0 generate --model "$data/$model" --tokens 5,6,7 -n 20
    cp out defaults
    run_summary 0 generate --model "$data/$model" --tokens 5,6,7 -n 20 --temperature 0.8 --top-k 50 \
        --top-p 1 --seed 42
    holds cmp out defaults
    # Three ways to select greedy decoding.
    run_summary 0 generate --model "$data/$model" --tokens 5,6,7 -n 10 --temperature 0
    cp out greedy
    run_summary 0 generate --model "$data/$model" --tokens 5,6,7 -n 10 --top-k 1 --seed 9
    holds cmp out greedy
    run_summary 0 generate --model "$data/$model" --tokens 5,6,7 -n 10 --top-k 0 --top-p 1e-9 --seed 9
    holds cmp out greedy
    # The context is 64.
    run_summary 0 generate --model "$data/$model" --tokens 5,6,7 --type bf16
    err_has '61 tokens after 3, '
    err_has 'stopped by: context'
done

tiny=$data/gpt2-tiny
run 0 generate --model "$tiny" --tokens 5,6,7 --max-tokens 4 --seed 3 --json
out_has '{"prompt":[5,6,7],"tokens":['
out_has '"stopped":"max-tokens","seed":3,'
out_lacks '"text"'

# The end-of-document token ends the text.
mkdir ends
cp "$tiny/model.safetensors" ends
run_summary 0 generate --model "$tiny" --tokens 5,6,7 -n 10 --seed 8
cp out first
third=$(cut -d' ' -f3 <out) # differs from the tokens before it, as the output below shows
sed "s/^{/{\"eos_token_id\": [$third, 1],/" "$tiny/config.json" >ends/config.json
run 0 generate --model ends --tokens 5,6,7 --seed 8 --json
out_has "$third]"
out_has '"stopped":"end of document"'
run_summary 0 generate --model ends --tokens 5,6,7 --seed 8
holds test "$(cat out)" = "$(cut -d' ' -f1-2 <first)"
run 0 generate --model ends --json -n 1
out_has "{\"prompt\":[$third]"
# Every token of a list ends the document, and generation_config.json has priority.
# stops_at MODEL: checks that the text of the model stops at the third token.
stops_at() {
    run 0 generate --model "$1" --tokens 5,6,7 -n 10 --seed 8 --json
    out_has "$third]"
    out_has '"stopped":"end of document"'
}
sed "s/^{/{\"eos_token_id\": [1, $third],/" "$tiny/config.json" >ends/config.json
stops_at ends
sed "s/^{/{\"eos_token_id\": 1,/" "$tiny/config.json" >ends/config.json
echo "{\"eos_token_id\": [1, $third]}" >ends/generation_config.json
stops_at ends
sed "s/^{/{\"eos_token_id\": null,/" "$tiny/config.json" >ends/config.json
echo "{\"eos_token_id\": $third, \"bos_token_id\": 9}" >ends/generation_config.json
stops_at ends
run 0 generate --model ends --json -n 1
out_has '{"prompt":[9]'
run_summary 0 generate --model ends --tokens 5,6,7 -n 10 --seed 8 --ignore-eos
holds cmp out first
# Limits and sampling of generation_config.json; options have priority.
echo '{"max_new_tokens": 4, "do_sample": false}' >ends/generation_config.json
run_summary 0 generate --model "$tiny" --tokens 5,6,7 -n 4 --temperature 0
cp out greedy
run_summary 0 generate --model ends --tokens 5,6,7
holds cmp out greedy
run_summary 0 generate --model ends --tokens 5,6,7 -n 10 --seed 8 --temperature 0.8
holds cmp out first
echo '{"max_length": 7, "do_sample": true, "top_k": 1, "repetition_penalty": 1.0}' \
    >ends/generation_config.json
run_summary 0 generate --model ends --tokens 5,6,7
holds cmp out greedy
echo '{"num_beams": 4, "suppress_tokens": [], "bad_words_ids": [[3]]}' >ends/generation_config.json
what='weft generate with unsupported settings'
holds "$WEFT" generate --model ends --tokens 5 -n 1 --json >out 2>err
err_has 'generation_config.json: ignored: num_beams, bad_words_ids'
for bad in '{"temperature": "x", "do_sample": true}' '{"top_p": 3, "do_sample": true}' '[]' '{' \
    '{"eos_token_id": "x"}' '{"stop_strings": [3]}' '{"max_new_tokens": -1}'; do
    echo "$bad" >ends/generation_config.json
    run 4 generate --model ends --tokens 5
    err_has 'ends'
done
rm ends/generation_config.json
# A stop string, also across tokens: the output has numbers here.
run_summary 0 generate --model "$tiny" --tokens 5,6,7 -n 10 --seed 8 --stop " $third"
holds test "$(cat out)" = "$(cut -d' ' -f1-2 <first)"
run 0 generate --model "$tiny" --tokens 5,6,7 -n 10 --seed 8 --stop xyz --stop " $third" --json
out_has '"stopped":"stop string"'
# Several samples: each is that of its own seed.
run 0 generate --model "$tiny" --tokens 5,6,7 -n 5 --seed 8 --samples 3 --json
cut -d, -f1-8 out >three
for seed in 8 9 10; do
    run 0 generate --model "$tiny" --tokens 5,6,7 -n 5 --seed $seed --json
    cut -d, -f1-8 out
done >apart
holds cmp three apart
what='weft generate --samples 2'
holds "$WEFT" generate --model "$tiny" --tokens 5 -n 2 --samples 2 >out 2>err
holds test "$(grep -c '^--- sample [12] of 2 ---$' out)" = 2
# A penalty and min-p that leave one token; log-probabilities.
run_summary 0 generate --model "$tiny" --tokens 5,6,7 -n 4 --min-p 1
holds cmp out greedy
run_summary 0 generate --model "$tiny" --tokens 5,6,7 -n 30 --temperature 0 --repetition-penalty 1000
holds test "$(tr ' ' '\n' <out | sort | uniq -d | wc -l)" = 0
run 0 generate --model "$tiny" --tokens 5,6,7 -n 2 --json --logprobs 0
out_has '"logprobs":[-'
holds grep -vq top_logprobs out
run 0 generate --model "$tiny" --tokens 5,6,7 -n 2 --json --logprobs 2
out_has '"top_logprobs":[[{"token":'

# An untrained model with a tokenizer.
printf '\x88\xd8\x34\x01\x01\x00\x00\x00\x40\x00\x00\x00' >tokens.bin
head -c $((1024 - 12 + 128)) /dev/zero >>tokens.bin
cat >run.yaml <<END
model: {spec: d1, vocab: 257, ctx: 32}
data: {train: tokens.bin, seq: 8, batch: 1}
parallel: {micros: 1, threads: 1}
train: {steps: 1}
optim: {lr: 1e-4}
log: {dir: text}
END
if "$WEFT" train run.yaml >train.out 2>&1; then
    run_summary 0 generate --model text/model --prompt 'abc' -n 9 --seed 5
    cp out first
    run 0 generate --model text/model --prompt 'abc' -n 9 --seed 5 --json
    out_has '{"prompt":[97,98,99],"tokens":['
    out_has '"text":"'
    run_summary 0 generate --model text/model --tokens 97,98,99 -n 9 --seed 5
    holds cmp out first
    run 0 generate --model text/model -n 1 --json
    out_has '{"prompt":[256]'
    printf 'abc\n' >prompt.txt
    run_summary 0 generate --model text/model --prompt-file prompt.txt -n 9 --seed 5
    holds cmp out first
    what='weft generate -f -'
    holds "$WEFT" generate --model text/model -f - -n 9 --seed 5 <prompt.txt >out 2>err
    holds cmp out first
    # The summary starts on a new line, also if both streams go to the same file.
    what='weft generate >both 2>&1'
    holds "$WEFT" generate --model text --prompt 'abc' -n 9 --seed 5 >both 2>&1 </dev/null
    holds grep -aq '^weft: 9 tokens after 3, ' both
    holds cmp -n "$(wc -c <first)" both first
    "$WEFT" generate --model text --prompt 'abc' -n 9 --seed 5 2>&1 | cat >piped
    holds grep -aq '^weft: 9 tokens after 3, ' piped
else
    what='weft train run.yaml'
    cp train.out out
    fail 'the model for the tests cannot be trained'
fi

# Errors.
run 2 generate
err_has 'generate needs --model'
run 2 generate --model "$tiny"
err_has 'give --tokens'
run 2 generate --model "$tiny" --prompt hello
err_has 'has 128 tokens and no tokenizer'
run 2 generate --model "$tiny" --prompt hello --tokens 1
err_has 'not both'
run 2 generate --model "$tiny" --prompt-file nowhere --prompt a
err_has 'not both'
run 2 generate --model "$tiny" --prompt-file nowhere
err_has 'nowhere'
run 2 generate --model "$tiny" --tokens 1 --logprobs 1
err_has '--logprobs needs --json'
for tokens in , 1, ,1 1,,2 128 -1 1.5 x 99999999999 '1 2'; do
    run 2 generate --model "$tiny" --tokens "$tokens"
    err_has 'expected numbers from 0 to 127'
done
run 2 generate --model "$tiny" --tokens "$(seq -s, 1 64)"
err_has "the prompt has 64 tokens, but the model's context has only 64"
run 0 generate --model "$tiny" --tokens "$(seq -s, 1 63)" --json
out_has '"stopped":"context"'
for bad in '--temperature=-1' '--temperature=x' '--temperature=nan' '--top-p=0' '--top-p=2' \
    '--top-k=-1' '--top-k=1e3' '--seed=-1' '--seed=99999999999999999999' '--max-tokens=0' \
    '--type=f16' '--threads=0' '--min-p=2' '--min-p=x' '--repetition-penalty=0' '--samples=0' \
    '--repetition-penalty=-1' '--stop=' '--logprobs=1001' '--logprobs=x'; do
    run 2 generate --model "$tiny" --tokens 1 "$bad"
done
run 4 generate --model nowhere --tokens 1
run 4 generate --model "$tiny/config.json" --tokens 1
err_has 'the header of an llm.c model has'
to_full generate --model "$tiny" --tokens 1 --json

# A model without a tokenizer takes no text; token ids need no tokenizer that can be read.
for i in $(seq 60); do echo "the weft goes over the warp, $i times"; done >text.txt
run 0 tokenize text.txt -o words --train-bpe 300
run 0 train --model.arch=gpt2 --model.layers=1 --model.dim=16 --model.heads=2 --model.ctx=32 --model.vocab=300 \
    --data.train=words --data.batch=2 --data.seq=16 --train.steps=1 --parallel.threads=1 --log.dir=worded
model=worded/model
end=$(sed 's/.*"document_end":\([0-9]*\).*/\1/' words/meta.json)
run 0 generate --model $model -p 'the<|endoftext|>' -n 1 --json
out_has ",$end]"
run 0 generate --model $model -p 'the<|endoftext|>' -n 1 --json --no-special
out_lacks ",$end],\"tokens\""
rm $model/tokenizer.json
cp -r $model bare
run 2 generate --model bare -p the -n 1
err_has 'the model has 300 tokens and no tokenizer'
echo '{"model": {"type": "Unigram"}}' >bare/tokenizer.json
run 3 generate --model bare -p the -n 1
err_has "model 'Unigram' is not supported"
"$WEFT" generate --model bare --tokens 1,2 -n 2 --json >"$dir/out" 2>"$dir/err"
holds grep -q "model 'Unigram' is not supported.*; tokens are printed as numbers" "$dir/err"
out_has '"prompt":[1,2]'
finish
