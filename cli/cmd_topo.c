/* ballast topo: what a cluster is - a picture, the rates that follow, what is suspicious, every constant's source. */
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/topo.h"
#include "core/opts.h"
#include "core/table.h"
#include "core/units.h"
#include "model/bundled.h"

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
    figure(t, "nvlink", r.nvlink_Bps / 1e9, "GB/s", "a GPU to its NVLink domain, reached");
    figure(t, "nvlink_domain", cluster_domain_gpus(c), "", "GPUs that NVLink connects");
    if (c->nics_per_node) {
        figure(t, "nic", r.nic_Bps / 1e9, "GB/s", "a GPU's share of its NIC, reached");
        figure(t, "node", r.node_Bps / 1e9, "GB/s", "a node into the fabric, reached");
        figure(t, "bisection", r.bisection_Bps / 1e9, "GB/s",
               "a node, half of the nodes to the other half");
        figure(t, "nvlink_per_nic", r.nvlink_Bps / r.nic_Bps, "x", "nvlink / nic");
    }
    figure(t, "balance_hbm", d->peak_flops / d->hbm_Bps, "FLOP/B", "peak / hbm");
    figure(t, "balance_nvlink", d->peak_flops / r.nvlink_Bps, "FLOP/B", "peak / nvlink");
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

static void as_text(const struct cluster *c, struct arena *a, bool with_constants,
                    enum table_format format, struct strbuf *out)
{
    const struct topo_finding *f;
    size_t n = topo_check(c, a, &f);
    struct table t;

    strbuf_printf(out, format == TABLE_AS_MD ? "**%s**: %s\n\n```\n" : "%s: %s\n\n", c->name,
                  c->summary);
    topo_draw(c, out);
    strbuf_puts(out, format == TABLE_AS_MD ? "```\n\n" : "\n");
    figures(c, &t);
    print_table(&t, format, out);
    strbuf_puts(out, "\nchecks\n");
    if (format == TABLE_AS_MD)
        strbuf_putc(out, '\n');
    for (size_t i = 0; i < n; i++)
        strbuf_printf(out, "%s%s: %s\n", format == TABLE_AS_MD ? "- " : "  ",
                      f[i].warning ? "warning" : "note", f[i].text);
    if (!n)
        strbuf_puts(out, "  nothing to say\n");
    if (with_constants) {
        strbuf_putc(out, '\n');
        constants(c, a, &t);
        if (format == TABLE_AS_MD) {
            print_table(&t, format, out);
        } else { /* sources are sentences: not cut to fit */
            for (size_t i = 0; i < t.n_rows; i++) {
                const struct table_cell *cell = &t.cells[i * t.n_cols];

                strbuf_printf(out, "%s = %s\n    %s\n", cell[0].v.str, cell[1].v.str,
                              cell[2].state == TABLE_STR ? cell[2].v.str : "(no source)");
            }
            table_release(&t);
        }
    }
}

static void as_json(const struct cluster *c, struct arena *a, int argc, char **argv,
                    struct strbuf *out)
{
    cJSON *doc = output_document("ballast-topo", 1, argc, argv), *list;
    const struct topo_finding *f;
    size_t n = topo_check(c, a, &f), n_warnings = 0;
    struct table t;

    json_add_str(doc, "name", c->name);
    json_add_u64(doc, "nodes", c->n_nodes);
    json_add_u64(doc, "gpus", (uint64_t)c->n_nodes * c->gpus_per_node);
    figures(c, &t);
    json_add_tree(doc, "figures", table_to_json(&t));
    table_release(&t);
    list = json_add_array(doc, "checks");
    for (size_t i = 0; i < n; i++) {
        cJSON *o = json_add_object(list, NULL);

        json_add_str(o, "level", f[i].warning ? "warning" : "note");
        json_add_str(o, "text", f[i].text);
        n_warnings += f[i].warning;
    }
    json_add_u64(doc, "warnings", n_warnings);
    json_add_tree(doc, "cluster", cluster_to_json(c));
    json_print(doc, true, out);
    strbuf_putc(out, '\n');
    json_free(doc);
}

static int list_bundled(enum table_format format, struct arena *a, int argc, char **argv,
                        struct strbuf *out, struct err *e)
{
    struct table t;
    int rc = 0;

    table_init(&t, list_cols, N_COLS(list_cols));
    for (size_t i = 0; i < bundled_clusters_n && !rc; i++) {
        struct cluster c;

        rc = cluster_load(bundled_clusters[i].name, a, &c, e);
        if (rc)
            break;
        table_row(&t);
        table_set_str(&t, "name", c.name);
        table_set_u64(&t, "gpus_per_node", c.gpus_per_node);
        table_set_str(&t, "device", c.device.name);
        table_set_u64(&t, "memory_gib", c.device.memory_bytes);
        table_set_double(&t, "nvlink_GBps", c.nvlink_Bps / 1e9);
        table_set_u64(&t, "nics_per_node", c.nics_per_node);
        table_set_double(&t, "nic_GBps", c.nic_Bps / 1e9);
        table_set_str(&t, "summary", c.summary);
    }
    if (format == TABLE_AS_JSON) {
        cJSON *doc = output_document("ballast-clusters", 1, argc, argv);

        json_add_tree(doc, "clusters", table_to_json(&t));
        json_print(doc, true, out);
        strbuf_putc(out, '\n');
        json_free(doc);
    } else {
        table_print(&t, format, out);
    }
    table_release(&t);
    return rc;
}

static int run(const struct opts *o, struct arena *a, int argc, char **argv, struct strbuf *out,
               struct err *e)
{
    enum table_format format = (enum table_format)opts_get(o, "format")->u64;
    bool with_constants = opts_get(o, "constants")->set, export = opts_get(o, "export")->set;
    struct cluster c;
    struct table t;

    if (opts_get(o, "list")->set)
        return opts_positionals(o, 0, 0, "--list", e) || list_bundled(format, a, argc, argv, out, e)
                   ? -1
                   : 0;
    if (opts_positionals(o, 1, 1, "CLUSTER", e))
        return -1;
    if (export && (with_constants || opts_get(o, "format")->set || opts_get(o, "nodes")->set))
        return err_set(e, ERR_USAGE,
                       "--export prints the description alone: no --constants, "
                       "--format or --nodes");
    if (cluster_load(o->pos[0], a, &c, e) ||
        cluster_resize(&c, (uint32_t)opts_get(o, "nodes")->u64, e))
        return -1;
    if (export) {
        cJSON *tree = cluster_to_json(&c);

        json_print(tree, true, out);
        strbuf_putc(out, '\n');
        json_free(tree);
    } else if (format == TABLE_AS_JSON) {
        as_json(&c, a, argc, argv, out);
    } else if (format == TABLE_AS_CSV) {
        if (with_constants)
            constants(&c, a, &t);
        else
            figures(&c, &t);
        print_table(&t, format, out);
    } else {
        as_text(&c, a, with_constants, format, out);
    }
    return 0;
}

int cmd_topo(int argc, char **argv, struct err *e)
{
    static const struct plain_command command = {
        .usage =
            "usage: ballast topo CLUSTER [options]\n"
            "       ballast topo --list\n\n"
            "A cluster as a picture, the rates that follow from it, and what is suspicious about "
            "it.\n\n"
            "CLUSTER is a bundled name (case does not matter) or a JSON file; "
            "topologies/README.md\n"
            "documents its keys, and --export writes one.\n\n",
        .rows = rows,
        .n_rows = sizeof(rows) / sizeof(rows[0]),
        .run = run,
    };

    return command_plain(&command, argc, argv, e);
}
