#include "model/tensors/slice.h"

#include "core/num.h"

#include <string.h>

enum slice_cut slice_cut_of(enum tensor_slot slot)
{
    switch (slot) {
    case SLOT_TOKEN_EMBEDDING:
    case SLOT_HEAD:
        return SLICE_VOCAB;
    case SLOT_Q:
    case SLOT_K:
    case SLOT_V:
    case SLOT_QKV:
    case SLOT_Q_B:
    case SLOT_KV_B:
    case SLOT_SINK:
    case SLOT_GATE:
    case SLOT_UP:
    case SLOT_UP1:
    case SLOT_GATE_UP:
    case SLOT_SHARED_GATE:
    case SLOT_SHARED_UP:
    case SLOT_CROSS_Q:
    case SLOT_CROSS_K:
    case SLOT_CROSS_V:
        return SLICE_OUTPUTS;
    case SLOT_O:
    case SLOT_DOWN:
    case SLOT_SHARED_DOWN:
    case SLOT_CROSS_O:
    case SLOT_RELATIVE: /* (distances, heads) */
        return SLICE_INPUTS;
    case SLOT_OTHER:
    case SLOT_POSITION:
    case SLOT_FINAL_NORM:
    case SLOT_NORM1:
    case SLOT_NORM2:
    case SLOT_NORM1_POST:
    case SLOT_NORM2_POST:
    case SLOT_EMBED_NORM:
    case SLOT_PROJECT_IN:
    case SLOT_PROJECT_OUT:
    case SLOT_ROUTER_CORRECTION:
    case SLOT_TOKEN_TYPE:
        return SLICE_WHOLE;
    case SLOT_Q_NORM:
    case SLOT_K_NORM:
    case SLOT_ROUTER:
    case SLOT_SHARED_ROUTER:
    case SLOT_Q_A:
    case SLOT_Q_A_NORM:
    case SLOT_KV_A:
    case SLOT_KV_A_NORM:
    case SLOT_INDEX_Q:
    case SLOT_INDEX_K:
    case SLOT_INDEX_K_NORM:
    case SLOT_INDEX_WEIGHTS:
        return SLICE_WHOLE_WITHIN;
    case SLOT_ROUTER_NORM: /* norms between a router's experts see a part of the sum */
    case SLOT_EXPERTS_NORM:
    case SLOT_EXPERTS_NORM_POST:
    case SLOT_SHARED_NORM_POST:
    case SLOT_CROSS_NORM:
    case SLOT_ENCODER_NORM:
    case SLOT_TRANSFORM:
    case SLOT_TRANSFORM_NORM:
    case SLOT_POOLER:
    case SLOT_NEXT:
    case SLOT_IN:
    case SLOT_IN_Z:
    case SLOT_IN_B:
    case SLOT_IN_A:
    case SLOT_CONV:
    case SLOT_DT:
    case SLOT_A:
    case SLOT_D:
    case SLOT_MIXER_NORM:
    case SLOT_N:
        break;
    }
    return SLICE_REFUSED;
}

/* ---- classes ---- */

static int divides(const struct model *m, const char *what, uint64_t n, uint32_t tp, struct err *e)
{
    uint32_t below = tp;

    while (n % below || tp % below) /* what divides tp divides the GPUs too */
        below--;
    return n % tp ? err_set(e, ERR_INVALID,
                            "%u ranks do not share the %llu %s of '%.100s' evenly; "
                            "nearest below: %u",
                            tp, (unsigned long long)n, what, m->name, below)
                  : 0;
}

static int slice_class(const struct model *m, uint32_t tp, uint64_t vocab, struct unit_class *c,
                       struct err *e)
{
    if (c->vocab)
        c->vocab = vocab / tp;
    if (c->stack != STACK_ONLY)
        return err_set(
            e, ERR_UNSUPPORTED,
            "tensor parallelism of an encoder beside a decoder ('%.100s') is not in this version",
            m->name);
    if (c->kind != UNIT_LAYER)
        return 0;
    if (c->mixer != MIXER_ATTENTION && c->mixer != MIXER_MLA && c->mixer != MIXER_NONE)
        return err_set(e, ERR_UNSUPPORTED,
                       "tensor parallelism of unit class '%s' of '%.100s' is not in this version: "
                       "attention and MLPs are cut, other mixers are not",
                       c->name, m->name);
    if ((c->mixer != MIXER_NONE && divides(m, "heads", c->n_heads, tp, e)) ||
        (c->ffn &&
         divides(m, c->n_experts ? "columns of an expert" : "columns of the MLP", c->ffn, tp, e)))
        return -1;
    if (c->mixer == MIXER_ATTENTION && c->n_kv_heads % tp && tp % c->n_kv_heads)
        return err_set(
            e, ERR_INVALID,
            "%u ranks neither divide the %u key heads of '%.100s' nor are a multiple of them", tp,
            c->n_kv_heads, m->name);
    c->n_heads /= tp;
    c->n_kv_heads = (uint32_t)num_max(c->n_kv_heads / tp, c->mixer == MIXER_NONE ? 0 : 1);
    c->ffn /= tp;
    return 0;
}

/* ---- tensors ---- */

/* Outputs of the projections of attention, whose heads are shared out; 0: of others. */
static uint64_t width_of(const struct unit_class *c, const struct tensor *t)
{
    uint64_t heads = c->n_heads, kv = c->n_kv_heads, d = c->head_dim,
             dv = c->v_head_dim ? c->v_head_dim : d;

    switch (t->slot) {
    case SLOT_Q:
    case SLOT_CROSS_Q:
        return heads * d * (c->output_gate ? 2 : 1);
    case SLOT_K:
    case SLOT_CROSS_K:
        return kv * d;
    case SLOT_V:
    case SLOT_CROSS_V:
        return kv * dv;
    case SLOT_QKV:
        return heads * d + kv * (d + dv);
    default:
        return 0;
    }
}

/* Which dimension of a weight that takes or makes the hidden vector are its outputs? -1: both sides are as wide. */
static int outputs_by_shape(const struct model *m, const struct tensor *t, enum slice_cut cut)
{
    uint64_t hidden = m->classes[m->units[t->unit].class_id].hidden;
    bool first = t->shape[0] == hidden, second = t->shape[1] == hidden;

    if (first == second)
        return -1;
    return cut == SLICE_OUTPUTS ? first : second;
}

/* A weight is stored as (out, in), or as (in, out): GPT-2 has all so, Llama 4 and gpt-oss their experts. Where its own shape does
 * not tell, those of the same layer do, experts and others apart; latent attention's up projections are always (out, in). */
static uint32_t outputs_at(const struct model *m, const struct tensor *t, enum slice_cut cut)
{
    const struct unit *u = &m->units[t->unit];
    int at;

    if (t->slot == SLOT_Q_B || t->slot == SLOT_KV_B)
        return 0;
    at = outputs_by_shape(m, t, cut);
    for (uint32_t i = u->first; at < 0 && i < u->first + u->n; i++) {
        const struct tensor *x = &m->tensors[i];
        enum slice_cut its = slice_cut_of(x->slot);

        if (x->n_dims == 2 && (x->expert < 0) == (t->expert < 0) && x->slot != SLOT_Q_B &&
            x->slot != SLOT_KV_B && (its == SLICE_OUTPUTS || its == SLICE_INPUTS))
            at = outputs_by_shape(m, x, its);
    }
    return at < 0 ? 0 : (uint32_t)at;
}

/* The dimension of a weight that is cut. */
static uint32_t cut_dimension(const struct model *m, const struct tensor *t, enum slice_cut cut)
{
    if (t->n_dims < 2 || cut == SLICE_VOCAB)
        return 0;
    if (t->slot == SLOT_RELATIVE)
        return 1;
    return cut == SLICE_OUTPUTS ? outputs_at(m, t, cut) : 1 - outputs_at(m, t, cut);
}

static int slice_tensor(const struct model *of, const struct model *sliced, uint32_t tp,
                        uint64_t vocab, struct tensor *t, struct err *e)
{
    enum slice_cut cut = slice_cut_of(t->slot);
    uint32_t class_id = of->units[t->unit].class_id, at = 0;
    uint64_t whole = width_of(&of->classes[class_id], t),
             part = width_of(&sliced->classes[class_id], t);

    if ((t->slot == SLOT_Q_NORM || t->slot == SLOT_K_NORM) &&
        t->numel > of->classes[class_id].head_dim)
        cut = SLICE_OUTPUTS; /* one weight over all heads */
    if (cut == SLICE_REFUSED)
        return err_set(e, ERR_UNSUPPORTED,
                       "tensor parallelism of tensor '%.100s' is not in this version", t->name);
    if (cut == SLICE_WHOLE || cut == SLICE_WHOLE_WITHIN || (t->is_bias && cut == SLICE_INPUTS))
        return 0;
    at = t->is_bias ? 0 : cut_dimension(of, t, cut);
    if (cut == SLICE_VOCAB)
        t->shape[at] = vocab / tp;
    else if (whole && cut == SLICE_OUTPUTS && t->shape[at] == whole)
        t->shape[at] = part;
    else if (divides(of, t->name, t->shape[at], tp, e))
        return -1;
    else
        t->shape[at] /= tp;
    return 0;
}

/* ---- the model ---- */

static void measure(struct tensor *t)
{
    t->numel = 1;
    for (uint32_t d = 0; d < t->n_dims; d++)
        t->numel *= t->shape[d];
    t->rows = t->shape[0];
    t->cols = t->n_dims > 1 ? t->numel / t->rows : 1;
}

static void count(struct model *m)
{
    uint64_t at = 0;

    for (uint32_t u = 0; u < m->n_units; u++) {
        struct unit *unit = &m->units[u];

        unit->numel = 0;
        for (uint32_t i = unit->first; i < unit->first + unit->n; i++) {
            m->tensors[i].at = at;
            at += m->tensors[i].numel;
            unit->numel += m->tensors[i].numel;
        }
    }
    m->total_params = at;
    model_set_matrix_roles(m, m->also_matrices);
}

int model_slice(const struct model *of, uint32_t tp, uint32_t pad, struct arena *a,
                struct model *out, struct err *e)
{
    uint64_t step = (uint64_t)pad * tp, vocab = num_ceil_div(of->vocab, step) * step;

    *out = *of;
    if (tp == 1)
        return 0;
    out->tensors = ARENA_NEW(a, struct tensor, of->n_tensors);
    out->units = ARENA_NEW(a, struct unit, of->n_units);
    out->classes = ARENA_NEW(a, struct unit_class, of->n_classes);
    memcpy(out->tensors, of->tensors, of->n_tensors * sizeof(*of->tensors));
    memcpy(out->units, of->units, of->n_units * sizeof(*of->units));
    memcpy(out->classes, of->classes, of->n_classes * sizeof(*of->classes));
    for (uint32_t c = 0; c < of->n_classes; c++)
        if (slice_class(of, tp, vocab, &out->classes[c], e))
            return -1;
    for (uint32_t i = 0; i < of->n_tensors; i++) {
        if (slice_tensor(of, out, tp, vocab, &out->tensors[i], e))
            return -1;
        measure(&out->tensors[i]);
    }
    out->vocab = vocab / tp;
    count(out);
    return 0;
}

bool slice_gradient_partial(const struct model *of, const struct model *sliced, uint32_t tensor,
                            bool sequence_parallel)
{
    const struct tensor *t = &sliced->tensors[tensor];
    const struct unit_class *whole = &of->classes[of->units[t->unit].class_id],
                            *part = &sliced->classes[of->units[t->unit].class_id];
    enum slice_cut cut = slice_cut_of(t->slot);
    bool whole_here = t->numel == of->tensors[tensor].numel;

    if (t->slot == SLOT_K || t->slot == SLOT_V || t->slot == SLOT_QKV) /* copied key heads */
        return (uint64_t)part->n_kv_heads * whole->n_heads >
               (uint64_t)whole->n_kv_heads * part->n_heads;
    return whole_here && (cut == SLICE_WHOLE_WITHIN || sequence_parallel);
}
