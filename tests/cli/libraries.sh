#!/bin/sh
# libraries.sh - the programs without the shared objects that may lie beside them: no CUDA, no MPI, no BLAS; and with a BLAS that
# is wrong with some of its kernels. What is absent is one line with its name, whoever asks; all else works without. So a build
# that has everything says what one that has nothing does. Ends with "passed failed skipped".
ROOT=$(pwd)
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$ROOT/$BUILD ;; esac
export LC_ALL=C
passed=0 failed=0
work=$(mktemp -d "${TMPDIR:-/tmp}/ballast-libraries.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
unset OPENBLAS_CORETYPE

good() { passed=$((passed + 1)); }
bad() { # name
    failed=$((failed + 1))
    echo "failed: $*"
    sed 's/^/  stdout| /' "$work/out" | tail -n 12
    sed 's/^/  stderr| /' "$work/err" | tail -n 12
}
run() { # arguments...
    timeout -k 5 60 "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}
refused() { # name text: one line, status 4
    if [ "$status" = 4 ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -qF -- "$2" "$work/err" && [ ! -s "$work/out" ]; then good; else bad "$1: status $status"; fi
}

bare=$work/bare
mkdir "$bare" && cp "$BUILD/ballast" "$BUILD/ballast-exec" "$bare" || exit 1
"$bare/ballast" plan block:layers=1,hidden=32,ffn=64,heads=2,vocab=64 --gpus 1 -l owner --seq-len 16 -o "$work/p.json" >/dev/null || exit 1

# every command that opens a backend
for command in "$work/p.json" "$work/p.json --check" "$work/p.json --shadow" "$work/p.json --owners" rates kernels calibrate; do
    run "$bare/ballast-exec" $command --backend cuda
    refused "$command without ballast-cuda.so" "error: --backend cuda: cannot load ballast-cuda.so: there is no '"
    run "$bare/ballast-exec" $command --gemm blas
    refused "$command without ballast-blas.so" "error: the BLAS: cannot load ballast-blas.so: there is no '"
    run "$bare/ballast-exec" $command --transport mpi
    refused "$command without ballast-mpi.so" "error: the transport between ranks: cannot load ballast-mpi.so: there is no '"
done
run "$bare/ballast" exec "$work/p.json" --check --steps 2 --backend auto
if [ "$status" = 0 ] && grep -qx 'check: bitwise equal' "$work/out" && grep -q ', reference products' "$work/out" &&
    grep -q '^backend: cpu (cuda: .*ballast-cuda.so' "$work/err"; then good; else bad "auto without anything: status $status"; fi
# what is no shared object, or another's
: >"$bare/ballast-cuda.so"
run "$bare/ballast-exec" "$work/p.json" --backend cuda
refused 'an empty ballast-cuda.so' 'error: --backend cuda: cannot load '
rm "$bare/ballast-cuda.so"
# the commands' own cases
for file in tests/cli/exec.case tests/cli/exec_device.case; do
    BUILD=$bare sh tests/run_cli.sh $file >"$work/out" 2>"$work/err"
    if tail -n 1 "$work/out" | grep -q '^[1-9][0-9]* 0 0$'; then good; else bad "$file without shared objects"; fi
done
run "$bare/ballast" doctor --format csv
if [ "$status" = 1 ] && grep -q '^exec at BLAS speed,false,ballast-blas.so,' "$work/out" && grep -q '^exec on one rank,true,' "$work/out" &&
    grep -q '^exec on several ranks,false,"*ballast-mpi.so' "$work/out" && grep -q '^exec on GPUs,false,"*ballast-cuda.so' "$work/out" && [ ! -s "$work/err" ]; then
    good
else
    bad "doctor: status $status"
fi

# A BLAS of our own, which takes the kernels of old processors by itself. CORES says which others it has, BAD and CRASH which are
# wrong.
cat >"$work/blas.c" <<'end'
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

static const char *core = "Prescott";

static void gemm(void *ctx, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha, const float *a, size_t lda,
                 const float *b, size_t ldb, float beta, float *c, size_t ldc)
{
    const char *bad = getenv("BAD"), *crash = getenv("CRASH");

    kernel_gemm_reference.fn(ctx, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (crash && strstr(crash, core))
        abort();
    if (bad && strstr(bad, core) && k > 1000)
        c[m * ldc - ldc + n - 1] *= 1.01f;
}

const char *blas_core(void);
const char *blas_core(void)
{
    return core;
}

extern const struct kernel_gemm blas_library;
const struct kernel_gemm blas_library = {.fn = gemm};

__attribute__((constructor)) static void choose(void)
{
    const char *asked = getenv("OPENBLAS_CORETYPE"), *has = getenv("CORES");

    if (asked && has && strstr(has, asked))
        core = asked;
}
end
if grep -q '^flags.* avx2 ' /proc/cpuinfo 2>/dev/null && grep -q '^flags.* fma ' /proc/cpuinfo && [ "${SAN:-0}" != 1 ]; then
    ${CC:-gcc} -std=c11 -D_XOPEN_SOURCE=700 -I. -shared -fPIC -o "$bare/ballast-blas.so" "$work/blas.c" >"$work/out" 2>"$work/err" || bad 'a BLAS of our own'
    wide=Haswell
    grep -q '^flags.* avx512f .*avx512cd .*avx512bw .*avx512vl' /proc/cpuinfo && wide=SkylakeX
    takes() { # name core (or reference)
        case $2 in reference) said=', reference products' ;; *) said=", BLAS ($2) products" ;; esac
        if [ "$status" = 0 ] && grep -qF "$said" "$work/out"; then good; else bad "$1: status $status, expected $2"; fi
    }
    all='SkylakeX Haswell Sandybridge'
    check() { run env "$@" "$bare/ballast-exec" "$work/p.json" --check --steps 1; }
    check CORES="$all"
    takes 'the fastest' $wide
    check CORES='Haswell Sandybridge'
    takes 'the fastest that it has' Haswell
    check CORES="$all" BAD=SkylakeX
    takes 'the next where one is wrong' Haswell
    check CORES="$all" BAD=SkylakeX CRASH=Haswell
    takes 'the next where one crashes' Sandybridge
    check CORES="$all" BAD="$all"
    takes 'its own choice where all others are wrong' Prescott
    check CORES="$all" OPENBLAS_CORETYPE=Sandybridge
    takes "the user's" Sandybridge
    check CORES="$all" BAD="$all Prescott"
    takes 'none' reference
    grep -q '^products: reference (the BLAS.s kernels for Prescott: a product of .* comes out wrong)$' "$work/err" && good || bad 'wrong kernels unsaid'
    run env CORES="$all" BAD=Haswell OPENBLAS_CORETYPE=Haswell "$bare/ballast-exec" "$work/p.json" --gemm blas
    refused "the user's wrong kernels" "error: the BLAS's kernels for Haswell, OPENBLAS_CORETYPE=Haswell: a product of "
else
    echo "skipped: $0 (no x86 with AVX2 and FMA, or a sanitizer: choice of kernels)"
fi
echo "$passed $failed 0"
[ "$failed" = 0 ]
