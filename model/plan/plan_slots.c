/* What graph.c takes for granted of a model, checked for one that a plan file describes: each step that a class's fields
 * make finds its tensors, with the sizes that the fields give them, and no tensor is there that no step reads. A model
 * that a reader built has all of it; an edited file may not. Layers of which only shapes are known have nothing to check. */
#include "model/plan/plan_json.h"

#include "core/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What a class says of a slot. */
struct want {
    bool may, must;     /* be there */
    bool bias, experts; /* it may have a bias; one an expert */
    uint64_t out, in;   /* a matrix in either order; in 0: a vector, or what has as many elements */
};

struct slots {
    const struct model *m;
    const struct unit *u;
    const struct unit_class *c;
    const char *file;
    struct err *e;
    struct want want[SLOT_N]; /* of c */
};

/* 0 for more than a shape can have: no tensor has 0 elements. */
static uint64_t product(uint64_t x, uint64_t y)
{
    uint64_t r;

    return num_mul(x, y, &r) ? r : 0;
}

static uint64_t sum(uint64_t x, uint64_t y)
{
    uint64_t r;

    return x && y && num_add(x, y, &r) ? r : 0;
}

static const struct tensor *tensor_of(const struct slots *x, enum tensor_slot slot)
{
    for (uint32_t i = x->u->first; i < x->u->first + x->u->n; i++)
        if (x->m->tensors[i].slot == slot && !x->m->tensors[i].is_bias)
            return &x->m->tensors[i];
    return NULL;
}

static uint64_t numel_of(const struct slots *x, enum tensor_slot slot)
{
    const struct tensor *t = tensor_of(x, slot);

    return t ? t->numel : 0;
}

static struct want matrix(bool must, uint64_t out, uint64_t in)
{
    return (struct want){.may = true, .must = must, .bias = true, .out = out, .in = in};
}

static struct want vector(bool must, uint64_t n)
{
    return (struct want){.may = true, .must = must, .out = n};
}

/* ---- by kind of unit and mixer ---- */

static struct want of_words(const struct slots *x, enum tensor_slot slot)
{
    const struct unit_class *c = x->c;
    uint64_t words = c->embed_dim ? c->embed_dim : c->hidden;
    struct want w = {0};

    if (c->kind == UNIT_EMBED) {
        if (slot == SLOT_TOKEN_EMBEDDING)
            return (struct want){.may = true, .must = true, .out = c->vocab, .in = words};
        if (slot == SLOT_POSITION)
            return (struct want){.may = true,
                                 .must = c->position == POSITION_LEARNED,
                                 .out = c->positions ? c->positions : x->m->max_seq_len,
                                 .in = c->hidden};
        if (slot == SLOT_TOKEN_TYPE)
            return matrix(false, numel_of(x, slot) / c->hidden, c->hidden);
        if (slot == SLOT_PROJECT_IN && c->embed_dim)
            return matrix(true, c->hidden, words);
        if (slot == SLOT_EMBED_NORM)
            return matrix(false, c->hidden, 0);
        return w;
    }
    if (c->kind == UNIT_BRIDGE)
        return slot == SLOT_ENCODER_NORM ? matrix(true, c->hidden, 0) : w;
    if (slot == SLOT_FINAL_NORM)
        return matrix(false, c->hidden, 0);
    if (slot == SLOT_TRANSFORM && !c->embed_dim)
        return matrix(false, c->hidden, c->hidden);
    if (slot == SLOT_POOLER && !c->embed_dim && (!c->tied || tensor_of(x, SLOT_TRANSFORM)))
        return matrix(false, c->hidden, c->hidden);
    if (slot == SLOT_TRANSFORM_NORM && tensor_of(x, SLOT_TRANSFORM))
        return matrix(false, c->hidden, 0);
    if (slot == SLOT_NEXT && tensor_of(x, SLOT_POOLER) && tensor_of(x, SLOT_TRANSFORM))
        return matrix(false, 2, c->hidden);
    if (slot == SLOT_PROJECT_OUT && c->embed_dim)
        return matrix(true, words, c->hidden);
    if (slot == SLOT_HEAD)
        return matrix(!c->tied && !tensor_of(x, SLOT_POOLER), c->vocab,
                      words); /* or a pooler alone */
    return w;
}

static struct want of_attention(const struct slots *x, enum tensor_slot slot)
{
    const struct unit_class *c = x->c;
    uint64_t q = product(c->n_heads, c->head_dim), kv = product(c->n_kv_heads, c->head_dim), n;
    struct want w = {0};

    switch (slot) {
    case SLOT_QKV:
        return c->fused_qkv ? matrix(true, sum(q, product(2, kv)), c->hidden) : w;
    case SLOT_Q:
        return c->fused_qkv ? w : matrix(true, c->output_gate ? product(2, q) : q, c->hidden);
    case SLOT_K:
    case SLOT_V: /* without it keys are the values too */
        return c->fused_qkv ? w : matrix(slot == SLOT_K, kv, c->hidden);
    case SLOT_O:
        return matrix(true, c->hidden, q);
    case SLOT_Q_NORM:
    case SLOT_K_NORM: /* of a head, or of all */
        n = slot == SLOT_Q_NORM ? q : kv;
        return c->qk_norm ? matrix(true, numel_of(x, slot) == n ? n : c->head_dim, 0) : w;
    case SLOT_RELATIVE: /* or another layer's */
        n = numel_of(x, slot) / c->n_heads;
        return c->position == POSITION_RELATIVE
                   ? (struct want){.may = true, .out = n, .in = c->n_heads}
                   : w;
    case SLOT_SINK:
        return vector(false, c->heads_unknown ? numel_of(x, slot) : c->n_heads);
    default:
        return w;
    }
}

/* To an encoder's output; all of it or nothing. */
static struct want of_cross(const struct slots *x, enum tensor_slot slot)
{
    const struct unit_class *c = x->c;
    uint64_t q = product(c->n_heads, c->head_dim), kv = product(c->n_kv_heads, c->head_dim);
    struct want w = {0};

    switch (slot) {
    case SLOT_CROSS_NORM:
        return matrix(false, c->hidden, 0);
    case SLOT_CROSS_Q:
        return matrix(true, q, c->hidden);
    case SLOT_CROSS_K:
    case SLOT_CROSS_V:
        return matrix(true, kv, c->hidden);
    case SLOT_CROSS_O:
        return matrix(true, c->hidden, q);
    default:
        return w;
    }
}

static struct want of_latent(const struct slots *x, enum tensor_slot slot)
{
    const struct unit_class *c = x->c;
    uint64_t q = product(c->n_heads, c->head_dim), nope = c->head_dim - c->rotary_dim;
    uint64_t latent = numel_of(x, SLOT_KV_A_NORM), rank = numel_of(x, SLOT_Q_A_NORM);
    uint64_t index = numel_of(x, SLOT_INDEX_K_NORM), heads;
    struct want w = {0};

    switch (slot) {
    case SLOT_Q:
        return rank ? w : matrix(true, q, c->hidden);
    case SLOT_Q_A:
        return rank ? matrix(true, rank, c->hidden) : w;
    case SLOT_Q_A_NORM:
        return vector(false, rank);
    case SLOT_Q_B:
        return rank ? matrix(true, q, rank) : w;
    case SLOT_KV_A:
        return matrix(true, sum(latent, c->rotary_dim), c->hidden);
    case SLOT_KV_A_NORM:
        return vector(true, latent);
    case SLOT_KV_B:
        return matrix(true, product(c->n_heads, nope + c->v_head_dim), latent);
    case SLOT_O:
        return matrix(true, c->hidden, unit_class_v_width(c));
    case SLOT_INDEX_Q: /* all four of an indexer or none */
        heads = numel_of(x, SLOT_INDEX_WEIGHTS) / c->hidden;
        return index && rank ? matrix(true, product(heads, index), rank) : w;
    case SLOT_INDEX_K:
        return index ? matrix(true, index, c->hidden) : w;
    case SLOT_INDEX_K_NORM:
        return index && rank ? matrix(true, index, 0) : w;
    case SLOT_INDEX_WEIGHTS:
        return index ? matrix(true, numel_of(x, slot) / c->hidden, c->hidden) : w;
    default:
        return w;
    }
}

/* The gated delta rule and Mamba-2. */
static struct want of_recurrence(const struct slots *x, enum tensor_slot slot)
{
    const struct unit_class *c = x->c;
    bool delta = c->mixer == MIXER_DELTA;
    uint64_t v = unit_class_v_width(c);
    uint64_t beside = product(2, product(c->n_kv_heads, delta ? c->head_dim : c->state_dim));
    uint64_t channels = sum(v, beside), each;
    const struct tensor *conv = tensor_of(x, SLOT_CONV);
    struct want w = {0};

    switch (slot) {
    case SLOT_IN:
        if (delta)
            return matrix(true, tensor_of(x, SLOT_IN_Z) ? channels : sum(channels, v), c->hidden);
        return matrix(true, sum(channels, sum(v, c->n_heads)), c->hidden);
    case SLOT_IN_Z: /* or with q, k and v */
        return delta ? matrix(false, v, c->hidden) : w;
    case SLOT_IN_A: /* or with the strength */
        return delta ? matrix(false, c->n_heads, c->hidden) : w;
    case SLOT_IN_B:
        each = product(tensor_of(x, SLOT_IN_A) ? 1 : 2, c->n_heads);
        return delta ? matrix(true, each, c->hidden) : w;
    case SLOT_CONV:
        return matrix(true, channels, conv && conv->n_dims == 3 ? conv->shape[2] : 0);
    case SLOT_D:
        return delta ? w : vector(true, c->n_heads);
    case SLOT_DT:
    case SLOT_A:
        return vector(true, c->n_heads);
    case SLOT_MIXER_NORM:
        return vector(true, delta ? c->v_head_dim : v);
    case SLOT_O:
        return matrix(true, c->hidden, v);
    default:
        return w;
    }
}

/* ---- MLPs ---- */

static struct want of_mlp(const struct slots *x, enum tensor_slot slot)
{
    const struct unit_class *c = x->c;
    bool gated = unit_class_gated(c), fused = gated && tensor_of(x, SLOT_GATE_UP);
    bool split = c->split_up && !gated && !c->n_experts;
    struct want w = {0};

    if (!c->ffn)
        return w;
    if (slot == SLOT_DOWN)
        w = matrix(true, c->hidden, c->ffn);
    else if (slot == SLOT_GATE_UP && fused)
        w = matrix(true, product(2, c->ffn), c->hidden);
    else if (slot == SLOT_GATE && gated && !fused)
        w = matrix(true, c->ffn, c->hidden);
    else if (slot == SLOT_UP && !fused)
        w = matrix(true, split ? c->ffn / 2 : c->ffn, c->hidden);
    else if (slot == SLOT_UP1 && split)
        w = matrix(true, c->ffn - c->ffn / 2, c->hidden);
    w.experts = w.may && c->n_experts;
    return w;
}

static struct want of_mixture(const struct slots *x, enum tensor_slot slot)
{
    const struct unit_class *c = x->c;
    const struct tensor *up = tensor_of(x, SLOT_SHARED_UP);
    struct want w = {0};

    switch (slot) {
    case SLOT_ROUTER:
        return matrix(true, c->n_experts, c->hidden);
    case SLOT_ROUTER_CORRECTION:
        return vector(false, c->n_experts);
    case SLOT_ROUTER_NORM:
    case SLOT_EXPERTS_NORM:
    case SLOT_EXPERTS_NORM_POST:
        return matrix(false, c->hidden, 0);
    case SLOT_SHARED_NORM_POST:
        return up ? matrix(false, c->hidden, 0) : w;
    case SLOT_SHARED_UP:
        return matrix(false, up ? up->rows : 0, c->hidden);
    case SLOT_SHARED_GATE:
        return up && unit_class_gated(c) ? matrix(true, up->rows, c->hidden) : w;
    case SLOT_SHARED_DOWN:
        return up ? matrix(true, c->hidden, up->rows) : w;
    case SLOT_SHARED_ROUTER:
        return up ? matrix(false, 1, c->hidden) : w;
    default:
        return of_mlp(x, slot);
    }
}

static struct want of_layer(const struct slots *x, enum tensor_slot slot)
{
    const struct unit_class *c = x->c;
    bool mixes = c->mixer != MIXER_NONE, mlp = c->ffn > 0;
    struct want w = {0};

    switch (slot) {
    case SLOT_NORM1:
        return matrix(false, c->hidden, 0);
    case SLOT_NORM1_POST:
        return mixes ? matrix(false, c->hidden, 0) : w;
    case SLOT_NORM2:
    case SLOT_NORM2_POST:
        return mlp ? matrix(false, c->hidden, 0) : w;
    default:
        break;
    }
    if (c->mixer == MIXER_ATTENTION && c->stack == STACK_DECODER)
        w = of_cross(x, slot);
    if (w.may)
        return w;
    if (c->mixer == MIXER_ATTENTION)
        w = of_attention(x, slot);
    else if (c->mixer == MIXER_MLA)
        w = of_latent(x, slot);
    else if (mixes)
        w = of_recurrence(x, slot);
    if (w.may)
        return w;
    return c->n_experts ? of_mixture(x, slot) : of_mlp(x, slot);
}

/* ---- against the tensors ---- */

static int wrong(const struct slots *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int wrong(const struct slots *x, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return err_set(x->e, ERR_INVALID, "'%s': model.classes[%" PRIu32 "] ('%.40s') %s", x->file,
                   x->u->class_id, x->c->name, text);
}

static bool fits(const struct tensor *t, const struct want *w)
{
    if (t->is_bias)
        return t->numel == w->out;
    if (!w->in)
        return w->out && t->numel == w->out;
    if (t->n_dims == 3)
        return t->slot == SLOT_CONV && t->shape[0] == w->out && t->shape[1] == 1;
    return t->n_dims == 2 && ((t->shape[0] == w->out && t->shape[1] == w->in) ||
                              (t->shape[0] == w->in && t->shape[1] == w->out));
}

/* One tensor; `seen` counts its slot's so far. */
static int check_tensor(const struct slots *x, uint32_t i, uint32_t *seen)
{
    const struct tensor *t = &x->m->tensors[i];
    const char *slot = plan_slots[t->slot], *bias = t->is_bias ? " bias" : "";
    struct want w = x->want[t->slot];
    uint32_t nth = seen[2 * t->slot + t->is_bias]++;

    if (!w.may || (t->is_bias && !w.bias))
        return wrong(x, "has no step that reads tensors[%" PRIu32 "] ('%.60s'), whose slot is %s%s",
                     i, t->name, slot, bias);
    if (t->expert != (w.experts ? (int32_t)nth : -1))
        return wrong(x,
                     "has %" PRIu32 " experts, but tensors[%" PRIu32
                     "] ('%.60s') is of expert %d, expected %d",
                     x->c->n_experts, i, t->name, t->expert, w.experts ? (int)nth : -1);
    if (nth >= (w.experts ? x->c->n_experts : 1))
        return wrong(x, "has more tensors of slot %s%s than it can read: tensors[%" PRIu32 "]",
                     slot, bias, i);
    if (!fits(t, &w))
        return wrong(x,
                     "is a class whose dimensions give '%.60s' (tensors[%" PRIu32
                     "], slot %s%s) %" PRIu64 " x %" PRIu64 " elements, but its shape has %" PRIu64,
                     t->name, i, slot, bias, w.out, w.in && !t->is_bias ? w.in : 1, t->numel);
    return 0;
}

/* Experts lie one after another with the same tensors each. */
static int check_experts(const struct slots *x)
{
    const struct tensor *t = &x->m->tensors[x->u->first];
    uint32_t start = 0, each = 0;

    while (start < x->u->n && t[start].expert != 0)
        start++;
    while (start + each < x->u->n && t[start + each].expert == 0)
        each++;
    for (uint32_t i = start + each; i < x->u->n && t[i].expert >= 0; i++)
        if (t[i].slot != t[i - each].slot || t[i].is_bias != t[i - each].is_bias)
            return wrong(x, "has experts that differ: '%.60s' (tensors[%" PRIu32 "])", t[i].name,
                         x->u->first + i);
    return 0;
}

/* A unit as its class's first one. */
static int check_like_first(const struct slots *x)
{
    const struct unit *first = &x->m->units[x->c->example];
    const struct tensor *t = &x->m->tensors[x->u->first], *f = &x->m->tensors[first->first];

    if (x->u->n != first->n)
        return wrong(x, "has units of %" PRIu32 " and of %" PRIu32 " tensors", first->n, x->u->n);
    for (uint32_t i = 0; i < x->u->n; i++)
        if (t[i].slot != f[i].slot || t[i].is_bias != f[i].is_bias || t[i].expert != f[i].expert ||
            t[i].n_dims != f[i].n_dims ||
            memcmp(t[i].shape, f[i].shape, t[i].n_dims * sizeof(t[i].shape[0])) != 0)
            return wrong(x, "has units that differ: '%.60s' (tensors[%" PRIu32 "]) and '%.60s'",
                         t[i].name, x->u->first + i, f[i].name);
    return 0;
}

/* Numbers of a class that no tensor's size gives away. */
static int check_class(const struct slots *x)
{
    const struct unit_class *c = x->c;
    bool mixes = c->kind == UNIT_LAYER && c->mixer != MIXER_NONE;
    uint32_t turned = c->rotary_dim;

    if (c->kind != UNIT_LAYER)
        return c->vocab ? 0 : wrong(x, "has vocab 0, expected as many words as its tables have");
    if (mixes && (!c->n_heads || !c->n_kv_heads || !c->head_dim ||
                  (c->n_heads % c->n_kv_heads && c->n_kv_heads % c->n_heads)))
        return wrong(x,
                     "has heads %" PRIu32 ", kv_heads %" PRIu32 ", head_dim %" PRIu32
                     ", expected heads that share kv_heads equally",
                     c->n_heads, c->n_kv_heads, c->head_dim);
    if (c->mixer == MIXER_ATTENTION && (c->n_heads % c->n_kv_heads || turned > c->head_dim ||
                                        (c->v_head_dim && c->v_head_dim != c->head_dim)))
        return wrong(x,
                     "has heads %" PRIu32 ", kv_heads %" PRIu32 ", head_dim %" PRIu32
                     ", rotary_dim %" PRIu32 ", v_head_dim %" PRIu32 ", which no attention has",
                     c->n_heads, c->n_kv_heads, c->head_dim, turned, c->v_head_dim);
    if (c->mixer == MIXER_MLA && (!turned || turned >= c->head_dim || !c->v_head_dim))
        return wrong(x,
                     "has head_dim %" PRIu32 ", rotary_dim %" PRIu32 ", v_head_dim %" PRIu32
                     ", which no latent attention has",
                     c->head_dim, turned, c->v_head_dim);
    if (c->n_experts && (!c->n_active || !c->ffn))
        return wrong(x,
                     "has %" PRIu32 " experts, active_experts %" PRIu32 ", ffn %" PRIu64
                     ", expected more than 0",
                     c->n_experts, c->n_active, c->ffn);
    return 0;
}

/* A class, by its first unit. */
static int check_first(struct slots *x)
{
    uint32_t seen[2 * SLOT_N] = {0};

    if (check_class(x))
        return -1;
    for (int s = 0; s < SLOT_N; s++)
        x->want[s] = x->c->kind == UNIT_LAYER ? of_layer(x, (enum tensor_slot)s)
                                              : of_words(x, (enum tensor_slot)s);
    for (uint32_t i = x->u->first; i < x->u->first + x->u->n; i++)
        if (check_tensor(x, i, seen))
            return -1;
    for (int s = 0; s < SLOT_N; s++) {
        struct want w = x->want[s];
        uint32_t n = w.experts ? x->c->n_experts : 1, biases = seen[2 * s + 1];

        if (w.must && seen[2 * s] != n)
            return wrong(x, "reads %" PRIu32 " tensors of slot %s, but unit '%.60s' has %" PRIu32,
                         n, plan_slots[s], x->u->name, seen[2 * s]);
        if (w.may && biases && !(x->c->tied && s == SLOT_HEAD) && biases != seen[2 * s])
            return wrong(x, "has %" PRIu32 " tensors and %" PRIu32 " biases of slot %s in '%.60s'",
                         seen[2 * s], biases, plan_slots[s], x->u->name);
    }
    return check_experts(x);
}

/* The tables of words, and the positions that a sequence needs. */
static int check_words(struct slots *x, uint64_t seq_len)
{
    const struct model *m = x->m;
    const struct unit_class *first = &m->classes[m->units[0].class_id];
    const struct unit_class *last = &m->classes[m->units[m->n_units - 1].class_id];
    uint64_t positions;

    x->u = &m->units[0];
    x->c = first;
    if (first->kind != UNIT_EMBED)
        return 0;
    positions = numel_of(x, SLOT_POSITION) / first->hidden;
    if (positions && seq_len > positions)
        return wrong(x, "has %" PRIu64 " positions, but job.seq_len is %" PRIu64, positions,
                     seq_len);
    if (last->kind == UNIT_HEAD && last->tied && last->embed_dim != first->embed_dim)
        return wrong(x, "has embed_dim %" PRIu64 ", but the head that is tied to it %" PRIu64,
                     first->embed_dim, last->embed_dim);
    return 0;
}

int plan_check_slots(const struct model *m, uint64_t seq_len, const char *file, struct err *e)
{
    struct slots x = {.m = m, .file = file, .e = e};

    for (uint32_t c = 0; c < m->n_classes; c++) {
        x.c = &m->classes[c];
        if (x.c->kind == UNIT_LAYER && x.c->mixer == MIXER_UNKNOWN)
            continue;
        x.u = &m->units[x.c->example];
        if (check_first(&x))
            return -1;
        for (uint32_t i = 0; i < m->n_units; i++) {
            x.u = &m->units[i];
            if (x.u->class_id == c && check_like_first(&x))
                return -1;
        }
    }
    return check_words(&x, seq_len);
}
