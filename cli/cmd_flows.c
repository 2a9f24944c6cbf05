/* ballast flows: finish times of plain flows over links that they share max-min fairly (sim/flows.h).
 *
 * Where the file has finish times, they are expectations: both are printed, and a difference beyond a relative 1e-9 and
 * the grid of picoseconds is status 1. */
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "sim/flows.h"

#include <math.h>

/* The grid: starts are rounded to it by half a ps, each end of a flow by up to one, and what is lost goes on to those who
 * share with it. */
static const double SAME_REL = 1e-9, GRID_S = 1.5e-12;

static const struct opt rows[] = {
    COMMAND_OUTPUT_ROWS,
};

static const struct table_col flow_cols[] = {
    {"scenario", "scenario", TABLE_TEXT, 0, TABLE_AUTO},
    {"flow", "flow", TABLE_INT, 0, TABLE_AUTO},
    {"path", "path", TABLE_TEXT, 0, TABLE_AUTO},
    {"bytes", "bytes", TABLE_COUNT, 0, TABLE_AUTO},
    {"start_s", "start s", TABLE_FIXED, 12, TABLE_AUTO},
    {"finish_s", "finish s", TABLE_FIXED, 12, TABLE_AUTO},
    {"expected_s", "expected s", TABLE_FIXED, 12, TABLE_AUTO},
    {"difference", "difference", TABLE_FIXED, 12, TABLE_AUTO},
};

static const struct table_col sum_cols[] = {
    {"scenario", "scenario", TABLE_TEXT, 0, TABLE_AUTO},
    {"links", "links", TABLE_COUNT, 0, TABLE_AUTO},
    {"flows", "flows", TABLE_COUNT, 0, TABLE_AUTO},
    {"last_finish_s", "last finish s", TABLE_FIXED, 12, TABLE_AUTO},
    {"expected", "expected", TABLE_COUNT, 0, TABLE_AUTO},
    {"differ", "differ", TABLE_COUNT, 0, TABLE_AUTO},
    {"max_difference", "max difference", TABLE_FIXED, 12, TABLE_AUTO},
};

/* What became of one scenario. */
struct finished {
    const struct flows_scenario *s;
    int64_t *end_ps;           /* [n_flows] in arena */
    int64_t last_ps;           /* 0 without flows */
    uint32_t expected, differ; /* flows */
    double worst;              /* relative; 0 when nothing is expected */
};

static double seconds(int64_t ps)
{
    return (double)ps / 1e12;
}

/* |finish / expected - 1|, NAN when nothing is expected. */
static double difference(const struct flows_flow *f, int64_t end_ps)
{
    return f->finish_s > 0 ? fabs(seconds(end_ps) / f->finish_s - 1) : NAN;
}

static int finish(const struct flows_scenario *s, struct arena *a, struct finished *out,
                  struct err *e)
{
    double d;

    *out = (struct finished){.s = s, .end_ps = ARENA_NEW(a, int64_t, s->n_flows)};
    if (flows_run(s, out->end_ps, e))
        return -1;
    for (uint32_t i = 0; i < s->n_flows; i++) {
        if (out->end_ps[i] > out->last_ps)
            out->last_ps = out->end_ps[i];
        d = difference(&s->flows[i], out->end_ps[i]);
        if (isnan(d))
            continue;
        out->expected++;
        out->worst = fmax(out->worst, d);
        if (d * s->flows[i].finish_s > SAME_REL * s->flows[i].finish_s + GRID_S)
            out->differ++;
    }
    return 0;
}

/* ---- printing ---- */

static const char *path_text(const struct flows_scenario *s, const struct flows_flow *f,
                             struct arena *a)
{
    struct strbuf b;
    const char *text;

    strbuf_init(&b);
    for (uint32_t i = 0; i < f->n_path; i++)
        strbuf_printf(&b, "%s%s", i ? " " : "", s->links[f->path[i]].name);
    text = arena_strdup(a, b.s);
    strbuf_release(&b);
    return text;
}

static void add_flows(struct table *t, const struct finished *f, struct arena *a)
{
    for (uint32_t i = 0; i < f->s->n_flows; i++) {
        const struct flows_flow *flow = &f->s->flows[i];

        table_row(t);
        table_set_str(t, "scenario", f->s->id);
        table_set_u64(t, "flow", i);
        table_set_str(t, "path", path_text(f->s, flow, a));
        table_set_u64(t, "bytes", flow->n_bytes);
        table_set_double(t, "start_s", seconds(flow->start_ps));
        table_set_double(t, "finish_s", seconds(f->end_ps[i]));
        table_set_double(t, "expected_s", flow->finish_s);
        table_set_double(t, "difference", difference(flow, f->end_ps[i]));
    }
}

static void add_sum(struct table *t, const struct finished *f)
{
    table_row(t);
    table_set_str(t, "scenario", f->s->id);
    table_set_u64(t, "links", f->s->n_links);
    table_set_u64(t, "flows", f->s->n_flows);
    if (f->s->n_flows)
        table_set_double(t, "last_finish_s", seconds(f->last_ps));
    table_set_u64(t, "expected", f->expected);
    table_set_u64(t, "differ", f->differ);
    if (f->expected)
        table_set_double(t, "max_difference", f->worst);
}

static void as_text(const struct finished *list, uint32_t n, enum table_format format,
                    struct arena *a, struct strbuf *out)
{
    uint64_t expected = 0, differ = 0;
    struct table t;

    table_init(&t, flow_cols, sizeof(flow_cols) / sizeof(flow_cols[0]));
    for (uint32_t i = 0; i < n; i++)
        add_flows(&t, &list[i], a);
    table_print(&t, format, out);
    table_release(&t);
    if (format == TABLE_AS_CSV)
        return;
    strbuf_putc(out, '\n');
    table_init(&t, sum_cols, sizeof(sum_cols) / sizeof(sum_cols[0]));
    for (uint32_t i = 0; i < n; i++) {
        add_sum(&t, &list[i]);
        expected += list[i].expected;
        differ += list[i].differ;
    }
    table_print(&t, format, out);
    table_release(&t);
    if (expected)
        strbuf_printf(out, "\n%llu of %llu finish times differ from what the file expects\n",
                      (unsigned long long)differ, (unsigned long long)expected);
}

/* The scenarios with what was computed in place of what was expected: it reads back as an input. */
static void as_json(const struct flows_file *file, const struct finished *list, int argc,
                    char **argv, struct strbuf *out)
{
    cJSON *doc = output_document("ballast-flows", 1, argc, argv);
    struct table t;

    table_init(&t, sum_cols, sizeof(sum_cols) / sizeof(sum_cols[0]));
    for (uint32_t i = 0; i < file->n_scenarios; i++) {
        add_sum(&t, &list[i]);
        for (uint32_t k = 0; k < list[i].s->n_flows; k++)
            file->scenarios[i].flows[k].finish_s = seconds(list[i].end_ps[k]);
    }
    flows_add_json(file, doc);
    json_add_tree(doc, "check", table_to_json(&t));
    table_release(&t);
    json_print(doc, true, out);
    strbuf_putc(out, '\n');
    json_free(doc);
}

static int run(const struct opts *o, struct arena *a, int argc, char **argv, struct strbuf *out,
               struct err *e)
{
    enum table_format format = (enum table_format)opts_get(o, "format")->u64;
    struct flows_file file;
    struct finished *list;
    bool differ = false;

    if (opts_positionals(o, 1, 1, "FILE of flows", e) || flows_read_json(o->pos[0], a, &file, e))
        return -1;
    list = ARENA_NEW(a, struct finished, file.n_scenarios);
    for (uint32_t i = 0; i < file.n_scenarios; i++) {
        if (finish(&file.scenarios[i], a, &list[i], e))
            return err_prefix(e, "'%s'", o->pos[0]);
        differ |= list[i].differ > 0;
    }
    if (format == TABLE_AS_JSON)
        as_json(&file, list, argc, argv, out);
    else
        as_text(list, file.n_scenarios, format, a, out);
    return differ;
}

int cmd_flows(int argc, char **argv, struct err *e)
{
    static const struct plain_command command = {
        .usage =
            "usage: ballast flows FILE [options]\n\n"
            "When flows finish that share links max-min fairly. FILE is JSON:\n\n"
            "    {\"scenarios\": [{\"id\": \"pair\", \"links_Bps\": {\"core\": 1e10, \"a\": "
            "2.5e10},\n"
            "        \"flows\": [{\"path\": [\"a\", \"core\"], \"bytes\": 4096, \"start_s\": "
            "0}]}]}\n\n"
            "Flows share a link in proportion to their \"weight\", 1 when absent.\n"
            "A finish_s in the file is an expectation: a relative difference above 1e-9, the grid "
            "of\n"
            "picoseconds aside, is status 1. --format json prints the scenarios with finish_s of "
            "each flow.\n\n",
        .rows = rows,
        .n_rows = sizeof(rows) / sizeof(rows[0]),
        .run = run,
    };

    return command_plain(&command, argc, argv, e);
}
