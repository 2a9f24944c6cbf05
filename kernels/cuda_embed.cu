/* Token and position embeddings, rotary embedding. */
#include "kernels/cuda_common.cuh"

struct embed_op {
    enum dtype act, weight;
    struct kernel_embed a;

    __device__ void operator()(uint64_t token, uint64_t col, unsigned len) const
    {
        float x[PACK];

        load(weight, a.table, static_cast<uint64_t>(a.ids[token]) * a.hidden + col, len, x);
        store(act, x, a.out, token * a.hidden + col, len);
    }
};

void cuda_embed(const struct kernel_on *on, const struct kernel_embed *a)
{
    each_row(on, a->tokens, a->hidden, embed_op{on->act, on->weight, *a});
}

/* The first token of each id adds up the rows of all of them, in their order, and rounds once: no two blocks meet at a row
 * of the table. Who is first finds nobody before it, so that ids are read tokens^2 times at most: from the cache, 0.5 GB
 * for 8192 tokens. A block has blockDim * 8 columns. */
__global__ void embed_backward_kernel(enum dtype act, enum dtype grad, struct kernel_embed a)
{
    SHARED(unsigned, hits, WARP); /* a bit a thread */
    uint64_t self = blockIdx.x;
    uint64_t col = (static_cast<uint64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * PACK;
    unsigned len = col < a.hidden ? pack_of(col, a.hidden) : 0;
    int64_t id = a.ids[self];
    float sum[PACK] = {}, x[PACK];

    for (uint64_t first = 0; first < self; first += blockDim.x) {
        uint64_t t = first + threadIdx.x;

        if (__syncthreads_or(t < self && a.ids[t] == id))
            return;
    }
    for (uint64_t first = self; first < a.tokens; first += blockDim.x) {
        uint64_t t = first + threadIdx.x;
        unsigned bits = __ballot_sync(ALL_LANES, t < a.tokens && a.ids[t] == id);

        if (threadIdx.x % WARP == 0)
            hits[threadIdx.x / WARP] = bits;
        __syncthreads();
        for (unsigned w = 0; w < n_warps() && len; w++)
            for (unsigned left = hits[w]; left; left &= left - 1) {
                uint64_t row =
                    first + w * WARP + static_cast<unsigned>(__ffs(static_cast<int>(left))) - 1;

                load(act, a.d_out, row * a.hidden + col, len, x);
#pragma unroll
                for (unsigned j = 0; j < PACK; j++)
                    sum[j] += x[j];
            }
        __syncthreads();
    }
    if (len)
        store_add(grad, sum, a.d_table, static_cast<uint64_t>(id) * a.hidden + col, len);
}

void cuda_embed_backward(const struct kernel_on *on, const struct kernel_embed *a)
{
    unsigned block = OPEN_BLOCK(EACH_BLOCK);
    dim3 grid(static_cast<unsigned>(a->tokens),
              blocks_for(a->hidden, static_cast<uint64_t>(block) * PACK));

    if (a->tokens && a->hidden)
        LAUNCH(grid, block, 0, on->stream, embed_backward_kernel, on->act, on->grad, *a);
}

struct position_op {
    enum dtype act, weight;
    struct kernel_position a;

    __device__ void operator()(uint64_t token, uint64_t col, unsigned len) const
    {
        float x[PACK], p[PACK];

        load(act, a.x, token * a.hidden + col, len, x);
        load(weight, a.table, token % a.seq * a.hidden + col, len, p);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            x[j] += p[j];
        store(act, x, a.out, token * a.hidden + col, len);
    }
};

void cuda_position(const struct kernel_on *on, const struct kernel_position *a)
{
    each_row(on, a->tokens, a->hidden, position_op{on->act, on->weight, *a});
}

/* Over the elements of one sequence: the sequences' sum is rounded once. */
struct position_backward_op {
    enum dtype act, grad;
    struct kernel_position a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float sum[PACK] = {}, x[PACK];
        uint64_t n = a.seq * a.hidden;

        for (uint64_t b = 0; b < a.tokens / a.seq; b++) {
            load(act, a.d_out, b * n + i, len, x);
            if (a.d_x)
                store_add(act, x, a.d_x, b * n + i, len);
#pragma unroll
            for (unsigned j = 0; j < PACK; j++)
                sum[j] += x[j];
        }
        if (a.d_table)
            store_add(grad, sum, a.d_table, i, len);
    }
};

void cuda_position_backward(const struct kernel_on *on, const struct kernel_position *a)
{
    each(on, a->seq * a->hidden, position_backward_op{on->act, on->grad, *a});
}

/* ---- rotary ---- */

/* cosine and sine (seq, head_dim/2, 2), in double as the reference */
struct angle_op {
    struct kernel_rope a;
    float *angles;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        uint64_t half = a.head_dim / 2;

        for (uint64_t k = i; k < i + len; k++) {
            double power = -2.0 * static_cast<double>(k % half) / static_cast<double>(a.head_dim);
            double angle = static_cast<double>(k / half) * pow(static_cast<double>(a.theta), power);

            angles[2 * k] = static_cast<float>(cos(angle));
            angles[2 * k + 1] = static_cast<float>(sin(angle));
        }
    }
};

/* Rows are heads of tokens, columns the first half of a head, which takes the second along. */
struct rope_op {
    enum dtype act;
    struct kernel_rope a;
    const float *angles;
    const void *in;
    void *out;
    float sign;
    bool add;

    __device__ void operator()(uint64_t row, uint64_t col, unsigned len) const
    {
        uint64_t half = a.head_dim / 2, i = row * a.head_dim + col;
        const float *turn = angles + 2 * (row / a.heads % a.seq * half + col);
        float x[PACK], y[PACK];

        load(act, in, i, len, x);
        load(act, in, i + half, len, y);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            if (j < len) {
                float co = turn[2 * j], si = sign * turn[2 * j + 1], u = x[j];

                x[j] = u * co - y[j] * si;
                y[j] = y[j] * co + u * si;
            }
        if (add) {
            store_add(act, x, out, i, len);
            store_add(act, y, out, i + half, len);
        } else {
            store(act, x, out, i, len);
            store(act, y, out, i + half, len);
        }
    }
};

static void turn(const struct kernel_on *on, const struct kernel_rope *a, const void *in, void *out,
                 float sign, bool add)
{
    float *angles = static_cast<float *>(on->workspace);

    each(on, a->seq * a->head_dim / 2, angle_op{*a, angles});
    each_row(on, a->tokens * a->heads, a->head_dim / 2,
             rope_op{on->act, *a, angles, in, out, sign, add});
}

void cuda_rope(const struct kernel_on *on, const struct kernel_rope *a)
{
    turn(on, a, a->x, a->out, 1, false);
}

void cuda_rope_backward(const struct kernel_on *on, const struct kernel_rope *a)
{
    turn(on, a, a->d_out, a->d_x, -1, true);
}
