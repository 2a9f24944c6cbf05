#!/bin/sh
# Seven model sizes on 64 A100: optimizer time and memory of ZeRO-1 with owners, gather-once, stock and owners.
# Expected: a second; the tables of README.md, sizes.svg and .png.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1

size() { # name block
    "$ballast" compare "block:$2" --cluster matrixfsdp-a100 --nodes 8 --optimizer muon --ns-steps 2 --state-dtype bf16 \
        --master-weights no --recompute full --micro-batch 1 --planner role-greedy \
        --layouts zero1-owner,zero3+gather-once,zero3+stock,owner --format csv >"$out/size.csv"
    [ $? -le 1 ] || exit 3 # 1: none fits
    b=$("$ballast" model "block:$2" --format json | awk -F'[:,]' '/"total_params"/ { printf "%.3f", $2 / 1e9 }')
    # optimizer ms of the four, allocator's peak GiB of the four
    echo "$1 $b $(column optimizer_ms memory_alloc_gib <"$out/size.csv" | awk '{ t = t $1 " "; m = m $2 " " } END { print t m }')"
    rm -f "$out/size.csv"
}
{
    size 1.7B layers=28,hidden=2048,ffn=6144,heads=16,mlp=swiglu
    size 4B layers=36,hidden=2560,ffn=9728,heads=20,mlp=swiglu
    size 4.3B layers=32,hidden=4096,ffn=8192,heads=32,mlp=split-up
    size 8B layers=36,hidden=4096,ffn=12288,heads=32,mlp=swiglu
    size 12.9B layers=64,hidden=4096,ffn=16384,heads=32,mlp=split-up
    size 14B layers=40,hidden=5120,ffn=17408,heads=40,mlp=swiglu
    size 32B layers=64,hidden=5120,ffn=25600,heads=64,mlp=swiglu
} >"$out/predicted.dat" || exit
rows $measured/memory.json >"$out/rows.dat" || exit
# what is published beside it, at the end of the line: optimizer times, then memory (matrixfsdp-32b-owner, ...)
awk -v times="$here/published.dat" -v memory="$out/rows.dat" '
BEGIN {
    while ((getline line <times) > 0)
        if (line !~ /^#/) { split(line, f, " "); ms[f[1]] = f[2] " " f[3]; zero1[f[1]] = f[4] }
    while ((getline line <memory) > 0) { split(line, f, " "); gib[f[1]] = f[3] }
    n = split("zero1-owner gather-once stock owner", layout, " ")
}
{
    line = $0 " " ($1 in ms ? ms[$1] : "- -")
    for (i = 1; i <= n; i++) {
        id = "matrixfsdp-" tolower($1) "-" layout[i]
        line = line " " (id in gib ? gib[id] : "-")
    }
    print line, $1 in zero1 ? zero1[$1] : "-"
}' "$out/predicted.dat" >"$out/sizes.dat" || exit
# name params | zero1-owner gather-once stock owner: ms 3-6, GiB 7-10 | published: stock owner ms 11-12, GiB 13-16, zero1-owner ms 17
awk '
function cell(x, y, form) { return sprintf(form, x) (y == "-" ? "              " : sprintf(" (%5.1f %+4.0f%%)", y, 100 * (x / y - 1))) }
function ms(x, y) { return sprintf("%7.0f", x) (y == "-" ? "              " : sprintf(" (%5.0f %+4.0f%%)", y, 100 * (x / y - 1))) }
BEGIN { print "predicted (published, error)\n                    optimizer ms                                                GiB of the fullest rank, as the allocator counts"
        printf "size  10^9    %-21s %-21s %-21s| %-20s %-20s %-20s %-20s\n", " ZeRO-1 owner", " stock", " owner", " ZeRO-1 owner", " gather-once", " stock", " owner" }
{ printf "%-5s %5.2f %s %s %s | %s %s %s %s\n", $1, $2, ms($3, $17), ms($5, $11), ms($6, $12), cell($7, $13, "%6.1f"), cell($8, $14, "%6.1f"), cell($9, $15, "%6.1f"), cell($10, $16, "%6.1f") }' "$out/sizes.dat"
echo
draw sizes
headline "memory: $(grep ^matrixfsdp "$out/rows.dat" | errors); $(awk '
$1 == "32B" { printf "32B: owner optimizer %.0f times as fast as stock (published %.0f), gather-once %.1f times the memory of owners (%.1f)", $5 / $6, $11 / $12, $8 / $10, $14 / $16 }' "$out/sizes.dat")"
