/* Fits to small tables change what their rows say and nothing else. Judged by predictions of calls
 * of its own sizes and groups, and by faults that are planted: a fit that nothing confines,
 * constants that are bent by hand, rows of constants that nothing tells. */
#include "cli/topo_fit.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

/* The rows of the program, and two that are planted behind them: a rate that the model multiplies
 * with another constant, and one that no collective has a part in. */
#define CL(member) offsetof(struct cluster, member)
static struct topo_tunable tunables[TOPO_MAX_TUNABLES];
static size_t n_real, efficiency, ramp;

static void setup_tunables(void)
{
    const struct topo_tunable planted[] = {
        {"node.nvlink.rate", "", CL(nvlink_Bps), false, 1e9, 1e13, 0},
        {"device.gemm_efficiency", "", CL(device.gemm_efficiency), false, 0.01, 1, 0}};

    n_real = topo_n_tunables;
    memcpy(tunables, topo_tunables, n_real * sizeof(*tunables));
    memcpy(tunables + n_real, planted, sizeof(planted));
    for (size_t i = 0; i < n_real; i++) {
        efficiency = strcmp(tunables[i].path, "node.nvlink.efficiency") ? efficiency : i;
        ramp = strcmp(tunables[i].path, "collectives.ramp") ? ramp : i;
    }
}

enum { SIZES = 23 };
static struct arena a;
static struct cluster cl, after;
static struct topo_fit f;

static uint64_t size_of(int i)
{
    return (uint64_t)1536 << i;
}

/* A call as NCCL chooses to run it. out[n] */
static void times_of(const struct cluster *c, enum coll_kind kind, const uint32_t group[2],
                     const uint64_t *bytes, uint32_t n, struct call_time *out)
{
    struct call call = {.kind = kind, .n_ranks = group[0], .nccl = {.out_of_place = true}};
    struct cluster sized = *c;
    struct err e;

    MUST(!cluster_resize(&sized, group[1], &e), "%s", e.msg);
    MUST(!call_sizes(&sized, &call, bytes, n, out, &e), "%s", e.msg);
}

/* ... of sizes between those that a fit looks at. out[SIZES] */
static void times(const struct cluster *c, enum coll_kind kind, const uint32_t group[2],
                  struct call_time *out)
{
    uint64_t bytes[SIZES];

    for (int i = 0; i < SIZES; i++)
        bytes[i] = size_of(i);
    times_of(c, kind, group, bytes, SIZES, out);
}

static const enum coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_ALL_GATHER, COLL_REDUCE_SCATTER,
                                       COLL_BROADCAST,  COLL_ALL_TO_ALL, COLL_SEND};
static const uint32_t groups[][2] = {{2, 1}, {3, 1}, {8, 1}, {16, 2}};
enum { N_KINDS = 6, N_GROUPS = 4 };

static struct coll_table *table_of_sizes(const struct cluster *c, enum coll_kind kind,
                                         const uint32_t group[2], const uint64_t *bytes, uint32_t n,
                                         double factor)
{
    struct coll_table *t = ARENA_NEW(&a, struct coll_table, 1);
    struct call_time *of = ARENA_NEW(&a, struct call_time, n);

    *t = (struct coll_table){.id = "t", .n_rows = n, .cluster = *c};
    t->cluster.n_nodes = group[1];
    t->call = (struct call){.kind = kind, .n_ranks = group[0]};
    t->call.nccl.out_of_place = true;
    t->rows = ARENA_NEW(&a, struct coll_row, n);
    times_of(c, kind, group, bytes, n, of);
    for (uint32_t i = 0; i < n; i++)
        t->rows[i] = (struct coll_row){.n_bytes = bytes[i],
                                       .time_us = (double)of[i].alone_ps * 1e-6 * factor};
    return t;
}

/* A table of `c`'s own times by a factor, of sizes `from`, `from` + step, ... */
static struct coll_table *table_of(const struct cluster *c, enum coll_kind kind, uint32_t group,
                                   int from, int step, uint32_t n, double factor)
{
    uint64_t bytes[SIZES];

    for (uint32_t i = 0; i < n; i++)
        bytes[i] = size_of(from + (int)i * step);
    return table_of_sizes(c, kind, groups[group], bytes, n, factor);
}

/* Fits the description cl; the result is in `after`. */
static void fit(struct coll_table *tables, size_t n_tables, size_t n_tunables)
{
    struct err e;

    after = cl;
    topo_fit_init(&f, tunables, n_tunables, &after, tables, n_tables, &a);
    MUST(!topo_fit(&f, &e), "%s", e.msg);
}

/* The largest change of a call beyond ln = lo or hi, against the direction of the rows too; 0:
 * none. */
static double beyond(const struct cluster *now, double lo, double hi)
{
    double most = 0;

    for (int k = 0; k < N_KINDS; k++)
        for (int g = 0; g < N_GROUPS; g++) {
            struct call_time was[SIZES], is[SIZES];

            if (groups[g][1] > 1 && !cl.nics_per_node)
                continue;
            times(&cl, kinds[k], groups[g], was);
            times(now, kinds[k], groups[g], is);
            for (int i = 0; i < SIZES; i++) {
                double d = log((double)is[i].alone_ps / (double)was[i].alone_ps);

                most = fmax(most, fmax(d - hi, lo - d));
            }
        }
    return most;
}

/* Of the calls in a node, how many go from Simple to another protocol or back. Between the other
 * two the times decide. */
static int chosen_otherwise(const struct cluster *now)
{
    int n = 0;

    for (int k = 0; k < N_KINDS; k++)
        for (int g = 0; g < 3; g++) {
            struct call_time was[SIZES], is[SIZES];

            times(&cl, kinds[k], groups[g], was);
            times(now, kinds[k], groups[g], is);
            for (int i = 0; i < SIZES; i++)
                n += (was[i].nccl.protocol == PROTOCOL_SIMPLE) !=
                     (is[i].nccl.protocol == PROTOCOL_SIMPLE);
        }
    return n;
}

static void load(const char *name)
{
    struct err e;

    MUST(!cluster_load(name, &a, &cl, &e), "%s", e.msg);
}

/* All rows are as far off, so no call may be further off, nor the other way; sizes and groups
 * between those that the fit looks at may be a tenth further. */
START_TEST(a_table_of_one_collective_moves_no_call_further_nor_the_other_way)
{
    static const char *const clusters[] = {"dgx-a100", "hgx-h100-ndr", "hgx-b200", "aws-p4de"};
    static const double factors[] = {0.8, 0.95, 1.1};
    static const int ranges[][3] = {{0, 1, 7}, {8, 1, 7}, {14, 1, 9}, {0, 3, 8}};
    int moved = 0;

    load(clusters[_i]);
    for (int k = 0; k < N_KINDS; k++)
        for (uint32_t g = 0; g < N_GROUPS; g += g ? 1 : 2) /* 2, 8 and 16 GPUs */
            for (int r = 0; r < 4; r++) {
                double x = factors[((uint32_t)k + g + (uint32_t)r) % 3], off = log(x), most;
                struct coll_table *t = table_of(&cl, kinds[k], g, ranges[r][0], ranges[r][1],
                                                (uint32_t)ranges[r][2], x);

                fit(t, 1, n_real);
                most = beyond(&after, fmin(0, off), fmax(0, off));
                MUST(most < 0.1 * fabs(off), "%s, kind %d over %u, range %d, %g: %.2f %%", cl.name,
                     (int)kinds[k], groups[g][0], r, x, 100 * most);
                MUST(off > 0 ? beyond(&after, -1e-6, 9) == 0 : beyond(&after, -9, 1e-6) == 0,
                     "%s, kind %d over %u, range %d, %g: the other way", cl.name, (int)kinds[k],
                     groups[g][0], r, x);
                moved += beyond(&after, -1e-6, 1e-6) > 0;
            }
    ck_assert_int_gt(moved, 20); /* not by moving nothing */
}
END_TEST

/* Planted: efficiency is 20 % better and the ramp twice as long. From 192 MiB on every row is
 * faster, and a search makes the ramp longer to get them all, so that calls of a few MiB, of which
 * no row is, become slower. */
static struct coll_table *rows_of_two_that_differ(void)
{
    struct cluster truth = cl;

    truth.nvlink_efficiency *= 1.2;
    truth.coll.ramp_s *= 2;
    return table_of(&truth, COLL_ALL_GATHER, 2, 17, 1, 6, 1);
}

START_TEST(a_search_that_nothing_confines_is_found_out)
{
    const struct topo_tunable two[] = {tunables[efficiency], tunables[ramp]};
    struct topo_calls rows_alone;
    struct coll_table *t;
    struct err e;

    load("dgx-a100");
    t = rows_of_two_that_differ();
    for (int confines = 0; confines < 2; confines++) {
        after = cl;
        topo_fit_init(&f, two, 2, &after, t, 1, &a);
        rows_alone = *f.calls;
        rows_alone.n = rows_alone.n_rows;
        rows_alone.n_groups = 1;
        if (!confines)
            f.calls = &rows_alone;
        ck_assert_int_eq(topo_fit(&f, &e), 0);
        if (confines) {
            ck_assert(beyond(&after, -9, 1e-6) == 0);
            ck_assert_int_eq(f.told[1].verdict, TOPO_AGAINST);
            ck_assert_double_eq(after.coll.ramp_s, cl.coll.ramp_s);
        } else {
            ck_assert_double_gt(after.coll.ramp_s, 1.3 * cl.coll.ramp_s);
            ck_assert_double_gt(beyond(&after, -9, 1e-6), 0.03);
        }
        ck_assert_double_gt(after.nvlink_efficiency, 1.05 * cl.nvlink_efficiency);
    }
}
END_TEST

/* Planted: rows of constants that the model multiplies with another one, or that no collective has
 * a part in. */
START_TEST(a_constant_that_no_row_tells_stays_and_says_why)
{
    struct coll_table *t;
    size_t rate = n_real;

    load("dgx-a100");
    t = table_of(&cl, COLL_ALL_GATHER, 2, 14, 1, 9, 0.9);
    fit(t, 1, n_real);
    ck_assert(topo_moved(f.told[efficiency].verdict));
    ck_assert_uint_gt(f.told[efficiency].rows, 4);
    ck_assert_double_eq_tol(f.told[efficiency].off, log(0.9), 1e-6);
    ck_assert_uint_eq(f.told[efficiency].kinds, 1u << COLL_ALL_GATHER);
    fit(t, 1, n_real + 2);
    ck_assert_int_eq(f.told[rate].verdict, TOPO_TOGETHER);
    ck_assert_uint_eq(f.told[rate].partner, efficiency);
    ck_assert_int_eq(f.told[efficiency].verdict, TOPO_TOGETHER);
    ck_assert_uint_eq(f.told[efficiency].partner, rate);
    ck_assert_int_eq(f.told[rate + 1].verdict, TOPO_NO_ROW);
    for (size_t i = 0; i < n_real + 2; i++)
        if (!topo_moved(f.told[i].verdict))
            MUST(topo_value(&after, &tunables[i]) == topo_value(&cl, &tunables[i]), "%s",
                 tunables[i].path);
}
END_TEST

START_TEST(rows_in_a_node_tell_nothing_of_the_network)
{
    load("dgx-a100");
    fit(table_of(&cl, COLL_ALL_REDUCE, 2, 0, 1, 20, 0.8), 1, n_real);
    ck_assert(topo_fit_tells(&f));
    for (size_t i = 0; i < n_real; i++)
        ck_assert(!tunables[i].net || f.told[i].verdict == TOPO_NO_ROW);
}
END_TEST

/* What is said to tell more does so. */
START_TEST(the_table_to_measure_next_tells_what_it_promises)
{
    struct coll_table two[2];
    bool promised[TOPO_MAX_TUNABLES];
    int n = 0;

    load("dgx-a100");
    two[0] = *table_of(&cl, COLL_ALL_GATHER, 2, 0, 1, 7, 1);
    fit(two, 1, n_real);
    topo_fit_measure_next(&f);
    ck_assert(f.next);
    memcpy(promised, f.next_tells, sizeof(promised));
    two[1] = *table_of_sizes(&cl, f.next->call.kind,
                             (uint32_t[2]){f.next->call.n_ranks, f.next->n_nodes}, f.next->bytes,
                             (uint32_t)f.next->n, 1);
    two[1].id = "u";
    fit(two, 2, n_real);
    for (size_t i = 0; i < n_real; i++) {
        MUST(!promised[i] || f.told[i].verdict != TOPO_TOGETHER, "%s.%s", tunables[i].path,
             tunables[i].part);
        n += promised[i];
    }
    ck_assert_int_gt(n, 1);
}
END_TEST

/* NCCL knows nothing of a machine's rates. Planted: the rate alone, as it would be without what
 * goes with it. */
START_TEST(a_fit_leaves_the_choice_to_nccl)
{
    struct cluster bent;

    load("dgx-a100");
    fit(table_of(&cl, COLL_ALL_REDUCE, 2, 14, 1, 9, 0.8), 1, n_real);
    ck_assert_double_gt(after.nvlink_efficiency, 1.1 * cl.nvlink_efficiency);
    ck_assert_int_eq(chosen_otherwise(&after), 0);
    bent = cl;
    bent.nvlink_efficiency = after.nvlink_efficiency;
    ck_assert_int_gt(chosen_otherwise(&bent), 0);
}
END_TEST

static void setup(void)
{
    arena_init(&a);
    setup_tunables();
}

static void teardown(void)
{
    arena_release(&a);
}

int main(void)
{
    TCase *tc = tcase_create("cli/topo_fit");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_table_of_one_collective_moves_no_call_further_nor_the_other_way, 0,
                        4);
    tcase_add_test(tc, a_search_that_nothing_confines_is_found_out);
    tcase_add_test(tc, a_constant_that_no_row_tells_stays_and_says_why);
    tcase_add_test(tc, rows_in_a_node_tell_nothing_of_the_network);
    tcase_add_test(tc, the_table_to_measure_next_tells_what_it_promises);
    tcase_add_test(tc, a_fit_leaves_the_choice_to_nccl);
    return suite_run_case("cli/topo_fit", tc);
}
