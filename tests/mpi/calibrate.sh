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
end
