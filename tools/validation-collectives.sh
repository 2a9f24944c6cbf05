#!/bin/sh
# validation-collectives.sh ROOT [fits] - prints docs/VALIDATION.md with the blocks about collectives
# renewed: what stands between a line "<!-- NAME: tools/validation-collectives.sh -->" and the next
# "<!-- end -->". `fits` also renews the block that leaves tables out, which takes ten seconds; else
# it is printed as it stands. BALLAST is the program. A test compares the page with this.
LC_ALL=C
export LC_ALL
cd "$1" || exit 1
ballast=${BALLAST:-ballast}
measured=experiments/02-collectives/measured
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
set -e

# The columns of the csv by name: c["bytes"] is the number of the column. Quoted text has commas.
# shellcheck disable=SC2016
by_name='{ gsub(/"[^"]*"/, "text") } NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }'
rows=$work/rows.csv
"$ballast" validate "$measured"/*.json --rows --format csv >"$rows"

count() {
    awk -F, "$by_name"'
        $c["id"] != id { id = $c["id"]; tables++ }
        $c["distrust"] != "" { apart++; next }
        { n++ }
        END {
            printf "%d tables, %d rows, and %d more that are set apart.\n", tables, n, apart
        }' "$rows"
}

tables() { "$ballast" validate "$measured"/*.json --format md; }

# By place and collective. The NVLink domain of a GB200 rack is a node; its trays are told by the
# name of the cluster.
groups() {
    awk -F, "$by_name"'
        $c["distrust"] != "" { next }
        {
            rack = $c["cluster"] ~ /nvl72/
            where = rack ? "GB200 racks" : $c["nodes"] > 1 ? "between nodes" : "in a node"
            key = where " | " $c["collective"]
            error = $c["error_percent"] < 0 ? -$c["error_percent"] : $c["error_percent"]
            off = 100 * ($c["measured"] / $c["predicted"] - 1)
            off = off < 0 ? -off : off
            for (k = 1; k <= 2; k++) {
                if (k == 2)
                    key = "all | all"
                n[key]++
                sum[key] += error
                held[key] += off <= $c["band_percent"]
                width[key] += $c["band_percent"]
                if ($c["bytes"] >= 33554432) {
                    large[key]++
                    large_sum[key] += error
                }
            }
        }
        END {
            print "| where | collective | rows | mean % | >=32MiB | in band % | band +-% |"
            print "|---|---|---:|---:|---:|---:|---:|"
            fflush()
            for (key in n) {
                order = key ~ /^all/ ? 4 : key ~ /^GB200/ ? 3 : key ~ /^between/ ? 2 : 1
                of_large = large[key] ? sprintf("%.1f", large_sum[key] / large[key]) : "-"
                line = sprintf("%d| %s | %d | %.1f | %s | %.0f | %.1f |", order, key, n[key],
                    sum[key] / n[key], of_large, 100 * held[key] / n[key], width[key] / n[key])
                print line | "sort | sed s/^.//"
            }
        }' "$rows"
}

sizes() {
    awk -F, "$by_name"'
        $c["distrust"] != "" { next }
        {
            b = $c["bytes"] < 1048576 ? 1 : $c["bytes"] < 33554432 ? 2 : 3
            off = 100 * ($c["measured"] / $c["predicted"] - 1)
            off = off < 0 ? -off : off
            n[b]++
            held[b] += off <= $c["band_percent"]
            width[b] += $c["band_percent"]
        }
        END {
            split("below 1 MiB|1 MiB to 32 MiB|from 32 MiB", name, "|")
            print "| sizes | rows | in band % | band +-% |"
            print "|---|---:|---:|---:|"
            for (b = 1; b <= 3; b++)
                printf "| %s | %d | %.0f | %.1f |\n", name[b], n[b], 100 * held[b] / n[b], width[b] / n[b]
        }' "$rows"
}

# A line a file of measurements that has two tables or more.
left_out() {
    echo '| cluster | tables of | tables | as described: mean % | >=1MiB | >=32MiB | left out: mean % | >=1MiB | >=32MiB |'
    echo '|---|---|---:|---:|---:|---:|---:|---:|---:|'
    for fit in dgx-a100:a100-node hgx-h100-ndr:h100-node hgx-b200:b200-node hgx-h100-ndr:ndr \
        hgx-b200:ndr-b200 oci-a100:roce gcp-a3mega:tcpxo; do
        "$ballast" topo "${fit%:*}" --calibrate "$measured/${fit#*:}.json" --leave-one-out \
            2>/dev/null | awk -v fit="${fit%:*} | ${fit#*:}" '
            /^all, before/ { before = $6 " | " $8 " | " $9 }
            /^all, fitted/ { tables = 0 }
            / left out once/ { left = $9 " | " $11 " | " $12 }
            { tables++ }
            END { printf "| %s | %d | %s | %s |\n", fit, tables - 2, before, left }'
    done
}

count >"$work/count"
tables >"$work/tables"
groups >"$work/groups"
sizes >"$work/sizes"
[ "$2" != fits ] || left_out >"$work/left-out"
awk -v work="$work" '
    !inside { print }
    /^<!-- .*: tools\/validation-collectives.sh -->$/ {
        file = work "/" substr($2, 1, length($2) - 1)
        for (inside = 0; (getline line <file) > 0; inside = 1)
            print line
    }
    /^<!-- end -->$/ && inside { print; inside = 0 }' docs/VALIDATION.md
