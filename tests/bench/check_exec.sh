#!/bin/sh
# check_exec.sh - `ballast-exec --check` for every layout and gather algorithm on 1, 2, 3, 4, 7, 8 and 64 ranks of this
# machine, as a table: = bitwise equal to ddp, N within N ulp (zero3+stock), X different, ! failed. Nodes of 4 GPUs, two
# micro-batches. RANKS="1 2 3" runs fewer. `make check-exec`.
. tests/mpi/lib.sh

ranks=${RANKS:-1 2 3 4 7 8 64}
model='block:layers=2,hidden=32,ffn=72,heads=4,kv-heads=2,mlp=swiglu,vocab=61'
LIMIT=300
one() { # label layout options...
    label=$1 layout=$2
    shift 2
    printf '%-34s' "$label"
    for n in $ranks; do
        mark='!'
        if "$BUILD/ballast" plan "$model" --gpus-per-node 4 --gpus "$n" -l "$layout" --seq-len 16 --grad-accum 2 \
            --param-dtype fp32 --grad-dtype fp32 -o "$work/p.json" "$@" >"$work/out" 2>"$work/err"; then
            on "$n" "$work/p.json" --check --steps 2
            mark=$(sed -n 's/^check: bitwise equal$/=/p; s/^check: within \([0-9]*\) ulp.*/\1/p; s/^check: DIFFERS.*/X/p' "$work/out")
        fi
        case $mark in = | [0-9]*) good ;; *) bad "$label on $n ranks" >&2 ;; esac
        printf '%6s' "${mark:-!}"
    done
    echo
}
echo "$model, 2 micro-batches, fp32"
printf '%-34s' 'layout, optimizer, gather \ ranks'
for n in $ranks; do printf '%6s' "$n"; done
echo
for layout in ddp zero1+gather zero1+owner zero2+gather zero2+owner zero3+stock zero3+gather zero3+gather-once zero3+alltoall owner; do
    one "$layout muon" "$layout"
done
for gather in p2p ring tree hierarchical padded; do
    one "owner muon $gather" owner --gather $gather
    one "zero1+owner muon $gather" zero1+owner --gather $gather
done
for optimizer in adamw shampoo soap; do
    for layout in ddp zero1+gather zero1+owner zero2+gather zero2+owner zero3+gather owner; do
        [ $optimizer = adamw ] && case $layout in *+* | owner) continue ;; esac
        one "$layout $optimizer" "$layout" --optimizer $optimizer
    done
done
# nested factors, on the numbers of ranks that they divide: in a node, over nodes, gradients in both directions, copies
every=$ranks
meshes() { # ranks factors...
    case " $every " in *" $1 "*) ranks=$1 ;; *) return ;; esac
    shift
    for mesh; do
        for optimizer in muon adamw shampoo soap; do
            one "$ranks ranks, $mesh $optimizer" mesh --mesh "$mesh" --optimizer $optimizer
        done
    done
}
echo
echo "mesh"
meshes 1 p=1x1,g=1x1,os=1x1
meshes 3 p=1x1,g=3x1,os=3x1
meshes 4 p=1x1,g=2x1,os=4x1 p=2x1,g=2x1,os=2x1
meshes 8 p=4x1,g=4x1,os=4x2 p=2x1,g=4x2,os=4x2 p=2x1,g=2x1,os=4x1 p=1x1,g=1x1,os=2x2 p=4x2,g=4x2,os=4x2
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
