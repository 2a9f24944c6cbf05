/* cli/exec_steps.h - a replay as a measurement file for `ballast validate` (format ballast-steps, docs/CLI.md).
 *
 * Rows for step_ms, optimizer_ms (medians) and memory_alloc_gib (fullest rank), with the job as it ran: `gather` is what
 * exec made of auto, `serial` says that operations ran one after the other. Model and cluster stand by name where the name
 * brings back the plan's own, else as the plan file, by its path from the folder of the measurement file. */
#ifndef BALLAST_CLI_EXEC_STEPS_H
#define BALLAST_CLI_EXEC_STEPS_H

#include "cli/machine.h"
#include "cli/measured.h"

/* ERR_EXTERNAL when the file cannot be written. On one rank. */
int exec_steps(const char *path, const char *plan_path, const struct measured *m,
               const struct machine *on, struct err *e);

#endif
