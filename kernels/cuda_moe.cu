/* Mixture of experts: routing by a warp a token, then a counting sort without atomics, so that tokens keep their order. */
#include "kernels/cuda_common.cuh"

/* The softmax over a token's experts, by a warp: exp(logit - top) * inverse. */
struct expert_softmax {
    enum dtype act;
    const void *logits;
    uint64_t at; /* of the token's first logit */
    float top, inverse;

    __device__ __forceinline__ float p(uint64_t expert) const
    {
        return expf(load1(act, logits, at + expert) - top) * inverse;
    }
};

__device__ __forceinline__ expert_softmax experts_of(enum dtype act, const struct kernel_route &a,
                                                     uint64_t token, unsigned lane)
{
    expert_softmax s = {act, a.logits, token * a.n_experts, __uint_as_float(0xff800000u), 1};
    double sum = 0;

    for (uint64_t i = lane; i < a.n_experts; i += WARP)
        s.top = larger()(load1(act, a.logits, s.at + i), s.top);
    s.top = warp_all(s.top, larger());
    for (uint64_t i = lane; i < a.n_experts; i += WARP)
        sum += static_cast<double>(s.p(i));
    s.inverse = static_cast<float>(1 / warp_all(sum, plus()));
    return s;
}

/* A candidate for the next choice. */
struct candidate {
    float p;
    unsigned expert;
};

/* Larger probability first, equal ones by index. */
__device__ __forceinline__ bool before(candidate a, candidate b)
{
    return a.p > b.p || (a.p == b.p && a.expert < b.expert);
}

static const unsigned NOBODY = 0xffffffffu;

/* The best of those that come after `last`. Where probabilities are not numbers, experts are taken in turn. */
__device__ __forceinline__ candidate next_best(const expert_softmax &s, uint64_t n_experts,
                                               unsigned lane, candidate last, unsigned turn)
{
    candidate best = {-1, NOBODY};

    for (unsigned i = lane; i < n_experts; i += WARP) {
        candidate c = {s.p(i), i};

        if (before(last, c) && before(c, best))
            best = c;
    }
    for (unsigned by = WARP / 2; by > 0; by /= 2) {
        candidate c = {__shfl_xor_sync(ALL_LANES, best.p, by),
                       __shfl_xor_sync(ALL_LANES, best.expert, by)};

        best = before(c, best) ? c : best;
    }
    return best.expert == NOBODY ? candidate{s.p(turn), turn} : best;
}

/* Experts and weights of each token; slots come later. */
struct choose_op {
    enum dtype act;
    struct kernel_route a;
    uint32_t *expert;

    __device__ void operator()(uint64_t token, unsigned lane) const
    {
        expert_softmax s = experts_of(act, a, token, lane);
        struct kernel_choice *c = a.choices + token * a.n_active;
        candidate last = {2, 0}; /* before all: a probability is 1 at most */
        float sum = 0;

        for (unsigned k = 0; k < a.n_active; k++) {
            last = next_best(s, a.n_experts, lane, last, k);
            sum += last.p;
            if (lane == 0) {
                expert[token * a.n_active + k] = last.expert;
                c[k].weight = last.p;
            }
        }
        for (unsigned k = 0; k < a.n_active && lane == 0 && a.normalize; k++)
            c[k].weight /= sum;
    }
};

/* A chunk's experts into shared memory, 0xffffffff behind the end. */
__device__ __forceinline__ void take_chunk(const uint32_t *expert, uint64_t n, unsigned *list)
{
    uint64_t first = static_cast<uint64_t>(blockIdx.x) * CUDA_CHOICES_CHUNK;

    for (unsigned i = threadIdx.x; i < CUDA_CHOICES_CHUNK; i += blockDim.x)
        list[i] = first + i < n ? expert[first + i] : NOBODY;
    __syncthreads();
}

/* counts[chunk][expert] */
__global__ void count_kernel(struct kernel_route a, const uint32_t *expert, uint32_t *counts)
{
    SHARED(unsigned, list, CUDA_CHOICES_CHUNK);

    take_chunk(expert, a.tokens * a.n_active, list);
    for (uint64_t e = threadIdx.x; e < a.n_experts; e += blockDim.x) {
        unsigned n = 0;

        for (unsigned i = 0; i < CUDA_CHOICES_CHUNK; i++)
            n += list[i] == e;
        counts[blockIdx.x * a.n_experts + e] = n;
    }
}

/* counts become the first slot of a chunk's tokens with an expert. One block: first the sums over chunks, then over experts. */
__global__ void slots_kernel(struct kernel_route a, uint32_t *counts, unsigned n_chunks)
{
    for (uint64_t e = threadIdx.x; e < a.n_experts; e += blockDim.x) {
        uint32_t sum = 0;

        for (unsigned k = 0; k < n_chunks; k++) {
            uint32_t n = counts[k * a.n_experts + e];

            counts[k * a.n_experts + e] = sum;
            sum += n;
        }
        a.offsets[e + 1] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        a.offsets[0] = 0;
        for (uint64_t e = 0; e < a.n_experts; e++)
            a.offsets[e + 1] += a.offsets[e];
    }
    __syncthreads();
    for (uint64_t i = threadIdx.x; i < n_chunks * a.n_experts; i += blockDim.x)
        counts[i] += a.offsets[i % a.n_experts];
}

/* Each expert goes through its chunk in order. */
__global__ void place_kernel(struct kernel_route a, const uint32_t *expert, const uint32_t *counts)
{
    SHARED(unsigned, list, CUDA_CHOICES_CHUNK);
    uint64_t first = static_cast<uint64_t>(blockIdx.x) * CUDA_CHOICES_CHUNK;

    take_chunk(expert, a.tokens * a.n_active, list);
    for (uint64_t e = threadIdx.x; e < a.n_experts; e += blockDim.x) {
        uint32_t slot = counts[blockIdx.x * a.n_experts + e];

        for (unsigned i = 0; i < CUDA_CHOICES_CHUNK; i++)
            if (list[i] == e)
                a.choices[first + i].slot = slot++;
    }
}

void cuda_route(const struct kernel_on *on, const struct kernel_route *a)
{
    uint64_t n = a->tokens * a->n_active;
    uint32_t *expert = static_cast<uint32_t *>(on->workspace), *counts = expert + n;
    unsigned block = OPEN_BLOCK(EACH_BLOCK),
             n_chunks = static_cast<unsigned>(cuda_choice_chunks(n));

    each_warp(on, a->tokens, choose_op{on->act, *a, expert});
    if (n_chunks)
        LAUNCH(n_chunks, block, 0, on->stream, count_kernel, *a, expert, counts);
    LAUNCH(1, block, 0, on->stream, slots_kernel, *a, counts, n_chunks);
    if (n_chunks)
        LAUNCH(n_chunks, block, 0, on->stream, place_kernel, *a, expert, counts);
}

/* With s = sum of the chosen p: w = p/s, so dp = (dw - sum dw*w) / s; then the softmax's own. An expert was chosen by the
 * choice whose slot lies in its range. */
struct route_backward_op {
    enum dtype act;
    struct kernel_route a;

    __device__ void operator()(uint64_t token, unsigned lane) const
    {
        expert_softmax s = experts_of(act, a, token, lane);
        const struct kernel_choice *c = a.choices + token * a.n_active;
        const float *dw = a.d_choices + token * a.n_active;
        float sum = 0, along = 0, dot = 0;

        for (unsigned k = 0; k < a.n_active; k++)
            along += dw[k] * c[k].weight;
        for (uint64_t i = lane; i < a.n_experts; i += WARP)
            sum += chose(c, i) < a.n_active ? s.p(i) : 0;
        sum = warp_all(sum, plus());
        for (uint64_t i = lane; i < a.n_experts; i += WARP)
            dot += slope(c, dw, i, along, sum) * s.p(i);
        dot = warp_all(dot, plus());
        for (uint64_t i = lane; i < a.n_experts; i += WARP)
            store1(act,
                   load1(act, a.d_logits, s.at + i) + s.p(i) * (slope(c, dw, i, along, sum) - dot),
                   a.d_logits, s.at + i);
    }

    /* The choice of expert i, or n_active. */
    __device__ __forceinline__ unsigned chose(const struct kernel_choice *c, uint64_t i) const
    {
        unsigned k = 0;

        while (k < a.n_active && (c[k].slot < a.offsets[i] || c[k].slot >= a.offsets[i + 1]))
            k++;
        return k;
    }

    __device__ __forceinline__ float slope(const struct kernel_choice *c, const float *dw,
                                           uint64_t i, float along, float sum) const
    {
        unsigned k = chose(c, i);

        if (k == a.n_active)
            return 0;
        return a.normalize ? (dw[k] - along) / sum : dw[k];
    }
};

void cuda_route_backward(const struct kernel_on *on, const struct kernel_route *a)
{
    each_warp(on, a->tokens, route_backward_op{on->act, *a});
}

/* ---- there and back ---- */

struct dispatch_op {
    enum dtype act;
    struct kernel_exchange a;

    __device__ void operator()(uint64_t i, uint64_t col, unsigned len) const
    {
        float x[PACK];

        load(act, a.in, i / a.n_active * a.hidden + col, len, x);
        store(act, x, a.out, static_cast<uint64_t>(a.choices[i].slot) * a.hidden + col, len);
    }
};

void cuda_dispatch(const struct kernel_on *on, const struct kernel_exchange *a)
{
    each_row(on, a->tokens * a->n_active, a->hidden, dispatch_op{on->act, *a});
}

/* The sum of a token's rows in expert order: weighted into `out`, or plain and added to d_in. */
struct gather_op {
    enum dtype act;
    struct kernel_exchange a;
    bool weighted;

    __device__ void operator()(uint64_t token, uint64_t col, unsigned len) const
    {
        float sum[PACK] = {}, x[PACK];

        for (uint64_t k = 0; k < a.n_active; k++) {
            struct kernel_choice c = a.choices[token * a.n_active + k];

            load(act, weighted ? a.in : a.d_out, static_cast<uint64_t>(c.slot) * a.hidden + col,
                 len, x);
#pragma unroll
            for (unsigned j = 0; j < PACK; j++)
                sum[j] += weighted ? c.weight * x[j] : x[j];
        }
        if (weighted)
            store(act, sum, a.out, token * a.hidden + col, len);
        else
            store_add(act, sum, a.d_in, token * a.hidden + col, len);
    }
};

void cuda_dispatch_backward(const struct kernel_on *on, const struct kernel_exchange *a)
{
    each_row(on, a->tokens, a->hidden, gather_op{on->act, *a, false});
}

void cuda_combine(const struct kernel_on *on, const struct kernel_exchange *a)
{
    each_row(on, a->tokens, a->hidden, gather_op{on->act, *a, true});
}

/* A warp a choice. */
struct combine_backward_op {
    enum dtype act;
    struct kernel_exchange a;

    __device__ void operator()(uint64_t i, unsigned lane) const
    {
        struct kernel_choice c = a.choices[i];
        uint64_t from = i / a.n_active * a.hidden, to = static_cast<uint64_t>(c.slot) * a.hidden;
        double dot = 0;

        for (uint64_t col = static_cast<uint64_t>(lane) * PACK; col < a.hidden;
             col += WARP * PACK) {
            unsigned len = pack_of(col, a.hidden);
            float dy[PACK], y[PACK], along = 0;

            load(act, a.d_out, from + col, len, dy);
            load(act, a.in, to + col, len, y);
#pragma unroll
            for (unsigned j = 0; j < PACK; j++) {
                along += dy[j] * y[j];
                dy[j] *= c.weight;
            }
            dot += static_cast<double>(along);
            if (a.d_in)
                store_add(act, dy, a.d_in, to + col, len);
        }
        dot = warp_all(dot, plus());
        if (lane == 0 && a.d_choices)
            a.d_choices[i] += static_cast<float>(dot);
    }
};

void cuda_combine_backward(const struct kernel_on *on, const struct kernel_exchange *a)
{
    each_warp(on, a->tokens * a->n_active, combine_backward_op{on->act, *a});
}
