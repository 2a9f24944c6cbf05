/* kernels/cuda_common.cuh - what the kernels of kernels/cuda_*.cu share: loads and stores of the storage types, sums over a warp,
 * and the loops over elements and rows. Sums over a block are in kernels/cuda_block.cuh.
 *
 * The same source is compiled by nvcc and, for tests on a CPU, by a C++ compiler with tests/cuda/emulate.h before it. What
 * the language of the one lacks in the other are macros: LAUNCH for <<<>>>, SHARED for __shared__, OPEN_BLOCK for a number of
 * threads a block that the tests may choose otherwise.
 *
 * Types are looked up when a kernel runs, by a branch that is the same for all threads: what is bound by memory does not
 * notice, and 27 combinations of an optimizer's types need one kernel. Elements come in packs of 8: 16 bytes of a 16-bit type.
 * Sums have one order, given by indices alone.
 */
#ifndef BALLAST_KERNELS_CUDA_COMMON_CUH
#define BALLAST_KERNELS_CUDA_COMMON_CUH

#include "kernels/cuda.h"
#include "kernels/cuda_workspace.h"

#ifndef BALLAST_EMULATED
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#define OPEN_BLOCK(n)         (n)
#define SHARED(type, name, n) __shared__ __align__(16) type name[n]
#define SHARED_DYNAMIC(type, name)                                                                 \
    extern __shared__ __align__(16) unsigned char dynamic_shared[];                                \
    type *const name = reinterpret_cast<type *>(dynamic_shared)
#define LAUNCH(grid, block, shared, stream, kernel, ...)                                           \
    kernel<<<grid, block, shared, static_cast<cudaStream_t>(stream)>>>(__VA_ARGS__)
/* More than 48 KiB has to be asked for. */
#define ALLOW_SHARED(kernel, bytes)                                                                \
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,                      \
                         static_cast<int>(bytes))
#endif

static const unsigned WARP = 32, PACK = 8, ALL_LANES = 0xffffffffu;

/* ---- conversion: the bits of core/dtype.c ---- */

/* The low 16 bits as bf16 or fp16. */
__device__ __forceinline__ float from_half(enum dtype d, unsigned h)
{
    if (d == DTYPE_BF16)
        return __uint_as_float(h << 16);
#ifndef BALLAST_EMULATED
    return __half2float(__ushort_as_half(static_cast<unsigned short>(h)));
#else
    unsigned sign = (h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    float x = static_cast<float>(m) * 0x1p-24f;

    if (e == 31)
        return __uint_as_float(sign | 0x7f800000u | m << 13 | (m ? 0x400000u : 0));
    if (e)
        return __uint_as_float(sign | (e + 112) << 23 | m << 13);
    return sign ? -x : x;
#endif
}

__device__ __forceinline__ unsigned to_bf16(float x)
{
    unsigned u = __float_as_uint(x);

    if ((u & 0x7fffffffu) > 0x7f800000u) /* NaN: keep it one */
        return u >> 16 | 0x40;
#ifndef BALLAST_EMULATED
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
#else
    return (u + 0x7fffu + (u >> 16 & 1)) >> 16;
#endif
}

__device__ __forceinline__ unsigned to_fp16(float x)
{
    unsigned u = __float_as_uint(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffffu;

    if (a > 0x7f800000u)
        return sign | 0x7e00;
#ifndef BALLAST_EMULATED
    return __half_as_ushort(__float2half_rn(x));
#else
    unsigned mant, shift, half;

    if (a >= 0x477ff000u) /* rounds to 65536 or more */
        return sign | 0x7c00;
    if (a >= 0x38800000u) /* normal */
        return sign | (((a - 0x38000000u) + 0xfffu + (a >> 13 & 1)) >> 13);
    if (a < 0x33000000u) /* less than half of the smallest */
        return sign;
    mant = (a & 0x7fffffu) | 0x800000u;
    shift = 126 - (a >> 23);
    half = mant >> shift;
    mant &= (1u << shift) - 1;
    half += mant > 1u << (shift - 1) || (mant == 1u << (shift - 1) && (half & 1));
    return sign | half;
#endif
}

__device__ __forceinline__ unsigned to_half(enum dtype d, float x)
{
    return d == DTYPE_BF16 ? to_bf16(x) : to_fp16(x);
}

/* ---- elements ---- */

__device__ __forceinline__ float load1(enum dtype d, const void *p, uint64_t i)
{
    return d == DTYPE_FP32 ? static_cast<const float *>(p)[i]
                           : from_half(d, static_cast<const uint16_t *>(p)[i]);
}

/* x as it comes back from memory. */
__device__ __forceinline__ float rounded(enum dtype d, float x)
{
    return d == DTYPE_FP32 ? x : from_half(d, to_half(d, x));
}

__device__ __forceinline__ void store1(enum dtype d, float x, void *p, uint64_t i)
{
    if (d == DTYPE_FP32)
        static_cast<float *>(p)[i] = x;
    else
        static_cast<uint16_t *>(p)[i] = static_cast<uint16_t>(to_half(d, x));
}

/* Does a pack at element i lie on 16 bytes? */
__device__ __forceinline__ bool is_aligned(enum dtype d, const void *p, uint64_t i)
{
    return (reinterpret_cast<uintptr_t>(p) + i * (d == DTYPE_FP32 ? 4 : 2)) % 16 == 0;
}

/* x[0 .. len) = elements [i, i+len), len <= 8; the rest of x becomes 0. */
__device__ __forceinline__ void load(enum dtype d, const void *p, uint64_t i, unsigned len,
                                     float x[PACK])
{
    if (len == PACK && is_aligned(d, p, i)) {
        if (d == DTYPE_FP32) {
            const float4 *q = reinterpret_cast<const float4 *>(static_cast<const float *>(p) + i);
            float4 a = q[0], b = q[1];

            x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
            x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
        } else {
            uint4 a = *reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(p) + i);

            x[0] = from_half(d, a.x & 0xffff), x[1] = from_half(d, a.x >> 16);
            x[2] = from_half(d, a.y & 0xffff), x[3] = from_half(d, a.y >> 16);
            x[4] = from_half(d, a.z & 0xffff), x[5] = from_half(d, a.z >> 16);
            x[6] = from_half(d, a.w & 0xffff), x[7] = from_half(d, a.w >> 16);
        }
        return;
    }
#pragma unroll
    for (unsigned j = 0; j < PACK; j++)
        x[j] = j < len ? load1(d, p, i + j) : 0;
}

__device__ __forceinline__ void store(enum dtype d, const float x[PACK], void *p, uint64_t i,
                                      unsigned len)
{
    if (len == PACK && is_aligned(d, p, i)) {
        if (d == DTYPE_FP32) {
            float4 *q = reinterpret_cast<float4 *>(static_cast<float *>(p) + i);
            float4 a, b;

            a.x = x[0], a.y = x[1], a.z = x[2], a.w = x[3];
            b.x = x[4], b.y = x[5], b.z = x[6], b.w = x[7];
            q[0] = a;
            q[1] = b;
        } else {
            uint4 a;

            a.x = to_half(d, x[0]) | to_half(d, x[1]) << 16;
            a.y = to_half(d, x[2]) | to_half(d, x[3]) << 16;
            a.z = to_half(d, x[4]) | to_half(d, x[5]) << 16;
            a.w = to_half(d, x[6]) | to_half(d, x[7]) << 16;
            *reinterpret_cast<uint4 *>(static_cast<uint16_t *>(p) + i) = a;
        }
        return;
    }
#pragma unroll
    for (unsigned j = 0; j < PACK; j++)
        if (j < len)
            store1(d, x[j], p, i + j);
}

/* += in fp32, rounded once. */
__device__ __forceinline__ void store_add(enum dtype d, const float x[PACK], void *p, uint64_t i,
                                          unsigned len)
{
    float y[PACK];

    load(d, p, i, len, y);
#pragma unroll
    for (unsigned j = 0; j < PACK; j++)
        y[j] += x[j];
    store(d, y, p, i, len);
}

/* A part of an array, for hosts and devices. */
template <class T> __host__ __device__ __forceinline__ T *at(enum dtype d, T *p, uint64_t i)
{
    return const_cast<T *>(reinterpret_cast<const T *>(
        static_cast<const char *>(static_cast<const void *>(p)) + i * (d == DTYPE_FP32 ? 4 : 2)));
}

/* ---- sums: every thread of the warp gets the same bits ---- */

struct plus {
    template <class T> __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};
struct larger {
    template <class T> __device__ T operator()(T a, T b) const
    {
        return a > b ? a : b; /* of a and NaN: NaN, of NaN and b: b */
    }
};

template <class T, class F> __device__ __forceinline__ T warp_all(T x, F f)
{
    for (unsigned by = WARP / 2; by > 0; by /= 2)
        x = f(x, __shfl_xor_sync(ALL_LANES, x, by));
    return x;
}

__device__ __forceinline__ unsigned n_warps()
{
    return blockDim.x / WARP;
}

/* ---- loops ---- */

static const unsigned EACH_BLOCK = 256, MAX_BLOCKS = 65535;

static inline unsigned blocks_for(uint64_t n, uint64_t per_block)
{
    uint64_t blocks = n / per_block + (n % per_block != 0);

    return static_cast<unsigned>(blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS);
}

__device__ __forceinline__ unsigned pack_of(uint64_t i, uint64_t n)
{
    return n - i < PACK ? static_cast<unsigned>(n - i) : PACK;
}

/* The same of an i that may lie behind the end. */
__device__ __forceinline__ unsigned pack_before(uint64_t i, uint64_t n)
{
    return i < n ? pack_of(i, n) : 0;
}

/* f(i, len) for the packs of [0, n) */
template <class F> __global__ void each_kernel(F f, uint64_t n)
{
    uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    uint64_t packs = n / PACK + (n % PACK != 0);

    for (uint64_t k = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < packs;
         k += stride)
        f(k * PACK, pack_of(k * PACK, n));
}

template <class F> static void each(const struct kernel_on *on, uint64_t n, F f)
{
    unsigned block = OPEN_BLOCK(EACH_BLOCK);
    unsigned grid = blocks_for(n, static_cast<uint64_t>(block) * PACK);

    if (n)
        LAUNCH(grid, block, 0, on->stream, each_kernel<F>, f, n);
}

/* f(row, col, len) for the packs of the rows of (rows, width): none reaches into the next row. */
template <class F> __global__ void each_row_kernel(F f, uint64_t rows, uint64_t width)
{
    uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    uint64_t packs = width / PACK + (width % PACK != 0);

    for (uint64_t k = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         k < rows * packs; k += stride)
        f(k / packs, k % packs * PACK, pack_of(k % packs * PACK, width));
}

template <class F>
static void each_row(const struct kernel_on *on, uint64_t rows, uint64_t width, F f)
{
    unsigned block = OPEN_BLOCK(EACH_BLOCK);
    uint64_t packs = width / PACK + (width % PACK != 0);

    if (rows && width)
        LAUNCH(blocks_for(rows * packs, block), block, 0, on->stream, each_row_kernel<F>, f, rows,
               width);
}

/* f(row), by a warp each */
template <class F> __global__ void each_warp_kernel(F f, uint64_t rows)
{
    uint64_t stride = static_cast<uint64_t>(gridDim.x) * n_warps();

    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * n_warps() + threadIdx.x / WARP;
         row < rows; row += stride)
        f(row, threadIdx.x % WARP);
}

template <class F> static void each_warp(const struct kernel_on *on, uint64_t rows, F f)
{
    unsigned block = OPEN_BLOCK(EACH_BLOCK);

    if (rows)
        LAUNCH(blocks_for(rows, block / WARP), block, 0, on->stream, each_warp_kernel<F>, f, rows);
}

/* ---- sums over rows: columns by threads, parts of rows by blocks, then the parts; gradients of weights ---- */

/* parts (N, gridDim.y, width): sums of f(row, col, len, x) over the rows of part blockIdx.y */
template <int N, class F>
__global__ void row_parts_kernel(F f, uint64_t rows, uint64_t width, float *parts)
{
    uint64_t each = rows / gridDim.y + (rows % gridDim.y != 0), first = each * blockIdx.y;
    uint64_t end = first + each < rows ? first + each : rows;
    uint64_t col = (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * PACK;
    unsigned len = col < width ? pack_of(col, width) : 0;
    float sum[N][PACK] = {}, x[N][PACK];

    if (!len)
        return;
    for (uint64_t row = first; row < end; row++) {
        f(row, col, len, x);
#pragma unroll
        for (int k = 0; k < N; k++)
#pragma unroll
            for (unsigned j = 0; j < PACK; j++)
                sum[k][j] += x[k][j];
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        store(DTYPE_FP32, sum[k], parts,
              (static_cast<uint64_t>(k) * gridDim.y + blockIdx.y) * width + col, len);
}

/* to += the sum of parts (n_parts, width) */
struct add_parts_op {
    enum dtype type;
    const float *parts;
    uint64_t width, n_parts;
    void *to;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float sum[PACK] = {}, x[PACK];

        for (uint64_t k = 0; k < n_parts; k++) {
            load(DTYPE_FP32, parts, k * width + i, len, x);
#pragma unroll
            for (unsigned j = 0; j < PACK; j++)
                sum[j] += x[j];
        }
        store_add(type, sum, to, i, len);
    }
};

/* to[k] (width), of type on->grad, += sum over rows of the k-th row of f's x; NULL is not wanted. parts: room for
 * N * cuda_row_parts(rows) * width. */
template <int N, class F>
static void sum_rows(const struct kernel_on *on, uint64_t rows, uint64_t width, float *parts,
                     void *const to[N], F f)
{
    unsigned block = OPEN_BLOCK(64), n_parts = static_cast<unsigned>(cuda_row_parts(rows));
    auto kernel = row_parts_kernel<N, F>;
    dim3 grid(blocks_for(width, static_cast<uint64_t>(block) * PACK), n_parts);

    if (!rows || !width)
        return;
    LAUNCH(grid, block, 0, on->stream, kernel, f, rows, width, parts);
    for (uint64_t k = 0; k < N; k++)
        if (to[k])
            each(on, width,
                 add_parts_op{on->grad, parts + k * n_parts * width, width, n_parts, to[k]});
}

#endif
