#include "exec/tokens.h"

#include "core/file.h"
#include "core/num.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t token(const struct token_file *f, uint64_t i)
{
    const unsigned char *x = f->data + i * f->width;
    uint64_t v = x[0] | (uint64_t)x[1] << 8;

    return f->width == 2 ? v : v | (uint64_t)x[2] << 16 | (uint64_t)x[3] << 24;
}

static int map(struct token_file *f, int fd, struct err *e)
{
    struct stat st;
    uint64_t n;
    void *at;

    if (fstat(fd, &st))
        return err_set(e, ERR_IO, "'%.300s': %s", f->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_IO, "'%.300s' is no regular file; expected one of token ids",
                       f->path);
    n = (uint64_t)st.st_size;
    if (n % f->width)
        return err_set(
            e, ERR_INVALID,
            "'%.300s' has %llu bytes, expected a multiple of %u: little-endian ids of %u "
            "bits (--tokens-type)",
            f->path, (unsigned long long)n, f->width, 8 * f->width);
    f->n_tokens = n / f->width;
    f->n_sequences = f->n_tokens / (f->seq_len + 1);
    if (f->n_sequences == 0)
        return err_set(e, ERR_INVALID,
                       "'%.300s' has %llu tokens, expected at least %llu: a sequence and its last "
                       "target",
                       f->path, (unsigned long long)f->n_tokens,
                       (unsigned long long)f->seq_len + 1);
    at = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        return err_set(e, ERR_IO, "'%.300s': %s", f->path, strerror(errno));
    f->data = at;
    return 0;
}

int token_file_open(struct token_file *f, const char *path, unsigned width, uint64_t seq_len,
                    struct err *e)
{
    int fd = file_open_input(path, e), status;

    memset(f, 0, sizeof(*f));
    if (fd < 0)
        return -1;
    f->path = path;
    f->width = width;
    f->seq_len = seq_len;
    status = map(f, fd, e);
    close(fd);
    return status;
}

int token_file_check(struct token_file *f, uint64_t vocab, uint64_t n, struct err *e)
{
    uint64_t end = num_min(n, f->n_sequences) * (f->seq_len + 1);

    f->n_looked = end;
    for (uint64_t i = 0; i < end; i++)
        if (token(f, i) >= vocab)
            return err_set(e, ERR_INVALID,
                           "'%.300s': token %llu (at byte %llu) is %llu, expected less than the "
                           "vocabulary's %llu",
                           f->path, (unsigned long long)i, (unsigned long long)(i * f->width),
                           (unsigned long long)token(f, i), (unsigned long long)vocab);
    return 0;
}

void token_file_read(const struct token_file *f, uint64_t q, int64_t *inputs, int64_t *targets)
{
    uint64_t first = q % f->n_sequences * (f->seq_len + 1);

    for (uint64_t i = 0; i < f->seq_len; i++) {
        inputs[i] = (int64_t)token(f, first + i);
        targets[i] = (int64_t)token(f, first + i + 1);
    }
}

void token_file_close(struct token_file *f)
{
    if (f->data)
        munmap((void *)(uintptr_t)f->data, f->n_tokens * f->width);
    memset(f, 0, sizeof(*f));
}
