/* planner/assign.c - see planner/assign.h: checks, loads, bounds, and the order in which the solvers are asked. */
#include "planner/assign.h"

#include "core/num.h"
#include "planner/assign_inner.h"
#include "planner/pattern.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_PATTERNS = 20000, DEFAULT_PIVOTS = 20000 };

const char *assign_method_name(enum assign_method m)
{
#define ASSIGN_NAME(method, name, help) [method] = name,
    static const char *const names[ASSIGN_N_METHODS] = {ASSIGN_METHODS(ASSIGN_NAME)};
#undef ASSIGN_NAME

    BUG_ON((unsigned)m >= ASSIGN_N_METHODS);
    return names[m];
}

/* ---- bounds ---- */

static int u64_descending(const void *pa, const void *pb)
{
    uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

    return a > b ? -1 : a < b;
}

/* Of weight k, base_bytes not included. */
static uint64_t bound_of_weight(const struct assign_problem *p, uint32_t k)
{
    uint64_t *w = MEM_NEW(uint64_t, p->n_items);
    uint64_t *sum = MEM_NEW(uint64_t, (size_t)p->n_items + 1); /* of the first i */
    uint64_t bound;

    for (uint32_t i = 0; i < p->n_items; i++)
        w[i] = assign_weight(&p->items[i], k);
    qsort(w, p->n_items, sizeof(*w), u64_descending);
    for (uint32_t i = 0; i < p->n_items; i++)
        sum[i + 1] = sum[i] + w[i];
    bound = num_ceil_div(sum[p->n_items], p->n_ranks);
    for (uint64_t held = 1, end = 1; end <= p->n_items; held++, end += p->n_ranks)
        bound = num_max(bound, sum[end] - sum[end - held]);
    mem_free(w);
    mem_free(sum);
    return bound;
}

static enum assign_objective first_objective(const struct assign_problem *p)
{
    return p->n_order ? p->order[0] : ASSIGN_FLOPS;
}

uint64_t assign_bound(const struct assign_problem *p)
{
    switch (first_objective(p)) {
    case ASSIGN_FLOPS:
        return bound_of_weight(p, 0);
    case ASSIGN_BYTES:
        return p->base_bytes + bound_of_weight(p, 1);
    case ASSIGN_FANOUT:
        return deal_fanout_bound(p);
    case ASSIGN_TIME:
        break;
    }
    return 0;
}

/* ---- comparing answers ---- */

struct score {
    uint64_t excess; /* bytes over the capacity */
    uint64_t max[ASSIGN_N_WEIGHTS];
    uint64_t fanout;
    double time;
};

static struct score score_of(const struct assign_problem *p, const uint32_t *owner)
{
    uint64_t *load = MEM_NEW(uint64_t, p->n_ranks);
    struct score s = {0};

    for (uint32_t k = 0; k < ASSIGN_N_WEIGHTS; k++) {
        memset(load, 0, p->n_ranks * sizeof(*load));
        for (uint32_t i = 0; i < p->n_items; i++) {
            load[owner[i]] += assign_weight(&p->items[i], k);
            s.max[k] = num_max(s.max[k], load[owner[i]]);
        }
    }
    s.max[1] += p->base_bytes;
    if (p->capacity_bytes && s.max[1] > p->capacity_bytes)
        s.excess = s.max[1] - p->capacity_bytes;
    s.fanout = deal_fanout(p, owner);
    for (uint32_t i = 0; i < p->n_order; i++)
        if (p->order[i] == ASSIGN_TIME)
            s.time = p->time_of(p->time_ctx, owner);
    mem_free(load);
    return s;
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_by(const struct score *a, const struct score *b, enum assign_objective o)
{
    switch (o) {
    case ASSIGN_FLOPS:
        return compare_u64(a->max[0], b->max[0]);
    case ASSIGN_BYTES:
        return compare_u64(a->max[1], b->max[1]);
    case ASSIGN_FANOUT:
        return compare_u64(a->fanout, b->fanout);
    case ASSIGN_TIME:
        return a->time < b->time ? -1 : a->time > b->time;
    }
    BUG_ON(true);
    return 0;
}

/* Capacity, then the order asked for, then whatever it left out. */
static bool better(const struct assign_problem *p, const struct score *a, const struct score *b)
{
    static const enum assign_objective rest[] = {ASSIGN_FLOPS, ASSIGN_BYTES, ASSIGN_FANOUT};
    int c = compare_u64(a->excess, b->excess);

    for (uint32_t i = 0; c == 0 && i < p->n_order; i++)
        c = compare_by(a, b, p->order[i]);
    for (uint32_t i = 0; c == 0 && i < sizeof(rest) / sizeof(*rest); i++)
        c = compare_by(a, b, rest[i]);
    return c < 0;
}

/* ---- the methods ---- */

static void run_greedy(const struct assign_problem *p, enum assign_method m, uint32_t *owner)
{
    switch (m) {
    case ASSIGN_ROUND_ROBIN:
        greedy_round_robin(p, owner);
        return;
    case ASSIGN_LPT_NUMEL:
        greedy_lpt_numel(p, owner);
        return;
    case ASSIGN_ROLE_GREEDY:
        greedy_by_unit(p, owner);
        return;
    case ASSIGN_SCOPE_GREEDY:
        greedy_by_scope(p, owner);
        return;
    case ASSIGN_LPT_FLOPS:
        greedy_lpt(p, 0, owner);
        return;
    case ASSIGN_MEGATRON:
        greedy_megatron(p, owner);
        return;
    case ASSIGN_ILP:
    case ASSIGN_N_METHODS:
        break;
    }
    BUG_ON(true);
}

struct exact {
    const struct assign_problem *p;
    uint32_t *owner;                  /* [n_items], the answer so far */
    uint64_t limit[ASSIGN_N_WEIGHTS]; /* per rank; UINT64_MAX: none */
    uint64_t bound[ASSIGN_N_WEIGHTS]; /* proven, under the limits of its time */
    uint64_t max[ASSIGN_N_WEIGHTS];   /* reached */
    uint64_t n_patterns;
    bool by_pattern; /* the answer came out of the ILP */
};

static uint64_t max_of(const struct assign_problem *p, uint32_t k, const uint32_t *owner)
{
    uint64_t *load = MEM_NEW(uint64_t, p->n_ranks);
    uint64_t most = 0;

    for (uint32_t i = 0; i < p->n_items; i++) {
        load[owner[i]] += assign_weight(&p->items[i], k);
        most = num_max(most, load[owner[i]]);
    }
    mem_free(load);
    return most;
}

struct class_key {
    uint64_t w[ASSIGN_N_WEIGHTS]; /* 0 where the dimension does not matter */
    uint32_t index;
};

static int class_descending(const void *pa, const void *pb)
{
    const struct class_key *a = pa, *b = pb;

    for (uint32_t k = 0; k < ASSIGN_N_WEIGHTS; k++)
        if (a->w[k] != b->w[k])
            return a->w[k] > b->w[k] ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Classes by the weights that matter when weight k is minimised under the limits. keys[] is sorted, class c is the
 * items keys[first[c]] .. keys[first[c+1] - 1]. Returns the number of classes, PATTERN_MAX_CLASSES + 1 for too many. */
static uint32_t make_classes(const struct exact *x, uint32_t k, struct class_key *keys,
                             struct pattern_class *classes, uint32_t *first)
{
    const struct assign_problem *p = x->p;
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_items; i++) {
        keys[i].index = i;
        for (uint32_t j = 0; j < ASSIGN_N_WEIGHTS; j++)
            keys[i].w[j] = j == k || x->limit[j] != UINT64_MAX ? assign_weight(&p->items[i], j) : 0;
    }
    qsort(keys, p->n_items, sizeof(*keys), class_descending);
    for (uint32_t i = 0; i < p->n_items; i++) {
        if (i == 0 || keys[i].w[0] != keys[i - 1].w[0] || keys[i].w[1] != keys[i - 1].w[1]) {
            if (n == PATTERN_MAX_CLASSES)
                return PATTERN_MAX_CLASSES + 1;
            classes[n] = (struct pattern_class){{keys[i].w[0], keys[i].w[1]}, 0};
            first[n++] = i;
        }
        classes[n - 1].count++;
    }
    first[n] = p->n_items;
    return n;
}

/* Hand items out by counts, one to each rank in turn; what the patterns leave out goes by bytes. */
static void owners_from_counts(const struct assign_problem *p, const struct class_key *keys,
                               const uint32_t *first, uint32_t n_classes, uint32_t *count,
                               uint32_t *owner)
{
    for (uint32_t i = 0; i < p->n_items; i++)
        owner[i] = p->n_ranks;
    for (uint32_t c = 0; c < n_classes; c++) {
        uint32_t at = first[c];
        bool more = true;

        while (more) {
            more = false;
            for (uint32_t r = 0; r < p->n_ranks; r++) {
                uint32_t *left = &count[(size_t)r * n_classes + c];

                if (*left == 0)
                    continue;
                BUG_ON(at >= first[c + 1]);
                owner[keys[at++].index] = r;
                more = --*left > 0 || more;
            }
        }
    }
    greedy_fill(p, 1, owner);
}

/* Bring weight k down, as far as `floor` at most, under the limits. x->bound[k] says what was proven. */
static int minimise(struct exact *x, uint32_t k, uint64_t floor, struct arena *tmp, struct err *e)
{
    const struct assign_problem *p = x->p;
    struct class_key *keys = ARENA_NEW(tmp, struct class_key, p->n_items);
    struct pattern_class classes[PATTERN_MAX_CLASSES];
    uint32_t first[PATTERN_MAX_CLASSES + 1];
    struct pattern_problem pp = {.classes = classes, .n_ranks = p->n_ranks};
    struct pattern_answer ans;

    x->bound[k] = num_max(bound_of_weight(p, k), floor);
    x->max[k] = repair_level(p, k, x->bound[k], x->limit, x->owner);
    if (x->max[k] <= x->bound[k])
        return 0;
    pp.n_classes = make_classes(x, k, keys, classes, first);
    if (pp.n_classes > PATTERN_MAX_CLASSES)
        return 0;
    memcpy(pp.limit, x->limit, sizeof(pp.limit));
    pp.max_patterns = p->max_patterns ? p->max_patterns : DEFAULT_PATTERNS;
    pp.max_pivots = p->max_pivots ? p->max_pivots : DEFAULT_PIVOTS;
    if (pattern_minimise(&pp, (enum pattern_dim)k, x->bound[k], x->max[k], tmp, &ans, e))
        return err_prefix(e, "%s", k == 0 ? "balancing flops" : "balancing bytes");
    x->bound[k] = ans.bound;
    x->n_patterns = num_max(x->n_patterns, ans.n_patterns);
    if (!ans.found)
        return 0;
    owners_from_counts(p, keys, first, pp.n_classes, ans.count, x->owner);
    x->by_pattern = true;
    x->max[k] = max_of(p, k, x->owner);
    BUG_ON(x->max[k] > ans.value);
    return 0;
}

/* Flops and bytes in the order the problem names them. */
static void weight_order(const struct assign_problem *p, uint32_t out[ASSIGN_N_WEIGHTS])
{
    out[0] = 0;
    for (uint32_t i = p->n_order; i-- > 0;)
        if (p->order[i] == ASSIGN_FLOPS || p->order[i] == ASSIGN_BYTES)
            out[0] = p->order[i] == ASSIGN_BYTES;
    out[1] = 1 - out[0];
}

/* Get under the capacity, or as near as possible. */
static int respect_capacity(struct exact *x, struct arena *tmp, struct err *e)
{
    const struct assign_problem *p = x->p;
    uint64_t room = p->capacity_bytes > p->base_bytes ? p->capacity_bytes - p->base_bytes : 0;

    if (max_of(p, 1, x->owner) > room) {
        if (minimise(x, 1, room, tmp, e))
            return -1;
        room = num_max(room, x->max[1]);
    }
    x->limit[1] = room;
    return 0;
}

static int solve_weights(struct exact *x, struct arena *tmp, struct err *e)
{
    uint32_t order[ASSIGN_N_WEIGHTS];

    weight_order(x->p, order);
    x->limit[0] = x->limit[1] = UINT64_MAX;
    if (x->p->capacity_bytes && respect_capacity(x, tmp, e))
        return -1;
    for (uint32_t i = 0; i < ASSIGN_N_WEIGHTS; i++) {
        if (minimise(x, order[i], 0, tmp, e))
            return -1;
        x->limit[order[i]] = x->max[order[i]];
    }
    return 0;
}

/* Nothing found respects the capacity: what was proven holds for answers of least excess alone. The bound of the first objective
 * is that of answers without any limit. */
static int bound_without_limits(struct exact *x, uint32_t k, struct arena *tmp, struct err *e)
{
    uint32_t *kept = x->owner;

    x->owner = ARENA_NEW(tmp, uint32_t, x->p->n_items);
    greedy_lpt(x->p, k, x->owner);
    x->limit[0] = x->limit[1] = UINT64_MAX;
    if (minimise(x, k, 0, tmp, e))
        return -1;
    x->owner = kept;
    return 0;
}

/* Each item alone is best for every additive objective and for the fan-out. */
static void one_each(const struct assign_problem *p, uint32_t *owner)
{
    for (uint32_t i = 0; i < p->n_items; i++)
        owner[i] = i;
}

static int solve_ilp(const struct assign_problem *p, uint32_t *owner, struct assign_result *r,
                     struct err *e)
{
    struct exact x = {.p = p, .owner = owner};
    uint32_t order[ASSIGN_N_WEIGHTS];
    struct score best, score;
    struct arena tmp;
    uint32_t *other;
    int rc;

    arena_init(&tmp);
    weight_order(p, order);
    other = ARENA_NEW(&tmp, uint32_t, p->n_items);
    if (p->n_items <= p->n_ranks)
        one_each(p, owner);
    else
        greedy_lpt(p, order[0], owner);
    rc = solve_weights(&x, &tmp, e);
    if (rc)
        goto out;
    if (p->n_items > p->n_ranks)
        deal_units(p, owner);
    r->solver =
        x.by_pattern ? "pattern-ilp (glpk)" : (p->n_items <= p->n_ranks ? "one-each" : "lpt+swap");
    r->n_patterns = x.n_patterns;
    best = score_of(p, owner);
    for (uint32_t m = 0; m <= ASSIGN_ILP; m++) { /* [ASSIGN_ILP]: the spread one */
        if (m == ASSIGN_ILP)
            greedy_spread(p, other);
        else
            run_greedy(p, (enum assign_method)m, other);
        score = score_of(p, other);
        if (!better(p, &score, &best))
            continue;
        best = score;
        memcpy(owner, other, p->n_items * sizeof(*owner));
        r->solver = m == ASSIGN_ILP ? "spread" : assign_method_name((enum assign_method)m);
    }
    if (first_objective(p) == ASSIGN_FLOPS || first_objective(p) == ASSIGN_BYTES) {
        uint32_t k = order[0];

        if (best.excess && (rc = bound_without_limits(&x, k, &tmp, e)))
            goto out;
        r->bound = num_max(r->bound, x.bound[k] + (k == 1 ? p->base_bytes : 0));
        r->optimal_second = !best.excess &&
                            best.max[k] - (k == 1 ? p->base_bytes : 0) == x.bound[k] &&
                            best.max[1 - k] - (k == 0 ? p->base_bytes : 0) == x.bound[1 - k];
    }
out:
    arena_release(&tmp);
    return rc;
}

/* ---- results ---- */

static int check_problem(const struct assign_problem *p, struct err *e)
{
    uint64_t flops = 0, bytes = p->base_bytes, numel = 0, send = 0;
    uint32_t seen = 0;

    if (p->n_ranks == 0)
        return err_set(e, ERR_INVALID, "number of ranks is 0, expected at least 1");
    if (p->n_order > 4)
        return err_set(e, ERR_INVALID, "%u objectives, expected at most 4", p->n_order);
    for (uint32_t i = 0; i < p->n_order; i++) {
        if ((unsigned)p->order[i] > ASSIGN_TIME)
            return err_set(e, ERR_INVALID, "objective %u is unknown", (unsigned)p->order[i]);
        if (seen & 1u << p->order[i])
            return err_set(e, ERR_INVALID, "objective %u is named twice", (unsigned)p->order[i]);
        seen |= 1u << p->order[i];
    }
    if ((seen & 1u << ASSIGN_TIME) && !p->time_of)
        return err_set(e, ERR_INVALID, "time is an objective, but nothing computes it");
    if (bytes > NUM_MAX)
        return err_set(e, ERR_OVERFLOW, "bytes resident on every rank are beyond 2^63");
    for (uint32_t i = 0; i < p->n_items; i++) {
        const struct assign_item *it = &p->items[i];

        if (!num_add(flops, it->flops, &flops) || !num_add(bytes, it->bytes, &bytes) ||
            !num_add(numel, it->numel, &numel) || !num_add(send, it->send_bytes, &send))
            return err_set(e, ERR_OVERFLOW,
                           "items 0..%u together have more than 2^63 flops, bytes or elements", i);
    }
    return 0;
}

/* Loads, maxima and flags from owner[]; bound, solver and the rest stay. */
static void fill_result(const struct assign_problem *p, struct assign_result *r)
{
    struct score s = score_of(p, r->owner);
    double flops = 0, bytes = 0;

    for (uint32_t i = 0; i < p->n_ranks; i++)
        r->load_bytes[i] = p->base_bytes;
    for (uint32_t i = 0; i < p->n_items; i++) {
        r->load_flops[r->owner[i]] += p->items[i].flops;
        r->load_bytes[r->owner[i]] += p->items[i].bytes;
        flops += (double)p->items[i].flops;
        bytes += (double)p->items[i].bytes;
    }
    r->flops_max = s.max[0];
    r->bytes_max = s.max[1];
    r->fanout_max = s.fanout;
    r->time = s.time;
    r->flops_mean = flops / p->n_ranks;
    r->bytes_mean = (double)p->base_bytes + bytes / p->n_ranks;
    r->fits = s.excess == 0;
    switch (first_objective(p)) {
    case ASSIGN_FLOPS:
        r->value = s.max[0];
        break;
    case ASSIGN_BYTES:
        r->value = s.max[1];
        break;
    case ASSIGN_FANOUT:
        r->value = s.fanout;
        break;
    case ASSIGN_TIME:
        r->value = 0;
        break;
    }
    BUG_ON(r->bound > r->value);
    r->optimal = first_objective(p) != ASSIGN_TIME && r->value == r->bound;
    if (r->bound > 0)
        r->gap_percent = 100.0 * (double)(r->value - r->bound) / (double)r->bound;
}

static double now_ms(void)
{
    struct timespec t;

    timespec_get(&t, TIME_UTC);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

int assign_solve(const struct assign_problem *p, enum assign_method method, struct arena *a,
                 struct assign_result *r, struct err *e)
{
    double t0 = now_ms();

    memset(r, 0, sizeof(*r));
    BUG_ON((unsigned)method >= ASSIGN_N_METHODS);
    if (check_problem(p, e))
        return -1;
    r->owner = ARENA_NEW(a, uint32_t, p->n_items);
    r->load_flops = ARENA_NEW(a, uint64_t, p->n_ranks);
    r->load_bytes = ARENA_NEW(a, uint64_t, p->n_ranks);
    r->bound = assign_bound(p);
    r->solver = assign_method_name(method);
    if (method != ASSIGN_ILP)
        run_greedy(p, method, r->owner);
    else if (solve_ilp(p, r->owner, r, e))
        return -1;
    fill_result(p, r);
    r->solve_ms = now_ms() - t0;
    return 0;
}

int assign_check(const struct assign_problem *p, const struct assign_result *r, struct err *e)
{
    struct assign_result again = {.bound = 0, .owner = r->owner};
    struct arena a;
    int rc = -1;

    if (check_problem(p, e))
        return -1;
    for (uint32_t i = 0; i < p->n_items; i++)
        if (r->owner[i] >= p->n_ranks)
            return err_set(e, ERR_INVALID, "item %u: owner is rank %u, expected below %u", i,
                           r->owner[i], p->n_ranks);
    arena_init(&a);
    again.load_flops = ARENA_NEW(&a, uint64_t, p->n_ranks);
    again.load_bytes = ARENA_NEW(&a, uint64_t, p->n_ranks);
    fill_result(p, &again);
    for (uint32_t i = 0; i < p->n_ranks; i++)
        if (r->load_flops[i] != again.load_flops[i] || r->load_bytes[i] != again.load_bytes[i]) {
            err_set(e, ERR_INVALID,
                    "rank %u: load is %llu flops and %llu bytes, its items sum to %llu and %llu", i,
                    (unsigned long long)r->load_flops[i], (unsigned long long)r->load_bytes[i],
                    (unsigned long long)again.load_flops[i],
                    (unsigned long long)again.load_bytes[i]);
            goto out;
        }
    if (r->flops_max != again.flops_max || r->bytes_max != again.bytes_max ||
        r->fanout_max != again.fanout_max || r->value != again.value || r->fits != again.fits) {
        err_set(e, ERR_INVALID, "the maxima do not belong to the loads");
        goto out;
    }
    if (r->bound > r->value || (r->optimal && r->bound != r->value)) {
        err_set(e, ERR_INVALID, "bound %llu and value %llu contradict each other",
                (unsigned long long)r->bound, (unsigned long long)r->value);
        goto out;
    }
    rc = 0;
out:
    arena_release(&a);
    return rc;
}
