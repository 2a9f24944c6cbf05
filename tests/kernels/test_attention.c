#include "tests/kernels/trial.h"

static float lse[4096];

/* s: batch, seq, heads, kv_heads, head_dim, causal, fused */
static struct kernel_attention args(struct trial *t)
{
    struct kernel_attention a = {.batch = t->s[0],
                                 .seq = t->s[1],
                                 .heads = t->s[2],
                                 .kv_heads = t->s[3],
                                 .head_dim = t->s[4],
                                 .causal = t->s[5],
                                 .scale = (float)t->f[0],
                                 .out = t->out.p,
                                 .lse = lse,
                                 .d_out = t->d_out};

    if (t->s[6]) {
        kernel_attention_fuse(&a, t->on.act, t->in[0].p, t->in[0].grad);
        return a;
    }
    a.q = t->in[0].p;
    a.k = t->in[1].p;
    a.v = t->in[2].p;
    a.d_q = t->in[0].grad;
    a.d_k = t->in[1].grad;
    a.d_v = t->in[2].grad;
    a.q_stride = t->s[2] * t->s[4];
    a.k_stride = a.v_stride = t->s[3] * t->s[4];
    return a;
}

static void forward(struct trial *t)
{
    struct kernel_attention a = args(t);

    kernel_attention(&t->on, &a);
}

static void backward(struct trial *t)
{
    struct kernel_attention a = args(t);

    kernel_attention_backward(&t->on, &a);
}

static double score(const struct trial *t, const double *q, const double *k)
{
    double dot = 0;

    for (size_t i = 0; i < t->s[4]; i++)
        dot += q[i] * k[i];
    return t->f[0] * dot;
}

/* every element of the output on its own: a ratio of two sums over the keys */
static void naive(const struct trial *t, double *const *x, double *out)
{
    size_t seq = t->s[1], H = t->s[2], K = t->s[3], d = t->s[4],
           row = t->s[6] ? (H + 2 * K) * d : 0;
    const double *q = x[0], *k = t->s[6] ? q + H * d : x[1], *v = t->s[6] ? k + K * d : x[2];
    size_t sq = row ? row : H * d, sk = row ? row : K * d;

    for (size_t tok = 0; tok < t->s[0] * seq; tok++)
        for (size_t h = 0; h < H; h++) {
            size_t from = tok / seq * seq, to = t->s[5] ? tok + 1 : from + seq, kv = h * K / H;
            double below = 0;

            for (size_t c = 0; c < d; c++)
                out[(tok * H + h) * d + c] = 0;
            for (size_t j = from; j < to; j++) {
                double e = exp(score(t, q + tok * sq + h * d, k + j * sk + kv * d));

                below += e;
                for (size_t c = 0; c < d; c++)
                    out[(tok * H + h) * d + c] += e * v[j * sk + kv * d + c];
            }
            for (size_t c = 0; c < d; c++)
                out[(tok * H + h) * d + c] /= below;
        }
}

static struct trial attention(uint64_t seed, enum dtype d, const size_t s[7])
{
    struct trial t = trial_new("attention", seed, d);
    size_t q = s[2] * s[4], kv = s[3] * s[4], tokens = s[0] * s[1];

    memcpy(t.s, s, 7 * sizeof(*s));
    t.f[0] = 1 / sqrt((double)s[4]);
    t.f[0] = (float)t.f[0];
    t.noise = 32;
    t.loose = d == DTYPE_FP32 ? 0 : 2; /* backward starts from the stored output */
    if (s[6]) {
        trial_in(&t, "qkv", tokens * (q + 2 * kv), d, -2, 2);
    } else {
        trial_in(&t, "q", tokens * q, d, -2, 2);
        trial_in(&t, "k", tokens * kv, d, -2, 2);
        trial_in(&t, "v", tokens * kv, d, -2, 2);
    }
    trial_out(&t, tokens * q, d);
    t.on.workspace_bytes = kernel_attention_workspace(s[1], s[4]);
    t.forward = forward;
    t.backward = backward;
    t.naive = naive;
    return t;
}

START_TEST(agrees_with_sums_over_the_keys)
{
    FOR_TRIALS(i, 12)
    {
        uint64_t s = (uint64_t)i + 31;
        size_t kv = rng_size(&s, 1, 2), z[7] = {rng_size(&s, 1, 2), rng_size(&s, 1, 7),
                                                kv * rng_size(&s, 1, 2), kv, rng_size(&s, 1, 5)};
        struct trial t;

        z[5] = (size_t)i / 3 % 2;
        z[6] = (size_t)i / 6 % 2;
        t = attention((uint64_t)i, trial_type(i), z);
        trial_run(&t);
    }
}
END_TEST

/* One more than two blocks of rows: what crosses their borders; forward everywhere, slopes for a short head. */
START_TEST(blocks_of_rows_fit_together)
{
    static const size_t sizes[][7] = {{1, 2 * KERNEL_ATTENTION_ROWS + 1, 2, 1, 8, 1, 0},
                                      {2, 2 * KERNEL_ATTENTION_ROWS + 1, 2, 2, 3, 0, 1},
                                      {1, KERNEL_ATTENTION_ROWS + 1, 2, 1, 1, 1, 0},
                                      {1, KERNEL_ATTENTION_ROWS + 1, 1, 1, 1, 0, 0}};

    for (size_t i = 0; i < 4; i++) {
        struct trial t = attention(i, DTYPE_FP32, sizes[i]);

        if (i < 2)
            t.backward = NULL;
        trial_run(&t);
    }
}
END_TEST

/* exp of the scores is far beyond fp32: the largest is taken off first. */
START_TEST(large_scores_stay_finite)
{
    float q[4] = {300, 0, 0, 300}, k[4] = {300, 0, 0, 300}, v[4] = {1, 2, 3, 4}, out[4];
    float room[4096], dq[4] = {0}, dk[4] = {0}, dv[4] = {0}, dout[4] = {1, 1, 1, 1};
    struct kernel_on on = {
        .workspace = room, .workspace_bytes = sizeof(room), .gemm = &kernel_gemm_reference};
    struct kernel_attention a = {1, 2, 1, 1,   2,   false, 1,  q,  k, v,
                                 2, 2, 2, out, lse, dout,  dq, dk, dv};

    kernel_attention(&on, &a);
    kernel_attention_backward(&on, &a);
    for (int i = 0; i < 4; i++) {
        ck_assert(out[i] == v[i]);
        ck_assert(dq[i] == 0 && dk[i] == 0);
        ck_assert(dv[i] == 1);
    }
    ck_assert_float_eq_tol(lse[0], 90000, 0.01f);
}
END_TEST

SUITE_MAIN("kernels/attention", agrees_with_sums_over_the_keys, blocks_of_rows_fit_together,
           large_scores_stay_finite)
