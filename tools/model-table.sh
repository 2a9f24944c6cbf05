#!/bin/sh
# model-table.sh FILE... - what `ballast model` says of each file, as a table in Markdown. BALLAST is the program, RUNS how
# often each file is read. Times are those of the whole command: the processor's, mean of the runs, and the clock's, the
# shortest of them, which other work on the machine makes longer.
BALLAST=${BALLAST:-build/ballast}
RUNS=${RUNS:-10}
LC_ALL=C
export LC_ALL
used=$(mktemp) || exit 1
trap 'rm -f "$used"' EXIT

# Processor time of what this shell has started, in ms, into cpu; a subshell would have none.
cpu_ms() {
    times >"$used"
    cpu=$(awk 'NR == 2 { gsub(/[ms]/, " "); printf "%d", 60000 * ($1 + $3) + 1000 * ($2 + $4) }' "$used")
}

echo '| file | type | parameters | matrices | in | tail | in | CPU ms | ms |'
echo '|---|---|---:|---:|---:|---:|---:|---:|---:|'
for f in "$@"; do
    least=
    i=0
    cpu_ms
    before=$cpu
    while [ $i -lt "$RUNS" ]; do
        start=$(date +%s%N)
        "$BALLAST" model "$f" >/dev/null 2>&1
        ns=$(($(date +%s%N) - start))
        [ -n "$least" ] && [ "$ns" -ge "$least" ] || least=$ns
        i=$((i + 1))
    done
    cpu_ms
    cpu=$((cpu - before))
    "$BALLAST" model "$f" 2>&1 | awk -v ns="$least" -v cpu="$cpu" -v runs="$RUNS" '
        /^error: / { print "| refused: " $0 " |" }
        $1 == "model" {
            type = $0
            sub(/.*\(/, "", type)
            sub(/\)$/, "", type)
            sub(/^tensors /, "", type)
            name = $0
            sub(/^model +/, "", name)
            sub(/ \([^(]*$/, "", name)
        }
        $1 == "parameters" { total = $2; sub(/,$/, "", total) }
        $1 == "matrices" { matrices = $2; n = $4 }
        $1 == "tail" {
            printf "| %s | %s | %s | %s | %s | %s | %s | %.0f | %.1f |\n", name, type, total, matrices, n, $2, $4,
                cpu / runs, ns / 1e6
        }'
done
