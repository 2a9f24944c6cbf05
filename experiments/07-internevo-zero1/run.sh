#!/bin/sh
# InternEvo's ZeRO-1: a 7B model on 8 ... 1,024 A100, predicted beside published; and what smaller shard groups would give.
# Expected: a few seconds; the table of README.md, scaling.svg and .png.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
model=block:layers=32,hidden=4096,ffn=11008,heads=32,mlp=swiglu,vocab=103168

group() { # GPUs, ranks that share one copy of the states
    "$ballast" sim "$model" --cluster internevo-a100 --gpus "$1" --layout zero1 --optimizer adamw --seq-len 2048 \
        --micro-batch 2 --grad-accum 4 --recompute none --shard-group "$2" --format csv >"$out/row.csv"
    [ $? -le 1 ] || exit 3 # 1: it does not fit
    column tokens_per_s_per_gpu <"$out/row.csv"
    rm -f "$out/row.csv"
}
rows $measured/internevo.json >"$out/rows.dat" || exit
while read -r id metric published predicted error; do
    gpus=${id##*gpus}
    echo "$gpus $published $predicted $error $(group "$gpus" 8) $([ "$gpus" -lt 64 ] && echo - || group "$gpus" 64)"
done <"$out/rows.dat" >"$out/scaling.dat" || exit
awk '
BEGIN { print "tokens a second and GPU\n           states over all ranks          groups of 8  groups of 64\n GPUs  published  predicted  error %     predicted     predicted" }
{ printf "%5d %10.0f %10.0f %8.1f %13.0f %13s\n", $1, $2, $3, $4, $5, $6 == "-" ? "-" : sprintf("%.0f", $6) }' "$out/scaling.dat"
echo
draw scaling
headline "$(errors <"$out/rows.dat"); at 1,024 GPUs groups of 8 would be $(awk 'END { printf "%.2f", $5 / $3 }' "$out/scaling.dat") times as fast"
