#!/bin/sh
# check.sh - the script of `make gpu-check` from a bundle of small plans, on the CPU: every step runs and says so; without a GPU
# it is one line and status 4. Whether the GPU's own check was run is what the skip says.
BUILD=${BUILD:-build}
passed=0 failed=0 skipped=0
work=$(mktemp -d "${TMPDIR:-/tmp}/ballast-gpu.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
good() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "failed: $*"
    tail -n 30 "$work/log"
}
end() {
    echo "$passed $failed $skipped"
    [ "$failed" = 0 ]
    exit
}
# what is asked for and cannot be built is an error that says what was looked for; nccl.h may lie in a folder of its own
asked() { # text, variables of make...
    text=$1
    shift
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u SAN make --no-print-directory "$@" help >"$work/log" 2>&1
    status=$?
    [ $status = 2 ] && grep -q -- "$text" "$work/log" && good || bad "make $*: status $status, expected '$text'"
}
asked 'CUDA=1: no nccl.h in .*; set NCCL_HOME\|CUDA=1: no .*; set CUDA_HOME' CUDA=1 CUDA_HOME="$work"
mkdir -p "$work/nccl/include" && : >"$work/nccl/include/nccl.h"
asked "CUDA=1: no $work/nvcc; set CUDA_HOME" CUDA=1 CUDA_HOME="$work" NVCC="$work/nvcc" NCCL_HOME="$work/nccl"
mkdir -p "$work/bin" && : >"$work/bin/nvcc" && chmod +x "$work/bin/nvcc"
if [ ! -e /usr/include/cub/block/block_reduce.cuh ]; then
    asked 'CUDA=1: no cub/block/block_reduce.cuh beside .*nvcc; the toolkit' CUDA=1 CUDA_HOME="$work" NCCL_HOME="$work/nccl"
fi
PKG_CONFIG_LIBDIR=$work PKG_CONFIG_PATH='' asked 'MPI=1: pkg-config knows none of' MPI=1

if [ "${SAN:-0}" = 1 ]; then
    skipped=1
    echo 'skipped: the bundle of gpu-check (programs with a sanitizer need its libraries)'
    end
fi
export OPENBLAS_NUM_THREADS=1
# a build folder of its own, so that nobody's bundle is replaced
mkdir -p "$work/build"
for f in "$BUILD"/ballast "$BUILD"/ballast-exec "$BUILD"/gpu-bundle-exec "$BUILD"/ballast-*.so; do [ -e "$f" ] && cp "$f" "$work/build"; done
if BUILD=$work/build sh tools/gpu-bundle.sh small >"$work/log" 2>&1; then good; else bad 'the bundle'; end; fi
cd "$work/build/gpu-bundle" || exit 1

# nothing of this machine but glibc: no libcjson on the loader's path, no environment
where=$(env -i "$(command -v ldd)" ./ballast-exec | sed -n 's/.*libcjson.*=> \([^ ]*\).*/\1/p')
case $where in '' | "$PWD"/lib/* | "$PWD"/./lib/*) good ;; *) bad "cJSON comes from '$where'" ;; esac
# libxml2 would bring ICU with it
if env -i "$(command -v ldd)" ./ballast-exec | grep -q 'lib\(xml\|icu\)'; then bad 'libxml2 is linked'; else good; fi
echo '<system version="1"/>' >"$work/topo.xml"
env -i ./ballast-exec plans/probe.json --steps 1 --cluster "$work/topo.xml" >"$work/log" 2>&1
[ $? = 3 ] && grep -q "topo.xml' is XML.*topo --export" "$work/log" && good || bad 'a cluster in XML'
env -i ./ballast-exec --help >"$work/log" 2>&1 && good || bad 'help without an environment'
env -i ./ballast-exec plans/probe.json --steps 1 >"$work/log" 2>&1 && grep -q '^step ' "$work/log" && good ||
    bad 'a step on the CPU without an environment'
env -i ./ballast-exec plans/probe.json --steps 1 --backend cuda >"$work/log" 2>&1
case $? in 0 | 4) good ;; *) bad 'cuda without an environment' ;; esac

BACKEND=cpu timeout 300 sh gpu-check.sh "$work/out" >"$work/log" 2>&1
status=$?
[ $status = 0 ] && grep -q '^gpu-check: all well' "$work/log" && good || bad "status $status on the cpu backend"
n=$(grep -c '"step": .*"status": 0' "$work/out/summary.json")
[ "$n" = 13 ] && good || bad "$n steps in summary.json, expected 13"

# a wrong answer has to reach the status: a plan of shadow is replaced by no plan
echo '{}' >plans/shadow-llama-muon-bf16.json
BACKEND=cpu timeout 300 sh gpu-check.sh "$work/out2" >"$work/log" 2>&1
status=$?
[ $status = 1 ] && grep -q '^shadow-llama-muon-bf16 *failed (3)' "$work/log" && good || bad "status $status with a broken plan"

if [ ! -e ballast-cuda.so ]; then
    skipped=1
    echo 'skipped: gpu-check on a GPU: ballast-cuda.so was not built'
elif timeout 20 ./ballast-exec plans/probe.json --steps 1 --backend cuda >"$work/log" 2>&1; then
    skipped=1
    echo 'skipped: gpu-check on the GPU of this machine: run make gpu-check'
else
    timeout 60 sh gpu-check.sh "$work/out3" >"$work/log" 2>&1
    status=$?
    [ $status = 4 ] && [ "$(wc -l <"$work/log")" = 1 ] && good || bad "status $status without a GPU"
    skipped=1
    echo 'skipped: gpu-check on a GPU: none here, so the cuda backend was compiled and run on a stand-in only'
fi
end
