/* cli/exec_trace.h - one Chrome trace of the last step, predicted and measured.
 *
 * For every rank that stands for its like (sim/sim.h) two processes, "rank R (predicted)" and "rank R (measured)", with the
 * same rows, names and arguments. Each counts from its rank's first operation. */
#ifndef BALLAST_CLI_EXEC_TRACE_H
#define BALLAST_CLI_EXEC_TRACE_H

#include "cli/measured.h"

/* Collective; rank 0 writes the file. ERR_EXTERNAL when it cannot be written. */
int exec_trace(const char *path, const struct measured *m, const struct exec_run *r, struct err *e);

#endif
