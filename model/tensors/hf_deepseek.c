/* DeepSeek's mixture of experts: the first layers dense, shared experts beside routed ones.
 * Under it DeepSeek's latent attention (V2, V3 and what follows them: Moonlight, Kimi-K2), with
 * an indexer that chooses keys (V3.2, GLM-5), or plain attention (GLM-4.5).
 *
 * Sources: DeepSeek's own modelling_deepseek.py for V2 and V3; modelling and config classes of
 * transformers 5.24 for deepseek_v32, glm_moe_dsa and glm4_moe. */
#include "model/tensors/hf.h"

#include <string.h>

static const struct hf_names deepseek_names = {
    .layers = "model.layers",
    .of = {HF_LLAMA_OF, HF_LLAMA_MLP, [SLOT_NORM2] = "post_attention_layernorm",
           [SLOT_Q_A] = "self_attn.q_a_proj", [SLOT_Q_A_NORM] = "self_attn.q_a_layernorm",
           [SLOT_Q_B] = "self_attn.q_b_proj", [SLOT_KV_A] = "self_attn.kv_a_proj_with_mqa",
           [SLOT_KV_A_NORM] = "self_attn.kv_a_layernorm", [SLOT_KV_B] = "self_attn.kv_b_proj",
           [SLOT_INDEX_Q] = "self_attn.indexer.wq_b", [SLOT_INDEX_K] = "self_attn.indexer.wk",
           [SLOT_INDEX_K_NORM] = "self_attn.indexer.k_norm",
           [SLOT_INDEX_WEIGHTS] = "self_attn.indexer.weights_proj", [SLOT_ROUTER] = "mlp.gate",
           [SLOT_ROUTER_CORRECTION] = "=mlp.gate.e_score_correction_bias",
           [SLOT_SHARED_GATE] = "mlp.shared_experts.gate_proj",
           [SLOT_SHARED_UP] = "mlp.shared_experts.up_proj",
           [SLOT_SHARED_DOWN] = "mlp.shared_experts.down_proj"},
    .experts = {[SLOT_GATE] = "mlp.experts.*.gate_proj",
                [SLOT_UP] = "mlp.experts.*.up_proj",
                [SLOT_DOWN] = "mlp.experts.*.down_proj"},
    .mtp = {"enorm", "hnorm", "eh_proj", "shared_head.norm"},
};

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

/* The experts of a layer, and as many shared ones, in one, as n_shared_experts says. */
static int routed(struct hf *h, struct hf_layer *l, uint64_t shared_dflt, struct err *e)
{
    bool v2 = !strcmp(h->fam->type, "deepseek_v2");
    const char *method = v2 ? "greedy" : "noaux_tc";
    uint64_t shared;

    if (hf_size(h, "moe_intermediate_size", HF_MAX_WIDTH, &l->c.ffn, e) ||
        hf_size_or(h, "n_shared_experts", 0, 1024, shared_dflt, &shared, e) ||
        json_str_or(&h->top, "topk_method", method, &method, e))
        return -1;
    l->shared_ffn = shared * l->c.ffn;
    l->router_correction = !strcmp(method, "noaux_tc");
    l->c.route = ROUTE_OTHER;
    return 0;
}

/* mlp_layer_types ("dense", "sparse"), else the first first_k_dense_replace layers are dense,
 * and of the others those that moe_layer_freq does not divide; mask [layers]. */
static int sparse_layers(struct hf *h, bool experts, uint64_t first_dflt, bool *sparse,
                         struct err *e)
{
    static const char *const types[] = {"dense", "sparse", NULL};
    struct json_at list, it;
    uint64_t first, freq;
    int type;

    if (hf_size_or(h, "first_k_dense_replace", 0, HF_MAX_LAYERS, first_dflt, &first, e) ||
        hf_size_or(h, "moe_layer_freq", 1, HF_MAX_LAYERS, 1, &freq, e))
        return -1;
    for (uint64_t i = 0; i < h->layers; i++)
        sparse[i] = experts && i >= first && i % freq == 0;
    if (!hf_has(h, "mlp_layer_types", &list))
        return 0;
    if (hf_per_layer(h, &list, e))
        return -1;
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it)) {
        if (json_as_enum(&it, types, &type, e))
            return -1;
        if (type && !experts)
            return json_err(&it, ERR_INVALID, e, "is sparse, and n_routed_experts is 0");
        sparse[it.index] = type;
    }
    return 0;
}

/* Experts into l, and the same without them into d; mask [layers] of those that have them. */
static int mixture(struct hf *h, struct hf_layer *l, struct hf_layer *d, uint64_t first_dflt,
                   uint64_t shared_dflt, bool **sparse, struct err *e)
{
    if (hf_experts(h, &l->c, "n_routed_experts", 0, 0, "num_experts_per_tok", 0, e))
        return -1;
    *sparse = ARENA_NEW(h->a, bool, h->layers);
    if (sparse_layers(h, l->c.n_experts, first_dflt, *sparse, e))
        return -1;
    *d = *l;
    d->c.n_experts = d->c.n_active = 0;
    if (hf_any(h, *sparse, false) && hf_size(h, "intermediate_size", HF_MAX_WIDTH, &d->c.ffn, e))
        return -1;
    return hf_any(h, *sparse, true) ? routed(h, l, shared_dflt, e) : 0;
}

static int read_deepseek(struct hf *h, struct err *e)
{
    struct hf_layer l, d;
    bool *sparse;

    if (hf_decoder(h, &l, false, e) || latent_sizes(h, &l, e) ||
        mixture(h, &l, &d, 0, 0, &sparse, e))
        return -1;
    return hf_finish(h, &d, &l, sparse, e);
}

/* ---- sparse attention: an indexer chooses the keys that a query attends to ---- */

/* A letter a layer. */
static int index_pattern(struct hf *h, const struct json_at *at, bool *full, struct err *e)
{
    const char *s;

    if (json_as_str(at, &s, e))
        return -1;
    if (strlen(s) != h->layers || strspn(s, "FS") != h->layers)
        return json_err(at, ERR_INVALID, e,
                        "is '%.80s', expected %llu letters F (an indexer) or S (the choice of the "
                        "layer before)",
                        s, (unsigned long long)h->layers);
    for (uint64_t i = 0; i < h->layers; i++)
        full[i] = s[i] == 'F';
    return 0;
}

/* Which layers have an indexer, where others take the choice of the one before: indexer_types,
 * index_topk_pattern (letters, or the same list), else every index_topk_freq-th from
 * index_skip_topk_offset - 1 on, and all before; mask [layers]. */
static int index_layers(struct hf *h, bool *full, struct err *e)
{
    static const char *const types[] = {"shared", "full", NULL};
    uint64_t freq, offset;
    struct json_at at, it;
    int type;

    if (hf_size_or(h, "index_topk_freq", 0, HF_MAX_LAYERS, 1, &freq, e) ||
        hf_size_or(h, "index_skip_topk_offset", 0, HF_MAX_LAYERS, 2, &offset, e))
        return -1;
    for (uint64_t i = 0; i < h->layers; i++)
        full[i] = i + 1 < offset || (i + 1 - offset) % (freq ? freq : 1) == 0;
    if (!hf_has(h, "indexer_types|index_topk_pattern", &at))
        return 0;
    if (json_is_str(&at))
        return index_pattern(h, &at, full, e);
    if (hf_per_layer(h, &at, e))
        return -1;
    for (bool ok = json_first(&at, &it); ok; ok = json_next(&it)) {
        if (json_as_enum(&it, types, &type, e))
            return -1;
        full[it.index] = type;
    }
    if (!full[0])
        return json_err(&at, ERR_INVALID, e, "starts with 'shared', and no layer is before it");
    return 0;
}

static int read_sparse_attention(struct hf *h, struct err *e)
{
    static const char *const names[] = {"shared-index-layer", "layer", "shared-index-moe-layer",
                                        "moe-layer"};
    bool glm = !strcmp(h->fam->type, "glm_moe_dsa"), *sparse, *full;
    struct hf_layer of[4], *like = ARENA_NEW(h->a, struct hf_layer, 1);
    uint64_t heads, dim, topk;
    uint8_t *which;

    if (hf_decoder(h, &of[3], false, e) || latent_sizes(h, &of[3], e) ||
        hf_size(h, "q_lora_rank", HF_MAX_WIDTH, &of[3].q_lora, e) ||
        hf_size_or(h, "index_n_heads", 1, HF_MAX_HEADS, glm ? 32 : 64, &heads, e) ||
        hf_size_or(h, "index_head_dim", 1, HF_MAX_HEADS, 128, &dim, e) ||
        hf_size_or(h, "index_topk", 1, HF_MAX_VOCAB, 2048, &topk, e) ||
        mixture(h, &of[3], &of[1], 3, 1, &sparse, e))
        return -1;
    full = ARENA_NEW(h->a, bool, h->layers);
    which = ARENA_NEW(h->a, uint8_t, h->layers);
    if (index_layers(h, full, e))
        return -1;
    for (int k = 3; k >= 0; k--) {
        of[k] = of[k | 1];
        of[k].c.name = names[k];
        of[k].index_heads = k % 2 ? heads : 0;
        of[k].index_dim = k % 2 ? dim : 0;
    }
    for (uint64_t i = 0; i < h->layers; i++)
        which[i] = (uint8_t)(2 * sparse[i] + full[i]);
    hf_assign(h, of, which);
    *like = of[2 * hf_any(h, sparse, true) + 1]; /* predicting layers have an indexer */
    h->mtp_like = like;
    model_note(h->m, h->a,
               "sparse attention: tensors of the indexer and its products with them are counted, "
               "its scores and the choice of %llu keys are not, and attention is counted over all "
               "keys",
               (unsigned long long)topk);
    return hf_check_count(h, "num_hidden_layers", e);
}

/* ---- GLM-4.5: plain attention, biases on q, k, v alone ---- */

static int read_glm4_moe(struct hf *h, struct err *e)
{
    struct hf_layer l, d;
    bool *sparse;

    if (hf_decoder(h, &l, false, e) || hf_flag_or(h, "use_qk_norm", false, &l.c.qk_norm, e))
        return -1;
    l.o_bias = false;
    return mixture(h, &l, &d, 1, 1, &sparse, e) || hf_finish(h, &d, &l, sparse, e) ? -1 : 0;
}

static const char *const deepseek_refused[] = {"index_topk", NULL};

#define LATENT                                                                                     \
    .names = &deepseek_names, .traits = HF_ATTENTION_BIAS,                                         \
    .head_dim = 64 /* of no use: keys and values have sizes of their own */

const struct hf_family hf_deepseek_families[] = {
    {.type = "deepseek_v2", LATENT, .read = read_deepseek, .refused = deepseek_refused},
    {.type = "deepseek_v3", LATENT, .read = read_deepseek, .refused = deepseek_refused},
    {.type = "kimi_k2", LATENT, .read = read_deepseek, .refused = deepseek_refused},
    {.type = "deepseek_v32", LATENT, .read = read_sparse_attention},
    {.type = "glm_moe_dsa", LATENT, .read = read_sparse_attention},
    {.type = "glm4_moe",
     .names = &deepseek_names,
     .read = read_glm4_moe,
     .traits = HF_ATTENTION_BIAS,
     .kv_heads = 8,
     .rotary = 0.5},
    {.type = NULL},
};
