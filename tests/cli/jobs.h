/* tests/cli/jobs.h - jobs made from options as a user says them, up to the plan; and for each row of the options values that
 * are not its default. */
#ifndef BALLAST_TESTS_CLI_JOBS_H
#define BALLAST_TESTS_CLI_JOBS_H

#include "cli/evaluate.h"
#include "cli/setup.h"
#include "layouts/layout.h"
#include "planner/planner.h"
#include "tests/suite.h"

#include <string.h>

static const char with_head[] = "block:layers=2,hidden=64,ffn=256,heads=4,mlp=swiglu,vocab=512",
                  bare[] = "block:layers=3,hidden=64,ffn=256,heads=4";

struct base {
    const char *model, *layout;
    const char *given[4][2]; /* option and value */
};

/* What a user sees of a job. */
struct made {
    struct arena a;
    struct setup s;
    struct opts o;
    struct plan plan;
    struct err e;
    bool set_up;
    int status; /* -1: refused, with e */
};

/* The base with one option as `value` (NULL: as it is) from the command line or a job file, up to the plan. */
static inline void make(struct made *m, const struct base *b, const char *option, const char *value,
                        enum opt_from from)
{
    const struct opt_val *nodes;

    memset(m, 0, sizeof(*m));
    arena_init(&m->a);
    opts_init(&m->o);
    job_options_add(&m->o);
    m->o.json_file = from == OPT_FROM_JSON ? "job.json" : NULL;
    for (int i = 0; i < 4 && b->given[i][0]; i++)
        ck_assert_int_eq(opts_set(&m->o, b->given[i][0], b->given[i][1], OPT_FROM_CLI, &m->e), 0);
    m->status = option ? opts_set(&m->o, option, value, from, &m->e) : 0;
    if (!m->status)
        m->status = setup_init(&m->s, &m->o, b->model, &m->e);
    if (m->status)
        return;
    m->set_up = true;
    nodes = opts_get(&m->o, "nodes");
    m->status = setup_check_used(&m->s, (const char *const[]){b->layout}, 1, &m->e) ||
                        setup_plan(&m->s, nodes->set ? nodes->u64s[0] : 0, b->layout, &m->a,
                                   &m->plan, &m->e) ||
                        planner_plan(&m->plan, &evaluate_time, &m->a, &m->e)
                    ? -1
                    : 0;
}

static inline void unmake(struct made *m)
{
    if (m->set_up)
        setup_release(&m->s);
    opts_release(&m->o);
    arena_release(&m->a);
}

/* Values that are not the default: the words of a choice, and a number or text of each other option. */
static inline const char *value_of(const struct job_option *o, int i)
{
    static const char *const values[][2] = {
        {"nodes", "2"},       {"gpus", "4"},          {"ns-steps", "3"},    {"seq-len", "48"},
        {"target-len", "40"}, {"micro-batch", "2"},   {"grad-accum", "4"},  {"prefetch", "0"},
        {"bucket", "8KiB"},   {"objective", "bytes"}, {"shard-group", "4"}, {"ns-batch", "1MiB"},
        {"price", "3"},       {"mesh", "p=1x1"},      {"tp", "2"},          {"pp", "2"},
        {"ep", "2"}};
    int n = 0;

    for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++)
        if (!strcmp(values[k][0], o->opt.name) && n++ == i)
            return values[k][1];
    if (n || o->opt.type != OPT_CHOICE)
        return NULL;
    for (int c = 0; o->opt.choices[c]; c++)
        if ((!o->opt.dflt || strcmp(o->opt.choices[c], o->opt.dflt) != 0) && n++ == i)
            return o->opt.choices[c];
    return NULL;
}

/* Jobs, among which each option has a use. */
static const struct base bases[] = {
    {with_head, "owner", {{"gpus", "8"}, {"seq-len", "32"}}},
    {with_head, "zero3", {{"gpus", "8"}, {"seq-len", "32"}, {"grad-accum", "3"}}},
    {with_head, "zero1", {{"gpus", "8"}, {"seq-len", "32"}}},
    {with_head, "hsdp", {{"gpus", "16"}, {"seq-len", "32"}}},
    {with_head, "ddp", {{"gpus", "8"}, {"seq-len", "32"}}},
    {"block:layers=2,hidden=4096,ffn=16384,heads=32",
     "owner",
     {{"gpus", "8"}, {"cluster", "dgx-h100"}}},
    {"t5-11b", "owner", {{"gpus", "8"}, {"seq-len", "64"}}},
    {with_head, "zero1", {{"gpus", "8"}, {"seq-len", "32"}, {"tp", "2"}}},
};
enum { N_BASES = sizeof(bases) / sizeof(bases[0]) };

/* The base without what it says of an option: of nodes, without GPUs. */
static inline struct base without(const struct base *b, const char *name)
{
    struct base x = *b;

    for (int k = 0; k < 4 && x.given[k][0]; k++)
        if (!strcmp(x.given[k][0], name) ||
            (!strcmp(name, "nodes") && !strcmp(x.given[k][0], "gpus"))) {
            x.given[k][0] = "micro-batch";
            x.given[k][1] = "1";
        }
    return x;
}

/* Options that have one value in this version, and those that are parts of a plan file by other names. */
static inline bool one_value(const char *name)
{
    static const char *const names[] = {"pp", "ep", "mesh"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

#endif
