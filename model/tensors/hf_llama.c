/* Dense decoders of Llama's descent: one reader, and a row of traits for each type.
 *
 * Sources: the config and modelling classes of transformers of the same names; for internlm2,
 * baichuan and mimo, which it does not have, the modeling_*.py beside the published checkpoints. */
#include "model/tensors/hf.h"

#include <string.h>

static const struct hf_names llama_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF, HF_LLAMA_MLP, [SLOT_NORM2] = "post_attention_layernorm"},
};
/* norms around mixer and MLP (Gemma 2, 3); OLMo 2 has the outer ones alone */
static const struct hf_names sandwich_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF, HF_LLAMA_MLP, [SLOT_NORM1_POST] = "post_attention_layernorm",
           [SLOT_NORM2] = "pre_feedforward_layernorm",
           [SLOT_NORM2_POST] = "post_feedforward_layernorm"},
};
static const struct hf_names phi3_names = {
    .layers = "model.layers",
    .of =
        {HF_LLAMA_OF, [SLOT_NORM2] = "post_attention_layernorm", [SLOT_QKV] = "self_attn.qkv_proj",
         [SLOT_GATE_UP] = "mlp.gate_up_proj", [SLOT_DOWN] = "mlp.down_proj"},
};
static const struct hf_names internlm2_names = {
    .layers = "model.layers",
    .of = {[SLOT_TOKEN_EMBEDDING] = "model.tok_embeddings",
           [SLOT_FINAL_NORM] = "model.norm",
           [SLOT_HEAD] = "output",
           [SLOT_NORM1] = "attention_norm",
           [SLOT_QKV] =
               "attention.wqkv", /* a group of queries, its key, its value, the next group */
           [SLOT_O] = "attention.wo",
           [SLOT_NORM2] = "ffn_norm",
           [SLOT_GATE] = "feed_forward.w1",
           [SLOT_UP] = "feed_forward.w3",
           [SLOT_DOWN] = "feed_forward.w2"},
};
static const struct hf_names baichuan_names = {
    .layers = "model.layers",
    .of =
        {HF_LLAMA_OF,
         HF_LLAMA_MLP, [SLOT_NORM2] = "post_attention_layernorm", [SLOT_QKV] = "self_attn.W_pack"},
};
static const struct hf_names mimo_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF, HF_LLAMA_MLP, [SLOT_NORM2] = "post_attention_layernorm"},
    .mtp = {"token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm"},
    .mtp_layers = "model.mtp_layers",
};
static const struct hf_names starcoder2_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF, [SLOT_NORM2] = "post_attention_layernorm", [SLOT_UP] = "mlp.c_fc",
           [SLOT_DOWN] = "mlp.c_proj"},
};
static const struct hf_names phi_names = {
    .layers = "model.layers",
    .of = {[SLOT_TOKEN_EMBEDDING] = "model.embed_tokens",
           [SLOT_FINAL_NORM] = "model.final_layernorm",
           [SLOT_HEAD] = "lm_head",
           [SLOT_NORM1] = "input_layernorm",
           [SLOT_Q] = "self_attn.q_proj",
           [SLOT_K] = "self_attn.k_proj",
           [SLOT_V] = "self_attn.v_proj",
           [SLOT_O] = "self_attn.dense",
           [SLOT_UP] = "mlp.fc1",
           [SLOT_DOWN] = "mlp.fc2"},
};

/* ---- what they share ---- */

static int decoder_biases(struct hf *h, struct hf_layer *l, struct err *e)
{
    uint32_t t = h->fam->traits;
    bool attention = false, all = false;

    if ((t & HF_ATTENTION_BIAS) && hf_flag_or(h, "attention_bias", false, &attention, e))
        return -1;
    if ((t & HF_MLP_BIAS) && hf_flag_or(h, "mlp_bias", false, &l->mlp_bias, e))
        return -1;
    if ((t & HF_USE_BIAS) && hf_flag_or(h, "use_bias", true, &all, e))
        return -1;
    l->o_bias = attention || all;
    l->qkv_bias = attention || all || (t & HF_QKV_BIAS);
    l->mlp_bias |= all;
    h->head_bias = t & HF_HEAD_BIAS;
    return 0;
}

int hf_decoder(struct hf *h, struct hf_layer *l, bool dense, struct err *e)
{
    uint32_t t = h->fam->traits;
    enum act_kind act = t & HF_GELU ? (t & HF_PLAIN_MLP ? ACT_GELU : ACT_GEGLU) : ACT_SWIGLU;
    const char *act_key = t & HF_GELU ? "hidden_activation|hidden_act" : "hidden_act";

    memset(l, 0, sizeof(*l));
    if (hf_common(h, "num_hidden_layers", "hidden_size", e) ||
        hf_act(h, act_key, t & HF_GELU ? "gelu" : "silu", &act, 1, &l->c.act, e) ||
        hf_heads(h, &l->c, "num_attention_heads", "num_key_value_heads", h->fam->kv_heads,
                 h->fam->head_dim, e) ||
        decoder_biases(h, l, e) || hf_tied(h, t & HF_TIED, e))
        return -1;
    if (dense && hf_size(h, "intermediate_size", HF_MAX_WIDTH, &l->c.ffn, e))
        return -1;
    l->c.kind = UNIT_LAYER;
    l->c.hidden = h->hidden;
    l->c.norm = h->norm = t & HF_LAYER_NORM ? NORM_LAYER : NORM_RMS;
    l->norm_bias = h->norm_bias = t & HF_LAYER_NORM;
    l->c.position = POSITION_ROPE;
    l->c.causal = true;
    l->c.tied = h->tied;
    l->c.scaled = t & HF_SCALED;
    l->c.qk_norm = t & (HF_QK_NORM | HF_QK_NORM_WHOLE);
    l->qk_norm_whole = t & HF_QK_NORM_WHOLE;
    l->norm1 = !(t & HF_NO_PRE_NORM);
    l->norm2 = !(t & (HF_NO_PRE_NORM | HF_PARALLEL));
    l->norm1_post = l->norm2_post = t & HF_POST_NORM;
    l->c.parallel = t & HF_PARALLEL;
    l->c.fused_qkv = (t & HF_FUSED) && !h->opt->split_fused;
    l->fused_gate_up = l->c.fused_qkv && h->names->of[SLOT_GATE_UP];
    return hf_rotary(h, &l->c, h->fam->rotary, e);
}

static int read_decoder(struct hf *h, struct err *e)
{
    struct hf_layer l;

    if (hf_decoder(h, &l, true, e) || hf_add_kinds(h, &l, NULL, NULL, e))
        return -1;
    return hf_check_count(h, "num_hidden_layers", e);
}

/* ---- those with keys of their own ---- */

static int read_starcoder2(struct hf *h, struct err *e)
{
    static const char *const norms[] = {"layer_norm", NULL}, *const mlps[] = {"default", NULL};

    return hf_must_be_text(&h->top, "norm_type", norms, e) ||
                   hf_must_be_text(&h->top, "mlp_type", mlps, e)
               ? -1
               : read_decoder(h, e);
}

static int read_stablelm(struct hf *h, struct err *e)
{
    struct hf_layer l;
    bool bias, parallel;

    if (hf_decoder(h, &l, true, e) || hf_flag_or(h, "use_qkv_bias", false, &bias, e) ||
        hf_flag_or(h, "use_parallel_residual", false, &parallel, e))
        return -1;
    l.qkv_bias = bias;
    l.c.parallel = parallel; /* the MLP then shares the first norm */
    l.norm2 = !parallel;
    return hf_add_kinds(h, &l, NULL, NULL, e) || hf_check_count(h, "num_hidden_layers", e) ? -1 : 0;
}

/* wqkv and wo have biases, the MLP has none. */
static int read_internlm2(struct hf *h, struct err *e)
{
    struct hf_layer l;

    if (hf_decoder(h, &l, true, e) || hf_flag_or(h, "bias", true, &l.qkv_bias, e))
        return -1;
    l.o_bias = l.qkv_bias;
    return hf_add_kinds(h, &l, NULL, NULL, e) || hf_check_count(h, "num_hidden_layers", e) ? -1 : 0;
}

/* The 7B rotate; the 13B, whose config class has no max_position_embeddings, have ALiBi. */
static int read_baichuan(struct hf *h, struct err *e)
{
    struct hf_layer l;

    if (hf_decoder(h, &l, true, e))
        return -1;
    if (!hf_written(h, "max_position_embeddings")) {
        l.c.position = POSITION_ALIBI;
        l.c.rotary_dim = 0;
        model_note(h->m, h->a, "no max_position_embeddings, as in the 13B: ALiBi positions");
    }
    if (hf_written(h, "z_loss_weight"))
        model_note(
            h->m, h->a,
            "Baichuan 2 normalises the rows of its head in each forward: that is not counted");
    return hf_add_kinds(h, &l, NULL, NULL, e) || hf_check_count(h, "num_hidden_layers", e) ? -1 : 0;
}

int hf_rotary_layers(struct hf *h, bool *rotary, struct err *e)
{
    uint64_t every, *listed;
    struct json_at at;
    size_t n;

    if (hf_size_or(h, "no_rope_layer_interval", 1, HF_MAX_LAYERS, 4, &every, e))
        return -1;
    for (uint64_t i = 0; i < h->layers; i++)
        rotary[i] = (i + 1) % every != 0;
    if (!json_opt(&h->top, "no_rope_layers", &at))
        return 0;
    if (json_u64_array(&h->top, "no_rope_layers", 0, 1, h->a, &listed, &n, e))
        return -1;
    if (n && n != h->layers)
        return json_err(&at, ERR_INVALID, e, "has %zu entries for %llu layers", n,
                        (unsigned long long)h->layers);
    for (size_t i = 0; i < n; i++)
        rotary[i] = listed[i];
    return 0;
}

/* Llama whose every fourth layer does not rotate; where there are windows it is these that have
 * one. */
static int read_smollm3(struct hf *h, struct err *e)
{
    static const char *const names[] = {"nope-layer", "layer", "local-nope-layer", "local-layer"};
    bool *rotary, *local;
    struct hf_layer l, of[4];
    struct json_at types;
    uint64_t window;
    uint8_t *which;

    if (hf_decoder(h, &l, true, e))
        return -1;
    rotary = ARENA_NEW(h->a, bool, h->layers);
    local = ARENA_NEW(h->a, bool, h->layers);
    which = ARENA_NEW(h->a, uint8_t, h->layers);
    if (hf_rotary_layers(h, rotary, e) || hf_windows(h, &window, local, e))
        return -1;
    for (int k = 0; k < 4; k++) {
        of[k] = l;
        of[k].c.name = names[k];
        of[k].c.position = k % 2 ? POSITION_ROPE : POSITION_NONE;
        of[k].c.window = k / 2 ? window : 0;
    }
    for (uint64_t i = 0; i < h->layers; i++) {
        bool sees_window = hf_has(h, "layer_types", &types) ? local[i] : window && !rotary[i];

        which[i] = (uint8_t)(2 * sees_window + rotary[i]);
    }
    hf_assign(h, of, which);
    return hf_check_count(h, "num_hidden_layers", e);
}

static const char *const qk_layernorm[] = {"qk_layernorm", NULL};
static const char *const gemma3_refused[] = {"use_bidirectional_attention", NULL};

const struct hf_family hf_llama_families[] = {
    {.type = "llama",
     .names = &llama_names,
     .read = read_decoder,
     .traits = HF_ATTENTION_BIAS | HF_MLP_BIAS},
    {.type = "mistral", .names = &llama_names, .read = read_decoder, .kv_heads = 8, .window = 4096},
    {.type = "qwen2",
     .names = &llama_names,
     .read = read_decoder,
     .traits = HF_QKV_BIAS | HF_WINDOW_FLAG,
     .window = 4096},
    {.type = "qwen3",
     .names = &llama_names,
     .read = read_decoder,
     .traits = HF_ATTENTION_BIAS | HF_QK_NORM | HF_WINDOW_FLAG,
     .head_dim = 128,
     .window = 4096},
    {.type = "qwen2_vl_text",
     .names = &llama_names,
     .read = read_decoder,
     .traits = HF_QKV_BIAS | HF_WINDOW_FLAG,
     .head_dim = HF_DIM_EVEN,
     .window = 4096},
    {.type = "qwen2_5_vl_text",
     .names = &llama_names,
     .read = read_decoder,
     .traits = HF_QKV_BIAS | HF_WINDOW_FLAG,
     .head_dim = HF_DIM_EVEN,
     .window = 4096},
    {.type = "qwen3_vl_text",
     .names = &llama_names,
     .read = read_decoder,
     .traits = HF_ATTENTION_BIAS | HF_QK_NORM,
     .head_dim = 128},
    {.type = "mimo",
     .names = &mimo_names,
     .read = read_decoder,
     .traits = HF_QKV_BIAS | HF_WINDOW_FLAG,
     .window = 4096},
    {.type = "smollm3",
     .names = &llama_names,
     .read = read_smollm3,
     .traits = HF_ATTENTION_BIAS | HF_MLP_BIAS | HF_TIED | HF_WINDOW_FLAG,
     .kv_heads = 4},
    {.type = "internlm2",
     .names = &internlm2_names,
     .read = read_internlm2,
     .traits = HF_FUSED,
     .head_dim = HF_DIM_EVEN},
    {.type = "baichuan",
     .names = &baichuan_names,
     .read = read_baichuan,
     .traits = HF_FUSED,
     .head_dim = HF_DIM_EVEN},
    {.type = "gemma",
     .names = &llama_names,
     .read = read_decoder,
     .traits = HF_ATTENTION_BIAS | HF_GELU | HF_TIED | HF_SCALED,
     .kv_heads = 16,
     .head_dim = 256},
    {.type = "gemma2",
     .names = &sandwich_names,
     .read = read_decoder,
     .traits = HF_ATTENTION_BIAS | HF_GELU | HF_TIED | HF_SCALED | HF_POST_NORM,
     .kv_heads = 4,
     .head_dim = 256,
     .window = 4096,
     .full_every = 2},
    {.type = "gemma3_text",
     .names = &sandwich_names,
     .read = read_decoder,
     .traits = HF_ATTENTION_BIAS | HF_GELU | HF_TIED | HF_SCALED | HF_POST_NORM | HF_QK_NORM,
     .kv_heads = 4,
     .head_dim = 256,
     .heads = 8, /* files of multimodal models leave out what the config class has */
     .vocab = 262208,
     .window = 4096,
     .full_every = 6,
     .refused = gemma3_refused},
    {.type = "olmo2",
     .names = &sandwich_names,
     .read = read_decoder,
     .traits = HF_ATTENTION_BIAS | HF_NO_PRE_NORM | HF_POST_NORM | HF_QK_NORM_WHOLE},
    {.type = "olmo3",
     .names = &sandwich_names,
     .read = read_decoder,
     .traits = HF_ATTENTION_BIAS | HF_NO_PRE_NORM | HF_POST_NORM | HF_QK_NORM_WHOLE,
     .window = 4096,
     .full_every = 4},
    {.type = "phi3", .names = &phi3_names, .read = read_decoder, .traits = HF_FUSED},
    {.type = "phi",
     .names = &phi_names,
     .read = read_decoder,
     .traits = HF_LAYER_NORM | HF_PLAIN_MLP | HF_GELU | HF_USE_BIAS | HF_PARALLEL | HF_HEAD_BIAS,
     .rotary = 0.5,
     .refused = qk_layernorm},
    {.type = "stablelm",
     .names = &llama_names,
     .read = read_stablelm,
     .traits = HF_LAYER_NORM,
     .kv_heads = 32,
     .head_dim = HF_DIM_EVEN,
     .rotary = 0.25,
     .refused = qk_layernorm},
    {.type = "starcoder2",
     .names = &starcoder2_names,
     .read = read_starcoder2,
     .traits = HF_LAYER_NORM | HF_PLAIN_MLP | HF_GELU | HF_USE_BIAS | HF_TIED,
     .kv_heads = 2},
    {.type = "granite",
     .names = &llama_names,
     .read = read_decoder,
     .traits = HF_ATTENTION_BIAS | HF_MLP_BIAS | HF_SCALED},
    {.type = NULL},
};
