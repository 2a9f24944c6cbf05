/* ballast compare: one row a layout - the main job. */
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/metrics.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "cli/setup.h"
#include "planner/planner.h"

#include <string.h>

static const char *const default_layouts[] = {"ddp", "zero1", "zero1-owner", "zero3", "owner"};

static const struct opt rows[] = {
    COMMAND_LAYOUTS_ROW("ddp,zero1,zero1-owner,zero3,owner",
                        "layouts to compare; 'list' shows all"),
    {.name = "plot",
     .type = OPT_STRING,
     .meta = "PREFIX",
     .help = "also draw PREFIX.svg and PREFIX.png: step time by cause, memory by part",
     .cli_only = true},
    COMMAND_OUTPUT_ROWS,
};

struct block {
    struct evaluation *x; /* [n] */
    size_t n;
    const struct evaluation *best; /* fastest that fits, or NULL */
};

/* Evaluate all layouts on one size. */
static int run_block(const struct setup *s, uint64_t nodes, const char *const *layouts, size_t n,
                     struct arena *a, struct block *b, struct err *e)
{
    struct sim_options o = {0};

    b->x = ARENA_NEW(a, struct evaluation, n);
    b->n = n;
    b->best = NULL;
    for (size_t i = 0; i < n; i++) {
        struct plan *plan = ARENA_NEW(a, struct plan, 1);

        if (setup_plan(s, nodes, layouts[i], a, plan, e) ||
            planner_plan(plan, &evaluate_time, a, e) || evaluate(plan, &o, a, &b->x[i], e))
            return -1;
        if (b->x[i].fits && (!b->best || b->x[i].p.step_ps < b->best->p.step_ps))
            b->best = &b->x[i];
    }
    return 0;
}

/* The second best and what it lacks, in a line. */
static void advise(const struct block *b, struct strbuf *out)
{
    const struct evaluation *next = NULL, *lean = &b->x[0];

    if (!b->best) {
        for (size_t i = 1; i < b->n; i++)
            if (b->x[i].p.memory.driver_bytes < lean->p.memory.driver_bytes)
                lean = &b->x[i];
        strbuf_printf(out, "Nothing fits: the leanest, %s, needs %.1f of %.1f GiB%s.\n",
                      lean->plan->job.layout, (double)lean->p.memory.driver_bytes / 0x1p30,
                      (double)lean->plan->cluster.device.memory_bytes / 0x1p30,
                      lean->fit == FIT_TIGHT ? ", which is tight: less than 5 % head room" : "");
        return;
    }
    for (size_t i = 0; i < b->n; i++)
        if (&b->x[i] != b->best && b->x[i].fits && (!next || b->x[i].p.step_ps < next->p.step_ps))
            next = &b->x[i];
    strbuf_printf(out, "Take %s: %.1f ms a step, %.1f of %.1f GiB", b->best->plan->job.layout,
                  (double)b->best->p.step_ps / 1e9, (double)b->best->p.memory.driver_bytes / 0x1p30,
                  (double)b->best->plan->cluster.device.memory_bytes / 0x1p30);
    if (next)
        strbuf_printf(out, ", %.2fx as fast as %s",
                      (double)next->p.step_ps / (double)b->best->p.step_ps, next->plan->job.layout);
    if (!next && b->n > 1)
        strbuf_puts(out, "; no other layout here fits");
    if (b->best->plan->job.price_per_gpu_hour > 0)
        strbuf_printf(out, ", %.3g $ per million tokens", evaluate_usd_per_mtok(b->best));
    strbuf_puts(out, ".\n");
}

/* A name without a plus sign does not say what is slow about it. */
static void say_stock(const struct block *b, struct strbuf *out)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct plan *plan = b->x[i].plan;

        if (plan->strategy != STRATEGY_STOCK || strchr(plan->job.layout, '+'))
            continue;
        strbuf_printf(out,
                      "%s is %s here, FSDP2 unchanged: DTensor gathers operands in every "
                      "Newton-Schulz step. %s+gather and\n"
                      "%s+alltoall rebuild each matrix once a step.\n",
                      plan->job.layout, plan->layout_full, plan->layout, plan->layout);
        return;
    }
}

static void print_blocks(const struct block *b, size_t n, enum table_format f, struct strbuf *out)
{
    for (size_t i = 0; i < n; i++) {
        if (i)
            strbuf_puts(out, "\n");
        evaluate_title(b[i].x[0].plan, out);
        strbuf_puts(out, "\n");
        metric_print_views(b[i].x, b[i].n, f, out);
        advise(&b[i], out);
        say_stock(&b[i], out);
        for (size_t k = 0; k < b[i].n; k++)
            evaluate_say_uneven(b[i].x[k].plan, out);
    }
    strbuf_puts(out,
                "step: predicted, within +-% where measured runs cover such a run "
                "(docs/VALIDATION.md); elsewhere read ratios.\n"
                "gather, reduce, refresh, tp: waiting for them. GiB: fullest rank, as the driver "
                "sees it. GB: sent by a rank, the largest\n"
                "over ranks; bal.: max/mean of optimizer work over ranks; via: how owner "
                "segments travel. docs/METRICS.md has all.\n");
}

static int print_rows(const struct block *b, size_t n, enum table_format f, int argc, char **argv,
                      struct strbuf *out)
{
    struct metric_table t;

    metric_table_rows(&t, METRIC_IN_ROWS);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < b[i].n; k++)
            metric_table_add(&t, &b[i].x[k]);
    if (f == TABLE_AS_JSON) {
        cJSON *doc = output_document("ballast-compare", 1, argc, argv), *best;
        const struct plan *plan = b[0].x[0].plan;

        json_add_str(doc, "model", plan->model.name);
        json_add_str(doc, "cluster", plan->cluster.name);
        best = json_add_array(doc, "best");
        for (size_t i = 0; i < n; i++) {
            cJSON *o = json_add_object(best, NULL);

            json_add_u64(o, "nodes", b[i].x[0].plan->job.nodes);
            json_add_u64(o, "gpus", b[i].x[0].plan->job.gpus);
            json_add_str(o, "layout", b[i].best ? b[i].best->plan->job.layout : NULL);
        }
        json_add_tree(doc, "rows", table_to_json(&t.t));
        json_print(doc, true, out);
        strbuf_puts(out, "\n");
        json_free(doc);
    } else {
        table_print(&t.t, f, out);
    }
    metric_table_release(&t);
    return 0;
}

static int plot(const struct opts *o, const struct block *b, size_t n, struct err *e)
{
    const struct opt_val *v = opts_get(o, "plot");
    const struct evaluation **x;
    size_t k = 0, all = 0;
    int status;

    if (!v->set)
        return 0;
    for (size_t i = 0; i < n; i++)
        all += b[i].n;
    x = MEM_NEW(const struct evaluation *, all);
    for (size_t i = 0; i < n; i++)
        for (size_t m = 0; m < b[i].n; m++)
            x[k++] = &b[i].x[m];
    status = plot_compare(v->text, x, all, e);
    mem_free(x);
    return status;
}

static int compare(struct setup *s, const struct opts *o, int argc, char **argv, struct strbuf *out,
                   struct err *e)
{
    const struct opt_val *nodes = opts_get(o, "nodes"), *lay = opts_get(o, "layouts");
    const char *const *layouts = lay->set ? lay->list : default_layouts;
    size_t n_layouts =
        lay->set ? lay->n_list : sizeof(default_layouts) / sizeof(default_layouts[0]);
    size_t n = nodes->set ? nodes->n_list : 1;
    enum table_format f = (enum table_format)opts_get(o, "format")->u64;
    struct block *b = ARENA_NEW(&s->arena, struct block, n);
    bool fits = false;

    if (setup_check_used(s, layouts, n_layouts, e))
        return -1;
    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (nodes->u64s[i] == nodes->u64s[k])
                return err_set(e, opts_fault(o, "nodes"), "%s names %llu twice",
                               opts_said(o, "nodes").s, (unsigned long long)nodes->u64s[i]);
    if (n > 1 && opts_get(o, "gpus")->set)
        return err_set(e, opts_fault(o, "nodes"), "%s goes with one %s, not with a list",
                       opts_said(o, "gpus").s, opts_said(o, "nodes").s);
    for (size_t i = 0; i < n; i++) {
        if (run_block(s, nodes->set ? nodes->u64s[i] : 0, layouts, n_layouts, &s->arena, &b[i], e))
            return -1;
        fits |= b[i].best != NULL;
    }
    if (f == TABLE_AS_TABLE || f == TABLE_AS_MD)
        print_blocks(b, n, f, out);
    else
        print_rows(b, n, f, argc, argv, out);
    if (plot(o, b, n, e)) /* the result is there all the same */
        return -1;
    return fits ? 0 : 1;
}

int cmd_compare(int argc, char **argv, struct err *e)
{
    const struct command_frame frame = {
        .usage = "usage: ballast compare MODEL --cluster CLUSTER --nodes N [options]\n\n"
                 "Predicts one training step under each layout: time, memory, traffic, what limits "
                 "it, and which\n"
                 "layout to take. MODEL: a config.json or its directory, a bundled name, or "
                 "block:layers=...\n"
                 "Exit status 1 when no layout fits.\n\n",
        .rows = rows,
        .n_rows = sizeof(rows) / sizeof(rows[0]),
        .layouts = "layouts",
        .run = compare,
    };

    return command_run(&frame, argc, argv, e);
}
