/* Reads Hugging Face's config.json: the shapes and names that transformers' modelling code gives the checkpoint.
 *
 * Defaults are those of the config classes (LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config, GPT2Config,
 * MixtralConfig, Qwen3MoeConfig) for keys that came later than the first checkpoints; the sizes that every file states
 * are required, since a file without them is hardly the one that was meant. Keys that add tensors or change the
 * arithmetic in a way that the graph does not know are refused by name; all others are ignored, for the format is not
 * ours. GPT-2's names are those of the published files, which have no "transformer." before them.
 *
 * Left out: sliding windows (attention is counted over the whole sequence, exact while it fits the window). */
#include "core/json.h"
#include "core/num.h"
#include "core/suggest.h"
#include "model/model.h"

#include <stdio.h>
#include <string.h>

/* A size above these is a slip, and their products with the other limits stay countable. */
enum {
    MAX_LAYERS = 100000,
    MAX_TENSORS = 4000000,
    MAX_WIDTH = 1 << 26,
    MAX_HEADS = 1 << 20,
    MAX_VOCAB = 1 << 28,
    MAX_EXPERTS = 1 << 16
};

enum moe_names { MOE_NONE, MOE_MIXTRAL, MOE_QWEN };

/* The families of Llama's descent: what their config class and modelling code do when the file does not say. */
struct family {
    const char *type;
    uint32_t kv_heads;             /* when absent; 0: as many as heads */
    uint32_t head_dim;             /* when absent; 0: hidden/heads */
    bool qkv_bias;                 /* always on q, k, v and never on o */
    bool attention_bias, mlp_bias; /* the key is read */
    bool qk_norm;
    enum moe_names moe;
};
static const struct family families[] = {
    {.type = "llama", .attention_bias = true, .mlp_bias = true},
    {.type = "mistral", .kv_heads = 8},
    {.type = "qwen2", .qkv_bias = true},
    {.type = "qwen3", .head_dim = 128, .attention_bias = true, .qk_norm = true},
    {.type = "mixtral", .kv_heads = 8, .moe = MOE_MIXTRAL},
    {.type = "qwen3_moe", .kv_heads = 4, .attention_bias = true, .qk_norm = true, .moe = MOE_QWEN},
};
enum { N_FAMILIES = sizeof(families) / sizeof(families[0]) };

struct hf {
    struct json_at top;
    const struct family *fam; /* NULL: gpt2 */
    struct model *m;
    struct arena *a;
    struct model_builder b;
    uint64_t layers, hidden, ffn, vocab, heads, kv_heads, head_dim;
    uint64_t experts, active, expert_ffn, sparse_step;
    bool *dense; /* owned, [layers] of qwen3_moe, or NULL */
    bool qkv_bias, o_bias, mlp_bias, tied;
    char prefix[64]; /* of the tensors that are added */
};

/* ---- tensors ---- */

static void add(struct hf *h, const char *name, const char *kind, enum tensor_role role,
                enum tensor_slot slot, int32_t expert, uint32_t n_dims, uint64_t d0, uint64_t d1)
{
    char full[160];
    bool bias = !strcmp(kind, "bias");

    snprintf(full, sizeof(full), "%s%s.%s", h->prefix, name, kind);
    model_builder_tensor(&h->b, full, role, slot, bias, expert, n_dims, (uint64_t[]){d0, d1});
}

static void matrix(struct hf *h, const char *name, enum tensor_role role, enum tensor_slot slot,
                   uint64_t d0, uint64_t d1)
{
    add(h, name, "weight", role, slot, -1, 2, d0, d1);
}

/* A linear layer's weight [out, in], and its bias. */
static void linear(struct hf *h, const char *name, enum tensor_slot slot, uint64_t out, uint64_t in,
                   bool bias)
{
    matrix(h, name, ROLE_MATRIX, slot, out, in);
    if (bias)
        add(h, name, "bias", ROLE_BIAS, slot, -1, 1, out, 0);
}

static void norm(struct hf *h, const char *name, enum tensor_slot slot, uint64_t width, bool bias)
{
    add(h, name, "weight", ROLE_NORM, slot, -1, 1, width, 0);
    if (bias)
        add(h, name, "bias", ROLE_BIAS, slot, -1, 1, width, 0);
}

static void expert(struct hf *h, uint64_t i, const char *part, enum tensor_slot slot, uint64_t out,
                   uint64_t in)
{
    char name[64];

    snprintf(name, sizeof(name), "%s.experts.%u.%s",
             h->fam->moe == MOE_MIXTRAL ? "block_sparse_moe" : "mlp", (unsigned)i, part);
    add(h, name, "weight", ROLE_EXPERT, slot, (int32_t)i, 2, out, in);
}

static void llama_experts(struct hf *h)
{
    bool mixtral = h->fam->moe == MOE_MIXTRAL;

    matrix(h, mixtral ? "block_sparse_moe.gate" : "mlp.gate", ROLE_ROUTER, SLOT_ROUTER, h->experts,
           h->hidden);
    for (uint64_t i = 0; i < h->experts; i++) {
        expert(h, i, mixtral ? "w1" : "gate_proj", SLOT_GATE, h->expert_ffn, h->hidden);
        expert(h, i, mixtral ? "w3" : "up_proj", SLOT_UP, h->expert_ffn, h->hidden);
        expert(h, i, mixtral ? "w2" : "down_proj", SLOT_DOWN, h->hidden, h->expert_ffn);
    }
}

static void llama_layer(struct hf *h, bool sparse)
{
    uint64_t q = h->heads * h->head_dim, kv = h->kv_heads * h->head_dim;

    norm(h, "input_layernorm", SLOT_NORM1, h->hidden, false);
    linear(h, "self_attn.q_proj", SLOT_Q, q, h->hidden, h->qkv_bias);
    linear(h, "self_attn.k_proj", SLOT_K, kv, h->hidden, h->qkv_bias);
    linear(h, "self_attn.v_proj", SLOT_V, kv, h->hidden, h->qkv_bias);
    linear(h, "self_attn.o_proj", SLOT_O, h->hidden, q, h->o_bias);
    if (h->fam->qk_norm) {
        norm(h, "self_attn.q_norm", SLOT_Q_NORM, h->head_dim, false);
        norm(h, "self_attn.k_norm", SLOT_K_NORM, h->head_dim, false);
    }
    norm(h, "post_attention_layernorm", SLOT_NORM2, h->hidden, false);
    if (sparse) {
        llama_experts(h);
        return;
    }
    linear(h, "mlp.gate_proj", SLOT_GATE, h->ffn, h->hidden, h->mlp_bias);
    linear(h, "mlp.up_proj", SLOT_UP, h->ffn, h->hidden, h->mlp_bias);
    linear(h, "mlp.down_proj", SLOT_DOWN, h->hidden, h->ffn, h->mlp_bias);
}

static void gpt2_layer(struct hf *h)
{
    norm(h, "ln_1", SLOT_NORM1, h->hidden, true);
    /* Conv1D keeps (in, out) */
    matrix(h, "attn.c_attn", ROLE_MATRIX, SLOT_QKV, h->hidden, 3 * h->hidden);
    add(h, "attn.c_attn", "bias", ROLE_BIAS, SLOT_QKV, -1, 1, 3 * h->hidden, 0);
    matrix(h, "attn.c_proj", ROLE_MATRIX, SLOT_O, h->hidden, h->hidden);
    add(h, "attn.c_proj", "bias", ROLE_BIAS, SLOT_O, -1, 1, h->hidden, 0);
    norm(h, "ln_2", SLOT_NORM2, h->hidden, true);
    matrix(h, "mlp.c_fc", ROLE_MATRIX, SLOT_UP, h->hidden, h->ffn);
    add(h, "mlp.c_fc", "bias", ROLE_BIAS, SLOT_UP, -1, 1, h->ffn, 0);
    matrix(h, "mlp.c_proj", ROLE_MATRIX, SLOT_DOWN, h->ffn, h->hidden);
    add(h, "mlp.c_proj", "bias", ROLE_BIAS, SLOT_DOWN, -1, 1, h->hidden, 0);
}

static bool is_sparse(const struct hf *h, uint64_t layer)
{
    if (!h->experts)
        return false;
    return !(h->dense && h->dense[layer]) && (layer + 1) % h->sparse_step == 0;
}

static void build(struct hf *h, uint64_t n_positions)
{
    bool gpt2 = !h->fam;
    struct unit_class base = {.hidden = h->hidden,
                              .norm = gpt2 ? NORM_LAYER : NORM_RMS,
                              .position = gpt2 ? POSITION_LEARNED : POSITION_ROPE,
                              .act = gpt2 ? ACT_GELU : ACT_SWIGLU,
                              .tied = h->tied,
                              .causal = true};
    struct unit_class embed = base, dense = base, sparse, head = base;
    char name[32];

    embed.kind = UNIT_EMBED;
    embed.name = "embed";
    head.kind = UNIT_HEAD;
    head.name = "head";
    embed.vocab = head.vocab = h->vocab;
    dense.kind = UNIT_LAYER;
    dense.name = "layer";
    dense.ffn = h->ffn;
    dense.n_heads = (uint32_t)h->heads;
    dense.n_kv_heads = (uint32_t)h->kv_heads;
    dense.head_dim = (uint32_t)h->head_dim;
    dense.fused_qkv = gpt2;
    dense.qk_norm = !gpt2 && h->fam->qk_norm;
    sparse = dense;
    sparse.name = "moe-layer";
    sparse.ffn = h->expert_ffn;
    sparse.n_experts = (uint32_t)h->experts;
    sparse.n_active = (uint32_t)h->active;

    model_builder_unit(&h->b, "embed", &embed);
    matrix(h, gpt2 ? "wte" : "model.embed_tokens", ROLE_EMBEDDING, SLOT_TOKEN_EMBEDDING, h->vocab,
           h->hidden);
    if (gpt2)
        matrix(h, "wpe", ROLE_POSITION, SLOT_POSITION, n_positions, h->hidden);
    for (uint64_t i = 0; i < h->layers; i++) {
        snprintf(name, sizeof(name), "layers.%u", (unsigned)i);
        model_builder_unit(&h->b, name, is_sparse(h, i) ? &sparse : &dense);
        snprintf(h->prefix, sizeof(h->prefix), "%s.%u.", gpt2 ? "h" : "model.layers", (unsigned)i);
        if (gpt2)
            gpt2_layer(h);
        else
            llama_layer(h, is_sparse(h, i));
    }
    h->prefix[0] = 0;
    model_builder_unit(&h->b, "head", &head);
    norm(h, gpt2 ? "ln_f" : "model.norm", SLOT_FINAL_NORM, h->hidden, gpt2);
    if (!h->tied)
        matrix(h, "lm_head", ROLE_HEAD, SLOT_HEAD, h->vocab, h->hidden);
}

/* ---- keys ---- */

static int refused(struct hf *h, struct err *e)
{
    static const struct {
        const char *key, *why;
    } keys[] = {
        {"quantization_config", "marks a quantised checkpoint, which is not what is trained; use "
                                "the config.json of the original"},
        {"pruned_heads", "removes heads; only whole layers are read"},
        {"add_cross_attention", "adds cross attention; only decoders are read"},
        {"is_encoder_decoder", "adds an encoder; only decoders are read"},
        {"num_nextn_predict_layers", "adds layers that predict further tokens; they are not read"},
        {"shared_expert_intermediate_size", "adds shared experts; they are not read"},
    };
    struct json_at at, it;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        uint64_t n;
        bool yes;
        struct err ignored;

        if (!json_opt(&h->top, keys[i].key, &at))
            continue;
        if (!json_as_bool(&at, &yes, &ignored) && !yes)
            continue;
        if (!json_as_u64(&at, 0, UINT64_MAX, &n, &ignored) && !n)
            continue;
        if (!json_is_object(&at, &ignored) && !json_first(&at, &it))
            continue;
        return json_err(&at, ERR_UNSUPPORTED, e, "%s", keys[i].why);
    }
    return 0;
}

static int activation(struct hf *h, const char *key, const char *dflt, const char *const *known,
                      struct err *e)
{
    struct json_at at;
    const char *s = dflt;

    if (!json_opt(&h->top, key, &at))
        return 0;
    if (json_as_str(&at, &s, e))
        return -1;
    for (size_t i = 0; known[i]; i++)
        if (!strcmp(s, known[i]))
            return 0;
    return json_err(&at, ERR_UNSUPPORTED, e, "is '%.60s', and only '%s' is known for this type", s,
                    known[0]);
}

/* Absent takes the config class's number, null means as many as heads. */
static int read_kv_heads(struct hf *h, struct err *e)
{
    struct json_at at;
    const char *key = "num_key_value_heads";

    h->kv_heads = h->heads;
    if (json_opt(&h->top, key, &at)) {
        if (json_as_u64(&at, 1, MAX_HEADS, &h->kv_heads, e))
            return -1;
    } else {
        struct json_at it;
        bool ok, there = false;

        for (ok = json_first(&h->top, &it); ok && !there; ok = json_next(&it))
            there = !strcmp(json_key(&it), key);
        if (!there && h->fam->kv_heads)
            h->kv_heads = h->fam->kv_heads;
        at = h->top;
    }
    if (h->heads % h->kv_heads == 0)
        return 0;
    if (at.node == h->top.node)
        return json_err(&at, ERR_INVALID, e,
                        "has no num_key_value_heads, and the %llu of %s do not divide "
                        "num_attention_heads = %llu",
                        (unsigned long long)h->kv_heads, h->fam->type,
                        (unsigned long long)h->heads);
    return json_err(&at, ERR_INVALID, e,
                    "is %llu, expected a divisor of num_attention_heads = %llu",
                    (unsigned long long)h->kv_heads, (unsigned long long)h->heads);
}

static int check_divides(struct hf *h, const char *key, const char *heads_key, const char *hint,
                         struct err *e)
{
    struct json_at at;

    if (h->hidden % h->heads == 0)
        return 0;
    if (json_get(&h->top, key, &at, e))
        return -1;
    return json_err(&at, ERR_INVALID, e, "is %llu, not divisible by %s = %llu%s",
                    (unsigned long long)h->hidden, heads_key, (unsigned long long)h->heads, hint);
}

static int read_head_dim(struct hf *h, struct err *e)
{
    if (json_u64_or(&h->top, "head_dim", 1, MAX_HEADS, h->fam->head_dim, &h->head_dim, e))
        return -1;
    if (h->head_dim)
        return 0;
    if (check_divides(h, "hidden_size", "num_attention_heads", ", and there is no head_dim", e))
        return -1;
    h->head_dim = h->hidden / h->heads;
    return 0;
}

static int read_experts(struct hf *h, struct err *e)
{
    bool mixtral = h->fam->moe == MOE_MIXTRAL;
    struct json_at at;
    uint64_t *only = NULL, dflt = mixtral ? 8 : 128;
    size_t n_only = 0;
    const char *key = "num_local_experts";

    /* transformers 5 writes qwen3_moe's num_experts under Mixtral's name */
    if (!mixtral && (json_opt(&h->top, "num_experts", &at) || !json_opt(&h->top, key, &at)))
        key = "num_experts";
    if (json_u64_or(&h->top, key, mixtral, MAX_EXPERTS, dflt, &h->experts, e))
        return -1;
    h->sparse_step = 1;
    if (!h->experts)
        return 0;
    if (json_u64_or(&h->top, "num_experts_per_tok", 1, MAX_EXPERTS, mixtral ? 2 : 8, &h->active, e))
        return -1;
    if (h->active > h->experts)
        return json_err(&h->top, ERR_INVALID, e, "has num_experts_per_tok = %llu of %s = %llu",
                        (unsigned long long)h->active, key, (unsigned long long)h->experts);
    if (mixtral) {
        h->expert_ffn = h->ffn;
        return 0;
    }
    if (json_u64(&h->top, "moe_intermediate_size", 1, MAX_WIDTH, &h->expert_ffn, e) ||
        json_u64_or(&h->top, "decoder_sparse_step", 1, MAX_LAYERS, 1, &h->sparse_step, e))
        return -1;
    if (json_opt(&h->top, "mlp_only_layers", &at) &&
        json_u64_array(&h->top, "mlp_only_layers", 0, h->layers - 1, h->a, &only, &n_only, e))
        return -1;
    h->dense = MEM_NEW(bool, h->layers);
    for (size_t i = 0; i < n_only; i++)
        h->dense[only[i]] = true;
    return 0;
}

static int check_count(struct hf *h, const char *key, struct err *e)
{
    struct json_at at;
    uint64_t n = h->layers * (16 + 3 * h->experts); /* < 2^36 */

    if (n <= MAX_TENSORS)
        return 0;
    if (json_get(&h->top, key, &at, e))
        return -1;
    return json_err(&at, ERR_INVALID, e,
                    "is %llu: with %llu experts a layer the model has more than %d tensors",
                    (unsigned long long)h->layers, (unsigned long long)h->experts, MAX_TENSORS);
}

static int read_llama(struct hf *h, struct err *e)
{
    static const char *const silu[] = {"silu", "swish", NULL};
    const struct json_at *top = &h->top;
    bool attention_bias = false, dense = false;

    if (json_u64(top, "num_hidden_layers", 1, MAX_LAYERS, &h->layers, e) ||
        json_u64(top, "hidden_size", 1, MAX_WIDTH, &h->hidden, e) ||
        json_u64(top, "num_attention_heads", 1, MAX_HEADS, &h->heads, e) ||
        json_u64(top, "vocab_size", 1, MAX_VOCAB, &h->vocab, e) ||
        activation(h, "hidden_act", "silu", silu, e) || read_kv_heads(h, e) || read_head_dim(h, e))
        return -1;
    if (h->fam->attention_bias && json_bool_or(top, "attention_bias", false, &attention_bias, e))
        return -1;
    if (h->fam->mlp_bias && json_bool_or(top, "mlp_bias", false, &h->mlp_bias, e))
        return -1;
    h->o_bias = attention_bias;
    h->qkv_bias = attention_bias || h->fam->qkv_bias;
    if (h->fam->moe == MOE_QWEN && read_experts(h, e))
        return -1;
    for (uint64_t i = 0; i < h->layers; i++)
        dense |= !is_sparse(h, i);
    if (dense && json_u64(top, "intermediate_size", 1, MAX_WIDTH, &h->ffn, e))
        return -1;
    if (h->fam->moe == MOE_MIXTRAL && read_experts(h, e))
        return -1;
    if (json_bool_or(top, "tie_word_embeddings", false, &h->tied, e))
        return -1;
    return check_count(h, "num_hidden_layers", e);
}

static int read_gpt2(struct hf *h, uint64_t *n_positions, struct err *e)
{
    static const char *const gelu[] = {"gelu_new", "gelu", "gelu_pytorch_tanh", "gelu_fast", NULL};
    const struct json_at *top = &h->top;

    if (json_u64(top, "n_layer", 1, MAX_LAYERS, &h->layers, e) ||
        json_u64(top, "n_embd", 1, MAX_WIDTH, &h->hidden, e) ||
        json_u64(top, "n_head", 1, MAX_HEADS, &h->heads, e) ||
        json_u64(top, "vocab_size", 1, MAX_VOCAB, &h->vocab, e) ||
        json_u64_or(top, "n_positions", 1, MAX_VOCAB, 1024, n_positions, e) ||
        json_u64_or(top, "n_inner", 1, MAX_WIDTH, 4 * h->hidden, &h->ffn, e) ||
        activation(h, "activation_function", "gelu_new", gelu, e) ||
        check_divides(h, "n_embd", "n_head", "", e) ||
        json_bool_or(top, "tie_word_embeddings", true, &h->tied, e))
        return -1;
    h->kv_heads = h->heads;
    h->head_dim = h->hidden / h->heads;
    h->sparse_step = 1;
    h->m->max_seq_len = *n_positions;
    return check_count(h, "n_layer", e);
}

static int read_type(struct hf *h, struct err *e)
{
    const char *names[N_FAMILIES + 1], *type;
    struct json_at at;
    size_t i;

    if (json_is_object(&h->top, e) || json_str(&h->top, "model_type", &type, e))
        return -1;
    for (i = 0; i < N_FAMILIES; i++) {
        names[i] = families[i].type;
        if (!strcmp(type, names[i]))
            h->fam = &families[i];
    }
    names[i] = "gpt2";
    if (!h->fam && strcmp(type, "gpt2") != 0) {
        if (json_get(&h->top, "model_type", &at, e))
            return -1;
        return json_err(
            &at, ERR_UNSUPPORTED, e,
            "is '%.60s'%s; this version reads llama, mistral, qwen2, qwen3, gpt2, "
            "mixtral and qwen3_moe. For a uniform decoder write its layers in one line, "
            "block:layers=L,hidden=H,ffn=F,heads=A,mlp=swiglu,vocab=V; 'ballast model "
            "--list' shows the bundled models",
            type, suggest(type, names, N_FAMILIES + 1).s);
    }
    h->m->arch = h->fam ? h->fam->type : "gpt2";
    return 0;
}

static int read_model(struct hf *h, struct err *e)
{
    uint64_t n_positions = 0;

    if (read_type(h, e) || refused(h, e) ||
        (h->fam ? read_llama(h, e) : read_gpt2(h, &n_positions, e)))
        return -1;
    build(h, n_positions);
    h->m->n_layers = (uint32_t)h->layers;
    h->m->hidden = h->hidden;
    h->m->vocab = h->vocab;
    h->m->tied = h->tied;
    if (model_builder_finish(&h->b, e))
        return err_prefix(e, "'%s'", h->top.file);
    return 0;
}

int model_from_config(const char *text, size_t len, const char *name, struct arena *a,
                      struct model *m, struct err *e)
{
    struct hf h = {.m = m, .a = a};
    struct json j;
    int rc;

    if (json_parse(&j, name, text, len, e))
        return -1;
    memset(m, 0, sizeof(*m));
    m->name = arena_strdup(a, name);
    h.top = json_top(&j);
    model_builder_init(&h.b, m, a);
    rc = read_model(&h, e);
    model_builder_release(&h.b);
    mem_free(h.dense);
    json_release(&j);
    return rc;
}
