#include "cli/metrics.h"

#include "layouts/layout.h"
#include "model/plan/job_options.h"
#include "model/plan/optimizers.h"

#include <math.h>
#include <string.h>

#define MFU_BASIS "6 FLOP per parameter and token; attention not halved for causal"

/* ---- cells ---- */

static struct table_cell text(const char *s)
{
    return s ? (struct table_cell){TABLE_STR, {.str = s}} : (struct table_cell){0};
}

static struct table_cell count(uint64_t v)
{
    return (struct table_cell){TABLE_U64, {.u64 = v}};
}

static struct table_cell number(double v)
{
    return isfinite(v) ? (struct table_cell){TABLE_DOUBLE, {.d = v}} : (struct table_cell){0};
}

static struct table_cell ms(int64_t ps)
{
    return number((double)ps / 1e9);
}

static struct table_cell yes(bool v)
{
    return (struct table_cell){TABLE_YESNO, {.yes = v}};
}

static struct table_cell tree(cJSON *v)
{
    return (struct table_cell){TABLE_TREE, {.tree = v}};
}

/* ---- values ---- */

static const char *recompute_name(enum recompute r)
{
    return job_option("recompute")->opt.choices[r];
}

static double held_balance(const struct plan *plan)
{
    struct layout_held held = layout_held(plan);

    return held.mean > 0 ? (double)held.most / held.mean : NAN;
}

static double usd_per_mtok(const struct evaluation *x)
{
    return x->plan->job.price_per_gpu_hour > 0 ? evaluate_usd_per_mtok(x) : NAN;
}

static uint64_t fragmentation(const struct sim_memory *m)
{
    return m->driver_bytes - m->peak_bytes - m->parts[MEM_CONTEXT];
}

static const struct step_band *band(struct metric_source *s)
{
    if (!s->has_band)
        s->band = step_band(s->x->plan);
    s->has_band = true;
    return &s->band;
}

static const char *missing(struct metric_source *s)
{
    return *band(s)->missing ? s->band.missing : NULL;
}

/* How owner segments travelled, "tree", a mixture as "ring+tree", the way of most bytes first. NULL without owners. */
static const char *owner_algorithm(struct metric_source *s)
{
    const struct evaluation *x = s->x;
    enum coll_algo most = x->p.gather_algo;
    size_t len, n = sizeof(s->via);
    char *to = s->via;

    if (x->plan->strategy != STRATEGY_OWNER || most == ALGO_AUTO)
        return NULL;
    len = (size_t)snprintf(to, n, "%s", coll_algo_name(most));
    for (int k = ALGO_AUTO + 1; k < ALGO_N && len < n; k++)
        if (k != (int)most && x->p.gather_algos & 1u << k)
            len += (size_t)snprintf(to + len, n - len, "+%s", coll_algo_name((enum coll_algo)k));
    return to;
}

/* Who says how they travel. */
static const char *owner_choice(const struct evaluation *x)
{
    return x->plan->strategy != STRATEGY_OWNER || x->p.gather_algo == ALGO_AUTO ? NULL
           : plan_gathers_as_framework(x->plan)                                 ? "framework"
           : x->plan->job.gather == ALGO_AUTO                                   ? "auto"
                                                                                : "asked";
}

/* In short, for people. */
static const char *via(struct metric_source *s)
{
    const char *choice = owner_choice(s->x), *way = owner_algorithm(s);

    return choice && !strcmp(choice, "framework") ? choice
           : way && strchr(way, '+')              ? "mixed"
                                                  : way;
}

/* As plan files have it. */
static cJSON *mesh(const struct plan *plan)
{
    static const char *const keys[COMPONENT_N] = {"p", "g", "os"};
    cJSON *o = json_new_object(), *pair;

    for (int c = 0; c < COMPONENT_N; c++) {
        pair = json_add_array(o, keys[c]);
        json_add_u64(pair, NULL, plan->factor[c].in_node);
        json_add_u64(pair, NULL, plan->factor[c].nodes);
    }
    return o;
}

static cJSON *memory_parts(const struct evaluation *x)
{
    cJSON *o = json_new_object();

    for (int i = 0; i < MEM_PART_N; i++)
        json_add_double(o, mem_part_name((enum mem_part)i), (double)x->p.memory.parts[i] / 0x1p30);
    return o;
}

static cJSON *by_category(const int64_t *ps)
{
    cJSON *o = json_new_object();

    for (int i = 0; i < TIME_N; i++)
        json_add_double(o, time_category_name((enum time_category)i), (double)ps[i] / 1e9);
    return o;
}

/* Of what is waited for, what holds it: only what there is. */
static cJSON *by_limit(const struct prediction *p)
{
    cJSON *o = json_new_object();

    for (int k = 0; k < TIME_N; k++) {
        cJSON *of = NULL;

        for (int l = 0; l < LIMIT_N; l++) {
            if (!p->wait_ps[k][l])
                continue;
            of = of ? of : json_add_object(o, time_category_name((enum time_category)k));
            json_add_double(of, sim_limit_name(l), (double)p->wait_ps[k][l] / 1e9);
        }
    }
    return o;
}

/* ---- the list ---- */

#define X(key, head, kind, decimals, in, value)                                                    \
    static struct table_cell get_##key(struct metric_source *s)                                    \
    {                                                                                              \
        const struct evaluation *x = s->x;                                                         \
                                                                                                   \
        (void)x;                                                                                   \
        return value;                                                                              \
    }
METRICS(X)
#undef X
#define X(of, key, head, title, colour)                                                            \
    static struct table_cell get_##key(struct metric_source *s)                                    \
    {                                                                                              \
        return ms(s->x->p.time_ps[of]);                                                            \
    }
TIME_METRICS(X)
#undef X
#define X(of, key, head, title, colour)                                                            \
    static struct table_cell get_##key(struct metric_source *s)                                    \
    {                                                                                              \
        return count(s->x->p.memory.parts[of]);                                                    \
    }
MEMORY_METRICS(X)
#undef X

/* As the driver sees it: what fragmentation costs counts as context. */
static struct table_cell get_memory_outside(struct metric_source *s)
{
    return count(s->x->p.memory.driver_bytes - s->x->p.memory.peak_bytes);
}

static const struct metric metrics[METRIC_N] = {
#define X(key, head, kind, decimals, in, value)                                                    \
    {{#key, head, TABLE_##kind, decimals, TABLE_AUTO}, METRIC_IN_##in, get_##key, NULL, NULL},
    METRICS(X)
#undef X
#define X(of, key, head, title, colour)                                                            \
    {{#key, head, TABLE_FIXED, 1, TABLE_AUTO}, METRIC_IN_VIEWS, get_##key, title, colour},
        TIME_METRICS(X)
#undef X
#define X(of, key, head, title, colour)                                                            \
    {{#key, head, TABLE_GIB, 1, TABLE_AUTO}, METRIC_IN_VIEWS, get_##key, title, colour},
            MEMORY_METRICS(X)
#undef X
                {{"memory_outside", NULL, TABLE_GIB, 1, TABLE_AUTO},
                 METRIC_IN_VIEWS,
                 get_memory_outside,
                 "context, fragmentation",
                 "#CCCCCC"},
};

#define X(...) +1
_Static_assert(0 TIME_METRICS(X) == TIME_N, "a category of time without a metric");
_Static_assert(0 MEMORY_METRICS(X) == MEM_PART_N, "a part of memory without a metric");
#undef X

const struct metric *metric(enum metric_id id)
{
    BUG_ON((unsigned)id >= METRIC_N);
    return &metrics[id];
}

double metric_number(enum metric_id id, const struct evaluation *x)
{
    struct metric_source s = {.x = x};
    struct table_cell c = metric(id)->get(&s);

    BUG_ON(c.state == TABLE_STR || c.state == TABLE_YESNO || c.state == TABLE_TREE);
    return c.state == TABLE_MISSING ? NAN : table_number(&c, metrics[id].col.kind);
}

/* ---- tables ---- */

void metric_table_view(struct metric_table *t, const enum metric_id *ids, size_t n,
                       const char *corner)
{
    memset(t, 0, sizeof(*t));
    t->n = n;
    for (size_t i = 0; i < n; i++) {
        t->ids[i] = ids[i];
        t->cols[i] = metric(ids[i])->col;
    }
    if (corner)
        t->cols[0].head = corner;
    table_init(&t->t, t->cols, n);
}

void metric_table_rows(struct metric_table *t, unsigned in)
{
    enum metric_id ids[METRIC_N];
    size_t n = 0;

    for (int i = 0; i < METRIC_N; i++)
        if (metrics[i].in & in)
            ids[n++] = (enum metric_id)i;
    metric_table_view(t, ids, n, NULL);
}

void metric_table_add(struct metric_table *t, const struct evaluation *x)
{
    struct metric_source s = {.x = x, .base_rate = t->base_rate};

    table_row(&t->t);
    for (size_t i = 0; i < t->n; i++)
        table_set_cell(&t->t, i, metric(t->ids[i])->get(&s));
}

void metric_table_release(struct metric_table *t)
{
    table_release(&t->t);
}

static const enum metric_id step_view[] = {
    METRIC_layout,        METRIC_step_ms,
    METRIC_forward_ms,    METRIC_backward_ms,
    METRIC_optimizer_ms,  METRIC_exposed_comm_ms,
    METRIC_memory_gib,    METRIC_fit,
    METRIC_mfu_percent,   METRIC_tokens_per_s_per_gpu,
    METRIC_error_percent, METRIC_bottleneck,
};

static const enum metric_id time_view[] = {
    METRIC_layout,
#define X(of, key, head, title, colour) METRIC_##key,
    TIME_METRICS(X)
#undef X
        METRIC_gb_intra,
    METRIC_gb_inter,
    METRIC_gb_optimizer,
    METRIC_balance,
    METRIC_via,
};

static const enum metric_id memory_view[] = {
    METRIC_layout,
#define X(of, key, head, title, colour) METRIC_##key,
    MEMORY_METRICS(X)
#undef X
        METRIC_fragmentation,
    METRIC_peak_phase,
};

const enum metric_id metric_time_bars[TIME_N] = {
#define X(of, key, head, title, colour) [of] = METRIC_##key,
    TIME_METRICS(X)
#undef X
};

/* Context and fragmentation are one bar. */
const enum metric_id metric_memory_bars[MEM_PART_N] = {
    METRIC_memory_params,    METRIC_memory_grads,       METRIC_memory_states,
    METRIC_memory_master,    METRIC_memory_activations, METRIC_memory_gathered,
    METRIC_memory_workspace, METRIC_memory_logits,      METRIC_memory_buffers,
    METRIC_memory_outside,
};

void metric_print_views(const struct evaluation *x, size_t n, enum table_format f,
                        struct strbuf *out)
{
    static const struct {
        const enum metric_id *ids;
        size_t n;
        const char *corner;
    } views[] = {{step_view, sizeof(step_view) / sizeof(*step_view), NULL},
                 {time_view, sizeof(time_view) / sizeof(*time_view), "ms"},
                 {memory_view, sizeof(memory_view) / sizeof(*memory_view), "GiB"}};
    struct metric_table t;

    for (int v = 0; v < 3; v++) {
        metric_table_view(&t, views[v].ids, views[v].n, views[v].corner);
        for (size_t i = 0; i < n; i++)
            metric_table_add(&t, &x[i]);
        table_print(&t.t, f, out);
        strbuf_puts(out, "\n");
        metric_table_release(&t);
    }
    for (size_t i = 0; i < n; i++)
        if (x[i].plan->job.mesh)
            strbuf_printf(
                out,
                "%s: %s, GPUs in a node x nodes that parameters, gradients and states are "
                "cut over.\n",
                x[i].plan->job.layout, x[i].plan->job.mesh);
}
