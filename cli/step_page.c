#include "cli/step_page.h"

#include "core/table.h"

#include <math.h>
#include <string.h>

static const struct table_col cols[] = {
    {"id", "row", TABLE_TEXT, 0, TABLE_AUTO},
    {"model", "model", TABLE_TEXT, 0, TABLE_AUTO},
    {"cluster", "cluster", TABLE_TEXT, 0, TABLE_AUTO},
    {"gpus", "GPUs", TABLE_INT, 0, TABLE_AUTO},
    {"layout", "layout", TABLE_TEXT, 0, TABLE_AUTO},
    {"options", "options", TABLE_TEXT, 0, TABLE_AUTO},
    {"metric", "metric", TABLE_TEXT, 0, TABLE_AUTO},
    {"measured", "measured", TABLE_TEXT, 0, TABLE_RIGHT},
    {"predicted", "predicted", TABLE_TEXT, 0, TABLE_RIGHT},
    {"error_percent", "error %", TABLE_FIXED, 1, TABLE_AUTO},
    {"band_percent", "+-%", TABLE_FIXED, 0, TABLE_AUTO},
    {"source", "source", TABLE_INT, 0, TABLE_AUTO},
};

static bool has_option(const struct step_row *m, const char *option)
{
    for (size_t i = 0; i < m->n_options; i++)
        if (!strcmp(m->options[i], option))
            return true;
    return false;
}

static bool all_have(const struct step_row *rows, size_t n, const char *option)
{
    for (size_t i = 0; i < n; i++)
        if (!has_option(&rows[i], option))
            return false;
    return true;
}

/* The first row with the same source. */
static size_t first_with(const struct step_row *rows, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (!strcmp(rows[k].source, rows[i].source))
            return k;
    return i;
}

/* Four digits at least, whatever the unit. */
static void set_number(struct table *t, const char *key, double v)
{
    char text[48];
    int decimals = v < 1 ? 4 : v < 10 ? 3 : v < 100 ? 2 : v < 1e5 ? 1 : 0;

    snprintf(text, sizeof(text), "%.*f", decimals, v);
    table_set_str(t, key, text);
}

static void fill_row(struct table *t, const struct step_row *rows, size_t n, size_t i,
                     uint64_t source)
{
    const struct step_row *m = &rows[i];
    struct strbuf own;

    strbuf_init(&own);
    for (size_t k = 0; k < m->n_options; k++)
        if (!all_have(rows, n, m->options[k]))
            strbuf_printf(&own, "%s%s", own.len ? " " : "", m->options[k]);
    table_row(t);
    table_set_str(t, "id", m->id);
    table_set_str(t, "model", m->model);
    table_set_str(t, "cluster", m->cluster);
    table_set_str(t, "layout", m->layout);
    table_set_str(t, "options", own.len ? own.s : NULL);
    table_set_str(t, "metric", metric(m->metric)->col.key);
    set_number(t, "measured", m->value);
    table_set_u64(t, "source", source);
    strbuf_release(&own);
    if (m->skipped)
        return;
    table_set_u64(t, "gpus", m->world);
    set_number(t, "predicted", m->predicted);
    table_set_double(t, "error_percent", 100 * (m->predicted / m->value - 1));
    table_set_double(t, "band_percent", m->band);
}

static void say_common(const struct step_row *rows, size_t n, struct strbuf *out)
{
    bool any = false, one_optimizer = true;

    for (size_t i = 1; i < n; i++)
        one_optimizer &= !strcmp(rows[i].optimizer, rows[0].optimizer);
    if (one_optimizer) {
        strbuf_printf(out, "All rows: `--optimizer %s", rows[0].optimizer);
        any = true;
    }
    for (size_t k = 0; k < rows[0].n_options; k++)
        if (all_have(rows, n, rows[0].options[k])) {
            strbuf_printf(out, "%s%s", any ? " " : "All rows: `", rows[0].options[k]);
            any = true;
        }
    if (any)
        strbuf_puts(out, "`\n\n");
}

static void say_errors(const struct step_row *rows, size_t n, struct strbuf *out)
{
    double sum = 0, most = 0;
    size_t predicted = 0, scored = 0, apart = 0;

    for (size_t i = 0; i < n; i++)
        apart += rows[i].distrust != NULL;
    for (size_t i = 0; i < n; i++)
        if (!rows[i].skipped && (!rows[i].distrust || apart == n)) {
            double error = fabs(100 * (rows[i].predicted / rows[i].value - 1));

            scored++;
            sum += error;
            most = fmax(most, error);
        }
    strbuf_printf(out, "%zu row%s", n, n == 1 ? "" : "s");
    for (size_t i = 0; i < n; i++)
        predicted += !rows[i].skipped;
    if (predicted < n)
        strbuf_printf(out, ", %zu of them not predicted", n - predicted);
    if (apart)
        strbuf_printf(out, ", %zu of them scored apart from all others", apart);
    if (scored)
        strbuf_printf(out, "; off by %.1f %% in the mean, %.1f %% at most", sum / (double)scored,
                      most);
    strbuf_puts(out, ".\n\n");
}

static void say_set(const struct step_set *set, const struct step_row *rows, struct strbuf *out)
{
    size_t *source = MEM_NEW(size_t, set->n ? set->n : 1), n_sources = 0;
    struct table t;

    strbuf_printf(out, "## %s\n\n", set->name);
    if (set->what)
        strbuf_printf(out, "%s.\n", set->what);
    say_errors(rows, set->n, out);
    say_common(rows, set->n, out);
    table_init(&t, cols, sizeof(cols) / sizeof(cols[0]));
    for (size_t i = 0; i < set->n; i++) {
        size_t first = first_with(rows, i);

        source[i] = first == i ? ++n_sources : source[first];
        fill_row(&t, rows, set->n, i, source[i]);
    }
    table_print(&t, TABLE_AS_MD, out);
    table_release(&t);
    strbuf_puts(out, "\n");
    for (size_t i = 0; i < set->n; i++)
        if (first_with(rows, i) == i)
            strbuf_printf(out, "%zu. %s\n", source[i], rows[i].source);
    for (size_t i = 0; i < set->n; i++)
        if (rows[i].skipped)
            strbuf_printf(out, "- %s is not predicted: %s\n", rows[i].id, rows[i].skipped);
    for (size_t i = 0; i < set->n; i++)
        if (rows[i].distrust)
            strbuf_printf(out, "- %s is scored apart: %s\n", rows[i].id, rows[i].distrust);
    mem_free(source);
}

void step_page(const struct step_rows *s, struct strbuf *out)
{
    for (size_t i = 0; i < s->n_sets; i++) {
        if (i)
            strbuf_puts(out, "\n");
        say_set(&s->sets[i], s->rows + s->sets[i].first, out);
    }
}
