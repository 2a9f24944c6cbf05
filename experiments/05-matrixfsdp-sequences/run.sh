#!/bin/sh
# Stock against owners over sequence lengths: 32 layers of MatrixFSDP's block on 8 A100. Expected: a second.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
rows experiments/03-steps/measured/matrixfsdp-sequences.json >"$out/rows.txt" || exit
awk '
{ split($1, p, "-"); seq = substr(p[2], 4); measured[seq, p[3], $2] = $3; predicted[seq, p[3], $2] = $4; if (!(seq in seen)) { seen[seq]; order[++n] = seq } }
function cell(who, metric,   m, q) { m = measured[s, who, metric]; q = predicted[s, who, metric]; return sprintf("%7.0f %7.0f %+5.0f%%", m, q, 100 * (q / m - 1)) }
END {
    print "                  stock step            owner step       stock optimizer       owner optimizer"
    print "  seq  paper    ours         paper    ours         paper    ours         paper    ours"
    for (i = 1; i <= n; i++) {
        s = order[i]
        printf "%5d%s %s %s %s\n", s, cell("stock", "step_ms"), cell("owner", "step_ms"), cell("stock", "optimizer_ms"), cell("owner", "optimizer_ms")
        print s, measured[s, "stock", "step_ms"], predicted[s, "stock", "step_ms"], measured[s, "owner", "step_ms"], predicted[s, "owner", "step_ms"] >data
    }
}' data="$out/steps.dat" "$out/rows.txt" || exit
draw sequences
headline "$(errors <"$out/rows.txt")"
