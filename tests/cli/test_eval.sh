#!/usr/bin/env bash
# Checks weft eval: it gives the loss of the first training step, and rejects invalid input.
. "$(dirname -- "$0")/common.bash"

data=$WEFT_TEST_DATA/train

# value KEY: prints a number of the JSON in out.
value() {
    sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" out
}
# near A B: checks that two numbers agree to 1e-5.
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-5 * b) }'
}

# The first step's loss is that of the first 8 windows, before any update.
for model in gpt2-tiny llama-tiny llama-tiny-tied-residual; do
    first=$(awk '$1 == "\"loss\":" { getline; sub(",", ""); print $1; exit }' \
        "$data/$model/expect.json")
    rows=$(awk '{ for (i = 1; i < NF; i++) if ($i == "\"batch\":") print $(i + 1) + 0 }' \
        "$data/$model/run.json")
    seq=$(awk '{ for (i = 1; i < NF; i++) if ($i == "\"seq\":") print $(i + 1) + 0 }' \
        "$data/$model/run.json")
    run 0 eval --model "$data/$model" --data "$data/$model/tokens.bin" --seq "${seq:-24}" \
        --batch "${rows:-8}" --batches 1 --json
    holds near "$(value loss)" "$first"
    holds near "$(value perplexity)" "$(awk -v l="$first" 'BEGIN { print exp(l) }')"
    holds near "$(value bits_per_token)" "$(awk -v l="$first" 'BEGIN { print l / log(2) }')"
    holds test "$(value bits_per_byte)" = null
done

tiny=$data/gpt2-tiny
run 0 eval --model "$tiny" --data "$tiny/tokens.bin"
out_has 'tokens          1536, in windows of 64'
out_has 'perplexity      '
out_lacks 'bits per byte'
cp "$tiny/tokens.bin" val-000000.bin
echo '{"text_bytes": 3074, "val": {"tokens": 1537}}' >meta.json
run 0 eval --model "$tiny" --data val-000000.bin --precision bf16 --threads 1
out_has 'bits per byte   '
out_has '(2.0000 bytes per token)'

# The loss does not depend on ranks.
for model in gpt2-tiny llama-tiny llama-tiny-tied-residual; do
    run 0 eval --model "$data/$model" --data "$data/$model/tokens.bin" --batch 2 --json
    one=$(value loss)
    run 0 eval --model "$data/$model" --data "$data/$model/tokens.bin" --batch 2 --ranks 2 \
        --threads 1 --json
    holds test "$(value loss)" = "$one"
done
run 2 eval --model "$tiny" --data "$tiny/tokens.bin" --ranks 99
err_has '99'
# A token file that does not exist is reported by all ranks together.
run 3 eval --model "$tiny" --data nowhere.bin --ranks 2
err_has 'nowhere.bin'

run 2 eval
err_has 'needs --model and --data'
run 2 eval --model "$tiny"
run 2 eval --model "$tiny" --data "$tiny/tokens.bin" --seq 65
err_has 'the model accepts 1 to 64'
run 3 eval --model "$tiny" --data nowhere.bin
run 4 eval --model nowhere --data "$tiny/tokens.bin"
head -c 1500 "$tiny/tokens.bin" >cut.bin
run 3 eval --model "$tiny" --data cut.bin
to_full eval --model "$tiny" --data "$tiny/tokens.bin" --json
finish
