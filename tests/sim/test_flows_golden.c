/* All scenarios of reference/maxmin_golden.json (finish times from another simulator), where the file is there:
 * BALLAST_SHARED, or ../shared, is the folder that holds reference/. */
#include "sim/flows.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static struct arena arena;
static struct flows_file golden;

/* To a relative 1e-9, and 1 ps for the grid: starts are rounded to it by half a ps, each end of a flow by up to one,
 * and what is lost goes on to those who share with it. */
START_TEST(every_finish_agrees_with_the_reference)
{
    const struct flows_scenario *s = &golden.scenarios[_i];
    int64_t *end = MEM_NEW(int64_t, s->n_flows);
    struct err e = {0};
    double got, want;

    ck_assert_msg(flows_run(s, end, &e) == 0, "%s", e.msg);
    for (uint32_t i = 0; i < s->n_flows; i++) {
        got = (double)end[i] / 1e12;
        want = s->flows[i].finish_s;
        ck_assert_msg(fabs(got - want) <= 1e-9 * want + 1.5e-12,
                      "%s: flow %u: %.15g s, expected %.15g", s->id, i, got, want);
    }
    mem_free(end);
}
END_TEST

int main(void)
{
    const char *shared = getenv("BALLAST_SHARED");
    char path[4096];
    struct err e = {0};
    FILE *there;
    Suite *s;
    TCase *c;
    SRunner *r;
    int failed;

    snprintf(path, sizeof(path), "%s/reference/maxmin_golden.json", shared ? shared : "../shared");
    there = fopen(path, "r");
    if (!there) {
        printf("skipped: no %s\n", path);
        return 77;
    }
    fclose(there);
    arena_init(&arena);
    if (flows_read_json(path, &arena, &golden, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        return EXIT_FAILURE;
    }
    s = suite_create("sim/flows: golden");
    c = tcase_create("golden");
    tcase_add_loop_test(c, every_finish_agrees_with_the_reference, 0, (int)golden.n_scenarios);
    suite_add_tcase(s, c);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    arena_release(&arena);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
