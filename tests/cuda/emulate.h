/* tests/cuda/emulate.h - enough of CUDA to compile a kernels/cuda_*.cu with a C++ compiler and run it on a CPU:
 * g++ -x c++ -include tests/cuda/emulate.h. Needs no CUDA header.
 *
 * A launch runs its blocks one after the other. Each thread of a block is a fiber with its own stack, and runs until it
 * waits: at __syncthreads() until all threads of the block are there, at __syncwarp(), a shuffle, a vote or a product of matrices
 * until all threads of its mask are there. Warps take turns in an order drawn from a seed, and each runs as far as it can before the
 * next, so that a missing barrier shows as a wrong result; a barrier that some thread never reaches, or where threads wait
 * at different lines, is a failure.
 * Shared memory is allocated to the byte and filled with NaN before each block: AddressSanitizer sees what runs over its end,
 * and nobody finds what an earlier block left.
 *
 * Left out: concurrency between blocks, memory order, timing, bank conflicts. mma.sync and ldmatrix
 * are in tests/cuda/emulate_mma.h, as the PTX manual says what lies where.
 */
#ifndef BALLAST_TESTS_CUDA_EMULATE_H
#define BALLAST_TESTS_CUDA_EMULATE_H

#include "tests/cuda/emulate_control.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BALLAST_EMULATED 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#undef __noinline__
#define __noinline__ __attribute__((noinline))

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

extern uint3 emulate_thread_index;
extern dim3 emulate_block_index, emulate_block_size, emulate_grid_size;
#define threadIdx emulate_thread_index
#define blockIdx  emulate_block_index
#define blockDim  emulate_block_size
#define gridDim   emulate_grid_size

/* ---- waiting ---- */

enum emulate_kind {
    EMULATE_BARRIER,
    EMULATE_WARP, /* __syncwarp */
    EMULATE_SHUFFLE,
    EMULATE_VOTE,
    EMULATE_MATRICES,
};
/* Of one thread: what it brings, and what it takes away. */
struct emulate_exchange {
    unsigned source; /* shuffle: the lane it wants */
    uint64_t value;  /* shuffle, vote */
    uint64_t result;
    const void *operands; /* matrices: of every lane, for `work` */
    void (*work)(const void *const operands[32]);
};
void emulate_wait(enum emulate_kind kind, unsigned mask, struct emulate_exchange *x,
                  const char *file, int line);
int emulate_count_wait(int predicate, const char *file, int line);
void emulate_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define __syncthreads()        emulate_wait(EMULATE_BARRIER, 0xffffffffu, nullptr, __FILE__, __LINE__)
#define __syncthreads_count(p) emulate_count_wait((p) != 0, __FILE__, __LINE__)
#define __syncthreads_or(p)    (emulate_count_wait((p) != 0, __FILE__, __LINE__) > 0)
#define __syncwarp()           emulate_wait(EMULATE_WARP, 0xffffffffu, nullptr, __FILE__, __LINE__)

static inline unsigned emulate_lane()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

template <class T>
static inline T emulate_shuffle(unsigned mask, T v, unsigned source, const char *file, int line)
{
    struct emulate_exchange x = {};
    T out;

    static_assert(sizeof(T) <= sizeof(x.value), "a shuffle moves at most 8 bytes");
    memcpy(&x.value, &v, sizeof(v));
    x.source = source;
    emulate_wait(EMULATE_SHUFFLE, mask, &x, file, line);
    memcpy(&out, &x.result, sizeof(out));
    return out;
}
/* Within groups of `width` lanes; a lane outside its group is its own. */
static inline unsigned emulate_in_group(unsigned lane, int64_t source, int width)
{
    int64_t first = lane / (unsigned)width * (unsigned)width;

    return source < first || source >= first + width ? lane : (unsigned)source;
}
#define emulate_shuffle_3(mask, v, from, w)                                                        \
    emulate_shuffle(mask, v, emulate_in_group(emulate_lane(), (int64_t)(from), w), __FILE__,       \
                    __LINE__)
#define __shfl_xor_sync(mask, v, by, ...)                                                          \
    emulate_shuffle_3(mask, v, emulate_lane() ^ (unsigned)(by), emulate_width(__VA_ARGS__))
#define __shfl_down_sync(mask, v, by, ...)                                                         \
    emulate_shuffle_3(mask, v, emulate_lane() + (unsigned)(by), emulate_width(__VA_ARGS__))
#define __shfl_up_sync(mask, v, by, ...)                                                           \
    emulate_shuffle_3(mask, v, (int64_t)emulate_lane() - (int64_t)(by), emulate_width(__VA_ARGS__))
#define __shfl_sync(mask, v, lane, ...)                                                            \
    emulate_shuffle_3(mask, v,                                                                     \
                      emulate_lane() / (unsigned)emulate_width(__VA_ARGS__) *                      \
                              (unsigned)emulate_width(__VA_ARGS__) +                               \
                          (unsigned)(lane) % (unsigned)emulate_width(__VA_ARGS__),                 \
                      emulate_width(__VA_ARGS__))
static inline int emulate_width(int width = 32)
{
    return width;
}

static inline unsigned emulate_ballot(unsigned mask, int predicate, const char *file, int line)
{
    struct emulate_exchange x = {};

    x.value = predicate != 0;
    emulate_wait(EMULATE_VOTE, mask, &x, file, line);
    return (unsigned)x.result;
}
#define __ballot_sync(mask, p) emulate_ballot(mask, (p) != 0, __FILE__, __LINE__)
#define __any_sync(mask, p)    (emulate_ballot(mask, (p) != 0, __FILE__, __LINE__) != 0)

/* ---- shared memory ---- */

/* `bytes` of the block's, the same for all its threads: one a site. Site NULL: what the launch asked for. */
void *emulate_shared(const void *site, size_t bytes);
#define SHARED(type, name, n)                                                                      \
    static const char name##_site = 0;                                                             \
    type *const name = static_cast<type *>(emulate_shared(&name##_site, sizeof(type) * (n)))
/* Do `bytes` from p lie in the block's? */
bool emulate_is_shared(const void *p, size_t bytes);
#define SHARED_DYNAMIC(type, name)                                                                 \
    type *const name = static_cast<type *>(emulate_shared(nullptr, 0))

/* ---- launches ---- */

void emulate_run(dim3 grid, dim3 block, size_t shared, void (*thread)(void *), void *arguments);
unsigned emulate_block(unsigned asked);

template <class F> static inline void emulate_launch(dim3 grid, dim3 block, size_t shared, F f)
{
    emulate_run(
        grid, block, shared, [](void *p) { (*static_cast<F *>(p))(); }, &f);
}
/* The size of a block that may be any multiple of 32 up to 1024. */
#define OPEN_BLOCK(n) emulate_block(n)
/* The same for a kernel that is compiled for its size: f(b), b.n being one of those that tests ask for. */
template <unsigned N> struct block_of {
    static constexpr unsigned n = N;
};
template <unsigned N, class F> static inline void with_block(F f)
{
    switch (emulate_block(N)) {
    case 32:
        f(block_of<32>());
        break;
    case 96:
        f(block_of<96>());
        break;
    case 256:
        f(block_of<256>());
        break;
    case 512:
        f(block_of<512>());
        break;
    default:
        emulate_fail("no kernel was compiled for blocks of %u threads", emulate_block(N));
    }
}
#define LAUNCH(grid, block, shared, stream, kernel, ...)                                           \
    ((void)(stream), emulate_launch(grid, block, shared, [=] { kernel(__VA_ARGS__); }))
#define ALLOW_SHARED(kernel, bytes) ((void)(bytes))

/* ---- cp.async: nothing arrives before its thread waits for it ---- */

void emulate_copy_async(void *to, const void *from, unsigned bytes);
void emulate_copy_commit();
void emulate_copy_wait(unsigned pending); /* until at most so many groups are under way */

/* ---- small things ---- */

static inline unsigned __float_as_uint(float x)
{
    unsigned u;

    memcpy(&u, &x, sizeof(u));
    return u;
}
static inline float __uint_as_float(unsigned u)
{
    float x;

    memcpy(&x, &u, sizeof(x));
    return x;
}
static inline int __ffs(unsigned x)
{
    return __builtin_ffs((int)x);
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}

#include "tests/cuda/emulate_mma.h"

#endif
