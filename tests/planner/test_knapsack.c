/* The bounded knapsack against trying everything. */
#include "planner/knapsack.h"

#include "tests/suite.h"

static uint64_t rng_state;

static uint64_t rng(uint64_t below) /* splitmix64 */
{
    uint64_t z = rng_state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

static uint64_t try_all(const struct knapsack *k, uint32_t c, uint64_t room0, uint64_t room1)
{
    uint64_t best = 0;

    if (c == k->n_classes)
        return 0;
    for (uint64_t i = 0; i <= k->count[c] && i * k->weight[c][0] <= room0 &&
                         (k->n_dims == 1 || i * k->weight[c][1] <= room1);
         i++) {
        uint64_t got =
            i * k->value[c] + try_all(k, c + 1, room0 - i * k->weight[c][0],
                                      room1 - (k->n_dims == 1 ? 0 : i * k->weight[c][1]));

        best = got > best ? got : best;
    }
    return best;
}

START_TEST(best_pattern_equals_trying_everything)
{
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        uint64_t weight[5][2], value[5], worth, again = 0, used[2] = {0, 0};
        uint32_t count[5], best[5];
        struct knapsack k = {.weight = weight, .count = count, .value = value};

        rng_state = seed;
        k.n_classes = 1 + (uint32_t)rng(5);
        k.n_dims = 1 + (uint32_t)rng(2);
        k.limit[0] = rng(60);
        k.limit[1] = rng(60);
        for (uint32_t c = 0; c < k.n_classes; c++) {
            weight[c][0] = rng(3) == 0 ? 0 : 1 + rng(20);
            weight[c][1] = rng(8) == 0 ? 0 : 1 + rng(20);
            value[c] = rng(3) == 0 ? 0 : rng(100);
            count[c] = (uint32_t)rng(5);
        }
        ck_assert(knapsack_best(&k, 1000000, best, &worth));
        ck_assert_msg(worth == try_all(&k, 0, k.limit[0], k.limit[1]), "seed %llu",
                      (unsigned long long)seed);
        for (uint32_t c = 0; c < k.n_classes; c++) {
            ck_assert_uint_le(best[c], count[c]);
            again += best[c] * value[c];
            used[0] += best[c] * weight[c][0];
            used[1] += best[c] * weight[c][1];
        }
        ck_assert_uint_eq(again, worth);
        ck_assert_uint_le(used[0], k.limit[0]);
        if (k.n_dims == 2)
            ck_assert_uint_le(used[1], k.limit[1]);
    }
}
END_TEST

START_TEST(node_cap_is_reported)
{
    const uint64_t weight[3][2] = {{3, 0}, {4, 0}, {5, 0}}, value[3] = {3, 4, 5};
    const uint32_t count[3] = {9, 9, 9};
    struct knapsack k = {3, 1, weight, count, value, {50, 0}};
    uint32_t best[3];
    uint64_t worth;

    ck_assert(!knapsack_best(&k, 2, best, &worth));
    ck_assert(knapsack_best(&k, 1000, best, &worth));
    ck_assert_uint_eq(worth, 50);
}
END_TEST

SUITE_MAIN("planner/knapsack", best_pattern_equals_trying_everything, node_cap_is_reported)
