/* kernels/cuda_block.cuh - what a block of threads sums up together, by CUB's block reduction, and sums over arrays made of it.
 *
 * CUB comes with the toolkit; on a CPU tests/cuda/cub takes its place. Its BLOCK_REDUCE_WARP_REDUCTIONS has one order: in a
 * warp lane i takes in lane i+1, then i+2, i+4, i+8, i+16; then thread 0 takes in the warps one by one. It does not depend on
 * who comes first, so the same inputs give the same bits; tests/gpu/cub.sh reads it off what nvcc makes of the toolkit's header.
 *
 * CUB wants the number of threads when it is compiled: kernels have it as their first template argument, BLOCK, and are
 * launched by with_block(). blockDim is (BLOCK, 1, 1), BLOCK a multiple of 32.
 */
#ifndef BALLAST_KERNELS_CUDA_BLOCK_CUH
#define BALLAST_KERNELS_CUDA_BLOCK_CUH

#include "kernels/cuda_common.cuh"

#include <cub/block/block_reduce.cuh>

#ifndef BALLAST_EMULATED
template <unsigned N> struct block_of {
    static constexpr unsigned n = N;
};

/* f(b): launch with blocks of b.n threads, which are N. The emulation may say otherwise. */
template <unsigned N, class F> static void with_block(F f)
{
    f(block_of<N>());
}
#endif

template <class T, unsigned BLOCK>
using block_reduction =
    cub::BlockReduce<T, static_cast<int>(BLOCK), cub::BLOCK_REDUCE_WARP_REDUCTIONS>;

/* The sum over a block, for thread 0; what others get means nothing. A barrier has to come between one and the next. */
template <unsigned BLOCK, class T> __device__ __forceinline__ T block_sum(T x)
{
    using room_type = typename block_reduction<T, BLOCK>::TempStorage;
    SHARED(room_type, room, 1);

    return block_reduction<T, BLOCK>(room[0]).Sum(x);
}

/* The same of any associative f(a, b), a being from lower threads than b. */
template <unsigned BLOCK, class T, class F> __device__ __forceinline__ T block_reduce(T x, F f)
{
    using room_type = typename block_reduction<T, BLOCK>::TempStorage;
    SHARED(room_type, room, 1);

    return block_reduction<T, BLOCK>(room[0]).Reduce(x, f);
}

/* Thread 0's x for all threads. Taking turns with the two above it needs no other barriers, nor do they. */
template <class T> __device__ __forceinline__ T broadcast(T x)
{
    SHARED(T, first, 1);

    if (threadIdx.x == 0)
        first[0] = x;
    __syncthreads();
    return first[0];
}

/* ---- sums over an array: parts by blocks of a fixed grid, then all parts by whoever needs them ---- */

/* parts[k] = sum of f(i, len) over the packs of part k of n elements */
template <unsigned BLOCK, class F>
__global__ void __launch_bounds__(BLOCK) parts_kernel(F f, uint64_t n, double *parts)
{
    uint64_t packs = n / PACK + (n % PACK != 0),
             each = packs / gridDim.x + (packs % gridDim.x != 0);
    uint64_t first = each * blockIdx.x, end = first + each < packs ? first + each : packs;
    double sum = 0;

    for (uint64_t k = first + threadIdx.x; k < end; k += BLOCK)
        sum += f(k * PACK, pack_of(k * PACK, n));
    sum = block_sum<BLOCK>(sum);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

template <class F> static void sum_parts(const struct kernel_on *on, uint64_t n, double *parts, F f)
{
    unsigned grid = static_cast<unsigned>(cuda_parts(n));

    if (n)
        with_block<EACH_BLOCK>([&](auto block) {
            auto kernel = parts_kernel<block.n, F>;

            LAUNCH(grid, block.n, 0, on->stream, kernel, f, n, parts);
        });
}

/* By a whole block, for thread 0. */
template <unsigned BLOCK>
__device__ __forceinline__ double all_parts(const double *parts, unsigned n)
{
    double sum = 0;

    for (unsigned k = threadIdx.x; k < n; k += BLOCK)
        sum += parts[k];
    return block_sum<BLOCK>(sum);
}

#endif
