/* model/plan/placement.h - who holds what: the only arithmetic of shards, owners and padding.
 *
 * A tensor has one rule (struct placement, model/plan/plan.h) and a component of it (the parameter,
 * its gradient, its optimizer state) is cut by that rule over the component's axes of the mesh, or
 * whole on every rank where it has none. Planner, layouts, traffic, plan files and exec read
 * extents from here and divide nothing themselves.
 *
 * A part over several axes is cut again and again: ceil(rows / size of d0) rows over d0, of those
 * ceil(... / size of d1) over d1, and so on, so that a part over more axes lies within the part
 * over fewer. What the rounding up leaves over is padding at the end.
 */
#ifndef BALLAST_MODEL_PLAN_PLACEMENT_H
#define BALLAST_MODEL_PLAN_PLACEMENT_H

#include "model/plan/plan.h"

/* Elements [first, first + n) of a tensor, and the room that they have where each rank's part is
 * padded to the same size. */
struct extent {
    uint64_t first, n, room;
};

/* What a rank holds of a component. O(axes). */
struct extent placement_extent(const struct plan *p, uint32_t tensor, enum component c,
                               uint32_t rank);

/* Into how many parts a component is cut: 1 where it is whole everywhere. */
uint32_t placement_parts(const struct plan *p, enum component c);
/* The number of the part that a rank has, below placement_parts(). An owner is such a number. */
uint32_t placement_index(const struct plan *p, enum component c, uint32_t rank);
/* Rows that a part of a tensor has room for, cut by rows; elements of a flat part. */
uint64_t placement_rows(const struct plan *p, const struct tensor *t, enum component c);
uint64_t placement_slice(const struct plan *p, enum component c);

/* The parts of a component that are not empty, in the order of their elements: parts [part, part +
 * n) have `each` elements, one after another from `first` on. Runs of equal parts come as one.
 * O(runs); a cut over one axis has at most three. */
struct placement_run {
    uint32_t part, n;
    uint64_t first, each;
};
void placement_runs(const struct plan *p, uint32_t tensor, enum component c,
                    void (*fn)(void *ctx, const struct placement_run *run), void *ctx);
/* The same of elements [from, to) of the concatenation of all tensors, which PLACE_FLAT cuts;
 * `first` counts from `from` on. */
void placement_flat_runs(const struct plan *p, uint64_t from, uint64_t to, enum component c,
                         void (*fn)(void *ctx, const struct placement_run *run), void *ctx);

/* The factor of n data ranks in a row: a node's, or whole nodes. */
struct factor placement_factor(const struct plan *p, uint32_t n);
/* Sets the plan's mesh from its factors, its shard group and its world: nested factors, or the
 * shard group where a component is cut. ERR_INVALID: factors that do not nest. */
int placement_set_mesh(struct plan *p, struct err *e);

#endif
