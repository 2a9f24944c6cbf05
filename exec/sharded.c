/* Newton-Schulz on shards, as zero3+stock has it: X (rows, cols) stays cut by rows, each rank makes its own rows of every
 * product, and what a product needs whole is gathered before it, in the wire's dtype. A step, m the smaller side:
 *   gather X;  A_i: own ceil(m/W) rows of X X^T (wide) or X^T X (tall);  gather A;  gather X again
 *   wide: B_i = b A_i + c A_i A,  X_i = a X_i + B_i X
 *   tall: Y = X_i A,  X_i = a X_i + b Y + c Y A  (X is gathered as for wide ones, and not needed whole)
 * The norm that X starts with is taken of the gathered X. Sums run over the same indices in the same order as in
 * kernel_newton_schulz() for wide matrices; tall ones associate differently; and with a wire below fp32, X and A are
 * rounded at every gather where the kernel rounds once. */
#include "exec/run.h"

#include "core/num.h"
#include "kernels/optimizer.h"

#include <math.h>
#include <string.h>

struct sharded {
    struct exec_run *r;
    const struct op *gather_x, *gather_a;
    uint32_t n_x, n_a; /* gathers done */
    enum dtype d;      /* of the wire */
    uint64_t rows, cols, m, room, chunk_a;
    uint64_t first, n;     /* own rows of X */
    uint64_t a_first, a_n; /* own rows of A */
    char *shards;          /* W parts of `room` elements */
    char *parts;           /* W parts of `chunk_a` elements */
    float *x, *a, *b, *y;  /* (rows, cols), (m, m), (rows or m, m), (n, cols) */
};

static int gather(struct sharded *s, bool of_a, float *to, uint64_t elements)
{
    const struct op *o = of_a ? s->gather_a : s->gather_x;
    struct coll_call c = {.kind = COLL_ALL_GATHER,
                          .dtype = s->d,
                          .data = of_a ? s->parts : s->shards,
                          .chunk_bytes = dtype_bytes(s->d, of_a ? s->chunk_a : s->room)};

    BUG_ON(++*(of_a ? &s->n_a : &s->n_x) > o->coll.repeat);
    if (run_call(s->r, &c))
        return -1;
    dtype_load(s->d, c.data, to, elements);
    return 0;
}

static void store_own(struct sharded *s)
{
    dtype_store(s->d, s->x + s->first * s->cols,
                s->shards + dtype_bytes(s->d, s->r->t->rank * s->room), s->n * s->cols);
}

static void gemm(const struct sharded *s, bool ta, bool tb, uint64_t m, uint64_t n, uint64_t k,
                 float alpha, const float *a, const float *b, float beta, float *c)
{
    bool of_x = ta; /* X^T X of a tall matrix: columns of X, a row apart */

    if (m)
        s->r->gemm->fn(s->r->gemm->ctx, ta, tb, m, n, k, alpha, a, of_x ? s->cols : k, b,
                       tb ? k : n, beta, c, n);
}

static void scale(float *x, uint64_t n, double norm2, float eps)
{
    double norm = sqrt(norm2);
    float by = (float)(1 / (norm < (double)eps ? (double)eps : norm));

    for (uint64_t i = 0; i < n; i++)
        x[i] *= by;
}

static int step(struct sharded *s, const struct kernel_ns_hyper *h, bool first)
{
    bool wide = s->rows <= s->cols;
    struct kernel_on on = {.act = DTYPE_FP32, .weight = DTYPE_FP32, .grad = DTYPE_FP32};
    float *xi = s->x + s->first * s->cols, *ai = s->a + s->a_first * s->m;
    uint64_t all = s->rows * s->cols;

    if (gather(s, false, s->x, all))
        return -1;
    if (first)
        scale(s->x, all, kernel_norm2(&on, DTYPE_FP32, s->x, all), h->eps);
    if (wide)
        gemm(s, false, true, s->a_n, s->m, s->cols, 1, s->x + s->a_first * s->cols, s->x, 0, ai);
    else
        gemm(s, true, false, s->a_n, s->m, s->rows, 1, s->x + s->a_first, s->x, 0, ai);
    dtype_store(s->d, ai, s->parts + dtype_bytes(s->d, s->r->t->rank * s->chunk_a), s->a_n * s->m);
    store_own(s); /* scaled in the first step */
    if (gather(s, true, s->a, s->m * s->m) || gather(s, false, s->x, all))
        return -1;
    if (wide) {
        memcpy(s->b, ai, s->a_n * s->m * sizeof(*s->b));
        gemm(s, false, false, s->a_n, s->m, s->m, h->c, ai, s->a, h->b, s->b);
        memcpy(s->y, xi, s->n * s->cols * sizeof(*s->y));
        gemm(s, false, false, s->n, s->cols, s->m, 1, s->b, s->x, h->a, s->y);
    } else {
        gemm(s, false, false, s->n, s->m, s->m, 1, xi, s->a, 0, s->b);
        for (uint64_t i = 0; i < s->n * s->m; i++)
            s->y[i] = h->a * xi[i] + h->b * s->b[i];
        gemm(s, false, false, s->n, s->m, s->m, h->c, s->b, s->a, 1, s->y);
    }
    memcpy(xi, s->y, s->n * s->cols * sizeof(*s->y));
    store_own(s);
    return 0;
}

/* The op's gathers stand before it in its loop: the first moves X, the second A. */
static void find_gathers(struct sharded *s, const struct op *o)
{
    const struct loop *l = &s->r->p->loops[o->loop];

    for (uint32_t i = l->first_op; i < l->first_op + l->n_ops; i++) {
        const struct op *x = &s->r->p->ops[i];

        if (x->kind != OP_COLLECTIVE || !x->coll.interleaved)
            continue;
        if (s->gather_x)
            s->gather_a = x;
        else
            s->gather_x = x;
    }
    BUG_ON(!s->gather_x || !s->gather_a);
}

int run_sharded(struct exec_run *r, const struct op *o, const struct instance *i)
{
    uint32_t t = run_item(r, o, i), w = r->p->world;
    const struct tensor *x = &r->p->model->tensors[t];
    struct kernel_ns_hyper h = KERNEL_NS_DEFAULTS;
    struct sharded s = {.r = r, .d = run_travel(r), .rows = x->rows, .cols = x->cols};
    uint64_t rows_a;
    float *f;

    find_gathers(&s, o);
    s.m = num_min(x->rows, x->cols);
    s.room = r->held.t[t].room;
    s.first = r->held.t[t].first / x->cols;
    s.n = r->held.t[t].n / x->cols;
    rows_a = num_ceil_div(s.m, w);
    s.chunk_a = rows_a * s.m;
    s.a_first = num_min(r->t->rank * rows_a, s.m);
    s.a_n = num_min(s.a_first + rows_a, s.m) - s.a_first;
    s.shards = run_matrix(r, o, i);
    s.parts = run_scratch(r, SCRATCH_PACK, dtype_bytes(s.d, s.chunk_a * w));
    memset(s.parts, 0, dtype_bytes(s.d, s.chunk_a * w));
    f = run_scratch(r, SCRATCH_FP32, (3 * x->numel + 2 * s.m * s.m) * sizeof(*f));
    s.x = f;
    s.y = s.x + x->numel;
    s.a = s.y + x->numel;
    s.b = s.a + s.m * s.m;
    for (uint32_t k = 0; k < r->plan->job.ns_steps; k++)
        if (step(&s, &h, k == 0))
            return -1;
    BUG_ON(s.n_x != s.gather_x->coll.repeat || s.n_a != s.gather_a->coll.repeat);
    return 0;
}
