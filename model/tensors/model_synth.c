/* The one-line form block:key=value,...: three blocks that papers and benchmarks measure.
 *
 *   mlp=split-up  the block of MatrixFSDP's benchmark (arXiv 2607.05895): q, k, v, proj, up0, up1, down without
 *                 biases, LayerNorm with bias, GELU, not causal, no positions
 *   mlp=gelu      GPT-2 as Megatron-LM builds it (arXiv 2104.04473): fused QKV, biases, LayerNorm, learned positions
 *                 of the sequence length, output head tied to the embedding
 *   mlp=swiglu    Llama's: RMSNorm, RoPE, gate, up and down, an output head of its own
 *
 * vocab=0 (the default) means no embedding and no head: only the layers. Other defaults: ffn=4*hidden,
 * mlp=split-up, kv-heads=heads, causal=no for split-up and yes otherwise. */
#include "core/num.h"
#include "core/strbuf.h"
#include "core/suggest.h"
#include "core/units.h"
#include "model/tensors/model.h"

#include <stdio.h>
#include <string.h>

enum mlp { MLP_SPLIT_UP, MLP_GELU, MLP_SWIGLU };
static const char *const mlp_names[] = {"split-up", "gelu", "swiglu", NULL};
static const char *const yes_no[] = {"no", "yes", NULL};

enum key {
    KEY_LAYERS,
    KEY_HIDDEN,
    KEY_FFN,
    KEY_HEADS,
    KEY_KV_HEADS,
    KEY_VOCAB,
    KEY_MLP,
    KEY_CAUSAL,
    KEY_TIED,
    KEY_N
};
static const struct {
    const char *name;
    const char *const *choices; /* NULL: a count */
    uint64_t min, max;
} keys[KEY_N] = {
    [KEY_LAYERS] = {"layers", NULL, 1, 100000},
    [KEY_HIDDEN] = {"hidden", NULL, 1, 1 << 26},
    [KEY_FFN] = {"ffn", NULL, 1, 1 << 28},
    [KEY_HEADS] = {"heads", NULL, 1, 1 << 20},
    [KEY_KV_HEADS] = {"kv-heads", NULL, 1, 1 << 20},
    [KEY_VOCAB] = {"vocab", NULL, 0, 1 << 28},
    [KEY_MLP] = {"mlp", mlp_names, 0, 0},
    [KEY_CAUSAL] = {"causal", yes_no, 0, 0},
    [KEY_TIED] = {"tied", yes_no, 0, 0},
};

struct synth {
    uint64_t v[KEY_N];
    bool given[KEY_N];
    struct model_builder b;
    char prefix[32];
};

/* ---- text ---- */

static int read_value(struct synth *s, enum key k, const char *text, struct err *e)
{
    if (keys[k].choices) {
        int i = suggest_index(text, keys[k].choices);

        if (i < 0)
            return err_set(e, ERR_INVALID, "%s is '%.40s', expected %s%s%s%s%s", keys[k].name, text,
                           keys[k].choices[0], keys[k].choices[2] ? ", " : " or ",
                           keys[k].choices[1], keys[k].choices[2] ? " or " : "",
                           keys[k].choices[2] ? keys[k].choices[2] : "");
        s->v[k] = (uint64_t)i;
        return 0;
    }
    if (units_count(text, &s->v[k], e))
        return err_prefix(e, "%s", keys[k].name);
    if (s->v[k] < keys[k].min || s->v[k] > keys[k].max)
        return err_set(e, ERR_INVALID, "%s is %.40s, expected %llu to %llu", keys[k].name, text,
                       (unsigned long long)keys[k].min, (unsigned long long)keys[k].max);
    return 0;
}

static int read_pair(struct synth *s, char *pair, struct err *e)
{
    const char *names[KEY_N];
    char *eq = strchr(pair, '=');
    int k;

    if (!eq)
        return err_set(e, ERR_INVALID, "'%.60s' has no '=', expected key=value,key=value", pair);
    *eq = 0;
    for (k = 0; k < KEY_N; k++)
        names[k] = keys[k].name;
    for (k = 0; k < KEY_N; k++)
        if (!strcmp(pair, keys[k].name))
            break;
    if (k == KEY_N)
        return err_set(e, ERR_UNKNOWN,
                       "there is no '%.60s'%s; the keys are layers, hidden, ffn, heads, kv-heads, "
                       "mlp, causal, vocab and tied",
                       pair, suggest(pair, names, KEY_N).s);
    if (s->given[k])
        return err_set(e, ERR_INVALID, "%s is given twice", pair);
    s->given[k] = true;
    return read_value(s, (enum key)k, eq + 1, e);
}

static int read_text(struct synth *s, char *text, struct err *e)
{
    static const enum key required[] = {KEY_LAYERS, KEY_HIDDEN, KEY_HEADS};
    char *next;

    for (char *p = text; p; p = next) {
        next = strchr(p, ',');
        if (next)
            *next++ = 0;
        if (read_pair(s, p, e))
            return -1;
    }
    for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
        if (!s->given[required[i]])
            return err_set(e, ERR_INVALID, "%s is missing; layers, hidden and heads are required",
                           keys[required[i]].name);
    if (!s->given[KEY_FFN])
        s->v[KEY_FFN] = 4 * s->v[KEY_HIDDEN];
    if (!s->given[KEY_KV_HEADS])
        s->v[KEY_KV_HEADS] = s->v[KEY_HEADS];
    if (!s->given[KEY_CAUSAL])
        s->v[KEY_CAUSAL] = s->v[KEY_MLP] != MLP_SPLIT_UP;
    if (!s->given[KEY_TIED])
        s->v[KEY_TIED] = s->v[KEY_MLP] == MLP_GELU;
    return 0;
}

static int check(const struct synth *s, struct err *e)
{
    const uint64_t *v = s->v;

    if (v[KEY_HIDDEN] % v[KEY_HEADS])
        return err_set(e, ERR_INVALID, "hidden is %llu, not divisible by heads = %llu",
                       (unsigned long long)v[KEY_HIDDEN], (unsigned long long)v[KEY_HEADS]);
    if (v[KEY_HEADS] % v[KEY_KV_HEADS])
        return err_set(e, ERR_INVALID, "kv-heads is %llu, expected a divisor of heads = %llu",
                       (unsigned long long)v[KEY_KV_HEADS], (unsigned long long)v[KEY_HEADS]);
    if (v[KEY_MLP] == MLP_SPLIT_UP && v[KEY_FFN] % 2)
        return err_set(e, ERR_INVALID, "ffn is %llu, but mlp=split-up cuts it in two equal parts",
                       (unsigned long long)v[KEY_FFN]);
    return 0;
}

/* ---- tensors ---- */

static void add(struct synth *s, const char *name, enum tensor_role role, enum tensor_slot slot,
                bool bias, uint64_t d0, uint64_t d1)
{
    char full[64];

    snprintf(full, sizeof(full), "%s%s.%s", s->prefix, name, bias ? "bias" : "weight");
    model_builder_tensor(&s->b, full, role, slot, bias, -1, d1 ? 2 : 1, (uint64_t[]){d0, d1});
}

static void linear(struct synth *s, const char *name, enum tensor_slot slot, uint64_t out,
                   uint64_t in)
{
    add(s, name, ROLE_MATRIX, slot, false, out, in);
    if (s->v[KEY_MLP] == MLP_GELU)
        add(s, name, ROLE_BIAS, slot, true, out, 0);
}

static void norm(struct synth *s, const char *name, enum tensor_slot slot)
{
    add(s, name, ROLE_NORM, slot, false, s->v[KEY_HIDDEN], 0);
    if (s->v[KEY_MLP] != MLP_SWIGLU)
        add(s, name, ROLE_BIAS, slot, true, s->v[KEY_HIDDEN], 0);
}

static void layer(struct synth *s)
{
    const uint64_t *v = s->v;
    uint64_t h = v[KEY_HIDDEN], kv = h / v[KEY_HEADS] * v[KEY_KV_HEADS], ffn = v[KEY_FFN];

    norm(s, "norm1", SLOT_NORM1);
    if (v[KEY_MLP] == MLP_GELU) {
        linear(s, "qkv", SLOT_QKV, h + 2 * kv, h);
    } else {
        linear(s, "q", SLOT_Q, h, h);
        linear(s, "k", SLOT_K, kv, h);
        linear(s, "v", SLOT_V, kv, h);
    }
    linear(s, "proj", SLOT_O, h, h);
    norm(s, "norm2", SLOT_NORM2);
    if (v[KEY_MLP] == MLP_SPLIT_UP) {
        linear(s, "up0", SLOT_UP, ffn / 2, h);
        linear(s, "up1", SLOT_UP1, ffn / 2, h);
    } else {
        if (v[KEY_MLP] == MLP_SWIGLU)
            linear(s, "gate", SLOT_GATE, ffn, h);
        linear(s, "up", SLOT_UP, ffn, h);
    }
    linear(s, "down", SLOT_DOWN, h, ffn);
}

static void build(struct synth *s, uint64_t seq_len)
{
    const uint64_t *v = s->v;
    bool swiglu = v[KEY_MLP] == MLP_SWIGLU, gelu = v[KEY_MLP] == MLP_GELU;
    bool tied = v[KEY_VOCAB] && v[KEY_TIED];
    struct unit_class base = {.hidden = v[KEY_HIDDEN],
                              .norm = swiglu ? NORM_RMS : NORM_LAYER,
                              .act = swiglu ? ACT_SWIGLU : ACT_GELU,
                              .position = swiglu ? POSITION_ROPE
                                          : gelu ? POSITION_LEARNED
                                                 : POSITION_NONE,
                              .tied = tied,
                              .causal = v[KEY_CAUSAL]};
    struct unit_class c = base;

    if (v[KEY_VOCAB]) {
        c.kind = UNIT_EMBED;
        c.name = "embed";
        c.vocab = v[KEY_VOCAB];
        model_builder_unit(&s->b, "embed", &c);
        add(s, "embed", ROLE_EMBEDDING, SLOT_TOKEN_EMBEDDING, false, v[KEY_VOCAB], v[KEY_HIDDEN]);
        if (gelu)
            add(s, "position", ROLE_POSITION, SLOT_POSITION, false, seq_len, v[KEY_HIDDEN]);
    }
    c = base;
    c.kind = UNIT_LAYER;
    c.name = "layer";
    c.ffn = v[KEY_FFN];
    c.n_heads = (uint32_t)v[KEY_HEADS];
    c.n_kv_heads = (uint32_t)v[KEY_KV_HEADS];
    c.head_dim = (uint32_t)(v[KEY_HIDDEN] / v[KEY_HEADS]);
    c.fused_qkv = gelu;
    c.split_up = v[KEY_MLP] == MLP_SPLIT_UP;
    for (uint64_t i = 0; i < v[KEY_LAYERS]; i++) {
        char name[24];

        snprintf(name, sizeof(name), "layers.%u", (unsigned)i);
        snprintf(s->prefix, sizeof(s->prefix), "%s.", name);
        model_builder_unit(&s->b, name, &c);
        layer(s);
    }
    s->prefix[0] = 0;
    if (v[KEY_VOCAB]) {
        c = base;
        c.kind = UNIT_HEAD;
        c.name = "head";
        c.vocab = v[KEY_VOCAB];
        model_builder_unit(&s->b, "head", &c);
        norm(s, "final_norm", SLOT_FINAL_NORM);
        if (!tied)
            add(s, "head", ROLE_HEAD, SLOT_HEAD, false, v[KEY_VOCAB], v[KEY_HIDDEN]);
    }
}

int model_from_synthetic(const char *what, uint64_t seq_len, struct arena *a, struct model *m,
                         struct err *e)
{
    struct synth s;
    int rc = -1;

    memset(&s, 0, sizeof(s));
    memset(m, 0, sizeof(*m));
    if (strncmp(what, "block:", 6) != 0)
        return err_set(e, ERR_INVALID,
                       "model '%.60s': expected block:key=value,..., for example "
                       "block:layers=32,hidden=4096,heads=32",
                       what);
    model_builder_init(&s.b, m, a);
    m->name = arena_strdup(a, what);
    m->arch = "synthetic block";
    if (read_text(&s, arena_strdup(a, what + 6), e) || check(&s, e))
        goto out;
    if (s.v[KEY_MLP] == MLP_GELU && s.v[KEY_VOCAB]) {
        if (!seq_len) {
            err_set(e, ERR_INVALID, "learned positions need a sequence length of at least 1");
            goto out;
        }
        m->max_seq_len = seq_len;
    }
    m->n_layers = (uint32_t)s.v[KEY_LAYERS];
    m->hidden = s.v[KEY_HIDDEN];
    m->vocab = s.v[KEY_VOCAB];
    m->tied = s.v[KEY_VOCAB] && s.v[KEY_TIED];
    build(&s, seq_len);
    rc = model_builder_finish(&s.b, e);
out:
    model_builder_release(&s.b);
    return rc ? err_prefix(e, "model '%.100s'", what) : 0;
}
