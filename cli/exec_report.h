/* cli/exec_report.h - a replay beside its prediction: for people, and as a JSON document (docs/EXEC.md has the keys). */
#ifndef BALLAST_CLI_EXEC_REPORT_H
#define BALLAST_CLI_EXEC_REPORT_H

#include "cli/machine.h"
#include "cli/measured.h"
#include "core/table.h"

/* csv has the table of the step alone, the other formats all of it. `tokens`: zero when they were made. */
void exec_report(const struct measured *m, struct machine *on, const struct token_file *tokens,
                 enum table_format f, int argc, char **argv, struct strbuf *out);

#endif
