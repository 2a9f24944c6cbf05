/* Newton-Schulz in two forms. With s the smaller side, A = X X^T (wide) or X^T X (tall) is (s,s), and the step
 * multiplies from that side: nothing is transposed in memory. */
#include "kernels/optimizer.h"

#include "kernels/storage.h"

#include <math.h>
#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Gram: G, P, Q, T (s,s) and X; standard: A, B and X */
size_t kernel_newton_schulz_workspace(size_t rows, size_t cols)
{
    size_t s = smaller(rows, cols);

    return (4 * s * s + rows * cols) * sizeof(float);
}

float kernel_muon_scale(enum kernel_muon_scaling s, size_t rows, size_t cols)
{
    double r = (double)rows, c = (double)cols;

    if (s == KERNEL_MUON_RMS)
        return (float)(0.2 * sqrt(r > c ? r : c));
    return (float)sqrt(r > c ? r / c : 1);
}

struct work {
    const struct kernel_gemm *gemm;
    const struct kernel_ns_hyper *h;
    size_t rows, cols, s;
    float *a, *b, *q, *t; /* (s,s) */
    float *y;             /* (rows, cols) */
};

static void round_to(enum dtype d, float *x, size_t n)
{
    uint16_t half[CHUNK];

    if (d == DTYPE_FP32)
        return;
    FOR_CHUNKS(i, len, n)
    {
        dtype_store(d, x + i, half, len);
        dtype_load(d, half, x + i, len);
    }
}

/* to = alpha * x y + beta * to, all (s,s) */
static void square(const struct work *w, float alpha, const float *x, const float *y, float beta,
                   float *to)
{
    w->gemm->fn(w->gemm->ctx, false, false, w->s, w->s, w->s, alpha, x, w->s, y, w->s, beta, to,
                w->s);
    round_to(w->h->stored, to, w->s * w->s);
}

/* a = X X^T or X^T X */
static void gram(const struct work *w, const float *x)
{
    bool tall = w->rows > w->cols;

    w->gemm->fn(w->gemm->ctx, tall, !tall, w->s, w->s, tall ? w->rows : w->cols, 1, x, w->cols, x,
                w->cols, 0, w->a, w->s);
    round_to(w->h->stored, w->a, w->s * w->s);
}

/* x = p x (wide) or x p (tall) + keep * x; p is (s,s) */
static void multiply(const struct work *w, const float *p, float keep, float *x)
{
    size_t n = w->rows * w->cols;

    memcpy(w->y, x, n * sizeof(*x));
    if (w->rows > w->cols)
        w->gemm->fn(w->gemm->ctx, false, false, w->rows, w->cols, w->s, 1, w->y, w->cols, p, w->s,
                    keep, x, w->cols);
    else
        w->gemm->fn(w->gemm->ctx, false, false, w->rows, w->cols, w->s, 1, p, w->s, w->y, w->cols,
                    keep, x, w->cols);
    round_to(w->h->stored, x, n);
}

/* b = b a + c a a */
static void polynomial(const struct work *w)
{
    memcpy(w->b, w->a, w->s * w->s * sizeof(*w->a));
    square(w, w->h->c, w->a, w->a, w->h->b, w->b);
}

static void standard(const struct work *w, float *x)
{
    for (uint32_t i = 0; i < w->h->steps; i++) {
        gram(w, x);
        polynomial(w);
        multiply(w, w->b, w->h->a, x);
    }
}

/* All of G, P and Q are polynomials of one matrix: they commute, and Q (as P) serves from either side. */
static void by_gram(const struct work *w, float *x)
{
    const struct kernel_diagonal plus_a = {
        .n = w->s, .type = DTYPE_FP32, .alpha = w->h->a, .x = w->b};
    uint32_t since = 0;

    for (uint32_t i = 0; i < w->h->steps; i++) {
        if (!since)
            gram(w, x);
        polynomial(w);
        kernel_diagonal(&(struct kernel_on){.act = DTYPE_FP32}, &plus_a);
        round_to(w->h->stored, w->b, w->s * w->s);
        if (since) {
            square(w, 1, w->b, w->q, 0, w->t);
            memcpy(w->q, w->t, w->s * w->s * sizeof(*w->q));
        } else {
            memcpy(w->q, w->b, w->s * w->s * sizeof(*w->q));
        }
        since++;
        if (i + 1 == w->h->steps || since == w->h->restart) {
            multiply(w, w->q, 0, x);
            since = 0;
        } else {
            square(w, 1, w->b, w->a, 0, w->t);
            square(w, 1, w->t, w->b, 0, w->a);
        }
    }
}

void kernel_newton_schulz(const struct kernel_on *on, const struct kernel_newton_schulz *a)
{
    size_t n = a->rows * a->cols, s = smaller(a->rows, a->cols);
    float *room = on->workspace;
    struct work w = {on->gemm, &a->hyper,    a->rows,          a->cols,          s,
                     room,     room + s * s, room + 2 * s * s, room + 3 * s * s, room + 4 * s * s};
    struct kernel_normalize start = {
        .n = n, .type = DTYPE_FP32, .eps = a->hyper.eps, .x = a->x, .norm2 = a->norm2};

    BUG_ON(!n || !on->gemm);
    BUG_ON(on->workspace_bytes < kernel_newton_schulz_workspace(a->rows, a->cols));
    kernel_normalize(on, &start);
    round_to(a->hyper.stored, a->x, n);
    if (a->hyper.form == KERNEL_NS_GRAM)
        by_gram(&w, a->x);
    else
        standard(&w, a->x);
}

size_t kernel_orthogonalize_workspace(size_t rows, size_t cols)
{
    return rows * cols * sizeof(float) + kernel_newton_schulz_workspace(rows, cols);
}

void kernel_orthogonalize(const struct kernel_on *on, const struct kernel_orthogonalize *a)
{
    size_t n = a->rows * a->cols;
    struct kernel_newton_schulz ns = {
        .rows = a->rows, .cols = a->cols, .hyper = a->hyper, .x = on->workspace, .norm2 = a->norm2};
    struct kernel_on inner = *on;

    BUG_ON(on->workspace_bytes < kernel_orthogonalize_workspace(a->rows, a->cols));
    inner.workspace = ns.x + n;
    inner.workspace_bytes -= n * sizeof(float);
    dtype_load(a->type, a->matrix, ns.x, n);
    kernel_newton_schulz(&inner, &ns);
    dtype_store(a->type, ns.x, a->matrix, n);
}
