/* kernels/cuda_optimizer.h - products by cuBLAS, and what is composed of them: Newton-Schulz, Shampoo and SOAP on a GPU.
 *
 * Host code that launches; arguments are those of kernels/optimizer.h with pointers to device memory. Everything here
 * returns 0, or -1 with h->why set.
 */
#ifndef BALLAST_KERNELS_CUDA_OPTIMIZER_H
#define BALLAST_KERNELS_CUDA_OPTIMIZER_H

#include "kernels/functions.h"

#include <stdbool.h>

/* CUDA's own names of what a cublasHandle_t and a cudaStream_t point to, so that this header needs no CUDA. */
struct cublasContext;
struct CUstream_st;
struct cuda_solver;

/* Of one stream: a cuBLAS handle has one workspace. */
struct cuda_handles {
    struct cublasContext *blas;
    struct CUstream_st *stream;
    struct cuda_solver *solver; /* cuSOLVER, loaded when it is needed; owned */
    char why[200];
};
int cuda_handles_open(struct cuda_handles *h, struct CUstream_st *stream);
void cuda_handles_close(struct cuda_handles *h);
void cuda_solver_close(struct cuda_handles *h); /* cuda_preconditioner.c */

/* c (m,n) = alpha * op(a) op(b) + beta * c, row-major as struct kernel_gemm, a and b of type d, accumulated in fp32. */
bool cuda_product_is_direct(enum dtype a, enum dtype b, enum dtype c);
int cuda_product(struct cuda_handles *h, bool ta, bool tb, uint64_t m, uint64_t n, uint64_t k,
                 float alpha, enum dtype d, const void *a, uint64_t lda, const void *b,
                 uint64_t ldb, float beta, enum dtype dc, void *c, uint64_t ldc);

#define CUDA_DECLARE_COMPOSED(name, type)                                                          \
    int cuda_##name(struct cuda_handles *h, const struct kernel_on *on, const struct type *a);
KERNEL_COMPOSED_FUNCTIONS(CUDA_DECLARE_COMPOSED)
#undef CUDA_DECLARE_COMPOSED

#endif
