/* Least squares of positive parameters: what rows tell of each, by hand, and a curve that is found
 * again. */
#include "core/leastsq.h"
#include "tests/suite.h"

#include <math.h>

/* 100 rows that say one thing each: parameter 0 in rows that are even, 1 in the others. */
START_TEST(parameters_that_have_rows_of_their_own_are_told)
{
    double j[200] = {0}, spread[2];
    size_t partner[2];

    for (size_t i = 0; i < 100; i++)
        j[2 * i + i % 2] = i % 2 ? 0.5 : 1;
    leastsq_spreads(j, 100, 2, 0.04, 0.5, spread, partner);
    /* 1 / sqrt(50 slope^2 / noise^2 + 1 / prior^2) */
    ck_assert_double_eq_tol(spread[0], 1 / sqrt(50 / 0.0016 + 4), 1e-12);
    ck_assert_double_eq_tol(spread[1], 1 / sqrt(12.5 / 0.0016 + 4), 1e-12);
    ck_assert_uint_eq(partner[0], 0);
    ck_assert_uint_eq(partner[1], 1);
}
END_TEST

/* All rows see the product alone. The matrix is a + q on the diagonal and a beside it, its inverse
 * (a + q) / (q (2a + q)). */
START_TEST(parameters_that_rows_see_together_are_named_beside_each_other)
{
    double j[300], spread[3], a = 100 / 0.0016, q = 4;
    size_t partner[3];

    for (size_t i = 0; i < 100; i++) {
        j[3 * i] = j[3 * i + 2] = 1;
        j[3 * i + 1] = 0;
    }
    leastsq_spreads(j, 100, 3, 0.04, 0.5, spread, partner);
    ck_assert_double_eq_tol(spread[0], sqrt((a + q) / (q * (2 * a + q))), 1e-9);
    ck_assert_double_eq_tol(spread[2], spread[0], 1e-12);
    ck_assert_double_eq_tol(spread[1], 0.5, 1e-12); /* no row sees it: the prior */
    ck_assert_uint_eq(partner[0], 2);
    ck_assert_uint_eq(partner[2], 0);
    ck_assert_uint_eq(partner[1], 1);
}
END_TEST

/* ln(a + b x) against ln(3 + 0.2 x) */
static void line(void *ctx, const double *v, double *out)
{
    const bool *apart = ctx;

    for (int i = 0; i < 20; i++) {
        double x = *apart ? 1 << i : 1;

        out[i] = log((v[0] + v[1] * x) / (3 + 0.2 * x));
    }
}

START_TEST(a_curve_is_found_again_and_what_it_does_not_tell_is_said)
{
    for (int apart = 0; apart < 2; apart++) {
        bool ctx = apart;
        struct leastsq_param p[2] = {{.lo = 0.1, .hi = 100, .start = 4},
                                     {.lo = 0.01, .hi = 10, .start = 0.15}};
        struct leastsq q = {.residuals = line,
                            .ctx = &ctx,
                            .n_rows = 20,
                            .outlier = 0.05,
                            .noise = 0.04,
                            .prior = 0.5};
        struct err e;

        ck_assert_msg(!leastsq_fit(&q, p, 2, &e), "%s", e.msg);
        if (apart) {
            ck_assert_double_eq_tol(p[0].value, 3, 0.05);
            ck_assert_double_eq_tol(p[1].value, 0.2, 0.002);
            ck_assert_double_lt(p[1].spread, 0.02);
        } else { /* 3.2 is told; of what, by 94 % of it, the first more than the second */
            ck_assert_double_eq_tol(p[0].value + p[1].value, 3.2, 0.05);
            ck_assert_double_gt(p[1].spread, 0.49);
        }
    }
}
END_TEST

START_TEST(a_start_out_of_range_is_refused)
{
    bool ctx = true;
    struct leastsq_param p[2] = {{.lo = 0.1, .hi = 100, .start = 400},
                                 {.lo = 0.01, .hi = 10, .start = 0.15}};
    struct leastsq q = {
        .residuals = line, .ctx = &ctx, .n_rows = 20, .outlier = 0.05, .noise = 0.04, .prior = 0.5};
    struct err e;

    ck_assert(leastsq_fit(&q, p, 2, &e));
    ck_assert_int_eq(e.code, ERR_INVALID);
}
END_TEST

SUITE_MAIN("core/leastsq", parameters_that_have_rows_of_their_own_are_told,
           parameters_that_rows_see_together_are_named_beside_each_other,
           a_curve_is_found_again_and_what_it_does_not_tell_is_said,
           a_start_out_of_range_is_refused)
