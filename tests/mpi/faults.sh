#!/bin/sh
# faults.sh - whatever goes wrong on a rank: the whole job ends in seconds, with a status that is not 0 and one line of
# ours that says which rank, in which operation, and why.
. tests/mpi/lib.sh
LIMIT=20

plan p.json 4 zero1-owner || { bad plan; end; }
for phase in forward backward optimizer refresh; do
    on 4 "$work/p.json" --check --steps 2 --watchdog 3s --plant kill:2:$phase
    refused "killed in $phase" x "$phase: "
    ours | grep -q 'rank 2' || bad "killed in $phase: the line does not name rank 2"
done
on 4 "$work/p.json" --steps 2 --watchdog 3s --plant kill:0:backward
refused 'rank 0 killed without --check' x 'rank 0'
on 4 "$work/p.json" --check --steps 2 --plant oom:3:backward
refused 'out of memory' 4 'rank 3: backward: '
on 4 "$work/p.json" --check --steps 2 --plant mpi:1:optimizer
refused 'an error of MPI' 4 'rank 1: '
on 4 "$work/p.json" --check --steps 2 --watchdog 3s --plant stall:1:optimizer
refused 'a rank that is stuck' 4 'rank 1 is furthest behind, at optimizer: '
# A rank that is stopped before it has come to the others, whichever it is: these give up, and the launcher ends it too.
for stopped in 0 1; do
    start=$(date +%s)
    for rank in 0 1; do
        [ $rank = $stopped ] && first='kill -STOP $$;' || first=
        echo "-np 1 sh -c '$first exec \"\$0\" \"\$@\"' '$BUILD/ballast-exec' '$work/two.json' --check --start-limit 2s"
        [ $rank = 1 ] || echo :
    done >"$work/ranks"
    plan two.json 2 owner || bad plan
    eval "timeout -k 5 $LIMIT mpirun $(tr '\n' ' ' <"$work/ranks")" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    seconds=$(($(date +%s) - start))
    refused "rank $stopped is stopped during the start" 4 "error: rank $((1 - stopped)): start: MPI's start did not return for 2 s: a rank is stuck, was stopped, or never started"
done
# Wrong numbers: the line says in which step, by what kind of evidence, in which tensors, and on which rank.
found() { # name evidence rank
    if [ "$status" = 1 ] && grep -q "^check: DIFFERS in .* $2: .*layers[.]0[.].*(owner [0-3]).*; on rank $3" "$work/out"; then good; else bad "$1: status $status"; fi
}
on 4 "$work/p.json" --check --steps 2 --plant skip:1
found 'forgotten updates' 'updates of step 1 left wrong' '0 1 2 3'
on 4 "$work/p.json" --check --steps 2 --plant stale:2
found 'a stale refresh' 'updates of step 2 left wrong' '2;'
for gather in p2p ring hierarchical padded; do
    plan o.json 4 owner --gather $gather || { bad plan; end; }
    on 4 "$work/o.json" --check --steps 2 --plant shift:2
    found "a segment shifted, $gather" 'gathers of step [12] brought wrong' '2;'
    on 4 "$work/o.json" --check --steps 2 --plant stale:3
    found "a stale buffer, $gather" 'gathers of step 2 brought wrong' '3;'
done
on 4 "$work/o.json" --check --steps 1 --plant stale
refused 'a stale buffer in one step' 3 'stale shows from the second step on'
on 4 "$work/o.json" --check --plant stale:1:forward
refused 'a stale buffer in a phase' 2 'takes no phase'
plan d.json 4 ddp && on 4 "$work/d.json" --check --plant shift:1
refused 'a segment shifted where there is none' 3 'needs gathers of owner segments'

on 3 "$work/p.json" --check
refused 'a wrong number of ranks' 3 'is for 4 ranks, this job has 3'
on 4 "$work/p.json" --plant kil
refused 'an unknown fault' 2 "did you mean 'kill'?"
on 4 "$work/p.json" --plant kill:4
refused 'a rank that is not there' 3 'there is no rank 4'
on 2 "$work/p.json" --chek
refused 'an unknown option, on every rank' 2 "did you mean '--check'?"

# without the libraries beside it
whole=$BUILD BUILD=$work/bin
mkdir "$BUILD" && cp "$whole/ballast-exec" "$BUILD"
on 4 "$work/p.json" --transport mpi
refused 'no transport' 4 'ballast-mpi.so'
cp "$whole/ballast-mpi.so" "$BUILD"
on 4 "$work/p.json" --gemm blas
refused 'no BLAS' 4 'ballast-blas.so'
end
