#include "kernels/eigen.h"
#include "kernels/optimizer.h"
#include "kernels/precondition.h"
#include "kernels/storage.h"

#include <math.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t n_blocks(size_t n, size_t max)
{
    return n / max + (n % max != 0);
}

/* Elements of L, R and their roots: a row of blocks has one L a block. */
size_t kernel_shampoo_state(size_t rows, size_t cols, const struct kernel_shampoo_hyper *h)
{
    size_t n = 2 * rows * cols;

    BUG_ON(!h->max_dim);
    for (size_t i = 0; i < rows; i += h->max_dim) {
        size_t r = least(h->max_dim, rows - i);

        n += 2 * r * r * n_blocks(cols, h->max_dim);
    }
    for (size_t j = 0; j < cols; j += h->max_dim) {
        size_t c = least(h->max_dim, cols - j);

        n += 2 * c * c * n_blocks(rows, h->max_dim);
    }
    return n;
}

/* One block: g, m, t (r,c), two (d,d) with d the larger side, eigenvalues, and the eigenproblem's own. */
static size_t floats(size_t r, size_t c)
{
    size_t d = r > c ? r : c, n = 3 * r * c + 2 * d * d + d;

    return n + n % 2; /* doubles follow */
}

size_t kernel_shampoo_workspace(size_t rows, size_t cols, const struct kernel_shampoo_hyper *h)
{
    size_t r = least(rows, h->max_dim), c = least(cols, h->max_dim);

    return floats(r, c) * sizeof(float) + kernel_eigen_workspace(r > c ? r : c);
}

struct work {
    const struct kernel_on *on;
    const struct kernel_shampoo *a;
    size_t row, col, r, c; /* of the block */
    float *g, *m, *t;      /* (r,c) */
    float *p, *q, *values; /* (d,d), (d,d), (d) */
    void *eigen;
};

static void gemm(const struct work *w, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha,
                 const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c)
{
    w->on->gemm->fn(w->on->gemm->ctx, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, n);
}

/* L = b2 L + (1-b2) g g^T (left) or g^T g; when due, its root. State elements `stat` and `root`, (n,n) each. */
static void precondition(const struct work *w, bool left, size_t n, size_t stat, size_t root)
{
    const struct kernel_shampoo_hyper *h = &w->a->hyper;
    enum dtype d = w->a->state_type;
    const struct kernel_root root_of = {.n = n,
                                        .correct = 1 - pow((double)h->beta2, (double)w->a->step),
                                        .ridge = h->ridge,
                                        .values = w->values,
                                        .vectors = w->q};

    dtype_load(d, at_const(d, w->a->state, stat), w->p, n * n);
    gemm(w, !left, left, n, n, left ? w->c : w->r, 1 - h->beta2, w->g, w->c, w->g, w->c, h->beta2,
         w->p);
    store(d, w->p, w->a->state, stat, n * n);
    if ((w->a->step - 1) % h->frequency != 0)
        return;
    kernel_eigen(n, w->p, w->values, w->q, w->eigen);
    kernel_root(w->on, &root_of);
    gemm(w, false, true, n, n, n, 1, w->q, n, w->q, n, 0, w->p);
    store(d, w->p, w->a->state, root, n * n);
}

/* The block's update, from state elements `at` on. */
static void block(const struct work *w, size_t at)
{
    const struct kernel_shampoo *a = w->a;
    size_t r = w->r, c = w->c, rr = r * r, cc = c * c;
    enum dtype d = a->state_type;
    size_t all = a->rows * a->cols, first = w->row * a->cols + w->col;
    double adam;
    const struct kernel_moments moments = {.rows = r,
                                           .cols = c,
                                           .ld = a->cols,
                                           .grad_type = a->grad_type,
                                           .state_type = d,
                                           .step = a->step,
                                           .beta1 = a->hyper.beta1,
                                           .beta2 = a->hyper.beta2,
                                           .eps = a->hyper.eps,
                                           .grad_scale = a->grad_scale,
                                           .grad = at_const(a->grad_type, a->grad, first),
                                           .m = at_ptr(d, a->state, first),
                                           .v = at_ptr(d, a->state, all + first),
                                           .g = w->g,
                                           .direction = w->m,
                                           .adam = &adam};
    const struct kernel_graft graft = {.rows = r,
                                       .cols = c,
                                       .ld = a->cols,
                                       .x = w->m,
                                       .adam = a->hyper.graft ? &adam : NULL,
                                       .to = a->update + first};

    kernel_moments(w->on, &moments);
    precondition(w, true, r, at, at + rr + cc);
    precondition(w, false, c, at + rr, at + 2 * rr + cc);
    dtype_load(d, at_const(d, a->state, at + rr + cc), w->p, rr);
    dtype_load(d, at_const(d, a->state, at + 2 * rr + cc), w->q, cc);
    gemm(w, false, false, r, c, r, 1, w->p, r, w->m, c, 0, w->t);
    gemm(w, false, false, r, c, c, 1, w->t, c, w->q, c, 0, w->m);
    kernel_graft(w->on, &graft);
}

void kernel_shampoo(const struct kernel_on *on, const struct kernel_shampoo *a)
{
    size_t max = a->hyper.max_dim, at = 2 * a->rows * a->cols;
    struct work w = {.on = on, .a = a};

    BUG_ON(!a->rows || !a->cols || !a->step || !a->hyper.frequency || !max || !on->gemm);
    BUG_ON(on->workspace_bytes < kernel_shampoo_workspace(a->rows, a->cols, &a->hyper));
    for (w.row = 0; w.row < a->rows; w.row += max)
        for (w.col = 0; w.col < a->cols; w.col += max) {
            size_t d, n;

            w.r = least(max, a->rows - w.row);
            w.c = least(max, a->cols - w.col);
            d = w.r > w.c ? w.r : w.c;
            n = w.r * w.c;
            w.g = on->workspace;
            w.m = w.g + n;
            w.t = w.m + n;
            w.p = w.t + n;
            w.q = w.p + d * d;
            w.values = w.q + d * d;
            w.eigen = w.g + floats(w.r, w.c);
            block(&w, at);
            at += 2 * (w.r * w.r + w.c * w.c);
        }
}
