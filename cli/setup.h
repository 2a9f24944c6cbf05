/* cli/setup.h - what plan, sim, compare and recommend share: the job options, and from them a model, a cluster and a job. */
#ifndef BALLAST_CLI_SETUP_H
#define BALLAST_CLI_SETUP_H

#include "model/plan/job_options.h"
#include "model/plan/plan.h"
#include "sim/sim.h"

struct setup {
    const struct opts *opts;
    struct arena arena;
    struct model model;
    struct cluster cluster; /* one node; see setup_plan */
    struct job job;         /* but for nodes, gpus, layout and what depends on them */
    bool
        whole_nodes; /* a size is what setup_plan() is told, whatever a job file says of nodes and GPUs */
    bool some_have_groups; /* of the layouts that setup_check_used() saw: --shard-group is theirs */
    bool some_take_mesh;   /* ... and --mesh, which the others are then not held to */
};

/* Read --job, the model and the cluster. On failure nothing is left to release. */
int setup_init(struct setup *s, struct opts *o, const char *model, struct err *e);
void setup_release(struct setup *s);

/* A plan with model, cluster and job resolved for one size and layout, ready for planner_plan(). `nodes` 0: from --gpus,
 * else 1. Everything is in `a`. Errors: impossible pairs of --nodes and --gpus, a global batch that does not divide. */
int setup_plan(const struct setup *s, uint64_t nodes, const char *layout, struct arena *a,
               struct plan *plan, struct err *e);

/* An option was given that none of these layouts uses (--gather without owners, --bucket without buckets, ...). Before
 * setup_plan() for any of them. */
int setup_check_used(struct setup *s, const char *const *layouts, size_t n, struct err *e);

/* What a file says of another (a cluster, a model): a relative path (it has a slash or ends in .json) is relative to the
 * file's folder; a name stays one. */
const char *setup_path(const char *file, const char *what, struct arena *a);

/* setup_list.c: prints all layouts and optimizers with one line each. */
void setup_list_layouts(struct strbuf *out);

#endif
