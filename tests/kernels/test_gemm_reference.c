#include "tests/kernels/trial.h"

static const float *operand(const float *p, bool t, size_t ld, size_t i, size_t j)
{
    return t ? p + j * ld + i : p + i * ld + j;
}

START_TEST(agrees_with_the_definition_for_every_transpose_and_odd_sizes)
{
    for (int i = 0; i < 60; i++) {
        uint64_t s = (uint64_t)i;
        bool ta = i & 1, tb = i & 2;
        size_t m = rng_size(&s, 1, i % 9 ? 21 : 140), n = rng_size(&s, 1, i % 7 ? 40 : 300),
               k = rng_size(&s, 1, i % 5 ? 20 : 530);
        size_t lda = (ta ? m : k) + rng_size(&s, 0, 3), ldb = (tb ? k : n) + rng_size(&s, 0, 3);
        size_t ldc = n + rng_size(&s, 0, 3);
        float alpha = (float)rng_in(&s, -2, 2), beta = i % 3 ? (float)rng_in(&s, -2, 2) : 0;
        float *a = random_array(&s, DTYPE_FP32, (ta ? k : m) * lda, -1, 1, NULL);
        float *b = random_array(&s, DTYPE_FP32, (tb ? n : k) * ldb, -1, 1, NULL);
        float *c = random_array(&s, DTYPE_FP32, m * ldc, -1, 1, NULL);
        float *c0 = MEM_NEW(float, m *ldc);

        if (beta == 0) /* then c is not read */
            for (size_t x = 0; x < m; x++)
                memset(c + x * ldc, 0xff, n * sizeof(*c));
        memcpy(c0, c, m * ldc * sizeof(*c));
        kernel_gemm_reference.fn(NULL, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        for (size_t x = 0; x < m; x++)
            for (size_t y = 0; y < ldc; y++) {
                double want = 0, got = c[x * ldc + y];

                for (size_t p = 0; y < n && p < k; p++)
                    want += (double)*operand(a, ta, lda, x, p) * *operand(b, tb, ldb, p, y);
                want = y < n ? alpha * want + (beta == 0 ? 0 : beta * c0[x * ldc + y])
                             : c0[x * ldc + y];
                MUST(fabs(got - want) < 1e-6 * (4 + sqrt((double)k)) * 4,
                     "%zux%zux%zu [%zu,%zu]: %g, expected %g, seed %d", m, n, k, x, y, got, want,
                     i);
            }
        mem_free(a);
        mem_free(b);
        mem_free(c);
        mem_free(c0);
    }
}
END_TEST

/* Rows of a product are the same bytes whether computed alone or together. */
START_TEST(sums_do_not_depend_on_the_shape)
{
    enum { M = 70, N = 90, K = 300 };
    uint64_t s = 4;
    float *a = random_array(&s, DTYPE_FP32, M * K, -1, 1, NULL);
    float *b = random_array(&s, DTYPE_FP32, K * N, -1, 1, NULL);
    float *c = MEM_NEW(float, M *N), row[N];

    kernel_gemm_reference.fn(NULL, false, false, M, N, K, 1, a, K, b, N, 0, c, N);
    for (size_t i = 0; i < M; i++) {
        kernel_gemm_reference.fn(NULL, false, false, 1, N, K, 1, a + i * K, K, b, N, 0, row, N);
        MUST(!memcmp(row, c + i * N, sizeof(row)), "row %zu", i);
    }
    mem_free(a);
    mem_free(b);
    mem_free(c);
}
END_TEST

SUITE_MAIN("kernels/gemm_reference", agrees_with_the_definition_for_every_transpose_and_odd_sizes,
           sums_do_not_depend_on_the_shape)
