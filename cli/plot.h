/* cli/plot.h - pictures by gnuplot: PREFIX.svg and PREFIX.png, both or none. */
#ifndef BALLAST_CLI_PLOT_H
#define BALLAST_CLI_PLOT_H

#include "cli/evaluate.h"

/* Left: a step of the slowest rank by cause; right: the fullest rank's memory by part against the device's capacity. One
 * bar an evaluation. ERR_EXTERNAL when gnuplot is missing or fails, or a file cannot be written. */
int plot_compare(const char *prefix, const struct evaluation *const *x, size_t n, struct err *e);

#endif
