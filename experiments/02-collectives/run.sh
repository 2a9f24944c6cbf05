#!/bin/sh
# Predicts the tables of measured/, fits the constants with each table left out, draws the errors. About ten seconds.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
set -e
m=experiments/02-collectives/measured
"$ballast" validate $m/*.json | tee "$out/tables.txt"
for fit in dgx-a100:a100-node hgx-h100-ndr:h100-node hgx-b200:b200-node hgx-h100-ndr:ndr; do
    echo
    echo "== ${fit%:*} from ${fit#*:}.json"
    "$ballast" topo "${fit%:*}" --calibrate "$m/${fit#*:}.json" --leave-one-out | tee "$out/${fit#*:}.txt"
done
"$ballast" coll all_gather --cluster gcp-a3mega --nodes 2 --measured $m/tcpxo.json --plot "$out/a3mega-all_gather" >/dev/null
"$ballast" coll all_reduce --cluster hgx-h100-ndr --nodes 2 --measured $m/ndr.json --plot "$out/h100-2n-all_reduce" >/dev/null
echo
echo "pictures: $out/*.png"
headline "all tables: $(awk '/^overall/ { print "mean error " $5 " % of " $2 " rows, from 32 MiB on " $8 " %" }' "$out/tables.txt")"
