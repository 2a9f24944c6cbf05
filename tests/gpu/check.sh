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

# cJSON's source: what is there is taken, without apt-get; with none to be had it is one line and status 1, and nothing is left behind
fetch() { # folder, status, start of stdout, start of stderr, environment
    folder=$1 want=$2 out=$3 err=$4
    shift 4
    env "$@" sh tools/cjson-source.sh "$folder" >"$work/log" 2>"$work/err"
    status=$?
    case "$status $(cat "$work/log") | $(cat "$work/err")" in
    "$want $out"*" | $err"*) [ "$(wc -l <"$work/err")" -le 1 ] && good && return ;;
    esac
    cat "$work/err" >>"$work/log"
    bad "cjson-source.sh: status $status, expected $want, '$out' and '$err'"
}
if version=$(dpkg-query -W -f '${source:Version}' libcjson-dev 2>/dev/null); then
    printf '#!/bin/sh\necho "E: no network" >&2\nexit 100\n' >"$work/bin/apt-get" && chmod +x "$work/bin/apt-get"
    mkdir -p "$work/kept/$version" && : >"$work/kept/$version/cJSON.c"
    fetch "$work/kept" 0 "$work/kept/$version/cJSON.c" '' PATH="$work/bin:$PATH"
    fetch "$work/none" 1 '' "cJSON's source: not fetched" NO_INSTALL=1
    fetch "$work/none" 1 '' "cJSON's source: " NO_INSTALL=0 PATH="$work/bin:$PATH"
    [ -z "$(ls "$work/none")" ] && good || bad 'cjson-source.sh leaves something behind'
fi

if [ "${SAN:-0}" = 1 ]; then
    skipped=$((skipped + 1))
    echo 'skipped: the bundle of gpu-check (programs with a sanitizer need its libraries)'
    end
fi
export OPENBLAS_NUM_THREADS=1
# a build folder of its own, so that nobody's bundle is replaced
mkdir -p "$work/build"
for f in "$BUILD"/ballast "$BUILD"/ballast-exec "$BUILD"/gpu-bundle-exec "$BUILD"/ballast-*.so; do [ -e "$f" ] && cp "$f" "$work/build"; done
if BUILD=$work/build sh tools/gpu-bundle.sh small >"$work/log" 2>&1; then good; else bad 'the bundle'; end; fi
root=$PWD
case $BUILD in /*) ;; *) BUILD=$root/$BUILD ;; esac
cd "$work/build/gpu-bundle" || exit 1

# nothing of this machine but glibc, and no environment: cJSON is inside where its library or its source was to be had, else in lib/
if [ -e "$(${CC:-gcc} -print-file-name=libcjson.a)" ] || [ -n "$(find "$BUILD/cjson" -name cJSON.c 2>/dev/null)" ]; then
    readelf -d ballast-exec >"$work/log" && ! grep -q 'NEEDED.*libcjson' "$work/log" && [ -z "$(find lib -name 'libcjson*' 2>/dev/null)" ] && good ||
        bad 'ballast-exec needs libcjson'
    env -i LD_DEBUG=files ./ballast-exec plans/probe.json --steps 1 >"$work/log" 2>&1 && grep -q 'file=libc\.so' "$work/log" && ! grep -q libcjson "$work/log" &&
        good || bad 'a step loads libcjson'
    # where a user may have file systems of his own: without the library for once, which its brother has to miss
    without() {
        unshare -r -m sh -c 'for f in $(ldconfig -p | sed -n "s/.*libcjson.*=> //p"); do mount --bind /dev/null "$f" || exit 9; done; exec "$@"' sh "$@" >"$work/log" 2>&1
    }
    if without true && readelf -d "$BUILD/ballast-exec" | grep -q 'NEEDED.*libcjson' && ! without "$BUILD/ballast-exec" --help; then
        without ./ballast-exec plans/probe.json --steps 1 && grep -q '^step ' "$work/log" && good || bad 'a step on a machine without libcjson.so'
    fi
else
    where=$(env -i "$(command -v ldd)" ./ballast-exec | sed -n 's/.*libcjson.*=> \([^ ]*\).*/\1/p')
    case $where in "$PWD"/lib/* | "$PWD"/./lib/*) good ;; *) bad "cJSON comes from '$where'" ;; esac
    skipped=$((skipped + 1))
    echo "skipped: cJSON inside the bundle's ballast-exec: neither libcjson.a nor its source"
fi
# libxml2 would bring ICU with it
if env -i "$(command -v ldd)" ./ballast-exec | grep -q 'lib\(xml\|icu\)'; then bad 'libxml2 is linked'; else good; fi
echo '<system version="1"/>' >"$work/topo.xml"
env -i ./ballast-exec plans/probe.json --steps 1 --cluster "$work/topo.xml" >"$work/log" 2>&1
[ $? = 3 ] && grep -q "topo.xml' is XML.*topo --export" "$work/log" && good || bad 'a cluster in XML'
env -i ./ballast-exec --help >"$work/log" 2>&1 && good || bad 'help without an environment'
env -i ./ballast-exec plans/probe.json --steps 1 >"$work/log" 2>&1 && grep -q '^step ' "$work/log" && good ||
    bad 'a step on the CPU without an environment'
env -i ./ballast-exec plans/probe.json --steps 1 --backend cuda >"$work/log" 2>&1
status=$?
# what the backend wants of this program is in it
case $status in 0 | 4) ! grep -q 'undefined symbol' "$work/log" && good || bad 'the backend does not load' ;; *) bad 'cuda without an environment' ;; esac

BACKEND=cpu timeout 300 sh gpu-check.sh "$work/out" >"$work/log" 2>&1
status=$?
[ $status = 0 ] && grep -q '^gpu-check: all well' "$work/log" && good || bad "status $status on the cpu backend"
n=$(grep -c '"step": .*"status": 0' "$work/out/summary.json")
[ "$n" = 15 ] && good || bad "$n steps in summary.json, expected 15"
# between them they have looked at every kernel there is
cat "$work"/out/shadow-*.json "$work/out/kernels.json" | sed -n 's/.*"kernel": "\([a-z_0-9]*\)".*/\1/p' | sort -u >"$work/seen"
sed -n 's/^ *X(\([a-z_0-9]*\), kernel_.*/\1/p' "$root/kernels/functions.h" | sort -u >"$work/all"
missing=$(comm -13 "$work/seen" "$work/all" | tr '\n' ' ')
[ "$(wc -l <"$work/all")" -ge 50 ] && [ -z "$missing" ] && good || bad "gpu-check compares no $missing"

# a wrong answer has to reach the status: a plan of shadow is replaced by no plan
echo '{}' >plans/shadow-llama-muon-bf16.json
BACKEND=cpu timeout 300 sh gpu-check.sh "$work/out2" >"$work/log" 2>&1
status=$?
[ $status = 1 ] && grep -q '^shadow-llama-muon-bf16 *failed (3)' "$work/log" && good || bad "status $status with a broken plan"

if [ ! -e ballast-cuda.so ]; then
    skipped=$((skipped + 1))
    echo 'skipped: gpu-check on a GPU: ballast-cuda.so was not built'
elif timeout 20 ./ballast-exec plans/probe.json --steps 1 --backend cuda >"$work/log" 2>&1; then
    skipped=$((skipped + 1))
    echo 'skipped: gpu-check on the GPU of this machine: run make gpu-check'
else
    timeout 60 sh gpu-check.sh "$work/out3" >"$work/log" 2>&1
    status=$?
    [ $status = 4 ] && [ "$(wc -l <"$work/log")" = 1 ] && good || bad "status $status without a GPU"
    skipped=$((skipped + 1))
    echo 'skipped: gpu-check on a GPU: none here, so the cuda backend was compiled and run on a stand-in only'
fi
end
