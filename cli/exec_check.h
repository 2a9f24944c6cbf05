/* cli/exec_check.h - `ballast-exec PLAN --check`: the verdict of exec/check.h, for reading and as JSON. */
#ifndef BALLAST_CLI_EXEC_CHECK_H
#define BALLAST_CLI_EXEC_CHECK_H

#include "cli/machine.h"
#include "core/table.h"
#include "exec/run.h"

/* Collective. 0: the layout trains as ddp does; 1: it differs; -1. */
int exec_check(const struct plan *plan, struct machine *on, const struct run_options *o,
               uint32_t steps, enum table_format f, int argc, char **argv, struct strbuf *out,
               struct err *e);

#endif
