/* layouts/step.h - the pieces of a step: forward, backward, and the optimizer's.
 *
 * A layout says what moves (struct movement) and calls the pieces in order; the pieces emit
 * operations, waits and buffer lives into one program. Streams as in FSDP2: units are gathered
 * ahead on the gather stream (`prefetch` units before the compute stream needs them), gradients
 * leave on the reduce stream, the compute stream does the rest.
 */
#ifndef BALLAST_LAYOUTS_STEP_H
#define BALLAST_LAYOUTS_STEP_H

#include "layouts/redistribute.h"

/* What moves in a step, and when. */
struct movement {
    enum coll_calls calls;  /* of gathers and reductions, by the framework */
    struct exchange gather; /* parameters of a unit, in forward and backward; group PROGRAM_NONE:
                               they are whole */
    struct exchange reduce; /* gradients of a unit or bucket */
    enum when reduce_when;  /* every micro-batch, or the last */
    bool reduce_after;      /* nothing computes beside reductions (job_reduces_after()) */
    bool full_grads; /* gradients of all parameters stay on every rank, and are reduced in place */
    /* What the last micro-batch leaves is reduced again: to the parts of the states, then over the
     * replicas. */
    struct exchange level[2];
    uint32_t n_levels;
    enum stream level_stream;
};

struct lower {
    const struct plan *plan;
    const struct layout *layout;
    const struct model *m;
    const struct job *j;
    uint32_t n;      /* world size */
    uint32_t shards; /* parts that states are cut into */
    struct arena *a;
    struct program *p;
    struct program_builder b;
    struct unit_graph *graphs; /* [n_classes] */
    struct movement move;
    uint32_t world,
        shard,  /* groups: all ranks; those that share the states (PROGRAM_NONE: they are whole) */
        tensor; /* those that share a layer's products (PROGRAM_NONE: each is alone) */
    uint32_t owner_table; /* of owners' segments; PROGRAM_NONE: not made yet */
    bool *kept;           /* [n_units]: stays gathered from forward to backward */
    bool *not_kept;
    /* ids of buffers; `weights` is what kernels read: gathered units, or the parameters themselves
     */
    uint32_t params, states, master, weights, padded, inputs, input_grads, grads, grad_shard,
        grad_owned, eager;
    uint32_t *scores,
        n_scores; /* buffers of what unfused attention holds while it runs, one a size */
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
    uint32_t reduce[6], n_reduce; /* owned and even part, of the reduction and of its levels */
    uint32_t optimizer_begin, optimizer_end;
};

int lower_begin(struct lower *l, const struct plan *plan, struct arena *a, struct program *p,
                struct err *e);
/* The group family of the ranks that differ in these coordinates alone: the world's where that is
 * all ranks, PROGRAM_NONE where it is one. */
uint32_t lower_group(struct lower *l, const struct mesh *m, axis_set over);
/* The collectives of an exchange: segments, then even parts, which are called NAME.tail beside
 * them. Kind, group, sizes and what is moved are set; buffers, streams and waits are not. Returns
 * how many there are. */
uint32_t exchange_ops(struct lower *l, const struct exchange *x, const char *name,
                      struct op ops[2]);
/* Resident parts of every rank: parameters, states, master copies; the layout's movement must be
 * set. */
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
    WORK_BY_SLICE, /* every rank whose flat slice touches it: its elements of it, the products of
                      the whole */
};
struct matrix_step {
    enum work_rule work;
    bool sharded;  /* gradients and states are cut by rows: elementwise work is 1/G of a matrix */
    bool products; /* stock: DTensor products on shards, operands gathered before each */
    bool gather_each; /* all-gather each matrix before its products */
    bool gather_once; /* momentum of all, one all-gather of all, and they are kept until the end */
    bool alltoall;    /* as many matrices of one shape as ranks at a time, one a rank and back */
    uint32_t cut_table; /* WORK_BY_SLICE: the parts of the matrices that boundaries cut; or
                           PROGRAM_NONE */
};
/* The matrix optimizer on all matrices. Nothing is emitted when there are none. */
void lower_matrix_step(struct lower *l, const struct matrix_step *s);
/* The elementwise optimizer on what is no matrix: the rank's share of the cut or replicated
 * tail, and owned tails. */
void lower_tail_step(struct lower *l);

/* ---- parts.c: who holds which bytes ---- */

/* Elements of one part of each unit's tensors that are cut by rows, padded (sum of room rows x
 * cols), or of all its tensors where `c` is not cut; `times` that. [n_units]; NULL when there are
 * none. */
uint64_t *part_even(const struct plan *plan, enum component c, uint64_t times, struct arena *a);
uint64_t part_unit_bytes(const struct plan *plan, uint32_t unit, enum dtype d);
/* Matrices of equal rows and columns: which shape (in the order of their first; PROGRAM_NONE: no
 * matrix), and the how many-th of it. +alltoall works ordinals k W to (k+1) W - 1 of a shape at a
 * time, ordinal mod W by that place. O(tensors x shapes). */
struct part_alike {
    uint32_t shape, ordinal;
};
void part_alike(const struct plan *plan, struct part_alike *alike); /* [n_tensors] */
/* The parts that hold some of a tensor's state: [first, first + n). */
struct part_holders {
    uint32_t first, n;
};
struct part_holders part_holders(const struct plan *plan, uint32_t tensor);
/* Owner segments of every unit, ordered by offset; neighbours of one owner merge. */
struct segment_table part_owner_segments(const struct plan *plan, struct arena *a);
/* The same without merging: a segment for each tensor that has an owner. */
struct segment_table part_owner_tensors(const struct plan *plan, struct arena *a);
/* Reduction buckets: in backward order, units are collected until `bucket` bytes are full; the
 * bytes of a bucket stand at the unit that completes it, 0 elsewhere. first_element[u], elements[u]
 * of the flat space. bucket 0: one a unit. */
struct bucket {
    uint64_t first, elements;
};
struct bucket *part_buckets(const struct plan *plan, uint64_t bucket_bytes, struct arena *a);
/* The flat slices that a bucket touches, as segments (ZeRO-1's reduction). */
struct segment_table part_slice_segments(const struct plan *plan, const struct bucket *buckets,
                                         struct arena *a);
/* Segments of the matrices that slice boundaries cut: each holder sends its part to the others. One
 * row. */
struct segment_table part_cut_segments(const struct plan *plan, struct arena *a);

#endif
