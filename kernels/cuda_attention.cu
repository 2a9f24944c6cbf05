/* Attention of fp32, and of heads wider than 128; the others are cuda_attention_mma.cu's. In tiles, scores never in memory (Dao et al., 2022): a block has T queries (or T keys, for their gradients) of one
 * head in shared memory and goes over the tiles of the other side, with the softmax corrected as larger scores turn up.
 * Backward rebuilds the probabilities from the log-sum-exp, as kernels/attention.c does, once for d_k and d_v and once for d_q:
 * 7 products in place of 5, and no gradient is written by two blocks.
 *
 * Products are fp32 on the plain cores.
 * D is head_dim filled up with zeros to 64, 128, 256 or 512; T is as large as shared memory lets it be: 64, 64, 32, 16. A
 * longer head is refused by the launch: it asks for more shared memory than there is.
 *
 * 256 threads: thread (ty, tx) of 16 x 16 has rows ty * T/16 .. of a tile of scores, and every 16th column from tx; of a
 * tile of results the same rows, and 4 columns of every 64 from 4 tx.
 */
#include "kernels/cuda_attention.cuh"

static const int SIDE = 16;
static const unsigned THREADS = 256;

template <int D, int T> struct tile {
    enum {
        N = T / SIDE,   /* rows, and columns of scores, of a thread */
        QUADS = D / 64, /* quadruples of columns of results of a thread */
        STRIDE = D + 4, /* of a tile of rows, in floats: no two rows of 8 in the same banks */
        P_STRIDE = T + 4,
        ROWS_FLOATS = T * STRIDE,
        P_FLOATS = T * P_STRIDE,
    };
};

__device__ __forceinline__ float4 quad(const float *p)
{
    return *reinterpret_cast<const float4 *>(p);
}

__device__ __forceinline__ void add_scaled(float4 &sum, float a, float4 b)
{
    sum.x += a * b.x;
    sum.y += a * b.y;
    sum.z += a * b.z;
    sum.w += a * b.w;
}

template <int D, int T>
__device__ __forceinline__ void take(const rows_at &at, const void *p, uint64_t first, float *to)
{
    for (unsigned i = threadIdx.x; i < T * (D / PACK); i += THREADS) {
        unsigned row = i / (D / PACK), col = i % (D / PACK) * PACK;
        bool there = first + row < at.seq && col < at.head_dim;
        float x[PACK];

        load(at.act, p, (at.base + first + row) * at.stride + at.head * at.head_dim + col,
             there ? pack_of(col, at.head_dim) : 0, x);
        store(DTYPE_FP32, x, to + row * tile<D, T>::STRIDE + col, 0, PACK);
    }
}

/* Rows that a thread has of a tile of results: written, or added to what is there. */
template <int D, int T>
__device__ __forceinline__ void give(const rows_at &at, void *p, uint64_t first,
                                     const float4 x[T / SIDE][D / 64], bool add)
{
    unsigned ty = threadIdx.x / SIDE, tx = threadIdx.x % SIDE;

#pragma unroll
    for (int i = 0; i < T / SIDE; i++) {
        uint64_t token = first + ty * (T / SIDE) + i;

        if (token >= at.seq)
            continue;
#pragma unroll
        for (int c = 0; c < D / 64; c++) {
            float v[4] = {x[i][c].x, x[i][c].y, x[i][c].z, x[i][c].w};

#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                uint64_t col = c * 64 + tx * 4 + j;
                uint64_t k = (at.base + token) * at.stride + at.head * at.head_dim + col;

                if (col < at.head_dim)
                    store1(at.act, add ? load1(at.act, p, k) + v[j] : v[j], p, k);
            }
        }
    }
}

/* s = a b^T, both (T,D) */
template <int D, int T>
__device__ __forceinline__ void scores(const float *a, const float *b, float s[T / SIDE][T / SIDE])
{
    const int N = T / SIDE, STRIDE = tile<D, T>::STRIDE;
    const float *rows = a + threadIdx.x / SIDE * N * STRIDE,
                *cols = b + threadIdx.x % SIDE * STRIDE;

#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int j = 0; j < N; j++)
            s[i][j] = 0;
#pragma unroll 2
    for (int k = 0; k < D; k += 4) {
        float4 x[N], y[N];

#pragma unroll
        for (int i = 0; i < N; i++) {
            x[i] = quad(rows + i * STRIDE + k);
            y[i] = quad(cols + i * SIDE * STRIDE + k);
        }
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int j = 0; j < N; j++) {
                s[i][j] += x[i].x * y[j].x;
                s[i][j] += x[i].y * y[j].y;
                s[i][j] += x[i].z * y[j].z;
                s[i][j] += x[i].w * y[j].w;
            }
    }
}

template <int T>
__device__ __forceinline__ void put_scores(const float s[T / SIDE][T / SIDE], float *p)
{
    unsigned ty = threadIdx.x / SIDE, tx = threadIdx.x % SIDE;

#pragma unroll
    for (int i = 0; i < T / SIDE; i++)
#pragma unroll
        for (int j = 0; j < T / SIDE; j++)
            p[(ty * (T / SIDE) + i) * (T + 4) + tx + SIDE * j] = s[i][j];
}

/* sum += p x, or p^T x: p (T,T), x (T,D) */
template <int D, int T, bool TRANSPOSED>
__device__ __forceinline__ void accumulate(const float *p, const float *x,
                                           float4 sum[T / SIDE][D / 64])
{
    const int N = T / SIDE, STRIDE = tile<D, T>::STRIDE, P_STRIDE = tile<D, T>::P_STRIDE;
    unsigned ty = threadIdx.x / SIDE, tx = threadIdx.x % SIDE;

#pragma unroll 2
    for (int k = 0; k < T; k++) {
        float4 row[D / 64];

#pragma unroll
        for (int c = 0; c < D / 64; c++)
            row[c] = quad(x + k * STRIDE + c * 64 + tx * 4);
#pragma unroll
        for (int i = 0; i < N; i++) {
            float w = TRANSPOSED ? p[k * P_STRIDE + ty * N + i] : p[(ty * N + i) * P_STRIDE + k];

#pragma unroll
            for (int c = 0; c < D / 64; c++)
                add_scaled(sum[i][c], w, row[c]);
        }
    }
}

/* Over the 16 threads that share rows. */
template <class F> __device__ __forceinline__ float across(float x, F f)
{
    for (unsigned by = SIDE / 2; by > 0; by /= 2)
        x = f(x, __shfl_xor_sync(ALL_LANES, x, by));
    return x;
}

/* Grid (tiles of queries, heads, batch). */
template <int D, int T>
__global__ void __launch_bounds__(THREADS, 1)
    forward_kernel(enum dtype act, struct kernel_attention a)
{
    SHARED_DYNAMIC(float, shared);
    const int N = T / SIDE;
    float *q = shared, *kv = q + tile<D, T>::ROWS_FLOATS, *p = kv + tile<D, T>::ROWS_FLOATS;
    uint64_t head = blockIdx.y, base = blockIdx.z * a.seq, kv_head = head / (a.heads / a.kv_heads);
    const rows_at q_at = {act, a.q_stride, head, a.head_dim, base, a.seq};
    const rows_at k_at = {act, a.k_stride, kv_head, a.head_dim, base, a.seq};
    const rows_at v_at = {act, a.v_stride, kv_head, a.head_dim, base, a.seq};
    const rows_at out_at = {act, a.heads * a.head_dim, head, a.head_dim, base, a.seq};
    uint64_t first = static_cast<uint64_t>(blockIdx.x) * T, end = tiles_of(a.seq, T);
    unsigned ty = threadIdx.x / SIDE, tx = threadIdx.x % SIDE;
    float4 sum[N][D / 64] = {};
    float top[N], total[N], s[N][N];

    if (a.causal)
        end = blockIdx.x + 1;
#pragma unroll
    for (int i = 0; i < N; i++) {
        top[i] = NOTHING;
        total[i] = 0;
    }
    take<D, T>(q_at, a.q, first, q);
    for (uint64_t t = 0; t < end; t++) {
        __syncthreads(); /* the last tile of values has been read */
        take<D, T>(k_at, a.k, t * T, kv);
        __syncthreads();
        scores<D, T>(q, kv, s);
#pragma unroll
        for (int i = 0; i < N; i++) {
            float old = top[i], by, more = 0;

#pragma unroll
            for (int j = 0; j < N; j++) {
                bool seen = sees(a, first + ty * N + i, t * T + tx + SIDE * j);

                s[i][j] = seen ? s[i][j] * a.scale : NOTHING;
                top[i] = s[i][j] > top[i] ? s[i][j] : top[i];
            }
            top[i] = across(top[i], larger());
            by = expf(old - top[i]);
#pragma unroll
            for (int j = 0; j < N; j++) {
                s[i][j] = s[i][j] > NOTHING || s[i][j] != s[i][j] ? expf(s[i][j] - top[i]) : 0;
                more += s[i][j];
            }
            total[i] = total[i] * by + across(more, plus());
#pragma unroll
            for (int c = 0; c < D / 64; c++) {
                sum[i][c].x *= by;
                sum[i][c].y *= by;
                sum[i][c].z *= by;
                sum[i][c].w *= by;
            }
        }
        put_scores<T>(s, p);
        __syncthreads(); /* keys have been read, probabilities are there */
        take<D, T>(v_at, a.v, t * T, kv);
        __syncthreads();
        accumulate<D, T, false>(p, kv, sum);
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        uint64_t query = first + ty * N + i;
        float by = 1 / total[i];

#pragma unroll
        for (int c = 0; c < D / 64; c++) {
            sum[i][c].x *= by;
            sum[i][c].y *= by;
            sum[i][c].z *= by;
            sum[i][c].w *= by;
        }
        if (query < a.seq && tx == 0)
            a.lse[(blockIdx.z * a.heads + head) * a.seq + query] = top[i] + logf(total[i]);
    }
    give<D, T>(out_at, a.out, first, sum, false);
}

/* ---- backward ---- */

/* Scores to probabilities, and d(probabilities) to d(scores), of the queries from `query` and the keys from `key`. */
template <int T>
__device__ __forceinline__ void softmax_backward(const struct kernel_attention &a, const float *lse,
                                                 const float *along, uint64_t query, uint64_t key,
                                                 float s[T / SIDE][T / SIDE],
                                                 float d[T / SIDE][T / SIDE])
{
    const int N = T / SIDE;
    unsigned ty = threadIdx.x / SIDE, tx = threadIdx.x % SIDE;

#pragma unroll
    for (int i = 0; i < N; i++) {
        uint64_t row = query + ty * N + i;
        float top = row < a.seq ? lse[row] : 0, dot = row < a.seq ? along[row] : 0;

#pragma unroll
        for (int j = 0; j < N; j++) {
            bool seen = sees(a, row, key + tx + SIDE * j);

            s[i][j] = seen ? expf(s[i][j] * a.scale - top) : 0;
            d[i][j] = seen ? s[i][j] * (d[i][j] - dot) * a.scale : 0;
        }
    }
}

/* Grid (tiles of keys, kv_heads, batch): d_k and d_v, over all queries that see them, head by head of the group. */
template <int D, int T>
__global__ void __launch_bounds__(THREADS, 1)
    keys_backward_kernel(enum dtype act, struct kernel_attention a, const float *along)
{
    SHARED_DYNAMIC(float, shared);
    const int N = T / SIDE;
    float *k = shared, *v = k + tile<D, T>::ROWS_FLOATS, *q = v + tile<D, T>::ROWS_FLOATS,
          *dout = q + tile<D, T>::ROWS_FLOATS, *p = dout + tile<D, T>::ROWS_FLOATS;
    uint64_t kv_head = blockIdx.y, base = blockIdx.z * a.seq, group = a.heads / a.kv_heads;
    const rows_at k_at = {act, a.k_stride, kv_head, a.head_dim, base, a.seq};
    const rows_at v_at = {act, a.v_stride, kv_head, a.head_dim, base, a.seq};
    uint64_t first = static_cast<uint64_t>(blockIdx.x) * T, end = tiles_of(a.seq, T);
    float4 dk[N][D / 64] = {}, dv[N][D / 64] = {};
    float s[N][N], d[N][N];

    take<D, T>(k_at, a.k, first, k);
    take<D, T>(v_at, a.v, first, v);
    for (uint64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
        const rows_at q_at = {act, a.q_stride, head, a.head_dim, base, a.seq};
        const rows_at out_at = {act, a.heads * a.head_dim, head, a.head_dim, base, a.seq};
        uint64_t row = (blockIdx.z * a.heads + head) * a.seq;

        for (uint64_t t = a.causal ? blockIdx.x : 0; t < end; t++) {
            __syncthreads();
            take<D, T>(q_at, a.q, t * T, q);
            take<D, T>(out_at, a.d_out, t * T, dout);
            __syncthreads();
            scores<D, T>(q, k, s);
            scores<D, T>(dout, v, d);
            softmax_backward<T>(a, a.lse + row, along + row, t * T, first, s, d);
            put_scores<T>(s, p);
            __syncthreads();
            accumulate<D, T, true>(p, dout, dv);
            __syncthreads();
            put_scores<T>(d, p);
            __syncthreads();
            accumulate<D, T, true>(p, q, dk);
        }
    }
    give<D, T>(k_at, a.d_k, first, dk, true);
    give<D, T>(v_at, a.d_v, first, dv, true);
}

/* Grid (tiles of queries, heads, batch): d_q, over all keys that they see. */
template <int D, int T>
__global__ void __launch_bounds__(THREADS, 1)
    queries_backward_kernel(enum dtype act, struct kernel_attention a, const float *along)
{
    SHARED_DYNAMIC(float, shared);
    const int N = T / SIDE;
    float *k = shared, *v = k + tile<D, T>::ROWS_FLOATS, *q = v + tile<D, T>::ROWS_FLOATS,
          *dout = q + tile<D, T>::ROWS_FLOATS, *p = dout + tile<D, T>::ROWS_FLOATS;
    uint64_t head = blockIdx.y, base = blockIdx.z * a.seq, kv_head = head / (a.heads / a.kv_heads);
    const rows_at q_at = {act, a.q_stride, head, a.head_dim, base, a.seq};
    const rows_at k_at = {act, a.k_stride, kv_head, a.head_dim, base, a.seq};
    const rows_at v_at = {act, a.v_stride, kv_head, a.head_dim, base, a.seq};
    const rows_at out_at = {act, a.heads * a.head_dim, head, a.head_dim, base, a.seq};
    uint64_t first = static_cast<uint64_t>(blockIdx.x) * T,
             row = (blockIdx.z * a.heads + head) * a.seq;
    uint64_t end = a.causal ? blockIdx.x + 1 : tiles_of(a.seq, T);
    float4 dq[N][D / 64] = {};
    float s[N][N], d[N][N];

    take<D, T>(q_at, a.q, first, q);
    take<D, T>(out_at, a.d_out, first, dout);
    for (uint64_t t = 0; t < end; t++) {
        __syncthreads();
        take<D, T>(k_at, a.k, t * T, k);
        take<D, T>(v_at, a.v, t * T, v);
        __syncthreads();
        scores<D, T>(q, k, s);
        scores<D, T>(dout, v, d);
        softmax_backward<T>(a, a.lse + row, along + row, first, t * T, s, d);
        put_scores<T>(d, p);
        __syncthreads();
        accumulate<D, T, false>(p, k, dq);
    }
    give<D, T>(q_at, a.d_q, first, dq, true);
}

/* ---- launches ---- */

template <int D, int T> static size_t shared_bytes(int n_tiles)
{
    return (static_cast<size_t>(n_tiles) * tile<D, T>::ROWS_FLOATS + tile<D, T>::P_FLOATS) *
           sizeof(float);
}

template <int D, int T>
static void forward(const struct kernel_on *on, const struct kernel_attention *a, size_t more)
{
    auto kernel = forward_kernel<D, T>;
    size_t bytes = shared_bytes<D, T>(2) + more;
    dim3 grid(static_cast<unsigned>(cuda_ceil(a->seq, T)), static_cast<unsigned>(a->heads),
              static_cast<unsigned>(a->batch));

    ALLOW_SHARED(kernel, bytes);
    LAUNCH(grid, THREADS, bytes, on->stream, kernel, on->act, *a);
}

template <int D, int T>
static void backward(const struct kernel_on *on, const struct kernel_attention *a, size_t more)
{
    float *along = static_cast<float *>(on->workspace);
    auto keys = keys_backward_kernel<D, T>;
    auto queries = queries_backward_kernel<D, T>;
    size_t bytes = shared_bytes<D, T>(4) + more;
    unsigned tiles = static_cast<unsigned>(cuda_ceil(a->seq, T));
    dim3 key_grid(tiles, static_cast<unsigned>(a->kv_heads), static_cast<unsigned>(a->batch));
    dim3 query_grid(tiles, static_cast<unsigned>(a->heads), static_cast<unsigned>(a->batch));

    ALLOW_SHARED(keys, bytes);
    ALLOW_SHARED(queries, bytes);
    each_warp(on, a->batch * a->seq * a->heads, along_op{on->act, *a, along});
    LAUNCH(key_grid, THREADS, bytes, on->stream, keys, on->act, *a, along);
    LAUNCH(query_grid, THREADS, bytes, on->stream, queries, on->act, *a, along);
}

static const size_t REFUSED = static_cast<size_t>(1) << 30;

#define BY_HEAD(function, on_tensor_cores)                                                         \
    do {                                                                                           \
        if (!a->batch || !a->seq || on_tensor_cores(on, a))                                        \
            return;                                                                                \
        if (a->head_dim <= 64)                                                                     \
            function<64, 64>(on, a, 0);                                                            \
        else if (a->head_dim <= 128)                                                               \
            function<128, 64>(on, a, 0);                                                           \
        else if (a->head_dim <= 256)                                                               \
            function<256, 32>(on, a, 0);                                                           \
        else                                                                                       \
            function<512, 16>(on, a, a->head_dim <= 512 ? 0 : REFUSED);                            \
    } while (0)

void cuda_attention(const struct kernel_on *on, const struct kernel_attention *a)
{
    BY_HEAD(forward, attention_mma);
}

void cuda_attention_backward(const struct kernel_on *on, const struct kernel_attention *a)
{
    BY_HEAD(backward, attention_mma_backward);
}
