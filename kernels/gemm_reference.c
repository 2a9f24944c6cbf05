/* A GEMM without a library, for tests and machines without BLAS: panels of both operands are packed (which also undoes
 * transposes), a 4 x 8 tile of c stays in registers. They are vectors of four floats, an extension that gcc and clang share:
 * an array of floats goes through memory at -O2. Each element of c sums its k products in blocks of KC in ascending order,
 * whatever m and n are. 10 to 30 GFLOP/s on a core: not for training. */
#include "kernels/kernels.h"

#include <string.h>

enum { MC = 64, NC = 256, KC = 256, MR = 4, NR = 8 };

typedef float four __attribute__((vector_size(16)));

struct packed {
    float a[MC * KC]; /* tiles of MR rows: [tile][k][MR] */
    float b[KC * NC]; /* tiles of NR columns: [tile][k][NR] */
};

static void pack_a(const float *a, size_t lda, bool t, size_t m, size_t k, float *to)
{
    for (size_t i0 = 0; i0 < m; i0 += MR)
        for (size_t p = 0; p < k; p++)
            for (size_t i = i0; i < i0 + MR; i++)
                *to++ = i >= m ? 0 : t ? a[p * lda + i] : a[i * lda + p];
}

static void pack_b(const float *b, size_t ldb, bool t, size_t n, size_t k, float *to)
{
    for (size_t j0 = 0; j0 < n; j0 += NR)
        for (size_t p = 0; p < k; p++)
            for (size_t j = j0; j < j0 + NR; j++)
                *to++ = j >= n ? 0 : t ? b[j * ldb + p] : b[p * ldb + j];
}

/* c (m <= MR, n <= NR) += alpha * a b */
static void tile(const float *restrict a, const float *restrict b, size_t m, size_t n, size_t k,
                 float alpha, float *c, size_t ldc)
{
    four r00 = {0}, r01 = r00, r10 = r00, r11 = r00, r20 = r00, r21 = r00, r30 = r00, r31 = r00;
    float acc[MR][NR];

    for (size_t p = 0; p < k; p++, a += MR, b += NR) {
        four b0, b1;

        memcpy(&b0, b, sizeof(b0));
        memcpy(&b1, b + 4, sizeof(b1));
        r00 += a[0] * b0, r01 += a[0] * b1;
        r10 += a[1] * b0, r11 += a[1] * b1;
        r20 += a[2] * b0, r21 += a[2] * b1;
        r30 += a[3] * b0, r31 += a[3] * b1;
    }
    memcpy(acc, (const four[]){r00, r01, r10, r11, r20, r21, r30, r31}, sizeof(acc));
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            c[i * ldc + j] += alpha * acc[i][j];
}

static void scale_c(float beta, size_t m, size_t n, float *c, size_t ldc)
{
    for (size_t i = 0; i < m; i++)
        if (beta == 0)
            memset(c + i * ldc, 0, n * sizeof(*c));
        else
            for (size_t j = 0; j < n; j++)
                c[i * ldc + j] *= beta;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void gemm(void *ctx, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha,
                 const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c,
                 size_t ldc)
{
    struct packed w;

    (void)ctx;
    scale_c(beta, m, n, c, ldc);
    for (size_t j0 = 0; j0 < n; j0 += NC)
        for (size_t p0 = 0; p0 < k; p0 += KC) {
            size_t nc = least(NC, n - j0), kc = least(KC, k - p0);

            pack_b(tb ? b + j0 * ldb + p0 : b + p0 * ldb + j0, ldb, tb, nc, kc, w.b);
            for (size_t i0 = 0; i0 < m; i0 += MC) {
                size_t mc = least(MC, m - i0);

                pack_a(ta ? a + p0 * lda + i0 : a + i0 * lda + p0, lda, ta, mc, kc, w.a);
                for (size_t j = 0; j < nc; j += NR)
                    for (size_t i = 0; i < mc; i += MR)
                        tile(w.a + i * kc, w.b + j * kc, least(MR, mc - i), least(NR, nc - j), kc,
                             alpha, c + (i0 + i) * ldc + j0 + j, ldc);
            }
        }
}

const struct kernel_gemm kernel_gemm_reference = {gemm, NULL};
