/* cli/plot.h - pictures by gnuplot: PREFIX.svg and PREFIX.png, both or none. */
#ifndef BALLAST_CLI_PLOT_H
#define BALLAST_CLI_PLOT_H

#include "cli/evaluate.h"
#include "core/strbuf.h"

/* Appends the commands that draw one picture: "set terminal `terminal`", "set output `file`", ... */
typedef void (*plot_script)(struct strbuf *b, const char *terminal, const char *file,
                            const void *ctx);
/* Draws both files. ERR_EXTERNAL when gnuplot is missing or fails, or a file cannot be written. */
int plot_write(const char *prefix, plot_script script, const void *ctx, struct err *e);
/* Text that somebody else wrote, as a string that gnuplot does not read: in single quotes nothing is special but the quote,
 * which is doubled. Control characters become spaces. */
void plot_quote(struct strbuf *b, const char *s);

/* Left: a step of the slowest rank by cause; right: the fullest rank's memory by part against the device's capacity. One
 * bar an evaluation. */
int plot_compare(const char *prefix, const struct evaluation *const *x, size_t n, struct err *e);

/* Bus bandwidth over size: the prediction with its band, and measured points where there are any. */
struct plot_point {
    double n_bytes, busbw_GBps, low_GBps, high_GBps;
};
struct plot_points {
    const char *title;
    const struct plot_point *predicted;
    size_t n_predicted;
    const struct plot_point *measured; /* only size and busbw */
    size_t n_measured;
};
int plot_coll(const char *prefix, const struct plot_points *p, struct err *e);

/* Left: errors of collectives in percent over their size; right: predicted over measured steps. Either may be empty, not both. */
struct plot_pair {
    double x, y;
};
struct plot_validation {
    const struct plot_pair *tables,
        *steps; /* [n_tables] (bytes, percent), [n_steps] (measured, predicted) */
    size_t n_tables, n_steps;
};
int plot_validate(const char *prefix, const struct plot_validation *v, struct err *e);

#endif
