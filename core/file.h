/* core/file.h - whole files in, whole files out.
 *
 * A file is written to a temporary name in the folder of the target and renamed on commit, so a reader sees the old
 * file or the new one and a failure leaves no half. A target that is there and not a regular file (/dev/null, a
 * pipe) is written directly. A symbolic link is followed, not replaced. No fsync: this is for results, not for
 * databases. Errors name the path and the system's text: ERR_IO for reading, ERR_EXTERNAL for writing.
 */
#ifndef BALLAST_CORE_FILE_H
#define BALLAST_CORE_FILE_H

#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

/* Regular file or pipe; refuses folders and more than max_bytes. *out is owned by the caller (mem_free), has *len
 * bytes and a NUL behind them. */
int file_read(const char *path, uint64_t max_bytes, char **out, size_t *len, struct err *e);
int file_write(const char *path, const char *data, size_t len, struct err *e);

/* The same in pieces, for output too long to keep: open, fprintf to f, then commit or abort. */
struct file_out {
    FILE *f;
    char *path; /* owned: as asked, for messages */
    char *real; /* owned: where the rename goes; NULL when written directly */
    char *temp; /* owned */
};
int file_out_open(struct file_out *o, const char *path, struct err *e);
int file_out_commit(struct file_out *o, struct err *e); /* releases o, also on failure */
void file_out_abort(struct file_out *o);                /* removes the temporary file, releases o */

#endif
