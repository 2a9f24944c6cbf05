#!/bin/sh
# gpu-check.sh [FOLDER] - everything that a machine with one NVIDIA GPU can say about ballast, in under 6 minutes: all kernels
# beside the CPU's (shadow, kernels), rates, a device profile, the proof on one rank, owners in turn, predicted beside measured.
#
# Runs from the repository (`make gpu-check` builds first) or from the folder that `make gpu-bundle` leaves, which holds
# programs, plans and the libraries that are not glibc's; cuBLAS and the driver are the machine's. Results go to FOLDER
# (default gpu-check.out): a JSON document a step, summary.json and table.txt. Exit status: 0 all well; 1 a check says no;
# 4 there is no GPU, or a library is missing.
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-gpu-check.out}
if [ -d "$here/plans" ]; then
    bin=$here plans=$here/plans
else
    bin=${BUILD:-$here/../build}
    plans=$bin/gpu-bundle/plans
fi
exec_=$bin/ballast-exec
[ -x "$exec_" ] || { echo "gpu-check: no $exec_" >&2; exit 4; }
[ -d "$plans" ] || { echo "gpu-check: no plans; make gpu-bundle makes them" >&2; exit 4; }
mkdir -p "$out" || exit 4

# cuBLAS may be in the toolkit or inside a Python package only: of the version that the backend was linked with.
find_library() { # name, may be a pattern
    for d in /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu "${CUDA_HOME:-/nonexistent}/lib64"; do
        for f in "$d"/$1; do [ -e "$f" ] && { echo "$d"; return; }; done
    done
    for root in "${VIRTUAL_ENV:-/nonexistent}" "${CONDA_PREFIX:-/nonexistent}" /opt /usr/lib/python3* /usr/local/lib "${HOME:-/root}/.local"; do
        f=$(find "$root" -name "$1" 2>/dev/null | head -n 1)
        [ -n "$f" ] && { dirname "$f"; return; }
    done
}
paths=
[ -d "$here/lib" ] && paths=$here/lib
cublas=$(ldd "$bin/ballast-cuda.so" 2>/dev/null | sed -n 's/^[[:space:]]*\(libcublas[A-Za-z]*\.so\.[0-9]*\).*/\1/p')
for l in $cublas 'libcublasLt.so.1[0-9]' 'libcusolver.so.1[12]' libcusparse.so.12 'libnvJitLink.so.1[23]' libnccl.so.2; do
    d=$(find_library "$l")
    [ -n "$d" ] && case ":$paths:" in *":$d:"*) ;; *) paths=$paths:$d ;; esac
done
LD_LIBRARY_PATH=${paths#:}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

# What one line can say of the step's document, or of its failure.
brief() {
    { tail -n 1 "$out/$name.log" | cut -c1-120; sed -n \
        's/^ *"\(wrong\|max_ulp\|allowed_ulp\|bytes_equal\|balance_[a-z]*\|copy_GBps\|launch_us\|loss\)": \([^],[]*\),*$/\1 \2/p' \
        "$out/$name.json" 2>/dev/null; } | tr '\n' ' '
}
all=0 rows='' t0=$(date +%s)
# name, seconds at most, arguments...; JSON and text of each
step() {
    name=$1 limit=$2
    shift 2
    began=$(date +%s)
    timeout "$limit" "$exec_" "$@" --format json -o "$out/$name.json" >"$out/$name.log" 2>&1
    status=$?
    took=$(($(date +%s) - began))
    case $status in
    0) verdict=ok ;;
    1) verdict='CHECK SAYS NO' all=1 ;;
    124 | 137) verdict="cut off after $limit s" all=1 ;;
    *) verdict="failed ($status)" all=1 ;;
    esac
    printf '%-26s %-24s %4s s  %s\n' "$name" "$verdict" "$took" "$(brief)" | tee -a "$out/table.txt"
    rows="$rows${rows:+,}
    {\"step\": \"$name\", \"status\": $status, \"seconds\": $took, \"file\": \"$name.json\"}"
}
: >"$out/table.txt"
# Is there anything to check? One line when not.
"$exec_" rates --help >/dev/null 2>"$out/start.log" || { cat "$out/start.log" >&2; exit 4; }
"$exec_" "$plans/probe.json" --steps 1 --backend "${BACKEND:-cuda}" >"$out/start.log" 2>&1 || { tail -n 1 "$out/start.log" >&2; exit 4; }

for p in "$plans"/shadow-*.json; do
    n=$(basename "$p" .json)
    step "$n" 120 "$p" --shadow --steps 1 --backend "${BACKEND:-cuda}"
done
# those that no step launches by itself
step kernels 90 kernels --width "$([ "${BACKEND:-cuda}" = cuda ] && echo 2048 || echo 64)" --backend "${BACKEND:-cuda}"
step rates 60 rates --backend "${BACKEND:-cuda}"
# the profile is what calibrate writes with -o; its table goes to the log
began=$(date +%s)
timeout 90 "$exec_" calibrate --backend "${BACKEND:-cuda}" -o "$out/device.json" >"$out/calibrate.log" 2>&1
status=$?
[ $status = 0 ] || all=1
printf '%-26s %-24s %4s s  %s\n' calibrate "$([ $status = 0 ] && echo ok || echo "failed ($status)")" $(($(date +%s) - began)) "$(tail -n 1 "$out/calibrate.log" | cut -c1-120)" | tee -a "$out/table.txt"
rows="$rows,
    {\"step\": \"calibrate\", \"status\": $status, \"seconds\": $(($(date +%s) - began)), \"file\": \"device.json\"}"
profile=
[ $status = 0 ] && profile="--cluster $out/device.json"
for p in "$plans"/check-*.json; do
    step "$(basename "$p" .json)" 60 "$p" --check --steps 2 --backend "${BACKEND:-cuda}"
done
for p in "$plans"/owners-*.json; do
    step "$(basename "$p" .json)" 60 "$p" --owners --steps 2 --backend "${BACKEND:-cuda}" $profile
done
for p in "$plans"/replay-*.json; do
    step "$(basename "$p" .json)" 60 "$p" --steps 5 --warmup 2 --backend "${BACKEND:-cuda}" $profile
done
# text of the last ones, for people
{
    echo
    timeout 60 "$exec_" rates --backend "${BACKEND:-cuda}" 2>&1
    for p in "$plans"/replay-*.json; do
        echo
        timeout 60 "$exec_" "$p" --steps 5 --warmup 2 --backend "${BACKEND:-cuda}" $profile 2>&1
    done
} | tee -a "$out/table.txt"
printf '{"format": "ballast-gpu-check", "format_version": 1, "seconds": %s, "status": %s, "steps": [%s\n]}\n' \
    $(($(date +%s) - t0)) $all "$rows" >"$out/summary.json"
echo "gpu-check: $([ $all = 0 ] && echo 'all well' || echo 'NOT all well'); $(($(date +%s) - t0)) s; $out/summary.json"
exit $all
