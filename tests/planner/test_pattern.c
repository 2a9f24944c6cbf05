/* The level search against an exact dynamic program over class counts. */
#include "planner/pattern.h"

#include "core/num.h"
#include "tests/suite.h"

#include <string.h>

static uint64_t rng_state;

static uint64_t rng(uint64_t below) /* splitmix64 */
{
    uint64_t z = rng_state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

static struct arena arena; /* of this test: libcheck forks */
static struct err err;

/* ---- the oracle: fewest ranks that hold a multiset of items, for every multiset ---- */

enum { MAX_STATES = 20000, MAX_CLASSES = 4 };

struct oracle {
    const struct pattern_problem *p;
    uint64_t limit[PATTERN_N_DIMS];
    uint32_t stride[MAX_CLASSES];
    uint32_t ranks[MAX_STATES]; /* fewest for the state; UINT32_MAX: impossible */
};

/* ranks[state] = 1 + min over what the last rank may hold, all sub-multisets tried. */
static void last_rank(struct oracle *o, uint32_t state, uint32_t c, uint32_t taken, uint64_t flops,
                      uint64_t bytes)
{
    uint32_t have;

    if (flops > o->limit[0] || bytes > o->limit[1])
        return;
    if (c == o->p->n_classes) {
        if (taken > 0 && o->ranks[state - taken] != UINT32_MAX &&
            o->ranks[state - taken] + 1 < o->ranks[state])
            o->ranks[state] = o->ranks[state - taken] + 1;
        return;
    }
    have = state / o->stride[c] % (o->p->classes[c].count + 1);
    for (uint32_t i = 0; i <= have; i++)
        last_rank(o, state, c + 1, taken + i * o->stride[c], flops + i * o->p->classes[c].weight[0],
                  bytes + i * o->p->classes[c].weight[1]);
}

static bool can_pack(struct oracle *o, const uint64_t limit[PATTERN_N_DIMS])
{
    uint32_t n_states = 1;

    memcpy(o->limit, limit, sizeof(o->limit));
    for (uint32_t c = 0; c < o->p->n_classes; c++) {
        o->stride[c] = n_states;
        n_states *= o->p->classes[c].count + 1;
    }
    ck_assert_uint_le(n_states, MAX_STATES);
    o->ranks[0] = 0;
    for (uint32_t s = 1; s < n_states; s++) {
        o->ranks[s] = UINT32_MAX;
        last_rank(o, s, 0, 0, 0, 0);
    }
    return o->ranks[n_states - 1] <= o->p->n_ranks;
}

static uint64_t best_level(const struct pattern_problem *p, uint32_t dim)
{
    static struct oracle o;
    uint64_t limit[PATTERN_N_DIMS], lo = 0, hi = 0;

    o.p = p;
    memcpy(limit, p->limit, sizeof(limit));
    for (uint32_t c = 0; c < p->n_classes; c++)
        hi += p->classes[c].weight[dim] * p->classes[c].count;
    while (lo < hi) {
        limit[dim] = lo + (hi - lo) / 2;
        if (can_pack(&o, limit))
            hi = limit[dim];
        else
            lo = limit[dim] + 1;
    }
    return lo;
}

/* ---- */

static void random_problem(struct pattern_problem *p, struct pattern_class *classes)
{
    memset(p, 0, sizeof(*p));
    p->classes = classes;
    p->n_classes = 1 + (uint32_t)rng(MAX_CLASSES);
    p->n_ranks = 2 + (uint32_t)rng(6);
    for (uint32_t c = 0; c < p->n_classes; c++) {
        classes[c].weight[0] = 1 + rng(30);
        classes[c].weight[1] = 1 + rng(30);
        classes[c].count = 1 + (uint32_t)rng(7);
    }
    p->limit[0] = p->limit[1] = PATTERN_NO_LIMIT;
    p->max_patterns = 20000;
    p->max_pivots = 100000;
}

static uint64_t total(const struct pattern_problem *p, uint32_t dim)
{
    uint64_t sum = 0;

    for (uint32_t c = 0; c < p->n_classes; c++)
        sum += p->classes[c].weight[dim] * p->classes[c].count;
    return sum;
}

/* The counts must hold every item once and stay under the levels. */
static void check_counts(const struct pattern_problem *p, uint32_t dim,
                         const struct pattern_answer *ans, uint64_t seed)
{
    for (uint32_t c = 0; c < p->n_classes; c++) {
        uint64_t sum = 0;

        for (uint32_t r = 0; r < p->n_ranks; r++)
            sum += ans->count[r * p->n_classes + c];
        ck_assert_msg(sum == p->classes[c].count, "seed %llu: class %u", (unsigned long long)seed,
                      c);
    }
    for (uint32_t r = 0; r < p->n_ranks; r++)
        for (uint32_t k = 0; k < PATTERN_N_DIMS; k++) {
            uint64_t load = 0;

            for (uint32_t c = 0; c < p->n_classes; c++)
                load += ans->count[r * p->n_classes + c] * p->classes[c].weight[k];
            ck_assert_msg(load <= (k == dim ? ans->value : p->limit[k]), "seed %llu: rank %u",
                          (unsigned long long)seed, r);
        }
}

START_TEST(level_equals_the_dynamic_program)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct pattern_class classes[MAX_CLASSES];
        struct pattern_problem p;
        struct pattern_answer ans;
        uint64_t want;

        rng_state = seed;
        random_problem(&p, classes);
        want = best_level(&p, PATTERN_FLOPS);
        ck_assert_int_eq(
            pattern_minimise(&p, PATTERN_FLOPS, 0, total(&p, 0) + 1, &arena, &ans, &err), 0);
        ck_assert_msg(ans.found && ans.value == want && ans.bound == want,
                      "seed %llu: level is %llu, found %llu, bound %llu", (unsigned long long)seed,
                      (unsigned long long)want, (unsigned long long)ans.value,
                      (unsigned long long)ans.bound);
        check_counts(&p, PATTERN_FLOPS, &ans, seed);
    }
}
END_TEST

START_TEST(level_under_a_limit_on_the_other_weight_equals_the_dynamic_program)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct pattern_class classes[MAX_CLASSES];
        struct pattern_problem p;
        struct pattern_answer ans;
        uint64_t want;

        rng_state = seed + 1000;
        random_problem(&p, classes);
        p.limit[0] = best_level(&p, PATTERN_FLOPS) + rng(3);
        want = best_level(&p, PATTERN_BYTES);
        ck_assert_int_eq(
            pattern_minimise(&p, PATTERN_BYTES, 0, total(&p, 1) + 1, &arena, &ans, &err), 0);
        ck_assert_msg(ans.found && ans.value == want && ans.bound == want,
                      "seed %llu: level is %llu, found %llu, bound %llu", (unsigned long long)seed,
                      (unsigned long long)want, (unsigned long long)ans.value,
                      (unsigned long long)ans.bound);
        check_counts(&p, PATTERN_BYTES, &ans, seed);
    }
}
END_TEST

/* caps may cost the proof and the optimum, never the truth */
START_TEST(capped_search_brackets_the_dynamic_program)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct pattern_class classes[MAX_CLASSES];
        struct pattern_problem p;
        struct pattern_answer ans;
        uint64_t want;

        rng_state = seed + 2000;
        random_problem(&p, classes);
        want = best_level(&p, PATTERN_FLOPS);
        p.max_patterns = 1 + rng(8);
        p.max_pivots = 1 + rng(100);
        ck_assert_int_eq(
            pattern_minimise(&p, PATTERN_FLOPS, 0, total(&p, 0) + 1, &arena, &ans, &err), 0);
        ck_assert_msg(ans.bound <= want && want <= ans.value, "seed %llu: %llu <= %llu <= %llu",
                      (unsigned long long)seed, (unsigned long long)ans.bound,
                      (unsigned long long)want, (unsigned long long)ans.value);
        if (ans.found)
            check_counts(&p, PATTERN_FLOPS, &ans, seed);
    }
}
END_TEST

/* no patterns enumerated but the first: column generation finds those that matter, and the same bound */
START_TEST(generated_columns_prove_most_of_what_enumeration_proves)
{
    uint32_t proven = 0;

    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct pattern_class classes[MAX_CLASSES];
        struct pattern_problem p;
        struct pattern_answer ans;
        uint64_t want;

        rng_state = seed + 3000;
        random_problem(&p, classes);
        p.limit[1] = best_level(&p, PATTERN_BYTES) + rng(20);
        want = best_level(&p, PATTERN_FLOPS);
        p.max_patterns = 1;
        ck_assert_int_eq(
            pattern_minimise(&p, PATTERN_FLOPS, 0, total(&p, 0) + 1, &arena, &ans, &err), 0);
        ck_assert_msg(ans.bound <= want && want <= ans.value, "seed %llu: %llu <= %llu <= %llu",
                      (unsigned long long)seed, (unsigned long long)ans.bound,
                      (unsigned long long)want, (unsigned long long)ans.value);
        if (ans.found)
            check_counts(&p, PATTERN_FLOPS, &ans, seed);
        proven += ans.bound == ans.value;
    }
    ck_assert_uint_ge(proven, 60);
}
END_TEST

/* 32 layers of {q,o: 3}, {k,v: 1}, {gate,up,down: 8} on 12 ranks: 64*3 + 64 + 96*8 = 1024, share 85.3 */
START_TEST(thirty_two_layers_on_twelve_ranks_reach_the_share)
{
    struct pattern_class classes[] = {{{3, 0}, 64}, {{1, 0}, 64}, {{8, 0}, 96}};
    struct pattern_problem p = {.classes = classes, .n_classes = 3, .n_ranks = 12};
    struct pattern_answer ans;

    p.limit[0] = p.limit[1] = PATTERN_NO_LIMIT;
    p.max_patterns = 20000;
    p.max_pivots = 100000;
    ck_assert_int_eq(pattern_minimise(&p, PATTERN_FLOPS, 0, 1025, &arena, &ans, &err), 0);
    ck_assert_uint_eq(ans.value, 86);
    ck_assert_uint_eq(ans.bound, 86);
}
END_TEST

/* three items of 2 on two ranks: the average is 3, no pattern holds 3, so the bound must say 4 */
START_TEST(bound_exceeds_the_average_where_no_pattern_meets_it)
{
    struct pattern_class classes[] = {{{2, 1}, 3}};
    struct pattern_problem p = {.classes = classes, .n_classes = 1, .n_ranks = 2};
    struct pattern_answer ans;

    p.limit[0] = p.limit[1] = PATTERN_NO_LIMIT;
    p.max_patterns = 10;
    p.max_pivots = 100;
    ck_assert_int_eq(pattern_minimise(&p, PATTERN_FLOPS, 3, 6, &arena, &ans, &err), 0);
    ck_assert_uint_eq(ans.value, 4);
    ck_assert_uint_eq(ans.bound, 4);
}
END_TEST

START_TEST(what_is_already_reached_at_the_bound_is_not_searched)
{
    struct pattern_class classes[] = {{{2, 1}, 4}};
    struct pattern_problem p = {.classes = classes, .n_classes = 1, .n_ranks = 2};
    struct pattern_answer ans;

    ck_assert_int_eq(pattern_minimise(&p, PATTERN_FLOPS, 4, 4, &arena, &ans, &err), 0);
    ck_assert(!ans.found);
    ck_assert_uint_eq(ans.bound, 4);
    ck_assert_uint_eq(ans.n_pivots, 0);
}
END_TEST

SUITE_MAIN("planner/pattern", level_equals_the_dynamic_program,
           level_under_a_limit_on_the_other_weight_equals_the_dynamic_program,
           capped_search_brackets_the_dynamic_program,
           generated_columns_prove_most_of_what_enumeration_proves,
           thirty_two_layers_on_twelve_ranks_reach_the_share,
           bound_exceeds_the_average_where_no_pattern_meets_it,
           what_is_already_reached_at_the_bound_is_not_searched)
