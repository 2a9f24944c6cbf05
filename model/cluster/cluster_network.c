/* What lies between nodes, apart from the nodes: a network that is dropped, or taken over from another machine. The table of fields
 * says which numbers these are (cluster_is_of_network()). */
#include "model/cluster/cluster_inner.h"

#include <string.h>

void cluster_spread_nics(struct cluster *c)
{
    for (uint32_t g = 0; g < c->gpus_per_node; g++)
        c->nic_of_gpu[g] = (uint8_t)(g * c->nics_per_node / c->gpus_per_node);
}

void cluster_nics_beside_gpus(struct cluster *c)
{
    for (uint32_t i = 0; i < c->nics_per_node; i++) /* those that no GPU uses */
        c->switch_of_nic[i] = c->switch_of_gpu[i * c->gpus_per_node / c->nics_per_node];
    for (uint32_t g = c->gpus_per_node; g-- > 0;)
        c->switch_of_nic[c->nic_of_gpu[g]] = c->switch_of_gpu[g];
}

/* Of its member in struct cluster; 0: it has none of its own there. */
static size_t size_of(const struct field *f)
{
    size_t n = 0;

    switch (f->kind) {
    case U32:
        return sizeof(uint32_t);
    case BYTES:
        return sizeof(uint64_t);
    case RATE:
    case TIME:
    case FLOPS:
    case NUMBER:
        return sizeof(double);
    case TIMES3:
    case SHARES3:
    case TAILS:
    case BANDS:
    case COUNTS:
        while (cluster_names_of(f->kind)[n])
            n++;
        return n * sizeof(double);
    case FLAG:
    case LINK_KIND:
        return sizeof(bool);
    case NIC_OF_GPU:
        return sizeof(((struct cluster *)NULL)->nic_of_gpu);
    case SWITCHES:
    case DOMAINS:
    case CPUS:
    case KERNEL_RATES:
    case GEMM_GRID:
    case TABLES:
        break;
    }
    return 0;
}

static void copy_field(struct cluster *c, const struct cluster *from, const struct field *f)
{
    memcpy(member(c, f), const_member(from, f), size_of(f));
}

/* Tables of one node stay; those of several become the other's, or none. False: too many. */
static bool replace_tables(struct coll_constants *k, const struct coll_constants *from)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < k->n_tables; i++)
        if (k->tables[i].nodes < 2)
            k->tables[n++] = k->tables[i];
    for (uint32_t i = 0; from && i < from->n_tables; i++) {
        if (from->tables[i].nodes < 2)
            continue;
        if (n == MEASURED_MAX)
            return false;
        k->tables[n++] = from->tables[i];
    }
    memset(&k->tables[n], 0, (MEASURED_MAX - n) * sizeof(*k->tables));
    k->n_tables = n;
    return true;
}

static bool over_nodes(const struct coll_constants *k)
{
    for (uint32_t i = 0; i < k->n_tables; i++)
        if (k->tables[i].nodes > 1)
            return true;
    return false;
}

void cluster_drop_nics(struct cluster *c)
{
    static const struct cluster none = {.oversubscription = 1};

    for (int i = 0; i < N_FIELDS; i++)
        if (cluster_is_of_network(&cluster_fields[i]))
            copy_field(c, &none, &cluster_fields[i]);
    c->nic_name = "";
    memset(c->switch_of_nic, 0, sizeof(c->switch_of_nic));
    replace_tables(&c->coll, NULL);
}

/* ---- another machine's ---- */

static double generation(const struct cluster *c)
{
    return c->device.compute_capability > 0 ? c->device.compute_capability : 8;
}

/* Do tables of the one's nodes speak of the other's? */
static bool alike(const struct cluster *c, const struct cluster *from)
{
    return generation(c) == generation(from) && c->gpus_per_node == from->gpus_per_node &&
           cluster_is_split(c) == cluster_is_split(from);
}

struct taken {
    const struct cluster *from;
    const char *as;
    bool bonded;  /* NICs of a GPU are one */
    bool spread;  /* over other numbers of GPUs */
    bool moved;   /* they hang on other PCIe switches than the NICs before */
    bool rounded; /* leaves, to whole NVLink domains */
};

/* The NICs at the GPUs and PCIe switches of c, which had those of `was`. */
static void place_nics(struct cluster *c, const struct cluster *was, struct taken *t)
{
    uint32_t n = c->nics_per_node, gpus = c->gpus_per_node;

    t->bonded = n > gpus && n % gpus == 0;
    if (t->bonded) {
        c->nic_Bps *= n / gpus;
        c->nics_per_node = gpus;
        c->nic_name = "";
    }
    t->spread = gpus != t->from->gpus_per_node;
    if (t->spread)
        cluster_spread_nics(c);
    t->moved = c->nics_per_node != was->nics_per_node ||
               memcmp(c->nic_of_gpu, was->nic_of_gpu, gpus * sizeof(*c->nic_of_gpu));
    if (t->moved)
        cluster_nics_beside_gpus(c);
}

/* A leaf takes as many whole domains as fit; one that takes none is cluster_recheck()'s to refuse. */
static void round_leaf(struct cluster *c, struct taken *t)
{
    uint32_t rest = c->nodes_per_leaf % c->domain_nodes;

    t->rounded = rest && c->nodes_per_leaf > rest;
    if (t->rounded)
        c->nodes_per_leaf -= rest;
}

/* Does the other have such constants? Where it has none, the node's own stay. */
static bool known(const struct taken *t, const struct field *f)
{
    return cluster_has_section(t->from, f->section);
}

/* Where field i is from now, which had the source `own`. */
static const char *source_of(const struct taken *t, int i, const char *own, struct arena *a)
{
    const struct field *f = &cluster_fields[i];
    const char *theirs = t->from->sources && t->from->sources[i] ? t->from->sources[i] : "";

    own = own ? own : "";
    if (f->kind == TABLES)
        return arena_printf(a, "over nodes network=%s: %s; in a node: %s", t->as, theirs, own);
    if (!known(t, f))
        return arena_printf(a, "kept, as network=%s has no collectives.%s: %s", t->as,
                            cluster_sections[f->section].key, own);
    if (f->kind == NIC_OF_GPU && t->spread)
        return arena_printf(a, "network=%s: spread in order", t->as);
    if (f->section == NIC && (f->kind == U32 || f->kind == RATE) && t->bonded)
        return arena_printf(a, "network=%s: NICs of a GPU as one: %s", t->as, theirs);
    if (f->offset == offsetof(struct cluster, nodes_per_leaf) && t->rounded)
        return arena_printf(a, "network=%s: whole NVLink domains of the %u nodes: %s", t->as,
                            t->from->nodes_per_leaf, theirs);
    return arena_printf(a, "network=%s%s%s", t->as, *theirs ? ": " : "", theirs);
}

/* NVLSTree of a node that had no network, on one that does not say: as the steps of other trees. */
static void assume_nvls_step(struct cluster *c, const char *as, struct arena *a)
{
    const struct coll_constants *k = &c->coll;
    double tree = k->tree_step_s[PROTOCOL_SIMPLE];

    c->coll.nvls.net_step_s = tree > 0 ? tree : k->net_step_s[PROTOCOL_SIMPLE];
    cluster_set_source(c, a, "collectives.nvls.net_step",
                       arena_printf(a, "assumed: as trees by Simple, of network=%s", as));
}

int cluster_take_network(struct cluster *c, const struct cluster *from, const char *as,
                         struct arena *a, struct err *e)
{
    struct taken t = {.from = from, .as = as};
    struct cluster was = *c;
    bool measured = alike(c, from);
    const char **sources;

    if (!from->nics_per_node)
        return err_set(e, ERR_INVALID,
                       "'%.100s' has no NICs, and nothing is known of a network: expected a "
                       "cluster with NICs",
                       as);
    if (!replace_tables(&c->coll, measured ? &from->coll : NULL))
        return err_set(e, ERR_INVALID, "'%.100s' and '%.100s' have more than %d tables together",
                       was.name, as, MEASURED_MAX);
    c->nics_per_node = from->nics_per_node; /* then it has such sections */
    c->nic_name = from->nic_name;
    for (int i = 0; i < N_FIELDS; i++)
        if (cluster_is_of_network(&cluster_fields[i]) && known(&t, &cluster_fields[i]) &&
            cluster_has_section(c, cluster_fields[i].section))
            copy_field(c, from, &cluster_fields[i]);
    if (!measured)
        memset(c->coll.net_band, 0, sizeof(c->coll.net_band));
    place_nics(c, &was, &t);
    round_leaf(c, &t);
    sources = cluster_own_sources(c, a);
    for (int i = 0; i < N_FIELDS; i++)
        if (cluster_is_of_network(&cluster_fields[i]) ||
            (cluster_fields[i].kind == TABLES && over_nodes(&c->coll)))
            sources[i] = source_of(&t, i, sources[i], a);
    if (t.moved && c->pcie_switches)
        cluster_set_source(c, a, "node.pcie.switches",
                           arena_printf(a, "network=%s: each NIC beside its first GPU", as));
    if (!was.nics_per_node && !cluster_has_section(from, NVLS) && cluster_has_section(c, NVLS))
        assume_nvls_step(c, as, a);
    return 0;
}
