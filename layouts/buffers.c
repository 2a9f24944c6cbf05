/* What ranks hold: always (parameters, states, master copies), and during forward and backward. */
#include "layouts/emit.h"

#include "core/num.h"
#include "model/plan/segment_algo.h"

#include <string.h>

/* ---- resident memory ---- */

/* Bytes that every rank has, and that the holders of a part of the states have beside them. */
struct resident {
    struct lower *l;
    const struct tensor *t;
    uint64_t state_bytes; /* of the whole tensor t */
    bool whole;           /* each holder has all of them */
    uint64_t params, states, master;
    uint64_t *own_params, *own_states, *own_master; /* [shards] */
};

static uint64_t master_bytes(const struct lower *l, uint64_t elements)
{
    return l->j->master_weights ? dtype_bytes(DTYPE_FP32, elements) : 0;
}

static void add_part(void *ctx, const struct placement_run *run)
{
    struct resident *x = ctx;

    for (uint32_t k = run->part; k < run->part + run->n; k++) {
        x->own_states[k] +=
            x->whole ? x->state_bytes : layout_share(x->state_bytes, run->each, x->t->numel);
        x->own_master[k] += master_bytes(x->l, run->each);
        if (placement_parts(x->l->plan, PARAM) > 1)
            x->own_params[k] += dtype_bytes(x->l->j->param_dtype, run->each);
    }
}

/* Replicated, or cut by rows: padded to the same on every rank. */
static void add_every(struct resident *x)
{
    const struct plan *plan = x->l->plan;
    uint64_t rows = x->t->rows, param_rows = rows, s = x->state_bytes;

    if (plan->place[x->t - plan->model.tensors].rule == PLACE_CHUNK) {
        rows = placement_rows(plan, x->t, STATE);
        param_rows = placement_rows(plan, x->t, PARAM);
        s = x->whole ? s : num_ceil_div(s * rows, x->t->rows);
    }
    x->states += s;
    x->master += master_bytes(x->l, rows * x->t->cols);
    x->params += dtype_bytes(x->l->j->param_dtype, param_rows * x->t->cols);
}

/* What a rank in the middle has is taken for all: most flat slices hold matrices alone, most ranks
 * of few owners nothing. */
static struct rank_table resident_table(struct lower *l, uint64_t every, const uint64_t *owned)
{
    struct rank_value *v = ARENA_NEW(l->a, struct rank_value, l->n);
    struct rank_table t = {.every = every + owned[placement_index(l->plan, STATE, l->n / 2)],
                           .only = v};

    for (uint32_t r = 0; r < l->n; r++) {
        uint64_t bytes = every + owned[placement_index(l->plan, STATE, r)];

        if (bytes != t.every)
            v[t.n_only++] = (struct rank_value){r, bytes};
    }
    return t;
}

static void resident_buffer(struct lower *l, const char *name, enum mem_part part, enum dtype d,
                            enum holds holds, uint64_t every, const uint64_t *owned, uint32_t *id)
{
    struct buffer b = {.name = name,
                       .part = part,
                       .dtype = d,
                       .rule = SIZE_BY_RANK,
                       .span = SPAN_RESIDENT,
                       .holds = holds,
                       .cut = part == MEM_PARAMS ? PARAM : STATE};

    b.ranks = resident_table(l, every, owned);
    *id = program_add_buffer(&l->b, &b);
}

void lower_resident(struct lower *l)
{
    const struct job *j = l->j;
    struct resident x = {.l = l,
                         .own_params = ARENA_NEW(l->a, uint64_t, l->shards),
                         .own_states = ARENA_NEW(l->a, uint64_t, l->shards),
                         .own_master = ARENA_NEW(l->a, uint64_t, l->shards)};
    uint64_t *none = ARENA_NEW(l->a, uint64_t, l->shards);

    for (uint32_t i = 0; i < l->m->n_tensors; i++) {
        enum place_rule rule = l->plan->place[i].rule;

        x.t = &l->m->tensors[i];
        x.state_bytes = layout_state_bytes(j, x.t);
        x.whole = layout_state_is_whole(l->plan, x.t);
        if (rule == PLACE_FLAT || rule == PLACE_OWNER)
            placement_runs(l->plan, i, STATE, add_part, &x);
        else
            add_every(&x);
    }
    if (placement_parts(l->plan, PARAM) == 1)
        x.params = dtype_bytes(j->param_dtype, l->m->total_params);
    resident_buffer(l, "params", MEM_PARAMS, j->param_dtype,
                    placement_parts(l->plan, PARAM) > 1 ? HOLDS_MODEL_PARTS : HOLDS_MODEL, x.params,
                    x.own_params, &l->params);
    l->weights = l->params;
    resident_buffer(l, "states", MEM_STATES, j->state_dtype, HOLDS_MODEL_STATES, x.states,
                    x.own_states, &l->states);
    if (j->master_weights)
        resident_buffer(l, "master", MEM_MASTER, DTYPE_FP32, HOLDS_MODEL_PARTS, x.master,
                        x.own_master, &l->master);
    if (l->move.full_grads)
        resident_buffer(l, "grads", MEM_GRADS, j->grad_dtype, HOLDS_MODEL,
                        dtype_bytes(j->grad_dtype, l->m->total_params), none, &l->grads);
}

/* ---- the buffers of forward and backward ---- */

static uint64_t *by_unit(struct lower *l, uint64_t (*bytes)(struct lower *, uint32_t))
{
    uint64_t *v = ARENA_NEW(l->a, uint64_t, l->m->n_units);

    for (uint32_t u = 0; u < l->m->n_units; u++)
        v[u] = bytes(l, u);
    return v;
}

static uint64_t gathered_bytes(struct lower *l, uint32_t u)
{
    return part_unit_bytes(l->plan, u, l->j->param_dtype);
}

static uint64_t unit_grad_bytes(struct lower *l, uint32_t u)
{
    return part_unit_bytes(l->plan, u, l->j->grad_dtype);
}

static uint64_t input_bytes(struct lower *l, uint32_t u)
{
    return l->graphs[l->m->units[u].class_id].values[0].bytes;
}

static uint64_t input_grad_bytes(struct lower *l, uint32_t u)
{
    return u ? input_bytes(l, u) : 0;
}

static uint32_t unit_buffer(struct lower *l, const char *name, enum mem_part part, enum dtype d,
                            enum holds holds, uint64_t (*bytes)(struct lower *, uint32_t))
{
    return program_add_buffer(&l->b, &(struct buffer){.name = name,
                                                      .part = part,
                                                      .dtype = d,
                                                      .rule = SIZE_BY_UNIT,
                                                      .span = SPAN_UNIT_MICRO,
                                                      .holds = holds,
                                                      .unit_bytes = by_unit(l, bytes)});
}

/* A padded gather lands in n equal parts of the largest share before it is put in order. */
static uint64_t padded_bytes(struct lower *l, uint32_t u)
{
    const struct segment_table *t = &l->p->segment_tables[l->move.gather.table];
    uint64_t most = 0;

    for (uint32_t i = t->start[u]; i < t->start[u + 1]; i++) {
        uint64_t owned = 0;

        for (uint32_t k = t->start[u]; k < t->start[u + 1]; k++)
            if (t->segments[k].root == t->segments[i].root)
                owned += t->segments[k].elements;
        most = num_max(most, owned);
    }
    return dtype_bytes(l->j->param_dtype, most * l->shards);
}

/* What units make for later ones, and who reads it: the one place that looks for them. */
static void carried_buffers(struct lower *l)
{
    bool read[CARRIED_N] = {false};

    for (int c = 0; c < CARRIED_N; c++)
        l->carried[c].value = l->carried[c].grad = l->carried[c].first = l->carried[c].last =
            PROGRAM_NONE;
    for (uint32_t u = 0; u < l->m->n_units; u++) {
        const struct unit_graph *g = &l->graphs[l->m->units[u].class_id];

        for (uint32_t i = 0; i < g->n_ops; i++)
            for (uint32_t k = 0; k < g->ops[i].n_in; k++) {
                enum carry c = g->values[g->ops[i].in[k]].carried;

                l->carried[c].last = u;
                if (!read[c])
                    l->carried[c].first = u;
                read[c] = true;
            }
        for (uint32_t v = 0; v < g->n_values; v++) {
            enum carry c = g->values[v].carried;
            struct buffer b = {.part = MEM_ACTIVATIONS,
                               .dtype = l->j->param_dtype,
                               .rule = SIZE_CONST,
                               .span = SPAN_MICRO,
                               .bytes = g->values[v].bytes};

            if (c == CARRIED_NONE || l->carried[c].value != PROGRAM_NONE)
                continue;
            b.name = arena_printf(l->a, "act.%s", carried_name(c));
            l->carried[c].value = program_add_buffer(&l->b, &b);
            b.name = arena_printf(l->a, "grad.%s", carried_name(c));
            l->carried[c].grad = program_add_buffer(&l->b, &b);
            if (l->carried[c].first == PROGRAM_NONE) /* until somebody does: layers of which only
                                                        shapes are known do not */
                l->carried[c].first = l->carried[c].last = u;
        }
    }
}

/* One part of each unit's reduced gradients. */
static uint64_t *part_grad_bytes(struct lower *l)
{
    uint64_t *v = part_even(l->plan, l->move.reduce.to, 1, l->a);

    for (uint32_t u = 0; u < l->m->n_units; u++)
        v[u] = dtype_bytes(l->j->grad_dtype, v[u]);
    return v;
}

void step_buffers(struct lower *l)
{
    const struct job *j = l->j;

    l->inputs =
        unit_buffer(l, "act.input", MEM_ACTIVATIONS, j->param_dtype, HOLDS_NOTHING, input_bytes);
    l->input_grads = unit_buffer(l, "grad.input", MEM_ACTIVATIONS, j->param_dtype, HOLDS_NOTHING,
                                 input_grad_bytes);
    if (l->move.gather.group != PROGRAM_NONE)
        l->weights =
            unit_buffer(l, "gathered", MEM_GATHERED, j->param_dtype, HOLDS_UNIT, gathered_bytes);
    if (l->move.gather.table != PROGRAM_NONE && segment_algo_pads(j->gather))
        l->padded = unit_buffer(l, "gather.padded", MEM_BUFFERS, j->param_dtype, HOLDS_NOTHING,
                                padded_bytes);
    if (!l->move.full_grads) {
        l->grads =
            unit_buffer(l, "grads.unit", MEM_GRADS, j->grad_dtype, HOLDS_UNIT, unit_grad_bytes);
        if (l->move.reduce.even)
            l->grad_shard =
                program_add_buffer(&l->b, &(struct buffer){.name = "grads.shard",
                                                           .part = MEM_GRADS,
                                                           .dtype = j->grad_dtype,
                                                           .rule = SIZE_BY_UNIT,
                                                           .span = SPAN_UNIT,
                                                           .holds = HOLDS_UNIT_PARTS,
                                                           .cut = l->move.reduce.to,
                                                           .unit_bytes = part_grad_bytes(l)});
        if (l->move.reduce.table != PROGRAM_NONE)
            l->grad_owned =
                program_add_buffer(&l->b, &(struct buffer){.name = "grads.owned",
                                                           .part = MEM_GRADS,
                                                           .dtype = j->grad_dtype,
                                                           .rule = SIZE_SEGMENTS,
                                                           .span = SPAN_UNIT,
                                                           .holds = HOLDS_UNIT_SEGMENTS,
                                                           .cut = l->move.reduce.to,
                                                           .table = l->move.reduce.table});
    }
    carried_buffers(l);
    l->values = arena_alloc(l->a, l->m->n_classes, sizeof(*l->values));
    l->value_grads = arena_alloc(l->a, l->m->n_classes, sizeof(*l->value_grads));
    memset(l->values, 0xff, l->m->n_classes * sizeof(*l->values));
    memset(l->value_grads, 0xff, l->m->n_classes * sizeof(*l->value_grads));
}

uint32_t value_buffer(struct lower *l, uint32_t class_id, uint32_t v, bool grad)
{
    uint32_t *id = grad ? &l->value_grads[class_id][v] : &l->values[class_id][v];
    const struct graph_value *x = &l->graphs[class_id].values[v];

    if (*id == PROGRAM_NONE)
        *id = program_add_buffer(
            &l->b, &(struct buffer){.name = arena_printf(l->a, "%s.%s.%s", grad ? "grad" : "act",
                                                         l->m->classes[class_id].name, x->name),
                                    .part = x->logits ? MEM_LOGITS : MEM_ACTIVATIONS,
                                    .dtype = l->j->param_dtype,
                                    .rule = SIZE_CONST,
                                    .span = SPAN_UNIT_MICRO,
                                    .bytes = x->bytes});
    return *id;
}
