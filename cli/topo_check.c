/* Rates that follow from a description, and what is suspicious about it. Each finding is one line that names the
 * numbers, so that it can be checked by eye. */
#include "cli/topo.h"

#include "core/units.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

struct topo_rates topo_rates(const struct cluster *c)
{
    struct topo_rates r = {.nvlink_Bps = c->nvlink_Bps * c->nvlink_efficiency,
                           .pcie_Bps = c->pcie_switches == 0    ? 0
                                       : c->pcie_efficiency > 0 ? c->pcie_Bps * c->pcie_efficiency
                                                                : c->pcie_Bps};
    uint32_t on[CLUSTER_MAX_NICS_PER_NODE] = {0};
    double nic = c->nic_Bps * c->nic_efficiency;

    if (!c->nics_per_node)
        return r;
    for (uint32_t g = 0; g < c->gpus_per_node; g++) {
        uint32_t n = ++on[c->nic_of_gpu[g]];

        r.nics_used += n == 1;
        if (n > r.gpus_on_busy_nic)
            r.gpus_on_busy_nic = n;
    }
    r.nic_Bps = nic / r.gpus_on_busy_nic;
    r.node_Bps = r.nics_used * nic;
    r.bisection_Bps = r.node_Bps;
    if (c->n_nodes <= c->domain_nodes && cluster_is_split(c))
        r.bisection_Bps = fmin(r.pcie_Bps * fmin(c->gpus_per_node, c->pcie_switches),
                               c->n_cpus ? c->n_cpus * c->cpu_Bps : INFINITY);
    else if (c->n_nodes <= c->domain_nodes)
        r.bisection_Bps = r.nvlink_Bps * c->gpus_per_node;
    else if (c->nodes_per_leaf && c->n_nodes > c->nodes_per_leaf)
        r.bisection_Bps /= c->oversubscription;
    return r;
}

struct list {
    struct topo_finding *f;
    size_t n;
    struct arena *a;
};
enum { MAX_FINDINGS = 32 };

static void say(struct list *l, bool warning, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void say(struct list *l, bool warning, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    BUG_ON(l->n == MAX_FINDINGS);
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    l->f[l->n++] = (struct topo_finding){warning, 0, arena_strdup(l->a, text)};
}

static void check_nics(const struct cluster *c, const struct topo_rates *r, struct list *l)
{
    if (!c->nics_per_node) {
        say(l, false, "no NICs: one node only");
        return;
    }
    if (c->nics_per_node < c->gpus_per_node)
        say(l, false, "%u NICs for %u GPUs: up to %u GPUs share one", c->nics_per_node,
            c->gpus_per_node, r->gpus_on_busy_nic);
    else if (r->gpus_on_busy_nic > 1)
        say(l, true, "%u GPUs share a NIC although there is one for each", r->gpus_on_busy_nic);
    if (r->gpus_on_busy_nic * r->nics_used > c->gpus_per_node)
        say(l, true, "GPUs are spread unevenly over NICs: %u on the busiest of %u",
            r->gpus_on_busy_nic, r->nics_used);
    if (r->nics_used < c->nics_per_node)
        say(l, true, "%u of %u NICs: no GPU uses them, and they carry nothing",
            c->nics_per_node - r->nics_used, c->nics_per_node);
    if (r->nvlink_Bps > 0 && r->nvlink_Bps < r->nic_Bps)
        say(l, true, "NVLink gives a GPU %s and its NIC %s: slower inside the node than outside",
            units_show_bandwidth(r->nvlink_Bps).s, units_show_bandwidth(r->nic_Bps).s);
    if (c->nic_Bps < 1.25e9)
        say(l, true, "a NIC of %s: below 10 Gb/s, every collective over nodes waits for it",
            units_show_bandwidth(c->nic_Bps).s);
    if (c->nic_efficiency < 0.7)
        say(l, true, "node.nic.efficiency is %s: healthy RDMA reaches 0.85 to 0.97",
            units_show_double(c->nic_efficiency).s);
}

static void check_pcie(const struct cluster *c, struct list *l)
{
    uint32_t far = 0, first = 0, empty = 0;
    bool used[256] = {false};

    if (!c->pcie_switches) {
        say(l, false, "PCIe switches are not described");
        return;
    }
    for (uint32_t g = 0; g < c->gpus_per_node; g++) {
        used[c->switch_of_gpu[g]] = true;
        if (c->nics_per_node && c->switch_of_gpu[g] != c->switch_of_nic[c->nic_of_gpu[g]] && !far++)
            first = g;
    }
    for (uint32_t n = 0; n < c->nics_per_node; n++)
        used[c->switch_of_nic[n]] = true;
    for (uint32_t s = 0; s < c->pcie_switches; s++)
        empty += !used[s];
    if (far)
        say(l, true, "%u GPU%s by a NIC on another PCIe switch, as GPU %u by NIC %u", far,
            far > 1 ? "s send" : " sends", first, c->nic_of_gpu[first]);
    if (c->nics_per_node && c->pcie_Bps < c->nic_Bps)
        say(l, true, "a PCIe switch's uplink of %s is slower than a NIC of %s: a bad link?",
            units_show_bandwidth(c->pcie_Bps).s, units_show_bandwidth(c->nic_Bps).s);
    if (empty)
        say(l, true, "%u PCIe switches have neither GPU nor NIC", empty);
}

static void check_split(const struct cluster *c, const struct topo_rates *r, struct list *l)
{
    const char *cpus =
        c->n_cpus ? arena_printf(l->a, ", and %s between CPUs", units_show_bandwidth(c->cpu_Bps).s)
                  : "";

    if (cluster_is_split(c) && c->domain_gpus > 1)
        say(l, false,
            "NVLink joins %u of %u GPUs of a node: collectives of more pass PCIe, %s%s; no "
            "measured "
            "table is of such a node",
            c->domain_gpus, c->gpus_per_node, units_show_bandwidth(r->pcie_Bps).s, cpus);
    else if (cluster_is_split(c))
        say(l, false, "no NVLink: collectives pass PCIe, %s%s; no measured table is of such a node",
            units_show_bandwidth(r->pcie_Bps).s, cpus);
}

static void check_fabric(const struct cluster *c, struct list *l)
{
    if (!c->nics_per_node)
        return;
    if (c->oversubscription > 1 && c->n_nodes > c->nodes_per_leaf)
        say(l, false, "oversubscription %s:1: beyond %u nodes a node has %s",
            units_show_double(c->oversubscription).s, c->nodes_per_leaf,
            units_show_bandwidth(topo_rates(c).bisection_Bps).s);
    else if (c->oversubscription > 1)
        say(l, false, "oversubscription %s:1, not met by %u nodes: a leaf holds %u",
            units_show_double(c->oversubscription).s, c->n_nodes, c->nodes_per_leaf);
    if (!c->nodes_per_leaf && c->n_nodes > 64)
        say(l, false, "%u nodes under one leaf: taken as a fabric without any slower level",
            c->n_nodes);
}

/* Ranks fill domains in order: what the last one lacks, a ring through all of them lacks. */
static void check_domains(const struct cluster *c, struct list *l)
{
    uint32_t last = c->n_nodes % c->domain_nodes;

    if (c->n_nodes > c->domain_nodes && last)
        say(l, false,
            "the last NVLink domain has %u of %u nodes: what leaves it passes %u NICs, what leaves "
            "the others %u",
            last, c->domain_nodes, last * c->nics_per_node, c->domain_nodes * c->nics_per_node);
}

static void check_constants(const struct cluster *c, struct list *l)
{
    const double *share = c->coll.rate_share;

    if (share[PROTOCOL_LL] > share[PROTOCOL_LL128] ||
        share[PROTOCOL_LL128] > share[PROTOCOL_SIMPLE])
        say(l, true, "collectives.rate_share falls from ll to simple: low latency has its price");
    if (c->nvlink_Bps > 0 && c->nvlink_efficiency < 0.5)
        say(l, true, "node.nvlink.efficiency is %s: NCCL reaches 0.75 to 0.85",
            units_show_double(c->nvlink_efficiency).s);
    if (c->device.hbm_Bps < c->nvlink_Bps)
        say(l, true, "memory of %s is slower than NVLink of %s",
            units_show_bandwidth(c->device.hbm_Bps).s, units_show_bandwidth(c->nvlink_Bps).s);
}

static void check_sources(const struct cluster *c, struct list *l)
{
    uint32_t n = 0, guesses = 0, without = 0;

    for (size_t i = 0; i < cluster_n_fields(); i++) {
        struct cluster_field f;

        if (!cluster_field(c, i, l->a, &f))
            continue;
        n++;
        if (!f.source)
            without++;
        else
            guesses += strstr(f.source, "assumed") || strstr(f.source, "inferred");
    }
    if (guesses)
        say(l, false, "%u of %u numbers are assumed or inferred: --constants names them", guesses,
            n);
    if (without)
        say(l, false, "%u of %u numbers have no source", without, n);
}

size_t topo_check(const struct cluster *c, struct arena *a, const struct topo_finding **out)
{
    struct list l = {.f = ARENA_NEW(a, struct topo_finding, MAX_FINDINGS), .a = a};
    struct topo_rates r = topo_rates(c);

    check_nics(c, &r, &l);
    check_pcie(c, &l);
    check_split(c, &r, &l);
    check_fabric(c, &l);
    check_domains(c, &l);
    check_constants(c, &l);
    check_sources(c, &l);
    *out = l.f;
    return l.n;
}
