#!/bin/sh
# Fits the A100's two constants of training to all sets but one, for each set, and predicts that one. About half a minute.
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
set -e
sets="llm-foundry internevo amsp matrixfsdp-sequences matrixfsdp-weak-scaling"
clusters="dgx-a100 internevo-a100 a800-4hdr matrixfsdp-a100"

# with SUSTAINED MASKED: the clusters with these constants, beside the rows that name them.
with() {
    for c in $clusters; do
        "$ballast" topo $c --export | awk -v s="$1" -v m="$2" '
            /"sustained_factor"/ { new = s }
            /"attention_masked"/ { new = m }
            new && sub(/"value": [0-9.]+/, "\"value\": " new) { new = "" }
            { print }' >"$out/$c.json"
    done
}

for set in $sets; do
    sed 's/"cluster": "\([^"]*\)"/"cluster": ".\/\1.json"/' experiments/*/measured/$set.json >"$out/rows-$set.json"
done
: >"$out/grid.txt"
for s in 1.22 1.24 1.26 1.28 1.30 1.32 1.34 1.36; do
    for m in 0.41 0.45 0.49 0.53; do
        with $s $m
        for set in $sets; do
            rows "$out/rows-$set.json" >"$out/lines.txt"
            echo "$set $s $m $(awk '{ e = $5 < 0 ? -$5 : $5; sum += e; if (e > most) most = e } END { print sum / NR, most }' "$out/lines.txt")"
        done
    done
done >>"$out/grid.txt"
rm -f "$out"/*-a100.json "$out/a800-4hdr.json" "$out"/rows-*.json "$out/lines.txt"

awk '
    { at = $2 " " $3; mean[$1, at] = $4; most[$1, at] = $5; sets[$1]; points[at] }
    function best(left, only,    p, s, sum, found, least) {
        least = 1e9
        for (p in points) {
            sum = 0
            for (s in sets)
                if (only ? s == left : s != left)
                    sum += mean[s, p]
            if (sum < least || (sum == least && p < found)) { least = sum; found = p }
        }
        return found
    }
    END {
        all = best("", 0)
        printf "%-24s %-31s   %s\n", "", "fit to all sets", "fit to the others"
        printf "%-24s %9s %7s %5s %6s   %9s %7s %5s %6s\n", "set", "sustained", "masked", "mean%", "max%", "sustained", "masked", "mean%", "max%"
        for (s in sets) {
            out = best(s, 0)
            split(all, a); split(out, o)
            printf "%-24s %9s %7s %5.1f %6.1f   %9s %7s %5.1f %6.1f\n", s, a[1], a[2], mean[s, all], most[s, all], o[1], o[2], mean[s, out], most[s, out] | "sort"
            n++; with_it += mean[s, all]; without += mean[s, out]
        }
        close("sort")
        printf "mean of the sets: in the fit %.1f %%, left out %.1f %%\n", with_it / n, without / n
    }' "$out/grid.txt" | tee "$out/leave-out.txt"
