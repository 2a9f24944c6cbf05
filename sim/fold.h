/* sim/fold.h - instances that all activities of a run use alike, as one.
 *
 * A pattern that repeats on every node (direct sends that leave by some NICs of a node and not by others) names thousands of
 * instances one by one, though few differ. Two instances of a kind that stand in the same lists with the same amounts, and
 * have the same capacity, have the same users at all times, so the same level to the bit: one stands for both. Instances that
 * no list names are alike too.
 *
 * Classes come from a hash of what names an instance; each list is then held against them, and a kind where one is at odds
 * (two hashes that collide) is left as it is. Kinds without a long list are left as they are from the start.
 *
 * Cost: O(entries of all distinct lists), once. What it saves is that for every start, end and change of a rate.
 */
#ifndef BALLAST_SIM_FOLD_H
#define BALLAST_SIM_FOLD_H

#include "sim/fluid.h"

#include <stdbool.h>

enum { FOLD_LONG = 64 }; /* entries of a list that are worth a look at all lists */

struct fold; /* opaque */

/* Kinds of n[kind] instances each. */
struct fold *fold_new(const uint32_t *n, uint32_t n_kinds);
void fold_free(struct fold *f);
/* Before fold_close(): an instance with a capacity of its own; what an activity uses (borrowed). */
void fold_capacity(struct fold *f, uint32_t kind, uint32_t instance, double capacity);
void fold_note(struct fold *f, const struct fluid_use *uses, uint32_t n_uses);
void fold_close(struct fold *f);

/* After it: how many classes a kind has, which one an instance is in (in the order of their first instances), and uses that
 * were noted, with classes for instances (owned by f; the same pointer where nothing is folded). */
uint32_t fold_n(const struct fold *f, uint32_t kind);
uint32_t fold_class(const struct fold *f, uint32_t kind, uint32_t instance);
const struct fluid_use *fold_uses(const struct fold *f, const struct fluid_use *uses);

#endif
