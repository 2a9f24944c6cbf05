/* model/tensors/hf.h - from a Hugging Face config.json to units and tensors, for the readers model/hf_*.c.
 *
 * A family is a *description*: the names that its checkpoints use (struct hf_names) and a function that turns its keys
 * into kinds of layers (struct hf_layer: the class that the graph needs, and which tensors there are beside it). One
 * builder (hf_build.c) makes units and tensors of any description, in the order norm, mixer, norm, MLP.
 *
 * Reading (hf_keys.c). Defaults are those of the config classes for keys that came later than the first checkpoints; the
 * sizes that every file states are required. A key that adds tensors or changes the arithmetic in a way that is not
 * described here is refused by name where its value asks for it (hf_refuse); all others are ignored, for the format is
 * not ours: initialisation, dropout, token ids, generation, caches, parallel degrees of the maker, rope's frequencies.
 */
#ifndef BALLAST_MODEL_TENSORS_HF_H
#define BALLAST_MODEL_TENSORS_HF_H

#include "core/json.h"
#include "model/tensors/model.h"

/* Sizes above these are slips, and their products with the other limits stay countable. */
enum {
    HF_MAX_LAYERS = 100000,
    HF_MAX_TENSORS = 4000000,
    HF_MAX_WIDTH = 1 << 26,
    HF_MAX_HEADS = 1 << 20,
    HF_MAX_VOCAB = 1 << 28,
    HF_MAX_EXPERTS = 1 << 16,
    HF_MAX_KINDS = 8,
    HF_MAX_LOOKED = 256 /* keys that the readers ask for */
};

/* Names in the checkpoint, without ".weight" and ".bias". "=name": the whole name, which has no such end. Inside layers
 * they follow "<layers>.<i>.". `experts`: a "*" stands for the expert's number; without one all experts are stacked in
 * one tensor, and matrix i of it is called "name[i]". */
struct hf_names {
    const char *layers;
    const char *of[SLOT_N];
    const char *experts[SLOT_N];
    const char *expert_biases[SLOT_N];
    /* of a layer that predicts a further token: norms of embedding and state, what joins them, the norm before the
     * shared head; NULL: not described */
    const char *mtp[4];
    const char *decoder_layers; /* of the second stack; those of the first are `layers` */
    const char *mtp_layers;     /* where these layers stand; NULL: they are further `layers` */
    bool mtp_once;              /* what joins stands once, outside them; false: in each of them */
    const struct hf_names
        *also; /* names that layers of another kind have in place of these, or NULL */
};

/* One kind of layer: its class, and the tensors that the class does not tell. */
struct hf_layer {
    struct unit_class c;
    bool norm1, norm1_post, norm2, norm2_post; /* there is one */
    bool norm_bias, qkv_bias, o_bias, mlp_bias, router_bias, expert_bias, conv_bias;
    bool qk_norm_whole;                 /* q_norm and k_norm over all heads, not over each */
    bool fused_gate_up, stacked_in_out; /* stacked experts are [expert, in, out] */
    bool sinks, router_correction, shared_router;
    bool cross;        /* attends to the encoder's output, too */
    uint64_t relative; /* rows of a table of biases by distance; 0: there is none */
    bool no_v;         /* values are the keys */
    bool
        dense_beside; /* the shared expert is a dense MLP with norms of its own, as router and experts have */
    uint64_t q_lora, kv_lora, shared_ffn, conv;
    uint64_t index_heads, index_dim; /* of the indexer of sparse attention; 0: there is none */
    const struct hf_names *names;    /* that differ in layers of this kind, or NULL */
};

struct hf_family;
#define HF_DIM_EVEN UINT32_MAX

/* Members of the document that were asked for (hf_keys.c). */
struct hf_looked {
    const cJSON *at[HF_MAX_LOOKED];
    size_t n;
};

struct hf {
    struct hf_looked *looked;
    struct json_at top,
        outer; /* the object with the keys; the document, where that is text_config */
    const struct hf_family *fam;
    const struct model_options *opt;
    const struct hf_names *names;
    struct model *m;
    struct arena *a;
    struct model_builder b;
    uint64_t layers, hidden, vocab;
    uint64_t
        encoder_layers; /* of `layers`, which stand before a decoder's; 0: there is one stack */
    uint64_t mtp;       /* layers of multi-token prediction that are taken in */
    const struct hf_layer *mtp_like; /* what they are like; NULL: the last layer */
    struct hf_layer kinds[HF_MAX_KINDS];
    uint32_t n_kinds;
    uint8_t *kind_of; /* in the arena [layers] */
    /* of the first and last unit */
    uint64_t embed_dim, positions; /* 0: hidden; no table of positions */
    bool conv1d;                   /* linear layers store (in, out) */
    uint64_t scores;      /* rows of a head that gives scores, not tokens; 0: it gives tokens */
    uint64_t token_types; /* rows of a table of the parts of a text; 0: there is none */
    bool pooler, transform, next, no_head; /* BERT's ends: model/tensors/hf_encoder.c */
    bool embed_norm, no_final_norm, norm_bias, head_bias, tied;
    enum norm_kind norm;
    const char *prefix, *insert; /* before all names; after "model." */
};

/* What read_decoder (hf_llama.c) does for a type. */
enum hf_trait {
    HF_QKV_BIAS = 1 << 0,       /* always, and never on o */
    HF_ATTENTION_BIAS = 1 << 1, /* the key is read, for q, k, v and o */
    HF_MLP_BIAS = 1 << 2,       /* the key is read */
    HF_QK_NORM = 1 << 3,
    HF_QK_NORM_WHOLE = 1 << 4,
    HF_NO_PRE_NORM = 1 << 5,
    HF_POST_NORM = 1 << 6,
    HF_LAYER_NORM = 1 << 7, /* with a bias, in place of RMSNorm */
    HF_FUSED = 1 << 8,      /* q, k, v in one; gate and up in one */
    HF_TIED = 1 << 9,       /* when the key is absent */
    HF_SCALED = 1 << 10,
    HF_PLAIN_MLP = 1 << 11,
    HF_GELU = 1 << 12,        /* in place of SiLU; gated unless the MLP is plain */
    HF_WINDOW_FLAG = 1 << 13, /* a window only where use_sliding_window says so */
    HF_PARALLEL = 1 << 14,
    HF_HEAD_BIAS = 1 << 15,
    HF_USE_BIAS = 1 << 16, /* one key for the biases of all linear layers */
    HF_ENCODER = 1 << 17,  /* an encoder is there, with or without a decoder */
    HF_OWN_BIAS = 1 << 18, /* every layer has relative positions of its own */
};
struct hf_family {
    const char *type;
    const struct hf_names *names;
    int (*read)(struct hf *h, struct err *e);
    uint32_t traits;
    uint32_t kv_heads;           /* when absent; 0: as many as heads */
    uint32_t head_dim;           /* when absent; 0: hidden/heads; HF_DIM_EVEN: always that */
    uint32_t heads, vocab;       /* when absent; 0: required */
    uint32_t window, full_every; /* when absent: tokens; every n-th layer sees all, 0: none does */
    uint32_t mtp;                /* layers of multi-token prediction when no key says */
    double rotary;               /* share of a head when absent; 0: all */
    const char *const *refused;  /* keys that are refused when set, NULL-terminated */
};

/* NULL-terminated by a row without a type. */
extern const struct hf_family hf_llama_families[], hf_moe_families[], hf_gpt_families[],
    hf_deepseek_families[], hf_hybrid_families[], hf_encoder_families[];
/* All of them, NULL-terminated. */
extern const struct hf_family *const hf_groups[];

/* ---- hf_keys.c: `key` may list alternatives, "hidden_size|n_embd"; the first is named when all are absent ---- */

bool hf_has(const struct hf *h, const char *key, struct json_at *at);
/* Holds a value to be an array with an entry a layer; h->layers is known. ERR_INVALID. */
int hf_per_layer(const struct hf *h, const struct json_at *list, struct err *e);
/* Is the key there at all, if only as null? */
bool hf_written(const struct hf *h, const char *key);
/* Was this member of h->top asked for, by hf_has() or a function below? */
bool hf_looked_at(const struct hf *h, const struct json_at *member);
int hf_size(const struct hf *h, const char *key, uint64_t max, uint64_t *out, struct err *e);
int hf_size_or(const struct hf *h, const char *key, uint64_t lo, uint64_t max, uint64_t dflt,
               uint64_t *out, struct err *e);
int hf_flag_or(const struct hf *h, const char *key, bool dflt, bool *out, struct err *e);
/* Refuse the key where it is set: true, not 0, not empty. */
int hf_refuse(const struct hf *h, const char *key, const char *why, struct err *e);
/* The key must have this value where it is there. */
int hf_must_be(const struct hf *h, const char *key, bool want, const char *why, struct err *e);
/* The same of a text in `at`: one of a NULL-terminated list, the first of which is what is read. */
int hf_must_be_text(const struct json_at *at, const char *key, const char *const *known,
                    struct err *e);
/* The activation, of which the kinds in `known` can be told apart; `dflt` when absent. */
int hf_act(const struct hf *h, const char *key, const char *dflt, const enum act_kind *known,
           size_t n_known, enum act_kind *out, struct err *e);
/* num_hidden_layers, hidden_size, vocab_size into h; kind_of is allocated. */
int hf_common(struct hf *h, const char *layers, const char *hidden, struct err *e);
/* Heads and their size into c: `kv_dflt`, `dim_dflt` when absent (0: heads; hidden/heads). HF_DIM_EVEN: always hidden/heads, for types
 * that have no key head_dim. */
int hf_heads(struct hf *h, struct unit_class *c, const char *heads, const char *kv,
             uint32_t kv_dflt, uint32_t dim_dflt, struct err *e);
/* partial_rotary_factor (or its elder names) into c->rotary_dim. */
int hf_rotary(const struct hf *h, struct unit_class *c, double dflt, struct err *e);
/* Experts: how many, at least n_min, and how many a token meets (at least 1 of them). */
int hf_experts(struct hf *h, struct unit_class *c, const char *n, uint64_t n_min, uint64_t n_dflt,
               const char *active, uint64_t active_dflt, struct err *e);
/* tie_word_embeddings of the text part, else of the document. */
int hf_tied(struct hf *h, bool dflt, struct err *e);
/* Which layers see a window only: layer_types, else sliding_window_pattern, else the family's; mask [layers]. */
int hf_windows(struct hf *h, uint64_t *window, bool *local, struct err *e);
/* Refuse a model of more than HF_MAX_TENSORS tensors; call when the kinds are known and before building. */
int hf_check_count(struct hf *h, const char *layers, struct err *e);

/* ---- hf_unused.c ---- */

/* Notes the keys that state a size or a part of some family's layers, that this family does not read, and that say something else than
 * the layers are; call when the kinds are known. O(members x keys). */
void hf_note_unused(struct hf *h);

/* ---- hf_build.c ---- */

/* Adds a kind of layer and returns its index. Kinds whose tensors differ need classes that differ. More than
 * HF_MAX_KINDS is a bug. */
uint8_t hf_kind(struct hf *h, const struct hf_layer *l);
/* Layer i is of kind of[which[i]]; kinds that no layer is of are left out. */
void hf_assign(struct hf *h, const struct hf_layer *of, const uint8_t *which);
/* Kinds of a model whose layers are `dense`, or `sparse` where is_sparse says so (either may be NULL: none are), each
 * with and without the window of hf_windows. Names come from here. */
int hf_add_kinds(struct hf *h, const struct hf_layer *dense, const struct hf_layer *sparse,
                 const bool *is_sparse, struct err *e);
void hf_build(struct hf *h);

/* ---- hf_moe.c ---- */

/* Which of a Qwen model's layers have experts, if there are any: decoder_sparse_step and mlp_only_layers; mask [layers]. */
int hf_sparse_layers(struct hf *h, bool experts, bool *sparse, struct err *e);
/* Is some layer's flag `value`? */
bool hf_any(const struct hf *h, const bool *mask, bool value);

/* A last check of the number of tensors after hf_add_kinds. */
int hf_finish(struct hf *h, const struct hf_layer *dense, const struct hf_layer *sparse,
              const bool *is_sparse, struct err *e);

/* ---- hf_llama.c ---- */

/* Which layers rotate: no_rope_layers (1: it does), else all but every
 * no_rope_layer_interval-th; mask [layers]. */
int hf_rotary_layers(struct hf *h, bool *rotary, struct err *e);

/* What Llama's kin share, by the family's traits: sizes, heads, biases, norms, activation. The MLP's width is read
 * where `dense` says that some layer has one. */
int hf_decoder(struct hf *h, struct hf_layer *l, bool dense, struct err *e);
/* Names of Llama's checkpoints but for norms and MLPs, for tables of struct hf_names. */
#define HF_LLAMA_OF                                                                                \
    [SLOT_TOKEN_EMBEDDING] = "model.embed_tokens", [SLOT_FINAL_NORM] = "model.norm",               \
    [SLOT_HEAD] = "lm_head", [SLOT_NORM1] = "input_layernorm", [SLOT_Q] = "self_attn.q_proj",      \
    [SLOT_K] = "self_attn.k_proj", [SLOT_V] = "self_attn.v_proj", [SLOT_O] = "self_attn.o_proj",   \
    [SLOT_Q_NORM] = "self_attn.q_norm", [SLOT_K_NORM] = "self_attn.k_norm"
#define HF_LLAMA_MLP                                                                               \
    [SLOT_GATE] = "mlp.gate_proj", [SLOT_UP] = "mlp.up_proj", [SLOT_DOWN] = "mlp.down_proj"

#endif
