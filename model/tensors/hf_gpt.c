/* Decoders of GPT-2's descent, each with names and keys of its own: LayerNorm, plain MLPs, often fused QKV.
 *
 * Sources: the config and modelling classes of transformers; MosaicML's modeling_mpt.py, Qwen's modeling_qwen.py (the
 * first Qwen, whose intermediate_size counts gate and up together) and Microsoft's modeling_phi.py (phi-msft); OpenAssistant's reward_model.py. GPT-2's,
 * BLOOM's names are those of the published files, which have no "transformer." before them. */
#include "model/tensors/hf.h"

#include <stdio.h>
#include <string.h>

/* What several call alike: GPT-2's ends and first norm; the block of Megatron's descent. */
#define GPT2_ENDS(prefix)                                                                          \
    [SLOT_TOKEN_EMBEDDING] = prefix "wte", [SLOT_NORM1] = "ln_1",                                  \
    [SLOT_FINAL_NORM] = prefix "ln_f", [SLOT_HEAD] = "lm_head"
#define MEGATRON_BLOCK(attention)                                                                  \
    [SLOT_NORM1] = "input_layernorm", [SLOT_QKV] = attention ".query_key_value",                   \
    [SLOT_O] = attention ".dense", [SLOT_NORM2] = "post_attention_layernorm",                      \
    [SLOT_UP] = "mlp.dense_h_to_4h", [SLOT_DOWN] = "mlp.dense_4h_to_h"
#define NEOX_OF                                                                                    \
    MEGATRON_BLOCK("attention"), [SLOT_TOKEN_EMBEDDING] = "gpt_neox.embed_in",                     \
                                 [SLOT_FINAL_NORM] = "gpt_neox.final_layer_norm"

static const struct hf_names gpt2_names = {
    .layers = "h",
    .of = {GPT2_ENDS(""), [SLOT_POSITION] = "wpe", [SLOT_QKV] = "attn.c_attn",
           [SLOT_O] = "attn.c_proj", [SLOT_NORM2] = "ln_2", [SLOT_UP] = "mlp.c_fc",
           [SLOT_DOWN] = "mlp.c_proj"},
};
static const struct hf_names gptj_names = {
    .layers = "transformer.h",
    .of = {GPT2_ENDS("transformer."), [SLOT_Q] = "attn.q_proj", [SLOT_K] = "attn.k_proj",
           [SLOT_V] = "attn.v_proj", [SLOT_O] = "attn.out_proj", [SLOT_UP] = "mlp.fc_in",
           [SLOT_DOWN] = "mlp.fc_out"},
};
static const struct hf_names neox_names = {
    .layers = "gpt_neox.layers",
    .of = {NEOX_OF, [SLOT_HEAD] = "embed_out"},
};
static const struct hf_names neox_reward_names = {
    .layers = "gpt_neox.layers",
    .of = {NEOX_OF, [SLOT_HEAD] = "out_proj"},
};
static const struct hf_names opt_names = {
    .layers = "model.decoder.layers",
    .of = {[SLOT_TOKEN_EMBEDDING] = "model.decoder.embed_tokens",
           [SLOT_POSITION] = "model.decoder.embed_positions",
           [SLOT_PROJECT_IN] = "model.decoder.project_in",
           [SLOT_NORM1] = "self_attn_layer_norm",
           [SLOT_Q] = "self_attn.q_proj",
           [SLOT_K] = "self_attn.k_proj",
           [SLOT_V] = "self_attn.v_proj",
           [SLOT_O] = "self_attn.out_proj",
           [SLOT_NORM2] = "final_layer_norm",
           [SLOT_UP] = "fc1",
           [SLOT_DOWN] = "fc2",
           [SLOT_FINAL_NORM] = "model.decoder.final_layer_norm",
           [SLOT_PROJECT_OUT] = "model.decoder.project_out",
           [SLOT_HEAD] = "lm_head"},
};
static const struct hf_names bloom_names = {
    .layers = "h",
    .of = {MEGATRON_BLOCK("self_attention"), [SLOT_TOKEN_EMBEDDING] = "word_embeddings",
           [SLOT_EMBED_NORM] = "word_embeddings_layernorm", [SLOT_FINAL_NORM] = "ln_f",
           [SLOT_HEAD] = "lm_head"},
};
static const struct hf_names falcon_two_norms = {
    .layers = "transformer.h",
    .of = {[SLOT_NORM1] = "ln_attn", [SLOT_NORM2] = "ln_mlp"},
};
static const struct hf_names falcon_names = {
    .layers = "transformer.h",
    .of = {MEGATRON_BLOCK("self_attention"), [SLOT_TOKEN_EMBEDDING] = "transformer.word_embeddings",
           [SLOT_FINAL_NORM] = "transformer.ln_f", [SLOT_HEAD] = "lm_head"},
    .also = &falcon_two_norms,
};
static const struct hf_names mpt_names = {
    .layers = "transformer.blocks",
    .of = {[SLOT_TOKEN_EMBEDDING] = "transformer.wte",
           [SLOT_POSITION] = "transformer.wpe",
           [SLOT_NORM1] = "norm_1",
           [SLOT_QKV] = "attn.Wqkv",
           [SLOT_O] = "attn.out_proj",
           [SLOT_NORM2] = "norm_2",
           [SLOT_UP] = "ffn.up_proj",
           [SLOT_DOWN] = "ffn.down_proj",
           [SLOT_FINAL_NORM] = "transformer.norm_f",
           [SLOT_HEAD] = "lm_head"},
};
static const struct hf_names qwen_names = {
    .layers = "transformer.h",
    .of = {GPT2_ENDS("transformer."), [SLOT_QKV] = "attn.c_attn", [SLOT_O] = "attn.c_proj",
           [SLOT_NORM2] = "ln_2", [SLOT_UP] = "mlp.w1", [SLOT_GATE] = "mlp.w2",
           [SLOT_DOWN] = "mlp.c_proj"},
};
static const struct hf_names phi_msft_names = {
    .layers = "transformer.h",
    .of = {[SLOT_TOKEN_EMBEDDING] = "transformer.embd.wte",
           [SLOT_NORM1] = "ln",
           [SLOT_QKV] = "mixer.Wqkv",
           [SLOT_O] = "mixer.out_proj",
           [SLOT_UP] = "mlp.fc1",
           [SLOT_DOWN] = "mlp.fc2",
           [SLOT_FINAL_NORM] = "lm_head.ln",
           [SLOT_HEAD] = "lm_head.linear"},
};

/* ---- what they share ---- */

/* A layer with LayerNorms before attention and MLP, biases everywhere, and as many key heads as heads. */
static void gpt_layer(struct hf *h, struct hf_layer *l, enum position_kind position)
{
    h->norm = l->c.norm = NORM_LAYER;
    h->norm_bias = l->norm_bias = true;
    l->c.kind = UNIT_LAYER;
    l->c.position = position;
    l->c.causal = true;
    l->norm1 = l->norm2 = true;
    l->qkv_bias = l->o_bias = l->mlp_bias = true;
}

/* The last step: sizes that the layer repeats, one kind for all layers. */
static int one_kind(struct hf *h, struct hf_layer *l, const char *layers, struct err *e)
{
    l->c.hidden = h->hidden;
    l->c.tied = h->tied;
    l->c.fused_qkv = h->names->of[SLOT_QKV] && !h->opt->split_fused;
    return hf_add_kinds(h, l, NULL, NULL, e) || hf_check_count(h, layers, e) ? -1 : 0;
}

/* The activation of a plain MLP. */
static int plain_act(struct hf *h, struct hf_layer *l, const char *key, const char *dflt,
                     struct err *e)
{
    static const enum act_kind gelu[] = {ACT_GELU}, relu[] = {ACT_RELU, ACT_GELU};

    return strcmp(dflt, "relu") != 0 ? hf_act(h, key, dflt, gelu, 1, &l->c.act, e)
                                     : hf_act(h, key, dflt, relu, 2, &l->c.act, e);
}

/* Rotary dimensions given as a number. */
static int rotary_dim(struct hf *h, struct hf_layer *l, uint64_t dflt, struct err *e)
{
    struct json_at at;
    uint64_t n;

    if (hf_size_or(h, "rotary_dim", 1, HF_MAX_HEADS, dflt, &n, e))
        return -1;
    if (n > l->c.head_dim) {
        if (!hf_has(h, "rotary_dim", &at))
            at = h->top;
        return json_err(&at, ERR_INVALID, e, "is %llu, more than the %u dimensions of a head",
                        (unsigned long long)n, l->c.head_dim);
    }
    l->c.rotary_dim = n == l->c.head_dim ? 0 : (uint32_t)n;
    return 0;
}

static void learned_positions(struct hf *h, uint64_t n, uint64_t rows)
{
    h->m->max_seq_len = n;
    h->positions = rows;
}

/* ---- the families ---- */

static int read_gpt2(struct hf *h, struct err *e)
{
    static const char layers[] = "n_layer|num_hidden_layers";
    struct hf_layer l = {0};
    uint64_t positions;
    bool by_layer;

    gpt_layer(h, &l, POSITION_LEARNED);
    if (hf_common(h, layers, "n_embd|hidden_size", e) ||
        hf_heads(h, &l.c, "n_head|num_attention_heads", NULL, 0, HF_DIM_EVEN, e) ||
        hf_size_or(h, "n_positions|max_position_embeddings", 1, HF_MAX_VOCAB, 1024, &positions,
                   e) ||
        hf_size_or(h, "n_inner", 1, HF_MAX_WIDTH, 4 * h->hidden, &l.c.ffn, e) ||
        plain_act(h, &l, "activation_function", "gelu_new", e) || hf_tied(h, true, e) ||
        hf_flag_or(h, "scale_attn_by_inverse_layer_idx", false, &by_layer, e))
        return -1;
    l.c.scaled = by_layer;
    h->conv1d = true;
    learned_positions(h, positions, positions);
    return one_kind(h, &l, layers, e);
}

static int read_gptj(struct hf *h, struct err *e)
{
    static const char layers[] = "n_layer|num_hidden_layers";
    struct hf_layer l = {0};

    gpt_layer(h, &l, POSITION_ROPE);
    if (hf_common(h, layers, "n_embd|hidden_size", e) ||
        hf_heads(h, &l.c, "n_head|num_attention_heads", NULL, 0, HF_DIM_EVEN, e) ||
        hf_size_or(h, "n_inner", 1, HF_MAX_WIDTH, 4 * h->hidden, &l.c.ffn, e) ||
        plain_act(h, &l, "activation_function", "gelu_new", e) || hf_tied(h, false, e) ||
        rotary_dim(h, &l, 64, e))
        return -1;
    l.qkv_bias = l.o_bias = l.norm2 = false;
    l.c.parallel = true;
    h->head_bias = true;
    return one_kind(h, &l, layers, e);
}

/* Phi-1, 1.5 and 2 as Microsoft's own code stored them. */
static int read_phi_msft(struct hf *h, struct err *e)
{
    struct hf_layer l = {0};

    gpt_layer(h, &l, POSITION_ROPE);
    if (hf_common(h, "n_layer", "n_embd", e) ||
        hf_heads(h, &l.c, "n_head", "n_head_kv", 0, HF_DIM_EVEN, e) ||
        hf_size_or(h, "n_inner", 1, HF_MAX_WIDTH, 4 * h->hidden, &l.c.ffn, e) ||
        plain_act(h, &l, "activation_function", "gelu_new", e) || hf_tied(h, false, e) ||
        rotary_dim(h, &l, 32, e))
        return -1;
    l.norm2 = false;
    l.c.parallel = true;
    h->head_bias = true;
    return one_kind(h, &l, "n_layer", e);
}

static int read_neox(struct hf *h, struct err *e)
{
    struct hf_layer l = {0};
    bool bias;

    gpt_layer(h, &l, POSITION_ROPE);
    if (hf_common(h, "num_hidden_layers", "hidden_size", e) ||
        hf_heads(h, &l.c, "num_attention_heads", NULL, 0, HF_DIM_EVEN, e) ||
        hf_size_or(h, "intermediate_size", 1, HF_MAX_WIDTH, 4 * h->hidden, &l.c.ffn, e) ||
        plain_act(h, &l, "hidden_act", "gelu", e) || hf_tied(h, false, e) ||
        hf_flag_or(h, "attention_bias", true, &bias, e) ||
        hf_flag_or(h, "use_parallel_residual", true, &l.c.parallel, e) ||
        hf_rotary(h, &l.c, 0.25, e))
        return -1;
    l.qkv_bias = l.o_bias = bias;
    return one_kind(h, &l, "num_hidden_layers", e);
}

/* OpenAssistant's reward models: a linear layer with bias to one score, of the last token, in place of the head. */
static int read_neox_reward(struct hf *h, struct err *e)
{
    h->scores = 1;
    h->head_bias = true;
    if (read_neox(h, e))
        return -1;
    if (h->tied)
        return json_err(&h->top, ERR_INVALID, e,
                        "ties the head that gives scores to the embedding");
    model_note(h->m, h->a, "the head gives one score a sequence; counted as if one a token");
    return 0;
}

/* 350m: tables narrower than the layers, norms behind the additions and none at the end. Positions start at row 2. */
static int read_opt(struct hf *h, struct err *e)
{
    struct hf_layer l = {0};
    uint64_t positions;
    bool before, bias, no_norm;

    gpt_layer(h, &l, POSITION_LEARNED);
    if (hf_common(h, "num_hidden_layers", "hidden_size", e) ||
        hf_heads(h, &l.c, "num_attention_heads", NULL, 0, HF_DIM_EVEN, e) ||
        hf_size(h, "ffn_dim", HF_MAX_WIDTH, &l.c.ffn, e) ||
        hf_size_or(h, "max_position_embeddings", 1, HF_MAX_VOCAB, 2048, &positions, e) ||
        hf_size_or(h, "word_embed_proj_dim", 1, HF_MAX_WIDTH, h->hidden, &h->embed_dim, e) ||
        hf_flag_or(h, "do_layer_norm_before", true, &before, e) ||
        hf_flag_or(h, "_remove_final_layer_norm", false, &no_norm, e) ||
        hf_flag_or(h, "enable_bias", true, &bias, e) ||
        hf_must_be(h, "layer_norm_elementwise_affine", true, "which leaves norms no parameters",
                   e) ||
        plain_act(h, &l, "activation_function", "relu", e) || hf_tied(h, true, e))
        return -1;
    l.qkv_bias = l.o_bias = l.mlp_bias = bias;
    l.c.norm_after_add = !before;
    h->no_final_norm = !before || no_norm;
    if (h->embed_dim == h->hidden)
        h->embed_dim = 0;
    learned_positions(h, positions, positions + 2);
    return one_kind(h, &l, "num_hidden_layers", e);
}

static int read_bloom(struct hf *h, struct err *e)
{
    static const char layers[] = "n_layer|num_hidden_layers";
    struct hf_layer l = {0};

    gpt_layer(h, &l, POSITION_ALIBI);
    if (hf_common(h, layers, "hidden_size|n_embed|n_embd", e) ||
        hf_heads(h, &l.c, "n_head|num_attention_heads", NULL, 0, HF_DIM_EVEN, e) ||
        hf_must_be(h, "apply_residual_connection_post_layernorm", false,
                   "which adds the normed input", e) ||
        hf_tied(h, true, e))
        return -1;
    l.c.ffn = 4 * h->hidden;
    l.c.act = ACT_GELU;
    h->embed_norm = true;
    return one_kind(h, &l, layers, e);
}

/* 7B: one norm, one key head, attention and MLP side by side. 40B, 180B: groups of key heads and two norms. */
static int falcon_heads(struct hf *h, struct hf_layer *l, bool grouped, struct err *e)
{
    static const char heads[] = "num_attention_heads|n_head";
    bool one;

    if (grouped)
        return hf_heads(h, &l->c, heads, "num_kv_heads|n_head_kv", 0, HF_DIM_EVEN, e);
    if (hf_heads(h, &l->c, heads, NULL, 0, HF_DIM_EVEN, e) ||
        hf_flag_or(h, "multi_query", true, &one, e))
        return -1;
    if (one)
        l->c.n_kv_heads = 1;
    return 0;
}

static int read_falcon(struct hf *h, struct err *e)
{
    static const char layers[] = "num_hidden_layers|n_layer";
    struct hf_layer l = {0};
    bool grouped, alibi, bias;
    uint64_t norms;

    gpt_layer(h, &l, POSITION_ROPE);
    if (hf_common(h, layers, "hidden_size|n_embed", e) ||
        hf_flag_or(h, "new_decoder_architecture", false, &grouped, e) ||
        falcon_heads(h, &l, grouped, e) || hf_flag_or(h, "alibi", false, &alibi, e) ||
        hf_flag_or(h, "bias", false, &bias, e) ||
        hf_flag_or(h, "parallel_attn", true, &l.c.parallel, e) ||
        hf_size_or(h, "num_ln_in_parallel_attn", 1, 2, grouped ? 2 : 1, &norms, e) ||
        hf_size_or(h, "ffn_hidden_size", 1, HF_MAX_WIDTH, 4 * h->hidden, &l.c.ffn, e) ||
        plain_act(h, &l, "activation", "gelu", e) || hf_tied(h, true, e))
        return -1;
    l.qkv_bias = l.o_bias = l.mlp_bias = bias;
    l.c.position = alibi ? POSITION_ALIBI : POSITION_ROPE;
    l.c.parallel |= grouped;
    l.norm2 = grouped ? norms == 2 : !l.c.parallel;
    if (grouped && norms == 2)
        l.names = &falcon_two_norms;
    return one_kind(h, &l, layers, e);
}

static int mpt_attention(struct hf *h, struct hf_layer *l, bool *alibi, struct err *e)
{
    static const char *const types[] = {"multihead_attention", "multiquery_attention",
                                        "grouped_query_attention", NULL};
    struct json_at at, kv;
    int type = 0;
    uint64_t n = l->c.n_heads;
    bool qk_ln = false, rope = false, prefix = false;

    *alibi = false;
    if (!json_opt(&h->top, "attn_config", &at))
        return 0;
    if (json_bool_or(&at, "prefix_lm", false, &prefix, e))
        return -1;
    if (prefix && !json_get(&at, "prefix_lm", &kv, e))
        return json_err(&kv, ERR_UNSUPPORTED, e,
                        "attends to a prefix in full; only causal masks are read");
    if (json_bool_or(&at, "alibi", false, alibi, e) ||
        json_bool_or(&at, "qk_ln", false, &qk_ln, e) ||
        json_bool_or(&at, "rope", false, &rope, e) ||
        json_enum_or(&at, "attn_type", types, 0, &type, e) ||
        json_u64_or(&at, "kv_n_heads", 1, HF_MAX_HEADS, type == 1 ? 1 : n, &n, e))
        return -1;
    if (qk_ln && !json_get(&at, "qk_ln", &kv, e))
        return json_err(&kv, ERR_UNSUPPORTED, e, "adds norms of q and k, which are not read");
    if (l->c.n_heads % n && !json_get(&at, "kv_n_heads", &kv, e))
        return json_err(&kv, ERR_INVALID, e, "is %llu, expected a divisor of n_heads = %u",
                        (unsigned long long)n, l->c.n_heads);
    l->c.n_kv_heads = (uint32_t)n;
    if (rope)
        l->c.position = POSITION_ROPE;
    return 0;
}

/* ALiBi or rope where attn_config says so: then there is no table of positions, whatever learned_pos_emb says. */
static int read_mpt(struct hf *h, struct err *e)
{
    static const char *const norms[] = {"low_precision_layernorm", "layernorm", NULL};
    static const char *const ffns[] = {"mptmlp", NULL};
    struct hf_layer l = {0};
    bool alibi, learned, no_bias;
    uint64_t positions, ratio;
    struct json_at ffn;

    if (hf_must_be_text(&h->top, "norm_type", norms, e) ||
        (json_opt(&h->top, "ffn_config", &ffn) && hf_must_be_text(&ffn, "ffn_type", ffns, e)))
        return -1;
    gpt_layer(h, &l, POSITION_NONE);
    if (hf_common(h, "n_layers", "d_model", e) ||
        hf_heads(h, &l.c, "n_heads", NULL, 0, HF_DIM_EVEN, e) || mpt_attention(h, &l, &alibi, e) ||
        hf_size_or(h, "expansion_ratio", 1, 1024, 4, &ratio, e) ||
        hf_size_or(h, "max_seq_len", 1, HF_MAX_VOCAB, 2048, &positions, e) ||
        hf_flag_or(h, "learned_pos_emb", true, &learned, e) ||
        hf_flag_or(h, "no_bias", false, &no_bias, e) || hf_tied(h, true, e))
        return -1;
    l.c.ffn = ratio * h->hidden;
    l.c.act = ACT_GELU;
    l.qkv_bias = l.o_bias = l.mlp_bias = l.norm_bias = h->norm_bias = !no_bias;
    if (alibi) {
        l.c.position = POSITION_ALIBI;
    } else if (learned && l.c.position == POSITION_NONE) {
        l.c.position = POSITION_LEARNED;
        learned_positions(h, positions, positions);
    }
    return one_kind(h, &l, "n_layers", e);
}

static int read_qwen(struct hf *h, struct err *e)
{
    struct hf_layer l = {0};
    uint64_t both, dim;
    struct json_at at;
    bool no_bias;

    gpt_layer(h, &l, POSITION_ROPE);
    h->norm = l.c.norm = NORM_RMS;
    h->norm_bias = l.norm_bias = false;
    if (hf_common(h, "num_hidden_layers", "hidden_size", e) ||
        hf_heads(h, &l.c, "num_attention_heads", NULL, 0, HF_DIM_EVEN, e) ||
        hf_size_or(h, "kv_channels", 1, HF_MAX_HEADS, l.c.head_dim, &dim, e) ||
        hf_size(h, "intermediate_size", HF_MAX_WIDTH, &both, e) ||
        hf_flag_or(h, "no_bias", true, &no_bias, e) || hf_tied(h, false, e))
        return -1;
    if (both % 2 && hf_has(h, "intermediate_size", &at))
        return json_err(&at, ERR_INVALID, e, "is %llu, expected an even number: gate and up",
                        (unsigned long long)both);
    l.c.head_dim = (uint32_t)dim;
    l.c.ffn = both / 2;
    l.c.act = ACT_SWIGLU;
    l.o_bias = l.mlp_bias = !no_bias;
    return one_kind(h, &l, "num_hidden_layers", e);
}

const struct hf_family hf_gpt_families[] = {
    {.type = "gpt2", .names = &gpt2_names, .read = read_gpt2},
    {.type = "gptj", .names = &gptj_names, .read = read_gptj},
    {.type = "gpt_neox", .names = &neox_names, .read = read_neox},
    {.type = "gpt_neox_reward_model", .names = &neox_reward_names, .read = read_neox_reward},
    {.type = "opt", .names = &opt_names, .read = read_opt},
    {.type = "bloom", .names = &bloom_names, .read = read_bloom},
    {.type = "falcon", .names = &falcon_names, .read = read_falcon},
    {.type = "mpt", .names = &mpt_names, .read = read_mpt},
    {.type = "qwen", .names = &qwen_names, .read = read_qwen},
    {.type = "phi-msft", .names = &phi_msft_names, .read = read_phi_msft},
    {.type = NULL},
};
