/* Single collectives: groups of any shape, several at once, bad groups. Expectations from counting links. */
#include "sim/call.h"
#include "tests/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct cluster cl;
static struct arena arena;
static struct err err;

static void load(const char *name, uint32_t nodes)
{
    arena_init(&arena);
    if (cluster_load(name, &arena, &cl, &err) || cluster_resize(&cl, nodes, &err))
        ck_abort_msg("%s", err.msg);
}

static double alone_us(const struct call *c)
{
    struct call_time t;

    if (call_times(&cl, c, 1, &t, &err))
        ck_abort_msg("%s", err.msg);
    ck_assert_int_le(llabs(t.alone_ps - t.end_ps), 1); /* the engine rounds up */
    return (double)t.alone_ps / 1e6;
}

/* Every kind, small and large: listing all ranks is the same as naming none. */
START_TEST(a_list_of_all_ranks_is_the_world)
{
    static const enum coll_kind kinds[] = {
        COLL_ALL_REDUCE, COLL_ALL_GATHER, COLL_REDUCE_SCATTER, COLL_BROADCAST,     COLL_REDUCE,
        COLL_ALL_TO_ALL, COLL_SEND,       COLL_SEGMENT_GATHER, COLL_SEGMENT_REDUCE};
    uint32_t ranks[16];

    load("dgx-a100", 2);
    for (uint32_t i = 0; i < 16; i++)
        ranks[i] = i;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (int b = 10; b <= 30; b += 10) {
            struct call all = {.kind = kinds[k], .n_ranks = 16, .n_bytes = UINT64_C(1) << b},
                        listed = all;

            listed.ranks = ranks;
            ck_assert(alone_us(&all) == alone_us(&listed));
        }
    arena_release(&arena);
}
END_TEST

/* 4 of 8 GPUs of a node: 3/4 of the bytes over the same NVLink, wherever the four sit. */
START_TEST(four_of_eight_gpus_are_a_ring_of_four)
{
    uint32_t first[] = {0, 1, 2, 3}, spread[] = {1, 3, 4, 7};
    struct call a = {.kind = COLL_ALL_GATHER, .n_ranks = 4, .ranks = first}, b = a;

    load("dgx-a100", 1);
    a.n_bytes = b.n_bytes = UINT64_C(8) << 30;
    b.ranks = spread;
    ck_assert(alone_us(&a) == alone_us(&b));
    ck_assert_double_gt(alone_us(&a), 0.75 * (double)a.n_bytes / (300e3 * cl.nvlink_efficiency));
    ck_assert_double_lt(alone_us(&a),
                        0.75 * (double)a.n_bytes / (300e3 * cl.nvlink_efficiency) * 1.25);
    arena_release(&arena);
}
END_TEST

/* A rail: one GPU of each of 4 nodes, so one NIC carries what eight carry for all GPUs of the nodes. */
START_TEST(a_rail_has_one_nic)
{
    uint32_t rail[] = {3, 11, 19, 27};
    struct call c = {
        .kind = COLL_ALL_GATHER, .n_ranks = 4, .ranks = rail, .n_bytes = UINT64_C(8) << 30};
    double wire;

    load("dgx-a100", 4);
    wire = 0.75 * (double)c.n_bytes / (25e3 * cl.nic_efficiency);
    ck_assert_double_gt(alone_us(&c), wire);
    ck_assert_double_lt(alone_us(&c), 1.02 * wire);
    arena_release(&arena);
}
END_TEST

/* 8 GPUs of one node and 2 of another: the ring leaves the second by two NICs. */
START_TEST(the_node_with_the_fewest_nics_limits_a_ring)
{
    uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct call c = {
        .kind = COLL_ALL_GATHER, .n_ranks = 10, .ranks = ranks, .n_bytes = UINT64_C(8) << 30};
    double wire;

    load("dgx-a100", 2);
    wire = 0.9 * (double)c.n_bytes / (2 * 25e3 * cl.nic_efficiency);
    ck_assert_double_gt(alone_us(&c), wire);
    ck_assert_double_lt(alone_us(&c), 1.02 * wire);
    arena_release(&arena);
}
END_TEST

/* A shift over two nodes: two of the 16 sends cross, each by its own GPU's NIC. */
START_TEST(a_shift_crosses_nodes_by_one_nic)
{
    struct call c = {.kind = COLL_SEND, .n_ranks = 16, .n_bytes = UINT64_C(1) << 30};
    double wire;

    load("dgx-a100", 2);
    wire = (double)c.n_bytes / (25e3 * cl.nic_efficiency * cl.coll.p2p.net_rate);
    ck_assert_double_gt(alone_us(&c), wire);
    ck_assert_double_lt(alone_us(&c), 1.02 * wire);
    arena_release(&arena);
}
END_TEST

/* Two equal rings over the same ranks take twice the transfer; on different nodes they do not meet. */
START_TEST(calls_at_once_share_links_and_only_links)
{
    uint32_t here[8], there[8];
    struct call c[2];
    struct call_time t[2];

    load("dgx-a100", 2);
    for (uint32_t i = 0; i < 8; i++) {
        here[i] = i;
        there[i] = 8 + i;
    }
    c[0] = c[1] = (struct call){
        .kind = COLL_ALL_GATHER, .n_ranks = 8, .ranks = here, .n_bytes = UINT64_C(1) << 30};
    ck_assert_int_eq(call_times(&cl, c, 2, t, &err), 0);
    ck_assert(t[0].end_ps == t[1].end_ps);
    ck_assert_double_eq_tol((double)(t[0].end_ps - t[0].alone_ps) / 1e12, t[0].nccl.transfer_s,
                            1e-9);
    c[1].ranks = there;
    ck_assert_int_eq(call_times(&cl, c, 2, t, &err), 0);
    ck_assert_int_le(t[0].end_ps - t[0].alone_ps, 1);
    ck_assert_int_le(t[1].end_ps - t[1].alone_ps, 1);
    arena_release(&arena);
}
END_TEST

/* Sums of what both sent until the first ended, and what the other still had to send: at a share w of the link, of b bytes each at
 * `rate`, both from t0 on. */
static void ends_by_hand(const struct call_time t[2], double w0, double *end0, double *end1)
{
    double x0 = t[0].nccl.transfer_s, x1 = t[1].nccl.transfer_s, w1 = 1 - w0;
    double l0 = t[0].nccl.latency_s, l1 = t[1].nccl.latency_s, both = fmax(l0, l1);
    double left0 = x0 - fmax(0, both - l0), left1 = x1 - fmax(0, both - l1), first;

    first = fmin(left0 / w0, left1 / w1);
    *end0 = both + (left0 / w0 <= first ? first : first + left0 - first * w0);
    *end1 = both + (left1 / w1 <= first ? first : first + left1 - first * w1);
}

/* In a node a ring has 24 channels, an all-to-all 32: of the NVLinks that both fill they get 3/7 and 4/7. With as many channels a
 * half each, as the same two rings. */
START_TEST(on_a_shared_link_bytes_go_by_channels)
{
    static const double p2p[] = {32, 24, 8, 24};

    load("dgx-a100", 1);
    for (int i = 0; i < 4; i++) {
        struct call c[2] = {{.kind = COLL_ALL_GATHER, .n_ranks = 8, .n_bytes = UINT64_C(1) << 32},
                            {.kind = i < 3 ? COLL_ALL_TO_ALL : COLL_ALL_GATHER,
                             .n_ranks = 8,
                             .n_bytes = UINT64_C(1) << 32}};
        struct call_time t[2];
        double e0, e1;

        cl.coll.channels[CHANNELS_RING] = 24;
        cl.coll.channels[CHANNELS_NIC] = 2;
        cl.coll.channels[CHANNELS_NVLS] = 16;
        cl.coll.channels[CHANNELS_P2P] = p2p[i];
        ck_assert_int_eq(call_times(&cl, c, 2, t, &err), 0);
        ck_assert(t[0].nccl.channels == 24 && t[1].nccl.channels == p2p[i]);
        ends_by_hand(t, 24 / (24 + p2p[i]), &e0, &e1);
        ck_assert_double_eq_tol((double)t[0].end_ps / 1e12, e0, 1e-9);
        ck_assert_double_eq_tol((double)t[1].end_ps / 1e12, e1, 1e-9);
    }
    arena_release(&arena);
}
END_TEST

/* On a NIC only the channels that pass it count. A ring of all 16 GPUs has 16, two a NIC; a ring of one GPU of each node two on its
 * one NIC: a half each, though the one has eight times the channels. With one channel a NIC in the ring of two ranks, by a call too
 * small for more, a third. */
START_TEST(a_nic_is_shared_by_the_channels_that_pass_it)
{
    uint32_t rail[] = {3, 11};
    struct call c[2] = {
        {.kind = COLL_ALL_GATHER, .n_ranks = 16, .n_bytes = UINT64_C(1) << 34},
        {.kind = COLL_ALL_GATHER, .n_ranks = 2, .ranks = rail, .n_bytes = UINT64_C(1) << 31}};
    struct call_time t[2];
    double e0, e1;

    load("dgx-a100", 2);
    ck_assert_int_eq(call_times(&cl, c, 2, t, &err), 0);
    ck_assert(t[0].nccl.channels == 16 && t[1].nccl.channels == 2);
    ends_by_hand(t, 0.5, &e0, &e1);
    ck_assert_double_eq_tol((double)t[0].end_ps / 1e12, e0, 1e-9);
    ck_assert_double_eq_tol((double)t[1].end_ps / 1e12, e1, 1e-9);
    c[1].nccl.protocols = c[0].nccl.protocols = 1u << PROTOCOL_SIMPLE;
    c[1].n_bytes = 60000;
    c[1].piece_bytes = 0;
    ck_assert_int_eq(call_times(&cl, c, 2, t, &err), 0);
    ck_assert(t[1].nccl.channels == 1);
    arena_release(&arena);
}
END_TEST

/* An owner's direct sends to the other node on rails leave by 8 NICs: 16 channels, two a NIC as of the ring beside them. Without
 * rails all 16 pass the owner's own NIC, which then carries the ring at a ninth of its rate. */
START_TEST(a_fan_out_over_rails_takes_a_ninth_part_on_none)
{
    struct call c[2] = {{.kind = COLL_ALL_GATHER, .n_ranks = 16, .n_bytes = UINT64_C(1) << 34},
                        {.kind = COLL_SEGMENT_GATHER,
                         .n_ranks = 16,
                         .n_bytes = UINT64_C(1) << 30,
                         .algo = ALGO_P2P}};
    struct call_time t[2];
    double e0, e1;

    load("dgx-a100", 2);
    cl.nvlink_Bps *= 100; /* NICs decide */
    for (int rails = 0; rails < 2; rails++) {
        cl.rail_optimised = rails;
        ck_assert_int_eq(call_times(&cl, c, 2, t, &err), 0);
        ck_assert(t[0].nccl.channels == 16 && t[1].nccl.channels == 16);
        ends_by_hand(t, rails ? 0.5 : 1.0 / 9, &e0, &e1);
        ck_assert_double_eq_tol((double)t[0].end_ps / 1e12, e0, 1e-9);
        ck_assert_double_eq_tol((double)t[1].end_ps / 1e12, e1, 1e-9);
    }
    arena_release(&arena);
}
END_TEST

/* Eight owners of an eighth each send as much as one owner of all receives: a ring of all takes the same bytes, and direct sends
 * are eight times as fast. */
START_TEST(more_owners_send_directly_in_less_time)
{
    struct call one = {.kind = COLL_SEGMENT_GATHER,
                       .n_ranks = 8,
                       .n_bytes = UINT64_C(1) << 30,
                       .algo = ALGO_P2P,
                       .n_owners = 1},
                eight = one;
    double ratio;

    load("dgx-a100", 1);
    eight.n_owners = 8;
    ratio = alone_us(&one) / alone_us(&eight);
    ck_assert_double_gt(ratio, 7);
    ck_assert_double_lt(ratio, 8);
    arena_release(&arena);
}
END_TEST

START_TEST(groups_that_cannot_be_are_refused)
{
    static const struct {
        uint32_t ranks[3];
        uint32_t n;
        const char *text;
    } cases[] = {{{0, 1, 1}, 3, "has rank 1 twice"},
                 {{0, 2, 1}, 3, "has rank 1 out of order"},
                 {{0, 8, 0}, 2, "has rank 8, but 1 nodes have 8 GPUs"},
                 {{0, 0, 0}, 1, "a collective of 1 ranks, expected at least 2"}};
    struct call_time t;

    load("dgx-a100", 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call c = {.kind = COLL_ALL_REDUCE,
                         .n_ranks = cases[i].n,
                         .ranks = cases[i].ranks,
                         .n_bytes = 1024};

        ck_assert_int_eq(call_times(&cl, &c, 1, &t, &err), -1);
        ck_assert_msg(strstr(err.msg, cases[i].text) != NULL, "%s", err.msg);
    }
    arena_release(&arena);
}
END_TEST

START_TEST(an_algorithm_that_nccl_does_not_have_is_refused)
{
    struct call c = {
        .kind = COLL_ALL_GATHER, .n_ranks = 8, .n_bytes = 1024, .nccl = {.algos = 1u << NCCL_TREE}};
    struct call_time t;

    load("dgx-a100", 1);
    ck_assert_int_eq(call_times(&cl, &c, 1, &t, &err), -1);
    ck_assert_int_eq(err.code, ERR_UNSUPPORTED);
    arena_release(&arena);
}
END_TEST

/* PERFORMANCE.md of nccl-tests. */
START_TEST(bus_bandwidth_has_the_factors_of_nccl_tests)
{
    ck_assert_double_eq(call_bus_factor(COLL_ALL_REDUCE, 8), 1.75);
    ck_assert_double_eq(call_bus_factor(COLL_ALL_GATHER, 8), 0.875);
    ck_assert_double_eq(call_bus_factor(COLL_REDUCE_SCATTER, 4), 0.75);
    ck_assert_double_eq(call_bus_factor(COLL_ALL_TO_ALL, 4), 0.75);
    ck_assert_double_eq(call_bus_factor(COLL_BROADCAST, 8), 1);
    ck_assert_double_eq(call_bus_factor(COLL_SEND, 8), 1);
}
END_TEST

/* Every kind over one and two nodes, of all sizes together and one by one; the last a group of some ranks. */
START_TEST(sizes_of_one_call_are_calls_one_by_one)
{
    enum { N = 25 };
    uint32_t some[] = {1, 3, 6};
    uint64_t n_bytes[N];
    struct call_time together[N], one;

    for (uint32_t i = 0; i < N; i++)
        n_bytes[i] = UINT64_C(24) << i;
    for (uint32_t nodes = 1; nodes <= 2; nodes++) {
        load("dgx-a100", nodes);
        for (int k = 0; k < COLL_RECV; k++)
            for (int listed = 0; listed < 2; listed++) {
                struct call c = {.kind = (enum coll_kind)k,
                                 .n_ranks = listed ? 3 : 8 * nodes,
                                 .ranks = listed ? some : NULL,
                                 .n_owners = 2,
                                 .nccl.out_of_place = k % 2};

                ck_assert_int_eq(call_sizes(&cl, &c, n_bytes, N, together, &err), 0);
                for (uint32_t i = 0; i < N; i++) {
                    c.n_bytes = n_bytes[i];
                    ck_assert_int_eq(call_times(&cl, &c, 1, &one, &err), 0);
                    ck_assert(one.alone_ps == together[i].alone_ps && one.algo == together[i].algo);
                    ck_assert(one.nccl.algo == together[i].nccl.algo &&
                              one.nccl.protocol == together[i].nccl.protocol);
                }
            }
        arena_release(&arena);
    }
}
END_TEST

SUITE_MAIN("sim/call", sizes_of_one_call_are_calls_one_by_one, a_list_of_all_ranks_is_the_world,
           four_of_eight_gpus_are_a_ring_of_four, a_rail_has_one_nic,
           the_node_with_the_fewest_nics_limits_a_ring, a_shift_crosses_nodes_by_one_nic,
           calls_at_once_share_links_and_only_links, on_a_shared_link_bytes_go_by_channels,
           a_nic_is_shared_by_the_channels_that_pass_it,
           a_fan_out_over_rails_takes_a_ninth_part_on_none, more_owners_send_directly_in_less_time,
           groups_that_cannot_be_are_refused, an_algorithm_that_nccl_does_not_have_is_refused,
           bus_bandwidth_has_the_factors_of_nccl_tests)
