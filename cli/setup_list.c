/* --layout list: the layouts with their strategies, and the optimizers. */
#include "cli/setup.h"

#include "layouts/layout.h"
#include "model/plan/optimizers.h"

#include <stdio.h>

/* " (default)", or whose default it is where that depends on the optimizer. */
static void default_note(const struct layout *l, enum strategy s, struct strbuf *out)
{
    const char *before = " (default of ";

    if (l->strategy != STRATEGY_STOCK) {
        strbuf_printf(out, "%s", l->strategy == s ? " (default)" : "");
        return;
    }
    for (int o = 0; o < OPTIMIZER_N; o++) {
        const struct optimizer_row *row = optimizer_row((enum optimizer)o);

        if (!row->matrices || row->sharded != s)
            continue;
        strbuf_printf(out, "%s%s", before, row->name);
        before = ", ";
    }
    strbuf_printf(out, "%s", *before == ',' ? ")" : "");
}

static void list_optimizers(struct strbuf *out)
{
    strbuf_printf(out, "\n%-20s %s\n", "optimizer", "what it is");
    for (int o = 0; o < OPTIMIZER_N; o++) {
        const struct optimizer_row *row = optimizer_row((enum optimizer)o);
        const char *before = "; not with +";

        strbuf_printf(out, "%-20s %s", row->name, row->line);
        for (int s = 1; s < STRATEGY_N && row->matrices; s++)
            if (!(row->strategies & 1u << s)) {
                strbuf_printf(out, "%s%s", before, strategy_name((enum strategy)s));
                before = ", +";
            }
        strbuf_printf(out, "%s\n", row->exec ? "" : "; exec does not run it");
    }
}

void setup_list_layouts(struct strbuf *out)
{
    strbuf_printf(out, "%-20s %s\n", "layout", "what it is");
    for (size_t i = 0; layouts_all[i]; i++) {
        const struct layout *l = layouts_all[i];

        strbuf_printf(out, "%-20s %s\n", l->name, l->line);
        for (int k = 1; k < STRATEGY_N; k++) {
            char name[64];

            if (!(l->allowed & 1u << k))
                continue;
            snprintf(name, sizeof(name), "%s+%s", l->name, strategy_name((enum strategy)k));
            strbuf_printf(out, "  %-18s %s", name, strategy_line((enum strategy)k));
            default_note(l, (enum strategy)k, out);
            strbuf_printf(out, "\n");
        }
    }
    strbuf_printf(out, "\nshort names:");
    for (size_t i = 0; layout_aliases[i].alias; i++)
        strbuf_printf(out, "%s %s = %s", i ? "," : "", layout_aliases[i].alias,
                      layout_aliases[i].full);
    strbuf_printf(out, "\n");
    list_optimizers(out);
}
