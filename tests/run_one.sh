#!/bin/sh
# run_one.sh KIND PATH - one job of run_all.sh: test PROGRAM | replay PROGRAM | case FILE | script FILE | deps check-deps.
kind=$1 path=$2
name=$(echo "$kind-$path" | tr '/ ' '__')
log=$LOGS/$name.log
# sanitizers, and more tests than cores, make a long test several times longer
slower=1
[ "${SAN:-0}" = 1 ] && slower=8
export CK_TIMEOUT_MULTIPLIER=$((3 * slower))
limit="timeout -k 5 ${TEST_SECONDS:-$((300 * slower))}"
result() { echo "$1 $2 $3" >"$LOGS/$name.result"; }

case $kind in
test)
    CK_FORK=yes CK_VERBOSITY=normal $limit "$path" >"$log" 2>&1 </dev/null
    status=$?
    # "83%: Checks: 6, Failures: 1, Errors: 0", one line a runner
    set -- $(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\).*/\1 \2 \3/p' "$log" |
        awk '{ c += $1; f += $2 + $3; n++ } END { if (n) print c, f }')
    [ "$status" = 0 ] || echo "status $status" >>"$log"
    if [ "$status" = 77 ]; then
        result 0 0 1
    elif [ $# = 0 ]; then
        [ "$status" = 0 ] && result 1 0 0 || result 0 1 0
    elif [ "$status" != 0 ] && [ "$2" = 0 ]; then
        result "$1" 1 0
    else
        result $(($1 - $2)) "$2" 0
    fi
    ;;
replay)
    corpus=tests/fuzz/corpus/${path##*/replay_}
    files=
    [ -d "$corpus" ] && files=$(find "$corpus" -type f | LC_ALL=C sort)
    $limit "$path" $files >"$log" 2>&1 </dev/null && result 1 0 0 || result 0 1 0
    ;;
case | script)
    # both end with "passed failed skipped"
    if [ "$kind" = case ]; then
        $limit sh tests/run_cli.sh "$path"
    else
        $limit sh "$path"
    fi >"$log" 2>&1 </dev/null
    set -- $(tail -n 1 "$log")
    case "$*" in
    [0-9]*' '[0-9]*' '[0-9]*) result "$1" "$2" "$3" ;;
    *) result 0 1 0 ;;
    esac
    ;;
deps)
    sh tools/check-deps.sh >"$log" 2>&1 </dev/null && result 1 0 0 || result 0 1 0
    ;;
esac
