/* What moves inside a node whose GPUs are not all joined by NVLink: over NVLink in a domain, over
 * PCIe between domains, over the link between CPUs where PCIe's roots are of different ones.
 *
 * NCCL looks for rings by the kind of path first. Here a ring goes from a GPU to the nearest that
 * is not yet in it: joined by NVLink, else under the same PCIe switch, else of the same CPU, else
 * any; of equals the first. So a ring enters and leaves a domain once, whatever the GPUs' numbers.
 * All channels of a ring take the same hops. Of rings over nodes, which start and end at every GPU
 * in turn, every hop carries its share. Trees and relays of owners' segments are chains in a node,
 * and take these hops too; so do rings over ranges of a group. */
#include "sim/links.h"

enum nearness { NEAR_NVLINK, NEAR_SWITCH, NEAR_CPU, FAR_AWAY };

bool links_have_routes(const struct fabric *f)
{
    return cluster_is_split(&f->c) || f->c.n_cpus;
}

static enum nearness nearness(const struct fabric *f, uint32_t i, uint32_t j)
{
    const struct cluster *c = &f->c;

    if (fabric_joined(f, i, j))
        return NEAR_NVLINK;
    if (c->switch_of_gpu[i] == c->switch_of_gpu[j])
        return NEAR_SWITCH;
    return !c->n_cpus ||
                   c->cpu_of_switch[c->switch_of_gpu[i]] == c->cpu_of_switch[c->switch_of_gpu[j]]
               ? NEAR_CPU
               : FAR_AWAY;
}

/* GPUs of a node, ordered as a ring visits them. */
static void order(const struct fabric *f, uint32_t *gpu, uint32_t n)
{
    for (uint32_t at = 1; at < n; at++) {
        uint32_t best = at, next;

        for (uint32_t k = at + 1; k < n; k++) {
            enum nearness x = nearness(f, gpu[at - 1], gpu[k]),
                          least = nearness(f, gpu[at - 1], gpu[best]);

            if (x < least || (x == least && gpu[k] < gpu[best]))
                best = k;
        }
        next = gpu[best];
        gpu[best] = gpu[at];
        gpu[at] = next;
    }
}

/* The parts of a hop that carry what is sent, and what is received. */
static void hop_sent(struct links_tally *t, uint32_t node, uint32_t i, uint32_t j, uint64_t bytes)
{
    const struct cluster *c = &t->f->c;
    uint32_t first = node * c->gpus_per_node, cpu;
    uint8_t from = c->switch_of_gpu[i], to = c->switch_of_gpu[j];

    if (fabric_joined(t->f, i, j)) {
        links_put(t, RESOURCE_NVLINK_TX, first + i, bytes);
        return;
    }
    links_put(t, RESOURCE_PCIE_TX, first + i, bytes);
    if (from == to)
        return;
    links_put(t, RESOURCE_ROOT_UP, node * c->pcie_switches + from, bytes);
    if (fabric_crosses(t->f, node, from, to, &cpu))
        links_put(t, RESOURCE_CPU, cpu, bytes);
}

static void hop_received(struct links_tally *t, uint32_t node, uint32_t i, uint32_t j,
                         uint64_t bytes)
{
    const struct cluster *c = &t->f->c;
    uint32_t first = node * c->gpus_per_node;

    if (fabric_joined(t->f, i, j)) {
        links_put(t, RESOURCE_NVLINK_RX, first + j, bytes);
        return;
    }
    links_put(t, RESOURCE_PCIE_RX, first + j, bytes);
    if (c->switch_of_gpu[i] != c->switch_of_gpu[j])
        links_put(t, RESOURCE_ROOT_DOWN, node * c->pcie_switches + c->switch_of_gpu[j], bytes);
}

bool links_message(struct links_tally *out, uint32_t from, uint32_t to, uint64_t bytes)
{
    uint32_t g = out->f->c.gpus_per_node, node = from / g;

    hop_sent(out, node, from % g, to % g, bytes);
    hop_received(out, node, from % g, to % g, bytes);
    return !fabric_joined(out->f, from % g, to % g);
}

/* The ring of some GPUs of a node, `back`: run the other way; the share of its hops that pass PCIe.
 */
static double one_ring(const struct traffic *t, bool back, uint32_t node, uint32_t *gpu, uint32_t n,
                       struct links_tally *out)
{
    uint32_t first = node * out->f->c.gpus_per_node, pcie = 0;

    order(out->f, gpu, n);
    for (uint32_t k = 0; k < n && n > 1; k++) {
        uint32_t i = gpu[back ? (k + 1) % n : k], j = gpu[back ? k : (k + 1) % n];

        hop_sent(out, node, i, j, traffic_get(t, first + i).sent_intra);
        hop_received(out, node, i, j, traffic_get(t, first + j).recv_intra);
        pcie += !fabric_joined(out->f, i, j);
    }
    return (double)pcie / n;
}

static bool is_listed(const struct group *g, uint32_t rank)
{
    uint32_t i = 0;

    while (i < g->n_members && g->members[i] < rank)
        i++;
    return i < g->n_members && g->members[i] == rank;
}

double links_rings(const struct coll_cache *k, const struct op *o, const struct traffic *t,
                   uint32_t first, struct links_tally *out)
{
    const struct group *g = &k->p->groups[o->coll.group];
    bool back = o->coll.kind == COLL_REDUCE || o->coll.kind == COLL_SEGMENT_REDUCE;
    uint32_t per = k->fabric.c.gpus_per_node, gpu[CLUSTER_MAX_GPUS_PER_NODE];
    double share = 0;

    for (uint32_t node = 0; node * per < first; node++) {
        uint32_t end = (node + 1) * per < k->p->world ? (node + 1) * per : k->p->world;
        bool seen[CLUSTER_MAX_GPUS_PER_NODE] = {false};

        for (uint32_t r = node * per; r < end; r++) {
            uint32_t n = 0;

            if (seen[r % per] || (g->members && !is_listed(g, r)))
                continue;
            for (uint32_t q = r; q < end; q++)
                if (g->members ? is_listed(g, q) : group_base(g, q) == group_base(g, r)) {
                    gpu[n++] = q % per;
                    seen[q % per] = true;
                }
            if (n) {
                double x = one_ring(t, back, node, gpu, n, out);

                share = x > share ? x : share;
            }
        }
    }
    return share;
}
