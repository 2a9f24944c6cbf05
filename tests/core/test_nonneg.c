#include "core/nonneg.h"
#include "tests/suite.h"

#include <math.h>

static struct nonneg f;

/* y = 2 a + 3 b, exactly, of features that differ by ten orders. */
START_TEST(exact_sums_give_their_constants_back)
{
    nonneg_init(&f, 3);
    for (int i = 1; i <= 6; i++) {
        const double x[] = {i, 1e10 * (i * i % 7), 0};

        nonneg_add(&f, x, 2 * x[0] + 3e-10 * x[1]);
    }
    nonneg_solve(&f);
    ck_assert_double_eq_tol(f.x[0], 2, 1e-9);
    ck_assert_double_eq_tol(f.x[1] * 1e10, 3, 1e-9);
    ck_assert(f.x[2] == 0); /* no row has it */
    ck_assert_double_le(nonneg_error(&f), 1e-9);
    nonneg_release(&f);
}
END_TEST

/* y = a - b would be best: without negatives b has no part, and a is what minimises (a - 1)^2 / 1 + (2 a - 1)^2 / 1: 3/5. Errors
 * 2/5 and 1/5 of 2. */
START_TEST(what_would_be_negative_is_nothing)
{
    static const double rows[][2] = {{1, 0}, {2, 1}};

    nonneg_init(&f, 2);
    nonneg_add(&f, rows[0], 1);
    nonneg_add(&f, rows[1], 1);
    nonneg_add(&f, rows[1], 0); /* says nothing */
    ck_assert_uint_eq(f.n_rows, 2);
    nonneg_solve(&f);
    ck_assert_double_eq_tol(f.x[0], 0.6, 1e-12);
    ck_assert(f.x[1] == 0);
    ck_assert_double_eq_tol(nonneg_error(&f), 0.3, 1e-12);
    nonneg_release(&f);
}
END_TEST

/* One constant for y = 1 of feature 1 and y = 4 of feature 2: errors count over y, so (x - 1)^2 / 1 + (2 x - 4)^2 / 4 is least
 * at 2 (x - 1) + (2 x - 4) = 0: 3/2. */
START_TEST(errors_count_over_the_time)
{
    static const double one[] = {1}, two[] = {2};

    nonneg_init(&f, 1);
    nonneg_add(&f, one, 1);
    nonneg_add(&f, two, 4);
    nonneg_solve(&f);
    ck_assert_double_eq_tol(f.x[0], 1.5, 1e-12);
    nonneg_release(&f);
}
END_TEST

SUITE_MAIN("core/nonneg", exact_sums_give_their_constants_back, what_would_be_negative_is_nothing,
           errors_count_over_the_time)
