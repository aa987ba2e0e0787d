#!/usr/bin/env bash
# Checks that the next start removes the temporary files of killed processes, and no other files.
. "$(dirname -- "$0")/common.bash"

tiny=$WEFT_TEST_DATA/train/gpt2-tiny
settings=(--model.dir="$tiny" --data.train="$tiny/tokens.bin" --data.batch=4 --data.seq=8
    --parallel.threads=1 --train.steps=2 --checkpoint.every=1)

(exit 0) &
dead=$!
wait $dead
leave() {
    mkdir -p "$(dirname "$1")"
    echo x >"$1.tmp-$dead-0"
}

# A run removes what is in its directory, but not what a process still writes.
for name in config.yaml plan.json checkpoints/.probe trace/step-000001.trace; do
    leave "run/$name"
done
mkdir run/model.tmp-$dead-1 && echo x >run/model.tmp-$dead-1/model.safetensors
echo x >run/notes.tmp-$$-0
echo x >run/own.tmp
exec 7>run/held.tmp-$dead-3
flock 7
run 0 train "${settings[@]}" --log.dir=run
holds test "$(cd run && find . -name '*tmp*' | sort | tr '\n' ' ')" = \
    "./held.tmp-$dead-3 ./notes.tmp-$$-0 ./own.tmp "
exec 7>&-

# Other outputs remove what is left of the same path only.
leave plan.csv
leave other.csv
run 0 plan -s 1f1b -p 2 -m 2 -o plan.csv
mkdir model.tmp-$dead-0 && echo x >model.tmp-$dead-0/config.json
run 0 convert run/model model
seq 100 >text.txt
leave data/train-000000.bin
run 0 tokenize text.txt -o data
holds test "$(find . -name "*.tmp-$dead-0")" = "./other.csv.tmp-$dead-0"

# A killed writer leaves its file, which the next start removes.
"$WEFT" train "${settings[@]}" --log.dir=killed --train.steps=100000000 >log 2>&1 &
pid=$!
while ! grep -q 'step 2/' log && kill -0 $pid; do sleep 0.05; done
kill -9 $pid
wait $pid 2>/dev/null
leave killed/report.html
run 0 train "${settings[@]}" --log.dir=killed --checkpoint.resume=auto --train.steps=100000000 --train.max_time=1
holds test -z "$(find killed -name '*tmp*')"

finish
