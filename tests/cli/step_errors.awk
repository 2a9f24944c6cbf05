# awk -F, -f step_errors.awk step_errors.txt - < (ballast validate --format csv): rows whose error grew by more than a tenth.
NR == FNR {
    if ($0 !~ /^#/) {
        split($0, word, " ")
        was[word[1]] = word[2]
    }
    next
}
$1 in was {
    n = split($0, part, /,(memory_alloc_gib|memory_gib|[a-z]+_ms|tokens_per_s_per_gpu|mfu|balance|bytes_per_rank_[a-z_]+),/)
    split(part[n], value, ",") # measured, predicted, error
    error = value[3] < 0 ? -value[3] : value[3]
    seen[$1] = 1
    if (value[3] == "" || error > 1.1 * was[$1] + 0.2)
        print $1, "was", was[$1], "is", value[3]
}
END {
    for (id in was)
        if (!(id in seen))
            print id, "is not predicted"
}
