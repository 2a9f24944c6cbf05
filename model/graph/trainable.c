/* What exec's kernels can run, by what a class and its tensors say: everything else is planned and predicted, and
 * refused by name before a rank computes. docs/MODEL.md has the same as a table. */
#include "model/graph/graph.h"

static bool has(const struct model *m, const struct unit_class *c, enum tensor_slot slot, bool bias,
                bool of_expert)
{
    const struct unit *u = &m->units[c->example];

    for (uint32_t i = u->first; i < u->first + u->n; i++)
        if (m->tensors[i].slot == slot && m->tensors[i].is_bias == bias &&
            (m->tensors[i].expert >= 0) == of_expert)
            return true;
    return false;
}

/* Stacked experts are stored (in, out); exec multiplies with (out, in). */
static bool experts_in_out(const struct model *m, const struct unit_class *c)
{
    const struct unit *u = &m->units[c->example];

    for (uint32_t i = u->first; i < u->first + u->n; i++)
        if (m->tensors[i].slot == SLOT_DOWN && m->tensors[i].expert == 0)
            return m->tensors[i].shape[0] != c->hidden;
    return false;
}

static const char *missing_attention(const struct model *m, const struct unit_class *c,
                                     uint64_t seq_len)
{
    if (c->position == POSITION_ALIBI)
        return "ALiBi positions";
    if (c->position == POSITION_RELATIVE)
        return "relative positions";
    if (has(m, c, SLOT_CROSS_Q, false, false))
        return "attention to an encoder";
    if (c->position == POSITION_ROPE && c->fused_qkv)
        return "rotary positions on a fused QKV projection; --split-fused makes it three";
    if (c->position == POSITION_ROPE && c->head_dim % 2)
        return "rotary positions on heads of an odd size";
    if (c->rotary_dim)
        return "partial rotary positions";
    if (c->window && c->window < seq_len)
        return "attention in a window shorter than the sequence";
    if (c->output_gate)
        return "gated attention";
    if (!c->fused_qkv && !has(m, c, SLOT_V, false, false))
        return "values that are the keys";
    if (has(m, c, SLOT_SINK, false, false))
        return "attention sinks";
    return NULL;
}

static const char *missing_mixer(const struct model *m, const struct unit_class *c,
                                 uint64_t seq_len)
{
    switch (c->mixer) {
    case MIXER_ATTENTION:
        return missing_attention(m, c, seq_len);
    case MIXER_MLA:
        return "latent attention (MLA)";
    case MIXER_DELTA:
        return "the gated delta rule";
    case MIXER_MAMBA2:
        return "Mamba-2";
    case MIXER_UNKNOWN:
        return "layers that only their shapes are known of";
    case MIXER_NONE:
        break;
    }
    return NULL;
}

static const char *missing_mlp(const struct model *m, const struct unit_class *c)
{
    if (!c->ffn)
        return NULL;
    if (c->act != ACT_SWIGLU && c->act != ACT_GELU)
        return c->act == ACT_GEGLU ? "GEGLU" : "ReLU";
    if (has(m, c, SLOT_GATE_UP, false, false) || has(m, c, SLOT_GATE_UP, false, true))
        return "gate and up in one projection; --split-fused makes it two";
    if (!c->n_experts)
        return NULL;
    if (c->route != ROUTE_SOFTMAX_OF_CHOSEN)
        return "routing other than a softmax over the chosen experts";
    if (has(m, c, SLOT_DOWN, true, true) || has(m, c, SLOT_UP, true, true))
        return "experts with biases";
    if (experts_in_out(m, c))
        return "experts stored (in, out)";
    if (has(m, c, SLOT_SHARED_ROUTER, false, false))
        return "a weighted shared expert";
    return NULL;
}

int graph_trains(const struct model *m, uint64_t seq_len, struct err *e)
{
    for (uint32_t i = 0; i < m->n_classes; i++) {
        const struct unit_class *c = &m->classes[i];
        const char *what = NULL;

        if (c->heads_unknown)
            what = "only shapes: its heads and activation are a guess";
        else if (c->scaled)
            what = "constant multipliers or soft caps";
        else if (c->kind == UNIT_BRIDGE)
            what = "an encoder beside its decoder";
        else if (has(m, c, SLOT_TOKEN_TYPE, false, false))
            what = "a table of token types";
        else if (has(m, c, SLOT_TRANSFORM, false, false) || has(m, c, SLOT_POOLER, false, false))
            what = "a head of several products";
        else if (c->kind == UNIT_HEAD && c->vocab != m->vocab)
            what = "a head that gives scores, not tokens";
        else if (c->kind == UNIT_LAYER) {
            what = missing_mixer(m, c, seq_len);
            if (!what)
                what = missing_mlp(m, c);
        }
        if (what)
            return err_set(e, ERR_UNSUPPORTED,
                           "exec does not train '%.100s' (%.40s): class '%.40s' has %s; plan, sim "
                           "and compare count it",
                           m->name, m->arch, c->name, what);
    }
    return 0;
}
