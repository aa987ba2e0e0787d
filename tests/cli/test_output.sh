#!/usr/bin/env bash
# weft plan -o: the form follows the name, and a file appears whole or not at all.
. "$(dirname -- "$0")/common.bash"

run 0 plan -s zb-v -p 2 -m 3 -o plan.csv
holds test ! -s out
holds grep -q '^# weft schedule 1$' plan.csv
holds grep -q '^# weft name zb-v$' plan.csv
holds grep -q '^# weft placement 0 1 1 0$' plan.csv
run 0 plan -s zb-v -p 2 -m 3 -o plan.json
holds grep -q '^{"schedule":"zb-v"' plan.json
run 0 plan -s zb-v -p 2 -m 3 -o plan.txt
holds grep -q 'rank' plan.txt
run 0 plan -s zb-v -p 2 -m 3 -f pytorch -o plan.csv
holds grep -q '^0F0,' plan.csv
run 0 plan -s zb-v -p 2 -m 3 -o -
out_has 'proven'
run 0 plan -s zb-v -p 2 -m 3 -o /dev/null

# A plan that fails leaves what was there.
cp plan.csv before.csv
run 2 plan -s zb-v -p 2 -m 3 --chunks 5 -o plan.csv
holds cmp plan.csv before.csv
run 2 plan -s zb-v -p 2 -m 3 --chunks 5 -o none.csv
holds test ! -e none.csv

run 8 plan -s zb-v -p 2 -m 3 -o no/such/folder/plan.csv
err_has 'cannot write no/such/folder/plan.csv: No such file or directory'
mkdir folder
run 8 plan -s zb-v -p 2 -m 3 -o folder
holds test -z "$(ls -A folder)"
if [ "$(id -u)" -ne 0 ]; then # root writes everywhere
    chmod 500 folder
    run 8 plan -s zb-v -p 2 -m 3 -o folder/plan.csv
    holds test -z "$(ls -A folder)"
fi
if [ -w /dev/full ]; then
    run 8 plan -s zb-v -p 2 -m 3 -o /dev/full
    err_has 'cannot write /dev/full'
    for form in text csv pytorch; do
        what="weft plan -f $form >/dev/full"
        code=0
        "$WEFT" plan -s zb-v -p 2 -m 3 -f $form >/dev/full 2>err || code=$?
        judge 8 "$code"
    done
fi
holds test -z "$(find . -name '*.new')"

# Text has colour only where it is asked for; it is as wide as it is told.
run 0 plan -s 1f1b -p 4 -m 8
holds test "$(grep -c "$(printf '\033')" out)" -eq 0
run 0 plan -s 1f1b -p 4 -m 8 --color always
holds grep -q "$(printf '\033')" out
run 0 plan -s 1f1b -p 4 -m 64 --width 60
holds awk 'length($0) > 60 && /^rank|^ *[0-9]+ / { exit 1 }' out

finish
