# What the experiments share. A run.sh starts with
#     here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
# Results go to $out (OUT, default build/experiments/NN-name); $ballast is the program (BALLAST, default build/ballast).
name=${here##*/}
ballast=${BALLAST:-build/ballast}
out=${OUT:-build/experiments/$name}
mkdir -p "$out" || exit 1
[ -x "$ballast" ] || { echo "$name: no $ballast: run make first" >&2; exit 1; }

measured=experiments/03-steps/measured # published steps and memory, each row with its source

# rows FILE: a line a measured row: id metric measured predicted error-percent. A row that cannot be predicted is an error.
rows() {
    "$ballast" validate "$1" --format csv >"$out/rows.csv" || exit
    awk -F, '
        { gsub(/"[^"]*"/, "text") } # quoted text has commas
        NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
        $c["predicted"] == "" { print "no prediction for " $1 >"/dev/stderr"; exit 3 }
        { print $c["id"], $c["metric"], $c["measured"], $c["predicted"], $c["error_percent"] }' "$out/rows.csv"
    status=$?
    rm -f "$out/rows.csv"
    [ $status -eq 0 ] || exit $status
}

# errors: of such lines, on stdin: mean and largest.
errors() {
    awk '{ e = $5 < 0 ? -$5 : $5; sum += e; n++; if (e > most) most = e }
    END { printf "mean error %.1f %%, largest %.1f %% of %d rows", sum / n, most, n }'
}

# column NAME...: the values of csv columns by their names in the header, a line a row. For files without quoted commas before them.
column() {
    awk -F, -v names="$*" '
        NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; n = split(names, name, " "); next }
        { for (i = 1; i <= n; i++) printf "%s%s", $c[name[i]], i < n ? " " : "\n" }'
}

# draw NAME: plot.gp of the experiment into $out/NAME.svg and NAME.png; data is in $out, name is NAME.
draw() {
    if ! command -v gnuplot >/dev/null; then
        echo "No picture: gnuplot is not installed (package gnuplot-nox)."
        return
    fi
    for form in svg png; do
        gnuplot -e "form='$form'; name='$1'; data='$out/'; picture='$out/$1.$form'" "$here/plot.gp" || exit 1
    done
    echo "The picture: $out/$1.svg and $1.png"
}

# The last line: what came out, for make experiments.
headline() {
    echo "=> $*"
}
