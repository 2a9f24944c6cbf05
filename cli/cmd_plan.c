/* ballast plan: who owns what, as a plan file that sim, exec and other programs read. */
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/evaluate.h"
#include "cli/output.h"
#include "core/units.h"
#include "model/plan/optimizers.h"
#include "model/plan/placement.h"
#include "planner/planner.h"

#include <math.h>
#include <string.h>

static const struct opt rows[] = {
    {.name = "layout",
     .letter = 'l',
     .type = OPT_STRING,
     .meta = "LAYOUT",
     .dflt = "owner",
     .help = "'list' shows all"},
    {.name = "format",
     .type = OPT_CHOICE,
     .choices = table_formats,
     .dflt = "table",
     .help = "of the summary",
     .cli_only = true},
    {.name = "output",
     .letter = 'o',
     .type = OPT_STRING,
     .meta = "FILE",
     .help = "the plan file",
     .cli_only = true},
    OPT_HELP_ROW,
};

static const struct table_col cols[] = {
    {"layout", "layout", TABLE_TEXT, 0, TABLE_AUTO},
    {"layout_full", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"optimizer", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"nodes", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"gpus", "ranks", TABLE_INT, 0, TABLE_AUTO},
    {"flops_max", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"flops_max_T", "TFLOP max", TABLE_FIXED, 3, TABLE_AUTO},
    {"flops_mean", NULL, TABLE_FIXED, 0, TABLE_AUTO},
    {"flops_mean_T", "mean", TABLE_FIXED, 3, TABLE_AUTO},
    {"balance", "max/mean", TABLE_FIXED, 3, TABLE_AUTO},
    {"bound", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"gap_percent", "gap %", TABLE_FIXED, 3, TABLE_AUTO},
    {"optimal", "proven", TABLE_BOOL, 0, TABLE_AUTO},
    {"bytes_max", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"resident_max_gib", "resident GiB", TABLE_GIB, 2, TABLE_AUTO},
    {"bytes_mean", NULL, TABLE_FIXED, 0, TABLE_AUTO},
    {"resident_mean_gib", "mean", TABLE_GIB, 2, TABLE_AUTO},
    {"idle_ranks", "idle", TABLE_INT, 0, TABLE_AUTO},
    {"fits", "fits", TABLE_BOOL, 0, TABLE_AUTO},
    {"solver", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"solver_short", "solver", TABLE_TEXT, 0, TABLE_AUTO},
    {"solve_ms", "ms", TABLE_FIXED, 1, TABLE_AUTO},
};

/* Resident bytes alone against the whole device: what sim adds only makes it worse. */
static bool fits(const struct plan *plan)
{
    const struct device *d = &plan->cluster.device;

    return plan->bytes_max + d->context_bytes <= d->memory_bytes;
}

/* Something was chosen, and its first objective has a bound (simulated time has none). */
static bool is_bounded(const struct plan *plan)
{
    return plan->strategy == STRATEGY_OWNER && (plan->bound || !plan->flops_max);
}

static void plan_row(struct table *t, const struct plan *plan)
{
    char solver[32];

    table_row(t);
    table_set_str(t, "layout", plan->job.layout);
    table_set_str(t, "layout_full", plan->layout_full);
    table_set_str(t, "optimizer", optimizer_name(plan->job.optimizer));
    table_set_u64(t, "nodes", plan->job.nodes);
    table_set_u64(t, "gpus", plan->job.gpus);
    table_set_u64(t, "flops_max", plan->flops_max);
    table_set_double(t, "flops_max_T", (double)plan->flops_max / 1e12);
    table_set_double(t, "flops_mean", plan->flops_mean);
    table_set_double(t, "flops_mean_T", plan->flops_mean / 1e12);
    table_set_double(t, "balance",
                     plan->flops_mean > 0 ? (double)plan->flops_max / plan->flops_mean : 1);
    if (is_bounded(plan)) {
        table_set_u64(t, "bound", plan->bound);
        table_set_double(t, "gap_percent", plan->gap_percent);
        table_set_bool(t, "optimal", plan->optimal);
    }
    table_set_u64(t, "bytes_max", plan->bytes_max);
    table_set_u64(t, "resident_max_gib", plan->bytes_max);
    table_set_double(t, "bytes_mean", plan->bytes_mean);
    table_set_double(t, "resident_mean_gib", plan->bytes_mean);
    table_set_u64(t, "idle_ranks", evaluate_idle_ranks(plan));
    table_set_bool(t, "fits", fits(plan));
    table_set_str(t, "solver", plan->solver);
    snprintf(solver, sizeof(solver), "%.*s", (int)strcspn(plan->solver, " ("), plan->solver);
    table_set_str(t, "solver_short", strcmp(plan->solver, "by rule") ? solver : plan->solver);
    table_set_double(t, "solve_ms", plan->solve_ms);
}

static int write_plan(const struct plan *plan, const char *path, struct err *e)
{
    cJSON *doc = plan_to_json(plan);
    struct strbuf text;
    int status;

    strbuf_init(&text);
    json_print(doc, true, &text);
    strbuf_puts(&text, "\n");
    json_free(doc);
    status = output_write(path, &text, e);
    strbuf_release(&text);
    return status;
}

static void explain_idle(const struct plan *plan, struct strbuf *out)
{
    strbuf_printf(out, "\n%u of %u ranks update no matrix", evaluate_idle_ranks(plan), plan->world);
    if (placement_parts(plan, STATE) > plan->model.matrix_tensors)
        strbuf_printf(out,
                      ": there are only %u. Fewer ranks, or replicas of a smaller group, would use "
                      "them all.\n",
                      plan->model.matrix_tensors);
    else if (plan->strategy == STRATEGY_OWNER)
        strbuf_puts(out,
                    ": that is the planner's choice; --planner ilp balances optimizer work.\n");
    else if (plan->strategy == STRATEGY_ALLTOALL)
        strbuf_puts(out, ": no shape has as many matrices as that.\n");
    else
        strbuf_puts(out, ": their slices hold embeddings and vectors only.\n");
}

static void summary(const struct plan *plan, enum table_format f, int argc, char **argv,
                    struct strbuf *out)
{
    struct table t;

    table_init(&t, cols, sizeof(cols) / sizeof(cols[0]));
    plan_row(&t, plan);
    if (f == TABLE_AS_JSON) {
        cJSON *doc = output_document("ballast-plan-summary", 1, argc, argv);

        json_add_str(doc, "model", plan->model.name);
        json_add_str(doc, "cluster", plan->cluster.name);
        json_add_tree(doc, "rows", table_to_json(&t));
        json_print(doc, true, out);
        strbuf_puts(out, "\n");
        json_free(doc);
    } else {
        if (f != TABLE_AS_CSV) {
            evaluate_title(plan, out);
            strbuf_puts(out, "\n");
        }
        table_print(&t, f, out);
        if (f == TABLE_AS_TABLE)
            strbuf_puts(out, "fits: what is resident between steps; 'ballast sim' adds activations "
                             "and buffers.\n");
        if (f == TABLE_AS_TABLE && evaluate_idle_ranks(plan))
            explain_idle(plan, out);
        if (f == TABLE_AS_TABLE)
            evaluate_say_uneven(plan, out);
    }
    table_release(&t);
}

static int make_plan(struct setup *s, const struct opts *o, int argc, char **argv,
                     struct strbuf *out, struct err *e)
{
    const struct opt_val *nodes = opts_get(o, "nodes"), *file = opts_get(o, "output");
    const char *layout = opts_get(o, "layout")->text;
    struct plan plan;

    if (nodes->set && nodes->n_list > 1)
        return err_set(e, opts_fault(o, "nodes"), "%s: plan takes one size, got %zu",
                       opts_said(o, "nodes").s, nodes->n_list);
    if (file->set && !strcmp(file->text, "-"))
        return err_set(e, ERR_USAGE,
                       "-o -: the plan file needs a name; the summary goes to standard output");
    if (setup_check_used(s, &layout, 1, e) ||
        setup_plan(s, nodes->set ? nodes->u64s[0] : 0, layout, &s->arena, &plan, e) ||
        planner_plan(&plan, &evaluate_time, &s->arena, e))
        return -1;
    if (file->set && write_plan(&plan, file->text, e))
        return -1;
    summary(&plan, (enum table_format)opts_get(o, "format")->u64, argc, argv, out);
    return fits(&plan) ? 0 : 1;
}

int cmd_plan(int argc, char **argv, struct err *e)
{
    const struct command_frame frame = {
        .usage = "usage: ballast plan MODEL --cluster CLUSTER --nodes N --layout LAYOUT [-o "
                 "plan.json] [options]\n\n"
                 "Chooses owners and says how well they are balanced. Exit status 1 when what is "
                 "resident alone\n"
                 "does not fit.\n\n",
        .rows = rows,
        .n_rows = sizeof(rows) / sizeof(rows[0]),
        .layouts = "layout",
        .run = make_plan,
        .own_output = true,
    };

    return command_run(&frame, argc, argv, e);
}
