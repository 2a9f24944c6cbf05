/* layouts/layout.h - the layouts: who holds what, and when it moves. One row of the table a layout.
 *
 * A layout is a pure function of (plan, cluster): no GLPK, no clock, no I/O. To add one: add its
 * row (layouts/rows.c), and what a step has to do for it that no other needs (layouts/lower.c).
 */
#ifndef BALLAST_LAYOUTS_LAYOUT_H
#define BALLAST_LAYOUTS_LAYOUT_H

#include "model/plan/job_options.h"
#include "model/plan/placement.h"
#include "model/program/program.h"

/* Which layouts may keep several copies of what they cut, one a group of --shard-group ranks. */
enum group_rule {
    GROUPS_NONE,
    GROUPS_ELEMENTWISE, /* with an elementwise optimizer; one copy as long as nobody asks */
    GROUPS_NODE,        /* always; a copy a node as long as nobody asks */
};

struct layout {
    const char *name;       /* base name: "zero3" */
    const char *line;       /* what it is, in a line */
    enum strategy strategy; /* without a plus sign; in place of stock: optimizer_row.sharded */
    uint32_t allowed;       /* bit mask of 1u << enum strategy */
    enum place_rule rule;   /* how tensors are cut that no rank owns */
    enum group_rule groups;
    bool cut[COMPONENT_N];    /* over the shard group; else whole on every rank */
    bool nested;              /* by the factors of job.mesh instead, which nest */
    bool buckets;             /* whole gradients are reduced in calls of job.bucket_bytes */
    enum stream level_stream; /* of what follows the reduction in the last micro-batch */
};

/* All layouts, NULL-terminated. */
extern const struct layout *const layouts_all[];

/* What a name means: "owner", "zero3+stock", "zero1-owner", ... An elementwise optimizer has no
 * strategy; an optimizer of matrices has those of its row. Errors: unknown name (nearest
 * suggested), impossible pair. `full` gets the canonical name, in arena. */
int layout_resolve(const char *name, enum optimizer o, struct arena *a, const struct layout **l,
                   enum strategy *s, const char **full, struct err *e);
const struct layout *layout_find(const char *base);

/* The short names ("owner" = zero3+owner), for --layout list: alias, full, NULL-terminated pairs.
 */
struct layout_alias {
    const char *alias, *full;
};
extern const struct layout_alias layout_aliases[];

bool layout_has_groups(const struct layout *l, enum optimizer o);
/* Does it reduce gradients in calls of up to job.bucket_bytes? */
bool layout_has_buckets(const struct layout *l, enum strategy s);
/* Does a step end with a refresh of parameters that are whole on every rank? */
bool layout_refreshes(const struct layout *l);
/* Can gradients stay whole until the last micro-batch, where the layout cuts them? Not zero2's:
 * then it were zero1. */
bool layout_may_sync_last(const struct layout *l);
/* What decides which options a job under this layout has a use for. Borrows j and m. */
struct job_use layout_use(const struct layout *l, enum strategy s, const struct job *j,
                          const struct model *m);
/* The shard group that job.shard_group (0: as the layout has it) means for job.gpus ranks; 0: all.
 * Errors: a group that does not share out the ranks, or of a layout that has none. */
int layout_groups(const struct layout *l, const struct job *j, uint32_t gpus_per_node,
                  uint32_t *group, struct err *e);

/* Fill the plan's layout fields, shard group and factors, and the placement of everything but
 * owners (these are planner/'s): matrices by the layout's rule, tail by its rule, offsets of every
 * tensor in its unit's buffer. */
int layout_place(struct plan *plan, struct arena *a, struct err *e);

/* Bytes of t's states where all of them are (model/plan/optimizers.h). */
uint64_t layout_state_bytes(const struct job *j, const struct tensor *t);

/* Is t's state whole on every rank that updates it, though the rank keeps only a part of the
 * result? Preconditioners are no rows: where ranks rebuild and update the matrix (zero3+gather:
 * all; zero1+gather: those whose slice has a part), each needs all of them. */
bool layout_state_is_whole(const struct plan *plan, const struct tensor *t);

const char *strategy_name(enum strategy s);
const char *strategy_line(enum strategy s);
/* True when the plan's optimizer updates t as a matrix. */
bool layout_updates_as_matrix(const struct plan *plan, const struct tensor *t);
/* Owner strategies: is the unit's tail (vectors, router) one more segment on an owner? Units
 * without matrices (embedding, head) are cut by rows instead. */
bool layout_tail_is_owned(const struct plan *plan, uint32_t unit);

/* Bytes of parameter, gradient, state and master copy that the rank which owns tensor t holds of
 * it. */
uint64_t layout_resident_bytes(const struct plan *plan, const struct tensor *t);

/* What `part` of numel elements is of bytes, rounded up. part <= numel. */
uint64_t layout_share(uint64_t bytes, uint64_t part, uint64_t numel);
/* What every rank holds beside what it owns or its flat slice: parameters and gradients that are
 * not cut, chunks of what is. */
uint64_t layout_base_bytes(const struct plan *plan);
/* Optimizer FLOPs and resident bytes of every rank, [world] each, from a plan whose places are
 * complete. */
void layout_loads(const struct plan *plan, uint64_t *flops, uint64_t *bytes);

/* How evenly the ranks of a shard group hold the elements of what the layout cuts: rows, flat
 * slices, owned tensors. Padding does not count. All 0 where nothing is cut. O(tensors + ranks). */
struct layout_held {
    uint64_t most, least;
    double mean;
    uint32_t fullest, emptiest; /* ranks of the first shard group */
    uint32_t empty;             /* ranks of the world that hold nothing */
};
struct layout_held layout_held(const struct plan *plan);

/* Is this plan what its job's layout makes: names, factors, rules, offsets, one owner for a unit's
 * vectors, loads? For plans from files. ERR_INVALID with the first contradiction. */
int layout_check(const struct plan *plan, struct err *e);
/* plan_load(), then layout_check(). */
int layout_load_plan(const char *path, struct arena *a, struct plan *plan, struct err *e);

/* Lowers a complete plan (places, owners) to a program in arena a. */
int layout_lower(const struct plan *plan, struct arena *a, struct program *p, struct err *e);

/* What exec's proof compares with: a ddp plan whose gradients are the same sums in the layout's
 * order. */
struct layout_reference {
    bool every_micro; /* all-reduced before they are added up, as by layouts that cannot keep whole
                         gradients */
    /* Summed over the first set of axes of the layout's mesh, what comes out over the next, and so
     * on: none or one is a sum over all ranks at once. */
    const struct mesh *mesh; /* borrowed from the layout's plan */
    uint32_t n_levels;
    axis_set level[3];
};
void layout_reference(const struct plan *plan, struct layout_reference *as);
/* `plan` is ddp's, of the same world. */
int layout_lower_reference(const struct plan *plan, const struct layout_reference *as,
                           struct arena *a, struct program *p, struct err *e);

#endif
