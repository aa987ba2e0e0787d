#!/usr/bin/env bash
# Checks the report in a real browser: it is rendered, tooltips have figures, text is escaped, the console
# has no messages, and the live page follows a run.  Skipped (77) without chromium.
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo 'skipped: no chromium here (make setup-browser installs it)'
    exit 77
}
. "$(dirname -- "$0")/../cli/common.bash"
. "$WEFT_SOURCE_DIR/tests/browser/browse.bash"

lacks() { ! grep "$@"; }

# dom ADDRESS [OPTIONS...]: writes the contents of the page after loading to out.
dom() {
    local address=$1
    shift
    n_checks=$((n_checks + 1))
    what=$address
    browse "$address" --window-size=1200,900 "$@"
    grep CONSOLE err && fail 'the console has messages'
}

# tip TEXT: checks the tooltip.
tip() {
    n_checks=$((n_checks + 1))
    sed -n 's/.*<div id="tip"[^>]*>\(.*\)/\1/p' out | head -n 1 | sed 's/<script.*//; s/<[^>]*>/|/g; s/||*/|/g' >tip
    grep -qF -e "$1" tip || fail "the tooltip does not show '$1' but: $(cat tip)"
}

# metrics FROM TO: prints metrics of these steps.
metrics() {
    for i in $(seq "$1" "$2"); do
        echo "{\"step\":$i,\"loss\":$((90 - i)).25,\"grad_norm\":1.5,\"lr\":0.001,\"tokens\":64,\"ms\":12,\"tok_s\":5333,\"mfu\":0.1,\"bubble\":0.2,\"bubble_plan\":0.1}"
    done
}

run 0 train --model.spec=d2 --model.vocab=512 --data.train="$WEFT_TEST_DATA/train/gpt2-tiny/tokens.bin" \
    --data.seq=16 --data.batch=4 --parallel.micros=4 --train.steps=3 --log.trace_steps=2 \
    --parallel.pp=2 --parallel.schedule=1f1b --log.dir=run
metrics 1 30 >run/metrics.jsonl
run 0 report run
dom "file://$dir/run/report.html"
holds grep -q 'data-ready="1"' out
holds grep -q 'id="tip" role="status"></div>' out
for part in Loss Throughput Timeline 'Bubble by cause' Settings; do
    holds grep -q "<h2>$part</h2>" out
done
dom "file://$dir/run/report.html#chart=loss&step=12"
tip '|step 12|loss|78.2500|'
dom "file://$dir/run/report.html#chart=bubble&step=30"
tip '|step 30|measured|20.0%|planned|10.0%|'
dom "file://$dir/run/report.html#timeline=timeline0&row=0&time=0.001" # planned: the first forward
tip '|0F0|rank 0, planned|start|0 ms|length|'
dom "file://$dir/run/report.html#timeline=timeline0&row=3&time=0.001"
tip '|idle|rank 1, measured|start|0 ms|'

# Names and samples with scripts.
name='<img src=x onerror=alert(1)>&"'"'"
mkdir -p "$name" 'b</script><script>document.title="run"<'
metrics 1 5 >"$name/metrics.jsonl"
cp "$name/metrics.jsonl" 'b</script><script>document.title="run"<'/metrics.jsonl 2>/dev/null
printf '%s\n' '{"step":3,"text":"</pre></script><script>document.title=1</script><svg onload=alert(2)>\u2028"}' >"$name/samples.jsonl"
run 0 report "$name" -o hostile.html
dom "file://$dir/hostile.html#chart=loss&step=2"
holds grep -qF '<h1>&lt;img src=x onerror=alert(1)&gt;&amp;"'"'</h1>" out
holds grep -qF '&lt;svg onload=alert(2)&gt;' out
holds lacks -q '<img' out
holds grep -qF '<title>&lt;img' out
tip '|step 2|loss|88.2500|'
run 0 report "$name" run -o two.html
dom "file://$dir/two.html#chart=loss&step=2"
holds lacks -q '<img' out
tip '|step 2|&lt;img src=x onerror=alert(1)&gt;'

# The live page polls and shows steps that were added after it was loaded.
mkdir live
metrics 1 4 >live/metrics.jsonl
"$WEFT" report --serve --port $((20000 + RANDOM % 20000)) live >serve.out 2>&1 </dev/null &
server=$!
for _ in $(seq 1 600); do
    [ -s serve.out ] && break
    sleep 0.1
done
port=$(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' serve.out)
# The browser's clock runs fast, so that it polls often while steps are added.
(
    for ((i = 5; ; i++)); do # until the page has been read
        metrics "$i" "$i" >>live/metrics.jsonl
        sleep 0.2
    done
) &
writer=$!
sleep 1
# On a busy machine the virtual time may be over before the server answers a poll, so there are several
# attempts with more time each.
for budget in 400000 800000 1600000 3200000; do
    dom "http://127.0.0.1:$port/" --virtual-time-budget=$budget
    ! grep -q 'data-news="[1-9]' out || break
done
kill "$writer"
wait "$writer" 2>/dev/null
holds grep -q 'data-live="yes"' out
holds grep -q 'data-news="[1-9]' out
holds grep -q '<span>step [1-9]' out
# A request with another host name is rejected.
dom "http://evil.test:$port/" --host-resolver-rules="MAP evil.test 127.0.0.1"
holds lacks -q 'step' out
kill "$server"
wait "$server"

finish
