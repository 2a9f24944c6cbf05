/* sim/bottleneck.h - flows over links, max-min fair, kept per link instead of per flow.
 *
 * For what simulators of networks call a flow: each link of its path carries as much as the flow moves, no cap.
 * sim/fluid.h runs on this when all activities are such; on sim/maxmin.h otherwise. The rates are the same, but for
 * rounding.
 *
 * Levels. A flow runs at its weight times the level of the link that *holds* it: a full link of its path on which no
 * user has a higher level (its bottleneck). A link whose own flows weigh w in all has the level (capacity - what its
 * other users take) / w. So a change of a level is one number, however many flows run at it. "Faster" below is of levels.
 *
 * Repair. What a flow that starts or ends changes is repaired link by link, the lowest level first: to *settle* a link
 * is to compute its level from those of its other users' holders; users that are faster than the level, and fresh
 * ones, are held by it from then on. Where its level has changed, the other links of its flows that hold someone, or
 * now carry more than they can, are settled in turn. When no link waits, every flow has a bottleneck: max-min fair.
 * The order is for speed only, the fixed point does not depend on it: the link with the lowest level of all cannot
 * depend on any other, the next only on that, and so on (as in networks whose switches each compute a share: A. Charny,
 * "An algorithm for rate allocation in a packet-switching network with feedback", 1994). Levels that differ by
 * rounding count as equal, so that links of one level do not hand flows to each other for ever.
 *
 * Virtual time, as in fair queueing (A. Parekh, R. Gallager, "A generalized processor sharing approach to flow
 * control", 1993). Each link that holds flows has a clock that runs as fast as its level. A flow ends when the clock of
 * its holder has gone on by what is left of it over its weight, so the order of ends among flows of one holder never changes: a heap
 * per link by the clock at the end, and one of all links by the time of their next end. A flow is touched when it
 * starts, when another link comes to hold it, and when it ends.
 *
 * Weights. A sum of weights keeps what its additions round off, so that it is right however much has come and gone. What
 * others take of a link is summed up to a relative 1e-15 of its capacity; for flows that weigh 10^k times less than all
 * users of their link, the level has k digits fewer, and levels that differ by less count as equal there. Hence the
 * limit BOTTLENECK_WEIGHTS of the heaviest over the lightest flow.
 *
 * Cost of a change: the links whose level changes times the links that hold their users (or these users, where they are
 * few), times a few cycles; not the flows whose rate changes (sim/bottleneck_tally.c).
 */
#ifndef BALLAST_SIM_BOTTLENECK_H
#define BALLAST_SIM_BOTTLENECK_H

#include <stdint.h>

static const double BOTTLENECK_WEIGHTS = 1e6; /* heaviest over lightest flow of a run, at most */

struct bottleneck; /* opaque */

/* n_links links of capacity 0; a path has at most max_path of them. */
struct bottleneck *bottleneck_new(uint32_t n_links, uint32_t max_path);
void bottleneck_free(struct bottleneck *b);
void bottleneck_capacity(struct bottleneck *b, uint32_t link, double capacity);

/* Time goes on to now_ps, which is not before what it was. */
void bottleneck_advance(struct bottleneck *b, int64_t now_ps);
/* When the next flow ends; INT64_MAX: none runs, or none of those that run ends before 2^63 ps at its rate of now. Its id, or
 * UINT32_MAX. */
int64_t bottleneck_next_ps(const struct bottleneck *b);
uint32_t bottleneck_next(const struct bottleneck *b);
/* All flows that end now leave. Returns how many; *ids lists them, valid until the next call. */
uint32_t bottleneck_take_ends(struct bottleneck *b, const uint32_t **ids);
/* A flow of `work` units and a weight > 0 starts now, over links[n] that differ, n > 0. Returns its slot; slots are used
 * again. */
uint32_t bottleneck_start(struct bottleneck *b, uint32_t id, const uint32_t *links, uint32_t n,
                          double work, double weight);
/* It leaves before its end. Not between its start and the next solve. */
void bottleneck_stop(struct bottleneck *b, uint32_t slot);
/* Bring levels and ends up to date. */
void bottleneck_solve(struct bottleneck *b);
/* After bottleneck_solve(). */
double bottleneck_rate(const struct bottleneck *b, uint32_t slot);

#endif
