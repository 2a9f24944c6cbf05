#!/bin/sh
# hardware.sh - experiments/90-hardware rehearsed on cores: plans, runs on one node of two ranks, the table; and what it says when a
# piece is missing, a launcher fails or a proof says no.
. tests/mpi/lib.sh

export SMALL=1 BACKEND=cpu NODES=1 GPUS_PER_NODE=2 OUT="$work/out90" BUILD
hardware() { # status text arguments...
    expected=$1 text=$2
    shift 2
    timeout -k 5 120 sh "$ROOT/experiments/90-hardware/run.sh" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ "$status" = "$expected" ] && cat "$work/out" "$work/err" | grep -q -- "$text" && good || bad "$*: status $status, expected $expected and '$text'"
}
cd "$work" || exit 1 # from anywhere
hardware 3 'no run in .*run.sh run NODES comes first' table
hardware 3 'no .*plan.json: run.sh plan comes first' run 1
hardware 2 'run NODES' run
CHECK_LAYERS=1 hardware 0 'owner-1.plan.json: owner, 1 nodes, 2 ranks, 2 layers; the proof has 1$' plan
export RUN="no-such-launcher -n 2"
hardware 127 'zero3+stock, 1 nodes: no proof' run 1
hardware 1 '^1  *owner .* no proof$' table
# a fault in the proof of owner reaches the status and the table, and its times are not taken
cat >"$work/launch" <<'end'
#!/bin/sh
case "$*" in *owner*--check*) exec mpirun -np 2 "$@" --plant skip ;; esac
exec mpirun -np 2 "$@"
end
chmod +x "$work/launch"
RUN=$work/launch
hardware 1 '^owner, 1 nodes: check: DIFFERS' run 1
hardware 0 '^1  *owner  *-  *- .*DIFFERS' table
RUN="mpirun -np 2"
hardware 0 '^owner, 1 nodes: check: bitwise equal$' run 1
grep -q '^block:layers=1,' "$OUT/owner-1.check.txt" && good || bad 'the proof has the layers of the run'
hardware 0 '^1  *owner .*[0-9]  bitwise equal$' table
end
