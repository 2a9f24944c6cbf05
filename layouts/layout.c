#include "layouts/layout.h"

#include "core/num.h"
#include "core/suggest.h"
#include "model/plan/optimizers.h"

#include <string.h>
#include <strings.h>

const struct layout_alias layout_aliases[] = {{"zero1-owner", "zero1+owner"},
                                              {"zero2-owner", "zero2+owner"},
                                              {"owner", "zero3+owner"},
                                              {"amsp", "mesh"},
                                              {NULL, NULL}};

static const char *const strategy_names[STRATEGY_N] = {
#define X(s, name) name,
    STRATEGIES(X)
#undef X
};

const char *strategy_name(enum strategy s)
{
    return strategy_names[s];
}

const char *strategy_line(enum strategy s)
{
    switch (s) {
    case STRATEGY_REPLICATED:
        return "every rank updates every matrix";
    case STRATEGY_STOCK:
        return "products on shards; DTensor gathers their operands in the step";
    case STRATEGY_GATHER:
        return "gather what a boundary cuts, update it on every holder";
    case STRATEGY_GATHER_ONCE:
        return "gather all matrices at once, update them everywhere";
    case STRATEGY_ALLTOALL:
        return "as many matrices as ranks at a time, one a rank, by all-to-all";
    case STRATEGY_OWNER:
        return "each matrix whole on one owner, updated there";
    case STRATEGY_N:
        break;
    }
    return "?";
}

const struct layout *layout_find(const char *base)
{
    for (size_t i = 0; layouts_all[i]; i++)
        if (!strcasecmp(layouts_all[i]->name, base))
            return layouts_all[i];
    return NULL;
}

/* Every name that can be typed, for suggestions. NULL-terminated, in arena. */
static const char **typed_names(struct arena *a)
{
    const char **names = ARENA_NEW(a, const char *, 64);
    size_t n = 0;

    for (size_t i = 0; layout_aliases[i].alias; i++)
        names[n++] = layout_aliases[i].alias;
    for (size_t i = 0; layouts_all[i]; i++) {
        names[n++] = layouts_all[i]->name;
        for (int s = 1; s < STRATEGY_N; s++)
            if (layouts_all[i]->allowed & 1u << s)
                names[n++] = arena_printf(a, "%s+%s", layouts_all[i]->name, strategy_names[s]);
    }
    BUG_ON(n >= 64);
    return names;
}

/* Why an optimizer of matrices does not go with a strategy. */
static int refuse_strategy(const char *name, const struct layout *l, enum strategy s,
                           const struct optimizer_row *row, struct err *e)
{
    switch (s) {
    case STRATEGY_STOCK:
        return err_set(e, ERR_INVALID,
                       "layout '%s': +stock cuts Newton-Schulz products, which %s does not "
                       "have; use %s+gather or %s+owner",
                       name, row->name, l->name, l->name);
    case STRATEGY_ALLTOALL:
        return err_set(e, ERR_INVALID,
                       "layout '%s': +alltoall keeps states cut by rows, and %s's "
                       "preconditioners want whole matrices; use %s+gather or %s+owner",
                       name, row->name, l->name, l->name);
    case STRATEGY_REPLICATED:
    case STRATEGY_GATHER:
    case STRATEGY_GATHER_ONCE:
    case STRATEGY_OWNER:
    case STRATEGY_N:
        break;
    }
    return err_set(e, ERR_INVALID, "layout '%s': +%s does not go with %s", name, strategy_name(s),
                   row->name);
}

int layout_resolve(const char *name, enum optimizer o, struct arena *a, const struct layout **l,
                   enum strategy *s, const char **full, struct err *e)
{
    const char *what = name, *plus;
    const struct optimizer_row *row = optimizer_row(o);
    char *base;
    int k;

    for (size_t i = 0; layout_aliases[i].alias; i++)
        if (!strcasecmp(name, layout_aliases[i].alias))
            what = layout_aliases[i].full;
    plus = strchr(what, '+');
    base = arena_strndup(a, what, plus ? (size_t)(plus - what) : strlen(what));
    *l = layout_find(base);
    if (!*l) {
        const char **names = typed_names(a);

        return err_set(e, ERR_UNKNOWN, "unknown layout '%s'%s; `--layout list` shows all", name,
                       suggest(name, names, suggest_count(names)).s);
    }
    *s = (*l)->strategy;
    if (row->matrices && *s == STRATEGY_STOCK)
        *s = row->sharded;
    if (plus) {
        for (k = 1; k < STRATEGY_N; k++)
            if (!strcasecmp(plus + 1, strategy_names[k]))
                break;
        if (k == STRATEGY_N)
            return err_set(
                e, ERR_UNKNOWN,
                "layout '%s': unknown strategy '%s', expected stock, gather, gather-once, "
                "alltoall or owner",
                name, plus + 1);
        if (!((*l)->allowed & 1u << k))
            return err_set(e, ERR_INVALID,
                           "layout '%s': %s does not go with +%s; `--layout list` shows "
                           "what does",
                           name, (*l)->name, plus + 1);
        *s = (enum strategy)k;
        if (row->matrices && !(row->strategies & 1u << k))
            return refuse_strategy(name, *l, *s, row, e);
    }
    if (!row->matrices && *s != STRATEGY_OWNER)
        *s = STRATEGY_REPLICATED; /* no matrices: nothing to rebuild */
    *full = *s == STRATEGY_REPLICATED ? (*l)->name
                                      : arena_printf(a, "%s+%s", (*l)->name, strategy_names[*s]);
    return 0;
}

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
    return l->groups == GROUPS_NODE ||
           (l->groups == GROUPS_ELEMENTWISE && !optimizer_row(o)->matrices);
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
    uint32_t g = j->shard_group, node = (uint32_t)num_min(gpus_per_node, j->gpus);
    bool may = layout_has_groups(l, j->optimizer);

    *group = 0;
    if (!may && g && g != j->gpus)
        return err_set(
            e, ERR_UNSUPPORTED,
            "only the whole world (%u) with %s: hsdp, mics, and zero1 with an elementwise "
            "optimizer have shard groups",
            j->gpus, l->name);
    if (may && g > j->gpus)
        return err_set(e, ERR_INVALID, "a group of %u on %u GPUs; expected a divisor of the ranks",
                       g, j->gpus);
    if (may && g && j->gpus % g)
        return err_set(e, ERR_INVALID, "expected a divisor of the %u ranks", j->gpus);
    if (l->groups == GROUPS_NODE && !g && j->gpus % node)
        return err_set(e, ERR_INVALID,
                       "layout '%s': groups of a node's %u GPUs do not share out %u ranks; give "
                       "--shard-group",
                       l->name, node, j->gpus);
    if (l->groups == GROUPS_NODE)
        *group = g ? g : node;
    else if (may && g != j->gpus)
        *group = g;
    return 0;
}

struct job_use layout_use(const struct layout *l, enum strategy s, const struct job *j,
                          const struct model *m)
{
    return (struct job_use){.job = j,
                            .model = m,
                            .strategy = s,
                            .gathers_params = l->cut[PARAM],
                            .has_buckets = layout_has_buckets(l, s),
                            .refreshes = layout_refreshes(l),
                            .may_sync_last = layout_may_sync_last(l),
                            .one_rank = j->gpus == 1};
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
    uint32_t group = plan->job.shard_group ? plan->job.shard_group : plan->world;
    struct factor all = {(uint32_t)num_min(group, plan->cluster.gpus_per_node),
                         (uint32_t)num_ceil_div(group, plan->cluster.gpus_per_node)},
                  *f = plan->factor;
    bool said[COMPONENT_N] = {false};

    for (int c = 0; c < COMPONENT_N; c++)
        f[c] = l->cut[c] ? all : (struct factor){1, 1};
    if (!l->nested) {
        plan->job.mesh = NULL;
        return 0;
    }
    if (plan->job.mesh && mesh_parse(plan->job.mesh, f, said, e))
        return -1;
    if (!said[PARAM])
        f[PARAM] = said[GRAD] ? f[GRAD] : (struct factor){f[STATE].in_node, 1};
    if (!said[GRAD])
        f[GRAD] = f[PARAM];
    plan->job.mesh = arena_printf(a, "p=%ux%u,g=%ux%u,os=%ux%u", f[PARAM].in_node, f[PARAM].nodes,
                                  f[GRAD].in_node, f[GRAD].nodes, f[STATE].in_node, f[STATE].nodes);
    return 0;
}

int layout_place(struct plan *plan, struct arena *a, struct err *e)
{
    const struct layout *l;
    const struct model *m = &plan->model;
    uint64_t offset = 0;
    uint32_t unit = MODEL_NONE;

    if (layout_resolve(plan->job.layout, plan->job.optimizer, a, &l, &plan->strategy,
                       &plan->layout_full, e))
        return -1;
    plan->layout = l->name;
    plan->world = plan->job.gpus;
    drop_unused(plan, l);
    if (layout_groups(l, &plan->job, plan->cluster.gpus_per_node, &plan->job.shard_group, e))
        return -1;
    if (set_factors(plan, l, a, e) || placement_set_mesh(plan, e))
        return err_prefix(e, "mesh");
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
