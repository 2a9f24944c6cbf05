/* layouts/loads.c - what a plan makes each rank work and hold, and whether a plan that came from a file is one. */
#include "layouts/step.h"

#include "core/num.h"
#include "model/plan/frameworks.h"
#include "model/plan/optimizers.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool is_cut(struct factor f)
{
    return f.in_node * f.nodes > 1;
}

uint64_t layout_base_bytes(const struct plan *plan)
{
    const struct job *j = &plan->job;
    uint64_t sum = 0, state;

    for (uint32_t i = 0; i < plan->model.n_tensors; i++) {
        const struct tensor *t = &plan->model.tensors[i];

        if (!is_cut(plan->params))
            sum += dtype_bytes(j->param_dtype, t->numel);
        if (!is_cut(plan->grads))
            sum += dtype_bytes(j->grad_dtype, t->numel);
        switch (plan->place[i].rule) {
        case PLACE_CHUNK:
            state = layout_state_is_whole(plan, t) ? layout_state_bytes(j, t) : 0;
            sum += state + num_ceil_div(layout_resident_bytes(plan, t) - state, plan_shards(plan));
            break;
        case PLACE_REPLICATED:
            sum += layout_resident_bytes(plan, t);
            break;
        case PLACE_FLAT: /* by rank: what lies in its slice */
        case PLACE_OWNER:
            break;
        }
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
    switch (plan->strategy) {
    case STRATEGY_REPLICATED:
    case STRATEGY_GATHER:
    case STRATEGY_GATHER_ONCE:
        return f;
    case STRATEGY_STOCK:
        return f / plan_shards(plan);
    case STRATEGY_ALLTOALL:
        flops[ordinal % plan_shards(plan)] += f;
        return 0;
    case STRATEGY_OWNER: /* every matrix has an owner */
    case STRATEGY_N:
        break;
    }
    BUG_ON(true);
}

void layout_loads(const struct plan *plan, uint64_t *flops, uint64_t *bytes)
{
    uint64_t every = 0, base = layout_base_bytes(plan), at = 0;
    uint32_t shards = plan_shards(plan);
    uint64_t slice = num_ceil_div(plan->model.total_params, shards);
    struct part_alike *alike = MEM_NEW(struct part_alike, plan->model.n_tensors);

    part_alike(plan, alike);
    memset(flops, 0, shards * sizeof(*flops));
    for (uint32_t r = 0; r < shards; r++)
        bytes[r] = base;
    for (uint32_t i = 0; i < plan->model.n_tensors; at += plan->model.tensors[i].numel, i++) {
        const struct tensor *t = &plan->model.tensors[i];
        bool owned = plan->place[i].rule == PLACE_OWNER;
        uint64_t f = 0,
                 whole = layout_state_is_whole(plan, t) ? layout_state_bytes(&plan->job, t) : 0;

        if (layout_updates_as_matrix(plan, t))
            f = optimizer_flops(plan->job.optimizer, plan->job.ns_steps, t->rows, t->cols);
        if (owned)
            bytes[plan->place[i].owner] += layout_resident_bytes(plan, t);
        if (owned)
            flops[plan->place[i].owner] += f;
        else if (plan->place[i].rule == PLACE_FLAT) /* each holder updates the whole matrix */
            for (uint64_t r = at / slice; r <= (at + t->numel - 1) / slice; r++) {
                uint64_t from = num_max(at, r * slice),
                         to = num_min(at + t->numel, (r + 1) * slice);

                flops[r] += f;
                bytes[r] += whole + layout_share(layout_resident_bytes(plan, t) - whole, to - from,
                                                 t->numel);
            }
        else if (f)
            every += flops_of_all(plan, alike[i].ordinal, f, flops);
    }
    for (uint32_t r = 0; r < plan->world; r++) { /* copies work and hold the same */
        flops[r] = r < shards ? flops[r] + every : flops[r % shards];
        bytes[r] = bytes[r % shards];
    }
    mem_free(alike);
}

/* ---- a plan from a file ---- */

static int check_factor(const char *key, struct factor is, struct factor want, const char *layout,
                        struct err *e)
{
    if (is.in_node == want.in_node && is.nodes == want.nodes)
        return 0;
    return err_set(e, ERR_INVALID,
                   "mesh.%s is %" PRIu32 "x%" PRIu32 ", but layout '%s' has %" PRIu32 "x%" PRIu32,
                   key, is.in_node, is.nodes, layout, want.in_node, want.nodes);
}

static int check_places(const struct plan *plan, const struct plan *want, struct err *e)
{
    uint32_t unit = MODEL_NONE, tail = MODEL_NONE;

    for (uint32_t i = 0; i < plan->model.n_tensors; i++) {
        const struct tensor *t = &plan->model.tensors[i];
        const struct placement *p = &plan->place[i];

        if (p->rule != want->place[i].rule)
            return err_set(e, ERR_INVALID,
                           "tensors[%" PRIu32 "] ('%.60s') has rule %s, but layout '%s' has %s", i,
                           t->name, place_rule_name(p->rule), want->layout_full,
                           place_rule_name(want->place[i].rule));
        if (p->offset != want->place[i].offset)
            return err_set(e, ERR_INVALID,
                           "tensors[%" PRIu32 "] ('%.60s') has offset %" PRIu64
                           ", expected %" PRIu64,
                           i, t->name, p->offset, want->place[i].offset);
        if (p->rule != PLACE_OWNER)
            continue;
        if (p->owner >= plan_shards(plan))
            return err_set(e, ERR_INVALID,
                           "tensors[%" PRIu32 "] ('%.60s') has owner %" PRIu32 " of %" PRIu32, i,
                           t->name, p->owner, plan_shards(plan));
        if (layout_updates_as_matrix(plan, t))
            continue;
        if (t->unit != unit)
            tail = p->owner;
        unit = t->unit;
        if (p->owner != tail)
            return err_set(e, ERR_INVALID,
                           "tensors[%" PRIu32 "] ('%.60s') has owner %" PRIu32
                           ", but its unit's vectors go to one rank, %" PRIu32,
                           i, t->name, p->owner, tail);
    }
    return 0;
}

static int check_loads(const struct plan *plan, struct err *e)
{
    uint64_t *flops = MEM_NEW(uint64_t, plan->world), *bytes = MEM_NEW(uint64_t, plan->world);
    int status = 0;

    layout_loads(plan, flops, bytes);
    for (uint32_t r = 0; r < plan->world && !status; r++)
        if (plan->load_flops[r] != flops[r] || plan->load_bytes[r] != bytes[r])
            status = err_set(e, ERR_INVALID,
                             "loads give rank %" PRIu32 " %" PRIu64 " FLOPs and %" PRIu64
                             " bytes, but its tensors make %" PRIu64 " and %" PRIu64,
                             r, plan->load_flops[r], plan->load_bytes[r], flops[r], bytes[r]);
    mem_free(flops);
    mem_free(bytes);
    return status;
}

/* Sums that layout_loads() takes must stay below 2^63. */
static int check_size(const struct plan *plan, struct err *e)
{
    double flops = 0, bytes = 0;

    for (uint32_t i = 0; i < plan->model.n_tensors; i++) {
        const struct tensor *t = &plan->model.tensors[i];

        if (layout_updates_as_matrix(plan, t))
            flops +=
                (double)optimizer_flops(plan->job.optimizer, plan->job.ns_steps, t->rows, t->cols);
        bytes += (double)layout_state_bytes(&plan->job, t) + 12.0 * (double)t->numel;
    }
    if (flops > 0x1p62 || bytes > 0x1p62)
        return err_set(e, ERR_OVERFLOW, "the optimizer's FLOPs or bytes pass 2^62");
    return 0;
}

/* The maximum that the planner brought down first, when loads tell it (flops, bytes); else false. */
static bool first_value(const struct plan *plan, uint64_t *value)
{
    size_t len = strcspn(plan->job.objective, ",");

    if (len == 5 && !strncmp(plan->job.objective, "flops", len))
        *value = plan->flops_max;
    else if (len == 5 && !strncmp(plan->job.objective, "bytes", len))
        *value = plan->bytes_max;
    else
        return false;
    return true;
}

/* No assignment is below the mean, nor below its largest item. */
static uint64_t flops_floor(const struct plan *plan)
{
    uint64_t sum = 0, most = 0;

    for (uint32_t i = 0; i < plan->model.n_tensors; i++) {
        const struct tensor *t = &plan->model.tensors[i];
        uint64_t flops =
            layout_updates_as_matrix(plan, t)
                ? optimizer_flops(plan->job.optimizer, plan->job.ns_steps, t->rows, t->cols)
                : 0;

        sum += flops;
        most = num_max(most, flops);
    }
    return num_max(most, num_ceil_div(sum, plan_shards(plan)));
}

/* Bound, gap, optimal and over_capacity follow from the loads. Layouts without owners leave nothing to solve. */
static int check_solution(const struct plan *plan, struct err *e)
{
    const struct device *d = &plan->cluster.device;
    uint64_t value = plan->flops_max, capacity = d->memory_bytes - d->context_bytes;
    bool owners = false, known = true;
    double gap;

    for (uint32_t i = 0; i < plan->model.n_tensors; i++)
        owners |= plan->place[i].rule == PLACE_OWNER;
    if (owners)
        known = first_value(plan, &value);
    if (plan->over_capacity != (owners && plan->bytes_max > capacity))
        return err_set(e, ERR_INVALID,
                       "loads.over_capacity is %s, but the fullest rank holds %" PRIu64
                       " bytes of %" PRIu64,
                       plan->over_capacity ? "true" : "false", plan->bytes_max, capacity);
    if (!known)
        return 0;
    if (plan->bound > value || (!owners && plan->bound != value) ||
        (owners && value == plan->flops_max && plan->bound < flops_floor(plan)))
        return err_set(e, ERR_INVALID,
                       "loads.bound is %" PRIu64 ", but the largest load is %" PRIu64
                       " and no plan is below %" PRIu64,
                       plan->bound, value, flops_floor(plan));
    if (plan->optimal != (plan->bound == value))
        return err_set(e, ERR_INVALID,
                       "loads.optimal is %s, but the bound is %" PRIu64
                       " and the largest load %" PRIu64,
                       plan->optimal ? "true" : "false", plan->bound, value);
    gap = plan->bound ? 100.0 * (double)(value - plan->bound) / (double)plan->bound : 0;
    if (fabs(plan->gap_percent - gap) > 1e-9 * gap)
        return err_set(e, ERR_INVALID, "loads.gap_percent is %.17g, expected %.17g",
                       plan->gap_percent, gap);
    return 0;
}

/* What the command line refuses of kernels. */
static int check_kernels(const struct plan *plan, struct err *e)
{
    const struct job *j = &plan->job;

    if (j->fp8 && plan->cluster.device.fp8_share <= 0)
        return err_set(e, ERR_INVALID, "job.fp8 is true, but '%.60s' has no fp8 (device.fp8_share)",
                       plan->cluster.device.name);
    if (j->fp8 && j->param_dtype == DTYPE_FP32)
        return err_set(e, ERR_INVALID,
                       "job.fp8 is true, but job.param_dtype is fp32, expected bf16 or fp16");
    if (j->overlap_reduce == OVERLAP_YES && framework_row(j->framework)->waits)
        return err_set(e, ERR_INVALID,
                       "job.overlap_reduce is yes, but '%s' waits for every reduction",
                       framework_name(j->framework));
    return 0;
}

/* What layout_place() made neutral. */
static int check_used(const struct plan *plan, const struct plan *want, struct err *e)
{
    const struct job *j = &plan->job, *w = &want->job;
    const char *what = j->overlap_refresh != w->overlap_refresh ? "overlap_refresh"
                       : j->overlap_reduce != w->overlap_reduce ? "overlap_reduce"
                       : j->sync_last != w->sync_last           ? "grad_sync last"
                       : j->reshard_never != w->reshard_never   ? "reshard never"
                       : j->ns_symmetric != w->ns_symmetric     ? "ns_kernels symmetric"
                       : j->ns_batch != w->ns_batch             ? "ns_batch"
                       : j->adamw != w->adamw                   ? "adamw"
                       : j->loss != w->loss                     ? "loss"
                       : j->attention != w->attention           ? "attention"
                                                                : NULL;

    if (what)
        return err_set(
            e, ERR_INVALID,
            "job has %s, which has no effect on layout '%s' with %s and this model on %" PRIu32
            " GPUs",
            what, want->layout_full, optimizer_name(j->optimizer), j->gpus);
    return 0;
}

int layout_check(const struct plan *plan, struct err *e)
{
    struct plan want = *plan;
    struct arena a;
    int status = -1;

    arena_init(&a);
    if (layout_place(&want, &a, e) || check_kernels(plan, e))
        goto out;
    if (strcmp(plan->layout, want.layout) != 0 ||
        strcmp(plan->layout_full, want.layout_full) != 0 || plan->strategy != want.strategy) {
        err_set(e, ERR_INVALID,
                "layout '%.60s' (%.60s, %s), but job.layout '%.60s' means '%s' (%s)",
                plan->layout_full, plan->layout, strategy_name(plan->strategy), plan->job.layout,
                want.layout_full, strategy_name(want.strategy));
        goto out;
    }
    if (plan->job.shard_group != want.job.shard_group) {
        err_set(e, ERR_INVALID, "job.shard_group is %" PRIu32 ", but layout '%s' has %" PRIu32,
                plan->job.shard_group, want.layout_full, want.job.shard_group);
        goto out;
    }
    if (check_used(plan, &want, e) ||
        check_factor("p", plan->params, want.params, want.layout_full, e) ||
        check_factor("g", plan->grads, want.grads, want.layout_full, e) ||
        check_factor("os", plan->states, want.states, want.layout_full, e) ||
        check_places(plan, &want, e) || check_size(plan, e) || check_loads(plan, e) ||
        check_solution(plan, e))
        goto out;
    status = 0;
out:
    arena_release(&a);
    return status;
}

int layout_load_plan(const char *path, struct arena *a, struct plan *plan, struct err *e)
{
    if (plan_load(path, a, plan, e))
        return -1;
    return layout_check(plan, e) ? err_prefix(e, "'%s'", path) : 0;
}
