/* Decoders that mix tokens by more than attention: Qwen3.5 and Qwen3-Next's kin (gated delta net in three layers of
 * four), and Nemotron-H (Mamba-2, attention, experts and MLPs, each a layer of its own).
 *
 * Sources: modeling_qwen3_5*.py and modeling_qwen3_next.py of transformers, which pass over "mtp.*"; for these
 * tensors SGLang's qwen3_next_mtp.py and qwen3_5_mtp.py. NVIDIA's modeling_nemotron_h.py. */
#include "model/tensors/hf.h"

#include <string.h>

/* ---- Qwen3.5, Qwen3-Next ---- */

/* What both call alike. Layers of multi-token prediction are like those of full attention. */
#define QWEN_NEXT_OF                                                                               \
    HF_LLAMA_OF, HF_LLAMA_MLP,                                                                     \
        [SLOT_NORM2] = "post_attention_layernorm", [SLOT_CONV] = "linear_attn.conv1d",             \
        [SLOT_DT] = "=linear_attn.dt_bias", [SLOT_A] = "=linear_attn.A_log",                       \
        [SLOT_MIXER_NORM] = "linear_attn.norm", [SLOT_ROUTER] = "mlp.gate",                        \
        [SLOT_SHARED_GATE] = "mlp.shared_expert.gate_proj",                                        \
        [SLOT_SHARED_UP] = "mlp.shared_expert.up_proj",                                            \
        [SLOT_SHARED_DOWN] = "mlp.shared_expert.down_proj",                                        \
        [SLOT_SHARED_ROUTER] = "mlp.shared_expert_gate"
#define QWEN_NEXT_REST                                                                             \
    .layers = "model.layers",                                                                      \
    .experts = {[SLOT_GATE] = "mlp.experts.*.gate_proj",                                           \
                [SLOT_UP] = "mlp.experts.*.up_proj",                                               \
                [SLOT_DOWN] = "mlp.experts.*.down_proj"},                                          \
    .mtp = {"mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm"},          \
    .mtp_layers = "mtp.layers", .mtp_once = true, .also = &delta_names

static const struct hf_names delta_names = {
    .layers = "model.layers",
    .of = {[SLOT_O] = "linear_attn.out_proj"},
};
static const struct hf_names qwen35_names = {
    .of =
        {QWEN_NEXT_OF, [SLOT_IN] = "linear_attn.in_proj_qkv", [SLOT_IN_Z] = "linear_attn.in_proj_z",
         [SLOT_IN_B] = "linear_attn.in_proj_b", [SLOT_IN_A] = "linear_attn.in_proj_a"},
    QWEN_NEXT_REST};
static const struct hf_names qwen3_next_names = {
    .of = {QWEN_NEXT_OF, [SLOT_IN] = "linear_attn.in_proj_qkvz",
           [SLOT_IN_B] = "linear_attn.in_proj_ba"},
    QWEN_NEXT_REST};

static int delta_sizes(struct hf *h, struct hf_layer *d, struct err *e)
{
    uint64_t k_heads, v_heads, k_dim, v_dim;

    if (hf_size(h, "linear_num_key_heads", HF_MAX_HEADS, &k_heads, e) ||
        hf_size(h, "linear_num_value_heads", HF_MAX_HEADS, &v_heads, e) ||
        hf_size(h, "linear_key_head_dim", HF_MAX_HEADS, &k_dim, e) ||
        hf_size(h, "linear_value_head_dim", HF_MAX_HEADS, &v_dim, e) ||
        hf_size_or(h, "linear_conv_kernel_dim", 1, 1024, 4, &d->conv, e))
        return -1;
    d->c.mixer = MIXER_DELTA;
    d->c.n_heads = (uint32_t)v_heads;
    d->c.n_kv_heads = (uint32_t)k_heads;
    d->c.head_dim = (uint32_t)k_dim;
    d->c.v_head_dim = (uint32_t)v_dim;
    d->c.position = POSITION_NONE;
    d->c.rotary_dim = 0;
    d->c.qk_norm = d->c.output_gate = d->qkv_bias = d->o_bias = false;
    return 0;
}

/* layer_types, else full attention in every full_attention_interval-th layer. */
static int full_layers(struct hf *h, bool *full, struct err *e)
{
    static const char *const types[] = {"linear_attention", "full_attention", NULL};
    struct json_at list, it;
    uint64_t every;
    int type;

    if (hf_size_or(h, "full_attention_interval", 1, HF_MAX_LAYERS, 4, &every, e))
        return -1;
    for (uint64_t i = 0; i < h->layers; i++)
        full[i] = (i + 1) % every == 0;
    if (!hf_has(h, "layer_types", &list))
        return 0;
    if (hf_per_layer(h, &list, e))
        return -1;
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it)) {
        if (json_as_enum(&it, types, &type, e))
            return -1;
        full[it.index] = type;
    }
    return 0;
}

/* Experts of every layer (Qwen3.5), or of some (Qwen3-Next). */
static int qwen_next_experts(struct hf *h, struct hf_layer *l, bool *sparse, struct err *e)
{
    bool next = !strcmp(h->fam->type, "qwen3_next"), normalised;

    if (hf_experts(h, &l->c, "num_experts", next ? 0 : 1, next ? 512 : 256, "num_experts_per_tok",
                   next ? 10 : 8, e) ||
        hf_flag_or(h, "norm_topk_prob", true, &normalised, e) ||
        (next && hf_sparse_layers(h, l->c.n_experts, sparse, e)))
        return -1;
    for (uint64_t i = 0; i < h->layers && !next; i++)
        sparse[i] = true;
    l->c.route = normalised ? ROUTE_SOFTMAX_OF_CHOSEN : ROUTE_OTHER;
    if (hf_any(h, sparse, true) &&
        (hf_size(h, "moe_intermediate_size", HF_MAX_WIDTH, &l->c.ffn, e) ||
         hf_size_or(h, "shared_expert_intermediate_size", 0, HF_MAX_WIDTH, next ? 512 : 0,
                    &l->shared_ffn, e)))
        return -1;
    l->shared_router = l->shared_ffn;
    return 0;
}

/* Attention or delta net, with experts or without: four kinds, and what a predicting layer is like. */
static void qwen_next_kinds(struct hf *h, const struct hf_layer *attention,
                            const struct hf_layer *delta, uint64_t dense_ffn, const bool *full,
                            const bool *sparse)
{
    static const char *const names[] = {"delta-layer", "layer", "delta-moe-layer", "moe-layer"};
    uint8_t *which = ARENA_NEW(h->a, uint8_t, h->layers);
    struct hf_layer of[4], *like = ARENA_NEW(h->a, struct hf_layer, 1);

    for (int k = 0; k < 4; k++) {
        of[k] = k % 2 ? *attention : *delta;
        of[k].c.name = names[k];
        if (k / 2)
            continue;
        of[k].c.n_experts = of[k].c.n_active = 0;
        of[k].c.ffn = dense_ffn;
        of[k].shared_ffn = 0;
    }
    for (uint64_t i = 0; i < h->layers; i++)
        which[i] = (uint8_t)(2 * sparse[i] + full[i]);
    hf_assign(h, of, which);
    *like = of[2 * hf_any(h, sparse, true) + 1];
    h->mtp_like = like;
}

static int read_qwen_next(struct hf *h, struct err *e)
{
    bool dense = !strcmp(h->fam->type, "qwen3_5_text"), *full, *sparse;
    struct hf_layer l, d;
    struct json_at list, name;
    uint64_t ffn = 0;

    if (hf_decoder(h, &l, false, e) || hf_flag_or(h, "attn_output_gate", true, &l.c.output_gate, e))
        return -1;
    full = ARENA_NEW(h->a, bool, h->layers);
    sparse = ARENA_NEW(h->a, bool, h->layers);
    memset(sparse, 0, h->layers * sizeof(*sparse));
    if (!dense && qwen_next_experts(h, &l, sparse, e))
        return -1;
    if (hf_any(h, sparse, false) && hf_size(h, "intermediate_size", HF_MAX_WIDTH, &ffn, e))
        return -1;
    d = l;
    if (delta_sizes(h, &d, e) || full_layers(h, full, e))
        return -1;
    d.names = &delta_names;
    qwen_next_kinds(h, &l, &d, ffn, full, sparse);
    /* the text part of a multimodal class keeps its place in the names, also in a file of its own */
    if (!h->insert && hf_has(h, "architectures", &list) && json_first(&list, &name) &&
        cJSON_IsString(name.node) && strstr(name.node->valuestring, "ForConditionalGeneration"))
        h->insert = "language_model.";
    return hf_check_count(h, "num_hidden_layers", e);
}

/* ---- Nemotron-H ---- */

static const struct hf_names nemotron_mamba_names = {
    .layers = "backbone.layers",
    .of = {[SLOT_O] = "mixer.out_proj"},
};
static const struct hf_names nemotron_names = {
    .layers = "backbone.layers",
    .of = {[SLOT_TOKEN_EMBEDDING] = "backbone.embeddings",
           [SLOT_FINAL_NORM] = "backbone.norm_f",
           [SLOT_HEAD] = "lm_head",
           [SLOT_NORM1] = "norm",
           [SLOT_NORM2] = "norm",
           [SLOT_IN] = "mixer.in_proj",
           [SLOT_CONV] = "mixer.conv1d",
           [SLOT_DT] = "=mixer.dt_bias",
           [SLOT_A] = "=mixer.A_log",
           [SLOT_D] = "=mixer.D",
           [SLOT_MIXER_NORM] = "mixer.norm",
           [SLOT_Q] = "mixer.q_proj",
           [SLOT_K] = "mixer.k_proj",
           [SLOT_V] = "mixer.v_proj",
           [SLOT_O] = "mixer.o_proj",
           [SLOT_UP] = "mixer.up_proj",
           [SLOT_DOWN] = "mixer.down_proj",
           [SLOT_ROUTER] = "mixer.gate",
           [SLOT_ROUTER_CORRECTION] = "=mixer.gate.e_score_correction_bias",
           [SLOT_SHARED_UP] = "mixer.shared_experts.up_proj",
           [SLOT_SHARED_DOWN] = "mixer.shared_experts.down_proj"},
    .experts = {[SLOT_UP] = "mixer.experts.*.up_proj", [SLOT_DOWN] = "mixer.experts.*.down_proj"},
    .also = &nemotron_mamba_names,
};
static int nemotron_mamba(struct hf *h, struct hf_layer *l, struct err *e)
{
    uint64_t heads, dim, groups, state;

    if (hf_size(h, "mamba_num_heads", HF_MAX_HEADS, &heads, e) ||
        hf_size(h, "mamba_head_dim", HF_MAX_HEADS, &dim, e) ||
        hf_size(h, "n_groups|mamba_n_groups", HF_MAX_HEADS, &groups, e) ||
        hf_size(h, "ssm_state_size", HF_MAX_HEADS, &state, e) ||
        hf_size_or(h, "conv_kernel", 1, 1024, 4, &l->conv, e) ||
        hf_flag_or(h, "use_conv_bias", true, &l->conv_bias, e) ||
        hf_flag_or(h, "use_bias|mamba_proj_bias", false, &l->o_bias, e))
        return -1;
    l->qkv_bias = l->o_bias;
    l->c.name = "mamba-layer";
    l->c.mixer = MIXER_MAMBA2;
    l->c.n_heads = (uint32_t)heads;
    l->c.n_kv_heads = (uint32_t)groups;
    l->c.head_dim = (uint32_t)dim;
    l->c.state_dim = (uint32_t)state;
    l->norm1 = true;
    l->names = &nemotron_mamba_names;
    return 0;
}

static int nemotron_attention(struct hf *h, struct hf_layer *l, struct err *e)
{
    if (hf_heads(h, &l->c, "num_attention_heads", "num_key_value_heads", 8, 0, e) ||
        hf_flag_or(h, "attention_bias", false, &l->o_bias, e))
        return -1;
    l->qkv_bias = l->o_bias;
    l->c.name = "attention-layer";
    l->norm1 = true;
    return 0;
}

static int nemotron_mlp(struct hf *h, struct hf_layer *l, struct err *e)
{
    static const enum act_kind relu2[] = {ACT_RELU2, ACT_RELU};

    if (hf_size(h, "intermediate_size", HF_MAX_WIDTH, &l->c.ffn, e) ||
        hf_act(h, "mlp_hidden_act", "relu2", relu2, 2, &l->c.act, e) ||
        hf_flag_or(h, "mlp_bias", false, &l->mlp_bias, e))
        return -1;
    l->c.name = "mlp-layer";
    l->c.mixer = MIXER_NONE;
    l->norm2 = true;
    return 0;
}

static int nemotron_moe(struct hf *h, struct hf_layer *l, struct err *e)
{
    uint64_t shared;

    if (nemotron_mlp(h, l, e) ||
        hf_experts(h, &l->c, "n_routed_experts", 1, 0, "num_experts_per_tok", 0, e) ||
        hf_size(h, "moe_intermediate_size", HF_MAX_WIDTH, &l->c.ffn, e) ||
        hf_size_or(h, "n_shared_experts", 0, 1024, 1, &shared, e) ||
        hf_size_or(h, "moe_shared_expert_intermediate_size", 0, HF_MAX_WIDTH, shared * l->c.ffn,
                   &l->shared_ffn, e))
        return -1;
    if (!shared)
        l->shared_ffn = 0;
    l->c.name = "moe-layer";
    l->c.route = ROUTE_OTHER;
    l->router_correction = true;
    return 0;
}

/* Per-block models: a letter a layer, M Mamba-2, * attention, E experts, - MLP. */
static int read_nemotron(struct hf *h, struct err *e)
{
    static const struct {
        char letter;
        int (*read)(struct hf *, struct hf_layer *, struct err *);
    } blocks[] = {
        {'M', nemotron_mamba}, {'*', nemotron_attention}, {'E', nemotron_moe}, {'-', nemotron_mlp}};
    int index[4] = {-1, -1, -1, -1};
    struct json_at at;
    const char *pattern;

    if (hf_common(h, "num_hidden_layers", "hidden_size", e) || hf_tied(h, false, e) ||
        json_get(&h->top, "hybrid_override_pattern", &at, e) || json_as_str(&at, &pattern, e))
        return -1;
    if (strlen(pattern) != h->layers)
        return json_err(&at, ERR_INVALID, e, "has %zu letters for %llu layers", strlen(pattern),
                        (unsigned long long)h->layers);
    for (uint64_t i = 0; i < h->layers; i++) {
        size_t b = 0;

        while (b < 4 && blocks[b].letter != pattern[i])
            b++;
        if (b == 4)
            return json_err(
                &at, ERR_UNSUPPORTED, e, "has '%c' for layer %llu, expected M, *, E or -",
                pattern[i] < 127 && pattern[i] > 31 ? pattern[i] : '?', (unsigned long long)i);
        if (index[b] < 0) {
            struct hf_layer l = {.c = {.kind = UNIT_LAYER,
                                       .hidden = h->hidden,
                                       .act = ACT_RELU2,
                                       .position = POSITION_NONE,
                                       .tied = h->tied,
                                       .causal = true}};

            if (blocks[b].read(h, &l, e))
                return -1;
            index[b] = hf_kind(h, &l);
        }
        h->kind_of[i] = (uint8_t)index[b];
    }
    return hf_check_count(h, "num_hidden_layers", e);
}

static const char *const nemotron_refused[] = {"moe_latent_size", NULL};
static const char *const qwen35_refused[] = {"mlp_only_layers", NULL};

#define QWEN_NEXT                                                                                  \
    .read = read_qwen_next, .traits = HF_ATTENTION_BIAS | HF_QK_NORM, .head_dim = 256,             \
    .kv_heads = 2, .rotary = 0.25

const struct hf_family hf_hybrid_families[] = {
    {.type = "qwen3_5_text", .names = &qwen35_names, QWEN_NEXT, .refused = qwen35_refused},
    {.type = "qwen3_5_moe_text", .names = &qwen35_names, QWEN_NEXT, .refused = qwen35_refused},
    {.type = "qwen3_next", .names = &qwen3_next_names, QWEN_NEXT, .mtp = 1},
    {.type = "nemotron_h",
     .names = &nemotron_names,
     .read = read_nemotron,
     .refused = nemotron_refused},
    {.type = NULL},
};
