/* cli/nccl_text.h - what nccl-tests prints, as a table of cli/coll_tables.h. */
#ifndef BALLAST_CLI_NCCL_TEXT_H
#define BALLAST_CLI_NCCL_TEXT_H

#include "core/err.h"
#include "core/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

/* Comment lines and rows of numbers, not JSON. */
bool nccl_text_here(const char *text, size_t len);
/* The JSON array with one table. Ranks and hosts are counted in the lines "# Rank 0 Group 0 Pid 1 on HOST device 0 ..."; one process
 * for several of them is seen by its Pid. The collective is named by "# Collective test starting: NAME_perf" of newer versions,
 * else by the file's name (all_reduce.txt). ERR_PARSE: no such name, no rank lines, no rows, or rows of several tests. */
int nccl_text_to_json(const char *path, const char *text, struct strbuf *out, struct err *e);

#endif
