#!/bin/sh
# Memory a rank: MatrixFSDP's published peaks beside predicted ones. Expected: a second.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
rows experiments/03-steps/measured/memory.json >"$out/rows.txt" || exit
awk '
BEGIN { printf "%-34s %10s %10s %8s\n", "row", "published", "predicted", "error %" }
{ printf "%-34s %10.2f %10.2f %+8.1f\n", $1, $3, $4, 100 * ($4 / $3 - 1); printf "\"%s\" %s %s\n", $1, $3, $4 >data }' data="$out/memory.dat" "$out/rows.txt" || exit
draw memory
headline "$(errors <"$out/rows.txt")"
