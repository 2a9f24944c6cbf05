/* layouts/ddp.c - plain data parallelism: everything on every rank.
 *
 * Gradients are all-reduced in buckets while backward runs (in the last micro-batch); every rank updates every matrix.
 * Bytes sent by all ranks, W ranks, a bucket of E elements of s bytes: 2 (W-1) W ceil(E/W) s.
 *
 * As a reference (layout_lower_reference) it may also reduce every micro-batch, unit by unit, and add up what came out, as
 * layouts with cut gradients have to; or inside groups first, unit by unit, and over the groups what came out.
 */
#include "layouts/families.h"
#include "layouts/step.h"

#include "core/num.h"

#include <string.h>

uint64_t *ddp_bucket_bytes(const struct plan *plan, struct arena *a)
{
    struct bucket *b = part_buckets(plan, plan->job.bucket_bytes, a);
    uint64_t *v = ARENA_NEW(a, uint64_t, plan->model.n_units);

    for (uint32_t u = 0; u < plan->model.n_units; u++)
        v[u] = dtype_bytes(plan->job.grad_dtype, b[u].elements);
    return v;
}

static uint64_t *unit_bytes(const struct plan *plan, struct arena *a)
{
    uint64_t *v = ARENA_NEW(a, uint64_t, plan->model.n_units);

    for (uint32_t u = 0; u < plan->model.n_units; u++)
        v[u] = part_unit_bytes(plan, u, plan->job.grad_dtype);
    return v;
}

static int lower(const struct plan *plan, const struct layout_reference *as, struct arena *a,
                 struct program *p, struct err *e)
{
    bool in_groups = as->mesh && mesh_size(as->mesh, AXES(AXIS_D3)) > 1;
    bool by_unit = as->every_micro || in_groups;
    struct lower l;

    if (lower_begin(&l, plan, a, p, e))
        return -1;
    l.shard = l.world;
    l.replica = PROGRAM_NONE;
    if (in_groups) {
        l.shard = lower_group(&l, as->mesh, AXES(AXIS_D3) - 1, "shards");
        l.replica = lower_group(&l, as->mesh, AXES(AXIS_D3), "replicas");
    }
    l.move.full_grads = !as->every_micro;
    l.move.reduce_when = as->every_micro ? WHEN_ALWAYS : WHEN_LAST;
    l.move.reduce_kind = COLL_ALL_REDUCE;
    l.move.reduce_group = l.shard;
    l.move.replicate = in_groups ? STREAM_ALL_REDUCE : STREAM_COMPUTE;
    l.move.piece_bytes = by_unit ? 0 : plan->job.bucket_bytes;
    if (by_unit)
        l.move.reduce_bytes = l.move.grad_bytes = unit_bytes(plan, a);
    else if (plan->world > 1)
        l.move.reduce_bytes = ddp_bucket_bytes(plan, a);
    lower_resident(&l);
    lower_forward_backward(&l);
    lower_optimizer_begin(&l);
    lower_matrix_step(&l, &(struct matrix_step){.work = WORK_ALL, .cut_table = PROGRAM_NONE});
    lower_tail_step(&l);
    lower_optimizer_end(&l);
    return lower_end(&l, e);
}

static int ddp_lower(const struct plan *plan, struct arena *a, struct program *p, struct err *e)
{
    return lower(plan, &(struct layout_reference){0}, a, p, e);
}

int layout_lower_reference(const struct plan *plan, const struct layout_reference *as,
                           struct arena *a, struct program *p, struct err *e)
{
    BUG_ON(strcmp(plan->layout, layout_ddp.name) != 0);
    return lower(plan, as, a, p, e);
}

static int ddp_formula(const struct plan *plan, uint64_t bytes[PHASE_N], struct err *e)
{
    uint64_t s = dtype_bytes(plan->job.grad_dtype, 1), w = plan->world, sum = 0, open = 0;
    uint64_t bucket = plan->job.bucket_bytes, piece = num_max(bucket / s, 1);

    (void)e;
    for (int i = 0; i < PHASE_N; i++)
        bytes[i] = 0;
    for (uint32_t u = plan->model.n_units; u-- > 0;) {
        open += plan->model.units[u].numel;
        if (u && bucket && open * s < bucket)
            continue;
        if (bucket && bucket < open * s)
            sum += open / piece * num_ceil_div(piece, w) + num_ceil_div(open % piece, w);
        else
            sum += num_ceil_div(open, w);
        open = 0;
    }
    bytes[PHASE_BACKWARD] = 2 * (w - 1) * w * sum * s;
    return 0;
}

const struct layout layout_ddp = {
    .name = "ddp",
    .line = "everything on every rank; gradients all-reduced; every rank updates every matrix",
    .strategy = STRATEGY_REPLICATED,
    .allowed = 1u << STRATEGY_REPLICATED,
    .rule = PLACE_REPLICATED,
    .lower = ddp_lower,
    .formula = ddp_formula,
};
