#!/bin/sh
# 120 measured iterations of GPT models on one node of A100, Megatron-DeepSpeed. Expected: a second.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
rows experiments/03-steps/measured/vtrain.json >"$out/rows.txt" || exit
awk '
{ e = 100 * ($4 / $3 - 1); a = e < 0 ? -e : e; match($1, /h[0-9]+/); h = substr($1, RSTART, RLENGTH); match($1, /mb[0-9]+/); mb = substr($1, RSTART, RLENGTH)
  k = h " " mb; sum[k] += a; bias[k] += e; n[k]++; if (a > most[k]) most[k] = a; print $3, $4, e >data }
END { printf "%-8s %-5s %5s %7s %7s %7s\n", "hidden", "batch", "rows", "mean %", "bias %", "max %"; for (k in n) { split(k, p, " "); printf "%-8s %-5s %5d %7.1f %7.1f %7.1f\n", substr(p[1], 2), substr(p[2], 3), n[k], sum[k] / n[k], bias[k] / n[k], most[k] | "sort -n" } }' data="$out/vtrain.dat" "$out/rows.txt" || exit
draw vtrain
headline "$(errors <"$out/rows.txt"); vTrain itself, by profiling a GPU: 8.4 % of all its rows on one node"
