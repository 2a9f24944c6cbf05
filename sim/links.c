#include "sim/links.h"

#include "core/num.h"
#include "model/program/direct.h"
#include "model/plan/segment_algo.h"
#include "model/program/tree.h"

#include <math.h>

void links_note(struct amounts *a, uint32_t instance, double amount)
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
        links_note(out, t->only[i].rank, nvlink_bytes(&t->only[i].bytes, tx));
}

/* What leaves and enters a node, by GPU. */
static void pcie_amounts(const struct traffic *t, bool tx, struct arena *a, struct amounts *out)
{
    out->every = out->most = (double)(tx ? t->every.sent_inter : t->every.recv_inter);
    out->only = ARENA_NEW(a, struct fluid_amount, t->n_only);
    for (uint32_t i = 0; i < t->n_only; i++)
        links_note(out, t->only[i].rank,
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
            links_note(out, node * s->n + n, sum[n]);
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
            links_note(out, t->only[i].rank, all_bytes(&t->only[i].bytes));
    }
    if (!g->members)
        out->every = out->most = sum / first;
}

/* NVLink, PCIe and the link between CPUs, where bytes inside a node have routes. */
static double routed_amounts(const struct coll_cache *k, const struct op *o,
                             const struct traffic *t, struct arena *arena, struct amounts *out)
{
    const struct cluster *c = &k->fabric.c;
    struct links_tally tally;
    double pcie;

    links_tally_init(&tally, &k->fabric);
    pcie = links_rings(k, o, t, k->first, &tally);
    for (uint32_t r = 0; r < k->first && c->nics_per_node; r++) {
        uint32_t gpu = r % c->gpus_per_node, node = r / c->gpus_per_node;
        struct traffic_bytes b = traffic_get(t, r);
        uint8_t own = c->switch_of_gpu[gpu], of_nic = c->switch_of_nic[c->nic_of_gpu[gpu]];

        links_put(&tally, RESOURCE_PCIE_TX, r, b.sent_inter);
        links_put_root(&tally, node, own, of_nic, b.sent_inter);
        links_put(&tally, RESOURCE_PCIE_RX, r, b.recv_inter);
        links_put_root(&tally, node, of_nic, own, b.recv_inter);
    }
    links_tally_finish(&tally, arena, out);
    return pcie;
}

/* ---- leaves: one function a way ---- */

/* On rails, as a ring's; sends between two ranks are elsewhere (links_direct.c). */
static void leaves_ring(const struct coll_cache *k, const struct op *o, const struct instance *i,
                        const struct group_shape *s, struct amounts *out)
{
    (void)i;
    ring_leaves(k, s, o->coll.rooted, &out[RESOURCE_NIC_TX], &out[RESOURCE_LEAF_UP]);
    ring_leaves(k, s, o->coll.rooted, &out[RESOURCE_NIC_RX], &out[RESOURCE_LEAF_DOWN]);
}

static void leaves_tree(const struct coll_cache *k, const struct op *o, const struct instance *i,
                        const struct group_shape *s, struct amounts *out)
{
    tree_leaves(k, s, (double)op_coll_bytes(k->p, o, i), o->coll.kind == COLL_SEGMENT_REDUCE,
                &out[RESOURCE_LEAF_UP], &out[RESOURCE_LEAF_DOWN]);
}
#define leaves_p2p          leaves_ring
#define leaves_hierarchical leaves_ring
#define leaves_padded       leaves_ring

static void (*const leaves[ALGO_N])(const struct coll_cache *, const struct op *,
                                    const struct instance *, const struct group_shape *,
                                    struct amounts *) = {
#define X(v, way) [v] = leaves_##way,
    SEGMENT_ALGOS(X)
#undef X
};

double links_of(const struct coll_cache *k, const struct op *o, const struct instance *i,
                enum coll_algo algo, const struct group_shape *s, const struct traffic *t,
                struct arena *arena, struct amounts *out)
{
    bool routes = links_have_routes(&k->fabric);
    double pcie = 0;

    hbm_amounts(t, &k->p->groups[o->coll.group], k->first, arena, &out[RESOURCE_HBM]);
    if ((s->nodes > 1 || routes) && direct_is(k->p, o, i, algo)) {
        struct traffic all = *t;

        if (k->first < k->p->world)
            traffic_of(k->p, o, i, algo, arena, &all);
        return links_direct(k, o, i, algo, &all, arena, out);
    }
    if (routes) {
        pcie = routed_amounts(k, o, t, arena, out);
    } else {
        nvlink_amounts(t, true, arena, &out[RESOURCE_NVLINK_TX]);
        nvlink_amounts(t, false, arena, &out[RESOURCE_NVLINK_RX]);
        all_pcie_amounts(k, t, arena, out);
    }
    nic_amounts(k, t, true, arena, &out[RESOURCE_NIC_TX]);
    nic_amounts(k, t, false, arena, &out[RESOURCE_NIC_RX]);
    if (traffic_to_ranges(k->p, o, i))
        leaves_ring(k, o, i, s, out);
    else
        leaves[algo](k, o, i, s, out);
    return pcie;
}
