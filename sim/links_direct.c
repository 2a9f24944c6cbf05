/* Direct sends between nodes over the routes of sim/fabric.h, summed without going through pairs.
 *
 * A product (model/program/direct.h) sends a_s b_t bytes from s to t. What s sends goes by the NIC that the receiver's NIC asks for
 * (fabric_sending_nic), so all that counts of the receivers is B[n], the sum of b over those with NIC n: without the sender's node,
 * and apart for its pod, whose leaves it need not leave. Receivers: a rank's own NIC takes all in (model/program/traffic.h's recv_inter).
 */
#include "sim/links.h"

#include "core/num.h"
#include "model/program/direct.h"
#include "model/plan/segment_algo.h"

#include <string.h>

struct sends {
    struct links_tally t;
    bool inside; /* also to ranks of the same node, message by message */
    bool pcie;   /* one of these passed PCIe */
};

/* ---- senders ---- */

/* `near` bytes to ranks of the pod that receive by NIC n, `far` to such of other pods. */
static void send(struct links_tally *t, uint32_t from, uint32_t n, uint64_t near, uint64_t far)
{
    const struct cluster *c = &t->f->c;
    uint32_t node = from / c->gpus_per_node, proxy, up, down;
    uint32_t nic = fabric_sending_nic(t->f, from, n, &proxy);

    if (proxy != from) {
        links_put(t, RESOURCE_NVLINK_TX, from, near + far);
        links_put(t, RESOURCE_NVLINK_RX, proxy, near + far);
    }
    links_put(t, RESOURCE_PCIE_TX, proxy, near + far);
    links_put_root(t, node, c->switch_of_gpu[proxy % c->gpus_per_node], c->switch_of_nic[nic],
                   near + far);
    links_put(t, RESOURCE_NIC_TX, node * c->nics_per_node + nic, near + far);
    if (!t->f->n_pods)
        return;
    up = fabric_leaf(t->f, node, nic);
    down = fabric_leaf(t->f, node, n);
    links_put(t, RESOURCE_LEAF_UP, up, far + (up == down ? 0 : near));
    links_put(t, RESOURCE_LEAF_DOWN, down, up == down ? 0 : near);
}

/* Receivers of one node or pod, by their NIC; a window that moves up the list. */
struct window {
    uint32_t per, at, first, end; /* ranks of a node or pod; which one; its receivers in the list */
    uint64_t by_nic[CLUSTER_MAX_NICS_PER_NODE];
};

static void move(struct window *w, const struct fabric *f, const struct direct_product *x,
                 uint32_t rank)
{
    if (w->end && rank / w->per == w->at)
        return;
    w->at = rank / w->per;
    memset(w->by_nic, 0, sizeof(w->by_nic));
    for (w->first = w->end; w->first < x->n_to && x->to[w->first].rank / w->per < w->at;)
        w->first++;
    for (w->end = w->first; w->end < x->n_to && x->to[w->end].rank / w->per == w->at; w->end++)
        w->by_nic[f->c.nic_of_gpu[x->to[w->end].rank % f->c.gpus_per_node]] += x->to[w->end].bytes;
}

static void senders(struct links_tally *t, const struct direct_product *x)
{
    const struct fabric *f = t->f;
    uint32_t gpn = f->c.gpus_per_node, per_pod = f->n_pods ? f->c.nodes_per_leaf : f->n_nodes;
    struct window all = {.per = f->n_nodes * gpn}, pod = {.per = per_pod * gpn},
                  node = {.per = gpn};

    move(&all, f, x, 0);
    for (uint32_t i = 0; i < x->n_from; i++) {
        uint32_t s = x->from[i].rank;

        move(&pod, f, x, s);
        move(&node, f, x, s);
        for (uint32_t n = 0; n < f->c.nics_per_node; n++) {
            uint64_t near = pod.by_nic[n] - node.by_nic[n], far = all.by_nic[n] - pod.by_nic[n];

            if (near || far)
                send(t, s, n, near * x->from[i].bytes, far * x->from[i].bytes);
        }
    }
}

/* ---- receivers ---- */

/* Bytes of the list on the node or pod of `rank`; *at moves up the list. */
static uint64_t sum_of(const struct direct_end *list, uint32_t n, uint32_t per, uint32_t rank,
                       uint32_t *at)
{
    uint64_t sum = 0;

    while (*at < n && list[*at].rank / per < rank / per)
        ++*at;
    for (uint32_t i = *at; i < n && list[i].rank / per == rank / per; i++)
        sum += list[i].bytes;
    return sum;
}

static void receivers(struct links_tally *t, const struct direct_product *x)
{
    const struct fabric *f = t->f;
    const struct cluster *c = &f->c;
    uint32_t gpn = c->gpus_per_node, at_node = 0, at_pod = 0;
    uint64_t all = 0, of_node = 0, of_pod = 0;

    for (uint32_t i = 0; i < x->n_from; i++)
        all += x->from[i].bytes;
    for (uint32_t i = 0; i < x->n_to; i++) {
        uint32_t to = x->to[i].rank, node = to / gpn, local = to % gpn, nic = c->nic_of_gpu[local];
        uint32_t per_pod = f->n_pods ? c->nodes_per_leaf * gpn : 1;
        uint64_t bytes;

        if (!i || node != x->to[i - 1].rank / gpn)
            of_node = sum_of(x->from, x->n_from, gpn, to, &at_node);
        bytes = (all - of_node) * x->to[i].bytes;
        links_put(t, RESOURCE_NIC_RX, node * c->nics_per_node + nic, bytes);
        links_put_root(t, node, c->switch_of_nic[nic], c->switch_of_gpu[local], bytes);
        links_put(t, RESOURCE_PCIE_RX, to, bytes);
        if (!f->n_pods)
            continue;
        if (!i || to / per_pod != x->to[i - 1].rank / per_pod)
            of_pod = sum_of(x->from, x->n_from, per_pod, to, &at_pod);
        links_put(t, RESOURCE_LEAF_DOWN, fabric_leaf(f, node, nic),
                  (all - of_pod) * x->to[i].bytes);
    }
}

/* ---- inside a node ---- */

static void neighbours(struct sends *s, const struct direct_product *x)
{
    uint32_t gpn = s->t.f->c.gpus_per_node, first = 0;

    for (uint32_t i = 0; i < x->n_from; i++) {
        uint32_t from = x->from[i].rank;

        while (first < x->n_to && x->to[first].rank / gpn < from / gpn)
            first++;
        for (uint32_t k = first; k < x->n_to && x->to[k].rank / gpn == from / gpn; k++)
            if (x->to[k].rank != from)
                s->pcie |=
                    links_message(&s->t, from, x->to[k].rank, x->from[i].bytes * x->to[k].bytes);
    }
}

static void product(void *ctx, const struct direct_product *x)
{
    struct sends *s = ctx;

    senders(&s->t, x);
    receivers(&s->t, x);
    if (s->inside)
        neighbours(s, x);
}

/* ---- together ---- */

double links_direct(const struct coll_cache *k, const struct op *o, const struct instance *i,
                    enum coll_algo algo, const struct traffic *traffic, struct arena *arena,
                    struct amounts *out)
{
    bool routes = links_have_routes(&k->fabric);
    struct sends s = {.inside = routes && !segment_algo(algo)->one_a_node};
    double pcie = 0;

    links_tally_init(&s.t, &k->fabric);
    for (uint32_t r = 0, at = 0; r < k->p->world && !routes; r++) {
        const struct traffic_bytes *b = at < traffic->n_only && traffic->only[at].rank == r
                                            ? &traffic->only[at++].bytes
                                            : &traffic->every;

        links_put(&s.t, RESOURCE_NVLINK_TX, r, b->sent_intra);
        links_put(&s.t, RESOURCE_NVLINK_RX, r, b->recv_intra);
    }
    if (routes && !s.inside)
        pcie = links_rings(k, o, traffic, k->p->world, &s.t);
    direct_flows(k->p, o, i, algo, product, &s);
    links_tally_finish(&s.t, arena, out);
    return s.pcie ? 1 : pcie;
}
