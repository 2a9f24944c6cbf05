/* tests/cuda/cub/block/block_reduce.cuh - CUB's block reduction, as far as kernels/ use it, for kernels that run on a CPU; found in
 * the toolkit's place by -Itests/cuda. Written after CUB 3.0.1 (CUDA 13.0): block/specializations/block_reduce_warp_reductions.cuh
 * and warp/specializations/warp_reduce_shfl.cuh.
 *
 * The order is theirs: lane i takes in lane i+1, then i+2, i+4, i+8, i+16, each step for all lanes at once; lane 0 of every
 * warp puts what it has into shared memory; after a barrier thread 0 takes in warp 1, 2, 3 ... So are the bits, but for an f
 * that the device's compiler fuses. Shuffles and the barrier are the emulation's: threads that do not come are its failures, and a
 * second reduction on the same storage without a barrier overwrites what thread 0 has still to read.
 *
 * Where CUB leaves something undefined, this says so or gives NaN: a block of another size, storage that is not the block's,
 * what threads other than 0 get. Left out: other algorithms, blocks that end within a warp, fewer items than threads or more.
 */
#ifndef BALLAST_TESTS_CUDA_CUB_BLOCK_REDUCE_CUH
#define BALLAST_TESTS_CUDA_CUB_BLOCK_REDUCE_CUH

#include "tests/cuda/emulate.h"

#include <type_traits>

namespace cub
{
enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
    BLOCK_REDUCE_RAKING,
    BLOCK_REDUCE_WARP_REDUCTIONS,
};

template <class T, int BLOCK_DIM_X, BlockReduceAlgorithm ALGORITHM = BLOCK_REDUCE_WARP_REDUCTIONS,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1>
class BlockReduce
{
    static constexpr unsigned THREADS = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, LANES = 32;

    static_assert(ALGORITHM == BLOCK_REDUCE_WARP_REDUCTIONS, "the only one that is emulated");
    static_assert(BLOCK_DIM_X > 0 && BLOCK_DIM_Y > 0 && BLOCK_DIM_Z > 0 && THREADS % LANES == 0 &&
                      THREADS <= 1024,
                  "whole warps, up to 1024 threads");
    static_assert(std::is_trivially_copyable<T>::value, "lanes exchange its bytes");

  public:
    struct TempStorage {
        T of_warp[THREADS / LANES];
    };

    explicit BlockReduce(TempStorage &storage) : room(storage)
    {
        if (blockDim.x != BLOCK_DIM_X || blockDim.y != BLOCK_DIM_Y || blockDim.z != BLOCK_DIM_Z)
            emulate_fail("cub::BlockReduce for (%d,%d,%d) threads in a block of (%u,%u,%u)",
                         BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z, blockDim.x, blockDim.y, blockDim.z);
        if (!emulate_is_shared(&storage, sizeof(storage)))
            emulate_fail("cub::BlockReduce on storage that is not in shared memory");
    }

    T Sum(T input)
    {
        return Reduce(input, [](T a, T b) { return a + b; });
    }

    template <class F> T Reduce(T x, F f)
    {
        unsigned thread =
            threadIdx.x +
            blockDim.x * (threadIdx.y + blockDim.y * static_cast<unsigned>(threadIdx.z));
        unsigned lane = thread % LANES;

        for (unsigned by = 1; by < LANES; by *= 2) {
            T other = from_lane_above(x, by);

            if (lane + by < LANES)
                x = f(x, other);
        }
        if (lane == 0)
            room.of_warp[thread / LANES] = x;
        __syncthreads();
        if (thread != 0) {
            memset(static_cast<void *>(&x), 0xff, sizeof(x));
            return x;
        }
        for (unsigned w = 1; w < THREADS / LANES; w++)
            x = f(x, room.of_warp[w]);
        return x;
    }

  private:
    /* In words, as a shuffle moves them. */
    static T from_lane_above(T x, unsigned by)
    {
        uint32_t words[(sizeof(T) + 3) / 4] = {};

        memcpy(words, &x, sizeof(T));
        for (uint32_t &word : words)
            word = __shfl_down_sync(0xffffffffu, word, by);
        memcpy(static_cast<void *>(&x), words, sizeof(T));
        return x;
    }

    TempStorage &room;
};
} // namespace cub

#endif
