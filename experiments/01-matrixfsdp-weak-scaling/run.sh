#!/bin/sh
# Weak scaling of MatrixFSDP (arXiv 2607.05895): predicted beside published.
# 16, 32, 64, 128 layers of its benchmark block on 1, 2, 4, 8 nodes of 8 A100; stock against owner.
# Expected: less than a second; the table of README.md. With gnuplot: weak-scaling.svg and .png.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
: >"$out/weak-scaling.csv" || exit 1
for size in 16:1 32:2 64:4 128:8; do
    "$ballast" compare "block:layers=${size%:*},hidden=4096,ffn=16384,heads=32,mlp=split-up" \
        --cluster matrixfsdp-a100 --nodes "${size#*:}" --optimizer muon --ns-steps 2 --state-dtype bf16 \
        --master-weights no --recompute full --micro-batch 1 --planner role-greedy \
        --layouts zero3+stock,owner --format csv >>"$out/weak-scaling.csv" || exit
done
awk -F, '
BEGIN {
    split("367 1285 3079 5064", stock_opt, " "); split("87 89 91 93", owner_opt, " ")
    split("991 2612 5788 10004", stock_all, " "); split("725 1489 2689 4989", owner_all, " ")
    what[1] = "stock optimizer ms"; what[2] = "owner optimizer ms"
    what[3] = "stock step ms";      what[4] = "owner step ms"
    what[5] = "optimizer ratio";    what[6] = "step ratio"
    published[5] = "4.2 14.5 34.0 54.6"; published[6] = "1.37 1.75 2.15 2.01"
}
$1 == "layout" { for (i = 1; i <= NF; i++) column[$i] = i; n++; next }
$1 == "owner"  { opt["owner", n] = $column["optimizer_ms"]; all["owner", n] = $column["step_ms"] }
$1 != "owner"  { opt["stock", n] = $column["optimizer_ms"]; all["stock", n] = $column["step_ms"] }
function row(k, i,   p, q, r) {
    if (k == 1) { p = opt["stock", i]; q = stock_opt[i] }
    if (k == 2) { p = opt["owner", i]; q = owner_opt[i] }
    if (k == 3) { p = all["stock", i]; q = stock_all[i] }
    if (k == 4) { p = all["owner", i]; q = owner_all[i] }
    if (k == 5) { p = opt["stock", i] / opt["owner", i]; split(published[5], r, " "); q = r[i] }
    if (k == 6) { p = all["stock", i] / all["owner", i]; split(published[6], r, " "); q = r[i] }
    printf k <= 4 ? "%6.0f" : (k == 5 ? "%6.1f" : "%6.2f"), p
    printf " %6s %+4.0f%%  |", q, 100 * (p / q - 1)
}
END {
    printf "%-19s|", "nodes"
    for (i = 1; i <= n; i++) printf "%13d        |", 2 ^ (i - 1)
    printf "\n%-19s|", ""
    for (i = 1; i <= n; i++) printf "  ours  paper        |"
    printf "\n"
    for (k = 1; k <= 6; k++) {
        printf "%-19s|", what[k]
        for (i = 1; i <= n; i++) row(k, i)
        printf "\n"
    }
    for (i = 1; i <= n; i++)
        printf "%d %.6g %.6g %s %s %.6g %.6g %s %s\n", 2 ^ (i - 1), opt["stock", i], opt["owner", i], stock_opt[i],
            owner_opt[i], all["stock", i], all["owner", i], stock_all[i], owner_all[i] >data
}' data="$out/weak-scaling.dat" "$out/weak-scaling.csv" || exit
draw weak-scaling
rows $here/measured/matrixfsdp-weak-scaling.json >"$out/rows.dat" || exit
headline "$(errors <"$out/rows.dat")"
