# Loads pages in headless chromium, for the tests in this directory.  Sourced after common.bash.
# shellcheck shell=bash disable=SC2154

# browse ADDRESS [OPTIONS...]: loads a page and writes its final document to out and messages to err.  The
# browser itself sometimes fails to start on a busy machine, so it has three attempts.
browse() {
    local address=$1 attempt
    shift
    for attempt in 1 2 3; do
        rm -rf profile
        timeout 150 "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
            --disable-background-networking --disable-component-update --disable-sync \
            --disable-dev-shm-usage --user-data-dir="$dir/profile" --enable-logging=stderr \
            "$@" --dump-dom "$address" >out 2>err </dev/null && return
        echo "the browser failed at attempt $attempt" >&2
    done
    fail 'the browser failed'
}
