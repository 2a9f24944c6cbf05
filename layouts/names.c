/* What a typed name of a layout means: a row, and a strategy behind its plus sign. */
#include "layouts/layout.h"

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
