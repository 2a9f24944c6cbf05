#!/bin/sh
# Predicts the tables of measured/, fits the constants with each table left out, and draws measured
# and predicted bus bandwidth. Expected: ten seconds; the errors of docs/VALIDATION.md, and the
# pictures a100, h100, b200, fabrics and racks (.svg and .png).
here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
set -e
m=experiments/02-collectives/measured
"$ballast" validate $m/*.json | tee "$out/tables.txt"
for fit in dgx-a100:a100-node hgx-h100-ndr:h100-node hgx-b200:b200-node hgx-h100-ndr:ndr hgx-b200:ndr-b200 oci-a100:roce gcp-a3mega:tcpxo; do
    echo
    echo "== ${fit%:*} from ${fit#*:}.json"
    "$ballast" topo "${fit%:*}" --calibrate "$m/${fit#*:}.json" --leave-one-out | tee "$out/${fit#*:}.txt"
done
echo

# A line a measured row: picture, panel, order of the series, collective, cluster, nodes, ranks,
# NCCL_ALGO, bytes, GB/s measured and predicted, error in percent, 1 if set apart, GPU, title of the
# panel.
kinds='all_reduce:all-reduce all_gather:all-gather reduce_scatter:reduce-scatter alltoall:all-to-all sendrecv:send/recv broadcast:broadcast'
rows_of() { # PICTURE FILE GPU CLUSTER (-: each table's own) [PANEL TITLE] (else a panel a collective)
    "$ballast" validate "$m/$2.json" --rows --format csv | awk -F, -v picture="$1" -v gpu="$3" -v cluster="$4" -v panel="$5" -v title="$6" -v kinds="$kinds" '
        BEGIN { n = split(kinds, kind, " ") }
        { gsub(/"[^"]*"/, "text") } # quoted text has commas
        NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
        {
            for (k = 1; k <= n && index(kind[k], $c["collective"] ":") != 1; k++)
                ;
            print picture, panel == "" ? k : panel, 1e5 - $c["ranks"], $c["collective"], cluster == "-" ? $c["cluster"] : cluster, $c["nodes"],
                $c["ranks"], $c["algorithm_forced"] == "" ? "-" : $c["algorithm_forced"], $c["bytes"], $c["measured_busbw_GBps"],
                $c["predicted_busbw_GBps"], $c["error_percent"], $c["distrust"] != "", gpu, title == "" ? substr(kind[k], index(kind[k], ":") + 1) : title
        }'
}
{
    rows_of a100 a100-node A100 dgx-a100
    rows_of h100 h100-node H100 hgx-h100-ndr
    rows_of b200 b200-node B200 hgx-b200
    rows_of fabrics hdr A100 - 1 "HDR InfiniBand, A100"
    rows_of fabrics ndr H100 - 2 "NDR InfiniBand, H100"
    rows_of fabrics ndr-b200 B200 - 3 "NDR InfiniBand, B200"
    rows_of fabrics roce A100 - 4 "RoCE, A100"
    rows_of fabrics efa A100 - 5 "EFA, A100 and H100"
    rows_of fabrics efa-h100 H100 - 5 "EFA, A100 and H100"
    rows_of fabrics tcpxo H100 - 6 "GPUDirect-TCPXO, H100"
    rows_of racks gb200 GB200 - 1 "NVLink in a rack, 4 x 400 Gb/s a tray between racks"
} | LC_ALL=C sort -k1,1 -k2,2n -k3,3n -k4,8 -k9,9n >"$out/rows.txt"

for picture in a100 h100 b200 fabrics racks; do
    awk -v picture=$picture -v to="$out/$picture" -v kinds="$kinds" -f "$here/series.awk" "$out/rows.txt"
    # The predicted curve of each series, two sizes an octave: bytes, bus bandwidth, the ends of its
    # 90 % band, and these ends over the prediction. A band is one of times: twice the time is half
    # the bandwidth.
    while read -r kind cluster nodes ranks algo; do
        set -- --cluster "$cluster" --nodes "$nodes"
        case $nodes:$picture:$((ranks / nodes)) in
        1:*) set -- "$@" --ranks "0-$((ranks - 1))" ;;
        *:racks:4 | *:8) ;; # whole nodes
        *:1) set -- "$@" --ranks "0-$((8 * nodes - 1))/8" ;; # a GPU of each node of eight
        *) echo "$name: $ranks GPUs on $nodes nodes of $cluster: no curve" >&2 && exit 1 ;;
        esac
        [ "$algo" = - ] || set -- "$@" --algo "$algo"
        "$ballast" coll "$kind" "$@" -b 512 -e 16G -f 1.41421356 --format csv | column bytes busbw_GBps band_percent |
            awk '{ low = 1 / (1 + $3 / 100); high = $3 < 90 ? 1 / (1 - $3 / 100) : 10; print $1, $2, $2 * low, $2 * high, low, high }'
        printf '\n\n'
    done <"$out/$picture.list" >"$out/$picture.curves"
    draw $picture
done
headline "all tables: $(awk '/^overall/ { print "mean error " $5 " % of " $2 " rows, from 32 MiB on " $8 " %" }' "$out/tables.txt")"
