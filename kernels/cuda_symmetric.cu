/* x x^T on tensor cores, the lower triangle of tiles alone, each written twice (kernels/symmetric.h). A block has a tile of
 * 128 x 128: 8 warps of 64 x 32, over slices of 32 of k that are copied to shared memory while the slice before is multiplied.
 * Not what Newton-Schulz uses: cuBLAS is, until this has been measured to be faster (docs/CUDA.md).
 */
#include "kernels/cuda_mma.cuh"

static const unsigned TILE = 128, SLICE = 32, N_THREADS = 256;
static const unsigned ROW =
    SLICE + 8; /* elements between rows of a slice of x: 8 rows lie in all banks */
static const unsigned COLUMN =
    TILE + 8; /* the same where x is transposed, and of the tile on its way out */
static const unsigned OPERAND = TILE * ROW, STAGE = 2 * OPERAND;

/* Where tile b of the lower triangle is, row by row. */
__device__ __forceinline__ void tile_at(uint64_t b, uint64_t *i, uint64_t *j)
{
    uint64_t r = static_cast<uint64_t>((sqrt(8.0 * static_cast<double>(b) + 1) - 1) / 2);

    while (r * (r + 1) / 2 > b)
        r--;
    while ((r + 1) * (r + 2) / 2 <= b)
        r++;
    *i = r;
    *j = b - r * (r + 1) / 2;
}

/* Rows [first, first + TILE) of x and the slice from k on: TILE rows of ROW, or SLICE rows of COLUMN. */
template <bool TRANSPOSED>
__device__ __forceinline__ void take_slice(const struct kernel_symmetric &a, uint64_t first,
                                           uint64_t k, uint16_t *to)
{
    const uint16_t *x = static_cast<const uint16_t *>(a.x);

#pragma unroll
    for (unsigned i = threadIdx.x; i < TILE * SLICE / PACK; i += N_THREADS)
        if (TRANSPOSED) {
            unsigned row = i / (TILE / PACK), col = i % (TILE / PACK) * PACK;

            take_pack(x + (k + row) * a.n + first + col,
                      k + row < a.k ? pack_before(first + col, a.n) : 0, to + row * COLUMN + col);
        } else {
            unsigned row = i / (SLICE / PACK), col = i % (SLICE / PACK) * PACK;

            take_pack(x + (first + row) * a.k + k + col,
                      first + row < a.n ? pack_before(k + col, a.k) : 0, to + row * ROW + col);
        }
}

template <bool TRANSPOSED>
__device__ __forceinline__ void multiply_slice(const uint16_t *slice, unsigned row, unsigned col,
                                               float sum[4][4][4])
{
    const unsigned STRIDE = TRANSPOSED ? COLUMN : ROW;

#pragma unroll
    for (unsigned k = 0; k < SLICE; k += 16) {
        unsigned x[4][4], y[2][4];

#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            take_operand<TRANSPOSED, false>(slice, STRIDE, row + 16 * i, k, x[i]);
#pragma unroll
        for (unsigned j = 0; j < 2; j++)
            take_operand<TRANSPOSED, true>(slice + OPERAND, STRIDE, col + 16 * j, k, y[j]);
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
#pragma unroll
            for (unsigned j = 0; j < 4; j++)
                mma_bf16(sum[i][j], x[i], y[j / 2] + j % 2 * 2);
    }
}

/* The tile, rounded, into shared memory: TILE rows of COLUMN. */
__device__ __forceinline__ void round_tile(const struct kernel_symmetric &a, uint64_t first_row,
                                           uint64_t first_col, unsigned row, unsigned col,
                                           const float sum[4][4][4], uint16_t *to)
{
    const uint16_t *add = static_cast<const uint16_t *>(a.add);
    unsigned g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;

#pragma unroll
    for (unsigned i = 0; i < 4; i++)
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                unsigned r = row + 16 * i + g + e / 2 * 8, c = col + 8 * j + 2 * t + e % 2;
                float x = a.alpha * sum[i][j][e];

                if (add && first_row + r < a.n && first_col + c < a.n)
                    x += a.beta * from_half(DTYPE_BF16, add[(first_row + r) * a.n + first_col + c]);
                to[r * COLUMN + c] = static_cast<uint16_t>(to_bf16(x));
            }
}

/* 8 elements of row `row` of c. */
__device__ __forceinline__ void give_pack(const struct kernel_symmetric &a, uint64_t row,
                                          uint64_t col, const uint16_t x[PACK])
{
    uint16_t *to = static_cast<uint16_t *>(a.c) + row * a.n + col;

    if (row >= a.n || col >= a.n)
        return;
    if (col + PACK <= a.n && reinterpret_cast<uintptr_t>(to) % 16 == 0) {
        uint4 v;

        v.x = x[0] | static_cast<unsigned>(x[1]) << 16;
        v.y = x[2] | static_cast<unsigned>(x[3]) << 16;
        v.z = x[4] | static_cast<unsigned>(x[5]) << 16;
        v.w = x[6] | static_cast<unsigned>(x[7]) << 16;
        *reinterpret_cast<uint4 *>(to) = v;
        return;
    }
#pragma unroll
    for (unsigned j = 0; j < PACK; j++)
        if (col + j < a.n)
            to[j] = x[j];
}

/* The tile to its place and mirrored to the other; of a tile on the diagonal its lower triangle to both. */
__device__ __forceinline__ void give_tile(const struct kernel_symmetric &a, uint64_t first_row,
                                          uint64_t first_col, const uint16_t *from)
{
    bool diagonal = first_row == first_col;

    for (unsigned i = threadIdx.x; i < TILE * TILE / PACK; i += N_THREADS) {
        unsigned r = i / (TILE / PACK), c = i % (TILE / PACK) * PACK;
        uint16_t x[PACK], mirrored[PACK];

#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            mirrored[j] = from[(c + j) * COLUMN + r];
            x[j] = diagonal && c + j > r ? mirrored[j] : from[r * COLUMN + c + j];
        }
        give_pack(a, first_row + r, first_col + c, x);
        if (!diagonal)
            give_pack(a, first_col + r, first_row + c, mirrored);
    }
}

template <bool TRANSPOSED>
__global__ void __launch_bounds__(N_THREADS) symmetric_kernel(struct kernel_symmetric a)
{
    SHARED_DYNAMIC(uint16_t, shared);
    unsigned warp = threadIdx.x / WARP, row = warp / 4 * 64, col = warp % 4 * 32;
    uint64_t i, j, n_slices = a.k / SLICE + (a.k % SLICE != 0);
    float sum[4][4][4] = {};

    tile_at(blockIdx.x, &i, &j);
    i *= TILE;
    j *= TILE;
    take_slice<TRANSPOSED>(a, i, 0, shared);
    take_slice<TRANSPOSED>(a, j, 0, shared + OPERAND);
    copy_commit();
    for (uint64_t s = 0; s < n_slices; s++) {
        uint16_t *next = shared + (s + 1) % 2 * STAGE;

        if (s + 1 < n_slices) {
            take_slice<TRANSPOSED>(a, i, (s + 1) * SLICE, next);
            take_slice<TRANSPOSED>(a, j, (s + 1) * SLICE, next + OPERAND);
        }
        copy_commit();
        copy_wait<1>(); /* all but the next slice */
        __syncthreads();
        multiply_slice<TRANSPOSED>(shared + s % 2 * STAGE, row, col, sum);
        __syncthreads();
    }
    copy_wait<0>();
    round_tile(a, i, j, row, col, sum, shared);
    __syncthreads();
    give_tile(a, i, j, shared);
}

void cuda_symmetric(const struct kernel_on *on, const struct kernel_symmetric *a)
{
    uint64_t tiles = cuda_ceil(a->n, TILE);
    auto kernel = a->transposed ? symmetric_kernel<true> : symmetric_kernel<false>;
    size_t bytes = 2 * STAGE * sizeof(uint16_t);

    if (!a->n)
        return;
    ALLOW_SHARED(kernel, bytes);
    LAUNCH(static_cast<unsigned>(tiles * (tiles + 1) / 2), N_THREADS, bytes, on->stream, kernel,
           *a);
}
