/* From a plan to its step program: which redistributions a layout needs, and when each happens.
 *
 * P, G and S are the parts that parameters, gradients and states are cut into, P <= G <= S, and R
 * the replicas.
 *
 *     P > 1    units are gathered for forward, and for backward again unless they stay (--reshard
 * never) G > 1    gradients are reduced to their parts in every micro-batch (with --grad-sync last:
 * in the last) S > G    in the last micro-batch they are reduced to the parts of the states R > 1
 * ... and those are summed over the replicas S > P    updated parameters are gathered after the
 * step (with --overlap-refresh beside the next forward)
 *
 * zero1 with shard groups is the exception: as in ddp, each bucket is all-reduced over all ranks at
 * once.
 */
#include "layouts/redistribute.h"
#include "layouts/step.h"

#include "core/num.h"
#include "model/plan/frameworks.h"
#include "model/plan/optimizers.h"

#include <string.h>

/* PyTorch's no_sync: of several micro-batches the first ones leave their gradients whole where they
 * are. One is reduced as ever. */
static bool syncs_last(const struct plan *plan)
{
    return plan->job.sync_last && plan->job.grad_accum > 1;
}

/* Gradients of a micro-batch, or of all, become such parts first. */
static enum component reduced_to(const struct plan *plan, const struct layout *l)
{
    if (placement_parts(plan, GRAD) > 1)
        return GRAD;
    if (placement_parts(plan, STATE) == 1 || (l->buckets && plan->strategy != STRATEGY_OWNER &&
                                              placement_parts(plan, STATE) < plan_data_ranks(plan)))
        return WHOLE;
    return STATE;
}

/* Elements of a call of bucket_bytes; 0: one call. */
static uint64_t bucket_elements(const struct lower *l, enum dtype d)
{
    uint64_t bytes = l->j->bucket_bytes;

    return bytes ? num_max(bytes / dtype_bytes(d, 1), 1) : 0;
}

/* ---- gradients ---- */

static void add_level(struct lower *l, enum component from, enum component to)
{
    struct exchange x = redistribute(l, from, to, true, l->j->grad_dtype, 0);

    if (x.group != PROGRAM_NONE)
        l->move.level[l->move.n_levels++] = x;
}

static void plan_reductions(struct lower *l)
{
    enum component to = reduced_to(l->plan, l->layout);
    bool buckets = l->layout->buckets && l->plan->strategy != STRATEGY_OWNER;

    l->move.full_grads = placement_parts(l->plan, GRAD) == 1 || syncs_last(l->plan);
    l->move.reduce_when = l->move.full_grads ? WHEN_LAST : WHEN_ALWAYS;
    /* gradients that are cut leave unit by unit, in calls of up to a bucket */
    l->move.reduce = redistribute(l, WHOLE, to, true, l->j->grad_dtype,
                                  buckets && to != GRAD ? l->j->bucket_bytes : 0);
    l->move.reduce.piece = buckets ? bucket_elements(l, l->j->grad_dtype) : 0;
    l->move.level_stream = l->layout->level_stream;
    if (to == WHOLE)
        return;
    if (placement_parts(l->plan, STATE) > placement_parts(l->plan, to))
        add_level(l, to, STATE);
    add_level(l, STATE, STATE);
}

/* ---- updated parameters ---- */

static void add_refresh(struct lower *l, struct op *o)
{
    uint32_t id;

    o->kind = OP_COLLECTIVE;
    o->phase = PHASE_REFRESH;
    o->stream = STREAM_GATHER;
    o->guard.unit_class = PROGRAM_NONE;
    o->coll.peer_op = PROGRAM_NONE;
    o->coll.traffic = TRAFFIC_REFRESH;
    o->coll.moved.from_buffer = o->coll.moved.to_buffer = l->params;
    id = program_add_op(&l->b, o);
    program_op_operand(
        &l->b, id,
        (struct operand){.buffer = l->params, .tensor = OPERAND_WHOLE, .access = ACCESS_ADD});
    if (l->j->overlap_refresh)
        l->refresh[l->n_refresh++] = id;
    else
        program_op_wait(&l->b, id, (struct wait){.op = l->optimizer_end});
}

/* DDP's optimizers of cut states broadcast, where the framework is known to. */
static bool broadcasts(const struct lower *l)
{
    return l->layout->buckets && framework_row(l->j->framework)->broadcasts;
}

/* The flat slices of all parameters at once; with --overlap-refresh unit by unit, each cut into
 * even parts (as Megatron's buckets are). */
static void refresh_slices(struct lower *l, uint32_t group)
{
    uint64_t *units = ARENA_NEW(l->a, uint64_t, l->m->n_units);
    struct op o = {.name = "refresh",
                   .coll = {.kind = COLL_ALL_GATHER,
                            .calls = broadcasts(l) ? CALLS_BROADCASTS : CALLS_USUAL,
                            .group = group,
                            .wire = {.dtype = l->j->param_dtype},
                            .table = PROGRAM_NONE,
                            .moved = {.from = STATE, .to = PARAM}}};

    if (!l->j->overlap_refresh) {
        o.coll.elements = placement_slice(l->plan, STATE) * l->shards;
        o.coll.piece = bucket_elements(l, l->j->param_dtype);
        add_refresh(l, &o);
        return;
    }
    for (uint32_t u = 0; u < l->m->n_units; u++)
        units[u] = num_ceil_div(l->m->units[u].numel, l->shards) * l->shards;
    o.coll.unit_elements = units;
    program_open_loop(&l->b, &(struct loop){.kind = LOOP_UNIT, .end = l->m->n_units});
    add_refresh(l, &o);
    program_close_loop(&l->b);
}

static void refresh(struct lower *l)
{
    struct exchange x = redistribute(l, STATE, PARAM, false, l->j->param_dtype, 0);
    struct segment_table t;
    struct op ops[2];
    uint32_t n;

    if (x.group == PROGRAM_NONE)
        return;
    if (l->layout->rule == PLACE_FLAT && l->plan->strategy != STRATEGY_OWNER) {
        refresh_slices(l, x.group);
        return;
    }
    if (broadcasts(l)) { /* of whole tensors, along rings as NCCL's are unless the job says how
                            segments travel */
        t = part_owner_tensors(l->plan, l->a);
        t.group = l->shard;
        x.table = program_add_segments(&l->b, &t);
        x.algo = plan_gathers_as_framework(l->plan) ? ALGO_RING : l->j->gather;
    }
    n = exchange_ops(l, &x, "refresh", ops);
    for (uint32_t i = 0; i < n && broadcasts(l);
         i++) /* what has no owner goes beside the owners' segments */
        ops[i].coll.calls = i && l->p->segment_tables[x.table].start[l->m->n_units]
                                ? CALLS_USUAL
                                : CALLS_BROADCASTS;
    program_open_loop(&l->b, &(struct loop){.kind = LOOP_UNIT, .end = l->m->n_units});
    for (uint32_t i = 0; i < n; i++)
        add_refresh(l, &ops[i]);
    program_close_loop(&l->b);
}

/* ---- the step ---- */

/* Which ranks work which matrices, and what they gather for it. */
static struct matrix_step matrix_step(struct lower *l)
{
    enum strategy s = l->plan->strategy;
    bool rows = l->layout->rule == PLACE_CHUNK && s != STRATEGY_OWNER,
         flat = l->layout->rule == PLACE_FLAT && s != STRATEGY_OWNER;
    struct matrix_step step = {.work = s == STRATEGY_OWNER ? WORK_BY_OWNER
                                       : flat              ? WORK_BY_SLICE
                                                           : WORK_ALL,
                               .sharded = rows,
                               .products = s == STRATEGY_STOCK,
                               .gather_each = rows && s == STRATEGY_GATHER,
                               .gather_once = s == STRATEGY_GATHER_ONCE,
                               .alltoall = s == STRATEGY_ALLTOALL,
                               .cut_table = PROGRAM_NONE};
    struct segment_table t;

    if (flat && placement_parts(l->plan, STATE) > 1 &&
        placement_parts(l->plan, STATE) == plan_data_ranks(l->plan)) {
        t = part_cut_segments(l->plan, l->a);
        t.group = l->shard;
        step.cut_table = program_add_segments(&l->b, &t);
    }
    return step;
}

/* All but the redistributions of gradients, which are planned. */
static int lower_step(struct lower *l, struct err *e)
{
    struct matrix_step step = matrix_step(l);

    lower_resident(l);
    if (l->j->overlap_refresh)
        refresh(l);
    lower_forward_backward(l);
    lower_optimizer_begin(l);
    lower_matrix_step(l, &step);
    lower_tail_step(l);
    lower_optimizer_end(l);
    if (!l->j->overlap_refresh)
        refresh(l);
    return lower_end(l, e);
}

int layout_lower(const struct plan *plan, struct arena *a, struct program *p, struct err *e)
{
    struct lower l;

    if (!layout_find(plan->layout))
        return err_set(e, ERR_UNKNOWN, "unknown layout '%s'", plan->layout);
    if (lower_begin(&l, plan, a, p, e))
        return -1;
    if (placement_parts(plan, PARAM) > 1)
        l.move.gather = redistribute(&l, PARAM, WHOLE, false, l.j->param_dtype, 0);
    plan_reductions(&l);
    return lower_step(&l, e);
}

/* ---- what exec's proof compares with ---- */

void layout_reference(const struct plan *plan, struct layout_reference *as)
{
    enum component to = reduced_to(plan, layout_find(plan->layout));
    axis_set levels[] = {plan->over[to], plan->over[STATE] & ~plan->over[to], AXES(AXIS_D3)};

    *as = (struct layout_reference){.mesh = &plan->mesh};
    as->every_micro = to == GRAD && !syncs_last(plan) && plan->job.grad_accum > 1;
    for (int i = 0; i < 3 && to != WHOLE; i++)
        if (mesh_size(&plan->mesh, levels[i]) > 1)
            as->level[as->n_levels++] = levels[i];
}

int layout_lower_reference(const struct plan *plan, const struct layout_reference *as,
                           struct arena *a, struct program *p, struct err *e)
{
    struct lower l;

    BUG_ON(strcmp(plan->layout, "ddp") != 0);
    if (!as->every_micro && as->n_levels < 2)
        return layout_lower(plan, a, p, e);
    if (lower_begin(&l, plan, a, p, e))
        return -1;
    l.move.full_grads = !as->every_micro;
    l.move.reduce_when = as->every_micro ? WHEN_ALWAYS : WHEN_LAST;
    l.move.level_stream = STREAM_ALL_REDUCE;
    for (uint32_t i = 0; i < as->n_levels; i++) {
        struct exchange x = redistribute_nothing();

        x.group = lower_group(&l, as->mesh, as->level[i]);
        x.even_kind = COLL_ALL_REDUCE;
        x.wire.dtype = l.j->grad_dtype;
        x.even = part_even(plan, WHOLE, 1, a);
        if (i)
            l.move.level[l.move.n_levels++] = x;
        else
            l.move.reduce = x;
    }
    return lower_step(&l, e);
}
