/* model/tensors/model.h - what is trained: tensors, grouped into units.
 *
 * A *unit* is what FSDP gathers at once: the embedding, each layer, and the head (final norm + output
 * projection). Units are listed in forward order and their tensors are contiguous. Units of one *class* have the same
 * shapes and the same operations, so that a program says them once.
 *
 * An encoder and its decoder are two stacks of layers in one list. Between them is the *bridge*: the norm of the encoder's
 * output, and the decoder's tokens looked up in the table that the encoder looked up its own in.
 *
 * Tied output heads exist once, in the embedding's unit. 3-D experts are listed as independent matrices.
 */
#ifndef BALLAST_MODEL_TENSORS_MODEL_H
#define BALLAST_MODEL_TENSORS_MODEL_H

#include "core/dtype.h"
#include "core/err.h"
#include "core/mem.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_NONE UINT32_MAX
enum { MODEL_NOTES = 16 };

/* role, name. MATRIX and EXPERT are matrices for a matrix optimizer, others by option; the rest is the tail (AdamW). */
#define TENSOR_ROLES(X)                                                                            \
    X(ROLE_MATRIX, "matrix")                                                                       \
    X(ROLE_EXPERT, "expert")                                                                       \
    X(ROLE_EMBEDDING, "embedding")                                                                 \
    X(ROLE_POSITION, "position")                                                                   \
    X(ROLE_HEAD, "head")                                                                           \
    X(ROLE_NORM, "norm")                                                                           \
    X(ROLE_BIAS, "bias")                                                                           \
    X(ROLE_ROUTER, "router")                                                                       \
    X(ROLE_OTHER, "other") /* decays, sinks, skips: vectors with a part of their own */
#define TENSOR_ROLE_ENUM(r, name) r,
enum tensor_role { TENSOR_ROLES(TENSOR_ROLE_ENUM) ROLE_N };
#undef TENSOR_ROLE_ENUM
const char *tensor_role_name(enum tensor_role r);

/* optimizer, its name and the name of its row in model/plan/optimizers.c */
#define OPTIMIZERS(X)                                                                              \
    X(OPTIMIZER_MUON, muon)                                                                        \
    X(OPTIMIZER_NORMUON, normuon)                                                                  \
    X(OPTIMIZER_SHAMPOO, shampoo)                                                                  \
    X(OPTIMIZER_SOAP, soap)                                                                        \
    X(OPTIMIZER_ADAMW, adamw)                                                                      \
    X(OPTIMIZER_LION, lion)
#define OPTIMIZER_ENUM(o, row) o,
enum optimizer { OPTIMIZERS(OPTIMIZER_ENUM) OPTIMIZER_N };
#undef OPTIMIZER_ENUM

/* What a tensor is to the operations of its unit, so that graph.c finds it without reading names. */
enum tensor_slot {
    SLOT_OTHER,
    SLOT_TOKEN_EMBEDDING,
    SLOT_POSITION,
    SLOT_FINAL_NORM,
    SLOT_HEAD,
    SLOT_NORM1,
    SLOT_NORM2,
    SLOT_Q,
    SLOT_K,
    SLOT_V,
    SLOT_QKV,
    SLOT_O,
    SLOT_Q_NORM,
    SLOT_K_NORM,
    SLOT_GATE,
    SLOT_UP,
    SLOT_UP1,
    SLOT_DOWN,       /* UP1: second half of a split up-projection */
    SLOT_ROUTER,     /* experts: GATE, UP, DOWN with expert >= 0 */
    SLOT_GATE_UP,    /* gate and up in one */
    SLOT_NORM1_POST, /* of the mixer's output, before it is added */
    SLOT_NORM2_POST, /* of the MLP's */
    SLOT_EMBED_NORM,
    SLOT_PROJECT_IN, /* between tables narrower than the hidden size and the layers */
    SLOT_PROJECT_OUT,
    SLOT_SINK, /* a logit a head that no token has */
    SLOT_Q_A,  /* latent attention: hidden -> rank -> heads */
    SLOT_Q_A_NORM,
    SLOT_Q_B,
    SLOT_KV_A,
    SLOT_KV_A_NORM,
    SLOT_KV_B,
    SLOT_INDEX_Q, /* indexer of sparse attention, which chooses keys: its queries, from the rank of q */
    SLOT_INDEX_K, /* ... its one key a token */
    SLOT_INDEX_K_NORM,
    SLOT_INDEX_WEIGHTS, /* ... a weight a head of it */
    SLOT_ROUTER_CORRECTION, /* a number an expert: added to its score for the choice alone, or times its weight */
    SLOT_ROUTER_NORM, /* of what the router reads, where it is not what the experts read */
    SLOT_EXPERTS_NORM, /* of what the experts read, where a dense MLP beside them has a norm of its own */
    SLOT_EXPERTS_NORM_POST, /* of what they give */
    SLOT_SHARED_NORM_POST,  /* of what the shared expert, or the dense MLP beside them, gives */
    SLOT_SHARED_GATE,
    SLOT_SHARED_UP,
    SLOT_SHARED_DOWN,
    SLOT_SHARED_ROUTER, /* a weight for the shared expert's output */
    SLOT_IN,            /* of a linear-attention or state-space mixer: all its inputs, or q, k, v */
    SLOT_IN_Z,          /* ... its output gate */
    SLOT_IN_B,          /* ... its write strength */
    SLOT_IN_A,          /* ... its decay */
    SLOT_CONV,
    SLOT_DT, /* bias of the step or decay */
    SLOT_A,  /* logarithm of the decay */
    SLOT_D,  /* what passes the state by */
    SLOT_MIXER_NORM,
    SLOT_TOKEN_TYPE, /* a table of the parts of a text, added to its tokens */
    SLOT_RELATIVE,   /* a bias a head by distance, added to the scores of attention */
    SLOT_CROSS_NORM, /* attention of a decoder's layer to the encoder's output */
    SLOT_CROSS_Q,
    SLOT_CROSS_K,
    SLOT_CROSS_V,
    SLOT_CROSS_O,
    SLOT_ENCODER_NORM, /* of the encoder's output */
    SLOT_TRANSFORM,    /* between the layers and the product with the vocabulary */
    SLOT_TRANSFORM_NORM,
    SLOT_POOLER, /* of a sequence's first token, through tanh */
    SLOT_NEXT,   /* ... and from there: does the second part follow the first? */
    SLOT_N,
};

struct tensor {
    const char *name; /* in the model's arena */
    uint64_t shape
        [4]; /* [n_dims], as PyTorch stores it: (out, in) for a linear layer, (in, out) for GPT-2's */
    uint32_t n_dims;
    uint32_t unit;
    enum tensor_role role;
    enum tensor_slot slot;
    bool is_bias;   /* the bias of `slot` */
    int32_t expert; /* -1: not of an expert */
    bool is_matrix; /* a matrix optimizer updates it: model_set_matrix_roles */
    uint64_t numel;
    uint64_t at;         /* elements of the model's tensors before it */
    uint64_t rows, cols; /* the matrix view: [shape[0], rest]; 1-D: rows = numel, cols = 1 */
};

/* True when a matrix optimizer updates it: two dimensions, both > 1, and a role that the model gives to it. */
static inline bool tensor_is_matrix(const struct tensor *t)
{
    return t->is_matrix;
}

struct unit {
    const char *name;
    uint32_t first, n; /* tensors[first .. first+n) */
    uint32_t class_id; /* index into model.classes */
    uint64_t numel;
};

enum norm_kind { NORM_RMS, NORM_LAYER };
enum act_kind { ACT_SWIGLU, ACT_GELU, ACT_GEGLU, ACT_RELU, ACT_RELU2 }; /* *GLU are gated */
enum position_kind {
    POSITION_NONE,
    POSITION_ROPE,
    POSITION_LEARNED,
    POSITION_ALIBI,
    POSITION_RELATIVE /* a learned bias a head and distance on the scores (T5, arXiv 1910.10683) */
};
enum unit_kind { UNIT_EMBED, UNIT_LAYER, UNIT_HEAD, UNIT_BRIDGE };
/* Which of two sequences a unit works on: the model's only one, or the encoder's or decoder's of a model of both. */
enum stack_kind { STACK_ONLY, STACK_ENCODER, STACK_DECODER };
/* What mixes tokens: softmax attention (MHA, GQA, MQA), the same through latent projections (MLA, arXiv 2405.04434), the
 * gated delta rule (arXiv 2412.06464), Mamba-2 (arXiv 2405.21060), or nothing: a layer that is only an MLP. */
enum mixer_kind {
    MIXER_ATTENTION,
    MIXER_MLA,
    MIXER_DELTA,
    MIXER_MAMBA2,
    MIXER_NONE,
    MIXER_UNKNOWN /* only the products with its weights are counted, those of the MLP included */
};
/* How the scores of experts become weights: softmax over the chosen ones, or anything else. */
enum route_kind { ROUTE_SOFTMAX_OF_CHOSEN, ROUTE_OTHER };

/* The dimensions that the operations of a unit need. One a class. Which norms, projections, biases and shared experts
 * there are is not here: the slots of the unit's tensors say it. 0 and false is what most models have. */
struct unit_class {
    enum unit_kind kind;
    const char *name;            /* "embed", "layer", "moe-layer", "head" */
    uint64_t hidden, ffn, vocab; /* ffn: of a dense MLP, or of one expert */
    uint32_t n_heads, n_kv_heads,
        head_dim; /* delta: value heads, key heads, of keys; Mamba-2: heads, groups */
    uint32_t n_experts, n_active; /* 0, 0: dense */
    enum norm_kind norm;
    enum act_kind act;
    enum position_kind position;
    bool causal, fused_qkv, split_up, qk_norm, tied;
    enum mixer_kind mixer;
    enum stack_kind stack;
    enum route_kind route;
    uint32_t rotary_dim; /* leading dimensions of a head that rotate; 0: all */
    uint32_t v_head_dim; /* of a value head; 0: head_dim */
    uint32_t state_dim;  /* Mamba-2: of a head's state */
    uint64_t window;     /* tokens that attention reaches back; 0: all */
    bool chunked;        /* ... not past the last multiple of `window`: it does not slide */
    uint64_t embed_dim;  /* of the token tables; 0: hidden */
    uint64_t positions;  /* rows of the position table; 0: max_seq_len */
    bool parallel; /* the MLP takes the layer's input, as the mixer does, not the mixer's output */
    bool norm_after_add; /* norm1 and norm2 follow the additions (the first transformer's order) */
    bool output_gate;    /* attention's output times a sigmoid that q's projection makes beside q */
    bool scaled; /* constant multipliers or soft caps that change no size and hardly a time */
    bool heads_unknown; /* read from shapes alone: n_heads * head_dim is right, each is a guess */
    uint32_t example;   /* a unit of this class */
};

/* Width of what attention gives to the output projection. */
static inline uint64_t unit_class_v_width(const struct unit_class *c)
{
    return (uint64_t)c->n_heads * (c->v_head_dim ? c->v_head_dim : c->head_dim);
}
static inline bool unit_class_gated(const struct unit_class *c)
{
    return c->act == ACT_SWIGLU || c->act == ACT_GEGLU;
}

struct model {
    const char *name;
    const char *arch;           /* "llama", "gpt2", "synthetic block", ... */
    struct tensor *tensors;     /* [n_tensors] */
    struct unit *units;         /* [n_units] */
    struct unit_class *classes; /* [n_classes] */
    uint32_t n_tensors, n_units, n_classes, n_layers;
    uint64_t hidden, vocab, max_seq_len; /* max_seq_len 0: any */
    bool tied;
    uint64_t total_params, matrix_params, tail_params;
    uint32_t matrix_tensors, tail_tensors;
    uint32_t also_matrices; /* roles beside MATRIX and EXPERT that are matrices, 1 << role each */
    uint64_t active_params; /* that a token meets: experts counted n_active of n_experts */
    uint64_t
        embedding_params; /* look-up tables that do no FLOPs (a tied table also works as head: then 0) */
    const char
        *quantization; /* how the checkpoint packs its weights, or NULL; shapes are those before */
    const char *notes[MODEL_NOTES]; /* what a reader left out or took for granted, one line each */
    uint32_t n_notes;
    bool names_only; /* read from names alone: no shapes, and total_params may be 0 (unknown) */
    const char *incomplete; /* what is missing to plan or simulate it, or NULL */
};
static inline bool model_has_attention(const struct model *m)
{
    for (uint32_t c = 0; c < m->n_classes; c++)
        if (m->classes[c].kind == UNIT_LAYER &&
            (m->classes[c].mixer == MIXER_ATTENTION || m->classes[c].mixer == MIXER_MLA))
            return true;
    return false;
}
/* Does it end with a product with the vocabulary or with classes, and a loss? */
static inline bool model_has_head(const struct model *m)
{
    const struct unit *u = &m->units[m->n_units - 1];
    bool has = m->tied;

    for (uint32_t i = u->first; i < u->first + u->n; i++)
        has |= m->tensors[i].slot == SLOT_HEAD && !m->tensors[i].is_bias;
    return m->classes[u->class_id].kind == UNIT_HEAD && has;
}
/* Unit of the bridge between an encoder and its decoder, or MODEL_NONE: there is one stack. O(units). */
uint32_t model_bridge(const struct model *m);
/* Does a later unit read the first one's table, as a head or for the tokens of a decoder? It then stays gathered. */
static inline bool model_shares_table(const struct model *m)
{
    return m->tied || model_bridge(m) != MODEL_NONE;
}
/* Are there relative positions, whose biases attention must add to its scores? */
static inline bool model_has_biased_scores(const struct model *m)
{
    for (uint32_t c = 0; c < m->n_classes; c++)
        if (m->classes[c].position == POSITION_RELATIVE)
            return true;
    return false;
}

/* Choices about a model that are not in its files. */
struct model_options {
    uint64_t seq_len;       /* sizes the learned positions of mlp=gelu */
    bool split_fused;       /* fused q, k, v and fused gate, up are tensors of their own */
    uint32_t also_matrices; /* 1 << role each: of embedding, position, head, router */
    bool mtp;               /* layers of multi-token prediction are taken in */
    const char *as; /* the family that a config.json is read as, whatever its model_type; or NULL */
    const char *names;  /* a file of patterns for names of tensors (docs/MODELS.md), or NULL */
    bool incomplete_ok; /* do not refuse a model with `incomplete` */
};

/* Parse the text of a config.json; `name` is for messages and becomes the model's name. */
int model_from_config(const char *text, size_t len, const char *name, struct arena *a,
                      struct model *m, struct err *e);
int model_from_config_with(const char *text, size_t len, const char *name,
                           const struct model_options *o, struct arena *a, struct model *m,
                           struct err *e);
int model_from_synthetic(const char *what, uint64_t seq_len, struct arena *a, struct model *m,
                         struct err *e);
/* Is `name` a family of config.json files? ERR_UNKNOWN, with the nearest of them and all of
 * them. */
int model_family_check(const char *name, struct err *e);
/* Bundled names, NULL-terminated, in the order to show them. */
const char *const *model_bundled_names(void);
/* The text (a config.json) of a bundled model, or NULL. Matches without case. */
const char *model_bundled_config(const char *name);

/* Which roles a matrix optimizer takes beside MATRIX and EXPERT; sets is_matrix and counts anew. */
void model_set_matrix_roles(struct model *m, uint32_t also_matrices);

/* Add a line to m->notes; further ones than MODEL_NOTES are a bug. */
void model_note(struct model *m, struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Used by readers: append tensors unit by unit, then finish (counts, classes, checks: >= 1 unit, no size beyond 2^63). */
struct model_builder {
    struct model *m;
    struct arena *a;
    struct tensor *tensors; /* owned until finish */
    struct unit *units;
    struct unit_class *classes;
    size_t n_tensors, cap_tensors, n_units, cap_units, n_classes, cap_classes;
    bool overflow;
};
void model_builder_init(struct model_builder *b, struct model *m, struct arena *a);
void model_builder_unit(struct model_builder *b, const char *name, const struct unit_class *c);
void model_builder_tensor(struct model_builder *b, const char *name, enum tensor_role role,
                          enum tensor_slot slot, bool is_bias, int32_t expert, uint32_t n_dims,
                          const uint64_t *shape);
int model_builder_finish(struct model_builder *b, struct err *e);
void model_builder_release(struct model_builder *b);

#endif
