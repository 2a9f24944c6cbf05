/* ballast topo: what a cluster is - a picture, the rates that follow, what is suspicious, every constant's source. */
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/topo.h"
#include "core/opts.h"
#include "core/table.h"
#include "core/units.h"
#include "model/cluster/bundled.h"

#include <string.h>

#define N_COLS(cols) (sizeof(cols) / sizeof(cols[0]))

static const struct opt rows[] = {
    {.name = "list", .type = OPT_FLAG, .help = "list the bundled clusters"},
    {.name = "nodes",
     .type = OPT_COUNT,
     .meta = "N",
     .min = 1,
     .max = CLUSTER_MAX_NODES,
     .dflt = "1",
     .help = "nodes of the cluster"},
    {.name = "constants", .type = OPT_FLAG, .help = "also every number with its source"},
    {.name = "export",
     .type = OPT_FLAG,
     .help = "the description alone, as a file that --cluster reads: a start for your own"},
    {.name = "route",
     .type = OPT_COUNTS,
     .meta = "FROM,TO",
     .max = CLUSTER_MAX_RANKS - 1,
     .help = "only the links from one rank to another, as NCCL takes them"},
    {.name = "calibrate",
     .type = OPT_LIST,
     .meta = "FILE,...",
     .help = "fit the constants of collectives to your tables of nccl-tests (docs/CLI.md); with "
             "--export the fitted description"},
    {.name = "leave-one-out",
     .type = OPT_FLAG,
     .help = "with --calibrate: also score each table by a fit to the others"},
    {.name = "check", .type = OPT_FLAG, .help = "exit with status 1 when there is a warning"},
    COMMAND_OUTPUT_ROWS,
};

/* ---- tables ---- */

static const struct table_col list_cols[] = {
    {.key = "name", .head = "name", .kind = TABLE_TEXT},
    {.key = "gpus_per_node", .head = "GPUs", .kind = TABLE_INT},
    {.key = "device", .head = "device", .kind = TABLE_TEXT},
    {.key = "memory_gib", .head = "GiB", .kind = TABLE_GIB, .decimals = 2},
    {.key = "nvlink_GBps", .head = "NVLink GB/s", .kind = TABLE_FIXED, .decimals = 0},
    {.key = "nics_per_node", .head = "NICs", .kind = TABLE_INT},
    {.key = "nic_GBps", .head = "NIC GB/s", .kind = TABLE_FIXED, .decimals = 1},
    {.key = "summary", .head = NULL, .kind = TABLE_TEXT},
};
static const struct table_col figure_cols[] = {
    {.key = "figure", .head = "figure", .kind = TABLE_TEXT},
    {.key = "value", .head = "value", .kind = TABLE_FIXED, .decimals = 1},
    {.key = "unit", .head = "unit", .kind = TABLE_TEXT},
    {.key = "meaning", .head = "meaning", .kind = TABLE_TEXT},
};
static const struct table_col constant_cols[] = {
    {.key = "key", .head = "key", .kind = TABLE_TEXT},
    {.key = "value", .head = "value", .kind = TABLE_TEXT},
    {.key = "source", .head = "source", .kind = TABLE_TEXT},
};

static void figure(struct table *t, const char *name, double value, const char *unit,
                   const char *meaning)
{
    table_row(t);
    table_set_str(t, "figure", name);
    table_set_double(t, "value", value);
    table_set_str(t, "unit", unit);
    table_set_str(t, "meaning", meaning);
}

static void figures(const struct cluster *c, struct table *t)
{
    const struct device *d = &c->device;
    struct topo_rates r = topo_rates(c);
    double gpus = (double)c->n_nodes * c->gpus_per_node;

    table_init(t, figure_cols, N_COLS(figure_cols));
    figure(t, "gpus", gpus, "", "nodes x GPUs a node");
    figure(t, "memory", (double)d->memory_bytes / 0x1p30, "GiB", "of a GPU, as its driver reports");
    figure(t, "memory_all", gpus * (double)d->memory_bytes / 0x1p40, "TiB", "of all GPUs");
    figure(t, "peak", d->peak_flops / 1e12, "TFLOP/s", "of a GPU, bf16 dense");
    figure(t, "peak_all", gpus * d->peak_flops / 1e15, "PFLOP/s", "of all GPUs");
    figure(t, "hbm", d->hbm_Bps / 1e9, "GB/s", "memory of a GPU");
    if (r.nvlink_Bps > 0) {
        figure(t, "nvlink", r.nvlink_Bps / 1e9, "GB/s", "a GPU to its NVLink domain, reached");
        figure(t, "nvlink_domain", cluster_nvlink_gpus(c), "", "GPUs that NVLink connects");
    }
    if (cluster_is_split(c)) {
        figure(t, "pcie", r.pcie_Bps / 1e9, "GB/s", "a GPU to those without NVLink to it, reached");
        if (c->n_cpus)
            figure(t, "cpu_link", c->cpu_Bps / 1e9, "GB/s", "a CPU to another, all its GPUs");
    }
    if (c->nics_per_node) {
        figure(t, "nic", r.nic_Bps / 1e9, "GB/s", "a GPU's share of its NIC, reached");
        figure(t, "node", r.node_Bps / 1e9, "GB/s", "a node into the fabric, reached");
        figure(t, "bisection", r.bisection_Bps / 1e9, "GB/s",
               "a node, half of the nodes to the other half");
        if (r.nvlink_Bps > 0)
            figure(t, "nvlink_per_nic", r.nvlink_Bps / r.nic_Bps, "x", "nvlink / nic");
    }
    figure(t, "balance_hbm", d->peak_flops / d->hbm_Bps, "FLOP/B", "peak / hbm");
    if (r.nvlink_Bps > 0)
        figure(t, "balance_nvlink", d->peak_flops / r.nvlink_Bps, "FLOP/B", "peak / nvlink");
    if (cluster_is_split(c))
        figure(t, "balance_pcie", d->peak_flops / r.pcie_Bps, "FLOP/B", "peak / pcie");
    if (c->nics_per_node)
        figure(t, "balance_nic", d->peak_flops / r.nic_Bps, "FLOP/B", "peak / nic");
}

static void constants(const struct cluster *c, struct arena *a, struct table *t)
{
    table_init(t, constant_cols, N_COLS(constant_cols));
    for (size_t i = 0; i < cluster_n_fields(); i++) {
        struct cluster_field f;

        if (!cluster_field(c, i, a, &f))
            continue;
        table_row(t);
        table_set_str(t, "key", f.path);
        table_set_str(t, "value", f.text);
        table_set_str(t, "source", f.source);
    }
}

/* ---- forms ---- */

static void print_table(struct table *t, enum table_format format, struct strbuf *out)
{
    table_print(t, format, out);
    table_release(t);
}

/* What there is to show: a cluster, the topology file that it is from, or both. */
struct shown {
    const struct cluster *c;  /* NULL: the file alone is no cluster, and `missing` says why */
    const struct topology *t; /* NULL: from no such file */
    const char *missing;
    const struct topo_finding *found[2]; /* of the file, of the cluster */
    size_t n_found[2];
    size_t n_warnings;
};

static void check(struct shown *s, struct arena *a)
{
    if (s->t)
        s->n_found[0] = topo_file_check(s->t, a, &s->found[0]);
    if (s->c)
        s->n_found[1] = topo_check(s->c, a, &s->found[1]);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < s->n_found[k]; i++)
            s->n_warnings += s->found[k][i].warning;
}

static void findings_as_text(const struct shown *s, enum table_format format, struct strbuf *out)
{
    strbuf_puts(out, "\nchecks\n");
    if (format == TABLE_AS_MD)
        strbuf_putc(out, '\n');
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < s->n_found[k]; i++) {
            const struct topo_finding *f = &s->found[k][i];

            strbuf_printf(out, "%s%s: ", format == TABLE_AS_MD ? "- " : "  ",
                          f->warning ? "warning" : "note");
            if (f->line)
                strbuf_printf(out, "line %u: ", f->line);
            strbuf_printf(out, "%s\n", f->text);
        }
    if (!s->n_found[0] && !s->n_found[1])
        strbuf_puts(out, "  nothing to say\n");
}

static void constants_as_text(const struct cluster *c, struct arena *a, enum table_format format,
                              struct strbuf *out)
{
    struct table t;

    strbuf_putc(out, '\n');
    constants(c, a, &t);
    if (format == TABLE_AS_MD) {
        print_table(&t, format, out);
        return;
    }
    for (size_t i = 0; i < t.n_rows; i++) { /* sources are sentences: not cut to fit */
        const struct table_cell *cell = &t.cells[i * t.n_cols];

        strbuf_printf(out, "%s = %s\n    %s\n", cell[0].v.str, cell[1].v.str,
                      cell[2].state == TABLE_STR ? cell[2].v.str : "(no source)");
    }
    table_release(&t);
}

static void as_text(const struct shown *s, struct arena *a, bool with_constants,
                    enum table_format format, struct strbuf *out)
{
    struct table t;

    if (s->c) {
        strbuf_printf(out, format == TABLE_AS_MD ? "**%s**: %s\n\n```\n" : "%s: %s\n\n", s->c->name,
                      s->c->summary);
        topo_draw(s->c, out);
        strbuf_puts(out, format == TABLE_AS_MD ? "```\n\n" : "\n");
        figures(s->c, &t);
    } else {
        strbuf_printf(out, "%s: %u GPUs, %u NICs", s->t->file, s->t->n_gpus, s->t->n_nics);
        if (s->t->n_hosts > 1)
            strbuf_printf(out, ", of %u hosts", s->t->n_hosts);
        strbuf_puts(out, "; not yet a cluster\n\n");
        topo_file_devices(s->t, a, &t);
    }
    print_table(&t, format, out);
    findings_as_text(s, format, out);
    if (!s->c)
        strbuf_printf(out, "\nmissing\n%s%s\n", format == TABLE_AS_MD ? "\n" : "  ", s->missing);
    else if (with_constants)
        constants_as_text(s->c, a, format, out);
}

static void findings_as_json(const struct shown *s, cJSON *doc)
{
    cJSON *list = json_add_array(doc, "checks");

    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < s->n_found[k]; i++) {
            const struct topo_finding *f = &s->found[k][i];
            cJSON *o = json_add_object(list, NULL);

            json_add_str(o, "level", f->warning ? "warning" : "note");
            if (f->line)
                json_add_u64(o, "line", f->line);
            json_add_str(o, "text", f->text);
        }
    json_add_u64(doc, "warnings", s->n_warnings);
}

static void as_json(const struct shown *s, struct arena *a, int argc, char **argv,
                    struct strbuf *out)
{
    cJSON *doc = output_document("ballast-topo", 1, argc, argv);
    struct table t;

    if (s->c) {
        json_add_str(doc, "name", s->c->name);
        json_add_u64(doc, "nodes", s->c->n_nodes);
        json_add_u64(doc, "gpus", (uint64_t)s->c->n_nodes * s->c->gpus_per_node);
        figures(s->c, &t);
        json_add_tree(doc, "figures", table_to_json(&t));
        table_release(&t);
    }
    if (s->t) {
        topo_file_devices(s->t, a, &t);
        json_add_str(doc, "file", s->t->file);
        json_add_tree(doc, "devices", table_to_json(&t));
        table_release(&t);
    }
    findings_as_json(s, doc);
    if (s->c)
        json_add_tree(doc, "cluster", cluster_to_json(s->c));
    else
        json_add_str(doc, "missing", s->missing);
    json_print(doc, true, out);
    strbuf_putc(out, '\n');
    json_free(doc);
}

static void as_csv(const struct shown *s, struct arena *a, bool with_constants, struct strbuf *out)
{
    struct table t;

    if (!s->c)
        topo_file_devices(s->t, a, &t);
    else if (with_constants)
        constants(s->c, a, &t);
    else
        figures(s->c, &t);
    print_table(&t, TABLE_AS_CSV, out);
}

static int list(struct arena *a, struct table *t, struct err *e)
{
    table_init(t, list_cols, N_COLS(list_cols));
    for (size_t i = 0; i < bundled_clusters_n; i++) {
        struct cluster c;

        if (cluster_load(bundled_clusters[i].name, a, &c, e))
            return -1;
        table_row(t);
        table_set_str(t, "name", c.name);
        table_set_u64(t, "gpus_per_node", c.gpus_per_node);
        table_set_str(t, "device", c.device.name);
        table_set_u64(t, "memory_gib", c.device.memory_bytes);
        table_set_double(t, "nvlink_GBps", c.nvlink_Bps / 1e9);
        table_set_u64(t, "nics_per_node", c.nics_per_node);
        table_set_double(t, "nic_GBps", c.nic_Bps / 1e9);
        table_set_str(t, "summary", c.summary);
    }
    return 0;
}

static const char *aliases(struct arena *a)
{
    enum { COLUMNS = 100 };
    const char *text = "also:", *line = text;

    for (size_t i = 0; i < cluster_n_aliases; i++) {
        const char *one =
            arena_printf(a, " %s = %s%s", cluster_aliases[i].name, cluster_aliases[i].means,
                         i + 1 < cluster_n_aliases ? "," : "");

        if (strlen(line) + strlen(one) > COLUMNS) {
            text = arena_printf(a, "%s\n     ", text);
            line = "     ";
        }
        text = arena_printf(a, "%s%s", text, one);
        line = arena_printf(a, "%s%s", line, one);
    }
    return text;
}

/* The cluster, its topology file, or of a file that lacks something only that. */
static int load(const struct opts *o, struct arena *a, struct cluster *c, struct topology *t,
                struct shown *s, struct err *e)
{
    const char *what = o->pos[0], *file = cluster_topology_file(what, a);
    bool export = opts_get(o, "export")->set, nodes = opts_get(o, "nodes")->set,
         with_constants = opts_get(o, "constants")->set;

    if (file) {
        if (topology_load(file, a, t, e))
            return -1;
        s->t = t;
    }
    if (cluster_load(what, a, c, e)) {
        if (!file || strcmp(file, what) || export || nodes || with_constants)
            return -1;
        s->missing = arena_strdup(a, e->msg);
        return 0;
    }
    s->c = c;
    return cluster_resize(c, (uint32_t)opts_get(o, "nodes")->u64, e);
}

/* Changes the constants of c; prints how well they fit, unless the description is what is asked for. */
static int calibrate(const struct opts *o, struct arena *a, struct cluster *c, int argc,
                     char **argv, struct strbuf *out, struct err *e)
{
    const struct opt_val *files = opts_get(o, "calibrate");
    enum table_format format = (enum table_format)opts_get(o, "format")->u64;
    struct topo_calibration k = {.cluster = o->pos[0],
                                 .files = files->list,
                                 .n_files = files->n_list,
                                 .leave_one_out = opts_get(o, "leave-one-out")->set};
    struct table constants = {0}, scores = {0};
    const char *next;
    int status = topo_calibrate(&k, c, a, &constants, &scores, &next, e);

    if (!status && !opts_get(o, "export")->set) {
        if (format == TABLE_AS_JSON) {
            cJSON *doc = output_document("ballast-calibration", 1, argc, argv);

            json_add_tree(doc, "constants", table_to_json(&constants));
            if (next)
                json_add_str(doc, "measure_next", next);
            json_add_tree(doc, "tables", table_to_json(&scores));
            json_add_tree(doc, "cluster", cluster_to_json(c));
            json_print(doc, true, out);
            strbuf_putc(out, '\n');
            json_free(doc);
        } else {
            table_print(&constants, format, out);
            if (format != TABLE_AS_CSV) {
                if (next)
                    strbuf_printf(out, "\nMeasure next: %s.\n", next);
                strbuf_putc(out, '\n');
                table_print(&scores, format, out);
            }
        }
    }
    table_release(&constants);
    table_release(&scores);
    return status;
}

static int run(const struct opts *o, struct arena *a, int argc, char **argv, struct strbuf *out,
               struct err *e)
{
    enum table_format format = (enum table_format)opts_get(o, "format")->u64;
    bool with_constants = opts_get(o, "constants")->set, export = opts_get(o, "export")->set;
    const struct opt_val *route = opts_get(o, "route");
    struct shown s = {.c = NULL};
    struct cluster c;
    struct topology t;

    if (opts_positionals(o, 1, 1, "CLUSTER", e))
        return -1;
    if (export && (with_constants || opts_get(o, "format")->set || opts_get(o, "nodes")->set))
        return err_set(e, ERR_USAGE,
                       "--export prints the description alone: no --constants, "
                       "--format or --nodes");
    if (route->set && (export || with_constants || opts_get(o, "check")->set))
        return err_set(e, ERR_USAGE,
                       "--route prints the links alone: no --constants, --export or --check");
    if (opts_get(o, "calibrate")->set &&
        (route->set || with_constants || opts_get(o, "check")->set))
        return err_set(e, ERR_USAGE,
                       "--calibrate prints the fit alone: no --route, --constants or --check");
    if (opts_get(o, "leave-one-out")->set && !opts_get(o, "calibrate")->set)
        return err_set(e, ERR_USAGE, "--leave-one-out goes with --calibrate");
    if (load(o, a, &c, &t, &s, e))
        return -1;
    if (route->set)
        return s.c ? topo_route(s.c, s.t, route, format, a, argc, argv, out, e)
                   : err_set(e, ERR_INVALID, "%s", s.missing);
    if (opts_get(o, "calibrate")->set) {
        if (!s.c)
            return err_set(e, ERR_INVALID, "%s", s.missing);
        if (calibrate(o, a, &c, argc, argv, out, e))
            return -1;
        if (!export)
            return 0;
    }
    check(&s, a);
    if (export) {
        cJSON *tree = cluster_to_json(&c);

        json_print(tree, true, out);
        strbuf_putc(out, '\n');
        json_free(tree);
    } else if (format == TABLE_AS_JSON) {
        as_json(&s, a, argc, argv, out);
    } else if (format == TABLE_AS_CSV) {
        as_csv(&s, a, with_constants, out);
    } else {
        as_text(&s, a, with_constants, format, out);
    }
    return opts_get(o, "check")->set && s.n_warnings ? 1 : 0;
}

int cmd_topo(int argc, char **argv, struct err *e)
{
    static const struct plain_command command = {
        .usage =
            "usage: ballast topo CLUSTER [options]\n"
            "       ballast topo --list\n\n"
            "A cluster as a picture, the rates that follow from it, and what is suspicious about "
            "it.\n\n"
            "CLUSTER is a bundled name (case does not matter); a JSON file (topologies/README.md "
            "documents\n"
            "its keys, --export writes one); a topology file of NCCL or the text of nvidia-smi "
            "topo "
            "-m; or one\n"
            "line, BASE:key=value,... with network=CLUSTER node=FILE gpus=N nics=COUNTxRATE "
            "nvlink=RATE\n"
            "memory=SIZE nvlink_domain=GPUS domain_nodes=NODES leaf=NODES oversub=X "
            "rails=yes|no.\n\n",
        .rows = rows,
        .n_rows = sizeof(rows) / sizeof(rows[0]),
        .run = run,
        .bundled = "clusters",
        .list = list,
        .below = aliases,
    };

    return command_plain(&command, argc, argv, e);
}
