/* model/plan/plan.h - a plan: model, cluster and job as resolved, and where every tensor lives. docs/PLAN.md describes the
 * file. Same input, same bytes: no time, no argv inside. */
#ifndef BALLAST_MODEL_PLAN_PLAN_H
#define BALLAST_MODEL_PLAN_PLAN_H

#include "model/cluster/cluster.h"
#include "model/plan/job.h"
#include "model/plan/mesh.h"
#include "model/tensors/model.h"

#include "core/json.h"

/* How a tensor is cut over the ranks of a factor. */
enum place_rule {
    PLACE_REPLICATED,
    PLACE_CHUNK, /* ceil(rows/G) rows each along dim 0, as FSDP2 */
    PLACE_FLAT,  /* equal slices of the flat concatenation of all tensors, as ZeRO-1 */
    PLACE_OWNER, /* whole, on `owner` */
};
const char *place_rule_name(enum place_rule r);

struct placement {
    enum place_rule rule;
    uint32_t owner;  /* PLACE_OWNER: the number of a part, see placement_index() */
    uint64_t offset; /* bytes, of the tensor in its unit's buffer (parameter dtype) */
};

/* What there is of a tensor: the parameter, its gradient (summed over micro-batches), and the state of
 * its optimizer, master copy included. WHOLE stands for no cut where a part is meant. */
enum component { PARAM, GRAD, STATE, COMPONENT_N, WHOLE = COMPONENT_N };

/* What the matrix optimizer does where its matrices are cut. */
#define STRATEGIES(X)                                                                              \
    X(STRATEGY_REPLICATED, "")             /* every rank updates every matrix (ddp) */             \
    X(STRATEGY_STOCK, "stock")             /* DTensor products on shards */                        \
    X(STRATEGY_GATHER, "gather")           /* gather a matrix, update it everywhere */             \
    X(STRATEGY_GATHER_ONCE, "gather-once") /* all matrices at once */                              \
    X(STRATEGY_ALLTOALL, "alltoall")       /* W matrices at a time, one a rank */                  \
    X(STRATEGY_OWNER, "owner")             /* whole on one rank */
#define STRATEGY_ENUM(s, name) s,
enum strategy { STRATEGIES(STRATEGY_ENUM) STRATEGY_N };
#undef STRATEGY_ENUM

struct plan {
    struct model model;        /* as a tensor-parallel rank sees it; layouts cut it further */
    const struct model *whole; /* as published; NULL: as `model` */
    struct cluster cluster;
    struct job job;
    const char *layout;      /* base name: "zero3" */
    const char *layout_full; /* canonical: "zero3+owner" */
    enum strategy strategy;
    uint32_t world;
    struct factor factor[COMPONENT_N]; /* how the layout cuts each component; in the plan file */
    struct mesh mesh;
    axis_set over[COMPONENT_N +
                  1]; /* of the mesh, that a component is cut over; 0: whole on every rank */
    struct placement *
        place; /* [n_tensors] how a component that is cut is cut; extents: model/plan/placement.h */
    /* how it was solved */
    const char *solver;
    uint64_t flops_max, bytes_max, bound;
    double flops_mean, bytes_mean, gap_percent;
    bool optimal, reproducible, over_capacity;
    uint64_t *load_flops,
        *load_bytes; /* [world]; bytes: parameters, gradients, states, master resident on the rank */
    double solve_ms; /* for the summary only, not in the file */
};

/* The model as published. */
static inline const struct model *plan_whole(const struct plan *p)
{
    return p->whole ? p->whole : &p->model;
}

/* Makes `model` what a tensor-parallel rank sees of it, once; the world and the job are set. ERR_INVALID: a degree that does not divide
 * the ranks, a node's GPUs, heads or widths, or the tokens of sequence parallelism; ERR_UNSUPPORTED: layers that are not cut. */
int plan_slice(struct plan *p, struct arena *a, struct err *e);

static inline uint32_t plan_data_ranks(const struct plan *p)
{
    return job_data_ranks(&p->job);
}

/* Do owners' updates travel as the framework sends them? Known is that only where each rank needs all of them after the step. */
bool plan_gathers_as_framework(const struct plan *p);
/* Is it a layout of owners where each rank needs all updates after the step? */
bool plan_sends_updates(const struct plan *p);

/* The plan file as a tree; loads must be filled. */
cJSON *plan_to_json(const struct plan *p);
/* Strict: unknown keys, values out of range and sums that do not hold are refused, naming file and key. Everything but
 * solve_ms comes back. Rules and loads that need a layout's knowledge: layout_check(). */
int plan_from_json(const char *text, size_t len, const char *file, struct arena *a, struct plan *p,
                   struct err *e);
int plan_load(const char *path, struct arena *a, struct plan *p, struct err *e);

#endif
