#!/usr/bin/env bash
# Checks what weft tokenize reads: compressed files, JSON by content, records with a chat, prompts and
# completions, bad records, binary files, standard input.
. "$(dirname -- "$0")/common.bash"

# text_of FILE: prints the tokens of a shard of bytes, with # for the end of a document.
text_of() {
    python3 - "$1" <<'PY'
import struct, sys
raw = open(sys.argv[1], 'rb').read()
n = struct.unpack('<i', raw[8:12])[0]
tokens = struct.unpack('<%dH' % n, raw[1024:1024 + 2 * n])
masked = raw[12:16] == b'WEFT' and raw[20] & 1
mask = raw[1024 + 2 * n:]
out = ''
for i, t in enumerate(tokens):
    c = '#' if t == 256 else chr(t)
    counted = not masked or mask[i // 8] >> i % 8 & 1
    out += c if counted else c.upper() if c.isalpha() else c
print(out.replace('\n', '~'))
PY
}

# same NAME WANT: tokenizes NAME and compares the text of its shard.
same() {
    run 0 tokenize "$1" -o one.bin "${@:3}"
    holds test "$(text_of one.bin)" = "$2"
}

printf 'one\ntwo\n' >text.txt
printf '{"text": "a b"}\n\n{"text": "c", "content": "d"}\n' >lines.jsonl

# Compressed files are recognized by their content, with any name.
for pack in gzip zstd xz bzip2; do
    command -v $pack >/dev/null || continue
    $pack -c <text.txt >packed
    same packed 'one~two~#'
    $pack -c <lines.jsonl >lines.packed
    same lines.packed 'a b#c#'
    head -c 20 packed >cut
    run 3 tokenize cut -o no.bin
    err_has 'the compressed data is truncated'
done

# JSON by content, whatever the name; a field of choice; a text that only looks like JSON.
cp lines.jsonl plain.txt
same plain.txt 'a b#c#'
cp lines.jsonl UPPER.NDJSON
same UPPER.NDJSON 'a b#c#'
printf '[\n {"text": "a"},\n {\n  "text": "b]}"\n }\n]\n' >array.json
same array.json 'a#b]}#'
printf '{\n "text": "whole",\n "n": 123456789012345678901234567890\n}\n' >object.json
same object.json 'whole#'
same plain.txt '{"text": "a b"}~~{"text": "c", "content": "d"}~#' --format text
printf '{braces} are text\n[so is this]\n' >brace.txt
same brace.txt '{braces} are text~[so is this]~#'
run 3 tokenize lines.jsonl -o no.bin --field content
err_has 'lines.jsonl:1: has no string "content" (its fields: text); --field names the field'
printf '{"content": "d"}\n' >content.jsonl
same content.jsonl 'd#' --field content
run 3 tokenize brace.txt -o no.bin --format json
err_has 'brace.txt:1: not valid JSON'

# Byte order marks and ends of lines of other systems.
printf '\xef\xbb\xbfa\r\nb\rc\r\n' >dos.txt
same dos.txt "$(printf 'a~b\rc~#')"
printf '\xef\xbb\xbf{"text": "a\\r\\n"}\r\n' >dos.jsonl
same dos.jsonl "$(printf 'a\r~#')"

# Bad records are named, or counted and skipped.
printf '{"text": "a"}\n{"text": null}\nnothing\n{"text": "b", "x": NaN}\n{"text": "c"}\n' >bad.jsonl
run 3 tokenize bad.jsonl -o no.bin
err_has 'bad.jsonl:2: has no string "text"'
same bad.jsonl 'a#c#' --skip-bad
out_has '3 bad records, the first: bad.jsonl:2: has no string "text"'
run 0 tokenize bad.jsonl -o one.bin --skip-bad --json
out_has '"bad_records":3'

# Binary files of folders are skipped and counted; named ones are refused with what they are.
mkdir mixed
cp text.txt mixed/a.txt
printf '\x89PNG\r\n\x1a\n\0\0' >mixed/b.png
same mixed 'one~two~#'
out_has '1 binary file'
run 3 tokenize mixed/b.png -o no.bin
err_has 'b.png: is a PNG image, not text'
printf 'PAR1xxxxPAR1' >mixed/c.parquet
run 3 tokenize mixed -o no.bin
err_has 'c.parquet: is a Parquet file, not text; convert it: python3 -c'
printf '\xff\xfea\0b\0' >wide.txt
run 3 tokenize wide.txt -o no.bin
err_has 'is text in UTF-16 (expected UTF-8), not text; convert it: iconv'
tar -cf - text.txt | gzip -c >tar.gz
run 3 tokenize tar.gz -o no.bin
err_has 'tar.gz: is a tar archive, not text'

# Standard input, also compressed; what is read twice is refused.
"$WEFT" tokenize - -o one.bin <lines.jsonl >out
holds test "$(text_of one.bin)" = 'a b#c#'
gzip -c lines.jsonl | "$WEFT" tokenize - -o one.bin >out
holds test "$(text_of one.bin)" = 'a b#c#'
run 2 tokenize - -o no --train-bpe 300
err_has 'a pipe can be read only once'

# Only the completion counts, and the end of the document; upper case marks what does not count.
printf '{"prompt": "ask ", "completion": "told"}\n' >pair.jsonl
same pair.jsonl 'ASK told#'
out_has '5 of them count in the loss'

# Conversations need a template; only the answers count.
printf '{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}, ' \
    >chat.jsonl
printf '{"role": "user", "content": "ok"}, {"role": "assistant", "content": "fin"}]}\n' >>chat.jsonl
run 2 tokenize chat.jsonl -o no.bin
err_has 'the tokenizer has no chat template'
cat >t.jinja <<'JINJA'
{% for m in messages %}{{ '<' + m.role[0] + '>' + m.content + ';' }}{% endfor %}
{% if add_generation_prompt %}{{ '<a>' }}{% endif %}
JINJA
same chat.jsonl '<U>HI;<A>yo;<U>OK;<A>fin;' --chat-template t.jinja
printf "{%% for m in messages %%}{{ m.content|nonsense }}{%% endfor %%}" >bad.jinja
run 3 tokenize chat.jsonl -o no.bin --chat-template bad.jinja
err_has "bad.jinja:1: the filter 'nonsense' is not supported"
printf "{{ raise_exception('not this') }}" >raise.jinja
run 3 tokenize chat.jsonl -o no.bin --chat-template raise.jinja
err_has 'chat.jsonl:1: raise.jinja:1: the template refuses the conversation: not this'
holds test ! -e no.bin

# Names of special tokens in the text of a template become these tokens, and each counts as one.
run 0 tokenize chat.jsonl -o one.bin --tokenizer "$WEFT_TEST_DATA/tokenizer/qwen2.json" \
    --chat-template "$WEFT_TEST_DATA/chat/chatml.jinja"
holds test "$(python3 - "$WEFT_TEST_DATA/tokenizer/qwen2.json" <<'PY'
import json, struct, sys
raw = open('one.bin', 'rb').read()
n = struct.unpack('<i', raw[8:12])[0]
tokens, mask = struct.unpack('<%dH' % n, raw[1024:1024 + 2 * n]), raw[1024 + 2 * n:]
file = json.load(open(sys.argv[1]))
names = {i: text for text, i in file['model']['vocab'].items()}
special = {each['id']: each['content'] for each in file['added_tokens']}
print(''.join('(%s)' % special[t] if t in special else names[t]
              for i, t in enumerate(tokens) if mask[i // 8] >> i % 8 & 1))
PY
)" = 'yo(<|im_end|>)fin(<|im_end|>)'

# Training with a mask gives the same bits in every layout.
for i in $(seq 60); do
    sed "s/fin/fin $i is a number/" chat.jsonl
done >many.jsonl
run 0 tokenize many.jsonl -o data --chat-template t.jinja --val 0.3
holds grep -q '"counted":' data/meta.json
for layout in '1 1' '2 1' '1 2' '2 2'; do
    read -r pp dp <<<"$layout"
    run 0 train --model.spec=d2 --model.dim=32 --model.heads=2 --data.train=data --data.val=data \
        --data.seq=16 --data.batch=4 --parallel.micros=4 --train.steps=3 --parallel.pp="$pp" \
        --parallel.dp="$dp" --log.dir="run$pp$dp" --eval.every=3
    holds cmp run11/model/model.safetensors "run$pp$dp/model/model.safetensors"
done

finish
