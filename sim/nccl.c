#include "sim/nccl.h"

#include "sim/nccl_tuning.h"

#include <math.h>
#include <string.h>

/* What NCCL's tuning model believes of rings inside a node: start and step of LL128 and Simple, in seconds. Read off where
 * measured tables of 2 and 8 A100 change protocol; NCCL 2.30's own table has 14/8.4 us and 1.9/3.4 us, for one channel. */
static const struct {
    double base_s, step_s;
} believed_ll128 = {6.6e-6, 0.6e-6}, believed_simple = {8.4e-6, 1.7e-6};

/* Bytes on the wire between nodes over bytes of data, by protocol. */
static const double wire[PROTOCOL_N] = {2, 128.0 / 120, 1};

const char *nccl_algo_name(enum nccl_algo a)
{
    static const char *const names[NCCL_ALGO_N] = {"Ring",     "Tree",    "NVLS",
                                                   "NVLSTree", "CollNet", "P2P"};

    BUG_ON((unsigned)a >= NCCL_ALGO_N);
    return names[a];
}

const char *nccl_protocol_name(enum coll_protocol p)
{
    static const char *const names[PROTOCOL_N] = {"LL", "LL128", "Simple"};

    BUG_ON((unsigned)p >= PROTOCOL_N);
    return names[p];
}

const char *nccl_protocol_shown(const struct nccl_time *t)
{
    return nccl_protocol_name(t->sends_ll ? PROTOCOL_LL : t->protocol);
}

static double or_1(double share)
{
    return share > 0 ? share : 1;
}

static double ramp(double a_s, double t0_s, double scale, double y)
{
    return y > 0 && a_s > 0 ? a_s * scale * y / (y + t0_s * scale) : 0;
}

/* The ramp of rings in a node, or that of the network where nodes are crossed and it has one. */
static double ring_ramp(const struct coll_constants *k, const struct nccl_call *call, double y)
{
    if (call->nodes > 1 && k->net_ramp_s > 0)
        return ramp(k->net_ramp_s, k->net_ramp_at_s, call->ramp_ranks / 8, y);
    return ramp(k->ramp_s, k->ramp_at_s, call->ramp_ranks / 8, y);
}

/* What a tree takes until it is full; levels: operations that a piece passes on its way down. */
static double fill(double a_s, double t0_s, double levels, double y)
{
    return y > 0 && a_s > 0 ? a_s * levels / 8 * y / hypot(y, t0_s) : 0;
}

static double tree_levels(const struct nccl_call *call)
{
    return call->per_node - 1 + ceil(log2(call->nodes));
}

/* That of the network's trees, or what its rings (those in a node) have where it has none. */
static double tree_fill(const struct coll_constants *k, const struct nccl_call *call, double y)
{
    double levels = tree_levels(call);

    return k->tree_ramp_s > 0  ? fill(k->tree_ramp_s, k->tree_ramp_at_s, levels, y)
           : k->net_ramp_s > 0 ? fill(k->net_ramp_s, k->net_ramp_at_s, levels, y)
                               : fill(k->ramp_s, k->ramp_at_s, levels, y);
}

/* What Simple reaches of a GPU's links inside a node: PCIe's where a call has to pass it. */
static double node_Bps(const struct cluster *c, const struct nccl_call *call)
{
    if (call->pcie_share > 0)
        return c->pcie_Bps * or_1(c->pcie_efficiency);
    return c->nvlink_Bps * c->nvlink_efficiency;
}

/* Of PCIe's rate at most half is payload of LL, and no more than it has on NVLink. */
static double rate_share(const struct cluster *c, const struct nccl_call *call,
                         enum coll_protocol p)
{
    double share = c->coll.rate_share[p];

    if (!(call->pcie_share > 0) || p != PROTOCOL_LL)
        return share;
    if (c->nvlink_Bps > 0)
        share *= c->nvlink_Bps * c->nvlink_efficiency / node_Bps(c, call);
    return fmin(0.5, share);
}

/* A step inside a node. */
static double step_s(const struct coll_constants *k, const struct nccl_call *call,
                     enum coll_protocol p)
{
    if (!(call->pcie_share > 0))
        return k->step_s[p];
    return (1 - call->pcie_share) * k->step_s[p] + call->pcie_share * k->pcie_step_s[p];
}

/* Seconds of the last operation, which hands nothing on. In place, an all-gather copies nothing into its own output. */
static double tail(const struct cluster *c, const struct nccl_call *call, enum coll_protocol p)
{
    const struct coll_constants *k = &c->coll;
    double part_s = call->bytes / call->n / (node_Bps(c, call) * rate_share(c, call, p));
    double s = 0;

    switch (call->kind) {
    case COLL_ALL_REDUCE:
        s = k->tail[TAIL_ALL_REDUCE];
        break;
    case COLL_ALL_GATHER:
        s = k->tail[TAIL_ALL_GATHER];
        break;
    case COLL_REDUCE_SCATTER:
        s = k->tail[TAIL_REDUCE_SCATTER];
        break;
    case COLL_BROADCAST:
    case COLL_REDUCE:
    case COLL_ALL_TO_ALL:
    case COLL_SEGMENT_GATHER:
    case COLL_SEGMENT_REDUCE:
    case COLL_SEND:
    case COLL_RECV:
    case COLL_N:
        return 0;
    }
    if (p != PROTOCOL_SIMPLE)
        s = k->tail[TAIL_LOW_LATENCY];
    s *= part_s;
    if (call->in_place && call->kind == COLL_ALL_GATHER && p == PROTOCOL_SIMPLE)
        s -= fmin(s, call->bytes / call->n / (c->device.hbm_Bps * c->device.hbm_efficiency));
    return s;
}

/* Fills in times: `link_s` is transfer at the protocol's rate, `busy_s` what the call takes beyond latency and ramp. */
static void set(struct nccl_time *out, double latency_s, double ramp_s, double busy_s,
                double link_s)
{
    out->transfer_s = link_s;
    out->ramp_s = ramp_s;
    out->latency_s = latency_s + ramp_s + (busy_s - link_s);
}

static void ring(const struct cluster *c, const struct nccl_call *call, enum coll_protocol p,
                 struct nccl_time *out)
{
    const struct coll_constants *k = &c->coll;
    double node_s = call->node_s / rate_share(c, call, p), nic_s = call->nic_s * wire[p];
    double busy = fmax(node_s + tail(c, call, p), nic_s);
    double latency = k->base_s[p] + call->steps * step_s(k, call, p) +
                     call->net_steps * (k->net_step_s[p] + call->spine_s);

    set(out, latency, p == PROTOCOL_SIMPLE ? ring_ramp(k, call, busy) : 0, busy,
        fmax(node_s, nic_s));
}

double nccl_tree_sent(double nodes)
{
    return nodes < 3 ? 1 : nodes < 4 ? 1.5 : 2;
}

/* Bytes of a tree over those of a ring, through the NICs of the busiest node. */
static double tree_nic_scale(const struct nccl_call *call)
{
    return nccl_tree_sent(call->nodes) / (2 * (call->n - 1) / call->n);
}

/* A step of trees between nodes, as that of rings where it is not known. */
static double tree_step_s(const struct coll_constants *k, const struct nccl_call *call,
                          enum coll_protocol p)
{
    return (k->tree_step_s[p] > 0 ? k->tree_step_s[p] : k->net_step_s[p]) + call->spine_s;
}

static void tree(const struct cluster *c, const struct nccl_call *call, enum coll_protocol p,
                 struct nccl_time *out)
{
    const struct coll_constants *k = &c->coll;
    double node_s, nic_s, busy, latency;

    out->nic_scale = tree_nic_scale(call);
    out->node_scale = call->n / (call->n - 1) / or_1(k->tree_rate[p]);
    node_s = call->node_s * out->node_scale / rate_share(c, call, p);
    nic_s = call->nic_s * out->nic_scale * wire[p];
    busy = fmax(node_s, nic_s);
    latency = k->base_s[p] + 2 * (call->per_node - 1) * step_s(k, call, p) +
              2 * ceil(log2(call->nodes)) * tree_step_s(k, call, p);
    set(out, latency, p == PROTOCOL_SIMPLE ? tree_fill(k, call, busy) : 0, busy, busy);
}

/* Seconds that an all-reduce keeps the links of a head busy. */
static double multicast_s(const struct cluster *c, const struct nccl_call *call)
{
    double rate = c->coll.nvls.link_Bps;

    if (call->nodes > 1)
        rate *= or_1(c->coll.nvls.net_rate);
    return call->bytes * (1 + 1 / fmin(call->per_node, NCCL_HEADS)) / rate;
}

/* In one node; between nodes NVLSTree. */
static void nvls(const struct cluster *c, const struct nccl_call *call, struct nccl_time *out)
{
    const struct coll_constants *k = &c->coll;
    const struct nvls_constants *v = &k->nvls;
    double latency = v->base_s, y, extra;

    out->node_scale = multicast_s(c, call) / call->node_s;
    y = multicast_s(c, call);
    if (call->nodes > 1) {
        out->nic_scale = tree_nic_scale(call);
        latency += 2 * ceil(log2(call->nodes)) * (v->net_step_s + call->spine_s);
        y = fmax(y, call->nic_s * out->nic_scale);
        extra = v->net_ramp_s > 0 ? fill(v->net_ramp_s, v->net_ramp_at_s, call->per_node, y)
                                  : tree_fill(k, call, y);
    } else {
        extra = ramp(v->ramp_s, v->ramp_at_s, call->n / 8, y);
    }
    set(out, latency, extra, y, y);
}

static void collnet(const struct cluster *c, const struct nccl_call *call, struct nccl_time *out)
{
    const struct coll_constants *k = &c->coll;
    double g = call->per_node, y, latency;
    bool multicast = k->nvls.link_Bps > 0 && g >= k->nvls.min_gpus;

    out->node_scale =
        multicast ? multicast_s(c, call) / call->node_s : 1 / ((call->n - 1) / call->n);
    out->nic_scale = 0.5 / ((call->n - 1) / call->n);
    y = fmax(call->node_s * out->node_scale, call->nic_s * out->nic_scale);
    latency = k->base_s[PROTOCOL_SIMPLE] +
              (multicast ? 0 : 2 * (g - 1) * step_s(k, call, PROTOCOL_SIMPLE)) +
              2 * tree_step_s(k, call, PROTOCOL_SIMPLE);
    set(out, latency, ring_ramp(k, call, y), y, y);
}

/* ---- sends and receives ---- */

/* What one rank sends another, bytes: of an owner's fan-out, which has no one size, its mean. */
static double message(const struct cluster *c, const struct nccl_call *call)
{
    if (call->kind == COLL_ALL_TO_ALL)
        return call->bytes / call->n;
    if (!call->direct)
        return call->bytes;
    return call->node_s > 0 ? call->node_s * node_Bps(c, call) / fmax(call->per_node - 1, 1)
                            : call->nic_s * c->nic_Bps * c->nic_efficiency / fmax(call->peers, 1);
}

/* Largest message that goes by LL: in NCCL up to 2.28 16 KiB a channel of all that a peer has in a node (32), since then of those
 * that it takes for the message, which is one. */
static double ll_message(const struct nccl_call *call)
{
    static const double a_channel = 16384;

    return call->version < 229 && !(call->nic_s > 0) ? 32 * a_channel : a_channel;
}

/* Parts of a message go by channels of their own from here on. */
static const double least_part = 65536;

static double between_nodes_s(const struct coll_constants *k, const struct nccl_call *call,
                              double m)
{
    /* chunks of a large message cost a peer 1.7 times more than its start: all-to-alls of 2 x 8 B200 */
    static const double chunks = 1.7, half_at = 32768;

    return tree_step_s(k, call, PROTOCOL_LL) +
           fmax(call->peers - 1, 0) * k->p2p.net_peer_s * (1 + chunks * m / (m + half_at));
}

static void p2p(const struct cluster *c, const struct nccl_call *call, struct nccl_time *out)
{
    const struct coll_constants *k = &c->coll;
    const struct p2p_constants *v = &k->p2p;
    double m = message(c, call), copies = call->kind == COLL_ALL_TO_ALL && !call->in_place;
    bool crosses = call->nic_s > 0; /* ranges of a group may stay inside nodes */
    double latency = (v->both_ways > 0 ? v->base_s : k->base_s[PROTOCOL_LL]) +
                     fmax(call->steps - 1, 0) * step_s(k, call, PROTOCOL_SIMPLE);
    double small = v->part_Bps > 0 ? (1 + copies) * fmin(m, least_part) / v->part_Bps : 0;
    double copy_s = v->copy_Bps > 0 ? copies * m / v->copy_Bps : 0, link_s, busy;

    if (!call->one_way)
        out->node_scale = 1 / or_1(v->both_ways);
    if (crosses)
        out->nic_scale = 1 / or_1(v->net_rate);
    link_s = fmax(call->node_s * out->node_scale, call->nic_s * out->nic_scale);
    if (m <= ll_message(call) && v->ll_rate > 0) {
        out->sends_ll = true;
        busy = fmax(link_s, call->node_s / v->ll_rate);
    } else {
        busy = fmax(call->node_s * out->node_scale + copy_s, call->nic_s * out->nic_scale);
        busy += call->one_way ? 0 : ramp(v->ramp_s, v->ramp_at_s, 1, busy);
    }
    if (crosses) {
        latency += between_nodes_s(k, call, m);
        busy = fmax(busy, v->net_fill_s * m / (m + 0.75 * least_part));
    }
    set(out, latency, 0, fmax(busy, small), link_s);
}

/* ---- channels ---- */

enum { MAX_CHANNELS = 32 };

static double channels_for(const struct coll_constants *k, enum coll_channels what)
{
    static const double nccl[CHANNELS_N] = {24, 2, 16, 32};

    return k->channels[what] > 0 ? k->channels[what] : nccl[what];
}

/* Of rings and trees, of a call of any size. */
static double ring_channels(const struct coll_constants *k, const struct nccl_call *call)
{
    if (call->nodes < 2)
        return channels_for(k, call->pcie_share > 0 ? CHANNELS_NIC : CHANNELS_RING);
    return fmin(fmax(call->nics, 1) * channels_for(k, CHANNELS_NIC), MAX_CHANNELS);
}

static double p2p_channels(const struct coll_constants *k, const struct nccl_call *call)
{
    double most = channels_for(k, CHANNELS_P2P);

    if (call->nodes < 2)
        return call->pcie_share > 0 ? ring_channels(k, call) : most;
    most = fmin(most, exp2(ceil(log2(ring_channels(k, call)))));
    return fmin(most, fmax(call->peers, 1) * channels_for(k, CHANNELS_NIC));
}

/* A channel has to have so many bytes of the call. */
static double bytes_a_channel(const struct nccl_call *call, enum nccl_algo algo,
                              enum coll_protocol protocol)
{
    static const double threads[PROTOCOL_N] = {512, 640, 512}, threshold[PROTOCOL_N] = {8, 8, 64};
    double bytes = threads[protocol] * threshold[protocol];

    return algo == NCCL_RING && protocol == PROTOCOL_LL ? bytes * call->n : bytes;
}

static double channels(const struct coll_constants *k, const struct nccl_call *call,
                       enum nccl_algo algo, enum coll_protocol protocol)
{
    double most;

    if (algo == NCCL_P2P)
        return p2p_channels(k, call);
    most = algo == NCCL_NVLS || algo == NCCL_NVLS_TREE ? channels_for(k, CHANNELS_NVLS)
                                                       : ring_channels(k, call);
    return fmax(1, fmin(most, floor(call->bytes / bytes_a_channel(call, algo, protocol))));
}

bool nccl_time(const struct cluster *c, const struct nccl_call *call, enum nccl_algo algo,
               enum coll_protocol protocol, struct nccl_time *out)
{
    const struct coll_constants *k = &c->coll;
    bool direct = call->direct || call->kind == COLL_ALL_TO_ALL || call->kind == COLL_SEND ||
                  call->kind == COLL_RECV;
    bool all_reduce = call->kind == COLL_ALL_REDUCE, multicast = k->nvls.link_Bps > 0;

    *out = (struct nccl_time){.algo = algo, .protocol = protocol, .node_scale = 1, .nic_scale = 1};
    if (direct != (algo == NCCL_P2P) ||
        (algo != NCCL_RING && algo != NCCL_TREE && protocol != PROTOCOL_SIMPLE) ||
        (call->pcie_share > 0 && protocol == PROTOCOL_LL128) ||
        (call->nodes > 1 && k->no_ll128 && protocol == PROTOCOL_LL128))
        return false;
    switch (algo) {
    case NCCL_RING:
        ring(c, call, protocol, out);
        break;
    case NCCL_TREE:
        if (!all_reduce || call->nodes < 2)
            return false;
        tree(c, call, protocol, out);
        break;
    case NCCL_NVLS:
    case NCCL_NVLS_TREE:
        if (!all_reduce || !multicast || call->per_node < k->nvls.min_gpus ||
            call->n < call->nodes * call->per_node || /* every node brings as many */
            (call->nodes > 1) != (algo == NCCL_NVLS_TREE))
            return false;
        nvls(c, call, out);
        break;
    case NCCL_COLLNET:
        if (!all_reduce || !c->sharp || call->nodes < 2)
            return false;
        collnet(c, call, out);
        break;
    case NCCL_P2P:
        p2p(c, call, out);
        break;
    case NCCL_ALGO_N:
        BUG_ON(true);
    }
    if (call->one_process)
        out->latency_s += k->one_process_s;
    out->channels = channels(k, call, algo, protocol);
    return true;
}

/* Does NCCL's table take Simple for a ring in one node? */
static bool believes_in_simple(const struct coll_constants *k, const struct nccl_call *call)
{
    double steps = call->steps + call->net_steps;

    return believed_simple.base_s + steps * believed_simple.step_s + call->node_s <
           believed_ll128.base_s + steps * believed_ll128.step_s + call->node_s / k->believed_ll128;
}

/* What the choice goes by: over nodes NCCL's table, in a node and of what the table does not have the times themselves. */
static double compared_by(const struct nccl_call *call, const struct nccl_beliefs *believed,
                          const struct nccl_time *t)
{
    return call->nodes > 1 && t->algo != NCCL_P2P ? believed->s[t->algo][t->protocol]
                                                  : t->latency_s + t->transfer_s;
}

uint32_t nccl_version(const struct cluster *c)
{
    return c->device.compute_capability >= 10 ? 229 : 227;
}

/* Is CollNet there and faster than `best`? Its time is compared, since the table's row for it has not been seen to decide. */
static void try_collnet(const struct cluster *c, const struct nccl_call *call, uint32_t algos,
                        struct nccl_time *best)
{
    struct nccl_time t;

    if ((algos && !(algos & 1u << NCCL_COLLNET)) ||
        !nccl_time(c, call, NCCL_COLLNET, PROTOCOL_SIMPLE, &t))
        return;
    if (best->algo == NCCL_ALGO_N ||
        t.latency_s + t.transfer_s < best->latency_s + best->transfer_s)
        *best = t;
}

bool nccl_choose(const struct cluster *c, const struct nccl_call *call, uint32_t algos,
                 uint32_t protocols, struct nccl_time *out)
{
    const struct coll_constants *k = &c->coll;
    uint32_t simple = 1u << PROTOCOL_SIMPLE, all = (1u << PROTOCOL_N) - 1;
    uint32_t ring_protocols = protocols ? protocols : all;
    struct nccl_beliefs believed;
    double best = INFINITY;

    out->algo = NCCL_ALGO_N;
    if (call->nodes > 1)
        nccl_believe(c, call, &believed);
    /* of several allowed protocols the table decides, and of one there is nothing to decide */
    if (k->believed_ll128 > 0 && call->nodes < 2 && !(call->pcie_share > 0) &&
        ring_protocols & simple && ring_protocols != simple)
        ring_protocols = believes_in_simple(k, call) ? simple : ring_protocols & ~simple;
    for (int a = 0; a < NCCL_ALGO_N; a++)
        for (int p = 0; p < PROTOCOL_N; p++) {
            uint32_t allowed = a == NCCL_RING ? ring_protocols : protocols ? protocols : all;
            struct nccl_time t;
            double cost;

            if (a == NCCL_COLLNET || (algos && !(algos & 1u << a)) || !(allowed & 1u << p) ||
                !nccl_time(c, call, (enum nccl_algo)a, (enum coll_protocol)p, &t))
                continue;
            cost = compared_by(call, &believed, &t);
            if (cost >= best)
                continue;
            *out = t;
            best = cost;
        }
    if (!protocols || protocols & simple)
        try_collnet(c, call, algos, out);
    return out->algo != NCCL_ALGO_N;
}

enum band_size nccl_band_size(uint64_t n_bytes)
{
    return n_bytes < (1 << 20) ? BAND_SMALL : n_bytes < (32 << 20) ? BAND_MEDIUM : BAND_LARGE;
}

/* Of measured_kinds; MEASURED_KINDS: no table can be of it. */
static uint32_t measured_kind(enum coll_kind kind)
{
    switch (kind) {
    case COLL_ALL_REDUCE:
        return 0;
    case COLL_ALL_GATHER:
        return 1;
    case COLL_REDUCE_SCATTER:
        return 2;
    case COLL_BROADCAST:
        return 3;
    case COLL_REDUCE:
        return 4;
    case COLL_ALL_TO_ALL:
        return 5;
    case COLL_SEND:
    case COLL_RECV:
        return 6;
    case COLL_SEGMENT_GATHER:
    case COLL_SEGMENT_REDUCE:
    case COLL_N:
        break;
    }
    return MEASURED_KINDS;
}

double nccl_band_factor(enum coll_kind kind, enum band_size size)
{
    static const double sends[BAND_N] = {2, 2, 1.3};
    uint32_t k = measured_kind(kind);

    return k < 5 ? 1 : k < MEASURED_KINDS ? sends[size] : 2;
}

/* Do GPUs a node and algorithm agree, whatever the number of nodes? */
static bool same_nodes(const struct measured_table *t, uint32_t n_ranks, uint32_t n_nodes,
                       enum nccl_algo algo)
{
    return n_ranks == (uint64_t)n_nodes * t->gpus &&
           (!t->algorithm || (algo != NCCL_ALGO_N && !strcmp(measured_algorithms[t->algorithm - 1],
                                                             nccl_algo_name(algo))));
}

/* How far from the tables' numbers of ranks and of nodes a call is, and from the algorithm where they have one alone. */
static double distance_factor(const struct coll_constants *k, uint32_t kind, uint32_t n_ranks,
                              uint32_t n_nodes, enum nccl_algo algo, enum band_basis *basis)
{
    static const double between = 1.25, beyond = 1.5, a_doubling = 0.25;
    uint32_t least = UINT32_MAX, most = 0;
    bool alike = false;

    for (uint32_t i = 0; i < k->n_tables; i++) {
        const struct measured_table *t = &k->tables[i];
        uint32_t n = n_nodes > 1 ? t->nodes : t->gpus;

        if (t->kind != kind || (t->nodes > 1) != (n_nodes > 1))
            continue;
        if (t->nodes == n_nodes && same_nodes(t, n_ranks, n_nodes, algo)) {
            *basis = BASIS_MEASURED;
            return 1;
        }
        alike |= same_nodes(t, n_ranks, n_nodes, algo);
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    *basis = most ? BASIS_OTHER_RANKS : BASIS_OTHER_KIND;
    if (!most)
        return 1;
    if (n_nodes > 1)
        return (n_nodes > most ? 1 + a_doubling * log2((double)n_nodes / most) : 1) *
               (alike ? 1 : beyond);
    return n_ranks > least && n_ranks < most ? between : beyond;
}

double nccl_band(const struct cluster *c, enum coll_kind kind, uint64_t n_bytes, uint32_t n_ranks,
                 uint32_t n_nodes, enum nccl_algo algo, enum band_basis *basis)
{
    static const double unknown_node[BAND_N] = {0.4, 0.35, 0.25};
    static const double unknown_net[BAND_N] = {0.45, 0.4, 0.25};
    /* sends were seen to reach 0.39 to 0.97 of NICs, and 0.75 is taken where no table says */
    static const double other_kind = 1.5, sends_between = 0.6;
    enum band_size b = nccl_band_size(n_bytes);
    double band = (n_nodes > 1 ? c->coll.net_band : c->coll.band)[b],
           factor = nccl_band_factor(kind, b);

    factor *= distance_factor(&c->coll, measured_kind(kind), n_ranks, n_nodes, algo, basis);
    if (!(band > 0))
        *basis = BASIS_NONE;
    if (c->sharp && kind == COLL_ALL_REDUCE && n_nodes > 1)
        *basis = BASIS_UNCHECKED;
    switch (*basis) {
    case BASIS_MEASURED:
    case BASIS_OTHER_RANKS:
        break;
    case BASIS_OTHER_KIND:
        factor *= other_kind;
        if (n_nodes > 1 && (kind == COLL_ALL_TO_ALL || kind == COLL_SEND))
            factor = fmax(factor, sends_between / band);
        break;
    case BASIS_NONE:
    case BASIS_UNCHECKED:
        band = (n_nodes > 1 ? unknown_net : unknown_node)[b];
        factor = nccl_band_factor(kind, b) * (n_nodes > 2 ? 1 + 0.25 * log2(n_nodes / 2.0) : 1);
        break;
    }
    return band * factor;
}
