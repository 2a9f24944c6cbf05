/* Block-wise int8 and int4: codes by hand, the error bound, and what is no number. */
#include "core/mem.h"
#include "kernels/quantize.h"
#include "tests/kernels/trial.h"

static const struct kernel_on on = {.act = DTYPE_FP32};

START_TEST(codes_by_hand)
{
    /* scale 12.7/127 = 0.1: 127, -127, 5, -2 (2.5 to even), 0 */
    float x[5] = {12.7f, -12.7f, 0.5f, 0.0f, 0.04f}, scale[1];
    int8_t q[5];
    const struct kernel_quantize a = {
        .n = 5, .type = DTYPE_FP32, .codes = DTYPE_INT8, .x = x, .q = q, .scale = scale};

    kernel_quantize(&on, &a);
    ck_assert(fabsf(scale[0] - 0.1f) < 1e-7f);
    ck_assert_int_eq(q[0], 127);
    ck_assert_int_eq(q[1], -127);
    ck_assert_int_eq(q[2], 5);
    ck_assert_int_eq(q[3], 0);
    ck_assert_int_eq(q[4], 0);
}
END_TEST

START_TEST(ties_go_to_even)
{
    float x[5] = {127, 2.5f, 3.5f, -2.5f, -0.5f}, scale[1];
    int8_t q[5];
    const struct kernel_quantize a = {
        .n = 5, .type = DTYPE_FP32, .codes = DTYPE_INT8, .x = x, .q = q, .scale = scale};

    kernel_quantize(&on, &a);
    ck_assert(scale[0] == 1);
    ck_assert(q[0] == 127 && q[1] == 2 && q[2] == 4 && q[3] == -2 && q[4] == 0);
}
END_TEST

START_TEST(int4_has_two_in_a_byte_the_even_one_low)
{
    float x[5] = {7, -7, 1, -1, 3}, back[5], scale[1];
    uint8_t q[3] = {0xff, 0xff, 0xff};
    struct kernel_quantize a = {
        .n = 5, .type = DTYPE_FP32, .codes = DTYPE_INT4, .x = x, .q = q, .scale = scale};

    kernel_quantize(&on, &a);
    ck_assert(scale[0] == 1);
    ck_assert_uint_eq(q[0], 0x97);
    ck_assert_uint_eq(q[1], 0xf1);
    ck_assert_uint_eq(q[2], 0x03);
    a.x = back;
    kernel_dequantize(&on, &a);
    ck_assert(!memcmp(x, back, sizeof(x)));
}
END_TEST

/* |x - q scale| <= scale/2, in every type, for blocks of very different size, subnormal ones among them. */
START_TEST(what_comes_back_is_off_by_half_a_scale)
{
    static const enum dtype types[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
    uint64_t seed = 4;

    for (int t = 0; t < 3; t++)
        for (int four = 0; four < 2; four++)
            for (size_t n = 1; n < 3000; n = n * 3 + 1) {
                enum dtype codes = four ? DTYPE_INT4 : DTYPE_INT8;
                size_t blocks = kernel_quantize_blocks(n);
                float *raw = MEM_NEW(float, n), *scale = MEM_NEW(float, blocks);
                void *x = mem_alloc(n, 4), *back = mem_alloc(n, 4);
                uint8_t *q = mem_alloc(1, (size_t)dtype_bytes(codes, n));
                struct kernel_quantize a = {
                    .n = n, .type = types[t], .codes = codes, .x = x, .q = q, .scale = scale};

                for (size_t i = 0; i < n; i++) {
                    static const double sizes[] = {1, 1e4, 1e-4, 1e-38, 1e-42};
                    size_t k = i / KERNEL_QUANT_BLOCK % (types[t] == DTYPE_FP16 ? 3 : 5);

                    raw[i] = (float)(sizes[k] * rng_in(&seed, -1, 1));
                }
                dtype_store(types[t], raw, x, n);
                kernel_quantize(&on, &a);
                a.x = back;
                kernel_dequantize(&on, &a);
                for (size_t i = 0; i < n; i++) {
                    double want = value_at(types[t], x, i), got = value_at(types[t], back, i);
                    double s = scale[i / KERNEL_QUANT_BLOCK];
                    double tol = s / 2 * (1 + 1e-4) + half_ulp(types[t]) * fabs(want) +
                                 (types[t] == DTYPE_FP16   ? 0x1p-25
                                  : types[t] == DTYPE_BF16 ? 0x1p-134
                                                           : 0) +
                                 0x1p-149 * (four ? 8 : 128);

                    MUST(fabs(want - got) <= tol, "%g came back as %g, scale %g (%s %s)", want, got,
                         s, dtype_name(types[t]), dtype_name(codes));
                }
                mem_free(raw);
                mem_free(scale);
                mem_free(x);
                mem_free(back);
                mem_free(q);
            }
}
END_TEST

START_TEST(zeros_stay_and_what_is_no_number_spoils_its_block)
{
    enum { N = 3 * KERNEL_QUANT_BLOCK };
    float *x = MEM_NEW(float, N), scale[3];
    int8_t *q = MEM_NEW(int8_t, N);
    const struct kernel_quantize a = {
        .n = N, .type = DTYPE_FP32, .codes = DTYPE_INT8, .x = x, .q = q, .scale = scale};

    x[KERNEL_QUANT_BLOCK + 7] = INFINITY;
    x[N - 1] = NAN;
    kernel_quantize(&on, &a);
    ck_assert(scale[0] == 0 && isnan(scale[1]) && isnan(scale[2]));
    kernel_dequantize(&on, &a);
    for (int i = 0; i < N; i++)
        ck_assert(i < KERNEL_QUANT_BLOCK ? x[i] == 0 : isnan(x[i]));
    mem_free(x);
    mem_free(q);
}
END_TEST

SUITE_MAIN("kernels/quantize", codes_by_hand, ties_go_to_even,
           int4_has_two_in_a_byte_the_even_one_low, what_comes_back_is_off_by_half_a_scale,
           zeros_stay_and_what_is_no_number_spoils_its_block)
