/* exec/plant.h - faults on purpose, for tests: one rank dies, runs out of memory, makes MPI fail, gets stuck, or forgets
 * its updates, at the first operation of a phase. */
#ifndef BALLAST_EXEC_PLANT_H
#define BALLAST_EXEC_PLANT_H

#include "exec/run.h"

#define PLANT_KINDS(X)                                                                             \
    X(PLANT_NONE, "none")                                                                          \
    X(PLANT_KILL, "kill")   /* SIGKILL */                                                          \
    X(PLANT_OOM, "oom")     /* asks for more memory than there is */                               \
    X(PLANT_MPI, "mpi")     /* sends to a rank that does not exist */                              \
    X(PLANT_STALL, "stall") /* sleeps for ever */                                                  \
    X(PLANT_SKIP, "skip")   /* forgets the updates of the matrices that it owns */
#define PLANT_ENUM(k, name) k,
enum plant_kind { PLANT_KINDS(PLANT_ENUM) PLANT_N };
#undef PLANT_ENUM

struct plant {
    enum plant_kind kind;
    uint32_t rank;
    enum phase phase;
};

/* "KIND[:RANK[:PHASE]]"; rank 0 and forward (skip: optimizer) when they are not given. */
int plant_parse(const char *text, struct plant *p, struct err *e);
/* Refuses a rank or phase that the program does not have. */
int plant_fits(const struct plant *p, const struct program *program, struct err *e);
/* Before an operation of that phase. */
int plant_happen(const struct plant *p, const struct exec_run *r, enum phase phase, struct err *e);

#endif
