#!/bin/sh
# experiments-pages.sh ROOT - runs the experiments and renews what their pages and README.md show
# of the results: pictures, and the lines of indented blocks. A line of a block becomes the next line of the
# run's output that is the same but for numbers; what has none (a command, or a title that the page
# alone has) stays. Numbers in sentences are not touched: read `git diff` afterwards.
# BALLAST is the program, OUT a folder for the results.
LC_ALL=C
export LC_ALL BALLAST
cd "$1" || exit 1
ballast=${BALLAST:-$PWD/build/ballast}
BALLAST=$ballast
results=${OUT:-build/experiments}

# renew PAGE OUTPUT
renew() {
    awk -v output="$2" '
        function shape(s) { # of a line: its text, and where numbers and blanks are
            gsub(/[-+]?[0-9][0-9.,]*%?/, "#", s)
            gsub(/[ \t]+/, " ", s)
            sub(/^ /, "", s)
            sub(/ $/, "", s)
            return s
        }
        BEGIN {
            while ((getline line <output) > 0) {
                sub(/[ \t]+$/, "", line)
                text[++n] = line
                of[n] = shape(line)
            }
            at = 1
        }
        /^    / && /[0-9]/ {
            line = substr($0, 5)
            for (i = at; i <= n && of[i] != shape(line); i++)
                ;
            if (i <= n && of[i] != "") {
                print "    " text[i]
                at = i + 1
                next
            }
        }
        { print }' "$1" >"$results/page.md" && cp "$results/page.md" "$1"
}

set -e
for run in experiments/0*/run.sh experiments/1*/run.sh; do
    here=${run%/run.sh}
    out=$results/${here##*/}
    mkdir -p "$out"
    echo "$here" >&2
    OUT=$out sh "$run" >"$out/run.txt" 2>"$out/run.err" || { cat "$out/run.err" >&2 && exit 1; }
    for picture in "$here"/*.svg; do
        [ ! -f "$out/${picture##*/}" ] || cp "$out/${picture##*/}" "$picture"
    done
    renew "$here/README.md" "$out/run.txt"
done
# The first page shows the main job.
renew README.md "$results/00-main-job/run.txt"
for form in svg png; do
    [ ! -f "$results/00-main-job/compare.$form" ] ||
        cp "$results/00-main-job/compare.$form" docs/
done
