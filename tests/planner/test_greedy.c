/* The baselines, by hand and by published figures. */
#include "planner/assign.h"

#include "tests/suite.h"

static struct arena arena; /* of this test: libcheck forks */
static struct err err;

static struct assign_result solve(const struct assign_problem *p, enum assign_method m)
{
    struct assign_result r;

    ck_assert_msg(assign_solve(p, m, &arena, &r, &err) == 0, "%s", err.msg);
    ck_assert_msg(assign_check(p, &r, &err) == 0, "%s", err.msg);
    return r;
}

static struct assign_item item(uint64_t flops, uint64_t numel, uint32_t unit)
{
    struct assign_item it = {.flops = flops, .numel = numel, .bytes = numel, .send_bytes = numel};

    it.rows = 1;
    it.cols = (uint32_t)numel;
    it.unit = unit;
    return it;
}

static void check_owners(const struct assign_result *r, const uint32_t *want, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(r->owner[i] == want[i], "item %u: rank %u, expected %u", i, r->owner[i],
                      want[i]);
}

START_TEST(lpt_places_largest_first_ties_to_the_lowest_rank)
{
    const struct assign_item items[] = {item(1, 9, 0), item(5, 9, 0), item(3, 9, 0), item(3, 9, 0),
                                        item(2, 9, 0)};
    const struct assign_problem p = {.items = items, .n_items = 5, .n_ranks = 2};
    struct assign_result r = solve(&p, ASSIGN_LPT_FLOPS);

    /* 5 -> 0; 3 -> 1; 3 -> 1 (3 < 5); 2 -> 0 (5 < 6); 1 -> 1 (6 < 7) */
    check_owners(&r, (const uint32_t[]){1, 0, 1, 1, 0}, 5);
    ck_assert_uint_eq(r.flops_max, 7);
    ck_assert(r.optimal);
}
END_TEST

START_TEST(role_greedy_goes_unit_by_unit_and_carries_loads)
{
    const struct assign_item items[] = {item(1, 1, 0), item(1, 2, 0), item(1, 5, 1), item(1, 4, 1)};
    const struct assign_problem p = {.items = items, .n_items = 4, .n_ranks = 2};
    struct assign_result r = solve(&p, ASSIGN_ROLE_GREEDY);

    /* unit 0: 2 -> 0, 1 -> 1; unit 1: 5 -> 1 (1 < 2), 4 -> 0 (2 < 6) */
    check_owners(&r, (const uint32_t[]){1, 0, 1, 0}, 4);
    r = solve(&p, ASSIGN_SCOPE_GREEDY);
    /* 5 -> 0, 4 -> 1, 2 -> 1, 1 -> 0 */
    check_owners(&r, (const uint32_t[]){0, 1, 0, 1}, 4);
}
END_TEST

START_TEST(scope_greedy_breaks_ties_by_unit_before_index)
{
    const struct assign_item items[] = {item(1, 3, 1), item(1, 3, 0)};
    const struct assign_problem p = {.items = items, .n_items = 2, .n_ranks = 2};
    struct assign_result r = solve(&p, ASSIGN_SCOPE_GREEDY);

    check_owners(&r, (const uint32_t[]){1, 0}, 2);
    r = solve(&p, ASSIGN_LPT_NUMEL);
    check_owners(&r, (const uint32_t[]){0, 1}, 2);
}
END_TEST

START_TEST(megatron_caps_the_elements_of_a_unit)
{
    /* cost is max*min^2: one 8x8 costs 512, the 1x64s cost 64 each, all have 64 elements */
    struct assign_item items[4];
    struct assign_problem p = {.items = items, .n_items = 4, .n_ranks = 2};
    struct assign_result r;

    for (uint32_t i = 0; i < 4; i++) {
        items[i] = item(1, 64, 0);
        items[i].rows = i == 0 ? 8 : 1;
        items[i].cols = i == 0 ? 8 : 64;
    }
    r = solve(&p, ASSIGN_MEGATRON); /* cap 166: two each, though rank 0 costs 512 already */
    check_owners(&r, (const uint32_t[]){0, 1, 1, 0}, 4);
    for (uint32_t i = 1; i < 4; i++)
        items[i].unit = i; /* one unit each: caps of 41, below any item; loads decide */
    r = solve(&p, ASSIGN_MEGATRON);
    check_owners(&r, (const uint32_t[]){0, 1, 1, 1}, 4);
}
END_TEST

START_TEST(items_without_flops_follow_by_bytes)
{
    const struct assign_item items[] = {item(0, 7, 0), item(4, 5, 0), item(3, 1, 0), item(0, 2, 0)};
    const struct assign_problem p = {.items = items, .n_items = 4, .n_ranks = 2};
    struct assign_result r = solve(&p, ASSIGN_LPT_FLOPS);

    check_owners(&r, (const uint32_t[]){1, 0, 1, 0}, 4);
    ck_assert_uint_eq(r.flops_max, 4);
    ck_assert_uint_eq(r.bytes_max, 8);
}
END_TEST

/* MatrixFSDP's block: q, k, v, proj h x h, two 2h x h, one h x 4h; 64 of them. Elements in units of h^2: 12 a block,
 * 768 in all, so the share is 96, 48, 24, 12. By hand at 64 ranks: a block puts 4, 2, 2, 1, 1, 1, 1 on the seven least
 * loaded ranks. The paper (arXiv 2607.05895) prints 1.07 1.05 1.12 1.27 for role-greedy and 1.02 1.02 1.03 1.04 for
 * scope-greedy, of a quantity it does not name; elements by element-greedy come within 0.05 of all eight, and no load we
 * tried gives them exactly. So this is a regression row of ours with the paper as a bracket. */
START_TEST(matrixfsdp_block_comes_near_the_published_imbalance)
{
    static const struct {
        uint32_t ranks;
        uint64_t role; /* heaviest, in h^2 */
        double paper_role, paper_scope;
    } rows[] = {
        {8, 98, 1.07, 1.02}, {16, 50, 1.05, 1.02}, {32, 27, 1.12, 1.03}, {64, 15, 1.27, 1.04}};
    static const uint64_t sizes[7] = {1, 1, 1, 1, 2, 2, 4};
    struct assign_item items[448];
    struct assign_problem p = {.items = items, .n_items = 448, .n_order = 1};

    p.order[0] = ASSIGN_BYTES;
    for (uint32_t i = 0; i < 448; i++)
        items[i] = item(0, sizes[i % 7], i / 7);
    for (uint32_t i = 0; i < 4; i++) {
        struct assign_result r;
        double share = 768.0 / rows[i].ranks;

        p.n_ranks = rows[i].ranks;
        r = solve(&p, ASSIGN_ROLE_GREEDY);
        ck_assert_uint_eq(r.value, rows[i].role);
        ck_assert_double_le((double)r.value / share, rows[i].paper_role + 0.01);
        ck_assert_double_ge((double)r.value / share, rows[i].paper_role - 0.05);
        r = solve(&p, ASSIGN_SCOPE_GREEDY);
        ck_assert_double_eq((double)r.value / share, 1.0);
        ck_assert_double_ge(1.0, rows[i].paper_scope - 0.05);
        ck_assert(r.optimal);
    }
}
END_TEST

SUITE_MAIN("planner/greedy", lpt_places_largest_first_ties_to_the_lowest_rank,
           role_greedy_goes_unit_by_unit_and_carries_loads,
           scope_greedy_breaks_ties_by_unit_before_index, megatron_caps_the_elements_of_a_unit,
           items_without_flops_follow_by_bytes, matrixfsdp_block_comes_near_the_published_imbalance)
