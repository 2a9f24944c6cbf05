#!/bin/sh
# InternLM-7B under ZeRO-1 on 8 to 1,024 A100: tokens a second and GPU. Expected: a second.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
rows experiments/03-steps/measured/internevo.json >"$out/rows.txt" || exit
job='block:layers=32,hidden=4096,ffn=11008,heads=32,mlp=swiglu,vocab=103168 --cluster internevo-a100 --layout zero1 --optimizer adamw
     --seq-len 2048 --micro-batch 2 --grad-accum 4 --recompute none'
rate() { # gpus group
    "$ballast" sim $job --gpus "$1" --shard-group "$2" --format csv |
        awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next } { print $c["tokens_per_s_per_gpu"] }'
}
printf '%6s %10s %10s %8s %18s\n' GPUs published predicted 'error %' 'in groups of 64'
while read -r id metric measured predicted; do
    gpus=${id##*gpus}
    grouped=-
    [ "$gpus" -lt 64 ] || grouped=$(rate "$gpus" 64)
    echo "$gpus $measured $predicted $grouped" >>"$out/rate.new"
    awk -v g="$gpus" -v m="$measured" -v p="$predicted" -v q="$grouped" 'BEGIN { printf "%6d %10.0f %10.0f %+8.1f %18s\n", g, m, p, 100 * (p / m - 1), q == "-" ? q : sprintf("%.0f", q) }'
done <"$out/rows.txt"
mv "$out/rate.new" "$out/rate.dat" || exit
draw internevo
headline "$(errors <"$out/rows.txt")"
