/* exec/agree.h - were all ranks of a job started alike?
 *
 * Ranks that train different plans, or one plan with different options, exchange messages of different sizes, or of the same
 * size and another meaning: a heap that is overwritten, or a verdict about nothing. So each rank writes down what it was
 * given, a line a fact, and all compare before the first of them does anything with it.
 */
#ifndef BALLAST_EXEC_AGREE_H
#define BALLAST_EXEC_AGREE_H

#include "core/strbuf.h"
#include "exec/transport.h"

/* Of content that is too long to compare as text: 64-bit FNV-1a. */
uint64_t agree_hash(const void *data, size_t n);
/* Another fact: `value` is compared; `note` is not, and is shown with it (a path, which may be the rank's own), or NULL. */
void agree_fact(struct strbuf *facts, const char *name, const char *note, const char *value);
/* Collective, and the first that ranks do with what was written down. ERR_INVALID on all of them when two differ, with the
 * first fact that does, rank 0 and the first rank that has it otherwise. */
int agree_check(struct transport *t, const struct strbuf *facts, struct err *e);

#endif
