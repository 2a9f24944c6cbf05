/* cli/nccl_text.h - a log of nccl-tests as a table of cli/coll_tables.h.
 *
 * The formats are those of nccl-tests 2.0 to 2.20 (src/common.cu and src/util.cu; before 2.13 each
 * program printed a header of its own). Columns are found by the names in the header that begins "#
 * size  count  type", so that a column more or less moves nothing: redop and root are there or not,
 * the check of the result is `error` (until 2.11: the largest deviation) or `#wrong` (the number of
 * wrong elements), and per-iteration times and a time stamp may follow. A column that is not known
 * is refused. Ranks and hosts are counted in the lines "# Rank 0 Group 0 Pid 1 on HOST device 0
 * ..."; one process for several of them is seen by its Pid.
 *
 * Tags and time stamps of launchers are dropped (cli/nccl_line.h), and so are lines that are
 * neither comments nor look like a row: NCCL's INFO and WARN lines, banners, warnings. */
#ifndef BALLAST_CLI_NCCL_TEXT_H
#define BALLAST_CLI_NCCL_TEXT_H

#include "core/err.h"
#include "core/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

/* Is this a log, not JSON: does it have a comment line of nccl-tests, or begin with a digit? `text`
 * ends with a NUL. */
bool nccl_text_here(const char *text, size_t len);
/* The JSON array with one table. The collective is what "# Collective test starting: NAME_perf"
 * says (2.17 and later); in older logs `asked` (as people type it, NULL: not known), else the name
 * that the file's name has in it (all_reduce.txt). Where two of these say different things the log
 * is refused. A row with wrong elements is kept with `distrust`; rows of 0 bytes, which nccl-tests
 * prints for sizes that are too small for the ranks, are left out.
 * ERR_PARSE: what is missing or not understood, with its line; ERR_UNSUPPORTED: a program of
 * nccl-tests that is not predicted; ERR_INVALID: rows whose columns contradict each other
 * (cli/coll_check.h). O(len + ranks^2). */
int nccl_text_to_json(const char *path, const char *text, const char *asked, struct strbuf *out,
                      struct err *e);

#endif
