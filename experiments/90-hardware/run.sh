#!/bin/sh
# run.sh plan|run NODES|table - MatrixFSDP's weak scaling on a cluster of one's own; README.md says how. Settings come from the
# environment: CLUSTER (what plans are predicted for), PROFILE (what runs are predicted for, if another), NODES, GPUS_PER_NODE,
# LAYERS_PER_NODE, CHECK_LAYERS, RUN (the launcher), BACKEND, BUILD, OUT, SMALL=1. Files are relative to the repository.
# Status 0; 1 when a proof says that bits differ; 2 usage; 3 when something has to be made first; else that of the program that failed.
cd "$(dirname "$0")/../.." || exit 4
BUILD=${BUILD:-build}
OUT=${OUT:-$BUILD/hardware}
CLUSTER=${CLUSTER:-dgx-a100}
NODES=${NODES:-1 2 4 8}
BACKEND=${BACKEND:-cuda}
LAYOUTS='zero3+stock owner'
if [ "${SMALL:-0}" = 1 ]; then # a rehearsal on a few cores
    layers=2 block='hidden=64,ffn=256,heads=4,mlp=split-up'
    per_node=${GPUS_PER_NODE:-1} more='--seq-len 32'
else
    layers=${LAYERS_PER_NODE:-16} block='hidden=4096,ffn=16384,heads=32,mlp=split-up'
    per_node=${GPUS_PER_NODE:-8} more=''
fi
# the proof holds a layout against ddp, which needs the whole model in each GPU: not the layers of 8 nodes, but their widths
check_layers=${CHECK_LAYERS:-8}
file() { echo "$OUT/$(echo "$1" | tr + -)-$2"; } # layout nodes

plan() { # file layers; of $l on $n nodes
    "$BUILD/ballast" plan "block:layers=$2,$block" --cluster "$CLUSTER" --nodes "$n" --gpus-per-node "$per_node" -l "$l" \
        --optimizer muon --state-dtype bf16 --master-weights no --recompute full --micro-batch 1 \
        $(case $l in *stock) ;; *) echo --planner role-greedy ;; esac) $more -o "$1" >/dev/null
}
missing() { # what, what makes it
    echo "run.sh: no $1: $2 comes first" >&2
    exit 3
}
[ -x "$BUILD/ballast-exec" ] || missing "$BUILD/ballast-exec" make

case $1 in
plan)
    mkdir -p "$OUT" || exit 4
    for n in $NODES; do
        for l in $LAYOUTS; do
            f=$(file "$l" "$n") many=$((layers * n))
            few=$((many < check_layers ? many : check_layers))
            plan "$f.plan.json" $many && plan "$f.check.plan.json" $few || exit
            echo "$f.plan.json: $l, $n nodes, $((n * per_node)) ranks, $many layers; the proof has $few"
        done
    done
    ;;
run)
    n=$2
    [ -n "$n" ] || { echo 'run.sh: run NODES' >&2; exit 2; }
    run=${RUN:-srun -N $n -n $((n * per_node)) --gpus-per-node=$per_node --cpu-bind=cores}
    worst=0
    for l in $LAYOUTS; do
        f=$(file "$l" "$n")
        [ -e "$f.check.plan.json" ] || missing "$f.check.plan.json" 'run.sh plan'
        rm -f "$f.csv"
        # the proof on as many ranks as the run; times of a wrong answer are not taken
        $run "$BUILD/ballast-exec" "$f.check.plan.json" --backend "$BACKEND" --check --steps 2 >"$f.check.txt" 2>"$f.err" &&
            $run "$BUILD/ballast-exec" "$f.plan.json" --backend "$BACKEND" --steps 10 --warmup 3 ${PROFILE:+--cluster "$PROFILE"} \
                --format csv >"$f.csv" 2>"$f.err"
        status=$?
        echo "$l, $n nodes: $(grep '^check: ' "$f.check.txt" || echo 'no proof')"
        [ $status = 0 ] && continue
        rm -f "$f.csv"
        cat "$f.err" >&2
        echo "run.sh: $l, $n nodes: status $status" >&2
        worst=$status
    done
    exit $worst
    ;;
table)
    # every run that was tried, with its proof; without times where it failed
    set -- "$OUT"/*.check.txt
    [ -e "$1" ] || missing "run in $OUT" 'run.sh run NODES'
    : >"$OUT/table.dat" || exit 4
    printf '%-6s %-12s %14s %14s %8s %14s %14s %8s  %s\n' \
        nodes layout 'optimizer pred' 'measured ms' 'error %' 'step pred' 'measured ms' 'error %' check
    for n in $NODES; do
        for l in $LAYOUTS; do
            f=$(file "$l" "$n")
            [ -e "$f.check.txt" ] || continue
            check=$(sed -n 's/^check: //p' "$f.check.txt")
            awk -F, -v n="$n" -v l="$l" -v dat="$OUT/table.dat" -v check="${check:-no proof}" '
                $1 == "optimizer phase" { op = $2; om = $3; oe = $5 }
                $1 == "step" { sp = $2; sm = $3; se = $5 }
                END {
                    if (sm == "") {
                        printf "%-6s %-12s %14s %14s %8s %14s %14s %8s  %s\n", n, l, "-", "-", "-", "-", "-", "-", check
                        exit
                    }
                    printf "%-6s %-12s %14.1f %14.1f %8.1f %14.1f %14.1f %8.1f  %s\n", n, l, op, om, oe, sp, sm, se, check
                    print n, l, op, om, sp, sm >>dat
                }' "$([ -e "$f.csv" ] && echo "$f.csv" || echo /dev/null)"
        done
    done
    [ -s "$OUT/table.dat" ] || { echo 'run.sh: no run succeeded' >&2; exit 1; }
    command -v gnuplot >/dev/null || { echo 'No picture: gnuplot is not installed.'; exit 0; }
    gnuplot -e "dat='$OUT/table.dat'; out='$OUT/hardware.svg'" experiments/90-hardware/plot.gp || exit 4
    echo "$OUT/hardware.svg"
    ;;
*)
    echo 'usage: run.sh plan|run NODES|table' >&2
    exit 2
    ;;
esac
