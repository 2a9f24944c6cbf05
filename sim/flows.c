#include "sim/flows.h"

#include "sim/fluid.h"

#include <math.h>
#include <stdlib.h>

static const double MAX_S = 9e6; /* 2^63 ps are 9.2e6 s */

static int check_link(const struct flows_scenario *s, uint32_t flow, uint32_t link, struct err *e)
{
    double n_bytes = (double)s->flows[flow].n_bytes;

    if (link >= s->n_links)
        return err_set(e, ERR_INVALID, "flow %u: link %u, expected one of %u", flow, link,
                       s->n_links);
    if (n_bytes / s->links[link].bw_Bps > MAX_S)
        return err_set(e, ERR_OVERFLOW,
                       "flow %u: %.0f bytes over link '%s' of %g bytes/s take longer than 2^63 "
                       "picoseconds (106 days)",
                       flow, n_bytes, s->links[link].name, s->links[link].bw_Bps);
    return 0;
}

static int check(const struct flows_scenario *s, struct err *e)
{
    uint32_t i, j;

    if (s->n_flows && !s->n_links)
        return err_set(e, ERR_INVALID, "scenario '%s' has flows and no links", s->id);
    for (i = 0; i < s->n_links; i++)
        if (!(s->links[i].bw_Bps > 0) || isinf(s->links[i].bw_Bps))
            return err_set(e, ERR_INVALID, "link '%s': bandwidth is %g, expected > 0 bytes/s",
                           s->links[i].name, s->links[i].bw_Bps);
    for (i = 0; i < s->n_flows; i++) {
        if (!s->flows[i].n_path)
            return err_set(e, ERR_INVALID, "flow %u: the path is empty", i);
        if (!s->flows[i].n_bytes)
            return err_set(e, ERR_INVALID, "flow %u: bytes is 0, expected > 0", i);
        if (s->flows[i].start_ps < 0)
            return err_set(e, ERR_INVALID, "flow %u: starts at %lld ps, expected >= 0", i,
                           (long long)s->flows[i].start_ps);
        if (s->flows[i].weight != 0 &&
            !(s->flows[i].weight >= FLOWS_MIN_WEIGHT && s->flows[i].weight <= FLOWS_MAX_WEIGHT))
            return err_set(e, ERR_INVALID, "flow %u: weight is %g, expected %g to %g", i,
                           s->flows[i].weight, FLOWS_MIN_WEIGHT, FLOWS_MAX_WEIGHT);
        for (j = 0; j < s->flows[i].n_path; j++)
            if (check_link(s, i, s->flows[i].path[j], e))
                return -1;
    }
    return 0;
}

static int by_instance(const void *a, const void *b)
{
    uint32_t x = ((const struct fluid_amount *)a)->instance,
             y = ((const struct fluid_amount *)b)->instance;

    return (x > y) - (x < y);
}

/* A path as amounts, ascending, equal links added up. Returns how many. */
static uint32_t path_amounts(const struct flows_flow *flow, struct fluid_amount *out)
{
    uint32_t i, n = 0;

    for (i = 0; i < flow->n_path; i++)
        out[i] = (struct fluid_amount){.instance = flow->path[i], .amount = 1};
    qsort(out, flow->n_path, sizeof(*out), by_instance);
    for (i = 0; i < flow->n_path; i++) {
        if (n && out[n - 1].instance == out[i].instance)
            out[n - 1].amount += 1;
        else
            out[n++] = out[i];
    }
    return n;
}

int flows_run(const struct flows_scenario *s, int64_t *end_ps, struct err *e)
{
    struct fluid *f;
    struct arena a;
    struct fluid_use *use;
    struct fluid_amount *only;
    struct fluid_activity act = {.n_uses = 1};
    uint32_t i, kind;
    int rc;

    if (check(s, e))
        return err_prefix(e, "scenario '%s'", s->id);
    if (!s->n_flows)
        return 0;
    f = fluid_new();
    arena_init(&a);
    kind = fluid_kind(f, "link", s->n_links, 1);
    for (i = 0; i < s->n_links; i++)
        fluid_capacity(f, kind, i, s->links[i].bw_Bps / 1e12);
    for (i = 0; i < s->n_flows; i++) {
        use = ARENA_NEW(&a, struct fluid_use, 1);
        only = ARENA_NEW(&a, struct fluid_amount, s->flows[i].n_path);
        *use = (struct fluid_use){
            .kind = kind, .only = only, .n_only = path_amounts(&s->flows[i], only)};
        act.uses = use;
        act.work = (double)s->flows[i].n_bytes;
        act.weight = s->flows[i].weight;
        fluid_add(f, &act, s->flows[i].start_ps);
    }
    rc = fluid_run(f, e);
    if (rc && fluid_at_fault(f) != UINT32_MAX)
        rc = err_set(e, ERR_OVERFLOW, "flow %u: it ends beyond 2^63 picoseconds (106 days)",
                     fluid_at_fault(f));
    for (i = 0; i < s->n_flows && !rc; i++)
        end_ps[i] = fluid_end_ps(f, i);
    arena_release(&a);
    fluid_free(f);
    return rc ? err_prefix(e, "scenario '%s'", s->id) : 0;
}
