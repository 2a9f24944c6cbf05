/* cli/command.h - the frame of the commands that take a model and a job: options, help, setup, output. */
#ifndef BALLAST_CLI_COMMAND_H
#define BALLAST_CLI_COMMAND_H

#include "cli/setup.h"
#include "core/strbuf.h"

struct command_frame {
    const char *usage;
    const struct opt *rows; /* the command's own options, with format and output */
    size_t n_rows;
    const char *layouts; /* the option that may say 'list' */
    const char *instead; /* an option that takes MODEL's place (plan), or NULL */
    /* Fills `out`, which the frame writes to --output (or stdout). Returns 0, 1 or -1. */
    int (*run)(struct setup *s, const struct opts *o, int argc, char **argv, struct strbuf *out,
               struct err *e);
    bool own_output; /* --output is the command's own business: `out` goes to stdout */
};

int command_run(const struct command_frame *f, int argc, char **argv, struct err *e);

#endif
