#!/bin/sh
# agree.sh - two ranks that were not started alike: one line that names both and the first difference, status 3, before anything
# passes between them. The options are those of the program's own help, so that a new one is tried without a word here.
. tests/mpi/lib.sh
LIMIT=20

# Rank 0 with the first half of the arguments, rank 1 with what stands behind --.
apart() { # arguments of rank 0 -- arguments of rank 1
    first=
    while [ "$1" != -- ]; do first="$first $1"; shift; done
    shift
    start=$(date +%s)
    timeout -k 5 $LIMIT mpirun -np 1 "$BUILD/ballast-exec" $first : -np 1 "$BUILD/ballast-exec" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    seconds=$(($(date +%s) - start))
}
plan p.json 2 owner && p=$work/p.json || { bad plan; end; }

# every option on rank 1 alone. A value of its kind: the last choice, or one that is no default.
for command in "$p" calibrate; do
    "$BUILD/ballast-exec" $(test "$command" = calibrate && echo calibrate) --help >"$work/help"
    # "--name META words: a, b, c [default: a]" on one line each
    awk '/^ +(-., )?--/ { if (l) print l; l = $0; next } /^                    / { l = l $0; next } { if (l) print l; l = "" } END { if (l) print l }' "$work/help" |
        sed 's/^ *\(-., \)\{0,1\}//; s/  */ /g' >"$work/options"
    [ "$(wc -l <"$work/options")" -ge 10 ] && good || bad "options of $command"
    while read -r name meta rest; do
        case $name in --help) continue ;; esac
        case $meta in
        N | SEED) value=7 ;;
        X) value=0.125 ;;
        TIME) value=7s ;;
        FILE) value=$work/some ;;
        CLUSTER) value=hgx-h100-ndr ;;
        FAULT) value=skip ;;
        NAME) value=$(echo "$rest" | sed 's/.*: \([a-z0-9, -]*\)\( \[.*\)\{0,1\}$/\1/; s/.*, //') ;;
        *) value= ;; # a flag
        esac
        apart "$command" -- "$command" "$name" $value
        refused "$name of $command on rank 1 alone" 3 "error: ranks 0 and 1 were not started alike: $name is "
    done <"$work/options"
done
# named: both values, as the program understood them
apart "$p" --lr 0.02 --seed 3 -- "$p" --seed 0004 --lr 2e-2
refused 'another seed' 3 '--seed is 3 on rank 0, and 4 on rank 1'
apart "$p" --check --tokens "$p" -- "$p" --check
refused 'tokens on one rank' 3 '--tokens is given on rank 0, and not given on rank 1'
apart "$p" -- calibrate
refused 'another command' 3 'the command is a plan on rank 0, and calibrate on rank 1'
# files of their own names, the same content: as one
cp "$p" "$work/q.json"
apart "$p" --check --steps 1 -o "$work/out.txt" -- "$work/q.json" --check --steps 1 -o "$work/other.txt"
if [ "$status" = 0 ] && grep -qx 'check: bitwise equal' "$work/out.txt" && [ ! -e "$work/other.txt" ]; then good; else bad "own files: status $status"; fi

# plans that differ: in the layout, the number of sequences, the gather; and another file of tokens
other() { # name options...
    name=$1
    shift
    plan q.json 2 "$@" || { bad "plan $name"; return; }
    for check in --check ''; do
        apart "$p" $check -- "$work/q.json" $check
        refused "$name $check" 3 "were not started alike: the plan is of "
        ours | grep -q "p.json') on rank 0, and .*q.json') on rank 1" && good || bad "$name: the plans are not named"
    done
}
other 'another layout' zero1-owner
other 'more sequences' owner --micro-batch 2
other 'another gather' owner --gather p2p
awk 'BEGIN { for (i = 0; i < 136; i++) printf "%c%c", 1 + i % 60, 128 }' | LC_ALL=C tr '\200' '\000' >"$work/a.bin"
awk 'BEGIN { for (i = 0; i < 136; i++) printf "%c%c", 1 + (i == 9) + i % 60, 128 }' | LC_ALL=C tr '\200' '\000' >"$work/b.bin"
apart "$p" --tokens "$work/a.bin" -- "$p" --tokens "$work/b.bin"
refused 'other tokens' 3 'the file of tokens is of 136 ids'
plan o.json 4 owner && plan z.json 4 zero1-owner
timeout -k 5 $LIMIT mpirun -np 2 "$BUILD/ballast-exec" "$work/o.json" --check : -np 2 "$BUILD/ballast-exec" "$work/z.json" --check >"$work/out" 2>"$work/err" </dev/null
status=$?
refused 'two halves' 3 'ranks 0 and 2 were not started alike: the plan is '
# what a rank made of its processor and of the libraries beside its program
if [ -e "$BUILD/ballast-blas.so" ]; then
    mkdir "$work/bin" && cp "$BUILD/ballast-exec" "$BUILD/ballast-mpi.so" "$work/bin"
    timeout -k 5 $LIMIT mpirun -np 1 "$BUILD/ballast-exec" "$p" : -np 1 "$work/bin/ballast-exec" "$p" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    refused 'a BLAS on one rank' 3 'the library of products is BLAS'
    ours | grep -q ' on rank 0, and reference on rank 1' && good || bad 'a BLAS on one rank: not named'
    timeout -k 5 $LIMIT mpirun -np 1 "$BUILD/ballast-exec" "$p" : -np 1 env OPENBLAS_NUM_THREADS=2 "$BUILD/ballast-exec" "$p" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    refused 'other threads' 3 'OPENBLAS_NUM_THREADS is 1 on rank 0, and 2 on rank 1'
fi
end
