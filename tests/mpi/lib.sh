# lib.sh - for the scripts of this folder: tests of ballast-exec on several ranks, each run under mpirun and a timeout.
# Needs BUILD; the scripts end with the line "passed failed skipped".
ROOT=$(pwd)
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$ROOT/$BUILD ;; esac
export LC_ALL=C OPENBLAS_NUM_THREADS=1
# more ranks than cores, perhaps as root, and no ssh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_plm=^rsh
export OMPI_MCA_hwloc_base_binding_policy=none
passed=0 failed=0 skipped=0
work=$(mktemp -d "${TMPDIR:-/tmp}/ballast-mpi.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

end() {
    echo "$passed $failed $skipped"
    [ "$failed" = 0 ]
    exit
}
skip() { # reason
    echo "skipped: $0 ($1)"
    skipped=1
    end
}
command -v mpirun >/dev/null || skip 'no mpirun'
[ -e "$BUILD/ballast-mpi.so" ] || skip 'ballast-mpi.so was not built'
[ "${SAN:-0}" != 1 ] || skip 'MPI itself leaks under a sanitizer'

small='block:layers=2,hidden=32,ffn=64,heads=4,mlp=swiglu,vocab=64'
plan() { # file ranks layout [options]
    to=$1 n=$2 layout=$3
    shift 3
    model=$small
    case $1 in block:*) model=$1; shift ;; esac
    "$BUILD/ballast" plan "$model" --gpus "$n" -l "$layout" --seq-len 16 -o "$work/$to" "$@" >"$work/out" 2>"$work/err"
}
# Run on N ranks; leaves $status, $work/out, $work/err, and $seconds.
on() { # ranks arguments...
    n=$1
    shift
    start=$(date +%s)
    timeout -k 5 "${LIMIT:-60}" mpirun -np "$n" "$BUILD/ballast-exec" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    seconds=$(($(date +%s) - start))
}
# What we print ourselves, without the launcher's own words.
ours() { grep -a '^error: ' "$work/err"; }
good() { passed=$((passed + 1)); }
bad() { # name
    failed=$((failed + 1))
    echo "failed: $*"
    sed 's/^/  stdout| /' "$work/out" | tail -n 12
    sed 's/^/  stderr| /' "$work/err" | tail -n 12
}
verdict() { # name: status 0 and the line of the proof
    if [ "$status" = 0 ] && grep -qx 'check: bitwise equal' "$work/out"; then good; else bad "$1: status $status"; fi
}
# Exactly one line of ours, which contains a text; this status (x: any but 0), and soon.
refused() { # name status text
    case $2 in
    x) [ "$status" != 0 ] && [ "$status" != 124 ] ;;
    *) [ "$status" = "$2" ] ;;
    esac && [ "$(ours | wc -l)" = 1 ] && ours | grep -qF -- "$3" && [ "$seconds" -le 10 ] && good ||
        bad "$1: status $status after $seconds s, expected $2 and one line with '$3'"
}
