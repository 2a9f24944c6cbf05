/* tests/suite.h - the main() that all libcheck programs share.
 *
 *     SUITE_MAIN("sim/queue", pop_of_empty_queue_is_false, equal_times_come_out_in_push_order)
 *
 * Tests are START_TEST functions with statement-like names. Settings come from the environment (CK_FORK, CK_RUN_CASE).
 */
#ifndef BALLAST_TESTS_SUITE_H
#define BALLAST_TESTS_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* ck_assert_msg for inner loops: libcheck writes a file at every check that passes. */
#define MUST(cond, ...)                                                                            \
    do {                                                                                           \
        if (!(cond))                                                                               \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

/* Runs the one case of a suite; frees it. */
static inline int suite_run_case(const char *name, TCase *tc)
{
    Suite *s = suite_create(name);
    SRunner *sr;
    int failed;

    tcase_set_timeout(tc, 60);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static inline int suite_run(const char *name, const TTest *const *tests, size_t n)
{
    TCase *tc = tcase_create(name);

    for (size_t i = 0; i < n; i++)
        tcase_add_test(tc, tests[i]);
    return suite_run_case(name, tc);
}

/* Runs `test` once for each i < n: it finds i in _i. */
static inline int suite_run_loop(const char *name, const TTest *test, int n)
{
    TCase *tc = tcase_create(name);

    tcase_add_loop_test(tc, test, 0, n);
    return suite_run_case(name, tc);
}

/* The path of a file that is not part of the repository: in $BALLAST_SHARED, else in ../shared. False, and a line that says so, when
 * it is not there; such a program ends with status 77. */
static inline bool suite_shared(const char *name, char path[4096])
{
    const char *shared = getenv("BALLAST_SHARED");
    FILE *there;

    snprintf(path, 4096, "%s/%s", shared ? shared : "../shared", name);
    there = fopen(path, "r");
    if (!there) {
        printf("skipped: no %s\n", path);
        return false;
    }
    fclose(there);
    return true;
}

#define SUITE_MAIN(name, ...)                                                                      \
    int main(void)                                                                                 \
    {                                                                                              \
        const TTest *const tests[] = {__VA_ARGS__};                                                \
                                                                                                   \
        return suite_run(name, tests, sizeof(tests) / sizeof(tests[0]));                           \
    }

#endif
