/* kernels/cuda_attention.cu against kernels/attention.c: every size of tile, heads in groups, parts of one buffer, sequences that
 * are no multiple of a tile. */
#include "tests/cuda/both.h"

struct shape {
    size_t batch, seq, heads, kv_heads, head_dim;
    bool causal, fused;
};

/* Of what the tensor cores take, probabilities and their gradients are rounded to 16 bits on the way: each sum is off by up to half
 * an ulp of its terms, where the CPU's is rounded at the end alone. */
static double noise_of(enum dtype d, size_t head_dim, double noise)
{
    return d == DTYPE_FP32 || head_dim > 128 ? noise : noise + 4 * half_ulp(d) * 0x1p23;
}

static void attend(struct way w, enum dtype d, struct shape s, double noise)
{
    size_t q_width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim,
           tokens = s.batch * s.seq;
    size_t width = q_width + 2 * kv_width, one = (size_t)dtype_bytes(d, 1);
    size_t q_stride = s.fused ? width : q_width + 3, kv_stride = s.fused ? width : kv_width + 5;
    size_t q, k, v, out, lse, d_out, d_q, d_k, d_v;
    struct both b;

    both_begin(&b, w, d);
    q = both_in(&b, d, tokens * q_stride, -2, 2);
    k = s.fused ? q : both_in(&b, d, tokens * kv_stride, -2, 2);
    v = s.fused ? q : both_in(&b, d, tokens * kv_stride, -2, 2);
    out = both_out(&b, d, tokens * q_width);
    lse = both_out(&b, DTYPE_FP32, tokens * s.heads);
    d_out = both_in(&b, d, tokens * q_width, -1, 1);
    d_q = both_changed(&b, d, tokens * q_stride, -1, 1);
    d_k = s.fused ? d_q : both_changed(&b, d, tokens * kv_stride, -1, 1);
    d_v = s.fused ? d_q : both_changed(&b, d, tokens * kv_stride, -1, 1);
#define PART(array, at) ((char *)P(array) + (s.fused ? (at)*one : 0))
#define ATTENTION                                                                                  \
    .batch = s.batch, .seq = s.seq, .heads = s.heads, .kv_heads = s.kv_heads,                      \
    .head_dim = s.head_dim, .causal = s.causal, .scale = (float)(1 / sqrt((double)s.head_dim)),    \
    .q = P(q), .k = PART(k, q_width), .v = PART(v, q_width + kv_width), .q_stride = q_stride,      \
    .k_stride = kv_stride, .v_stride = kv_stride, .out = P(out), .lse = P(lse), .d_out = P(d_out), \
    .d_q = P(d_q), .d_k = PART(d_k, q_width), .d_v = PART(d_v, q_width + kv_width)
    BOTH(&b, attention, kernel_attention, ATTENTION);
    /* backward of both from the same output: a half that was rounded the other way is no fault of it */
    memcpy(b.array[out].p[1], b.array[out].p[0], b.array[out].bytes);
    BOTH(&b, attention_backward, kernel_attention, ATTENTION);
    both_end(&b, noise_of(d, s.head_dim, noise));
}

static void forward_only(struct way w, enum dtype d, struct shape s, double noise)
{
    size_t width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim,
           tokens = s.batch * s.seq;
    size_t q, k, v, out, lse;
    struct both b;

    both_begin(&b, w, d);
    q = both_in(&b, d, tokens * width, -2, 2);
    k = both_in(&b, d, tokens * kv_width, -2, 2);
    v = both_in(&b, d, tokens * kv_width, -2, 2);
    out = both_out(&b, d, tokens * width);
    lse = both_out(&b, DTYPE_FP32, tokens * s.heads);
    BOTH(&b, attention, kernel_attention, .batch = s.batch, .seq = s.seq, .heads = s.heads,
         .kv_heads = s.kv_heads, .head_dim = s.head_dim, .causal = s.causal, .scale = 0.3f,
         .q = P(q), .k = P(k), .v = P(v), .q_stride = width, .k_stride = kv_width,
         .v_stride = kv_width, .out = P(out), .lse = P(lse));
    both_end(&b, noise_of(d, s.head_dim, noise));
}

START_TEST(small_attention_is_the_cpus)
{
    static const struct shape shapes[] = {
        {1, 1, 1, 1, 1, true, false},  {2, 5, 2, 1, 8, true, false},
        {1, 65, 2, 2, 20, true, true}, {1, 70, 4, 2, 64, false, false},
        {2, 64, 3, 1, 5, false, true},
    };

    EVERY_WAY(w, d)
    for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
        forward_only(w, d, shapes[k], 40);
        if (w.block == 256 || w.block == 96) /* its blocks have one size: two orders, two shifts */
            attend(w, d, shapes[k], 40);
    }
}
END_TEST

START_TEST(long_sequences_are_the_cpus)
{
    static const struct shape shapes[] = {{1, 200, 2, 1, 40, true, true},
                                          {1, 150, 1, 1, 64, false, true}};

    for (int t = 0; t < 3; t++)
        for (int k = 0; k < 2; k++)
            attend(both_ways[1], both_types[t], shapes[k], 80);
}
END_TEST

/* 128, 256 and 512 columns: tiles of 64, 32 and 16, those of 64 on either kind of cores. */
START_TEST(wide_heads_are_the_cpus)
{
    static const struct shape shapes[] = {
        {1, 70, 2, 1, 128, true, true},  {1, 40, 1, 1, 96, false, false},
        {1, 40, 2, 1, 256, true, false}, {1, 33, 1, 1, 192, false, true},
        {1, 35, 2, 1, 300, true, false}, {1, 20, 1, 1, 512, false, true}};

    for (int k = 0; k < 6; k++)
        for (int t = k % 2; t < 2 + k % 2; t++)
            attend(both_ways[1 + k % 3], both_types[t], shapes[k], 80);
}
END_TEST

START_TEST(longer_heads_are_refused_by_the_launch)
{
    enum { D = 513 };
    float *x = MEM_NEW(float, 2 * D), lse[2];
    const struct kernel_on on = {.act = DTYPE_FP32};
    const struct kernel_attention a = {.batch = 1,
                                       .seq = 1,
                                       .heads = 1,
                                       .kv_heads = 1,
                                       .head_dim = D,
                                       .scale = 1,
                                       .q = x,
                                       .k = x,
                                       .v = x,
                                       .q_stride = D,
                                       .k_stride = D,
                                       .v_stride = D,
                                       .out = x + D,
                                       .lse = lse};

    emulate_reset(1, 0);
    cuda_attention(&on, &a);
    ck_assert_ptr_nonnull(emulate_failure());
    mem_free(x);
}
END_TEST

SUITE_MAIN("cuda/attention", small_attention_is_the_cpus, long_sequences_are_the_cpus,
           wide_heads_are_the_cpus, longer_heads_are_refused_by_the_launch)
