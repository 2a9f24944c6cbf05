#!/bin/sh
# Qwen3-32B with Muon on 8 ... 1,024 GPUs: the optimizer's step under stock, gather, all-to-all and owners, and what the whole step takes under
# all-to-all, next to owners, on networks of 200, 100 and 50 GB/s a node.
# Expected: a few seconds; the tables of README.md, strategies.svg and .png.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
model=qwen3-32b

compare() { # cluster, nodes, layouts, option...: csv
    cluster=$1 nodes=$2 layouts=$3
    shift 3
    "$ballast" compare $model --cluster "$cluster" --nodes "$nodes" --layouts "$layouts" --state-dtype bf16 --master-weights no "$@" \
        --format csv >"$out/row.csv"
    [ $? -le 1 ] || exit 3 # 1: nothing fits
    column "${column:-optimizer_ms}" <"$out/row.csv"
    rm -f "$out/row.csv"
}
ratio() { # cluster, nodes, tokens: how many times as long the step is under all-to-all as under owners
    set -- $(column=step_ms compare "$1" "$2" zero3+alltoall,owner --seq-len "$3")
    awk -v a="$1" -v o="$2" 'BEGIN { printf "%.3f", a / o }'
}
for nodes in 1 2 4 8 16 32 64 128; do
    echo "$((8 * nodes))" $(compare dgx-a100 $nodes zero3,zero3+gather,zero3+alltoall,owner) \
        "$(ratio dgx-a100 $nodes 4096)" "$(ratio hgx-a100:nics=4x200Gb $nodes 4096)" "$(ratio hgx-a100:nics=4x100Gb $nodes 4096)" \
        "$(ratio hgx-a100:nics=4x100Gb $nodes 1024)"
done >"$out/strategies.dat" || exit
awk '
BEGIN { print "                        optimizer, ms          step under all-to-all / under owners"
        print " GPUs    stock   gather  all-to-all  owners   8x200Gb  4x200Gb  4x100Gb  4x100Gb, 1,024 tokens" }
{ printf "%5d %8.0f %8.0f %11.0f %7.0f %9.3f %8.3f %8.3f %8.3f\n", $1, $2, $3, $4, $5, $6, $7, $8, $9 }' "$out/strategies.dat"
echo
draw strategies
headline "$(awk '$1 == 64 { a = $6 } END { printf "all-to-all takes %.1f %% longer a step than owners on 64 GPUs, %.1f %% on 1,024", 100 * (a - 1), 100 * ($6 - 1) }' "$out/strategies.dat")"
