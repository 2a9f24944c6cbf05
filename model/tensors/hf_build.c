/* Units and tensors from the description of a family: the one place that gives shapes. */
#include "model/tensors/hf.h"

#include <stdio.h>
#include <string.h>

struct at {
    struct hf *h;
    const struct hf_layer *l; /* NULL: the first or last unit */
    char prefix[64];
};

/* The name in the checkpoint: prefix of a text part, layer, the family's name, its end, the part of a fused tensor. */
static const char *full_name(const struct at *x, const char *name, const char *end,
                             const char *part, char *to, size_t cap)
{
    const struct hf *h = x->h;
    const char *in = *x->prefix ? x->prefix : name;
    bool whole = *name == '=';

    if (whole)
        name++;
    if (!*x->prefix)
        in = name;
    if (h->insert && !strncmp(in, "model.", 6))
        snprintf(to, cap, "model.%s%s%s%s%s", h->insert, in + 6, *x->prefix ? name : "",
                 whole ? "" : end, part);
    else
        snprintf(to, cap, "%s%s%s%s%s", h->prefix ? h->prefix : "", in, *x->prefix ? name : "",
                 whole ? "" : end, part);
    return to;
}

static void put(const struct at *x, const char *name, const char *part, enum tensor_role role,
                enum tensor_slot slot, bool bias, int32_t expert, uint32_t n_dims,
                const uint64_t *shape)
{
    char full[256];

    BUG_ON(!name);
    model_builder_tensor(&x->h->b,
                         full_name(x, name, bias ? ".bias" : ".weight", part, full, sizeof(full)),
                         role, slot, bias, expert, n_dims, shape);
}

static const char *name_of(const struct at *x, enum tensor_slot slot)
{
    const struct hf_names *own = x->l ? x->l->names : NULL;

    return own && own->of[slot] ? own->of[slot] : x->h->names->of[slot];
}

static void vector(const struct at *x, enum tensor_slot slot, enum tensor_role role, uint64_t n)
{
    put(x, name_of(x, slot), "", role, slot, false, -1, 1, &n);
}

static void table(const struct at *x, enum tensor_slot slot, enum tensor_role role, uint64_t rows,
                  uint64_t cols)
{
    put(x, name_of(x, slot), "", role, slot, false, -1, 2, (uint64_t[]){rows, cols});
}

/* A linear layer called `name` (a part of it, of a fused one that is split), and its bias. */
static void linear_part(const struct at *x, const char *name, const char *part,
                        enum tensor_slot slot, uint64_t out, uint64_t in, bool bias)
{
    bool flip = x->h->conv1d;

    put(x, name, part, ROLE_MATRIX, slot, false, -1, 2,
        (uint64_t[]){flip ? in : out, flip ? out : in});
    if (bias)
        put(x, name, part, ROLE_BIAS, slot, true, -1, 1, &out);
}

static void linear(const struct at *x, enum tensor_slot slot, uint64_t out, uint64_t in, bool bias)
{
    linear_part(x, name_of(x, slot), "", slot, out, in, bias);
}

static void norm(const struct at *x, enum tensor_slot slot, uint64_t width, bool bias)
{
    vector(x, slot, ROLE_NORM, width);
    if (bias)
        put(x, name_of(x, slot), "", ROLE_BIAS, slot, true, -1, 1, &width);
}

/* ---- mixers ---- */

/* Of a decoder, to the encoder's output, with a norm of its own before it. */
static void cross_attention(const struct at *x)
{
    const struct unit_class *c = &x->l->c;
    uint64_t q = (uint64_t)c->n_heads * c->head_dim, kv = (uint64_t)c->n_kv_heads * c->head_dim;

    norm(x, SLOT_CROSS_NORM, c->hidden, x->l->norm_bias);
    linear(x, SLOT_CROSS_Q, q, c->hidden, x->l->qkv_bias);
    linear(x, SLOT_CROSS_K, kv, c->hidden, x->l->qkv_bias);
    linear(x, SLOT_CROSS_V, kv, c->hidden, x->l->qkv_bias);
    linear(x, SLOT_CROSS_O, c->hidden, q, x->l->o_bias);
}

static void attention(const struct at *x)
{
    const struct hf_layer *l = x->l;
    const struct unit_class *c = &l->c;
    uint64_t q = (uint64_t)c->n_heads * c->head_dim, kv = (uint64_t)c->n_kv_heads * c->head_dim;
    const char *fused = name_of(x, SLOT_QKV);

    if (c->fused_qkv) {
        linear(x, SLOT_QKV, q + 2 * kv, c->hidden, l->qkv_bias);
    } else if (fused) { /* split by option */
        linear_part(x, fused, "[q]", SLOT_Q, q, c->hidden, l->qkv_bias);
        linear_part(x, fused, "[k]", SLOT_K, kv, c->hidden, l->qkv_bias);
        linear_part(x, fused, "[v]", SLOT_V, kv, c->hidden, l->qkv_bias);
    } else {
        linear(x, SLOT_Q, c->output_gate ? 2 * q : q, c->hidden, l->qkv_bias);
        linear(x, SLOT_K, kv, c->hidden, l->qkv_bias);
        if (!l->no_v)
            linear(x, SLOT_V, kv, c->hidden, l->qkv_bias);
    }
    linear(x, SLOT_O, c->hidden, q, l->o_bias);
    if (c->qk_norm) {
        norm(x, SLOT_Q_NORM, l->qk_norm_whole ? q : c->head_dim, false);
        norm(x, SLOT_K_NORM, l->qk_norm_whole ? kv : c->head_dim, false);
    }
    if (l->sinks)
        vector(x, SLOT_SINK, ROLE_OTHER, c->n_heads);
    if (l->relative)
        table(x, SLOT_RELATIVE, ROLE_POSITION, l->relative, c->n_heads);
}

/* DeepSeek's latent attention: biases, where there are any, on the two down-projections and on o. */
static void latent_attention(const struct at *x)
{
    const struct hf_layer *l = x->l;
    const struct unit_class *c = &l->c;
    uint64_t q = (uint64_t)c->n_heads * c->head_dim, nope = c->head_dim - c->rotary_dim;

    if (l->q_lora) {
        linear(x, SLOT_Q_A, l->q_lora, c->hidden, l->qkv_bias);
        norm(x, SLOT_Q_A_NORM, l->q_lora, false);
        linear(x, SLOT_Q_B, q, l->q_lora, false);
    } else {
        linear(x, SLOT_Q, q, c->hidden, false);
    }
    linear(x, SLOT_KV_A, l->kv_lora + c->rotary_dim, c->hidden, l->qkv_bias);
    norm(x, SLOT_KV_A_NORM, l->kv_lora, false);
    linear(x, SLOT_KV_B, c->n_heads * (nope + c->v_head_dim), l->kv_lora, false);
    if (l->index_heads) {
        linear(x, SLOT_INDEX_Q, l->index_heads * l->index_dim, l->q_lora, false);
        linear(x, SLOT_INDEX_K, l->index_dim, c->hidden, false);
        norm(x, SLOT_INDEX_K_NORM, l->index_dim, true);
        linear(x, SLOT_INDEX_WEIGHTS, l->index_heads, c->hidden, false);
    }
    linear(x, SLOT_O, c->hidden, unit_class_v_width(c), l->o_bias);
}

static void convolution(const struct at *x, uint64_t channels, bool bias)
{
    put(x, name_of(x, SLOT_CONV), "", ROLE_MATRIX, SLOT_CONV, false, -1, 3,
        (uint64_t[]){channels, 1, x->l->conv});
    if (bias)
        put(x, name_of(x, SLOT_CONV), "", ROLE_BIAS, SLOT_CONV, true, -1, 1, &channels);
}

/* Qwen's gated delta net: q and k of the key heads, v and z of the value heads, a decay and a strength a value head. */
static void delta(const struct at *x)
{
    const struct unit_class *c = &x->l->c;
    uint64_t k = (uint64_t)c->n_kv_heads * c->head_dim, v = unit_class_v_width(c);

    if (name_of(x, SLOT_IN_Z)) {
        linear(x, SLOT_IN, 2 * k + v, c->hidden, false);
        linear(x, SLOT_IN_Z, v, c->hidden, false);
        linear(x, SLOT_IN_B, c->n_heads, c->hidden, false);
        linear(x, SLOT_IN_A, c->n_heads, c->hidden, false);
    } else { /* Qwen3-Next: z with q, k, v; the decay with the strength */
        linear(x, SLOT_IN, 2 * k + 2 * v, c->hidden, false);
        linear(x, SLOT_IN_B, 2ull * c->n_heads, c->hidden, false);
    }
    convolution(x, 2 * k + v, false);
    vector(x, SLOT_DT, ROLE_OTHER, c->n_heads);
    vector(x, SLOT_A, ROLE_OTHER, c->n_heads);
    norm(x, SLOT_MIXER_NORM, c->v_head_dim, false);
    linear(x, SLOT_O, c->hidden, v, false);
}

/* Mamba-2: gate, x, B, C and a step a head from one projection; x, B, C go through the convolution. */
static void mamba2(const struct at *x)
{
    const struct unit_class *c = &x->l->c;
    uint64_t inner = unit_class_v_width(c), bc = 2ull * c->n_kv_heads * c->state_dim;

    linear(x, SLOT_IN, 2 * inner + bc + c->n_heads, c->hidden, x->l->qkv_bias);
    convolution(x, inner + bc, x->l->conv_bias);
    vector(x, SLOT_DT, ROLE_OTHER, c->n_heads);
    vector(x, SLOT_A, ROLE_OTHER, c->n_heads);
    vector(x, SLOT_D, ROLE_OTHER, c->n_heads);
    norm(x, SLOT_MIXER_NORM, inner, false);
    linear(x, SLOT_O, c->hidden, inner, x->l->o_bias);
}

static void mixer(const struct at *x)
{
    switch (x->l->c.mixer) {
    case MIXER_ATTENTION:
        attention(x);
        break;
    case MIXER_MLA:
        latent_attention(x);
        break;
    case MIXER_DELTA:
        delta(x);
        break;
    case MIXER_MAMBA2:
        mamba2(x);
        break;
    case MIXER_NONE:
    case MIXER_UNKNOWN:
        break;
    }
}

/* ---- MLPs ---- */

static void dense(const struct at *x)
{
    const struct hf_layer *l = x->l;
    const struct unit_class *c = &l->c;
    const char *fused = name_of(x, SLOT_GATE_UP);

    if (l->fused_gate_up) {
        linear(x, SLOT_GATE_UP, 2 * c->ffn, c->hidden, l->mlp_bias);
    } else if (fused) { /* split by option */
        linear_part(x, fused, "[gate]", SLOT_GATE, c->ffn, c->hidden, l->mlp_bias);
        linear_part(x, fused, "[up]", SLOT_UP, c->ffn, c->hidden, l->mlp_bias);
    } else {
        if (unit_class_gated(c))
            linear(x, SLOT_GATE, c->ffn, c->hidden, l->mlp_bias);
        linear(x, SLOT_UP, c->ffn, c->hidden, l->mlp_bias);
    }
    linear(x, SLOT_DOWN, c->hidden, c->ffn, l->mlp_bias);
}

/* One matrix of expert i: "experts.*.up_proj" with the number in place of the star, or a slice of a stacked tensor. */
static void expert_matrix(const struct at *x, uint64_t i, const char *name, const char *bias_name,
                          const char *part, enum tensor_slot slot, uint64_t out, uint64_t in)
{
    const char *star;
    char own[128], slice[40] = "";
    bool flip = false;

    BUG_ON(!name);
    star = strchr(name, '*');
    if (star) {
        snprintf(own, sizeof(own), "%.*s%llu%s", (int)(star - name), name, (unsigned long long)i,
                 star + 1);
        snprintf(slice, sizeof(slice), "%s", part);
    } else {
        snprintf(own, sizeof(own), "%s", name);
        snprintf(slice, sizeof(slice), "[%llu]%s", (unsigned long long)i, part);
        flip = x->l->stacked_in_out;
    }
    put(x, own, slice, ROLE_EXPERT, slot, false, (int32_t)i, 2,
        (uint64_t[]){flip ? in : out, flip ? out : in});
    if (x->l->expert_bias)
        put(x, bias_name ? bias_name : own, slice, ROLE_BIAS, slot, true, (int32_t)i, 1, &out);
}

static void expert(const struct at *x, uint64_t i)
{
    const struct hf_names *n = x->h->names;
    const struct unit_class *c = &x->l->c;
    const char *const *b = n->expert_biases;

    if (x->l->fused_gate_up) {
        expert_matrix(x, i, n->experts[SLOT_GATE_UP], b[SLOT_GATE_UP], "", SLOT_GATE_UP, 2 * c->ffn,
                      c->hidden);
    } else if (n->experts[SLOT_GATE_UP]) {
        expert_matrix(x, i, n->experts[SLOT_GATE_UP], b[SLOT_GATE_UP], "[gate]", SLOT_GATE, c->ffn,
                      c->hidden);
        expert_matrix(x, i, n->experts[SLOT_GATE_UP], b[SLOT_GATE_UP], "[up]", SLOT_UP, c->ffn,
                      c->hidden);
    } else {
        if (unit_class_gated(c))
            expert_matrix(x, i, n->experts[SLOT_GATE], b[SLOT_GATE], "", SLOT_GATE, c->ffn,
                          c->hidden);
        expert_matrix(x, i, n->experts[SLOT_UP], b[SLOT_UP], "", SLOT_UP, c->ffn, c->hidden);
    }
    expert_matrix(x, i, n->experts[SLOT_DOWN], b[SLOT_DOWN], "", SLOT_DOWN, c->hidden, c->ffn);
}

static void mixture(const struct at *x)
{
    const struct hf_layer *l = x->l;
    const struct unit_class *c = &l->c;
    uint64_t n = c->n_experts;

    if (l->dense_beside)
        norm(x, SLOT_ROUTER_NORM, c->hidden, false);
    table(x, SLOT_ROUTER, ROLE_ROUTER, n, c->hidden);
    if (l->router_bias)
        put(x, name_of(x, SLOT_ROUTER), "", ROLE_BIAS, SLOT_ROUTER, true, -1, 1, &n);
    if (l->router_correction)
        vector(x, SLOT_ROUTER_CORRECTION, ROLE_BIAS, n);
    if (l->dense_beside)
        norm(x, SLOT_EXPERTS_NORM, c->hidden, false);
    for (uint64_t i = 0; i < n; i++)
        expert(x, i);
    if (l->dense_beside)
        norm(x, SLOT_EXPERTS_NORM_POST, c->hidden, false);
    if (!l->shared_ffn)
        return;
    if (unit_class_gated(c))
        linear(x, SLOT_SHARED_GATE, l->shared_ffn, c->hidden, false);
    linear(x, SLOT_SHARED_UP, l->shared_ffn, c->hidden, false);
    linear(x, SLOT_SHARED_DOWN, c->hidden, l->shared_ffn, false);
    if (l->dense_beside)
        norm(x, SLOT_SHARED_NORM_POST, c->hidden, false);
    if (l->shared_router)
        table(x, SLOT_SHARED_ROUTER, ROLE_ROUTER, 1, c->hidden);
}

static void layer(const struct at *x)
{
    const struct hf_layer *l = x->l;

    if (l->norm1)
        norm(x, SLOT_NORM1, l->c.hidden, l->norm_bias);
    mixer(x);
    if (l->norm1_post)
        norm(x, SLOT_NORM1_POST, l->c.hidden, l->norm_bias);
    if (l->cross)
        cross_attention(x);
    if (l->norm2)
        norm(x, SLOT_NORM2, l->c.hidden, l->norm_bias);
    if (l->c.n_experts)
        mixture(x);
    else if (l->c.ffn)
        dense(x);
    if (l->norm2_post)
        norm(x, SLOT_NORM2_POST, l->c.hidden, l->norm_bias);
}

/* ---- the model ---- */

uint8_t hf_kind(struct hf *h, const struct hf_layer *l)
{
    BUG_ON(h->n_kinds == HF_MAX_KINDS);
    h->kinds[h->n_kinds] = *l;
    return (uint8_t)h->n_kinds++;
}

void hf_assign(struct hf *h, const struct hf_layer *of, const uint8_t *which)
{
    int index[HF_MAX_KINDS];

    memset(index, -1, sizeof(index));
    for (uint64_t i = 0; i < h->layers; i++) {
        BUG_ON(which[i] >= HF_MAX_KINDS);
        if (index[which[i]] < 0)
            index[which[i]] = hf_kind(h, &of[which[i]]);
        h->kind_of[i] = (uint8_t)index[which[i]];
    }
}

int hf_add_kinds(struct hf *h, const struct hf_layer *dense, const struct hf_layer *sparse,
                 const bool *is_sparse, struct err *e)
{
    static const char *const names[2][2] = {{"layer", "local-layer"},
                                            {"moe-layer", "local-moe-layer"}};
    bool *local = ARENA_NEW(h->a, bool, h->layers), all = true;
    uint8_t *which = ARENA_NEW(h->a, uint8_t, h->layers);
    struct hf_layer of[4];
    uint64_t window;

    if (hf_windows(h, &window, local, e))
        return -1;
    for (uint64_t i = 0; i < h->layers; i++) {
        bool s = sparse && (!dense || is_sparse[i]);

        all &= local[i];
        which[i] = (uint8_t)(2 * s + local[i]);
    }
    for (int k = 0; k < 4; k++) {
        const struct hf_layer *l = k / 2 ? sparse : dense;

        if (!l)
            continue;
        of[k] = *l;
        of[k].c.name = names[k / 2][k % 2 && !all];
        of[k].c.window = k % 2 ? window : 0;
    }
    hf_assign(h, of, which);
    return 0;
}

static struct unit_class ends_class(const struct hf *h, enum unit_kind kind, const char *name)
{
    const struct unit_class *first = &h->kinds[0].c;

    return (struct unit_class){.kind = kind,
                               .name = name,
                               .hidden = h->hidden,
                               .vocab = h->vocab,
                               .norm = h->norm,
                               .act = first->act,
                               .position = first->position,
                               .tied = h->tied,
                               .stack = kind == UNIT_EMBED ? first->stack
                                                           : h->kinds[h->n_kinds - 1].c.stack,
                               .causal = true,
                               .embed_dim = h->embed_dim,
                               .positions = h->positions == h->m->max_seq_len ? 0 : h->positions};
}

static void first_unit(struct hf *h)
{
    struct unit_class c = ends_class(h, UNIT_EMBED, "embed");
    struct at x = {.h = h};
    uint64_t width = h->embed_dim ? h->embed_dim : h->hidden;

    c.scaled = h->kinds[0].c.scaled;
    model_builder_unit(&h->b, "embed", &c);
    table(&x, SLOT_TOKEN_EMBEDDING, ROLE_EMBEDDING, h->vocab, width);
    if (h->positions)
        table(&x, SLOT_POSITION, ROLE_POSITION, h->positions, h->hidden);
    if (h->token_types)
        table(&x, SLOT_TOKEN_TYPE, ROLE_EMBEDDING, h->token_types, h->hidden);
    if (h->embed_dim)
        linear(&x, SLOT_PROJECT_IN, h->hidden, width, false);
    if (h->embed_norm)
        norm(&x, SLOT_EMBED_NORM, h->hidden, h->norm_bias);
}

static void last_unit(struct hf *h)
{
    struct unit_class c = ends_class(h, UNIT_HEAD, "head");
    struct at x = {.h = h};
    uint64_t width = h->embed_dim ? h->embed_dim : h->hidden;
    uint64_t rows = h->scores ? h->scores : h->vocab;

    c.scaled = h->kinds[0].c.scaled;
    c.vocab = rows;
    model_builder_unit(&h->b, "head", &c);
    if (!h->no_final_norm)
        norm(&x, SLOT_FINAL_NORM, h->hidden, h->norm_bias);
    if (h->embed_dim)
        linear(&x, SLOT_PROJECT_OUT, width, h->hidden, false);
    if (h->pooler)
        linear(&x, SLOT_POOLER, h->hidden, h->hidden, true);
    if (h->transform) {
        linear(&x, SLOT_TRANSFORM, h->hidden, h->hidden, true);
        norm(&x, SLOT_TRANSFORM_NORM, h->hidden, true);
    }
    if (h->next) {
        table(&x, SLOT_NEXT, ROLE_HEAD, 2, h->hidden);
        put(&x, name_of(&x, SLOT_NEXT), "", ROLE_BIAS, SLOT_NEXT, true, -1, 1, (uint64_t[]){2});
    }
    if (!h->tied && !h->no_head)
        table(&x, SLOT_HEAD, ROLE_HEAD, rows, width);
    if (h->head_bias)
        put(&x, name_of(&x, SLOT_HEAD), "", ROLE_BIAS, SLOT_HEAD, true, -1, 1, &rows);
}

/* Between an encoder and its decoder. */
static void bridge_unit(struct hf *h)
{
    struct unit_class c = ends_class(h, UNIT_BRIDGE, "bridge");
    struct at x = {.h = h};

    model_builder_unit(&h->b, "bridge", &c);
    norm(&x, SLOT_ENCODER_NORM, h->hidden, h->norm_bias);
}

/* A layer that predicts a further token: it joins the state with the embedding of the token after, both normed, and is a
 * layer like another one; embedding and head are the model's own. Its products with weights are counted as they are. */
static void mtp_unit(struct hf *h, uint64_t i)
{
    const struct hf_names *n = h->names;
    const struct hf_layer *l = h->mtp_like ? h->mtp_like : &h->kinds[h->kind_of[h->layers - 1]];
    struct at x = {.h = h, .l = l};
    struct unit_class c = l->c;
    char name[32];

    snprintf(name, sizeof(name), "mtp.%u", (unsigned)i);
    snprintf(x.prefix, sizeof(x.prefix), "%s.%u.", n->mtp_layers ? n->mtp_layers : n->layers,
             (unsigned)(n->mtp_layers ? i : h->layers + i));
    c.name = "mtp";
    c.mixer = MIXER_UNKNOWN;
    model_builder_unit(&h->b, name, &c);
    for (int k = 0; k < 4 && !(n->mtp_once && i); k++) {
        struct at where = x;
        bool join = k == 2;

        if (n->mtp_once)
            *where.prefix = 0;
        put(&where, n->mtp[k], "", join ? ROLE_MATRIX : ROLE_NORM, SLOT_OTHER, false, -1,
            join ? 2 : 1, (uint64_t[]){h->hidden, 2 * h->hidden});
    }
    layer(&x);
}

void hf_build(struct hf *h)
{
    char name[32];

    first_unit(h);
    for (uint64_t i = 0; i < h->layers; i++) {
        struct at x = {.h = h, .l = &h->kinds[h->kind_of[i]]};
        bool decoder = h->encoder_layers && i >= h->encoder_layers;
        unsigned at = (unsigned)(decoder ? i - h->encoder_layers : i);

        if (decoder && !at)
            bridge_unit(h);
        snprintf(name, sizeof(name), "%s.%u",
                 decoder             ? "decoder"
                 : h->encoder_layers ? "encoder"
                                     : "layers",
                 at);
        snprintf(x.prefix, sizeof(x.prefix), "%s.%u.",
                 decoder ? h->names->decoder_layers : h->names->layers, at);
        model_builder_unit(&h->b, name, &x.l->c);
        layer(&x);
    }
    for (uint64_t i = 0; i < h->mtp; i++)
        mtp_unit(h, i);
    last_unit(h);
}
