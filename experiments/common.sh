# What the experiments share. A run.sh starts with
#     here=$(cd "$(dirname "$0")" && pwd) && cd "$here/../.." && . experiments/common.sh || exit 1
# Results go to $out (OUT, default build/experiments/NN-name); $ballast is the program (BALLAST, default build/ballast).
name=${here##*/}
ballast=${BALLAST:-build/ballast}
out=${OUT:-build/experiments/$name}
mkdir -p "$out" || exit 1
[ -x "$ballast" ] || { echo "$name: no $ballast: run make first" >&2; exit 1; }

# draw NAME: plot.gp of the experiment into $out/NAME.svg and NAME.png; data is in $out.
draw() {
    if ! command -v gnuplot >/dev/null; then
        echo "No picture: gnuplot is not installed (package gnuplot-nox)."
        return
    fi
    for form in svg png; do
        gnuplot -e "form='$form'; data='$out/'; picture='$out/$1.$form'" "$here/plot.gp" || exit 1
    done
    echo "The picture: $out/$1.svg and $1.png"
}

# The last line: what came out, for make experiments.
headline() {
    echo "=> $*"
}

# rows FILE: a measured file as predicted, "id metric measured predicted" a line.
rows() {
    "$ballast" validate "$1" --format csv | awk -F, '
    NR > 1 && match($0, /,(step_ms|optimizer_ms|memory_gib|memory_alloc_gib|tokens_per_s_per_gpu|mfu),/) {
        metric = substr($0, RSTART + 1, RLENGTH - 2)
        split(substr($0, RSTART + RLENGTH), v, ",")
        print $1, metric, v[1], v[2]
    }'
}
# errors: of such lines, "mean worst" in percent.
errors() {
    awk '{ e = 100 * ($4 / $3 - 1); e = e < 0 ? -e : e; sum += e; n++; if (e > most) most = e }
    END { printf "mean error %.1f %%, largest %.1f %% of %d rows", sum / n, most, n }'
}
