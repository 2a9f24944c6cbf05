#include "cli/progress.h"

#include <time.h>
#include <unistd.h>

static const double TERMINAL_AFTER_S = 0.5, TERMINAL_EACH_S = 0.1;
static const double LOG_AFTER_S = 3, LOG_EACH_S = 10;

static double clock_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void progress_begin_at(struct progress *p, const char *what, size_t n, FILE *to, bool terminal,
                       double now_s)
{
    *p = (struct progress){
        .to = to, .terminal = terminal, .what = what, .n = n, .start_s = now_s, .said_s = -1e9};
}

void progress_begin(struct progress *p, const char *what, size_t n)
{
    progress_begin_at(p, what, n, stderr, isatty(STDERR_FILENO), clock_s());
}

void progress_next_at(struct progress *p, const char *name, double now_s)
{
    double spent_s = now_s - p->start_s;
    size_t done = p->done++;

    if (spent_s < (p->terminal ? TERMINAL_AFTER_S : LOG_AFTER_S) ||
        now_s - p->said_s < (p->terminal ? TERMINAL_EACH_S : LOG_EACH_S))
        return;
    p->said_s = now_s;
    p->showing = p->terminal;
    fprintf(p->to, "%s%s %zu", p->terminal ? "\r\033[K" : "", p->what, p->done);
    if (p->n)
        fprintf(p->to, " of %zu", p->n);
    fprintf(p->to, " after %.0f s", spent_s);
    if (done && p->n)
        fprintf(p->to, ", about %.0f s more", spent_s / (double)done * (double)(p->n - done));
    fprintf(p->to, ": %s%s", name, p->terminal ? "" : "\n");
    fflush(p->to);
}

void progress_next(struct progress *p, const char *name)
{
    progress_next_at(p, name, clock_s());
}

void progress_end(struct progress *p)
{
    if (p->showing)
        fputs("\r\033[K", p->to);
    p->showing = false;
}
