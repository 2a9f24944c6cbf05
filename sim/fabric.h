/* sim/fabric.h - the cluster as a directed graph of links, and the routes that NCCL takes through it.
 *
 *     GPU -> NVSwitch -> GPU                                       inside an NVLink domain
 *     GPU -> GPU [-> GPU]                                          direct NVLinks, with one GPU between when two have none
 *     GPU -> PCIe switch [-> root [-> root of another CPU] -> PCIe switch] -> GPU    without NVLink
 *     GPU -> PCIe switch [-> root -> PCIe switch] -> NIC -> leaf [-> spine -> leaf] -> NIC -> ... -> GPU      between domains
 *
 * The graph is arithmetic: a link is a kind and an instance, and a route is computed from a description of one node and a
 * few numbers, so 131,072 ranks cost what one node costs. The node here is the NVLink domain (cluster_by_domain): 72
 * GPUs and 72 NICs of an NVL72.
 *
 * Rails: with rail_optimised, NIC i of every node of a pod hangs on leaf i; a sender then takes the NIC of the receiver's rail,
 * over NVLink to the GPU that uses it (NCCL's PXN; where NVLink joins them), and the message stays under one leaf. In a domain of several nodes rails
 * are counted in a node: NICs 0, 4, 8, ... of an NVL72 are on rail 0. Without rails a leaf has all NICs of its nodes, and a sender takes
 * its own (docs/MODEL.md says what is known of NCCL there).
 * Up-links of a leaf are one link of their sum, down-link sum / oversubscription; the spine is not a bottleneck.
 *
 * Rates are those that large transfers reach (raw * efficiency; PCIe's are raw where a description has
 * no efficiency for them), and a GPU's and a NIC's own PCIe links are taken to be as fast as their
 * switch's to the root. Not in the graph: PCIe, and the link between CPUs, where a description leaves
 * them out.
 */
#ifndef BALLAST_SIM_FABRIC_H
#define BALLAST_SIM_FABRIC_H

#include "model/cluster/cluster.h"
#include "model/cluster/topology.h"

enum fabric_kind {
    FABRIC_NVLINK_UP,   /* GPU to NVSwitch; instance: rank */
    FABRIC_NVLINK_DOWN, /* NVSwitch to GPU; rank */
    FABRIC_NVLINK_PAIR, /* direct; (node * g + i) * g + j, g GPUs a node */
    FABRIC_PCIE_UP,     /* GPU to PCIe switch; rank */
    FABRIC_PCIE_DOWN,   /* PCIe switch to GPU; rank */
    FABRIC_ROOT_UP,     /* PCIe switch to root; node * switches + switch */
    FABRIC_ROOT_DOWN,   /* root to PCIe switch; the same */
    FABRIC_CPU,         /* out of a CPU to another; node * CPUs + CPU that is left */
    FABRIC_PCIE_OUT,    /* PCIe switch to NIC; node * NICs + NIC */
    FABRIC_PCIE_IN,     /* NIC to PCIe switch; the same */
    FABRIC_NIC_TX,      /* NIC to leaf; the same */
    FABRIC_NIC_RX,      /* leaf to NIC; the same */
    FABRIC_LEAF_UP,     /* leaf to spine; pod * leaves a pod + rail */
    FABRIC_LEAF_DOWN,   /* spine to leaf; the same */
    FABRIC_KIND_N
};
const char *fabric_kind_name(enum fabric_kind k);

struct fabric {
    struct cluster c; /* by domain */
    uint32_t world, n_nodes;
    uint32_t n_rails;       /* 1: no rails */
    uint32_t n_pods;        /* 0: one level, no spine */
    const uint8_t *nvlinks; /* borrowed, [gpus][gpus] links from i to j; NULL: NVSwitch */
    double link_Bps;        /* of one direct link */
    uint8_t via[CLUSTER_MAX_NICS_PER_NODE]; /* the first GPU that uses a NIC; 255: none */
    /* Colours: what relabelling inside a node may exchange has the same one. */
    uint16_t gpu_colour[CLUSTER_MAX_GPUS_PER_NODE], nic_colour[CLUSTER_MAX_NICS_PER_NODE],
        switch_colour[CLUSTER_MAX_GPUS_PER_NODE + CLUSTER_MAX_NICS_PER_NODE];
};

/* The fabric of `world` ranks that fill the cluster's nodes in order. nvlinks: the counts of fabric_nvlinks(), or NULL: NVSwitch,
 * or where the cluster says direct links, as many to each other GPU. ERR_INVALID: a rate that is not above 0 (a NIC of unknown
 * speed, where there are several nodes), several nodes without NICs, a NIC or PCIe switch that is not there, GPUs that
 * do not reach each other. O(GPUs a node ^2), whatever the world. */
int fabric_init(struct fabric *f, const struct cluster *c, uint32_t world, const uint8_t *nvlinks,
                struct arena *a, struct err *e);
/* Direct NVLinks of a topology file, [gpus][gpus]; NULL when they end at NVSwitches, or where they end is not said. ERR_INVALID: a target that is no GPU of
 * the file, a link that only one end names. */
int fabric_nvlinks(const struct topology *t, struct arena *a, const uint8_t **counts,
                   struct err *e);

/* Instances of a kind; 0: not in this fabric. */
uint64_t fabric_n(const struct fabric *f, enum fabric_kind k);
/* Bytes/s, one direction. The instance must exist. */
double fabric_Bps(const struct fabric *f, enum fabric_kind k, uint32_t instance);

struct fabric_link {
    enum fabric_kind kind;
    uint32_t instance;
};
enum { FABRIC_MAX_LINKS = 20 };
struct fabric_route {
    uint32_t n;
    struct fabric_link links[FABRIC_MAX_LINKS]; /* [n] in order */
    uint32_t proxy; /* the rank whose NIC sends; the source itself but for PXN, and inside a node */
};
/* From one rank to another; 0 links to itself. O(1), O(GPUs a node) where two GPUs have no direct link. */
void fabric_route(const struct fabric *f, uint32_t from, uint32_t to, struct fabric_route *out);
/* Of a message to another node, where NIC `receiving` (of its node) takes it in: the NIC of the sender's node that sends it, and
 * the rank that hands it to that NIC. With rails the NIC on the receiver's rail: the one at the same place, else the first of the
 * rail that a rank uses; when no rank uses one, and without rails, the sender's own. O(NICs of a rail in a node). */
uint32_t fabric_sending_nic(const struct fabric *f, uint32_t from, uint32_t receiving,
                            uint32_t *proxy);
/* Does NVLink join two GPUs of one node? */
bool fabric_joined(const struct fabric *f, uint32_t gpu, uint32_t other);
/* Instance of the link by which bytes between two PCIe switches of a node leave a CPU; false: they
 * cross none. */
bool fabric_crosses(const struct fabric *f, uint32_t node, uint32_t from, uint32_t to,
                    uint32_t *instance);
/* The leaf that a NIC hangs on; there must be several levels (n_pods > 0). */
uint32_t fabric_leaf(const struct fabric *f, uint32_t node, uint32_t nic);
/* The slowest link of a route, bytes/s; INFINITY for an empty one. */
double fabric_route_Bps(const struct fabric *f, const struct fabric_route *r);

/* Two links that some relabelling of nodes, rails, and GPUs and NICs inside nodes takes into each other have one class: what
 * folding may take as one. (By refinement of colours: links of one class look alike as far as neighbourhoods tell.) */
uint64_t fabric_class(const struct fabric *f, struct fabric_link l);

#endif
