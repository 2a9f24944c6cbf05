/* Products and Newton-Schulz. cuBLAS is column-major: a row-major matrix is its transpose, so c = op(a) op(b) is asked for as
 * c^T = op(b)^T op(a)^T. */
#include "kernels/cuda_optimizer.h"

#include "core/dtype.h"
#include "kernels/cuda.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdio.h>

int cuda_handles_open(struct cuda_handles *h, struct CUstream_st *stream)
{
    cublasStatus_t status = cublasCreate(&h->blas);

    h->stream = stream;
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasSetStream(h->blas, stream);
    if (status == CUBLAS_STATUS_SUCCESS)
        return 0;
    snprintf(h->why, sizeof(h->why), "%s", cublasGetStatusString(status));
    return -1;
}

void cuda_handles_close(struct cuda_handles *h)
{
    cuda_solver_close(h);
    if (h->blas)
        cublasDestroy(h->blas);
    h->blas = NULL;
}

static cudaDataType_t type_of(enum dtype d)
{
    return d == DTYPE_BF16 ? CUDA_R_16BF : d == DTYPE_FP16 ? CUDA_R_16F : CUDA_R_32F;
}

bool cuda_product_is_direct(enum dtype a, enum dtype b, enum dtype c)
{
    return a == b && (c == a || c == DTYPE_FP32);
}

int cuda_product(struct cuda_handles *h, bool ta, bool tb, uint64_t m, uint64_t n, uint64_t k,
                 float alpha, enum dtype d, const void *a, uint64_t lda, const void *b,
                 uint64_t ldb, float beta, enum dtype dc, void *c, uint64_t ldc)
{
    cublasStatus_t status;

    if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX ||
        ldc > INT_MAX) {
        snprintf(h->why, sizeof(h->why), "a side of a product is beyond 2^31");
        return -1;
    }
    status = cublasGemmEx(h->blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N,
                          (int)n, (int)m, (int)k, &alpha, b, type_of(d), (int)ldb, a, type_of(d),
                          (int)lda, &beta, c, type_of(dc), (int)ldc, CUBLAS_COMPUTE_32F,
                          CUBLAS_GEMM_DEFAULT);
    if (status == CUBLAS_STATUS_SUCCESS)
        return 0;
    snprintf(h->why, sizeof(h->why), "%s", cublasGetStatusString(status));
    return -1;
}

/* ---- Newton-Schulz: the steps of kernels/newton_schulz.c with all matrices in the storage type ---- */

struct iteration {
    struct cuda_handles *h;
    enum dtype d;
    uint64_t rows, cols, s; /* s: the smaller side */
    char *x, *a, *b, *y;    /* (rows,cols), (s,s) twice, (rows,cols) */
};

static int square(struct iteration *i, float alpha, const void *x, const void *y, float beta,
                  void *to)
{
    return cuda_product(i->h, false, false, i->s, i->s, i->s, alpha, i->d, x, i->s, y, i->s, beta,
                        i->d, to, i->s);
}

static int copy(struct iteration *i, void *to, const void *from, uint64_t n)
{
    cudaError_t status =
        cudaMemcpyAsync(to, from, dtype_bytes(i->d, n), cudaMemcpyDeviceToDevice, i->h->stream);

    if (status == cudaSuccess)
        return 0;
    snprintf(i->h->why, sizeof(i->h->why), "%s", cudaGetErrorString(status));
    return -1;
}

static int step(struct iteration *i, const struct kernel_ns_hyper *p)
{
    bool tall = i->rows > i->cols;

    /* a = x x^T or x^T x; b = b a + c a a; x = a x + b x or x b */
    if (cuda_product(i->h, tall, !tall, i->s, i->s, tall ? i->rows : i->cols, 1, i->d, i->x,
                     i->cols, i->x, i->cols, 0, i->d, i->a, i->s) ||
        copy(i, i->b, i->a, i->s * i->s) || square(i, p->c, i->a, i->a, p->b, i->b) ||
        copy(i, i->y, i->x, i->rows * i->cols))
        return -1;
    if (tall)
        return cuda_product(i->h, false, false, i->rows, i->cols, i->s, 1, i->d, i->y, i->cols,
                            i->b, i->s, p->a, i->d, i->x, i->cols);
    return cuda_product(i->h, false, false, i->rows, i->cols, i->s, 1, i->d, i->b, i->s, i->y,
                        i->cols, p->a, i->d, i->x, i->cols);
}

int cuda_orthogonalize(struct cuda_handles *h, const struct kernel_on *on,
                       const struct kernel_orthogonalize *a)
{
    struct iteration i = {.h = h, .d = a->type, .rows = a->rows, .cols = a->cols, .x = a->matrix};
    const struct kernel_normalize unit = {
        .n = a->rows * a->cols, .type = a->type, .eps = a->hyper.eps, .x = a->matrix};
    struct kernel_on inner = *on;
    uint64_t square_bytes;

    if (a->hyper.form != KERNEL_NS_STANDARD) {
        snprintf(h->why, sizeof(h->why), "the Gram form of Newton-Schulz runs on CPUs alone");
        return -1;
    }
    i.s = a->rows < a->cols ? a->rows : a->cols;
    square_bytes = (dtype_bytes(a->type, i.s * i.s) + 255) / 256 * 256;
    i.a = on->workspace;
    i.b = i.a + square_bytes;
    i.y = i.b + square_bytes;
    inner.workspace = i.y; /* free until the first step */
    inner.workspace_bytes = 0;
    inner.workspace_bytes = cuda_workspace(KERNEL_FN_normalize, &inner, &unit);
    cuda_normalize(&inner, &unit);
    for (uint32_t k = 0; k < a->hyper.steps; k++)
        if (step(&i, &a->hyper))
            return -1;
    return 0;
}
