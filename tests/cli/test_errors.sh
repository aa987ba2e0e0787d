#!/usr/bin/env bash
# Checks errors of all commands: each has its exit code, one line on stderr, nothing on stdout, and
# creates no file.
. "$(dirname -- "$0")/common.bash"

data=$WEFT_TEST_DATA
mkdir work && cd work || exit 1

weft() {
    timeout 100 "$WEFT" "$@"
}

# -- inputs of the commands -------------------------------------------------------------------------

cp -r "$data/train/gpt2-tiny" model
cp -r "$data/train/llama-tiny" llama
cp model/tokens.bin "$data/bad_deadlock.csv" "$data/bad_letters.csv" .
cp "$data/trace_measured.trace" good.trace
mkdir folder
printf 'a text, and the end of it\n' >small.txt
: >empty.txt
seq 20000 >numbers.txt
cat >run.yaml <<END
model: {dir: model}
data: {train: tokens.bin, seq: 24, batch: 8}
parallel: {micros: 4, threads: 1}
train: {steps: 2}
END
weft train run.yaml --log.dir=done --checkpoint.every=1 >"$dir/out" 2>"$dir/err" || fail 'the run for the tests failed'

# Models: a part is missing, truncated or foreign.
broken() {
    cp -r model "$1" && cd "$1" && shift && "$@" && cd ..
}
broken cut-weights truncate -s 40000 model.safetensors
broken long-weights truncate -s +4 model.safetensors
broken no-weights rm model.safetensors
broken no-config rm config.json
broken half-config truncate -s 30 config.json
broken bert sed -i 's/"gpt2"/"bert"/' config.json
broken five-layers sed -i 's/"n_layer": 4/"n_layer": 5/' config.json
broken odd-dim sed -i 's/"n_embd": 48/"n_embd": 47/' config.json
broken text-dim sed -i 's/"n_embd": 48/"n_embd": "48"/' config.json

# Shards.
head -c 1100 tokens.bin >cut.bin
head -c 500 tokens.bin >no-header.bin
head -c 3000 /dev/zero >zeros.bin
{ head -c 1024 tokens.bin && printf '\1\0'; } >longer.bin

# Tokenizers and text.
for name in half wordpiece nothing twice; do mkdir tok-$name; done
echo '{"model": {"type": "BPE", "vocab": {"a": 0' >tok-half/tokenizer.json
echo '{"model": {"type": "WordPiece", "vocab": {}}}' >tok-wordpiece/tokenizer.json
echo '{}' >tok-nothing/tokenizer.json
echo '{"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}}' >tok-twice/tokenizer.json
printf '{"text": "a"}\n{"txt": "b"}\n' >no-text.jsonl
printf '{"text": "a"}\n{"text": \n' >half.jsonl

# Settings.
printf 'optim:\n  lr: 1e-3\n  lrr: 1\n' >key.yaml
printf 'optim:\n  lr: 1e-3\noptm:\n  lr: 1\n' >section.yaml
printf 'optim:\n  lr: 1e-3\n  lr: 1e-3\n' >twice.yaml
printf 'optim:\n  lr: [1, 2\ntrain:\n' >syntax.yaml
printf 'optim:\n\tlr: 1\n' >tab.yaml
printf 'train:\n  steps: many\n' >type.yaml
printf 'just words\n' >words.yaml
printf 'train: 3\n' >flat.yaml
printf 'F: 1\nQ: 2\n' >cost.yaml

# Schedules and traces.
printf '0F0,0B0\n1F0,1G0\n' >letter.csv
printf '# weft trace 1\nnonsense\n' >bad.trace
printf '0F0,0B0\n' >one.csv

# Runs that cannot be used.
cp -r done damaged
truncate -s -1 damaged/checkpoints/step-00000002/manifest.json
mkdir taken locked
cp small.txt taken/train-000000.bin
(exec 9>locked/lock && flock 9 && exec sleep 300 >/dev/null 2>&1) &
holder=$!
trap 'kill $holder; chmod -R u+rwx "$dir"; rm -rf "$dir"' EXIT
until [ -e locked/lock ] && ! flock -n locked/lock true; do
    sleep 0.05
done

# -- the table --------------------------------------------------------------------------------------

# Lists kinds, names, sizes and times of files.
tree() {
    find . \( -type f -printf 'f %p %s %T@\n' \) -o -printf '%y %p\n' | sort
}

n_cases=0
# row CODE REGEX COMMAND: runs a command and checks its error; CODE with '+' allows output on stdout.
row() {
    local want=${1%+} code=0
    n_cases=$((n_cases + 1))
    what=$3
    tree >"$dir/before"
    (eval "$3") >"$dir/out" 2>"$dir/err" </dev/null || code=$?
    check_exit "$want" "$code"
    n_checks=$((n_checks + 3))
    grep -qE -e "^weft: .*$2" "$dir/err" || fail "the error does not match: $2"
    [ "$1" != "$want" ] || [ ! -s "$dir/out" ] || fail 'stdout is not empty'
    tree | cmp -s - "$dir/before" || fail "files have changed: $(tree | diff - "$dir/before")"
}

# Runs row for each line "CODE | REGEX | COMMAND" of standard input.
table() {
    local line rest
    while IFS= read -r line; do
        case $line in '' | '#'*) continue ;; esac
        rest=${line#* | }
        row "${line%% *}" "${rest%% | *}" "${rest#* | }"
    done
}

table <<'END'
# unknown commands and common options
2 | no command 'plam': did you mean plan\? | weft plam
2 | no command 'zzzzzz' \(see weft help\) | weft zzzzzz
2 | no command 'nosuch' | weft help nosuch
2 | WEFT_ISA: unknown instruction set 'mmx' .expected portable, avx2 | WEFT_ISA=mmx weft plan --list
2 | unknown option --repeet: did you mean --repeat\? | weft bench plan --repeet 3
2 | unknown benchmark 'speed' .expected plan, sim, train | weft bench speed
2 | unknown model 'd0' | weft bench train --spec d0

# plan
2 | give --schedule NAME | weft plan
2 | unknown option --schedul: did you mean --schedule\? | weft plan --schedul 1f1b
2 | no schedule is called 1f1c: did you mean 1f1b\? | weft plan -s 1f1c -p 2 -m 2
2 | --ranks: 'two' is not a whole number | weft plan -s 1f1b -p two -m 2
2 | --micros is 0; give at least 1 | weft plan -s 1f1b -p 2 -m 0
2 | --schedule is given twice | weft plan -s 1f1b -s gpipe -p 2 -m 2
2 | chimera needs an even number of ranks \(got 1\); use 2$ | weft plan -s chimera -p 1 -m 2
2 | chimera needs an even number of ranks \(got 3\); use 2 or 4 | weft plan -s chimera -p 3 -m 2
2 | dualpipe-v on 1 rank needs at least 2 micros | weft plan -s dualpipe-v -p 1 -m 1
2 | dualpipe on 4 ranks .* at least 8 \(got 2\); use 8 | weft plan -s dualpipe -p 4 -m 2
2 | bitpipe on 4 ranks needs a multiple of 4 micros \(got 6\); use 8 | weft plan -s bitpipe -p 4 -m 6
2 | 2 layers cannot fill 4 stages; use at most 2 | weft plan -s 1f1b -p 4 -m 4 --layers 2
2 | --output plan.gif: .* one of \.csv \.json .*\.svg | weft plan -s 1f1b -p 2 -m 2 -o plan.gif
2 | --output plan: .* one of \.csv | weft plan -s 1f1b -p 2 -m 2 -o plan
8 | needs .* of memory, and .* are available | weft train --model.spec=d96 --data.train=model/tokens.bin --data.seq=16
8 | cannot write no/such/plan.svg: No such file | weft plan -s 1f1b -p 2 -m 2 -o no/such/plan.svg
8 | cannot write small.txt/plan.svg: Not a directory | weft plan -s 1f1b -p 2 -m 2 -o small.txt/plan.svg
8 | folder: Is a directory | weft plan -s 1f1b -p 2 -m 2 -o folder
8 | cannot write /dev/full: No space left | weft plan -s 1f1b -p 2 -m 2 -o /dev/full
8 | cannot write standard output | weft plan -s 1f1b -p 2 -m 2 >/dev/full
5 | none\.csv: No such file or directory | weft plan -s none.csv
5 | folder: is a directory, not a file | weft plan -s ./folder
5 | letter\.csv:2:5: '1G0' is not an action | weft plan -s ./letter.csv
5 | bad_deadlock\.csv is wrong: .*0B0 waits for 1B0 .*weft check | weft plan -s bad_deadlock.csv
2 | none\.yaml: No such file | weft plan -s 1f1b -p 2 -m 2 --cost-file none.yaml
2 | cost\.yaml:2:1: unknown key .*: Q | weft plan -s 1f1b -p 2 -m 2 --cost-file cost.yaml
3 | none\.trace: No such file | weft plan -s 1f1b -p 2 -m 2 --cost-from none.trace
3 | done has no traces; .*log\.trace_steps | weft plan -s 1f1b -p 2 -m 2 --cost-from done
2 | one\.csv has 1 rank \(2 given\): leave | weft plan -s ./one.csv -p 2
2 | over its memory limit of 1; use | weft plan -s 1f1b -p 2 -m 2 --mem-limit 1
2 | Megatron-LM runs 1f1b and interleaved-1f1b; it cannot run | weft plan -s zb-h1 -p 2 -m 2 --export megatron
2 | requires each stage on one rank | weft plan -s chimera -p 2 -m 2 --export torchtitan
2 | give one of --export, --json and --format | weft plan -s 1f1b -p 2 -m 2 --export megatron --json
2 | column 5: m on a second stage | weft plan -s 1f1b -p 2 -m 2 --partition 'Etm|mL'

# check
2 | check needs FILE | weft check
5 | none\.csv: No such file | weft check none.csv
5 | folder: is a directory | weft check folder
5 | empty\.txt: no actions | weft check empty.txt
5 | letter\.csv:2:5: '1G0' is not an action | weft check letter.csv
5+ | bad_deadlock\.csv is wrong: | weft check bad_deadlock.csv
2 | 'fast' is not one of buffered, rendezvous, depth=N | weft check one.csv --transport fast

# simulate, compare, tune
2 | --output x\.gif: .* one of \.json | weft simulate -s 1f1b -p 2 -m 2 -o x.gif
2 | speed has 3 values for 2 ranks | weft simulate -s 1f1b -p 2 -m 2 --speed 1:2:3
2 | cluster, column 1: .*write it as | weft simulate -s 1f1b -p 2 -m 2 --cluster x
2 | a cluster of 1 node x 1 rank is too small | weft simulate -s 1f1b -p 2 -m 2 --cluster 'node:1 rank:1 intra:1GB/s,1us inter:1GB/s,1us'
5 | none\.csv: No such file | weft simulate -s none.csv
2 | compare needs --ranks P and --micros M | weft compare
2 | --output x\.gif: .* one of \.svg \.json \.txt | weft compare -p 2 -m 2 -o x.gif
2 | bytes: -1 is out of range | weft compare -p 2 -m 2 --bytes -1
2 | compare takes options only, not 'one\.csv' | weft compare one.csv
2 | --output x\.gif: .* one of \.csv | weft tune -p 2 -m 2 -o x.gif
2 | unknown option --memlimit: did you mean --mem-limit\? | weft tune --memlimit 3
2 | 2 layers: too few for 4 ranks | weft tune -p 4 --layers 2 --global-batch 4
2 | pipelines of 3 ranks do not divide 4 ranks | weft tune -p 3 --layers 8 --global-batch 8 --cluster 'node:2 rank:2 intra:1GB/s,1us inter:1GB/s,1us'
8 | cannot write no/x\.csv | weft tune -p 2 -m 2 --iterations 10 -o no/x.csv

# draw
2 | draw needs a FILE | weft draw
5 | none\.csv: No such file | weft draw none.csv
3 | none\.trace: No such file | weft draw none.trace
3 | bad\.trace:2:1: | weft draw bad.trace
3 | folder has no traces; .*log\.trace_steps | weft draw folder
2 | --output x\.gif: .* one of \.svg \.png | weft draw good.trace -o x.gif
2 | --unit: '3' is not a time such as 1ms | weft draw good.trace --unit 3
8 | cannot write no/x\.svg | weft draw good.trace -o no/x.svg

# tokenize
2 | tokenize needs INPUT | weft tokenize
2 | tokenize needs --output OUT | weft tokenize small.txt
3 | none\.txt: No such file | weft tokenize none.txt -o new
3 | empty\.txt: there is no text | weft tokenize empty.txt -o new
3 | folder: there is no text | weft tokenize folder -o new
3 | /dev/null: there is no text | weft tokenize /dev/null -o new
3 | no-text\.jsonl:2: has no string "text" | weft tokenize no-text.jsonl -o new
3 | half\.jsonl:2: not valid JSON | weft tokenize half.jsonl -o new
2 | taken already has token shards; remove them, or use | weft tokenize small.txt -o taken
2 | small\.txt is a file; use a new folder | weft tokenize small.txt -o small.txt
8 | cannot create the folder no/such/place: No such | weft tokenize small.txt -o no/such/place
2 | --val: '1' is not a number of at least 0 and less than 1 | weft tokenize small.txt -o new --val 1
2 | a vocabulary of 10 tokens is out of range .expected 257 to | weft tokenize small.txt -o new --train-bpe 10
2 | give --tokenizer or --train-bpe, not both | weft tokenize small.txt -o new --train-bpe 300 --tokenizer tok-half
3 | none: No such file .*tokenizer\.json | weft tokenize small.txt -o new --tokenizer none
3 | folder: has neither tokenizer\.json nor vocab\.json | weft tokenize small.txt -o new --tokenizer folder
3 | tok-half/tokenizer\.json: line 2: | weft tokenize small.txt -o new --tokenizer tok-half
3 | tok-wordpiece/tokenizer\.json: .*WordPiece.* is not supported | weft tokenize small.txt -o new --tokenizer tok-wordpiece
3 | tok-nothing/tokenizer\.json: has no model | weft tokenize small.txt -o new --tokenizer tok-nothing
3 | tok-twice/tokenizer\.json: id 0 is used twice | weft tokenize small.txt -o new --tokenizer tok-twice

# train: settings
2 | none\.yaml: No such file | weft train none.yaml
2 | folder: is a directory | weft train folder
2 | key\.yaml:3:3: unknown setting optim\.lrr: did you mean optim\.lr\? | weft train key.yaml
2 | section\.yaml:3:1: unknown section optm: did you mean optim\? | weft train section.yaml
2 | twice\.yaml:3:3: given twice: lr | weft train twice.yaml
2 | syntax\.yaml:3:6: | weft train syntax.yaml
2 | tab\.yaml:2:1: .*token | weft train tab.yaml
2 | type\.yaml:2:10: train\.steps: 'many' is not a whole number; give 1 to | weft train type.yaml
2 | words\.yaml:1:1: expected sections with 'key: value' | weft train words.yaml
2 | flat\.yaml:1:8: .*train | weft train flat.yaml
2 | --optim\.lrr: unknown setting optim\.lrr: did you mean optim\.lr\? | weft train run.yaml --optim.lrr=1
2 | --optim\.lr: 'fast' is not a number; give 0 to 100 | weft train run.yaml --optim.lr=fast
2 | --optim\.beta1: '1' is out of range; give | weft train run.yaml --optim.beta1=1
2 | --train\.precision: 'fp16' is not valid; give fp32, bf16 | weft train run.yaml --train.precision=fp16
2 | --data\.shuffle: 'yes' is not valid; give true or false | weft train run.yaml --data.shuffle=yes
2 | --data\.batch needs a value | weft train run.yaml --data.batch
2 | --train\.steps: 'x' is not a whole number | weft train run.yaml --train.steps=x --train.steps=1
2 | no model is specified; set model\.dir | weft train
2 | no training data is specified; set data\.train | weft train --model.spec=d1
2 | the model is specified more than once; set one of | weft train run.yaml --model.spec=d2
2 | set data\.val | weft train run.yaml --eval.every=1
2 | set log\.dir | weft train run.yaml --checkpoint.every=1
2 | train takes one .*, not 'more\.yaml' | weft train run.yaml more.yaml

# train: settings that contradict each other
2 | data\.seq 65 is longer than the model's context of 64 | weft train run.yaml --data.seq=65
2 | parallel\.micros 9 is greater than data\.batch \(8 sequences\); use | weft train run.yaml --parallel.micros=9 --log.dir=new/run
2 | parallel\.dp 8 is greater than parallel\.micros \(4 micros per step\); use fewer | weft train run.yaml --parallel.dp=8
2 | 4 layers cannot fill 5 stages; use at most 4 | weft train run.yaml --parallel.pp=5 --log.dir=new/run
2 | no schedule is called 1f1c: did you mean 1f1b\? | weft train run.yaml --parallel.schedule=1f1c --log.dir=new/run
2 | zb-v has 2 chunks per rank \(got 3\) | weft train run.yaml --parallel.schedule=zb-v --parallel.pp=2 --parallel.chunks=3
2 | schedule 1f1b has the placement linear; use auto | weft train run.yaml --parallel.placement=v --parallel.pp=2
2 | 2 numbers for 1 stage \(ranks x chunks\); give one per stage | weft train run.yaml --parallel.partition=1,2
2 | stage 0 has layers for multi-token prediction .*plan but not train | weft train run.yaml --parallel.partition='Et*4mL'
5 | none\.csv: No such file | weft train run.yaml --parallel.schedule=none.csv --log.dir=new/run
2 | one\.csv has 1 rank, and parallel\.pp is 2; use the same number | weft train run.yaml --parallel.schedule=one.csv --parallel.pp=2
5 | the schedule cannot run: .*0B0 waits for 1B0 .*weft check | weft train run.yaml --parallel.schedule=bad_deadlock.csv --parallel.pp=2 --parallel.micros=2 --log.dir=new/run
2 | started without MPI; start it with mpirun -n 2 | weft train run.yaml --parallel.transport=mpi --parallel.pp=2
2 | one process runs at most 1024 ranks | weft train run.yaml --parallel.pp=4000 --parallel.dp=4

# train: data
3 | data\.train: none: no such file or folder | weft train run.yaml --data.train=none --log.dir=new/run
3 | data\.train: folder: no \*\.bin file .*weft tokenize | weft train run.yaml --data.train=folder
2 | parallel\.schedule: every rank reads the schedule | weft train run.yaml --parallel.schedule=-
3 | data\.train: empty\.txt: 0 bytes are not a token shard.*weft tokenize | weft train run.yaml --data.train=empty.txt
3 | data\.train: cut\.bin: has 1100 bytes .*truncated | weft train run.yaml --data.train=cut.bin
3 | data\.train: zeros\.bin: not a token shard: it begins with 0  | weft train run.yaml --data.train=zeros.bin
3 | data\.train: longer\.bin: has 1026 bytes .expected | weft train run.yaml --data.train=longer.bin
3 | data\.train: tokens\.bin: 1537 tokens are too few for one step.* smaller data\.batch or data\.seq | weft train run.yaml --data.batch=1000
3 | data\.val: none: no such file or folder | weft train run.yaml --data.val=none --eval.every=1
3 | data\.val: tokens\.bin: 1537 tokens are too few.*data\.batch.*weft tokenize --val | weft train run.yaml --data.batch=70 --data.train=tokens.bin,tokens.bin --data.val=tokens.bin --eval.every=1
3+ | tokens\.bin: token .* the vocabulary has 64.*model\.vocab | weft train --model.spec=d1 --model.vocab=64 --model.ctx=16 --data.train=tokens.bin

# train: models, checkpoints and directories
4 | none/config\.json cannot be opened: No such file .*expected a model directory | weft train run.yaml --model.dir=none --log.dir=new/run
4 | cut-weights/model\.safetensors: .*the file is truncated | weft train run.yaml --model.dir=cut-weights --log.dir=new/run
4 | bert/config\.json: model_type is 'bert': weft reads gpt2 and llama | weft train run.yaml --model.dir=bert
4 | no-such cannot be opened: No such file | weft train run.yaml --checkpoint.resume=no-such
4 | model: manifest\.json is missing | weft train run.yaml --checkpoint.resume=model
4 | is a checkpoint of another model: .*give the same model | weft train run.yaml --model.dir=llama --checkpoint.resume=done/checkpoints/step-00000002
4 | manifest\.json: .* truncated or was changed | weft train run.yaml --checkpoint.resume=damaged/checkpoints/step-00000002
2 | log\.dir done has a finished run.*use another directory | weft train run.yaml --log.dir=done
2 | log\.dir small\.txt is a file; expected a directory | weft train run.yaml --log.dir=small.txt
8 | small\.txt/run: Not a directory | weft train run.yaml --log.dir=small.txt/run
2 | log\.sample_prompt: there is no tokenizer for the model's 128 tokens | weft train run.yaml --log.dir=new/a/b --checkpoint.every=1 --log.sample=1 --log.sample_prompt=x
2 | log\.sample_prompt: there is no tokenizer for the model's 128 tokens | weft train run.yaml --log.dir=folder --checkpoint.every=1 --log.sample=1 --log.sample_prompt=x
8 | make directory new/a/x.*: File name too long | weft train run.yaml --log.dir=new/a/$(printf x%.0s {1..300})
2 | locked is locked by .*; wait for that run to end | weft train run.yaml --log.dir=locked

# eval, generate
2 | eval needs --model and --data | weft eval -m model
4 | none cannot be opened: No such file | weft eval -m none -d tokens.bin
4 | no-config.*config\.json | weft eval -m no-config -d tokens.bin
4 | no-weights has neither model\.safetensors nor | weft eval -m no-weights -d tokens.bin
4 | long-weights/model\.safetensors: | weft eval -m long-weights -d tokens.bin
3 | none: no such file or folder | weft eval -m model -d none
3 | no-header\.bin: 500 bytes are not a token shard | weft eval -m model -d no-header.bin
2 | sequence length 65 is out of range .the model accepts 1 to 64. | weft eval -m model -d tokens.bin --seq 65
2 | generate needs --model | weft generate
4 | none cannot be opened: No such file | weft generate -m none
4 | half-config/config\.json:[0-9]+:[0-9]+: invalid JSON | weft generate -m half-config
4 | five-layers has no tensor 'transformer\.h\.4\. | weft generate -m five-layers
4 | odd-dim/config\.json: dim 47 is not a multiple of heads 4 | weft generate -m odd-dim
4 | text-dim/config\.json: .*n_embd | weft generate -m text-dim
4 | small\.txt has [0-9]+ bytes; the header of an llm\.c model | weft generate -m small.txt
2 | --tokens at '999': expected numbers from 0 to 127 | weft generate -m model --tokens 1,999
2 | 128 tokens and no tokenizer; give the prompt as numbers | weft generate -m model --prompt hello
2 | top-p 2 is out of range .expected more than 0, at most 1. | weft generate -m model --tokens 1 --top-p 2
2 | --seed: 'x' is not a number | weft generate -m model --tokens 1 --seed x
2 | the prompt has 70 tokens, but the model's context has only 64 | weft generate -m model --tokens $(seq -s, 1 70)

# convert
2 | convert needs IN and OUT, not 1 name; | weft convert model
4 | none cannot be opened: No such file | weft convert none new
4 | cut-weights/model\.safetensors: .*the file is truncated | weft convert cut-weights new
2 | llama exists and is not empty; use another name | weft convert model llama
2 | small\.txt is a file; use a new directory | weft convert model small.txt
8 | no/such/place cannot be created: No such file | weft convert model no/such/place
2 | --type: 'f16' is not one of f32.bf16 | weft convert model new --type f16

# inspect, report
2 | inspect needs a PATH | weft inspect
3 | none: No such file | weft inspect none
3 | small\.txt: unknown kind of file | weft inspect small.txt
3 | folder: not a model .*, run .* or directory of token shards | weft inspect folder
4 | cut-weights/model\.safetensors: .*the file is truncated | weft inspect cut-weights
2 | --hash needs a model: tokens\.bin is a file | weft inspect --hash tokens.bin
2 | report needs a RUN | weft report
3 | runs/zz does not exist; expected the directory of a run | weft report runs/zz
3 | small\.txt is a file; expected the directory of a run | weft report --serve small.txt
3 | folder: not the directory of a run: .*metrics\.jsonl | weft report folder
2 | --port needs --serve | weft report done --port 80
8 | cannot write no/page\.html: No such file | weft report done -o no/page.html
8 | cannot write /dev/full: No space left | weft report done -o /dev/full

# no space: a limit on the file size simulates a full disk
8 | config\.yaml cannot be written: File too large; free some space | ulimit -f 4; weft train run.yaml --log.dir=new/run
8 | File too large | ulimit -f 100; weft convert model new
8 | new/.* cannot be written: File too large; free some space | ulimit -f 1; weft tokenize small.txt -o new --train-bpe 300
8 | cannot write plan\.html: File too large | ulimit -f 1; weft plan -s zb-v -p 4 -m 8 -o plan.html
8 | cannot write page\.html: File too large | ulimit -f 1; weft report done -o page.html
END


# A full disk, if one can be mounted.
disk=$dir/disk
mkdir "$disk"
if unshare -m true 2>"$dir/err" && unshare -m mount -t tmpfs -o size=16k none "$disk" 2>"$dir/err"; then
    # on_disk ARGS...: runs weft; files that remain on the disk are an error.
    on_disk() {
        unshare -m bash -c 'mount -t tmpfs -o size=16k none "$1" || exit 99
            disk=$1 code=0
            shift
            timeout 100 "$@" || code=$?
            find "$disk" -mindepth 1 -printf "left: %p\n" >&2
            exit $code' mount "$disk" "$WEFT" "$@"
    }
    table <<END
8 | $disk/new/.* cannot be written: No space left .*free some space | on_disk tokenize numbers.txt -o $disk/new
8 | No space left .*free some space | on_disk convert model $disk/new
8 | cannot write $disk/x\.png: No space left | on_disk draw good.trace -o $disk/x.png --width 4000 --height 4000
END
else
    echo "skipped: full disks: cannot mount a tmpfs: $(cat "$dir/err")"
fi

# Missing permissions.  Root has all permissions and becomes another user.
mkdir closed && cp small.txt tokens.bin one.csv run.yaml closed && cp -r model closed/model
mkdir shut
mkdir -m 777 open
chmod 000 closed/small.txt closed/tokens.bin closed/one.csv closed/run.yaml closed/model/*
chmod 555 shut
chmod 755 "$dir"
as_user() {
    timeout 100 "$WEFT" "$@"
}
if [ "$(id -u)" -eq 0 ]; then
    cp "$WEFT" "$dir/weft"
    as_user() {
        timeout 100 setpriv --reuid 65534 --regid 65534 --clear-groups "$dir/weft" "$@"
    }
fi
if as_user --version >"$dir/out" 2>"$dir/err"; then
    table <<'END'
5 | closed/one\.csv: Permission denied | as_user check closed/one.csv
5 | closed/one\.csv: Permission denied | as_user draw closed/one.csv
2 | closed/run\.yaml: Permission denied | as_user train closed/run.yaml
3 | closed/small\.txt: Permission denied | as_user tokenize closed/small.txt -o open/new
3 | data\.train: closed/tokens\.bin: Permission denied | as_user train run.yaml --data.train=closed/tokens.bin
4 | closed/model/config\.json cannot be opened: Permission denied | as_user eval -m closed/model -d tokens.bin
3 | closed/small\.txt.*: Permission denied | as_user inspect closed/small.txt
8 | cannot write shut/plan\.csv: Permission denied | as_user plan -s 1f1b -p 2 -m 2 -o shut/plan.csv
8 | cannot create the folder shut/new: Permission denied | as_user tokenize small.txt -o shut/new
8 | shut/run: Permission denied | as_user train run.yaml --log.dir=shut/run
8 | shut/new cannot be created: Permission denied | as_user convert model shut/new
8 | cannot write shut/page\.html: Permission denied | as_user report done -o shut/page.html
END
else
    echo "skipped: permissions: root cannot become another user: $(cat "$dir/err")"
fi

# A port that is in use.
"$WEFT" report --serve --port $((20000 + RANDOM % 20000)) done >"$dir/serve" 2>&1 </dev/null &
server=$!
for _ in $(seq 600); do
    [ -s "$dir/serve" ] && break
    sleep 0.1
done
port=$(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' "$dir/serve")
row 8 'port .* in use' "weft report --serve --port ${port:-none} done"
kill "$server"
wait "$server"

n_checks=$((n_checks + 1))
[ "$n_cases" -ge 150 ] || fail "only $n_cases cases were run"
echo "$n_cases cases"
cd "$dir" || exit 1
finish
