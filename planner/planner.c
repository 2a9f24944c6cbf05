#include "planner/planner.h"

#include "core/num.h"
#include "core/suggest.h"
#include "layouts/layout.h"
#include "model/plan/optimizers.h"

#include <math.h>
#include <string.h>

int planner_method(const char *name, enum assign_method *m, struct err *e)
{
    int i = suggest_index(name, assign_method_names);

    if (i < 0)
        return err_set(e, ERR_UNKNOWN, "unknown planner '%s'%s", name,
                       suggest(name, assign_method_names, suggest_count(assign_method_names)).s);
    *m = (enum assign_method)i;
    return 0;
}

int planner_objectives(const char *text, enum assign_objective *order, uint32_t *n, struct err *e)
{
    const char *at = text;

    *n = 0;
    while (*at) {
        size_t len = strcspn(at, ",");
        char word[32];
        int i;

        snprintf(word, sizeof(word), "%.*s", (int)len, at);
        i = suggest_index(word, assign_objective_names);
        if (i < 0)
            return err_set(
                e, ERR_UNKNOWN,
                "objective '%s': unknown '%s'%s; expected flops, bytes, fanout, time", text, word,
                suggest(word, assign_objective_names, suggest_count(assign_objective_names)).s);
        for (uint32_t k = 0; k < *n; k++)
            if (order[k] == (enum assign_objective)i)
                return err_set(e, ERR_INVALID, "objective '%s' names %s twice", text, word);
        order[(*n)++] = (enum assign_objective)i;
        at += len;
        if (*at == ',' && !*++at)
            return err_set(e, ERR_INVALID, "objective '%s' ends in a comma", text);
    }
    if (!*n)
        return err_set(e, ERR_INVALID, "the objective is empty; expected e.g. flops,bytes");
    return 0;
}

/* ---- items ---- */

struct items {
    struct assign_item *list; /* [n] */
    uint32_t
        *first; /* the tensor that an item stands for; a unit's tail: its first owned tail tensor */
    uint32_t n;
};

static bool is_owned_tail(const struct plan *plan, uint32_t tensor)
{
    return plan->place[tensor].rule == PLACE_OWNER &&
           !layout_updates_as_matrix(plan, &plan->model.tensors[tensor]);
}

static void collect(const struct plan *plan, struct arena *a, struct items *x)
{
    const struct model *m = &plan->model;

    x->list = ARENA_NEW(a, struct assign_item, m->n_tensors);
    x->first = ARENA_NEW(a, uint32_t, m->n_tensors);
    x->n = 0;
    for (uint32_t u = 0; u < m->n_units; u++) {
        struct assign_item tail = {.unit = u};
        uint32_t tail_first = MODEL_NONE;

        for (uint32_t i = m->units[u].first; i < m->units[u].first + m->units[u].n; i++) {
            const struct tensor *t = &m->tensors[i];
            uint64_t r = t->rows, c = t->cols;

            if (plan->place[i].rule != PLACE_OWNER)
                continue;
            if (is_owned_tail(plan, i)) {
                tail_first = tail_first == MODEL_NONE ? i : tail_first;
                tail.bytes += layout_resident_bytes(plan, t);
                tail.numel += t->numel;
                tail.send_bytes += dtype_bytes(plan->job.param_dtype, t->numel);
                continue;
            }
            x->first[x->n] = i;
            x->list[x->n++] = (struct assign_item){
                .flops = optimizer_flops(plan->job.optimizer, plan->job.ns_steps, r, c),
                .bytes = layout_resident_bytes(plan, t),
                .numel = t->numel,
                .send_bytes = dtype_bytes(plan->job.param_dtype, t->numel),
                .rows = (uint32_t)r,
                .cols = (uint32_t)c,
                .unit = u};
        }
        if (tail_first == MODEL_NONE)
            continue;
        tail.rows = (uint32_t)num_min(tail.numel, UINT32_MAX);
        tail.cols = 1;
        x->first[x->n] = tail_first;
        x->list[x->n++] = tail;
    }
}

static void give(struct plan *plan, const struct items *x, const uint32_t *owner)
{
    for (uint32_t i = 0; i < x->n; i++) {
        const struct unit *u = &plan->model.units[x->list[i].unit];

        plan->place[x->first[i]].owner = owner[i];
        if (is_owned_tail(plan, x->first[i]))
            for (uint32_t t = u->first; t < u->first + u->n; t++)
                if (is_owned_tail(plan, t))
                    plan->place[t].owner = owner[i];
    }
}

/* ---- without owners: the same sums by rule ---- */

static void spread_loads(struct plan *plan)
{
    layout_loads(plan, plan->load_flops, plan->load_bytes);
    for (uint32_t r = 0; r < plan->world; r++) {
        plan->flops_max = num_max(plan->flops_max, plan->load_flops[r]);
        plan->flops_mean += (double)plan->load_flops[r];
        plan->bytes_max = num_max(plan->bytes_max, plan->load_bytes[r]);
        plan->bytes_mean += (double)plan->load_bytes[r];
    }
    /* a mean is not rounded above the largest */
    plan->flops_mean = fmin(plan->flops_mean / plan->world, (double)plan->flops_max);
    plan->bytes_mean = fmin(plan->bytes_mean / plan->world, (double)plan->bytes_max);
    plan->bound = plan->flops_max;
    plan->optimal = plan->reproducible = true;
    plan->solver = "by rule";
}

/* ---- with owners ---- */

struct time_ctx {
    struct plan *plan;
    const struct items *x;
    const struct planner_time *time;
};

static double time_of(void *ctx, const uint32_t *owner)
{
    struct time_ctx *t = ctx;

    give(t->plan, t->x, owner);
    return t->time->step_s(t->time->ctx, t->plan);
}

/* The load of a part on every rank that has it. */
static uint64_t *over_copies(const struct plan *plan, uint64_t *load, struct arena *a)
{
    uint64_t *all = ARENA_NEW(a, uint64_t, plan->world);

    for (uint32_t r = 0; r < plan->world; r++)
        all[r] = load[placement_index(plan, STATE, r)];
    return all;
}

static int solve(struct plan *plan, const struct planner_time *time, uint64_t base, struct arena *a,
                 struct err *e)
{
    const struct device *d = &plan->cluster.device;
    struct assign_problem p = {.n_ranks = placement_parts(plan, STATE), .base_bytes = base};
    struct time_ctx ctx = {plan, NULL, time};
    struct assign_result r;
    enum assign_method method;
    struct items x;
    bool by_time = false;

    if (planner_method(plan->job.planner, &method, e) ||
        planner_objectives(plan->job.objective, p.order, &p.n_order, e))
        return -1;
    for (uint32_t i = 0; i < p.n_order; i++)
        by_time |= p.order[i] == ASSIGN_TIME;
    if (by_time && !time)
        return err_set(e, ERR_INVALID,
                       "objective '%s': time needs a simulation, which this command does not run",
                       plan->job.objective);
    collect(plan, a, &x);
    ctx.x = &x;
    p.items = x.list;
    p.n_items = x.n;
    p.capacity_bytes = d->memory_bytes - num_min(d->memory_bytes, d->context_bytes);
    if (by_time) {
        p.time_of = time_of;
        p.time_ctx = &ctx;
    }
    memset(&r, 0, sizeof(r));
    if (assign_solve(&p, method, a, &r, e))
        return -1;
    give(plan, &x, r.owner);
    plan->load_flops = over_copies(plan, r.load_flops, a);
    plan->load_bytes = over_copies(plan, r.load_bytes, a);
    plan->flops_max = r.flops_max;
    plan->flops_mean = r.flops_mean;
    plan->bytes_max = r.bytes_max;
    plan->bytes_mean = r.bytes_mean;
    plan->bound = r.bound;
    plan->gap_percent = r.gap_percent;
    plan->optimal = r.optimal;
    plan->over_capacity = x.n > 0 && !r.fits; /* without owners there is no choice that breaks it */
    plan->solver = r.solver;
    plan->solve_ms = r.solve_ms;
    plan->reproducible = true;
    return 0;
}

int planner_plan(struct plan *plan, const struct planner_time *time, struct arena *a, struct err *e)
{
    enum assign_objective order[4];
    enum assign_method method;
    uint32_t n;

    if (planner_method(plan->job.planner, &method, e) ||
        planner_objectives(plan->job.objective, order, &n, e) || layout_place(plan, a, e))
        return -1;
    if (plan->strategy == STRATEGY_OWNER)
        return solve(plan, time, layout_base_bytes(plan), a, e);
    plan->load_flops = ARENA_NEW(a, uint64_t, plan->world);
    plan->load_bytes = ARENA_NEW(a, uint64_t, plan->world);
    spread_loads(plan);
    return 0;
}
