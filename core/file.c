#include "core/file.h"
#include "core/mem.h"
#include "core/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int file_read(const char *path, uint64_t max_bytes, char **out, size_t *len, struct err *e)
{
    struct strbuf b;
    struct stat st;
    char chunk[1 << 16];
    size_t n;
    FILE *f = fopen(path, "rb");
    int rc = -1;

    *out = NULL;
    if (!f)
        return err_set(e, ERR_IO, "'%s': %s", path, strerror(errno));
    strbuf_init(&b);
    if (fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode)) {
        err_set(e, ERR_IO, "'%s' is a folder, expected a file", path);
        goto done;
    }
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0) {
        if (b.len + n > max_bytes) {
            err_set(e, ERR_IO, "'%s' is larger than %llu bytes", path,
                    (unsigned long long)max_bytes);
            goto done;
        }
        strbuf_add(&b, chunk, n);
    }
    if (ferror(f)) {
        err_set(e, ERR_IO, "'%s': %s", path, strerror(errno));
        goto done;
    }
    *len = b.len;
    *out = strbuf_detach(&b);
    rc = 0;
done:
    strbuf_release(&b);
    fclose(f);
    return rc;
}

static char *dup_text(const char *s)
{
    return memcpy(mem_alloc(strlen(s) + 1, 1), s, strlen(s) + 1);
}

static void out_release(struct file_out *o)
{
    mem_free(o->path);
    mem_free(o->real);
    mem_free(o->temp);
    memset(o, 0, sizeof(*o));
}

/* A new file beside `real`; the mode of the file that it will replace, else what umask says. */
static int open_temp(struct file_out *o, mode_t mode, int exists)
{
    size_t room = strlen(o->real) + 40;

    o->temp = mem_alloc(room, 1);
    for (int i = 0; i < 100; i++) {
        int fd;

        snprintf(o->temp, room, "%s.tmp-%ld-%d", o->real, (long)getpid(), i);
        fd = open(o->temp, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (fd >= 0) {
            if (exists && fchmod(fd, mode & 07777) != 0) {
                /* not our file system's habit: the new file keeps its own mode */
            }
            return fd;
        }
        if (errno != EEXIST)
            break;
    }
    return -1;
}

int file_out_open(struct file_out *o, const char *path, struct err *e)
{
    struct stat st;
    int exists, fd, saved;

    memset(o, 0, sizeof(*o));
    if (!*path)
        return err_set(e, ERR_EXTERNAL, "an empty file name cannot be written");
    o->path = dup_text(path);
    exists = stat(path, &st) == 0;
    if (exists && !S_ISREG(st.st_mode)) {
        o->f = S_ISDIR(st.st_mode) ? (errno = EISDIR, NULL) : fopen(path, "wb");
    } else {
        char *real = exists ? realpath(path, NULL) : NULL;

        o->real = dup_text(real ? real : path);
        free(real);
        fd = open_temp(o, exists ? st.st_mode : 0, exists);
        o->f = fd < 0 ? NULL : fdopen(fd, "wb");
        if (!o->f && fd >= 0) {
            saved = errno;
            close(fd);
            unlink(o->temp);
            errno = saved;
        }
    }
    if (!o->f) {
        err_set(e, ERR_EXTERNAL, "cannot write '%s': %s", path, strerror(errno));
        out_release(o);
        return -1;
    }
    return 0;
}

int file_out_commit(struct file_out *o, struct err *e)
{
    int bad, saved;

    errno = 0;
    bad = fflush(o->f) != 0 || ferror(o->f);
    saved = errno;
    if (fclose(o->f) != 0 && !bad) {
        bad = 1;
        saved = errno;
    }
    if (!bad && o->real && rename(o->temp, o->real) != 0) {
        bad = 1;
        saved = errno;
    }
    if (bad) {
        if (o->temp)
            unlink(o->temp);
        err_set(e, ERR_EXTERNAL, "cannot write '%s': %s", o->path,
                saved ? strerror(saved) : "write error");
    }
    out_release(o);
    return bad ? -1 : 0;
}

void file_out_abort(struct file_out *o)
{
    if (!o->f)
        return;
    fclose(o->f);
    if (o->temp)
        unlink(o->temp);
    out_release(o);
}

int file_write(const char *path, const char *data, size_t len, struct err *e)
{
    struct file_out o;

    if (file_out_open(&o, path, e))
        return -1;
    fwrite(data, 1, len, o.f); /* commit sees a failure */
    return file_out_commit(&o, e);
}
