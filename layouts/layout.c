#include "layouts/layout.h"

#include "core/num.h"
#include "model/plan/optimizers.h"
#include "model/plan/placement.h"

uint64_t layout_state_bytes(const struct job *j, const struct tensor *t)
{
    return dtype_bytes(j->state_dtype, optimizer_state_elements(j->optimizer, t));
}

bool layout_updates_as_matrix(const struct plan *plan, const struct tensor *t)
{
    return optimizer_row(plan->job.optimizer)->matrices && tensor_is_matrix(t);
}

bool layout_state_is_whole(const struct plan *plan, const struct tensor *t)
{
    return layout_updates_as_matrix(plan, t) &&
           optimizer_row(plan->job.optimizer)->states == STATES_WHOLE &&
           (plan->strategy == STRATEGY_GATHER || plan->strategy == STRATEGY_GATHER_ONCE);
}

/* ---- placement ---- */

/* A unit's vectors travel with its matrices as one more segment; tables of embeddings and heads are cut by rows. */
bool layout_tail_is_owned(const struct plan *plan, uint32_t unit)
{
    const struct unit *u = &plan->model.units[unit];

    if (plan->strategy != STRATEGY_OWNER)
        return false;
    for (uint32_t i = 0; i < u->n; i++)
        if (layout_updates_as_matrix(plan, &plan->model.tensors[u->first + i]))
            return true;
    return false;
}

bool layout_has_groups(const struct layout *l, enum optimizer o)
{
    switch (l->groups) {
    case GROUPS_NONE:
        return false;
    case GROUPS_ELEMENTWISE:
        return !optimizer_row(o)->matrices;
    case GROUPS_NODE:
        return true;
    }
    BUG_ON(true);
}

bool layout_has_buckets(const struct layout *l, enum strategy s)
{
    return l->buckets && s != STRATEGY_OWNER;
}

bool layout_refreshes(const struct layout *l)
{
    return l->cut[STATE] && !l->cut[PARAM];
}

bool layout_may_sync_last(const struct layout *l)
{
    return l->cut[GRAD] && l->cut[PARAM];
}

int layout_groups(const struct layout *l, const struct job *j, uint32_t gpus_per_node,
                  uint32_t *group, struct err *e)
{
    uint32_t g = j->shard_group, ranks = job_data_ranks(j);
    uint32_t node = (uint32_t)num_min(gpus_per_node / j->tp, ranks);
    bool may = layout_has_groups(l, j->optimizer);

    *group = 0;
    if (job_check_data_ranks(j, gpus_per_node, e))
        return -1;
    if (!may && g && g != ranks)
        return err_set(
            e, ERR_UNSUPPORTED,
            "only the whole world (%u) with %s: hsdp, mics, and zero1 with an elementwise "
            "optimizer have shard groups",
            ranks, l->name);
    if (may && g > ranks)
        return err_set(e, ERR_INVALID, "a group of %u on %u %s; expected a divisor of the ranks", g,
                       ranks, j->tp > 1 ? "data ranks" : "GPUs");
    if (may && g && ranks % g)
        return err_set(e, ERR_INVALID, "expected a divisor of the %u ranks", ranks);
    if (l->groups == GROUPS_NODE && !g && ranks % node)
        return err_set(e, ERR_INVALID,
                       "layout '%s': groups of a node's %u %s do not share out %u ranks; give "
                       "--shard-group",
                       l->name, node, j->tp > 1 ? "data ranks" : "GPUs", ranks);
    if (l->groups == GROUPS_NODE)
        *group = g ? g : node;
    else if (may && g != ranks)
        *group = g;
    return 0;
}

/* What a job's mesh leaves out: a node's GPUs of the states' for parameters, the same for gradients. */
static void fill_factors(struct factor f[COMPONENT_N], const bool said[COMPONENT_N])
{
    if (!said[PARAM])
        f[PARAM] = said[GRAD] ? f[GRAD] : (struct factor){f[STATE].in_node, 1};
    if (!said[GRAD])
        f[GRAD] = f[PARAM];
}

/* Is a component cut? By what the job's mesh says, where the layout takes one. */
static bool cuts(const struct layout *l, const struct job *j, enum component c)
{
    struct factor f[COMPONENT_N] = {{2, 1}, {2, 1}, {2, 1}}; /* all: more than one */
    bool said[COMPONENT_N];
    struct err e;

    if (!l->nested || !j->mesh || j->gpus == j->tp || mesh_parse(j->mesh, f, said, &e))
        return l->cut[c];
    fill_factors(f, said);
    return factor_ranks(f[c]) > 1;
}

struct job_use layout_use(const struct layout *l, enum strategy s, const struct job *j,
                          const struct model *m)
{
    return (struct job_use){.job = j,
                            .model = m,
                            .strategy = s,
                            .gathers_params = cuts(l, j, PARAM),
                            .has_buckets = layout_has_buckets(l, s),
                            .refreshes = layout_refreshes(l),
                            .may_sync_last =
                                layout_may_sync_last(l) && cuts(l, j, PARAM) && cuts(l, j, GRAD),
                            .one_rank = j->gpus == j->tp};
}

/* Options that this layout, optimizer or model has no use for: neutral. A job may be for several layouts. */
static void drop_unused(struct plan *plan, const struct layout *l)
{
    const struct job_use use = layout_use(l, plan->strategy, &plan->job, &plan->model);
    const struct job_option *o;

    for (size_t i = 0; (o = job_option_at(i)); i++)
        if (*job_option_unused(o, &use).s)
            job_option_make_neutral(o, &plan->job);
}

/* The job's own, where the layout takes them: what it leaves out is a node's GPUs for parameters, the same for gradients,
 * all ranks for states. Else the shard group, of what the layout cuts. */
static int set_factors(struct plan *plan, const struct layout *l, struct arena *a, struct err *e)
{
    uint32_t group = plan->job.shard_group ? plan->job.shard_group : plan_data_ranks(plan);
    struct factor all = placement_factor(plan, group), *f = plan->factor;
    bool said[COMPONENT_N] = {false};

    for (int c = 0; c < COMPONENT_N; c++)
        f[c] = l->cut[c] ? all : (struct factor){1, 1};
    if (!l->nested) {
        plan->job.mesh = NULL;
        return 0;
    }
    if (plan->job.mesh && mesh_parse(plan->job.mesh, f, said, e))
        return -1;
    fill_factors(f, said);
    plan->job.mesh = arena_printf(a, "p=%ux%u,g=%ux%u,os=%ux%u", f[PARAM].in_node, f[PARAM].nodes,
                                  f[GRAD].in_node, f[GRAD].nodes, f[STATE].in_node, f[STATE].nodes);
    return 0;
}

/* What a row may say that nothing lowers. */
static int check_row(const struct layout *l, struct err *e)
{
    bool cuts = false, copies = l->groups == GROUPS_NODE || l->nested;
    const char *why = NULL;

    for (int c = 0; c < COMPONENT_N; c++) {
        cuts |= l->cut[c];
        if (c && l->cut[c - 1] && !l->cut[c])
            why = "what is cut more is cut no less later: parameters, gradients, states";
    }
    if (cuts != (l->rule == PLACE_CHUNK || l->rule == PLACE_FLAT))
        why = "rows and flat slices are of what is cut";
    if (l->rule == PLACE_FLAT && (l->cut[PARAM] || copies))
        why = "parameters in flat slices are not gathered";
    if (l->nested && (l->groups != GROUPS_NONE || l->buckets || !l->cut[PARAM] ||
                      l->allowed != 1u << STRATEGY_GATHER))
        why = "nested factors take no groups, no buckets, and +gather alone";
    if (copies && l->level_stream != STREAM_REDUCE && l->level_stream != STREAM_ALL_REDUCE)
        why = "the sum over copies runs on the reduce or the all-reduce stream";
    if (!(l->allowed & 1u << l->strategy))
        why = "its strategy is not allowed";
    return why ? err_set(e, ERR_UNSUPPORTED, "layout '%s': nothing lowers such a row: %s", l->name,
                         why)
               : 0;
}

int layout_place(struct plan *plan, struct arena *a, struct err *e)
{
    const struct layout *l;
    const struct model *m = &plan->model;
    uint64_t offset = 0;
    uint32_t unit = MODEL_NONE;

    if (layout_resolve(plan->job.layout, plan->job.optimizer, a, &l, &plan->strategy,
                       &plan->layout_full, e) ||
        check_row(l, e))
        return -1;
    plan->layout = l->name;
    plan->world = plan->job.gpus;
    if (plan_slice(plan, a, e))
        return -1;
    drop_unused(plan, l);
    if (layout_groups(l, &plan->job, plan->cluster.gpus_per_node, &plan->job.shard_group, e))
        return -1;
    if (set_factors(plan, l, a, e) || placement_set_mesh(plan, e))
        return err_prefix(e, "layout '%s'", l->name);
    plan->place = ARENA_NEW(a, struct placement, m->n_tensors);
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct tensor *t = &m->tensors[i];
        struct placement *p = &plan->place[i];

        if (t->unit != unit)
            offset = 0;
        unit = t->unit;
        p->offset = offset;
        offset += dtype_bytes(plan->job.param_dtype, t->numel);
        if (plan->strategy == STRATEGY_OWNER &&
            (layout_updates_as_matrix(plan, t) || layout_tail_is_owned(plan, t->unit)))
            p->rule = PLACE_OWNER; /* the planner says which rank */
        else
            p->rule = plan->strategy == STRATEGY_OWNER ? PLACE_CHUNK : l->rule;
    }
    return 0;
}
