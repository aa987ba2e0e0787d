#!/usr/bin/env bash
# Runs the examples of --help and of the manual pages, each in a folder with the files that they name: a
# book, shards, settings, runs, models.  Long commands are shortened.  Commands that still take long or
# never end are stopped and must not have printed an error: an invalid option is reported at once.
. "$(dirname -- "$0")/../cli/common.bash"
: "${WEFT_BUILD_DIR:?}"
export COLUMNS=100 NO_COLOR=1 WEFT_MODULES=$WEFT_BUILD_DIR
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# -- shortened commands ----------------------------------------------------------------------------

mkdir bin have
cat >bin/weft <<WRAPPER
#!/bin/bash
case "\$*" in
*--print-config* | *--dry-run*) ;;
train*) short=(--train.steps=2 --data.batch=8 --data.seq=16) ;;
'bench plan'* | 'bench sim'*) short=(--repeat 1) ;;
bench*) short=(--spec d2 --seq 32 --repeat 1) ;;
tune*) [[ "\$*" == *--global-batch* ]] || short=(--iterations 1000) ;;
esac
given=()
while [ \$# -gt 0 ]; do # options of the short form replace those of the example
    case "\$1" in
    --spec | --seq | --repeat) [ "\${#short[@]}" -eq 0 ] && given+=("\$1") || shift ;;
    --train.steps=* | --large) [ "\${#short[@]}" -gt 0 ] || given+=("\$1") ;;
    *) given+=("\$1") ;;
    esac
    shift
done
limited() {
    timeout -s INT "\$1" '$WEFT' "\${given[@]}" "\${short[@]}" || { [ \$? -eq 124 ] && touch '$dir/stopped'; }
}
case "\${given[*]}" in
'bench train'* | 'bench kernels'* | 'bench generate'* | 'bench checkpoint'*) limited 4 ;;
*--serve* | bench* | 'tune --model'*) limited 1 ;;
*) exec '$WEFT' "\${given[@]}" "\${short[@]}" ;;
esac
WRAPPER
printf '#!/bin/sh\nexec mpirun.mpich "$@"\n' >bin/mpirun
command -v man >/dev/null || printf '#!/bin/sh\ncat\n' >bin/man
chmod +x bin/*
export PATH=$dir/bin:$PATH

has_mpi() { command -v mpirun.mpich >/dev/null && [ -e "$WEFT_BUILD_DIR/weft-mpich.so" ]; }

# -- files of the examples -------------------------------------------------------------------------

# A GPT-2 of llm.c: 1 layer, 1 head, dimension 4, vocabulary 4000 padded to 4096, all weights 0.
llmc_model() {
    local n
    for n in 20240326 3 16 4000 1 1 4 4096; do
        # shellcheck disable=SC2059 # bytes
        printf "$(printf '\\x%02x' $((n & 255)) $((n >> 8 & 255)) $((n >> 16 & 255)) $((n >> 24)))"
    done
    head -c $((1024 - 32)) /dev/zero
    head -c $((4 * (4 * 4096 + 4 * 16 + 16 + 3 * 20 + 20 + 16 * 5 + 68 + 8))) /dev/zero
}

prepare() {
    local shape=(--model.arch=gpt2 --model.layers=4 --model.dim=32 --model.heads=2 --model.vocab=400
        --model.ctx=1024 --data.train=tokens --data.batch=8 --data.seq=16 --parallel.micros=8)
    mkdir corpus runs
    for i in $(seq 300); do
        echo "chapter $i: once upon a time there were $((i * i)) threads and $((i * 7919 % 1000)) knots"
    done >book.txt
    cp book.txt corpus/one.txt
    echo "once upon" >prompt.txt
    sed 's/knots/loops/' book.txt >corpus/two.txt
    sed 's/.*/{"text": "&"}/' book.txt >more.jsonl
    # The name does not matter: weft recognizes by its content that the file is not compressed.
    sed 's/.*/{"messages": [{"role": "user", "content": "&"}, {"role": "assistant", "content": "yes"}]}/' \
        book.txt >chats.jsonl.zst
    mkdir qwen2
    cp "$WEFT_TEST_DATA/tokenizer/qwen2.json" qwen2/tokenizer.json
    echo '{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}' \
        >qwen2/chat_template.jinja
    "$WEFT" tokenize book.txt corpus -o tokens --train-bpe 400 --val 0.5
    "$WEFT" tokenize book.txt -o tokens.bin
    cp -r tokens fineweb
    "$WEFT" plan -s 1f1b -p 4 -m 8 -o plan.csv
    "$WEFT" plan -s 1f1b -p 4 -m 8 -o measured.trace
    cp "$WEFT_TEST_DATA/kineto_1f1b_rank0.json" rank0.json
    cp "$WEFT_TEST_DATA/kineto_1f1b_rank1.json" rank1.json
    "$WEFT" plan -s zb-v -p 4 -m 8 --format pytorch -o zbv.csv
    "$WEFT" plan -s zb-v -p 4 -m 8 --lower=torch-2.15 -o lowered.csv
    "$WEFT" train --print-config "${shape[@]}" --log.dir=runs/new >run.yaml
    sed -i "s|$PWD/||" run.yaml # the folder is copied for every example
    "$WEFT" train "${shape[@]}" --parallel.pp=2 --train.steps=100 --checkpoint.every=100 \
        --log.trace_steps=1 --log.dir=runs/a
    cp -r runs/a runs/b
    cp -r runs/a/model gpt2
    llmc_model >gpt2_124M.bin
}

# -- running the examples --------------------------------------------------------------------------

# remove_outputs COMMAND: removes the files that the command creates.
remove_outputs() {
    local word last='' words=()
    read -ra words <<<"$1"
    for word in "${words[@]}"; do
        [ "$last" != -o ] || rm -rf "$word"
        [[ $word != --log.dir=* && $word != --dir=* ]] || rm -rf "${word#*=}"
        last=$word
    done
    [[ $1 != 'weft convert '* ]] || rm -rf "${words[3]}"
}

run_example() {
    local code=0
    what=$1
    [[ $1 != mpirun* ]] || has_mpi || return 0
    [[ $1 != mpirun*bench* ]] || return 0 # stopped ranks are an error
    rm -rf "$dir/now" "$dir/stopped"
    cp -r "$dir/have" "$dir/now"
    cd "$dir/now" || exit 1
    remove_outputs "$1"
    # /scratch is an absolute folder of the reader.
    bash -c "set -o pipefail; ${1//\/scratch/$dir/now}" >"$dir/out" 2>"$dir/err" </dev/null || code=$?
    cd "$dir" || exit 1
    n_checks=$((n_checks + 1))
    [ "$code" -eq 0 ] || fail "exit code $code"
    # A stopped command has no exit code.  (Launchers of bench pipeline may not work here.)
    [ ! -e "$dir/stopped" ] || [[ $1 == *pipeline* ]] || ! grep -v '^weft: warning: ' "$dir/err" | grep -q '^weft: ' ||
        fail 'an error is printed'
}

what='the files of the examples'
cd have || exit 1
prepare >"$dir/out" 2>"$dir/err" || fail 'cannot be created'
cd "$dir" || exit 1

for command in $("$WEFT" --help | awk '/^  [a-z]+ +[a-z]/ && $1 != "weft" { print $1 }'); do
    "$WEFT" help "$command" | awk '/^Examples:/ { on = 1; next } on' | sed 's/^  //' >examples
    line=
    while IFS= read -r part; do
        line+=$part
        if [[ $line == *\\ ]]; then
            line=${line%\\}
            continue
        fi
        run_example "$line"
        line=
    done <examples
done

finish
