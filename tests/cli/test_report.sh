#!/usr/bin/env bash
# Checks weft report: one file, several runs, missing parts, and the served page.
. "$(dirname -- "$0")/common.bash"

lacks() { ! grep "$@"; }

mkdir -p runs/a runs/b
for i in $(seq 1 30); do
    echo "{\"step\":$i,\"loss\":$((60 - i)).5,\"grad_norm\":1,\"lr\":0.001,\"tokens\":64,\"ms\":12,\"tok_s\":5333,\"mfu\":0.1,\"bubble\":0.2,\"bubble_plan\":0.1}"
done >runs/a/metrics.jsonl
head -n 7 runs/a/metrics.jsonl >runs/b/metrics.jsonl

run 0 report runs/a
out_has 'wrote runs/a/report.html'
holds grep -q '<title>a · weft</title>' runs/a/report.html
holds grep -q '"id":"loss"' runs/a/report.html
holds grep -q 'No step was traced' runs/a/report.html
holds test "$(grep -c 'http' runs/a/report.html)" -le 2 # the SVG namespace and the security policy
holds lacks -q 'src=\|href=\|@import\|<link' runs/a/report.html
cp runs/a/report.html first.html
run 0 report runs/a
holds cmp first.html runs/a/report.html # the page is reproducible
run 0 report runs/a runs/b -o both.html
holds grep -q '<title>a, b · weft</title>' both.html
run 0 report runs/a -o -
out_has '</html>'
to_full report runs/a -o -

# A real run, with traces.
run 0 train --model.spec=d2 --model.vocab=512 --data.train="$WEFT_TEST_DATA/train/gpt2-tiny/tokens.bin" \
    --data.seq=16 --data.batch=4 --parallel.micros=4 --train.steps=3 --log.trace_steps=2 \
    --parallel.pp=2 --parallel.schedule=1f1b --log.sample=2 --log.dir=runs/c
# The run has written the same page itself.
holds test "$(tail -n 1 out)" = 'report   runs/c/report.html'
cp runs/c/report.html own.html
run 0 report runs/c
holds cmp own.html runs/c/report.html
(cd runs/c && "$WEFT" report . -o ../../from-within.html) >/dev/null
holds cmp own.html from-within.html # with the same name
for part in 'Time by activity' 'Timeline' 'Bubble by cause' 'Bytes between ranks' 'Samples' 'Settings'; do
    holds grep -q "<h2>$part</h2>" runs/c/report.html
done
holds grep -q 'step 3 of 3' runs/c/report.html
holds grep -q 'class="state finished"' runs/c/report.html
holds grep -qF '…/tokens.bin' runs/c/report.html
holds lacks -qF "$WEFT_TEST_DATA" runs/c/report.html # no path of this machine
holds lacks -qF "$dir" runs/c/report.html

# A stopped run with a checkpoint is not "running", although its last step is recent.
run 0 train --model.spec=d1 --model.vocab=512 --data.train="$WEFT_TEST_DATA/train/gpt2-tiny/tokens.bin" --data.seq=16 \
    --data.batch=2 --train.steps=100000000 --train.max_time=0.3 --checkpoint.every=1000 --log.dir=runs/d
holds grep -q 'class="state stopped"' runs/d/report.html
holds grep -q '<h2>Checkpoints</h2>' runs/d/report.html
# A page that cannot be written is a warning.
mkdir -p runs/e/report.html
what='weft train with a report that cannot be written'
"$WEFT" train --model.spec=d1 --model.vocab=512 --data.train="$WEFT_TEST_DATA/train/gpt2-tiny/tokens.bin" --data.seq=16 \
    --data.batch=2 --train.steps=1 --log.dir=runs/e >out 2>err
holds test $? -eq 0
err_has 'weft: warning: the report is not written: '
out_has 'saved    runs/e/model'
rm -r runs/e

run 2 report
err_has 'report needs a RUN'
run 3 report nowhere
err_has 'nowhere does not exist'
run 3 report runs
err_has 'not the directory of a run'
holds test ! -e runs/report.html
run 2 report runs/a --port 5
err_has '--port needs --serve'
run 2 report runs/a --serve -o x
run 2 report runs/a --serve --port 70000

# The server answers at its port, ends on a signal, and does not change the run.
find runs -type f -exec md5sum {} + | sort >before
"$WEFT" report --serve --port $((20000 + RANDOM % 20000)) runs/c >serve.out 2>serve.err </dev/null &
server=$!
for _ in $(seq 1 600); do
    [ -s serve.out ] && break
    sleep 0.1
done
port=$(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' serve.out)
what="weft report --serve ($port)"
# request HEAD: prints the response of the server.
request() {
    exec 3<>"/dev/tcp/127.0.0.1/$port" || return
    printf "$1" >&3
    cat <&3
    exec 3>&-
}
if [ -n "$port" ]; then
    request "GET / HTTP/1.1\r\nHost: localhost:$port\r\n\r\n" >answer
    holds grep -q '^HTTP/1.1 200' answer
    holds grep -q '<h2>Timeline</h2>' answer
    request "GET /data.json HTTP/1.1\r\nHost: localhost:$port\r\n\r\n" >answer
    holds grep -q '"name":"c","state":"finished","steps":3,"step":3,' answer
    request "GET / HTTP/1.1\r\nHost: evil.test:$port\r\n\r\n" >answer
    holds grep -q '^HTTP/1.1 421' answer
    # A port that is in use.
    run 8 report --serve --port "$port" runs/c
    err_has 'in use'
else
    fail "no port: $(cat serve.out serve.err)"
fi
kill -INT "$server"
wait "$server"
holds test $? -eq 0
find runs -type f -exec md5sum {} + | sort >after
holds cmp before after

# A damaged or unreadable file is an error that names it, and a pipe is not waited for.
cp -r "$WEFT_TEST_DATA/train/gpt2-tiny" tiny
run 0 train --model.dir=tiny --data.train=tiny/tokens.bin --data.batch=4 --data.seq=8 --parallel.threads=1 \
    --train.steps=2 --log.dir=hurt
rm -f hurt/report.html
mkfifo hurt/samples.jsonl
run 3 report hurt
err_has 'samples.jsonl'
rm hurt/samples.jsonl
echo 'train: [' >hurt/config.yaml
run 3 report hurt
err_has 'hurt/config.yaml:'
holds test ! -e hurt/report.html
rm hurt/config.yaml
run 0 report hurt

finish
