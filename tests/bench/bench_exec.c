/* tests/bench/bench_exec.c - Newton-Schulz through the BLAS against the BLAS's own rate.
 *
 * Five standard steps on an n x n matrix are 15 products of n^3 and some elementwise work. The same 15 products are timed
 * alone, in turn with the iteration so that both see the same machine; the least time of each counts.
 * Goal: at 1024^2 Newton-Schulz reaches 85 % of the rate of the products. Printed as PASS or FAIL; the exit status is 0.
 * Needs ballast-blas.so in $BUILD (default build). `make bench-exec` also runs the layouts side by side (bench_exec.sh).
 */
#include "core/mem.h"
#include "kernels/kernels.h"
#include "kernels/optimizer.h"

#include <dlfcn.h>
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

static void compare(const struct kernel_gemm *g, size_t n)
{
    float *a = MEM_NEW(float, n *n), *b = MEM_NEW(float, n *n), *c = MEM_NEW(float, n *n);
    struct kernel_newton_schulz ns = {.rows = n, .cols = n, .hyper = KERNEL_NS_DEFAULTS, .x = a};
    struct kernel_on on = {.gemm = g, .workspace_bytes = kernel_newton_schulz_workspace(n, n)};
    double ns_s = 1e9, gemm_s = 1e9, flops = 2.0 * 3 * STEPS * (double)n * (double)n * (double)n;

    on.workspace = mem_alloc(1, on.workspace_bytes);
    ns.hyper.steps = STEPS;
    fill(b, n * n);
    for (int r = 0; r < REPEATS; r++) {
        double start;

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
    printf("%5zu^2  Newton-Schulz %7.1f GFLOP/s  products alone %7.1f GFLOP/s  %5.1f %%%s\n", n,
           flops / ns_s / 1e9, flops / gemm_s / 1e9, 100 * gemm_s / ns_s,
           n != 1024               ? ""
           : gemm_s / ns_s >= 0.85 ? "  PASS (>= 85 %)"
                                   : "  FAIL (>= 85 %)");
    mem_free(on.workspace);
    mem_free(a);
    mem_free(b);
    mem_free(c);
}

int main(void)
{
    const char *build = getenv("BUILD");
    const char *(*core)(void) = NULL;
    const struct kernel_gemm *g;
    char path[4096];
    void *h;

    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    snprintf(path, sizeof(path), "%s/ballast-blas.so", build ? build : "build");
    h = dlopen(path, RTLD_NOW);
    g = h ? dlsym(h, "blas_library") : NULL;
    if (!g) {
        printf("skipped: no %s\n", path);
        return 0;
    }
    *(void **)&core = dlsym(h, "blas_core");
    printf("Newton-Schulz, %d steps, fp32, one thread, OpenBLAS kernels: %s\n", STEPS, core());
    compare(g, 256);
    compare(g, 512);
    compare(g, 1024);
    return 0;
}
