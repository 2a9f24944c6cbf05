#!/bin/sh
# bench_exec.sh - the optimizer step of owner, stock, zero3+gather and ddp side by side: trained for real on RANKS ranks of this
# machine (default 4), the median of STEPS steps. Owners update each matrix once, the others on every rank; on more ranks
# than cores that is the ratio to see. Times in ms; spread is (largest - smallest) / median.
. tests/mpi/lib.sh

ranks=${RANKS:-4}
model='block:layers=4,hidden=256,ffn=1024,heads=4,mlp=swiglu,vocab=512'
echo "$model, $ranks ranks on $(getconf _NPROCESSORS_ONLN) cores, fp32, ${STEPS:-7} steps"
printf '%-14s %12s %9s %12s %9s\n' layout optimizer 'spread %' step 'spread %'
for layout in ddp zero3+stock zero3+gather zero1-owner owner; do
    plan p.json "$ranks" "$layout" "$model" --param-dtype fp32 --grad-dtype fp32 --master-weights no || { bad "$layout"; continue; }
    on "$ranks" "$work/p.json" --steps "${STEPS:-7}" --format csv
    [ "$status" = 0 ] || { bad "$layout"; continue; }
    awk -F, -v l="$layout" '$1 == "optimizer phase" { o = $3; os = $4 } $1 == "step" { printf "%-14s %12.1f %9.1f %12.1f %9.1f\n", l, o, os, $3, $4 }' "$work/out"
done
[ "$failed" = 0 ]
