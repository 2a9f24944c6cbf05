/* cli/command.h - the frame of the commands that take a model and a job: options, help, setup, output. */
#ifndef BALLAST_CLI_COMMAND_H
#define BALLAST_CLI_COMMAND_H

#include "cli/setup.h"
#include "core/strbuf.h"
#include "core/table.h"

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

/* A command without a job: options, help, and a result that goes to --output. */
struct plain_command {
    const char *usage;
    const struct opt *rows;
    size_t n_rows;
    const char *const
        *job_options; /* options of a job that it takes too, NULL at the end; or NULL */
    /* Fills `out`. Returns 0, 1 or -1. */
    int (*run)(const struct opts *o, struct arena *a, int argc, char **argv, struct strbuf *out,
               struct err *e);
    /* --list, which stands alone: what is bundled, a row each, called so in JSON ("models"); NULL: no such option. */
    const char *bundled;
    int (*list)(struct arena *a, struct table *t, struct err *e);
    const char *(*below)(struct arena *a); /* a line below the list for reading, or NULL */
};
int command_plain(const struct plain_command *c, int argc, char **argv, struct err *e);

/* The rows that every command ends with. */
#define COMMAND_OUTPUT_ROWS                                                                        \
    {.name = "format",                                                                             \
     .type = OPT_CHOICE,                                                                           \
     .choices = table_formats,                                                                     \
     .dflt = "table",                                                                              \
     .help = "of the result",                                                                      \
     .cli_only = true},                                                                            \
        {.name = "output",                                                                         \
         .letter = 'o',                                                                            \
         .type = OPT_STRING,                                                                       \
         .meta = "FILE",                                                                           \
         .dflt_note = "stdout",                                                                    \
         .help = "where the result goes",                                                          \
         .cli_only = true,                                                                         \
         .own = true},                                                                             \
        OPT_HELP_ROW

/* The row of the layouts that a command takes several of. */
#define COMMAND_LAYOUTS_ROW(note, text)                                                            \
    {                                                                                              \
        .name = "layouts", .letter = 'l', .alias = "layout", .type = OPT_LIST, .meta = "A,B,...",  \
        .dflt_note = note, .help = text                                                            \
    }

#endif
