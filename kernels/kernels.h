/* kernels/kernels.h - the kernels of model/graph/graph.h that are not GEMMs: one plain function a kernel and direction.
 *
 * One convention for all of them: kernel_NAME(on, a) and kernel_NAME_backward(on, a). `on` says where and in which types
 * (a CUDA backend reads its stream there), `a` is the kernel's own struct of sizes and pointers; both directions share
 * it and read only the fields they need. Pointers are borrowed for the call. Here are the CPU versions: the reference
 * that the device versions are checked against, and what training on CPUs runs.
 *
 *   types     storage is fp32, bf16 or fp16; arithmetic is fp32 (longer sums in double), rounded once at the store.
 *             ACT: activations and their gradients have on->act; WEIGHT: on->weight; GRAD: gradients of weights, on->grad.
 *   shapes    row-major, in comments "(tokens, hidden)". tokens = batch * seq, sequence by sequence.
 *   outputs   forward results are written; every gradient is *added* to its buffer (ACCESS_ADD of model/program/program.h):
 *             a value with two readers collects both, and a weight collects all micro-batches. A gradient pointer that
 *             is NULL is not wanted. Inputs and outputs do not overlap.
 *   order     sums run in a fixed order, on one thread: same inputs, same bytes.
 *   memory    nothing is allocated: kernels that need room say how much (kernel_*_workspace, in bytes).
 *   errors    none: a wrong shape, type or id is a bug of the caller (BUG_ON).
 */
#ifndef BALLAST_KERNELS_KERNELS_H
#define BALLAST_KERNELS_KERNELS_H

#include "core/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* c (m,n) = alpha * op(a) (m,k) * op(b) (k,n) + beta * c; row-major with leading dimensions (elements between rows as
 * stored), op transposes when its flag is set: a is (k,m) then. beta = 0 does not read c. */
struct kernel_gemm {
    void (*fn)(void *ctx, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha,
               const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c,
               size_t ldc);
    void *ctx;
};
/* Ours, without a library: blocked, fixed order of sums, one thread (kernels/gemm_reference.c). */
extern const struct kernel_gemm kernel_gemm_reference;

/* Where a kernel runs, and the types of what it is given. */
struct kernel_on {
    enum dtype act, weight, grad;
    const struct kernel_gemm *gemm; /* attention */
    void *workspace;                /* aligned as malloc does */
    size_t workspace_bytes;
    void *stream; /* of a device; unused here */
};

/* ---- embedding ---- */

/* out[t] = table[ids[t]]; ids in [0, vocab). */
struct kernel_embed {
    size_t tokens, hidden, vocab;
    const int64_t *ids; /* (tokens) */
    const void *table;  /* WEIGHT (vocab, hidden) */
    void *out;          /* ACT (tokens, hidden) */
    const void *d_out;
    void *d_table; /* GRAD */
};
void kernel_embed(const struct kernel_on *on, const struct kernel_embed *a);
void kernel_embed_backward(const struct kernel_on *on, const struct kernel_embed *a);

/* out[t] = x[t] + table[t % seq] */
struct kernel_position {
    size_t tokens, hidden, seq; /* tokens is a multiple of seq */
    const void *x;              /* ACT (tokens, hidden) */
    const void *table;          /* WEIGHT (at least seq, hidden) */
    void *out;                  /* ACT (tokens, hidden) */
    const void *d_out;
    void *d_x, *d_table;
};
void kernel_position(const struct kernel_on *on, const struct kernel_position *a);
void kernel_position_backward(const struct kernel_on *on, const struct kernel_position *a);

/* ---- normalisation ---- */

/* RMS: out = x / sqrt(mean(x^2) + eps) * weight. Layer: out = (x - mean) / sqrt(var + eps) * weight + bias, bias may be
 * NULL. A norm of q or k a head has rows = tokens * heads, width = head_dim. Backward recomputes the statistics. */
struct kernel_norm {
    size_t rows, width;
    float eps;
    const void *x;             /* ACT (rows, width) */
    const void *weight, *bias; /* WEIGHT (width) */
    void *out;                 /* ACT (rows, width) */
    const void *d_out;
    void *d_x, *d_weight, *d_bias;
};
size_t kernel_norm_workspace(size_t width);
void kernel_rmsnorm(const struct kernel_on *on, const struct kernel_norm *a);
void kernel_rmsnorm_backward(const struct kernel_on *on, const struct kernel_norm *a);
void kernel_layernorm(const struct kernel_on *on, const struct kernel_norm *a);
void kernel_layernorm_backward(const struct kernel_on *on, const struct kernel_norm *a);

/* ---- attention ---- */

/* Rotary embedding in the half-split form of Hugging Face's Llama: element i < d/2 of a head turns with element i + d/2
 * by the angle position * theta^(-2i/d), position = token % seq. (GPT-J and the paper pair 2i with 2i+1: not this.) */
struct kernel_rope {
    size_t tokens, seq, heads, head_dim; /* head_dim even */
    float theta;
    const void *x; /* ACT (tokens, heads, head_dim) */
    void *out;     /* the same */
    const void *d_out;
    void *d_x;
};
size_t kernel_rope_workspace(size_t head_dim);
void kernel_rope(const struct kernel_on *on, const struct kernel_rope *a);
void kernel_rope_backward(const struct kernel_on *on, const struct kernel_rope *a);

/* softmax(q k^T * scale + mask) v for each head; query head h reads key head h / (heads / kv_heads). Works on blocks of
 * KERNEL_ATTENTION_ROWS queries: memory grows with seq, not with its square. Strides are elements between tokens, so
 * that q, k and v may be parts of one buffer. */
enum { KERNEL_ATTENTION_ROWS = 64 };
struct kernel_attention {
    size_t batch, seq, heads, kv_heads, head_dim;
    bool causal;
    float scale;           /* 1/sqrt(head_dim) in every model here */
    const void *q, *k, *v; /* ACT (tokens, heads or kv_heads, head_dim) */
    size_t q_stride, k_stride, v_stride;
    void *out; /* ACT (tokens, heads, head_dim), without gaps; backward reads it */
    float *
        lse; /* (batch, heads, seq): log-sum-exp of a row's scores; forward writes it, backward reads it */
    const void *d_out;
    void *d_q, *d_k, *d_v; /* with the strides of q, k, v; all or none */
};
/* Point q, k, v (and gradients, unless d_qkv is NULL) into one buffer (tokens, [q | k | v]). */
void kernel_attention_fuse(struct kernel_attention *a, enum dtype act, const void *qkv,
                           void *d_qkv);
size_t kernel_attention_workspace(size_t seq, size_t head_dim);
void kernel_attention(const struct kernel_on *on, const struct kernel_attention *a);
void kernel_attention_backward(const struct kernel_on *on, const struct kernel_attention *a);

/* ---- elementwise ---- */

/* out = gate * sigmoid(gate) * up */
struct kernel_swiglu {
    size_t n;
    const void *gate, *up; /* ACT (n) */
    void *out;
    const void *d_out;
    void *d_gate, *d_up;
};
void kernel_swiglu(const struct kernel_on *on, const struct kernel_swiglu *a);
void kernel_swiglu_backward(const struct kernel_on *on, const struct kernel_swiglu *a);

/* out = gelu([x0 | x1]), row by row. TANH is GPT-2's: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
enum kernel_gelu_form { KERNEL_GELU_TANH, KERNEL_GELU_ERF };
struct kernel_gelu {
    size_t rows, width0, width1; /* width1 = 0: one input */
    enum kernel_gelu_form form;
    const void *x0, *x1; /* ACT (rows, width0), (rows, width1) */
    void *out;           /* ACT (rows, width0 + width1) */
    const void *d_out;
    void *d_x0, *d_x1;
};
void kernel_gelu(const struct kernel_on *on, const struct kernel_gelu *a);
void kernel_gelu_backward(const struct kernel_on *on, const struct kernel_gelu *a);

/* out = x + y; both gradients are d_out. */
struct kernel_add {
    size_t n;
    const void *x, *y; /* ACT (n) */
    void *out;
    const void *d_out;
    void *d_x, *d_y;
};
void kernel_add(const struct kernel_on *on, const struct kernel_add *a);
void kernel_add_backward(const struct kernel_on *on, const struct kernel_add *a);

/* The bias of a linear layer, added to what its GEMM wrote: out += bias. */
struct kernel_bias {
    size_t rows, width;
    const void *bias; /* WEIGHT (width) */
    void *out;        /* ACT (rows, width) */
    const void *d_out;
    void *d_bias; /* GRAD */
};
size_t kernel_bias_workspace(size_t width);
void kernel_bias(const struct kernel_on *on, const struct kernel_bias *a);
void kernel_bias_backward(const struct kernel_on *on, const struct kernel_bias *a);

/* ---- mixture of experts ---- */

/* One of the n_active experts of a token: its row in expert order (experts one after another, tokens ascending in each)
 * and its weight. */
struct kernel_choice {
    float weight;
    uint32_t slot;
};

/* Softmax over the experts, the n_active largest (equal ones: the lower index), their probabilities divided by their sum
 * when `normalize`. No token is dropped: experts get what they get. */
struct kernel_route {
    size_t tokens, n_experts, n_active;
    bool normalize;
    const void *logits; /* ACT (tokens, n_experts) */
    struct kernel_choice
        *choices;      /* (tokens, n_active), best first; forward writes, backward reads */
    uint32_t *offsets; /* (n_experts + 1): expert e has rows offsets[e] .. offsets[e+1]; the same */
    const float *d_choices; /* (tokens, n_active): gradients of the weights */
    void *d_logits;
};
size_t kernel_route_workspace(size_t tokens, size_t n_experts, size_t n_active);
void kernel_route(const struct kernel_on *on, const struct kernel_route *a);
void kernel_route_backward(const struct kernel_on *on, const struct kernel_route *a);

/* dispatch: y[slot] = x[t] for every choice of t. combine: x[t] = sum of weight * y[slot]. */
struct kernel_exchange {
    size_t tokens, hidden, n_active;
    const struct kernel_choice *choices;
    const void *in; /* ACT: dispatch (tokens, hidden), combine (tokens * n_active, hidden) */
    void *out;      /* ACT: the other one */
    const void *d_out;
    void *d_in;
    float *d_choices; /* (tokens, n_active); combine only */
};
void kernel_dispatch(const struct kernel_on *on, const struct kernel_exchange *a);
void kernel_dispatch_backward(const struct kernel_on *on, const struct kernel_exchange *a);
void kernel_combine(const struct kernel_on *on, const struct kernel_exchange *a);
void kernel_combine_backward(const struct kernel_on *on, const struct kernel_exchange *a);

/* ---- losses ---- */

/* Mean of -log softmax(logits)[target] over the tokens whose target is not negative; 0 when there is none. */
struct kernel_cross_entropy {
    size_t tokens, vocab;
    const void *logits;     /* ACT (tokens, vocab) */
    const int64_t *targets; /* (tokens), below vocab; negative: not counted */
    float *log_probs;       /* (tokens, vocab): forward writes it, backward reads it */
    float *loss;            /* (1) */
    float scale;    /* backward: of the gradient, 1/grad_accum for the mean of micro-batches */
    void *d_logits; /* ACT */
};
void kernel_cross_entropy(const struct kernel_on *on, const struct kernel_cross_entropy *a);
void kernel_cross_entropy_backward(const struct kernel_on *on,
                                   const struct kernel_cross_entropy *a);

/* A loss on the output of a model without a head: mean of (x - target)^2 / 2 over all elements. */
struct kernel_squared_error {
    size_t n;
    const void *x;      /* ACT (n) */
    const void *target; /* ACT (n), or NULL: zeros */
    float *loss;        /* (1) */
    float scale;
    void *d_x;
};
void kernel_squared_error(const struct kernel_on *on, const struct kernel_squared_error *a);
void kernel_squared_error_backward(const struct kernel_on *on,
                                   const struct kernel_squared_error *a);

/* ---- updates (elementwise; the matrix algebra is in kernels/optimizer.h) ---- */

/* Momentum of Muon, as an average: buf = mu * buf + (1 - mu) * g; update = buf, or with Nesterov (1 - mu) * g + mu * buf.
 * (Newton-Schulz ignores scale, so the sum form gives the same step.) With norm2 the same pass leaves |update|^2 there, of
 * the update as it is stored: what kernel_norm2() would read it again for, with the same bits. */
struct kernel_momentum {
    size_t n;
    enum dtype grad_type, state_type, update_type;
    float mu, grad_scale; /* g = grad_scale * grad */
    bool nesterov;
    const void *grad;
    void *buf, *update;
    double *norm2; /* one, or NULL */
};
void kernel_momentum(const struct kernel_on *on, const struct kernel_momentum *a);

/* p = p * (1 - lr * decay) - lr * scale * update, in fp32: on the master copy when there is one, which p then follows. */
struct kernel_matrix_update {
    size_t n;
    enum dtype param_type, update_type;
    float lr, decay, scale;
    const void *update;
    void *param;
    float *master; /* or NULL */
};
void kernel_matrix_update(const struct kernel_on *on, const struct kernel_matrix_update *a);

/* AdamW (Loshchilov and Hutter) with bias correction, as torch.optim.AdamW computes it: p = p * (1 - lr * decay)
 * - lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps). */
struct kernel_adamw {
    size_t n;
    enum dtype param_type, grad_type, state_type;
    uint64_t step; /* 1 for the first */
    float lr, beta1, beta2, eps, decay, grad_scale;
    const void *grad;
    void *param, *m, *v;
    float *master; /* or NULL */
};
void kernel_adamw(const struct kernel_on *on, const struct kernel_adamw *a);

/* ---- plain vectors, for collectives and bookkeeping ---- */

/* y = x in another type */
struct kernel_cast {
    size_t n;
    enum dtype x_type, y_type;
    const void *x;
    void *y;
};
void kernel_cast(const struct kernel_on *on, const struct kernel_cast *a);

/* x *= alpha */
struct kernel_scale {
    size_t n;
    enum dtype type;
    float alpha;
    void *x;
};
void kernel_scale(const struct kernel_on *on, const struct kernel_scale *a);

/* x /= max(|x|, eps), |x| the root of kernel_norm2(), or of *norm2 where somebody has it already */
struct kernel_normalize {
    size_t n;
    enum dtype type;
    float eps;
    void *x;
    const double *norm2; /* |x|^2, or NULL */
};
void kernel_normalize(const struct kernel_on *on, const struct kernel_normalize *a);

/* x[i][i] += alpha, x (n,n) without gaps */
struct kernel_diagonal {
    size_t n;
    enum dtype type;
    float alpha;
    void *x;
};
void kernel_diagonal(const struct kernel_on *on, const struct kernel_diagonal *a);

/* y += alpha * x */
struct kernel_axpy {
    size_t n;
    enum dtype x_type, y_type;
    float alpha;
    const void *x;
    void *y;
};
void kernel_axpy(const struct kernel_on *on, const struct kernel_axpy *a);

/* out = x + y, rounded to the type; out may be x or y. */
struct kernel_sum {
    size_t n;
    enum dtype type;
    const void *x, *y;
    void *out;
};
void kernel_sum(const struct kernel_on *on, const struct kernel_sum *a);

/* out = scale * (part 0 + part 1 + ...), in that order in fp32 from 0, rounded once. Part `own` is at own_part, the others
 * one behind the other in `others` (n elements each); out may be own_part. */
struct kernel_reduce {
    size_t n;
    enum dtype type;
    uint32_t n_parts, own;
    float scale;
    const void *own_part, *others;
    void *out;
};
void kernel_reduce(const struct kernel_on *on, const struct kernel_reduce *a);

/* Sum of squares in double, in order. */
double kernel_norm2(const struct kernel_on *on, enum dtype d, const void *x, size_t n);

#endif
