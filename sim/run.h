/* sim/run.h - one simulated step, between building it (sim.c, op_time.c) and reading it (predict.c, memory.c, trace.c). */
#ifndef BALLAST_SIM_RUN_H
#define BALLAST_SIM_RUN_H

#include "sim/collective.h"
#include "sim/fluid.h"
#include "sim/sim.h"

/* One activity: an instance of all ranks, or of the ranks of one class. */
struct task {
    struct instance id;
    uint32_t class_id;                /* or PROGRAM_NONE: all */
    bool joint;                       /* no operation: the end of a loop over own items */
    const struct coll_activity *coll; /* of a collective */
    int64_t host_ps;                  /* of a collective: what the framework's host adds to it */
};

struct run {
    const struct program *p;
    const struct cluster *c;
    struct fluid *f; /* owned; task i is activity i */
    struct coll_cache cache;
    struct task *tasks; /* owned [n_tasks] */
    uint32_t n_tasks;
    size_t cap_tasks;
    uint32_t n_classes;
    uint32_t *class_of; /* owned [world] */
    uint32_t *rep;      /* owned [n_classes] */
    bool unfold, serial;
    const struct framework_costs *framework; /* or NULL */
    double *
        stretch; /* [PHASE_N][n_classes of units] in arena: launch-bound layers take longer; NULL: none */
    struct arena arena;
};

int run_program(struct run *r, const struct program *p, const struct cluster *c,
                const struct sim_options *o, struct err *e);
void run_release(struct run *r);

/* op_time.c: r->stretch; a kernel's time with what goes with it; what the host adds to a collective. */
void run_find_stretch(struct run *r);
struct kernel_time run_kernel_time(const struct run *r, const struct op *o,
                                   const struct kernel_call *call);
int64_t run_host_ps(const struct run *r, const struct op *o, const struct instance *i);

/* memory.c: walk the reserves and releases of a finished run. */
void run_memory(const struct run *r, struct sim_memory *m);

#endif
