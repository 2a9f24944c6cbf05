/* layouts/zero3.c - parameters, gradients and states cut; units gathered for forward and again for backward.
 *
 * +stock, +gather, +gather-once, +alltoall (FSDP2): every tensor is cut by rows into W padded chunks; a matrix optimizer has to
 * rebuild matrices in the step. Stock lets DTensor gather operands around products that stay cut; gather rebuilds each
 * matrix and updates it on all ranks; gather-once rebuilds all of them first.
 * +alltoall (Dion, VeOmni): rows of W matrices of one shape travel so that each rank has one of them whole, and their updates back.
 * +owner (MatrixFSDP): each matrix is whole on one owner, the vectors of a unit on a tail owner; embedding and head are
 * cut by rows. Owners send their segments in forward and backward and receive reduced gradients; the step moves nothing.
 *
 * With --reshard never (FSDP2's reshard_after_forward=False, FSDP1's SHARD_GRAD_OP; what PyTorch's users call ZeRO-2) units
 * stay gathered from forward to the end of their backward: U_backward is 0, and all of them are there when forward ends.
 *
 * With --grad-sync last whole gradients stay on every rank over the micro-batches and are reduced in the last: m G becomes G.
 *
 * Bytes sent by all ranks, U the bytes of a unit (padded chunks or owner segments), m micro-batches:
 * m (W-1) (U_forward + U_backward + G), where units that stay gathered (last; first when tied) need no second gather;
 * in the step (W-1) times the padded bytes of what is gathered; all-to-all: twice those of one matrix a batch. With groups of fewer ranks (hsdp.c) W is a group's, and each
 * group sends as much.
 */
#include "layouts/families.h"
#include "layouts/step.h"

#include "core/num.h"
#include "model/plan/optimizers.h"

/* Ranks that cut nothing among them: all have all, as in ddp, and sum the gradients of a unit. */
static void whole_copies(struct lower *l)
{
    uint64_t *v = ARENA_NEW(l->a, uint64_t, l->m->n_units);

    for (uint32_t u = 0; u < l->m->n_units; u++)
        v[u] = part_unit_bytes(l->plan, u, l->j->grad_dtype);
    l->move.reduce_when = WHEN_LAST;
    l->move.reduce_kind = COLL_ALL_REDUCE;
    l->move.reduce_group = l->replica;
    l->move.reduce_bytes = v;
}

/* PyTorch's no_sync: of several micro-batches the first ones leave their gradients whole where they are. One is reduced as ever. */
static bool zero3_syncs_last(const struct plan *plan)
{
    return plan->job.sync_last && plan->job.grad_accum > 1;
}

int zero3_lower_groups(const struct plan *plan, enum stream replicate, struct arena *a,
                       struct program *p, struct err *e)
{
    bool owner = plan->strategy == STRATEGY_OWNER, many = placement_parts(plan, PARAM) > 1;
    bool last = many && zero3_syncs_last(plan);
    struct segment_table t;
    struct lower l;
    struct matrix_step step = {.work = owner ? WORK_BY_OWNER : WORK_ALL,
                               .sharded = !owner,
                               .products = plan->strategy == STRATEGY_STOCK,
                               .gather_each = plan->strategy == STRATEGY_GATHER,
                               .gather_once = plan->strategy == STRATEGY_GATHER_ONCE,
                               .alltoall = plan->strategy == STRATEGY_ALLTOALL,
                               .cut_table = PROGRAM_NONE};

    if (lower_begin(&l, plan, a, p, e))
        return -1;
    l.move.reduce_when = last ? WHEN_LAST : WHEN_ALWAYS;
    l.move.gather = many;
    l.move.full_grads = !many || last;
    if (many && l.replica != PROGRAM_NONE)
        l.move.replicate = replicate;
    else if (l.replica != PROGRAM_NONE)
        whole_copies(&l);
    if (many) {
        l.move.gather_bytes = part_chunk_table(plan, PARAM, plan->job.param_dtype, l.shards, a);
        l.move.reduce_bytes = part_chunk_table(plan, GRAD, plan->job.grad_dtype, l.shards, a);
        l.move.grad_bytes = part_chunk_table(plan, GRAD, plan->job.grad_dtype, 1, a);
    }
    if (many && owner) {
        t = part_owner_segments(plan, plan->job.param_dtype, a);
        t.group = l.shard;
        l.move.gather_table = program_add_segments(&l.b, &t);
        t = part_owner_segments(plan, plan->job.grad_dtype, a);
        t.group = l.shard;
        l.move.reduce_table = program_add_segments(&l.b, &t);
        l.move.grad_table = l.move.reduce_table;
    }
    lower_resident(&l);
    lower_forward_backward(&l);
    lower_optimizer_begin(&l);
    lower_matrix_step(&l, &step);
    lower_tail_step(&l);
    lower_optimizer_end(&l);
    return lower_end(&l, e);
}

static int zero3_lower(const struct plan *plan, struct arena *a, struct program *p, struct err *e)
{
    return zero3_lower_groups(plan, STREAM_COMPUTE, a, p, e);
}

/* Bytes that all ranks send for one matrix in the step; `ordinal` counts matrices of its shape. */
static uint64_t matrix_bytes(const struct plan *plan, const struct tensor *t, uint32_t ordinal)
{
    const struct job *j = &plan->job;
    uint64_t w = placement_parts(plan, STATE), m = num_min(t->rows, t->cols);
    uint64_t whole = dtype_bytes(optimizer_travel_dtype(j), num_ceil_div(t->rows, w) * w * t->cols);

    switch (plan->strategy) {
    case STRATEGY_STOCK:
        return 2 * j->ns_steps * whole +
               j->ns_steps * dtype_bytes(j->param_dtype, num_ceil_div(m, w) * w * m);
    case STRATEGY_ALLTOALL: /* a batch, there and back */
        return ordinal % w == 0 ? 2 * whole : 0;
    case STRATEGY_GATHER:
    case STRATEGY_GATHER_ONCE:
        return whole;
    case STRATEGY_REPLICATED: /* these move nothing in the step */
    case STRATEGY_OWNER:
        return 0;
    case STRATEGY_N:
        break;
    }
    BUG_ON(true);
}

static uint64_t step_bytes(const struct plan *plan)
{
    struct part_alike *alike = MEM_NEW(struct part_alike, plan->model.n_tensors);
    uint64_t sum = 0;

    part_alike(plan, alike);
    for (uint32_t i = 0; i < plan->model.n_tensors; i++)
        if (layout_updates_as_matrix(plan, &plan->model.tensors[i]))
            sum += matrix_bytes(plan, &plan->model.tensors[i], alike[i].ordinal);
    mem_free(alike);
    return sum;
}

int zero3_formula(const struct plan *plan, uint64_t bytes[PHASE_N], struct err *e)
{
    const struct job *j = &plan->job;
    uint64_t w = placement_parts(plan, PARAM), all_groups, gather = 0, again = 0, grads = 0;

    (void)e;
    for (int i = 0; i < PHASE_N; i++)
        bytes[i] = 0;
    if (w == 1)
        return 0;
    for (uint32_t u = 0; u < plan->model.n_units; u++) {
        uint64_t all = w * part_chunk_bytes(plan, u, PARAM, j->param_dtype) +
                       part_owned_bytes(plan, u, j->param_dtype);

        gather += all;
        if (!j->reshard_never && u + 1 < plan->model.n_units &&
            !(u == 0 && model_shares_table(&plan->model)))
            again += all;
        grads += w * part_chunk_bytes(plan, u, GRAD, j->grad_dtype) +
                 part_owned_bytes(plan, u, j->grad_dtype);
    }
    all_groups = plan->world / w * (w - 1);
    bytes[PHASE_FORWARD] = j->grad_accum * all_groups * gather;
    bytes[PHASE_BACKWARD] =
        all_groups * (j->grad_accum * again + (zero3_syncs_last(plan) ? 1 : j->grad_accum) * grads);
    if (plan->strategy != STRATEGY_OWNER)
        bytes[PHASE_OPTIMIZER] = all_groups * step_bytes(plan);
    return 0;
}

const struct layout layout_zero3 = {
    .name = "zero3",
    .line = "parameters, gradients and states cut; units gathered in forward and backward (FSDP2)",
    LAYOUT_CUTS_ALL,
    .lower = zero3_lower,
    .formula = zero3_formula,
};
