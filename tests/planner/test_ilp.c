/* GLPK behind planner/ilp.h: small programs with known answers, limits, and brute force. */
#include "planner/ilp.h"

#include "tests/suite.h"

static struct arena arena; /* of this test: libcheck forks */
static struct err err;

static struct ilp_answer search(const struct ilp *p)
{
    struct ilp_answer ans;

    ck_assert_msg(ilp_search(p, 10000, 1000, &arena, &ans, &err) == 0, "%s", err.msg);
    return ans;
}

/* columns (2,0), (1,1), (0,2) must cover (3,3): three columns are needed, by fractions too */
START_TEST(covering_three_by_three_takes_three_patterns)
{
    const uint32_t a[] = {2, 0, 1, 1, 0, 2};
    const int64_t lo[] = {3, 3}, hi[] = {ILP_FREE, ILP_FREE};
    const int64_t most[] = {ILP_FREE, ILP_FREE, ILP_FREE};
    const struct ilp p = {2, 3, a, lo, hi, most};
    struct ilp_answer ans;

    ck_assert_int_eq(ilp_relax(&p, 1000, &arena, &ans, &err), 0);
    ck_assert_int_eq(ans.status, ILP_FOUND);
    ck_assert_double_eq_tol(ans.value, 3, 1e-9);
    ck_assert_double_eq_tol(ans.dual[0], 0.5, 1e-9); /* 3*0.5 + 3*0.5 = 3 */
    ck_assert_double_eq_tol(ans.dual[1], 0.5, 1e-9);
    ans = search(&p);
    ck_assert_int_eq(ans.status, ILP_FOUND);
    ck_assert_int_ge(2 * ans.whole[0] + ans.whole[1], 3);
    ck_assert_int_ge(2 * ans.whole[2] + ans.whole[1], 3);
}
END_TEST

/* 2x = 3: a fraction exists, a whole x does not */
START_TEST(whole_infeasible_is_told_from_relaxed_feasible)
{
    const uint32_t a[] = {2};
    const int64_t three[] = {3}, most[] = {ILP_FREE};
    const struct ilp p = {1, 1, a, three, three, most};
    struct ilp_answer ans;

    ck_assert_int_eq(ilp_relax(&p, 1000, &arena, &ans, &err), 0);
    ck_assert_int_eq(ans.status, ILP_FOUND);
    ck_assert_int_eq(search(&p).status, ILP_INFEASIBLE);
}
END_TEST

START_TEST(column_limit_makes_a_program_infeasible)
{
    const uint32_t a[] = {1};
    const int64_t lo[] = {3}, hi[] = {ILP_FREE}, most[] = {2};
    const struct ilp p = {1, 1, a, lo, hi, most};
    struct ilp_answer ans;

    ck_assert_int_eq(ilp_relax(&p, 1000, &arena, &ans, &err), 0);
    ck_assert_int_eq(ans.status, ILP_INFEASIBLE);
    ck_assert_int_eq(search(&p).status, ILP_INFEASIBLE);
}
END_TEST

START_TEST(no_columns_is_infeasible)
{
    const struct ilp p = {0, 0, NULL, NULL, NULL, NULL};

    ck_assert_int_eq(search(&p).status, ILP_INFEASIBLE);
}
END_TEST

START_TEST(exhausted_limits_are_reported_as_unknown)
{
    const uint32_t a[] = {2, 0, 1, 1, 0, 2};
    const int64_t lo[] = {3, 3}, hi[] = {3, 3};
    const int64_t most[] = {ILP_FREE, ILP_FREE, ILP_FREE};
    const struct ilp p = {2, 3, a, lo, hi, most};
    struct ilp_answer ans;

    ck_assert_int_eq(ilp_relax(&p, 0, &arena, &ans, &err), 0);
    ck_assert_int_eq(ans.status, ILP_LIMIT);
    ck_assert_int_eq(ilp_search(&p, 0, 1000, &arena, &ans, &err), 0);
    ck_assert_int_eq(ans.status, ILP_LIMIT);
}
END_TEST

/* every program with 3 columns of 2 rows, coefficients 0..2, rows fixed to 0..3, against counting */
START_TEST(small_programs_agree_with_counting)
{
    uint32_t n_found = 0, n_none = 0;

    for (uint32_t code = 0; code < 729 * 16; code += 7) {
        uint32_t a[6], c = code / 16;
        int64_t want[2] = {code % 4, code / 4 % 4};
        const int64_t most[] = {3, 3, 3};
        const struct ilp p = {2, 3, a, want, want, most};
        bool possible = false;

        for (uint32_t i = 0; i < 6; i++, c /= 3)
            a[i] = c % 3;
        for (uint32_t x = 0; x < 64; x++) {
            uint32_t v[3] = {x % 4, x / 4 % 4, x / 16};

            possible = possible || (v[0] * a[0] + v[1] * a[2] + v[2] * a[4] == want[0] &&
                                    v[0] * a[1] + v[1] * a[3] + v[2] * a[5] == want[1]);
        }
        ck_assert_msg(search(&p).status == (possible ? ILP_FOUND : ILP_INFEASIBLE), "code %u",
                      code);
        n_found += possible;
        n_none += !possible;
    }
    ck_assert_uint_gt(n_found, 200);
    ck_assert_uint_gt(n_none, 200);
}
END_TEST

/* GLPK aborts when asked to add no rows, unless its hook jumps out */
START_TEST(abort_inside_glpk_becomes_an_error_and_the_next_call_works)
{
    const uint32_t a[] = {1};
    const int64_t lo[] = {1}, hi[] = {ILP_FREE}, most[] = {2};
    struct ilp p = {0, 1, a, lo, hi, most};
    struct ilp_answer ans;

    for (uint32_t i = 0; i < 3; i++) {
        p.n_rows = 0;
        ck_assert_int_eq(ilp_search(&p, 1000, 100, &arena, &ans, &err), -1);
        ck_assert_int_eq(err.code, ERR_EXTERNAL);
        p.n_rows = 1;
        ck_assert_int_eq(search(&p).status, ILP_FOUND);
    }
}
END_TEST

SUITE_MAIN("planner/ilp", covering_three_by_three_takes_three_patterns,
           whole_infeasible_is_told_from_relaxed_feasible, column_limit_makes_a_program_infeasible,
           no_columns_is_infeasible, exhausted_limits_are_reported_as_unknown,
           small_programs_agree_with_counting,
           abort_inside_glpk_becomes_an_error_and_the_next_call_works)
