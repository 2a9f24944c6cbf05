/* core/opts.h - command-line options as tables: one table parses, validates and prints the help.
 *
 * A command adds one or more tables (the job options that all commands share, then its own), parses its arguments,
 * then may fill what the command line left open from a JSON object with the same names in underscores
 * (`--job FILE`): the command line wins, defaults lose. Accepted: --name value, --name=value, -o FILE, -oFILE,
 * flags (--name), `--` and positional arguments anywhere. Refused with one line (ERR_USAGE from the command line,
 * ERR_INVALID or ERR_UNKNOWN from JSON): unknown names (with the nearest), missing values, an option given twice,
 * values that do not parse or are out of range.
 *
 *     opts_init(&o);
 *     opts_add(&o, "Job options", job_options, n_job);
 *     opts_add(&o, "Options", own, n_own);
 *     if (opts_parse(&o, argc, argv, e)) ...            argv without program and command
 *     if (opts_get(&o, "job")->set) opts_apply_json(&o, &top, e) ...
 *     nodes = opts_get(&o, "nodes")->u64;
 */
#ifndef BALLAST_CORE_OPTS_H
#define BALLAST_CORE_OPTS_H

#include "core/err.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

enum opt_type {
    OPT_FLAG,      /* no value; u64 is 1 when given. In JSON: true or false */
    OPT_STRING,    /* text */
    OPT_U64,       /* digits only; u64 */
    OPT_COUNT,     /* 1k, 4Mi; u64 */
    OPT_BYTES,     /* 64MiB; u64 */
    OPT_DOUBLE,    /* d */
    OPT_BANDWIDTH, /* 200Gb/s; d in bytes/s */
    OPT_TIME,      /* 5us; d in seconds */
    OPT_CHOICE, /* one of choices; text is the list's spelling, u64 its index. yes,no also take JSON booleans */
    OPT_LIST,   /* a,b,c: list[n_list]; each one of choices when there are any */
    OPT_COUNTS, /* 1,2,4,8: list and u64s[n_list] */
};

struct opt {
    const char *name; /* without dashes */
    char letter;      /* or 0 */
    const char *
        alias; /* another name, not in the help: what a neighbouring command calls it; NULL: none */
    enum opt_type type;
    const char *meta; /* "N", "FILE"; NULL: from the type */
    const char *dflt; /* parsed as the value when nothing is given; NULL: none */
    const char *help;
    const char *dflt_note;      /* shown as the default when there is no dflt: "the cluster's" */
    const char *const *choices; /* NULL-terminated */
    uint64_t min, max;          /* integers (and list elements); max 0: no upper end */
    double lo, hi;              /* reals; hi 0: no upper end */
    bool cli_only;              /* not a key of a job file */
    bool
        own; /* ranks of a job may give values of their own (a file's name); all give one or none */
};
/* The usual row for help; opts_wants_help() sees it before parsing can fail. */
#define OPT_HELP_ROW                                                                               \
    {                                                                                              \
        .name = "help", .letter = 'h', .type = OPT_FLAG, .help = "print this help",                \
        .cli_only = true                                                                           \
    }

enum opt_from { OPT_UNSET = 0, OPT_FROM_JSON = 1, OPT_FROM_CLI = 2 };

struct opt_val {
    enum opt_from set; /* 0: default or nothing; text is NULL when there is neither */
    const char *text;
    uint64_t u64;
    double d;
    const char **list;
    uint64_t *u64s;
    size_t n_list;
};

struct opts {
    const struct opt **opt; /* [n] owned array of borrowed rows */
    struct opt_val *val;    /* [n] owned array; texts in arena */
    const char **heading;   /* [n] owned array: heading printed before row i, or NULL */
    size_t n, cap, cap_val, cap_heading;
    const char **pos; /* [n_pos] owned array: positional arguments, borrowed from argv */
    size_t n_pos, cap_pos;
    const char *json_file; /* in arena: of opts_apply_json(), or NULL */
    struct arena arena;
};

void opts_init(struct opts *o);
void opts_release(struct opts *o);
/* Append a table and fill in its defaults. A name or letter that is there already, or a default that does not
 * parse, is a bug. heading may be NULL. */
void opts_add(struct opts *o, const char *heading, const struct opt *rows, size_t n);

bool opts_wants_help(int argc, char *const *argv); /* --help or -h before any -- */
int opts_parse(struct opts *o, int argc, char *const *argv, struct err *e);
/* "expected one MODEL": refuses fewer than min or more than max positional arguments; what names them. */
int opts_positionals(const struct opts *o, size_t min, size_t max, const char *what, struct err *e);
/* Every key must be an option that is not cli_only; options set on the command line are checked but not changed. */
int opts_apply_json(struct opts *o, const struct json_at *at, struct err *e);
/* An option as the user wrote it, for messages: "--seq-len", or "'job.json': seq_len" where its value is from JSON. */
struct opts_said {
    char s[400];
};
struct opts_said opts_said(const struct opts *o, const char *name);
/* What a fault of it is: ERR_USAGE of the command line, ERR_INVALID of JSON. */
enum err_code opts_fault(const struct opts *o, const char *name);
/* Set one from text, as if typed (for presets); replaces any value and marks it as `from`. */
int opts_set(struct opts *o, const char *name, const char *text, enum opt_from from, struct err *e);

const struct opt_val *opts_get(const struct opts *o, const char *name); /* unknown name: a bug */
/* The value of row i, default or given, as text that is the same for the same value however it was typed; "not given". Of a row
 * that is a rank's own: whether there is one. */
void opts_show(const struct opts *o, size_t i, struct strbuf *to);
/* The values as JSON, keys with underscores: what was given and, when all is true, defaults. */
void opts_to_json(const struct opts *o, bool all, cJSON *to);

/* The table within 100 columns, with unit and default. */
void opts_help(FILE *f, const struct opts *o);

#endif
