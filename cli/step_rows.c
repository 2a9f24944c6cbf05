#include "cli/step_rows.h"

#include "cli/setup.h"

#include <math.h>
#include <string.h>

const enum metric_id step_metrics[STEP_METRIC_N] = {
    METRIC_step_ms,
    METRIC_forward_ms,
    METRIC_backward_ms,
    METRIC_optimizer_ms,
    METRIC_memory_gib,
    METRIC_memory_alloc_gib,
    METRIC_tokens_per_s_per_gpu,
    METRIC_mfu,
    METRIC_balance,
    METRIC_bytes_per_rank_intra,
    METRIC_bytes_per_rank_inter,
    METRIC_bytes_per_rank_intra_recv,
    METRIC_bytes_per_rank_inter_recv,
};

bool step_metric_is_time(enum metric_id m)
{
    return m == METRIC_step_ms || m == METRIC_tokens_per_s_per_gpu || m == METRIC_mfu;
}

int step_rows_open(const struct json_at *top, struct json_at *rows, struct err *e)
{
    static const char *const keys[] = {"format", "format_version", "what", "rows"};
    static const char *const formats[] = {"ballast-steps", NULL};
    int format;

    return json_is_object(top, e) || json_only_keys(top, keys, 4, e) ||
                   json_enum(top, "format", formats, &format, e) ||
                   json_array(top, "rows", rows, NULL, e) || json_distinct(rows, "id", e)
               ? -1
               : 0;
}

static bool is_default(const struct opt *o, const struct opt_val *v, const struct opt_val *dflt)
{
    if (!dflt->text)
        return false;
    switch (o->type) {
    case OPT_STRING:
    case OPT_LIST:
    case OPT_COUNTS:
        return !strcmp(v->text, dflt->text);
    case OPT_DOUBLE:
    case OPT_BANDWIDTH:
    case OPT_TIME:
        return fabs(v->d - dflt->d) <= 0;
    case OPT_FLAG:
    case OPT_U64:
    case OPT_COUNT:
    case OPT_BYTES:
    case OPT_CHOICE:
        break;
    }
    return v->u64 == dflt->u64;
}

/* What the row's job says, but for the cluster and its size. */
static void list_options(const struct opts *o, struct step_row *m, struct arena *a)
{
    const struct job_option *option;
    struct opts plain;

    opts_init(&plain);
    job_options_add(&plain);
    m->options = ARENA_NEW(a, const char *, plain.n);
    for (size_t i = 0; (option = job_option_at(i)); i++) {
        const struct opt *row = &option->opt;
        const struct opt_val *v;

        if (option->of_command)
            continue;
        v = opts_get(o, row->name);
        if (v->set == OPT_FROM_JSON && !is_default(row, v, opts_get(&plain, row->name)))
            m->options[m->n_options++] = row->type == OPT_FLAG
                                             ? arena_printf(a, "--%s", row->name)
                                             : arena_printf(a, "--%s %s", row->name, v->text);
    }
    opts_release(&plain);
}

int step_row_with_setup(const struct json_at *at, struct step_row *m, struct arena *a,
                        int (*fn)(void *ctx, struct step_row *m, struct setup *s, struct err *e),
                        void *ctx, struct err *e)
{
    static const char *const beside[] = {"cluster", "optimizer", "nodes", "gpus"};
    struct json_at job;
    struct opts o;
    struct setup s;
    char number[32];
    int status = 0;

    opts_init(&o);
    job_options_add(&o);
    if (json_opt(at, "job", &job) && opts_apply_json(&o, &job, e)) {
        opts_release(&o);
        return -1; /* which says where */
    }
    for (int i = 0; i < 4; i++) /* which the row itself says */
        if (opts_get(&o, beside[i])->set && (i < 2 || m->nodes || m->gpus)) {
            opts_release(&o);
            return err_set(e, ERR_INVALID,
                           "'%s': row '%s': %s stands in job too, expected it beside job alone",
                           at->file, m->id, beside[i]);
        }
    if (!status) {
        list_options(&o, m, a);
        status = opts_set(&o, "cluster", m->cluster, OPT_FROM_CLI, e) ||
                 opts_set(&o, "optimizer", m->optimizer, OPT_FROM_CLI, e);
    }
    snprintf(number, sizeof(number), "%llu", (unsigned long long)m->gpus);
    if (!status && m->gpus)
        status = opts_set(&o, "gpus", number, OPT_FROM_CLI, e);
    snprintf(number, sizeof(number), "%llu", (unsigned long long)m->nodes);
    if (!status && m->nodes)
        status = opts_set(&o, "nodes", number, OPT_FROM_CLI, e);
    if (!status)
        status = setup_init(&s, &o, m->model, e);
    if (!status) {
        status = fn(ctx, m, &s, e);
        setup_release(&s);
    }
    opts_release(&o);
    if (status && e->code == ERR_UNSUPPORTED) {
        m->skipped = arena_strdup(a, e->msg);
        return 0;
    }
    return status ? err_prefix(e, "'%s': row '%s'", at->file, m->id) : 0;
}

/* What no run can have: a share above all, a largest value below the mean. */
static int check_value(const struct json_at *at, const struct step_row *m, struct err *e)
{
    struct json_at value;

    if (json_get(at, "value", &value, e))
        return -1;
    if (m->metric == METRIC_mfu && m->value > 1)
        return json_err(&value, ERR_INVALID, e,
                        "is %.6g, expected a fraction, at most 1: %.6g %% is %.6g", m->value,
                        m->value, m->value / 100);
    if (m->metric == METRIC_balance && m->value < 1)
        return json_err(&value, ERR_INVALID, e, "is %.6g, expected max/mean, at least 1", m->value);
    return 0;
}

int step_row_read(const struct json_at *at, struct step_row *m, struct arena *a, struct err *e)
{
    static const char *const keys[] = {"id",     "model",     "cluster", "nodes", "gpus",
                                       "layout", "optimizer", "serial",  "job",   "metric",
                                       "value",  "source",    "distrust"};
    static const char *const names[] = {"id", "model", "cluster", "layout", "optimizer", "source"};
    const char **to[] = {&m->id, &m->model, &m->cluster, &m->layout, &m->optimizer, &m->source};
    const char *metrics[STEP_METRIC_N + 1] = {NULL}, *text, *why;
    int measured;

    memset(m, 0, sizeof(*m));
    for (int i = 0; i < STEP_METRIC_N; i++)
        metrics[i] = metric(step_metrics[i])->col.key;
    if (json_is_object(at, e) || json_only_keys(at, keys, sizeof(keys) / sizeof(keys[0]), e))
        return -1;
    for (int i = 0; i < 6; i++) {
        if (json_str(at, names[i], &text, e))
            return -1;
        *to[i] = arena_strdup(a, text);
    }
    if (json_u64_or(at, "nodes", 1, 131072, 0, &m->nodes, e) ||
        json_u64_or(at, "gpus", 1, 1 << 24, 0, &m->gpus, e) ||
        json_bool_or(at, "serial", false, &m->serial, e) ||
        json_str_or(at, "distrust", NULL, &why, e) ||
        json_enum(at, "metric", metrics, &measured, e) ||
        json_double(at, "value", JSON_ABOVE_0, INFINITY, &m->value, e))
        return -1;
    m->metric = step_metrics[measured];
    if (check_value(at, m, e))
        return -1;
    if (why && !*why)
        return err_set(e, ERR_INVALID, "'%s': row '%s': distrust is empty, expected why", at->file,
                       m->id);
    m->distrust = why ? arena_strdup(a, why) : NULL;
    m->model = setup_path(at->file, m->model, a);
    m->cluster = setup_path(at->file, m->cluster, a);
    m->band = NAN;
    return 0;
}
