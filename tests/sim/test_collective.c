/* Times of single collectives on bundled clusters, against the formula of topologies/README.md worked by hand. */
#include "sim/collective.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

static struct cluster cl;
static struct arena arena;
static struct err err;

static void load(const char *name, uint32_t nodes)
{
    if (cluster_load(name, &arena, &cl, &err) || cluster_resize(&cl, nodes, &err))
        ck_abort_msg("%s", err.msg);
}

/* All GPUs of the cluster; 0 repeats: one call. */
static double repeated_us(enum coll_kind kind, uint64_t bytes, uint32_t repeat)
{
    uint32_t world = cl.n_nodes * cl.gpus_per_node;
    struct group g = {
        .name = "world", .n_axes = 1, .size = {world}, .stride = {1}, .n_members = world};
    struct op o = {.kind = OP_COLLECTIVE,
                   .loop = PROGRAM_NONE,
                   .coll = {.kind = kind,
                            .elements = (bytes) / 2,
                            .wire = {.dtype = DTYPE_BF16},
                            .repeat = repeat}};
    struct program p = {.world = world,
                        .gpus_per_node = cluster_domain_gpus(&cl),
                        .ops = &o,
                        .n_ops = 1,
                        .groups = &g,
                        .n_groups = 1};
    struct instance i = {0};

    return (double)sim_collective_ps(&p, &cl, &o, &i, ALGO_RING) / 1e6;
}

static double time_us(enum coll_kind kind, uint64_t bytes)
{
    return repeated_us(kind, bytes, 0);
}

/* Each of five calls has its own last operation. */
START_TEST(five_calls_take_five_times_one)
{
    arena_init(&arena);
    load("dgx-a100", 1);
    for (uint64_t bytes = 4096; bytes < UINT64_C(1) << 32; bytes *= 64)
        ck_assert_double_eq_tol(repeated_us(COLL_ALL_GATHER, bytes, 5),
                                5 * time_us(COLL_ALL_GATHER, bytes), 1e-5);
    arena_release(&arena);
}
END_TEST

/* LL: base, 7 steps, and 7/8 of the bytes at its share of NVLink's rate with the tail of an eighth. */
START_TEST(a_small_all_gather_costs_its_steps)
{
    const struct coll_constants *k = &cl.coll;
    double rate;

    arena_init(&arena);
    load("dgx-a100", 1);
    rate = cl.nvlink_Bps * cl.nvlink_efficiency * k->rate_share[PROTOCOL_LL] / 1e6;
    ck_assert_double_eq_tol(time_us(COLL_ALL_GATHER, 8192),
                            k->base_s[PROTOCOL_LL] * 1e6 + 7 * k->step_s[PROTOCOL_LL] * 1e6 +
                                (7168 + k->tail[TAIL_LOW_LATENCY] * 1024) / rate,
                            1e-3);
    arena_release(&arena);
}
END_TEST

START_TEST(between_nodes_the_nics_set_the_rate)
{
    double half, full;

    arena_init(&arena);
    load("dgx-a100", 2);
    full = time_us(COLL_ALL_GATHER, 1 << 30);
    /* 15/16 of the bytes leave each node through 8 NICs of 23.75 GB/s, plus steps and ramp */
    ck_assert_double_gt(full, 15.0 / 16 * 1073741824 / 190e3);
    ck_assert_double_lt(full, 15.0 / 16 * 1073741824 / 190e3 * 1.08);
    cl.nic_Bps /= 2;
    half = time_us(COLL_ALL_GATHER, 1 << 30);
    ck_assert_double_gt(half, 1.9 * full);
    arena_release(&arena);
}
END_TEST

/* 72 GPUs of 18 trays: 71 steps of NVLink and no NIC; one tray more, and the NICs set the rate. */
START_TEST(inside_an_nvlink_domain_nodes_do_not_count)
{
    double x, rate, one, two;

    arena_init(&arena);
    load("gb200-nvl72", 18);
    one = time_us(COLL_ALL_GATHER, 1 << 30);
    rate = cl.nvlink_Bps * cl.nvlink_efficiency / 1e6;
    x = 71.0 / 72 * 1073741824 / rate;
    ck_assert_double_gt(one, x);
    ck_assert_double_lt(one, 1.5 * x);
    cl.nic_Bps /= 10;
    ck_assert(time_us(COLL_ALL_GATHER, 1 << 30) == one);
    ck_assert_int_eq(cluster_resize(&cl, 19, &err), 0);
    two = time_us(COLL_ALL_GATHER, 1 << 30);
    cl.nic_Bps *= 10;
    ck_assert_double_gt(two, 5 * time_us(COLL_ALL_GATHER, 1 << 30));
    arena_release(&arena);
}
END_TEST

START_TEST(a_hop_counts_beyond_a_leaf_only)
{
    double before;

    arena_init(&arena);
    load("dgx-a100", 20);
    before = time_us(COLL_ALL_GATHER, 1 << 20);
    cl.hop_s = 10e-6;
    ck_assert(time_us(COLL_ALL_GATHER, 1 << 20) == before);
    ck_assert_int_eq(cluster_resize(&cl, 21, &err), 0);
    before = time_us(COLL_ALL_GATHER, 1 << 20);
    cl.hop_s = 20e-6; /* two more hops in each of 167 * 21/168 steps between nodes */
    ck_assert_double_eq_tol(time_us(COLL_ALL_GATHER, 1 << 20), before + 2 * 10 * 167.0 * 21 / 168,
                            1e-3);
    arena_release(&arena);
}
END_TEST

START_TEST(oversubscription_counts_beyond_a_leaf_only)
{
    double before;

    arena_init(&arena);
    load("dgx-a100", 20);
    before = time_us(COLL_ALL_TO_ALL, 1 << 30);
    cl.oversubscription = 8;
    ck_assert(time_us(COLL_ALL_TO_ALL, 1 << 30) == before);
    cl.oversubscription = 1;
    ck_assert_int_eq(cluster_resize(&cl, 40, &err), 0);
    before = time_us(COLL_ALL_TO_ALL, 1 << 30);
    cl.oversubscription = 8;
    ck_assert_double_gt(time_us(COLL_ALL_TO_ALL, 1 << 30), 2 * before);
    arena_release(&arena);
}
END_TEST

/* However an owner's 16,000 bytes reach the 15 others of 16 ranks, 15 x 16,000 bytes are read and as many written: 30,000 a
 * rank. */
START_TEST(every_algorithm_reads_what_it_sends_and_writes_what_it_gets)
{
    static const enum coll_algo algos[] = {ALGO_P2P, ALGO_RING, ALGO_TREE, ALGO_HIERARCHICAL};
    const struct segment segment = {.root = 11, .to_n = 16, .elements = 8000};
    const uint32_t start[] = {0, 1};
    struct segment_table table = {.n_units = 1, .start = start, .segments = &segment};
    struct group g = {.n_axes = 1, .size = {16}, .stride = {1}, .n_members = 16};
    struct op o = {.kind = OP_COLLECTIVE,
                   .loop = PROGRAM_NONE,
                   .coll = {.kind = COLL_SEGMENT_GATHER, .wire = {.dtype = DTYPE_BF16}}};
    struct program p = {.world = 16,
                        .gpus_per_node = 8,
                        .groups = &g,
                        .n_groups = 1,
                        .segment_tables = &table,
                        .n_segment_tables = 1};
    const struct instance at = {0};
    struct coll_cache k;

    arena_init(&arena);
    load("dgx-a100", 2);
    coll_cache_init(&k, &p, &cl, NULL);
    for (int i = 0; i < 4; i++) {
        const struct coll_activity *x = coll_get(&k, &o, &at, algos[i]);
        double hbm = 0;

        for (uint32_t u = 0; u < x->activity.n_uses; u++)
            if (x->activity.uses[u].kind == RESOURCE_HBM)
                hbm = x->activity.uses[u].every * x->activity.work;
        ck_assert_double_eq_tol(hbm, 30000, 1e-6);
    }
    coll_cache_release(&k);
    arena_release(&arena);
}
END_TEST

/* Amount of a resource that a ring all-gather over all GPUs uses. */
static double ring_uses(enum sim_resource r)
{
    uint32_t world = cl.n_nodes * cl.gpus_per_node;
    struct group g = {.n_axes = 1, .size = {world}, .stride = {1}, .n_members = world};
    struct op o = {.kind = OP_COLLECTIVE,
                   .loop = PROGRAM_NONE,
                   .coll = {.kind = COLL_ALL_GATHER,
                            .elements = (UINT64_C(1) << 30) / 2,
                            .wire = {.dtype = DTYPE_BF16}}};
    struct program p = {.world = world,
                        .gpus_per_node = cl.gpus_per_node,
                        .ops = &o,
                        .n_ops = 1,
                        .groups = &g,
                        .n_groups = 1};
    const struct instance at = {0};
    const struct coll_activity *x;
    struct coll_cache k;
    double used = 0;

    coll_cache_init(&k, &p, &cl, NULL);
    x = coll_get(&k, &o, &at, ALGO_RING);
    for (uint32_t u = 0; u < x->activity.n_uses; u++)
        if (x->activity.uses[u].kind == r)
            used = x->activity.uses[u].every;
    coll_cache_release(&k);
    return used;
}

/* 20 nodes are one leaf: what goes from node to node turns round there, whatever the leaf's up-links are. */
START_TEST(up_links_of_a_leaf_stay_idle_inside_it)
{
    arena_init(&arena);
    load("dgx-a100", 20);
    cl.oversubscription = 8;
    ck_assert_double_gt(ring_uses(RESOURCE_NIC_TX), 0);
    ck_assert(ring_uses(RESOURCE_LEAF_UP) == 0 && ring_uses(RESOURCE_LEAF_DOWN) == 0);
    ck_assert_int_eq(cluster_resize(&cl, 21, &err), 0);
    ck_assert_double_gt(ring_uses(RESOURCE_LEAF_UP), 0);
    ck_assert_double_gt(ring_uses(RESOURCE_LEAF_DOWN), 0);
    arena_release(&arena);
}
END_TEST

SUITE_MAIN("sim/collective", five_calls_take_five_times_one, a_small_all_gather_costs_its_steps,
           between_nodes_the_nics_set_the_rate, inside_an_nvlink_domain_nodes_do_not_count,
           a_hop_counts_beyond_a_leaf_only, oversubscription_counts_beyond_a_leaf_only,
           every_algorithm_reads_what_it_sends_and_writes_what_it_gets,
           up_links_of_a_leaf_stay_idle_inside_it)
