#include "kernels/eigen.h"
#include "kernels/optimizer.h"
#include "kernels/precondition.h"
#include "kernels/storage.h"

#include <math.h>
#include <string.h>

static size_t side_state(size_t n, const struct kernel_soap_hyper *h)
{
    return n <= h->max_dim ? 2 * n * n + n : 0;
}

size_t kernel_soap_state(size_t rows, size_t cols, const struct kernel_soap_hyper *h)
{
    return 2 * rows * cols + side_state(rows, h) + side_state(cols, h);
}

/* The longest side that has a basis; 1 if there is none. */
static size_t longest(size_t rows, size_t cols, const struct kernel_soap_hyper *h)
{
    size_t r = rows <= h->max_dim ? rows : 1, c = cols <= h->max_dim ? cols : 1;

    return r > c ? r : c;
}

/* g, m, v, x, t (rows,cols); L, Q, P (d,d); eigenvalues twice, places */
static size_t floats(size_t rows, size_t cols, size_t d)
{
    size_t n = 5 * rows * cols + 3 * d * d + 3 * d;

    return n + n % 2; /* doubles follow */
}

size_t kernel_soap_workspace(size_t rows, size_t cols, const struct kernel_soap_hyper *h)
{
    size_t d = longest(rows, cols, h);

    return floats(rows, cols, d) * sizeof(float) + kernel_eigen_workspace(d);
}

/* One side and where its state lies. */
struct side {
    size_t n; /* 0: it keeps its axes */
    bool left;
    size_t stat, basis, values; /* elements of the state */
};

struct work {
    const struct kernel_on *on;
    const struct kernel_soap *a;
    struct side side[2];
    float *g, *m, *v, *x, *t; /* (rows, cols) */
    float *l, *q, *p;         /* (d,d) */
    float *values;            /* (d), twice: in the old order and sorted */
    uint32_t *place;          /* (d) */
    void *eigen;
};

static void gemm(const struct work *w, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha,
                 const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c)
{
    w->on->gemm->fn(w->on->gemm->ctx, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, n);
}

static void get(const struct work *w, size_t at, size_t n, float *to)
{
    dtype_load(w->a->state_type, at_const(w->a->state_type, w->a->state, at), to, n);
}

static void put(const struct work *w, const float *from, size_t at, size_t n)
{
    store(w->a->state_type, from, w->a->state, at, n);
}

/* x = QL^T x QR, or back: QL x QR^T */
static void rotate(const struct work *w, bool back, float *x)
{
    size_t rows = w->a->rows, cols = w->a->cols;

    for (int i = 0; i < 2; i++) {
        const struct side *s = &w->side[i];

        if (!s->n)
            continue;
        get(w, s->basis, s->n * s->n, w->q);
        if (s->left)
            gemm(w, !back, false, rows, cols, rows, 1, w->q, rows, x, cols, 0, w->t);
        else
            gemm(w, false, back, rows, cols, cols, 1, x, cols, w->q, cols, 0, w->t);
        memcpy(x, w->t, rows * cols * sizeof(*x));
    }
}

/* L = keep L + (1 - beta) g g^T; leaves it in w->l. */
static void accumulate(const struct work *w, const struct side *s, float keep)
{
    size_t cols = w->a->cols, n = s->n;

    if (keep != 0)
        get(w, s->stat, n * n, w->l);
    gemm(w, !s->left, s->left, n, n, s->left ? cols : w->a->rows, 1 - w->a->hyper.beta_shampoo,
         w->g, cols, w->g, cols, keep, w->l);
    put(w, w->l, s->stat, n * n);
}

static void begin(const struct work *w, const struct side *s)
{
    accumulate(w, s, 0);
    kernel_eigen(s->n, w->l, w->values, w->q, w->eigen);
    put(w, w->q, s->basis, s->n * s->n);
    put(w, w->values, s->values, s->n);
}

/* One step of power iteration on L (in w->l), with v's rows or columns following their eigenvectors. */
static void refresh(const struct work *w, const struct side *s)
{
    size_t n = s->n, rows = w->a->rows, cols = w->a->cols;
    const struct kernel_order order = {.n = n,
                                       .x = w->q,
                                       .y = w->p,
                                       .values = w->values,
                                       .sorted = w->values + n,
                                       .place = w->place};
    const struct kernel_permute columns = {
        .rows = n, .cols = n, .col_place = w->place, .from = w->p, .to = w->q};
    const struct kernel_permute follow = {.rows = rows,
                                          .cols = cols,
                                          .row_place = s->left ? w->place : NULL,
                                          .col_place = s->left ? NULL : w->place,
                                          .from = w->t,
                                          .to = w->v};

    get(w, s->basis, n * n, w->q);
    gemm(w, false, false, n, n, n, 1, w->l, n, w->q, n, 0, w->p);
    kernel_order(w->on, &order);
    kernel_permute(w->on, &columns);
    memcpy(w->t, w->v, rows * cols * sizeof(*w->v));
    kernel_permute(w->on, &follow);
    put(w, order.sorted, s->values, n);
    kernel_qr(n, w->q, w->eigen);
    put(w, w->q, s->basis, n * n);
}

/* The update into w->x; m and v stay in w. */
static void adam(const struct work *w, uint64_t t)
{
    const struct kernel_soap_hyper *h = &w->a->hyper;
    size_t n = w->a->rows * w->a->cols;
    float rate = (float)(sqrt(1 - pow((double)h->beta2, (double)t)) /
                         (1 - pow((double)h->beta1, (double)t)));
    const struct kernel_average mean = {.n = n, .beta = h->beta1, .x = w->g, .mean = w->m};
    const struct kernel_average square = {
        .n = n, .beta = h->beta2, .square = true, .x = w->x, .mean = w->v};
    const struct kernel_adam_step step = {
        .n = n, .rate = rate, .eps = h->eps, .v = w->v, .x = w->x};

    get(w, 0, n, w->m);
    get(w, n, n, w->v);
    memcpy(w->x, w->g, n * sizeof(*w->x));
    rotate(w, false, w->x);
    kernel_average(w->on, &mean);
    kernel_average(w->on, &square);
    put(w, w->m, 0, n);
    memcpy(w->x, w->m, n * sizeof(*w->x));
    rotate(w, false, w->x);
    kernel_adam_step(w->on, &step);
    rotate(w, true, w->x);
}

static struct work work_of(const struct kernel_on *on, const struct kernel_soap *a)
{
    size_t n = a->rows * a->cols, d = longest(a->rows, a->cols, &a->hyper), at = 2 * n;
    struct work w = {.on = on, .a = a, .g = on->workspace};

    w.m = w.g + n;
    w.v = w.m + n;
    w.x = w.v + n;
    w.t = w.x + n;
    w.l = w.t + n;
    w.q = w.l + d * d;
    w.p = w.q + d * d;
    w.values = w.p + d * d;
    w.place = (uint32_t *)(void *)(w.values + 2 * d);
    w.eigen = w.g + floats(a->rows, a->cols, d);
    for (int i = 0; i < 2; i++) {
        size_t len = i ? a->cols : a->rows;

        if (len > a->hyper.max_dim)
            continue;
        w.side[i] = (struct side){len, !i, at, at + len * len, at + 2 * len * len};
        at += 2 * len * len + len;
    }
    return w;
}

void kernel_soap(const struct kernel_on *on, const struct kernel_soap *a)
{
    size_t n = a->rows * a->cols;
    uint64_t t = a->step - a->hyper.skip_first;
    struct work w = work_of(on, a);
    struct kernel_scale by = {.n = n, .type = DTYPE_FP32, .alpha = a->grad_scale, .x = w.g};

    BUG_ON(!n || !a->step || !a->hyper.frequency || !on->gemm);
    BUG_ON(on->workspace_bytes < kernel_soap_workspace(a->rows, a->cols, &a->hyper));
    dtype_load(a->grad_type, a->grad, w.g, n);
    kernel_scale(on, &by);
    for (int i = 0; i < 2 && a->step == 1; i++)
        if (w.side[i].n)
            begin(&w, &w.side[i]);
    if (!t) {
        memset(a->update, 0, n * sizeof(*a->update));
        return;
    }
    adam(&w, t);
    memcpy(a->update, w.x, n * sizeof(*a->update));
    for (int i = 0; i < 2; i++) {
        if (!w.side[i].n)
            continue;
        if (a->step > 1)
            accumulate(&w, &w.side[i], a->hyper.beta_shampoo);
        else
            get(&w, w.side[i].stat, w.side[i].n * w.side[i].n, w.l);
        if (t % a->hyper.frequency == 0)
            refresh(&w, &w.side[i]);
    }
    put(&w, w.v, n, n);
}
