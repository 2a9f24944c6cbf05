/* Direct sends between nodes over the routes of sim/fabric.h, summed without going through pairs.
 *
 * A product (model/direct.h) sends a_s b_t bytes from s to t. What s sends goes by the NIC that the receiver's NIC asks for
 * (fabric_sending_nic), so all that counts of the receivers is B[n], the sum of b over those with NIC n: without the sender's node,
 * and apart for its pod, whose leaves it need not leave. Receivers: a rank's own NIC takes all in (model/traffic.h's recv_inter).
 */
#include "sim/links.h"

#include "core/num.h"
#include "model/direct.h"

#include <string.h>

struct tally {
    const struct fabric *f;
    uint64_t *bytes[RESOURCE_N]; /* [instances], NULL: not there */
};

static void put(struct tally *t, enum sim_resource r, uint32_t instance, uint64_t bytes)
{
    if (t->bytes[r])
        t->bytes[r][instance] += bytes;
}

/* Up from one PCIe switch, down to another. */
static void put_root(struct tally *t, uint32_t node, uint8_t from, uint8_t to, uint64_t bytes)
{
    uint32_t first = node * t->f->c.pcie_switches;

    if (from == to)
        return;
    put(t, RESOURCE_ROOT_UP, first + from, bytes);
    put(t, RESOURCE_ROOT_DOWN, first + to, bytes);
}

/* ---- senders ---- */

/* `near` bytes to ranks of the pod that receive by NIC n, `far` to such of other pods. */
static void send(struct tally *t, uint32_t from, uint32_t n, uint64_t near, uint64_t far)
{
    const struct cluster *c = &t->f->c;
    uint32_t node = from / c->gpus_per_node, proxy, up, down;
    uint32_t nic = fabric_sending_nic(t->f, from, n, &proxy);

    if (proxy != from) {
        put(t, RESOURCE_NVLINK_TX, from, near + far);
        put(t, RESOURCE_NVLINK_RX, proxy, near + far);
    }
    put(t, RESOURCE_PCIE_TX, proxy, near + far);
    put_root(t, node, c->switch_of_gpu[proxy % c->gpus_per_node], c->switch_of_nic[nic],
             near + far);
    put(t, RESOURCE_NIC_TX, node * c->nics_per_node + nic, near + far);
    if (!t->f->n_pods)
        return;
    up = fabric_leaf(t->f, node, nic);
    down = fabric_leaf(t->f, node, n);
    put(t, RESOURCE_LEAF_UP, up, far + (up == down ? 0 : near));
    put(t, RESOURCE_LEAF_DOWN, down, up == down ? 0 : near);
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

static void senders(struct tally *t, const struct direct_product *x)
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

static void receivers(struct tally *t, const struct direct_product *x)
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
        put(t, RESOURCE_NIC_RX, node * c->nics_per_node + nic, bytes);
        put_root(t, node, c->switch_of_nic[nic], c->switch_of_gpu[local], bytes);
        put(t, RESOURCE_PCIE_RX, to, bytes);
        if (!f->n_pods)
            continue;
        if (!i || to / per_pod != x->to[i - 1].rank / per_pod)
            of_pod = sum_of(x->from, x->n_from, per_pod, to, &at_pod);
        put(t, RESOURCE_LEAF_DOWN, fabric_leaf(f, node, nic), (all - of_pod) * x->to[i].bytes);
    }
}

static void product(void *ctx, const struct direct_product *x)
{
    senders(ctx, x);
    receivers(ctx, x);
}

/* ---- together ---- */

/* What most instances have, if there is such a number (Boyer and Moore's vote); the others one by one. */
static void list(const uint64_t *bytes, uint32_t n, struct arena *arena, struct amounts *out)
{
    uint64_t every = 0;
    uint32_t votes = 0, differ = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (!votes)
            every = bytes[i];
        votes = bytes[i] == every ? votes + 1 : votes - 1;
    }
    for (uint32_t i = 0; i < n; i++)
        differ += bytes[i] != every;
    out->every = out->most = (double)every;
    out->only = ARENA_NEW(arena, struct fluid_amount, differ);
    for (uint32_t i = 0; i < n; i++)
        if (bytes[i] != every)
            links_note(out, i, (double)bytes[i]);
}

void links_direct(const struct coll_cache *k, const struct op *o, const struct instance *i,
                  enum coll_algo algo, const struct traffic *traffic, struct arena *arena,
                  struct amounts *out)
{
    const struct fabric *f = &k->fabric;
    struct tally t = {.f = f};

    for (int r = RESOURCE_NVLINK_TX; r < RESOURCE_N; r++)
        if (coll_is_there(f, (enum sim_resource)r))
            t.bytes[r] = MEM_NEW(uint64_t, coll_instances(f, (enum sim_resource)r));
    for (uint32_t r = 0, at = 0; r < k->p->world; r++) {
        const struct traffic_bytes *b = at < traffic->n_only && traffic->only[at].rank == r
                                            ? &traffic->only[at++].bytes
                                            : &traffic->every;

        put(&t, RESOURCE_NVLINK_TX, r, b->sent_intra);
        put(&t, RESOURCE_NVLINK_RX, r, b->recv_intra);
    }
    direct_flows(k->p, o, i, algo, product, &t);
    for (int r = RESOURCE_NVLINK_TX; r < RESOURCE_N; r++) {
        if (t.bytes[r])
            list(t.bytes[r], coll_instances(f, (enum sim_resource)r), arena, &out[r]);
        mem_free(t.bytes[r]);
    }
}
