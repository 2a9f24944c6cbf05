#include "core/file.h"
#include "core/mem.h"
#include "core/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *dup_text(const char *s)
{
    return memcpy(mem_alloc(strlen(s) + 1, 1), s, strlen(s) + 1);
}

/* ---- inputs ---- */

/* Of the process: a target may be an input of a part of the program that knows nothing of the one that writes. */
static struct input {
    dev_t dev;
    ino_t ino;
    char *path;
} * inputs; /* owned, never released */
static size_t n_inputs, cap_inputs;
static pthread_mutex_t inputs_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct input *find_input(const struct stat *st)
{
    for (size_t i = 0; i < n_inputs; i++)
        if (inputs[i].dev == st->st_dev && inputs[i].ino == st->st_ino)
            return &inputs[i];
    return NULL;
}

static void note_input(const struct stat *st, const char *path)
{
    pthread_mutex_lock(&inputs_lock);
    if (!find_input(st)) {
        inputs = mem_grow(inputs, &cap_inputs, n_inputs + 1, sizeof(*inputs));
        inputs[n_inputs++] = (struct input){st->st_dev, st->st_ino, dup_text(path)};
    }
    pthread_mutex_unlock(&inputs_lock);
}

static const char *read_as(const char *path)
{
    const struct input *x;
    const char *name;
    struct stat st;

    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return NULL;
    pthread_mutex_lock(&inputs_lock);
    x = find_input(&st);
    name = x ? x->path : NULL;
    pthread_mutex_unlock(&inputs_lock);
    return name;
}

void file_forget_inputs(void)
{
    pthread_mutex_lock(&inputs_lock);
    for (size_t i = 0; i < n_inputs; i++)
        mem_free(inputs[i].path);
    mem_free(inputs);
    inputs = NULL;
    n_inputs = cap_inputs = 0;
    pthread_mutex_unlock(&inputs_lock);
}

int file_check_output(const char *path, struct err *e)
{
    const char *input = read_as(path);

    if (input)
        return err_set(e, ERR_INVALID, "'%s' is the input '%s'; expected another file to write",
                       path, input);
    return 0;
}

int file_open_input(const char *path, struct err *e)
{
    struct stat st;
    int fd;

    /* a device or a pipe without a writer may not return from being opened */
    if (stat(path, &st))
        return err_set(e, ERR_IO, "'%s': %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return err_set(e, ERR_IO, "'%s' is a folder, expected a file", path);
    if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) || S_ISSOCK(st.st_mode))
        return err_set(e, ERR_IO, "'%s' is a device, expected a file", path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        err_set(e, ERR_IO, "'%s': %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (S_ISREG(st.st_mode))
        note_input(&st, path);
    return fd;
}

/* Reads to the end; `room`: bytes that are allowed. */
static int read_all(int fd, const char *path, uint64_t room, struct strbuf *b, struct err *e)
{
    char chunk[1 << 16];
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size > room)
        return err_set(e, ERR_IO, "'%s' is larger than %llu bytes", path, (unsigned long long)room);
    while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, ERR_IO, "'%s': %s", path, strerror(errno));
        if (b->len + (size_t)n > room)
            return err_set(e, ERR_IO, "'%s' is larger than %llu bytes", path,
                           (unsigned long long)room);
        strbuf_add(b, chunk, (size_t)n);
    }
    return 0;
}

int file_read(const char *path, uint64_t max_bytes, char **out, size_t *len, struct err *e)
{
    int fd = file_open_input(path, e), rc;
    struct strbuf b;

    *out = NULL;
    if (fd < 0)
        return -1;
    strbuf_init(&b);
    rc = read_all(fd, path, max_bytes, &b, e);
    if (!rc) {
        *len = b.len;
        *out = strbuf_detach(&b);
    }
    strbuf_release(&b);
    close(fd);
    return rc;
}

/* ---- what does not stay when a signal ends the program ---- */

static const char *volatile temporary[FILE_MAX_TEMPORARY];

void file_temporary_add(const char *path)
{
    for (int i = 0; i < FILE_MAX_TEMPORARY; i++)
        if (!temporary[i]) {
            temporary[i] = path;
            return;
        }
}

void file_temporary_drop(const char *path)
{
    for (int i = 0; i < FILE_MAX_TEMPORARY; i++)
        if (temporary[i] == path)
            temporary[i] = NULL;
}

static void clean(int sig)
{
    for (int i = 0; i < FILE_MAX_TEMPORARY; i++)
        if (temporary[i])
            unlink(temporary[i]);
    signal(sig, SIG_DFL);
    raise(sig);
}

void file_clean_on_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction act = {.sa_handler = clean}, was;

    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (!sigaction(ends[i], NULL, &was) && was.sa_handler == SIG_DFL) /* nohup's stay ignored */
            sigaction(ends[i], &act, NULL);
    signal(SIGXFSZ, SIG_IGN);
}

/* ---- outputs ---- */

static void out_release(struct file_out *o)
{
    mem_free(o->path);
    mem_free(o->real);
    if (o->temp)
        file_temporary_drop(o->temp);
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
            file_temporary_add(o->temp);
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
    if (file_check_output(path, e))
        return -1;
    o->path = dup_text(path);
    exists = stat(path, &st) == 0;
    if (!exists && lstat(path, &st) == 0 &&
        S_ISLNK(st.st_mode)) { /* a rename would replace the link */
        err_set(e, ERR_EXTERNAL, "cannot write '%s': a link to a file that is not there", path);
        out_release(o);
        return -1;
    }
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
    bad = fflush(o->f) != 0 || ferror(o->f) ||
          (o->real && fsync(fileno(o->f)) != 0 && errno != EINVAL && errno != ENOTSUP);
    saved = o->error ? o->error : errno;
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
    errno = 0;
    if (fwrite(data, 1, len, o.f) != len)
        o.error = errno;
    return file_out_commit(&o, e);
}
