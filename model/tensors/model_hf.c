/* Reads Hugging Face's config.json: the shapes and names that transformers' modelling code gives the checkpoint. The
 * families are in model/hf_*.c; this is the document around them: the type, the text part of a multimodal file, what a
 * quantised checkpoint says, and layers that predict further tokens.
 *
 * A quantised checkpoint packs weights; what is trained are the weights before packing, and those are counted. Layers of
 * multi-token prediction are no part of the main model: they are named and left out, or taken in by option. */
#include "core/suggest.h"
#include "model/tensors/hf.h"
#include "model/tensors/tensors.h"

#include <stdio.h>
#include <string.h>

const struct hf_family *const hf_groups[] = {hf_llama_families,
                                             hf_moe_families,
                                             hf_deepseek_families,
                                             hf_gpt_families,
                                             hf_hybrid_families,
                                             hf_encoder_families,
                                             NULL};
enum { MAX_TYPES = 96 };

/* Multimodal types: the type of the text part where it does not say one, and where its names
 * stand in the checkpoint. `flat`: files without text_config have the keys of the text part in
 * the document itself. */
static const struct {
    const char *type, *text_type, *prefix, *insert;
    bool flat;
} outers[] = {
    {"gemma3", "gemma3_text", "language_model.", NULL, false},
    {"gemma4", "gemma4_text", NULL, "language_model.", false},
    {"llama4", "llama4_text", "language_model.", NULL, false},
    {"mistral3", "mistral", "language_model.", NULL, false},
    {"llava", "llama", "language_model.", NULL, false},
    {"qwen2_vl", "qwen2_vl_text", NULL, NULL, true},
    {"qwen2_5_vl", "qwen2_5_vl_text", NULL, NULL, true},
    {"qwen3_vl", "qwen3_vl_text", NULL, "language_model.", false},
    {"qwen3_vl_moe", "qwen3_vl_moe_text", NULL, "language_model.", false},
    {"qwen3_5", "qwen3_5_text", NULL, "language_model.", false},
    {"qwen3_5_moe", "qwen3_5_moe_text", NULL, "language_model.", false},
};
enum { N_OUTERS = sizeof(outers) / sizeof(outers[0]) };

static const struct hf_family *family_of(const char *type)
{
    for (const struct hf_family *const *g = hf_groups; *g; g++)
        for (const struct hf_family *f = *g; f->type; f++)
            if (!strcmp(f->type, type))
                return f;
    return NULL;
}

/* All types, as many as are returned. */
static size_t family_names(const char *names[MAX_TYPES])
{
    size_t n = 0;

    for (const struct hf_family *const *g = hf_groups; *g; g++)
        for (const struct hf_family *f = *g; f->type; f++) {
            BUG_ON(n == MAX_TYPES);
            names[n++] = f->type;
        }
    return n;
}

int model_family_check(const char *name, struct err *e)
{
    const char *names[MAX_TYPES];
    char list[900];
    size_t n = family_names(names), len = 0;

    if (family_of(name))
        return 0;
    for (size_t i = 0; i < n; i++) {
        len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "", names[i]);
        BUG_ON(len >= sizeof(list));
    }
    return err_set(e, ERR_UNKNOWN, "'%.60s' is no family%s; there are %s", name,
                   suggest(name, names, n).s, list);
}

static int unknown_type(const struct hf *h, const char *type, struct err *e)
{
    const char *names[MAX_TYPES];
    size_t n = family_names(names);
    struct json_at at;

    if (json_get(&h->top, "model_type", &at, e))
        return -1;
    return json_err(&at, ERR_UNSUPPORTED, e,
                    "is '%.60s', which is not read%s; --as FAMILY (--as llama) reads it as a "
                    "family that has the same tensors, docs/MODELS.md lists them; else give the "
                    ".safetensors files or their index, whose headers have the shapes, or its "
                    "layers in one line, block:layers=L,hidden=H,heads=A,...",
                    type, suggest(type, names, n).s);
}

/* ---- the document ---- */

/* "vision_config, audio_config": parts of the document beside the text part, or "" */
static const char *other_parts(const struct hf *h, const struct json_at *document)
{
    const char *parts = "";
    struct json_at it;
    struct err e;

    for (bool ok = json_first(document, &it); ok; ok = json_next(&it)) {
        const char *key = json_key(&it), *end = strstr(key, "_config");

        if (!end || strcmp(end, "_config") != 0 || json_is_object(&it, &e) ||
            !strcmp(key, "text_config") || !strcmp(key, "quantization_config") ||
            !strcmp(key, "generation_config"))
            continue;
        parts = arena_printf(h->a, "%s%s%.40s", parts, *parts ? ", " : "", key);
    }
    return parts;
}

/* Steps into text_config, where there is one. */
static int text_part(struct hf *h, const char *type, const char **text_type, struct err *e)
{
    struct json_at document = h->top, text;
    bool nested = json_opt(&h->top, "text_config", &text);
    const char *parts;
    size_t i = 0;

    while (i < N_OUTERS && strcmp(outers[i].type, type) != 0)
        i++;
    if (!nested && (i == N_OUTERS || !outers[i].flat))
        return 0;
    *text_type = i < N_OUTERS ? outers[i].text_type : NULL;
    h->prefix = i < N_OUTERS ? outers[i].prefix : NULL;
    h->insert = i < N_OUTERS ? outers[i].insert : NULL;
    if (nested) {
        if (json_is_object(&text, e))
            return -1;
        h->outer = h->top;
        h->top = text;
        if (!h->opt->as && (json_opt(&h->top, "model_type", &text) || !*text_type) &&
            json_str(&h->top, "model_type", text_type, e))
            return -1;
    }
    parts = other_parts(h, &document);
    model_note(h->m, h->a, "the text part%s of a %.40s model; %s left out",
               nested ? " (text_config)" : "", type, *parts ? parts : "other parts are");
    return 0;
}

/* The family that model_type names, or --as. */
static int read_type(struct hf *h, struct err *e)
{
    const char *type = "", *outer, *as = h->opt->as;
    struct json_at at;

    if (json_is_object(&h->top, e) || (as ? json_str_or(&h->top, "model_type", "", &type, e)
                                          : json_str(&h->top, "model_type", &type, e)))
        return -1;
    outer = type;
    if (text_part(h, outer, &type, e))
        return -1;
    for (size_t i = 0; i < N_OUTERS && !h->outer.node && !as; i++)
        if (!strcmp(outers[i].type, type) && !json_get(&h->top, "model_type", &at, e))
            return json_err(&at, ERR_PARSE, e,
                            "is '%s', a multimodal type, but there is no text_config", type);
    if (as && model_family_check(as, e))
        return err_prefix(e, "'%.300s': --as", h->top.file);
    h->fam = family_of(as ? as : type);
    if (!h->fam)
        return unknown_type(h, type, e);
    if (as && (!type || strcmp(as, type) != 0))
        model_note(h->m, h->a, "read as %s, as --as says: its model_type is '%.60s'%s", as,
                   *outer ? outer : "(none)",
                   type && family_of(type) ? ", which is a family of its own" : "");
    h->m->arch = h->fam->type;
    h->names = h->fam->names;
    return 0;
}

/* quantization_config: how the checkpoint stores what is trained. */
static int quantisation(struct hf *h, struct err *e)
{
    struct json_at at;
    const char *method;

    if (!json_opt(&h->top, "quantization_config", &at) &&
        !(h->outer.node && json_opt(&h->outer, "quantization_config", &at)))
        return 0;
    if (json_is_object(&at, e) || json_str_or(&at, "quant_method", "an unnamed method", &method, e))
        return -1;
    h->m->quantization = arena_strdup(h->a, method);
    model_note(h->m, h->a,
               "the checkpoint is quantised (%.40s): counted are the weights before packing",
               method);
    return 0;
}

static int predicted_tokens(struct hf *h, struct err *e)
{
    uint64_t n;

    if (hf_size_or(h, "num_nextn_predict_layers|mtp_num_hidden_layers|num_mtp_modules", 0, 1024,
                   h->fam->mtp, &n, e))
        return -1;
    if (h->opt->mtp && (!n || !h->names->mtp[0]))
        return json_err(&h->top, ERR_INVALID, e,
                        n ? "has layers of multi-token prediction that are not described for %s"
                          : "has no layers of multi-token prediction (%s)",
                        h->fam->type);
    h->mtp = h->opt->mtp ? n : 0;
    if (h->mtp &&
        hf_refuse(h, "mtp_use_dedicated_embeddings",
                  "gives the predicting layers tables of their own, which are not read", e))
        return -1;
    if (h->mtp)
        model_note(
            h->m, h->a,
            "%llu layer%s of multi-token prediction taken in, with embedding and head of the "
            "model; of their work the products with weights are counted",
            (unsigned long long)n, n == 1 ? "" : "s");
    else if (n)
        model_note(h->m, h->a,
                   "%llu layer%s of multi-token prediction left out: the main model is counted",
                   (unsigned long long)n, n == 1 ? "" : "s");
    return 0;
}

static int refused(struct hf *h, struct err *e)
{
    static const struct {
        const char *key, *why;
    } keys[] = {
        {"pruned_heads", "removes heads; only whole layers are read"},
        {"add_cross_attention", "adds cross attention to an encoder that is not described here"},
        {"is_encoder_decoder", "adds an encoder that this type is not known to have"},
    };
    const char *const *own = h->fam->refused;

    bool encoder = h->fam->traits & HF_ENCODER;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) - encoder; i++)
        if (hf_refuse(h, keys[i].key, keys[i].why, e))
            return -1;
    if (!encoder && hf_must_be(h, "is_causal", true, "which lets tokens see later ones", e))
        return -1;
    for (; own && *own; own++)
        if (hf_refuse(h, *own, "changes the layers in a way that is not read for this type", e))
            return -1;
    return quantisation(h, e) || predicted_tokens(h, e) ? -1 : 0;
}

/* A class that puts another head on the same layers, which is not described: said, for the file has it by this one word. */
static void other_head(struct hf *h)
{
    struct json_at list, name;
    const char *s;

    if (!json_opt(&h->top, "architectures", &list) || !json_first(&list, &name) ||
        !cJSON_IsString(name.node))
        return;
    s = name.node->valuestring;
    if (!h->scores && (strstr(s, "Classification") || strstr(s, "QuestionAnswering") ||
                       strstr(s, "MultipleChoice") || strstr(s, "RewardModel")))
        model_note(h->m, h->a, "architectures has %.60s: counted with the head of a language model",
                   s);
}

static int read_model(struct hf *h, struct err *e)
{
    if (read_type(h, e) || refused(h, e) || h->fam->read(h, e))
        return -1;
    other_head(h);
    hf_note_unused(h);
    h->m->n_layers = (uint32_t)(h->layers + h->mtp);
    h->m->hidden = h->hidden;
    h->m->vocab = h->vocab;
    h->m->tied = h->tied;
    hf_build(h);
    if (model_builder_finish(&h->b, e))
        return err_prefix(e, "'%s'", h->top.file);
    return 0;
}

int model_from_config_tree(const struct json_at *top, const struct model_options *o,
                           struct arena *a, struct model *m, struct err *e)
{
    struct hf_looked looked = {.n = 0};
    struct hf h = {.m = m, .a = a, .opt = o, .top = *top, .looked = &looked};
    int rc;

    memset(m, 0, sizeof(*m));
    m->name = arena_strdup(a, top->file);
    model_builder_init(&h.b, m, a);
    rc = read_model(&h, e);
    model_builder_release(&h.b);
    return rc;
}

int model_from_config_with(const char *text, size_t len, const char *name,
                           const struct model_options *o, struct arena *a, struct model *m,
                           struct err *e)
{
    struct json_at top;
    struct json j;
    int rc;

    if (json_parse_foreign(&j, name, text, len, e))
        return -1;
    top = json_top(&j);
    rc = model_from_config_tree(&top, o, a, m, e);
    json_release(&j);
    return rc;
}

int model_from_config(const char *text, size_t len, const char *name, struct arena *a,
                      struct model *m, struct err *e)
{
    const struct model_options none = {0};

    return model_from_config_with(text, len, name, &none, a, m, e);
}
