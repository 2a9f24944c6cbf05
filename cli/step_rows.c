#include "cli/step_rows.h"

#include "cli/evaluate.h"
#include "cli/setup.h"
#include "planner/planner.h"

#include <math.h>
#include <string.h>

const char *const step_metric_names[] = {"step_ms",
                                         "forward_ms",
                                         "backward_ms",
                                         "optimizer_ms",
                                         "memory_gib",
                                         "memory_alloc_gib",
                                         "tokens_per_s_per_gpu",
                                         "mfu",
                                         "balance",
                                         "bytes_per_rank_intra",
                                         "bytes_per_rank_inter",
                                         "bytes_per_rank_intra_recv",
                                         "bytes_per_rank_inter_recv",
                                         NULL};

static double value_of(const struct evaluation *x, enum step_metric m)
{
    switch (m) {
    case STEP_MS:
        return (double)x->p.step_ps / 1e9;
    case FORWARD_MS:
        return (double)x->p.forward_ps / 1e9;
    case BACKWARD_MS:
        return (double)x->p.backward_ps / 1e9;
    case OPTIMIZER_MS:
        return (double)x->p.optimizer_ps / 1e9;
    case MEMORY_GIB:
        return (double)x->p.memory.driver_bytes / 0x1p30;
    case MEMORY_ALLOC_GIB:
        return (double)x->p.memory.peak_bytes / 0x1p30;
    case TOKENS:
        return x->tokens_per_s_per_gpu;
    case MFU:
        return x->mfu;
    case BALANCE:
        return x->balance;
    case BYTES_INTRA:
        return (double)x->p.bytes_max.sent_intra;
    case BYTES_INTER:
        return (double)x->p.bytes_max.sent_inter;
    case BYTES_INTRA_RECV:
        return (double)x->p.bytes_max.recv_intra;
    case BYTES_INTER_RECV:
        return (double)x->p.bytes_max.recv_inter;
    case STEP_METRIC_N:
        break;
    }
    return NAN;
}

static int predict(struct step_row *m, const struct opts *o, struct setup *s, struct err *e)
{
    struct sim_options so = {.serial = m->serial};
    struct plan *plan = ARENA_NEW(&s->arena, struct plan, 1);
    struct evaluation x;

    (void)o;
    if (setup_plan(s, m->nodes, m->layout, &s->arena, plan, e) ||
        planner_plan(plan, &evaluate_time, &s->arena, e) || evaluate(plan, &so, &s->arena, &x, e))
        return -1;
    m->predicted = value_of(&x, m->metric);
    return 0;
}

/* The row as job options: what `job` says, and what stands beside it. */
static int run_row(const struct json_at *at, struct step_row *m, const char *optimizer,
                   struct arena *a, struct err *e)
{
    struct json_at job;
    struct opts o;
    struct setup s;
    char number[32];
    int status = 0;

    opts_init(&o);
    opts_add(&o, NULL, setup_options, setup_options_n);
    if (json_opt(at, "job", &job))
        status = opts_apply_json(&o, &job, e);
    if (!status)
        status = opts_set(&o, "cluster", m->cluster, OPT_FROM_CLI, e) ||
                 opts_set(&o, "optimizer", optimizer, OPT_FROM_CLI, e);
    snprintf(number, sizeof(number), "%llu", (unsigned long long)m->gpus);
    if (!status && m->gpus)
        status = opts_set(&o, "gpus", number, OPT_FROM_CLI, e);
    snprintf(number, sizeof(number), "%llu", (unsigned long long)m->nodes);
    if (!status && m->nodes)
        status = opts_set(&o, "nodes", number, OPT_FROM_CLI, e);
    if (!status)
        status = setup_init(&s, &o, m->model, e);
    if (!status) {
        status = predict(m, &o, &s, e);
        setup_release(&s);
    }
    opts_release(&o);
    if (status && e->code == ERR_UNSUPPORTED) {
        m->skipped = arena_strdup(a, e->msg);
        return 0;
    }
    return status ? err_prefix(e, "row '%s'", m->id) : 0;
}

static int read_row(const struct json_at *at, struct step_row *m, struct arena *a, struct err *e)
{
    static const char *const keys[] = {"id",   "model",  "cluster",   "nodes",
                                       "gpus", "layout", "optimizer", "serial",
                                       "job",  "metric", "value",     "source"};
    const char *optimizer, *text[5];
    static const char *const names[] = {"id", "model", "cluster", "layout", "source"};
    const char **to[] = {&m->id, &m->model, &m->cluster, &m->layout, &m->source};
    int metric;

    if (json_is_object(at, e) || json_only_keys(at, keys, sizeof(keys) / sizeof(keys[0]), e))
        return -1;
    for (int i = 0; i < 5; i++) {
        if (json_str(at, names[i], &text[i], e))
            return -1;
        *to[i] = arena_strdup(a, text[i]);
    }
    if (json_u64_or(at, "nodes", 1, 131072, 0, &m->nodes, e) ||
        json_u64_or(at, "gpus", 1, 1 << 24, 0, &m->gpus, e) ||
        json_bool_or(at, "serial", false, &m->serial, e) ||
        json_str(at, "optimizer", &optimizer, e) ||
        json_enum(at, "metric", step_metric_names, &metric, e) ||
        json_double(at, "value", JSON_ABOVE_0, INFINITY, &m->value, e))
        return -1;
    m->metric = (enum step_metric)metric;
    m->model = setup_path(at->file, m->model, a);
    m->cluster = setup_path(at->file, m->cluster, a);
    return run_row(at, m, optimizer, a, e);
}

int step_rows_read(const struct json_at *top, struct arena *a, struct step_row **list, size_t *n,
                   size_t *cap, struct err *e)
{
    static const char *const keys[] = {"format", "format_version", "what", "rows"};
    static const char *const formats[] = {"ballast-steps", NULL};
    struct json_at array, it;
    int format;

    if (json_is_object(top, e) || json_only_keys(top, keys, 4, e) ||
        json_enum(top, "format", formats, &format, e) || json_array(top, "rows", &array, NULL, e))
        return -1;
    for (bool more = json_first(&array, &it); more; more = json_next(&it)) {
        *list = mem_grow(*list, cap, *n + 1, sizeof(**list));
        memset(&(*list)[*n], 0, sizeof(**list));
        if (read_row(&it, &(*list)[*n], a, e))
            return err_prefix(e, "'%s'", top->file);
        (*n)++;
    }
    return 0;
}
