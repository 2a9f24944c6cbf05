/* exec/tokens.h - token ids from a file, in place of those that data.c makes.
 *
 * Flat little-endian unsigned ids of 16 or 32 bits, nothing else in the file (what nanoGPT's prepare.py writes as .bin).
 * Sequence q is tokens [q (seq_len + 1), (q + 1) (seq_len + 1)): inputs are its first seq_len, targets its last. Behind
 * the last whole sequence reading starts again at the first; what remains of the file is never read.
 */
#ifndef BALLAST_EXEC_TOKENS_H
#define BALLAST_EXEC_TOKENS_H

#include "core/err.h"

#include <stdint.h>

struct token_file {
    const char *path;          /* borrowed */
    const unsigned char *data; /* mapped; owned */
    uint64_t n_tokens, seq_len, n_sequences;
    unsigned width;    /* bytes of an id: 2 or 4 */
    uint64_t n_looked; /* ids from the first on that token_file_check() looked at */
};

/* Maps the file. ERR_IO: it cannot be read; ERR_INVALID: no whole ids, or fewer than a sequence. */
int token_file_open(struct token_file *f, const char *path, unsigned width, uint64_t seq_len,
                    struct err *e);
/* Are the ids of the first n sequences that are read below vocab? O(min(n, n_sequences) seq_len). ERR_INVALID names the
 * first that is not. */
int token_file_check(struct token_file *f, uint64_t vocab, uint64_t n, struct err *e);
/* Sequence q modulo n_sequences; inputs and targets have seq_len places. */
void token_file_read(const struct token_file *f, uint64_t q, int64_t *inputs, int64_t *targets);
void token_file_close(struct token_file *f); /* also when it was never opened, all zero */

#endif
