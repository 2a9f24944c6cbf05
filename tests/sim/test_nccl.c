/* NCCL's time by hand: the formulas of sim/nccl.h with round constants. */
#include "sim/nccl.h"
#include "tests/suite.h"

#include <math.h>

static struct cluster cl;

/* 8 GPUs, 200 GB/s of NVLink, 4 NICs of 25 GB/s; times in us. */
static void machine(void)
{
    cl = (struct cluster){.gpus_per_node = 8,
                          .nics_per_node = 4,
                          .n_nodes = 1,
                          .domain_nodes = 1,
                          .nvlink_Bps = 200e9,
                          .nvlink_efficiency = 1,
                          .nic_Bps = 25e9,
                          .nic_efficiency = 1,
                          .device = {.hbm_Bps = 2e12, .hbm_efficiency = 1}};
    cl.coll = (struct coll_constants){.base_s = {5e-6, 10e-6, 20e-6},
                                      .step_s = {1e-6, 1e-6, 2e-6},
                                      .net_step_s = {3e-6, 6e-6, 12e-6},
                                      .tree_step_s = {4e-6, 8e-6, 16e-6},
                                      .rate_share = {0.05, 0.5, 1},
                                      .tail = {1.5, 0.4, 0.5, 0.3},
                                      .ramp_s = 100e-6,
                                      .ramp_at_s = 200e-6,
                                      .tree_rate = {0.8, 0.8, 0.8}};
}

/* `bytes` over 8 ranks of one node, or 16 of two: what collective.c says of a ring. */
static struct nccl_call ring(enum coll_kind kind, double bytes, double nodes)
{
    double n = 8 * nodes, k = kind == COLL_ALL_REDUCE ? 2 : 1, wire = k * (n - 1) / n * bytes;

    return (struct nccl_call){.kind = kind,
                              .n = n,
                              .nodes = nodes,
                              .per_node = 8,
                              .bytes = bytes,
                              .steps = nodes > 1 ? k * (n - 1) * 7 / 8 : k * (n - 1),
                              .net_steps = nodes > 1 ? k * (n - 1) / 8 : 0,
                              .ramp_ranks = n,
                              .node_s = wire / 200e9,
                              .nic_s = nodes > 1 ? wire / 100e9 : 0};
}

static double time_us(const struct nccl_call *call, enum nccl_algo a, enum coll_protocol p)
{
    struct nccl_time t;

    ck_assert(nccl_time(&cl, call, a, p, &t));
    return (t.latency_s + t.transfer_s) * 1e6;
}

START_TEST(a_ring_costs_its_steps_its_bytes_its_tail_and_a_ramp)
{
    struct nccl_call c = ring(COLL_ALL_GATHER, 800e6, 1);
    /* 700 MB at 200 GB/s, and half of the last 100 MB */
    double y = 3500 + 0.5 * 500;

    machine();
    ck_assert_double_eq_tol(time_us(&c, NCCL_RING, PROTOCOL_SIMPLE),
                            20 + 7 * 2 + y + 100 * y / (y + 200), 1e-6);
    /* LL: a twentieth of the rate, and one and a half of a last operation */
    ck_assert_double_eq_tol(time_us(&c, NCCL_RING, PROTOCOL_LL), 5 + 7 + 70000 + 1.5 * 10000, 1e-6);
}
END_TEST

/* In place nothing is copied into the own part: 100 MB at the memory's 2 TB/s. */
START_TEST(in_place_an_all_gather_copies_less)
{
    struct nccl_call c = ring(COLL_ALL_GATHER, 800e6, 1);
    double y = 3500 + 0.5 * 500 - 50;

    machine();
    c.in_place = true;
    ck_assert_double_eq_tol(time_us(&c, NCCL_RING, PROTOCOL_SIMPLE),
                            20 + 7 * 2 + y + 100 * y / (y + 200), 1e-6);
}
END_TEST

START_TEST(between_nodes_the_busier_of_nvlink_and_nics_counts)
{
    struct nccl_call c = ring(COLL_ALL_REDUCE, 1600e6, 2);
    /* 2 * 15/16 of 1.6 GB through 100 GB/s of NICs; 30 steps, of which 2 in 16 go between nodes; twice the ranks, twice the ramp */
    double y = 30000, steps = 30 * 7 / 8.0 * 2 + 30 / 8.0 * 12;

    machine();
    ck_assert_double_eq_tol(time_us(&c, NCCL_RING, PROTOCOL_SIMPLE),
                            20 + steps + y + 200 * y / (y + 400), 1e-6);
}
END_TEST

/* Two nodes: half of the ring's bytes at the NICs, twice the buffer at 0.8 of NVLink's rate (call.node_s is of the ring, whose bytes are
 * 15/16 of that). 7 + 1 operations fill the tree. */
START_TEST(a_tree_halves_what_two_nodes_exchange)
{
    struct nccl_call c = ring(COLL_ALL_REDUCE, 1600e6, 2);
    struct nccl_time t;
    double y = 2 * 1600e6 / 160e9 * 1e6;

    machine();
    cl.coll.tree_ramp_s = 300e-6;
    cl.coll.tree_ramp_at_s = 15000e-6;
    ck_assert_double_eq_tol(time_us(&c, NCCL_TREE, PROTOCOL_SIMPLE),
                            20 + 14 * 2 + 2 * 16 + y + 300 * y / 25000, 1e-6);
    ck_assert(nccl_time(&cl, &c, NCCL_TREE, PROTOCOL_SIMPLE, &t));
    ck_assert_double_eq_tol(t.nic_scale, 0.5 / (15.0 / 16), 1e-12);
    /* LL: a twentieth of the rate, and nothing to fill */
    ck_assert_double_eq_tol(time_us(&c, NCCL_TREE, PROTOCOL_LL), 5 + 14 + 2 * 4 + 20 * y, 1e-6);
    /* trees of a network without figures take its rings' */
    cl.coll.tree_ramp_s = 0;
    memset(cl.coll.tree_step_s, 0, sizeof(cl.coll.tree_step_s));
    cl.coll.net_ramp_s = 50e-6;
    ck_assert_double_eq_tol(time_us(&c, NCCL_TREE, PROTOCOL_SIMPLE), 20 + 14 * 2 + 2 * 12 + y + 50,
                            1e-6);
    c = ring(COLL_ALL_GATHER, 1600e6, 2);
    ck_assert(!nccl_time(&cl, &c, NCCL_TREE, PROTOCOL_SIMPLE, &t));
    c = ring(COLL_ALL_REDUCE, 1600e6, 1);
    ck_assert(!nccl_time(&cl, &c, NCCL_TREE, PROTOCOL_SIMPLE, &t));
}
END_TEST

/* NCCL's trees by its rule: a node's lowest set bit is its level, the second tree is the first mirrored (an even number of nodes) or
 * moved by one. Each tree has half of the bytes, up and down. */
static uint32_t btree_edges(uint32_t n, uint32_t rank)
{
    uint32_t edges = 0;

    for (uint32_t v = 1; v < n; v++) {
        uint32_t bit = v & (0 - v), up = (v ^ bit) | 2 * bit;

        if (up >= n)
            up = v ^ bit;
        edges += (v == rank) + (up == rank);
    }
    return edges;
}

START_TEST(the_busiest_node_of_two_trees_sends_what_nccls_rule_gives)
{
    for (uint32_t n = 2; n < 130; n++) {
        uint32_t most = 0;

        for (uint32_t r = 0; r < n; r++) {
            uint32_t second = n % 2 ? (r + n - 1) % n : n - 1 - r;
            uint32_t edges = btree_edges(n, r) + btree_edges(n, second);

            most = edges > most ? edges : most;
        }
        MUST(nccl_tree_sent(n) == most / 2.0, "%u nodes: %g", n, most / 2.0);
    }
}
END_TEST

START_TEST(the_switch_adds_when_it_can_and_enough_gpus_take_part)
{
    struct nccl_call c = ring(COLL_ALL_REDUCE, 800e6, 1);
    struct nccl_time t;

    machine();
    ck_assert(!nccl_time(&cl, &c, NCCL_NVLS, PROTOCOL_SIMPLE, &t));
    cl.coll.nvls = (struct nvls_constants){
        .link_Bps = 300e9, .base_s = 15e-6, .net_step_s = 8e-6, .net_rate = 0.9, .min_gpus = 8};
    /* each of 8 sends 800 MB and takes its eighth: 900 MB at 300 GB/s */
    ck_assert_double_eq_tol(time_us(&c, NCCL_NVLS, PROTOCOL_SIMPLE), 15 + 3000, 1e-6);
    ck_assert(nccl_choose(&cl, &c, 0, 0, &t));
    ck_assert_int_eq(t.algo, NCCL_NVLS);
    ck_assert(!nccl_time(&cl, &c, NCCL_NVLS, PROTOCOL_LL, &t));
    /* 72 GPUs have 32 heads */
    c.n = c.per_node = 72;
    ck_assert_double_eq_tol(time_us(&c, NCCL_NVLS, PROTOCOL_SIMPLE), 15 + 800e6 * 33 / 32 / 300e3,
                            1e-6);
    /* two nodes: 1.6 GB each way through the NICs' 100 GB/s, two levels of the tree, no ramp */
    c = ring(COLL_ALL_REDUCE, 1600e6, 2);
    cl.coll.ramp_s = 0;
    ck_assert_double_eq_tol(time_us(&c, NCCL_NVLS_TREE, PROTOCOL_SIMPLE), 15 + 2 * 8 + 16000, 1e-6);
    /* with NICs that are no limit two nodes take longer than one, by what multicast has left: 0.9 */
    c.nic_s = 1e-6;
    ck_assert_double_eq_tol(time_us(&c, NCCL_NVLS_TREE, PROTOCOL_SIMPLE),
                            15 + 2 * 8 + 1800e6 / 270e3, 1e-6);
    c.per_node = 4;
    ck_assert(!nccl_time(&cl, &c, NCCL_NVLS_TREE, PROTOCOL_SIMPLE, &t));
}
END_TEST

START_TEST(switches_that_reduce_take_each_byte_once)
{
    struct nccl_call c = ring(COLL_ALL_REDUCE, 1600e6, 2);
    struct nccl_time t;

    machine();
    cl.coll.ramp_s = 0;
    ck_assert(!nccl_time(&cl, &c, NCCL_COLLNET, PROTOCOL_SIMPLE, &t));
    cl.sharp = true;
    /* 1.6 GB through 100 GB/s; a ring of 7 steps down and up, two hops */
    ck_assert_double_eq_tol(time_us(&c, NCCL_COLLNET, PROTOCOL_SIMPLE),
                            20 + 14 * 2 + 2 * 16 + 16000, 1e-6);
}
END_TEST

/* An all-to-all of 8 ranks in a node: 7 of 8 parts at half of the rate, the own one at 1 TB/s. */
START_TEST(sends_and_receives_share_the_port)
{
    struct nccl_call c = {.kind = COLL_ALL_TO_ALL,
                          .n = 8,
                          .nodes = 1,
                          .per_node = 8,
                          .bytes = 800e6,
                          .steps = 1,
                          .node_s = 3500e-6,
                          .version = 229};

    machine();
    cl.coll.p2p = (struct p2p_constants){
        .base_s = 7e-6, .both_ways = 0.5, .part_Bps = 16e9, .copy_Bps = 1e12};
    ck_assert_double_eq_tol(time_us(&c, NCCL_P2P, PROTOCOL_SIMPLE), 7 + 7000 + 100, 1e-6);
    c.in_place = true; /* nothing is copied */
    ck_assert_double_eq_tol(time_us(&c, NCCL_P2P, PROTOCOL_SIMPLE), 7 + 7000, 1e-6);
    c.one_way = true;
    ck_assert_double_eq_tol(time_us(&c, NCCL_P2P, PROTOCOL_SIMPLE), 7 + 3500, 1e-6);
}
END_TEST

/* Small messages go by one channel: 64 KiB at 8 GB/s to the peer and as many to itself, whatever the message beyond; by LL, which up
 * to NCCL 2.28 goes on to 512 KiB, at 0.2 of NVLink. */
START_TEST(a_small_message_goes_by_one_channel)
{
    struct nccl_call c = {.kind = COLL_ALL_TO_ALL,
                          .n = 8,
                          .nodes = 1,
                          .per_node = 8,
                          .bytes = 8 * 8192,
                          .node_s = 7 * 8192 / 200e9,
                          .version = 229};

    machine();
    cl.coll.p2p = (struct p2p_constants){
        .base_s = 7e-6, .both_ways = 0.5, .part_Bps = 8e9, .copy_Bps = 1e12, .ll_rate = 0.2};
    ck_assert_double_eq_tol(time_us(&c, NCCL_P2P, PROTOCOL_SIMPLE), 7 + 2 * 8192 / 8e3, 1e-6);
    c.bytes *= 16; /* 128 KiB a peer */
    c.node_s *= 16;
    ck_assert_double_eq_tol(time_us(&c, NCCL_P2P, PROTOCOL_SIMPLE),
                            7 + fmax(2 * 65536 / 8e3, c.node_s * 2e6 + 131072 / 1e6), 1e-6);
    c.version = 227;
    ck_assert_double_eq_tol(time_us(&c, NCCL_P2P, PROTOCOL_SIMPLE), 7 + c.node_s * 5e6, 1e-6);
    c.bytes *= 8; /* 1 MiB: Simple for both */
    c.node_s *= 8;
    ck_assert_double_eq_tol(time_us(&c, NCCL_P2P, PROTOCOL_SIMPLE),
                            7 + c.node_s * 2e6 + 1048576 / 1e6, 1e-6);
}
END_TEST

/* To another node: a step of trees by LL, the NIC at 0.7, 3 us for each further peer and 1.7 times more where the message is large. */
START_TEST(sends_to_other_nodes_pay_for_each_peer)
{
    struct nccl_call c = {.kind = COLL_SEND,
                          .n = 2,
                          .nodes = 2,
                          .per_node = 1,
                          .peers = 1,
                          .bytes = 250e6,
                          .nic_s = 10000e-6,
                          .one_way = true,
                          .version = 229};

    machine();
    cl.coll.p2p = (struct p2p_constants){
        .base_s = 7e-6, .both_ways = 0.5, .net_rate = 0.8, .net_peer_s = 3e-6, .net_fill_s = 20e-6};
    ck_assert_double_eq_tol(time_us(&c, NCCL_P2P, PROTOCOL_SIMPLE), 7 + 4 + 12500, 1e-6);
    c.kind = COLL_ALL_TO_ALL;
    c.n = 16;
    c.per_node = c.peers = 8;
    c.bytes = 16 * 32768;
    c.nic_s = 100e-6;
    ck_assert_double_eq_tol(time_us(&c, NCCL_P2P, PROTOCOL_SIMPLE), 7 + 4 + 7 * 3 * 1.85 + 125,
                            1e-6);
    /* at least 20 us, of which a message of 32 KiB has two fifths */
    c.nic_s = 1e-6;
    ck_assert_double_eq_tol(time_us(&c, NCCL_P2P, PROTOCOL_SIMPLE), 7 + 4 + 7 * 3 * 1.85 + 8, 1e-6);
}
END_TEST

/* The table believes 8.4 + 1.7 st + y < 6.6 + 0.6 st + 2 y: over 7 steps from y = 9.5 us on, which is 2.17 MB. */
START_TEST(the_table_decides_between_ll128_and_simple_in_a_node)
{
    struct nccl_call c = ring(COLL_ALL_GATHER, 2.1e6, 1);
    struct nccl_time t;

    machine();
    cl.coll.believed_ll128 = 0.5;
    ck_assert(nccl_choose(&cl, &c, 0, 0, &t));
    ck_assert_int_eq(t.protocol, PROTOCOL_LL128);
    c = ring(COLL_ALL_GATHER, 2.2e6, 1);
    ck_assert(nccl_choose(&cl, &c, 0, 0, &t));
    ck_assert_int_eq(t.protocol, PROTOCOL_SIMPLE);
    /* as NCCL_PROTO would have it */
    ck_assert(nccl_choose(&cl, &c, 0, 1u << PROTOCOL_LL, &t));
    ck_assert_int_eq(t.protocol, PROTOCOL_LL);
    ck_assert(!nccl_choose(&cl, &c, 1u << NCCL_TREE, 0, &t));
}
END_TEST

/* Tables of all-reduce on 2 and 8 GPUs and on two nodes of 8. */
START_TEST(a_band_is_as_wide_as_tables_are_far)
{
    static const struct {
        enum coll_kind kind;
        uint32_t n, nodes;
        double want;
        enum band_basis basis;
        enum nccl_algo algo;
    } rows[] = {
        {COLL_ALL_REDUCE, 8, 1, 0.04, BASIS_MEASURED, NCCL_RING},
        {COLL_ALL_REDUCE, 4, 1, 0.05, BASIS_OTHER_RANKS, NCCL_RING},  /* between the tables */
        {COLL_ALL_REDUCE, 16, 1, 0.06, BASIS_OTHER_RANKS, NCCL_RING}, /* beyond them */
        {COLL_ALL_GATHER, 8, 1, 0.06, BASIS_OTHER_KIND, NCCL_RING},
        {COLL_ALL_TO_ALL, 8, 1, 0.06 * 1.3, BASIS_OTHER_KIND, NCCL_RING}, /* sends jump more */
        {COLL_ALL_REDUCE, 16, 2, 0.06, BASIS_MEASURED, NCCL_RING},
        {COLL_ALL_REDUCE, 64, 8, 0.06 * 1.5, BASIS_OTHER_RANKS, NCCL_RING}, /* two doublings */
        {COLL_ALL_GATHER, 16, 2, 0.09, BASIS_OTHER_KIND, NCCL_RING},
        {COLL_SEND, 16, 2, 0.6, BASIS_OTHER_KIND, NCCL_RING},
        {COLL_ALL_REDUCE, 2, 2, 0.06 * 1.5, BASIS_OTHER_RANKS, NCCL_RING}, /* one GPU a node */
        {COLL_ALL_REDUCE, 17, 3, 0.06 * 1.5 * (1 + 0.25 * 0.58496250072115619), BASIS_OTHER_RANKS,
         NCCL_RING},
        {COLL_BROADCAST, 16, 2, 0.06, BASIS_MEASURED, NCCL_RING},
        {COLL_BROADCAST, 16, 2, 0.09, BASIS_OTHER_RANKS, NCCL_TREE}, /* the table forced rings */
        {COLL_BROADCAST, 32, 4, 0.06 * 1.25, BASIS_OTHER_RANKS, NCCL_RING},
        {COLL_SEGMENT_GATHER, 8, 1, 0.06 * 2, BASIS_OTHER_KIND,
         NCCL_RING}, /* nobody measures owners' */
    };
    enum band_basis basis;

    machine();
    cl.coll.band[BAND_LARGE] = 0.04;
    cl.coll.net_band[BAND_LARGE] = 0.06;
    cl.coll.tables[0] = (struct measured_table){0, 1, 2, 0};
    cl.coll.tables[1] = (struct measured_table){0, 1, 8, 0};
    cl.coll.tables[2] = (struct measured_table){0, 2, 8, 0};
    cl.coll.tables[3] = (struct measured_table){3, 2, 8, 1};
    cl.coll.n_tables = 4;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double band =
            nccl_band(&cl, rows[i].kind, 32 << 20, rows[i].n, rows[i].nodes, rows[i].algo, &basis);

        MUST(fabs(band - rows[i].want) < 1e-12 && basis == rows[i].basis, "row %zu: %g", i, band);
    }
    /* switches that reduce, another generation, another network */
    cl.sharp = true;
    ck_assert_double_eq_tol(nccl_band(&cl, COLL_ALL_REDUCE, 32 << 20, 16, 2, NCCL_RING, &basis),
                            0.25, 1e-12);
    ck_assert_int_eq(basis, BASIS_UNCHECKED);
    cl.sharp = false;
    cl.coll.band[BAND_LARGE] = cl.coll.net_band[BAND_LARGE] = 0;
    ck_assert_double_eq_tol(nccl_band(&cl, COLL_ALL_REDUCE, 32 << 20, 8, 1, NCCL_RING, &basis),
                            0.25, 1e-12);
    ck_assert_int_eq(basis, BASIS_NONE);
    ck_assert_double_eq_tol(nccl_band(&cl, COLL_ALL_REDUCE, 32 << 20, 32, 4, NCCL_RING, &basis),
                            0.3125, 1e-12);
}
END_TEST

/* A large call has 24 rings in a node, over two nodes two for each of 4 NICs; Simple wants 32 KiB of the call a channel, LL
 * 4 KiB, in rings for each rank, LL128 5 KiB. */
START_TEST(channels_follow_from_place_and_size)
{
    static const struct {
        double bytes, nodes;
        enum nccl_algo algo;
        enum coll_protocol protocol;
        double want;
    } rows[] = {{1e9, 1, NCCL_RING, PROTOCOL_SIMPLE, 24},
                {1e9, 2, NCCL_RING, PROTOCOL_SIMPLE, 8},
                {1e9, 2, NCCL_TREE, PROTOCOL_SIMPLE, 8},
                {1e9, 1, NCCL_NVLS, PROTOCOL_SIMPLE, 16},
                {24 * 32768, 1, NCCL_RING, PROTOCOL_SIMPLE, 24},
                {24 * 32768 - 1, 1, NCCL_RING, PROTOCOL_SIMPLE, 23},
                {1000, 1, NCCL_RING, PROTOCOL_SIMPLE, 1},
                {3 * 32768, 2, NCCL_TREE, PROTOCOL_SIMPLE, 3},
                {5 * 4096 * 8, 1, NCCL_RING, PROTOCOL_LL, 5},
                {5 * 4096 * 16, 2, NCCL_RING, PROTOCOL_LL, 5},
                {5 * 4096, 2, NCCL_TREE, PROTOCOL_LL, 5},
                {7 * 5120, 1, NCCL_RING, PROTOCOL_LL128, 7}};
    struct nccl_time t;

    machine();
    cl.coll.nvls.link_Bps = 400e9;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct nccl_call c = ring(COLL_ALL_REDUCE, rows[i].bytes, rows[i].nodes);

        c.nics = rows[i].nodes > 1 ? 4 : 0;
        ck_assert(nccl_time(&cl, &c, rows[i].algo, rows[i].protocol, &t));
        ck_assert_msg(t.channels == rows[i].want, "row %zu: %g", i, t.channels);
    }
}
END_TEST

/* Sends: 32 in a node. Over nodes as many as a ring in a power of two, and two a peer. */
START_TEST(sends_have_channels_by_peers)
{
    static const struct {
        double nodes, nics, peers, want;
    } rows[] = {{1, 0, 0, 32}, {2, 8, 8, 16}, {2, 6, 100, 16}, {2, 8, 1, 2}, {2, 20, 100, 32}};
    struct nccl_time t;

    machine();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct nccl_call c = ring(COLL_ALL_TO_ALL, 1e9, rows[i].nodes);

        c.nics = rows[i].nics;
        c.peers = rows[i].peers;
        ck_assert(nccl_time(&cl, &c, NCCL_P2P, PROTOCOL_SIMPLE, &t));
        ck_assert_msg(t.channels == rows[i].want, "row %zu: %g", i, t.channels);
    }
}
END_TEST

START_TEST(a_cluster_may_say_how_many_channels)
{
    struct nccl_call c = ring(COLL_ALL_REDUCE, 1e9, 1), d = ring(COLL_ALL_REDUCE, 1e9, 2);
    struct nccl_time t;

    machine();
    cl.coll.channels[CHANNELS_RING] = 4;
    cl.coll.channels[CHANNELS_NIC] = 1;
    cl.coll.channels[CHANNELS_NVLS] = 6;
    cl.coll.channels[CHANNELS_P2P] = 3;
    cl.coll.nvls.link_Bps = 400e9;
    d.nics = 4;
    d.peers = 8;
    ck_assert(nccl_time(&cl, &c, NCCL_RING, PROTOCOL_SIMPLE, &t) && t.channels == 4);
    ck_assert(nccl_time(&cl, &c, NCCL_NVLS, PROTOCOL_SIMPLE, &t) && t.channels == 6);
    ck_assert(nccl_time(&cl, &d, NCCL_RING, PROTOCOL_SIMPLE, &t) && t.channels == 4);
    d.direct = true;
    ck_assert(nccl_time(&cl, &d, NCCL_P2P, PROTOCOL_SIMPLE, &t) && t.channels == 3);
}
END_TEST

/* Four nodes under two leaves, 7 us over the spine: each step between nodes pays it. Trees take log2(4) steps up and as many
 * down, switches that reduce one each way, the ring its 2 x 31 x 4/32. */
START_TEST(each_step_between_nodes_pays_for_the_spine)
{
    static const struct {
        enum nccl_algo algo;
        double steps;
    } of[] = {
        {NCCL_RING, 2 * 31 * 4 / 32.0}, {NCCL_TREE, 4}, {NCCL_NVLS_TREE, 4}, {NCCL_COLLNET, 2}};
    struct nccl_call c = ring(COLL_ALL_REDUCE, 1600e6, 4);

    machine();
    c.net_steps = 2 * 31 * 4 / 32.0;
    cl.sharp = true;
    cl.coll.nvls = (struct nvls_constants){
        .link_Bps = 400e9, .base_s = 15e-6, .net_step_s = 8e-6, .min_gpus = 8};
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        double near, far;

        c.spine_s = 0;
        near = time_us(&c, of[i].algo, PROTOCOL_SIMPLE);
        c.spine_s = 7e-6;
        far = time_us(&c, of[i].algo, PROTOCOL_SIMPLE);
        MUST(fabs(far - near - 7 * of[i].steps) < 1e-6, "%s: %g us for %g steps",
             nccl_algo_name(of[i].algo), far - near, of[i].steps);
    }
}
END_TEST

SUITE_MAIN("sim/nccl", a_ring_costs_its_steps_its_bytes_its_tail_and_a_ramp,
           in_place_an_all_gather_copies_less, between_nodes_the_busier_of_nvlink_and_nics_counts,
           a_tree_halves_what_two_nodes_exchange,
           the_busiest_node_of_two_trees_sends_what_nccls_rule_gives,
           the_switch_adds_when_it_can_and_enough_gpus_take_part,
           switches_that_reduce_take_each_byte_once, sends_and_receives_share_the_port,
           a_small_message_goes_by_one_channel, sends_to_other_nodes_pay_for_each_peer,
           the_table_decides_between_ll128_and_simple_in_a_node,
           a_band_is_as_wide_as_tables_are_far, channels_follow_from_place_and_size,
           sends_have_channels_by_peers, a_cluster_may_say_how_many_channels,
           each_step_between_nodes_pays_for_the_spine)
