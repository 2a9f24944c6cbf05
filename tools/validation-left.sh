#!/bin/sh
# validation-left.sh REFERENCES - what became of the published rows that we were given, as the table of docs/VALIDATION.md.
# A test compares the two.
awk '
/^#/ { next }
$1 == "reason" { order[++n] = $2; text = $3; for (i = 4; i <= NF; i++) text = text " " $i; why[$2] = text; next }
{ rows = 0; m = split($2, ids, ","); for (i = 1; i <= m; i++) { split(ids[i], part, ":"); rows += part[2] == "" ? 1 : part[2] }
  total[$1] += rows
  if ($3 in why) count[$3 "," $1] += rows; else scored[$1] += rows }
function line(what, c, key,   sum, i) {
    printf "| %s |", what
    for (i = 1; i <= 4; i++) { printf " %s |", c[key file[i]] == "" ? "-" : c[key file[i]]; sum += c[key file[i]] }
    printf " %d |\n", sum
}
END {
    split("published training vtrain_single vtrain_multi", file, " ")
    print "| why | published_numbers | training_measurements | vtrain_single | vtrain_multi | all |"
    print "|---|---:|---:|---:|---:|---:|"
    line("scored", scored, "")
    for (k = 1; k <= n; k++) line(why[order[k]], count, order[k] ",")
    line("all", total, "")
}' "$1"
