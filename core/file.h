/* core/file.h - whole files in, whole files out.
 *
 * A file is written to a temporary name in the folder of the target and renamed on commit, so a reader sees the old
 * file or the new one and a failure leaves no half. A target that is there and not a regular file (/dev/null, a
 * pipe) is written directly. A symbolic link is followed, not replaced. The data is on the disk before the rename.
 * Errors name the path and the system's text: ERR_IO for reading, ERR_EXTERNAL for writing.
 *
 * A file that this process has read is not written, whatever its names: files are told by device and inode.
 */
#ifndef BALLAST_CORE_FILE_H
#define BALLAST_CORE_FILE_H

#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

/* Opens a file for reading and remembers that it is an input. Regular files and pipes; folders and devices are refused. Returns
 * a descriptor, or -1. */
int file_open_input(const char *path, struct err *e);
/* For a process that writes on purpose what it has read, as tests do. */
void file_forget_inputs(void);
/* Nothing that was read may be written: ERR_INVALID names both names of such a file. */
int file_check_output(const char *path, struct err *e);

/* Regular file or pipe of at most max_bytes. *out is owned by the caller (mem_free), has *len bytes and a NUL behind them. */
int file_read(const char *path, uint64_t max_bytes, char **out, size_t *len, struct err *e);
int file_write(const char *path, const char *data, size_t len, struct err *e);

/* The same in pieces, for output too long to keep: open, fprintf to f, then commit or abort. */
struct file_out {
    FILE *f;
    char *path; /* owned: as asked, for messages */
    char *real; /* owned: where the rename goes; NULL when written directly */
    char *temp; /* owned */
    int error;  /* errno of the first write that failed, where the writer saw it */
};
int file_out_open(struct file_out *o, const char *path, struct err *e);
int file_out_commit(struct file_out *o, struct err *e); /* releases o, also on failure */
void file_out_abort(struct file_out *o);                /* removes the temporary file, releases o */

/* Names of files to remove when a signal ends the program; the text must live until it is dropped. At most
 * FILE_MAX_TEMPORARY at a time, further ones are left behind. */
enum { FILE_MAX_TEMPORARY = 16 };
void file_temporary_add(const char *path);
void file_temporary_drop(const char *path);
/* Once, by a program's main: interrupts (SIGINT, SIGTERM, SIGHUP) remove temporary files and then end the program as they would;
 * a file that reaches a limit of its size (SIGXFSZ) is an error of writing. */
void file_clean_on_signals(void);

#endif
