#!/usr/bin/env bash
# Checks the drawn page in a real browser: it is rendered, the tooltip shows the correct action, text is
# escaped, and the console has no messages.  Skipped (77) without chromium.
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo 'skipped: no chromium here (make setup-browser installs it)'
    exit 77
}
. "$(dirname -- "$0")/../cli/common.bash"
. "$WEFT_SOURCE_DIR/tests/browser/browse.bash"

# dom HASH: writes the contents of page.html#HASH after loading to out, and its messages to err.
dom() {
    n_checks=$((n_checks + 1))
    what="page.html#$1"
    browse "file://$dir/page.html#$1" --window-size=1200,700
    grep CONSOLE err && fail 'the console has messages'
    holds grep -q 'data-ready="1"' out
}

# tip TEXT...: checks the lines of the tooltip.
tip() {
    sed -n '/<div id="tip"/,/<\/div>/p' out | sed 's/<[^>]*>//g' >tip
    for text; do
        n_checks=$((n_checks + 1))
        grep -qxF -e "$text" tip || fail "the tooltip does not show '$text' but: $(tr '\n' '|' <tip)"
    done
}

run 0 plan -s 1f1b -p 4 -m 8 -o plan.csv
run 0 draw plan.csv -o page.html
dom ''
holds grep -q '<h1>1f1b: 4 ranks, 4 stages, 8 micros</h1>' out
holds grep -q 'data-painted="64"' out # every action
holds grep -q 'makespan 33, bubble 27.3%' out
dom 'rank=0&time=12.5' # B0 runs from 10 to 12, F4 from 12 to 13
tip '0F4' 'rank 0' 'start 12' 'length 1'
dom 'rank=3&time=5'
tip '3B0' 'rank 3' 'start 4' 'length 2'
dom 'rank=0&time=7'
tip 'idle' 'start 4' 'length 6'

# A page with two traces, messages, real time, and a script in the title.
run 0 draw plan.csv "$WEFT_TEST_DATA/trace_measured.trace" --unit 10ms --lanes \
    --title '</title></script><script>document.title="run"</script><b>x' -o page.html
dom 'rank=0&time=12&trace=1&lane=1'
tip '0SEND_F0' 'rank 0 of measured, send' 'start 10.782 ms' 'size 1.000 MiB (1048576)' 'to rank 1'
holds grep -qF '&lt;/script&gt;&lt;script&gt;document.title="run"&lt;/script&gt;&lt;b&gt;x</h1>' out
holds grep -qF '<title>&lt;/title&gt;&lt;/script&gt;' out

# A page with too many actions to draw each one.
run 0 plan -s zb-h1 -p 64 -m 512 -o page.html
holds test "$(wc -c <page.html)" -lt 6000000
dom 'rank=63&time=400.5'
tip 'rank 63' 'length 1'
holds grep -q 'class="shares">' out
dom 'from=400&to=420&rank=63&time=400.5'
holds grep -q 'data-view="400 420"' out
holds grep -q 'class="shares" hidden' out
tip 'rank 63' 'start 400' 'length 1'

finish
