/* model/plan/job_options.h - the options of a job: one row each.
 *
 * A row says all that is known of an option: its name, values and default, the field of `struct
 * job` that holds it, its help, who has a use for it, whether exec runs it, and how a validation
 * covers it. Everything else is read off the table: the command line and its help, job files
 * (model/plan/job_read.c), plan files (model/plan/plan_job.c), what a layout makes neutral
 * (layouts/layout.c), what exec refuses, and the bands (cli/step_band.c). A new option is a row, a
 * field of `struct job`, and the code that uses the field.
 *
 * What a row leaves out refuses: without `use` every reader refuses the option by name, without
 * `exec` exec takes its neutral value alone, and without `band` a validation covers only the values
 * that its rows have. The rows stand in the order of the keys of a plan file; a new one goes before
 * the options about the model.
 */
#ifndef BALLAST_MODEL_PLAN_JOB_OPTIONS_H
#define BALLAST_MODEL_PLAN_JOB_OPTIONS_H

#include "core/opts.h"
#include "model/plan/plan.h"

#include <stddef.h>

/* Subjects of the help, in its order: enumerator and heading. */
#define JOB_GROUPS(X)                                                                              \
    X(GROUP_CLUSTER, "cluster and size")                                                           \
    X(GROUP_BATCH, "batch")                                                                        \
    X(GROUP_PRECISION, "precision")                                                                \
    X(GROUP_OPTIMIZER, "optimizer")                                                                \
    X(GROUP_LAYOUT, "layout and memory")                                                           \
    X(GROUP_OVERLAP, "overlap")                                                                    \
    X(GROUP_OWNERS, "owners")                                                                      \
    X(GROUP_FRAMEWORK, "framework and kernels")                                                    \
    X(GROUP_MODEL, "model")                                                                        \
    X(GROUP_OTHER, "price and files")
#define JOB_GROUP_ENUM(x, heading) x,
enum job_group { JOB_GROUPS(JOB_GROUP_ENUM) GROUP_N };
#undef JOB_GROUP_ENUM

/* How a field of struct job is stored. A choice is stored as its index in `opt.choices`, in an
 * enum or as a truth value. */
enum job_field { FIELD_NONE, FIELD_32, FIELD_64, FIELD_BOOL, FIELD_TEXT, FIELD_DOUBLE };

/* How a band looks at an option where the option has a use. */
enum job_band {
    BAND_VALUE,   /* a measured row must have the very value */
    BAND_BETWEEN, /* a size: between the smallest and the largest of the measured rows */
    BAND_BESIDE,  /* not looked at: other values say it, or no time depends on it */
};

/* What decides whether an option has a use: a job under one layout. layouts/layout.c fills it. */
struct job_use {
    const struct job *job;
    const struct model *model;
    enum strategy strategy;
    bool gathers_params; /* parameters are cut, and gathered unit by unit */
    bool has_buckets;    /* gradients are reduced in calls of up to `bucket` bytes */
    bool refreshes;      /* the step ends with an all-gather of parameters */
    bool may_sync_last;  /* gradients may stay whole until the last micro-batch */
    bool one_rank;
};

/* A text by value: why an option has no use (empty: it has one), or a key and its value. */
struct job_text {
    char s[200];
};

/* What a job is read from. */
struct job_reading {
    const struct opts *opts;
    const struct model *model;
    const struct cluster *cluster; /* a node of it, with as many GPUs as are used */
};

struct job_option {
    struct opt opt; /* the key of files is its name with underscores */
    enum job_group group;
    enum job_field field; /* with `at`: JOB_AT(member) */
    size_t at;
    /* Neutral value, which is the default: of numbers and choices; of texts it is `opt.dflt`. */
    uint64_t neutral;
    /* The default where it follows from the rest of the job; NULL: `neutral`. */
    uint64_t (*neutral_of)(const struct job *j);
    /* Who has a use for it; NULL: nobody, and every value but the neutral one is refused. */
    struct job_text (*use)(const struct job_use *u);
    /* Refuses a value that goes with nothing here, as "'A100' has no fp8"; NULL: none. `with`: the
     * option that it contradicts, which the command line's message quotes; NULL: none. */
    int (*check)(const struct job *j, const struct cluster *c, struct err *e);
    const char *with;
    /* Command line and job file: a reader of its own in place of the plain one. */
    int (*read)(const struct job_reading *r, const struct job_option *o, struct job *j,
                struct err *e);
    /* Plan files hold what this says in place of the field, and set it by the second. */
    uint64_t (*written)(const struct plan *p);
    void (*set)(struct job *j, uint64_t value);
    bool of_command;   /* each command has an option of its own by this name */
    bool always;       /* plan files always had it; other rows may be absent: neutral */
    bool unless_zero;  /* plan files have it only where it is not 0 */
    uint64_t lo, hi;   /* plan files take this range; hi 0: the option's own */
    uint32_t exec;     /* values that exec runs, a bit each; 0: the neutral one alone; EXEC_ALL */
    uint64_t exec_as;  /* what exec runs where the value is 0, which is auto; 0: as it says */
    bool exec_ignores; /* exec neither uses nor refuses it */
    enum job_band band;
    /* Adds to `to` what the job comes to, so that words of one meaning are one value, or nothing
     * where the option has no effect; NULL: the value itself. */
    void (*seen)(const struct plan *p, cJSON *to, const char *key);
};
#define EXEC_ALL UINT32_MAX

/* Row i of the table, or NULL past the last. */
const struct job_option *job_option_at(size_t i);
/* NULL-terminated: roles that a matrix optimizer may take by option. */
extern const char *const job_matrix_roles[];

/* The row of an option; an unknown name is a bug. */
const struct job_option *job_option(const char *name);

/* The name with underscores: the key in JSON. */
struct job_key {
    char s[40];
};
struct job_key job_option_key(const struct job_option *o);

/* The bucket where none is asked: bytes. */
uint64_t job_default_bucket(const struct job *j);

/* Adds the table to a command's options, group by group. */
void job_options_add(struct opts *o);

/* Is it yes or no, and in files true or false? */
bool job_option_is_truth(const struct job_option *o);
/* model/plan/job_fields.c. The value of a number, choice or truth value; of texts and prices use the fields. */
uint64_t job_option_get(const struct job_option *o, const struct job *j);
/* False where the field stands for "nothing given": no text, or 0 below the smallest value. */
bool job_option_has_value(const struct job_option *o, const struct job *j);
void job_option_put(const struct job_option *o, struct job *j, uint64_t value);
/* Have both jobs the same value? True for an option without a field. */
bool job_option_same(const struct job_option *o, const struct job *a, const struct job *b);
void job_option_make_neutral(const struct job_option *o, struct job *j);
bool job_option_is_neutral(const struct job_option *o, const struct job *j);
/* "reshard never", "fp8": key and value for messages. */
struct job_text job_option_show(const struct job_option *o, const struct job *j);
/* What exec runs of it: "attention auto or flash". */
struct job_text job_option_run(const struct job_option *o, const struct job *j);

/* Why the job under u's layout has no use for it. */
struct job_text job_option_unused(const struct job_option *o, const struct job_use *u);
/* The first row whose value contradicts the job or its cluster, with *e set to why; or NULL. */
const struct job_option *job_contradiction(const struct job *j, const struct cluster *c,
                                           struct err *e);
/* The first row whose value exec does not run, or NULL. */
const struct job_option *job_not_run(const struct job *j);

/* model/plan/job_read.c: fills a job from options that are parsed, all but what depends on size and
 * layout (nodes, gpus, shard-group, bucket, global-batch). Errors name the option as it was said. */
int job_read(const struct job_reading *r, struct job *j, struct err *e);

/* model/plan/plan_job.c: one option as a member of a JSON object; nothing where it has no field. */
void plan_add_option(cJSON *to, const struct plan *p, const struct job_option *o);
/* Refuses a job that contradicts itself or its cluster, as "job has fp8, but ...". */
int plan_check_job(const struct plan *p, struct err *e);

#endif
