/* planner/ilp.h - a small integer program, solved by somebody else's library.
 *
 *     minimise sum x_j   subject to   row_min <= A x <= row_max,  0 <= x_j <= col_max,  x_j integer
 *
 * All data are integers, so every answer is checked again in integers before it is given out. Limits are counted in
 * pivots and nodes: the same program gives the same answer on a slow and on a fast machine.
 * planner/ilp_glpk.c is the only file that knows GLPK.
 */
#ifndef BALLAST_PLANNER_ILP_H
#define BALLAST_PLANNER_ILP_H

#include "core/err.h"
#include "core/mem.h"

#include <stdbool.h>
#include <stdint.h>

#define ILP_FREE INT64_MAX /* row_max, col_max: no limit */

struct ilp {
    uint32_t n_rows, n_cols;
    const uint32_t *a;      /* [n_cols][n_rows], dense: these programs have few rows */
    const int64_t *row_min; /* [n_rows], >= 0 */
    const int64_t *row_max; /* [n_rows], ILP_FREE allowed */
    const int64_t *col_max; /* [n_cols], ILP_FREE allowed */
};

enum ilp_status {
    ILP_FOUND,      /* ilp_relax: the optimum; ilp_search: x satisfies everything */
    ILP_INFEASIBLE, /* there is no x */
    ILP_LIMIT, /* out of pivots or nodes, or the answer did not survive the check: nothing is known */
};

struct ilp_answer {
    enum ilp_status status;
    double value;    /* sum x of the relaxation */
    double *x;       /* [n_cols], in arena; ilp_relax only */
    double *dual;    /* [n_rows], in arena; ilp_relax only: price of one more unit of row_min */
    int64_t *whole;  /* [n_cols], in arena; ilp_search only */
    uint64_t pivots; /* spent by this call */
    uint64_t nodes;
};

/* Of the solver that is linked. */
const char *ilp_library_version(void);

/* Linear relaxation. Duals are floating point: whoever proves something with them recomputes it in integers. */
int ilp_relax(const struct ilp *p, uint64_t max_pivots, struct arena *a, struct ilp_answer *out,
              struct err *e);

/* Any integer x that satisfies all rows (found while minimising sum x; the first one wins). */
int ilp_search(const struct ilp *p, uint64_t max_pivots, uint64_t max_nodes, struct arena *a,
               struct ilp_answer *out, struct err *e);

#endif
