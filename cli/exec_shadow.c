#include "cli/exec_shadow.h"

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "core/version.h"
#include "exec/pieces.h"
#include "exec/shadow.h"

#include <math.h>
#include <string.h>

static const struct table_col cols[] = {
    {"kernel", "kernel", TABLE_TEXT, 0, TABLE_AUTO},
    {"type", "type", TABLE_TEXT, 0, TABLE_AUTO},
    {"calls", "calls", TABLE_COUNT, 0, TABLE_AUTO},
    {"elements", "elements", TABLE_COUNT, 0, TABLE_AUTO},
    {"largest_error", "largest error", TABLE_TEXT, 0, TABLE_RIGHT},
    {"allowed", "allowed", TABLE_TEXT, 0, TABLE_RIGHT},
    {"verdict", "verdict", TABLE_TEXT, 0, TABLE_AUTO},
};

/* Rows of one rank; every rank launches kernels of its own. Returns how many are wrong. */
static uint32_t fill(struct table *t, const struct shadow *s)
{
    uint32_t wrong = 0;
    size_t n;
    const struct shadow_row *r = shadow_rows(s, &n);

    for (size_t i = 0; i < n; i++) {
        char text[32];

        wrong += r[i].wrong;
        table_row(t);
        table_set_str(t, "kernel", r[i].name);
        table_set_str(t, "type", dtype_name(r[i].type));
        table_set_u64(t, "calls", r[i].calls);
        table_set_u64(t, "elements", r[i].elements);
        snprintf(text, sizeof(text), "%.2e", r[i].worst);
        table_set_str(t, "largest_error", text);
        snprintf(text, sizeof(text), "%.1e", r[i].allowed);
        table_set_str(t, "allowed", isinf(r[i].allowed) ? NULL : text);
        table_set_str(t, "verdict",
                      r[i].wrong            ? "WRONG"
                      : isinf(r[i].allowed) ? "not judged"
                                            : "equal enough");
    }
    return wrong;
}

static void conclude(const char *what, uint32_t wrong, enum table_format f, struct strbuf *out)
{
    if (f != TABLE_AS_CSV && wrong)
        strbuf_printf(out, "\n%s: WRONG in %u rows\n", what, wrong);
    else if (f != TABLE_AS_CSV)
        strbuf_printf(out, "\n%s: all kernels equal enough\n", what);
}

static void tell(const struct plan *plan, const struct machine *on, uint32_t steps, uint32_t wrong,
                 const struct table *t, enum table_format f, int argc, char **argv,
                 struct strbuf *out)
{
    if (f == TABLE_AS_JSON) {
        cJSON *doc = output_document("ballast-exec-shadow", 1, argc, argv);

        json_add_str(doc, "layout", plan->layout_full);
        json_add_str(doc, "backend", on->b.lib->name);
        json_add_str(doc, "device", on->b.device.name);
        json_add_u64(doc, "ranks", plan->world);
        json_add_u64(doc, "steps", steps);
        json_add_u64(doc, "wrong", wrong);
        json_add_tree(doc, "rows", table_to_json(t));
        json_print(doc, true, out);
        strbuf_puts(out, "\n");
        json_free(doc);
        return;
    }
    if (f != TABLE_AS_CSV)
        strbuf_printf(
            out,
            "%s under %s on %s (%s), %u steps: each call beside the CPU's, errors over the "
            "largest element\n\n",
            plan->model.name, plan->layout_full, on->b.device.name, on->b.lib->name, steps);
    table_print(t, f, out);
    conclude("shadow", wrong, f, out);
}

int exec_shadow(const struct plan *plan, const struct program *p, struct machine *on,
                const struct run_options *o, uint32_t steps, enum table_format f, int argc,
                char **argv, struct strbuf *out, struct err *e)
{
    struct shadow *s = shadow_begin(&on->b);
    struct exec_run r;
    struct table t;
    uint32_t wrong = 0, *all = MEM_NEW(uint32_t, on->t.size);
    int status = exec_init(&r, plan, p, &on->b, o, e);

    for (uint32_t i = 0; i < steps && !status; i++)
        status = exec_step(&r, e);
    exec_release(&r);
    table_init(&t, cols, sizeof(cols) / sizeof(cols[0]));
    wrong = fill(&t, s);
    shadow_end(s);
    if (!status)
        status = transport_all_gather_control(&on->t, &wrong, sizeof(wrong), all, e);
    wrong = 0;
    for (uint32_t i = 0; i < on->t.size && !status; i++)
        wrong += all[i];
    if (!status)
        tell(plan, on, steps, wrong, &t, f, argc, argv, out);
    table_release(&t);
    mem_free(all);
    return status ? -1 : wrong > 0;
}

/* ---- ballast-exec kernels ---- */

static const struct opt rows[] = {
    {.name = "width",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "1024",
     .min = 16,
     .max = 16384,
     .help = "rows of the matrices; they have half as many columns more"},
    {.name = "seed", .type = OPT_U64, .meta = "N", .dflt = "1", .help = "of the operands"},
    COMMAND_OUTPUT_ROWS,
};

static int compare_pieces(struct machine *on, const struct opts *o, int argc, char **argv,
                          struct strbuf *out, struct err *e)
{
    enum table_format f = (enum table_format)opts_get(o, "format")->u64;
    uint64_t width = opts_get(o, "width")->u64, seed = opts_get(o, "seed")->u64;
    struct shadow *s;
    struct table t;
    uint32_t wrong;

    if (on->t.size > 1)
        return err_set(e, ERR_USAGE, "kernels are compared on one device: no mpirun");
    s = shadow_begin(&on->b);
    pieces_launch(&on->b, width, seed);
    table_init(&t, cols, sizeof(cols) / sizeof(cols[0]));
    wrong = fill(&t, s);
    shadow_end(s);
    if (!backend_status(&on->b, e) && f == TABLE_AS_JSON) {
        cJSON *doc = output_document("ballast-exec-kernels", 1, argc, argv);

        json_add_str(doc, "backend", on->b.lib->name);
        json_add_str(doc, "device", on->b.device.name);
        json_add_u64(doc, "width", width);
        json_add_u64(doc, "seed", seed);
        json_add_u64(doc, "wrong", wrong);
        json_add_tree(doc, "rows", table_to_json(&t));
        json_print(doc, true, out);
        strbuf_puts(out, "\n");
        json_free(doc);
    } else if (!on->b.failed) {
        if (f != TABLE_AS_CSV)
            strbuf_printf(out,
                          "%s (%s), width %llu: each call beside the CPU's, errors over the "
                          "largest element\n\n",
                          on->b.device.name, on->b.lib->name, (unsigned long long)width);
        table_print(&t, f, out);
        conclude("kernels", wrong, f, out);
    }
    table_release(&t);
    return on->b.failed ? -1 : wrong > 0;
}

static int help(const struct opts *o)
{
    printf("ballast-exec %s kernels: kernels that no step launches by itself, beside the CPU's\n\n"
           "usage: ballast-exec kernels [options]\n\n"
           "What Newton-Schulz, Shampoo and SOAP launch inside of themselves, what collectives add "
           "up with, casts,\nquantization and the symmetric product. Status 1 when one is "
           "wrong.\n\n",
           ballast_version);
    opts_help(stdout, o);
    return 0;
}

int kernels_main(int argc, char **argv)
{
    struct machine on;
    struct strbuf out;
    struct opts o;
    struct err e = {.code = ERR_NONE};
    int status = -1;

    machine_init(&on);
    strbuf_init(&out);
    opts_init(&o);
    opts_add(&o, "Options", rows, sizeof(rows) / sizeof(rows[0]));
    opts_add(&o, "Where", machine_rows, machine_n_rows);
    if (opts_wants_help(argc - 1, argv + 1))
        status = help(&o);
    else if (!opts_parse(&o, argc - 1, argv + 1, &e) && !opts_positionals(&o, 0, 0, NULL, &e) &&
             !machine_open(&on, "kernels", &o, &e))
        status = compare_pieces(&on, &o, argc, argv, &out, &e);
    if (status >= 0 && output_write(opts_get(&o, "output")->text, &out, &e))
        status = -1;
    if (status < 0)
        status = machine_fail(&on, &e);
    machine_close(&on);
    strbuf_release(&out);
    opts_release(&o);
    return status;
}
