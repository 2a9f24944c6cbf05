#!/bin/sh
# Predicts the published steps of measured/, and each set by constants fitted to the others. Half a minute.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
set -e
for f in experiments/03-steps/measured/*.json; do
    name=$(basename "$f" .json)
    "$ballast" validate "$f" >"$out/$name.txt"
    echo "$name: $(tail -1 "$out/$name.txt")"
done
echo "rows: $out/*.txt"
echo
sh "$here/leave-out.sh"
headline "all sets: $("$ballast" validate experiments/03-steps/measured/*.json | awk '/^overall/ { print "mean error " $5 " % of " $2 " rows" }')"
