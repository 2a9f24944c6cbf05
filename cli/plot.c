#include "cli/plot.h"

#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void plot_quote(struct strbuf *b, const char *s)
{
    strbuf_putc(b, '\'');
    for (; *s; s++) {
        if (*s == '\'')
            strbuf_putc(b, '\'');
        strbuf_putc(b, (unsigned char)*s < ' ' || *s == 0x7f ? ' ' : *s);
    }
    strbuf_putc(b, '\'');
}

/* Run gnuplot on the text; its own complaints are dropped, the status counts. */
static int run_gnuplot(const struct strbuf *text, struct err *e)
{
    int to[2], status;
    size_t done = 0;
    pid_t pid;

    if (pipe(to))
        return err_set(e, ERR_EXTERNAL, "cannot start gnuplot: %s", strerror(errno));
    pid = fork();
    if (pid < 0) {
        close(to[0]);
        close(to[1]);
        return err_set(e, ERR_EXTERNAL, "cannot start gnuplot: %s", strerror(errno));
    }
    if (pid == 0) {
        dup2(to[0], 0);
        close(to[0]);
        close(to[1]);
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(126);
        execlp("gnuplot", "gnuplot", "-", (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    while (done < text->len) { /* main ignores SIGPIPE */
        ssize_t k = write(to[1], text->s + done, text->len - done);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            break;
        done += (size_t)k;
    }
    close(to[1]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return err_set(e, ERR_EXTERNAL,
                       "gnuplot is not installed; install gnuplot-nox, or leave --plot away");
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return err_set(e, ERR_EXTERNAL, "gnuplot failed; can the picture's folder be written?");
    return 0;
}

/* What a whole file ends with: gnuplot does not say when a disk is full. */
static const char SVG_END[] = "</svg>";
static const unsigned char PNG_END[] = {'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};

static int check_whole(const char *path, const void *end, size_t n, struct err *e)
{
    char tail[16];
    int fd = open(path, O_RDONLY);
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    bool whole = false;
    ssize_t got;

    /* line feeds may follow */
    for (off_t behind = 0; fd >= 0 && behind < 4 && !whole && size >= (off_t)n + behind; behind++) {
        got = pread(fd, tail, n, size - (off_t)n - behind);
        whole = got == (ssize_t)n && !memcmp(tail, end, n);
    }
    if (whole && fsync(fd) && errno != EINVAL && errno != ENOTSUP)
        whole = false;
    if (fd >= 0)
        close(fd);
    return whole ? 0 : err_set(e, ERR_EXTERNAL, "gnuplot left no whole picture; is the disk full?");
}

int plot_write(const char *prefix, plot_script script, const void *ctx, struct err *e)
{
    static const char *const ends[] = {"svg", "png"};
    static const char *const terminals[] = {
        "svg enhanced font \"Helvetica,12\" background \"white\"",
        "pngcairo enhanced font \"Helvetica,12\""};
    char *temporary[2], *final[2];
    struct strbuf text;
    struct arena a;
    int status = -1;

    if (!*prefix || prefix[strlen(prefix) - 1] == '/')
        return err_set(e, ERR_INVALID, "--plot '%s' names no file; expected a name without .svg",
                       prefix);
    for (const char *c = prefix; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return err_set(e, ERR_INVALID, "--plot: the name holds a control character");
    arena_init(&a);
    strbuf_init(&text);
    for (int i = 0; i < 2; i++) {
        final[i] = arena_printf(&a, "%s.%s", prefix, ends[i]);
        temporary[i] = arena_printf(&a, "%s.tmp.%ld.%s", prefix, (long)getpid(), ends[i]);
        script(&text, terminals[i], temporary[i], ctx);
    }
    for (int i = 0; i < 2; i++)
        if (file_check_output(final[i], e)) {
            err_prefix(e, "--plot");
            goto out;
        }
    for (int i = 0; i < 2; i++)
        file_temporary_add(temporary[i]);
    if (run_gnuplot(&text, e)) {
        err_prefix(e, "'%s.svg'", prefix);
        goto out;
    }
    for (int i = 0; i < 2; i++)
        if (check_whole(temporary[i], i ? (const void *)PNG_END : SVG_END,
                        i ? sizeof(PNG_END) : strlen(SVG_END), e)) {
            err_prefix(e, "cannot write '%s'", final[i]);
            goto out;
        }
    for (int i = 0; i < 2; i++)
        if (rename(temporary[i], final[i])) {
            err_set(e, ERR_EXTERNAL, "cannot write '%s': %s", final[i], strerror(errno));
            goto out;
        }
    status = 0;
out:
    for (int i = 0; i < 2; i++) {
        if (status)
            unlink(temporary[i]);
        file_temporary_drop(temporary[i]);
    }
    strbuf_release(&text);
    arena_release(&a);
    return status;
}
