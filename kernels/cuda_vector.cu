/* Plain vectors: cast, scale, normalize, axpy, sum, reduce; bound by memory, one pass each, two for normalize. */
#include "kernels/cuda_block.cuh"

struct cast_op {
    struct kernel_cast a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float x[PACK];

        load(a.x_type, a.x, i, len, x);
        store(a.y_type, x, a.y, i, len);
    }
};

void cuda_cast(const struct kernel_on *on, const struct kernel_cast *a)
{
    each(on, a->n, cast_op{*a});
}

struct scale_op {
    struct kernel_scale a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float x[PACK];

        load(a.type, a.x, i, len, x);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            x[j] *= a.alpha;
        store(a.type, x, a.x, i, len);
    }
};

void cuda_scale(const struct kernel_on *on, const struct kernel_scale *a)
{
    each(on, a->n, scale_op{*a});
}

__global__ void diagonal_kernel(struct kernel_diagonal a)
{
    uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;

    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.n;
         i += stride)
        store1(a.type, load1(a.type, a.x, i * a.n + i) + a.alpha, a.x, i * a.n + i);
}

void cuda_diagonal(const struct kernel_on *on, const struct kernel_diagonal *a)
{
    unsigned block = OPEN_BLOCK(EACH_BLOCK);

    if (a->n)
        LAUNCH(blocks_for(a->n, block), block, 0, on->stream, diagonal_kernel, *a);
}

struct axpy_op {
    struct kernel_axpy a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float x[PACK];

        load(a.x_type, a.x, i, len, x);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            x[j] *= a.alpha;
        store_add(a.y_type, x, a.y, i, len);
    }
};

void cuda_axpy(const struct kernel_on *on, const struct kernel_axpy *a)
{
    each(on, a->n, axpy_op{*a});
}

struct sum_op {
    struct kernel_sum a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float x[PACK], y[PACK];

        load(a.type, a.x, i, len, x);
        load(a.type, a.y, i, len, y);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            x[j] += y[j];
        store(a.type, x, a.out, i, len);
    }
};

void cuda_sum(const struct kernel_on *on, const struct kernel_sum *a)
{
    each(on, a->n, sum_op{*a});
}

struct reduce_op {
    struct kernel_reduce a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float x[PACK], sum[PACK] = {0, 0, 0, 0, 0, 0, 0, 0};

        for (uint32_t k = 0; k < a.n_parts; k++) {
            if (k == a.own)
                load(a.type, a.own_part, i, len, x);
            else
                load(a.type, at(a.type, a.others, (k - (k > a.own)) * a.n), i, len, x);
#pragma unroll
            for (unsigned j = 0; j < PACK; j++)
                sum[j] += x[j];
        }
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            sum[j] *= a.scale;
        store(a.type, sum, a.out, i, len);
    }
};

void cuda_reduce(const struct kernel_on *on, const struct kernel_reduce *a)
{
    each(on, a->n, reduce_op{*a});
}

/* ---- x / max(|x|, eps) ---- */

struct square_op {
    enum dtype type;
    const void *x;

    __device__ double operator()(uint64_t i, unsigned len) const
    {
        double sum = 0;
        float v[PACK];

        load(type, x, i, len, v);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            sum += static_cast<double>(v[j]) * static_cast<double>(v[j]);
        return sum;
    }
};

template <unsigned BLOCK>
__global__ void __launch_bounds__(BLOCK)
    normalize_kernel(struct kernel_normalize a, const double *parts, unsigned n_parts)
{
    double norm = sqrt(broadcast(all_parts<BLOCK>(parts, n_parts)));
    double eps = static_cast<double>(a.eps);
    struct kernel_scale by = {a.n, a.type, static_cast<float>(1 / (norm < eps ? eps : norm)), a.x};
    uint64_t stride = static_cast<uint64_t>(gridDim.x) * BLOCK * PACK;

    for (uint64_t i = (static_cast<uint64_t>(blockIdx.x) * BLOCK + threadIdx.x) * PACK; i < a.n;
         i += stride)
        scale_op{by}(i, pack_of(i, a.n));
}

void cuda_normalize(const struct kernel_on *on, const struct kernel_normalize *a)
{
    const double *parts = a->norm2 ? a->norm2 : static_cast<double *>(on->workspace);
    unsigned n_parts = a->norm2 ? 1 : static_cast<unsigned>(cuda_parts(a->n));

    if (!a->n)
        return;
    if (!a->norm2)
        sum_parts(on, a->n, static_cast<double *>(on->workspace), square_op{a->type, a->x});
    with_block<EACH_BLOCK>([&](auto block) {
        auto kernel = normalize_kernel<block.n>;
        /* every block adds up all parts first: give it something to do afterwards */
        unsigned grid = blocks_for(a->n, static_cast<uint64_t>(block.n) * PACK * 8);

        LAUNCH(grid, block.n, 0, on->stream, kernel, *a, parts, n_parts);
    });
}
