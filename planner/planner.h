/* planner/planner.h - from (model, cluster, job) to a complete plan: layout, places, owners.
 *
 * Matrices whose strategy is `owner` are placed by assign.h; the vectors of a unit go along as one item without FLOPs.
 * Capacity is what a rank may hold resident: the device's memory less context and what every rank holds anyway.
 */
#ifndef BALLAST_PLANNER_PLANNER_H
#define BALLAST_PLANNER_PLANNER_H

#include "model/plan/plan.h"
#include "planner/assign.h"

/* Simulated step time of a candidate plan, for --objective time; handed in by the caller, since planner/ does not know
 * the simulator. Returns seconds, or INFINITY when it cannot be simulated. */
struct planner_time {
    double (*step_s)(void *ctx, const struct plan *plan);
    void *ctx;
};

/* Fill `plan` from what it already holds: model, cluster (resized) and job. Everything is in arena. `time` may be NULL
 * unless the objective names time. Errors: unknown layout, planner or objective (nearest suggested), impossible pairs. */
int planner_plan(struct plan *plan, const struct planner_time *time, struct arena *a,
                 struct err *e);

/* Parse "flops,bytes" into an order; unknown or repeated names are refused. */
int planner_objectives(const char *text, enum assign_objective *order, uint32_t *n, struct err *e);
int planner_method(const char *name, enum assign_method *m, struct err *e);

#endif
