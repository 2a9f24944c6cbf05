/* tests/bench/bench_exec.c - Newton-Schulz through the BLAS against the BLAS's own rate, and that against the core's.
 *
 * Five standard steps on an n x n matrix are 15 products of n^3 and some elementwise work. The same 15 products are timed
 * alone, in turn with the iteration so that both see the same machine; the least time of each counts.
 * Goals: at 1024^2 Newton-Schulz reaches 85 % of the rate of the products, and the products 70 % of what one core does in
 * fused multiply-adds on registers (exec/peak.h): a BLAS with kernels of another processor does not. Printed as PASS or FAIL; the
 * exit status is 0. The kernels are chosen as exec chooses them (exec/blas.h).
 * Needs ballast-blas.so in $BUILD (default build). `make bench-exec` also runs the layouts side by side (bench_exec.sh).
 */
#include "core/mem.h"
#include "exec/blas.h"
#include "exec/peak.h"
#include "kernels/kernels.h"
#include "kernels/optimizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REPEATS = 9, STEPS = 5 };

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(float *x, size_t n)
{
    uint32_t s = 1;

    for (size_t i = 0; i < n; i++) {
        s = s * 1664525 + 1013904223;
        x[i] = (float)(s >> 8) / 16777216.0f - 0.5f;
    }
}

static const char *goal(bool asked, bool reached)
{
    return !asked ? "" : reached ? " PASS" : " FAIL";
}

static void compare(const struct kernel_gemm *g, size_t n)
{
    float *a = MEM_NEW(float, n *n), *b = MEM_NEW(float, n *n), *c = MEM_NEW(float, n *n);
    struct kernel_newton_schulz ns = {.rows = n, .cols = n, .hyper = KERNEL_NS_DEFAULTS, .x = a};
    struct kernel_on on = {.gemm = g, .workspace_bytes = kernel_newton_schulz_workspace(n, n)};
    double ns_s = 1e9, gemm_s = 1e9, flops = 2.0 * 3 * STEPS * (double)n * (double)n * (double)n;

    double peak = 0;
    const char *how;

    on.workspace = mem_alloc(1, on.workspace_bytes);
    ns.hyper.steps = STEPS;
    fill(b, n * n);
    for (int r = 0; r < REPEATS; r++) {
        double start, now = peak_flops(&how);

        peak = now > peak ? now : peak;
        fill(a, n * n);
        start = now_s();
        kernel_newton_schulz(&on, &ns);
        ns_s = now_s() - start < ns_s ? now_s() - start : ns_s;
        fill(a, n * n);
        start = now_s();
        for (int k = 0; k < 3 * STEPS; k++) /* X X^T, A A, B X */
            g->fn(g->ctx, false, k % 3 == 0, n, n, n, 1, a, n, b, n, 0, c, n);
        gemm_s = now_s() - start < gemm_s ? now_s() - start : gemm_s;
    }
    printf("%5zu^2  Newton-Schulz %7.1f GFLOP/s  products alone %7.1f GFLOP/s  %5.1f %%%s", n,
           flops / ns_s / 1e9, flops / gemm_s / 1e9, 100 * gemm_s / ns_s,
           goal(n == 1024, gemm_s / ns_s >= 0.85));
    if (peak > 0)
        printf("  of the core's %.1f %5.1f %%%s", peak / 1e9, 100 * flops / gemm_s / peak,
               goal(n == 1024, flops / gemm_s >= 0.7 * peak));
    printf("\n");
    mem_free(on.workspace);
    mem_free(a);
    mem_free(b);
    mem_free(c);
}

int main(void)
{
    const char *build = getenv("BUILD"), *how = "";
    struct err e = {0};
    struct blas blas;
    char path[4096];
    double peak;

    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    snprintf(path, sizeof(path), "%s/ballast-blas.so", build ? build : "build");
    blas_choose(path);
    if (blas_open(&blas, path, &e)) {
        printf("skipped: %s\n", e.msg);
        return 0;
    }
    printf("Newton-Schulz, %d steps, fp32, one thread, OpenBLAS kernels: %s%s\n", STEPS, blas.core,
           getenv("OPENBLAS_CORETYPE") ? " (OPENBLAS_CORETYPE)" : " (its own choice)");
    peak = peak_flops(&how);
    printf("a core's peak: %s%s\n",
           peak > 0 ? "measured between the others, fused multiply-adds on registers of " : "",
           how);
    printf("goals at 1024^2: Newton-Schulz 85 %% of the products alone, these 70 %% of the peak\n");
    compare(blas.gemm, 256);
    compare(blas.gemm, 512);
    compare(blas.gemm, 1024);
    return 0;
}
