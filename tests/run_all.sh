#!/bin/sh
# run_all.sh - `make test`: libcheck programs, check-deps, corpus replay, command-line cases, scripts that run programs under mpirun or from a bundle; called by
# the Makefile with BUILD OBJ JOBS ONLY CC SAN TESTS REPLAYS CASES SCRIPTS. Each piece writes LOGS/NAME.log (its
# output) and LOGS/NAME.result ("passed failed skipped"); what failed is shown, and the last line is
# "N passed, N failed, N skipped".
#
# A libcheck program counts by its summary line, another program by its status; 77 is one skip. A program that fails
# without a failed check (crash outside a test, timeout) is one failure.
LOGS=$OBJ/test-logs
rm -rf "$LOGS"
mkdir -p "$LOGS"
export LOGS
# Out of memory is ours to report (core/mem.h), not the sanitizer's.
export ASAN_OPTIONS="allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"


pick() { # the words that contain $ONLY
    for w in "$@"; do
        case $w in *"$ONLY"*) echo "$w" ;; esac
    done
}

{
    pick $TESTS | sed 's/^/test /'
    case check-deps in *"$ONLY"*) echo "deps check-deps" ;; esac
    pick $REPLAYS | sed 's/^/replay /'
    pick $CASES | sed 's/^/case /'
    pick $SCRIPTS | sed 's/^/script /'
} >"$LOGS/jobs"
xargs -P "${JOBS:-2}" -L1 sh tests/run_one.sh <"$LOGS/jobs"

passed=0 failed=0 skipped=0
while read -r kind path; do
    name=$(echo "$kind-$path" | tr '/ ' '__')
    if read -r p f s <"$LOGS/$name.result"; then :; else p=0 f=1 s=0; fi 2>/dev/null
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    short=${path#"$OBJ"/}
    if [ "$f" -gt 0 ]; then
        echo "FAILED $short"
        sed 's/^/    /' "$LOGS/$name.log" 2>/dev/null | tail -n 60
    elif [ "$s" -gt 0 ]; then
        # the first line of a skipped program says why; cases name themselves
        if [ "$kind" = case ] || [ "$kind" = script ]; then
            sed -n 's/^skipped: /skipped /p' "$LOGS/$name.log"
        else
            echo "skipped $short: $(head -n 1 "$LOGS/$name.log")"
        fi
    fi
done <"$LOGS/jobs"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
