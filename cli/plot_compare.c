#include "cli/plot.h"

#include "cli/metrics.h"
#include "core/units.h"
#include "model/plan/optimizers.h"

#include <string.h>

/* Stacked bars: metrics, each times `scale`. */
struct stack {
    const char *name;
    const enum metric_id *bars;
    int n;
    double scale;
};

static double value(const struct stack *k, int bar, const struct evaluation *x)
{
    return metric_number(k->bars[bar], x) / k->scale;
}

/* Layout names are ours: nothing in them is special. */
static void label(struct strbuf *b, const struct evaluation *x, bool with_nodes)
{
    strbuf_putc(b, '"');
    strbuf_printf(b, "%s", x->plan->job.layout);
    if (with_nodes)
        strbuf_printf(b, "\\n%u node%s", x->plan->job.nodes, x->plan->job.nodes == 1 ? "" : "s");
    strbuf_putc(b, '"');
}

static void data(struct strbuf *b, const struct stack *bars, const struct evaluation *const *x,
                 size_t n, const char *total)
{
    bool with_nodes = false;

    for (size_t i = 1; i < n; i++)
        with_nodes |= x[i]->plan->job.nodes != x[0]->plan->job.nodes;
    strbuf_printf(b, "$%s << EOD\n", bars->name);
    for (size_t i = 0; i < n; i++) {
        double sum = 0;

        label(b, x[i], with_nodes);
        for (int k = 0; k < bars->n; k++) {
            strbuf_printf(b, " %.6g", value(bars, k, x[i]));
            sum += value(bars, k, x[i]);
        }
        strbuf_printf(b, " %.6g \"", sum);
        strbuf_printf(b, total, sum);
        strbuf_printf(b, "\"\n");
    }
    strbuf_puts(b, "EOD\n");
}

static bool any(const struct stack *bars, int k, const struct evaluation *const *x, size_t n,
                double least)
{
    for (size_t i = 0; i < n; i++)
        if (value(bars, k, x[i]) > least)
            return true;
    return false;
}

/* The bars that anything is in, and the totals above them. */
static void draw(struct strbuf *b, const struct stack *bars, const struct evaluation *const *x,
                 size_t n)
{
    double biggest = 0;

    for (size_t i = 0; i < n; i++) {
        double sum = 0;

        for (int k = 0; k < bars->n; k++)
            sum += value(bars, k, x[i]);
        biggest = sum > biggest ? sum : biggest;
    }
    strbuf_puts(b, "plot ");
    for (int k = 0; k < bars->n; k++)
        if (any(bars, k, x, n, biggest * 1e-4))
            strbuf_printf(b, "$%s using %d:xtic(1) title \"%s\" lc rgb \"%s\", ", bars->name, k + 2,
                          metric(bars->bars[k])->title, metric(bars->bars[k])->colour);
    strbuf_printf(b, "$%s using 0:%d:%d with labels offset 0,0.7 font \",11\" notitle", bars->name,
                  bars->n + 2, bars->n + 3);
}

/* Up to six bars stand side by side in two panels; more get the width, one panel above the other. */
enum { FEW_BARS = 6, WIDE_BARS = 12 };

static void title(struct strbuf *b, const struct evaluation *const *x, size_t n)
{
    const struct plan *plan = x[0]->plan;
    struct strbuf text;

    strbuf_init(&text);
    if (x[n - 1]->plan->job.nodes != plan->job.nodes)
        strbuf_printf(&text, "%s on %s, %s", plan->model.name, plan->cluster.name,
                      optimizer_name(plan->job.optimizer));
    else
        strbuf_printf(&text, "%s on %u x %s (%u GPU%s), %s", plan->model.name, plan->job.nodes,
                      plan->cluster.name, plan->job.gpus, plan->job.gpus == 1 ? "" : "s",
                      optimizer_name(plan->job.optimizer));
    if (plan->job.tp > 1)
        strbuf_printf(&text, ", tensor%s parallel over %u",
                      plan->job.sequence_parallel ? " and sequence" : "", plan->job.tp);
    strbuf_printf(b, "set multiplot layout %s title ", n <= FEW_BARS ? "1,2" : "2,1");
    plot_quote(b, text.s);
    strbuf_puts(b, " noenhanced font \",16\"\n");
    strbuf_release(&text);
}

struct bars {
    const struct evaluation *const *x;
    size_t n;
};

static void script(struct strbuf *b, const char *terminal, const char *file, const void *ctx)
{
    const struct evaluation *const *x = ((const struct bars *)ctx)->x;
    size_t n = ((const struct bars *)ctx)->n;
    double capacity = (double)x[0]->plan->cluster.device.memory_bytes / 0x1p30;
    bool slow = false;
    struct stack time = {"time", metric_time_bars, TIME_N, 1};
    const struct stack memory = {"memory", metric_memory_bars, MEM_PART_N, 1};

    for (size_t i = 0; i < n; i++)
        slow |= x[i]->p.step_ps >= 1000000000000;
    time.scale = slow ? 1000 : 1;
    data(b, &time, x, n, slow ? "%.2f s" : "%.1f ms");
    data(b, &memory, x, n, "%.1f");
    strbuf_printf(b, "set terminal %s size %zu,%d\nset output ", terminal,
                  n <= FEW_BARS ? (size_t)1240 : (n * 78 > 980 ? n * 78 + 260 : 1240),
                  n <= FEW_BARS ? 600 : 1100);
    plot_quote(b, file);
    strbuf_puts(b, "\n");
    title(b, x, n);
    strbuf_puts(b, "set style data histograms\nset style histogram rowstacked\n"
                   "set style fill solid border rgb \"white\"\nset boxwidth 0.72\n"
                   "set border 3 lc rgb \"#666666\"\nset tics nomirror out\nset grid ytics lc rgb "
                   "\"#dddddd\" lt 1\n"
                   "set yrange [0:*]\nset offsets 0,0,graph 0.08,0\n");
    strbuf_printf(b, "set xtics noenhanced font \",11\"%s\n",
                  n > WIDE_BARS ? " rotate by -35" : "");
    strbuf_printf(b, "set key outside %s Left reverse samplen 1 width 1 noenhanced font \",11\"\n",
                  n <= FEW_BARS ? "bottom center horizontal maxrows 3" : "right center vertical");
    strbuf_printf(b, "set xrange [-0.6:%.1f]\n", (double)n - 0.4);
    strbuf_printf(b, "set title \"one step of the slowest rank\" font \",13\"\nset ylabel \"%s\"\n",
                  slow ? "seconds" : "milliseconds");
    draw(b, &time, x, n);
    strbuf_puts(b, "\nset title \"memory of the fullest rank\" font \",13\"\nset ylabel \"GiB\"\n");
    draw(b, &memory, x, n);
    strbuf_printf(b, ", %.6g with lines lw 2 dt 2 lc rgb \"#CC0000\" title \"capacity %.1f GiB\"\n",
                  capacity, capacity);
    strbuf_puts(b, "unset multiplot\nunset output\nreset\n");
}

int plot_compare(const char *prefix, const struct evaluation *const *x, size_t n, struct err *e)
{
    struct bars all = {x, n};

    return plot_write(prefix, script, &all, e);
}
