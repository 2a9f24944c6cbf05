/* planner/pattern.c - see planner/pattern.h. Weights are divided by their greatest common divisor first, so that the
 * bisection runs over levels that can occur. Enumeration is depth first, classes with few possible counts first; the
 * count of the last class follows from the rest. */
#include "planner/pattern.h"

#include "core/num.h"
#include "planner/ilp.h"
#include "planner/knapsack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 u128;

#define NODES_PER_PATTERN  20
#define NODES_IN_ALL       60000000
#define SEARCH_NODES       4000
#define KNAPSACK_NODES     200000
#define MAX_ROUNDS         200          /* of column generation */
#define MAX_UNKNOWN        4            /* levels left open before the search from below gives up */
#define DUAL_ONE           1073741824.0 /* 2^30 */
#define PIVOT_COST(n_cols) (1 + (uint64_t)(n_cols) / 1000)

enum verdict { LEVEL_NO, LEVEL_YES, LEVEL_UNKNOWN };

struct search {
    const struct pattern_problem *p;
    uint32_t dim;
    uint32_t n;                       /* classes that weigh something here */
    uint32_t id[PATTERN_MAX_CLASSES]; /* their number in p->classes */
    uint64_t w[PATTERN_MAX_CLASSES][PATTERN_N_DIMS];
    uint32_t count[PATTERN_MAX_CLASSES];
    uint32_t n_dims; /* used ones; [0] is the minimised one */
    uint32_t dims[PATTERN_N_DIMS];
    u128 total[PATTERN_N_DIMS];
    uint64_t unit; /* gcd of the minimised weights */
    /* the level under test */
    uint64_t limit[PATTERN_N_DIMS], slack[PATTERN_N_DIMS];
    u128 tail[PATTERN_MAX_CLASSES + 1][PATTERN_N_DIMS]; /* weight of all items of classes i.. */
    uint32_t box_lo[PATTERN_MAX_CLASSES], box_hi[PATTERN_MAX_CLASSES];
    bool boxed;
    uint32_t now[PATTERN_MAX_CLASSES];
    uint32_t *pat; /* owned, [n_pat][n] */
    size_t cap_pat;
    uint64_t n_pat;
    bool complete;
    uint64_t nodes, nodes_in_all;
    /* tallies */
    uint64_t most_patterns, pivots;
    uint64_t support; /* heaviest pattern the last relaxation used */
    uint32_t *found;  /* owned, [n_ranks][n] of the best packing */
    bool any;
};

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t t = a % b;

        a = b;
        b = t;
    }
    return a;
}

static void append(struct search *s)
{
    s->pat = mem_grow(s->pat, &s->cap_pat, (size_t)(s->n_pat + 1) * s->n, sizeof(uint32_t));
    memcpy(s->pat + s->n_pat * s->n, s->now, s->n * sizeof(uint32_t));
    s->n_pat++;
}

static void emit(struct search *s)
{
    if (s->n_pat >= (s->boxed ? s->p->max_patterns / 20 + 1 : s->p->max_patterns))
        s->complete = false;
    else
        append(s);
}

/* How many of class c fit into `rem`. */
static uint32_t fitting(const struct search *s, uint32_t c, const uint64_t *rem)
{
    uint64_t most = s->boxed ? s->box_hi[c] : s->count[c];

    for (uint32_t k = 0; k < s->n_dims; k++)
        if (s->w[c][k])
            most = num_min(most, rem[k] / s->w[c][k]);
    return (uint32_t)most;
}

static bool wastes_too_much(const struct search *s, uint32_t next, const uint64_t *rem)
{
    for (uint32_t k = 0; k < s->n_dims; k++)
        if (rem[k] > s->slack[k] && rem[k] - s->slack[k] > s->tail[next][k])
            return true;
    return false;
}

static void descend(struct search *s, uint32_t c, const uint64_t *rem)
{
    uint32_t lo = s->boxed ? s->box_lo[c] : 0;
    uint32_t most;

    if (!s->complete)
        return;
    if (++s->nodes > NODES_PER_PATTERN * s->p->max_patterns || ++s->nodes_in_all > NODES_IN_ALL) {
        s->complete = false;
        return;
    }
    most = fitting(s, c, rem);
    if (c + 1 == s->n && most > lo)
        lo = most;
    for (uint32_t i = most + 1; i-- > lo;) {
        uint64_t left[PATTERN_N_DIMS] = {0};

        for (uint32_t k = 0; k < s->n_dims; k++)
            left[k] = rem[k] - i * s->w[c][k];
        if (wastes_too_much(s, c + 1, left))
            break;
        s->now[c] = i;
        if (c + 1 < s->n) {
            descend(s, c + 1, left);
            continue;
        }
        for (uint32_t j = 0; j < c && !s->boxed; j++) /* maximal? */
            if (s->now[j] < s->count[j] && fitting(s, j, left) > 0)
                return;
        emit(s);
    }
}

/* Set the level; false when it is impossible on sight. */
static bool set_level(struct search *s, uint64_t level)
{
    s->limit[0] = level;
    for (uint32_t k = 0; k < s->n_dims; k++) {
        u128 room = (u128)s->limit[k] * s->p->n_ranks;

        if (room < s->total[k])
            return false;
        room -= s->total[k];
        s->slack[k] = room > UINT64_MAX ? UINT64_MAX : (uint64_t)room;
        for (uint32_t c = 0; c < s->n; c++)
            if (s->w[c][k] > s->limit[k])
                return false;
    }
    return true;
}

static void enumerate(struct search *s)
{
    s->n_pat = 0;
    s->nodes = 0;
    s->complete = true;
    descend(s, 0, s->limit);
    s->most_patterns = num_max(s->most_patterns, s->n_pat);
}

/* Too many patterns: keep those near the even share, in a box as large as the cap allows. */
static void enumerate_near_share(struct search *s)
{
    s->boxed = true;
    for (uint32_t half = 1; half < 64; half++) {
        uint32_t *kept = s->pat;
        size_t cap_kept = s->cap_pat;
        uint64_t n_kept = s->n_pat;

        for (uint32_t c = 0; c < s->n; c++) {
            uint32_t share = s->count[c] / s->p->n_ranks;

            s->box_lo[c] = share + 1 > half ? share + 1 - half : 0;
            s->box_hi[c] = (uint32_t)num_min((uint64_t)share + half, s->count[c]);
        }
        s->pat = NULL;
        s->cap_pat = 0;
        if (half == 1)
            n_kept = 0;
        enumerate(s);
        if (!s->complete && half > 1) { /* too far: take the last one that was whole */
            mem_free(s->pat);
            s->pat = kept;
            s->cap_pat = cap_kept;
            s->n_pat = n_kept;
            break;
        }
        mem_free(kept);
        if (!s->complete)
            break;
    }
    s->boxed = false;
    s->complete = false;
}

/* Ranks by pattern, then take away what is covered twice, from the rank that is heaviest at that moment. */
static void unfold(struct search *s, const uint32_t *cols, uint32_t n_cols, const int64_t *x)
{
    uint32_t n_ranks = s->p->n_ranks;
    uint64_t *load = MEM_NEW(uint64_t, n_ranks);
    uint32_t r = 0;

    memset(s->found, 0, (size_t)n_ranks * s->n * sizeof(uint32_t));
    for (uint32_t j = 0; j < n_cols; j++)
        for (int64_t i = 0; i < x[j]; i++, r++) {
            BUG_ON(r >= n_ranks);
            memcpy(s->found + (size_t)r * s->n, s->pat + (size_t)cols[j] * s->n,
                   s->n * sizeof(uint32_t));
        }
    for (r = 0; r < n_ranks; r++)
        for (uint32_t c = 0; c < s->n; c++)
            load[r] += s->found[(size_t)r * s->n + c] * s->w[c][0];
    for (uint32_t c = 0; c < s->n; c++) {
        uint64_t have = 0;

        for (r = 0; r < n_ranks; r++)
            have += s->found[(size_t)r * s->n + c];
        BUG_ON(have < s->count[c]);
        for (; have > s->count[c]; have--) {
            uint32_t heavy = n_ranks;

            for (r = 0; r < n_ranks; r++)
                if (s->found[(size_t)r * s->n + c] && (heavy == n_ranks || load[r] > load[heavy]))
                    heavy = r;
            s->found[(size_t)heavy * s->n + c]--;
            load[heavy] -= s->w[c][0];
        }
    }
    s->any = true;
    mem_free(load);
}

static uint64_t found_max(const struct search *s)
{
    uint64_t most[PATTERN_N_DIMS] = {0};

    for (uint32_t r = 0; r < s->p->n_ranks; r++)
        for (uint32_t k = 0; k < s->n_dims; k++) {
            uint64_t sum = 0;

            for (uint32_t c = 0; c < s->n; c++)
                sum += s->found[(size_t)r * s->n + c] * s->w[c][k];
            most[k] = num_max(most[k], sum);
        }
    for (uint32_t k = 0; k < s->n_dims; k++)
        BUG_ON(most[k] > s->limit[k]);
    return most[0];
}

static u128 worth(const struct search *s, uint64_t pat, const uint64_t *price)
{
    u128 sum = 0;

    for (uint32_t c = 0; c < s->n; c++)
        sum += (u128)s->pat[pat * s->n + c] * price[c];
    return sum;
}

/* Columns that make the relaxation feasible: as many of one class as fit. */
static void add_single_classes(struct search *s)
{
    memset(s->now, 0, sizeof(s->now));
    for (uint32_t c = 0; c < s->n; c++) {
        s->now[c] = fitting(s, c, s->limit);
        append(s);
        s->now[c] = 0;
    }
}

static bool all_classes_occur(const struct search *s)
{
    for (uint32_t c = 0; c < s->n; c++) {
        uint64_t j = 0;

        while (j < s->n_pat && s->pat[j * s->n + c] == 0)
            j++;
        if (j == s->n_pat)
            return false;
    }
    return true;
}

static uint64_t pivots_left(const struct search *s)
{
    return s->pivots < s->p->max_pivots ? s->p->max_pivots - s->pivots : 0;
}

/* The relaxation over the patterns at hand; prices are its duals, cut to whole numbers, *need what they say all items
 * are worth. */
static int relax_once(struct search *s, struct arena *a, uint64_t *price, u128 *need,
                      struct ilp_answer *ans, struct err *e)
{
    uint32_t n_cols = (uint32_t)s->n_pat;
    int64_t *row_min = ARENA_NEW(a, int64_t, s->n);
    int64_t *row_max = ARENA_NEW(a, int64_t, s->n);
    int64_t *col_max = ARENA_NEW(a, int64_t, n_cols);
    struct ilp lp = {s->n, n_cols, s->pat, row_min, row_max, col_max};

    for (uint32_t c = 0; c < s->n; c++) {
        row_min[c] = s->count[c];
        row_max[c] = ILP_FREE;
    }
    for (uint32_t j = 0; j < n_cols; j++)
        col_max[j] = ILP_FREE;
    if (ilp_relax(&lp, pivots_left(s) / PIVOT_COST(n_cols), a, ans, e))
        return -1;
    s->pivots += ans->pivots * PIVOT_COST(n_cols);
    *need = 0;
    for (uint32_t c = 0; c < s->n && ans->status == ILP_FOUND; c++) {
        price[c] = ans->dual[c] > 0 ? (uint64_t)(fmin(ans->dual[c], 1.0) * DUAL_ONE) : 0;
        *need += (u128)price[c] * s->count[c];
    }
    return 0;
}

/* The most a pattern is worth, over the columns and, where they are not all, over all there can be. A better one
 * becomes a column: *grown. False: the search for it was cut short. */
static bool most_worth(struct search *s, const uint64_t *price, u128 *best, bool *grown)
{
    struct knapsack k = {.n_classes = s->n, .n_dims = s->n_dims, .weight = s->w};
    uint64_t got;
    bool exact;

    *best = 0;
    *grown = false;
    for (uint64_t j = 0; j < s->n_pat; j++) {
        u128 val = worth(s, j, price);

        *best = val > *best ? val : *best;
    }
    if (s->complete)
        return true;
    k.count = s->count;
    k.value = price;
    memcpy(k.limit, s->limit, sizeof(k.limit));
    exact = knapsack_best(&k, KNAPSACK_NODES, s->now, &got);
    if (got > *best) {
        *grown = got - *best > *best / 1000000; /* less is rounding of the prices */
        *best = got;
    }
    if (*grown)
        append(s);
    return exact;
}

/* Relax the level. LEVEL_NO only with a proof; on LEVEL_YES keep[j] says whether column j can take part in a packing
 * on n ranks, and s->support is the heaviest pattern used. Columns are added while that can change the verdict. */
static int relax(struct search *s, struct arena *a, bool **keep, enum verdict *v, struct err *e)
{
    uint64_t price[PATTERN_MAX_CLASSES];
    double n_ranks = s->p->n_ranks;
    struct ilp_answer ans;
    bool grown = true, exact = false;
    u128 need, best = 0;

    *v = LEVEL_UNKNOWN;
    for (uint32_t round = 0; grown && round < MAX_ROUNDS; round++) {
        if (relax_once(s, a, price, &need, &ans, e))
            return -1;
        if (ans.status != ILP_FOUND)
            return 0;
        exact = most_worth(s, price, &best, &grown);
        if (need > best * s->p->n_ranks) {
            *v = exact ? LEVEL_NO : LEVEL_UNKNOWN;
            return 0;
        }
    }
    if (grown || ans.value > n_ranks * (1 + 1e-9) + 1e-9)
        return 0;
    *keep = ARENA_NEW(a, bool, s->n_pat);
    s->support = 0;
    for (uint32_t j = 0; j < s->n_pat; j++) {
        uint64_t load = 0;

        (*keep)[j] = !exact || best - worth(s, j, price) <= best * s->p->n_ranks - need;
        for (uint32_t c = 0; c < s->n && ans.x[j] > 1e-9; c++)
            load += s->pat[(size_t)j * s->n + c] * s->w[c][0];
        s->support = num_max(s->support, load);
    }
    *v = LEVEL_YES;
    return 0;
}

static int search_whole(struct search *s, struct arena *a, const bool *keep, enum verdict *v,
                        struct err *e)
{
    uint32_t n_rows = s->n + 1, n_cols = 0;
    uint32_t *cols = ARENA_NEW(a, uint32_t, s->n_pat);
    uint32_t *coef;
    int64_t *row_min = ARENA_NEW(a, int64_t, n_rows);
    int64_t *row_max = ARENA_NEW(a, int64_t, n_rows);
    int64_t *col_max;
    struct ilp_answer ans;
    struct ilp ip;

    for (uint32_t j = 0; j < s->n_pat; j++)
        if (keep[j])
            cols[n_cols++] = j;
    coef = ARENA_NEW(a, uint32_t, (size_t)n_cols * n_rows);
    col_max = ARENA_NEW(a, int64_t, n_cols);
    for (uint32_t j = 0; j < n_cols; j++) {
        memcpy(coef + (size_t)j * n_rows, s->pat + (size_t)cols[j] * s->n, s->n * sizeof(uint32_t));
        coef[(size_t)j * n_rows + s->n] = 1;
        col_max[j] = s->p->n_ranks;
    }
    for (uint32_t c = 0; c < s->n; c++) {
        row_min[c] = s->count[c];
        row_max[c] = ILP_FREE;
    }
    row_min[s->n] = 0;
    row_max[s->n] = s->p->n_ranks;
    ip = (struct ilp){n_rows, n_cols, coef, row_min, row_max, col_max};
    if (ilp_search(&ip, pivots_left(s) / 4 / PIVOT_COST(n_cols), SEARCH_NODES, a, &ans, e))
        return -1;
    s->pivots += ans.pivots * PIVOT_COST(n_cols);
    *v = LEVEL_UNKNOWN;
    if (ans.status == ILP_FOUND) {
        unfold(s, cols, n_cols, ans.whole);
        *v = LEVEL_YES;
    } else if (ans.status == ILP_INFEASIBLE && s->complete) {
        *v = LEVEL_NO;
    }
    return 0;
}

/* Can the level be reached: by fractions (whole = false), by whole ranks (then s->found is set). */
static int try_level(struct search *s, uint64_t level, bool whole, enum verdict *v, struct err *e)
{
    struct arena tmp;
    bool *keep = NULL;
    int rc;

    if (!set_level(s, level)) {
        *v = LEVEL_NO;
        return 0;
    }
    enumerate(s);
    if (!s->complete)
        enumerate_near_share(s);
    if (s->complete && !all_classes_occur(s)) {
        *v = LEVEL_NO;
        return 0;
    }
    if (!s->complete)
        add_single_classes(s);
    if (pivots_left(s) == 0) {
        *v = LEVEL_UNKNOWN;
        return 0;
    }
    arena_init(&tmp);
    rc = relax(s, &tmp, &keep, v, e);
    if (rc == 0 && whole && *v == LEVEL_YES)
        rc = search_whole(s, &tmp, keep, v, e);
    arena_release(&tmp);
    return rc;
}

/* Smallest level the relaxation allows. `*bound` is proven. */
static int bisect_relaxed(struct search *s, uint64_t lower, uint64_t upper, uint64_t *bound,
                          struct err *e)
{
    uint64_t lo = lower, hi = upper;

    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        enum verdict v;

        if (try_level(s, mid, false, &v, e))
            return -1;
        if (v == LEVEL_NO)
            lo = mid + 1;
        else
            hi = v == LEVEL_YES ? num_max(num_min(mid, s->support), lo) : mid;
    }
    *bound = lo;
    return 0;
}

/* From the relaxed level upwards: double the step until a packing is found, then bisect below it. */
static int search_levels(struct search *s, uint64_t *bound, uint64_t *value, struct err *e)
{
    uint64_t lo = *bound, hi = *value; /* lo: first level not tried; hi: reached */
    uint64_t step = num_max(1, (hi - lo) / 64), at = lo;
    uint32_t n_unknown = 0;
    bool climbing = true;

    while (lo < hi && pivots_left(s) > 0 && n_unknown < MAX_UNKNOWN) {
        enum verdict v;

        if (at >= hi || !climbing)
            at = lo + (hi - lo) / 2;
        if (try_level(s, at, true, &v, e))
            return -1;
        if (v == LEVEL_YES) {
            hi = found_max(s);
            climbing = false;
            continue;
        }
        if (v == LEVEL_NO)
            *bound = num_max(*bound, at + 1);
        else
            n_unknown++;
        lo = at + 1;
        at += step;
        step *= 2;
    }
    *value = hi;
    return 0;
}

static void order_classes(struct search *s, uint64_t level)
{
    uint64_t range[PATTERN_MAX_CLASSES];

    for (uint32_t i = 0; i < s->n; i++) {
        range[i] = s->count[i];
        if (s->w[i][0])
            range[i] = num_min(range[i], level / s->w[i][0]);
    }
    for (uint32_t i = 1; i < s->n; i++) /* stable insertion */
        for (uint32_t j = i; j > 0 && range[j] < range[j - 1]; j--) {
            uint64_t t = range[j];
            uint32_t id = s->id[j], count = s->count[j];
            uint64_t w[PATTERN_N_DIMS];

            memcpy(w, s->w[j], sizeof(w));
            range[j] = range[j - 1];
            range[j - 1] = t;
            s->id[j] = s->id[j - 1];
            s->id[j - 1] = id;
            s->count[j] = s->count[j - 1];
            s->count[j - 1] = count;
            memcpy(s->w[j], s->w[j - 1], sizeof(w));
            memcpy(s->w[j - 1], w, sizeof(w));
        }
}

static void prepare(struct search *s, const struct pattern_problem *p, enum pattern_dim dim,
                    uint64_t upper)
{
    memset(s, 0, sizeof(*s));
    s->p = p;
    s->dims[0] = dim;
    s->n_dims = 1;
    for (uint32_t k = 0; k < PATTERN_N_DIMS; k++)
        if (k != dim && p->limit[k] != PATTERN_NO_LIMIT) {
            s->limit[s->n_dims] = p->limit[k];
            s->dims[s->n_dims++] = k;
        }
    for (uint32_t i = 0; i < p->n_classes; i++) {
        bool weighs = false;

        for (uint32_t k = 0; k < s->n_dims; k++)
            weighs = weighs || p->classes[i].weight[s->dims[k]] > 0;
        if (!weighs || p->classes[i].count == 0)
            continue;
        s->id[s->n] = i;
        s->count[s->n] = p->classes[i].count;
        for (uint32_t k = 0; k < s->n_dims; k++)
            s->w[s->n][k] = p->classes[i].weight[s->dims[k]];
        s->unit = gcd(s->unit, s->w[s->n][0]);
        s->n++;
    }
    if (s->unit == 0)
        s->unit = 1;
    for (uint32_t c = 0; c < s->n; c++)
        s->w[c][0] /= s->unit;
    order_classes(s, upper / s->unit);
    for (uint32_t c = s->n; c-- > 0;)
        for (uint32_t k = 0; k < s->n_dims; k++)
            s->tail[c][k] = s->tail[c + 1][k] + (u128)s->w[c][k] * s->count[c];
    for (uint32_t k = 0; k < s->n_dims; k++)
        s->total[k] = s->tail[0][k];
}

int pattern_minimise(const struct pattern_problem *p, enum pattern_dim dim, uint64_t lower,
                     uint64_t upper, struct arena *a, struct pattern_answer *out, struct err *e)
{
    struct search s;
    uint64_t bound, value;
    int rc;

    BUG_ON(p->n_classes > PATTERN_MAX_CLASSES || p->n_ranks == 0);
    memset(out, 0, sizeof(*out));
    out->value = upper;
    out->bound = num_min(lower, upper);
    prepare(&s, p, dim, upper);
    if (s.n == 0 || lower >= upper)
        return 0;
    s.found = MEM_NEW(uint32_t, (size_t)p->n_ranks * s.n);
    bound = num_ceil_div(lower, s.unit);
    value = num_ceil_div(upper, s.unit);
    rc = bisect_relaxed(&s, bound, value, &bound, e);
    if (rc == 0)
        rc = search_levels(&s, &bound, &value, e);
    if (rc == 0) {
        out->bound = num_min(bound * s.unit, upper);
        out->found = s.any;
        out->n_patterns = s.most_patterns;
        out->n_pivots = s.pivots;
    }
    if (rc == 0 && s.any) {
        out->value = value * s.unit;
        out->count = ARENA_NEW(a, uint32_t, (size_t)p->n_ranks * p->n_classes);
        for (uint32_t r = 0; r < p->n_ranks; r++)
            for (uint32_t c = 0; c < s.n; c++)
                out->count[(size_t)r * p->n_classes + s.id[c]] = s.found[(size_t)r * s.n + c];
    }
    mem_free(s.pat);
    mem_free(s.found);
    return rc;
}
