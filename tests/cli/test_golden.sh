#!/usr/bin/env bash
# Compares weft train with the reference runs through files only, on one rank, in a pipeline and as
# replicas, and checks that exported results are read back unchanged.
. "$(dirname -- "$0")/common.bash"

# setting KEY: prints a number of run.json.
setting() {
    sed -n "s/.*\"$1\": *\([-0-9.e]*\).*/\1/p" "$data/run.json"
}
# values KEY: prints a figure of every step of the run.
values() {
    sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" "$run/metrics.jsonl"
}
# expected KEY: prints the figures of the reference.
expected() {
    awk -v k="\"$1\":" '$1 == k { on = 1; next } /\]/ { on = 0 } on { sub(",", ""); print $1 }' \
        "$data/expect.json"
}
# near A B BOUND: checks that two lists of numbers have the same length and agree.
near() {
    [ "$(wc -l <"$1")" -eq "$(setting steps)" ] && [ "$(wc -l <"$2")" -eq "$(setting steps)" ] &&
        paste "$1" "$2" | awk -v bound="$3" '{ d = $1 - $2; if (d < 0) d = -d
            if (!(d <= bound * $2)) bad = 1 } END { exit bad }'
}
hash_of() { "$WEFT" inspect --hash "$1" | cut -c 1-32; }

for model in gpt2-tiny llama-tiny llama-tiny-tied-residual; do
    data=$WEFT_TEST_DATA/train/$model
    first=
    for layout in '--parallel.pp=1' '--parallel.pp=2' '--parallel.dp=2' \
        '--parallel.pp=2 --parallel.dp=2'; do
        run=$model$(tr -cd '0-9pd' <<<"$layout")
        # shellcheck disable=SC2086 # words
        run 0 train --model.dir="$data" --data.train="$data/tokens.bin" --log.dir="$run" \
            --data.batch="$(setting batch)" --data.seq="$(setting seq)" \
            --parallel.micros="$(setting microbatches)" --parallel.threads=1 \
            --train.steps="$(setting steps)" --optim.lr="$(setting lr)" \
            --optim.min_lr="$(setting min_lr)" --optim.warmup="$(setting warmup)" \
            --optim.decay_steps="$(setting decay_steps)" --optim.beta1="$(setting beta1)" \
            --optim.beta2="$(setting beta2)" --optim.eps="$(setting eps)" \
            --optim.weight_decay="$(setting wd)" --optim.clip="$(setting clip)" $layout
        for key in loss grad_norm lr; do
            values $key >got
            expected $key >want
            holds near got want 2e-5
        done
        first=${first:-$(hash_of "$run")}
        holds test "$(hash_of "$run")" = "$first"
    done
    # Exported and read back, the weights are bit-identical.
    run 0 convert "$run" "$model-out"
    holds cmp "$run/model/model.safetensors" "$model-out/model.safetensors"
    run 0 convert "$model-out" "$model-start" --to checkpoint
    run 0 convert "$model-start" "$model-back"
    holds cmp "$run/model/model.safetensors" "$model-back/model.safetensors"
    holds cmp "$model-out/config.json" "$model-back/config.json"
    holds test "$(hash_of "$model-start")" = "$first"
done
finish
