/* The one-line form BASE:key=value,...: a cluster that differs from another in a few things.
 *
 *     hgx-a100:nics=4x200Gb,oversub=2        four NICs a node, leaves with half as many up-links
 *     nd-a100-v4:node=topo.xml               its node as a topology file describes it
 *     dgx-a100:nvlink_domain=2               NVLink joins pairs, PCIe the rest; 1: no NVLink
 *     hgx-h200-ndr:network=aws-p5            H200 nodes on the network of another cluster
 *     gb200-nvl72:domain_nodes=16            16 of a rack's 18 trays are used: 64 GPUs a domain
 *
 * Keys are applied in the order of the table below, whatever their order in the text. What a key
 * does not say stays the base's; sources tell them apart. */

#include "core/num.h"
#include "core/suggest.h"
#include "core/units.h"
#include "model/cluster/cluster_inner.h"
#include "model/cluster/topology.h"

#include <stdlib.h>
#include <string.h>

struct line {
    const char *what;                 /* the whole text */
    const char *base;                 /* name of the base */
    const char *gpus, *nics, *domain; /* as given, or NULL */
    const char *domain_nodes;         /* likewise */
    const char *network;              /* whose the network is: that of network=, else the base */
    struct cluster *c;
    struct arena *a;
    struct err *e;
};

static int refuse(const struct line *l, const char *key, const char *value, const char *expected)
{
    return err_set(l->e, ERR_INVALID, "cluster '%.200s': %s is '%.80s', expected %s", l->what, key,
                   value, expected);
}

static void given(struct line *l, const char *path, const char *key, const char *value)
{
    cluster_set_source(l->c, l->a, path, arena_printf(l->a, "given: %s=%s", key, value));
}

static int count(const struct line *l, const char *key, const char *text, uint32_t lo, uint32_t hi,
                 uint32_t *out)
{
    uint64_t n;
    struct err ignored;

    if (units_integer(text, &n, &ignored) || n < lo || n > hi)
        return refuse(l, key, text, arena_printf(l->a, "a number from %u to %u", lo, hi));
    *out = (uint32_t)n;
    return 0;
}

/* "200Gb", "200Gb/s", "25GB": a unit is wanted, a plain 200 would be bytes/s. */
static int rate(const struct line *l, const char *key, const char *text, double *out)
{
    size_t n = strlen(text);
    struct err ignored;
    const char *full =
        n && (text[n - 1] == 'b' || text[n - 1] == 'B') ? arena_printf(l->a, "%s/s", text) : text;

    if (!n || (text[n - 1] >= '0' && text[n - 1] <= '9') || units_bandwidth(full, out, &ignored) ||
        !(*out > 0))
        return refuse(l, key, text, "a rate with unit, 200Gb (bits) or 25GB (bytes), a second");
    return 0;
}

/* ---- keys ---- */

/* Fewer: the first GPUs, and the NICs and switches that they use. More: they share the NICs, and switches are not known. */
static int set_gpus(struct line *l, const char *key, const char *value)
{
    struct cluster *c = l->c;
    uint32_t n, nics = 0, switches = 0;
    bool more;

    if (count(l, key, value, 1, CLUSTER_MAX_GPUS_PER_NODE, &n))
        return -1;
    given(l, "node.gpus", key, value);
    more = n > c->gpus_per_node;
    if (more) {
        c->pcie_switches = 0;
        memset(c->coll.band, 0, sizeof(c->coll.band)); /* no table is of so many */
        memset(c->coll.net_band, 0, sizeof(c->coll.net_band));
    }
    if (c->domain_gpus > 1 && n % c->domain_gpus)
        return refuse(l, key, value,
                      arena_printf(l->a, "whole NVLink domains of %u", c->domain_gpus));
    for (uint32_t g = c->gpus_per_node; c->domain_gpus && g < n; g++)
        c->domain_of_gpu[g] = (uint8_t)(g / c->domain_gpus);
    c->domain_gpus = c->domain_gpus == n && n > 1 ? 0 : c->domain_gpus;
    c->gpus_per_node = n;
    if (more)
        cluster_spread_nics(c);
    for (uint32_t g = 0; g < n; g++) {
        nics = (uint32_t)num_max(nics, c->nic_of_gpu[g] + 1);
        switches = (uint32_t)num_max(switches, c->switch_of_gpu[g] + 1);
    }
    c->nics_per_node = c->nics_per_node ? nics : 0;
    for (uint32_t i = 0; i < c->nics_per_node; i++)
        switches = (uint32_t)num_max(switches, c->switch_of_nic[i] + 1);
    c->pcie_switches = c->pcie_switches ? switches : 0;
    return 0;
}

/* Nodes of an NVLink domain that are used, at most as many as the base has. Nothing is known of an
 * NVLink that reaches further, nor of one that leaves a node where the base's does not. The ports of
 * a leaf stay as many; whole domains take them. */
static int set_domain_nodes(struct line *l, const char *key, const char *value)
{
    struct cluster *c = l->c;
    uint32_t n, most = c->domain_nodes, per_leaf = c->nodes_per_leaf;
    struct err ignored;
    uint64_t given_n;

    if (units_integer(value, &given_n, &ignored) || given_n < 1 || given_n > most)
        return refuse(l, key, value,
                      most > 1
                          ? arena_printf(l->a, "1 to %u, the nodes of an NVLink domain of %.100s",
                                         most, l->base)
                          : arena_printf(l->a, "1: NVLink of %.100s stays in a node", l->base));
    n = (uint32_t)given_n;
    c->domain_nodes = n;
    c->nodes_per_leaf = per_leaf / n * n;
    given(l, "node.nvlink.domain_nodes", key, value);
    if (c->nodes_per_leaf != per_leaf)
        cluster_set_source(c, l->a, "fabric.nodes_per_leaf",
                           arena_printf(l->a,
                                        "given: %s=%s, whole domains of the %u nodes of %.100s",
                                        key, value, per_leaf, l->base));
    return 0;
}

/* Neighbours that NVLink joins; 1: no NVLink. */
static int set_domain(struct line *l, const char *key, const char *value)
{
    struct cluster *c = l->c;
    uint32_t n;

    if (count(l, key, value, 1, c->gpus_per_node, &n))
        return -1;
    if (c->gpus_per_node % n)
        return refuse(l, key, value,
                      arena_printf(l->a, "a divisor of the node's %u GPUs", c->gpus_per_node));
    if (n == c->gpus_per_node && c->domain_nodes > 1)
        return refuse(l, key, value,
                      "fewer GPUs than a node has, whose domain is of several nodes");
    if (cluster_set_domains(c, n, NULL, arena_printf(l->a, "given: %s=%s", key, value), l->what,
                            l->a, l->e))
        return -1;
    if (cluster_is_split(c) && n > 1) {
        c->nvswitch = false;
        given(l, "node.nvlink.kind", key, value);
    }
    return 0;
}

/* What lies between the nodes of another cluster. No line of its own: such a text would nest without an end. */
static int set_network(struct line *l, const char *key, const char *value)
{
    struct cluster from;

    if (strchr(value, ':'))
        return refuse(l, key, value, "a bundled name or a file");
    if (cluster_load(value, l->a, &from, l->e))
        return err_prefix(l->e, "%s", key);
    if (cluster_take_network(l->c, &from, value, l->a, l->e))
        return err_prefix(l->e, "cluster '%.200s': %s", l->what, key);
    return 0;
}

/* COUNTxRATE. More NICs than GPUs, in equal shares, are one NIC a GPU of so many times the rate. */
static int set_nics(struct line *l, const char *key, const char *value)
{
    static const char form[] = "COUNTxRATE, as 8x200Gb, or 0";
    struct cluster *c = l->c;
    const char *x = strchr(value, 'x');
    uint32_t n, each = 1;
    double Bps;

    if (!strcmp(value, "0")) {
        cluster_drop_nics(c);
        return 0;
    }
    if (!x)
        return refuse(l, key, value, form);
    if (count(l, key, arena_strndup(l->a, value, (size_t)(x - value)), 1, 1024, &n) ||
        rate(l, key, x + 1, &Bps))
        return -1;
    if (!c->nics_per_node)
        return err_set(l->e, ERR_INVALID,
                       "cluster '%.200s': nics: '%.100s' has no NICs, and nothing of their fabric "
                       "is known: expected a base with NICs",
                       l->what, l->base);
    if (n > c->gpus_per_node) {
        if (n % c->gpus_per_node)
            return refuse(l, key, value,
                          arena_printf(l->a, "at most one NIC for each of %u GPUs, or a multiple",
                                       c->gpus_per_node));
        each = n / c->gpus_per_node;
        n = c->gpus_per_node;
    }
    if (Bps * each != c->nic_Bps) {
        c->nic_name = "";
        cluster_assume(c, l->a, "node.nic.efficiency", l->network);
        cluster_assume(c, l->a, "collectives.net_step", l->network);
    }
    if (Bps * each != c->nic_Bps || n != c->nics_per_node)
        memset(c->coll.net_band, 0, sizeof(c->coll.net_band)); /* no table is of such a network */
    c->nics_per_node = n;
    c->nic_Bps = Bps * each;
    cluster_spread_nics(c);
    cluster_nics_beside_gpus(c);
    given(l, "node.nic.count", key, value);
    given(l, "node.nic.rate", key, value);
    given(l, "node.nic.of_gpu", key, "spread in order");
    if (c->pcie_switches)
        given(l, "node.pcie.switches", key, "each NIC beside its first GPU");
    return 0;
}

/* What gpus= and nics= said before has to agree with the file; nics= gives the speed where the file has none. */
static int set_node(struct line *l, const char *key, const char *value)
{
    struct topology t;
    struct cluster base = *l->c, *c = l->c;

    (void)key;
    if (topology_load(value, l->a, &t, l->e) || topology_to_cluster(&t, &base, l->a, c, l->e))
        return -1;
    c->summary = base.summary;
    if (l->gpus && c->gpus_per_node != base.gpus_per_node)
        return refuse(l, "gpus", l->gpus, arena_printf(l->a, "%u, as the file has", t.n_gpus));
    if (l->domain && cluster_nvlink_gpus(c) != cluster_nvlink_gpus(&base))
        return refuse(l, "nvlink_domain", l->domain,
                      arena_printf(l->a, "%u, as the file has", cluster_nvlink_gpus(c)));
    if (l->domain_nodes && c->domain_nodes != base.domain_nodes)
        return refuse(l, "domain_nodes", l->domain_nodes,
                      arena_printf(l->a, "%u, with the %u GPUs of the file", c->domain_nodes,
                                   c->gpus_per_node));
    if (l->nics && c->nics_per_node * c->nic_Bps != base.nics_per_node * base.nic_Bps)
        return refuse(l, "nics", l->nics,
                      arena_printf(l->a, "what the file says, %ux%.9gGb", c->nics_per_node,
                                   c->nic_Bps * 8 / 1e9));
    return 0;
}

static int set_nvlink(struct line *l, const char *key, const char *value)
{
    double was = l->c->nvlink_Bps;

    if (!(was > 0))
        return err_set(l->e, ERR_INVALID,
                       "cluster '%.200s': nvlink is given, and the GPUs have no NVLink: expected a "
                       "base with NVLink",
                       l->what);
    given(l, "node.nvlink.rate", key, value);
    if (rate(l, key, value, &l->c->nvlink_Bps))
        return -1;
    if (l->c->nvlink_Bps == was)
        return 0;
    l->c->coll.nvls.link_Bps *= l->c->nvlink_Bps / was; /* the switch adds what the links bring */
    cluster_assume(l->c, l->a, "collectives.nvls", l->base);
    memset(l->c->coll.band, 0, sizeof(l->c->coll.band)); /* no table is of such a machine */
    memset(l->c->coll.net_band, 0, sizeof(l->c->coll.net_band));
    return 0;
}

static int set_memory(struct line *l, const char *key, const char *value)
{
    struct err ignored;

    if (units_bytes(value, &l->c->device.memory_bytes, &ignored))
        return refuse(l, key, value, "a size, as 80GiB");
    given(l, "device.memory", key, value);
    return 0;
}

static int fabric(const struct line *l, const char *key)
{
    if (l->c->nics_per_node)
        return 0;
    return err_set(l->e, ERR_INVALID, "cluster '%.200s': %s is given, and there are no NICs",
                   l->what, key);
}

static int set_leaf(struct line *l, const char *key, const char *value)
{
    if (fabric(l, key) || count(l, key, value, 0, CLUSTER_MAX_NODES, &l->c->nodes_per_leaf))
        return -1;
    given(l, "fabric.nodes_per_leaf", key, value);
    return 0;
}

static int set_oversub(struct line *l, const char *key, const char *value)
{
    struct err ignored;
    double x;

    if (fabric(l, key))
        return -1;
    if (units_number(value, &x, &ignored) || x < 1 || x > 1000)
        return refuse(l, key, value, "a number from 1 to 1000: down-links over up-links of a leaf");
    if (x > 1 && !l->c->nodes_per_leaf)
        return err_set(l->e, ERR_INVALID,
                       "cluster '%.200s': oversub=%.20s wants leaves, and '%.100s' is one level: "
                       "add leaf=NODES",
                       l->what, value, l->base);
    if (x != l->c->oversubscription)
        memset(l->c->coll.net_band, 0, sizeof(l->c->coll.net_band));
    l->c->oversubscription = x;
    given(l, "fabric.oversubscription", key, value);
    return 0;
}

static int set_rails(struct line *l, const char *key, const char *value)
{
    static const char *const yes_no[] = {"no", "yes", NULL};
    int i = suggest_index(value, yes_no);

    if (fabric(l, key))
        return -1;
    if (i < 0)
        return refuse(l, key, value, "yes or no");
    l->c->rail_optimised = i;
    given(l, "fabric.rail_optimised", key, value);
    return 0;
}

static const struct {
    const char *name;
    int (*set)(struct line *l, const char *key, const char *value);
} keys[] = {
    {"network", set_network}, /* first: the others change it further */
    {"gpus", set_gpus},
    {"nics", set_nics},
    {"domain_nodes", set_domain_nodes},
    {"nvlink_domain", set_domain},
    {"node", set_node},
    {"nvlink", set_nvlink},
    {"memory", set_memory},
    {"leaf", set_leaf},
    {"oversub", set_oversub},
    {"rails", set_rails},
};
enum { NETWORK, GPUS, NICS, DOMAIN_NODES, DOMAIN, N_KEYS = sizeof(keys) / sizeof(keys[0]) };

/* ---- the text ---- */

static int read_keys(struct line *l, const char *text, const char **values)
{
    const char *names[N_KEYS];
    char *rest, *copy = arena_strdup(l->a, text);

    for (size_t i = 0; i < N_KEYS; i++)
        names[i] = keys[i].name;
    while (copy) {
        char *value;
        size_t i = 0;

        rest = strchr(copy, ',');
        if (rest)
            *rest++ = 0;
        value = strchr(copy, '=');
        if (value)
            *value++ = 0;
        while (i < N_KEYS && strcmp(copy, names[i]))
            i++;
        if (i == N_KEYS)
            return err_set(l->e, ERR_UNKNOWN,
                           "cluster '%.200s': there is no key '%.60s'%s; expected BASE:key=value "
                           "with network, node, gpus, nics, nvlink, nvlink_domain, domain_nodes, "
                           "memory, leaf, oversub or rails",
                           l->what, copy, suggest(copy, names, N_KEYS).s);
        if (!value || !*value)
            return err_set(l->e, ERR_INVALID, "cluster '%.200s': %s has no value", l->what, copy);
        if (values[i])
            return err_set(l->e, ERR_INVALID, "cluster '%.200s': %s is given twice", l->what, copy);
        values[i] = value;
        copy = rest;
    }
    return 0;
}

int cluster_from_line(const char *what, struct arena *a, struct cluster *c, struct err *e)
{
    const char *colon = strchr(what, ':'), *values[N_KEYS] = {NULL};
    struct line l = {.what = what, .c = c, .a = a, .e = e};

    BUG_ON(!colon);
    l.base = arena_strndup(a, what, (size_t)(colon - what));
    if (read_keys(&l, colon + 1, values) || cluster_load(l.base, a, c, e))
        return -1;
    l.network = values[NETWORK] ? values[NETWORK] : l.base;
    l.gpus = values[GPUS];
    l.nics = values[NICS];
    l.domain = values[DOMAIN];
    l.domain_nodes = values[DOMAIN_NODES];
    for (size_t i = 0; i < N_KEYS; i++)
        if (values[i] && keys[i].set(&l, keys[i].name, values[i]))
            return -1;
    c->name = arena_strdup(a, what);
    c->summary = arena_printf(a, "%s; changed: %s", c->summary, colon + 1);
    return cluster_recheck(c, what, a, e);
}

const char *cluster_line_node(const char *what, struct arena *a)
{
    const char *at = strstr(what, ":node=");

    if (!at)
        at = strchr(what, ':') ? strstr(strchr(what, ':'), ",node=") : NULL;
    return at && at[6] && at[6] != ',' ? arena_strndup(a, at + 6, strcspn(at + 6, ",")) : NULL;
}
