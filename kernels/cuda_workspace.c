#include "kernels/cuda_workspace.h"

#include "kernels/cuda.h"

static size_t take(size_t *bytes, size_t n, size_t size)
{
    size_t at = *bytes;

    *bytes += cuda_round(n * size);
    return at;
}

struct cuda_shampoo_room cuda_shampoo_room(const struct kernel_shampoo *a)
{
    size_t r = cuda_least(a->rows, a->hyper.max_dim), c = cuda_least(a->cols, a->hyper.max_dim);
    size_t d = r > c ? r : c, at = 0;
    struct cuda_shampoo_room x = {0};

    x.g = take(&at, r * c, sizeof(float));
    x.m = take(&at, r * c, sizeof(float));
    x.t = take(&at, r * c, sizeof(float));
    x.p = take(&at, d * d, sizeof(float));
    x.q = take(&at, d * d, sizeof(float));
    x.values = take(&at, d, sizeof(float));
    x.adam = take(&at, 1, sizeof(double));
    x.inner = take(&at, cuda_moments_parts(r, c), sizeof(double));
    x.bytes = at;
    return x;
}

struct cuda_soap_room cuda_soap_room(const struct kernel_soap *a)
{
    size_t r = a->rows <= a->hyper.max_dim ? a->rows : 1;
    size_t c = a->cols <= a->hyper.max_dim ? a->cols : 1;
    size_t d = r > c ? r : c, n = a->rows * a->cols, at = 0;
    struct cuda_soap_room x = {0};

    x.g = take(&at, n, sizeof(float));
    x.m = take(&at, n, sizeof(float));
    x.v = take(&at, n, sizeof(float));
    x.x = take(&at, n, sizeof(float));
    x.t = take(&at, n, sizeof(float));
    x.l = take(&at, d * d, sizeof(float));
    x.q = take(&at, d * d, sizeof(float));
    x.p = take(&at, d * d, sizeof(float));
    x.values = take(&at, d, sizeof(float));
    x.sorted = take(&at, d, sizeof(float));
    x.place = take(&at, d, sizeof(uint32_t));
    x.bytes = at;
    return x;
}

/* Two squares of the smaller side (four for the Gram form) and a copy of the matrix, which the start's sum may use before. */
static size_t orthogonalize_bytes(const struct kernel_orthogonalize *a)
{
    size_t s = cuda_least(a->rows, a->cols), n = a->rows * a->cols;
    size_t copy = (size_t)dtype_bytes(a->type, n), sum = cuda_parts(n) * sizeof(double);

    return (a->hyper.form == KERNEL_NS_GRAM ? 4 : 2) *
               cuda_round((size_t)dtype_bytes(a->type, s * s)) +
           (copy > sum ? copy : sum);
}

/* Mean and 1/sqrt of each row, then parts of d_weight and of d_bias. */
static size_t norm_backward_bytes(const struct kernel_norm *a)
{
    return (2 * a->rows + 2 * cuda_row_parts(a->rows) * a->width) * sizeof(float);
}

/* The expert of every choice, and how many each chunk has of each expert. */
static size_t route_bytes(const struct kernel_route *a)
{
    size_t n = a->tokens * a->n_active;

    return (n + cuda_choice_chunks(n) * a->n_experts) * sizeof(uint32_t);
}

size_t cuda_workspace(enum kernel_function f, const struct kernel_on *on, const void *args)
{
    union {
        const void *any;
        const struct kernel_norm *norm;
        const struct kernel_bias *bias;
        const struct kernel_rope *rope;
        const struct kernel_attention *attention;
        const struct kernel_route *route;
        const struct kernel_cross_entropy *loss;
        const struct kernel_squared_error *error;
        const struct kernel_momentum *momentum;
        const struct kernel_normalize *normalize;
        const struct kernel_moments *moments;
        const struct kernel_graft *graft;
        const struct kernel_orthogonalize *orthogonalize;
        const struct kernel_shampoo *shampoo;
        const struct kernel_soap *soap;
    } a = {args};

    (void)on;
    switch (f) {
    case KERNEL_FN_rmsnorm_backward:
    case KERNEL_FN_layernorm_backward:
        return norm_backward_bytes(a.norm);
    case KERNEL_FN_bias_backward:
        return cuda_row_parts(a.bias->rows) * a.bias->width * sizeof(float);
    case KERNEL_FN_rope:
    case KERNEL_FN_rope_backward: /* cosine and sine of every angle */
        return a.rope->seq * a.rope->head_dim * sizeof(float);
    case KERNEL_FN_attention_backward: /* rowsum(dO * O) */
        return a.attention->batch * a.attention->heads * a.attention->seq * sizeof(float);
    case KERNEL_FN_route:
        return route_bytes(a.route);
    case KERNEL_FN_cross_entropy: /* of each token */
        return a.loss->tokens * sizeof(float);
    case KERNEL_FN_cross_entropy_backward: /* 1 / counted tokens */
        return sizeof(float);
    case KERNEL_FN_squared_error:
        return cuda_parts(a.error->n) * sizeof(double);
    case KERNEL_FN_momentum:
        return a.momentum->norm2 ? cuda_parts(a.momentum->n) * sizeof(double) : 0;
    case KERNEL_FN_normalize:
        return a.normalize->norm2 ? 0 : cuda_parts(a.normalize->n) * sizeof(double);
    case KERNEL_FN_moments:
        return cuda_moments_parts(a.moments->rows, a.moments->cols) * sizeof(double);
    case KERNEL_FN_graft:
        return cuda_parts(a.graft->rows * a.graft->cols) * sizeof(double);
    case KERNEL_FN_orthogonalize:
        return orthogonalize_bytes(a.orthogonalize);
    case KERNEL_FN_shampoo:
        return cuda_shampoo_room(a.shampoo).bytes;
    case KERNEL_FN_soap:
        return cuda_soap_room(a.soap).bytes;
    default:
        return 0;
    }
}
