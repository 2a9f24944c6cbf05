/* sim/maxmin.h - max-min fair rates of the activities that run now, kept up to date as they come and go. For runs of plain
 * flows there is sim/bottleneck.h.
 *
 * Each activity has a level phi: its rate over its weight. An instance (a link, a device) is full when the sum of
 * amount * weight * phi over its users is its capacity. A set of levels is max-min fair when no instance is overfull
 * and every activity has reached its cap or is *held*: it uses a full instance on which no one has a higher level.
 *
 * Progressive filling finds the levels in ascending order: the instance with the lowest level fills first and holds
 * its users. After a change only part of that has to be done again (the bottleneck ordering of Ros-Giralt et al.,
 * "On the Bottleneck Structure of Congestion-Controlled Networks", 2019): an activity is *loose* while its level is
 * being searched for; the loose set starts with the new activities and with those held by an instance that lost a
 * user. Filling then goes up from the lowest level, and at each step, at level L,
 *   - an instance that fills at L while a settled user of it has more than L makes that user loose, then tries again;
 *   - otherwise its loose users settle at L; where that changed their level, those held above L by another instance
 *     of theirs become loose.
 * In the end, an instance on which users settled higher than before is checked: those above may be too high then.
 * Levels are found in ascending order and only activities above the current one become loose, so each becomes loose at
 * most once per solve; whoever is out of reach keeps its level to the bit. Candidates wait in a heap under a lower
 * bound of their level (equal shares for all, or what the loose had before); the exact one is computed when the bound
 * comes to the top, which for most never happens.
 *
 * The short way: most changes reach no further than one instance. Where fresh activities and those that an instance
 * holds can all move to the level at which they fill it, and every other instance of theirs holds no one else and has
 * room for that (what its users take is added up as they move), this is the same answer, and nothing waits in a heap.
 * Tried first, and only for instances that no `every` use touches; bits are the same, since the level is added up alike.
 *
 * Folding: an `every` use is one constraint (`rest`: all instances that nobody singles out) plus one constraint for
 * each instance that an `only` of a running activity or a capacity of its own singles out. The level of an instance
 * is a sum over its users in ascending order of their ids, so it has the same bits in every instance with the same
 * users, folded or not. Known weakness: where levels tie but for rounding, which of them settles first may depend on
 * the changes before, and then rates differ in the last bits (once in 10^4 random solves full of ties, most where one form goes the
 * short way and the other does not); rounding to picoseconds (fluid.h) absorbs it.
 *
 * Cost of a solve: the instances that touch a loose activity, times their users, times log.
 */
#ifndef BALLAST_SIM_MAXMIN_H
#define BALLAST_SIM_MAXMIN_H

#include "sim/fluid.h"

#include <stdint.h>

struct maxmin; /* opaque */

struct maxmin *maxmin_new(void);
void maxmin_free(struct maxmin *m);
/* A kind of n instances; returns its index, from 0 up. Then single instances that differ. */
uint32_t maxmin_kind(struct maxmin *m, uint32_t n, double capacity);
void maxmin_capacity(struct maxmin *m, uint32_t kind, uint32_t instance, double capacity);

/* A new activity, named by `id` (unique among those that run). Returns a slot for it, UINT32_MAX when nothing holds
 * it. weight > 0; cap 0: none. Its rate is valid after maxmin_solve(). Slots of ended activities are used again. */
uint32_t maxmin_start(struct maxmin *m, uint32_t id, const struct fluid_use *uses, uint32_t n_uses,
                      double weight, double cap);
void maxmin_end(struct maxmin *m, uint32_t slot);

/* Bring the rates up to date. Returns how many changed; *slots lists them (some twice), valid until the next call. */
uint32_t maxmin_solve(struct maxmin *m, const uint32_t **slots);
double maxmin_rate(const struct maxmin *m, uint32_t slot);
uint32_t maxmin_id(const struct maxmin *m, uint32_t slot);

#endif
