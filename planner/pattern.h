/* planner/pattern.h - the smallest load level at which items of few sizes can be packed onto equal ranks.
 *
 * Items of the same weights form a class. A *pattern* says how many items of each class one rank holds; a packing is a
 * number of ranks per pattern. At a level T (the heaviest rank allowed) only maximal patterns matter (nothing more
 * fits), and of those only the ones that waste no more than n*T - total. Whether n of them cover all items is an
 * integer program with one row per class: planner/ilp.h answers it. Bisection on T finds the level, first with the
 * linear relaxation, then with integers.
 *
 * Where the patterns of a level are too many, those near the even share are taken and the ones the relaxation asks for
 * are added: the most valuable pattern under its duals is a knapsack (planner/knapsack.h), solved exactly, so the bound
 * stays a proof; the integer search over these columns then may miss a packing, and reports "unknown" instead of "no".
 *
 * What is proven, is proven in integers: duals y of the relaxation, cut to whole numbers Y, show that T is too low when
 * sum(count*Y) > n * max over patterns(sum a*Y). The same Y rules out most columns before the integer search.
 * Only "no integer packing" from GLPK's branch and bound rests on floating point (of a program whose coefficients are
 * small integers); the tests hold it against an exact dynamic program.
 *
 * After Gilmore and Gomory (1961) for cutting stock; the dual role of bins and level is Hochbaum and Shmoys (1987).
 */
#ifndef BALLAST_PLANNER_PATTERN_H
#define BALLAST_PLANNER_PATTERN_H

#include "core/err.h"
#include "core/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum pattern_dim { PATTERN_FLOPS, PATTERN_BYTES, PATTERN_N_DIMS };

#define PATTERN_NO_LIMIT    UINT64_MAX
#define PATTERN_MAX_CLASSES 32 /* beyond, the caller keeps its heuristic answer */

struct pattern_class {
    uint64_t weight[PATTERN_N_DIMS];
    uint32_t count;
};

struct pattern_problem {
    const struct pattern_class *classes; /* [n_classes] */
    uint32_t n_classes;
    uint32_t n_ranks;
    uint64_t
        limit[PATTERN_N_DIMS]; /* per rank; PATTERN_NO_LIMIT: none. The minimised one is ignored */
    uint64_t max_patterns;     /* per level */
    uint64_t max_pivots;       /* in all; a pivot over c columns counts as 1 + c/1000 */
};

struct pattern_answer {
    bool found;     /* a packing below `upper` */
    uint64_t value; /* its heaviest rank; `upper` when not found */
    uint32_t *
        count; /* [n_ranks][n_classes], in arena; NULL when not found. Classes without weight in the minimised
                        and the limited dimensions are left out: all zero */
    uint64_t bound;      /* no packing is below this; == value: optimal */
    uint64_t n_patterns; /* the most enumerated for one level */
    uint64_t n_pivots;
};

/* Search the levels lower <= T < upper of dimension `dim`. `lower` is a known lower bound, `upper` a level that the
 * caller can reach already. n_classes <= PATTERN_MAX_CLASSES. */
int pattern_minimise(const struct pattern_problem *p, enum pattern_dim dim, uint64_t lower,
                     uint64_t upper, struct arena *a, struct pattern_answer *out, struct err *e);

#endif
