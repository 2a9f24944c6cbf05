/* ballast validate: predictions beside measurements of training steps, with error statistics.
 *
 * A file is {"format": "ballast-steps", "rows": [...]}; a row has id, model, cluster, nodes or gpus, layout, optimizer, a
 * job object with the job options, a metric of the rows that sim prints, its measured value, and the source; `serial` when
 * operations ran one after the other, as under ballast exec. Paths are relative to the file's folder. */
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/evaluate.h"
#include "cli/output.h"
#include "planner/planner.h"

#include <math.h>
#include <string.h>

static const struct opt rows[] = {
    COMMAND_OUTPUT_ROWS,
};

static const char *const metrics[] = {
    "step_ms", "optimizer_ms", "memory_gib", "memory_alloc_gib", "tokens_per_s_per_gpu", "mfu",
    NULL};
enum metric { STEP_MS, OPTIMIZER_MS, MEMORY_GIB, MEMORY_ALLOC_GIB, TOKENS, MFU };

struct measurement {
    const char *id, *model, *cluster, *layout, *source;
    uint64_t nodes, gpus;
    bool serial;
    enum metric metric;
    double value, predicted;
    const char *skipped; /* why, or NULL */
};

struct statistics {
    uint64_t n, skipped;
    double sum_abs, sum, worst;
    const char *worst_id;
};

static void count(struct statistics *s, const struct measurement *m)
{
    double error = 100 * (m->predicted / m->value - 1);

    if (m->skipped) {
        s->skipped++;
        return;
    }
    s->n++;
    s->sum += error;
    s->sum_abs += fabs(error);
    if (fabs(error) >= s->worst) {
        s->worst = fabs(error);
        s->worst_id = m->id;
    }
}

static double value_of(const struct evaluation *x, enum metric m)
{
    switch (m) {
    case STEP_MS:
        return (double)x->p.step_ps / 1e9;
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
    }
    return NAN;
}

static int predict(struct measurement *m, const struct opts *o, struct setup *s, struct err *e)
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
static int run_row(const struct json_at *at, struct measurement *m, const char *optimizer,
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

static int read_row(const struct json_at *at, struct measurement *m, struct arena *a, struct err *e)
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
        json_str(at, "optimizer", &optimizer, e) || json_enum(at, "metric", metrics, &metric, e) ||
        json_double(at, "value", JSON_ABOVE_0, INFINITY, &m->value, e))
        return -1;
    m->metric = (enum metric)metric;
    m->model = setup_path(at->file, m->model, a);
    m->cluster = setup_path(at->file, m->cluster, a);
    return run_row(at, m, optimizer, a, e);
}

static int read_file(const char *path, struct arena *a, struct measurement **list, size_t *n,
                     size_t *cap, struct err *e)
{
    static const char *const keys[] = {"format", "format_version", "what", "rows"};
    static const char *const formats[] = {"ballast-steps", NULL};
    struct json_at top, array, it;
    struct json j;
    int format, status = -1;
    bool more;

    if (json_load(&j, path, e))
        return -1;
    top = json_top(&j);
    if (json_is_object(&top, e) || json_only_keys(&top, keys, 4, e) ||
        json_enum(&top, "format", formats, &format, e) || json_array(&top, "rows", &array, NULL, e))
        goto out;
    for (more = json_first(&array, &it); more; more = json_next(&it)) {
        *list = mem_grow(*list, cap, *n + 1, sizeof(**list));
        memset(&(*list)[*n], 0, sizeof(**list));
        if (read_row(&it, &(*list)[*n], a, e)) {
            err_prefix(e, "'%s'", path);
            goto out;
        }
        (*n)++;
    }
    status = 0;
out:
    json_release(&j);
    return status;
}

/* ---- printing ---- */

static const struct table_col row_cols[] = {
    {"id", "row", TABLE_TEXT, 0, TABLE_AUTO},
    {"model", "model", TABLE_TEXT, 0, TABLE_AUTO},
    {"layout", "layout", TABLE_TEXT, 0, TABLE_AUTO},
    {"metric", "metric", TABLE_TEXT, 0, TABLE_AUTO},
    {"measured", "measured", TABLE_FIXED, 2, TABLE_AUTO},
    {"predicted", "predicted", TABLE_FIXED, 2, TABLE_AUTO},
    {"error_percent", "error %", TABLE_FIXED, 1, TABLE_AUTO},
    {"skipped", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"source", NULL, TABLE_TEXT, 0, TABLE_AUTO},
};

static const struct table_col sum_cols[] = {
    {"id", "of", TABLE_TEXT, 0, TABLE_AUTO},
    {"rows", "rows", TABLE_INT, 0, TABLE_AUTO},
    {"skipped", "skipped", TABLE_INT, 0, TABLE_AUTO},
    {"mape_percent", "mean |error| %", TABLE_FIXED, 1, TABLE_AUTO},
    {"max_percent", "max %", TABLE_FIXED, 1, TABLE_AUTO},
    {"bias_percent", "bias %", TABLE_FIXED, 1, TABLE_AUTO},
    {"worst", "worst row", TABLE_TEXT, 0, TABLE_AUTO},
};

static void fill_row(struct table *t, const struct measurement *m)
{
    table_row(t);
    table_set_str(t, "id", m->id);
    table_set_str(t, "model", m->model);
    table_set_str(t, "layout", m->layout);
    table_set_str(t, "metric", metrics[m->metric]);
    table_set_double(t, "measured", m->value);
    if (!m->skipped) {
        table_set_double(t, "predicted", m->predicted);
        table_set_double(t, "error_percent", 100 * (m->predicted / m->value - 1));
    }
    table_set_str(t, "skipped", m->skipped);
    table_set_str(t, "source", m->source);
}

static void fill_sum(struct table *t, const char *id, const struct statistics *s)
{
    table_row(t);
    table_set_str(t, "id", id);
    table_set_u64(t, "rows", s->n);
    table_set_u64(t, "skipped", s->skipped);
    if (!s->n)
        return;
    table_set_double(t, "mape_percent", s->sum_abs / (double)s->n);
    table_set_double(t, "max_percent", s->worst);
    table_set_double(t, "bias_percent", s->sum / (double)s->n);
    table_set_str(t, "worst", s->worst_id);
}

static void print(const struct measurement *list, size_t n, enum table_format f, int argc,
                  char **argv, struct strbuf *out)
{
    struct statistics all = {0};
    struct table t, sums;

    table_init(&t, row_cols, sizeof(row_cols) / sizeof(row_cols[0]));
    table_init(&sums, sum_cols, sizeof(sum_cols) / sizeof(sum_cols[0]));
    for (size_t i = 0; i < n; i++) {
        fill_row(&t, &list[i]);
        count(&all, &list[i]);
    }
    for (int k = 0; metrics[k]; k++) {
        struct statistics s = {0};

        for (size_t i = 0; i < n; i++)
            if (list[i].metric == (enum metric)k)
                count(&s, &list[i]);
        if (s.n + s.skipped)
            fill_sum(&sums, metrics[k], &s);
    }
    fill_sum(&sums, "overall", &all);
    if (f == TABLE_AS_JSON) {
        cJSON *doc = output_document("ballast-validation", 1, argc, argv);

        json_add_tree(doc, "overall", table_row_to_json(&sums, sums.n_rows - 1));
        json_add_tree(doc, "tables", table_to_json(&sums));
        json_add_tree(doc, "rows", table_to_json(&t));
        json_print(doc, true, out);
        strbuf_puts(out, "\n");
        json_free(doc);
    } else {
        table_print(&t, f, out);
        if (f != TABLE_AS_CSV) {
            strbuf_puts(out, "\n");
            table_print(&sums, f, out);
            for (size_t i = 0; i < n; i++)
                if (list[i].skipped)
                    strbuf_printf(out, "skipped %s: %s\n", list[i].id, list[i].skipped);
        }
    }
    table_release(&t);
    table_release(&sums);
}

static int validate(const struct opts *o, struct arena *a, int argc, char **argv,
                    struct strbuf *out, struct err *e)
{
    struct measurement *list = NULL;
    size_t n = 0, cap = 0;
    int status = opts_positionals(o, 1, 1000, "measurement files", e);

    for (size_t i = 0; i < o->n_pos && !status; i++)
        status = read_file(o->pos[i], a, &list, &n, &cap, e);
    if (!status)
        print(list, n, (enum table_format)opts_get(o, "format")->u64, argc, argv, out);
    mem_free(list);
    return status;
}

int cmd_validate(int argc, char **argv, struct err *e)
{
    static const struct plain_command command = {
        .usage = "usage: ballast validate FILE... [options]\n\n"
                 "Predicts the training steps that the files measured (format ballast-steps) and "
                 "prints the errors.\n"
                 "Rows that this version cannot predict are skipped, named and counted. Tables of "
                 "collectives follow.\n\n",
        .rows = rows,
        .n_rows = sizeof(rows) / sizeof(rows[0]),
        .run = validate,
    };

    return command_plain(&command, argc, argv, e);
}
