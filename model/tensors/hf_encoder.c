/* Encoders, and encoders with a decoder.
 *
 * BERT and RoBERTa: layers that see all tokens, norms behind the additions, biases everywhere, learned positions and a table of the
 * parts of a text. What stands on them `architectures` says: the words of the text (BertForMaskedLM, also where there is no such
 * key), those and the question whether its second part follows the first (BertForPreTraining), a pooler alone (BertModel), classes
 * on the pooler (BertForSequenceClassification). T5: a stack of each kind, norms without biases before mixers and MLPs, relative
 * positions in one layer of a stack (mT5, too; UMT5: in each), no biases, tokens of both stacks in one table.
 *
 * Sources: the config and modelling classes of transformers; arXiv 1810.04805, 1907.11692, 1910.10683. */
#include "model/tensors/hf.h"

#include <string.h>

/* ---- names ---- */

#define BERT_OF(prefix)                                                                            \
    [SLOT_TOKEN_EMBEDDING] = prefix "embeddings.word_embeddings",                                  \
    [SLOT_POSITION] = prefix "embeddings.position_embeddings",                                     \
    [SLOT_TOKEN_TYPE] = prefix "embeddings.token_type_embeddings",                                 \
    [SLOT_EMBED_NORM] = prefix "embeddings.LayerNorm", [SLOT_Q] = "attention.self.query",          \
    [SLOT_K] = "attention.self.key", [SLOT_V] = "attention.self.value",                            \
    [SLOT_O] = "attention.output.dense", [SLOT_NORM1] = "attention.output.LayerNorm",              \
    [SLOT_UP] = "intermediate.dense", [SLOT_DOWN] = "output.dense",                                \
    [SLOT_NORM2] = "output.LayerNorm"
#define BERT_POOLED(prefix) BERT_OF(prefix), [SLOT_POOLER] = prefix "pooler.dense"
#define BERT_WORDS                                                                                 \
    [SLOT_TRANSFORM] = "cls.predictions.transform.dense",                                          \
    [SLOT_TRANSFORM_NORM] = "cls.predictions.transform.LayerNorm",                                 \
    [SLOT_NEXT] = "cls.seq_relationship"
#define ROBERTA_WORDS                                                                              \
    [SLOT_TRANSFORM] = "lm_head.dense", [SLOT_TRANSFORM_NORM] = "lm_head.layer_norm"

/* A tied head has a bias alone, which stands beside where its weight would be. */
static const struct hf_names bert_names = {
    .layers = "bert.encoder.layer",
    .of = {BERT_POOLED("bert."), BERT_WORDS, [SLOT_HEAD] = "cls.predictions"},
};
static const struct hf_names bert_untied = {
    .layers = "bert.encoder.layer",
    .of = {BERT_POOLED("bert."), BERT_WORDS, [SLOT_HEAD] = "cls.predictions.decoder"},
};
static const struct hf_names bert_classes = {
    .layers = "bert.encoder.layer",
    .of = {BERT_POOLED("bert."), [SLOT_HEAD] = "classifier"},
};
/* and for lists of tensors, whose names may have more before these */
static const struct hf_names bert_bare = {
    .layers = "encoder.layer",
    .of = {BERT_POOLED(""), BERT_WORDS, [SLOT_HEAD] = "cls.predictions"},
    .also = &bert_classes,
};
static const struct hf_names roberta_names = {
    .layers = "roberta.encoder.layer",
    .of = {BERT_OF("roberta."), ROBERTA_WORDS, [SLOT_HEAD] = "lm_head"},
};
static const struct hf_names roberta_untied = {
    .layers = "roberta.encoder.layer",
    .of = {BERT_OF("roberta."), ROBERTA_WORDS, [SLOT_HEAD] = "lm_head.decoder"},
};
/* its classes stand on a layer of their own, as wide as the pooler and with its tanh */
static const struct hf_names roberta_classes = {
    .layers = "roberta.encoder.layer",
    .of = {BERT_OF("roberta."), [SLOT_POOLER] = "classifier.dense",
           [SLOT_HEAD] = "classifier.out_proj"},
};
static const struct hf_names roberta_bare = {
    .layers = "encoder.layer",
    .of = {BERT_POOLED(""), ROBERTA_WORDS, [SLOT_HEAD] = "lm_head"},
    .also = &roberta_classes,
};
#define T5_ATTENTION(layer)                                                                        \
    [SLOT_Q] = layer "SelfAttention.q", [SLOT_K] = layer "SelfAttention.k",                        \
    [SLOT_V] = layer "SelfAttention.v", [SLOT_O] = layer "SelfAttention.o",                        \
    [SLOT_RELATIVE] = layer "SelfAttention.relative_attention_bias"
#define T5_MLP(layer) [SLOT_NORM2] = layer "layer_norm", [SLOT_DOWN] = layer "DenseReluDense.wo"
#define T5_OF                                                                                      \
    [SLOT_TOKEN_EMBEDDING] = "shared", [SLOT_ENCODER_NORM] = "encoder.final_layer_norm",           \
    [SLOT_FINAL_NORM] = "decoder.final_layer_norm", [SLOT_HEAD] = "lm_head",                       \
    [SLOT_NORM1] = "layer.0.layer_norm", T5_ATTENTION("layer.0."), T5_MLP("layer.1.")
#define T5_DECODER                                                                                 \
    [SLOT_CROSS_NORM] = "layer.1.layer_norm", [SLOT_CROSS_Q] = "layer.1.EncDecAttention.q",        \
    [SLOT_CROSS_K] = "layer.1.EncDecAttention.k", [SLOT_CROSS_V] = "layer.1.EncDecAttention.v",    \
    [SLOT_CROSS_O] = "layer.1.EncDecAttention.o", T5_MLP("layer.2.")

static const struct hf_names t5_decoder = {
    .of = {T5_DECODER, [SLOT_UP] = "layer.2.DenseReluDense.wi"},
};
static const struct hf_names t5_gated_decoder = {
    .of = {T5_DECODER, [SLOT_GATE] = "layer.2.DenseReluDense.wi_0",
           [SLOT_UP] = "layer.2.DenseReluDense.wi_1"},
};
static const struct hf_names t5_names = {
    .layers = "encoder.block",
    .decoder_layers = "decoder.block",
    .of = {T5_OF, [SLOT_UP] = "layer.1.DenseReluDense.wi"},
    .also = &t5_decoder,
};
static const struct hf_names t5_gated = {
    .layers = "encoder.block",
    .decoder_layers = "decoder.block",
    .of = {T5_OF, [SLOT_GATE] = "layer.1.DenseReluDense.wi_0",
           [SLOT_UP] = "layer.1.DenseReluDense.wi_1"},
    .also = &t5_gated_decoder,
};

/* ---- BERT ---- */

static bool is_roberta(const struct hf *h)
{
    return h->fam->names == &roberta_bare;
}

/* The first of `architectures` without the maker's name before "For" or "Model"; "" where there is none. */
static const char *built_as(const struct hf *h)
{
    struct json_at list, name;
    const char *s;

    if (!json_opt(&h->top, "architectures", &list) || !json_first(&list, &name) ||
        !cJSON_IsString(name.node))
        return "";
    s = strstr(name.node->valuestring, "For");
    return s ? s : strstr(name.node->valuestring, "Model") ? "Model" : "";
}

/* Classes: num_labels, else as many as id2label names, else two. */
static int classes(struct hf *h, uint64_t *n, struct err *e)
{
    struct json_at labels, it;
    uint64_t named = 0;

    if (hf_has(h, "id2label", &labels)) {
        if (json_is_object(&labels, e))
            return -1;
        for (bool ok = json_first(&labels, &it); ok; ok = json_next(&it))
            named++;
    }
    return hf_size_or(h, "num_labels", 1, HF_MAX_VOCAB, named ? named : 2, n, e);
}

/* What stands on the layers, and what it is called. */
static int bert_ends(struct hf *h, struct err *e)
{
    bool roberta = is_roberta(h);
    const char *as = built_as(h);

    if (!strcmp(as, "ForSequenceClassification")) {
        h->names = roberta ? &roberta_classes : &bert_classes;
        h->pooler = h->head_bias = true;
        h->tied = false;
        return classes(h, &h->scores, e);
    }
    if (!strcmp(as, "Model")) {
        h->names = &bert_bare;
        h->pooler = h->no_head = true;
        h->tied = false;
        model_note(h->m, h->a, "a pooler and no head: what makes the loss is left out");
        return 0;
    }
    h->transform = h->head_bias = true;
    h->pooler = h->next = !roberta && !strcmp(as, "ForPreTraining");
    if (roberta)
        h->names = h->tied ? &roberta_names : &roberta_untied;
    else
        h->names = h->tied ? &bert_names : &bert_untied;
    return 0;
}

/* RoBERTa counts positions from the row behind that of padding. */
static int bert_positions(struct hf *h, struct err *e)
{
    static const char *const kinds[] = {"absolute", NULL};
    uint64_t rows, padding = 0;
    struct json_at at;

    if (hf_must_be_text(&h->top, "position_embedding_type", kinds, e) ||
        hf_size_or(h, "max_position_embeddings", 1, HF_MAX_VOCAB, 512, &rows, e) ||
        (is_roberta(h) && hf_size_or(h, "pad_token_id", 0, HF_MAX_VOCAB, 1, &padding, e)))
        return -1;
    if (is_roberta(h))
        padding++;
    if (padding >= rows) {
        if (!hf_has(h, "max_position_embeddings", &at))
            at = h->top;
        return json_err(&at, ERR_INVALID, e, "is %llu, expected more than pad_token_id + 1 = %llu",
                        (unsigned long long)rows, (unsigned long long)padding);
    }
    h->m->max_seq_len = rows - padding;
    h->positions = rows;
    return 0;
}

static int read_bert(struct hf *h, struct err *e)
{
    static const enum act_kind acts[] = {ACT_GELU, ACT_RELU};
    struct hf_layer l = {0};

    h->norm = l.c.norm = NORM_LAYER;
    h->norm_bias = l.norm_bias = true;
    h->embed_norm = h->no_final_norm = true;
    l.norm1 = l.norm2 = l.qkv_bias = l.o_bias = l.mlp_bias = true;
    l.c.kind = UNIT_LAYER;
    l.c.position = POSITION_LEARNED;
    l.c.norm_after_add = true;
    if (hf_common(h, "num_hidden_layers", "hidden_size", e) ||
        hf_heads(h, &l.c, "num_attention_heads", NULL, 0, HF_DIM_EVEN, e) ||
        hf_size(h, "intermediate_size", HF_MAX_WIDTH, &l.c.ffn, e) ||
        hf_act(h, "hidden_act", "gelu", acts, 2, &l.c.act, e) ||
        hf_size_or(h, "type_vocab_size", 0, HF_MAX_VOCAB, 2, &h->token_types, e) ||
        bert_positions(h, e) || hf_tied(h, true, e) || bert_ends(h, e))
        return -1;
    l.c.hidden = h->hidden;
    l.c.tied = h->tied;
    return hf_add_kinds(h, &l, NULL, NULL, e) || hf_check_count(h, "num_hidden_layers", e) ? -1 : 0;
}

/* ---- T5 ---- */

/* "relu", "gated-gelu": what the MLP has between its products. T5's gated-gelu is the approximation by tanh. */
static int t5_mlp(struct hf *h, struct hf_layer *l, struct err *e)
{
    static const struct {
        const char *name;
        enum act_kind act;
    } known[] = {{"relu", ACT_RELU},
                 {"gelu", ACT_GELU},
                 {"gelu_new", ACT_GELU},
                 {"gated-gelu", ACT_GEGLU},
                 {"gated-silu", ACT_SWIGLU}};
    const char *s;
    struct json_at at;

    if (json_str_or(&h->top, "feed_forward_proj", h->names == &t5_gated ? "gated-gelu" : "relu", &s,
                    e))
        return -1;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcmp(s, known[i].name)) {
            l->c.act = known[i].act;
            return 0;
        }
    if (json_get(&h->top, "feed_forward_proj", &at, e))
        return -1;
    return json_err(&at, ERR_UNSUPPORTED, e,
                    "is '%.40s', expected relu, gelu, gated-gelu or gated-silu", s);
}

/* The layers of one stack: those that make the biases, and those that take them. */
static void t5_stack(struct hf *h, const struct hf_layer *like, enum stack_kind stack,
                     uint64_t buckets, struct hf_layer of[2])
{
    static const char *const names[2][2] = {{"encoder-first", "encoder-layer"},
                                            {"decoder-first", "decoder-layer"}};
    bool decoder = stack == STACK_DECODER, own = h->fam->traits & HF_OWN_BIAS;

    for (int k = 0; k < 2; k++) {
        of[k] = *like;
        of[k].c.stack = stack;
        of[k].c.name = names[decoder][k];
        of[k].c.causal = of[k].cross = decoder;
        of[k].relative = own || k == 0 ? buckets : 0;
        if (decoder)
            of[k].names = h->names->also;
    }
}

static int read_t5(struct hf *h, struct err *e)
{
    struct json_at list, name;
    struct hf_layer l = {0}, of[4];
    uint64_t decoder, buckets, dim, heads;
    uint8_t *which;

    if (hf_has(h, "architectures", &list) && json_first(&list, &name) &&
        cJSON_IsString(name.node) && strstr(name.node->valuestring, "EncoderModel"))
        return json_err(&name, ERR_UNSUPPORTED, e,
                        "is '%.40s', an encoder alone; expected an encoder and a decoder",
                        name.node->valuestring);
    l.c.kind = UNIT_LAYER;
    l.c.position = POSITION_RELATIVE;
    l.norm1 = l.norm2 = true;
    if (hf_must_be(h, "is_encoder_decoder", true, "an encoder or a decoder alone", e) ||
        hf_common(h, "num_layers|num_hidden_layers", "d_model|hidden_size", e) ||
        hf_size_or(h, "num_decoder_layers", 1, HF_MAX_LAYERS, h->layers, &decoder, e) ||
        hf_size(h, "d_kv", HF_MAX_HEADS, &dim, e) ||
        hf_size(h, "d_ff", HF_MAX_WIDTH, &l.c.ffn, e) ||
        hf_size_or(h, "relative_attention_num_buckets", 1, HF_MAX_VOCAB, 32, &buckets, e) ||
        hf_size(h, "num_heads|num_attention_heads", HF_MAX_HEADS, &heads, e) || t5_mlp(h, &l, e) ||
        hf_tied(h, h->fam->traits & HF_TIED, e))
        return -1;
    l.c.n_heads = l.c.n_kv_heads = (uint32_t)heads;
    l.c.head_dim = (uint32_t)dim;
    l.c.hidden = h->hidden;
    l.c.tied = h->tied;
    h->names = unit_class_gated(&l.c) ? &t5_gated : &t5_names;
    h->encoder_layers = h->layers;
    h->layers += decoder;
    h->kind_of = ARENA_NEW(h->a, uint8_t, h->layers);
    which = ARENA_NEW(h->a, uint8_t, h->layers);
    t5_stack(h, &l, STACK_ENCODER, buckets, of);
    t5_stack(h, &l, STACK_DECODER, buckets, of + 2);
    for (uint64_t i = 0; i < h->layers; i++) {
        bool first = i == 0 || i == h->encoder_layers;

        which[i] =
            (uint8_t)(2 * (i >= h->encoder_layers) + !(first && !(h->fam->traits & HF_OWN_BIAS)));
    }
    hf_assign(h, of, which);
    return hf_check_count(h, "num_layers|num_hidden_layers", e);
}

static const char *const bert_refused[] = {"is_decoder", NULL};

const struct hf_family hf_encoder_families[] = {
    {.type = "bert",
     .names = &bert_bare,
     .read = read_bert,
     .traits = HF_ENCODER,
     .vocab = 30522,
     .refused = bert_refused},
    {.type = "roberta",
     .names = &roberta_bare,
     .read = read_bert,
     .traits = HF_ENCODER,
     .vocab = 50265,
     .refused = bert_refused},
    {.type = "xlm-roberta",
     .names = &roberta_bare,
     .read = read_bert,
     .traits = HF_ENCODER,
     .refused = bert_refused},
    {.type = "camembert",
     .names = &roberta_bare,
     .read = read_bert,
     .traits = HF_ENCODER,
     .refused = bert_refused},
    {.type = "t5", .names = &t5_names, .read = read_t5, .traits = HF_ENCODER | HF_TIED},
    {.type = "mt5", .names = &t5_gated, .read = read_t5, .traits = HF_ENCODER},
    {.type = "umt5",
     .names = &t5_gated,
     .read = read_t5,
     .traits = HF_ENCODER | HF_OWN_BIAS | HF_TIED},
    {.type = NULL},
};
