#!/bin/sh
# The main job: which layout for Qwen3-32B with Muon on 8 nodes of DGX A100, at what step time and memory?
# Expected: the table of README.md beside this file in less than a second, and build/compare.svg and .png.
# Status 0 when the command ran (also without gnuplot: then without a picture), else the command's.
cd "$(dirname "$0")/../.." || exit 1
ballast=${BALLAST:-build/ballast}
out=${OUT:-build}
mkdir -p "$out" || exit 1
picture="--plot $out/compare"
command -v gnuplot >/dev/null || picture=
"$ballast" compare qwen3-32b --cluster dgx-a100 --nodes 8 --optimizer muon \
    --state-dtype bf16 --master-weights no $picture
status=$?
[ $status -le 1 ] || exit $status # 1: no layout fits
echo
if [ -n "$picture" ]; then
    echo "The picture: $out/compare.svg and $out/compare.png"
else
    echo "No picture: gnuplot is not installed (package gnuplot-nox)."
fi
