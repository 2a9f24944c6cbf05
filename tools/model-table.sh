#!/bin/sh
# model-table.sh FILE... - what `ballast model` says of each file, as a table in Markdown. BALLAST is the program, RUNS how
# often each file is read; the time is that of the whole command, the shortest of the runs.
BALLAST=${BALLAST:-build/ballast}
RUNS=${RUNS:-5}
LC_ALL=C
export LC_ALL

echo '| file | type | parameters | matrices | in | tail | in | ms |'
echo '|---|---|---:|---:|---:|---:|---:|---:|'
for f in "$@"; do
  least=
  i=0
  while [ $i -lt "$RUNS" ]; do
    start=$(date +%s%N)
    out=$("$BALLAST" model "$f" 2>&1) || { echo "| $(basename "$f") | refused: $out |"; continue 2; }
    ns=$(($(date +%s%N) - start))
    [ -z "$least" ] || [ "$ns" -lt "$least" ] && least=$ns
    i=$((i + 1))
  done
  echo "$out" | awk -v ns="$least" '
    $1 == "model" { type = $NF; gsub(/[()]/, "", type); name = $0; sub(/^model +/, "", name); sub(/ \([^(]*$/, "", name) }
    $1 == "parameters" { total = $2; sub(/,$/, "", total) }
    $1 == "matrices" { matrices = $2; n = $4 }
    $1 == "tail" { printf "| %s | %s | %s | %s | %s | %s | %s | %.1f |\n", name, type, total, matrices, n, $2, $4, ns / 1e6 }'
done
