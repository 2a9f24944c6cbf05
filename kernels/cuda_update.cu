/* Updates: momentum, the matrix update, AdamW, and what Shampoo and SOAP do between products; bound by memory. */
#include "kernels/cuda_block.cuh"

/* The sum of squares of what it stores. Where nobody asks for it (each()) the compiler drops it. */
struct momentum_op {
    struct kernel_momentum a;

    __device__ double operator()(uint64_t i, unsigned len) const
    {
        float g[PACK], buf[PACK];
        double sum = 0;

        load(a.grad_type, a.grad, i, len, g);
        load(a.state_type, a.buf, i, len, buf);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            float x = a.grad_scale * g[j];

            buf[j] = a.mu * buf[j] + (1 - a.mu) * x;
            g[j] = a.nesterov ? (1 - a.mu) * x + a.mu * buf[j] : buf[j];
        }
        store(a.state_type, buf, a.buf, i, len);
        store(a.update_type, g, a.update, i, len);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            double u = static_cast<double>(rounded(a.update_type, g[j]));

            sum += j < len ? u * u : 0;
        }
        return sum;
    }
};

template <unsigned BLOCK>
__global__ void __launch_bounds__(BLOCK)
    total_kernel(const double *parts, unsigned n_parts, double *to)
{
    double sum = all_parts<BLOCK>(parts, n_parts);

    if (threadIdx.x == 0)
        *to = sum;
}

static void add_up(const struct kernel_on *on, const double *parts, unsigned n_parts, double *to)
{
    with_block<EACH_BLOCK>([&](auto block) {
        auto kernel = total_kernel<block.n>;

        LAUNCH(1, block.n, 0, on->stream, kernel, parts, n_parts, to);
    });
}

/* With the norm: the parts that normalize would cut the update into, each by its own block, then all in their order. */
void cuda_momentum(const struct kernel_on *on, const struct kernel_momentum *a)
{
    double *parts = static_cast<double *>(on->workspace);

    if (!a->norm2) {
        each(on, a->n, momentum_op{*a});
        return;
    }
    sum_parts(on, a->n, parts, momentum_op{*a});
    add_up(on, parts, static_cast<unsigned>(cuda_parts(a->n)), a->norm2);
}

/* p = keep * p - u, on the master copy if there is one. */
__device__ __forceinline__ void apply(enum dtype d, void *param, float *master, uint64_t i,
                                      unsigned len, float keep, const float u[PACK])
{
    float p[PACK];

    if (master)
        load(DTYPE_FP32, master, i, len, p);
    else
        load(d, param, i, len, p);
#pragma unroll
    for (unsigned j = 0; j < PACK; j++)
        p[j] = keep * p[j] - u[j];
    if (master)
        store(DTYPE_FP32, p, master, i, len);
    store(d, p, param, i, len);
}

struct matrix_update_op {
    struct kernel_matrix_update a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float u[PACK], rate = a.lr * a.scale;

        load(a.update_type, a.update, i, len, u);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            u[j] *= rate;
        apply(a.param_type, a.param, a.master, i, len, 1 - a.lr * a.decay, u);
    }
};

void cuda_matrix_update(const struct kernel_on *on, const struct kernel_matrix_update *a)
{
    each(on, a->n, matrix_update_op{*a});
}

struct adamw_op {
    struct kernel_adamw a;
    float rate, root; /* lr / (1 - b1^t), sqrt(1 - b2^t) */

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float u[PACK], m[PACK], v[PACK];

        load(a.grad_type, a.grad, i, len, u);
        load(a.state_type, a.m, i, len, m);
        load(a.state_type, a.v, i, len, v);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            float g = a.grad_scale * u[j];

            m[j] = a.beta1 * m[j] + (1 - a.beta1) * g;
            v[j] = a.beta2 * v[j] + (1 - a.beta2) * g * g;
            u[j] = rate * m[j] / (sqrtf(v[j]) / root + a.eps);
        }
        store(a.state_type, m, a.m, i, len);
        store(a.state_type, v, a.v, i, len);
        apply(a.param_type, a.param, a.master, i, len, 1 - a.lr * a.decay, u);
    }
};

/* 1 - beta^t */
static double correction(float beta, uint64_t t)
{
    return 1 - pow(static_cast<double>(beta), static_cast<double>(t));
}

void cuda_adamw(const struct kernel_on *on, const struct kernel_adamw *a)
{
    float rate = static_cast<float>(static_cast<double>(a->lr) / correction(a->beta1, a->step));
    float root = static_cast<float>(sqrt(correction(a->beta2, a->step)));

    each(on, a->n, adamw_op{*a, rate, root});
}

/* ---- Shampoo: moments and the size of Adam's step, roots of eigenvalues, the graft ---- */

/* Packs of the block run over its rows; none reaches into the next. `i` counts packs, so that parts are as even as can be. */
struct moments_op {
    struct kernel_moments a;
    double c1, c2;
    uint64_t packs; /* of a row */

    __device__ double operator()(uint64_t i, unsigned) const
    {
        uint64_t k = i / PACK, row = k / packs, col = k % packs * PACK, from = row * a.ld + col;
        unsigned len = pack_of(col, a.cols);
        float g[PACK], m[PACK], v[PACK];
        double sum = 0;

        load(a.grad_type, a.grad, from, len, g);
        load(a.state_type, a.m, from, len, m);
        load(a.state_type, a.v, from, len, v);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            g[j] *= a.grad_scale;
            m[j] = a.beta1 * m[j] + (1 - a.beta1) * g[j];
            v[j] = a.beta2 * v[j] + (1 - a.beta2) * g[j] * g[j];
        }
        store(DTYPE_FP32, g, a.g, row * a.cols + col, len);
        store(a.state_type, m, a.m, from, len);
        store(a.state_type, v, a.v, from, len);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            double step;

            m[j] = static_cast<float>(static_cast<double>(m[j]) / c1);
            step = static_cast<double>(m[j]) /
                   (sqrt(static_cast<double>(v[j]) / c2) + static_cast<double>(a.eps));
            if (j < len)
                sum += step * step;
        }
        store(DTYPE_FP32, m, a.direction, row * a.cols + col, len);
        return sum;
    }
};

void cuda_moments(const struct kernel_on *on, const struct kernel_moments *a)
{
    uint64_t packs = cuda_ceil(a->cols, PACK), n = a->rows * packs * PACK;
    double *parts = static_cast<double *>(on->workspace);
    unsigned n_parts = static_cast<unsigned>(cuda_moments_parts(a->rows, a->cols));

    sum_parts(on, n, parts,
              moments_op{*a, correction(a->beta1, a->step), correction(a->beta2, a->step), packs});
    add_up(on, parts, n_parts, a->adam);
}

/* A block a vector; each looks for the largest value itself. */
template <unsigned BLOCK> __global__ void __launch_bounds__(BLOCK) root_kernel(struct kernel_root a)
{
    uint64_t j = blockIdx.x;
    double l = a.values[j] > 0 ? static_cast<double>(a.values[j]) / a.correct : 0, top;
    float by = 1, value = 0;

    for (uint64_t k = threadIdx.x; k < a.n; k += BLOCK)
        value = a.values[k] > value ? a.values[k] : value;
    top = static_cast<double>(broadcast(block_reduce<BLOCK>(value, larger()))) / a.correct;
    if (a.values[j] != a.values[j] || (a.info && *a.info))
        by = __uint_as_float(0x7fc00000u);
    else if (top > 0)
        by = static_cast<float>(pow(l + static_cast<double>(a.ridge) * top, -0.125));
    for (uint64_t i = threadIdx.x; i < a.n; i += BLOCK)
        a.vectors[a.as_rows ? j * a.n + i : i * a.n + j] *= by;
}

void cuda_root(const struct kernel_on *on, const struct kernel_root *a)
{
    if (a->n)
        with_block<EACH_BLOCK>([&](auto block) {
            auto kernel = root_kernel<block.n>;

            LAUNCH(static_cast<unsigned>(a->n), block.n, 0, on->stream, kernel, *a);
        });
}

struct norm2_op {
    const float *x;

    __device__ double operator()(uint64_t i, unsigned len) const
    {
        double sum = 0;
        float v[PACK];

        load(DTYPE_FP32, x, i, len, v);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            sum += static_cast<double>(v[j]) * static_cast<double>(v[j]);
        return sum;
    }
};

template <unsigned BLOCK>
__global__ void __launch_bounds__(BLOCK)
    graft_kernel(struct kernel_graft a, const double *parts, unsigned n_parts)
{
    double norm = sqrt(broadcast(all_parts<BLOCK>(parts, n_parts)));
    float by = a.adam && norm > 0 ? static_cast<float>(sqrt(*a.adam) / norm) : 1;
    uint64_t stride = static_cast<uint64_t>(gridDim.x) * BLOCK;

    for (uint64_t k = static_cast<uint64_t>(blockIdx.x) * BLOCK + threadIdx.x; k < a.rows * a.cols;
         k += stride)
        a.to[k / a.cols * a.ld + k % a.cols] = a.x[k] * by;
}

void cuda_graft(const struct kernel_on *on, const struct kernel_graft *a)
{
    uint64_t n = a->rows * a->cols;
    double *parts = static_cast<double *>(on->workspace);
    unsigned n_parts = static_cast<unsigned>(cuda_parts(n));

    if (!n)
        return;
    sum_parts(on, n, parts, norm2_op{a->x});
    with_block<EACH_BLOCK>([&](auto block) {
        auto kernel = graft_kernel<block.n>;

        LAUNCH(blocks_for(n, block.n * 16), block.n, 0, on->stream, kernel, *a, parts, n_parts);
    });
}

/* ---- SOAP: averages, Adam's step, the order of eigenvectors ---- */

struct average_op {
    struct kernel_average a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float x[PACK], mean[PACK];

        load(DTYPE_FP32, a.x, i, len, x);
        load(DTYPE_FP32, a.mean, i, len, mean);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            float y = (1 - a.beta) * x[j];

            mean[j] = a.beta * mean[j] + (a.square ? y * x[j] : y);
        }
        store(DTYPE_FP32, mean, a.mean, i, len);
    }
};

void cuda_average(const struct kernel_on *on, const struct kernel_average *a)
{
    each(on, a->n, average_op{*a});
}

struct adam_step_op {
    struct kernel_adam_step a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float x[PACK], v[PACK];

        load(DTYPE_FP32, a.x, i, len, x);
        load(DTYPE_FP32, a.v, i, len, v);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            x[j] = a.rate * x[j] / (sqrtf(v[j]) + a.eps);
        store(DTYPE_FP32, x, a.x, i, len);
    }
};

void cuda_adam_step(const struct kernel_on *on, const struct kernel_adam_step *a)
{
    each(on, a->n, adam_step_op{*a});
}

/* values[j] = sum over i of x[i][j] y[i][j]: 32 columns a block, its warps take rows in turns. blockDim (32, up to 32). */
__global__ void column_dots_kernel(struct kernel_order a)
{
    SHARED(double, part, WARP *WARP);
    uint64_t col = static_cast<uint64_t>(blockIdx.x) * WARP + threadIdx.x;
    double sum = 0;

    for (uint64_t i = threadIdx.y; i < a.n && col < a.n; i += blockDim.y)
        sum += static_cast<double>(a.x[i * a.n + col]) * static_cast<double>(a.y[i * a.n + col]);
    part[threadIdx.y * WARP + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && col < a.n) {
        for (unsigned k = 1; k < blockDim.y; k++)
            sum += part[k * WARP + threadIdx.x];
        a.values[col] = static_cast<float>(sum);
    }
}

__device__ __forceinline__ float comparable(float x)
{
    return x != x ? __uint_as_float(0xff800000u) : x;
}

struct order_op {
    struct kernel_order a;

    __device__ void operator()(uint64_t i, unsigned lane) const
    {
        float x = comparable(a.values[i]);
        unsigned place = 0;

        for (uint64_t j = lane; j < a.n; j += WARP) {
            float y = comparable(a.values[j]);

            place += y > x || (y == x && j < i);
        }
        place = warp_all(place, plus());
        if (lane == 0) {
            a.place[i] = place;
            a.sorted[place] = x;
        }
    }
};

void cuda_order(const struct kernel_on *on, const struct kernel_order *a)
{
    unsigned block = OPEN_BLOCK(EACH_BLOCK);

    if (a->x)
        LAUNCH(static_cast<unsigned>(cuda_ceil(a->n, WARP)), dim3(WARP, block / WARP), 0,
               on->stream, column_dots_kernel, *a);
    each_warp(on, a->n, order_op{*a});
}

/* Reads along rows. Writes of a transpose are scattered: this is n^2 beside products of n^3. */
__global__ void permute_kernel(struct kernel_permute a)
{
    uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;

    for (uint64_t k = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         k < a.rows * a.cols; k += stride) {
        uint64_t i = k / a.cols, j = k % a.cols;
        uint64_t r = a.row_place ? a.row_place[i] : i, c = a.col_place ? a.col_place[j] : j;

        a.to[a.transpose ? c * a.rows + r : r * a.cols + c] = a.from[k];
    }
}

void cuda_permute(const struct kernel_on *on, const struct kernel_permute *a)
{
    unsigned block = OPEN_BLOCK(EACH_BLOCK);

    if (a->rows && a->cols)
        LAUNCH(blocks_for(a->rows * a->cols, block * 4), block, 0, on->stream, permute_kernel, *a);
}
