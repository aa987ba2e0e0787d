#!/usr/bin/env bash
# Checks with tools/bits.sh that every schedule gives the same bits as one rank, and that the script
# reports layouts that differ.
. "$(dirname -- "$0")/common.bash"

bits=$WEFT_SOURCE_DIR/tools/bits.sh
code=0
quick=(--quick)
[ -z "${WEFT_TEST_DEEP-}" ] || quick=() # all layouts
what="tools/bits.sh ${quick[*]}"
"$bits" "${quick[@]}" >out 2>err </dev/null || code=$?
holds test "$code" -eq 0
holds test ! -s err
out_has 'layouts, one hash each'
out_lacks FAILED
[ "$code" -eq 0 ] || sed 's/^/  /' out

# A weft that gives other results with one schedule and fails with another.
cat >other <<END
#!/usr/bin/env bash
case "\$*" in
train*=zb-h1\ *) exec "$WEFT" "\$@" --optim.curve=linear ;;
train*=v-half\ *) exit 9 ;;
*) exec "$WEFT" "\$@" ;;
esac
END
chmod +x other

# fails SCHEDULE TEXT: checks that the script fails and prints TEXT.
fails() {
    local code=0
    what="tools/bits.sh --only $1, with a faulty weft"
    WEFT=$PWD/other "$bits" --only "$1" >out 2>err </dev/null || code=$?
    holds test "$code" -eq 1
    out_has "$2"
    out_lacks 'one hash each'
}
fails zb-h1 'FAILED: the bits differ from one rank'
fails v-half 'FAILED: exit code 9'
fails nothing 'no layout has the schedule nothing'

what='tools/bits.sh --fast'
code=0
"$bits" --fast >out 2>err </dev/null || code=$?
holds test "$code" -eq 2

finish
