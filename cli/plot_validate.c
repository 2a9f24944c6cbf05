#include "cli/plot.h"

static void rows(struct strbuf *b, const char *name, const struct plot_pair *p, size_t n)
{
    strbuf_printf(b, "$%s << EOD\n", name);
    for (size_t i = 0; i < n; i++)
        strbuf_printf(b, "%.9g %.6g\n", p[i].x, p[i].y);
    strbuf_puts(b, "EOD\n");
}

static void axes(struct strbuf *b)
{
    strbuf_puts(b, "set border 3 lc rgb \"#666666\"\nset tics nomirror out\n"
                   "set grid lc rgb \"#dddddd\" lt 1\nset key top left Left reverse samplen 2\n");
}

static void script(struct strbuf *b, const char *terminal, const char *file, const void *ctx)
{
    const struct plot_validation *v = ctx;
    bool both = v->n_tables && v->n_steps;

    if (v->n_tables)
        rows(b, "tables", v->tables, v->n_tables);
    if (v->n_steps)
        rows(b, "steps", v->steps, v->n_steps);
    strbuf_printf(b, "set terminal %s size %d,560\nset output ", terminal, both ? 1240 : 800);
    plot_quote(b, file);
    strbuf_printf(b, "\nset multiplot layout 1,%d\n", both ? 2 : 1);
    axes(b);
    if (v->n_tables)
        strbuf_puts(b,
                    "set title \"collectives\"\nset logscale x 2\nset yrange [-50:50]\n"
                    "set xlabel \"message size\"\nset ylabel \"predicted / measured - 1, %\"\n"
                    "set xtics (\"16 B\" 2**4, \"1 KiB\" 2**10, \"64 KiB\" 2**16, \"4 MiB\" 2**22, "
                    "\"256 MiB\" 2**28, \"16 GiB\" 2**34)\n"
                    "plot 0 lc rgb \"#666666\" notitle, $tables with points pt 7 ps 0.45 lc rgb "
                    "\"#0072B2\" title \"sizes of measured tables\"\n"
                    "unset logscale x\nset xtics auto\n");
    if (v->n_steps)
        strbuf_puts(b,
                    "set title \"training steps\"\nset logscale xy\nset yrange [*:*]\n"
                    "set xlabel \"measured (ms, GiB, tokens/s, MFU)\"\nset ylabel \"predicted\"\n"
                    "plot x lc rgb \"#666666\" title \"predicted = measured\", $steps with points "
                    "pt 7 ps 0.6 lc rgb \"#D55E00\" title \"published rows\"\n");
    strbuf_puts(b, "unset multiplot\nunset output\nreset\n");
}

int plot_validate(const char *prefix, const struct plot_validation *v, struct err *e)
{
    return plot_write(prefix, script, v, e);
}
