#include "cli/exec_shadow.h"

#include "cli/output.h"
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
    if (f != TABLE_AS_CSV && wrong)
        strbuf_printf(out, "\nshadow: WRONG in %u rows\n", wrong);
    else if (f != TABLE_AS_CSV)
        strbuf_puts(out, "\nshadow: all kernels equal enough\n");
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
