#include "sim/fabric.h"

#include "core/num.h"

#include <math.h>
#include <string.h>

enum { NO_GPU = 255, ALL = CLUSTER_MAX_GPUS_PER_NODE * 2 + CLUSTER_MAX_NICS_PER_NODE * 2 };

const char *fabric_kind_name(enum fabric_kind k)
{
    static const char *const names[FABRIC_KIND_N] = {
        "NVLink up", "NVLink down", "NVLink",       "PCIe up",       "PCIe down",
        "root up",   "root down",   "CPU to CPU",   "PCIe to NIC",   "NIC to PCIe",
        "NIC send",  "NIC receive", "leaf up-link", "leaf down-link"};

    return names[k];
}

static uint32_t gpus(const struct fabric *f)
{
    return f->c.gpus_per_node;
}

static uint32_t nics(const struct fabric *f)
{
    return f->c.nics_per_node;
}

/* ---- checks ---- */

static int above_0(const struct cluster *c, const char *what, double v, struct err *e)
{
    if (!(v > 0) || isinf(v))
        return err_set(e, ERR_INVALID, "cluster '%.100s': %s is %g, expected a number > 0", c->name,
                       what, v);
    return 0;
}

static int check_rates(const struct fabric *f, struct err *e)
{
    const struct cluster *c = &f->c;

    if ((gpus(f) > 1 && c->domain_gpus != 1 &&
         (above_0(c, "NVLink's rate", c->nvlink_Bps, e) ||
          above_0(c, "NVLink's efficiency", c->nvlink_efficiency, e))) ||
        (c->pcie_switches && above_0(c, "PCIe's rate", c->pcie_Bps, e)) ||
        (c->n_cpus && above_0(c, "the rate between CPUs", c->cpu_Bps, e)))
        return -1;
    if (cluster_is_split(c) && !c->pcie_switches)
        return err_set(e, ERR_INVALID,
                       "cluster '%.100s': NVLink does not join all GPUs of a node, and no PCIe is "
                       "described",
                       c->name);
    if (f->n_nodes < 2)
        return 0;
    if (!nics(f))
        return err_set(e, ERR_INVALID,
                       "cluster '%.100s': %u ranks are on %u nodes, and no NIC connects them",
                       c->name, f->world, f->n_nodes);
    return above_0(c, "a NIC's rate", c->nic_Bps, e) ||
                   above_0(c, "a NIC's efficiency", c->nic_efficiency, e) ||
                   above_0(c, "oversubscription", c->oversubscription, e)
               ? -1
               : 0;
}

static int check_places(const struct fabric *f, struct err *e)
{
    const struct cluster *c = &f->c;

    for (uint32_t g = 0; g < gpus(f); g++) {
        if (nics(f) && c->nic_of_gpu[g] >= nics(f))
            return err_set(e, ERR_INVALID, "cluster '%.100s': GPU %u uses NIC %u, expected 0 to %u",
                           c->name, g, c->nic_of_gpu[g], nics(f) - 1);
        if (c->pcie_switches && c->switch_of_gpu[g] >= c->pcie_switches)
            return err_set(e, ERR_INVALID,
                           "cluster '%.100s': GPU %u is under PCIe switch %u, expected 0 to %u",
                           c->name, g, c->switch_of_gpu[g], c->pcie_switches - 1);
    }
    for (uint32_t n = 0; n < nics(f); n++)
        if (c->pcie_switches && c->switch_of_nic[n] >= c->pcie_switches)
            return err_set(e, ERR_INVALID,
                           "cluster '%.100s': NIC %u is under PCIe switch %u, expected 0 to %u",
                           c->name, n, c->switch_of_nic[n], c->pcie_switches - 1);
    return 0;
}

/* Between GPUs with direct links: one link, two, or PCIe. */
static uint32_t between(const struct fabric *f, uint32_t i, uint32_t j);

static int check_reach(const struct fabric *f, struct err *e)
{
    uint32_t g = gpus(f);

    if (!f->nvlinks || f->c.pcie_switches)
        return 0;
    for (uint32_t i = 0; i < g; i++)
        for (uint32_t j = 0; j < g; j++)
            if (i != j && !f->nvlinks[i * g + j] && between(f, i, j) == g)
                return err_set(
                    e, ERR_INVALID,
                    "cluster '%.100s': GPU %u does not reach GPU %u: no NVLink, none over "
                    "a third GPU, and no PCIe is described",
                    f->c.name, i, j);
    return 0;
}

/* ---- colours ---- */

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 33;
}

/* GPUs, NICs, switches of a node as vertices 0 .. n-1. */
struct colours {
    uint64_t now[ALL], next[ALL];
    uint32_t n;
};

static void meet(struct colours *x, uint32_t i, uint32_t j, uint64_t edge)
{
    x->next[i] += mix(x->now[j] + edge);
    x->next[j] += mix(x->now[i] + edge);
}

static uint32_t n_distinct(const uint64_t *h, uint32_t n, uint16_t *rank)
{
    uint32_t distinct = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = 0;

        while (h[j] != h[i])
            j++;
        rank[i] = j < i ? rank[j] : (uint16_t)distinct++;
    }
    return distinct;
}

static uint32_t n_of_cpu(const struct cluster *c, uint32_t cpu)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < c->pcie_switches; s++)
        n += c->cpu_of_switch[s] == cpu;
    return n;
}

/* Each gets a new colour from its own and its neighbours', until no more are told apart. */
static void colour(struct fabric *f)
{
    const struct cluster *c = &f->c;
    uint32_t g = gpus(f), n = nics(f), at_nic = g, at_switch = g + n, before = 0, distinct;
    struct colours x = {.n = g + n + c->pcie_switches};
    uint16_t rank[ALL];

    for (uint32_t i = 0; i < x.n; i++)
        x.now[i] = i < at_nic ? 1 : i < at_switch ? 2 : 3;
    for (uint32_t s = 0; c->n_cpus && s < c->pcie_switches; s++)
        x.now[at_switch + s] += 3 * n_of_cpu(c, c->cpu_of_switch[s]);
    while ((distinct = n_distinct(x.now, x.n, rank)) > before) {
        before = distinct;
        for (uint32_t i = 0; i < x.n; i++)
            x.next[i] = mix(x.now[i]);
        for (uint32_t i = 0; i < g; i++) {
            if (n)
                meet(&x, i, at_nic + c->nic_of_gpu[i], 1);
            if (c->pcie_switches)
                meet(&x, i, at_switch + c->switch_of_gpu[i], 2);
            for (uint32_t j = 0; f->nvlinks && j < i; j++)
                meet(&x, i, j, 4 + f->nvlinks[i * g + j]);
            for (uint32_t j = 0; !f->nvlinks && cluster_is_split(c) && j < i; j++)
                if (fabric_joined(f, i, j))
                    meet(&x, i, j, 4);
        }
        for (uint32_t s = 0; c->n_cpus && s < c->pcie_switches; s++)
            for (uint32_t r = 0; r < s; r++)
                if (c->cpu_of_switch[s] == c->cpu_of_switch[r])
                    meet(&x, at_switch + s, at_switch + r, 5);
        for (uint32_t i = 0; c->pcie_switches && i < n; i++)
            meet(&x, at_nic + i, at_switch + c->switch_of_nic[i], 3);
        memcpy(x.now, x.next, sizeof(x.now));
    }
    memcpy(f->gpu_colour, rank, g * sizeof(*rank));
    memcpy(f->nic_colour, rank + at_nic, n * sizeof(*rank));
    memcpy(f->switch_colour, rank + at_switch, c->pcie_switches * sizeof(*rank));
}

/* ---- making it ---- */

/* As many links to each other GPU of its domain. */
static const uint8_t *all_pairs(const struct fabric *f, struct arena *a)
{
    uint32_t g = gpus(f);
    uint8_t *counts = ARENA_NEW(a, uint8_t, (size_t)g * g);

    for (uint32_t i = 0; i < g * g; i++)
        counts[i] = i / g != i % g && fabric_joined(f, i / g, i % g);
    return counts;
}

static uint32_t most_links(const uint8_t *counts, uint32_t g)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < g; i++) {
        uint32_t sum = 0;

        for (uint32_t j = 0; j < g; j++)
            sum += counts[i * g + j];
        most = (uint32_t)num_max(most, sum);
    }
    return most;
}

bool fabric_joined(const struct fabric *f, uint32_t gpu, uint32_t other)
{
    return !cluster_is_split(&f->c) || f->c.domain_of_gpu[gpu] == f->c.domain_of_gpu[other];
}

int fabric_init(struct fabric *f, const struct cluster *c, uint32_t world, const uint8_t *nvlinks,
                struct arena *a, struct err *e)
{
    uint32_t most;

    memset(f, 0, sizeof(*f));
    f->c = cluster_by_domain(c);
    f->world = world;
    if (!world || world > CLUSTER_MAX_RANKS)
        return err_set(e, ERR_INVALID, "a fabric of %u ranks, expected 1 to %d", world,
                       CLUSTER_MAX_RANKS);
    f->n_nodes = (uint32_t)num_ceil_div(world, gpus(f));
    f->nvlinks = nvlinks;
    if (!nvlinks && !c->nvswitch && gpus(f) > 1 && c->domain_gpus != 1)
        f->nvlinks = all_pairs(f, a);
    f->n_rails = f->c.rail_optimised && nics(f) ? c->nics_per_node : 1;
    if (f->c.nodes_per_leaf)
        f->n_pods = (uint32_t)num_ceil_div(f->n_nodes, f->c.nodes_per_leaf);
    if (check_rates(f, e) || check_places(f, e) || check_reach(f, e))
        return -1;
    most = f->nvlinks ? most_links(f->nvlinks, gpus(f)) : 0;
    f->link_Bps = most ? f->c.nvlink_Bps * f->c.nvlink_efficiency / most : 0;
    memset(f->via, NO_GPU, sizeof(f->via));
    for (uint32_t g = gpus(f); nics(f) && g-- > 0;)
        f->via[f->c.nic_of_gpu[g]] = (uint8_t)g;
    colour(f);
    return 0;
}

static uint32_t gpu_at(const struct topology *t, const char *busid)
{
    for (uint32_t g = 0; g < t->n_gpus; g++)
        if (!strcmp(t->gpus[g].busid, busid))
            return g;
    return t->n_gpus;
}

int fabric_nvlinks(const struct topology *t, struct arena *a, const uint8_t **counts, struct err *e)
{
    uint32_t n = t->n_gpus, direct = 0;
    uint8_t *x = ARENA_NEW(a, uint8_t, (size_t)n * n);

    memset(x, 0, (size_t)n * n);
    *counts = NULL;
    if (t->form == TOPOLOGY_SMI && t->joined && n && !t->gpus[0].to_switch) {
        for (uint32_t i = 0; i < n * n; i++)
            direct += x[i] = (uint8_t)num_min(255, t->joined[i]);
        *counts = direct ? x : NULL;
        return 0;
    }
    for (uint32_t i = 0; i < t->n_nvlinks; i++) {
        const struct topology_nvlink *l = &t->nvlinks[i];
        uint32_t to = gpu_at(t, l->target);

        if (t->gpus[l->gpu].to_switch ||
            to == l->gpu) /* some files name the GPU itself: not said */
            continue;
        if (to == n)
            return err_set(e, ERR_INVALID,
                           "'%s': line %u: an NVLink ends at '%s', which is no GPU of the file",
                           t->file, l->line, l->target);
        x[l->gpu * n + to] = (uint8_t)num_min(255, x[l->gpu * n + to] + l->count);
        direct++;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            if (x[i * n + j] != x[j * n + i])
                return err_set(e, ERR_INVALID,
                               "'%s': GPU %u has %u NVLinks to GPU %u, which has %u back", t->file,
                               i, x[i * n + j], j, x[j * n + i]);
    if (direct)
        *counts = x;
    return 0;
}

/* ---- links ---- */

uint64_t fabric_n(const struct fabric *f, enum fabric_kind k)
{
    bool out = f->n_nodes > 1, pcie = f->c.pcie_switches > 0;

    switch (k) {
    case FABRIC_NVLINK_UP:
    case FABRIC_NVLINK_DOWN:
        return f->nvlinks || gpus(f) < 2 || f->c.domain_gpus == 1 ? 0 : f->world;
    case FABRIC_NVLINK_PAIR:
        return f->nvlinks ? (uint64_t)f->n_nodes * gpus(f) * gpus(f) : 0;
    case FABRIC_PCIE_UP:
    case FABRIC_PCIE_DOWN:
        return pcie ? f->world : 0;
    case FABRIC_ROOT_UP:
    case FABRIC_ROOT_DOWN:
        return (uint64_t)f->n_nodes * f->c.pcie_switches;
    case FABRIC_CPU:
        return (uint64_t)f->n_nodes * f->c.n_cpus;
    case FABRIC_PCIE_OUT:
    case FABRIC_PCIE_IN:
        return pcie ? (uint64_t)f->n_nodes * nics(f) : 0;
    case FABRIC_NIC_TX:
    case FABRIC_NIC_RX:
        return out ? (uint64_t)f->n_nodes * nics(f) : 0;
    case FABRIC_LEAF_UP:
    case FABRIC_LEAF_DOWN:
        return out ? (uint64_t)f->n_pods * f->n_rails : 0;
    case FABRIC_KIND_N:
        break;
    }
    return 0;
}

/* Nodes under a leaf: the last pod may have fewer. */
static uint32_t nodes_under(const struct fabric *f, uint32_t leaf)
{
    uint32_t per = f->c.nodes_per_leaf, first = leaf / f->n_rails * per;

    return (uint32_t)num_min(per, f->n_nodes - first);
}

double fabric_Bps(const struct fabric *f, enum fabric_kind k, uint32_t instance)
{
    const struct cluster *c = &f->c;
    double nic = c->nic_Bps * c->nic_efficiency;

    BUG_ON(instance >= fabric_n(f, k));
    switch (k) {
    case FABRIC_NVLINK_UP:
    case FABRIC_NVLINK_DOWN:
        return c->nvlink_Bps * c->nvlink_efficiency;
    case FABRIC_NVLINK_PAIR:
        return f->nvlinks[instance % (gpus(f) * gpus(f))] * f->link_Bps;
    case FABRIC_PCIE_UP:
    case FABRIC_PCIE_DOWN:
    case FABRIC_ROOT_UP:
    case FABRIC_ROOT_DOWN:
    case FABRIC_PCIE_OUT:
    case FABRIC_PCIE_IN:
        return c->pcie_Bps * (c->pcie_efficiency > 0 ? c->pcie_efficiency : 1);
    case FABRIC_CPU:
        return c->cpu_Bps;
    case FABRIC_NIC_TX:
    case FABRIC_NIC_RX:
        return nic;
    case FABRIC_LEAF_UP: /* built for a full pod */
    case FABRIC_LEAF_DOWN:
        return c->nodes_per_leaf * (nics(f) / f->n_rails) * nic / c->oversubscription;
    case FABRIC_KIND_N:
        break;
    }
    return 0;
}

uint64_t fabric_class(const struct fabric *f, struct fabric_link l)
{
    uint32_t g = gpus(f), i = l.instance, a = 0, b = 0, n = 0;

    switch (l.kind) {
    case FABRIC_NVLINK_PAIR:
        a = f->gpu_colour[i / g % g];
        b = f->gpu_colour[i % g];
        n = f->nvlinks[i % (g * g)];
        break;
    case FABRIC_ROOT_UP:
    case FABRIC_ROOT_DOWN:
        a = f->switch_colour[i % f->c.pcie_switches];
        break;
    case FABRIC_CPU: /* of its switches, all alike or told apart by them */
        for (uint32_t s = 0; s < f->c.pcie_switches; s++)
            if (f->c.cpu_of_switch[s] == i % f->c.n_cpus)
                a = a > f->switch_colour[s] ? a : f->switch_colour[s];
        break;
    case FABRIC_PCIE_OUT:
    case FABRIC_PCIE_IN:
    case FABRIC_NIC_TX:
    case FABRIC_NIC_RX:
        a = f->nic_colour[i % nics(f)];
        break;
    case FABRIC_LEAF_UP:
    case FABRIC_LEAF_DOWN:
        n = nodes_under(f, i);
        break;
    default:
        a = f->gpu_colour[i % g];
    }
    return (uint64_t)l.kind << 56 | (uint64_t)a << 44 | (uint64_t)b << 32 | n;
}

/* ---- routes ---- */

static void add(struct fabric_route *r, enum fabric_kind kind, uint64_t instance)
{
    BUG_ON(r->n == FABRIC_MAX_LINKS);
    r->links[r->n++] = (struct fabric_link){kind, (uint32_t)instance};
}

/* The GPU with the widest two links between i and j, the lowest of equals; the number of GPUs when there is none. */
static uint32_t between(const struct fabric *f, uint32_t i, uint32_t j)
{
    uint32_t g = gpus(f), best = g, most = 0;

    for (uint32_t k = 0; k < g; k++) {
        uint32_t width = (uint32_t)num_min(f->nvlinks[i * g + k], f->nvlinks[k * g + j]);

        if (width > most) {
            most = width;
            best = k;
        }
    }
    return best;
}

static void add_pair(const struct fabric *f, uint32_t node, uint32_t i, uint32_t j,
                     struct fabric_route *r)
{
    add(r, FABRIC_NVLINK_PAIR, ((uint64_t)node * gpus(f) + i) * gpus(f) + j);
}

bool fabric_crosses(const struct fabric *f, uint32_t node, uint32_t from, uint32_t to,
                    uint32_t *instance)
{
    const struct cluster *c = &f->c;

    if (!c->n_cpus || c->cpu_of_switch[from] == c->cpu_of_switch[to])
        return false;
    *instance = node * c->n_cpus + c->cpu_of_switch[from];
    return true;
}

/* Up to the root and down again, when the switches differ, over the link between CPUs when these
 * do. */
static void add_root(const struct fabric *f, uint32_t node, uint32_t from, uint32_t to,
                     struct fabric_route *r)
{
    uint32_t cpu;

    if (from == to)
        return;
    add(r, FABRIC_ROOT_UP, (uint64_t)node * f->c.pcie_switches + from);
    if (fabric_crosses(f, node, from, to, &cpu))
        add(r, FABRIC_CPU, cpu);
    add(r, FABRIC_ROOT_DOWN, (uint64_t)node * f->c.pcie_switches + to);
}

static void inside(const struct fabric *f, uint32_t from, uint32_t to, struct fabric_route *r)
{
    uint32_t g = gpus(f), node = from / g, i = from % g, j = to % g, k;

    if (from == to)
        return;
    if (!f->nvlinks && fabric_joined(f, i, j)) {
        add(r, FABRIC_NVLINK_UP, from);
        add(r, FABRIC_NVLINK_DOWN, to);
        return;
    }
    if (f->nvlinks && f->nvlinks[i * g + j]) {
        add_pair(f, node, i, j, r);
        return;
    }
    k = f->nvlinks ? between(f, i, j) : g;
    if (k < g) {
        add_pair(f, node, i, k, r);
        add_pair(f, node, k, j, r);
        return;
    }
    add(r, FABRIC_PCIE_UP, from);
    add_root(f, node, f->c.switch_of_gpu[i], f->c.switch_of_gpu[j], r);
    add(r, FABRIC_PCIE_DOWN, to);
}

/* Does a rank use this NIC that is of the node that starts with rank `first`, and that NVLink joins
 * with `from`? */
static bool is_used(const struct fabric *f, uint32_t from, uint32_t first, uint32_t nic)
{
    return f->via[nic] != NO_GPU && first + f->via[nic] < f->world &&
           fabric_joined(f, from - first, f->via[nic]);
}

uint32_t fabric_sending_nic(const struct fabric *f, uint32_t from, uint32_t receiving,
                            uint32_t *proxy)
{
    uint32_t own = f->c.nic_of_gpu[from % gpus(f)], first = from / gpus(f) * gpus(f);
    uint32_t rail = receiving % f->n_rails;

    *proxy = from;
    if (f->n_rails == 1 || own % f->n_rails == rail)
        return own;
    if (!is_used(f, from, first, receiving))
        for (receiving = rail; receiving < nics(f) && !is_used(f, from, first, receiving);)
            receiving += f->n_rails;
    if (receiving >= nics(f))
        return own;
    *proxy = first + f->via[receiving];
    return receiving;
}

uint32_t fabric_leaf(const struct fabric *f, uint32_t node, uint32_t nic)
{
    return node / f->c.nodes_per_leaf * f->n_rails + nic % f->n_rails;
}

static void outside(const struct fabric *f, uint32_t from, uint32_t to, struct fabric_route *r)
{
    const struct cluster *c = &f->c;
    uint32_t g = gpus(f), a = from / g, b = to / g, receiving = c->nic_of_gpu[to % g];
    uint32_t sending = fabric_sending_nic(f, from, receiving, &r->proxy);

    inside(f, from, r->proxy, r);
    if (c->pcie_switches) {
        add(r, FABRIC_PCIE_UP, r->proxy);
        add_root(f, a, c->switch_of_gpu[r->proxy % g], c->switch_of_nic[sending], r);
        add(r, FABRIC_PCIE_OUT, (uint64_t)a * nics(f) + sending);
    }
    add(r, FABRIC_NIC_TX, (uint64_t)a * nics(f) + sending);
    if (f->n_pods && fabric_leaf(f, a, sending) != fabric_leaf(f, b, receiving)) {
        add(r, FABRIC_LEAF_UP, fabric_leaf(f, a, sending));
        add(r, FABRIC_LEAF_DOWN, fabric_leaf(f, b, receiving));
    }
    add(r, FABRIC_NIC_RX, (uint64_t)b * nics(f) + receiving);
    if (c->pcie_switches) {
        add(r, FABRIC_PCIE_IN, (uint64_t)b * nics(f) + receiving);
        add_root(f, b, c->switch_of_nic[receiving], c->switch_of_gpu[to % g], r);
        add(r, FABRIC_PCIE_DOWN, to);
    }
}

void fabric_route(const struct fabric *f, uint32_t from, uint32_t to, struct fabric_route *out)
{
    BUG_ON(from >= f->world || to >= f->world);
    out->n = 0;
    out->proxy = from;
    if (from / gpus(f) == to / gpus(f))
        inside(f, from, to, out);
    else
        outside(f, from, to, out);
}

double fabric_route_Bps(const struct fabric *f, const struct fabric_route *r)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < r->n; i++)
        least = fmin(least, fabric_Bps(f, r->links[i].kind, r->links[i].instance));
    return least;
}
