/* What NCCL's tuning table says, by hand: figures worked out on paper from NVIDIA/nccl's src/graph/tuning.cc for machines whose
 * graph search is plain, and the algorithms that published tables show by the slopes of their largest sizes. */
#include "sim/nccl_tuning.h"
#include "tests/suite.h"

#include <math.h>

/* Nodes of 8 GPUs with a NIC each. */
static struct cluster machine(double sm, double nvlink_GBps, double nic_GBps)
{
    struct cluster c = {.gpus_per_node = 8,
                        .nics_per_node = 8,
                        .domain_nodes = 1,
                        .nvlink_Bps = nvlink_GBps * 1e9,
                        .nic_Bps = nic_GBps * 1e9};

    c.device.compute_capability = sm;
    return c;
}

static struct nccl_call call(enum coll_kind kind, double bytes, double nodes)
{
    return (struct nccl_call){
        .kind = kind, .bytes = bytes, .n = 8 * nodes, .nodes = nodes, .per_node = 8, .nics = 8};
}

static double believed_us(const struct cluster *c, const struct nccl_call *x, enum nccl_algo a,
                          enum coll_protocol p, uint32_t version)
{
    struct nccl_call call = *x;
    struct nccl_beliefs believed;

    call.version = version;
    nccl_believe(c, &call, &believed);
    return 1e6 * believed.s[a][p];
}

/* Two nodes of 8 H100 with 400 Gb/s: 8 channels at 45 GB/s, since 8 x 48 is more than the 370.8 of NVLink. */
START_TEST(two_nodes_of_h100_by_hand)
{
    struct cluster c = machine(9, 450, 50);
    struct nccl_call x = call(COLL_ALL_REDUCE, 1024, 2);

    /* 6.6 + 28 steps of 1 us and 2 of 2.7; 39 GB/s x 16/30 */
    ck_assert_double_eq_tol(believed_us(&c, &x, NCCL_RING, PROTOCOL_LL, 227),
                            6.6 + 28 + 5.4 + 1.024 / (39 * 16.0 / 30), 1e-9);
    /* 6.8 + 2 (7 x 0.6 + 5); 360 x .92 / 3.8 is above 39; half of it, .9 at 1 KiB (the fifth of the list) */
    ck_assert_double_eq_tol(believed_us(&c, &x, NCCL_TREE, PROTOCOL_LL, 227),
                            6.8 + 18.4 + 1.024 / (39 / 2.0 * 0.9), 1e-9);
    x.bytes = 1e9;
    /* large: 8.4 + 28 x 3.4 + 2 x 14, times 1.4; 360 GB/s x 16/30 */
    ck_assert_double_eq_tol(believed_us(&c, &x, NCCL_RING, PROTOCOL_SIMPLE, 227),
                            1.4 * (8.4 + 28 * 3.4 + 28) + 1e6 / (360 * 16.0 / 30), 1e-6);
    /* 8.4 + 2 (7 x 4 + 14); 360 x .92 is above 8 x 41.4 */
    ck_assert_double_eq_tol(believed_us(&c, &x, NCCL_TREE, PROTOCOL_SIMPLE, 227),
                            8.4 + 84 + 1e6 / (8 * 41.4 / 2), 1e-6);
    /* 8 heads at 40 GB/s (370.8/9), five sixths; later .85 x 7/8 x 2 of 40, at most 57.7, x 16/30 */
    ck_assert_double_eq_tol(believed_us(&c, &x, NCCL_NVLS_TREE, PROTOCOL_SIMPLE, 227),
                            25 + 28 + 1e6 / (8 * 40 * 5 / 6.0), 1e-6);
    ck_assert_double_eq_tol(believed_us(&c, &x, NCCL_NVLS_TREE, PROTOCOL_SIMPLE, 229),
                            25 + 41.8 + 1e6 / (8 * 57.7 * 16 / 30.0), 1e-6);
}
END_TEST

/* Four: NICs count half for multicast trees in versions to 2.27, and the table changes columns. */
START_TEST(four_nodes_of_h100_by_hand)
{
    struct cluster c = machine(9, 450, 50);
    struct nccl_call x = call(COLL_ALL_REDUCE, 1e9, 4);

    ck_assert_double_eq_tol(believed_us(&c, &x, NCCL_NVLS_TREE, PROTOCOL_SIMPLE, 227),
                            25 + 56 + 1e6 / (8 * 24 * 5 / 6.0), 1e-6);
    ck_assert_double_eq_tol(believed_us(&c, &x, NCCL_RING, PROTOCOL_LL128, 227),
                            14 + 56 * 1.9 + 6 * 4 + 1e6 / (8 * 36.7 * 32 / 62), 1e-6);
    x = call(COLL_ALL_GATHER, 1e9, 4);
    ck_assert_double_eq_tol(believed_us(&c, &x, NCCL_RING, PROTOCOL_SIMPLE, 227),
                            8.4 + 28 * 3.4 + 3 * 14 + 1e6 / (360 * 32.0 / 31), 1e-6);
}
END_TEST

/* Four NICs of 100 Gb/s for 8 A100 (p4de): trees on two nodes count NVLink, twice what the NICs have. */
START_TEST(trees_on_two_nodes_count_nvlink)
{
    struct cluster c = machine(8, 300, 12.5);
    struct nccl_call x = call(COLL_ALL_REDUCE, 1e9, 2);

    x.nics = 4;
    ck_assert_double_eq_tol(
        believed_us(&c, &x, NCCL_TREE, PROTOCOL_SIMPLE, 227),
        8.4 + 84 + 1e6 / (4 * 23.6 / 2 < 4 * 24 * 0.92 / 2 ? 4 * 23.6 / 2 : 4 * 24 * 0.92 / 2),
        1e-6);
    ck_assert_double_eq_tol(believed_us(&c, &x, NCCL_RING, PROTOCOL_SIMPLE, 227),
                            1.4 * (8.4 + 28 * 3.4 + 28) + 1e6 / (48 * 16.0 / 30), 1e-6);
    ck_assert(isinf(believed_us(&c, &x, NCCL_NVLS_TREE, PROTOCOL_SIMPLE, 227)));
}
END_TEST

static enum nccl_algo chosen(const struct cluster *c, const struct nccl_call *x)
{
    enum nccl_algo best = NCCL_ALGO_N;
    struct nccl_call call = *x;
    struct nccl_beliefs believed;
    double least = INFINITY;

    call.version = 227;
    nccl_believe(c, &call, &believed);
    for (int a = 0; a < NCCL_ALGO_N; a++)
        for (int p = 0; p < PROTOCOL_N; p++)
            if (believed.s[a][p] < least) {
                least = believed.s[a][p];
                best = (enum nccl_algo)a;
            }
    return best;
}

/* What slopes of published tables of all-reduce say: bytes over time at the largest sizes is above what NICs leave a ring on p4de, p5,
 * a3-megagpu, and two nodes with NDR, and what a ring has on two DGX A100; floors of 25 to 40 us are two steps of a tree. */
START_TEST(the_choice_is_what_slopes_of_tables_show)
{
    static const struct {
        const char *what;
        double sm, nvlink, nic, nics, nodes, bytes;
        enum nccl_algo want;
    } rows[] = {
        {"p4de, 2 GiB", 8, 300, 12.5, 4, 2, 2e9, NCCL_TREE},
        {"two DGX A100, 4 GiB", 8, 300, 25, 8, 2, 4e9, NCCL_RING},
        {"two p5, 16 GiB", 9, 450, 50, 8, 2, 17e9, NCCL_NVLS_TREE},
        {"two with NDR, 16 GiB", 9, 450, 50, 8, 2, 17e9, NCCL_NVLS_TREE},
        {"two of B200, 16 GiB", 10, 900, 50, 8, 2, 17e9, NCCL_NVLS_TREE},
        {"two with NDR, 8 bytes", 9, 450, 50, 8, 2, 8, NCCL_TREE},
        {"four with NDR, 8 bytes", 9, 450, 50, 8, 4, 8, NCCL_TREE},
        {"two A100 with RoCE, 8 bytes", 8, 300, 25, 8, 2, 8, NCCL_TREE},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cluster c = machine(rows[i].sm, rows[i].nvlink, rows[i].nic);
        struct nccl_call x = call(COLL_ALL_REDUCE, rows[i].bytes, rows[i].nodes);

        x.nics = rows[i].nics;
        MUST(chosen(&c, &x) == rows[i].want, "%s: %s", rows[i].what,
             nccl_algo_name(chosen(&c, &x)));
    }
}
END_TEST

SUITE_MAIN("sim/nccl_tuning", two_nodes_of_h100_by_hand, four_nodes_of_h100_by_hand,
           trees_on_two_nodes_count_nvlink, the_choice_is_what_slopes_of_tables_show)
