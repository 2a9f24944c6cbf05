#!/bin/sh
# run_cli.sh FILE.case... - command-line cases. Needs BUILD (folder of the programs, default build).
#
# A file holds cases; '#' lines and empty lines are ignored. Each starts with `case:`; order of the rest is free, every
# key but case, run and exit may come several times:
#
#   case: an unknown layout is refused with the nearest name     (a statement)
#   run: ballast plan qwen3-32b --layout onwer                   a shell line; `ballast` is the built one; $ROOT is the
#                                                                repository, the working folder is empty and private
#   before: printf '{"a":1}' > a.json                            a shell line run first; it must succeed
#   needs: gnuplot                                               skipped, by name, when this command is not there
#   exit: 2                                                      default 0
#   stdout= text          this is a whole line of stdout
#   stdout~ text          stdout contains this
#   stdout! text          stdout does not contain this
#   stdout: empty         nothing on stdout
#   stderr~ text          stderr contains this (all texts are fixed strings, not patterns)
#   stderr! text          stderr does not contain this
#   stderr: empty         nothing on stderr
#   check: test -s out    a shell line run after; it must succeed
#
# A program that dies by a signal or a sanitizer fails its case whatever `exit` says. The last line of output is
# "passed failed skipped".
ROOT=$(pwd)
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$ROOT/$BUILD ;; esac
PATH=$BUILD:$PATH
LC_ALL=C
export PATH ROOT LC_ALL
passed=0 failed=0 skipped=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/ballast-cli.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

complain() { echo "  $*" >>"$scratch/why"; }

# Run the case in $scratch/case (its lines) and count it.
# Runs a line beside the case's own; what it says counts when it fails (grep -q leaves before the program has said all).
aside() {
    (cd "$work" && eval "$1") >"$scratch/said" 2>&1 </dev/null && return
    cat "$scratch/said" >>"$scratch/why"
    return 1
}

run_case() {
    [ -s "$scratch/case" ] || return
    work=$scratch/work
    rm -rf "$work"
    mkdir "$work"
    : >"$scratch/why"
    want=0 run=
    while IFS= read -r l; do
        case $l in
        'needs: '*) command -v "${l#needs: }" >/dev/null || { skipped=$((skipped + 1)); echo "skipped: $file: $title (no ${l#needs: })"; return; } ;;
        'exit: '*) want=${l#exit: } ;;
        'run: '*) run=${l#run: } ;;
        'before: '*) aside "${l#before: }" || complain "before failed: ${l#before: }" ;;
        esac
    done <"$scratch/case"
    [ -n "$run" ] || complain "no run: line"
    (cd "$work" && eval "$run") >"$scratch/out" 2>"$scratch/err" </dev/null
    got=$?
    [ "$got" = "$want" ] || complain "exit status $got, expected $want"
    grep -aq 'ERROR: AddressSanitizer\|runtime error:\|ERROR: LeakSanitizer\|^BUG: ' "$scratch/err" && complain "a sanitizer or BUG_ON spoke"
    while IFS= read -r l; do
        text=${l#* }
        case $l in
        'stdout= '*) grep -aqxF -- "$text" "$scratch/out" || complain "stdout has no line: $text" ;;
        'stdout~ '*) grep -aqF -- "$text" "$scratch/out" || complain "stdout does not contain: $text" ;;
        'stdout! '*) ! grep -aqF -- "$text" "$scratch/out" || complain "stdout contains: $text" ;;
        'stderr~ '*) grep -aqF -- "$text" "$scratch/err" || complain "stderr does not contain: $text" ;;
        'stderr! '*) ! grep -aqF -- "$text" "$scratch/err" || complain "stderr contains: $text" ;;
        'stdout: empty') [ ! -s "$scratch/out" ] || complain "stdout is not empty" ;;
        'stderr: empty') [ ! -s "$scratch/err" ] || complain "stderr is not empty" ;;
        'check: '*) aside "$text" || complain "check failed: $text" ;;
        'needs: '* | 'exit: '* | 'run: '* | 'before: '*) ;;
        *) complain "not a line of a case: $l" ;;
        esac
    done <"$scratch/case"
    if [ -s "$scratch/why" ]; then
        failed=$((failed + 1))
        echo "failed: $file: $title"
        echo "  $run"
        cat "$scratch/why"
        sed 's/^/  stdout| /' "$scratch/out" | head -n 20
        sed 's/^/  stderr| /' "$scratch/err" | head -n 20
    else
        passed=$((passed + 1))
    fi
}

for file in "$@"; do
    title=
    : >"$scratch/case"
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        '#'* | '') ;;
        'case: '*)
            [ -z "$title" ] || run_case
            title=${line#case: }
            : >"$scratch/case"
            ;;
        *) printf '%s\n' "$line" >>"$scratch/case" ;;
        esac
    done <"$file"
    [ -z "$title" ] || run_case
done
echo "$passed $failed $skipped"
[ "$failed" = 0 ]
