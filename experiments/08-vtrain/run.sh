#!/bin/sh
# vTrain's measured iterations of GPT models on 2, 4 and 8 A100, plain data parallelism: predicted against measured.
# Beside them its runs with tensor parallelism, which nothing is fitted to.
# Expected: two seconds; the tables of README.md, scatter.svg and .png.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
rows $measured/vtrain.json >"$out/rows.dat" || exit
# vtrain-h2048-l12-gpus2-gb16-mb1 -> gpus hidden micro-batch measured predicted error
awk '{ split($1, part, "-"); print substr(part[4], 5), substr(part[2], 2), substr(part[6], 3), $3, $4, $5 }' "$out/rows.dat" >"$out/scatter.dat"
awk '
{ k = $2 " " $3; x = $6 < 0 ? -$6 : $6; n[k]++; sum[k] += x; bias[k] += $6; if (x > most[k]) most[k] = x }
END {
    printf "%6s %11s %5s %7s %7s %7s\n", "hidden", "micro-batch", "rows", "mean %", "bias %", "max %"
    fflush()
    for (k in n) { split(k, p, " "); printf "%6d %11d %5d %7.1f %+7.1f %7.1f\n", p[1], p[2], n[k], sum[k] / n[k], bias[k] / n[k], most[k] | "sort -n -k 1,1 -k 2,2" }
}' "$out/scatter.dat"
echo
rows "$here/tensor.json" >"$out/tensor.dat" || exit
# vtrain-h2048-l16-gpus8-gb64-mb1-tp2[-2]
awk '
{ split($1, part, "-"); k = substr(part[7], 3); x = $5 < 0 ? -$5 : $5; n[k]++; sum[k] += x; bias[k] += $5; if (x > most[k]) most[k] = x }
END {
    printf "%3s %5s %7s %7s %7s\n", "tp", "rows", "mean %", "bias %", "max %"
    for (k = 2; k <= 8; k *= 2) printf "%3d %5d %7.1f %+7.1f %7.1f\n", k, n[k], sum[k] / n[k], bias[k] / n[k], most[k]
}' "$out/tensor.dat"
echo "tensor parallelism: $(errors <"$out/tensor.dat"), nothing fitted"
echo
draw scatter
headline "$(errors <"$out/rows.dat"); vTrain itself, which profiles a GPU, publishes 8.4 % of all its rows on one node"
