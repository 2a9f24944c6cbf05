/* cli/exec_shadow.h - `ballast-exec PLAN --shadow`: all kernels of a step beside the CPU's, as a table. */
#ifndef BALLAST_CLI_EXEC_SHADOW_H
#define BALLAST_CLI_EXEC_SHADOW_H

#include "cli/machine.h"
#include "core/table.h"
#include "exec/run.h"

/* 0, or 1 when a kernel is further off than it may be on any rank. Collective; the output is rank 0's, of all ranks. */
int exec_shadow(const struct plan *plan, const struct program *p, struct machine *on,
                const struct run_options *o, uint32_t steps, enum table_format f, int argc,
                char **argv, struct strbuf *out, struct err *e);

#endif
