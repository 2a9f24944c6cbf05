/* exec/plant.h - faults on purpose, for tests. At the first operation of a phase one rank dies,
 * runs out of memory, makes MPI fail or gets stuck: the job has to end. Or it goes on with wrong
 * numbers, which the check has to find: it forgets its updates or its states, spoils what the
 * gathers of owner segments brought it for unit 1 (of the only one), or makes its part of the mean
 * of gradients too large. */
#ifndef BALLAST_EXEC_PLANT_H
#define BALLAST_EXEC_PLANT_H

#include "exec/run.h"

#define PLANT_KINDS(X)                                                                             \
    X(PLANT_NONE, "none")                                                                          \
    X(PLANT_KILL, "kill")   /* SIGKILL */                                                          \
    X(PLANT_OOM, "oom")     /* asks for more memory than there is */                               \
    X(PLANT_MPI, "mpi")     /* sends to a rank that does not exist */                              \
    X(PLANT_STALL, "stall") /* sleeps for ever */                                                  \
    X(PLANT_SKIP, "skip")   /* forgets the updates of the matrices that it owns */                 \
    X(PLANT_SHIFT, "shift") /* puts the unit's first segment an element too far */                 \
    X(PLANT_STALE, "stale") /* keeps from the first step on what it gathered */                    \
    X(PLANT_SUM, "sum")     /* leaves a sum where it has to leave the mean of what it reduces */   \
    X(PLANT_TWICE, "twice") /* leaves twice the mean */                                            \
    X(PLANT_LOSE, "lose")   /* does not keep its optimizer states */
#define PLANT_ENUM(k, name) k,
enum plant_kind { PLANT_KINDS(PLANT_ENUM) PLANT_N };
#undef PLANT_ENUM

struct plant {
    enum plant_kind kind;
    uint32_t rank;
    enum phase phase;
};

/* "KIND[:RANK[:PHASE]]"; rank 0 and forward (skip: optimizer) when they are not given. What spoils
 * numbers has no phase, but for skip. */
int plant_parse(const char *text, struct plant *p, struct err *e);
/* Refuses a rank, a phase or gathers of owner segments that the program does not have, and fewer
 * steps than show it. */
int plant_fits(const struct plant *p, const struct program *program, uint64_t steps, struct err *e);
/* Of run_options: RUN_RIGHT when the plant is no fault of numbers. */
enum run_fault plant_fault(const struct plant *p);
/* Before an operation of that phase. */
int plant_happen(const struct plant *p, const struct exec_run *r, enum phase phase, struct err *e);

/* After a gather of segments: RUN_SHIFT and RUN_STALE, where this rank has them. */
void plant_gather(struct exec_run *r, const struct instance *i, const struct coll_call *c);

#endif
