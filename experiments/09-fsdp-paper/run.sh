#!/bin/sh
# PyTorch FSDP's GPT-175B on 128 and 512 A100, predicted beside published: the rate at batches 1 and 2, and what prefetching in backward is worth;
# T5-11B on 8 and 512: what its rate loses.
# Expected: two seconds; the table of README.md.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
model=block:layers=96,hidden=12288,ffn=49152,heads=96,mlp=gelu,vocab=50000

phases() { # GPUs, units prefetched, attention: forward, backward, optimizer ms, GiB
    "$ballast" sim "$model" --cluster hgx-a100:nics=8x250Gb --gpus "$1" --layout zero3 --optimizer adamw --seq-len 2048 \
        --recompute full --prefetch "$2" --attention "$3" --format csv >"$out/row.csv"
    [ $? -le 1 ] || exit 3 # 1: it does not fit
    column forward_ms backward_ms optimizer_ms memory_alloc_gib <"$out/row.csv"
    rm -f "$out/row.csv"
}
rows $measured/fsdp-paper.json >"$out/rows.dat" || exit
awk '
BEGIN { print "GPUs  batch  published ms  predicted ms  error %" }
{ n = split($1, part, "-"); sub("gpus", "", part[n - 1]); sub("b", "", part[n]); printf "%4d %6d %13.0f %13.0f %8.1f\n", part[n - 1], part[n], $3, $4, $5 }' "$out/rows.dat"
echo
echo "batch 1, prefetch in backward: how many times as long without it (published about 1.18), and flash attention in place of unfused"
gain=
for gpus in 128 512; do
    set -- $(phases $gpus 1 unfused) $(phases $gpus 0 unfused) $(phases $gpus 1 flash)
    gain=$(awk -v f="$1" -v b="$2" -v o="$3" -v late="$6" 'BEGIN { printf "%.2f", (f + late + o) / (f + b + o) }')
    awk -v g=$gpus -v x="$gain" -v s="$(awk -v a="$1" -v b="$2" -v c="$9" -v d="${10}" 'BEGIN { printf "%.2f", (a + b) / (c + d) }')" \
        'BEGIN { printf "%4d GPUs: %s times, flash attention %s times as fast\n", g, x, s }'
done
t5() { # GPUs, sequences a GPU, attention: ms a step
    "$ballast" sim t5-11b --cluster hgx-a100:nics=8x250Gb --gpus "$1" --layout zero3 --optimizer adamw --seq-len 512 --target-len 512 \
        --micro-batch "$2" --recompute full --attention "$3" --format csv >"$out/row.csv"
    [ $? -le 1 ] || exit 3
    column step_ms <"$out/row.csv"
    rm -f "$out/row.csv"
}
echo
echo "T5-11B, 512 + 512 tokens a sequence: the rate of a GPU among 512 against that of one among 8 (published: 7 % less; batch 8 assumed)"
echo "attention  batch    8 GPUs ms  512 GPUs ms  rate %"
lost=
for attention in unfused flash; do
    for batch in 8 4 2 1; do
        set -- $(t5 8 $batch $attention) $(t5 512 $batch $attention)
        change=$(awk -v a="$1" -v b="$2" 'BEGIN { printf "%+.1f", 100 * (a / b - 1) }')
        awk -v t=$attention -v n=$batch -v a="$1" -v b="$2" -v c="$change" 'BEGIN { printf "%-9s %6d %12.0f %12.0f %7s\n", t, n, a, b, c }'
        [ -n "$lost" ] || lost=$change
    done
done
headline "$(errors <"$out/rows.dat"); without prefetch in backward $gain times as long (published 1.18); T5-11B from 8 to 512 GPUs $lost % (published -7)"
