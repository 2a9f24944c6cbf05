#include "exec/sample.h"

#include <string.h>

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

int sample_collectives(struct exec_run *r, double *of_step, struct err *e)
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

int sample_steps(const struct plan *plan, const struct program *p, struct backend *b,
                 const struct run_options *o, uint32_t steps, struct arena *a, struct sample **out,
                 size_t *n, struct err *e)
{
    struct exec_run r;
    double *s = NULL, *column = MEM_NEW(double, steps);
    int status = exec_init(&r, plan, p, b, o, e);

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
        status = sample_collectives(&r, s + (i - 1) * *n, e);
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

/* Room on the backend, filled with small numbers of a type. */
static void *filled(struct backend *b, enum dtype d, size_t n)
{
    enum { BLOCK = 1 << 16 };
    size_t bytes = dtype_bytes(d, n);
    float *f = MEM_NEW(float, BLOCK);
    char *host = mem_alloc(BLOCK, sizeof(*f)), *x = backend_alloc(b, STREAM_COMPUTE, bytes);

    for (size_t i = 0; i < BLOCK; i++)
        f[i] = (float)(i % 7) - 3;
    dtype_store(d, f, host, BLOCK);
    for (size_t i = 0; i < n; i += BLOCK)
        b->lib->upload(b, STREAM_COMPUTE, x + dtype_bytes(d, i), host,
                       dtype_bytes(d, n - i < BLOCK ? n - i : BLOCK));
    b->lib->sync(b);
    mem_free(host);
    mem_free(f);
    return x;
}

/* Seconds of one call, median of some series of them. */
static double repeated(struct backend *b, void (*call)(struct backend *b, const void *args),
                       const void *args)
{
    double took[REPEAT], once;
    uint32_t calls = 1;

    for (int r = -1; r < REPEAT; r++) { /* the first one tells how many fill 5 ms */
        double start = backend_now_s(b);

        for (uint32_t i = 0; i < calls; i++)
            call(b, args);
        b->lib->sync(b);
        once = (backend_now_s(b) - start) / calls;
        if (r < 0)
            calls = once < 5e-3 ? 1 + (uint32_t)(5e-3 / (once > 1e-7 ? once : 1e-7)) : 1;
        else
            took[r] = once;
    }
    return median(took, REPEAT);
}

static void call_gemm(struct backend *b, const void *args)
{
    b->lib->gemm(b, STREAM_COMPUTE, args);
}

static void call_symmetric(struct backend *b, const void *args)
{
    const struct kernel_on on = {.act = DTYPE_BF16, .weight = DTYPE_BF16, .grad = DTYPE_BF16};

    launch_symmetric(b, STREAM_COMPUTE, &on, args);
}

double sample_symmetric(struct backend *b, uint64_t n, uint64_t k)
{
    void *x = filled(b, DTYPE_BF16, n * k), *c = filled(b, DTYPE_BF16, n * n);
    const struct kernel_symmetric a = {.n = n, .k = k, .alpha = 1, .x = x, .c = c};
    double s = repeated(b, call_symmetric, &a);

    backend_free(b, STREAM_COMPUTE, x, dtype_bytes(DTYPE_BF16, n * k));
    backend_free(b, STREAM_COMPUTE, c, dtype_bytes(DTYPE_BF16, n * n));
    return s;
}

double sample_gemm(struct backend *b, enum dtype d, uint64_t m, uint64_t n, uint64_t k)
{
    void *x = filled(b, d, m * k), *y = filled(b, d, k * n), *z = filled(b, d, m * n);
    const struct backend_gemm g = {.m = m,
                                   .n = n,
                                   .k = k,
                                   .alpha = 1,
                                   .a = x,
                                   .b = y,
                                   .c = z,
                                   .a_type = d,
                                   .b_type = d,
                                   .c_type = d,
                                   .lda = k,
                                   .ldb = n,
                                   .ldc = n};
    double s = repeated(b, call_gemm, &g);

    backend_free(b, STREAM_COMPUTE, x, dtype_bytes(d, m * k));
    backend_free(b, STREAM_COMPUTE, y, dtype_bytes(d, k * n));
    backend_free(b, STREAM_COMPUTE, z, dtype_bytes(d, m * n));
    return s;
}

double sample_orthogonalize(struct backend *b, enum dtype d, enum kernel_ns_form form,
                            uint64_t rows, uint64_t cols, uint32_t steps)
{
    uint64_t n = rows * cols;
    void *x = filled(b, d, n), *y = backend_alloc(b, STREAM_COMPUTE, dtype_bytes(d, n));
    const struct kernel_on on = {.act = d,
                                 .weight = d,
                                 .grad = d,
                                 .workspace_bytes = kernel_orthogonalize_workspace(rows, cols)};
    struct kernel_orthogonalize a = {
        .rows = rows, .cols = cols, .hyper = KERNEL_NS_DEFAULTS, .type = d, .matrix = y};
    double took[REPEAT];

    a.hyper.steps = steps;
    a.hyper.form = form;
    a.hyper.stored = d;
    for (int r = -1; r < REPEAT; r++) { /* the first one warms up */
        double start;

        b->lib->copy(b, STREAM_COMPUTE, y, x, dtype_bytes(d, n));
        b->lib->sync(b);
        start = backend_now_s(b);
        launch_orthogonalize(b, STREAM_COMPUTE, &on, &a);
        b->lib->sync(b);
        if (r >= 0)
            took[r] = backend_now_s(b) - start;
    }
    backend_free(b, STREAM_COMPUTE, x, dtype_bytes(d, n));
    backend_free(b, STREAM_COMPUTE, y, dtype_bytes(d, n));
    return median(took, REPEAT);
}

double sample_copy_Bps(struct backend *b, size_t bytes)
{
    char *x = filled(b, DTYPE_FP32, bytes / 4), *y = filled(b, DTYPE_FP32, bytes / 4);
    double took[REPEAT];

    for (int r = 0; r < REPEAT; r++) {
        double start = backend_now_s(b);

        b->lib->copy(b, STREAM_COMPUTE, r % 2 ? x : y, r % 2 ? y : x, bytes);
        b->lib->sync(b);
        took[r] = backend_now_s(b) - start;
    }
    backend_free(b, STREAM_COMPUTE, x, bytes);
    backend_free(b, STREAM_COMPUTE, y, bytes);
    return 2 * (double)bytes / median(took, REPEAT);
}

double sample_launch_s(struct backend *b)
{
    enum { CALLS = 10000 };
    const struct kernel_on on = {.act = DTYPE_FP32, .weight = DTYPE_FP32, .grad = DTYPE_FP32};
    float *x = filled(b, DTYPE_FP32, 1);
    const struct kernel_scale a = {.n = 1, .type = DTYPE_FP32, .alpha = 1, .x = x};
    double took[REPEAT];

    for (int r = 0; r < REPEAT; r++) {
        double start = backend_now_s(b);

        for (int i = 0; i < CALLS; i++)
            launch_scale(b, STREAM_COMPUTE, &on, &a);
        b->lib->sync(b);
        took[r] = (backend_now_s(b) - start) / CALLS;
    }
    backend_free(b, STREAM_COMPUTE, x, sizeof(*x));
    return median(took, REPEAT);
}

/* Bytes from rank 0 to the group's last, over the transport. */
static int send_across(struct transport *t, uint32_t n, char *data, size_t bytes, uint32_t tag,
                       struct err *e)
{
    struct transport_request q = {0};

    if (t->rank == 0)
        return t->lib->isend(t, n - 1, tag, data, bytes, &q, e) || t->lib->wait(t, &q, 1, e);
    if (t->rank == n - 1)
        return t->lib->irecv(t, 0, tag, data, bytes, &q, e) || t->lib->wait(t, &q, 1, e);
    return 0;
}

static int one_call(struct backend *b, const struct coll_group *g, const struct coll_call *c,
                    size_t bytes, uint32_t tag, struct err *e)
{
    if (c->kind == COLL_SEND)
        return send_across(b->t, g->n, c->data, bytes, tag, e);
    b->lib->collective(b, STREAM_GATHER, g, c);
    b->lib->sync(b);
    return backend_status(b, e);
}

int sample_collective(struct backend *b, enum coll_kind kind, uint32_t n, size_t bytes, double *s,
                      struct err *e)
{
    struct transport *t = b->t;
    uint32_t *ranks = MEM_NEW(uint32_t, t->size);
    const struct coll_group g = {ranks, n, t->rank, t->size};
    struct coll_call c = {.kind = kind, .dtype = DTYPE_FP32};
    uint32_t calls = bytes < 1 << 20 ? 20 : 4;
    double x[REPEAT], *all = MEM_NEW(double, t->size);
    int status = 0;

    for (uint32_t i = 0; i < t->size; i++)
        ranks[i] = i;
    bytes = bytes / (sizeof(float) * n) * (sizeof(float) * n);
    c.chunk_bytes = bytes / n;
    c.data = filled(b, DTYPE_FP32, bytes / sizeof(float));
    for (int r = -1; r < REPEAT && !status; r++) {
        double start, mine;

        status = transport_barrier(t, e);
        start = backend_now_s(b);
        for (uint32_t i = 0; i < calls && !status && t->rank < n; i++)
            status = one_call(b, &g, &c, bytes, 1 + i, e) ? -1 : 0;
        mine = (backend_now_s(b) - start) / calls;
        if (!status)
            status = transport_all_gather_control(t, &mine, sizeof(mine), all, e);
        for (uint32_t i = 0; i < n; i++)
            mine = all[i] > mine ? all[i] : mine;
        if (r >= 0)
            x[r] = mine;
    }
    *s = status ? 0 : median(x, REPEAT);
    backend_free(b, STREAM_COMPUTE, c.data, bytes);
    mem_free(all);
    mem_free(ranks);
    return status;
}
