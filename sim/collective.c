#include "sim/collective.h"

#include "core/num.h"
#include "model/tree.h"

#include <math.h>
#include <string.h>

/* Peers that one GPU's grouped sends reach at once: NCCL runs them on as many channels. */
enum { P2P_AT_ONCE = 16 };
/* A weight that makes collectives equally slow where they share, and their level so low that kernels take what they leave:
 * NCCL's thread blocks stay on their SMs whatever else wants them. */
static const double PRIORITY = 1e6;

struct key {
    uint32_t kind, algo, table, row, group, repeat, wire, refresh;
    uint64_t bytes, piece;
};
struct coll_cache_slot {
    struct key key;
    struct coll_activity *value;
};

void coll_cache_init(struct coll_cache *k, const struct program *p, const struct cluster *c,
                     const struct nccl_options *nccl)
{
    struct err e;

    memset(k, 0, sizeof(*k));
    k->p = p;
    k->c = c;
    k->first = p->world;
    if (nccl)
        k->nccl = *nccl;
    arena_init(&k->arena);
    BUG_ON(fabric_init(&k->fabric, c, p->world, NULL, &k->arena, &e));
}

void coll_cache_fold(struct coll_cache *k)
{
    const struct program *p = k->p;

    if (p->shards && p->gpus_per_node % p->shards == 0 && p->world % p->gpus_per_node == 0)
        k->first = p->gpus_per_node;
}

void coll_cache_release(struct coll_cache *k)
{
    mem_free(k->slots);
    arena_release(&k->arena);
    memset(k, 0, sizeof(*k));
}

/* ---- resources ---- */

/* The graph's links behind a resource; FABRIC_KIND_N: none. NVLink counts per GPU, whatever its links are. */
static enum fabric_kind links_of(enum sim_resource r)
{
    static const enum fabric_kind kinds[RESOURCE_N] = {
        [RESOURCE_SM] = FABRIC_KIND_N,        [RESOURCE_HBM] = FABRIC_KIND_N,
        [RESOURCE_NVLINK_TX] = FABRIC_KIND_N, [RESOURCE_NVLINK_RX] = FABRIC_KIND_N,
        [RESOURCE_NIC_TX] = FABRIC_NIC_TX,    [RESOURCE_NIC_RX] = FABRIC_NIC_RX,
        [RESOURCE_PCIE_TX] = FABRIC_PCIE_UP,  [RESOURCE_PCIE_RX] = FABRIC_PCIE_DOWN,
        [RESOURCE_ROOT_UP] = FABRIC_ROOT_UP,  [RESOURCE_ROOT_DOWN] = FABRIC_ROOT_DOWN,
        [RESOURCE_LEAF_UP] = FABRIC_LEAF_UP,  [RESOURCE_LEAF_DOWN] = FABRIC_LEAF_DOWN};

    return kinds[r];
}

uint32_t coll_instances(const struct fabric *f, enum sim_resource r)
{
    enum fabric_kind k = links_of(r);

    if (k == FABRIC_KIND_N)
        return f->world;
    return (uint32_t)num_max(1, fabric_n(f, k));
}

double coll_capacity(const struct fabric *f, enum sim_resource r)
{
    enum fabric_kind k = links_of(r);
    double Bps;

    if (r == RESOURCE_SM)
        return 1.0;
    if (r == RESOURCE_HBM)
        return f->c.device.hbm_Bps / 1e12;
    if (r == RESOURCE_NVLINK_TX || r == RESOURCE_NVLINK_RX)
        return f->c.nvlink_Bps * f->c.nvlink_efficiency / 1e12;
    if (!fabric_n(f, k))
        return 1.0; /* nobody uses it */
    Bps = fabric_Bps(f, k, 0);
    if ((k == FABRIC_NIC_TX || k == FABRIC_NIC_RX) && fabric_n(f, FABRIC_PCIE_OUT))
        Bps = fmin(Bps, fabric_Bps(f, FABRIC_PCIE_OUT, 0));
    return Bps / 1e12;
}

void coll_make_kinds(struct fluid *f, const struct fabric *fabric)
{
    for (int r = 0; r < RESOURCE_N; r++) {
        uint32_t id = fluid_kind(f, sim_resource_name((enum sim_resource)r),
                                 coll_instances(fabric, (enum sim_resource)r),
                                 coll_capacity(fabric, (enum sim_resource)r));

        BUG_ON(id != (uint32_t)r);
    }
}

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

/* Do the segments of this instance go to ranges of neighbours, not to the whole group? */
static bool to_ranges(const struct program *p, const struct op *o, const struct instance *i)
{
    const struct segment_table *t;
    uint32_t row;

    if (o->coll.kind != COLL_SEGMENT_GATHER && o->coll.kind != COLL_SEGMENT_REDUCE)
        return false;
    t = &p->segment_tables[o->coll.table];
    row = t->n_units > 1 ? i->unit : 0;
    return t->segments[t->start[row]].to_n < p->groups[o->coll.group].n_members;
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
        struct steps s = algo == ALGO_TREE ? tree_steps((double)num_min(n, p->gpus_per_node), nodes)
                                           : ring_steps(n, nodes, 1);

        most.in_node = fmax(most.in_node, s.in_node);
        most.net = fmax(most.net, s.net);
    }
    return most;
}

static struct steps count_steps(const struct program *p, const struct op *o,
                                const struct instance *i, const struct group_shape *s,
                                enum coll_algo algo)
{
    double n = s->n, nodes = s->nodes, g = s->per_node, k = 1;
    const struct collective *c = &o->coll;

    switch (c->kind) {
    case COLL_ALL_REDUCE:
        k = 2;
        break;
    case COLL_ALL_GATHER:
    case COLL_REDUCE_SCATTER:
        break;
    case COLL_ALL_TO_ALL:
        return (struct steps){ceil((g - 1) / P2P_AT_ONCE), ceil((n - g) / P2P_AT_ONCE)};
    case COLL_BROADCAST:
    case COLL_REDUCE:
    case COLL_SEGMENT_GATHER:
    case COLL_SEGMENT_REDUCE:
        if (to_ranges(p, o, i))
            return range_steps(p, o, i, algo);
        switch (algo) {
        case ALGO_P2P:
            return (struct steps){ceil((g - 1) / P2P_AT_ONCE), ceil((n - g) / P2P_AT_ONCE)};
        case ALGO_TREE:
            return tree_steps(g, s->nodes);
        case ALGO_HIERARCHICAL:
            return (struct steps){g - 1, nodes > 1 ? 1 + ceil((nodes - 1) / P2P_AT_ONCE) : 0};
        default:
            break; /* ring, padded */
        }
        break;
    case COLL_SEND:
    case COLL_RECV:
        return (struct steps){1, nodes > 1};
    case COLL_N:
        break;
    }
    return ring_steps(n, nodes, k);
}

/* ---- use of links ---- */

struct amounts {
    double every;
    struct fluid_amount *only;
    uint32_t n_only;
    double most;
};

static void note(struct amounts *a, uint32_t instance, double amount)
{
    a->only[a->n_only++] = (struct fluid_amount){instance, amount};
    if (amount > a->most)
        a->most = amount;
}

static double nvlink_bytes(const struct traffic_bytes *b, bool tx)
{
    return (double)(tx ? b->sent_intra : b->recv_intra);
}

static void nvlink_amounts(const struct traffic *t, bool tx, struct arena *a, struct amounts *out)
{
    out->every = out->most = nvlink_bytes(&t->every, tx);
    out->only = ARENA_NEW(a, struct fluid_amount, t->n_only);
    for (uint32_t i = 0; i < t->n_only; i++)
        note(out, t->only[i].rank, nvlink_bytes(&t->only[i].bytes, tx));
}

/* What leaves and enters a node, by GPU. */
static void pcie_amounts(const struct traffic *t, bool tx, struct arena *a, struct amounts *out)
{
    out->every = out->most = (double)(tx ? t->every.sent_inter : t->every.recv_inter);
    out->only = ARENA_NEW(a, struct fluid_amount, t->n_only);
    for (uint32_t i = 0; i < t->n_only; i++)
        note(out, t->only[i].rank,
             (double)(tx ? t->only[i].bytes.sent_inter : t->only[i].bytes.recv_inter));
}

/* Things of a node that several GPUs share: where what a GPU sends to other nodes, and what it receives, passes. */
enum { NO_PLACE = 255 };
struct shared {
    uint32_t n;                                                               /* a node */
    uint8_t sent[CLUSTER_MAX_GPUS_PER_NODE], recv[CLUSTER_MAX_GPUS_PER_NODE]; /* or NO_PLACE */
};

static void share(const struct shared *s, uint32_t gpu, const struct traffic_bytes *b, double *sum)
{
    if (s->sent[gpu] != NO_PLACE)
        sum[s->sent[gpu]] += (double)b->sent_inter;
    if (s->recv[gpu] != NO_PLACE)
        sum[s->recv[gpu]] += (double)b->recv_inter;
}

static void shared_amounts(const struct coll_cache *k, const struct traffic *t,
                           const struct shared *s, struct arena *a, struct amounts *out)
{
    uint32_t gpn = k->p->gpus_per_node, touched = 0;
    double all[NO_PLACE] = {0};

    for (uint32_t i = 0; i < t->n_only; i++)
        if (i == 0 || t->only[i].rank / gpn != t->only[i - 1].rank / gpn)
            touched++;
    for (uint32_t g = 0; g < gpn && touched < k->fabric.n_nodes; g++)
        share(s, g, &t->every, all);
    for (uint32_t i = 0; i < s->n; i++)
        out->every = out->most = fmax(out->every, all[i]);
    out->only = ARENA_NEW(a, struct fluid_amount, (size_t)touched * s->n);
    for (uint32_t i = 0; i < t->n_only;) {
        double sum[NO_PLACE] = {0};
        uint32_t node = t->only[i].rank / gpn;

        for (uint32_t r = node * gpn; r < (node + 1) * gpn && r < k->p->world; r++) {
            const struct traffic_bytes *b = &t->every;

            if (i < t->n_only && t->only[i].rank == r)
                b = &t->only[i++].bytes;
            share(s, r - node * gpn, b, sum);
        }
        for (uint32_t n = 0; n < s->n; n++)
            note(out, node * s->n + n, sum[n]);
    }
}

static void nic_amounts(const struct coll_cache *k, const struct traffic *t, bool tx,
                        struct arena *a, struct amounts *out)
{
    struct shared s = {.n = k->c->nics_per_node};

    if (!s.n)
        return;
    for (uint32_t g = 0; g < k->p->gpus_per_node; g++) {
        s.sent[g] = tx ? k->c->nic_of_gpu[g] : NO_PLACE;
        s.recv[g] = tx ? NO_PLACE : k->c->nic_of_gpu[g];
    }
    shared_amounts(k, t, &s, a, out);
}

/* Over the root passes what goes between a GPU and a NIC under different switches: up from the one, down to the other. */
static void root_amounts(const struct coll_cache *k, const struct traffic *t, bool up,
                         struct arena *a, struct amounts *out)
{
    const struct cluster *c = k->c;
    struct shared s = {.n = c->pcie_switches};
    bool any = false;

    for (uint32_t g = 0; g < k->p->gpus_per_node && c->pcie_switches && c->nics_per_node; g++) {
        uint8_t own = c->switch_of_gpu[g], of_nic = c->switch_of_nic[c->nic_of_gpu[g]];

        s.sent[g] = own == of_nic ? NO_PLACE : up ? own : of_nic;
        s.recv[g] = own == of_nic ? NO_PLACE : up ? of_nic : own;
        any |= own != of_nic;
    }
    if (any)
        shared_amounts(k, t, &s, a, out);
}

/* What leaves a node over PCIe, where that is described. */
static void all_pcie_amounts(const struct coll_cache *k, const struct traffic *t, struct arena *a,
                             struct amounts *of)
{
    if (!k->c->pcie_switches)
        return;
    pcie_amounts(t, true, a, &of[RESOURCE_PCIE_TX]);
    pcie_amounts(t, false, a, &of[RESOURCE_PCIE_RX]);
    root_amounts(k, t, true, a, &of[RESOURCE_ROOT_UP]);
    root_amounts(k, t, false, a, &of[RESOURCE_ROOT_DOWN]);
}

/* NICs of one node under one leaf. */
static uint32_t nics_on_leaf(const struct coll_cache *k)
{
    return (uint32_t)num_max(1, k->c->nics_per_node) / k->fabric.n_rails;
}

/* Up- and down-links of leaves, from what their NICs carry. A ring runs along nodes, so only a leaf's last node crosses. Of rings
 * that places root the largest counts. */
static void ring_leaves(const struct coll_cache *k, const struct group_shape *s, bool rooted,
                        const struct amounts *nic, struct amounts *out)
{
    uint32_t per = k->c->nodes_per_leaf;

    if (per && s->nodes > per)
        out->every = out->most = fmax(nic->every, rooted ? nic->most : 0) * nics_on_leaf(k);
}

/* Direct sends go to all other nodes, or come from all: of a node's bytes the share of the nodes under other leaves (with rails:
 * in other pods, since a message stays on its rail). */
static void direct_leaves(const struct coll_cache *k, const struct group_shape *s,
                          const struct amounts *nic, struct arena *a, struct amounts *out)
{
    const struct fabric *f = &k->fabric;
    uint32_t nics = k->c->nics_per_node, per = k->c->nodes_per_leaf, rails = f->n_rails;
    double share;

    if (!per || s->nodes <= per)
        return;
    share = (s->nodes - per) / (s->nodes - 1.0);
    out->every = out->most = nic->every * nics_on_leaf(k) * per * share;
    out->only = ARENA_NEW(a, struct fluid_amount, (size_t)nic->n_only * rails);
    for (uint32_t i = 0; i < nic->n_only;) { /* a node's NICs are all there, or none */
        uint32_t pod = nic->only[i].instance / nics / per, first = i;
        uint32_t end = (uint32_t)num_min((pod + 1) * per, f->n_nodes) * nics;
        double sum[CLUSTER_MAX_NICS_PER_NODE] = {0}, rest;

        for (; i < nic->n_only && nic->only[i].instance < end; i++)
            sum[nic->only[i].instance % nics % rails] += nic->only[i].amount;
        rest = nic->every * ((end - pod * per * nics - (i - first)) / rails);
        for (uint32_t r = 0; r < rails; r++)
            note(out, pod * rails + r, (sum[r] + rest) * share);
    }
}

/* ... and of trees over the whole group: on the leaf that most edges of a pair leave (enter), half of the bytes each. */
static void tree_leaves(const struct coll_cache *k, const struct group_shape *s, double bytes,
                        bool reduce, struct amounts *up, struct amounts *down)
{
    uint32_t per = k->c->nodes_per_leaf;
    struct tree_crossings x = {0, 0};
    double half = bytes / 2 / k->fabric.n_rails; /* every rail has its own pair of trees */

    if (per && s->nodes > per)
        x = tree_crossings(s->nodes, per);
    up->every = up->most = half * (reduce ? x.in : x.out);
    down->every = down->most = half * (reduce ? x.out : x.in);
}

/* Every byte sent is read from HBM and every byte received written to it: the mean over ranks, since no number of `every`
 * stands for a rank where all differ. Of listed ranks each one's. */
static double all_bytes(const struct traffic_bytes *b)
{
    return (double)(b->sent_intra + b->sent_inter + b->recv_intra + b->recv_inter);
}

static void hbm_amounts(const struct traffic *t, const struct group *g, uint32_t first,
                        struct arena *a, struct amounts *out)
{
    double sum = all_bytes(&t->every) * (first - t->n_only);

    if (g->members)
        out->only = ARENA_NEW(a, struct fluid_amount, t->n_only);
    for (uint32_t i = 0; i < t->n_only; i++) {
        sum += all_bytes(&t->only[i].bytes);
        if (g->members)
            note(out, t->only[i].rank, all_bytes(&t->only[i].bytes));
    }
    if (!g->members)
        out->every = out->most = sum / first;
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

static void link_amounts(const struct coll_cache *k, const struct op *o, const struct instance *i,
                         enum coll_algo algo, const struct group_shape *s, const struct traffic *t,
                         struct arena *arena, struct amounts *a)
{
    bool direct = algo == ALGO_P2P || algo == ALGO_HIERARCHICAL || o->coll.kind == COLL_ALL_TO_ALL;

    nvlink_amounts(t, true, arena, &a[RESOURCE_NVLINK_TX]);
    nvlink_amounts(t, false, arena, &a[RESOURCE_NVLINK_RX]);
    nic_amounts(k, t, true, arena, &a[RESOURCE_NIC_TX]);
    nic_amounts(k, t, false, arena, &a[RESOURCE_NIC_RX]);
    all_pcie_amounts(k, t, arena, a);
    if (direct) {
        direct_leaves(k, s, &a[RESOURCE_NIC_TX], arena, &a[RESOURCE_LEAF_UP]);
        direct_leaves(k, s, &a[RESOURCE_NIC_RX], arena, &a[RESOURCE_LEAF_DOWN]);
    } else if (algo == ALGO_TREE && !to_ranges(k->p, o, i)) {
        tree_leaves(k, s, (double)op_coll_bytes(k->p, o, i), o->coll.kind == COLL_SEGMENT_REDUCE,
                    &a[RESOURCE_LEAF_UP], &a[RESOURCE_LEAF_DOWN]);
    } else {
        ring_leaves(k, s, o->coll.rooted, &a[RESOURCE_NIC_TX], &a[RESOURCE_LEAF_UP]);
        ring_leaves(k, s, o->coll.rooted, &a[RESOURCE_NIC_RX], &a[RESOURCE_LEAF_DOWN]);
    }
    hbm_amounts(t, &k->p->groups[o->coll.group], k->first, arena, &a[RESOURCE_HBM]);
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

/* One of `calls` equal calls, as NCCL sees it. */
static struct nccl_call one_call(const struct coll_cache *k, const struct op *o,
                                 const struct instance *i, enum coll_algo algo,
                                 const struct group_shape *s, const struct amounts *a, double calls)
{
    struct steps steps = count_steps(k->p, o, i, s, algo);
    double shared = groups_at_once(k, &k->p->groups[o->coll.group]);
    uint32_t per = k->c->nodes_per_leaf;

    return (struct nccl_call){
        .kind = o->coll.kind,
        .direct = algo == ALGO_P2P || algo == ALGO_HIERARCHICAL,
        .n = s->n,
        .nodes = s->nodes,
        .per_node = s->per_node,
        .bytes = (double)op_coll_bytes(k->p, o, i) / calls,
        .steps = steps.in_node,
        .net_steps = steps.net,
        .ramp_ranks = s->nodes > 1 ? num_min(s->n, 2 * s->per_node) : s->n,
        .nvlink_s = busiest_s(k, a, RESOURCE_NVLINK_TX, RESOURCE_NVLINK_RX) / calls,
        .nic_s = fmax(busiest_s(k, a, RESOURCE_NIC_TX, RESOURCE_NIC_RX) / shared,
                      busiest_s(k, a, RESOURCE_PCIE_TX, RESOURCE_LEAF_DOWN)) /
                 calls,
        /* up to the spine and down again; the hop under one leaf is in net_step_s */
        .spine_s = per && s->nodes > per ? 2 * k->c->hop_s : 0,
        .in_place = !k->nccl.out_of_place,
        .one_process = k->nccl.one_process,
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
        note(out, g->members[i], amount);
}

uint32_t coll_broadcasts(const struct coll_cache *k, const struct op *o, const struct instance *i)
{
    const struct segment_table *t;
    uint32_t row;

    if (!k->broadcasts || o->phase != PHASE_REFRESH || o->coll.kind != COLL_SEGMENT_GATHER)
        return 1;
    t = &k->p->segment_tables[o->coll.table];
    row = t->n_units > 1 ? i->unit : 0;
    return t->start[row + 1] - t->start[row];
}

static struct coll_activity *make(const struct coll_cache *k, const struct op *o,
                                  const struct instance *i, enum coll_algo algo,
                                  struct arena *arena)
{
    const struct group_shape s = group_shape(k->p, &k->p->groups[o->coll.group]);
    struct coll_activity *x = ARENA_NEW(arena, struct coll_activity, 1);
    struct fluid_use *uses = ARENA_NEW(arena, struct fluid_use, RESOURCE_N);
    struct amounts a[RESOURCE_N];
    uint64_t bytes = op_coll_bytes(k->p, o, i);
    double busy_s, work = 0, calls = o->coll.repeat ? o->coll.repeat : 1;
    struct nccl_call call;

    memset(a, 0, sizeof(a));
    x->algo = algo;
    x->possible = true;
    traffic_of_first(k->p, o, i, algo, k->first, arena, &x->traffic);
    if (x->traffic.n_only == k->first) /* then `every` is nobody's */
        memset(&x->traffic.every, 0, sizeof(x->traffic.every));
    link_amounts(k, o, i, algo, &s, &x->traffic, arena, a);
    calls *= coll_broadcasts(k, o, i);
    if (o->coll.piece_bytes && o->coll.piece_bytes < bytes)
        calls *= (double)num_ceil_div(bytes, o->coll.piece_bytes);
    call = one_call(k, o, i, algo, &s, a, calls);
    if (s.n < 2 || (call.nvlink_s <= 0 && call.nic_s <= 0))
        return x;
    x->possible = nccl_choose(k->c, &call, k->nccl.algos, k->nccl.protocols, &x->nccl);
    if (!x->possible)
        return x;
    for (int r = RESOURCE_NVLINK_TX; r < RESOURCE_N; r++) {
        scale(&a[r], r <= RESOURCE_NVLINK_RX ? x->nccl.nvlink_scale : x->nccl.nic_scale);
        busy_s = busiest_s(k, a, (enum sim_resource)r, (enum sim_resource)r);
        if (work <= 0 || busy_s > work)
            work = busy_s;
    }
    x->activity.latency_ps = sim_ps(calls * x->nccl.latency_s);
    x->alone_ps = sim_ps(fmax(calls * x->nccl.transfer_s, work) + calls * x->nccl.latency_s);
    /* a unit of work is a second of the busiest link */
    x->activity.work = work;
    x->activity.cap = work / (calls * x->nccl.transfer_s * 1e12);
    x->activity.weight = PRIORITY * x->activity.cap;
    x->activity.uses = uses;
    sm_amounts(&k->p->groups[o->coll.group],
               (double)k->c->device.collective_sms / k->c->device.n_sm * work / x->activity.cap,
               arena, &a[RESOURCE_SM]);
    for (int r = RESOURCE_SM; r < RESOURCE_N; r++)
        add_use(x, uses, (enum sim_resource)r, &a[r], work);
    return x;
}

/* ---- the cache ---- */

static uint64_t hash(const struct key *key)
{
    const unsigned char *b = (const unsigned char *)key;
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < sizeof(*key); i++)
        h = (h ^ b[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

static struct coll_cache_slot *slot(struct coll_cache *k, const struct key *key)
{
    size_t at;

    if (k->n * 2 >= k->cap) {
        struct coll_cache_slot *old = k->slots;
        size_t cap = k->cap;

        k->cap = cap ? 2 * cap : 256;
        k->slots = MEM_NEW(struct coll_cache_slot, k->cap);
        for (size_t i = 0; i < cap; i++)
            if (old[i].value)
                *slot(k, &old[i].key) = old[i];
        mem_free(old);
    }
    for (at = hash(key) & (k->cap - 1); k->slots[at].value; at = (at + 1) & (k->cap - 1))
        if (!memcmp(&k->slots[at].key, key, sizeof(*key)))
            break;
    return &k->slots[at];
}

static enum coll_algo fastest(const struct coll_cache *k, const struct op *o,
                              const struct instance *i)
{
    static const enum coll_algo tried[] = {ALGO_RING, ALGO_TREE, ALGO_P2P, ALGO_HIERARCHICAL};
    enum coll_algo best = ALGO_RING;
    int64_t best_ps = INT64_MAX;
    struct arena scratch;

    for (size_t n = 0; n < sizeof(tried) / sizeof(tried[0]); n++) {
        int64_t t;

        arena_init(&scratch);
        t = make(k, o, i, tried[n], &scratch)->alone_ps;
        arena_release(&scratch);
        if (t < best_ps) {
            best_ps = t;
            best = tried[n];
        }
    }
    return best;
}

const struct coll_activity *coll_get(struct coll_cache *k, const struct op *o,
                                     const struct instance *i, enum coll_algo algo)
{
    const struct collective *c = &o->coll;
    bool segments = c->kind == COLL_SEGMENT_GATHER || c->kind == COLL_SEGMENT_REDUCE;
    struct coll_cache_slot *s;
    struct key key;
    struct coll_activity *x;

    memset(&key, 0, sizeof(key));
    key.kind = (uint32_t)c->kind;
    key.algo = segments ? (uint32_t)algo : (uint32_t)ALGO_RING;
    key.group = c->group;
    key.repeat = c->repeat;
    key.wire = (uint32_t)c->wire;
    key.piece = c->piece_bytes;
    key.table = segments || c->rooted ? c->table : PROGRAM_NONE;
    key.refresh = segments && k->broadcasts && o->phase == PHASE_REFRESH;
    key.row = key.table != PROGRAM_NONE && k->p->segment_tables[c->table].n_units > 1 ? i->unit : 0;
    key.bytes = segments ? 0 : op_coll_bytes(k->p, o, i);
    s = slot(k, &key);
    if (s->value)
        return s->value;
    if (!segments ||
        (algo == ALGO_AUTO && coll_broadcasts(k, o, i) > 1)) /* NCCL's broadcast is a ring */
        algo = ALGO_RING;
    else if (algo == ALGO_AUTO)
        algo = fastest(k, o, i);
    x = make(k, o, i, algo, &k->arena);
    s->key = key;
    s->value = x;
    k->n++;
    return x;
}

int64_t sim_collective_ps(const struct program *p, const struct cluster *c, const struct op *o,
                          const struct instance *i, enum coll_algo algo)
{
    struct cluster domains = cluster_by_domain(c);
    struct coll_cache k;
    int64_t t;

    coll_cache_init(&k, p, &domains, NULL);
    t = coll_get(&k, o, i, algo)->alone_ps;
    coll_cache_release(&k);
    return t;
}
