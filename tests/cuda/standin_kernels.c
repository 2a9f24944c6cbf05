/* Kernels and products: the CPU's references, and what each of them touches. */
#include "tests/cuda/standin.h"

#include "core/mem.h"
#include "kernels/cuda.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <string.h>

/* ---- what a kernel reads and writes ---- */

struct touch {
    struct standin_task *t;
    const struct kernel_on *on;
};

static void reads(struct touch *x, const void *p, enum dtype d, size_t n)
{
    standin_touch(x->t, p, dtype_bytes(d, n), false);
}

static void writes(struct touch *x, const void *p, enum dtype d, size_t n)
{
    standin_touch(x->t, p, dtype_bytes(d, n), true);
}

#define TOUCH(name, type) static void touch_##name(struct touch *x, const struct type *a)

TOUCH(embed, kernel_embed)
{
    standin_touch(x->t, a->ids, a->tokens * sizeof(*a->ids), false);
    reads(x, a->table, x->on->weight, a->vocab * a->hidden);
    writes(x, a->out, x->on->act, a->tokens * a->hidden);
}

TOUCH(embed_backward, kernel_embed)
{
    standin_touch(x->t, a->ids, a->tokens * sizeof(*a->ids), false);
    reads(x, a->d_out, x->on->act, a->tokens * a->hidden);
    writes(x, a->d_table, x->on->grad, a->vocab * a->hidden);
}

TOUCH(position, kernel_position)
{
    reads(x, a->x, x->on->act, a->tokens * a->hidden);
    reads(x, a->table, x->on->weight, a->seq * a->hidden);
    writes(x, a->out, x->on->act, a->tokens * a->hidden);
}

TOUCH(position_backward, kernel_position)
{
    reads(x, a->d_out, x->on->act, a->tokens * a->hidden);
    writes(x, a->d_x, x->on->act, a->tokens * a->hidden);
    writes(x, a->d_table, x->on->grad, a->seq * a->hidden);
}

TOUCH(rmsnorm, kernel_norm)
{
    reads(x, a->x, x->on->act, a->rows * a->width);
    reads(x, a->weight, x->on->weight, a->width);
    reads(x, a->bias, x->on->weight, a->width);
    writes(x, a->out, x->on->act, a->rows * a->width);
}

TOUCH(rmsnorm_backward, kernel_norm)
{
    reads(x, a->d_out, x->on->act, a->rows * a->width);
    reads(x, a->x, x->on->act, a->rows * a->width);
    reads(x, a->weight, x->on->weight, a->width);
    writes(x, a->d_x, x->on->act, a->rows * a->width);
    writes(x, a->d_weight, x->on->grad, a->width);
    writes(x, a->d_bias, x->on->grad, a->width);
}

TOUCH(layernorm, kernel_norm)
{
    touch_rmsnorm(x, a);
}

TOUCH(layernorm_backward, kernel_norm)
{
    touch_rmsnorm_backward(x, a);
}

TOUCH(rope, kernel_rope)
{
    reads(x, a->x, x->on->act, a->tokens * a->heads * a->head_dim);
    writes(x, a->out, x->on->act, a->tokens * a->heads * a->head_dim);
}

TOUCH(rope_backward, kernel_rope)
{
    reads(x, a->d_out, x->on->act, a->tokens * a->heads * a->head_dim);
    writes(x, a->d_x, x->on->act, a->tokens * a->heads * a->head_dim);
}

/* Strided operands: from the first element to the last. */
static size_t strided(const struct kernel_attention *a, size_t stride, size_t heads)
{
    return (a->batch * a->seq - 1) * stride + heads * a->head_dim;
}

TOUCH(attention, kernel_attention)
{
    reads(x, a->q, x->on->act, strided(a, a->q_stride, a->heads));
    reads(x, a->k, x->on->act, strided(a, a->k_stride, a->kv_heads));
    reads(x, a->v, x->on->act, strided(a, a->v_stride, a->kv_heads));
    writes(x, a->out, x->on->act, a->batch * a->seq * a->heads * a->head_dim);
    writes(x, a->lse, DTYPE_FP32, a->batch * a->heads * a->seq);
}

TOUCH(attention_backward, kernel_attention)
{
    reads(x, a->q, x->on->act, strided(a, a->q_stride, a->heads));
    reads(x, a->k, x->on->act, strided(a, a->k_stride, a->kv_heads));
    reads(x, a->v, x->on->act, strided(a, a->v_stride, a->kv_heads));
    reads(x, a->out, x->on->act, a->batch * a->seq * a->heads * a->head_dim);
    reads(x, a->lse, DTYPE_FP32, a->batch * a->heads * a->seq);
    reads(x, a->d_out, x->on->act, a->batch * a->seq * a->heads * a->head_dim);
    writes(x, a->d_q, x->on->act, strided(a, a->q_stride, a->heads));
    writes(x, a->d_k, x->on->act, strided(a, a->k_stride, a->kv_heads));
    writes(x, a->d_v, x->on->act, strided(a, a->v_stride, a->kv_heads));
}

TOUCH(swiglu, kernel_swiglu)
{
    reads(x, a->gate, x->on->act, a->n);
    reads(x, a->up, x->on->act, a->n);
    writes(x, a->out, x->on->act, a->n);
}

TOUCH(swiglu_backward, kernel_swiglu)
{
    reads(x, a->gate, x->on->act, a->n);
    reads(x, a->up, x->on->act, a->n);
    reads(x, a->d_out, x->on->act, a->n);
    writes(x, a->d_gate, x->on->act, a->n);
    writes(x, a->d_up, x->on->act, a->n);
}

TOUCH(gelu, kernel_gelu)
{
    reads(x, a->x0, x->on->act, a->rows * a->width0);
    reads(x, a->x1, x->on->act, a->rows * a->width1);
    writes(x, a->out, x->on->act, a->rows * (a->width0 + a->width1));
}

TOUCH(gelu_backward, kernel_gelu)
{
    reads(x, a->x0, x->on->act, a->rows * a->width0);
    reads(x, a->x1, x->on->act, a->rows * a->width1);
    reads(x, a->d_out, x->on->act, a->rows * (a->width0 + a->width1));
    writes(x, a->d_x0, x->on->act, a->rows * a->width0);
    writes(x, a->d_x1, x->on->act, a->rows * a->width1);
}

TOUCH(add, kernel_add)
{
    reads(x, a->x, x->on->act, a->n);
    reads(x, a->y, x->on->act, a->n);
    writes(x, a->out, x->on->act, a->n);
}

TOUCH(add_backward, kernel_add)
{
    reads(x, a->d_out, x->on->act, a->n);
    writes(x, a->d_x, x->on->act, a->n);
    writes(x, a->d_y, x->on->act, a->n);
}

TOUCH(bias, kernel_bias)
{
    reads(x, a->bias, x->on->weight, a->width);
    writes(x, a->out, x->on->act, a->rows * a->width);
}

TOUCH(bias_backward, kernel_bias)
{
    reads(x, a->d_out, x->on->act, a->rows * a->width);
    writes(x, a->d_bias, x->on->grad, a->width);
}

static void choices(struct touch *x, const struct kernel_route *a, bool write)
{
    standin_touch(x->t, a->choices, a->tokens * a->n_active * sizeof(*a->choices), write);
    standin_touch(x->t, a->offsets, (a->n_experts + 1) * sizeof(*a->offsets), write);
}

TOUCH(route, kernel_route)
{
    reads(x, a->logits, x->on->act, a->tokens * a->n_experts);
    choices(x, a, true);
}

TOUCH(route_backward, kernel_route)
{
    reads(x, a->logits, x->on->act, a->tokens * a->n_experts);
    choices(x, a, false);
    reads(x, a->d_choices, DTYPE_FP32, a->tokens * a->n_active);
    writes(x, a->d_logits, x->on->act, a->tokens * a->n_experts);
}

static void exchange(struct touch *x, const struct kernel_exchange *a, bool combines, bool backward)
{
    size_t few = a->tokens * a->hidden, many = few * a->n_active;

    standin_touch(x->t, a->choices, a->tokens * a->n_active * sizeof(*a->choices), false);
    reads(x, a->in, x->on->act, combines ? many : few);
    if (!backward) {
        writes(x, a->out, x->on->act, combines ? few : many);
        return;
    }
    reads(x, a->d_out, x->on->act, combines ? few : many);
    writes(x, a->d_in, x->on->act, combines ? many : few);
    writes(x, a->d_choices, DTYPE_FP32, a->tokens * a->n_active);
}

TOUCH(dispatch, kernel_exchange)
{
    exchange(x, a, false, false);
}

TOUCH(dispatch_backward, kernel_exchange)
{
    exchange(x, a, false, true);
}

TOUCH(combine, kernel_exchange)
{
    exchange(x, a, true, false);
}

TOUCH(combine_backward, kernel_exchange)
{
    exchange(x, a, true, true);
}

TOUCH(cross_entropy, kernel_cross_entropy)
{
    reads(x, a->logits, x->on->act, a->tokens * a->vocab);
    standin_touch(x->t, a->targets, a->tokens * sizeof(*a->targets), false);
    writes(x, a->log_probs, DTYPE_FP32, a->tokens * a->vocab);
    writes(x, a->loss, DTYPE_FP32, 1);
}

TOUCH(cross_entropy_backward, kernel_cross_entropy)
{
    standin_touch(x->t, a->targets, a->tokens * sizeof(*a->targets), false);
    reads(x, a->log_probs, DTYPE_FP32, a->tokens * a->vocab);
    writes(x, a->d_logits, x->on->act, a->tokens * a->vocab);
}

TOUCH(squared_error, kernel_squared_error)
{
    reads(x, a->x, x->on->act, a->n);
    reads(x, a->target, x->on->act, a->n);
    writes(x, a->loss, DTYPE_FP32, 1);
}

TOUCH(squared_error_backward, kernel_squared_error)
{
    reads(x, a->x, x->on->act, a->n);
    reads(x, a->target, x->on->act, a->n);
    writes(x, a->d_x, x->on->act, a->n);
}

TOUCH(momentum, kernel_momentum)
{
    reads(x, a->grad, a->grad_type, a->n);
    writes(x, a->buf, a->state_type, a->n);
    writes(x, a->update, a->update_type, a->n);
}

TOUCH(matrix_update, kernel_matrix_update)
{
    reads(x, a->update, a->update_type, a->n);
    writes(x, a->param, a->param_type, a->n);
    writes(x, a->master, DTYPE_FP32, a->n);
}

TOUCH(adamw, kernel_adamw)
{
    reads(x, a->grad, a->grad_type, a->n);
    writes(x, a->param, a->param_type, a->n);
    writes(x, a->m, a->state_type, a->n);
    writes(x, a->v, a->state_type, a->n);
    writes(x, a->master, DTYPE_FP32, a->n);
}

TOUCH(cast, kernel_cast)
{
    reads(x, a->x, a->x_type, a->n);
    writes(x, a->y, a->y_type, a->n);
}

TOUCH(scale, kernel_scale)
{
    writes(x, a->x, a->type, a->n);
}

TOUCH(normalize, kernel_normalize)
{
    writes(x, a->x, a->type, a->n);
}

TOUCH(axpy, kernel_axpy)
{
    reads(x, a->x, a->x_type, a->n);
    writes(x, a->y, a->y_type, a->n);
}

TOUCH(sum, kernel_sum)
{
    reads(x, a->x, a->type, a->n);
    reads(x, a->y, a->type, a->n);
    writes(x, a->out, a->type, a->n);
}

TOUCH(reduce, kernel_reduce)
{
    reads(x, a->own_part, a->type, a->n);
    reads(x, a->others, a->type, a->n * (a->n_parts - 1));
    writes(x, a->out, a->type, a->n);
}

TOUCH(moments, kernel_moments)
{
    size_t block = (a->rows - 1) * a->ld + a->cols;

    reads(x, a->grad, a->grad_type, block);
    writes(x, a->m, a->state_type, block);
    writes(x, a->v, a->state_type, block);
    writes(x, a->g, DTYPE_FP32, a->rows * a->cols);
    writes(x, a->direction, DTYPE_FP32, a->rows * a->cols);
    standin_touch(x->t, a->adam, sizeof(*a->adam), true);
}

TOUCH(root, kernel_root)
{
    reads(x, a->values, DTYPE_FP32, a->n);
    standin_touch(x->t, a->info, sizeof(*a->info), false);
    writes(x, a->vectors, DTYPE_FP32, a->n * a->n);
}

TOUCH(graft, kernel_graft)
{
    reads(x, a->x, DTYPE_FP32, a->rows * a->cols);
    standin_touch(x->t, a->adam, sizeof(*a->adam), false);
    writes(x, a->to, DTYPE_FP32, (a->rows - 1) * a->ld + a->cols);
}

TOUCH(average, kernel_average)
{
    reads(x, a->x, DTYPE_FP32, a->n);
    writes(x, a->mean, DTYPE_FP32, a->n);
}

TOUCH(adam_step, kernel_adam_step)
{
    reads(x, a->v, DTYPE_FP32, a->n);
    writes(x, a->x, DTYPE_FP32, a->n);
}

TOUCH(order, kernel_order)
{
    reads(x, a->x, DTYPE_FP32, a->n * a->n);
    reads(x, a->y, DTYPE_FP32, a->n * a->n);
    writes(x, a->values, DTYPE_FP32, a->n);
    writes(x, a->sorted, DTYPE_FP32, a->n);
    standin_touch(x->t, a->place, a->n * sizeof(*a->place), true);
}

TOUCH(permute, kernel_permute)
{
    standin_touch(x->t, a->row_place, a->rows * sizeof(*a->row_place), false);
    standin_touch(x->t, a->col_place, a->cols * sizeof(*a->col_place), false);
    reads(x, a->from, DTYPE_FP32, a->rows * a->cols);
    writes(x, a->to, DTYPE_FP32, a->rows * a->cols);
}

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
        struct touch x = {&t, on};                                                                 \
                                                                                                   \
        l.on.gemm = &kernel_gemm_reference;                                                        \
        touch_##fn(&x, a);                                                                         \
        standin_touch(&t, on->workspace, on->workspace_bytes, true);                               \
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
