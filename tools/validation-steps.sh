#!/bin/sh
# validation-steps.sh ROOT FILE - prints a page of ROOT with the errors of measured steps renewed: in
# a line "| SET: text | rows | mean | max |..." the three numbers become the program's. A set whose
# rows are all scored apart counts with all of them. BALLAST is the program. A test compares the
# pages with this.
LC_ALL=C
export LC_ALL
cd "$1" || exit 1
"${BALLAST:-ballast}" validate --format csv | awk -F, -v page="$2" '
    { gsub(/"[^"]*"/, "text") } # quoted text has commas
    NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
    $c["predicted"] != "" {
        set = $c["set"] ($c["distrust"] == "" ? "" : " apart")
        e = $c["error_percent"] < 0 ? -$c["error_percent"] : $c["error_percent"]
        n[set]++
        sum[set] += e
        if (e > most[set])
            most[set] = e
    }
    END {
        while ((getline line <page) > 0) {
            set = substr(line, 3, index(line, ":") - 3)
            gsub(/ /, "-", set)
            if (!(set in n))
                set = set " apart"
            if (line !~ /^\| [a-z0-9 -]+:.* \| [0-9]+ \| [0-9.]+ \| [0-9.]+ \|/ || !(set in n)) {
                print line
                continue
            }
            cells = split(line, cell, / \| /)
            cell[2] = n[set]
            cell[3] = sprintf("%.1f", sum[set] / n[set])
            cell[4] = sprintf("%.1f%s", most[set], cells == 4 ? " |" : "")
            line = cell[1]
            for (i = 2; i <= cells; i++)
                line = line " | " cell[i]
            print line
        }
    }'
