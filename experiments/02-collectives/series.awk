# Writes what plot.gp needs of the rows of one picture, which are sorted by series (run.sh names their
# columns). TO.points has a block a series: bytes, measured bus bandwidth, the measured over the
# predicted one, 1 if set apart. TO.list has a line a series, for ballast coll. TO.gp has titles,
# labels and colours.
function label() { # of the series that this row belongs to
    if ($6 == 1)
        return $7 " GPUs"
    return said[$4] ", " $6 (picture == "racks" ? " trays of " $7 / $6 : " x " $7 / $6) " " $14 ($8 == "-" ? "" : " (" $8 ")")
}
function finish() { # the series before this row
    if (n) {
        printf "label[%d] = \"%s: %.1f %%\"\nlast[%d] = %d\n", n, name, scored ? sum / scored : 0, n_panels, n >(to ".gp")
        printf "\n\n" >(to ".points")
    }
}
BEGIN {
    for (i = split(kinds, pair, " "); i; i--)
        said[substr(pair[i], 1, index(pair[i], ":") - 1)] = substr(pair[i], index(pair[i], ":") + 1)
}
$1 != picture { next }
$2 " " $4 " " $5 " " $6 " " $7 " " $8 != series {
    finish()
    series = $2 " " $4 " " $5 " " $6 " " $7 " " $8
    name = label()
    scored = sum = 0
    n++
    if ($2 != panel) {
        panel = $2
        title = $0
        for (i = 1; i <= 14; i++)
            sub(/^[^ ]+ /, "", title)
        printf "title[%d] = \"%s\"\nfirst[%d] = %d\n", ++n_panels, title, n_panels, n >(to ".gp")
        begun = n
    }
    # in a node a colour is a group size, else the series of a panel follow each other
    printf "colour[%d] = %s\n", n, $6 == 1 ? "of_size(" $7 ")" : "next_colour(" n - begun ")" >(to ".gp")
    print $4, $5, $6, $7, $8 >(to ".list")
}
{
    printf "%s %s %.6g %d\n", $9, $10, $10 / $11, $13 >(to ".points")
    if (!$13) {
        scored++
        sum += $12 < 0 ? -$12 : $12
    }
}
END {
    finish()
    printf "n_panels = %d\n", n_panels >(to ".gp")
}
