/* Decoders of Llama's descent with a mixture of experts.
 *
 * Sources: the config and modelling classes of transformers of the same names, and for names in
 * the checkpoints its conversion_mapping.py. */
#include "model/tensors/hf.h"

#include <string.h>

#define LLAMA_NORM2 [SLOT_NORM2] = "post_attention_layernorm"

static const struct hf_names mixtral_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF, LLAMA_NORM2, [SLOT_ROUTER] = "block_sparse_moe.gate"},
    .experts = {[SLOT_GATE] = "block_sparse_moe.experts.*.w1",
                [SLOT_UP] = "block_sparse_moe.experts.*.w3",
                [SLOT_DOWN] = "block_sparse_moe.experts.*.w2"},
};
static const struct hf_names qwen_moe_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF, HF_LLAMA_MLP, LLAMA_NORM2, [SLOT_ROUTER] = "mlp.gate",
           [SLOT_SHARED_GATE] = "mlp.shared_expert.gate_proj",
           [SLOT_SHARED_UP] = "mlp.shared_expert.up_proj",
           [SLOT_SHARED_DOWN] = "mlp.shared_expert.down_proj",
           [SLOT_SHARED_ROUTER] = "mlp.shared_expert_gate"},
    .experts = {[SLOT_GATE] = "mlp.experts.*.gate_proj",
                [SLOT_UP] = "mlp.experts.*.up_proj",
                [SLOT_DOWN] = "mlp.experts.*.down_proj"},
};
static const struct hf_names minimax_m2_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF, LLAMA_NORM2, [SLOT_ROUTER] = "block_sparse_moe.gate",
           [SLOT_ROUTER_CORRECTION] = "=block_sparse_moe.e_score_correction_bias"},
    .experts = {[SLOT_GATE] = "block_sparse_moe.experts.*.w1",
                [SLOT_UP] = "block_sparse_moe.experts.*.w3",
                [SLOT_DOWN] = "block_sparse_moe.experts.*.w2"},
};
static const struct hf_names qwen3_vl_moe_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF, HF_LLAMA_MLP, LLAMA_NORM2, [SLOT_ROUTER] = "mlp.gate"},
    .experts =
        {[SLOT_GATE_UP] = "=mlp.experts.gate_up_proj", [SLOT_DOWN] = "=mlp.experts.down_proj"},
};
static const struct hf_names granitemoe_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF, LLAMA_NORM2, [SLOT_ROUTER] = "block_sparse_moe.router.layer"},
    .experts = {[SLOT_GATE_UP] = "block_sparse_moe.input_linear",
                [SLOT_DOWN] = "block_sparse_moe.output_linear"},
};
static const struct hf_names gpt_oss_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF,
           LLAMA_NORM2, [SLOT_ROUTER] = "mlp.router", [SLOT_SINK] = "=self_attn.sinks"},
    .experts =
        {[SLOT_GATE_UP] = "=mlp.experts.gate_up_proj", [SLOT_DOWN] = "=mlp.experts.down_proj"},
    .expert_biases = {[SLOT_GATE_UP] = "=mlp.experts.gate_up_proj_bias",
                      [SLOT_DOWN] = "=mlp.experts.down_proj_bias"},
};
static const struct hf_names llama4_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF,
           LLAMA_NORM2, [SLOT_GATE] = "feed_forward.gate_proj", [SLOT_UP] = "feed_forward.up_proj",
           [SLOT_DOWN] = "feed_forward.down_proj", [SLOT_ROUTER] = "feed_forward.router",
           [SLOT_SHARED_GATE] = "feed_forward.shared_expert.gate_proj",
           [SLOT_SHARED_UP] = "feed_forward.shared_expert.up_proj",
           [SLOT_SHARED_DOWN] = "feed_forward.shared_expert.down_proj"},
    .experts = {[SLOT_GATE_UP] = "=feed_forward.experts.gate_up_proj",
                [SLOT_DOWN] = "=feed_forward.experts.down_proj"},
};
#define GEMMA4_NORMS                                                                               \
    [SLOT_NORM1_POST] = "post_attention_layernorm", [SLOT_NORM2] = "pre_feedforward_layernorm",    \
    [SLOT_NORM2_POST] = "post_feedforward_layernorm"
static const struct hf_names gemma4_moe_names = {
    .layers = "model.layers",
    .of = {[SLOT_SHARED_GATE] = "mlp.gate_proj",
           [SLOT_SHARED_UP] = "mlp.up_proj",
           [SLOT_SHARED_DOWN] = "mlp.down_proj"},
};
static const struct hf_names gemma4_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF, HF_LLAMA_MLP,
           GEMMA4_NORMS, [SLOT_ROUTER] = "router.proj", [SLOT_ROUTER_NORM] = "=router.scale",
           [SLOT_ROUTER_CORRECTION] = "=router.per_expert_scale",
           [SLOT_EXPERTS_NORM] = "pre_feedforward_layernorm_2",
           [SLOT_EXPERTS_NORM_POST] = "post_feedforward_layernorm_2",
           [SLOT_SHARED_NORM_POST] = "post_feedforward_layernorm_1"},
    .experts = {[SLOT_GATE_UP] = "=experts.gate_up_proj", [SLOT_DOWN] = "=experts.down_proj"},
    .also = &gemma4_moe_names,
};
int hf_finish(struct hf *h, const struct hf_layer *dense, const struct hf_layer *sparse,
              const bool *is_sparse, struct err *e)
{
    return hf_add_kinds(h, dense, sparse, is_sparse, e) || hf_check_count(h, "num_hidden_layers", e)
               ? -1
               : 0;
}

/* ---- every layer has experts ---- */

static int read_mixtral(struct hf *h, struct err *e)
{
    struct hf_layer l;

    if (hf_decoder(h, &l, true, e) ||
        hf_experts(h, &l.c, "num_local_experts", 1, 8, "num_experts_per_tok", 2, e))
        return -1;
    return hf_finish(h, NULL, &l, NULL, e);
}

/* LayerNorm, biases on attention and head, and a routing of its own; otherwise Mixtral */
static int read_phimoe(struct hf *h, struct err *e)
{
    struct hf_layer l;

    if (hf_decoder(h, &l, true, e) ||
        hf_experts(h, &l.c, "num_local_experts", 1, 16, "num_experts_per_tok", 2, e) ||
        hf_flag_or(h, "lm_head_bias", false, &h->head_bias, e))
        return -1;
    l.c.route = ROUTE_OTHER;
    return hf_finish(h, NULL, &l, NULL, e);
}

static int read_granitemoe(struct hf *h, struct err *e)
{
    struct hf_layer l;

    if (hf_decoder(h, &l, true, e) ||
        hf_experts(h, &l.c, "num_local_experts", 1, 8, "num_experts_per_tok", 2, e))
        return -1;
    l.fused_gate_up = !h->opt->split_fused;
    return hf_finish(h, NULL, &l, NULL, e);
}

/* q and k normed over all heads; weights of the experts as the softmax over all gives them. */
static int read_olmoe(struct hf *h, struct err *e)
{
    struct hf_layer l;
    bool normalised;

    if (hf_decoder(h, &l, true, e) ||
        hf_experts(h, &l.c, "num_experts|num_local_experts", 1, 64, "num_experts_per_tok", 8, e) ||
        hf_flag_or(h, "norm_topk_prob", false, &normalised, e))
        return -1;
    l.c.route = normalised ? ROUTE_SOFTMAX_OF_CHOSEN : ROUTE_OTHER;
    return hf_finish(h, NULL, &l, NULL, e);
}

/* attn_type_list: 1 where a layer has softmax attention, 0 where MiniMax-01 had a linear one. */
static int minimax_attention(struct hf *h, struct err *e)
{
    struct json_at list, it;
    uint64_t type;

    if (!hf_has(h, "attn_type_list", &list))
        return 0;
    if (hf_per_layer(h, &list, e))
        return -1;
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it)) {
        if (json_as_u64(&it, 0, 1, &type, e))
            return -1;
        if (!type)
            return json_err(&it, ERR_UNSUPPORTED, e,
                            "is 0, linear attention; only 1, softmax attention, is read");
    }
    return 0;
}

/* Mixtral's tensors, norms over all heads of q and of k, a sigmoid's scores with a correction,
 * half a head rotates. */
static int read_minimax_m2(struct hf *h, struct err *e)
{
    uint64_t rotary;
    struct hf_layer l;

    if (hf_decoder(h, &l, true, e) ||
        hf_experts(h, &l.c, "num_local_experts|num_experts", 1, 256, "num_experts_per_tok", 8, e) ||
        hf_must_be(h, "use_qk_norm", true, "which leaves out the norms of q and k", e) ||
        hf_flag_or(h, "use_routing_bias", true, &l.router_correction, e) ||
        minimax_attention(h, e) ||
        hf_size_or(h, "rotary_dim", 1, l.c.head_dim, l.c.rotary_dim, &rotary, e))
        return -1;
    l.c.rotary_dim = rotary == l.c.head_dim ? 0 : (uint32_t)rotary / 2 * 2;
    l.c.route = ROUTE_OTHER;
    return hf_finish(h, NULL, &l, NULL, e);
}

/* Biases everywhere, a sink a head, gate and up of an expert interleaved, a clamped SwiGLU. */
static int read_gpt_oss(struct hf *h, struct err *e)
{
    struct hf_layer l;
    bool bias;

    if (hf_decoder(h, &l, true, e) || hf_flag_or(h, "attention_bias", true, &bias, e) ||
        hf_experts(h, &l.c, "num_local_experts|num_experts", 1, 128,
                   "num_experts_per_tok|experts_per_token", 4, e))
        return -1;
    l.qkv_bias = l.o_bias = bias;
    l.router_bias = l.expert_bias = l.sinks = l.stacked_in_out = true;
    l.fused_gate_up = !h->opt->split_fused;
    return hf_finish(h, NULL, &l, NULL, e);
}

/* ---- some layers are dense ---- */

bool hf_any(const struct hf *h, const bool *mask, bool value)
{
    for (uint64_t i = 0; i < h->layers; i++)
        if (mask[i] == value)
            return true;
    return false;
}

int hf_sparse_layers(struct hf *h, bool experts, bool *sparse, struct err *e)
{
    uint64_t *only = NULL, step;
    size_t n_only = 0;
    struct json_at at;

    if (hf_size_or(h, "decoder_sparse_step", 1, HF_MAX_LAYERS, 1, &step, e))
        return -1;
    if (json_opt(&h->top, "mlp_only_layers", &at) &&
        json_u64_array(&h->top, "mlp_only_layers", 0, h->layers - 1, h->a, &only, &n_only, e))
        return -1;
    for (uint64_t i = 0; i < h->layers; i++)
        sparse[i] = experts && (i + 1) % step == 0;
    for (size_t i = 0; i < n_only; i++)
        sparse[only[i]] = false;
    return 0;
}

/* qwen2_moe and qwen3_moe: dense where mlp_only_layers or decoder_sparse_step say so. */
static int read_qwen_moe(struct hf *h, struct err *e)
{
    /* transformers 5 writes num_experts under Mixtral's name */
    bool shared = !strcmp(h->fam->type, "qwen2_moe"), normalised, *sparse;
    bool stacked = h->names == &qwen3_vl_moe_names; /* and normalised whatever is written */
    struct hf_layer l, d;

    if (hf_decoder(h, &l, false, e) ||
        hf_experts(h, &l.c, "num_experts|num_local_experts", 0, shared || stacked ? 60 : 128,
                   "num_experts_per_tok", shared || stacked ? 4 : 8, e) ||
        hf_flag_or(h, "norm_topk_prob", stacked, &normalised, e))
        return -1;
    sparse = ARENA_NEW(h->a, bool, h->layers);
    if (hf_sparse_layers(h, l.c.n_experts, sparse, e))
        return -1;
    d = l;
    d.c.n_experts = d.c.n_active = 0;
    if (hf_any(h, sparse, false) && hf_size(h, "intermediate_size", HF_MAX_WIDTH, &d.c.ffn, e))
        return -1;
    if (hf_any(h, sparse, true) &&
        (hf_size(h, "moe_intermediate_size", HF_MAX_WIDTH, &l.c.ffn, e) ||
         (shared && hf_size(h, "shared_expert_intermediate_size", HF_MAX_WIDTH, &l.shared_ffn, e))))
        return -1;
    l.shared_router = shared;
    l.stacked_in_out = stacked;
    l.fused_gate_up = stacked && !h->opt->split_fused;
    l.c.route = normalised || stacked ? ROUTE_SOFTMAX_OF_CHOSEN : ROUTE_OTHER;
    return hf_finish(h, &d, &l, sparse, e);
}

/* layer_types, where they are written, say the same again. */
static int llama4_types(struct hf *h, const bool *rotary, bool chunked, struct err *e)
{
    struct json_at list, it;
    const char *s, *want;

    if (!hf_has(h, "layer_types", &list))
        return 0;
    if (hf_per_layer(h, &list, e))
        return -1;
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it)) {
        want = rotary[it.index] && chunked ? "chunked_attention" : "full_attention";
        if (json_as_str(&it, &s, e))
            return -1;
        if (strcmp(s, want) != 0)
            return json_err(&it, ERR_UNSUPPORTED, e,
                            "is '%.40s', expected %s: only layers that rotate see chunks", s, want);
    }
    return 0;
}

/* Experts in every interleave_moe_layer_step-th layer, or where moe_layers says. */
static int llama4_sparse(struct hf *h, bool *sparse, struct err *e)
{
    uint64_t step, *listed;
    struct json_at at;
    size_t n;

    if (hf_size_or(h, "interleave_moe_layer_step", 1, HF_MAX_LAYERS, 1, &step, e))
        return -1;
    for (uint64_t i = 0; i < h->layers; i++)
        sparse[i] = (i + 1) % step == 0;
    if (!json_opt(&h->top, "moe_layers", &at))
        return 0;
    if (json_u64_array(&h->top, "moe_layers", 0, h->layers - 1, h->a, &listed, &n, e))
        return -1;
    memset(sparse, 0, h->layers * sizeof(*sparse));
    for (size_t i = 0; i < n; i++)
        sparse[listed[i]] = true;
    return 0;
}

/* q and k are normalised without weights; three layers of four rotate and attend in chunks, the fourth does neither. */
static int read_llama4(struct hf *h, struct err *e)
{
    static const char *const names[] = {"layer", "chunked-layer", "moe-layer", "chunked-moe-layer"};
    bool *sparse = NULL, *rotary;
    uint64_t ffn, chunk;
    struct hf_layer l, of[4];
    uint8_t *which;

    if (hf_decoder(h, &l, true, e) ||
        hf_experts(h, &l.c, "num_local_experts", 1, 16, "num_experts_per_tok", 1, e) ||
        hf_size_or(h, "intermediate_size_mlp", 1, HF_MAX_WIDTH, 16384, &ffn, e) ||
        hf_size_or(h, "attention_chunk_size", 1, HF_MAX_VOCAB,
                   hf_written(h, "attention_chunk_size") ? 0 : 8192, &chunk, e))
        return -1;
    sparse = ARENA_NEW(h->a, bool, h->layers);
    rotary = ARENA_NEW(h->a, bool, h->layers);
    which = ARENA_NEW(h->a, uint8_t, h->layers);
    if (llama4_sparse(h, sparse, e) || hf_rotary_layers(h, rotary, e) ||
        llama4_types(h, rotary, chunk, e))
        return -1;
    l.c.route = ROUTE_OTHER;
    l.c.scaled = true;
    for (int k = 0; k < 4; k++) {
        bool moe = k / 2, turns = k % 2;

        of[k] = l;
        of[k].c.name = names[turns && !chunk ? k - 1 : k];
        of[k].c.window = turns ? chunk : 0;
        of[k].c.chunked = of[k].c.window;
        of[k].c.position = turns ? POSITION_ROPE : POSITION_NONE;
        of[k].shared_ffn = moe ? l.c.ffn : 0;
        of[k].stacked_in_out = moe;
        of[k].fused_gate_up = moe && !h->opt->split_fused;
        if (!moe) {
            of[k].c.n_experts = of[k].c.n_active = 0;
            of[k].c.ffn = ffn;
        }
    }
    for (uint64_t i = 0; i < h->layers; i++)
        which[i] = (uint8_t)(2 * sparse[i] + rotary[i]);
    hf_assign(h, of, which);
    return hf_check_count(h, "num_hidden_layers", e);
}

/* ---- Gemma 4 ---- */

/* The layers that see all: heads of another size, fewer of keys, and often no values beside the keys. */
static int gemma4_global(struct hf *h, struct hf_layer *l, struct err *e)
{
    struct json_at rope, full;
    uint64_t dim, kv;
    double share = 0.25;

    if (hf_size_or(h, "global_head_dim", 1, HF_MAX_HEADS, 512, &dim, e) ||
        hf_flag_or(h, "attention_k_eq_v", false, &l->no_v, e) ||
        hf_size_or(h, "num_global_key_value_heads", 1, HF_MAX_HEADS, l->c.n_kv_heads, &kv, e))
        return -1;
    if (json_opt(&h->top, "rope_parameters", &rope) && json_opt(&rope, "full_attention", &full) &&
        json_double_or(&full, "partial_rotary_factor", 0, 1, 1, &share, e))
        return -1;
    if (l->no_v)
        l->c.n_kv_heads = (uint32_t)kv;
    if (l->c.n_heads % l->c.n_kv_heads)
        return json_err(&h->top, ERR_INVALID, e,
                        "has num_attention_heads = %u, no multiple of %u heads of keys",
                        l->c.n_heads, l->c.n_kv_heads);
    l->c.head_dim = (uint32_t)dim;
    l->c.rotary_dim = (uint32_t)(share * (double)dim) / 2 * 2;
    if (l->c.rotary_dim == dim)
        l->c.rotary_dim = 0;
    else if (!l->c.rotary_dim)
        l->c.position = POSITION_NONE;
    return 0;
}

/* A dense MLP in every layer, and experts beside it where enable_moe_block says so: each with norms of its own, and
 * summed. The last layer sees all, whatever is written. */
static int read_gemma4(struct hf *h, struct err *e)
{
    static const char *const seen[] = {"vision", NULL}; /* images both ways; text is causal */
    struct hf_layer of[2];
    uint64_t window, own_inputs;
    struct json_at at = h->top;
    uint8_t *which;
    bool *local, moe;

    if (hf_size_or(h, "hidden_size_per_layer_input", 0, HF_MAX_WIDTH, 256, &own_inputs, e))
        return -1;
    if (own_inputs)
        return json_err(
            hf_has(h, "hidden_size_per_layer_input", &at) ? &at : &h->top, ERR_UNSUPPORTED, e,
            "gives every layer embeddings of its own (hidden_size_per_layer_input %llu), "
            "which are not read for this type",
            (unsigned long long)own_inputs);
    if (hf_must_be_text(&h->top, "use_bidirectional_attention", seen, e) ||
        hf_decoder(h, &of[1], true, e) || hf_flag_or(h, "enable_moe_block", false, &moe, e))
        return -1;
    if (moe) {
        of[1].shared_ffn = of[1].c.ffn;
        if (hf_experts(h, &of[1].c, "num_experts", 1, 0, "top_k_experts", 0, e) ||
            hf_size(h, "moe_intermediate_size", HF_MAX_WIDTH, &of[1].c.ffn, e))
            return -1;
        of[1].dense_beside = of[1].router_correction = true;
        of[1].fused_gate_up = !h->opt->split_fused;
        of[1].names = &gemma4_moe_names;
        of[1].c.route = ROUTE_OTHER;
    }
    local = ARENA_NEW(h->a, bool, h->layers);
    which = ARENA_NEW(h->a, uint8_t, h->layers);
    of[0] = of[1];
    if (gemma4_global(h, &of[0], e) || hf_windows(h, &window, local, e))
        return -1;
    local[h->layers - 1] = false;
    of[0].c.name = moe ? "moe-layer" : "layer";
    of[1].c.name = moe ? "local-moe-layer" : "local-layer";
    of[1].c.window = window;
    for (uint64_t i = 0; i < h->layers; i++)
        which[i] = local[i];
    hf_assign(h, of, which);
    return hf_check_count(h, "num_hidden_layers", e);
}

static const char *const olmoe_refused[] = {"clip_qkv", NULL};
static const char *const minimax_m2_refused[] = {"shared_intermediate_size", NULL};
static const char *const gemma4_refused[] = {"num_kv_shared_layers", NULL};

const struct hf_family hf_moe_families[] = {
    {.type = "mixtral", .names = &mixtral_names, .read = read_mixtral, .kv_heads = 8},
    {.type = "qwen2_moe",
     .names = &qwen_moe_names,
     .read = read_qwen_moe,
     .traits = HF_QKV_BIAS | HF_WINDOW_FLAG,
     .window = 4096},
    {.type = "qwen3_moe",
     .names = &qwen_moe_names,
     .read = read_qwen_moe,
     .traits = HF_ATTENTION_BIAS | HF_QK_NORM | HF_WINDOW_FLAG,
     .kv_heads = 4,
     .window = 4096},
    {.type = "qwen3_vl_moe_text",
     .names = &qwen3_vl_moe_names,
     .read = read_qwen_moe,
     .traits = HF_ATTENTION_BIAS | HF_QK_NORM,
     .kv_heads = 16},
    {.type = "olmoe",
     .names = &qwen_moe_names,
     .read = read_olmoe,
     .traits = HF_ATTENTION_BIAS | HF_QK_NORM_WHOLE,
     .refused = olmoe_refused},
    {.type = "minimax_m2",
     .names = &minimax_m2_names,
     .read = read_minimax_m2,
     .traits = HF_QK_NORM_WHOLE,
     .kv_heads = 8,
     .head_dim = 128,
     .refused = minimax_m2_refused},
    {.type = "phimoe",
     .names = &mixtral_names,
     .read = read_phimoe,
     .traits = HF_ATTENTION_BIAS | HF_LAYER_NORM,
     .kv_heads = 8},
    {.type = "granitemoe",
     .names = &granitemoe_names,
     .read = read_granitemoe,
     .traits = HF_ATTENTION_BIAS | HF_SCALED},
    {.type = "gpt_oss",
     .names = &gpt_oss_names,
     .read = read_gpt_oss,
     .kv_heads = 8,
     .head_dim = 64,
     .window = 128,
     .full_every = 2},
    {.type = "llama4_text",
     .names = &llama4_names,
     .read = read_llama4,
     .traits = HF_ATTENTION_BIAS,
     .kv_heads = 8,
     .head_dim = 128},
    {.type = "gemma4_text",
     .names = &gemma4_names,
     .read = read_gemma4,
     .traits = HF_ATTENTION_BIAS | HF_GELU | HF_TIED | HF_SCALED | HF_POST_NORM | HF_QK_NORM,
     .kv_heads = 4,
     .head_dim = 256,
     .window = 512,
     .full_every = 6,
     .refused = gemma4_refused},
    {.type = NULL},
};
