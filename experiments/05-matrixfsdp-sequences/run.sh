#!/bin/sh
# MatrixFSDP's sequence sweep: 32 layers on one node of 8 A100, 1k to 16k tokens, stock and owners, predicted beside published.
# Expected: a second; the table of README.md, sequences.svg and .png.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
rows $measured/matrixfsdp-sequences.json >"$out/rows.dat" || exit
# matrixfsdp-seq1024-stock-step_ms -> a line a length: tokens, then published and predicted of each
awk '
{
    split($1, part, "-"); tokens = substr(part[2], 4)
    key = part[3] " " $2
    if (!(tokens in seen)) { seen[tokens]; order[++n] = tokens }
    published[tokens, key] = $3; predicted[tokens, key] = $4
}
END {
    k = split("stock step_ms,owner step_ms,stock optimizer_ms,owner optimizer_ms", keys, ",")
    for (i = 1; i <= n; i++) {
        printf "%d", order[i]
        for (j = 1; j <= k; j++) printf " %s %.1f", published[order[i], keys[j]], predicted[order[i], keys[j]]
        print ""
    }
}' "$out/rows.dat" >"$out/sequences.dat"
awk '
BEGIN { printf "ms      %-25s %-25s %-25s %-25s\ntokens", "  stock step", "  owner step", "  stock optimizer", "  owner optimizer"
        for (i = 1; i <= 4; i++) printf "%10s %9s %5s", "published", "predicted", "%"; print "" }
{ printf "%-6d", $1; for (i = 2; i <= 8; i += 2) printf "%10.0f %9.0f %+5.0f", $i, $(i + 1), 100 * ($(i + 1) / $i - 1); print "" }' "$out/sequences.dat"
echo
draw sequences
headline "$(errors <"$out/rows.dat")"
