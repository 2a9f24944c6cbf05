/* All scenarios of reference/maxmin_golden.json (finish times from another simulator), where the file is there:
 * BALLAST_SHARED, or ../shared, is the folder that holds reference/. */
#include "sim/flows.h"
#include "tests/suite.h"

#include <math.h>

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
    char path[4096];
    struct err e = {0};
    int status;

    if (!suite_shared("reference/maxmin_golden.json", path))
        return 77;
    arena_init(&arena);
    if (flows_read_json(path, &arena, &golden, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        return EXIT_FAILURE;
    }
    status = suite_run_loop("sim/flows: golden", every_finish_agrees_with_the_reference,
                            (int)golden.n_scenarios);
    arena_release(&arena);
    return status;
}
