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
    const struct kernel_ns_hyper *p;
    char *x, *a, *b, *q, *t, *y; /* (rows,cols), (s,s): q and t for the Gram form, (rows,cols) */
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

/* a = x x^T or x^T x */
static int gram(struct iteration *i)
{
    bool tall = i->rows > i->cols;

    return cuda_product(i->h, tall, !tall, i->s, i->s, tall ? i->rows : i->cols, 1, i->d, i->x,
                        i->cols, i->x, i->cols, 0, i->d, i->a, i->s);
}

/* b = b a + c a a */
static int polynomial(struct iteration *i)
{
    return copy(i, i->b, i->a, i->s * i->s) || square(i, i->p->c, i->a, i->a, i->p->b, i->b) ? -1
                                                                                             : 0;
}

/* x = m x (wide) or x m (tall) + keep * x; m is (s,s) */
static int multiply(struct iteration *i, const void *m, float keep)
{
    if (copy(i, i->y, i->x, i->rows * i->cols))
        return -1;
    if (i->rows > i->cols)
        return cuda_product(i->h, false, false, i->rows, i->cols, i->s, 1, i->d, i->y, i->cols, m,
                            i->s, keep, i->d, i->x, i->cols);
    return cuda_product(i->h, false, false, i->rows, i->cols, i->s, 1, i->d, m, i->s, i->y, i->cols,
                        keep, i->d, i->x, i->cols);
}

static int standard(struct iteration *i)
{
    for (uint32_t k = 0; k < i->p->steps; k++)
        if (gram(i) || polynomial(i) || multiply(i, i->b, i->p->a))
            return -1;
    return 0;
}

/* As by_gram() of newton_schulz.c. */
static int by_gram(struct iteration *i, const struct kernel_on *on)
{
    const struct kernel_diagonal plus_a = {.n = i->s, .type = i->d, .alpha = i->p->a, .x = i->b};
    uint64_t n = i->s * i->s;
    uint32_t since = 0;

    for (uint32_t k = 0; k < i->p->steps; k++) {
        if ((!since && gram(i)) || polynomial(i))
            return -1;
        cuda_diagonal(on, &plus_a);
        if (since ? square(i, 1, i->b, i->q, 0, i->t) || copy(i, i->q, i->t, n)
                  : copy(i, i->q, i->b, n))
            return -1;
        since++;
        if (k + 1 == i->p->steps || since == i->p->restart) {
            if (multiply(i, i->q, 0))
                return -1;
            since = 0;
        } else if (square(i, 1, i->b, i->a, 0, i->t) || square(i, 1, i->t, i->b, 0, i->a)) {
            return -1;
        }
    }
    return 0;
}

int cuda_orthogonalize(struct cuda_handles *h, const struct kernel_on *on,
                       const struct kernel_orthogonalize *a)
{
    struct iteration i = {
        .h = h, .d = a->type, .rows = a->rows, .cols = a->cols, .p = &a->hyper, .x = a->matrix};
    bool by_g = a->hyper.form == KERNEL_NS_GRAM;
    const struct kernel_normalize unit = {.n = a->rows * a->cols,
                                          .type = a->type,
                                          .eps = a->hyper.eps,
                                          .x = a->matrix,
                                          .norm2 = a->norm2};
    struct kernel_on inner = *on;
    uint64_t square_bytes;

    i.s = a->rows < a->cols ? a->rows : a->cols;
    square_bytes = (dtype_bytes(a->type, i.s * i.s) + 255) / 256 * 256;
    i.a = on->workspace;
    i.b = i.a + square_bytes;
    i.q = i.b + square_bytes;
    i.t = i.q + (by_g ? square_bytes : 0);
    i.y = i.t + (by_g ? square_bytes : 0);
    inner.workspace = i.y; /* free until the first step */
    inner.workspace_bytes = 0;
    inner.workspace_bytes = cuda_workspace(KERNEL_FN_normalize, &inner, &unit);
    cuda_normalize(&inner, &unit);
    return by_g ? by_gram(&i, on) : standard(&i);
}
