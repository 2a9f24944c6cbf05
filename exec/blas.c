#include "exec/blas.h"

#include "core/mem.h"
#include "exec/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- is it right? ---- */

struct shape {
    size_t m, n, k;
};

/* Small ones have kernels of their own; long ones span several blocks of every level, a side each. */
static const struct shape shapes[] = {{1, 1, 1},      {3, 5, 7},      {16, 16, 16},
                                      {31, 33, 17},   {64, 48, 80},   {700, 20, 12},
                                      {20, 1500, 12}, {20, 24, 1100}, {129, 67, 101}};

static float number(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return (float)(*seed >> 8) / 16777216.0f - 0.5f;
}

static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = number(&seed);
}

/* The first element that is wrong, or m * n. Both operands lie in rows that are longer than they need. */
static size_t wrong(const struct kernel_gemm *g, const struct shape *s, bool ta, bool tb,
                    float beta)
{
    size_t lda = (ta ? s->m : s->k) + 3, ldb = (tb ? s->k : s->n) + 1, ldc = s->n + 2;
    size_t n_a = (ta ? s->k : s->m) * lda, n_b = (tb ? s->n : s->k) * ldb, n_c = s->m * ldc, at = 0;
    float *a = MEM_NEW(float, n_a), *b = MEM_NEW(float, n_b), *c = MEM_NEW(float, n_c);
    float *before = MEM_NEW(float, n_c), alpha = 0.75f;

    fill(a, n_a, 1);
    fill(b, n_b, 2);
    fill(c, n_c, 3);
    memcpy(before, c, n_c * sizeof(*c));
    g->fn(g->ctx, ta, tb, s->m, s->n, s->k, alpha, a, lda, b, ldb, beta, c, ldc);
    for (; at < s->m * s->n; at++) {
        size_t i = at / s->n, j = at % s->n;
        double sum = 0, size = fabs((double)beta * (double)before[i * ldc + j]), want;

        for (size_t l = 0; l < s->k; l++) {
            double x = (double)(ta ? a[l * lda + i] : a[i * lda + l]) *
                       (double)(tb ? b[j * ldb + l] : b[l * ldb + j]);

            sum += x;
            size += fabs(x);
        }
        want = (double)alpha * sum + (double)beta * (double)before[i * ldc + j];
        /* a sum of k products in any order */
        if (!(fabs((double)c[i * ldc + j] - want) <= (double)(s->k + 4) * 0x1p-23 * size))
            break;
    }
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(before);
    return at;
}

int blas_check(const struct kernel_gemm *g, struct err *e)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        for (int k = 0; k < 8; k++) {
            const struct shape *s = &shapes[i];
            bool ta = k & 1, tb = k & 2;

            if (wrong(g, s, ta, tb, k & 4 ? 0.5f : 0) < s->m * s->n)
                return err_set(e, ERR_EXTERNAL,
                               "a product of %zu x %zu and %zu x %zu (%s, %s) comes out wrong",
                               s->m, s->k, s->k, s->n, ta ? "transposed" : "as it is",
                               tb ? "transposed" : "as it is");
        }
    return 0;
}

/* ---- which kernels? ---- */

/* Core types by the width of what they compute with, and the flags that a processor has to have for the one we ask for. What is in no
 * row is of the narrowest. */
static const struct width {
    const char *ask;
    const char *flags[6];
    const char *cores[10]; /* those of this width, as the library calls them */
} widths[] = {
    {"SkylakeX",
     {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", NULL},
     {"SkylakeX", "Cooperlake", "SapphireRapids", NULL}},
    {"Haswell", {"avx2", "fma", NULL}, {"Haswell", "Zen", "Excavator", NULL}},
    {"Sandybridge", {"avx", NULL}, {"Sandybridge", "Bulldozer", "Piledriver", "Steamroller", NULL}},
};
enum { N_WIDTHS = sizeof(widths) / sizeof(widths[0]) };

static bool among(const char *name, const char *const *list)
{
    while (*list && strcasecmp(*list, name))
        list++;
    return *list;
}

static bool has(const char *flags, const char *flag)
{
    size_t n = strlen(flag);

    for (const char *p = flags; (p = strstr(p, flag)); p += n)
        if ((p == flags || strchr(" \t", p[-1])) && (!p[n] || strchr(" \t\n", p[n])))
            return true;
    return false;
}

void blas_faster(const char *core, const char *flags, const char *faster[BLAS_MAX_CORES])
{
    int n = 0;

    for (int w = 0; w < N_WIDTHS && !among(core, widths[w].cores); w++) {
        bool all = true;

        for (const char *const *f = widths[w].flags; *f; f++)
            all &= has(flags, *f);
        if (all)
            faster[n++] = widths[w].ask;
    }
    faster[n] = NULL;
}

static const char *core_of(void *handle)
{
    const char *(*core)(void) = NULL;

    *(void **)&core = dlsym(handle, "blas_core");
    return core ? core() : "";
}

/* What the processor can do, as Linux on x86 says; "" elsewhere: nothing is chosen there. */
static void read_flags(char *line, size_t n)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    bool found = false;

    while (f && !found && fgets(line, (int)n, f))
        found = !strncmp(line, "flags", 5);
    if (!found)
        *line = 0;
    if (f)
        fclose(f);
}

/* In a process of its own: the core type that the library takes when it is asked for `ask` (NULL: for none), and whether its products
 * are right. False, and no name, when the process does not come back with one. */
static bool try_core(const char *path, const char *ask, char *core, size_t n)
{
    int ends[2], status = 0;
    ssize_t got = 0;
    pid_t child;

    memset(core, 0, n);
    if (pipe(ends))
        return false;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        struct blas b;
        struct err e;

        dup2(nowhere, STDERR_FILENO); /* what OpenBLAS says of a name that it does not know */
        if (ask)
            setenv("OPENBLAS_CORETYPE", ask, 1);
        b.handle = dlopen(path, RTLD_NOW);
        b.gemm = b.handle ? dlsym(b.handle, "blas_library") : NULL;
        if (!b.gemm)
            _exit(2);
        b.core = core_of(b.handle);
        if (write(ends[1], b.core, strlen(b.core)) < 0)
            _exit(2);
        alarm(10);
        _exit(blas_check(b.gemm, &e) ? 1 : 0);
    }
    close(ends[1]);
    if (child > 0) {
        got = read(ends[0], core, n - 1);
        waitpid(child, &status, 0);
    }
    close(ends[0]);
    return child > 0 && got >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void blas_choose(const char *path)
{
    char line[8192], core[64], got[64];
    const char *faster[BLAS_MAX_CORES];
    bool right;

    if (getenv("OPENBLAS_CORETYPE") || access(path, R_OK))
        return;
    right = try_core(path, NULL, core, sizeof(core));
    if (!*core) /* another BLAS, or none: blas_open() says what is wrong with it */
        return;
    read_flags(line, sizeof(line));
    blas_faster(core, line, faster);
    for (int i = 0; faster[i]; i++)
        if (try_core(path, faster[i], got, sizeof(got)) && !strcasecmp(got, faster[i])) {
            setenv("OPENBLAS_CORETYPE", faster[i], 1);
            return;
        }
    if (right)
        return;
    /* its own choice is wrong, and nothing above it is right: what is below */
    for (int w = 0; w < N_WIDTHS; w++)
        if (strcasecmp(core, widths[w].ask) && try_core(path, widths[w].ask, got, sizeof(got))) {
            setenv("OPENBLAS_CORETYPE", widths[w].ask, 1);
            return;
        }
}

int blas_open(struct blas *b, const char *path, struct err *e)
{
    const char *asked = getenv("OPENBLAS_CORETYPE");
    const void *object;

    memset(b, 0, sizeof(*b));
    b->handle = library_load(path, "blas_library", false, &object, e);
    if (!b->handle)
        return err_prefix(e, "the BLAS");
    b->gemm = object;
    b->core = core_of(b->handle);
    if (!blas_check(b->gemm, e))
        return 0;
    return err_prefix(e, "the BLAS's kernels for %s%s%s", *b->core ? b->core : "this processor",
                      asked ? ", OPENBLAS_CORETYPE=" : "", asked ? asked : "");
}
