#!/bin/sh
# Which collective moves the owners' segments? 64 layers of MatrixFSDP's block on 1 ... 128 nodes of 8 A100, each algorithm.
# Expected: about 5 seconds; the tables of README.md, ablation.svg and .png.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
job='block:layers=64,hidden=4096,ffn=16384,heads=32,mlp=split-up --optimizer muon --ns-steps 2
     --state-dtype bf16 --master-weights no --recompute full --micro-batch 1'
published=$here/published.dat

step() { # nodes algorithm [changes to the cluster]
    "$ballast" sim $job --cluster "matrixfsdp-a100$3" --nodes "$1" --planner role-greedy --gather "$2" --format csv >"$out/row.csv"
    [ $? -le 1 ] || exit 3 # 1: it does not fit
    column step_ms <"$out/row.csv"
}
balance() { # nodes planner
    "$ballast" plan $job --cluster matrixfsdp-a100 --nodes "$1" --layout owner --planner "$2" --format csv | column balance
}

for n in 1 2 4 8 16 32 64 128; do
    padded=-
    [ $n -gt 8 ] || padded=$(step $n padded)
    echo "$n $(step $n p2p) $(step $n hierarchical) $(step $n ring) $(step $n tree) $padded $(step $n p2p :rails=yes)"
done >"$out/steps.dat" || exit
for n in 1 2 4 8; do
    echo "$n $(balance $n role-greedy) $(balance $n scope-greedy) $(balance $n ilp)"
done >"$out/balance.dat" || exit
rm -f "$out/row.csv"

awk -v published="$published" '
BEGIN {
    while ((getline line <published) > 0)
        if (line !~ /^#/) { split(line, f, " "); p2p[f[1]] = f[2]; pad[f[1]] = f[3] }
    print "step ms     published                 predicted"
    printf "nodes  %8s %8s  | %15s %15s %15s %15s %15s %15s\n", "owner", "padded", "p2p", "p2p, rails", "hierarchical", "ring", "tree", "padded"
}
function cell(x, y) { return y ? sprintf("%8.0f %+5.0f%%", x, 100 * (x / y - 1)) : sprintf("%8.0f       ", x) }
{
    printf "%5d  %8s %8s  | ", $1, p2p[$1] ? p2p[$1] : "-", pad[$1] ? pad[$1] : "-"
    printf "%15s %15s ", cell($2, p2p[$1]), cell($7, p2p[$1])
    for (i = 3; i <= 5; i++) printf "%15s ", cell($i, p2p[$1])
    print $6 == "-" ? "" : sprintf("%15s", cell($6, pad[$1]))
}' "$out/steps.dat"
echo
awk -v published="$published" '
BEGIN {
    while ((getline line <published) > 0)
        if (line !~ /^#/) { split(line, f, " "); role[f[1]] = f[4]; scope[f[1]] = f[5] }
    print "max/mean of optimizer work (predicted, published in brackets)"
    printf "nodes %18s %18s %10s\n", "role-greedy", "scope-greedy", "ilp"
}
{ printf "%5d %11.2f (%.2f) %11.2f (%.2f) %10.2f\n", $1, $2, role[$1], $3, scope[$1], $4 }' "$out/balance.dat"
echo
draw ablation
headline "$(awk -v published="$published" '
BEGIN { while ((getline line <published) > 0) if (line !~ /^#/) { split(line, f, " "); p[f[1]] = f[2]; q[f[1]] = f[3] } }
function err(x, y) { return x > y ? x / y - 1 : 1 - x / y }
p[$1] { n++; ring += err($4, p[$1]); tree += err($5, p[$1]); pad += err($6, q[$1]); if ($1 == 8) { far = $2 / p[$1]; pxn = $7 / p[$1] } }
END { printf "mean error: ring %.1f %%, tree %.1f %%, padded %.1f %%; direct sends would be %.0f times too slow at 64 GPUs, over all NICs of a node %.0f", 100 * ring / n, 100 * tree / n, 100 * pad / n, far, pxn }' "$out/steps.dat")"
