/* model/cluster/cluster_inner.h - the table of fields that cluster_json.c reads, cluster_write.c writes and cluster_sources.c lists. */
#ifndef BALLAST_MODEL_CLUSTER_CLUSTER_INNER_H
#define BALLAST_MODEL_CLUSTER_CLUSTER_INNER_H

#include "model/cluster/cluster.h"

#include <stddef.h>

#define CLUSTER_FORMAT "ballast-cluster"
enum { CLUSTER_VERSION = 1, NO_PARENT = -1 };

enum presence {
    REQUIRED,
    OPTIONAL, /* absent: zero, or what cluster_from_tree() puts there first */
    /* From here on of the network between nodes, and refused without node.nic. */
    WITH_NICS,    /* required with it */
    NIC_SPREAD,   /* absent: GPUs spread over the NICs in order */
    NIC_OPTIONAL, /* absent: zero */
};

enum section_id {
    TOP,
    DEVICE,
    NODE,
    NVLINK,
    NIC,
    PCIE,
    FABRIC,
    COLLECTIVES,
    NVLS,
    P2P,
    N_SECTIONS
};
struct section {
    const char *key;
    int parent;
    enum presence presence;
    const char *strings[4]; /* keys that are text, not fields */
};
extern const struct section cluster_sections[N_SECTIONS];

enum field_kind {
    U32,
    BYTES, /* uint64_t */
    RATE,  /* double, bytes/s, from here on */
    TIME,
    FLOPS,
    NUMBER,
    TIMES3, /* by protocol */
    SHARES3,
    TAILS,
    BANDS,
    COUNTS,    /* double, whole */
    FLAG,      /* bool */
    LINK_KIND, /* bool: nvswitch */
    NIC_OF_GPU,
    SWITCHES,
    DOMAINS,      /* lists of GPUs */
    CPUS,         /* lists of PCIe switches */
    KERNEL_RATES, /* double by enum kernel */
    GEMM_GRID,
    TABLES, /* struct measured_table, coll.n_tables of them */
};
struct field {
    enum section_id section;
    const char *key;
    enum field_kind kind;
    size_t offset;
    double lo, hi;
    enum presence presence;
};
enum { N_FIELDS = 83 }; /* the compiler counts */
extern const struct field cluster_fields[N_FIELDS];
extern const char *const cluster_link_kinds[]; /* by nvswitch; NULL-terminated */

static inline void *member(struct cluster *c, const struct field *f)
{
    return (char *)c + f->offset;
}

static inline const void *const_member(const struct cluster *c, const struct field *f)
{
    return (const char *)c + f->offset;
}

/* Of a field that is one number a name: the names. NULL: it is no such field. */
const char *const *cluster_names_of(enum field_kind k);
/* What kernels with a rate of their own are bound by; the others: false. */
bool cluster_rate_of(enum kernel k, enum field_kind *kind);
/* "node.nic.rate" */
const char *cluster_path_of(const struct field *f, struct arena *a);
/* Does it lie between nodes? Fields of node.nic and fabric, and those that go with NICs only; of `tables` a part does. */
bool cluster_is_of_network(const struct field *f);
/* Does the cluster have it: is it required, or not at its default? */
bool cluster_has_section(const struct cluster *c, enum section_id id);
bool cluster_has_field(const struct cluster *c, const struct field *f);

/* cluster_sources.c: a copy of the list of sources, which the cluster then has; [N_FIELDS]. */
const char **cluster_own_sources(struct cluster *c, struct arena *a);
/* cluster_network.c: GPUs use the NICs in order; each NIC hangs on the PCIe switch of the first GPU that uses it. */
void cluster_spread_nics(struct cluster *c);
void cluster_nics_beside_gpus(struct cluster *c);

/* cluster_write.c: the value alone, under a key or (NULL) as the next of an array. */
void cluster_add_value(cJSON *to, const char *key, const struct cluster *c, const struct field *f);

#endif
