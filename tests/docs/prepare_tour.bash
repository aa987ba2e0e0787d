# Prepares the files that docs/tour.md assumes, and shortens its runs to two steps.  For the run that
# resumes after a crash it removes the model, as if the run had crashed.
# shellcheck shell=bash disable=SC2154

rm "$dir/bin/weft"
cat >"$dir/bin/weft" <<WRAPPER
#!/bin/bash
short=()
[ "\${1-}" != tune ] || short=(--iterations 2000)
[ "\${1-}" != train ] || short=(--train.steps=2 --data.batch=8 --data.seq=32)
case "\$*" in
*--print-config*) short=() ;;
*--checkpoint.resume=auto*) rm -r runs/a/model ;;
esac
exec '$WEFT' "\$@" "\${short[@]}"
WRAPPER
chmod +x "$dir/bin/weft"

"$WEFT" plan -s zb-v -p 4 -m 8 -o mine.csv
"$WEFT" plan -s zb-v -p 4 -m 8 -o measured.trace
mkdir notes gpt2
for i in $(seq 400); do
    echo "chapter $i: once upon a time there were $((i * i)) threads and $((i * 7919 % 1000)) knots"
done >book.txt
sed 's/knots/loops/' book.txt >notes/one.txt
sed 's/.*/{"text": "&"}/' book.txt >corpus.jsonl
"$WEFT" tokenize book.txt -o gpt2/tokenizer.json --train-bpe 300 >/dev/null
