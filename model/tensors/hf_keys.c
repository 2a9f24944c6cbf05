/* Keys of a config.json: alternatives, defaults, and refusals that name file and key. */
#include "model/tensors/hf.h"

#include "core/suggest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Remembers that a member of the document was asked for. */
static void look(const struct hf *h, const cJSON *node)
{
    struct hf_looked *l = h->looked;

    for (size_t i = 0; i < l->n; i++)
        if (l->at[i] == node)
            return;
    BUG_ON(l->n == HF_MAX_LOOKED);
    l->at[l->n++] = node;
}

/* The first alternative of "a|b" that is there (and not null); else false, with `first` the first one. */
static bool find(const struct hf *h, const char *key, struct json_at *at, char first[64])
{
    char name[64];
    size_t n;

    first[0] = 0;
    for (const char *p = key; *p; p += n + (p[n] == '|')) {
        n = strcspn(p, "|");
        snprintf(name, sizeof(name), "%.*s", (int)n, p);
        if (!*first)
            memcpy(first, name, sizeof(name));
        if (json_opt(&h->top, name, at)) {
            look(h, at->node);
            return true;
        }
    }
    return false;
}

bool hf_has(const struct hf *h, const char *key, struct json_at *at)
{
    char first[64];

    return find(h, key, at, first);
}

bool hf_looked_at(const struct hf *h, const struct json_at *member)
{
    for (size_t i = 0; i < h->looked->n; i++)
        if (h->looked->at[i] == member->node)
            return true;
    return false;
}

int hf_size(const struct hf *h, const char *key, uint64_t max, uint64_t *out, struct err *e)
{
    struct json_at at;
    char first[64];

    if (!find(h, key, &at, first))
        return json_get(&h->top, first, &at, e); /* says that it is missing */
    return json_as_u64(&at, 1, max, out, e);
}

int hf_size_or(const struct hf *h, const char *key, uint64_t lo, uint64_t max, uint64_t dflt,
               uint64_t *out, struct err *e)
{
    struct json_at at;

    *out = dflt;
    return hf_has(h, key, &at) ? json_as_u64(&at, lo, max, out, e) : 0;
}

int hf_flag_or(const struct hf *h, const char *key, bool dflt, bool *out, struct err *e)
{
    struct json_at at;

    *out = dflt;
    return hf_has(h, key, &at) ? json_as_bool(&at, out, e) : 0;
}

int hf_refuse(const struct hf *h, const char *key, const char *why, struct err *e)
{
    struct json_at at, it;
    struct err ignored;
    uint64_t n;
    bool yes;

    if (!hf_has(h, key, &at))
        return 0;
    if (!json_as_bool(&at, &yes, &ignored) && !yes)
        return 0;
    if (!json_as_u64(&at, 0, UINT64_MAX, &n, &ignored) && !n)
        return 0;
    if ((!json_is_object(&at, &ignored) || !json_is_array(&at, NULL, &ignored)) &&
        !json_first(&at, &it))
        return 0;
    return json_err(&at, ERR_UNSUPPORTED, e, "%s", why);
}

int hf_must_be(const struct hf *h, const char *key, bool want, const char *why, struct err *e)
{
    struct json_at at;
    bool is = want;

    if (!hf_has(h, key, &at))
        return 0;
    if (json_as_bool(&at, &is, e))
        return -1;
    if (is == want)
        return 0;
    return json_err(&at, ERR_UNSUPPORTED, e, "is %s, %s; only %s is read", is ? "true" : "false",
                    why, want ? "true" : "false");
}

int hf_must_be_text(const struct json_at *at, const char *key, const char *const *known,
                    struct err *e)
{
    struct json_at m;
    const char *s;

    if (!json_opt(at, key, &m))
        return 0;
    if (json_as_str(&m, &s, e))
        return -1;
    for (size_t i = 0; known[i]; i++)
        if (!strcmp(s, known[i]))
            return 0;
    return json_err(&m, ERR_UNSUPPORTED, e, "is '%.40s', and only '%s' is read for this type", s,
                    known[0]);
}

int hf_act(const struct hf *h, const char *key, const char *dflt, const enum act_kind *known,
           size_t n_known, enum act_kind *out, struct err *e)
{
    static const struct {
        const char *name;
        enum act_kind gated, plain;
    } acts[] = {
        {"silu", ACT_SWIGLU, ACT_SWIGLU},  {"swish", ACT_SWIGLU, ACT_SWIGLU},
        {"gelu", ACT_GEGLU, ACT_GELU},     {"gelu_pytorch_tanh", ACT_GEGLU, ACT_GELU},
        {"gelu_new", ACT_GEGLU, ACT_GELU}, {"gelu_fast", ACT_GEGLU, ACT_GELU},
        {"relu", ACT_RELU, ACT_RELU},      {"relu2", ACT_RELU2, ACT_RELU2},
    };
    struct json_at at;
    const char *s = dflt, *first = NULL;
    bool there = hf_has(h, key, &at);

    if (there && json_as_str(&at, &s, e))
        return -1;
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
        for (size_t k = 0; k < n_known; k++) {
            if (known[k] != acts[i].gated && known[k] != acts[i].plain)
                continue;
            if (!first)
                first = acts[i].name;
            if (!strcmp(s, acts[i].name)) {
                *out = known[k];
                return 0;
            }
        }
    BUG_ON(!there);
    return json_err(&at, ERR_UNSUPPORTED, e, "is '%.60s', and only '%s' is known for this type", s,
                    first);
}

static int required_or(const struct hf *h, const char *key, uint64_t max, uint64_t dflt,
                       uint64_t *out, struct err *e)
{
    return dflt ? hf_size_or(h, key, 1, max, dflt, out, e) : hf_size(h, key, max, out, e);
}

int hf_common(struct hf *h, const char *layers, const char *hidden, struct err *e)
{
    if (hf_size(h, layers, HF_MAX_LAYERS, &h->layers, e) ||
        hf_size(h, hidden, HF_MAX_WIDTH, &h->hidden, e) ||
        required_or(h, "vocab_size", HF_MAX_VOCAB, h->fam->vocab, &h->vocab, e))
        return -1;
    h->kind_of = ARENA_NEW(h->a, uint8_t, h->layers);
    return 0;
}

bool hf_written(const struct hf *h, const char *key)
{
    struct json_at it;
    bool ok, there = false;

    for (ok = json_first(&h->top, &it); ok && !there; ok = json_next(&it))
        there = !strcmp(json_key(&it), key);
    return there;
}

int hf_heads(struct hf *h, struct unit_class *c, const char *heads, const char *kv,
             uint32_t kv_dflt, uint32_t dim_dflt, struct err *e)
{
    uint64_t n, n_kv, dim;
    struct json_at at;
    char heads_key[64];

    if (required_or(h, heads, HF_MAX_HEADS, h->fam->heads, &n, e))
        return -1;
    find(h, heads, &at, heads_key);
    n_kv = n;
    if (kv && hf_has(h, kv, &at)) {
        if (json_as_u64(&at, 1, HF_MAX_HEADS, &n_kv, e))
            return -1;
        if (n % n_kv)
            return json_err(&at, ERR_INVALID, e, "is %llu, expected a divisor of %s = %llu",
                            (unsigned long long)n_kv, heads_key, (unsigned long long)n);
    } else if (kv && kv_dflt && !hf_written(h, kv)) { /* null means as many as heads */
        n_kv = kv_dflt;
        if (n % n_kv)
            return json_err(&h->top, ERR_INVALID, e,
                            "has no %s, and the %u of %s do not divide %s = %llu", kv, kv_dflt,
                            h->fam->type, heads_key, (unsigned long long)n);
    }
    dim = 0;
    if (dim_dflt != HF_DIM_EVEN && hf_size_or(h, "head_dim", 1, HF_MAX_HEADS, dim_dflt, &dim, e))
        return -1;
    if (!dim) {
        if (h->hidden % n) {
            hf_has(h, "hidden_size|n_embd|n_embed|d_model", &at);
            return json_err(&at, ERR_INVALID, e, "is %llu, not divisible by %s = %llu%s",
                            (unsigned long long)h->hidden, heads_key, (unsigned long long)n,
                            dim_dflt == HF_DIM_EVEN ? "" : ", and there is no head_dim");
        }
        dim = h->hidden / n;
    }
    c->n_heads = (uint32_t)n;
    c->n_kv_heads = (uint32_t)n_kv;
    c->head_dim = (uint32_t)dim;
    return 0;
}

int hf_rotary(const struct hf *h, struct unit_class *c, double dflt, struct err *e)
{
    struct json_at at, rope;
    double share = dflt > 0 ? dflt : 1;
    bool there = hf_has(h, "partial_rotary_factor|rotary_pct", &at);

    if (!there && json_opt(&h->top, "rope_parameters", &rope))
        there = json_opt(&rope, "partial_rotary_factor", &at);
    if (there && json_as_double(&at, 0, 1, &share, e))
        return -1;
    c->rotary_dim = (uint32_t)(share * c->head_dim) / 2 * 2;
    if (c->rotary_dim == c->head_dim)
        c->rotary_dim = 0;
    else if (!c->rotary_dim)
        c->position = POSITION_NONE;
    return 0;
}

int hf_experts(struct hf *h, struct unit_class *c, const char *n, uint64_t n_min, uint64_t n_dflt,
               const char *active, uint64_t active_dflt, struct err *e)
{
    uint64_t experts, met = 0;
    struct json_at at;
    char n_key[64], active_key[64];

    if (n_min && !n_dflt ? hf_size(h, n, HF_MAX_EXPERTS, &experts, e)
                         : hf_size_or(h, n, n_min, HF_MAX_EXPERTS, n_dflt, &experts, e))
        return -1;
    if (experts && required_or(h, active, HF_MAX_EXPERTS, active_dflt, &met, e))
        return -1;
    find(h, n, &at, n_key);
    find(h, active, &at, active_key);
    if (met > experts)
        return json_err(&h->top, ERR_INVALID, e, "has %s = %llu of %s = %llu", active_key,
                        (unsigned long long)met, n_key, (unsigned long long)experts);
    c->n_experts = (uint32_t)experts;
    c->n_active = (uint32_t)met;
    return 0;
}

int hf_tied(struct hf *h, bool dflt, struct err *e)
{
    struct json_at at;

    h->tied = dflt;
    if (json_opt(&h->top, "tie_word_embeddings", &at) ||
        (h->outer.node && json_opt(&h->outer, "tie_word_embeddings", &at)))
        return json_as_bool(&at, &h->tied, e);
    return 0;
}

int hf_per_layer(const struct hf *h, const struct json_at *list, struct err *e)
{
    size_t n;

    if (json_is_array(list, &n, e))
        return -1;
    if (n != h->layers)
        return json_err(list, ERR_INVALID, e, "has %zu entries for %llu layers", n,
                        (unsigned long long)h->layers);
    return 0;
}

static int layer_types(struct hf *h, const struct json_at *list, bool *local, struct err *e)
{
    struct json_at it;
    const char *s;
    size_t n;

    if (json_is_array(list, &n, e))
        return -1;
    if (n < h->layers)
        return json_err(list, ERR_INVALID, e, "has %zu entries for %llu layers", n,
                        (unsigned long long)h->layers);
    for (bool ok = json_first(list, &it); ok && it.index < h->layers; ok = json_next(&it)) {
        if (json_as_str(&it, &s, e))
            return -1;
        local[it.index] = !strcmp(s, "sliding_attention");
        if (!local[it.index] && strcmp(s, "full_attention") != 0)
            return json_err(&it, ERR_UNSUPPORTED, e,
                            "is '%.60s', expected full_attention or sliding_attention", s);
    }
    return 0;
}

int hf_windows(struct hf *h, uint64_t *window, bool *local, struct err *e)
{
    const struct hf_family *f = h->fam;
    uint64_t every = f->full_every, from = 0;
    struct json_at at;
    bool use = true;

    *window = f->window;
    if (hf_written(h, "sliding_window"))
        *window = 0; /* null: all */
    if (hf_size_or(h, "sliding_window", 0, HF_MAX_VOCAB, *window, window, e))
        return -1;
    if ((f->traits & HF_WINDOW_FLAG) &&
        (hf_flag_or(h, "use_sliding_window", false, &use, e) ||
         hf_size_or(h, "max_window_layers", 0, HF_MAX_LAYERS, 28, &from, e)))
        return -1;
    if (!use || !*window) {
        *window = 0;
        return 0;
    }
    if (hf_has(h, "layer_types", &at))
        return layer_types(h, &at, local, e);
    if (every && hf_size_or(h, "sliding_window_pattern", 1, HF_MAX_LAYERS, every, &every, e))
        return -1;
    for (uint64_t i = 0; i < h->layers; i++)
        local[i] = i >= from && (!every || (i + 1) % every != 0);
    return 0;
}

int hf_check_count(struct hf *h, const char *layers, struct err *e)
{
    struct json_at at;
    uint64_t experts = 0, n;

    for (uint32_t k = 0; k < h->n_kinds; k++)
        if (h->kinds[k].c.n_experts > experts)
            experts = h->kinds[k].c.n_experts;
    n = h->layers * (24 + 6 * experts); /* < 2^36 */
    if (n <= HF_MAX_TENSORS)
        return 0;
    if (!hf_has(h, layers, &at))
        at = h->top;
    return json_err(&at, ERR_INVALID, e,
                    "is %llu: with %llu experts a layer the model has more than %d tensors",
                    (unsigned long long)h->layers, (unsigned long long)experts, HF_MAX_TENSORS);
}
