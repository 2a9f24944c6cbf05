/* exec/lib_blas.c - build/ballast-blas.so: the cpu backend's GEMM from a BLAS. The only file that includes cblas.h. */
#include "kernels/kernels.h"

#include <cblas.h>

static void gemm(void *ctx, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha,
                 const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c,
                 size_t ldc)
{
    (void)ctx;
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
                (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

/* The kernels that the library chose for this processor. */
const char *blas_core(void);
const char *blas_core(void)
{
#ifdef OPENBLAS_VERSION
    return openblas_get_corename();
#else
    return "";
#endif
}

extern const struct kernel_gemm blas_library;
const struct kernel_gemm blas_library = {.fn = gemm};
