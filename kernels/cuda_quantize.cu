/* Block-wise int8 and int4 (kernels/quantize.h): a warp a block of 256, a pack of 8 elements a lane. */
#include "kernels/cuda_common.cuh"

static_assert(KERNEL_QUANT_BLOCK == WARP * PACK, "a warp has a block");

/* The bytes of a pack, the first element lowest: 8 for int8, 4 for int4. */
__device__ __forceinline__ void store_codes(enum dtype codes, const int code[PACK], uint8_t *q,
                                            uint64_t i, unsigned len)
{
    if (codes == DTYPE_INT8) {
        if (len == PACK && reinterpret_cast<uintptr_t>(q + i) % 8 == 0) {
            uint2 both = {0, 0};

#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                both.x |= (static_cast<unsigned>(code[j]) & 0xff) << 8 * j;
                both.y |= (static_cast<unsigned>(code[4 + j]) & 0xff) << 8 * j;
            }
            *reinterpret_cast<uint2 *>(q + i) = both;
            return;
        }
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            if (j < len)
                q[i + j] = static_cast<uint8_t>(code[j]);
        return;
    }
#pragma unroll
    for (unsigned j = 0; j < PACK; j += 2)
        if (j < len) {
            unsigned high = j + 1 < len ? static_cast<unsigned>(code[j + 1]) & 15 : 0;

            q[(i + j) / 2] =
                static_cast<uint8_t>((static_cast<unsigned>(code[j]) & 15) | high << 4);
        }
}

__device__ __forceinline__ int code_at(enum dtype codes, const uint8_t *q, uint64_t k)
{
    int half;

    if (codes == DTYPE_INT8)
        return static_cast<int8_t>(q[k]);
    half = k % 2 ? q[k / 2] >> 4 : q[k / 2] & 15;
    return half < 8 ? half : half - 16;
}

struct quantize_op {
    struct kernel_quantize a;

    __device__ void operator()(uint64_t block, unsigned lane) const
    {
        uint64_t i = block * KERNEL_QUANT_BLOCK + lane * PACK;
        unsigned len = i < a.n ? pack_of(i, a.n) : 0;
        float x[PACK], top = 0, limit = a.codes == DTYPE_INT8 ? 127 : 7, scale;
        bool bad = false;
        int code[PACK];

        load(a.type, a.x, i, len, x);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            bad |= !(fabsf(x[j]) <= 3.402823466e38f); /* infinite, or NaN */
            top = fabsf(x[j]) > top ? fabsf(x[j]) : top;
        }
        bad = __any_sync(ALL_LANES, bad);
        scale = warp_all(top, larger()) / limit;
        if (bad)
            scale = __uint_as_float(0x7fc00000u);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            float q = scale > 0 ? rintf(x[j] / scale) : 0;

            code[j] = static_cast<int>(q > limit ? limit : q < -limit ? -limit : q);
        }
        store_codes(a.codes, code, static_cast<uint8_t *>(a.q), i, len);
        if (lane == 0)
            a.scale[block] = scale;
    }
};

void cuda_quantize(const struct kernel_on *on, const struct kernel_quantize *a)
{
    each_warp(on, cuda_ceil(a->n, KERNEL_QUANT_BLOCK), quantize_op{*a});
}

struct dequantize_op {
    struct kernel_quantize a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float x[PACK], scale = a.scale[i / KERNEL_QUANT_BLOCK];

#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            x[j] = j < len ? static_cast<float>(
                                 code_at(a.codes, static_cast<const uint8_t *>(a.q), i + j)) *
                                 scale
                           : 0;
        store(a.type, x, a.x, i, len);
    }
};

void cuda_dequantize(const struct kernel_on *on, const struct kernel_quantize *a)
{
    each(on, a->n, dequantize_op{*a});
}
