/* Attention in blocks of query rows, all keys that a block may see at once: the products are GEMMs of (rows, keys), the
 * softmax is exact within the block, and backward rebuilds the probabilities from the saved log-sum-exp (Dao et al., 2022)
 * with D = rowsum(dO * O):
 *   P = exp(S - lse)   dV += P^T dO   dP = dO V^T   dS = P * (dP - D) * scale   dQ = dS K   dK += dS^T Q */
#include "kernels/kernels.h"

#include "kernels/storage.h"

#include <math.h>
#include <string.h>

enum { ROWS = KERNEL_ATTENTION_ROWS };

/* k, v, dk, dv (seq, d); q, o, do (ROWS, d); s, dp (ROWS, seq) */
size_t kernel_attention_workspace(size_t seq, size_t head_dim)
{
    return (4 * seq * head_dim + 3 * ROWS * head_dim + 2 * ROWS * seq) * sizeof(float);
}

void kernel_attention_fuse(struct kernel_attention *a, enum dtype act, const void *qkv, void *d_qkv)
{
    size_t q = a->heads * a->head_dim, kv = a->kv_heads * a->head_dim;

    a->q_stride = a->k_stride = a->v_stride = q + 2 * kv;
    a->q = qkv;
    a->k = at_const(act, qkv, q);
    a->v = at_const(act, qkv, q + kv);
    a->d_q = d_qkv;
    a->d_k = d_qkv ? at_ptr(act, d_qkv, q) : NULL;
    a->d_v = d_qkv ? at_ptr(act, d_qkv, q + kv) : NULL;
}

struct room {
    float *k, *v, *dk, *dv, *q, *o, *dout, *s, *dp;
};

static struct room room_of(const struct kernel_on *on, const struct kernel_attention *a)
{
    size_t n = a->seq * a->head_dim, r = ROWS * a->head_dim;
    float *w = on->workspace;
    struct room x = {w, w + n, w + 2 * n, w + 3 * n, NULL, NULL, NULL, NULL, NULL};

    BUG_ON(!a->kv_heads || a->heads % a->kv_heads || !on->gemm);
    BUG_ON(on->workspace_bytes < kernel_attention_workspace(a->seq, a->head_dim));
    BUG_ON(a->q_stride < a->heads * a->head_dim || a->k_stride < a->kv_heads * a->head_dim ||
           a->v_stride < a->kv_heads * a->head_dim);
    x.q = w + 4 * n;
    x.o = x.q + r;
    x.dout = x.o + r;
    x.s = x.dout + r;
    x.dp = x.s + ROWS * a->seq;
    return x;
}

/* Rows [first, first+n) of one head, gathered to (n, d). */
static void take(enum dtype act, const void *p, size_t stride, size_t token, size_t head, size_t d,
                 size_t n, float *to)
{
    for (size_t i = 0; i < n; i++)
        dtype_load(act, at_const(act, p, (token + i) * stride + head * d), to + i * d, d);
}

static void give(enum dtype act, void *p, size_t stride, size_t token, size_t head, size_t d,
                 size_t n, const float *from, bool add)
{
    for (size_t i = 0; i < n; i++)
        if (add)
            store_add(act, from + i * d, p, (token + i) * stride + head * d, d);
        else
            store(act, from + i * d, p, (token + i) * stride + head * d, d);
}

/* s (rows, keys) = scale * q k^T */
static void scores(const struct kernel_on *on, const struct kernel_attention *a,
                   const struct room *x, size_t rows, size_t keys)
{
    size_t d = a->head_dim;

    on->gemm->fn(on->gemm->ctx, false, true, rows, keys, d, a->scale, x->q, d, x->k, d, 0, x->s,
                 keys);
}

/* Softmax of row r, which sees `seen` of `keys`; its log-sum-exp. */
static float softmax(float *s, size_t seen, size_t keys)
{
    float top = -INFINITY, inverse;
    double sum = 0;

    for (size_t j = 0; j < seen; j++)
        top = s[j] > top ? s[j] : top;
    for (size_t j = 0; j < seen; j++) {
        s[j] = expf(s[j] - top);
        sum += s[j];
    }
    inverse = (float)(1 / sum);
    for (size_t j = 0; j < seen; j++)
        s[j] *= inverse;
    memset(s + seen, 0, (keys - seen) * sizeof(*s));
    return top + (float)log(sum);
}

static size_t keys_of(const struct kernel_attention *a, size_t row_end)
{
    return a->causal ? row_end : a->seq;
}

void kernel_attention(const struct kernel_on *on, const struct kernel_attention *a)
{
    struct room x = room_of(on, a);
    size_t d = a->head_dim, group = a->heads / a->kv_heads;

    for (size_t b = 0; b < a->batch; b++)
        for (size_t h = 0; h < a->heads; h++) {
            size_t base = b * a->seq, kv = h / group;
            float *lse = a->lse + (b * a->heads + h) * a->seq;

            if (h % group == 0) {
                take(on->act, a->k, a->k_stride, base, kv, d, a->seq, x.k);
                take(on->act, a->v, a->v_stride, base, kv, d, a->seq, x.v);
            }
            for (size_t first = 0; first < a->seq; first += ROWS) {
                size_t rows = a->seq - first < ROWS ? a->seq - first : ROWS;
                size_t keys = keys_of(a, first + rows);

                take(on->act, a->q, a->q_stride, base + first, h, d, rows, x.q);
                scores(on, a, &x, rows, keys);
                for (size_t i = 0; i < rows; i++)
                    lse[first + i] = softmax(x.s + i * keys, keys_of(a, first + i + 1), keys);
                on->gemm->fn(on->gemm->ctx, false, false, rows, d, keys, 1, x.s, keys, x.v, d, 0,
                             x.o, d);
                give(on->act, a->out, a->heads * d, base + first, h, d, rows, x.o, false);
            }
        }
}

/* From scores and dP to dS, in dp; s becomes P. */
static void softmax_backward(const struct kernel_attention *a, const struct room *x,
                             const float *lse, size_t first, size_t rows, size_t keys)
{
    size_t d = a->head_dim;

    for (size_t i = 0; i < rows; i++) {
        size_t seen = keys_of(a, first + i + 1);
        float *p = x->s + i * keys, *dp = x->dp + i * keys, dot;
        double sum = 0;

        for (size_t j = 0; j < d; j++)
            sum += x->dout[i * d + j] * x->o[i * d + j];
        dot = (float)sum;
        for (size_t j = 0; j < seen; j++) {
            p[j] = expf(p[j] - lse[first + i]);
            dp[j] = p[j] * (dp[j] - dot) * a->scale;
        }
        memset(p + seen, 0, (keys - seen) * sizeof(*p));
        memset(dp + seen, 0, (keys - seen) * sizeof(*dp));
    }
}

static void backward_head(const struct kernel_on *on, const struct kernel_attention *a,
                          const struct room *x, size_t b, size_t h)
{
    const struct kernel_gemm *g = on->gemm;
    size_t d = a->head_dim, base = b * a->seq;
    const float *lse = a->lse + (b * a->heads + h) * a->seq;

    for (size_t first = 0; first < a->seq; first += ROWS) {
        size_t rows = a->seq - first < ROWS ? a->seq - first : ROWS;
        size_t keys = keys_of(a, first + rows);

        take(on->act, a->q, a->q_stride, base + first, h, d, rows, x->q);
        take(on->act, a->out, a->heads * d, base + first, h, d, rows, x->o);
        take(on->act, a->d_out, a->heads * d, base + first, h, d, rows, x->dout);
        scores(on, a, x, rows, keys);
        g->fn(g->ctx, false, true, rows, keys, d, 1, x->dout, d, x->v, d, 0, x->dp, keys);
        softmax_backward(a, x, lse, first, rows, keys);
        g->fn(g->ctx, true, false, keys, d, rows, 1, x->s, keys, x->dout, d, 1, x->dv, d);
        g->fn(g->ctx, true, false, keys, d, rows, 1, x->dp, keys, x->q, d, 1, x->dk, d);
        g->fn(g->ctx, false, false, rows, d, keys, 1, x->dp, keys, x->k, d, 0, x->o, d);
        give(on->act, a->d_q, a->q_stride, base + first, h, d, rows, x->o, true);
    }
}

void kernel_attention_backward(const struct kernel_on *on, const struct kernel_attention *a)
{
    struct room x = room_of(on, a);
    size_t d = a->head_dim, group = a->heads / a->kv_heads;

    BUG_ON(!a->d_q || !a->d_k || !a->d_v);
    for (size_t b = 0; b < a->batch; b++)
        for (size_t kv = 0; kv < a->kv_heads; kv++) {
            take(on->act, a->k, a->k_stride, b * a->seq, kv, d, a->seq, x.k);
            take(on->act, a->v, a->v_stride, b * a->seq, kv, d, a->seq, x.v);
            memset(x.dk, 0, a->seq * d * sizeof(*x.dk));
            memset(x.dv, 0, a->seq * d * sizeof(*x.dv));
            for (size_t h = kv * group; h < (kv + 1) * group; h++)
                backward_head(on, a, &x, b, h);
            give(on->act, a->d_k, a->k_stride, b * a->seq, kv, d, a->seq, x.dk, true);
            give(on->act, a->d_v, a->v_stride, b * a->seq, kv, d, a->seq, x.dv, true);
        }
}
