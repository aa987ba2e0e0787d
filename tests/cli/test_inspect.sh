#!/usr/bin/env bash
# Checks weft inspect: every kind of file, malformed files, hashes, and the lost rank.
. "$(dirname -- "$0")/common.bash"

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
quiet() { "$WEFT" "$@" >/dev/null 2>"$dir/err" || fail "weft $*"; }
train() {
    what="weft train $*"
    quiet train --model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.batch=8 --data.seq=24 \
        --parallel.micros=4 --parallel.threads=1 --train.slow=off "$@"
}
# is_json LINES: checks that the output has LINES lines, each a JSON object.
is_json() {
    n_checks=$((n_checks + 1))
    [ "$(wc -l <out)" -eq "$1" ] || fail "not $1 lines"
    command -v python3 >/dev/null || return 0
    python3 -c 'import json, sys
for line in sys.stdin: assert isinstance(json.loads(line), dict)' <out 2>err || fail 'not JSON'
}
# put FILE OFFSET TEXT: overwrites bytes at OFFSET with TEXT, which may have escapes.
put() { printf '%b' "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }

# -- models -----------------------------------------------------------------------------------

run 0 inspect "$tiny"
out_has "$tiny: a model"
out_has 'model    gpt2, 4 layers of dimension 48, 4 heads, ffn 192, vocabulary 128, context 64, tied; 122,400 parameters in 52 tensors'
holds test "$(grep -c '^  transformer' out)" -eq 52
holds grep -Eqx '  transformer.h.0.attn.c_attn.weight +F32 +\(48, 144\) +model.safetensors' out
run 0 inspect "$WEFT_TEST_DATA/train/llama-tiny-tied-residual"
out_has 'llama, 6 layers'
out_has 'residual blocks of'
run 0 inspect "$tiny/final.safetensors"
out_has ': a safetensors file'
out_has 'tensors  52 with 122,400 elements'

run 0 inspect --hash "$tiny"
holds grep -Eqx "[0-9a-f]{32}  $tiny" out
first=$(cut -c 1-32 out)

# A changed value changes the hash; the layout of the file does not.
cp -r "$tiny" other && chmod -R u+w other
header=$(od -An -tu8 -N8 other/model.safetensors | tr -d ' ')
put other/model.safetensors $((8 + header)) '\001'
run 0 inspect --hash other
holds test "$(cut -c 1-32 out)" != "$first"
if command -v python3 >/dev/null; then
    cat >again.py <<'END'
# Writes the model in `of` again, cut into two files, tensors in another order; with "bf16" as that,
# and with "rounded" as F32 of the same values.
import json, os, struct, sys
of, to, kind = sys.argv[1:4]
raw = open(of + '/model.safetensors', 'rb').read()
n = struct.unpack('<Q', raw[:8])[0]
head = json.loads(raw[8:8 + n]); head.pop('__metadata__', None)
def data(name):
    a, b = head[name]['data_offsets']
    bits = struct.unpack('<%dI' % ((b - a) // 4), raw[8 + n + a:8 + n + b])
    if kind == 'bf16': return 'BF16', struct.pack('<%dH' % len(bits), *[x >> 16 for x in bits])
    if kind == 'rounded': bits = [x >> 16 << 16 for x in bits]
    return 'F32', struct.pack('<%dI' % len(bits), *bits)
names = sorted(head)[::-1]
os.mkdir(to)
open(to + '/config.json', 'w').write(open(of + '/config.json').read())
where = {}
for k, part in enumerate((names[:9], names[9:])):
    file, entries, body = 'model-%05d-of-00002.safetensors' % (k + 1), {}, b''
    for name in part:
        kind_of, bytes_of = data(name)
        entries[name] = {'dtype': kind_of, 'shape': head[name]['shape'],
                         'data_offsets': [len(body), len(body) + len(bytes_of)]}
        body += bytes_of; where[name] = file
    text = json.dumps(entries).encode()
    open(to + '/' + file, 'wb').write(struct.pack('<Q', len(text)) + text + body)
json.dump({'weight_map': where}, open(to + '/model.safetensors.index.json', 'w'))
END
    for kind in same rounded bf16; do
        holds python3 again.py "$tiny" $kind $kind
    done
    run 0 inspect --hash same rounded bf16
    mapfile -t hash < <(cut -c 1-32 out)
    holds test "${hash[0]}" = "$first"
    holds test "${hash[1]}" != "$first"
    holds test "${hash[1]}" = "${hash[2]}"
    run 0 inspect bf16
    out_has 'BF16'
    out_has 'model-00002-of-00002.safetensors'
fi

# Malformed models.
head -c 1000 "$tiny/model.safetensors" >cut.safetensors
run 4 inspect cut.safetensors
err_has 'cut.safetensors'
head -c 5 "$tiny/model.safetensors" >five.safetensors
run 4 inspect five.safetensors
cp -r "$tiny" less && chmod -R u+w less
truncate -s -4 less/model.safetensors
run 4 inspect less
run 4 inspect --hash less
rm less/model.safetensors
run 4 inspect less
err_has 'has neither'
cp -r "$tiny" deep && chmod -R u+w deep
sed -i 's/"n_layer": *[0-9]*/"n_layer": 1000000/' deep/config.json
run 4 inspect deep
err_has 'only 52 tensors'
sed -i 's/"n_layer": *[0-9]*/"n_layer": 3/' deep/config.json
run 4 inspect deep
err_has 'unexpected tensor'
echo '{' >deep/config.json
run 4 inspect deep
err_has 'config.json'

# -- tokens, schedules, traces, settings ------------------------------------------------------

run 0 inspect "$tiny/tokens.bin"
out_has 'tokens   1,537, uint16, the largest is 127'
mkdir shards && cp "$tiny/tokens.bin" shards/a.bin && cp "$tiny/tokens.bin" shards/b.bin
run 0 inspect shards
out_has 'shards: 2 token shards'
out_has 'tokens   3,074, the largest is 127'
head -c 1500 "$tiny/tokens.bin" >cut.bin
run 3 inspect cut.bin
err_has 'truncated'
head -c 100 "$tiny/tokens.bin" >cut.bin
run 3 inspect cut.bin

"$WEFT" plan -s zb-h1 -p 4 -m 8 --format csv >plan.csv
run 0 inspect plan.csv
out_has 'schedule zb-h1, 4 ranks, 4 stages (linear), 8 micros, 96 actions'
"$WEFT" plan -s zb-h1 -p 4 -m 8 --format pytorch >pytorch
run 0 inspect pytorch
out_has '4 ranks, 4 stages'
run 3 inspect "$WEFT_TEST_DATA/bad_letters.csv"
err_has 'bad_letters.csv:1:4'
run 3 inspect "$WEFT_TEST_DATA/bad_version.csv"
run 0 inspect "$WEFT_TEST_DATA/trace_measured.trace"
out_has 'trace    measured, 4 ranks, 4 stages, 8 micros, 160 events'
out_has '  0        F         8      10.36       9.83     10.436     10.776'
run 0 inspect "$WEFT_TEST_DATA/kineto_zb_v_rank1.json"
out_has 'trace    torch, 2 ranks, 3 stages, 8 micros, 102 events, 2582.38 ms'
gzip -c "$WEFT_TEST_DATA/kineto_zb_v_rank1.json" >torch.json.gz
run 0 inspect --json torch.json.gz
out_has '"costs":[{},{"F":{"n":8,"mean":'
"$WEFT" draw "$WEFT_TEST_DATA"/kineto_1f1b_rank?.json -o torch.trace >/dev/null
run 0 inspect torch.trace
out_has '  hop      C         9 '
head -c 700 "$WEFT_TEST_DATA/trace_measured.trace" >cut.trace
run 3 inspect cut.trace
err_has 'cut.trace'
quiet train --print-config
"$WEFT" train --print-config >run.yaml
run 0 inspect run.yaml
out_has 'run.yaml: settings of weft train'
printf 'train: {stepps: 3}\n' >wrong.yaml
run 3 inspect wrong.yaml
err_has 'stepps'

# -- runs -------------------------------------------------------------------------------------

train --parallel.pp=2 --parallel.dp=2 --parallel.schedule=zb-h1 --train.steps=8 --log.trace_steps=2 \
    --log.dir=runs/a
train --train.steps=8 --log.dir=runs/b
train --train.steps=7 --log.dir=runs/c
run 0 inspect runs/a
out_has 'runs/a: a run of weft train, finished'
out_has 'settings pp 2 x dp 2, schedule zb-h1, 4 micros; 8 steps of 8 sequences'
out_has 'metrics  8 steps, the last is step 8; first loss 4.8709'
out_has 'schedule zb-h1, 2 ranks, 2 stages (linear), 2 micros'
out_has 'traces   4 in trace/'
out_has '122,400 parameters'
out_has 'ranks    4, 4 done'
out_lacks lost
run 0 inspect --hash runs/a runs/b runs/c runs/b/model
holds test "$(cut -c 1-32 out | sort -u | wc -l)" -eq 2
holds test "$(sed -n 1p out | cut -c 1-32)" = "$(sed -n 2p out | cut -c 1-32)"
holds test "$(sed -n 4p out)" = "$(sed -n 2p out | cut -c 1-32)  runs/b/model"
run 0 inspect runs/a/metrics.jsonl
out_has 'metrics  8 steps'
run 0 inspect runs/a/ranks/1
out_has 'rank 1   of 4 (host '

run 0 inspect --json "$tiny" "$tiny/final.safetensors" "$tiny/tokens.bin" plan.csv run.yaml runs/a \
    "$WEFT_TEST_DATA/trace_measured.trace" runs/a/metrics.jsonl runs/a/ranks/0 shards
is_json 10
out_has '"kind":"run","finished":true'
run 0 inspect --json --hash runs/a "$tiny"
is_json 2
out_has "\"hash\":\"$first\""
to_full inspect "$tiny"

# A run that was killed: no model, and records of four ranks.
"$WEFT" train --model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.batch=8 --data.seq=24 \
    --parallel.micros=4 --parallel.threads=1 --parallel.pp=2 --parallel.dp=2 --train.slow=off \
    --train.steps=100000000 --log.dir=runs/k >/dev/null 2>&1 </dev/null &
pid=$!
for ((i = 0; i < 300; i++)); do
    [ ! -s runs/k/metrics.jsonl ] || break
    sleep 0.1
done
run 0 inspect runs/k
out_has 'not finished'
out_has 'ranks    4, 4 running'
out_lacks lost
kill -s KILL $pid
wait $pid 2>/dev/null
run 0 inspect runs/k
out_has 'ranks    4, 4 ended unexpectedly'
holds grep -Eqx "lost     rank [0-3] \(host $(uname -n | cut -c 1-63), pid $pid\): last heartbeat ([0-9-]+ )?[0-9]{2}:[0-9]{2}:[0-9]{2}, step [0-9]+, .*" out
holds test "$(grep -c 'ended with its process' out)" -eq 3
run 4 inspect --hash runs/k
err_has 'unfinished run'

# The bytes of a record: magic 8, rank 4, ranks 4, state 4, waits_for 4, step 8, time 8, last alive 8,
# pid 8, host 64, doing 96, error 256.  Rank 2 is silent since 1970 and was at step 6; rank 0 has
# another pid and waits for it; rank 1 recorded its error; rank 3 is done and waits for no rank.
cp -r runs/k runs/l
record=runs/l/ranks
put $record/2 24 '\006\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
put $record/2 120 'action 37 1F5\0'
put $record/0 20 '\002\0\0\0'
put $record/0 48 '\377\377\377\177\0\0\0\0'
put $record/1 16 '\002\0\0\0'
put $record/1 216 'rank 2 gave no sign\033[31m\0'
put $record/3 16 '\001\0\0\0\377\377\377\377'
TZ=UTC run 0 inspect runs/l
out_has "lost     rank 2 (host $(uname -n | cut -c 1-63), pid $pid): last heartbeat 1970-01-01 00:00:00, step 6, action 37 1F5"
out_has 'rank 0   ended by the launcher, waiting for rank 2: last heartbeat'
out_has 'rank 1   failed: rank 2 gave no sign?[31m; last heartbeat'
out_has 'rank 3   done: last heartbeat'
out_lacks 'it may have been'
run 0 inspect --json runs/l
is_json 1
out_has '"lost":2,"lost_or":[]'

# Heartbeats 2 ms apart do not show which rank was lost, even if one waits for the other.
cp -r runs/l runs/i && put runs/i/ranks/0 40 '\x80\x84\x1e\0\0\0\0\0'
run 0 inspect runs/i
out_has 'lost     rank 2'
out_has 'note     it may have been rank 0 instead'
run 0 inspect --json runs/i
out_has '"lost":2,"lost_or":[0]'

# A rank that hangs while its process exists is lost once others have failed.
cp -r runs/l runs/h
put runs/h/ranks/2 40 '\0\0\0\0\0\0\0\x7f'
live=$(printf '\\x%02x\\x%02x\\x%02x\\0' $(($$ & 255)) $(($$ >> 8 & 255)) $(($$ >> 16 & 255)))
for r in 0 2 3; do
    put runs/h/ranks/$r 48 "$live\0\0\0\0"
done
run 0 inspect runs/h
out_has "lost     rank 2 (host $(uname -n | cut -c 1-63), pid $$)"
out_has 'rank 0   running, waiting for rank 2'

# Malformed records.
cp -r runs/l runs/m && put runs/m/ranks/1 0 'x'
run 3 inspect runs/m
err_has 'runs/m/ranks/1'
cp -r runs/l runs/n && mv runs/n/ranks/1 runs/n/ranks/5
run 3 inspect runs/n
err_has 'ranks/5'
cp -r runs/l runs/o && truncate -s 100 runs/o/ranks/1
run 3 inspect runs/o
cp -r runs/l runs/p && echo x >runs/p/ranks/notes
run 3 inspect runs/p
err_has 'notes'
cp -r runs/l runs/q && rm runs/q/ranks/1 && mkfifo runs/q/ranks/1
run 3 inspect runs/q

# Malformed and truncated metrics.
cp -r runs/k runs/r && printf '{"step":' >>runs/r/metrics.jsonl
run 0 inspect runs/r
out_has 'the last line is truncated'
echo >>runs/r/metrics.jsonl
run 3 inspect runs/r
err_has 'metrics.jsonl:'
printf '{"step":1,"loss":2}\n{"step":2,"loss":null}\n{"step":1,"loss":3}\n' >again.jsonl
run 0 inspect again.jsonl
out_has 'metrics  3 steps, the last is step 1; first loss 2.0000, last loss 3.0000; restarted 1 time'
printf '{"step":1,"loss":2}\n{"step":4,"loss":2}\n' >gap.jsonl
run 3 inspect gap.jsonl
err_has 'gap.jsonl:2: step 4 comes after step 1'
head -c 100000 /dev/zero | tr '\0' x >long.jsonl
run 3 inspect long.jsonl
printf '{"step":1,\0"loss":2}\n' >nul.jsonl
run 3 inspect nul.jsonl
printf 'model: 3\n' >runs/k/config.yaml
run 3 inspect runs/k
err_has 'runs/k/config.yaml'

# -- unknown files ----------------------------------------------------------------------------

run 2 inspect
err_has 'needs a PATH'
run 3 inspect nothing
err_has 'nothing'
: >empty
run 3 inspect empty
err_has 'is empty'
mkdir bare
run 3 inspect bare
err_has 'bare: not a model'
run 4 inspect --hash bare
err_has 'bare is not a model'
run 2 inspect --hash plan.csv
err_has 'give the directory'
run 3 inspect "$WEFT"
err_has 'unknown kind of file'
echo 'some words' >words
run 3 inspect words
mkfifo pipe
run 3 inspect pipe
run 3 inspect "$tiny/tokens.bin" nothing
out_has 'tokens   1,537'
# Every prefix of a small file gives a result or an error, never a crash.
for file in "$tiny/model.safetensors" plan.csv "$tiny/tokens.bin" run.yaml runs/l/ranks/2; do
    for n in 1 2 3 4 7 8 9 12 50 99 463; do
        head -c $n "$file" >some
        code=0
        what="the first $n bytes of $file"
        "$WEFT" inspect some >out 2>err </dev/null || code=$?
        holds test "$code" -eq 0 -o "$code" -eq 3 -o "$code" -eq 4
    done
done

finish
