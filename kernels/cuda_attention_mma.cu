/* Attention of bf16 and fp16 with heads up to 128 wide, on tensor cores (Dao, 2023). A block has 64 rows, 16 a warp; they stay
 * while tiles of the other side go by. Rows are queries, for the output and for d_q, or keys, for d_k and d_v: scores^T = K Q^T
 * then, and no product needs its left side transposed. What one product leaves in a thread's registers is what the next
 * one wants there, rounded to 16 bits: probabilities and d(scores) are, here, and sums of products are fp32.
 *
 * In a tile of scores a thread has rows g and g + 8 of its warp's 16, and of every 8 columns 2t and 2t+1 (g = lane / 4,
 * t = lane % 4): s[8 columns][row g: 0, 1; row g + 8: 2, 3].
 */
#include "kernels/cuda_attention.cuh"
#include "kernels/cuda_mma.cuh"

static const unsigned ROWS = 64, N_THREADS = 128;

template <int D> struct row_of {
    enum { STRIDE = D + 8 }; /* elements between rows in shared memory: 8 rows lie in all banks */
};

template <int D, int N>
__device__ __forceinline__ void take(const rows_at &at, const void *p, uint64_t first, uint16_t *to)
{
    for (unsigned i = threadIdx.x; i < N * (D / PACK); i += N_THREADS) {
        unsigned row = i / (D / PACK), col = i % (D / PACK) * PACK;
        uint64_t from = (at.base + first + row) * at.stride + at.head * at.head_dim + col;

        take_pack(static_cast<const uint16_t *>(p) + from,
                  first + row < at.seq ? pack_before(col, at.head_dim) : 0,
                  to + row * row_of<D>::STRIDE + col);
    }
}

template <bool BF16>
__device__ __forceinline__ void multiply(float d[4], const unsigned a[4], const unsigned b[2])
{
    if (BF16)
        mma_bf16(d, a, b);
    else
        mma_fp16(d, a, b);
}

template <bool BF16> __device__ __forceinline__ unsigned pair_of(float low, float high)
{
    return BF16 ? to_bf16(low) | to_bf16(high) << 16 : to_fp16(low) | to_fp16(high) << 16;
}

/* s = the warp's 16 rows by the W rows of the other tile, transposed */
template <int D, int W, bool BF16>
__device__ __forceinline__ void scores(const uint16_t *rows, const uint16_t *others,
                                       float s[W / 8][4])
{
#pragma unroll
    for (int j = 0; j < W / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[j][e] = 0;
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        unsigned x[4], y[4];

        take_operand<false, false>(rows, row_of<D>::STRIDE, threadIdx.x / WARP * 16, k, x);
#pragma unroll
        for (int j = 0; j < W / 16; j++) {
            take_operand<false, true>(others, row_of<D>::STRIDE, 16 * j, k, y);
            multiply<BF16>(s[2 * j], x, y);
            multiply<BF16>(s[2 * j + 1], x, y + 2);
        }
    }
}

/* sum += s by the W rows of the other tile */
template <int D, int W, bool BF16>
__device__ __forceinline__ void accumulate(const float s[W / 8][4], const uint16_t *others,
                                           float sum[D / 8][4])
{
#pragma unroll
    for (int j = 0; j < W / 16; j++) {
        const unsigned x[4] = {pair_of<BF16>(s[2 * j][0], s[2 * j][1]),
                               pair_of<BF16>(s[2 * j][2], s[2 * j][3]),
                               pair_of<BF16>(s[2 * j + 1][0], s[2 * j + 1][1]),
                               pair_of<BF16>(s[2 * j + 1][2], s[2 * j + 1][3])};
        unsigned y[4];

#pragma unroll
        for (int c = 0; c < D / 16; c++) {
            take_operand<true, true>(others, row_of<D>::STRIDE, 16 * c, 16 * j, y);
            multiply<BF16>(sum[2 * c], x, y);
            multiply<BF16>(sum[2 * c + 1], x, y + 2);
        }
    }
}

/* Row `half` (0: g, 1: g + 8) of the thread, counted from the block's first. */
__device__ __forceinline__ unsigned row_in_block(unsigned half)
{
    return threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4 + 8 * half;
}

/* Column e % 2 of 8 columns from 8 j on. */
__device__ __forceinline__ unsigned column(int j, int e)
{
    return 8 * j + 2 * (threadIdx.x % 4) + e % 2;
}

/* Results of the thread's rows: written, or added to what is there. */
template <int D>
__device__ __forceinline__ void give(const rows_at &at, void *p, uint64_t first,
                                     const float sum[D / 8][4], bool add)
{
#pragma unroll
    for (int c = 0; c < D / 8; c++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            uint64_t token = first + row_in_block(e / 2), col = column(c, e);
            uint64_t k = (at.base + token) * at.stride + at.head * at.head_dim + col;

            if (token < at.seq && col < at.head_dim)
                store1(at.act, add ? load1(at.act, p, k) + sum[c][e] : sum[c][e], p, k);
        }
}

/* Over the 4 threads that share rows. */
template <class F> __device__ __forceinline__ float across(float x, F f)
{
    x = f(x, __shfl_xor_sync(ALL_LANES, x, 1));
    return f(x, __shfl_xor_sync(ALL_LANES, x, 2));
}

/* One more tile of scores to probabilities; rows' largest, sums and results so far follow. */
template <int D, int W>
__device__ __forceinline__ void softmax(const struct kernel_attention &a, uint64_t first,
                                        uint64_t key, float s[W / 8][4], float top[2],
                                        float total[2], float sum[D / 8][4])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint64_t query = first + row_in_block(half);
        float old = top[half], by, more = 0;

#pragma unroll
        for (int j = 0; j < W / 8; j++)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                s[j][e] = sees(a, query, key + column(j, e)) ? s[j][e] * a.scale : NOTHING;
                top[half] = s[j][e] > top[half] ? s[j][e] : top[half];
            }
        top[half] = across(top[half], larger());
        by = expf(old - top[half]);
#pragma unroll
        for (int j = 0; j < W / 8; j++)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                s[j][e] = s[j][e] > NOTHING || s[j][e] != s[j][e] ? expf(s[j][e] - top[half]) : 0;
                more += s[j][e];
            }
        total[half] = total[half] * by + across(more, plus());
#pragma unroll
        for (int c = 0; c < D / 8; c++) {
            sum[c][2 * half] *= by;
            sum[c][2 * half + 1] *= by;
        }
    }
}

/* Grid (tiles of queries, heads, batch). */
template <int D, bool BF16>
__global__ void __launch_bounds__(N_THREADS)
    forward_mma_kernel(enum dtype act, struct kernel_attention a)
{
    SHARED_DYNAMIC(uint16_t, shared);
    const int W = ROWS;
    uint16_t *q = shared, *k = q + ROWS * row_of<D>::STRIDE, *v = k + W * row_of<D>::STRIDE;
    uint64_t head = blockIdx.y, base = blockIdx.z * a.seq, kv_head = head / (a.heads / a.kv_heads);
    const rows_at q_at = {act, a.q_stride, head, a.head_dim, base, a.seq};
    const rows_at k_at = {act, a.k_stride, kv_head, a.head_dim, base, a.seq};
    const rows_at v_at = {act, a.v_stride, kv_head, a.head_dim, base, a.seq};
    const rows_at out_at = {act, a.heads * a.head_dim, head, a.head_dim, base, a.seq};
    uint64_t first = static_cast<uint64_t>(blockIdx.x) * ROWS;
    uint64_t end = a.causal ? blockIdx.x + 1 : tiles_of(a.seq, W);
    float sum[D / 8][4] = {}, s[W / 8][4], top[2] = {NOTHING, NOTHING}, total[2] = {0, 0};

    take<D, ROWS>(q_at, a.q, first, q);
    for (uint64_t t = 0; t < end; t++) {
        __syncthreads(); /* the last tile has been read */
        take<D, W>(k_at, a.k, t * W, k);
        copy_commit();
        take<D, W>(v_at, a.v, t * W, v);
        copy_commit();
        copy_wait<1>(); /* keys are there, values may be on their way */
        __syncthreads();
        scores<D, W, BF16>(q, k, s);
        softmax<D, W>(a, first, t * W, s, top, total, sum);
        copy_wait<0>();
        __syncthreads();
        accumulate<D, W, BF16>(s, v, sum);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint64_t query = first + row_in_block(half);
        float by = 1 / total[half];

#pragma unroll
        for (int c = 0; c < D / 8; c++) {
            sum[c][2 * half] *= by;
            sum[c][2 * half + 1] *= by;
        }
        if (query < a.seq && threadIdx.x % 4 == 0)
            a.lse[(blockIdx.z * a.heads + head) * a.seq + query] = top[half] + logf(total[half]);
    }
    give<D>(out_at, a.out, first, sum, false);
}

/* One probability, and its d(score) from its d(probability). */
__device__ __forceinline__ void element_backward(const struct kernel_attention &a, const float *lse,
                                                 const float *along, uint64_t query, uint64_t key,
                                                 float *p, float *d)
{
    bool seen = sees(a, query, key);

    *p = seen ? expf(*p * a.scale - lse[query]) : 0;
    *d = seen ? *p * (*d - along[query]) * a.scale : 0;
}

/* Grid (tiles of queries, heads, batch): d_q. */
template <int D, bool BF16>
__global__ void __launch_bounds__(N_THREADS)
    queries_mma_kernel(enum dtype act, struct kernel_attention a, const float *along)
{
    SHARED_DYNAMIC(uint16_t, shared);
    const int W = 64;
    uint16_t *q = shared, *dout = q + ROWS * row_of<D>::STRIDE,
             *k = dout + ROWS * row_of<D>::STRIDE, *v = k + W * row_of<D>::STRIDE;
    uint64_t head = blockIdx.y, base = blockIdx.z * a.seq, kv_head = head / (a.heads / a.kv_heads);
    const rows_at q_at = {act, a.q_stride, head, a.head_dim, base, a.seq};
    const rows_at k_at = {act, a.k_stride, kv_head, a.head_dim, base, a.seq};
    const rows_at v_at = {act, a.v_stride, kv_head, a.head_dim, base, a.seq};
    const rows_at out_at = {act, a.heads * a.head_dim, head, a.head_dim, base, a.seq};
    uint64_t first = static_cast<uint64_t>(blockIdx.x) * ROWS,
             row = (blockIdx.z * a.heads + head) * a.seq;
    uint64_t end = a.causal ? tiles_of(first + ROWS, W) : tiles_of(a.seq, W);
    float dq[D / 8][4] = {}, s[W / 8][4], d[W / 8][4];

    take<D, ROWS>(q_at, a.q, first, q);
    take<D, ROWS>(out_at, a.d_out, first, dout);
    for (uint64_t t = 0; t < end; t++) {
        __syncthreads();
        take<D, W>(k_at, a.k, t * W, k);
        take<D, W>(v_at, a.v, t * W, v);
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        scores<D, W, BF16>(q, k, s);
        scores<D, W, BF16>(dout, v, d);
#pragma unroll
        for (int j = 0; j < W / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                element_backward(a, a.lse + row, along + row, first + row_in_block(e / 2),
                                 t * W + column(j, e), &s[j][e], &d[j][e]);
        accumulate<D, W, BF16>(d, k, dq);
    }
    give<D>(q_at, a.d_q, first, dq, true);
}

/* Grid (tiles of keys, kv_heads, batch): d_k and d_v, over all queries that see them, head by head of the group. */
template <int D, bool BF16>
__global__ void __launch_bounds__(N_THREADS, 2)
    keys_mma_kernel(enum dtype act, struct kernel_attention a, const float *along)
{
    SHARED_DYNAMIC(uint16_t, shared);
    const int W = D > 64 ? 16 : 32; /* all that registers hold beside two results of D columns */
    uint16_t *k = shared, *v = k + ROWS * row_of<D>::STRIDE, *q = v + ROWS * row_of<D>::STRIDE,
             *dout = q + W * row_of<D>::STRIDE;
    uint64_t kv_head = blockIdx.y, base = blockIdx.z * a.seq, group = a.heads / a.kv_heads;
    const rows_at k_at = {act, a.k_stride, kv_head, a.head_dim, base, a.seq};
    const rows_at v_at = {act, a.v_stride, kv_head, a.head_dim, base, a.seq};
    uint64_t first = static_cast<uint64_t>(blockIdx.x) * ROWS, end = tiles_of(a.seq, W);
    float dk[D / 8][4] = {}, dv[D / 8][4] = {}, s[W / 8][4], d[W / 8][4];

    take<D, ROWS>(k_at, a.k, first, k);
    take<D, ROWS>(v_at, a.v, first, v);
    for (uint64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
        const rows_at q_at = {act, a.q_stride, head, a.head_dim, base, a.seq};
        const rows_at out_at = {act, a.heads * a.head_dim, head, a.head_dim, base, a.seq};
        uint64_t row = (blockIdx.z * a.heads + head) * a.seq;

        for (uint64_t t = a.causal ? first / W : 0; t < end; t++) {
            __syncthreads();
            take<D, W>(q_at, a.q, t * W, q);
            take<D, W>(out_at, a.d_out, t * W, dout);
            copy_commit();
            copy_wait<0>();
            __syncthreads();
            scores<D, W, BF16>(k, q, s);
            scores<D, W, BF16>(v, dout, d);
#pragma unroll
            for (int j = 0; j < W / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    element_backward(a, a.lse + row, along + row, t * W + column(j, e),
                                     first + row_in_block(e / 2), &s[j][e], &d[j][e]);
            accumulate<D, W, BF16>(s, dout, dv);
            accumulate<D, W, BF16>(d, q, dk);
        }
    }
    give<D>(k_at, a.d_k, first, dk, true);
    give<D>(v_at, a.d_v, first, dv, true);
}

/* ---- launches ---- */

template <int D> static size_t shared_bytes(unsigned n_rows)
{
    return static_cast<size_t>(n_rows) * row_of<D>::STRIDE * sizeof(uint16_t);
}

template <int D, bool BF16>
static void forward(const struct kernel_on *on, const struct kernel_attention *a)
{
    auto kernel = forward_mma_kernel<D, BF16>;
    size_t bytes = shared_bytes<D>(3 * ROWS);
    dim3 grid(static_cast<unsigned>(cuda_ceil(a->seq, ROWS)), static_cast<unsigned>(a->heads),
              static_cast<unsigned>(a->batch));

    ALLOW_SHARED(kernel, bytes);
    LAUNCH(grid, N_THREADS, bytes, on->stream, kernel, on->act, *a);
}

template <int D, bool BF16>
static void backward(const struct kernel_on *on, const struct kernel_attention *a)
{
    float *along = static_cast<float *>(on->workspace);
    auto keys = keys_mma_kernel<D, BF16>;
    auto queries = queries_mma_kernel<D, BF16>;
    size_t key_bytes = shared_bytes<D>(3 * ROWS), query_bytes = shared_bytes<D>(4 * ROWS);
    unsigned tiles = static_cast<unsigned>(cuda_ceil(a->seq, ROWS));
    dim3 key_grid(tiles, static_cast<unsigned>(a->kv_heads), static_cast<unsigned>(a->batch));
    dim3 query_grid(tiles, static_cast<unsigned>(a->heads), static_cast<unsigned>(a->batch));

    ALLOW_SHARED(keys, key_bytes);
    ALLOW_SHARED(queries, query_bytes);
    each_warp(on, a->batch * a->seq * a->heads, along_op{on->act, *a, along});
    LAUNCH(key_grid, N_THREADS, key_bytes, on->stream, keys, on->act, *a, along);
    LAUNCH(query_grid, N_THREADS, query_bytes, on->stream, queries, on->act, *a, along);
}

#define BY_HEAD(function)                                                                          \
    do {                                                                                           \
        if (on->act == DTYPE_FP32 || a->head_dim > 128)                                            \
            return false;                                                                          \
        if (a->head_dim <= 64 && on->act == DTYPE_BF16)                                            \
            function<64, true>(on, a);                                                             \
        else if (a->head_dim <= 64)                                                                \
            function<64, false>(on, a);                                                            \
        else if (on->act == DTYPE_BF16)                                                            \
            function<128, true>(on, a);                                                            \
        else                                                                                       \
            function<128, false>(on, a);                                                           \
        return true;                                                                               \
    } while (0)

bool attention_mma(const struct kernel_on *on, const struct kernel_attention *a)
{
    BY_HEAD(forward);
}

bool attention_mma_backward(const struct kernel_on *on, const struct kernel_attention *a)
{
    BY_HEAD(backward);
}
