#include "cli/exec_owners.h"

#include "cli/output.h"
#include "exec/owners.h"
#include "sim/sim.h"

static const struct table_col cols[] = {
    {"rank", "rank", TABLE_INT, 0, TABLE_AUTO},
    {"matrices", "matrices", TABLE_INT, 0, TABLE_AUTO},
    {"gflop", "GFLOP", TABLE_FIXED, 1, TABLE_AUTO},
    {"predicted_ms", "predicted ms", TABLE_FIXED, 3, TABLE_AUTO},
    {"measured_ms", "measured ms", TABLE_FIXED, 3, TABLE_AUTO},
    {"error_percent", "error %", TABLE_FIXED, 1, TABLE_AUTO},
};

static double predicted(void *ctx, const struct kernel_call *k)
{
    return (double)sim_kernel_time(ctx, NULL, k).alone_ps / 1e12;
}

struct balance {
    double max, sum;
};

static void take(struct balance *b, double x)
{
    b->max = x > b->max ? x : b->max;
    b->sum += x;
}

static double of(const struct balance *b, uint32_t n)
{
    return b->sum > 0 ? b->max * n / b->sum : 1;
}

int exec_owners(const struct plan *plan, const struct program *p, struct machine *on,
                uint32_t repeats, enum table_format f, int argc, char **argv, struct strbuf *out,
                struct err *e)
{
    struct owner_time *times = MEM_NEW(struct owner_time, p->world);
    double *s = MEM_NEW(double, p->world);
    struct device device = plan->cluster.device;
    struct balance flops = {0}, planned = {0}, measured = {0};
    struct table t;
    int status = owners_replay(plan, p, &on->b, repeats, times, e);

    table_init(&t, cols, sizeof(cols) / sizeof(cols[0]));
    owners_predict(p, predicted, &device, s);
    for (uint32_t r = 0; r < p->world && !status; r++) {
        take(&flops, (double)times[r].flops);
        take(&planned, s[r]);
        take(&measured, times[r].s);
        table_row(&t);
        table_set_u64(&t, "rank", r);
        table_set_u64(&t, "matrices", times[r].n);
        table_set_double(&t, "gflop", (double)times[r].flops / 1e9);
        table_set_double(&t, "predicted_ms", s[r] * 1e3);
        table_set_double(&t, "measured_ms", times[r].s * 1e3);
        if (times[r].s > 0 && times[r].n)
            table_set_double(&t, "error_percent", 100 * (s[r] / times[r].s - 1));
    }
    if (!status && f == TABLE_AS_JSON) {
        cJSON *doc = output_document("ballast-exec-owners", 1, argc, argv);

        json_add_str(doc, "layout", plan->layout_full);
        json_add_str(doc, "device", on->b.device.name);
        json_add_str(doc, "predicted_for", plan->cluster.name);
        json_add_str(doc, "note", machine_note(on, &plan->cluster));
        json_add_u64(doc, "ranks", p->world);
        json_add_double(doc, "balance_flops", of(&flops, p->world));
        json_add_double(doc, "balance_predicted", of(&planned, p->world));
        json_add_double(doc, "balance_measured", of(&measured, p->world));
        json_add_tree(doc, "rows", table_to_json(&t));
        json_print(doc, true, out);
        strbuf_puts(out, "\n");
        json_free(doc);
    } else if (!status) {
        if (f != TABLE_AS_CSV)
            strbuf_printf(out,
                          "%s under %s: the optimizer steps of %u ranks, one after another on %s; "
                          "predicted for %s\n\n",
                          plan->model.name, plan->layout_full, p->world, on->b.device.name,
                          plan->cluster.name);
        if (f != TABLE_AS_CSV && machine_note(on, &plan->cluster))
            strbuf_printf(out, "note: %s\n\n", machine_note(on, &plan->cluster));
        table_print(&t, f, out);
        if (f != TABLE_AS_CSV)
            strbuf_printf(out,
                          "\nbalance, slowest over mean: %.3f in FLOPs, %.3f predicted, %.3f "
                          "measured; without gathers, reductions and vectors\n",
                          of(&flops, p->world), of(&planned, p->world), of(&measured, p->world));
    }
    table_release(&t);
    mem_free(times);
    mem_free(s);
    return status;
}
