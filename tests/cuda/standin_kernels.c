/* Kernels and products: the CPU's references, and what each of them touches. */
#include "tests/cuda/standin.h"

#include "core/mem.h"
#include "kernels/cuda.h"
#include "kernels/operands.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <string.h>

/* ---- launches ---- */

/* The device's workspaces, or what the CPU's kernels want who stand in for its own. */
#define cuda_workspace device_workspace
#include "kernels/cuda_workspace.c"
#undef cuda_workspace

size_t cuda_workspace(enum kernel_function f, const struct kernel_on *on, const void *a)
{
    size_t n = device_workspace(f, on, a);

    return n > on->workspace_bytes ? n : on->workspace_bytes;
}

static void touch_operands(struct standin_task *t, enum kernel_function f,
                           const struct kernel_on *on, const void *a)
{
    struct kernel_operand o[KERNEL_MAX_OPERANDS];
    unsigned n = kernel_operands(f, on, a, o);

    for (unsigned i = 0; i < n; i++)
        standin_touch(t, o[i].p, o[i].bytes, o[i].access != ACCESS_IN);
    standin_touch(t, on->workspace, on->workspace_bytes, true);
}

#define LAUNCH(fn, arguments)                                                                      \
    struct launch_##fn {                                                                           \
        struct kernel_on on;                                                                       \
        struct arguments a;                                                                        \
    };                                                                                             \
    static void run_##fn(void *args)                                                               \
    {                                                                                              \
        struct launch_##fn *l = args;                                                              \
                                                                                                   \
        kernel_##fn(&l->on, &l->a);                                                                \
    }                                                                                              \
    void cuda_##fn(const struct kernel_on *on, const struct arguments *a)                          \
    {                                                                                              \
        struct launch_##fn l = {*on, *a};                                                          \
        struct standin_task t = {.name = #fn, .run = run_##fn, .args = &l, .n_args = sizeof(l)};   \
                                                                                                   \
        l.on.gemm = &kernel_gemm_reference;                                                        \
        touch_operands(&t, KERNEL_FN_##fn, on, a);                                                 \
        standin_count(&standin_counters.kernels);                                                  \
        standin_issue(on->stream, &t);                                                             \
    }
KERNEL_SIMPLE_FUNCTIONS(LAUNCH)

/* ---- cuBLAS ---- */

struct cublasContext {
    cudaStream_t stream;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t *h)
{
    *h = MEM_NEW(struct cublasContext, 1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t h)
{
    mem_free(h);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t s)
{
    h->stream = s;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_SUCCESS ? "no error" : "a stand-in's error";
}

struct product {
    cublasOperation_t ta, tb;
    int m, n, k, lda, ldb, ldc;
    float alpha, beta;
    const void *a, *b;
    void *c;
    enum dtype da, db, dc;
};

static enum dtype dtype_of(cudaDataType_t t)
{
    return t == CUDA_R_16BF ? DTYPE_BF16 : t == CUDA_R_16F ? DTYPE_FP16 : DTYPE_FP32;
}

static size_t extent(int rows, int cols, int ld) /* column-major */
{
    return (size_t)(cols - 1) * (size_t)ld + (size_t)rows;
}

static float *widened(enum dtype d, const void *p, size_t n)
{
    float *f = MEM_NEW(float, n);

    dtype_load(d, p, f, n);
    return f;
}

static size_t size_a(const struct product *p)
{
    return p->ta == CUBLAS_OP_N ? extent(p->m, p->k, p->lda) : extent(p->k, p->m, p->lda);
}

static size_t size_b(const struct product *p)
{
    return p->tb == CUBLAS_OP_N ? extent(p->k, p->n, p->ldb) : extent(p->n, p->k, p->ldb);
}

/* Column-major c = op(a) op(b) is row-major c^T = op(b)^T op(a)^T. */
static void run_product(void *args)
{
    const struct product *p = args;
    size_t nc = extent(p->m, p->n, p->ldc);
    float *a = widened(p->da, p->a, size_a(p)), *b = widened(p->db, p->b, size_b(p)),
          *c = widened(p->dc, p->c, nc);

    kernel_gemm_reference.fn(NULL, p->tb == CUBLAS_OP_T, p->ta == CUBLAS_OP_T, (size_t)p->n,
                             (size_t)p->m, (size_t)p->k, p->alpha, b, (size_t)p->ldb, a,
                             (size_t)p->lda, p->beta, c, (size_t)p->ldc);
    dtype_store(p->dc, c, p->c, nc);
    mem_free(a);
    mem_free(b);
    mem_free(c);
}

cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                            int n, int k, const void *alpha, const void *a, cudaDataType_t da,
                            int lda, const void *b, cudaDataType_t db, int ldb, const void *beta,
                            void *c, cudaDataType_t dc, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algo)
{
    struct product p = {.ta = ta,
                        .tb = tb,
                        .m = m,
                        .n = n,
                        .k = k,
                        .lda = lda,
                        .ldb = ldb,
                        .ldc = ldc,
                        .alpha = *(const float *)alpha,
                        .beta = *(const float *)beta,
                        .a = a,
                        .b = b,
                        .c = c,
                        .da = dtype_of(da),
                        .db = dtype_of(db),
                        .dc = dtype_of(dc)};
    struct standin_task t = {
        .name = "cublasGemmEx", .run = run_product, .args = &p, .n_args = sizeof(p)};

    (void)algo;
    /* what cuBLAS takes: its table of types for CUBLAS_COMPUTE_32F, and leading dimensions that hold a column */
    if (compute != CUBLAS_COMPUTE_32F || da != db || (dc != da && dc != CUDA_R_32F))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (lda < (ta == CUBLAS_OP_N ? m : k) || ldb < (tb == CUBLAS_OP_N ? k : n) || ldc < m ||
        m < 1 || n < 1 || k < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    standin_touch(&t, a, dtype_bytes(p.da, size_a(&p)), false);
    standin_touch(&t, b, dtype_bytes(p.db, size_b(&p)), false);
    standin_touch(&t, c, dtype_bytes(p.dc, extent(m, n, ldc)), true);
    standin_count(&standin_counters.kernels);
    standin_issue(h->stream, &t);
    return CUBLAS_STATUS_SUCCESS;
}
