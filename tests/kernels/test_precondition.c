/* Pieces of Shampoo and SOAP by hand; test_shampoo.c, test_soap.c and test_optimizer_golden.c have them put together. */
#include "core/mem.h"
#include "kernels/precondition.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

static const struct kernel_on on = {.act = DTYPE_FP32, .weight = DTYPE_FP32, .grad = DTYPE_FP32};

static bool near(double x, double y)
{
    return fabs(x - y) <= 1e-6 * fmax(fabs(x), fabs(y));
}

/* First step: m/(1-b1) is g and v/(1-b2) is g^2, so Adam's step is the sign; what lies outside the block stays. */
START_TEST(moments_of_a_first_step_are_the_gradient)
{
    float grad[6] = {1, -2, 9, 4, -8, 9}, m[6] = {0, 0, 7, 0, 0, 7}, v[6] = {0, 0, 7, 0, 0, 7};
    float g[4], direction[4];
    double adam;
    const struct kernel_moments a = {.rows = 2,
                                     .cols = 2,
                                     .ld = 3,
                                     .grad_type = DTYPE_FP32,
                                     .state_type = DTYPE_FP32,
                                     .step = 1,
                                     .beta1 = 0.5f,
                                     .beta2 = 0.75f,
                                     .eps = 0,
                                     .grad_scale = 2,
                                     .grad = grad,
                                     .m = m,
                                     .v = v,
                                     .g = g,
                                     .direction = direction,
                                     .adam = &adam};
    const float want[4] = {2, -4, 8, -16};

    kernel_moments(&on, &a);
    for (int i = 0; i < 4; i++) {
        int at = i / 2 * 3 + i % 2;

        ck_assert(near(g[i], want[i]) && near(direction[i], want[i]));
        ck_assert(near(m[at], want[i] / 2) && near(v[at], want[i] * want[i] / 4));
    }
    ck_assert(near(adam, 4));
    ck_assert(m[2] == 7 && m[5] == 7 && v[2] == 7 && v[5] == 7);
}
END_TEST

/* 256/correct 4 = 64 = 2^6 and 0: (64 + 1 * 64)^(-1/8) and 64^(-1/8), by rows and by columns. */
START_TEST(root_scales_vectors_by_their_values)
{
    const float values[2] = {0, 256};
    float rows[4] = {1, 2, 3, 4}, cols[4] = {1, 3, 2, 4};
    const double small = pow(64, -0.125), big = pow(128, -0.125);
    struct kernel_root a = {
        .n = 2, .as_rows = true, .correct = 4, .ridge = 1, .values = values, .vectors = rows};

    kernel_root(&on, &a);
    ck_assert(near(rows[0], small) && near(rows[1], 2 * small));
    ck_assert(near(rows[2], 3 * big) && near(rows[3], 4 * big));
    a.as_rows = false;
    a.vectors = cols;
    kernel_root(&on, &a);
    ck_assert(cols[0] == rows[0] && cols[2] == rows[1] && cols[1] == rows[2] && cols[3] == rows[3]);
}
END_TEST

START_TEST(root_of_zero_is_the_identity_and_of_failure_nan)
{
    const float zero[2] = {0, -0.5f}, bad[2] = {1, NAN};
    const int failed = 3;
    float x[4] = {1, 2, 3, 4};
    struct kernel_root a = {
        .n = 2, .as_rows = true, .correct = 1, .ridge = 1, .values = zero, .vectors = x};

    kernel_root(&on, &a);
    ck_assert(x[0] == 1 && x[1] == 2 && x[2] == 3 && x[3] == 4);
    a.values = bad;
    kernel_root(&on, &a);
    ck_assert(!isnan(x[0]) && !isnan(x[1]) && isnan(x[2]) && isnan(x[3]));
    a.info = &failed;
    kernel_root(&on, &a);
    ck_assert(isnan(x[0]));
}
END_TEST

START_TEST(graft_gives_the_norm_of_the_other_step)
{
    const float x[2] = {3, 4}, nothing[2] = {0, 0};
    double adam = 100;
    float to[4] = {9, 9, 9, 9};
    struct kernel_graft a = {.rows = 2, .cols = 1, .ld = 2, .x = x, .adam = &adam, .to = to};

    kernel_graft(&on, &a);
    ck_assert(near(to[0], 6) && near(to[2], 8) && to[1] == 9 && to[3] == 9);
    a.adam = NULL;
    kernel_graft(&on, &a);
    ck_assert(to[0] == 3 && to[2] == 4);
    a.x = nothing;
    a.adam = &adam;
    kernel_graft(&on, &a);
    ck_assert(to[0] == 0 && to[2] == 0);
}
END_TEST

START_TEST(order_descends_keeps_ties_and_puts_nan_last)
{
    float values[5] = {1, NAN, 3, 1, -INFINITY}, sorted[5];
    const uint32_t want[5] = {1, 3, 0, 2, 4};
    uint32_t place[5];
    const struct kernel_order a = {.n = 5, .values = values, .sorted = sorted, .place = place};

    kernel_order(&on, &a);
    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(place[i], want[i]);
    ck_assert(sorted[0] == 3 && sorted[1] == 1 && sorted[2] == 1);
}
END_TEST

START_TEST(order_of_two_matrices_is_by_their_columns_products)
{
    const float x[4] = {1, 2, 3, 4}, y[4] = {5, 6, 7, 8}; /* 1*5 + 3*7 = 26, 2*6 + 4*8 = 44 */
    float values[2], sorted[2];
    uint32_t place[2];
    const struct kernel_order a = {
        .n = 2, .x = x, .y = y, .values = values, .sorted = sorted, .place = place};

    kernel_order(&on, &a);
    ck_assert(values[0] == 26 && values[1] == 44 && sorted[0] == 44 && sorted[1] == 26);
    ck_assert(place[0] == 1 && place[1] == 0);
}
END_TEST

START_TEST(permute_moves_rows_and_columns_and_transposes)
{
    const float from[6] = {1, 2, 3, 4, 5, 6}; /* (2,3) */
    const uint32_t rows[2] = {1, 0}, cols[3] = {2, 0, 1};
    const float moved[6] = {5, 6, 4, 2, 3, 1}, turned[6] = {5, 2, 6, 3, 4, 1},
                plain[6] = {1, 4, 2, 5, 3, 6};
    float to[6];
    struct kernel_permute a = {
        .rows = 2, .cols = 3, .row_place = rows, .col_place = cols, .from = from, .to = to};

    kernel_permute(&on, &a);
    ck_assert(!memcmp(to, moved, sizeof(to)));
    a.transpose = true;
    kernel_permute(&on, &a);
    ck_assert(!memcmp(to, turned, sizeof(to)));
    a.row_place = a.col_place = NULL;
    kernel_permute(&on, &a);
    ck_assert(!memcmp(to, plain, sizeof(to)));
}
END_TEST

SUITE_MAIN("kernels/precondition", moments_of_a_first_step_are_the_gradient,
           root_scales_vectors_by_their_values, root_of_zero_is_the_identity_and_of_failure_nan,
           graft_gives_the_norm_of_the_other_step, order_descends_keeps_ties_and_puts_nan_last,
           order_of_two_matrices_is_by_their_columns_products,
           permute_moves_rows_and_columns_and_transposes)
