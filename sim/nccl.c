#include "sim/nccl.h"

#include <math.h>

/* What NCCL's tuning model believes of rings inside a node: start and step of LL128 and Simple, in seconds. Read off where
 * measured tables of 2 and 8 A100 change protocol; NCCL 2.30's own table has 14/8.4 us and 1.9/3.4 us, for one channel. */
static const struct {
    double base_s, step_s;
} believed_ll128 = {6.6e-6, 0.6e-6}, believed_simple = {8.4e-6, 1.7e-6};

/* NCCL pairs nodes of a tree: beyond two nodes a pipeline of two levels is full. */
enum { TREE_NODES = 2 };

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

static double or_1(double share)
{
    return share > 0 ? share : 1;
}

static double ramp(double a_s, double t0_s, double ranks, double y)
{
    double s = ranks / 8;

    return y > 0 && a_s > 0 ? a_s * s * y / (y + t0_s * s) : 0;
}

/* The ramp in a node (A, t0), or that of the network where nodes are crossed and it has one. */
static double ramp_of(const struct coll_constants *k, const struct nccl_call *call, double a_s,
                      double t0_s, double ranks, double y)
{
    if (call->nodes > 1 && k->net_ramp_s > 0)
        return ramp(k->net_ramp_s, k->net_ramp_at_s, ranks, y);
    return ramp(a_s, t0_s, ranks, y);
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
    double share = rate_share(c, call, p);
    double busy = fmax(call->node_s / share + tail(c, call, p), call->nic_s / share);
    double latency = k->base_s[p] + call->steps * step_s(k, call, p) +
                     call->net_steps * (k->net_step_s[p] + call->spine_s);

    set(out, latency,
        p == PROTOCOL_SIMPLE ? ramp_of(k, call, k->ramp_s, k->ramp_at_s, call->ramp_ranks, busy)
                             : 0,
        busy, fmax(call->node_s, call->nic_s) / share);
}

/* Bytes of a tree over those of a ring, through a node's NICs. */
static double tree_nic_scale(const struct nccl_call *call)
{
    return (call->nodes - 1) / call->nodes / ((call->n - 1) / call->n);
}

static void tree(const struct cluster *c, const struct nccl_call *call, enum coll_protocol p,
                 struct nccl_time *out)
{
    const struct coll_constants *k = &c->coll;
    double share = rate_share(c, call, p), busy, latency, ramp_s = 0;

    out->nic_scale = tree_nic_scale(call);
    if (p == PROTOCOL_SIMPLE)
        out->node_scale = call->n / (call->n - 1) / or_1(k->tree_rate);
    busy =
        fmax(call->node_s * out->node_scale / share + (p == PROTOCOL_SIMPLE ? 0 : tail(c, call, p)),
             call->nic_s * out->nic_scale / share);
    latency = k->base_s[p] + 2 * (call->per_node - 1) * step_s(k, call, p) +
              2 * ceil(log2(call->nodes)) * (k->net_step_s[p] + call->spine_s);
    if (p == PROTOCOL_SIMPLE)
        ramp_s = ramp_of(k, call, k->ramp_s, k->ramp_at_s,
                         fmin(call->n, TREE_NODES * call->per_node), busy);
    set(out, latency, ramp_s, busy,
        fmax(call->node_s * out->node_scale, call->nic_s * out->nic_scale) / share);
}

/* In one node; between nodes NVLSTree. */
static void nvls(const struct cluster *c, const struct nccl_call *call, struct nccl_time *out)
{
    const struct nvls_constants *v = &c->coll.nvls;
    double g = call->per_node, ranks = call->n, latency = v->base_s, y;
    double in_node = (g - 1) / g / ((call->n - 1) / call->n); /* bytes, over the ring's */

    out->node_scale = in_node * c->nvlink_Bps * c->nvlink_efficiency / v->rate_Bps;
    if (call->nodes > 1) {
        out->nic_scale = tree_nic_scale(call) / or_1(v->nic_share);
        latency += 2 * ceil(log2(call->nodes)) * (v->net_step_s + call->spine_s);
        ranks = fmin(call->n, TREE_NODES * g);
    }
    y = fmax(call->node_s * out->node_scale, call->nic_s * out->nic_scale);
    set(out, latency, ramp_of(&c->coll, call, v->ramp_s, v->ramp_at_s, ranks, y), y, y);
}

static void collnet(const struct cluster *c, const struct nccl_call *call, struct nccl_time *out)
{
    const struct coll_constants *k = &c->coll;
    double g = call->per_node, y, latency;
    bool multicast = k->nvls.rate_Bps > 0 && g >= k->nvls.min_gpus;
    double rate = multicast ? k->nvls.rate_Bps : node_Bps(c, call);

    out->node_scale = (g - 1) / g / ((call->n - 1) / call->n) * node_Bps(c, call) / rate;
    out->nic_scale = 0.5 / ((call->n - 1) / call->n);
    y = fmax(call->node_s * out->node_scale, call->nic_s * out->nic_scale);
    latency = k->base_s[PROTOCOL_SIMPLE] +
              (multicast ? 0 : 2 * (g - 1) * step_s(k, call, PROTOCOL_SIMPLE)) +
              2 * (k->net_step_s[PROTOCOL_SIMPLE] + call->spine_s);
    set(out, latency, ramp_of(k, call, k->ramp_s, k->ramp_at_s, g, y), y, y);
}

static void p2p(const struct cluster *c, const struct nccl_call *call, struct nccl_time *out)
{
    const struct coll_constants *k = &c->coll;
    double base = k->p2p.both_ways > 0 ? k->p2p.base_s : k->base_s[PROTOCOL_LL], y, latency;

    if (!call->one_way)
        out->node_scale = 1 / or_1(k->p2p.both_ways);
    y = fmax(call->node_s * out->node_scale, call->nic_s);
    latency = base + fmax(call->steps - 1, 0) * step_s(k, call, PROTOCOL_SIMPLE) +
              call->net_steps * (k->net_step_s[PROTOCOL_LL128] + call->spine_s);
    set(out, latency, call->one_way ? 0 : ramp(k->p2p.ramp_s, k->p2p.ramp_at_s, 8, y), y, y);
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
    bool all_reduce = call->kind == COLL_ALL_REDUCE;

    *out = (struct nccl_time){.algo = algo, .protocol = protocol, .node_scale = 1, .nic_scale = 1};
    if (direct != (algo == NCCL_P2P) ||
        (algo != NCCL_RING && algo != NCCL_TREE && protocol != PROTOCOL_SIMPLE) ||
        (call->pcie_share > 0 && protocol == PROTOCOL_LL128))
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
        if (!all_reduce || k->nvls.rate_Bps <= 0 || call->per_node < k->nvls.min_gpus ||
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

/* What algorithms of an all-reduce over nodes are compared by: over two nodes, or when tables know nothing of the algorithm, their
 * times. Beyond, NCCL's table: efficiencies from its tuning model, of the NICs alone. */
static double compared_by(const struct coll_constants *k, const struct nccl_call *call,
                          const struct nccl_time *t)
{
    double ring = call->n / (2 * (call->n - 1)), N = call->nodes, reached = 0;

    switch (t->algo) {
    case NCCL_RING:
        reached = ring;
        break;
    case NCCL_TREE:
        reached = 0.92 * 0.5;
        break;
    case NCCL_NVLS_TREE:
        reached = 0.7 * N / (2 * (N - 1));
        break;
    case NCCL_NVLS:
    case NCCL_COLLNET:
    case NCCL_P2P:
    case NCCL_ALGO_N:
        break;
    }
    if (N < 3 || call->kind != COLL_ALL_REDUCE || reached <= 0)
        return t->latency_s + t->transfer_s;
    return t->latency_s - t->ramp_s + call->nic_s * ring / reached / k->rate_share[t->protocol];
}

bool nccl_choose(const struct cluster *c, const struct nccl_call *call, uint32_t algos,
                 uint32_t protocols, struct nccl_time *out)
{
    const struct coll_constants *k = &c->coll;
    uint32_t simple = 1u << PROTOCOL_SIMPLE, all = (1u << PROTOCOL_N) - 1;
    uint32_t ring_protocols = protocols ? protocols : all;
    double best = INFINITY;

    /* of several allowed protocols the table decides, and of one there is nothing to decide */
    if (k->believed_ll128 > 0 && call->nodes < 2 && !(call->pcie_share > 0) &&
        ring_protocols & simple && ring_protocols != simple)
        ring_protocols = believes_in_simple(k, call) ? simple : ring_protocols & ~simple;
    for (int a = 0; a < NCCL_ALGO_N; a++)
        for (int p = 0; p < PROTOCOL_N; p++) {
            uint32_t allowed = a == NCCL_RING ? ring_protocols : protocols ? protocols : all;
            struct nccl_time t;
            double cost;

            if ((algos && !(algos & 1u << a)) || !(allowed & 1u << p) ||
                !nccl_time(c, call, (enum nccl_algo)a, (enum coll_protocol)p, &t))
                continue;
            cost = compared_by(k, call, &t);
            if (cost >= best)
                continue;
            *out = t;
            best = cost;
        }
    return best < INFINITY;
}

enum band_size nccl_band_size(uint64_t n_bytes)
{
    return n_bytes < (1 << 20) ? BAND_SMALL : n_bytes < (32 << 20) ? BAND_MEDIUM : BAND_LARGE;
}

double nccl_band_factor(enum coll_kind kind)
{
    return kind == COLL_ALL_REDUCE || kind == COLL_ALL_GATHER || kind == COLL_REDUCE_SCATTER ? 1
                                                                                             : 2;
}

double nccl_band(const struct cluster *c, enum coll_kind kind, uint64_t n_bytes, uint32_t n_nodes,
                 bool *covered)
{
    /* what predictions of a network miss whose own tables are not among those of the fit */
    static const double unknown[BAND_N] = {0.6, 0.4, 0.25};
    enum band_size b = nccl_band_size(n_bytes);
    double band = (n_nodes > 1 ? c->coll.net_band : c->coll.band)[b];

    /* between nodes only all-reduce and all-gather have tables */
    *covered = band > 0 && (n_nodes < 2 || nccl_band_factor(kind) == 1);
    if (!*covered)
        band = unknown[b];
    if (n_nodes > 2)
        band *= 1 + 0.25 * log2(n_nodes / 2.0);
    return band * nccl_band_factor(kind);
}
