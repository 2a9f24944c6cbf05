#include "layouts/lives.h"

#include "model/program/program.h"

/* Value v must be there in backward: kept from forward, or made again from what is. */
static void want(struct class_lives *k, uint32_t v)
{
    if (v == 0 || k->outside[v] || k->kept[v] || k->recomputed[v])
        return;
    k->recomputed[v] = true;
    for (uint32_t i = 0; i < k->g->n_ops; i++)
        if (k->g->ops[i].out == v || k->g->ops[i].beside == v)
            for (uint32_t x = 0; x < k->g->ops[i].n_in; x++)
                want(k, k->g->ops[i].in[x]);
}

/* The values that selective recomputation keeps. By operation: the result of attention and of every other matrix
 * multiplication of a layer (the first, the third, ...; of experts all). */
static void selective_saves(const struct unit_graph *g, enum selective policy,
                            bool saves[GRAPH_MAX_VALUES])
{
    bool by_operation = policy == SELECTIVE_OPERATIONS;
    uint32_t products = 0;

    for (uint32_t v = 0; v < g->n_values; v++)
        saves[v] = !g->values[v].again && (!by_operation || g->values[v].heavy);
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct kernel_call *k = &g->ops[i].forward;

        if (!by_operation && k->kernel == KERNEL_ATTENTION)
            saves[g->ops[i].out] = false;
        if (g->ops[i].beside)
            saves[g->ops[i].beside] = false;
        if (by_operation && k->kernel == KERNEL_GEMM && k->batch == 1 && products++ % 2)
            saves[g->ops[i].out] = false;
    }
}

/* Does the operation run again in backward? */
static bool made_again(const struct class_lives *k, const struct graph_op *o)
{
    return k->recomputed[o->out] || (o->beside && k->recomputed[o->beside]);
}

/* Selective recomputation keeps what it saves; a policy by operation also what neither backward nor a recomputation
 * reads. */
void lives_retain(struct class_lives *k, enum recompute mode, enum selective policy)
{
    const struct unit_graph *g = k->g;
    bool saves[GRAPH_MAX_VALUES];

    selective_saves(g, policy, saves);
    for (uint32_t v = 1; v < g->n_values; v++) {
        bool by_operation = g->values[v].heavy && policy == SELECTIVE_OPERATIONS;

        if ((g->values[v].needed || by_operation) && !k->outside[v])
            k->kept[v] = !g->values[v].again && ((mode == RECOMPUTE_NONE && g->values[v].needed) ||
                                                 (mode == RECOMPUTE_SELECTIVE && saves[v]));
    }
    if (mode == RECOMPUTE_SELECTIVE)
        for (uint32_t i = g->n_ops; i-- > 0;) { /* inputs of what is to be recomputed */
            const struct graph_op *o = &g->ops[i];
            bool again = g->values[o->out].needed && !k->kept[o->out] && !k->outside[o->out];

            if (k->outside[o->out])
                continue;
            for (uint32_t n = i + 1; n < g->n_ops && !again; n++)
                for (uint32_t x = 0; x < g->ops[n].n_in; x++)
                    again |= made_again(k, &g->ops[n]) && g->ops[n].in[x] == o->out;
            if (o->beside)
                k->recomputed[o->beside] = !k->kept[o->beside];
            if (!again || k->kept[o->out])
                continue;
            if (saves[o->out])
                k->kept[o->out] = true;
            else
                k->recomputed[o->out] = true;
        }
    for (uint32_t v = 1; v < g->n_values; v++)
        if (g->values[v].needed && !k->kept[v] && !k->outside[v])
            want(k, v);
}

void lives_passes(struct class_lives *k)
{
    const struct unit_graph *g = k->g;

    for (uint32_t i = 0; i < g->n_ops; i++)
        k->forward.list[k->forward.n++] = (struct entry){i, -1};
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (made_again(k, &g->ops[i]))
            k->backward.list[k->backward.n++] = (struct entry){i, -1};
    for (uint32_t i = g->n_ops; i-- > 0;)
        for (uint32_t b = 0; b < g->ops[i].n_backward; b++)
            k->backward.list[k->backward.n++] = (struct entry){i, (int)b};
}

/* Does entry x read value v? */
static bool entry_reads(const struct unit_graph *g, struct entry x, uint32_t v)
{
    const struct graph_op *o = &g->ops[x.op];

    for (uint32_t i = 0; i < o->n_in; i++)
        if (o->in[i] == v &&
            (x.part < 0 || (o->saves_in[i] && !(o->n_backward == 2 && x.part == 0))))
            return true;
    return x.part >= 0 && ((o->saves_out && o->out == v) || (v && o->beside == v));
}

/* Does it make the gradient of v? */
bool lives_makes_grad(const struct unit_graph *g, struct entry x, uint32_t v)
{
    const struct graph_op *o = &g->ops[x.op];

    if (x.part < 0 || (o->n_backward == 2 && x.part == 1))
        return false;
    for (uint32_t i = 0; i < o->n_in; i++)
        if (o->in[i] == v)
            return true;
    return false;
}

uint32_t lives_last_read(const struct unit_graph *g, const struct pass *p, uint32_t v)
{
    for (uint32_t i = p->n; i-- > 0;)
        if (entry_reads(g, p->list[i], v))
            return i;
    return PROGRAM_NONE;
}

uint32_t lives_made_at(const struct unit_graph *g, const struct pass *p, uint32_t v)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (p->list[i].part < 0 && v &&
            (g->ops[p->list[i].op].out == v || g->ops[p->list[i].op].beside == v))
            return i;
    return PROGRAM_NONE;
}
