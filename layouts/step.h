/* layouts/step.h - the part of a step that layouts share: forward, backward, and the optimizer's pieces.
 *
 * A layout says what moves (struct movement) and calls the pieces in order; the pieces emit operations, waits and
 * buffer lives into one program. Streams as in FSDP2: units are gathered ahead on the gather stream (`prefetch` units
 * before the compute stream needs them), gradients leave on the reduce stream, the compute stream does the rest.
 */
#ifndef BALLAST_LAYOUTS_STEP_H
#define BALLAST_LAYOUTS_STEP_H

#include "layouts/layout.h"

/* What moves for a unit. Even parts go by all-gather and reduce-scatter (or all-reduce), owner parts by segments; a unit
 * may have both. All tables are indexed by unit; an empty row means that nothing moves. */
struct movement {
    bool gather;                  /* parameters are cut: gather in forward and backward */
    const uint64_t *gather_bytes; /* [n_units] even, padded, or NULL */
    uint32_t gather_table;        /* segment table or PROGRAM_NONE */
    const uint64_t *reduce_bytes; /* [n_units] even, or NULL */
    enum coll_algo reduce_algo;   /* of the segments; the job's `gather` where they are owners' */
    enum coll_kind reduce_kind;   /* of the even part: ALL_REDUCE or REDUCE_SCATTER */
    uint32_t reduce_group;        /* the shard group, or all ranks */
    uint32_t reduce_table;        /* segment table or PROGRAM_NONE */
    uint64_t piece_bytes;         /* bucket of the reduction; 0: one call a unit */
    enum when reduce_when;        /* every micro-batch, or the last */
    bool reduce_after;            /* nothing computes beside reductions (job_reduces_after()) */
    bool full_grads;              /* gradients of all parameters stay on every rank */
    const uint64_t *grad_bytes;   /* [n_units] even part of a rank's reduced gradients of a unit */
    uint32_t
        grad_table; /* ... and its owned part (segments in gradient bytes), or PROGRAM_NONE. Where
                            * gradients stay whole both are read for `replicate` alone */
    /* The last micro-batch's reduced gradients are all-reduced over the copies, on this stream; COMPUTE: there is one copy,
     * or reduce_group has all ranks. */
    enum stream replicate;
};

struct lower {
    const struct plan *plan;
    const struct model *m;
    const struct job *j;
    uint32_t n;      /* world size */
    uint32_t shards; /* ranks that share one copy of what is cut */
    struct arena *a;
    struct program *p;
    struct program_builder b;
    struct unit_graph *graphs; /* [n_classes] */
    struct movement move;
    /* groups: all ranks; those that share a copy (PROGRAM_NONE: each has one); those in the same place of different copies
     * (PROGRAM_NONE: there is one copy) */
    uint32_t world, shard, replica;
    bool *kept; /* [n_units]: stays gathered from forward to backward */
    bool *not_kept;
    /* ids of buffers; `weights` is what kernels read: gathered units, or the parameters themselves */
    uint32_t params, states, master, weights, padded, inputs, input_grads, grads, grad_shard,
        grad_owned, eager;
    uint32_t n_scores; /* buffers of what unfused attention holds while it runs, one a size */
    /* what a unit makes for later ones: its buffers, the first and last unit that reads it */
    struct {
        uint32_t value, grad, first, last;
    } carried[CARRIED_N];
    uint32_t (*values)[GRAPH_MAX_VALUES];
    uint32_t (*value_grads)[GRAPH_MAX_VALUES];
    /* ids of operations that others wait for */
    uint32_t refresh[2],
        n_refresh; /* of the step before, that forward waits for; a layout's that overlaps it */
    uint32_t forward_begin, forward_end, backward_end;
    uint32_t reduce[4], n_reduce; /* owned and even part, in the group and over copies */
    uint32_t optimizer_begin, optimizer_end;
};

int lower_begin(struct lower *l, const struct plan *plan, struct arena *a, struct program *p,
                struct err *e);
/* Makes the groups of `shards` neighbours; lower_begin() does with the plan's. */
void lower_groups(struct lower *l, uint32_t shards);
/* Resident parts of every rank: parameters, states, master copies; the layout's movement must be set. */
void lower_resident(struct lower *l);
void lower_forward_backward(struct lower *l);
void lower_optimizer_begin(struct lower *l);
void lower_optimizer_end(struct lower *l);
int lower_end(struct lower *l, struct err *e);

/* ---- optimizer.c, optimizer_tail.c ---- */

/* Which ranks work which matrices. */
enum work_rule {
    WORK_ALL,      /* every rank, every matrix */
    WORK_BY_OWNER, /* the owner */
    WORK_BY_SLICE, /* every rank whose flat slice touches it: its elements of it, the products of the whole */
};
struct matrix_step {
    enum work_rule work;
    bool sharded;  /* gradients and states are cut by rows: elementwise work is 1/G of a matrix */
    bool products; /* stock: DTensor products on shards, operands gathered before each */
    bool gather_each; /* all-gather each matrix before its products */
    bool gather_once; /* momentum of all, one all-gather of all, and they are kept until the end */
    bool alltoall;    /* as many matrices of one shape as ranks at a time, one a rank and back */
    uint32_t
        cut_table; /* WORK_BY_SLICE: the parts of the matrices that boundaries cut; or PROGRAM_NONE */
};
/* The matrix optimizer on all matrices. Nothing is emitted when there are none. */
void lower_matrix_step(struct lower *l, const struct matrix_step *s);
/* The elementwise optimizer on what is no matrix: the rank's share of the cut or replicated
 * tail, and owned tails. */
void lower_tail_step(struct lower *l);

/* ---- parts.c: who holds which bytes ---- */

/* A unit's bytes when every tensor that is cut by rows has G chunks, padded: G * sum ceil(rows/G)*cols. */
uint64_t part_chunk_bytes(const struct plan *plan, uint32_t unit, enum dtype d);
/* ... of every unit, over `divide` [n_units]; NULL when nothing is cut so. */
uint64_t *part_chunk_table(const struct plan *plan, enum dtype d, uint64_t divide, struct arena *a);
uint64_t part_unit_bytes(const struct plan *plan, uint32_t unit, enum dtype d);
/* Bytes of a unit that owners send to one rank, or get from one: what they own of it, with --gather padded the largest
 * share from each of the G ranks. */
uint64_t part_owned_bytes(const struct plan *plan, uint32_t unit, enum dtype d);
/* Matrices of equal rows and columns: which shape (in the order of their first; PROGRAM_NONE: no matrix), and the how many-th of it.
 * +alltoall works ordinals k W to (k+1) W - 1 of a shape at a time, ordinal mod W by that place. O(tensors x shapes). */
struct part_alike {
    uint32_t shape, ordinal;
};
void part_alike(const struct plan *plan, struct part_alike *alike); /* [n_tensors] */
/* Elements of the flat slice of a rank (ZeRO-1): slices of ceil(total/G). */
uint64_t part_slice(const struct plan *plan);
/* Owner segments of every unit, in `d` bytes, ordered by offset; neighbours of one owner merge. */
struct segment_table part_owner_segments(const struct plan *plan, enum dtype d, struct arena *a);
/* Reduction buckets: in backward order, units are collected until `bucket` bytes are full; the bytes of a bucket stand
 * at the unit that completes it, 0 elsewhere. first_element[u], elements[u] of the flat space. bucket 0: one a unit. */
struct bucket {
    uint64_t first, elements;
};
struct bucket *part_buckets(const struct plan *plan, uint64_t bucket_bytes, struct arena *a);
/* The flat slices that a bucket touches, as segments (ZeRO-1's reduction). */
struct segment_table part_slice_segments(const struct plan *plan, const struct bucket *buckets,
                                         enum dtype d, struct arena *a);
/* Segments of the matrices that slice boundaries cut: each holder sends its part to the others. One row. */
struct segment_table part_cut_segments(const struct plan *plan, enum dtype d, struct arena *a);

#endif
