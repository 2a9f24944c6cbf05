/* layouts/loads.c - what a plan makes each rank work and hold, and whether a plan that came from a file is one. */
#include "layouts/step.h"

#include "core/num.h"
#include "model/plan/frameworks.h"
#include "model/plan/optimizers.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

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
        if (p->owner >= placement_parts(plan, STATE))
            return err_set(e, ERR_INVALID,
                           "tensors[%" PRIu32 "] ('%.60s') has owner %" PRIu32 " of %" PRIu32, i,
                           t->name, p->owner, placement_parts(plan, STATE));
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
    return num_max(most, num_ceil_div(sum, placement_parts(plan, STATE)));
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

/* What contradicts itself, as the command line refuses it; and what layout_place() made neutral. */
static int check_options(const struct plan *plan, const struct plan *want, struct err *e)
{
    const struct job_option *o;

    if (plan_check_job(plan, e))
        return -1;
    for (size_t i = 0; (o = job_option_at(i)); i++)
        if (!job_option_same(o, &plan->job, &want->job))
            return err_set(
                e, ERR_INVALID,
                "job has %s, which has no effect on layout '%s' with %s and this model on %" PRIu32
                " GPUs",
                job_option_show(o, &plan->job).s, want->layout_full,
                optimizer_name(plan->job.optimizer), plan->job.gpus);
    return 0;
}

int layout_check(const struct plan *plan, struct err *e)
{
    struct plan want = *plan;
    struct arena a;
    int status = -1;

    arena_init(&a);
    if (layout_place(&want, &a, e))
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
    if (check_options(plan, &want, e) ||
        check_factor("p", plan->factor[PARAM], want.factor[PARAM], want.layout_full, e) ||
        check_factor("g", plan->factor[GRAD], want.factor[GRAD], want.layout_full, e) ||
        check_factor("os", plan->factor[STATE], want.factor[STATE], want.layout_full, e) ||
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
