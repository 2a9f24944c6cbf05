/* Attention: softmax attention of any number of key heads, with rotary or relative positions; latent attention; a decoder's
 * attention to its encoder's output. */
#include "model/graph/graph_build.h"

/* What attends to what: values of queries, keys and values (all three in q where `fused`), of keys and values from `keys`
 * tokens a sequence; `bias` is added to the scores (MODEL_NONE: nothing of their own is). */
struct attending {
    const char *name;
    uint32_t q, k, v;
    bool fused, causal, biased;
    uint64_t keys;
    uint32_t bias;
};

/* Pairs of a query and a key that attention multiplies, for one head of one sequence. */
static uint64_t pairs(struct build *b, const struct attending *x)
{
    const struct unit_class *c = b->c;

    if (x->causal && c->window && c->window < b->seq && c->chunked) {
        uint64_t rest = b->seq % c->window;

        return build_sum(b, build_mul(b, b->seq - rest, c->window), build_mul(b, rest, rest)) / 2;
    }
    if (x->causal && c->window && c->window < b->seq)
        return build_mul(b, c->window, b->seq) - build_mul(b, c->window, c->window) / 2;
    return build_mul(b, b->seq, x->keys) / (x->causal ? 2 : 1);
}

/* One kernel: heads * v_head_dim out. A fused one that adds a bias reads it, and in backward reads it again and writes its
 * gradient. */
static uint32_t attend(struct build *b, const struct attending *x)
{
    const struct unit_class *c = b->c;
    uint64_t d = c->head_dim, dv = c->v_head_dim ? c->v_head_dim : d, heads = c->n_heads;
    uint64_t kv = c->n_kv_heads;
    uint64_t flops = build_mul3(b, build_mul(b, 2 * b->micro, heads), pairs(b, x), d + dv);
    uint64_t q_el = build_of_tokens(b, heads * (d + dv));
    uint64_t kv_el = build_mul3(b, b->micro, x->keys, kv * (d + dv));
    uint64_t lse = build_mul3(b, b->tokens, heads, 4);
    uint32_t out = build_value_of(b, x->name, heads * dv);
    struct graph_op *o = build_op(b, x->name, out);

    build_input(o, x->q, true);
    if (!x->fused) {
        build_input(o, x->k, true);
        build_input(o, x->v, true);
    }
    o->weight = build_find(b, SLOT_SINK, false);
    o->n_weights = o->weight != MODEL_NONE;
    o->saves_out = true;
    b->g->values[out].heavy = true;
    b->g->values[out].bytes = build_sum(b, b->g->values[out].bytes, lse);
    o->forward = (struct kernel_call){
        .kernel = KERNEL_ATTENTION,
        .m = b->seq,
        .n = x->keys,
        .k = (d + dv) / 2,
        .batch = build_mul(b, b->micro, heads),
        .flops = flops,
        .launches = 1,
        .fp32 = b->act == DTYPE_FP32,
        .biased = x->biased,
        .hbm_bytes = build_sum(b, build_bytes(b, build_sum(b, q_el, kv_el)), lse)};
    /* flash backward: five products where forward has two */
    o->n_backward = 1;
    o->backward[0] = o->forward;
    o->backward[0].kernel = KERNEL_ATTENTION_BACKWARD;
    o->backward[0].flops = build_mul(b, flops, 5) / 2;
    o->backward[0].hbm_bytes =
        build_sum(b, build_bytes(b, build_mul(b, build_sum(b, q_el, kv_el), 2)), lse);
    o->backward[0].launches = 2;
    o->backward_name[0] = "backward";
    if (x->bias != MODEL_NONE) {
        uint64_t bias = b->g->values[x->bias].bytes;

        build_input(o, x->bias, true);
        o->forward.hbm_bytes = build_sum(b, o->forward.hbm_bytes, bias);
        o->backward[0].hbm_bytes = build_sum(b, o->backward[0].hbm_bytes, build_mul(b, bias, 2));
    }
    return out;
}

uint32_t build_carried(struct build *b, enum carry c, const char *name, uint64_t elements)
{
    uint32_t v = build_value(b, name, elements);

    b->g->values[v].carried = c;
    return v;
}

/* Do layers of the unit's stack take the biases that one of them makes? Else each makes its own (UMT5). */
static bool shares_bias(const struct build *b)
{
    for (uint32_t i = 0; i < b->m->n_classes; i++) {
        const struct unit_class *c = &b->m->classes[i];
        struct build of = {.m = b->m, .u = &b->m->units[c->example]};

        if (c->kind == UNIT_LAYER && c->position == POSITION_RELATIVE && c->stack == b->c->stack &&
            !build_tensor(&of, SLOT_RELATIVE))
            return true;
    }
    return false;
}

/* Relative positions: a number a head and pair of tokens, of each sequence, for with it go the masks. It is looked up by distance, and
 * its gradient summed over sequences and distances. */
static uint32_t build_relative(struct build *b)
{
    uint64_t heads = b->c->n_heads, rows = build_mul(b, b->tokens, b->seq);
    enum carry c = !shares_bias(b)                ? CARRIED_NONE
                   : b->c->stack == STACK_DECODER ? CARRIED_DECODER_BIAS
                                                  : CARRIED_BIAS;
    uint32_t bias = build_carried(b, c, "bias", build_mul(b, rows, heads));
    struct graph_op *o;

    if (!build_tensor(b, SLOT_RELATIVE))
        return bias;
    build_elementwise(b, "relative", KERNEL_EMBED, KERNEL_EMBED_BACKWARD, rows, heads, 2, 2, bias);
    o = build_last(b);
    o->weight = build_find(b, SLOT_RELATIVE, false);
    o->n_weights = 1;
    return bias;
}

/* Rotates `turned` of the `width` elements a token; the rest goes along. */
static uint32_t rope(struct build *b, const char *name, uint32_t in, uint64_t width,
                     uint64_t turned)
{
    uint32_t out = build_value_of(b, name, width);

    build_elementwise(b, name, KERNEL_ROPE, KERNEL_ROPE_BACKWARD, b->tokens, turned, 2, 2, out);
    build_input(build_last(b), in, false);
    return out;
}

/* Over each head, or over all of them where the weight is as wide as they are. */
static uint32_t head_norm(struct build *b, const char *name, enum tensor_slot slot, uint32_t in,
                          uint64_t heads)
{
    uint64_t width = heads * b->c->head_dim, each = build_tensor(b, slot)->numel;
    uint32_t out = build_value_of(b, name, width);

    build_norm(b, name, in, out, slot, build_of_tokens(b, width) / each, each);
    return out;
}

uint32_t build_attention(struct build *b, uint32_t x)
{
    const struct unit_class *c = b->c;
    uint64_t q_width = (uint64_t)c->n_heads * c->head_dim;
    uint64_t kv_width = (uint64_t)c->n_kv_heads * c->head_dim;
    uint64_t turned = c->rotary_dim ? c->rotary_dim : c->head_dim;
    bool rotary = c->position == POSITION_ROPE, biased = c->position == POSITION_RELATIVE;
    uint32_t bias = biased ? build_relative(b) : MODEL_NONE;
    uint32_t q, k = 0, v = 0, gate, out;

    if (c->fused_qkv) {
        q = build_linear(b, "qkv", SLOT_QKV, x, q_width + 2 * kv_width, c->hidden);
        if (rotary)
            q = rope(b, "qkv_rope", q, q_width + 2 * kv_width,
                     ((uint64_t)c->n_heads + c->n_kv_heads) * turned);
        return attend(b, &(struct attending){.name = "attention",
                                             .q = q,
                                             .fused = true,
                                             .causal = c->causal,
                                             .biased = biased,
                                             .keys = b->seq,
                                             .bias = bias});
    }
    q = build_linear(b, "q", SLOT_Q, x, c->output_gate ? 2 * q_width : q_width, c->hidden);
    k = build_linear(b, "k", SLOT_K, x, kv_width, c->hidden);
    v = build_tensor(b, SLOT_V) ? build_linear(b, "v", SLOT_V, x, kv_width, c->hidden) : k;
    gate = q;
    if (c->qk_norm) {
        q = head_norm(b, "q_norm", SLOT_Q_NORM, q, c->n_heads);
        k = head_norm(b, "k_norm", SLOT_K_NORM, k, c->n_kv_heads);
    }
    if (rotary) {
        uint32_t turned_q = build_value_of(b, "q_rope", q_width),
                 turned_k = build_value_of(b, "k_rope", kv_width);

        build_elementwise(b, "q_rope", KERNEL_ROPE, KERNEL_ROPE_BACKWARD, b->tokens,
                          c->n_heads * turned, 2, 2, turned_q);
        build_input(build_last(b), q, false);
        build_elementwise(b, "k_rope", KERNEL_ROPE, KERNEL_ROPE_BACKWARD, b->tokens,
                          c->n_kv_heads * turned, 2, 2, turned_k);
        build_input(build_last(b), k, false);
        q = turned_q;
        k = turned_k;
    }
    out = attend(b, &(struct attending){.name = "attention",
                                        .q = q,
                                        .k = k,
                                        .v = v,
                                        .causal = c->causal,
                                        .biased = biased,
                                        .keys = b->seq,
                                        .bias = bias});
    return c->output_gate ? build_gated(b, "output_gate", out, gate, q_width) : out;
}

/* The indexer of DeepSeek's sparse attention (arXiv 2512.02556): what its products with its
 * weights cost. Its scores, of all heads of all pairs, and the choice of keys by them have no
 * kernel here; what they read goes into attention. `made` [3]: queries, keys, weights. */
static void build_indexer(struct build *b, uint32_t x, uint32_t q, uint64_t rank, uint32_t *made)
{
    uint64_t heads = build_tensor(b, SLOT_INDEX_WEIGHTS)->rows;
    uint64_t dim = build_tensor(b, SLOT_INDEX_K_NORM)->numel;
    uint32_t k;

    made[0] = build_linear(b, "index_q", SLOT_INDEX_Q, q, heads * dim, rank);
    k = build_linear(b, "index_k", SLOT_INDEX_K, x, dim, b->c->hidden);
    made[1] = build_value_of(b, "index_k_norm", dim);
    build_norm(b, "index_k_norm", k, made[1], SLOT_INDEX_K_NORM, b->tokens, dim);
    made[2] = build_linear(b, "index_weights", SLOT_INDEX_WEIGHTS, x, heads, b->c->hidden);
}

/* DeepSeek's: queries and keys are made whole from what rotates and what does not, values lie beside the keys. */
uint32_t build_latent(struct build *b, uint32_t x)
{
    const struct unit_class *c = b->c;
    uint64_t q_width = (uint64_t)c->n_heads * c->head_dim, nope = c->head_dim - c->rotary_dim;
    const struct tensor *q_norm = build_tensor(b, SLOT_Q_A_NORM);
    uint64_t latent = build_tensor(b, SLOT_KV_A_NORM)->numel;
    uint32_t q, kv, k, normed, out, index[3] = {MODEL_NONE, MODEL_NONE, MODEL_NONE};

    if (q_norm) {
        q = build_linear(b, "q_a", SLOT_Q_A, x, q_norm->numel, c->hidden);
        normed = build_value_of(b, "q_a_norm", q_norm->numel);
        build_norm(b, "q_a_norm", q, normed, SLOT_Q_A_NORM, b->tokens, q_norm->numel);
        q = build_linear(b, "q_b", SLOT_Q_B, normed, q_width, q_norm->numel);
        if (build_tensor(b, SLOT_INDEX_Q))
            build_indexer(b, x, normed, q_norm->numel, index);
    } else {
        q = build_linear(b, "q", SLOT_Q, x, q_width, c->hidden);
    }
    kv = build_linear(b, "kv_a", SLOT_KV_A, x, latent + c->rotary_dim, c->hidden);
    normed = build_value_of(b, "kv_a_norm", latent);
    build_norm(b, "kv_a_norm", kv, normed, SLOT_KV_A_NORM, b->tokens, latent);
    k = kv;
    kv = build_linear(b, "kv_b", SLOT_KV_B, normed, c->n_heads * (nope + c->v_head_dim), latent);
    q = rope(b, "q_rope", q, q_width, q_width);
    k = rope(b, "k_rope", k, q_width, q_width);
    build_input(build_last(b), kv, false);
    out = attend(b, &(struct attending){.name = "attention",
                                        .q = q,
                                        .k = k,
                                        .v = kv,
                                        .causal = c->causal,
                                        .keys = b->seq,
                                        .bias = MODEL_NONE});
    for (int i = 0; i < 3 && index[i] != MODEL_NONE; i++)
        build_input(build_last(b), index[i], true);
    return out;
}

/* Keys and values from the encoder's output. Where scores have biases of their own, PyTorch's T5 adds its mask here as it adds
 * them there. */
uint32_t build_cross(struct build *b, uint32_t x, uint32_t encoded)
{
    const struct unit_class *c = b->c;
    uint64_t q_width = (uint64_t)c->n_heads * c->head_dim;
    uint64_t kv_width = (uint64_t)c->n_kv_heads * c->head_dim;
    uint64_t tokens = build_mul(b, b->micro, b->source), kv = build_mul(b, tokens, kv_width);
    uint32_t q = build_linear(b, "cross_q", SLOT_CROSS_Q, x, q_width, c->hidden);
    uint32_t k = build_value(b, "cross_k", kv), v = build_value(b, "cross_v", kv), out;

    build_gemm(b, "cross_k", encoded, k, SLOT_CROSS_K, tokens, kv_width, c->hidden, 1);
    build_gemm(b, "cross_v", encoded, v, SLOT_CROSS_V, tokens, kv_width, c->hidden, 1);
    out = attend(b, &(struct attending){.name = "cross",
                                        .q = q,
                                        .k = k,
                                        .v = v,
                                        .biased = c->position == POSITION_RELATIVE,
                                        .keys = b->source,
                                        .bias = MODEL_NONE});
    return build_linear(b, "cross_o", SLOT_CROSS_O, out, c->hidden, unit_class_v_width(c));
}
