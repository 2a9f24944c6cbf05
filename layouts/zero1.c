/* layouts/zero1.c - parameters on every rank, optimizer states cut: zero1; and gradients with them: zero2.
 *
 * zero1+gather: states are equal slices of the flat concatenation of all parameters. Gradients are reduced to the slices
 * that a bucket touches; a matrix that slice boundaries cut (at most W-1 boundaries) is gathered by its holders, each of
 * which updates its part (and holds the preconditioners of Shampoo and SOAP whole); then the slices of all parameters are
 * all-gathered.
 * zero1+owner (Megatron layer-wise, Canzona DP): each matrix's state is whole on its owner; gradients are reduced to
 * owners, updated matrices travel from owner to all.
 *
 * zero2+gather, zero2+owner (DeepSpeed's stage 2): the same, but a rank keeps the gradients of its slice, or of what it
 * owns, alone. So they are reduced unit by unit in every micro-batch, in calls of up to a bucket, and added up where they
 * arrive; a unit's whole ones live from its backward to the end of its reduction. DeepSpeed also collects units that are
 * smaller than a bucket, which is not modelled.
 *
 * With --overlap-refresh the program starts with the refresh of the step before, unit by unit, and forward waits for its unit: a step
 * in the middle of a run.
 *
 * With a shard group of G < W ranks (zero1 with an elementwise optimizer only) there are W/G
 * copies of the states: gradients are all-reduced as in ddp, and parameters gathered inside groups
 * of G neighbours.
 *
 * Bytes sent by all ranks: reduction (W-1) N s_g (zero2: in each micro-batch), refresh (W-1) times the padded bytes, and for every cut matrix with h
 * holders (h-1) times its bytes.
 */
#include "layouts/families.h"
#include "layouts/step.h"

#include "core/num.h"
#include "model/plan/frameworks.h"
#include "model/plan/optimizers.h"

/* zero2, on several ranks. */
static bool cuts_grads(const struct plan *plan)
{
    return plan->grads.in_node * plan->grads.nodes > 1;
}

/* The framework's broadcasts, where it has them: of whole tensors along rings, as NCCL's are, unless the job says how
 * segments travel. */
static struct op refresh_op(const struct lower *l, const char *name, enum coll_kind kind)
{
    bool broadcasts = framework_row(l->j->framework)->broadcasts;

    return (struct op){.name = name,
                       .kind = OP_COLLECTIVE,
                       .phase = PHASE_REFRESH,
                       .stream = STREAM_GATHER,
                       .guard = {.unit_class = PROGRAM_NONE},
                       .coll = {.kind = kind,
                                .calls = broadcasts ? CALLS_BROADCASTS : CALLS_USUAL,
                                .group = l->world,
                                .algo = broadcasts && plan_gathers_as_framework(l->plan)
                                            ? ALGO_RING
                                            : l->j->gather,
                                .table = PROGRAM_NONE,
                                .piece_bytes = l->j->bucket_bytes,
                                .wire = l->j->param_dtype,
                                .peer_op = PROGRAM_NONE}};
}

/* After the optimizer; or, of the step before, at once, and forward waits for it. */
static void refresh_add(struct lower *l, const struct op *o)
{
    uint32_t id = program_add_op(&l->b, o);

    if (l->j->overlap_refresh) {
        l->refresh[l->n_refresh++] = id;
        program_op_operand(
            &l->b, id,
            (struct operand){.buffer = l->params, .tensor = OPERAND_WHOLE, .access = ACCESS_ADD});
        return;
    }

    program_op_operand(
        &l->b, id,
        (struct operand){.buffer = l->params, .tensor = OPERAND_WHOLE, .access = ACCESS_ADD});
    program_op_wait(&l->b, id, (struct wait){.op = l->optimizer_end});
}

static void refresh_slices(struct lower *l)
{
    struct op o = refresh_op(l, "refresh", COLL_ALL_GATHER);

    o.coll.group = l->shard;
    o.coll.bytes = dtype_bytes(l->j->param_dtype, part_slice(l->plan) * l->shards);
    if (l->shards > 1)
        refresh_add(l, &o);
}

/* Unit by unit, each cut into even parts (as Megatron's buckets are). */
static void refresh_units(struct lower *l)
{
    struct op o = refresh_op(l, "refresh", COLL_ALL_GATHER);
    uint64_t *bytes = ARENA_NEW(l->a, uint64_t, l->m->n_units);

    if (l->shards == 1)
        return;
    for (uint32_t u = 0; u < l->m->n_units; u++)
        bytes[u] = dtype_bytes(l->j->param_dtype,
                               num_ceil_div(l->m->units[u].numel, l->shards) * l->shards);
    program_open_loop(&l->b, &(struct loop){.kind = LOOP_UNIT, .end = l->m->n_units});
    o.coll.group = l->shard;
    o.coll.unit_bytes = bytes;
    o.coll.piece_bytes = 0;
    refresh_add(l, &o);
    program_close_loop(&l->b);
}

static void refresh_owned(struct lower *l, uint32_t table, const uint64_t *even)
{
    struct op o = refresh_op(l, "refresh", COLL_SEGMENT_GATHER);

    program_open_loop(&l->b, &(struct loop){.kind = LOOP_UNIT, .end = l->m->n_units});
    o.coll.table = table;
    o.coll.piece_bytes = 0;
    refresh_add(l, &o);
    if (even) {
        o = refresh_op(l, "refresh.tail", COLL_ALL_GATHER);
        if (l->p->segment_tables[table].start[l->m->n_units])
            o.coll.calls = CALLS_USUAL; /* what has no owner, beside the owners' segments */
        o.coll.unit_bytes = even;
        o.coll.piece_bytes = 0;
        refresh_add(l, &o);
    }
    program_close_loop(&l->b);
}

static void refresh(struct lower *l, bool owner)
{
    struct segment_table t;

    if (owner) {
        t = framework_row(l->j->framework)->broadcasts
                ? part_owner_tensors(l->plan, l->j->param_dtype, l->a)
                : part_owner_segments(l->plan, l->j->param_dtype, l->a);
        refresh_owned(l, program_add_segments(&l->b, &t),
                      part_chunk_table(l->plan, l->j->param_dtype, 1, l->a));
    } else if (l->j->overlap_refresh) {
        refresh_units(l);
    } else {
        refresh_slices(l);
    }
}

static void reduce_to_owners(struct lower *l)
{
    struct segment_table t = part_owner_segments(l->plan, l->j->grad_dtype, l->a);

    l->move.reduce_table = program_add_segments(&l->b, &t);
    l->move.reduce_bytes = part_chunk_table(l->plan, l->j->grad_dtype, 1, l->a);
    if (cuts_grads(l->plan))
        l->move.grad_bytes = part_chunk_table(l->plan, l->j->grad_dtype, l->shards, l->a);
}

static void reduce_to_slices(struct lower *l)
{
    struct bucket *b = part_buckets(l->plan, cuts_grads(l->plan) ? 0 : l->j->bucket_bytes, l->a);
    struct segment_table t = part_slice_segments(l->plan, b, l->j->grad_dtype, l->a);

    l->move.reduce_table = program_add_segments(&l->b, &t);
    l->move.reduce_algo = ALGO_RING;
    l->move.piece_bytes = l->j->bucket_bytes;
}

static int zero1_lower(const struct plan *plan, struct arena *a, struct program *p, struct err *e)
{
    bool owner = plan->strategy == STRATEGY_OWNER, many = plan->world > 1;
    struct segment_table t;
    struct lower l;
    struct matrix_step step = {.work = owner ? WORK_BY_OWNER : WORK_BY_SLICE,
                               .cut_table = PROGRAM_NONE};

    if (lower_begin(&l, plan, a, p, e))
        return -1;
    l.move.full_grads = !cuts_grads(plan);
    l.move.reduce_when = cuts_grads(plan) ? WHEN_ALWAYS : WHEN_LAST;
    if (many && owner) {
        reduce_to_owners(&l);
    } else if (plan_shards(plan) < plan->world) { /* every copy of the states needs all gradients */
        l.move.reduce_group = l.world;
        l.move.reduce_kind = COLL_ALL_REDUCE;
        l.move.reduce_bytes = ddp_bucket_bytes(plan, a);
        l.move.piece_bytes = plan->job.bucket_bytes;
    } else if (many) {
        reduce_to_slices(&l);
        t = part_cut_segments(plan, optimizer_travel_dtype(&plan->job), a);
        step.cut_table = program_add_segments(&l.b, &t);
    }
    if (cuts_grads(plan))
        l.move.grad_table = l.move.reduce_table;
    lower_resident(&l);
    if (many && plan->job.overlap_refresh)
        refresh(&l, owner);
    lower_forward_backward(&l);
    lower_optimizer_begin(&l);
    lower_matrix_step(&l, &step);
    lower_tail_step(&l);
    lower_optimizer_end(&l);
    if (many && !plan->job.overlap_refresh)
        refresh(&l, owner);
    return lower_end(&l, e);
}

/* Bytes of the matrices that slice boundaries cut, times their holders less one. */
static uint64_t cut_bytes(const struct plan *plan)
{
    uint64_t slice = part_slice(plan), at = 0, sum = 0;

    for (uint32_t i = 0; i < plan->model.n_tensors; i++) {
        const struct tensor *t = &plan->model.tensors[i];

        if (layout_updates_as_matrix(plan, t))
            sum += dtype_bytes(optimizer_travel_dtype(&plan->job), t->numel) *
                   ((at + t->numel - 1) / slice - at / slice);
        at += t->numel;
    }
    return sum;
}

/* Bytes that one copy of the parameters is padded to where units are refreshed one by one; else `even`. */
static uint64_t refresh_bytes(const struct plan *plan, uint64_t shards, uint64_t even)
{
    uint64_t sum = 0;

    if (!plan->job.overlap_refresh)
        return even;
    for (uint32_t u = 0; u < plan->model.n_units; u++)
        sum += num_ceil_div(plan->model.units[u].numel, shards) * shards;
    return sum;
}

static int zero1_formula(const struct plan *plan, uint64_t bytes[PHASE_N], struct err *e)
{
    const struct job *j = &plan->job;
    uint64_t w = plan->world, even, reduced = 0, refreshed = 0;
    uint64_t times = cuts_grads(plan) ? j->grad_accum : 1;

    (void)e;
    for (int i = 0; i < PHASE_N; i++)
        bytes[i] = 0;
    if (w == 1)
        return 0;
    if (plan_shards(plan) < w) {
        uint64_t g = plan_shards(plan), all = part_slice(plan) * g;
        uint64_t piece = num_max(j->bucket_bytes / dtype_bytes(j->param_dtype, 1), 1);

        if (layout_ddp.formula(plan, bytes, e))
            return -1;
        even = j->bucket_bytes && j->bucket_bytes < dtype_bytes(j->param_dtype, all)
                   ? (all / piece * num_ceil_div(piece, g) + num_ceil_div(all % piece, g)) * g
                   : all;
        bytes[PHASE_REFRESH] =
            w / g * (g - 1) * dtype_bytes(j->param_dtype, refresh_bytes(plan, g, even));
        return 0;
    }
    if (plan->strategy != STRATEGY_OWNER) {
        uint64_t piece = num_max(j->bucket_bytes / dtype_bytes(j->param_dtype, 1), 1),
                 all = part_slice(plan) * w;

        bytes[PHASE_BACKWARD] =
            times * (w - 1) * dtype_bytes(j->grad_dtype, plan->model.total_params);
        bytes[PHASE_OPTIMIZER] = cut_bytes(plan);
        even = j->bucket_bytes && j->bucket_bytes < dtype_bytes(j->param_dtype, all)
                   ? (all / piece * num_ceil_div(piece, w) + num_ceil_div(all % piece, w)) * w
                   : all;
        bytes[PHASE_REFRESH] = (w - 1) * dtype_bytes(j->param_dtype, refresh_bytes(plan, w, even));
        return 0;
    }
    for (uint32_t u = 0; u < plan->model.n_units; u++) {
        reduced +=
            part_chunk_bytes(plan, u, j->grad_dtype) + part_owned_bytes(plan, u, j->grad_dtype);
        refreshed +=
            part_chunk_bytes(plan, u, j->param_dtype) + part_owned_bytes(plan, u, j->param_dtype);
    }
    bytes[PHASE_BACKWARD] = times * (w - 1) * reduced;
    bytes[PHASE_REFRESH] = (w - 1) * refreshed;
    return 0;
}

const struct layout layout_zero1 = {
    .name = "zero1",
    .line = "parameters and gradients on every rank, states cut; updated parameters gathered",
    .strategy = STRATEGY_GATHER,
    .allowed = 1u << STRATEGY_GATHER | 1u << STRATEGY_OWNER,
    .rule = PLACE_FLAT,
    .groups = GROUPS_ELEMENTWISE,
    .shard_states = true,
    .lower = zero1_lower,
    .formula = zero1_formula,
};

const struct layout layout_zero2 = {
    .name = "zero2",
    .line = "zero1 with gradients cut as well, reduced in every micro-batch (DeepSpeed's stage 2)",
    .strategy = STRATEGY_GATHER,
    .allowed = 1u << STRATEGY_GATHER | 1u << STRATEGY_OWNER,
    .rule = PLACE_FLAT,
    .shard_grads = true,
    .shard_states = true,
    .lower = zero1_lower,
    .formula = zero1_formula,
};
