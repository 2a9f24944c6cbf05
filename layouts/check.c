/* Is a plan that came from a file one that its job's layout makes? */
#include "layouts/layout.h"

#include "core/num.h"
#include "model/plan/assign_names.h"
#include "model/plan/job_options.h"
#include "model/plan/optimizers.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

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

/* The maximum that the planner brought down first, when loads tell it; else false. */
static bool first_value(const struct plan *plan, uint64_t *value)
{
    size_t len = strcspn(plan->job.objective, ",");

    for (int k = 0; assign_objective_names[k]; k++) {
        if (strlen(assign_objective_names[k]) != len ||
            strncmp(plan->job.objective, assign_objective_names[k], len) != 0)
            continue;
        switch ((enum assign_objective)k) {
        case ASSIGN_FLOPS:
            *value = plan->flops_max;
            return true;
        case ASSIGN_BYTES:
            *value = plan->bytes_max;
            return true;
        case ASSIGN_FANOUT: /* of a unit, and of a simulation */
        case ASSIGN_TIME:
            return false;
        }
    }
    return false;
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

/* Bound, gap, optimal and over_capacity follow from the loads. Layouts without owners leave nothing
 * to solve. */
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
    for (size_t i = 0; (o = job_option_at(i)); i++) {
        if (job_option_same(o, &plan->job, &want->job))
            continue;
        if (!job_option_is_neutral(o, &want->job))
            return err_set(e, ERR_INVALID, "job has %s, but layout '%s' has %s",
                           job_option_show(o, &plan->job).s, want->layout_full,
                           job_option_show(o, &want->job).s);
        return err_set(
            e, ERR_INVALID,
            "job has %s, which has no effect on layout '%s' with %s and this model on %" PRIu32
            " GPUs",
            job_option_show(o, &plan->job).s, want->layout_full,
            optimizer_name(plan->job.optimizer), plan->job.gpus);
    }
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
