/* ballast validate: predictions beside measurements, of collectives (nccl-tests tables) and of training steps. */
#include "cli/coll_tables.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "cli/score.h"
#include "cli/step_page.h"
#include "cli/step_predict.h"
#include "model/cluster/bundled.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static const struct opt rows[] = {
    {.name = "cluster",
     .letter = 'c',
     .type = OPT_STRING,
     .meta = "CLUSTER",
     .help = "of tables whose cluster is not bundled",
     .dflt_note = "made from the table's own system"},
    {.name = "rows",
     .type = OPT_FLAG,
     .help = "also every size of the tables of collectives, in csv instead of steps; in md steps "
             "as a page, with options and sources"},
    {.name = "plot",
     .type = OPT_STRING,
     .meta = "PREFIX",
     .help = "errors over sizes, steps predicted over measured: PREFIX.svg and PREFIX.png"},
    COMMAND_OUTPUT_ROWS,
};

struct validation {
    struct step_rows steps;    /* owned */
    struct coll_table *tables; /* in arena, pointers into it */
    size_t n_tables;
};

/* ---- reading ---- */

static int read_tables(const struct json_at *top, const char *fallback, struct arena *a,
                       struct validation *v, struct err *e)
{
    struct coll_table *more, *all;
    size_t n;

    if (coll_tables_read(top, fallback, false, a, &more, &n, e))
        return -1;
    for (size_t i = 0; i < n; i++)
        if (coll_table_predict(&more[i], e))
            return err_prefix(e, "'%s'", top->file);
    all = ARENA_NEW(a, struct coll_table, v->n_tables + n);
    if (v->n_tables)
        memcpy(all, v->tables, v->n_tables * sizeof(*all));
    memcpy(all + v->n_tables, more, n * sizeof(*all));
    v->tables = all;
    v->n_tables += n;
    return coll_tables_distinct(v->tables, v->n_tables, e);
}

static int read_document(const struct json *j, const char *fallback, struct arena *a,
                         struct validation *v, struct err *e)
{
    struct json_at top = json_top(j);
    size_t before = v->n_tables + v->steps.n;

    if (coll_tables_here(&top) ? read_tables(&top, fallback, a, v, e)
                               : step_rows_read(&top, a, &v->steps, e))
        return -1;
    if (v->n_tables + v->steps.n == before)
        return json_err(&top, ERR_INVALID, e, "has no measurements");
    return 0;
}

static int read_file(const char *path, const char *fallback, struct arena *a, struct validation *v,
                     struct err *e)
{
    struct json j;
    int status;

    if (coll_file_load(&j, path, NULL, e))
        return -1;
    status = read_document(&j, fallback, a, v, e);
    json_release(&j);
    return status;
}

/* What the program carries: published measurements. */
static int read_bundled(const char *fallback, struct arena *a, struct validation *v, struct err *e)
{
    for (size_t i = 0; i < bundled_measurements_n; i++) {
        const struct bundled_file *b = &bundled_measurements[i];
        struct json j;
        int status;

        if (json_parse(&j, b->name, (const char *)b->text, b->len, e))
            return -1;
        status = read_document(&j, fallback, a, v, e);
        json_release(&j);
        if (status)
            return -1;
    }
    return 0;
}

/* ---- printing ---- */

static const struct table_col step_cols[] = {
    {"id", "row", TABLE_TEXT, 0, TABLE_AUTO},
    {"model", "model", TABLE_TEXT, 0, TABLE_AUTO},
    {"layout", "layout", TABLE_TEXT, 0, TABLE_AUTO},
    {"metric", "metric", TABLE_TEXT, 0, TABLE_AUTO},
    {"measured", "measured", TABLE_FIXED, 2, TABLE_AUTO},
    {"predicted", "predicted", TABLE_FIXED, 2, TABLE_AUTO},
    {"error_percent", "error %", TABLE_FIXED, 1, TABLE_AUTO},
    {"band_percent", "+-%", TABLE_FIXED, 0, TABLE_AUTO},
    {"skipped", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"set", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"cluster", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"gpus", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"optimizer", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"options", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"error_basis", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"distrust", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"source", NULL, TABLE_TEXT, 0, TABLE_AUTO},
};

static const struct table_col size_cols[] = {
    {"id", "table", TABLE_TEXT, 0, TABLE_AUTO},
    {"bytes", "bytes", TABLE_INT, 0, TABLE_AUTO},
    {"measured", "measured us", TABLE_FIXED, 1, TABLE_AUTO},
    {"predicted", "predicted us", TABLE_FIXED, 1, TABLE_AUTO},
    {"error_percent", "error %", TABLE_FIXED, 1, TABLE_AUTO},
    {"algorithm", "algorithm", TABLE_TEXT, 0, TABLE_AUTO},
    {"protocol", "protocol", TABLE_TEXT, 0, TABLE_AUTO},
    {"distrust", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"collective", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"cluster", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"nodes", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"ranks", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"algorithm_forced", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"measured_busbw_GBps", NULL, TABLE_FIXED, 2, TABLE_AUTO},
    {"predicted_busbw_GBps", NULL, TABLE_FIXED, 2, TABLE_AUTO},
    {"band_percent", NULL, TABLE_FIXED, 0, TABLE_AUTO},
};

static void fill_step(struct table *t, const struct step_set *set, const struct step_row *m)
{
    struct strbuf options;

    strbuf_init(&options);
    for (size_t i = 0; i < m->n_options; i++)
        strbuf_printf(&options, "%s%s", i ? " " : "", m->options[i]);
    table_row(t);
    table_set_str(t, "id", m->id);
    table_set_str(t, "model", m->model);
    table_set_str(t, "layout", m->layout);
    table_set_str(t, "metric", metric(m->metric)->col.key);
    table_set_double(t, "measured", m->value);
    if (!m->skipped) {
        table_set_double(t, "predicted", m->predicted);
        table_set_double(t, "error_percent", 100 * (m->predicted / m->value - 1));
        table_set_u64(t, "gpus", m->world);
    }
    table_set_double(t, "band_percent", m->band);
    table_set_str(t, "error_basis", m->basis);
    table_set_str(t, "skipped", m->skipped);
    table_set_str(t, "distrust", m->distrust);
    table_set_str(t, "set", set->name);
    table_set_str(t, "cluster", m->cluster);
    table_set_str(t, "optimizer", m->optimizer);
    table_set_str(t, "options", options.s);
    strbuf_release(&options);
    table_set_str(t, "source", m->source);
}

/* Half width of the 90 % band of a row's time, in percent. */
static double row_band(const struct coll_table *c, const struct coll_row *r)
{
    uint32_t nodes = cluster_by_domain(&c->cluster).n_nodes;
    enum band_basis basis;

    return 100 * nccl_band(&c->cluster, c->call.kind, r->n_bytes, c->call.n_ranks, nodes,
                           r->nccl.algo, &basis);
}

static void fill_sizes(struct table *t, const struct coll_table *c)
{
    double factor = call_bus_factor(c->call.kind, c->call.n_ranks);

    for (size_t i = 0; i < c->n_rows && !c->skipped; i++) {
        const struct coll_row *r = &c->rows[i];
        double moved_GB = factor * (double)r->n_bytes / 1e9; /* what busbw counts */

        table_row(t);
        table_set_str(t, "id", c->id);
        table_set_u64(t, "bytes", r->n_bytes);
        table_set_double(t, "measured", r->time_us);
        table_set_double(t, "predicted", r->predicted_us);
        table_set_double(t, "error_percent", 100 * (r->predicted_us / r->time_us - 1));
        table_set_str(t, "algorithm", nccl_algo_name(r->nccl.algo));
        table_set_str(t, "protocol", nccl_protocol_shown(&r->nccl));
        table_set_str(t, "distrust", r->distrust);
        table_set_str(t, "collective", coll_kind_nccl_name(c->call.kind));
        table_set_str(t, "cluster", c->cluster.name);
        table_set_u64(t, "nodes", c->cluster.n_nodes);
        table_set_u64(t, "ranks", c->call.n_ranks);
        table_set_str(t, "algorithm_forced", c->forced);
        table_set_double(t, "measured_busbw_GBps", moved_GB / (r->time_us / 1e6));
        table_set_double(t, "predicted_busbw_GBps", moved_GB / (r->predicted_us / 1e6));
        table_set_double(t, "band_percent", row_band(c, r));
    }
}

static struct score score_table(const struct coll_table *c)
{
    struct score s = {.skipped = c->skipped != NULL};

    for (size_t i = 0; i < c->n_rows && !c->skipped; i++) {
        const struct coll_row *r = &c->rows[i];

        if (r->distrust) {
            s.distrusted++;
            continue;
        }
        score_add(&s, c->id, r->n_bytes, r->time_us, r->predicted_us);
        score_band(&s, r->n_bytes, r->time_us, r->predicted_us, row_band(c, r));
    }
    return s;
}

static struct score score_steps(const struct validation *v, enum metric_id metric)
{
    struct score s = {0};

    for (size_t i = 0; i < v->steps.n; i++) {
        const struct step_row *r = &v->steps.rows[i];

        if (r->metric != metric)
            continue;
        s.skipped += r->skipped != NULL;
        s.distrusted += !r->skipped && r->distrust;
        if (r->skipped || r->distrust)
            continue;
        score_add(&s, r->id, 0, r->value, r->predicted);
        if (isfinite(r->band))
            score_band(&s, 0, r->value, r->predicted, r->band);
    }
    return s;
}

/* A row a table of collectives, a row a metric of steps, and the sum of all. */
static void fill_scores(const struct validation *v, struct table *sums)
{
    struct score all = {0};

    for (size_t i = 0; i < v->n_tables; i++) {
        struct score s = score_table(&v->tables[i]);

        score_row(sums, v->tables[i].id, &s, true);
        score_merge(&all, &s);
    }
    for (int k = 0; k < STEP_METRIC_N; k++) {
        struct score s = score_steps(v, step_metrics[k]);

        if (s.n[SCORE_ALL] + s.skipped + s.distrusted)
            score_row(sums, metric(step_metrics[k])->col.key, &s, false);
        score_merge(&all, &s);
    }
    score_row(sums, "overall", &all, v->n_tables > 0);
}

static void print_json(const struct validation *v, const struct table *steps,
                       const struct table *sizes, const struct table *sums, int argc, char **argv,
                       struct strbuf *out)
{
    cJSON *doc = output_document("ballast-validation", 1, argc, argv), *tables, *row;

    json_add_tree(doc, "overall", table_row_to_json(sums, sums->n_rows - 1));
    tables = json_add_array(doc, "tables");
    for (size_t i = 0; i + 1 < sums->n_rows; i++) {
        row = table_row_to_json(sums, i);
        if (i < v->n_tables && !v->tables[i].skipped)
            json_add_str(row, "cluster", v->tables[i].cluster.name);
        json_add_tree(tables, NULL, row);
    }
    json_add_tree(doc, "rows", table_to_json(steps));
    json_add_tree(doc, "sizes", table_to_json(sizes));
    json_print(doc, true, out);
    strbuf_puts(out, "\n");
    json_free(doc);
}

static void print_skipped(const struct validation *v, struct strbuf *out)
{
    for (size_t i = 0; i < v->steps.n; i++)
        if (v->steps.rows[i].skipped)
            strbuf_printf(out, "skipped %s: %s\n", v->steps.rows[i].id, v->steps.rows[i].skipped);
    for (size_t i = 0; i < v->n_tables; i++) {
        const struct coll_table *t = &v->tables[i];
        bool other = !t->skipped && strcasecmp(t->cluster_name, t->cluster.name) != 0;

        if (t->skipped)
            strbuf_printf(out, "skipped %s: %s\n", t->id, t->skipped);
        else if (other && !t->cluster_name[0])
            strbuf_printf(out, "%s names no cluster: predicted for %s, of its GPUs (%s)", t->id,
                          t->cluster.name, t->system);
        else if (other)
            strbuf_printf(out, "%s is of %s: predicted for %s", t->id, t->cluster_name,
                          t->cluster.name);
        if (other)
            strbuf_printf(out, "%s%s\n", t->assumed ? "; " : "", t->assumed ? t->assumed : "");
        for (size_t k = 0; k < t->n_rows; k++)
            if (t->rows[k].contradicts)
                strbuf_printf(out, "set apart %s, %llu bytes: %s\n", t->id,
                              (unsigned long long)t->rows[k].n_bytes, t->rows[k].distrust);
    }
}

static void print(const struct validation *v, enum table_format f, bool with_rows, int argc,
                  char **argv, struct strbuf *out)
{
    struct table steps, sizes, sums;

    table_init(&steps, step_cols, sizeof(step_cols) / sizeof(step_cols[0]));
    table_init(&sizes, size_cols, sizeof(size_cols) / sizeof(size_cols[0]));
    table_init(&sums, score_cols, score_n_cols);
    for (size_t i = 0; i < v->steps.n_sets; i++)
        for (size_t k = 0; k < v->steps.sets[i].n; k++)
            fill_step(&steps, &v->steps.sets[i], &v->steps.rows[v->steps.sets[i].first + k]);
    for (size_t i = 0; i < v->n_tables; i++)
        fill_sizes(&sizes, &v->tables[i]);
    fill_scores(v, &sums);
    if (f == TABLE_AS_JSON) {
        print_json(v, &steps, &sizes, &sums, argc, argv, out);
    } else if (f == TABLE_AS_CSV) { /* one table: steps, or with --rows the sizes of collectives */
        table_print(with_rows || !v->steps.n ? &sizes : &steps, f, out);
    } else {
        if (v->steps.n) {
            if (with_rows && f == TABLE_AS_MD)
                step_page(&v->steps, out);
            else
                table_print(&steps, f, out);
            strbuf_puts(out, "\n");
        }
        if (with_rows && v->n_tables) {
            table_print(&sizes, f, out);
            strbuf_puts(out, "\n");
        }
        table_print(&sums, f, out);
        print_skipped(v, out);
    }
    table_release(&steps);
    table_release(&sizes);
    table_release(&sums);
}

static int plot(const char *prefix, const struct validation *v, struct arena *a, struct err *e)
{
    struct plot_validation p = {0};
    struct plot_pair *tables, *steps = ARENA_NEW(a, struct plot_pair, v->steps.n);
    size_t n = 0;

    for (size_t i = 0; i < v->n_tables; i++)
        n += v->tables[i].n_rows;
    tables = ARENA_NEW(a, struct plot_pair, n);
    for (size_t i = 0; i < v->n_tables; i++)
        for (size_t k = 0; k < v->tables[i].n_rows && !v->tables[i].skipped; k++) {
            const struct coll_row *r = &v->tables[i].rows[k];

            if (!r->distrust)
                tables[p.n_tables++] = (struct plot_pair){(double)r->n_bytes,
                                                          100 * (r->predicted_us / r->time_us - 1)};
        }
    for (size_t i = 0; i < v->steps.n; i++)
        if (!v->steps.rows[i].skipped && !v->steps.rows[i].distrust)
            steps[p.n_steps++] =
                (struct plot_pair){v->steps.rows[i].value, v->steps.rows[i].predicted};
    p.tables = tables;
    p.steps = steps;
    if (!p.n_tables && !p.n_steps)
        return err_set(e, ERR_INVALID, "--plot: nothing is predicted, so there is nothing to draw");
    return plot_validate(prefix, &p, e);
}

static int validate(const struct opts *o, struct arena *a, int argc, char **argv,
                    struct strbuf *out, struct err *e)
{
    struct validation v = {0};
    int status = opts_positionals(o, 0, 1000, "measurement files", e);

    if (!status && !o->n_pos)
        status = read_bundled(opts_get(o, "cluster")->text, a, &v, e);
    for (size_t i = 0; i < o->n_pos && !status; i++)
        status = read_file(o->pos[i], opts_get(o, "cluster")->text, a, &v, e);
    if (!status && opts_get(o, "cluster")->set && !v.n_tables)
        status = err_set(e, ERR_USAGE,
                         "--cluster has no effect: rows of steps name their clusters, and there is "
                         "no table of collectives here");
    if (!status)
        print(&v, (enum table_format)opts_get(o, "format")->u64, opts_get(o, "rows")->u64, argc,
              argv, out);
    if (!status && opts_get(o, "plot")->set)
        status = plot(opts_get(o, "plot")->text, &v, a, e);
    step_rows_release(&v.steps);
    return status;
}

int cmd_validate(int argc, char **argv, struct err *e)
{
    static const struct plain_command command = {
        .usage =
            "usage: ballast validate [FILE...] [options]\n\n"
            "Predicts what the files measured and prints the errors: tables of collectives, as "
            "nccl-tests prints\nthem (a JSON array), and training steps (format ballast-steps). "
            "Without a file: the published\nmeasurements that the program carries.\n"
            "What this version cannot predict is skipped, named and counted.\n\n",
        .rows = rows,
        .n_rows = sizeof(rows) / sizeof(rows[0]),
        .run = validate,
    };

    return command_plain(&command, argc, argv, e);
}
