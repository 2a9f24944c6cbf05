/* cli/exec_owners.h - `ballast-exec PLAN --owners`: the optimizer steps of a plan's ranks in turn on one device, beside the plan's
 * balance and the predicted times. */
#ifndef BALLAST_CLI_EXEC_OWNERS_H
#define BALLAST_CLI_EXEC_OWNERS_H

#include "cli/machine.h"
#include "core/table.h"
#include "model/plan/plan.h"

int exec_owners(const struct plan *plan, const struct program *p, struct machine *on,
                uint32_t repeats, enum table_format f, int argc, char **argv, struct strbuf *out,
                struct err *e);

#endif
