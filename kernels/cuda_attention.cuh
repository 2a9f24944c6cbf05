/* kernels/cuda_attention.cuh - what attention on plain cores (cuda_attention.cu) and on tensor cores (cuda_attention_mma.cu) share. */
#ifndef BALLAST_KERNELS_CUDA_ATTENTION_CUH
#define BALLAST_KERNELS_CUDA_ATTENTION_CUH

#include "kernels/cuda_common.cuh"

/* False: not theirs, nothing was launched. */
bool attention_mma(const struct kernel_on *on, const struct kernel_attention *a);
bool attention_mma_backward(const struct kernel_on *on, const struct kernel_attention *a);

/* Where a tile of rows comes from: token `first` on, of `seq`, of a sequence that begins at token `base`. */
struct rows_at {
    enum dtype act;
    uint64_t stride, head, head_dim, base, seq;
};

__device__ __forceinline__ bool sees(const struct kernel_attention &a, uint64_t query, uint64_t key)
{
    return query < a.seq && key < a.seq && (!a.causal || key <= query);
}

__device__ __forceinline__ uint64_t tiles_of(uint64_t seq, unsigned t)
{
    return seq / t + (seq % t != 0);
}

static const float NOTHING =
    -3.402823466e38f; /* less than any score; finite, so that it can be subtracted */

/* along[b][h][t] = rowsum(d_out * out): a warp a row of a head */
struct along_op {
    enum dtype act;
    struct kernel_attention a;
    float *along;

    __device__ void operator()(uint64_t row, unsigned lane) const
    {
        uint64_t token = row / a.heads, head = row % a.heads;
        double sum = 0;

        for (uint64_t i = static_cast<uint64_t>(lane) * PACK; i < a.head_dim; i += WARP * PACK) {
            unsigned len = pack_of(i, a.head_dim);
            float x[PACK], y[PACK], part = 0;

            load(act, a.out, row * a.head_dim + i, len, x);
            load(act, a.d_out, row * a.head_dim + i, len, y);
#pragma unroll
            for (unsigned j = 0; j < PACK; j++)
                part += x[j] * y[j];
            sum += static_cast<double>(part);
        }
        sum = warp_all(sum, plus());
        if (lane == 0)
            along[(token / a.seq * a.heads + head) * a.seq + token % a.seq] =
                static_cast<float>(sum);
    }
};

#endif
