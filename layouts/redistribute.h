/* layouts/redistribute.h - from one placement to another: what moves, among whom.
 *
 * A component is cut over a set of axes of the mesh (model/plan/placement.h). Changing that set is
 * one collective, and which one follows from the two sets alone:
 *
 *     parts over more axes -> over fewer      all-gather over the difference (of owners' matrices:
 * segments) partial sums -> parts over more axes    reduce-scatter over the difference (owners,
 * flat slices: segments) partial sums -> the same parts          all-reduce over all other axes
 *
 * A layout is a list of such changes and when each happens (layouts/lower.c); layouts/step.c puts
 * them into the program.
 */
#ifndef BALLAST_LAYOUTS_REDISTRIBUTE_H
#define BALLAST_LAYOUTS_REDISTRIBUTE_H

#include "layouts/layout.h"

/* What moves for each unit. Tensors that are cut by rows, or not at all, travel as even parts,
 * those that owners or flat slices hold as segments; a unit may have both. */
struct exchange {
    enum component from, to;
    struct wire wire;
    uint32_t group; /* PROGRAM_NONE: nothing moves */
    enum coll_kind even_kind, segment_kind;
    const uint64_t *even;  /* [n_units] elements of all parts, padded; NULL: there are none */
    uint32_t table;        /* of segments, or PROGRAM_NONE: there are none */
    enum coll_algo algo;   /* of segments */
    uint64_t piece;        /* calls of up to so many elements; 0: one call */
    const uint64_t *first; /* struct moved */
};

/* For a step without the change: nothing moves. */
struct exchange redistribute_nothing(void);

struct lower;
/* Elements of dtype `d`, cut as `from` is, become cut as `to` is. `sums`: what the ranks have are
 * partial sums of them, over the axes that the change is over; where from is to, over all axes that
 * it is not cut over. `bucket`: partial sums of whole gradients are collected over units until so
 * many bytes are full, in the order of backward; 0: a unit at a time. */
struct exchange redistribute(struct lower *l, enum component from, enum component to, bool sums,
                             enum dtype d, uint64_t bucket);

#endif
