/* What a plan makes each rank work and hold. */
#include "layouts/step.h"

#include "core/num.h"
#include "model/plan/optimizers.h"

static uint64_t component_bytes(const struct plan *plan, const struct tensor *t, enum component c)
{
    const struct job *j = &plan->job;

    switch (c) {
    case PARAM:
        return dtype_bytes(j->param_dtype, t->numel);
    case GRAD:
        return dtype_bytes(j->grad_dtype, t->numel);
    case STATE:
        return layout_state_bytes(j, t) +
               (j->master_weights ? dtype_bytes(DTYPE_FP32, t->numel) : 0);
    case COMPONENT_N:
        break;
    }
    BUG_ON(true);
}

uint64_t layout_resident_bytes(const struct plan *plan, const struct tensor *t)
{
    uint64_t sum = component_bytes(plan, t, STATE);

    for (int c = 0; c < STATE; c++)
        if (placement_parts(plan, (enum component)c) > 1)
            sum += component_bytes(plan, t, (enum component)c);
    return sum;
}

/* Components that are cut into equally many parts are rounded up together. */
static uint64_t chunk_bytes(const struct plan *plan, const struct tensor *t)
{
    uint64_t whole = layout_state_is_whole(plan, t) ? layout_state_bytes(&plan->job, t) : 0,
             sum = whole, open = 0;

    for (int c = 0; c < COMPONENT_N; c++) {
        uint32_t parts = placement_parts(plan, (enum component)c);

        open += component_bytes(plan, t, (enum component)c) - (c == STATE ? whole : 0);
        if (c < STATE && placement_parts(plan, (enum component)(c + 1)) == parts)
            continue;
        sum += num_ceil_div(open, parts);
        open = 0;
    }
    return sum;
}

uint64_t layout_base_bytes(const struct plan *plan)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < plan->model.n_tensors; i++) {
        const struct tensor *t = &plan->model.tensors[i];

        if (plan->place[i].rule == PLACE_CHUNK) {
            sum += chunk_bytes(plan, t);
            continue;
        }
        for (int c = 0; c < STATE; c++)
            if (placement_parts(plan, (enum component)c) == 1)
                sum += component_bytes(plan, t, (enum component)c);
        if (plan->place[i].rule == PLACE_REPLICATED) /* else by rank: its slice, or what it owns */
            sum += layout_resident_bytes(plan, t);
    }
    return sum;
}

uint64_t layout_share(uint64_t bytes, uint64_t part, uint64_t numel)
{
    return bytes / numel * part + num_ceil_div(bytes % numel * part, numel);
}

/* Of the `f` FLOPs of a matrix that no rank owns and no slice cuts: what every rank works. What
 * one rank alone works is added to `flops`. */
static uint64_t flops_of_all(const struct plan *plan, uint32_t ordinal, uint64_t f, uint64_t *flops)
{
    uint32_t parts = placement_parts(plan, STATE);

    switch (plan->strategy) {
    case STRATEGY_REPLICATED:
    case STRATEGY_GATHER:
    case STRATEGY_GATHER_ONCE:
        return f;
    case STRATEGY_STOCK:
        return f / parts;
    case STRATEGY_ALLTOALL:
        flops[ordinal % parts] += f;
        return 0;
    case STRATEGY_OWNER: /* every matrix has an owner */
    case STRATEGY_N:
        break;
    }
    BUG_ON(true);
}

struct load_walk {
    const struct plan *plan;
    const struct tensor *t;
    uint64_t f;             /* FLOPs of the matrix: each holder of a part updates the whole */
    uint64_t whole, shared; /* bytes that each holder has all of, and its part of */
    uint64_t *flops, *bytes;
};

static void add_holder(void *ctx, const struct placement_run *run)
{
    struct load_walk *w = ctx;

    for (uint32_t k = run->part; k < run->part + run->n; k++) {
        w->flops[k] += w->f;
        w->bytes[k] += w->whole + layout_share(w->shared, run->each, w->t->numel);
    }
}

void layout_loads(const struct plan *plan, uint64_t *flops, uint64_t *bytes)
{
    uint32_t parts = placement_parts(plan, STATE);
    struct part_alike *alike = MEM_NEW(struct part_alike, plan->model.n_tensors);
    struct load_walk w = {
        .plan = plan, .flops = MEM_NEW(uint64_t, parts), .bytes = MEM_NEW(uint64_t, parts)};
    uint64_t every = 0, base = layout_base_bytes(plan);

    part_alike(plan, alike);
    for (uint32_t i = 0; i < plan->model.n_tensors; i++) {
        const struct tensor *t = w.t = &plan->model.tensors[i];
        enum place_rule rule = plan->place[i].rule;

        w.f = layout_updates_as_matrix(plan, t)
                  ? optimizer_flops(plan->job.optimizer, plan->job.ns_steps, t->rows, t->cols)
                  : 0;
        w.whole = layout_state_is_whole(plan, t) ? layout_state_bytes(&plan->job, t) : 0;
        w.shared = layout_resident_bytes(plan, t) - w.whole;
        if (rule == PLACE_OWNER || rule == PLACE_FLAT)
            placement_runs(plan, i, STATE, add_holder, &w);
        else if (w.f)
            every += flops_of_all(plan, alike[i].ordinal, w.f, w.flops);
    }
    for (uint32_t r = 0; r < plan->world; r++) { /* replicas work and hold the same */
        uint32_t k = placement_index(plan, STATE, r);

        flops[r] = w.flops[k] + every;
        bytes[r] = w.bytes[k] + base;
    }
    mem_free(alike);
    mem_free(w.flops);
    mem_free(w.bytes);
}
