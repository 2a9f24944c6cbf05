#include "sim/nccl_tuning.h"

#include <math.h>

/* Rows of NCCL's tables: Ampere and before, Hopper, Blackwell. */
enum generation { AMPERE, HOPPER, BLACKWELL, GENERATION_N };

static enum generation generation_of(const struct cluster *c)
{
    double sm = c->device.compute_capability;

    return sm >= 10 ? BLACKWELL : sm >= 9 ? HOPPER : AMPERE;
}

/* ---- the graph search ---- */

/* Speeds that the search tries, GB/s a channel: inside a node for multicast, and between nodes. */
static const double speeds_in[GENERATION_N][14] = {
    [AMPERE] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3},
    [HOPPER] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3},
    [BLACKWELL] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18},
};
static const double speeds_net[GENERATION_N][20] = {
    [AMPERE] = {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12},
    [HOPPER] = {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12},
    [BLACKWELL] = {96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2,
                   0.24},
};
/* Of NVLink's rate, what NCCL gives a link: 20 of 25 GB/s, 20.6 of 25, 40.1 of 50. */
static const double nvlink_share[GENERATION_N] = {0.8, 0.824, 0.802};

/* The largest speed of a list (it ends with 0) up to `most`; `most` where all are larger. */
static double speed_up_to(const double *list, double most)
{
    for (; *list > 0; list++)
        if (*list <= most * (1 + 1e-9))
            return *list;
    return most;
}

struct graph {
    double channels;
    double speed;    /* GB/s a channel */
    double bus;      /* all together */
    double tree_bus; /* of trees on two nodes, inside them */
    double nic;      /* GB/s of what one channel leaves a node by */
    double link;     /* GB/s of a GPU's links */
};

static struct graph graph_of(const struct cluster *c, const struct nccl_call *call)
{
    enum generation gen = generation_of(c);
    double nics = fmin(fmax(call->nics, 1), call->per_node);
    struct graph g = {.channels = fmin(nics, 16)};

    g.link = (call->pcie_share > 0 || !(c->nvlink_Bps > 0) ? c->pcie_Bps
                                                           : nvlink_share[gen] * c->nvlink_Bps) /
             1e9;
    g.nic = c->nic_Bps * fmax(call->nics, 1) / nics / 1e9;
    g.speed =
        speed_up_to(speeds_net[gen],
                    g.link > 0 && call->per_node > 1 ? fmin(g.nic, g.link / g.channels) : g.nic);
    g.bus = g.channels * g.speed;
    g.tree_bus = g.bus;
    if (call->nodes < 3 && g.link > 0 && call->per_node > 1)
        g.tree_bus =
            g.channels *
            fmax(g.speed, speed_up_to(speeds_net[gen], fmin(2 * g.speed, g.link / g.channels)));
    return g;
}

/* ---- the model ---- */

/* us: start, a hop over NVLink and one over the network, by protocol. */
static const struct {
    double base[PROTOCOL_N], hop[PROTOCOL_N], pcie_hop[PROTOCOL_N], net[PROTOCOL_N];
} ring_us = {{6.6, 14, 8.4}, {0.6, 1.9, 3.4}, {1, 2.5, 5.7}, {2.7, 4, 14}},
  tree_us = {{6.8, 14, 8.4}, {0.6, 1.25, 4}, {1, 1.9, 4}, {5, 8.5, 14}};
/* Beside a step over the network the CPU's part of it, us; Simple has three of them. */
static const double overhead_us = 1;

/* Ceilings, GB/s, on one node, two, and more: of LL by the CPU, of a channel by the generation. */
static const double ll_most[2] = {39, 20.4};
static const double ring_ll128_most[GENERATION_N][2] = {{20, 20}, {36.7, 36.7}, {34.6, 40}};
static const double tree_ll128_most[GENERATION_N][2] = {{20, 20}, {36.7, 29}, {31.67, 20}};
static const double tree_most[GENERATION_N][2] = {{23.6, 17.8}, {41.4, 36}, {42.8, 24}};

/* What a tree reaches of its bandwidth, from 64 bytes in powers of two. */
enum { N_TREE_SHARES = 23 };
static const double tree_share[PROTOCOL_N][N_TREE_SHARES] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
};

static double share_by_size(enum coll_protocol p, double bytes)
{
    double at = floor(log2(bytes / 64));

    return at >= 0 && at < N_TREE_SHARES ? tree_share[p][(int)at] : 1;
}

/* us of `bytes` at so many GB/s */
static double bytes_us(double bytes, double GBps)
{
    return bytes / (1e3 * GBps);
}

static double ring_believed_us(const struct nccl_call *call, const struct graph *g,
                               enum generation gen, enum coll_protocol p)
{
    int over_two = call->nodes > 2;
    double k = call->kind == COLL_ALL_REDUCE ? 2 : 1, steps = k * (call->n - 1),
           net = k * (call->nodes - 1);
    double hop = (call->pcie_share > 0 ? ring_us.pcie_hop : ring_us.hop)[p];
    double us = ring_us.base[p] +
                (steps - net) * fmax(hop, overhead_us * (p == PROTOCOL_SIMPLE ? 3 : 1)) +
                net * (call->per_node > 1 ? ring_us.net : tree_us.net)[p];
    double bus = g->bus;

    switch (p) {
    case PROTOCOL_LL:
        bus = fmin(ll_most[over_two], bus / 2);
        break;
    case PROTOCOL_LL128:
        bus = fmin(0.92 * bus, g->channels * ring_ll128_most[gen][over_two]);
        break;
    case PROTOCOL_SIMPLE:
        if (call->kind == COLL_ALL_REDUCE && call->bytes / (2 * g->channels * call->n) >= 64)
            us *= 1.4;
        break;
    case PROTOCOL_N:
        BUG_ON(true);
    }
    return us + bytes_us(call->bytes, bus * call->n / steps);
}

static double tree_believed_us(const struct nccl_call *call, const struct graph *g,
                               enum generation gen, enum coll_protocol p)
{
    int over_two = call->nodes > 2;
    double hop = (call->pcie_share > 0 ? tree_us.pcie_hop : tree_us.hop)[p];
    double us = tree_us.base[p] +
                2 * ((call->per_node - 1) * hop + floor(log2(call->nodes)) * tree_us.net[p]);
    double bus = fmin(0.92 * g->tree_bus, g->channels * tree_most[gen][over_two]);

    switch (p) {
    case PROTOCOL_LL:
        bus = fmin(bus / 3.8, ll_most[over_two]);
        break;
    case PROTOCOL_LL128:
        bus = fmin(bus * 15 / 16, g->channels * tree_ll128_most[gen][over_two]);
        break;
    case PROTOCOL_SIMPLE:
        break;
    case PROTOCOL_N:
        BUG_ON(true);
    }
    return us + bytes_us(call->bytes, bus / 2 * share_by_size(p, call->bytes));
}

static double nvls_tree_believed_us(const struct nccl_call *call, const struct graph *g,
                                    enum generation gen)
{
    static const double efficiency[GENERATION_N] = {0, 0.85, 0.74};
    static const double most[GENERATION_N][2] = {{0, 0}, {57.7, 45.5}, {96, 80}};
    bool two = call->nodes < 3;
    double heads = fmin(fmin(call->per_node, fmax(call->nics, 1)), NCCL_HEADS), GBps;
    double in = speed_up_to(speeds_in[gen], g->link / (heads + 1));
    double net = speed_up_to(speeds_net[gen], fmin(g->nic, 2 * in));
    double hop = call->version >= 228 ? 20.9 : 14;

    if (call->version < 228)
        GBps = heads * fmin(in, two ? net : net / 2) * 5 / 6;
    else
        GBps = heads *
               fmin(fmin(in * efficiency[gen] * (heads - 1) / heads * 2, two ? 2 * net : net),
                    most[gen][!two]) *
               call->n / (2 * (call->n - 1));
    return 25 + 2 * floor(log2(call->nodes)) * hop + bytes_us(call->bytes, GBps);
}

void nccl_believe(const struct cluster *c, const struct nccl_call *call, struct nccl_beliefs *out)
{
    enum generation gen = generation_of(c);
    struct graph g = graph_of(c, call);

    for (int a = 0; a < NCCL_ALGO_N; a++)
        for (int p = 0; p < PROTOCOL_N; p++)
            out->s[a][p] = INFINITY;
    for (int p = 0; p < PROTOCOL_N; p++)
        out->s[NCCL_RING][p] = 1e-6 * ring_believed_us(call, &g, gen, (enum coll_protocol)p);
    if (call->kind != COLL_ALL_REDUCE)
        return;
    for (int p = 0; p < PROTOCOL_N; p++)
        out->s[NCCL_TREE][p] = 1e-6 * tree_believed_us(call, &g, gen, (enum coll_protocol)p);
    if (gen != AMPERE)
        out->s[NCCL_NVLS_TREE][PROTOCOL_SIMPLE] = 1e-6 * nvls_tree_believed_us(call, &g, gen);
}
