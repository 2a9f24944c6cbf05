#include "cli/plot.h"

static void rows(struct strbuf *b, const char *name, const struct plot_point *p, size_t n)
{
    strbuf_printf(b, "$%s << EOD\n", name);
    for (size_t i = 0; i < n; i++)
        strbuf_printf(b, "%.9g %.6g %.6g %.6g\n", p[i].n_bytes, p[i].busbw_GBps, p[i].low_GBps,
                      p[i].high_GBps);
    strbuf_puts(b, "EOD\n");
}

static void script(struct strbuf *b, const char *terminal, const char *file, const void *ctx)
{
    const struct plot_points *p = ctx;

    rows(b, "predicted", p->predicted, p->n_predicted);
    if (p->n_measured)
        rows(b, "measured", p->measured, p->n_measured);
    strbuf_printf(b, "set terminal %s size 960,600\nset output ", terminal);
    plot_quote(b, file);
    strbuf_puts(b, "\nset title ");
    plot_quote(b, p->title);
    strbuf_puts(b, " noenhanced font \",14\"\nset logscale x 2\n"
                   "set border 3 lc rgb \"#666666\"\nset tics nomirror out\n"
                   "set grid lc rgb \"#dddddd\" lt 1\nset yrange [0:*]\n"
                   "set xlabel \"message size\"\nset ylabel \"bus bandwidth, GB/s\"\n"
                   "set xtics (\"1 KiB\" 2**10, \"16 KiB\" 2**14, \"256 KiB\" 2**18, "
                   "\"4 MiB\" 2**22, \"64 MiB\" 2**26, \"1 GiB\" 2**30, \"16 GiB\" 2**34, "
                   "\"256 GiB\" 2**38)\n"
                   "set key top left Left reverse samplen 2\n"
                   "plot $predicted using 1:3:4 with filledcurves lc rgb \"#B3D4EA\" title "
                   "\"90 % band\", $predicted using 1:2 with lines lw 2 lc rgb \"#0072B2\" title "
                   "\"predicted\"");
    if (p->n_measured)
        strbuf_puts(b, ", $measured using 1:2 with points pt 7 ps 0.8 lc rgb \"#D55E00\" title "
                       "\"measured\"");
    strbuf_puts(b, "\nunset output\nreset\n");
}

int plot_coll(const char *prefix, const struct plot_points *p, struct err *e)
{
    return plot_write(prefix, script, p, e);
}
