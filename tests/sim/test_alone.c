/* One collective alone against hand calculations and the flows it is made of: which link bounds it, and how many steps it takes. */
#include "sim/fluid.h"
#include "sim/sim.h"
#include "tests/layouts/plans.h"

#include "core/num.h"

#include <math.h>

static struct arena a;
static struct plan plan;
static struct program prog;
static struct err e;

static struct group group;
static struct op op;

static void one_collective(uint32_t world, uint32_t gpn)
{
    memset(&plan, 0, sizeof(plan));
    memset(&prog, 0, sizeof(prog));
    memset(&op, 0, sizeof(op));
    plans_ideal_cluster(&plan.cluster, gpn, world);
    group = (struct group){
        .name = "world", .n_axes = 1, .size = {world}, .stride = {1}, .n_members = world};
    prog = (struct program){
        .world = world, .gpus_per_node = gpn, .n_micro = 1, .groups = &group, .n_groups = 1};
    op.kind = OP_COLLECTIVE;
    op.coll = (struct collective){.kind = COLL_ALL_GATHER,
                                  .wire = {.dtype = DTYPE_BF16},
                                  .table = PROGRAM_NONE,
                                  .peer_op = PROGRAM_NONE};
}

static int64_t alone(enum coll_algo algo)
{
    const struct instance i = {0};

    return sim_collective_ps(&prog, &plan.cluster, &op, &i, algo);
}

/* The same ring as flows between neighbours: in step s host i passes on what host i-1 gave it in step s-1. */
static int64_t ring_of_flows(uint32_t n, double chunk, double bw_Bps, int64_t latency_ps)
{
    struct fluid *f = fluid_new();
    struct fluid_use *uses = MEM_NEW(struct fluid_use, 2 * n);
    struct fluid_amount *one = MEM_NEW(struct fluid_amount, n);
    uint32_t tx = fluid_kind(f, "tx", n, bw_Bps / 1e12), rx = fluid_kind(f, "rx", n, bw_Bps / 1e12);
    int64_t end;

    for (uint32_t i = 0; i < n; i++)
        one[i] = (struct fluid_amount){i, 1};
    for (uint32_t i = 0; i < n; i++) {
        uses[2 * i] = (struct fluid_use){.kind = tx, .n_only = 1, .only = &one[i]};
        uses[2 * i + 1] = (struct fluid_use){.kind = rx, .n_only = 1, .only = &one[(i + 1) % n]};
    }
    for (uint32_t s = 0; s + 1 < n; s++)
        for (uint32_t i = 0; i < n; i++) {
            const struct fluid_activity x = {
                .latency_ps = latency_ps, .work = chunk, .uses = &uses[2 * i], .n_uses = 2};
            uint32_t id = fluid_add(f, &x, 0);

            if (s) {
                fluid_after(f, id, id - n);                        /* own port */
                fluid_after(f, id, (s - 1) * n + (i + n - 1) % n); /* what to pass on */
            }
        }
    ck_assert(fluid_run(f, &e) == 0);
    end = fluid_makespan_ps(f);
    fluid_free(f);
    mem_free(uses);
    mem_free(one);
    return end;
}

/* The ring oracle: (n-1) (c/bw + hops*latency), as one activity and as flows, to the picosecond. */
START_TEST(ring_all_gather_takes_what_its_flows_take)
{
    for (uint32_t n = 2; n <= 16; n++) {
        const uint64_t chunk = 1000000;
        const int64_t hop_ps = 700000, hops = 3;
        int64_t nvlink =
                    (int64_t)(n - 1) * (10000000 + hops * hop_ps), /* 1 MB at 100 GB/s: 10 us */
            nic = (int64_t)(n - 1) * (100000000 + hops * hop_ps);  /* at 10 GB/s: 100 us */

        arena_init(&a);
        one_collective(n, 16);
        op.coll.elements = (n * chunk) / 2;
        for (int i = 0; i < PROTOCOL_N; i++)
            plan.cluster.coll.step_s[i] = plan.cluster.coll.net_step_s[i] = 2.1e-6;
        ck_assert_int_eq(alone(ALGO_RING), nvlink);
        ck_assert_int_eq(ring_of_flows(n, (double)chunk, 1e11, hops * hop_ps), nvlink);
        one_collective(n, 1);
        op.coll.elements = (n * chunk) / 2;
        for (int i = 0; i < PROTOCOL_N; i++)
            plan.cluster.coll.step_s[i] = plan.cluster.coll.net_step_s[i] = 2.1e-6;
        ck_assert_int_eq(alone(ALGO_RING), nic);
        ck_assert_int_eq(ring_of_flows(n, (double)chunk, 1e10, hops * hop_ps), nic);
        arena_release(&a);
    }
}
END_TEST

/* An owner that sends a 4096 x 16384 matrix to 63 ranks itself is bound by its own port: 63 x 134 MB at 10 GB/s are
 * 0.85 s; a ring passes 134 MB along, 13 ms. In nodes of 8, 56 of the 63 are outside. */
START_TEST(an_owner_that_sends_to_63_ranks_is_bound_by_its_port)
{
    static const struct segment s[] = {{.root = 5, .to_n = 64, .elements = 134217728 / 2}};
    static const uint32_t start[] = {0, 1};
    static const struct segment_table t = {.n_units = 1, .start = start, .segments = s};

    for (uint32_t gpn = 1; gpn <= 8; gpn *= 8) {
        double outside = 64 - gpn, p2p;

        arena_init(&a);
        one_collective(64, gpn);
        prog.segment_tables = (struct segment_table *)(uintptr_t)&t;
        prog.n_segment_tables = 1;
        op.coll.kind = COLL_SEGMENT_GATHER;
        op.coll.table = 0;
        p2p = (double)alone(ALGO_P2P) / 1e12;
        ck_assert_double_ge(p2p, outside * 134217728 / 1e10);
        ck_assert_double_le(p2p, 1.0001 * outside * 134217728 / 1e10);
        ck_assert_double_le((double)alone(ALGO_RING) / 1e12, 1.1 * 134217728 / 1e10);
        ck_assert_int_lt(alone(ALGO_RING) * 40, alone(ALGO_P2P));
        ck_assert_int_le(alone(ALGO_AUTO), alone(ALGO_RING));
        /* padded: 64 equal parts of 134 MB, nearly what p2p moves */
        ck_assert_int_gt(alone(ALGO_PADDED), 6 * alone(ALGO_RING));
        arena_release(&a);
    }
}
END_TEST

/* 8 nodes of 8, a step of 1 us in a node and of 10 us between nodes. The longest way: 7 steps around the root's node, 3 edges
 * down the trees (8 nodes), 7 around the last node: 44 us. Every NIC carries an eighth of 128 MiB at 10 GB/s: 1677.7216 us;
 * NVLink less, 128 MiB at 100 GB/s. On leaves of two nodes four edges of the pair leave one (tests/model/test_tree.c), each
 * with half of the bytes: 256 MiB through an up-link of 2 x 8 x 10 GB/s / 16 = 10 GB/s. In one node: 7 steps, NVLink. Over nodes
 * NCCL takes LL128 for 128 MiB, which puts 128 bytes on the wire for 120. */
START_TEST(a_tree_takes_its_longest_way_and_its_fullest_link)
{
    static struct segment s[] = {{.root = 5, .to_n = 64, .elements = 134217728 / 2}};
    static const uint32_t start[] = {0, 1};
    static const struct segment_table t = {.n_units = 1, .start = start, .segments = s};

    for (int k = 0; k < 3; k++) {
        static const int64_t want[] = {44000000 + INT64_C(1789569707),
                                       44000000 + INT64_C(28633115307), 7000000 + 1342177280};

        arena_init(&a);
        s[0].to_n = k < 2 ? 64 : 8;
        one_collective(s[0].to_n, 8);
        prog.segment_tables = (struct segment_table *)(uintptr_t)&t;
        prog.n_segment_tables = 1;
        op.coll.kind = COLL_SEGMENT_GATHER;
        op.coll.table = 0;
        for (int i = 0; i < PROTOCOL_N; i++) {
            plan.cluster.coll.step_s[i] = 1e-6;
            plan.cluster.coll.net_step_s[i] = 1e-5;
        }
        plan.cluster.nodes_per_leaf = k == 1 ? 2 : 0;
        plan.cluster.oversubscription = k == 1 ? 16 : 1;
        ck_assert_int_eq(alone(ALGO_TREE), want[k]);
        arena_release(&a);
    }
}
END_TEST

/* 16 nodes of one GPU, leaves of 4, up-links of 4 x 10 GB/s / 100 = 400 MB/s. An owner sends 1 MB to 15 nodes itself, 12 of
 * them under other leaves: 12 MB through its leaf's up-link are 30 ms (its own NIC takes 1.5). Reductions come down there. */
START_TEST(direct_sends_leave_through_the_owners_leaf)
{
    static const struct segment s[] = {{.root = 5, .to_n = 16, .elements = 500000}};
    static const uint32_t start[] = {0, 1};
    static const struct segment_table t = {.n_units = 1, .start = start, .segments = s};

    for (int reduce = 0; reduce < 2; reduce++) {
        arena_init(&a);
        one_collective(16, 1);
        prog.segment_tables = (struct segment_table *)(uintptr_t)&t;
        prog.n_segment_tables = 1;
        op.coll.kind = reduce ? COLL_SEGMENT_REDUCE : COLL_SEGMENT_GATHER;
        op.coll.table = 0;
        plan.cluster.nodes_per_leaf = 4;
        plan.cluster.oversubscription = 100;
        ck_assert_int_eq(alone(ALGO_P2P), INT64_C(30000000000));
        ck_assert_int_eq(alone(ALGO_HIERARCHICAL), INT64_C(30000000000));
        arena_release(&a);
    }
}
END_TEST

/* 16 nodes of two GPUs, a NIC each, leaves of 4 nodes. The owner's 24 MB to the 12 nodes elsewhere leave by up-links of 8 NICs, 800
 * MB/s, in 30 ms, on rails half of it by either leaf. One relay a node gets 12 MB, by all up-links in 15 ms, on rails by
 * those of the owner's rail in 30. */
START_TEST(a_rail_is_a_leaf_of_its_own)
{
    static const struct segment s[] = {{.root = 5, .to_n = 32, .elements = 500000}};
    static const uint32_t start[] = {0, 1};
    static const struct segment_table t = {.n_units = 1, .start = start, .segments = s};

    for (int rails = 0; rails < 2; rails++) {
        arena_init(&a);
        one_collective(32, 2);
        prog.segment_tables = (struct segment_table *)(uintptr_t)&t;
        prog.n_segment_tables = 1;
        op.coll.kind = COLL_SEGMENT_GATHER;
        op.coll.table = 0;
        plan.cluster.nodes_per_leaf = 4;
        plan.cluster.oversubscription = 100;
        plan.cluster.rail_optimised = rails;
        ck_assert_int_eq(alone(ALGO_P2P), INT64_C(30000000000));
        ck_assert_int_eq(alone(ALGO_HIERARCHICAL), INT64_C(15000000000) * (rails + 1));
        arena_release(&a);
    }
}
END_TEST

/* 2 nodes of 4 GPUs, all-gather of 8 MB by a ring on rails: each GPU sends 7/4 MB to the other node. */
START_TEST(pcie_bounds_what_leaves_a_node)
{
    struct cluster *c = &plan.cluster;

    arena_init(&a);
    one_collective(8, 4);
    op.coll.elements = (8000000) / 2;
    ck_assert_int_eq(alone(ALGO_RING), 175000000); /* NICs of 10 GB/s */
    c->pcie_switches = 2;
    c->pcie_Bps = 7e9;
    for (int i = 0; i < 4; i++)
        c->switch_of_gpu[i] = c->switch_of_nic[i] = (uint8_t)(i / 2);
    ck_assert_int_eq(alone(ALGO_RING), 250000000); /* 1.75 MB at 7 GB/s */
    /* GPUs 0, 1 use the NICs of 2, 3 and the other way round. A switch's link to the root carries what its two GPUs send and
     * what its two NICs receive: 7 MB */
    c->pcie_Bps = 2e10;
    for (int i = 0; i < 4; i++)
        c->nic_of_gpu[i] = (uint8_t)(i ^ 2);
    ck_assert_int_eq(alone(ALGO_RING), 350000000);
    /* two GPUs to a NIC: 3.5 MB at 10 GB/s, and nothing over the root */
    for (int i = 0; i < 4; i++)
        c->nic_of_gpu[i] = (uint8_t)(i & 2);
    ck_assert_int_eq(alone(ALGO_RING), 350000000);
    arena_release(&a);
}
END_TEST

/* All 8 GPUs of one node own something and reduce to owners: nothing passes a NIC. Owner 0 receives 7 x 8 MB at 100 GB/s. */
START_TEST(inside_a_node_no_nic_counts_when_all_own_something)
{
    static struct segment s[8];
    static const uint32_t start[] = {0, 8};
    static const struct segment_table t = {.n_units = 1, .start = start, .segments = s};

    arena_init(&a);
    one_collective(8, 8);
    for (uint32_t r = 0; r < 8; r++)
        s[r] =
            (struct segment){.root = r, .to_n = 8, .elements = r ? 500000 : 4000000, .tensor = r};
    prog.segment_tables = (struct segment_table *)(uintptr_t)&t;
    prog.n_segment_tables = 1;
    op.coll.kind = COLL_SEGMENT_REDUCE;
    op.coll.table = 0;
    ck_assert_int_eq(alone(ALGO_P2P), 560000000);
    op.coll.kind = COLL_SEGMENT_GATHER;
    ck_assert_int_eq(alone(ALGO_P2P), 560000000);
    arena_release(&a);
}
END_TEST

/* Cut matrices are gathered by neighbours, all at once. Two ranges inside a node: no step between nodes, though the
 * group has two. One more range across the boundary of the nodes: one step, and the bytes of the first on a NIC. */
START_TEST(a_range_takes_the_steps_that_it_spans)
{
    static const struct segment s[] = {
        {.root = 2, .to_first = 2, .to_n = 3, .elements = 1500},
        {.root = 8, .to_first = 8, .to_n = 2, .tensor = 1, .elements = 5},
        {.root = 7, .to_first = 7, .to_n = 2, .tensor = 2, .elements = 1500}};
    static uint32_t start[] = {0, 2};
    static const struct segment_table t = {.n_units = 1, .start = start, .segments = s};

    arena_init(&a);
    one_collective(16, 8);
    prog.segment_tables = (struct segment_table *)(uintptr_t)&t;
    prog.n_segment_tables = 1;
    op.coll.kind = COLL_SEGMENT_GATHER;
    op.coll.table = 0;
    for (int i = 0; i < PROTOCOL_N; i++)
        plan.cluster.coll.net_step_s[i] = 1e-3;
    ck_assert_int_eq(alone(ALGO_P2P), 60000); /* 2 x 3000 bytes out at 100 GB/s */
    ck_assert_int_eq(alone(ALGO_RING), 30000);
    start[1] = 3;
    /* by LL, whose every other word is a flag */
    ck_assert_int_eq(alone(ALGO_RING), 1000000000 + 600000);
    ck_assert_int_eq(alone(ALGO_TREE), 1000000000 + 600000);
    start[1] = 2;
    arena_release(&a);
}
END_TEST

SUITE_MAIN("sim/alone", ring_all_gather_takes_what_its_flows_take,
           an_owner_that_sends_to_63_ranks_is_bound_by_its_port,
           a_tree_takes_its_longest_way_and_its_fullest_link,
           direct_sends_leave_through_the_owners_leaf, a_rail_is_a_leaf_of_its_own,
           pcie_bounds_what_leaves_a_node, inside_a_node_no_nic_counts_when_all_own_something,
           a_range_takes_the_steps_that_it_spans)
