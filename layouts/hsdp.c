/* layouts/hsdp.c - zero3 inside groups of G neighbours, W/G copies: PyTorch's HYBRID_SHARD (FSDP2 on a mesh of replicas x
 * shards), and MiCS.
 *
 * Units are gathered inside the group in forward and backward, gradients reduce-scattered there in every micro-batch (with
 * --grad-sync last in the last alone); in
 * the last one each rank all-reduces its reduced shard over the R = W/G ranks in its place of the groups, once a unit. So
 * what crosses nodes, with a node a group, is 2 (R-1)/R of 1/G of the gradients a rank and step, whatever the number of
 * micro-batches. Every group updates everything: a matrix has an owner in each, in the same place.
 *
 * hsdp   the all-reduce has a stream of its own, as FSDP2 has: it runs beside the next units' backward and reductions, one
 *        after the other, in place in the shard (no buffer), and the optimizer waits for the last. FSDP2 does so where its
 *        caller sets requires_all_reduce for the last micro-batch only.
 * mics   it follows its reduce-scatter on that stream (DeepSpeed's MiCS_Optimizer, at the accumulation boundary): the next
 *        unit's reduction queues behind it, and what FSDP2 lets overlap with backward may show. The paper's hierarchical
 *        gathers (arXiv 2205.00119, 3.3) are not modelled: groups over several nodes gather on rings.
 *
 * With G = W both are zero3. With G = 1 nothing is cut: gradients are summed unit by unit over all ranks, in the last
 * micro-batch, and every rank holds what ddp's does.
 *
 * Bytes sent by all ranks: zero3's inside a group, times R; and, of a shard of E elements of s bytes (the even chunk of a unit,
 * and what each owner has of it), R ranks: 2 R ceil(E/R) s, once a step. E is a whole unit with G = 1.
 */
#include "layouts/families.h"
#include "layouts/step.h"

#include "core/num.h"

static int hsdp_lower(const struct plan *plan, struct arena *a, struct program *p, struct err *e)
{
    return zero3_lower_groups(plan, STREAM_ALL_REDUCE, a, p, e);
}

static int mics_lower(const struct plan *plan, struct arena *a, struct program *p, struct err *e)
{
    return zero3_lower_groups(plan, STREAM_REDUCE, a, p, e);
}

/* What the ranks in one place send of a shard of so many elements. */
static uint64_t ring_bytes(const struct plan *plan, uint64_t elements)
{
    uint64_t r = plan->world / placement_parts(plan, STATE);

    return 2 * (r - 1) * r * dtype_bytes(plan->job.grad_dtype, num_ceil_div(elements, r));
}

static uint64_t replicated_bytes(const struct plan *plan, uint32_t unit)
{
    const struct unit *u = &plan->model.units[unit];
    uint32_t g = placement_parts(plan, STATE);
    uint64_t sum, *own;

    if (g == 1)
        return ring_bytes(plan, u->numel);
    own = MEM_NEW(uint64_t, g);
    sum = g * ring_bytes(plan, part_chunk_bytes(plan, unit, GRAD, plan->job.grad_dtype) /
                                   dtype_bytes(plan->job.grad_dtype, 1));
    for (uint32_t i = u->first; i < u->first + u->n; i++)
        if (plan->place[i].rule == PLACE_OWNER)
            own[plan->place[i].owner] += plan->model.tensors[i].numel;
    for (uint32_t k = 0; k < g; k++)
        sum += ring_bytes(plan, own[k]);
    mem_free(own);
    return sum;
}

static int hsdp_formula(const struct plan *plan, uint64_t bytes[PHASE_N], struct err *e)
{
    if (zero3_formula(plan, bytes, e))
        return -1;
    for (uint32_t u = 0; u < plan->model.n_units; u++)
        bytes[PHASE_BACKWARD] += replicated_bytes(plan, u);
    return 0;
}

const struct layout layout_hsdp = {
    .name = "hsdp",
    .line = "zero3 inside groups (--shard-group), copies between them; shards all-reduced (FSDP2)",
    LAYOUT_CUTS_ALL,
    .groups = GROUPS_NODE,
    .lower = hsdp_lower,
    .formula = hsdp_formula,
};

const struct layout layout_mics = {
    .name = "mics",
    .line = "hsdp with the all-reduce behind the reduce-scatter, on one stream (DeepSpeed)",
    LAYOUT_CUTS_ALL,
    .groups = GROUPS_NODE,
    .lower = mics_lower,
    .formula = hsdp_formula,
};
