/* exec/owners.h - the optimizer steps of all ranks of a plan, one rank after another, on the one device at hand: what balance
 * between owners comes to in time, without the ranks. */
#ifndef BALLAST_EXEC_OWNERS_H
#define BALLAST_EXEC_OWNERS_H

#include "exec/backend.h"
#include "model/plan/plan.h"

struct owner_time {
    double s; /* measured: Muon's momentum, products and update of each matrix of the rank's list */
    uint64_t flops; /* of the products, as the plan counts them */
    uint32_t n;     /* matrices */
};

/* times: [world], least of `repeats` rounds over all ranks each, after one that does not count.
 * Matrices get random numbers; memory: of the largest one. ERR_UNSUPPORTED when the plan's
 * optimizer has no Newton-Schulz that exec runs; ERR_EXTERNAL from the device. */
int owners_replay(const struct plan *plan, const struct program *p, struct backend *b,
                  uint32_t repeats, struct owner_time *times, struct err *e);
/* The same times predicted: fn says what a call takes. */
void owners_predict(const struct program *p, double (*fn)(void *ctx, const struct kernel_call *k),
                    void *ctx, double *seconds);

#endif
