/* Nodes whose GPUs are not all joined by NVLink: rings over pairs by hand, and what may not change
 * a time. */
#include "sim/collective.h"
#include "tests/suite.h"

#include <math.h>

static struct arena arena;
static struct cluster cl;
static struct program prog;
static struct group world;
static struct op op;

/* `n` ranks of one a100-pcie: pairs with bridges, four GPUs a PCIe switch and CPU. */
static void setup(const char *name, uint32_t n)
{
    struct err e;

    arena_init(&arena);
    MUST(!cluster_load(name, &arena, &cl, &e), "%s", e.msg);
    world = (struct group){.n_axes = 1, .size = {n}, .stride = {1}, .n_members = n};
    prog = (struct program){.world = n,
                            .gpus_per_node = cluster_domain_gpus(&cl),
                            .n_micro = 1,
                            .groups = &world,
                            .n_groups = 1};
    op = (struct op){.kind = OP_COLLECTIVE,
                     .loop = PROGRAM_NONE,
                     .coll = {.kind = COLL_ALL_REDUCE,
                              .elements = (12u << 20) / 2,
                              .wire = {.dtype = DTYPE_BF16},
                              .peer_op = PROGRAM_NONE}};
}

static int64_t time_ps(void)
{
    const struct instance at = {0};

    return sim_collective_ps(&prog, &cl, &op, &at, ALGO_RING);
}

static double amount(const struct coll_activity *x, enum sim_resource r, uint32_t instance)
{
    for (uint32_t u = 0; u < x->activity.n_uses; u++) {
        const struct fluid_use *use = &x->activity.uses[u];

        if (use->kind != (uint32_t)r)
            continue;
        for (uint32_t i = 0; i < use->n_only; i++)
            if (use->only[i].instance == instance)
                return use->only[i].amount * x->activity.work;
        return use->every * x->activity.work;
    }
    return 0;
}

/* Which GPUs, switches, CPUs carry what a rank sends, in order of instances; '-': nothing. */
static void carry(const struct coll_activity *x, enum sim_resource r, const char *which,
                  double bytes)
{
    for (uint32_t i = 0; which[i]; i++)
        MUST(fabs(amount(x, r, i) - (which[i] == '-' ? 0 : bytes)) <= 1e-6 * bytes,
             "%s %u carries %g of %g", sim_resource_name(r), i, amount(x, r, i), bytes);
}

static void links(const char *const carries[RESOURCE_N], double bytes)
{
    const struct instance at = {0};
    struct coll_cache k;

    coll_cache_init(&k, &prog, &cl, NULL);
    for (int r = RESOURCE_NVLINK_TX; r < RESOURCE_N; r++)
        if (carries[r])
            carry(coll_get(&k, &op, &at, ALGO_RING), (enum sim_resource)r, carries[r], bytes);
    coll_cache_release(&k);
}

/* 0 -> 1 by NVLink, 1 -> 2 and 2 -> 0 by PCIe, below one switch. A rank sends 2 x 2/3 of the 12
 * MiB. */
START_TEST(a_ring_of_three_leaves_its_pair_by_pcie)
{
    static const char *const carries[RESOURCE_N] = {
        [RESOURCE_NVLINK_TX] = "x--", [RESOURCE_NVLINK_RX] = "-x-", [RESOURCE_PCIE_TX] = "-xx",
        [RESOURCE_PCIE_RX] = "x-x",   [RESOURCE_ROOT_UP] = "--",    [RESOURCE_CPU] = "--"};

    setup("a100-pcie", 3);
    links(carries, 16 << 20);
    arena_release(&arena);
}
END_TEST

/* 0 1 2 3 4 5 6 7: pairs by NVLink, 3 -> 4 and 7 -> 0 over the link between CPUs. */
START_TEST(a_ring_of_eight_crosses_cpus_once_each_way)
{
    static const char *const carries[RESOURCE_N] = {[RESOURCE_NVLINK_TX] = "x-x-x-x-",
                                                    [RESOURCE_NVLINK_RX] = "-x-x-x-x",
                                                    [RESOURCE_PCIE_TX] = "-x-x-x-x",
                                                    [RESOURCE_PCIE_RX] = "x-x-x-x-",
                                                    [RESOURCE_ROOT_UP] = "xx",
                                                    [RESOURCE_ROOT_DOWN] = "xx",
                                                    [RESOURCE_CPU] = "xx"};

    setup("a100-pcie", 8);
    links(carries, 21 << 20);
    arena_release(&arena);
}
END_TEST

START_TEST(without_nvlink_every_hop_passes_pcie)
{
    static const char *const carries[RESOURCE_N] = {
        [RESOURCE_PCIE_TX] = "xxxxxxxx",
        [RESOURCE_PCIE_RX] = "xxxxxxxx",
        [RESOURCE_CPU] = "xx",
    };

    setup("l40s", 8);
    links(carries, 21 << 20);
    arena_release(&arena);
}
END_TEST

/* Bus bandwidth of 4 GiB: the slowest link of the ring. nccl-tests issue 178 measures 208 GB/s with
 * 2 and about 20 with 3. */
START_TEST(large_messages_go_at_the_slowest_link)
{
    static const struct {
        uint32_t n;
        double GBps, measured;
    } rows[] = {{2, 0.807 * 300, 208}, {3, 24, 20}, {4, 24, 0}, {8, 16, 20}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double n = rows[i].n, GBps;

        setup("a100-pcie", rows[i].n);
        op.coll.elements = (UINT64_C(4) << 30) / 2;
        GBps = 2 * (n - 1) / n * 2.0 * (double)op.coll.elements / (double)time_ps() * 1e3;
        /* the tail takes 0.5 / (2 (n - 1)) of the ring's time: the last operation hands nothing on
         */
        MUST(GBps <= rows[i].GBps && GBps > rows[i].GBps / (1 + 0.5 / (2 * (n - 1))) * 0.98,
             "%u GPUs: %.2f GB/s, the slowest link has %.2f", rows[i].n, GBps, rows[i].GBps);
        MUST(!(rows[i].measured > 0) || fabs(log(GBps / rows[i].measured)) < log(1.5),
             "%u GPUs: %.2f GB/s, measured %.2f", rows[i].n, GBps, rows[i].measured);
        arena_release(&arena);
    }
}
END_TEST

/* Only a pair, or one GPU of each pair. */
START_TEST(a_group_within_a_domain_leaves_pcie_alone)
{
    static const uint32_t pair[] = {4, 5}, apart[] = {0, 2, 4, 6};
    int64_t first, other;

    setup("a100-pcie", 2);
    first = time_ps();
    arena_release(&arena);
    setup("a100-pcie", 8);
    world = (struct group){.members = pair, .n_members = 2};
    other = time_ps();
    ck_assert_int_eq(first, other);
    world = (struct group){.members = apart, .n_members = 4};
    ck_assert_int_gt(time_ps(), 4 * first);
    arena_release(&arena);
}
END_TEST

/* GPU g takes the place of GPU as[g]. */
static void relabel(const uint32_t *as)
{
    struct cluster was = cl;

    for (uint32_t g = 0; g < 8; g++) {
        cl.domain_of_gpu[g] = was.domain_of_gpu[as[g]];
        cl.switch_of_gpu[g] = was.switch_of_gpu[as[g]];
        cl.nic_of_gpu[g] = was.nic_of_gpu[as[g]];
    }
}

START_TEST(labels_of_gpus_change_nothing)
{
    static const enum coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_ALL_GATHER, COLL_REDUCE_SCATTER,
                                           COLL_BROADCAST, COLL_ALL_TO_ALL};
    static const char *const names[] = {"a100-pcie", "l40s", "a100-pcie:nvlink_domain=4"};
    uint64_t state = 7;

    for (size_t c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
        struct cluster plain;

        setup(names[c], 8);
        plain = cl;
        for (int round = 0; round < 60; round++) {
            uint32_t as[8] = {0, 1, 2, 3, 4, 5, 6, 7};
            int64_t was;

            for (uint32_t i = 7; i > 0; i--) {
                uint32_t k, x = as[i];

                state = state * 6364136223846793005U + 1442695040888963407U;
                k = (uint32_t)((state >> 33) % (i + 1));
                as[i] = as[k];
                as[k] = x;
            }
            op.coll.kind = kinds[round % 5];
            op.coll.elements = (UINT64_C(8) << (round % 28)) / 2;
            cl = plain;
            was = time_ps();
            relabel(as);
            MUST(time_ps() == was, "%s, round %d: %lld ps, and %lld relabelled", names[c], round,
                 (long long)was, (long long)time_ps());
        }
        arena_release(&arena);
    }
}
END_TEST

START_TEST(more_nvlink_is_never_slower)
{
    static const char *const names[] = {"a100-pcie:nvlink_domain=1", "a100-pcie",
                                        "a100-pcie:nvlink_domain=4", "a100-pcie:nvlink_domain=8"};

    for (uint32_t n = 2; n <= 8; n++)
        for (uint32_t shift = 3; shift < 33; shift++) {
            int64_t before = INT64_MAX;

            for (size_t c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
                int64_t now;

                setup(names[c], n);
                op.coll.elements = (UINT64_C(1) << shift) / 2;
                now = time_ps();
                MUST(now <= before, "%u GPUs, 2^%u bytes: %s takes %lld ps, with less NVLink %lld",
                     n, shift, names[c], (long long)now, (long long)before);
                before = now;
                arena_release(&arena);
            }
        }
}
END_TEST

/* 2 nodes: a ring's hops in a node pass PCIe, and so does what leaves by NICs; no time of the split
 * node is shorter. */
START_TEST(over_nodes_pcie_counts_both)
{
    int64_t whole, split;

    setup("a100-pcie:nvlink_domain=8", 16);
    cl.n_nodes = 2;
    whole = time_ps();
    arena_release(&arena);
    setup("a100-pcie", 16);
    cl.n_nodes = 2;
    split = time_ps();
    ck_assert_int_ge(split, whole);
    op.coll.kind = COLL_ALL_TO_ALL;
    ck_assert_int_gt(time_ps(), 0);
    arena_release(&arena);
}
END_TEST

SUITE_MAIN("sim/links_node", a_ring_of_three_leaves_its_pair_by_pcie,
           a_ring_of_eight_crosses_cpus_once_each_way, without_nvlink_every_hop_passes_pcie,
           large_messages_go_at_the_slowest_link, a_group_within_a_domain_leaves_pcie_alone,
           labels_of_gpus_change_nothing, more_nvlink_is_never_slower, over_nodes_pcie_counts_both)
