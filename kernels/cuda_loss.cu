/* Cross-entropy and squared error. A block a token: one pass over its logits finds the largest and the sum of exponentials
 * together (Milakov and Gimelshein, 2018), the second writes the logarithms. Means over tokens are sums in a fixed order. */
#include "kernels/cuda_block.cuh"

/* The sum of exp(x - top). */
struct softmax_sum {
    float top, sum;
};

static const float LOWEST =
    -3.402823466e38f; /* no logit yet; finite, so that it can be subtracted */

struct joined {
    __device__ softmax_sum operator()(softmax_sum a, softmax_sum b) const
    {
        float top = a.top > b.top ? a.top : b.top;

        return softmax_sum{top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
    }
};

/* By a whole block; all threads get it. */
template <unsigned BLOCK>
__device__ __forceinline__ softmax_sum softmax_of(enum dtype act, const void *logits, uint64_t at,
                                                  uint64_t n)
{
    softmax_sum s = {LOWEST, 0};

    for (uint64_t i = static_cast<uint64_t>(threadIdx.x) * PACK; i < n; i += BLOCK * PACK) {
        unsigned len = pack_of(i, n);
        float x[PACK], top = s.top, sum = 0;

        load(act, logits, at + i, len, x);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            top = j < len && x[j] > top ? x[j] : top;
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            sum += j < len ? expf(x[j] - top) : 0;
        s = softmax_sum{top, s.sum * expf(s.top - top) + sum};
    }
    return broadcast(block_reduce<BLOCK>(s, joined()));
}

template <unsigned BLOCK>
__global__ void __launch_bounds__(BLOCK)
    cross_entropy_kernel(enum dtype act, struct kernel_cross_entropy a, float *losses)
{
    uint64_t stride = static_cast<uint64_t>(BLOCK) * PACK;

    for (uint64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        softmax_sum s = softmax_of<BLOCK>(act, a.logits, t * a.vocab, a.vocab);
        float shift = logf(s.sum);

        for (uint64_t i = static_cast<uint64_t>(threadIdx.x) * PACK; i < a.vocab; i += stride) {
            unsigned len = pack_of(i, a.vocab);
            float x[PACK];

            load(act, a.logits, t * a.vocab + i, len, x);
#pragma unroll
            for (unsigned j = 0; j < PACK; j++)
                x[j] = x[j] - s.top - shift;
            store(DTYPE_FP32, x, a.log_probs, t * a.vocab + i, len);
        }
        if (threadIdx.x == 0)
            losses[t] =
                a.targets[t] < 0
                    ? 0
                    : s.top -
                          load1(act, a.logits, t * a.vocab + static_cast<uint64_t>(a.targets[t])) +
                          shift;
    }
}

/* How many targets count; by a whole block, for thread 0. */
template <unsigned BLOCK>
__device__ __forceinline__ double counted(const int64_t *targets, uint64_t tokens)
{
    double n = 0;

    for (uint64_t t = threadIdx.x; t < tokens; t += BLOCK)
        n += targets[t] >= 0;
    return block_sum<BLOCK>(n);
}

template <unsigned BLOCK>
__global__ void __launch_bounds__(BLOCK)
    mean_loss_kernel(struct kernel_cross_entropy a, const float *losses)
{
    double n = counted<BLOCK>(a.targets, a.tokens), sum = 0;

    for (uint64_t t = threadIdx.x; t < a.tokens; t += BLOCK)
        sum += static_cast<double>(losses[t]);
    __syncthreads();
    sum = block_sum<BLOCK>(sum);
    if (threadIdx.x == 0)
        *a.loss = n > 0 ? static_cast<float>(sum / n) : 0;
}

void cuda_cross_entropy(const struct kernel_on *on, const struct kernel_cross_entropy *a)
{
    float *losses = static_cast<float *>(on->workspace);

    if (a->tokens)
        with_block<512>([&](auto block) {
            auto kernel = cross_entropy_kernel<block.n>;

            LAUNCH(blocks_for(a->tokens, 1), block.n, 0, on->stream, kernel, on->act, *a, losses);
        });
    with_block<EACH_BLOCK>([&](auto block) {
        auto kernel = mean_loss_kernel<block.n>;

        LAUNCH(1, block.n, 0, on->stream, kernel, *a, losses);
    });
}

template <unsigned BLOCK>
__global__ void __launch_bounds__(BLOCK)
    each_loss_kernel(struct kernel_cross_entropy a, float *each)
{
    double n = counted<BLOCK>(a.targets, a.tokens);

    if (threadIdx.x == 0)
        *each = n > 0 ? a.scale / static_cast<float>(n) : 0;
}

struct cross_entropy_backward_op {
    enum dtype act;
    struct kernel_cross_entropy a;
    const float *each;

    __device__ void operator()(uint64_t t, uint64_t col, unsigned len) const
    {
        int64_t target = a.targets[t];
        float x[PACK], by = *each;

        if (target < 0)
            return;
        load(DTYPE_FP32, a.log_probs, t * a.vocab + col, len, x);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            x[j] = by * (expf(x[j]) - (col + j == static_cast<uint64_t>(target) ? 1.0f : 0.0f));
        store_add(act, x, a.d_logits, t * a.vocab + col, len);
    }
};

void cuda_cross_entropy_backward(const struct kernel_on *on, const struct kernel_cross_entropy *a)
{
    float *each = static_cast<float *>(on->workspace);

    with_block<EACH_BLOCK>([&](auto block) {
        auto kernel = each_loss_kernel<block.n>;

        LAUNCH(1, block.n, 0, on->stream, kernel, *a, each);
    });
    each_row(on, a->tokens, a->vocab, cross_entropy_backward_op{on->act, *a, each});
}

/* ---- squared error ---- */

__device__ __forceinline__ void error_of(enum dtype act, const struct kernel_squared_error &a,
                                         uint64_t i, unsigned len, float d[PACK])
{
    float y[PACK] = {};

    load(act, a.x, i, len, d);
    if (a.target)
        load(act, a.target, i, len, y);
#pragma unroll
    for (unsigned j = 0; j < PACK; j++)
        d[j] -= y[j];
}

struct squared_error_op {
    enum dtype act;
    struct kernel_squared_error a;

    __device__ double operator()(uint64_t i, unsigned len) const
    {
        float d[PACK];
        double sum = 0;

        error_of(act, a, i, len, d);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            sum += static_cast<double>(d[j]) * static_cast<double>(d[j]);
        return sum;
    }
};

template <unsigned BLOCK>
__global__ void __launch_bounds__(BLOCK)
    mean_error_kernel(struct kernel_squared_error a, const double *parts, unsigned n_parts)
{
    double sum = all_parts<BLOCK>(parts, n_parts);

    if (threadIdx.x == 0)
        *a.loss = static_cast<float>(0.5 * sum / static_cast<double>(a.n));
}

void cuda_squared_error(const struct kernel_on *on, const struct kernel_squared_error *a)
{
    double *parts = static_cast<double *>(on->workspace);
    unsigned n_parts = static_cast<unsigned>(cuda_parts(a->n));

    sum_parts(on, a->n, parts, squared_error_op{on->act, *a});
    with_block<EACH_BLOCK>([&](auto block) {
        auto kernel = mean_error_kernel<block.n>;

        LAUNCH(1, block.n, 0, on->stream, kernel, *a, parts, n_parts);
    });
}

struct squared_error_backward_op {
    enum dtype act;
    struct kernel_squared_error a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float d[PACK], by = a.scale / static_cast<float>(a.n);

        error_of(act, a, i, len, d);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            d[j] *= by;
        store_add(act, d, a.d_x, i, len);
    }
};

void cuda_squared_error_backward(const struct kernel_on *on, const struct kernel_squared_error *a)
{
    each(on, a->n, squared_error_backward_op{on->act, *a});
}
