/* cli/progress.h - how far a long command is, on stderr.
 *
 * Nothing is said of work that is done soon. Then, on a terminal, one line that is written over and is gone at the end;
 * elsewhere (a log, a pipe) a line of its own now and then. stdout is never touched, and no result depends on it.
 */
#ifndef BALLAST_CLI_PROGRESS_H
#define BALLAST_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct progress {
    FILE *to;
    bool terminal;
    const char *what; /* one piece of work: "fit"; borrowed */
    size_t n, done;   /* pieces */
    double start_s, said_s;
    bool showing; /* a line that is to be written over */
};

/* n pieces of work begin now, to be told on stderr; 0: nobody knows how many. */
void progress_begin(struct progress *p, const char *what, size_t n);
/* The next piece, called `name`, begins. */
void progress_next(struct progress *p, const char *name);
void progress_end(struct progress *p);

/* The same at a given time, in seconds, to any file: what tests call. */
void progress_begin_at(struct progress *p, const char *what, size_t n, FILE *to, bool terminal,
                       double now_s);
void progress_next_at(struct progress *p, const char *name, double now_s);

#endif
