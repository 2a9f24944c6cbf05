/* RMSNorm and LayerNorm: a warp a row, which it reads from memory once and from the cache after that. Formulas as in
 * kernels/norm.c; the sums of a row are of packs in fp32, of packs in double. */
#include "kernels/cuda_common.cuh"

__device__ __forceinline__ float pack_sum(const float x[PACK])
{
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

/* Sum over a row of f(pack), by a warp. */
template <class F> __device__ __forceinline__ double row_sum(uint64_t width, unsigned lane, F f)
{
    double sum = 0;

    for (uint64_t i = static_cast<uint64_t>(lane) * PACK; i < width; i += WARP * PACK)
        sum += static_cast<double>(f(i, pack_of(i, width)));
    return warp_all(sum, plus());
}

struct row_stats {
    float mean, r;
};

__device__ __forceinline__ row_stats stats_of(enum dtype act, const struct kernel_norm &a,
                                              bool layer, uint64_t row, unsigned lane)
{
    double n = static_cast<double>(a.width);
    float mean = 0;
    double squares;

    if (layer)
        mean = static_cast<float>(row_sum(a.width, lane,
                                          [&](uint64_t i, unsigned len) {
                                              float x[PACK];

                                              load(act, a.x, row * a.width + i, len, x);
                                              return pack_sum(x);
                                          }) /
                                  n);
    squares = row_sum(a.width, lane, [&](uint64_t i, unsigned len) {
        float x[PACK];

        load(act, a.x, row * a.width + i, len, x);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            x[j] = j < len ? (x[j] - mean) * (x[j] - mean) : 0;
        return pack_sum(x);
    });
    return row_stats{mean, static_cast<float>(1 / sqrt(squares / n + static_cast<double>(a.eps)))};
}

struct norm_op {
    enum dtype act, weight;
    bool layer;
    struct kernel_norm a;

    __device__ void operator()(uint64_t row, unsigned lane) const
    {
        row_stats s = stats_of(act, a, layer, row, lane);

        for (uint64_t i = static_cast<uint64_t>(lane) * PACK; i < a.width; i += WARP * PACK) {
            unsigned len = pack_of(i, a.width);
            float x[PACK], w[PACK], b[PACK] = {};

            load(act, a.x, row * a.width + i, len, x);
            load(weight, a.weight, i, len, w);
            if (a.bias)
                load(weight, a.bias, i, len, b);
#pragma unroll
            for (unsigned j = 0; j < PACK; j++)
                x[j] = (x[j] - s.mean) * s.r * w[j] + b[j];
            store(act, x, a.out, row * a.width + i, len);
        }
    }
};

/* d_x, and the row's statistics for the sums over rows. */
struct norm_backward_op {
    enum dtype act, weight;
    bool layer;
    struct kernel_norm a;
    row_stats *stats;

    /* xhat and g = d_out * weight of a pack */
    __device__ __forceinline__ void pack(row_stats s, uint64_t row, uint64_t i, unsigned len,
                                         float x[PACK], float g[PACK]) const
    {
        float w[PACK];

        load(act, a.x, row * a.width + i, len, x);
        load(act, a.d_out, row * a.width + i, len, g);
        load(weight, a.weight, i, len, w);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            x[j] = (x[j] - s.mean) * s.r;
            g[j] *= w[j]; /* 0 behind the end */
        }
    }

    __device__ void operator()(uint64_t row, unsigned lane) const
    {
        row_stats s = stats_of(act, a, layer, row, lane);
        double n = static_cast<double>(a.width);
        float along, mean_g = 0;

        if (lane == 0)
            stats[row] = s;
        if (!a.d_x)
            return;
        along = static_cast<float>(row_sum(a.width, lane,
                                           [&](uint64_t i, unsigned len) {
                                               float x[PACK], g[PACK];

                                               pack(s, row, i, len, x, g);
#pragma unroll
                                               for (unsigned j = 0; j < PACK; j++)
                                                   g[j] *= x[j];
                                               return pack_sum(g);
                                           }) /
                                   n);
        if (layer)
            mean_g = static_cast<float>(row_sum(a.width, lane,
                                                [&](uint64_t i, unsigned len) {
                                                    float x[PACK], g[PACK];

                                                    pack(s, row, i, len, x, g);
                                                    return pack_sum(g);
                                                }) /
                                        n);
        for (uint64_t i = static_cast<uint64_t>(lane) * PACK; i < a.width; i += WARP * PACK) {
            unsigned len = pack_of(i, a.width);
            float x[PACK], g[PACK];

            pack(s, row, i, len, x, g);
#pragma unroll
            for (unsigned j = 0; j < PACK; j++)
                g[j] = s.r * (g[j] - mean_g - x[j] * along);
            store_add(act, g, a.d_x, row * a.width + i, len);
        }
    }
};

struct norm_weight_term {
    enum dtype act;
    struct kernel_norm a;
    const row_stats *stats;

    __device__ void operator()(uint64_t row, uint64_t col, unsigned len, float x[2][PACK]) const
    {
        row_stats s = stats[row];

        load(act, a.x, row * a.width + col, len, x[0]);
        load(act, a.d_out, row * a.width + col, len, x[1]);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            x[0][j] = (x[0][j] - s.mean) * s.r * x[1][j];
    }
};

static void backward(const struct kernel_on *on, const struct kernel_norm *a, bool layer)
{
    row_stats *stats = static_cast<row_stats *>(on->workspace);
    float *parts = static_cast<float *>(on->workspace) + 2 * a->rows;
    void *to[2] = {a->d_weight, a->d_bias};

    each_warp(on, a->rows, norm_backward_op{on->act, on->weight, layer, *a, stats});
    if (to[0] || to[1])
        sum_rows<2>(on, a->rows, a->width, parts, to, norm_weight_term{on->act, *a, stats});
}

void cuda_rmsnorm(const struct kernel_on *on, const struct kernel_norm *a)
{
    each_warp(on, a->rows, norm_op{on->act, on->weight, false, *a});
}

void cuda_rmsnorm_backward(const struct kernel_on *on, const struct kernel_norm *a)
{
    backward(on, a, false);
}

void cuda_layernorm(const struct kernel_on *on, const struct kernel_norm *a)
{
    each_warp(on, a->rows, norm_op{on->act, on->weight, true, *a});
}

void cuda_layernorm_backward(const struct kernel_on *on, const struct kernel_norm *a)
{
    backward(on, a, true);
}
