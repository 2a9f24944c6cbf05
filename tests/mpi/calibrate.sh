#!/bin/sh
# calibrate.sh - two ranks measure themselves; the cluster they write predicts what they then do. How well is no test:
# other programs run on the same cores.
. tests/mpi/lib.sh

LIMIT=120
on 2 calibrate --steps 1 -o "$work/cpu.json"
if [ "$status" = 0 ] && grep -q '^all_reduce  *2 ranks' "$work/out"; then good; else bad "calibrate: status $status"; fi
# every number says where it comes from
numbers=$(grep -c '"value":' "$work/cpu.json")
sources=$(grep -c '"source": "[a-z]* by ballast calibrate on' "$work/cpu.json")
if [ "$numbers" -ge 20 ] && [ "$numbers" = "$sources" ]; then good; else bad "$sources sources of $numbers numbers"; fi
plan p.json 2 owner --cluster "$work/cpu.json" && on 2 "$work/p.json" --steps 2
if [ "$status" = 0 ] && grep -q '^step ' "$work/out"; then good; else bad "exec: status $status"; fi
# a plan for GPUs says how to come by the right prediction, and that way works
plan q.json 2 owner && on 2 "$work/q.json" --steps 2
if [ "$status" = 0 ] && grep -q '^note: the prediction is for A100.* run `mpirun -np 2 ballast-exec calibrate -o machine.json`' "$work/out"; then good; else bad "the note: status $status"; fi
on 2 "$work/q.json" --steps 2 --cluster "$work/cpu.json"
if [ "$status" = 0 ] && grep -q 'predicted for cpu-2$' "$work/out" && ! grep -q '^note:' "$work/out"; then good; else bad "with the cluster: status $status"; fi
plan r.json 4 owner --gpus-per-node 4 && on 4 "$work/r.json" --steps 2 --cluster "$work/cpu.json"
refused 'a cluster with too few' 3 "has 2 GPUs a node, the plan's"
end
