#!/bin/sh
# rows.sh - an enumerator that nobody has heard of does not compile, and nobody asks which optimizer or framework
# it is. Ends with
# "passed failed skipped". It needs the compiler that built the tests (CC) and no build.
export LC_ALL=C CCACHE_DISABLE=1 # a cache does not see a header that comes before another
CC=${CC:-cc}
passed=0 failed=0
work=$(mktemp -d "${TMPDIR:-/tmp}/ballast-rows.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/model/tensors" "$work/model/plan" "$work/model/program" "$work/layouts" || exit 1

good() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "failed: $*"
    tail -n 12 "$work/out" | sed 's/^/  | /'
}
compiles() { # source: with the headers in $work before the tree's
    $CC -std=c11 -D_XOPEN_SOURCE=700 -fsyntax-only -Werror=switch "-I$work" -I. "$1" >"$work/out" 2>&1
}

# header, after the line that matches, a new row, sources that know every enumerator
planted() { # header pattern line name source...
    header=$1 pattern=$2 line=$3 name=$4
    shift 4
    rm -f "$work"/*/*.h "$work"/*/*/*.h
    for source; do
        compiles "$source" && good || bad "$source does not compile as it is"
    done
    awk -v p="$pattern" -v l="$line" '{ print } index($0, p) { print l; n++ } END { exit n != 1 }' \
        "$header" >"$work/$header" || { bad "$header has no '$pattern'"; return; }
    for source; do
        if compiles "$source"; then
            bad "$source compiles with $name"
        elif grep -qi "$name" "$work/out"; then
            good
        else
            bad "$source fails for another reason"
        fi
    done
}
planted model/tensors/model.h 'X(OPTIMIZER_NORMUON, normuon)' '    X(OPTIMIZER_PLANTED, planted) \' planted model/plan/optimizers.c
planted model/plan/job.h 'X(ALGO_TREE, tree)' '    X(ALGO_PLANTED, planted) \' planted model/plan/segment_algo.c \
    sim/collective.c sim/links.c model/program/traffic_segments.c exec/collective_segments.c
planted model/plan/job.h 'X(FRAMEWORK_MEGATRON, "megatron")' '    X(FRAMEWORK_PLANTED, "planted") \' FRAMEWORK_PLANTED \
    model/plan/frameworks.c sim/framework.c
planted model/plan/plan.h 'X(STRATEGY_GATHER, "gather")' '    X(STRATEGY_PLANTED, "planted") \' STRATEGY_PLANTED \
    layouts/names.c layouts/loads.c
planted model/program/program.h 'COLL_RECV,' '    COLL_PLANTED,' COLL_PLANTED model/program/direct.c model/program/traffic.c \
    sim/call.c sim/collective.c sim/nccl.c exec/collective.c exec/move.c
planted model/plan/plan.h 'PLACE_CHUNK, /*' '    PLACE_PLANTED,' PLACE_PLANTED model/plan/placement.c
planted layouts/layout.h 'GROUPS_NODE,   ' '    GROUPS_PLANTED,' GROUPS_PLANTED layouts/layout.c
# a component is an enumerator on a line with others
mkdir -p "$work/model/plan" && sed 's/GRAD, STATE, COMPONENT_N/GRAD, STATE, PLANTED, COMPONENT_N/' model/plan/plan.h >"$work/model/plan/plan.h"
for source in model/plan/placement.c layouts/loads.c; do
    if compiles $source; then bad "$source compiles with another component"; else good; fi
done
rm -f "$work"/*/*.h "$work"/*/*/*.h

# Who names an optimizer: the list and the rows, exec's table of functions, and data (what was measured, and with what).
grep -nE 'OPTIMIZER_(MUON|NORMUON|SHAMPOO|SOAP|ADAMW|LION)' model/*/*.[ch] layouts/*.[ch] planner/*.[ch] sim/*.[ch] exec/*.[ch] \
    cli/*.[ch] | grep -vE '^(model/tensors/model\.h|model/plan/optimizers\.[ch]|cli/(step_band|calibrate)\.c):' |
    grep -vE '^exec/update\.c:[0-9]+: *\[OPTIMIZER_' >"$work/out"
if [ -s "$work/out" ]; then bad "readers of rows name optimizers"; else good; fi
grep -nE '[=!]= *OPTIMIZER_|case OPTIMIZER_' cli/step_band.c cli/calibrate.c model/plan/optimizers.[ch] | grep -v OPTIMIZER_MS >"$work/out"
if [ -s "$work/out" ]; then bad "data is compared with optimizers"; else good; fi

# Who names a framework: the list, the rows of habits and of costs, and data. Nobody compares with one.
named='FRAMEWORK_(FSDP2|MEGATRON|DEEPSPEED)'
grep -nE "$named" model/*/*.[ch] layouts/*.[ch] planner/*.[ch] sim/*.[ch] exec/*.[ch] cli/*.[ch] |
    grep -vE '^(model/plan/(job\.h|frameworks\.c)|sim/framework\.c|cli/(step_band|calibrate)\.c):' >"$work/out"
if [ -s "$work/out" ]; then bad "readers of rows name frameworks"; else good; fi
grep -nE "[=!]= *$named|case $named" cli/step_band.c cli/calibrate.c >"$work/out"
if [ -s "$work/out" ]; then bad "data is compared with frameworks"; else good; fi

echo "$passed $failed 0"
[ "$failed" = 0 ]
