/* planner/assign_inner.h - what the files behind planner/assign.h share. Not for other folders. */
#ifndef BALLAST_PLANNER_ASSIGN_INNER_H
#define BALLAST_PLANNER_ASSIGN_INNER_H

#include "planner/assign.h"

typedef unsigned __int128 assign_wide;

/* The two additive objectives, by index: weight 0 is flops, weight 1 is bytes. */
enum { ASSIGN_N_WEIGHTS = 2 };

static inline uint64_t assign_weight(const struct assign_item *it, uint32_t k)
{
    return k == 0 ? it->flops : it->bytes;
}

/* ---- planner/greedy.c: every function fills owner[n_items] ---- */

void greedy_round_robin(const struct assign_problem *p, uint32_t *owner);
/* LPT on weight k; items without that weight go after them, by bytes. */
void greedy_lpt(const struct assign_problem *p, uint32_t k, uint32_t *owner);
void greedy_lpt_numel(const struct assign_problem *p, uint32_t *owner);
void greedy_by_unit(const struct assign_problem *p, uint32_t *owner);
void greedy_by_scope(const struct assign_problem *p, uint32_t *owner);
void greedy_megatron(const struct assign_problem *p, uint32_t *owner);
/* Every unit spread over as many ranks as it can: the rank with the fewest send bytes of the unit, then the least
 * flops. For objectives that put ASSIGN_FANOUT first. */
void greedy_spread(const struct assign_problem *p, uint32_t *owner);
/* Place only the items with owner[i] == n_ranks, LPT on weight k on top of what is there. */
void greedy_fill(const struct assign_problem *p, uint32_t k, uint32_t *owner);

/* ---- planner/repair.c ---- */

/* Local search: while the heaviest rank in weight k is above `target`, move one of its items or swap it against an item
 * of another rank so that both end below the old maximum. In the weight j != k no changed rank may exceed limit[j]
 * (UINT64_MAX: none), or, when it did before, grow. Returns the new maximum of weight k. Deterministic; work is capped. */
uint64_t repair_level(const struct assign_problem *p, uint32_t k, uint64_t target,
                      const uint64_t limit[ASSIGN_N_WEIGHTS], uint32_t *owner);

/* ---- planner/deal.c ---- */

/* Largest send_bytes that one rank owns of one unit; and what no assignment can go below. */
uint64_t deal_fanout(const struct assign_problem *p, const uint32_t *owner);
uint64_t deal_fanout_bound(const struct assign_problem *p);
/* Exchange owners among items of equal flops and bytes so that the units are spread: no rank's load changes. */
void deal_units(const struct assign_problem *p, uint32_t *owner);
/* Item indices sorted by (-flops, -bytes, index); class_of[i] numbers equal (flops, bytes) in that order. Returns the
 * number of classes. Either pointer may be NULL. */
uint32_t deal_classes(const struct assign_problem *p, uint32_t *sorted, uint32_t *class_of);

#endif
