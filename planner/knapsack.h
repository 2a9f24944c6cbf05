/* planner/knapsack.h - the most valuable pattern: how many items of each class one rank should hold.
 *
 * Bounded knapsack with up to two capacities, exact, by depth-first search: classes by value per weight, the fractional
 * filling of the rest as bound. Exponential in the worst case, so nodes are capped. Prices new columns for
 * planner/pattern.c where enumerating all patterns is too much.
 */
#ifndef BALLAST_PLANNER_KNAPSACK_H
#define BALLAST_PLANNER_KNAPSACK_H

#include <stdbool.h>
#include <stdint.h>

enum { KNAPSACK_MAX_CLASSES = 32, KNAPSACK_MAX_DIMS = 2 };

struct knapsack {
    uint32_t n_classes, n_dims;
    const uint64_t (*weight)[KNAPSACK_MAX_DIMS]; /* [n_classes] */
    const uint32_t *count;                       /* [n_classes] */
    const uint64_t *value;                       /* [n_classes]; sum count*value below 2^63 */
    uint64_t limit[KNAPSACK_MAX_DIMS];
};

/* best[n_classes] gets the counts, *worth their value. False when the node cap ended the search: then *worth is only
 * what was found. */
bool knapsack_best(const struct knapsack *k, uint64_t max_nodes, uint32_t *best, uint64_t *worth);

#endif
