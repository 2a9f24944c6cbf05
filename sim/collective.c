#include "sim/collective.h"

#include "core/num.h"
#include "model/plan/segment_algo.h"
#include "model/program/tree.h"
#include "sim/links.h"

#include <math.h>
#include <string.h>

/* Peers that one GPU's grouped sends reach at once: NCCL runs them on as many channels. */
enum { P2P_AT_ONCE = 16 };
/* A weight so large that kernels take what collectives leave: NCCL's thread blocks stay on their SMs whatever else wants them. A
 * collective has all it can use (1 of a second of its busiest link a second, 1e-12 a ps) at a level of 1e-6, kernels near 1. */
static const double PRIORITY = 1e-6;

/* ---- latency ---- */

/* Steps of one call that follow each other, inside nodes and between them. */
struct steps {
    double in_node, net;
};

/* `k` times around a ring of n ranks on that many nodes. */
static struct steps ring_steps(double n, double nodes, double k)
{
    if (nodes <= 1)
        return (struct steps){k * (n - 1), 0};
    return (struct steps){k * (n - 1) * (n - nodes) / n, k * (n - 1) * nodes / n};
}

/* The longest way down: around the root's node to a rail, down the trees, around the last node. */
static struct steps tree_steps(double per_node, uint32_t nodes)
{
    return (struct steps){(nodes > 1 ? 2 : 1) * (per_node - 1), tree_depth(nodes)};
}

/* Rings or trees over ranges, all at once: the most steps of either kind that one of them takes. */
static struct steps range_steps(const struct program *p, const struct op *o,
                                const struct instance *at, enum coll_algo algo)
{
    const struct segment_table *t = &p->segment_tables[o->coll.table];
    uint32_t row = t->n_units > 1 ? at->unit : 0;
    struct steps most = {0, 0};

    for (uint32_t i = t->start[row]; i < t->start[row + 1]; i++) {
        uint32_t first = t->segments[i].to_first, n = t->segments[i].to_n;
        uint32_t nodes = (first + n - 1) / p->gpus_per_node - first / p->gpus_per_node + 1;
        struct steps s = segment_algo(algo)->tree
                             ? tree_steps((double)num_min(n, p->gpus_per_node), nodes)
                             : ring_steps(n, nodes, 1);

        most.in_node = fmax(most.in_node, s.in_node);
        most.net = fmax(most.net, s.net);
    }
    return most;
}

/* Of segments that go to all of the group, one function a way. */
static struct steps steps_p2p(const struct group_shape *s)
{
    return (struct steps){ceil((s->per_node - 1.0) / P2P_AT_ONCE),
                          ceil(((double)s->n - s->per_node) / P2P_AT_ONCE)};
}

static struct steps steps_ring(const struct group_shape *s)
{
    return ring_steps(s->n, s->nodes, 1);
}

static struct steps steps_tree(const struct group_shape *s)
{
    return tree_steps(s->per_node, s->nodes);
}

static struct steps steps_hierarchical(const struct group_shape *s)
{
    return (struct steps){s->per_node - 1.0,
                          s->nodes > 1 ? 1 + ceil((s->nodes - 1.0) / P2P_AT_ONCE) : 0};
}

static struct steps steps_padded(const struct group_shape *s)
{
    return steps_ring(s);
}

static struct steps (*const steps_of[ALGO_N])(const struct group_shape *s) = {
#define X(v, way) [v] = steps_##way,
    SEGMENT_ALGOS(X)
#undef X
};

static struct steps count_steps(const struct program *p, const struct op *o,
                                const struct instance *i, const struct group_shape *s,
                                enum coll_algo algo)
{
    switch (o->coll.kind) {
    case COLL_ALL_REDUCE:
        return ring_steps(s->n, s->nodes, 2);
    case COLL_ALL_GATHER:
    case COLL_REDUCE_SCATTER:
        return ring_steps(s->n, s->nodes, 1);
    case COLL_ALL_TO_ALL:
        return steps_p2p(s);
    case COLL_BROADCAST:
    case COLL_REDUCE:
    case COLL_SEGMENT_GATHER:
    case COLL_SEGMENT_REDUCE:
        return traffic_to_ranges(p, o, i) ? range_steps(p, o, i, algo) : steps_of[algo](s);
    case COLL_SEND:
    case COLL_RECV:
        return (struct steps){1, s->nodes > 1};
    case COLL_N:
        break;
    }
    return (struct steps){0, 0};
}

/* ---- one activity ---- */

static void add_use(struct coll_activity *x, struct fluid_use *uses, enum sim_resource r,
                    const struct amounts *a, double work)
{
    struct fluid_use *u = &uses[x->activity.n_uses];

    if (a->most <= 0)
        return;
    for (uint32_t i = 0; i < a->n_only; i++)
        a->only[i].amount /= work;
    *u = (struct fluid_use){
        .kind = (uint32_t)r, .every = a->every / work, .only = a->only, .n_only = a->n_only};
    x->activity.n_uses++;
}

/* Seconds on the busiest link of kinds [from, to]. */
static double busiest_s(const struct coll_cache *k, const struct amounts *a, enum sim_resource from,
                        enum sim_resource to)
{
    double s = 0;

    for (int r = (int)from; r <= (int)to; r++)
        s = fmax(s, a[r].most / coll_capacity(&k->fabric, (enum sim_resource)r) / 1e12);
    return s;
}

static void scale(struct amounts *a, double by)
{
    a->every *= by;
    a->most *= by;
    for (uint32_t i = 0; i < a->n_only; i++)
        a->only[i].amount *= by;
}

/* Over the instances of a resource: of a node alone where all nodes do alike. */
static double mean_amount(const struct coll_cache *k, const struct amounts *a, enum sim_resource r)
{
    double n = k->first < k->p->world ? a->n_only : coll_instances(&k->fabric, r), sum = 0;

    if (!a->n_only)
        return a->every;
    for (uint32_t i = 0; i < a->n_only; i++)
        sum += a->only[i].amount;
    return n > 0 ? (sum + a->every * (n - a->n_only)) / n : 0;
}

/* Groups of a family that put bytes on one NIC, over those that its busiest group puts there: NCCL chooses for each group as if
 * it were alone, and then they share. */
static double groups_at_once(const struct coll_cache *k, const struct group *g)
{
    uint32_t all[CLUSTER_MAX_NICS_PER_NODE] = {0}, one[CLUSTER_MAX_NICS_PER_NODE] = {0};
    uint32_t most = 1, mine = 1, gpn = k->p->gpus_per_node;

    if (g->members || g->n_members == k->p->world || !k->c->nics_per_node)
        return 1;
    for (uint32_t i = 0; i < gpn && i < k->p->world; i++)
        most = (uint32_t)num_max(most, ++all[k->c->nic_of_gpu[i]]);
    for (uint32_t i = 0; i < g->n_members; i++) {
        uint32_t rank = group_member(g, 0, i);

        if (rank < gpn)
            mine = (uint32_t)num_max(mine, ++one[k->c->nic_of_gpu[rank]]);
    }
    return (double)most / mine;
}

/* NICs by which a ring of the group leaves a node: the node with the fewest decides, as every channel passes every node. */
static uint32_t ring_nics(const struct coll_cache *k, const struct group *g)
{
    uint32_t gpn = k->p->gpus_per_node, least = UINT32_MAX, node = UINT32_MAX, n = 0;
    bool used[CLUSTER_MAX_NICS_PER_NODE] = {false};

    for (uint32_t i = 0; i < g->n_members; i++) {
        uint32_t rank = group_member(g, 0, i);
        bool *at = &used[k->c->nic_of_gpu[rank % gpn]];

        if (rank / gpn != node) {
            least = i ? (uint32_t)num_min(least, n) : least;
            memset(used, 0, sizeof(used));
            node = rank / gpn;
            n = 0;
        }
        n += !*at;
        *at = true;
    }
    return (uint32_t)num_min(least, n);
}

/* Ranks of other nodes that one sends to itself, or receives from: of a reduction each to the owners. */
static double net_peers(const struct program *p, const struct op *o, const struct instance *i,
                        enum coll_algo algo, const struct group_shape *s)
{
    const struct segment_table *t = &p->segment_tables[o->coll.table];
    uint32_t u, others = segment_algo(algo)->one_a_node ? s->nodes - 1 : s->n - s->per_node;

    if (o->coll.kind == COLL_SEND)
        return s->nodes > 1;
    if (o->coll.kind != COLL_SEGMENT_REDUCE)
        return others;
    u = t->n_units > 1 ? i->unit : 0;
    return (double)num_min(others, t->start[u + 1] - t->start[u]);
}

/* One of `calls` equal calls, as NCCL sees it. */
static struct nccl_call one_call(const struct coll_cache *k, const struct op *o,
                                 const struct instance *i, enum coll_algo algo,
                                 const struct group_shape *s, const struct amounts *a, double calls,
                                 double pcie_share)
{
    struct steps steps = count_steps(k->p, o, i, s, algo);
    double shared = groups_at_once(k, &k->p->groups[o->coll.group]);
    uint32_t per = k->c->nodes_per_leaf;
    double nvlink = busiest_s(k, a, RESOURCE_NVLINK_TX, RESOURCE_NVLINK_RX);
    double nic = busiest_s(k, a, RESOURCE_NIC_TX, RESOURCE_NIC_RX) / shared;
    double pcie = busiest_s(k, a, RESOURCE_PCIE_TX, RESOURCE_CPU);
    double leaf = busiest_s(k, a, RESOURCE_LEAF_UP, RESOURCE_LEAF_DOWN);

    /* what passes PCIe is on its way to a NIC, but where NVLink does not join GPUs: then to them
     * too */
    return (struct nccl_call){
        .kind = o->coll.kind,
        .direct = segment_algo(algo)->direct != DIRECT_NO,
        .n = s->n,
        .nodes = s->nodes,
        .per_node = s->per_node,
        /* op_coll_bytes() is of one of the repeats, all its pieces */
        .bytes = (double)op_coll_bytes(k->p, o, i) * num_max(o->coll.repeat, 1) / calls,
        .steps = steps.in_node,
        .net_steps = steps.net,
        .ramp_ranks = s->nodes > 1 ? num_min(s->n, 2 * s->per_node) : s->n,
        .node_s = (pcie_share > 0 ? fmax(nvlink, pcie) : nvlink) / calls,
        .nic_s = fmax(nic, pcie_share > 0 ? leaf : fmax(pcie, leaf)) / calls,
        .pcie_share = pcie_share,
        /* up to the spine and down again; the hop under one leaf is in net_step_s */
        .nics = s->nodes > 1 ? ring_nics(k, &k->p->groups[o->coll.group]) : 0,
        .peers = net_peers(k->p, o, i, algo, s),
        .spine_s = per && s->nodes > per ? 2 * k->c->hop_s : 0,
        .in_place = !k->nccl.out_of_place,
        .one_process = k->nccl.one_process,
        .version = k->nccl.version ? k->nccl.version : nccl_version(k->c),
        .one_way = o->coll.kind == COLL_SEND && s->n == 2,
    };
}

/* Of every rank, or of those that are listed. */
static void sm_amounts(const struct group *g, double amount, struct arena *arena,
                       struct amounts *out)
{
    out->most = amount;
    if (!g->members) {
        out->every = amount;
        return;
    }
    out->only = ARENA_NEW(arena, struct fluid_amount, g->n_members);
    for (uint32_t i = 0; i < g->n_members; i++)
        links_note(out, g->members[i], amount);
}

/* What one rank sends to other nodes, or receives from them: the most. */
static double most_inter(const struct traffic *t)
{
    uint64_t most = num_max(t->every.sent_inter, t->every.recv_inter);

    for (uint32_t i = 0; i < t->n_only; i++)
        most = num_max(most, num_max(t->only[i].bytes.sent_inter, t->only[i].bytes.recv_inter));
    return (double)most;
}

/* What a collective's share of a link goes by: its channels. Between nodes those on its busiest NIC, times the NICs of a node, so that a
 * ring over all of them counts for all its channels: 16 beside the 24 of a ring in a node, on the NVLinks where they meet,
 * and as many as a ring of one GPU a node on that one's NIC. Of direct sends all that leave by a NIC. */
static double share(const struct coll_cache *k, const struct coll_activity *x,
                    const struct nccl_call *call, const struct amounts *a)
{
    double most = most_inter(&x->traffic);

    if (call->nodes < 2 || !(most > 0))
        return x->nccl.channels;
    if (x->nccl.algo == NCCL_P2P)
        return x->nccl.channels * k->c->nics_per_node *
               fmax(a[RESOURCE_NIC_TX].most, a[RESOURCE_NIC_RX].most) / most;
    return x->nccl.channels * k->c->nics_per_node / fmax(call->nics, 1);
}

struct coll_activity *coll_make(const struct coll_cache *k, const struct op *o,
                                const struct instance *i, enum coll_algo algo, struct arena *arena)
{
    const struct group_shape s = group_shape(k->p, &k->p->groups[o->coll.group]);
    struct coll_activity *x = ARENA_NEW(arena, struct coll_activity, 1);
    struct fluid_use *uses = ARENA_NEW(arena, struct fluid_use, RESOURCE_N);
    struct amounts a[RESOURCE_N];
    uint64_t elements = op_coll_elements(k->p, o, i);
    double busy_s, work = 0, channels, pcie_share, calls = o->coll.repeat ? o->coll.repeat : 1;
    struct nccl_call call;

    memset(a, 0, sizeof(a));
    x->algo = algo;
    x->possible = true;
    traffic_of_first(k->p, o, i, algo, k->first, arena, &x->traffic);
    if (x->traffic.n_only == k->first) /* then `every` is nobody's */
        memset(&x->traffic.every, 0, sizeof(x->traffic.every));
    pcie_share = links_of(k, o, i, algo, &s, &x->traffic, arena, a);
    /* broadcasts of an all-gather's parts follow one ring as its call does: the host alone takes longer */
    if (o->coll.calls == CALLS_BROADCASTS && o->coll.kind == COLL_SEGMENT_GATHER)
        calls *= op_calls(k->p, o, i);
    if (o->coll.piece && o->coll.piece < elements)
        calls *= (double)num_ceil_div(elements, o->coll.piece);
    call = one_call(k, o, i, algo, &s, a, calls, pcie_share);
    if (s.n < 2 || (call.node_s <= 0 && call.nic_s <= 0))
        return x;
    x->possible = nccl_choose(k->c, &call, k->nccl.algos, k->nccl.protocols, &x->nccl);
    if (!x->possible)
        return x;
    channels = share(k, x, &call, a);
    for (int r = RESOURCE_NVLINK_TX; r < RESOURCE_N; r++) {
        bool in_node = r <= RESOURCE_NVLINK_RX ||
                       (pcie_share > 0 && r >= RESOURCE_PCIE_TX && r <= RESOURCE_CPU);

        scale(&a[r], in_node ? x->nccl.node_scale : x->nccl.nic_scale);
        busy_s = busiest_s(k, a, (enum sim_resource)r, (enum sim_resource)r);
        if (busy_s > work) {
            work = busy_s;
            x->link = (enum sim_resource)r;
        }
    }
    x->link_ps = sim_ps(work);
    x->fan_out = a[x->link].most > 2 * mean_amount(k, &a[x->link], x->link);
    x->activity.latency_ps = sim_ps(calls * x->nccl.latency_s);
    x->alone_ps = sim_ps(fmax(calls * x->nccl.transfer_s, work) + calls * x->nccl.latency_s);
    /* a unit of work is a second of the busiest link */
    x->activity.work = work;
    x->activity.cap = work / (calls * x->nccl.transfer_s * 1e12);
    /* so that where two have their busiest link, its seconds go by channels */
    x->activity.weight = PRIORITY * channels;
    x->activity.uses = uses;
    sm_amounts(&k->p->groups[o->coll.group],
               (double)k->c->device.collective_sms / k->c->device.n_sm * work / x->activity.cap,
               arena, &a[RESOURCE_SM]);
    for (int r = RESOURCE_SM; r < RESOURCE_N; r++)
        add_use(x, uses, (enum sim_resource)r, &a[r], work);
    return x;
}
