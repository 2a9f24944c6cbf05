#include "sim/fabric.h"
#include "tests/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;

static void load(const char *what, uint32_t nodes, struct cluster *c)
{
    struct err e = {0};

    ck_assert_msg(!cluster_load(what, &arena, c, &e) && !cluster_resize(c, nodes, &e), "%s", e.msg);
}

static void make(const char *what, uint32_t nodes, struct fabric *f)
{
    struct cluster c;
    struct err e = {0};

    load(what, nodes, &c);
    ck_assert_msg(!fabric_init(f, &c, nodes * c.gpus_per_node, NULL, &arena, &e), "%s", e.msg);
}

/* ---- the chain of vertices ---- */

enum vertex { GPU = 1, NVSWITCH, PCIE, ROOT, NIC, LEAF, SPINE };

static uint64_t at(enum vertex v, uint64_t i)
{
    return (uint64_t)v << 40 | i;
}

/* Where a NIC's cable ends: its leaf, or the one switch. */
static uint64_t above_nic(const struct fabric *f, uint32_t nic)
{
    uint32_t node = nic / f->c.nics_per_node, rail = nic % f->c.nics_per_node % f->n_rails;

    return f->n_pods ? at(LEAF, node / f->c.nodes_per_leaf * f->n_rails + rail) : at(SPINE, 0);
}

/* Written from the drawing in fabric.h, not from fabric.c. */
static void ends(const struct fabric *f, struct fabric_link l, uint64_t *from, uint64_t *to)
{
    const struct cluster *c = &f->c;
    uint32_t i = l.instance, g = c->gpus_per_node, s = c->pcie_switches, n = c->nics_per_node;
    uint64_t low, high;

    switch (l.kind) {
    case FABRIC_NVLINK_PAIR:
        *from = at(GPU, i / (g * g) * g + i / g % g);
        *to = at(GPU, i / (g * g) * g + i % g);
        return;
    case FABRIC_NVLINK_UP:
    case FABRIC_NVLINK_DOWN:
        low = at(GPU, i);
        high = at(NVSWITCH, i / g);
        break;
    case FABRIC_PCIE_UP:
    case FABRIC_PCIE_DOWN:
        low = at(GPU, i);
        high = at(PCIE, i / g * s + c->switch_of_gpu[i % g]);
        break;
    case FABRIC_ROOT_UP:
    case FABRIC_ROOT_DOWN:
        low = at(PCIE, i);
        high = at(ROOT, i / s);
        break;
    case FABRIC_PCIE_OUT:
    case FABRIC_PCIE_IN:
        low = at(PCIE, i / n * s + c->switch_of_nic[i % n]);
        high = at(NIC, i);
        break;
    case FABRIC_NIC_TX:
    case FABRIC_NIC_RX:
        low = s ? at(NIC, i) : 0; /* without PCIe the NIC is the GPU's own */
        high = above_nic(f, i);
        break;
    default:
        low = at(LEAF, i);
        high = at(SPINE, 0);
    }
    switch (l.kind) {
    case FABRIC_NVLINK_DOWN:
    case FABRIC_PCIE_DOWN:
    case FABRIC_ROOT_DOWN:
    case FABRIC_PCIE_IN:
    case FABRIC_NIC_RX:
    case FABRIC_LEAF_DOWN:
        *from = high;
        *to = low;
        return;
    default:
        *from = low;
        *to = high;
    }
}

static void ck_chain(const struct fabric *f, uint32_t from, uint32_t to)
{
    struct fabric_route r;
    uint64_t here = at(GPU, from), a, b;

    fabric_route(f, from, to, &r);
    for (uint32_t i = 0; i < r.n; i++) {
        MUST(r.links[i].instance < fabric_n(f, r.links[i].kind) &&
                 fabric_Bps(f, r.links[i].kind, r.links[i].instance) > 0,
             "%u to %u: link %u does not exist or has no rate", from, to, i);
        ends(f, r.links[i], &a, &b);
        MUST(!a || a == here || !here,
             "%u to %u: link %u, %s %u, does not start where the one before ends", from, to, i,
             fabric_kind_name(r.links[i].kind), r.links[i].instance);
        here = b;
    }
    MUST(!here || here == at(GPU, to), "%u to %u: the route ends elsewhere", from, to);
    MUST(from == to ? r.n == 0 : r.n > 0, "%u to %u: %u links", from, to, r.n);
}

static void ck_all_chains(const struct fabric *f, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            ck_chain(f, i, j);
}

/* ---- by hand ---- */

static void ck_route(const struct fabric *f, uint32_t from, uint32_t to, uint32_t proxy,
                     const struct fabric_link *want, uint32_t n)
{
    struct fabric_route r;

    fabric_route(f, from, to, &r);
    for (uint32_t i = 0; i < r.n && i < n; i++)
        ck_assert_msg(r.links[i].kind == want[i].kind && r.links[i].instance == want[i].instance,
                      "%u to %u: link %u is %s %u, expected %s %u", from, to, i,
                      fabric_kind_name(r.links[i].kind), r.links[i].instance,
                      fabric_kind_name(want[i].kind), want[i].instance);
    ck_assert_msg(r.n == n, "%u to %u: %u links, expected %u", from, to, r.n, n);
    ck_assert_uint_eq(r.proxy, proxy);
}
#define ROUTE(f, from, to, proxy, ...)                                                             \
    ck_route(f, from, to, proxy, (struct fabric_link[]){__VA_ARGS__},                              \
             sizeof((struct fabric_link[]){__VA_ARGS__}) / sizeof(struct fabric_link))

static double route_GBps(const struct fabric *f, uint32_t from, uint32_t to)
{
    struct fabric_route r;

    fabric_route(f, from, to, &r);
    return fabric_route_Bps(f, &r) / 1e9;
}

/* Two GPUs and two NICs under a PCIe switch, a NIC a GPU on its rail, 20 nodes a pod: rank 0 and rank 8 are on rail 0, rank 9
 * on rail 1, so rank 0 sends to it through GPU 1 of its own node. Node 20 is in the next pod. */
START_TEST(dgx_a100_stays_on_rails)
{
    struct fabric f;
    double nic;

    make("dgx-a100", 21, &f);
    nic = f.c.nic_Bps * f.c.nic_efficiency / 1e9;
    ROUTE(&f, 3, 5, 3, {FABRIC_NVLINK_UP, 3}, {FABRIC_NVLINK_DOWN, 5});
    ROUTE(&f, 0, 8, 0, {FABRIC_PCIE_UP, 0}, {FABRIC_PCIE_OUT, 0}, {FABRIC_NIC_TX, 0},
          {FABRIC_NIC_RX, 8}, {FABRIC_PCIE_IN, 8}, {FABRIC_PCIE_DOWN, 8});
    ROUTE(&f, 0, 9, 1, {FABRIC_NVLINK_UP, 0}, {FABRIC_NVLINK_DOWN, 1}, {FABRIC_PCIE_UP, 1},
          {FABRIC_PCIE_OUT, 1}, {FABRIC_NIC_TX, 1}, {FABRIC_NIC_RX, 9}, {FABRIC_PCIE_IN, 9},
          {FABRIC_PCIE_DOWN, 9});
    ROUTE(&f, 2, 162, 2, {FABRIC_PCIE_UP, 2}, {FABRIC_PCIE_OUT, 2}, {FABRIC_NIC_TX, 2},
          {FABRIC_LEAF_UP, 2}, {FABRIC_LEAF_DOWN, 10}, {FABRIC_NIC_RX, 162}, {FABRIC_PCIE_IN, 162},
          {FABRIC_PCIE_DOWN, 162});
    ck_assert(fabric_n(&f, FABRIC_LEAF_UP) == 16 && fabric_n(&f, FABRIC_NIC_TX) == 168);
    ck_assert_double_eq_tol(fabric_Bps(&f, FABRIC_LEAF_UP, 0) / 1e9, 20 * nic, 1e-9);
    ck_assert_double_eq_tol(route_GBps(&f, 0, 8), fmin(nic, 31.5), 1e-9);
    ck_all_chains(&f, 168);
}
END_TEST

/* Four NICs, each of two GPUs, no rails and one level: a GPU sends through its own NIC whatever the receiver's. */
START_TEST(p4d_shares_a_nic_between_two_gpus)
{
    struct fabric f;

    make("aws-p4d", 2, &f);
    ROUTE(&f, 0, 10, 0, {FABRIC_PCIE_UP, 0}, {FABRIC_PCIE_OUT, 0}, {FABRIC_NIC_TX, 0},
          {FABRIC_NIC_RX, 5}, {FABRIC_PCIE_IN, 5}, {FABRIC_PCIE_DOWN, 10});
    ROUTE(&f, 1, 10, 1, {FABRIC_PCIE_UP, 1}, {FABRIC_PCIE_OUT, 0}, {FABRIC_NIC_TX, 0},
          {FABRIC_NIC_RX, 5}, {FABRIC_PCIE_IN, 5}, {FABRIC_PCIE_DOWN, 10});
    ck_assert_uint_eq(fabric_n(&f, FABRIC_NIC_TX), 8);
    ck_assert_uint_eq(fabric_n(&f, FABRIC_LEAF_UP), 0);
    ck_all_chains(&f, 16);
}
END_TEST

/* Two nodes of eight NICs a leaf, 4:1: sixteen NICs share the rate of four. */
START_TEST(an_oversubscribed_leaf_has_a_quarter_of_its_nics_upwards)
{
    struct fabric f;
    double nic;

    make("dgx-a100:leaf=2,oversub=4,rails=no", 4, &f);
    nic = f.c.nic_Bps * f.c.nic_efficiency;
    ROUTE(&f, 0, 9, 0, {FABRIC_PCIE_UP, 0}, {FABRIC_PCIE_OUT, 0}, {FABRIC_NIC_TX, 0},
          {FABRIC_NIC_RX, 9}, {FABRIC_PCIE_IN, 9}, {FABRIC_PCIE_DOWN, 9});
    ROUTE(&f, 0, 17, 0, {FABRIC_PCIE_UP, 0}, {FABRIC_PCIE_OUT, 0}, {FABRIC_NIC_TX, 0},
          {FABRIC_LEAF_UP, 0}, {FABRIC_LEAF_DOWN, 1}, {FABRIC_NIC_RX, 17}, {FABRIC_PCIE_IN, 17},
          {FABRIC_PCIE_DOWN, 17});
    ck_assert_uint_eq(fabric_n(&f, FABRIC_LEAF_UP), 2);
    ck_assert_double_eq_tol(fabric_Bps(&f, FABRIC_LEAF_UP, 1), 4 * nic, 1);
    ck_all_chains(&f, 32);
}
END_TEST

/* 18 trays of four are one NVLink domain; NICs 0, 4, 8, ... of it are on rail 0. */
START_TEST(nvl72_is_one_domain_with_four_rails)
{
    struct fabric f;

    make("gb200-nvl72", 36, &f);
    ROUTE(&f, 0, 71, 0, {FABRIC_NVLINK_UP, 0}, {FABRIC_NVLINK_DOWN, 71});
    ROUTE(&f, 0, 76, 0, {FABRIC_NIC_TX, 0}, {FABRIC_NIC_RX, 76});
    ROUTE(&f, 0, 73, 1, {FABRIC_NVLINK_UP, 0}, {FABRIC_NVLINK_DOWN, 1}, {FABRIC_NIC_TX, 1},
          {FABRIC_NIC_RX, 73});
    ROUTE(&f, 1, 76, 4, {FABRIC_NVLINK_UP, 1}, {FABRIC_NVLINK_DOWN, 4}, {FABRIC_NIC_TX, 4},
          {FABRIC_NIC_RX, 76});
    ck_assert_uint_eq(f.n_nodes, 2);
    ck_all_chains(&f, 144);
    make("gb200-nvl72", 288, &f); /* 144 trays a pod: 8 domains, 8 x 18 NICs a rail */
    ck_assert_uint_eq(fabric_n(&f, FABRIC_LEAF_UP), 8);
    ck_assert_double_eq_tol(fabric_Bps(&f, FABRIC_LEAF_UP, 0),
                            144 * f.c.nic_Bps * f.c.nic_efficiency, 1);
    ck_chain(&f, 5, 1000);
}
END_TEST

/* A DGX-1: six links of 25 GB/s a GPU, two or one to four neighbours, none to the other three: GPU 0 reaches 5 over 1 (one
 * link, then two) as well as over 4; the lower one is taken. */
static const uint8_t CUBE_MESH[64] = {
    0, 1, 1, 2, 2, 0, 0, 0, 1, 0, 2, 1, 0, 2, 0, 0, 1, 2, 0, 1, 0, 0, 2, 0, 2, 1, 1, 0, 0, 0, 0, 2,
    2, 0, 0, 0, 0, 1, 1, 2, 0, 2, 0, 0, 1, 0, 2, 1, 0, 0, 2, 0, 1, 2, 0, 1, 0, 0, 0, 2, 2, 1, 1, 0};

START_TEST(gpus_without_a_link_go_over_a_third)
{
    struct cluster c;
    struct fabric f;
    struct err e = {0};

    load("dgx-a100", 1, &c);
    c.nvswitch = false;
    c.nvlink_Bps = 150e9;
    c.nvlink_efficiency = 1;
    c.pcie_switches = 0;
    cluster_drop_nics(&c);
    ck_assert_msg(!fabric_init(&f, &c, 8, CUBE_MESH, &arena, &e), "%s", e.msg);
    ROUTE(&f, 0, 3, 0, {FABRIC_NVLINK_PAIR, 3});
    ROUTE(&f, 0, 5, 0, {FABRIC_NVLINK_PAIR, 1}, {FABRIC_NVLINK_PAIR, 13});
    ck_assert_double_eq_tol(route_GBps(&f, 0, 3), 50, 1e-9);
    ck_assert_double_eq_tol(route_GBps(&f, 0, 5), 25, 1e-9);
    ck_all_chains(&f, 8);
    /* all GPUs look alike: links of one width and of two are the only classes */
    for (uint32_t i = 0; i < 64; i++)
        if (CUBE_MESH[i])
            ck_assert(fabric_class(&f, (struct fabric_link){FABRIC_NVLINK_PAIR, i}) ==
                      fabric_class(
                          &f, (struct fabric_link){FABRIC_NVLINK_PAIR, CUBE_MESH[i] == 1 ? 1 : 3}));
    ck_assert(fabric_class(&f, (struct fabric_link){FABRIC_NVLINK_PAIR, 1}) !=
              fabric_class(&f, (struct fabric_link){FABRIC_NVLINK_PAIR, 3}));
    /* without counts: as many links to each other GPU */
    ck_assert(!fabric_init(&f, &c, 8, NULL, &arena, &e));
    ck_assert_double_eq_tol(route_GBps(&f, 0, 5), 150.0 / 7, 1e-9);
}
END_TEST

/* The GPU's NIC hangs on the other PCIe switch: over the root, on both sides. */
START_TEST(a_nic_on_another_switch_is_reached_over_the_root)
{
    struct cluster c;
    struct fabric f;
    struct err e = {0};

    load("aws-p4d", 2, &c);
    c.nic_of_gpu[0] = 1;
    ck_assert_msg(!fabric_init(&f, &c, 16, NULL, &arena, &e), "%s", e.msg);
    ROUTE(&f, 0, 8, 0, {FABRIC_PCIE_UP, 0}, {FABRIC_ROOT_UP, 0}, {FABRIC_ROOT_DOWN, 1},
          {FABRIC_PCIE_OUT, 1}, {FABRIC_NIC_TX, 1}, {FABRIC_NIC_RX, 5}, {FABRIC_PCIE_IN, 5},
          {FABRIC_ROOT_UP, 5}, {FABRIC_ROOT_DOWN, 4}, {FABRIC_PCIE_DOWN, 8});
    ck_all_chains(&f, 16);
    /* NIC 1 has three GPUs, NIC 0 one: GPUs, NICs and switches of these are no longer like the others */
    ck_assert(fabric_class(&f, (struct fabric_link){FABRIC_NIC_TX, 0}) !=
              fabric_class(&f, (struct fabric_link){FABRIC_NIC_TX, 2}));
    ck_assert(fabric_class(&f, (struct fabric_link){FABRIC_NIC_TX, 2}) ==
              fabric_class(&f, (struct fabric_link){FABRIC_NIC_TX, 7}));
    ck_assert(fabric_class(&f, (struct fabric_link){FABRIC_PCIE_UP, 0}) !=
              fabric_class(&f, (struct fabric_link){FABRIC_PCIE_UP, 1}));
}
END_TEST

/* Bundled nodes are symmetrical: a class a kind, but for leaves of a pod that is not full. */
START_TEST(links_of_a_symmetrical_cluster_have_a_class_a_kind)
{
    static const char *const names[] = {"dgx-a100", "aws-p4d", "hgx-h100-ndr", "gb200-nvl72"};

    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        struct fabric f;

        make(names[k], 18, &f);
        for (int kind = 0; kind < FABRIC_LEAF_UP; kind++)
            for (uint32_t i = 1; i < fabric_n(&f, (enum fabric_kind)kind); i++)
                MUST(fabric_class(&f, (struct fabric_link){(enum fabric_kind)kind, i}) ==
                         fabric_class(&f, (struct fabric_link){(enum fabric_kind)kind, 0}),
                     "%s: %s %u has another class than the first", names[k],
                     fabric_kind_name((enum fabric_kind)kind), i);
    }
}
END_TEST

START_TEST(a_fabric_of_131072_ranks_costs_no_more_than_a_node)
{
    struct fabric f;
    struct fabric_route r;
    uint64_t state = 1, n = 0;

    make("dgx-a100", 16384, &f);
    for (int i = 0; i < 1000000; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        fabric_route(&f, (uint32_t)(state >> 47), (uint32_t)(state >> 20) % 131072, &r);
        n += r.n;
    }
    ck_assert(n > 6000000 && sizeof(f) < 4096);
    ck_chain(&f, 131071, 0);
    ck_chain(&f, 0, 131071);
}
END_TEST

/* ---- refusals ---- */

static void ck_refused(const struct cluster *c, uint32_t world, const uint8_t *nvlinks,
                       const char *want)
{
    struct fabric f;
    struct err e = {0};

    ck_assert_msg(fabric_init(&f, c, world, nvlinks, &arena, &e) == -1, "expected: %s", want);
    ck_assert_msg(e.code == ERR_INVALID && strstr(e.msg, want), "%s, expected: %s", e.msg, want);
}

START_TEST(what_is_no_fabric_is_refused)
{
    static const double bad[] = {0, -5, NAN, INFINITY};
    static const uint8_t apart[16] = {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0};
    struct cluster good, c;

    load("dgx-a100", 2, &good);
    for (int i = 0; i < 4; i++) {
        c = good;
        c.nic_Bps = bad[i];
        ck_refused(&c, 16, NULL, "a NIC's rate is");
        c = good;
        c.nvlink_Bps = bad[i];
        ck_refused(&c, 16, NULL, "NVLink's rate is");
        c = good;
        c.pcie_Bps = bad[i];
        ck_refused(&c, 16, NULL, "PCIe's rate is");
        c = good;
        c.oversubscription = bad[i];
        ck_refused(&c, 16, NULL, "oversubscription is");
    }
    c = good;
    cluster_drop_nics(&c);
    ck_refused(&c, 16, NULL, "16 ranks are on 2 nodes, and no NIC connects them");
    c = good;
    c.nic_of_gpu[3] = 8;
    ck_refused(&c, 16, NULL, "GPU 3 uses NIC 8, expected 0 to 7");
    c = good;
    c.switch_of_nic[2] = 4;
    ck_refused(&c, 16, NULL, "NIC 2 is under PCIe switch 4, expected 0 to 3");
    ck_refused(&good, 0, NULL, "a fabric of 0 ranks");
    c = good;
    c.gpus_per_node = 4;
    c.pcie_switches = 0;
    cluster_drop_nics(&c);
    ck_refused(&c, 4, apart, "GPU 0 does not reach GPU 2");
}
END_TEST

/* ---- topology files ---- */

START_TEST(nvlinks_of_a_topology_file_are_counted)
{
    static const char text[] = "<system version=\"1\"><cpu numaid=\"0\">"
                               "<pci busid=\"0000:01:00.0\" class=\"0x030200\" vendor=\"0x10de\" "
                               "device=\"0x1db1\" link_speed=\"8 GT/s\" link_width=\"16\">"
                               "<gpu dev=\"0\" sm=\"70\"><nvlink target=\"0000:02:00.0\" "
                               "count=\"%s\" tclass=\"0x030200\"/></gpu></pci>"
                               "<pci busid=\"0000:02:00.0\" class=\"0x030200\" vendor=\"0x10de\" "
                               "device=\"0x1db1\" link_speed=\"8 GT/s\" link_width=\"16\">"
                               "<gpu dev=\"1\" sm=\"70\"><nvlink target=\"%s\" count=\"2\" "
                               "tclass=\"0x030200\"/></gpu></pci>"
                               "</cpu></system>";
    char file[2000];
    const uint8_t *counts;
    struct topology t;
    struct err e = {0};

    snprintf(file, sizeof(file), text, "2", "0000:01:00.0");
    ck_assert_msg(!topology_parse(file, strlen(file), "t.xml", &arena, &t, &e), "%s", e.msg);
    ck_assert_msg(!fabric_nvlinks(&t, &arena, &counts, &e), "%s", e.msg);
    ck_assert(counts && counts[0] == 0 && counts[1] == 2 && counts[2] == 2 && counts[3] == 0);
    snprintf(file, sizeof(file), text, "1", "0000:01:00.0");
    ck_assert(!topology_parse(file, strlen(file), "t.xml", &arena, &t, &e));
    ck_assert(fabric_nvlinks(&t, &arena, &counts, &e) == -1);
    ck_assert_str_eq(e.msg, "'t.xml': GPU 1 has 2 NVLinks to GPU 0, which has 1 back");
    snprintf(file, sizeof(file), text, "2", "0000:03:00.0");
    ck_assert(!topology_parse(file, strlen(file), "t.xml", &arena, &t, &e));
    ck_assert(fabric_nvlinks(&t, &arena, &counts, &e) == -1);
    ck_assert_msg(strstr(e.msg, "an NVLink ends at '0000:03:00.0', which is no GPU of the file"),
                  "%s", e.msg);
}
END_TEST

/* Samples of clouds, where they are: all routes of three nodes are chains. */
START_TEST(routes_of_sample_topologies_are_chains)
{
    static const char *const samples[] = {
        "aws-p4d:node=%s/topologies/aws-p4d-24xl-topo.xml",
        "nd-a100-v4:node=%s/topologies/azure-ndv4-topo.xml",
        "oci-a100:node=%s/topologies/oci-topo-flattened-b4.xml",
        "%s/topologies/nebius-nccl-topo-h100-v1.xml",
        "%s/topologies/oci-H100-topology.xml",
        "dgx-a100:node=%s/topologies/dgx-a100-nvidia-smi-topo-m.txt",
    };
    const char *shared = getenv("BALLAST_SHARED");
    char path[4096];

    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        struct fabric f;
        FILE *there;

        snprintf(path, sizeof(path), samples[i], shared ? shared : "../shared");
        there = fopen(strchr(path, '=') ? strchr(path, '=') + 1 : path, "r");
        if (!there) {
            printf("not there: %s\n", path);
            continue;
        }
        fclose(there);
        make(path, 3, &f);
        ck_assert_uint_eq(f.world, 24);
        ck_all_chains(&f, 24);
    }
}
END_TEST

SUITE_MAIN("sim/fabric", dgx_a100_stays_on_rails, p4d_shares_a_nic_between_two_gpus,
           an_oversubscribed_leaf_has_a_quarter_of_its_nics_upwards,
           nvl72_is_one_domain_with_four_rails, gpus_without_a_link_go_over_a_third,
           a_nic_on_another_switch_is_reached_over_the_root,
           links_of_a_symmetrical_cluster_have_a_class_a_kind,
           a_fabric_of_131072_ranks_costs_no_more_than_a_node, what_is_no_fabric_is_refused,
           nvlinks_of_a_topology_file_are_counted, routes_of_sample_topologies_are_chains)
