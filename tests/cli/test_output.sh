#!/usr/bin/env bash
# Checks weft plan -o: the extension selects the format, and files are written atomically.
. "$(dirname -- "$0")/common.bash"

run 0 plan -s zb-v -p 2 -m 3 -o plan.csv
holds test "$(cat out)" = 'wrote plan.csv'
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

# A failed plan leaves the old file unchanged.
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
fi
for form in text csv pytorch; do
    to_full plan -s zb-v -p 2 -m 3 -f $form
done
to_full plan -s zb-v -p 2 -m 3 --json

# A file keeps its permissions, and a link remains a link.
run 0 plan -s 1f1b -p 2 -m 2 -o want.csv
mkdir real
cp plan.csv real/plan.csv
chmod 640 real/plan.csv
ln -s real/plan.csv link.csv
ln -s link.csv far.csv
run 0 plan -s 1f1b -p 2 -m 2 -o far.csv
holds test -L far.csv
holds test -L link.csv
holds test ! -L real/plan.csv
holds cmp real/plan.csv want.csv
holds test "$(stat -c %a real/plan.csv)" = 640
run 2 plan -s 1f1b -p 2 -m 2 --chunks 3 -o far.csv
holds cmp link.csv want.csv
run 0 plan -s 1f1b -p 2 -m 2 -o real/plan.csv
holds test "$(stat -c %a real/plan.csv)" = 640
(umask 027 && "$WEFT" plan -s 1f1b -p 2 -m 2 -o fresh.csv)
holds test "$(stat -c %a fresh.csv)" = 640

# A schedule is read from standard input, or from a file without an extension.
run_with want.csv 0 plan -s - -o again.csv
holds cmp want.csv again.csv
run_with /dev/null 5 plan -s -
cp want.csv bare
run 0 plan -s bare -o again.csv
holds cmp want.csv again.csv
cp plan.csv 1f1b # the name of a schedule takes precedence over a file
run 0 plan -s 1f1b -p 2 -m 2 -o again.csv
holds cmp want.csv again.csv
rm bare
run 2 plan -s bare
holds test -z "$(find . -name '*.tmp-*')"

# Greedy and limited schedules accept the large costs of a model.
run 0 plan -s greedy-1f1b -p 2 -m 4 --model gpt2-124m
out_has 'greedy-1f1b: 2 ranks, 2 stages (linear), 4 micros'
run 0 plan -s greedy-gpipe -p 2 -m 4 --model gpt2-124m
# The limit is the memory of exactly two micros: 2 x 7756062304.170194 = 15512124608.340388.
run 0 plan -s zb-auto -p 2 -m 10 \
    --mem F=7756062304.170194,I=-3184873398.1351113,W=-4571188906.035082 \
    --mem-limit 15512124608.340387
out_has 'peak activations  2 '
run 2 plan -s zb-auto -p 2 -m 10 \
    --mem F=7756062304.170194,I=-3184873398.1351113,W=-4571188906.035082 --mem-limit 7.7e9

# Text is coloured only on request, and has the given width.
run 0 plan -s 1f1b -p 4 -m 8
holds test "$(grep -c "$(printf '\033')" out)" -eq 0
run 0 plan -s 1f1b -p 4 -m 8 --color always
holds grep -q "$(printf '\033')" out
run 0 plan -s 1f1b -p 4 -m 64 --width 60
holds awk 'length($0) > 60 && /^rank|^ *[0-9]+ / { exit 1 }' out

finish
