/* ballast sim: one layout in detail. */
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/metrics.h"
#include "cli/output.h"
#include "cli/step_band.h"
#include "layouts/layout.h"
#include "planner/planner.h"

#include <string.h>

static const struct opt rows[] = {
    {.name = "layout",
     .letter = 'l',
     .type = OPT_STRING,
     .meta = "LAYOUT",
     .dflt = "owner",
     .help = "'list' shows all"},
    {.name = "plan",
     .type = OPT_STRING,
     .meta = "FILE",
     .help = "a plan file in place of MODEL and job options",
     .cli_only = true},
    {.name = "trace",
     .type = OPT_STRING,
     .meta = "FILE",
     .help = "write a Chrome trace (Perfetto reads it)",
     .cli_only = true},
    {.name = "explain",
     .type = OPT_FLAG,
     .help = "also the step in words, and the changes that would help most, each simulated",
     .cli_only = true},
    COMMAND_OUTPUT_ROWS,
};

/* With a plan file only what does not change the plan may be said beside it. */
static int only_plan(const struct opts *o, struct err *e)
{
    const struct job_option *row;

    for (size_t i = 0; (row = job_option_at(i)); i++)
        if (opts_get(o, row->opt.name)->set && strcmp(row->opt.name, "cluster"))
            return err_set(e, ERR_USAGE, "--%s beside --plan: the plan file says it already",
                           row->opt.name);
    return 0;
}

/* Another profile of the same shape. */
static int replace_cluster(const struct opts *o, struct arena *a, struct plan *plan, struct err *e)
{
    const struct opt_val *v = opts_get(o, "cluster");
    struct cluster c;

    if (!v->set)
        return 0;
    if (cluster_load(v->text, a, &c, e))
        return -1;
    if (c.gpus_per_node != plan->cluster.gpus_per_node)
        return err_set(e, ERR_INVALID, "--cluster '%s' has %u GPUs a node, the plan's '%s' has %u",
                       c.name, c.gpus_per_node, plan->cluster.name, plan->cluster.gpus_per_node);
    if (cluster_resize(&c, plan->job.nodes, e))
        return -1;
    plan->cluster = c;
    return layout_check(plan, e) ? err_prefix(e, "--cluster '%s'", c.name) : 0;
}

/* The names in a plan file that only planner/ knows. */
static int known_planner(const char *file, const struct plan *plan, struct err *e)
{
    enum assign_objective order[4];
    enum assign_method method;
    uint32_t n;

    return planner_method(plan->job.planner, &method, e) ||
                   planner_objectives(plan->job.objective, order, &n, e)
               ? err_prefix(e, "'%s': job", file)
               : 0;
}

static int get_plan(struct setup *s, const struct opts *o, struct plan *plan, struct err *e)
{
    const struct opt_val *nodes = opts_get(o, "nodes"), *file = opts_get(o, "plan");
    const char *layout = opts_get(o, "layout")->text;

    if (file->set)
        return only_plan(o, e) || layout_load_plan(file->text, &s->arena, plan, e) ||
                       known_planner(file->text, plan, e) || replace_cluster(o, &s->arena, plan, e)
                   ? -1
                   : 0;
    if (nodes->set && nodes->n_list > 1)
        return err_set(e, opts_fault(o, "nodes"), "%s: sim takes one size, got %zu",
                       opts_said(o, "nodes").s, nodes->n_list);
    return setup_check_used(s, &layout, 1, e) ||
                   setup_plan(s, nodes->set ? nodes->u64s[0] : 0, layout, &s->arena, plan, e) ||
                   planner_plan(plan, &evaluate_time, &s->arena, e)
               ? -1
               : 0;
}

static void print_use(const struct evaluation *x, struct strbuf *out)
{
    static const struct {
        const char *name;
        enum sim_resource one, other; /* send and receive */
    } lines[] = {{"GPU compute", RESOURCE_SM, RESOURCE_SM},
                 {"HBM", RESOURCE_HBM, RESOURCE_HBM},
                 {"NVLink", RESOURCE_NVLINK_TX, RESOURCE_NVLINK_RX},
                 {"NIC", RESOURCE_NIC_TX, RESOURCE_NIC_RX},
                 {"PCIe", RESOURCE_PCIE_TX, RESOURCE_PCIE_RX},
                 {"PCIe root", RESOURCE_ROOT_UP, RESOURCE_ROOT_DOWN},
                 {"CPU link", RESOURCE_CPU, RESOURCE_CPU},
                 {"leaf", RESOURCE_LEAF_UP, RESOURCE_LEAF_DOWN}};

    strbuf_puts(out, "busy % of the step, busiest instance, out/in:");
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        double one = 100 * x->p.busy[lines[i].one], other = 100 * x->p.busy[lines[i].other];

        if (one <= 0 && other <= 0)
            continue;
        strbuf_printf(out, "%s %s %.1f", i ? "," : "", lines[i].name, one);
        if (lines[i].one != lines[i].other)
            strbuf_printf(out, "/%.1f", other);
    }
    strbuf_puts(out, "\n");
}

static void print_text(const struct evaluation *x, enum table_format f, struct strbuf *out)
{
    const struct sim_memory *m = &x->p.memory;
    const struct program *p = &x->program;
    struct step_band band;

    evaluate_title(x->plan, out);
    strbuf_puts(out, "\n");
    metric_print_views(x, 1, f, out);
    print_use(x, out);
    strbuf_printf(out,
                  "memory peaks on rank %u at %.1f ms in %s of unit %s;\nthe emptiest rank peaks "
                  "at %.2f GiB\n",
                  m->rank, (double)m->at_ps / 1e9, p->ops[m->at.op].name,
                  p->model->units[m->at.unit].name, (double)m->driver_min_bytes / 0x1p30);
    strbuf_printf(
        out, "program: %u operations, %u loops; simulated: %llu activities, %u class%s of ranks\n",
        p->n_ops, p->n_loops, (unsigned long long)x->p.n_activities, x->p.n_classes,
        x->p.n_classes == 1 ? "" : "es");
    if (x->plan->job.price_per_gpu_hour > 0)
        strbuf_printf(out, "price: %.3g $ per million tokens\n", evaluate_usd_per_mtok(x));
    band = step_band(x->plan);
    if (band.percent > 0)
        strbuf_printf(out, "step: within +-%.0f %% (%s)\n", band.percent, band.basis);
    else
        strbuf_printf(out,
                      "No measurement covers this kind of run (docs/VALIDATION.md%s%s): read "
                      "ratios, not milliseconds.\n",
                      *band.missing ? "; " : "", band.missing);
}

static void print_csv(const struct evaluation *x, struct strbuf *out)
{
    struct metric_table t;

    metric_table_rows(&t, METRIC_IN_ROWS);
    metric_table_add(&t, x);
    table_print(&t.t, TABLE_AS_CSV, out);
    metric_table_release(&t);
}

/* `why` may be NULL. */
static void print_json(const struct evaluation *x, const struct explanation *why, int argc,
                       char **argv, struct strbuf *out)
{
    cJSON *doc = output_document("ballast-sim", 1, argc, argv), *busy;
    struct metric_table t;

    metric_table_rows(&t, METRIC_IN_ROWS);
    metric_table_add(&t, x);
    json_add_str(doc, "model", x->plan->model.name);
    json_add_str(doc, "cluster", x->plan->cluster.name);
    json_add_tree(doc, "rows", table_to_json(&t.t));
    busy = json_add_object(doc, "busy");
    for (int i = 0; i < RESOURCE_N; i++)
        json_add_double(busy, sim_resource_name((enum sim_resource)i), x->p.busy[i]);
    json_add_u64(doc, "peak_rank", x->p.memory.rank);
    json_add_double(doc, "peak_at_ms", (double)x->p.memory.at_ps / 1e9);
    json_add_str(doc, "peak_unit", x->program.model->units[x->p.memory.at.unit].name);
    json_add_u64(doc, "operations", x->program.n_ops);
    json_add_u64(doc, "activities", x->p.n_activities);
    if (why)
        json_add_tree(doc, "explain", explain_json(why));
    json_print(doc, true, out);
    strbuf_puts(out, "\n");
    json_free(doc);
    metric_table_release(&t);
}

static int simulate(struct setup *s, const struct opts *o, int argc, char **argv,
                    struct strbuf *out, struct err *e)
{
    enum table_format f = (enum table_format)opts_get(o, "format")->u64;
    const struct opt_val *trace = opts_get(o, "trace");
    struct sim_options so = {.keep_trace = trace->set};
    struct plan *plan = ARENA_NEW(&s->arena, struct plan, 1);
    bool explain = opts_get(o, "explain")->u64;
    struct explanation why;
    struct evaluation x;

    if (explain && f == TABLE_AS_CSV)
        return err_set(e, ERR_USAGE,
                       "--explain beside --format csv: a row has no room for words; "
                       "table, md and json have");
    if (trace->set && !strcmp(trace->text, "-"))
        return err_set(e, ERR_USAGE,
                       "--trace -: the trace needs a name; the result goes to standard output");
    if (get_plan(s, o, plan, e))
        return -1;
    if (evaluate(plan, &so, &s->arena, &x, e))
        return opts_get(o, "plan")->set ? err_prefix(e, "'%s'", opts_get(o, "plan")->text) : -1;
    if (trace->set && sim_write_trace(trace->text, &x.program, &x.p, e))
        return -1;
    if (explain)
        explain_find(&x, &s->arena, &why);
    if (f == TABLE_AS_JSON)
        print_json(&x, explain ? &why : NULL, argc, argv, out);
    else if (f == TABLE_AS_CSV)
        print_csv(&x, out);
    else if (!explain || f == TABLE_AS_TABLE)
        print_text(&x, f, out);
    if (explain && f == TABLE_AS_MD) {
        evaluate_title(plan, out);
        strbuf_puts(out, "\n");
    }
    if (explain && f == TABLE_AS_TABLE)
        strbuf_puts(out, "\n");
    if (explain && f != TABLE_AS_JSON)
        explain_print(&why, f, out);
    return x.fits ? 0 : 1;
}

int cmd_sim(int argc, char **argv, struct err *e)
{
    const struct command_frame frame = {
        .usage =
            "usage: ballast sim MODEL --cluster CLUSTER --nodes N --layout LAYOUT [options]\n"
            "       ballast sim --plan plan.json [--cluster CLUSTER] [--trace FILE] [--explain]\n\n"
            "Predicts one training step: phases, critical path, link use, memory by part, "
            "bytes moved.\n"
            "Exit status 1 when it does not fit.\n\n",
        .rows = rows,
        .n_rows = sizeof(rows) / sizeof(rows[0]),
        .layouts = "layout",
        .instead = "plan",
        .run = simulate,
    };

    return command_run(&frame, argc, argv, e);
}
