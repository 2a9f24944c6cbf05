/* planner/assign.h - who owns which matrix.
 *
 * The pure problem, without models or clusters: items with a load (optimizer FLOPs), a size (resident bytes) and the
 * unit they belong to, placed whole on ranks 0..n_ranks-1. Lexicographic objectives: by default first the smallest
 * heaviest load, then the smallest heaviest byte count. Items with flops = 0 (owned tails) only count as bytes.
 *
 * Solvers (enum assign_method):
 *   ROUND_ROBIN   item i to rank i mod n, in the given order.
 *   LPT_NUMEL     longest-processing-time on numel, all items at once.
 *   ROLE_GREEDY   MatrixFSDP: unit by unit, the unit's items sorted by (-numel, index), each to the rank with the
 *                 least numel so far; loads are carried from unit to unit. (arXiv 2607.05895)
 *   SCOPE_GREEDY  MatrixFSDP: the same over all units at once.
 *   LPT_FLOPS     longest-processing-time on flops.
 *   MEGATRON      Megatron layer-wise: LPT on max(m,n)*min(m,n)^2, loads persist across units (buckets), and inside a
 *                 unit no rank may hold more than 1.3 x the unit's average numel while another rank is below it.
 *   ILP           LPT + move/swap repair as start, then the pattern ILP on GLPK: which counts of each load class one
 *                 rank holds, how many ranks use each pattern; bisect on the load level, then on bytes. Proves the
 *                 bound where the enumeration stays under its cap, else reports the best bound it has. Never worse
 *                 than any method above: the best of them is taken when it is better.
 *
 * Whatever the order asks, ILP breaks ties by the objectives it does not name: flops, bytes, fan-out. Among items of
 * equal flops and bytes it is free who gets which: it spreads the items of a unit over the ranks (planner/deal.c).
 * Items without weight in a method's key go last, by bytes.
 * All are deterministic: ties go to the lowest rank and lowest item index; limits are counted in patterns, nodes or
 * pivots, never in seconds.
 */
#ifndef BALLAST_PLANNER_ASSIGN_H
#define BALLAST_PLANNER_ASSIGN_H

#include "core/err.h"
#include "core/mem.h"
#include "model/plan/assign_names.h"

#include <stdbool.h>
#include <stdint.h>

struct assign_item {
    uint64_t flops; /* optimizer work of one step */
    uint64_t bytes; /* resident on its owner: parameter, gradient, states, master */
    uint64_t numel;
    uint64_t send_bytes; /* what its owner sends when its unit is gathered (parameter bytes) */
    uint32_t rows, cols;
    uint32_t unit;
};

struct assign_problem {
    const struct assign_item *items; /* [n_items], in parameter order */
    uint32_t n_items;
    uint32_t n_ranks;
    uint64_t base_bytes; /* resident on every rank beside its items */
    uint64_t
        capacity_bytes; /* 0: none. ILP: no rank exceeds it; when impossible the least excess comes before all
                                objectives, fits=false. The others ignore it and report fits */
    enum assign_objective order[4];
    uint32_t n_order;                                    /* 0: flops, bytes */
    double (*time_of)(void *ctx, const uint32_t *owner); /* only for ASSIGN_TIME; NULL otherwise */
    void *time_ctx;
    uint64_t max_patterns; /* 0: default cap on patterns per level */
    uint64_t max_pivots;   /* 0: default cap on simplex iterations per objective */
};

struct assign_result {
    uint32_t *owner;      /* [n_items], in arena */
    uint64_t *load_flops; /* [n_ranks], in arena */
    uint64_t *load_bytes; /* [n_ranks], in arena; base_bytes included */
    uint64_t flops_max, bytes_max;
    double flops_mean, bytes_mean;
    uint64_t fanout_max; /* largest send_bytes one rank owns of one unit */
    uint64_t
        value; /* the first objective's maximum (bytes: base_bytes included); 0 for ASSIGN_TIME */
    uint64_t bound;     /* its proven lower bound; 0 for ASSIGN_TIME */
    double gap_percent; /* 100*(value - bound)/bound; 0 when optimal; 0 when the bound is 0 */
    bool optimal;       /* value == bound; never for ASSIGN_TIME */
    bool
        optimal_second; /* ILP with flops and bytes as the first two: both are proven, in this order */
    double time;        /* time_of the answer when ASSIGN_TIME is in the order, else 0 */
    bool fits;          /* bytes_max <= capacity_bytes, or no capacity */
    const char *solver;  /* e.g. "pattern-ilp (glpk)", "lpt+swap", "role-greedy" */
    uint64_t n_patterns; /* enumerated */
    double
        solve_ms; /* wall time, for the talk only: never written into a plan that claims to be reproducible */
};

/* Solve with one method. Result in arena `a`. Errors: n_ranks = 0, sums beyond 2^63, an order that names an objective
 * twice, ASSIGN_TIME without time_of. O(n_items log n_items) for the
 * greedy ones; ILP bounded by its caps. n_items = 0 and n_items < n_ranks are fine. */
int assign_solve(const struct assign_problem *p, enum assign_method method, struct arena *a,
                 struct assign_result *r, struct err *e);

/* Lower bound of the first objective that needs no search. For flops and bytes: max(ceil(total/n), and for every k >= 0
 * the sum of the k+1 smallest of the k*n+1 largest items: some rank holds k+1 of those; k = 0 is the biggest item). For
 * fan-out: the biggest item and the even share of every unit. For time: 0. Cost O(n_items log n_items). n_ranks > 0,
 * sums below 2^63. */
uint64_t assign_bound(const struct assign_problem *p);

/* Recompute loads from owner[] and compare everything the result claims: owners in range, loads, maxima, fan-out,
 * bound <= value, flags. ERR_INVALID and the first contradiction when something is wrong. For tests and for readers of
 * plans that came from a file. */
int assign_check(const struct assign_problem *p, const struct assign_result *r, struct err *e);

const char *assign_method_name(enum assign_method m);

#endif
