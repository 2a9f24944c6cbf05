#!/bin/sh
# check.sh - under mpirun, every layout trains to the same bits as ddp, on odd and even numbers of ranks.
. tests/mpi/lib.sh

for layout in ddp zero1-owner zero2 owner zero3+gather; do
    for n in 1 2 3 4 7 8; do
        plan p.json "$n" "$layout" || { bad "plan $layout $n"; continue; }
        on "$n" "$work/p.json" --check --steps 2
        verdict "$layout on $n ranks"
    done
done
for gather in p2p ring tree hierarchical padded; do
    plan p.json 7 owner --gpus-per-node 4 --gather "$gather" || { bad "plan $gather"; continue; }
    on 7 "$work/p.json" --check --steps 2
    verdict "owner gathering by $gather on 7 ranks"
done
for gemm in blas reference; do
    for type in fp32 bf16; do
        plan p.json 3 owner --param-dtype $type --grad-dtype $type || { bad "plan $type"; continue; }
        on 3 "$work/p.json" --check --steps 2 --gemm $gemm
        if [ $gemm = blas ] && [ ! -e "$BUILD/ballast-blas.so" ]; then
            refused 'no BLAS' 4 BLAS
        else
            verdict "owner with $gemm products in $type"
        fi
    done
done
# a rate so large that gradients vanish: sums of zeros of either sign are equal
"$BUILD/ballast" plan block:layers=2,hidden=64,heads=4,ffn=128,vocab=256,mlp=swiglu --gpus 4 --layout owner --seq-len 32 -o "$work/p.json" >/dev/null || bad 'plan of a large rate'
on 4 "$work/p.json" --check --lr 20 --seed 3 --steps 10
verdict 'owner at a large rate'
# copies: several groups in a node, one a node, over nodes, of one rank; the reference sums in the same groups first
for layout in hsdp+owner hsdp+gather mics+owner hsdp+gather-once; do
    for n in 4 8; do
        for group in 1 2 4; do
            accum=$((1 + n / 8))
            plan p.json $n $layout --gpus-per-node 4 --shard-group $group --grad-accum $accum || { bad "plan $layout $n/$group"; continue; }
            on $n "$work/p.json" --check --steps 2
            said=0
            head -n 1 "$work/out" | grep -q "ddp too reducing in groups of $group first\$" && said=1
            [ $said = $((group > 1 && group < n)) ] && verdict "$layout on $n ranks in groups of $group" || bad "$layout $n/$group: which reference?"
        done
    done
done
plan p.json 8 hsdp --gpus-per-node 4 --shard-group 4 && on 8 "$work/p.json" --check --steps 2
if [ "$status" = 0 ] && grep -q '^check: within [0-9]* ulp' "$work/out"; then good; else bad 'hsdp+stock on 8 ranks in groups of 4'; fi
# nested factors: in a node, over nodes, gradients inside a node and over nodes, copies, whole gradients
for mesh in p=4x1,g=4x1,os=4x2 p=2x1,g=4x2,os=4x2 p=2x1,g=2x1,os=4x1 p=1x1,g=1x1,os=2x2; do
    for optimizer in muon adamw; do
        plan p.json 8 mesh --gpus-per-node 4 --mesh $mesh --grad-accum 2 --optimizer $optimizer || { bad "plan $mesh"; continue; }
        on 8 "$work/p.json" --check --steps 2
        verdict "mesh $mesh with $optimizer"
    done
done
plan p.json 8 mesh --gpus-per-node 4 --mesh p=2x1,g=2x1,os=4x1 && on 8 "$work/p.json" --check --steps 1 --plant sum:1
if [ "$status" = 1 ] && grep -q '^check: DIFFERS' "$work/out"; then good; else bad "a sum under mesh: status $status"; fi
# several micro-batches: reduced one by one where gradients are cut, and then by the reference too
for layout in zero1-owner zero2 zero2-owner owner zero3+gather zero3+gather-once zero3+alltoall; do
    for accum in 2 3; do
        for type in fp32 bf16; do
            plan p.json 3 $layout --grad-accum $accum --grad-dtype $type || { bad "plan $accum micro-batches"; continue; }
            on 3 "$work/p.json" --check --steps 2
            case $layout in zero1*) said=1 ;; *) said=0 ;; esac
            if head -n 1 "$work/out" | grep -q 'ddp too reducing every micro-batch$'; then said=$((1 - said)); fi
            [ $said = 1 ] && verdict "$layout, $accum micro-batches, $type" || bad "$layout, $accum micro-batches: which reference?"
        done
    done
done
# ... and in the last one alone: as plain ddp, or in groups first. Units gathered once a micro-batch.
for layout in owner zero3+gather hsdp+owner mics+gather; do
    case $layout in hsdp* | mics*) group='--shard-group 2' wrong='micro-batch$' ;; *) group='' wrong='ddp too reducing' ;; esac
    plan p.json 4 $layout $group --grad-accum 2 --grad-sync last --reshard never || { bad "plan $layout, no_sync"; continue; }
    on 4 "$work/p.json" --check --steps 2
    head -n 1 "$work/out" | grep -q "$wrong" && bad "$layout, no_sync: which reference?" || verdict "$layout, no_sync, not resharded"
done
# tokens from a file: 8 sequences of 16 + 1 ids below 64
awk 'BEGIN { for (i = 0; i < 136; i++) printf "%c%c", 1 + (7 * i + i * i) % 63, 128 }' | LC_ALL=C tr '\200' '\000' >"$work/t.bin"
for layout in owner zero1-owner zero3+gather; do
    plan p.json 3 $layout || { bad "plan tokens $layout"; continue; }
    on 3 "$work/p.json" --check --steps 4 --tokens "$work/t.bin"
    verdict "$layout on tokens from a file"
done
# a fault that parameters do not show, or not at once: gradients of one rank too large, and states that it does not keep
found() { # name fault evidence
    if [ "$status" = 1 ] && grep -q "^check: DIFFERS in .*; $3 of step 1 left wrong.* rank" "$work/out"; then good; else bad "$1, $2: status $status"; fi
}
for optimizer in muon adamw shampoo soap; do
    for layout in zero1-owner owner zero3+gather; do
        plan p.json 3 $layout --optimizer $optimizer || { bad "plan $optimizer"; continue; }
        on 3 "$work/p.json" --check --steps 1
        verdict "$layout with $optimizer"
        for plant in sum twice; do
            on 3 "$work/p.json" --check --steps 1 --plant $plant:1
            found "$layout with $optimizer" $plant reductions
        done
        on 3 "$work/p.json" --check --steps 1 --plant lose:2
        found "$layout with $optimizer" lose updates
    done
done
plan p.json 64 owner 'block:layers=1,hidden=64,ffn=128,heads=4' && on 64 "$work/p.json" --check --steps 1
verdict 'owner on 64 ranks'
end
