#!/bin/sh
# Predicts the published steps of measured/. Seconds.
set -e
cd "$(dirname "$0")/../.."
ballast=${BALLAST:-build/ballast}
out=${1:-build/experiments/03-steps}
mkdir -p "$out"
for f in experiments/03-steps/measured/*.json; do
    name=$(basename "$f" .json)
    "$ballast" validate "$f" >"$out/$name.txt"
    echo "$name: $(tail -1 "$out/$name.txt")"
done
echo "rows: $out/*.txt"
