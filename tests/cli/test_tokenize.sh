#!/usr/bin/env bash
# Checks the files, the output and the errors of weft tokenize.
. "$(dirname -- "$0")/common.bash"

printf 'one\ntwo\nthree\nfour\n' >book.txt
printf '{"text": "a b c"}\n{"text": "d"}\n' >lines.jsonl

# One shard of byte tokens: a header of 1024 bytes, and two bytes per token, including the end of the
# document.
run 0 tokenize book.txt -o tokens.bin
out_has 'bytes, vocabulary of 257'
out_has '20 tokens of 1 document in 1 shard'
holds test "$(stat -c %s tokens.bin)" -eq $((1024 + 2 * 20))
holds test "$(od -An -tu2 -j1024 -N6 tokens.bin | tr -s ' ')" = ' 111 110 101'
holds test "$(od -An -tu2 -j1062 tokens.bin | tr -d ' ')" = 256
run 0 tokenize book.txt -o tokens.bin # replaces the file

# A directory with validation data.
run 0 tokenize book.txt lines.jsonl -o data --val 0.3 --threads 2 --json
out_has '"tokenizer":"bytes","vocab":257'
holds test -s data/train-000000.bin
holds test -s data/val-000000.bin
holds grep -q '"<|endoftext|>": 256' data/tokenizer.json
holds grep -q '"document_end":256' data/meta.json
run 2 tokenize book.txt -o data
err_has 'data already has token shards'

# A vocabulary is trained, written and reused.  The sources compress well.
sources=$WEFT_SOURCE_DIR/src
run 0 tokenize "$sources" -o bpe --train-bpe 2048 --threads 2 --json
holds grep -q '"vocab":2048' out
each=$(sed 's/.*"bytes_per_token":\([0-9.]*\).*/\1/' out)
holds awk -v each="$each" 'BEGIN { exit !(each > 2.5) }'
run 0 tokenize "$sources" -o bpe.json --train-bpe 2048 --threads 1
holds cmp bpe.json bpe/tokenizer.json
run 0 tokenize "$sources" -o again --tokenizer bpe --threads 1
holds cmp again/train-000000.bin bpe/train-000000.bin
holds cmp again/tokenizer.json bpe/tokenizer.json
run 0 tokenize "$sources" -o small --tokenizer bpe.json --shard-tokens 100000
holds test -s small/train-000002.bin
holds test "$(stat -c %s small/train-000000.bin)" -eq $((1024 + 2 * 100000))

# Training on the shards.
run 0 train --model.spec=d1 --data.train="bpe/train-*.bin" --data.seq=16 --data.batch=2 \
    --train.steps=1 --log.dir=run --model.dim=32 --model.heads=2 --model.vocab=2048
holds test -s run/metrics.jsonl

# The model has the vocabulary of the data unless it is given; a smaller one is rejected at once.
shape=(--model.spec=d1 --model.dim=32 --model.heads=2 --data.seq=16 --data.batch=2 --train.steps=1)
run 0 train "${shape[@]}" --data.train=bpe --log.dir=auto_vocab
holds grep -q '^  vocab: 2048' auto_vocab/config.yaml
run 0 train "${shape[@]}" --data.train=bpe --model.vocab=3000 --log.dir=more_vocab
holds grep -q '^  vocab: 3000' more_vocab/config.yaml
for how in '' --dry-run; do
    run 3 train "${shape[@]}" --data.train=bpe --model.vocab=2047 $how
    err_has 'the tokens come from a vocabulary of 2048, the model has 2047; set model.vocab to 2048'
done
mkdir alone && cp bpe/train-000000.bin alone
run 0 train "${shape[@]}" --data.train=alone --data.tokenizer=bpe --log.dir=named_vocab
holds grep -q '^  vocab: 2048' named_vocab/config.yaml
cp bpe/tokenizer.json alone
run 0 train "${shape[@]}" --data.train=alone --log.dir=beside_vocab
holds grep -q '^  vocab: 2048' beside_vocab/config.yaml
run 3 train "${shape[@]}" --data.train=alone --model.vocab=100
err_has 'use a larger model.vocab'

# Errors.
run 2 tokenize -o x
err_has 'needs INPUT'
run 2 tokenize book.txt
err_has '--output'
run 2 tokenize book.txt -o x.json
err_has 'a file .json needs --train-bpe'
run 2 tokenize book.txt -o x --val 1
err_has "--val: '1' is not a number of at least 0 and less than 1"
run 2 tokenize book.txt -o x.bin --val 0.5
err_has 'needs a folder'
run 2 tokenize book.txt -o x --tokenizer bpe --train-bpe 300
err_has 'not both'
# A text with too few repeated pairs gives a smaller vocabulary, and a note.
printf 'abab abab\n' >short.txt
run 0 tokenize short.txt -o short --train-bpe 4096
out_has '(fewer than 4096: no more pairs of the text repeat)'
run 0 tokenize short.txt -o short.json --train-bpe 4096 --json
out_has '"vocab_asked":4096'
run 2 tokenize book.txt -o x --train-bpe 100
err_has 'expected 257 to'
run 3 tokenize book.txt -o x --tokenizer nowhere
err_has 'nowhere: No such file or directory'
run 3 tokenize nowhere.txt -o x
err_has 'nowhere.txt: No such file or directory'
mkdir empty
run 3 tokenize empty -o x
err_has 'empty: there is no text'
run 3 tokenize "$WEFT" -o x
err_has 'is an ELF program, not text'
printf '{"text": "a"}\n{"text": 7}\n' >wrong.jsonl
run 3 tokenize wrong.jsonl -o x
err_has 'wrong.jsonl:2: has no string "text"'
printf '{"model": {"type": "WordPiece"}}' >other.json
run 3 tokenize book.txt -o x --tokenizer other.json
err_has "other.json: model 'WordPiece' is not supported"
run 8 tokenize book.txt -o no/such/folder
err_has 'cannot create the folder'
holds test ! -e x

# Pipes are read, too; progress is drawn on terminals only.
"$WEFT" tokenize <(cat book.txt) -o pipe.bin >out 2>err
holds test ! -s err
holds cmp pipe.bin tokens.bin

# Names of special tokens are text, unless --special is given; an end token then ends a document.
printf 'one<|endoftext|>two<|endoftext|>' >stories.txt
run 0 tokenize stories.txt -o plain --json
out_has '"documents":1' '"tokens":33'
run 0 tokenize stories.txt -o parted --special --json
out_has '"documents":2' '"tokens":8'
printf 'one<|endoftext|>two\n' >stories.txt
run 0 tokenize stories.txt -o parted2 --special --json
out_has '"documents":2' '"tokens":9'

# The files beside a tokenizer name the end of a document; an option has priority.
cp "$WEFT_TEST_DATA/tokenizer/qwen2.json" tokenizer.json
for name in '<|endoftext|>' '<|im_end|>' '<|im_start|>'; do
    mkdir -p chat
    cp tokenizer.json chat
    printf '{"eos_token": "%s"}' "$name" >chat/tokenizer_config.json
    run 0 tokenize book.txt -o "end$name" --tokenizer chat
    run 0 tokenize book.txt -o "again$name" --tokenizer "end$name" # the copy has the same end
    holds cmp "end$name/meta.json" "again$name/meta.json"
done
run 0 tokenize book.txt -o 'given' --tokenizer chat --document-end '<|im_end|>'
holds cmp given/meta.json 'end<|im_end|>/meta.json'
holds test "$(cat given/meta.json)" != "$(cat 'end<|im_start|>/meta.json')"
run 2 tokenize book.txt -o x --tokenizer chat --document-end '<none>'
err_has "the tokenizer has no token '<none>'"
run 2 tokenize book.txt -o x --document-end '<|im_end|>'
err_has '--document-end needs --tokenizer'
echo '{"eos_token": "<none>"}' >chat/tokenizer_config.json
run 3 tokenize book.txt -o x --tokenizer chat
err_has "chat/tokenizer.json: has no token '<none>', which tokenizer_config.json names as eos_token"
# A token that does not exist is skipped if another file, or the list, names one that does.
echo '{"eos_token_id": [9000, 302]}' >chat/config.json
run 0 tokenize book.txt -o listed --tokenizer chat
holds cmp listed/meta.json 'end<|im_end|>/meta.json'
echo '{"eos_token_id": 9000}' >chat/config.json
run 3 tokenize book.txt -o x --tokenizer chat
err_has "has no token '<none>'"
echo '{"eos_token_id": 301}' >chat/generation_config.json
run 0 tokenize book.txt -o generated --tokenizer chat
holds cmp generated/meta.json 'end<|im_start|>/meta.json'
rm chat/tokenizer_config.json chat/generation_config.json
run 3 tokenize book.txt -o x --tokenizer chat
err_has 'chat/tokenizer.json: has no token 9000, which config.json names as eos_token_id'

finish
