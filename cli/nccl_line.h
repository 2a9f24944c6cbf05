/* cli/nccl_line.h - one line of a log: what a launcher put before it, its words, and numbers as
 * they were printed.
 *
 * nccl-tests prints to stdout, and what reaches a file has passed mpirun, srun or a container's
 * logger: each may put a tag before every line. The forms that are known are those of Open MPI and
 * PRRTE (`[1,0]<stdout>:`, with a time stamp before it or in place of the brackets), Hydra (`[0]
 * `), `srun --label` (` 0: `), and time stamps (ISO 8601, with T or a blank). */
#ifndef BALLAST_CLI_NCCL_LINE_H
#define BALLAST_CLI_NCCL_LINE_H

#include <stdbool.h>
#include <stdint.h>

/* Where the line itself begins: behind tags, time stamps and blanks. Borrowed from `line`, which
 * ends with its NUL. */
char *nccl_line_start(char *line);

enum { NCCL_LINE_WORDS = 48 };
struct nccl_line_words {
    char *at[NCCL_LINE_WORDS]; /* borrowed from the line, NUL-terminated */
    int n; /* more words than there is room for: NCCL_LINE_WORDS, the rest is in the last */
};
/* Cuts the line at blanks. */
void nccl_line_split(char *line, struct nccl_line_words *w);

/* A number as it was printed: what it stands for lies within half a unit of its last digit. */
struct nccl_number {
    double value, half;
};
/* Decimal digits with an optional fraction and exponent, nothing else ("N/A", "inf" are none). */
bool nccl_number_parse(const char *word, struct nccl_number *out);
/* Digits alone, up to 2^50. */
bool nccl_count_parse(const char *word, uint64_t *out);

#endif
