/* tests/suite.h - the main() that all libcheck programs share.
 *
 *     SUITE_MAIN("sim/queue", pop_of_empty_queue_is_false, equal_times_come_out_in_push_order)
 *
 * Tests are START_TEST functions with statement-like names. Settings come from the environment (CK_FORK, CK_RUN_CASE).
 */
#ifndef BALLAST_TESTS_SUITE_H
#define BALLAST_TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

/* ck_assert_msg for inner loops: libcheck writes a file at every check that passes. */
#define MUST(cond, ...)                                                                            \
    do {                                                                                           \
        if (!(cond))                                                                               \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

static inline int suite_run(const char *name, const TTest *const *tests, size_t n)
{
    Suite *s = suite_create(name);
    TCase *tc = tcase_create(name);
    SRunner *sr;
    int failed;

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(tc, tests[i]);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define SUITE_MAIN(name, ...)                                                                      \
    int main(void)                                                                                 \
    {                                                                                              \
        const TTest *const tests[] = {__VA_ARGS__};                                                \
                                                                                                   \
        return suite_run(name, tests, sizeof(tests) / sizeof(tests[0]));                           \
    }

#endif
