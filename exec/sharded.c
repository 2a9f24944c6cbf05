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

static const struct kernel_on fp32 = {DTYPE_FP32, DTYPE_FP32, DTYPE_FP32, NULL, NULL, 0, NULL};

static void cast(const struct sharded *s, enum dtype from, const void *x, enum dtype to, void *y,
                 uint64_t n)
{
    const struct kernel_cast a = {.n = n, .x_type = from, .y_type = to, .x = x, .y = y};

    launch_cast(s->r->b, s->r->stream, &fp32, &a);
}

static void gather(struct sharded *s, bool of_a, float *to, uint64_t elements)
{
    const struct op *o = of_a ? s->gather_a : s->gather_x;
    struct coll_call c = {.kind = COLL_ALL_GATHER,
                          .dtype = s->d,
                          .data = of_a ? s->parts : s->shards,
                          .chunk_bytes = dtype_bytes(s->d, of_a ? s->chunk_a : s->room)};

    BUG_ON(++*(of_a ? &s->n_a : &s->n_x) > o->coll.repeat);
    run_call(s->r, o, &c);
    cast(s, s->d, c.data, DTYPE_FP32, to, elements);
}

static void store_own(struct sharded *s)
{
    cast(s, DTYPE_FP32, s->x + s->first * s->cols, s->d,
         s->shards + dtype_bytes(s->d, s->r->place * s->room), s->n * s->cols);
}

static void gemm(const struct sharded *s, bool ta, bool tb, uint64_t m, uint64_t n, uint64_t k,
                 float alpha, const float *a, const float *b, float beta, float *c)
{
    bool of_x = ta; /* X^T X of a tall matrix: columns of X, a row apart */
    const struct backend_gemm g = {
        ta,         tb, m, n,          k,          alpha,      beta,
        a,          b,  c, DTYPE_FP32, DTYPE_FP32, DTYPE_FP32, of_x ? s->cols : k,
        tb ? k : n, n};

    if (m)
        s->r->b->lib->gemm(s->r->b, s->r->stream, &g);
}

static void step(struct sharded *s, const struct kernel_ns_hyper *h, bool first)
{
    bool wide = s->rows <= s->cols;
    struct exec_run *r = s->r;
    float *xi = s->x + s->first * s->cols, *ai = s->a + s->a_first * s->m;
    uint64_t all = s->rows * s->cols, own = s->n * s->cols;
    const struct kernel_normalize unit = {.n = all, .type = DTYPE_FP32, .eps = h->eps, .x = s->x};
    const struct kernel_scale by_a = {.n = own, .type = DTYPE_FP32, .alpha = h->a, .x = s->y};
    const struct kernel_axpy plus_b = {
        .n = own, .x_type = DTYPE_FP32, .y_type = DTYPE_FP32, .alpha = h->b, .x = s->b, .y = s->y};

    gather(s, false, s->x, all);
    if (first)
        launch_normalize(r->b, r->stream, &fp32, &unit);
    if (wide)
        gemm(s, false, true, s->a_n, s->m, s->cols, 1, s->x + s->a_first * s->cols, s->x, 0, ai);
    else
        gemm(s, true, false, s->a_n, s->m, s->rows, 1, s->x + s->a_first, s->x, 0, ai);
    cast(s, DTYPE_FP32, ai, s->d, s->parts + dtype_bytes(s->d, r->place * s->chunk_a),
         s->a_n * s->m);
    store_own(s); /* scaled in the first step */
    gather(s, true, s->a, s->m * s->m);
    gather(s, false, s->x, all);
    run_copy(r, s->y, xi, own * sizeof(*s->y));
    if (wide) {
        run_copy(r, s->b, ai, s->a_n * s->m * sizeof(*s->b));
        gemm(s, false, false, s->a_n, s->m, s->m, h->c, ai, s->a, h->b, s->b);
        gemm(s, false, false, s->n, s->cols, s->m, 1, s->b, s->x, h->a, s->y);
    } else {
        gemm(s, false, false, s->n, s->m, s->m, 1, xi, s->a, 0, s->b);
        launch_scale(r->b, r->stream, &fp32, &by_a);
        launch_axpy(r->b, r->stream, &fp32, &plus_b);
        gemm(s, false, false, s->n, s->m, s->m, h->c, s->b, s->a, 1, s->y);
    }
    run_copy(r, xi, s->y, own * sizeof(*s->y));
    store_own(s);
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

void run_sharded(struct exec_run *r, const struct op *o, const struct instance *i)
{
    uint32_t t = run_item(r, o, i), w = placement_parts(r->plan, STATE);
    const struct tensor *x = &r->p->model->tensors[t];
    struct kernel_ns_hyper h = r->o.hyper->ns;
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
    s.a_first = num_min(r->place * rows_a, s.m);
    s.a_n = num_min(s.a_first + rows_a, s.m) - s.a_first;
    s.shards = run_matrix(r, o, i);
    s.parts = run_scratch(r, SCRATCH_PACK, dtype_bytes(s.d, s.chunk_a * w));
    run_zero(r, s.parts, dtype_bytes(s.d, s.chunk_a * w));
    f = run_scratch(r, SCRATCH_FP32, (3 * x->numel + 2 * s.m * s.m) * sizeof(*f));
    s.x = f;
    s.y = s.x + x->numel;
    s.a = s.y + x->numel;
    s.b = s.a + s.m * s.m;
    for (uint32_t k = 0; k < r->plan->job.ns_steps; k++)
        step(&s, &h, k == 0);
    BUG_ON(s.n_x != s.gather_x->coll.repeat || s.n_a != s.gather_a->coll.repeat);
}
