/* tests/cuda/cub, CUB's block reduction for kernels on a CPU: its order, by hand and by a loop of our own, and that it notices what
 * CUB does not allow. Whether the toolkit's CUB has this order is tests/gpu/cub.sh's to say. */
#include "tests/cuda/emulate_control.h"
#include "tests/cuda/reductions.h"
#include "tests/kernels/trial.h"

static const unsigned sizes[] = {32, 64, 96, 256, 512, 1024};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), MAX = 1024, ORDERS = 20 };

static const char *reduced(enum reduction which, unsigned block, uint64_t order, const void *in,
                           void *out)
{
    emulate_reset(order, 0);
    reduction_run(which, block, in, out);
    return emulate_failure();
}

/* In 24 bits 2^24 + 1 is 2^24, and 2^24 + 2 is itself: who is added to whom first shows. */
START_TEST(by_hand_neighbours_come_first_and_warps_in_turn)
{
    static const struct {
        unsigned ones[2];
        float sum;
        const char *why;
    } rows[] = {
        {{1, 2}, 16777216, "lane 1 comes to lane 0 alone, then lane 2 with lane 3"},
        {{2, 3}, 16777218, "lane 3 comes to lane 2 before both come to lane 0"},
        {{4, 7}, 16777218, "lanes 4 to 7 are one before they come to lane 0"},
        {{4, 8}, 16777216, "they come before lanes 8 to 15"},
        {{3, 16}, 16777216, "the other half of the warp comes last, alone"},
        {{17, 30}, 16777218, "but as one"},
        {{40, 63}, 16777218, "a warp is one"},
        {{32, 64}, 16777216, "warp 1, then warp 2"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (uint64_t order = 0; order < ORDERS; order++) {
            float x[96] = {16777216}, sum;

            x[rows[i].ones[0]] = x[rows[i].ones[1]] = 1;
            ck_assert_ptr_null(reduced(REDUCTION_FLOATS, 96, order, x, &sum));
            MUST(sum == rows[i].sum, "row %zu: %.9g: %s", i, (double)sum, rows[i].why);
        }
}
END_TEST

/* The same order written down otherwise: sums of 2, 4, ... 32 neighbours, then warp after warp. */
#define TREE(type)                                                                                 \
    static type tree_##type(type *x, unsigned n)                                                   \
    {                                                                                              \
        for (unsigned by = 1; by < 32; by *= 2)                                                    \
            for (unsigned i = 0; i < n; i += 2 * by)                                               \
                x[i] += x[i + by];                                                                 \
        for (unsigned i = 32; i < n; i += 32)                                                      \
            x[0] += x[i];                                                                          \
        return x[0];                                                                               \
    }
TREE(double)
TREE(float)

START_TEST(sums_have_the_bits_of_that_order)
{
    unsigned differs = 0;

    for (unsigned s = 0; s < SIZES; s++)
        for (uint64_t order = 0; order < ORDERS; order++) {
            uint64_t seed = 100 * s + order + 1;
            double d[MAX], sum, plain = 0, want;
            float f[MAX], fsum;
            unsigned n = sizes[s];

            for (unsigned i = 0; i < n; i++) {
                d[i] = rng_in(&seed, -1, 1) * (i % 3 ? 1 : 1e6);
                f[i] = (float)d[i];
                plain += d[i];
            }
            ck_assert_ptr_null(reduced(REDUCTION_DOUBLES, n, order, d, &sum));
            ck_assert_ptr_null(reduced(REDUCTION_FLOATS, n, order, f, &fsum));
            want = tree_double(d, n);
            differs += plain != want;
            MUST(sum == want, "%u doubles: %a, expected %a", n, sum, want);
            ck_assert(fsum == tree_float(f, n));
        }
    /* another order would have been seen */
    ck_assert_uint_gt(differs, SIZES * ORDERS / 2);
}
END_TEST

START_TEST(lower_threads_are_the_first_operand)
{
    for (unsigned s = 0; s < SIZES; s++)
        for (uint64_t order = 0; order < ORDERS; order++) {
            uint64_t seed = 7 + order;
            struct reduction_matrix x[MAX], got, all = {{{1, 0}, {0, 1}}};

            for (unsigned i = 0; i < sizes[s]; i++) {
                struct reduction_matrix a = all;

                for (int k = 0; k < 4; k++)
                    x[i].m[k / 2][k % 2] = (uint16_t)rng_in(&seed, 0, 65535);
                /* odd determinants: products of even ones end as 0 */
                x[i].m[0][0] |= 1, x[i].m[1][1] |= 1, x[i].m[0][1] &= 0xfffe;
                for (int r = 0; r < 2; r++)
                    for (int c = 0; c < 2; c++)
                        all.m[r][c] = (uint16_t)((unsigned)a.m[r][0] * x[i].m[0][c] +
                                                 (unsigned)a.m[r][1] * x[i].m[1][c]);
            }
            ck_assert_ptr_null(reduced(REDUCTION_MATRICES, sizes[s], order, x, &got));
            ck_assert(!memcmp(&got, &all, sizeof(all)));
        }
}
END_TEST

START_TEST(types_of_any_size_arrive_whole)
{
    for (unsigned s = 0; s < SIZES; s++) {
        struct reduction_five x[MAX], got, all = {{0}};

        for (unsigned i = 0; i < sizes[s]; i++)
            for (unsigned k = 0; k < 5; k++) {
                x[i].x[k] = (uint16_t)(i * i + 1000 * k);
                all.x[k] = (uint16_t)(all.x[k] + x[i].x[k]);
            }
        ck_assert_ptr_null(reduced(REDUCTION_FIVES, sizes[s], s, x, &got));
        ck_assert(!memcmp(&got, &all, sizeof(all)));
    }
}
END_TEST

START_TEST(storage_is_used_again_behind_a_barrier_only)
{
    for (unsigned s = 1; s < SIZES; s++) {
        unsigned wrong = 0;

        for (uint64_t order = 1; order <= 50; order++) {
            double x[MAX], out[2], n = sizes[s];

            for (unsigned i = 0; i < sizes[s]; i++)
                x[i] = i;
            ck_assert_ptr_null(reduced(REDUCTION_TWICE, sizes[s], order, x, out));
            ck_assert(out[0] == n * (n - 1) / 2 && out[1] == n * (n - 1));
            ck_assert_ptr_null(reduced(REDUCTION_NO_BARRIER, sizes[s], order, x, out));
            wrong += out[0] != n * (n - 1) / 2 || out[1] != n * (n - 1);
        }
        /* it needs a warp that comes before the first: with two warps every second order has it so */
        MUST(wrong >= (sizes[s] == 64 ? 10 : 25), "%u threads: %u of 50 orders", sizes[s], wrong);
    }
}
END_TEST

START_TEST(only_thread_0_gets_the_result)
{
    double x[MAX], out[MAX];

    for (unsigned i = 0; i < MAX; i++)
        x[i] = 1;
    ck_assert_ptr_null(reduced(REDUCTION_EVERY, 256, 1, x, out));
    ck_assert(out[0] == 256);
    for (unsigned i = 1; i < 256; i++)
        ck_assert(isnan(out[i]));
}
END_TEST

START_TEST(wrong_use_is_named)
{
    static const struct {
        enum reduction which;
        const char *says;
    } rows[] = {
        {REDUCTION_OTHER_SIZE, "threads in a block of"},
        {REDUCTION_OWN_ROOM, "not in shared memory"},
        {REDUCTION_SOME, "wait for ever"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (unsigned s = 0; s < SIZES; s++) {
            double x[MAX] = {0}, out[MAX];
            const char *why = reduced(rows[i].which, sizes[s], 1, x, out);

            ck_assert_ptr_nonnull(why);
            MUST(strstr(why, rows[i].says), "row %zu: %s", i, why);
        }
}
END_TEST

SUITE_MAIN("cuda/cub", by_hand_neighbours_come_first_and_warps_in_turn,
           sums_have_the_bits_of_that_order, lower_threads_are_the_first_operand,
           types_of_any_size_arrive_whole, storage_is_used_again_behind_a_barrier_only,
           only_thread_0_gets_the_result, wrong_use_is_named)
