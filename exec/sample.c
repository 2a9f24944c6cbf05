#include "exec/sample.h"

#include <string.h>
#include <time.h>

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return a < b ? -1 : a > b;
}

static double median(double *x, size_t n)
{
    qsort(x, n, sizeof(*x), by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* ---- in place ---- */

/* What the collectives of one step took, the least over ranks. */
static int collectives(struct exec_run *r, double *of_step, struct err *e)
{
    double *mine = MEM_NEW(double, r->n_times), *all;
    size_t n = 0, k = 0;
    int status;

    for (size_t i = 0; i < r->n_times; i++)
        if (r->p->ops[r->times[i].id.op].kind == OP_COLLECTIVE)
            mine[n++] = of_step[i];
    all = MEM_NEW(double, n * r->t->size);
    status = n ? transport_all_gather_control(r->t, mine, n * sizeof(*mine), all, e) : 0;
    for (size_t i = 0; i < r->n_times && !status; i++)
        if (r->p->ops[r->times[i].id.op].kind == OP_COLLECTIVE) {
            for (uint32_t j = 0; j < r->t->size; j++)
                of_step[i] = all[j * n + k] < of_step[i] ? all[j * n + k] : of_step[i];
            k++;
        }
    mem_free(all);
    mem_free(mine);
    return status;
}

int sample_steps(const struct plan *plan, const struct program *p, struct transport *t,
                 const struct kernel_gemm *gemm, const struct run_options *o, uint32_t steps,
                 struct arena *a, struct sample **out, size_t *n, struct err *e)
{
    struct exec_run r;
    double *s = NULL, *column = MEM_NEW(double, steps);
    int status = exec_init(&r, plan, p, t, gemm, o, e);

    *n = 0;
    for (uint32_t i = 0; i <= steps && !status; i++) {
        status = exec_step(&r, e);
        if (status || i == 0)
            continue;
        if (!s) {
            *n = r.n_times;
            s = MEM_NEW(double, steps **n);
        }
        for (size_t k = 0; k < *n; k++)
            s[(i - 1) * *n + k] = r.times[k].end_s - r.times[k].start_s;
        status = collectives(&r, s + (i - 1) * *n, e);
    }
    *out = ARENA_NEW(a, struct sample, *n);
    for (size_t k = 0; k < *n && !status; k++) {
        for (uint32_t i = 0; i < steps; i++)
            column[i] = s[i * *n + k];
        (*out)[k] = (struct sample){r.times[k].id, median(column, steps)};
    }
    mem_free(column);
    mem_free(s);
    exec_release(&r);
    return status;
}

/* ---- alone ---- */

enum { REPEAT = 5 };

double sample_gemm(const struct kernel_gemm *g, uint64_t m, uint64_t n, uint64_t k)
{
    float *a = MEM_NEW(float, m *k), *b = MEM_NEW(float, k *n), *c = MEM_NEW(float, m *n);
    double x[REPEAT], once;
    uint32_t calls = 1;

    for (uint64_t i = 0; i < m * k; i++)
        a[i] = (float)(i % 7) - 3;
    for (uint64_t i = 0; i < k * n; i++)
        b[i] = (float)(i % 5) - 2;
    for (int r = -1; r < REPEAT; r++) { /* the first one tells how many fill 5 ms */
        double start = now_s();

        for (uint32_t i = 0; i < calls; i++)
            g->fn(g->ctx, false, false, m, n, k, 1, a, k, b, n, 0, c, n);
        once = (now_s() - start) / calls;
        if (r < 0)
            calls = once < 5e-3 ? 1 + (uint32_t)(5e-3 / (once > 1e-7 ? once : 1e-7)) : 1;
        else
            x[r] = once;
    }
    mem_free(a);
    mem_free(b);
    mem_free(c);
    return median(x, REPEAT);
}

double sample_copy_Bps(size_t bytes)
{
    char *a = MEM_NEW(char, bytes), *b = MEM_NEW(char, bytes);
    double x[REPEAT];

    memset(a, 1, bytes);
    memset(b, 2, bytes);
    for (int r = 0; r < REPEAT; r++) {
        double start = now_s();

        memcpy(r % 2 ? a : b, r % 2 ? b : a, bytes);
        x[r] = now_s() - start;
    }
    mem_free(a);
    mem_free(b);
    return 2 * (double)bytes / median(x, REPEAT);
}

static void nothing(void *x)
{
    (void)x;
}

double sample_call_s(void)
{
    enum { CALLS = 1000000 };
    void (*volatile fn)(void *) = nothing;
    double start = now_s();

    for (int i = 0; i < CALLS; i++)
        fn(NULL);
    return (now_s() - start) / CALLS;
}

static int one_collective(struct transport *t, const struct coll_group *g, enum coll_kind kind,
                          char *data, size_t bytes, char *scratch, uint32_t tag, struct err *e)
{
    struct coll_call c = {.kind = kind,
                          .dtype = DTYPE_FP32,
                          .tag = tag,
                          .data = data,
                          .chunk_bytes = bytes / g->n,
                          .scratch = scratch};
    struct transport_request q = {0};

    if (kind != COLL_SEND)
        return collective_run(t, g, &c, e);
    if (g->self == 0)
        return t->lib->isend(t, g->n - 1, tag, data, bytes, &q, e) || t->lib->wait(t, &q, 1, e);
    if (g->self == g->n - 1)
        return t->lib->irecv(t, 0, tag, data, bytes, &q, e) || t->lib->wait(t, &q, 1, e);
    return 0;
}

int sample_collective(struct transport *t, enum coll_kind kind, uint32_t n, size_t bytes, double *s,
                      struct err *e)
{
    uint32_t *ranks = MEM_NEW(uint32_t, t->size);
    const struct coll_group g = {ranks, n, t->rank, t->size};
    struct coll_call c = {.kind = kind, .dtype = DTYPE_FP32};
    uint32_t calls = bytes < 1 << 20 ? 20 : 4;
    char *data, *scratch;
    double x[REPEAT], *all = MEM_NEW(double, t->size);
    int status = 0;

    for (uint32_t i = 0; i < t->size; i++)
        ranks[i] = i;
    bytes = bytes / (sizeof(float) * n) * (sizeof(float) * n);
    c.chunk_bytes = bytes / n;
    data = MEM_NEW(char, bytes);
    scratch = MEM_NEW(char, kind == COLL_SEND ? 1 : collective_scratch_bytes(&c, &g));
    for (int r = -1; r < REPEAT && !status; r++) {
        double start, mine;

        status = transport_barrier(t, e);
        start = now_s();
        for (uint32_t i = 0; i < calls && !status && t->rank < n; i++)
            status = one_collective(t, &g, kind, data, bytes, scratch, 1 + i, e) ? -1 : 0;
        mine = (now_s() - start) / calls;
        if (!status)
            status = transport_all_gather_control(t, &mine, sizeof(mine), all, e);
        for (uint32_t i = 0; i < n; i++)
            mine = all[i] > mine ? all[i] : mine;
        if (r >= 0)
            x[r] = mine;
    }
    *s = status ? 0 : median(x, REPEAT);
    mem_free(data);
    mem_free(scratch);
    mem_free(all);
    mem_free(ranks);
    return status;
}
