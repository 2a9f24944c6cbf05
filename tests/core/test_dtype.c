#include "core/dtype.h"

#include "tests/suite.h"

#include <math.h>
#include <string.h>

static uint16_t stored(enum dtype d, float x)
{
    uint16_t h;

    dtype_store(d, &x, &h, 1);
    return h;
}

START_TEST(sizes_count_bits)
{
    ck_assert_uint_eq(dtype_bytes(DTYPE_FP32, 3), 12);
    ck_assert_uint_eq(dtype_bytes(DTYPE_BF16, 3), 6);
    ck_assert_uint_eq(dtype_bytes(DTYPE_INT4, 3), 2);
}
END_TEST

/* 1 + 2^-8 lies between the bf16 numbers 1 and 1 + 2^-7: a tie, to the even one. */
START_TEST(bf16_rounds_ties_to_even)
{
    ck_assert_uint_eq(stored(DTYPE_BF16, 1.0f), 0x3f80);
    ck_assert_uint_eq(stored(DTYPE_BF16, 1.0f + 0x1p-8f), 0x3f80);
    ck_assert_uint_eq(stored(DTYPE_BF16, 1.0f + 0x1.8p-7f), 0x3f82);
    ck_assert_uint_eq(stored(DTYPE_BF16, -INFINITY), 0xff80);
    ck_assert_uint_eq(stored(DTYPE_BF16, 3.4e38f), 0x7f80);
    ck_assert_uint_eq(stored(DTYPE_BF16, NAN) & 0x7fc0, 0x7fc0);
}
END_TEST

/* IEEE half: largest 65504, smallest normal 2^-14, smallest subnormal 2^-24. */
START_TEST(fp16_has_its_edges)
{
    ck_assert_uint_eq(stored(DTYPE_FP16, 65504.0f), 0x7bff);
    ck_assert_uint_eq(stored(DTYPE_FP16, 65519.9f), 0x7bff);
    ck_assert_uint_eq(stored(DTYPE_FP16, 65520.0f), 0x7c00);
    ck_assert_uint_eq(stored(DTYPE_FP16, 0x1p-14f), 0x0400);
    ck_assert_uint_eq(stored(DTYPE_FP16, 0x1p-24f), 0x0001);
    ck_assert_uint_eq(stored(DTYPE_FP16, 0x1p-25f), 0x0000);
    ck_assert_uint_eq(stored(DTYPE_FP16, 0x1.8p-24f), 0x0002);
    ck_assert_uint_eq(stored(DTYPE_FP16, -0.0f), 0x8000);
}
END_TEST

START_TEST(every_half_reads_back_as_itself)
{
    static const enum dtype types[] = {DTYPE_BF16, DTYPE_FP16};

    for (int t = 0; t < 2; t++)
        for (uint32_t i = 0; i < 65536; i++) {
            uint16_t h = (uint16_t)i;
            float x;

            dtype_load(types[t], &h, &x, 1);
            if (isnan(x))
                continue;
            ck_assert_uint_eq(stored(types[t], x), h);
        }
}
END_TEST

SUITE_MAIN("core/dtype", sizes_count_bits, bf16_rounds_ties_to_even, fp16_has_its_edges,
           every_half_reads_back_as_itself)
