/* Builds the dataflow of one unit. The FLOP and byte counts follow the header's rules; the backward of a kernel is taken
 * to read what its forward read plus the incoming gradient, and to write the outgoing ones. */
#include "model/graph.h"

#include "core/num.h"

#include <string.h>

const char *kernel_name(enum kernel k)
{
    switch (k) {
#define X(v, name, bound)                                                                          \
    case v:                                                                                        \
        return name;
        KERNELS(X)
#undef X
    case KERNEL_N:
        break;
    }
    return "?";
}

char kernel_bound(enum kernel k)
{
    switch (k) {
#define X(v, name, bound)                                                                          \
    case v:                                                                                        \
        return bound;
        KERNELS(X)
#undef X
    case KERNEL_N:
        break;
    }
    return 'E';
}

struct build {
    const struct model *m;
    const struct unit *u;
    const struct unit_class *c;
    struct unit_graph *g;
    enum dtype act;
    uint64_t tokens, seq, micro;
    bool overflow;
};

static uint64_t mul(struct build *b, uint64_t x, uint64_t y)
{
    uint64_t r;

    b->overflow |= !num_mul(x, y, &r);
    return r;
}

static uint64_t mul3(struct build *b, uint64_t x, uint64_t y, uint64_t z)
{
    return mul(b, mul(b, x, y), z);
}

static uint64_t add(struct build *b, uint64_t x, uint64_t y)
{
    uint64_t r;

    b->overflow |= !num_add(x, y, &r);
    return r;
}

static uint64_t act_bytes(struct build *b, uint64_t elements)
{
    return mul(b, elements, dtype_bytes(b->act, 1));
}

/* Index in the unit of a slot's tensor (of expert 0 for experts), or MODEL_NONE. */
static uint32_t find(const struct build *b, enum tensor_slot slot, bool is_bias)
{
    for (uint32_t i = 0; i < b->u->n; i++) {
        const struct tensor *t = &b->m->tensors[b->u->first + i];

        if (t->slot == slot && t->is_bias == is_bias)
            return i;
    }
    return MODEL_NONE;
}

static uint32_t value(struct build *b, const char *name, uint64_t elements)
{
    struct unit_graph *g = b->g;

    BUG_ON(g->n_values == GRAPH_MAX_VALUES);
    g->values[g->n_values] = (struct graph_value){.name = name, .bytes = act_bytes(b, elements)};
    return g->n_values++;
}

static struct graph_op *op(struct build *b, const char *name, uint32_t out)
{
    struct unit_graph *g = b->g;
    struct graph_op *o;

    BUG_ON(g->n_ops == GRAPH_MAX_OPS);
    o = &g->ops[g->n_ops++];
    memset(o, 0, sizeof(*o));
    o->name = name;
    o->out = out;
    o->weight = o->bias = o->counts = MODEL_NONE;
    o->weight_stride = 1;
    g->output = out;
    return o;
}

static void input(struct graph_op *o, uint32_t v, bool saved)
{
    BUG_ON(o->n_in == GRAPH_MAX_IN);
    o->saves_in[o->n_in] = saved;
    o->in[o->n_in++] = v;
}

/* An elementwise kernel: `moved` bytes of HBM, m x n elements. */
static struct kernel_call moving(enum kernel k, uint64_t m, uint64_t n, uint64_t moved,
                                 uint64_t flops)
{
    return (struct kernel_call){
        .kernel = k, .m = m, .n = n, .batch = 1, .flops = flops, .hbm_bytes = moved, .launches = 1};
}

/* out[rows, n] = in[rows, k] W^T, `batch` of them (experts). Backward: dgrad and wgrad. */
static struct kernel_call gemm_call(struct build *b, enum kernel kernel, uint64_t m, uint64_t n,
                                    uint64_t k, uint64_t batch)
{
    uint64_t elements = add(b, add(b, mul(b, m, k), mul(b, k, n)), mul(b, m, n));

    return (struct kernel_call){.kernel = kernel,
                                .m = m,
                                .n = n,
                                .k = k,
                                .batch = batch,
                                .flops = mul(b, mul3(b, 2 * m, n, k), batch),
                                .hbm_bytes = mul(b, act_bytes(b, elements), batch),
                                .launches = 1,
                                .fp32 = b->act == DTYPE_FP32};
}

static void gemm(struct build *b, const char *name, uint32_t in, uint32_t out,
                 enum tensor_slot slot, uint64_t rows, uint64_t n, uint64_t k, uint64_t batch)
{
    struct graph_op *o = op(b, name, out);

    input(o, in, true);
    o->weight = find(b, slot, false);
    o->bias = find(b, slot, true);
    o->n_weights = (uint32_t)batch;
    if (batch > 1) /* experts lie one after another, with the same tensors each */
        for (uint32_t i = o->weight + 1; i < b->u->n; i++)
            if (b->m->tensors[b->u->first + i].slot == slot) {
                o->weight_stride = i - o->weight;
                break;
            }
    b->g->values[out].heavy = true;
    o->forward = gemm_call(b, KERNEL_GEMM, rows, n, k, batch);
    o->n_backward = 2;
    o->backward[0] = gemm_call(b, KERNEL_GEMM_DGRAD, rows, n, k, batch);
    o->backward_name[0] = "dgrad";
    o->backward[1] = gemm_call(b, KERNEL_GEMM_WGRAD, rows, n, k, batch);
    o->backward_name[1] = "wgrad";
}

/* A norm over `width` of `rows` rows: forward reads and writes; backward reads the input and the gradient, writes. */
static void norm(struct build *b, const char *name, uint32_t in, uint32_t out,
                 enum tensor_slot slot, uint64_t rows, uint64_t width)
{
    bool rms = b->c->norm == NORM_RMS || slot == SLOT_Q_NORM || slot == SLOT_K_NORM;
    struct graph_op *o = op(b, name, out);
    uint64_t n = mul(b, rows, width);

    input(o, in, true);
    o->weight = find(b, slot, false);
    o->bias = find(b, slot, true);
    o->n_weights = 1;
    o->forward = moving(rms ? KERNEL_RMSNORM : KERNEL_LAYERNORM, rows, width,
                        act_bytes(b, mul(b, n, 2)), mul(b, n, 4));
    o->n_backward = 1;
    o->backward[0] = moving(rms ? KERNEL_RMSNORM_BACKWARD : KERNEL_LAYERNORM_BACKWARD, rows, width,
                            act_bytes(b, mul(b, n, 3)), mul(b, n, 8));
    o->backward_name[0] = "backward";
}

static void attention(struct build *b, uint32_t q, uint32_t k, uint32_t v, uint32_t out, bool fused)
{
    const struct unit_class *c = b->c;
    struct graph_op *o = op(b, "attention", out);
    uint64_t d = c->head_dim, heads = c->n_heads, kv = c->n_kv_heads;
    uint64_t flops = mul(b, mul3(b, 4 * b->micro, heads, b->seq), mul(b, b->seq, d));
    uint64_t q_el = mul3(b, b->tokens, heads, d), kv_el = mul3(b, b->tokens, kv, d);
    uint64_t lse = mul3(b, b->tokens, heads, 4);

    if (c->causal)
        flops /= 2;
    input(o, q, true);
    if (!fused) {
        input(o, k, true);
        input(o, v, true);
    }
    o->saves_out = true;
    b->g->values[out].heavy = true;
    b->g->values[out].bytes = add(b, b->g->values[out].bytes, lse);
    o->forward = (struct kernel_call){
        .kernel = KERNEL_ATTENTION,
        .m = b->seq,
        .n = b->seq,
        .k = d,
        .batch = mul(b, b->micro, heads),
        .flops = flops,
        .launches = 1,
        .fp32 = b->act == DTYPE_FP32,
        .hbm_bytes = add(b, act_bytes(b, add(b, mul(b, q_el, 2), mul(b, kv_el, 2))), lse)};
    /* flash backward: five products where forward has two */
    o->n_backward = 1;
    o->backward[0] = o->forward;
    o->backward[0].kernel = KERNEL_ATTENTION_BACKWARD;
    o->backward[0].flops = mul(b, flops, 5) / 2;
    o->backward[0].hbm_bytes = add(b, act_bytes(b, add(b, mul(b, q_el, 4), mul(b, kv_el, 4))), lse);
    o->backward[0].launches = 2;
    o->backward_name[0] = "backward";
}

static void elementwise(struct build *b, const char *name, enum kernel fwd, enum kernel bwd,
                        uint64_t rows, uint64_t width, uint64_t fwd_streams, uint64_t bwd_streams,
                        uint32_t out)
{
    struct graph_op *o = op(b, name, out);
    uint64_t n = mul(b, rows, width);

    o->forward = moving(fwd, rows, width, act_bytes(b, mul(b, n, fwd_streams)), mul(b, n, 4));
    if (bwd != KERNEL_NONE) {
        o->n_backward = 1;
        o->backward[0] =
            moving(bwd, rows, width, act_bytes(b, mul(b, n, bwd_streams)), mul(b, n, 8));
        o->backward_name[0] = "backward";
    }
}

static struct graph_op *last(struct build *b)
{
    return &b->g->ops[b->g->n_ops - 1];
}

static void build_embed(struct build *b)
{
    const struct unit_class *c = b->c;
    uint32_t ids = value(b, "tokens", 0), x;
    struct graph_op *o;

    b->g->values[ids].bytes = mul(b, b->tokens, 8);
    x = value(b, "x", mul(b, b->tokens, c->hidden));
    elementwise(b, "embed", KERNEL_EMBED, KERNEL_EMBED_BACKWARD, b->tokens, c->hidden, 2, 3, x);
    o = last(b);
    input(o, ids, true);
    o->weight = find(b, SLOT_TOKEN_EMBEDDING, false);
    o->n_weights = 1;
    if (c->position == POSITION_LEARNED) {
        uint32_t y = value(b, "x_pos", mul(b, b->tokens, c->hidden));

        elementwise(b, "position", KERNEL_POSITION_ADD, KERNEL_POSITION_BACKWARD, b->tokens,
                    c->hidden, 3, 2, y);
        input(last(b), x, false);
        last(b)->weight = find(b, SLOT_POSITION, false);
        last(b)->n_weights = 1;
    }
}

/* ffn_in [tokens, hidden] -> mlp output [tokens, hidden] */
static uint32_t build_mlp(struct build *b, uint32_t in, uint64_t rows, uint64_t experts)
{
    const struct unit_class *c = b->c;
    uint64_t per = experts > 1 ? num_ceil_div(rows, experts) : rows;
    uint64_t all = mul(b, per, experts);
    uint32_t a, d;

    if (c->act == ACT_SWIGLU) {
        uint32_t g = value(b, "gate", mul(b, all, c->ffn)), u = value(b, "up", mul(b, all, c->ffn));

        gemm(b, "gate", in, g, SLOT_GATE, per, c->ffn, c->hidden, experts);
        gemm(b, "up", in, u, SLOT_UP, per, c->ffn, c->hidden, experts);
        a = value(b, "act", mul(b, all, c->ffn));
        elementwise(b, "swiglu", KERNEL_SWIGLU, KERNEL_SWIGLU_BACKWARD, all, c->ffn, 3, 5, a);
        input(last(b), g, true);
        input(last(b), u, true);
    } else {
        uint64_t half = c->split_up ? c->ffn / 2 : c->ffn;
        uint32_t u = value(b, c->split_up ? "up0" : "up", mul(b, all, half)), u1 = MODEL_NONE;

        gemm(b, c->split_up ? "up0" : "up", in, u, SLOT_UP, per, half, c->hidden, experts);
        if (c->split_up) {
            u1 = value(b, "up1", mul(b, all, c->ffn - half));
            gemm(b, "up1", in, u1, SLOT_UP1, per, c->ffn - half, c->hidden, experts);
        }
        a = value(b, "act", mul(b, all, c->ffn));
        elementwise(b, "gelu", KERNEL_GELU, KERNEL_GELU_BACKWARD, all, c->ffn, 2, 3, a);
        input(last(b), u, true);
        if (u1 != MODEL_NONE)
            input(last(b), u1, true);
    }
    d = value(b, "down", mul(b, all, c->hidden));
    gemm(b, "down", a, d, SLOT_DOWN, per, c->hidden, c->ffn, experts);
    return d;
}

static uint32_t residual(struct build *b, const char *name, const char *value_name, uint32_t x,
                         uint32_t y)
{
    uint32_t out = value(b, value_name, mul(b, b->tokens, b->c->hidden));

    /* d(x) = d(y) = d(out): no kernel of its own, but the two gradients meet in one addition. */
    elementwise(b, name, KERNEL_ADD, KERNEL_ADD, b->tokens, b->c->hidden, 3, 3, out);
    input(last(b), x, false);
    input(last(b), y, false);
    return out;
}

static uint32_t build_moe(struct build *b, uint32_t in)
{
    const struct unit_class *c = b->c;
    uint64_t rows = mul(b, b->tokens, c->n_active);
    uint32_t logits = value(b, "router_logits", mul(b, b->tokens, c->n_experts));
    uint32_t routes = value(b, "routes", 0), x, d, out, first;

    /* a choice is a weight and a slot, 8 bytes; then the first slot of every expert, and the end */
    b->g->values[routes].bytes = add(b, mul(b, rows, 8), 4 * ((uint64_t)c->n_experts + 1));
    gemm(b, "router", in, logits, SLOT_ROUTER, b->tokens, c->n_experts, c->hidden, 1);
    elementwise(b, "route", KERNEL_ROUTE, KERNEL_ROUTE_BACKWARD, b->tokens, c->n_experts, 2, 3,
                routes);
    input(last(b), logits, true);
    last(b)->saves_out = true;
    x = value(b, "dispatched", mul(b, rows, c->hidden));
    elementwise(b, "dispatch", KERNEL_DISPATCH, KERNEL_DISPATCH_BACKWARD, rows, c->hidden, 2, 2, x);
    input(last(b), in, false);
    input(last(b), routes, true);
    first = b->g->n_ops;
    d = build_mlp(b, x, rows, c->n_experts);
    for (uint32_t i = first; i < b->g->n_ops; i++)
        if (b->g->ops[i].n_weights > 1)
            b->g->ops[i].counts = routes;
    out = value(b, "moe_out", mul(b, b->tokens, c->hidden));
    elementwise(b, "combine", KERNEL_COMBINE, KERNEL_COMBINE_BACKWARD, rows, c->hidden, 2, 3, out);
    input(last(b), d, true);
    input(last(b), routes, true);
    return out;
}

static void build_layer(struct build *b)
{
    const struct unit_class *c = b->c;
    uint64_t q_width = mul(b, c->n_heads, c->head_dim),
             kv_width = mul(b, c->n_kv_heads, c->head_dim);
    uint32_t x = value(b, "x", mul(b, b->tokens, c->hidden)), n1, q, k = 0, v = 0, ao, o, x2, n2, y;

    n1 = value(b, "norm1", mul(b, b->tokens, c->hidden));
    norm(b, "norm1", x, n1, SLOT_NORM1, b->tokens, c->hidden);
    if (c->fused_qkv) {
        q = value(b, "qkv", mul(b, b->tokens, add(b, q_width, 2 * kv_width)));
        gemm(b, "qkv", n1, q, SLOT_QKV, b->tokens, q_width + 2 * kv_width, c->hidden, 1);
    } else {
        q = value(b, "q", mul(b, b->tokens, q_width));
        k = value(b, "k", mul(b, b->tokens, kv_width));
        v = value(b, "v", mul(b, b->tokens, kv_width));
        gemm(b, "q", n1, q, SLOT_Q, b->tokens, q_width, c->hidden, 1);
        gemm(b, "k", n1, k, SLOT_K, b->tokens, kv_width, c->hidden, 1);
        gemm(b, "v", n1, v, SLOT_V, b->tokens, kv_width, c->hidden, 1);
    }
    if (c->qk_norm) {
        uint32_t qn = value(b, "q_norm", mul(b, b->tokens, q_width));
        uint32_t kn = value(b, "k_norm", mul(b, b->tokens, kv_width));

        norm(b, "q_norm", q, qn, SLOT_Q_NORM, mul(b, b->tokens, c->n_heads), c->head_dim);
        norm(b, "k_norm", k, kn, SLOT_K_NORM, mul(b, b->tokens, c->n_kv_heads), c->head_dim);
        q = qn;
        k = kn;
    }
    if (c->position == POSITION_ROPE && !c->fused_qkv) {
        uint32_t qr = value(b, "q_rope", mul(b, b->tokens, q_width));
        uint32_t kr = value(b, "k_rope", mul(b, b->tokens, kv_width));

        elementwise(b, "q_rope", KERNEL_ROPE, KERNEL_ROPE_BACKWARD, b->tokens, q_width, 2, 2, qr);
        input(last(b), q, false);
        elementwise(b, "k_rope", KERNEL_ROPE, KERNEL_ROPE_BACKWARD, b->tokens, kv_width, 2, 2, kr);
        input(last(b), k, false);
        q = qr;
        k = kr;
    }
    ao = value(b, "attention", mul(b, b->tokens, q_width));
    attention(b, q, k, v, ao, c->fused_qkv);
    o = value(b, "o", mul(b, b->tokens, c->hidden));
    gemm(b, "o", ao, o, SLOT_O, b->tokens, c->hidden, q_width, 1);
    x2 = residual(b, "add1", "x2", x, o);
    n2 = value(b, "norm2", mul(b, b->tokens, c->hidden));
    norm(b, "norm2", x2, n2, SLOT_NORM2, b->tokens, c->hidden);
    y = c->n_experts ? build_moe(b, n2) : build_mlp(b, n2, b->tokens, 1);
    residual(b, "add2", "y", x2, y);
}

static void build_head(struct build *b)
{
    const struct unit_class *c = b->c;
    uint32_t x = value(b, "x", mul(b, b->tokens, c->hidden));
    uint32_t n = value(b, "final_norm", mul(b, b->tokens, c->hidden));
    uint32_t logits = value(b, "logits", mul(b, b->tokens, c->vocab)), loss;
    uint64_t n_logits = mul(b, b->tokens, c->vocab);
    struct graph_op *o;

    norm(b, "final_norm", x, n, SLOT_FINAL_NORM, b->tokens, c->hidden);
    gemm(b, "logits", n, logits, SLOT_HEAD, b->tokens, c->vocab, c->hidden, 1);
    if (c->tied) {
        o = last(b);
        o->weight_of_embedding = true;
        o->weight = 0;
        for (uint32_t i = 0; i < b->m->units[0].n; i++)
            if (b->m->tensors[b->m->units[0].first + i].slot == SLOT_TOKEN_EMBEDDING)
                o->weight = i;
    }
    /* fp32 loss: logits read, an fp32 copy written and read (log-softmax); backward reads it and writes bf16 d(logits) */
    loss = value(b, "loss_fp32", mul(b, n_logits, 4 / dtype_bytes(b->act, 1)));
    o = op(b, "cross_entropy", loss);
    input(o, logits, false);
    o->saves_out = true;
    o->forward = moving(KERNEL_CROSS_ENTROPY, b->tokens, c->vocab,
                        add(b, act_bytes(b, n_logits), mul(b, n_logits, 8)), mul(b, n_logits, 5));
    o->forward.launches = 2;
    o->n_backward = 1;
    o->backward[0] =
        moving(KERNEL_CROSS_ENTROPY_BACKWARD, b->tokens, c->vocab,
               add(b, act_bytes(b, n_logits), mul(b, n_logits, 4)), mul(b, n_logits, 2));
    o->backward_name[0] = "backward";
}

int graph_build(const struct model *m, uint32_t class_id, uint64_t micro_batch, uint64_t seq_len,
                enum dtype act, struct unit_graph *g, struct err *e)
{
    const struct unit_class *c = &m->classes[class_id];
    struct build b = {.m = m,
                      .u = &m->units[c->example],
                      .c = c,
                      .g = g,
                      .act = act,
                      .seq = seq_len,
                      .micro = micro_batch};

    memset(g, 0, sizeof(*g));
    b.tokens = mul(&b, micro_batch, seq_len);
    switch (c->kind) {
    case UNIT_EMBED:
        build_embed(&b);
        break;
    case UNIT_LAYER:
        build_layer(&b);
        break;
    case UNIT_HEAD:
        build_head(&b);
        break;
    }
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct graph_op *o = &g->ops[i];

        for (uint32_t j = 0; j < o->n_in; j++)
            g->values[o->in[j]].needed |= o->saves_in[j];
        g->values[o->out].needed |= o->saves_out;
        g->forward_flops = add(&b, g->forward_flops, o->forward.flops);
        for (uint32_t j = 0; j < o->n_backward; j++)
            g->backward_flops = add(&b, g->backward_flops, o->backward[j].flops);
    }
    if (b.overflow)
        return err_set(e, ERR_OVERFLOW,
                       "unit '%s' with %llu tokens a micro-batch: FLOPs or bytes pass 2^63; use a "
                       "smaller --seq-len or --micro-batch",
                       m->units[c->example].name, (unsigned long long)b.tokens);
    return 0;
}

double graph_model_flops_per_token(const struct model *m, uint64_t seq_len)
{
    double per_token = 6.0 * (double)(m->active_params - m->embedding_params);

    for (uint32_t u = 0; u < m->n_units; u++) {
        const struct unit_class *c = &m->classes[m->units[u].class_id];

        if (c->kind == UNIT_LAYER)
            per_token += 12.0 * (double)c->n_heads * (double)c->head_dim * (double)seq_len;
    }
    return per_token;
}
