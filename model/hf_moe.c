/* Decoders of Llama's descent with a mixture of experts, and DeepSeek's latent attention.
 *
 * Sources: the config and modelling classes of transformers of the same names; DeepSeek's own modelling_deepseek.py for
 * V2, V3 and what follows it (Moonlight, Kimi-K2). */
#include "model/hf.h"

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
static const struct hf_names deepseek_names = {
    .layers = "model.layers",
    .of =
        {HF_LLAMA_OF, HF_LLAMA_MLP, LLAMA_NORM2, [SLOT_Q_A] = "self_attn.q_a_proj",
         [SLOT_Q_A_NORM] = "self_attn.q_a_layernorm", [SLOT_Q_B] = "self_attn.q_b_proj",
         [SLOT_KV_A] = "self_attn.kv_a_proj_with_mqa",
         [SLOT_KV_A_NORM] = "self_attn.kv_a_layernorm", [SLOT_KV_B] = "self_attn.kv_b_proj",
         [SLOT_ROUTER] = "mlp.gate", [SLOT_ROUTER_CORRECTION] = "=mlp.gate.e_score_correction_bias",
         [SLOT_SHARED_GATE] = "mlp.shared_experts.gate_proj",
         [SLOT_SHARED_UP] = "mlp.shared_experts.up_proj",
         [SLOT_SHARED_DOWN] = "mlp.shared_experts.down_proj"},
    .experts = {[SLOT_GATE] = "mlp.experts.*.gate_proj",
                [SLOT_UP] = "mlp.experts.*.up_proj",
                [SLOT_DOWN] = "mlp.experts.*.down_proj"},
    .mtp = {"enorm", "hnorm", "eh_proj", "shared_head.norm"},
};

static int finish(struct hf *h, const struct hf_layer *dense, const struct hf_layer *sparse,
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
    return finish(h, NULL, &l, NULL, e);
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
    return finish(h, NULL, &l, NULL, e);
}

static int read_granitemoe(struct hf *h, struct err *e)
{
    struct hf_layer l;

    if (hf_decoder(h, &l, true, e) ||
        hf_experts(h, &l.c, "num_local_experts", 1, 8, "num_experts_per_tok", 2, e))
        return -1;
    l.fused_gate_up = !h->opt->split_fused;
    return finish(h, NULL, &l, NULL, e);
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
    return finish(h, NULL, &l, NULL, e);
}

/* ---- some layers are dense ---- */

static bool any(const bool *mask, uint64_t n, bool value)
{
    for (uint64_t i = 0; i < n; i++)
        if (mask[i] == value)
            return true;
    return false;
}

/* qwen2_moe and qwen3_moe: dense where mlp_only_layers or decoder_sparse_step say so. */
static int read_qwen_moe(struct hf *h, struct err *e)
{
    /* transformers 5 writes num_experts under Mixtral's name */
    bool shared = !strcmp(h->fam->type, "qwen2_moe"), normalised, *sparse;
    uint64_t *only = NULL, step = 1;
    size_t n_only = 0;
    struct hf_layer l, d;
    struct json_at at;

    if (hf_decoder(h, &l, false, e) ||
        hf_experts(h, &l.c, "num_experts|num_local_experts", 0, shared ? 60 : 128,
                   "num_experts_per_tok", shared ? 4 : 8, e) ||
        hf_size_or(h, "decoder_sparse_step", 1, HF_MAX_LAYERS, 1, &step, e) ||
        hf_flag_or(h, "norm_topk_prob", false, &normalised, e))
        return -1;
    if (json_opt(&h->top, "mlp_only_layers", &at) &&
        json_u64_array(&h->top, "mlp_only_layers", 0, h->layers - 1, h->a, &only, &n_only, e))
        return -1;
    sparse = ARENA_NEW(h->a, bool, h->layers);
    for (uint64_t i = 0; i < h->layers; i++)
        sparse[i] = l.c.n_experts && (i + 1) % step == 0;
    for (size_t i = 0; i < n_only; i++)
        sparse[only[i]] = false;
    d = l;
    d.c.n_experts = d.c.n_active = 0;
    if (any(sparse, h->layers, false) && hf_size(h, "intermediate_size", HF_MAX_WIDTH, &d.c.ffn, e))
        return -1;
    if (any(sparse, h->layers, true) &&
        (hf_size(h, "moe_intermediate_size", HF_MAX_WIDTH, &l.c.ffn, e) ||
         (shared && hf_size(h, "shared_expert_intermediate_size", HF_MAX_WIDTH, &l.shared_ffn, e))))
        return -1;
    l.shared_router = shared;
    l.c.route = normalised ? ROUTE_SOFTMAX_OF_CHOSEN : ROUTE_OTHER;
    return finish(h, &d, &l, sparse, e);
}

/* Experts in every interleave_moe_layer_step-th layer; q and k are normalised without weights; rotary positions in three
 * layers of four. */
static int read_llama4(struct hf *h, struct err *e)
{
    bool *sparse;
    uint64_t step, *listed, ffn;
    size_t n_listed;
    struct hf_layer l, d;
    struct json_at at;

    if (hf_decoder(h, &l, true, e) ||
        hf_experts(h, &l.c, "num_local_experts", 1, 16, "num_experts_per_tok", 1, e) ||
        hf_size_or(h, "interleave_moe_layer_step", 1, HF_MAX_LAYERS, 1, &step, e) ||
        hf_size_or(h, "intermediate_size_mlp", 1, HF_MAX_WIDTH, 16384, &ffn, e))
        return -1;
    sparse = ARENA_NEW(h->a, bool, h->layers);
    for (uint64_t i = 0; i < h->layers; i++)
        sparse[i] = (i + 1) % step == 0;
    if (json_opt(&h->top, "moe_layers", &at)) {
        if (json_u64_array(&h->top, "moe_layers", 0, h->layers - 1, h->a, &listed, &n_listed, e))
            return -1;
        memset(sparse, 0, h->layers * sizeof(*sparse));
        for (size_t i = 0; i < n_listed; i++)
            sparse[listed[i]] = true;
    }
    l.c.route = ROUTE_OTHER;
    l.c.scaled = true;
    l.shared_ffn = l.c.ffn;
    l.stacked_in_out = true;
    l.fused_gate_up = !h->opt->split_fused;
    d = l;
    d.c.n_experts = d.c.n_active = 0;
    d.c.ffn = ffn;
    d.shared_ffn = 0;
    d.fused_gate_up = false;
    return finish(h, &d, &l, sparse, e);
}

/* ---- DeepSeek ---- */

static int latent_sizes(struct hf *h, struct hf_layer *l, struct err *e)
{
    uint64_t nope, rope, v;

    if (hf_size(h, "kv_lora_rank", HF_MAX_WIDTH, &l->kv_lora, e) ||
        hf_size_or(h, "q_lora_rank", 1, HF_MAX_WIDTH, 0, &l->q_lora, e) ||
        hf_size(h, "qk_nope_head_dim", HF_MAX_HEADS, &nope, e) ||
        hf_size(h, "qk_rope_head_dim", HF_MAX_HEADS, &rope, e) ||
        hf_size(h, "v_head_dim", HF_MAX_HEADS, &v, e))
        return -1;
    l->c.mixer = MIXER_MLA;
    l->c.head_dim = (uint32_t)(nope + rope);
    l->c.rotary_dim = (uint32_t)rope;
    l->c.v_head_dim = (uint32_t)v;
    l->c.n_kv_heads = l->c.n_heads;
    return 0;
}

static int routed(struct hf *h, struct hf_layer *l, struct err *e)
{
    bool v2 = !strcmp(h->fam->type, "deepseek_v2");
    const char *method = v2 ? "greedy" : "noaux_tc";
    uint64_t shared;

    if (hf_size(h, "moe_intermediate_size", HF_MAX_WIDTH, &l->c.ffn, e) ||
        hf_size_or(h, "n_shared_experts", 0, 1024, 0, &shared, e) ||
        json_str_or(&h->top, "topk_method", method, &method, e))
        return -1;
    l->shared_ffn = shared * l->c.ffn;
    l->router_correction = !strcmp(method, "noaux_tc");
    l->c.route = ROUTE_OTHER;
    return 0;
}

static int read_deepseek(struct hf *h, struct err *e)
{
    uint64_t first, freq;
    bool *sparse;
    struct hf_layer l, d;

    if (hf_decoder(h, &l, false, e) || latent_sizes(h, &l, e) ||
        hf_experts(h, &l.c, "n_routed_experts", 0, 0, "num_experts_per_tok", 0, e) ||
        hf_size_or(h, "first_k_dense_replace", 0, HF_MAX_LAYERS, 0, &first, e) ||
        hf_size_or(h, "moe_layer_freq", 1, HF_MAX_LAYERS, 1, &freq, e))
        return -1;
    sparse = ARENA_NEW(h->a, bool, h->layers);
    for (uint64_t i = 0; i < h->layers; i++)
        sparse[i] = l.c.n_experts && i >= first && i % freq == 0;
    d = l;
    d.c.n_experts = d.c.n_active = 0;
    if (any(sparse, h->layers, false) && hf_size(h, "intermediate_size", HF_MAX_WIDTH, &d.c.ffn, e))
        return -1;
    if (any(sparse, h->layers, true) && routed(h, &l, e))
        return -1;
    return finish(h, &d, &l, sparse, e);
}

static const char *const deepseek_refused[] = {"index_topk", NULL};

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
    {.type = "deepseek_v2",
     .names = &deepseek_names,
     .read = read_deepseek,
     .traits = HF_ATTENTION_BIAS,
     .head_dim = 64, /* of no use: keys and values have sizes of their own */
     .refused = deepseek_refused},
    {.type = "deepseek_v3",
     .names = &deepseek_names,
     .read = read_deepseek,
     .traits = HF_ATTENTION_BIAS,
     .head_dim = 64, /* of no use: keys and values have sizes of their own */
     .refused = deepseek_refused},
    {.type = "kimi_k2",
     .names = &deepseek_names,
     .read = read_deepseek,
     .traits = HF_ATTENTION_BIAS,
     .head_dim = 64, /* of no use: keys and values have sizes of their own */
     .refused = deepseek_refused},
    {.type = NULL},
};
