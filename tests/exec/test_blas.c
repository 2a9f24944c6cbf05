/* Which kernels of OpenBLAS are asked for, and that wrong products are seen. */
#include "exec/blas.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

#define AVX2   " fma avx avx2 "
#define AVX512 AVX2 "avx512f avx512dq avx512cd avx512bw avx512vl "

START_TEST(kernels_above_the_library_s_own_choice_are_tried_the_widest_first)
{
    static const struct {
        const char *core, *flags, *expected;
    } rows[] = {
        {"Prescott", AVX512, "SkylakeX Haswell Sandybridge "},
        {"Prescott", AVX2, "Haswell Sandybridge "},
        {"Prescott", " avx ", "Sandybridge "},
        {"Prescott", " sse4_2 ", ""},
        {"Prescott", "", ""}, /* flags are not known: no x86, or no /proc */
        {"Haswell", AVX512, "SkylakeX "},
        {"Haswell", AVX2, ""},
        {"Zen", AVX2, ""},
        {"Sandybridge", AVX2, "Haswell "},
        {"SkylakeX", AVX512, ""},
        {"Cooperlake", AVX512, ""},
        /* flags of which a part is missing, or that only begin alike */
        {"Haswell", AVX2 "avx512f avx512dq avx512cd avx512bw ", ""},
        {"Nehalem", " fma avx avx2_other ", "Sandybridge "},
        {"Nehalem", "avx2 avx fma", "Haswell Sandybridge "},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *faster[BLAS_MAX_CORES];
        char text[128] = "";

        blas_faster(rows[i].core, rows[i].flags, faster);
        for (int k = 0; faster[k]; k++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ", faster[k]);
        MUST(!strcmp(text, rows[i].expected), "%s on%s: '%s', expected '%s'", rows[i].core,
             rows[i].flags, text, rows[i].expected);
    }
}
END_TEST

enum fault { RIGHT, NO_BETA, NO_ALPHA, OTHER_WAY, LAST_ROW, LONG_SUMS, NOT_A_NUMBER, N_FAULTS };
static enum fault fault;

static void gemm(void *ctx, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha,
                 const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c,
                 size_t ldc)
{
    if (fault == OTHER_WAY && ta && m == k)
        ta = false;
    kernel_gemm_reference.fn(ctx, ta, tb, m, n, fault == LONG_SUMS && k > 512 ? k - 1 : k,
                             fault == NO_ALPHA ? 1 : alpha, a, lda, b, ldb,
                             fault == NO_BETA ? 0 : beta, c, ldc);
    if (fault == LAST_ROW && m % 16)
        c[(m - 1) * ldc] += 0.001f;
    if (fault == NOT_A_NUMBER && n > 1000)
        c[n - 1] = NAN;
}

START_TEST(wrong_products_are_seen)
{
    static const struct kernel_gemm g = {.fn = gemm};
    struct err e = {0};

    for (int f = 0; f < N_FAULTS; f++) {
        fault = (enum fault)f;
        ck_assert_int_eq(blas_check(&g, &e), f ? -1 : 0);
        ck_assert(!f || strstr(e.msg, "comes out wrong"));
    }
}
END_TEST

SUITE_MAIN("exec/blas", kernels_above_the_library_s_own_choice_are_tried_the_widest_first,
           wrong_products_are_seen)
