#!/bin/sh
# run.sh plan|run NODES|table - MatrixFSDP's weak scaling on a cluster of one's own; README.md says how. Settings come from the
# environment: CLUSTER (what plans are predicted for), NODES, LAYERS_PER_NODE, RUN (the launcher), BACKEND, OUT, SMALL=1.
set -e
BUILD=${BUILD:-build}
OUT=${OUT:-$BUILD/hardware}
CLUSTER=${CLUSTER:-dgx-a100}
NODES=${NODES:-1 2 4 8}
BACKEND=${BACKEND:-cuda}
LAYOUTS='zero3+stock owner'
if [ "${SMALL:-0}" = 1 ]; then # a rehearsal on a few cores
    model() { echo "block:layers=$((2 * $1)),hidden=64,ffn=256,heads=4,mlp=split-up"; }
    per_node=${GPUS_PER_NODE:-1} more='--seq-len 32'
else
    model() { echo "block:layers=$((${LAYERS_PER_NODE:-16} * $1)),hidden=4096,ffn=16384,heads=32,mlp=split-up"; }
    per_node=${GPUS_PER_NODE:-8} more=''
fi
file() { echo "$OUT/$(echo "$1" | tr + -)-$2"; } # layout nodes

case $1 in
plan)
    mkdir -p "$OUT"
    for n in $NODES; do
        for l in $LAYOUTS; do
            "$BUILD/ballast" plan "$(model "$n")" --cluster "$CLUSTER" --nodes "$n" --gpus-per-node "$per_node" -l "$l" \
                --optimizer muon --state-dtype bf16 --master-weights no --recompute full --micro-batch 1 \
                $(case $l in *stock) ;; *) echo --planner role-greedy ;; esac) $more \
                -o "$(file "$l" "$n").plan.json" >"$OUT/plan.txt"
            tail -n 1 "$OUT/plan.txt"
        done
    done
    ;;
run)
    n=${2:?nodes}
    ranks=$((n * per_node))
    run=${RUN:-srun -N $n -n $ranks --gpus-per-node=$per_node --cpu-bind=cores}
    for l in $LAYOUTS; do
        f=$(file "$l" "$n")
        [ -e "$f.plan.json" ] || { echo "no $f.plan.json: run.sh plan comes first" >&2; exit 1; }
        # the proof on as many ranks as the run, with plans of their own size
        $run "$BUILD/ballast-exec" "$f.plan.json" --backend "$BACKEND" --check --steps 2 >"$f.check.txt" 2>"$f.err" || cat "$f.err"
        tail -n 1 "$f.check.txt"
        $run "$BUILD/ballast-exec" "$f.plan.json" --backend "$BACKEND" --steps 10 --warmup 3 ${PROFILE:+--cluster "$PROFILE"} \
            --format csv >"$f.csv" 2>"$f.err" || cat "$f.err"
    done
    ;;
table)
    : >"$OUT/table.dat"
    printf '%-6s %-12s %14s %14s %8s %14s %14s %8s\n' nodes layout 'optimizer pred' 'measured ms' 'error %' 'step pred' 'measured ms' 'error %'
    for n in $NODES; do
        for l in $LAYOUTS; do
            f=$(file "$l" "$n").csv
            [ -s "$f" ] || continue
            awk -F, -v n="$n" -v l="$l" -v dat="$OUT/table.dat" '
                $1 == "optimizer phase" { op = $2; om = $3; oe = $5 }
                $1 == "step" { sp = $2; sm = $3; se = $5 }
                END {
                    printf "%-6s %-12s %14.1f %14.1f %8.1f %14.1f %14.1f %8.1f\n", n, l, op, om, oe, sp, sm, se
                    print n, l, op, om, sp, sm >>dat
                }' "$f"
        done
    done
    command -v gnuplot >/dev/null || exit 0
    gnuplot -e "dat='$OUT/table.dat'; out='$OUT/hardware.svg'" experiments/90-hardware/plot.gp
    echo "$OUT/hardware.svg"
    ;;
*)
    echo 'usage: run.sh plan|run NODES|table' >&2
    exit 2
    ;;
esac
