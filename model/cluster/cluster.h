/* model/cluster/cluster.h - what it is trained on: nodes of GPUs, their links, and the constants of the device.
 *
 * The description is physical: GPUs of a node on NVSwitch or direct NVLinks, PCIe switches, NICs and which GPUs use
 * them, leaf switches with oversubscription. Rates are bytes per second and direction. The file form, key by key, is in
 * topologies/README.md; each number may carry its source there, and in a bundled file it must.
 */
#ifndef BALLAST_MODEL_CLUSTER_CLUSTER_H
#define BALLAST_MODEL_CLUSTER_CLUSTER_H

#include "core/err.h"
#include "core/json.h"
#include "core/mem.h"
#include "model/cluster/gemm_grid.h"
#include "model/graph/graph.h"

#include <stdbool.h>
#include <stdint.h>

/* The same limits hold for a whole NVLink domain. */
enum { CLUSTER_MAX_GPUS_PER_NODE = 128, CLUSTER_MAX_NICS_PER_NODE = 128 };
enum { CLUSTER_MAX_SWITCHES = CLUSTER_MAX_GPUS_PER_NODE + CLUSTER_MAX_NICS_PER_NODE };
enum { CLUSTER_MAX_NODES = 131072, CLUSTER_MAX_RANKS = 1 << 24 };

/* One GPU. */
struct device {
    const char *name;       /* "A100-SXM4-80GB" */
    uint64_t memory_bytes;  /* what the driver reports as total */
    uint64_t context_bytes; /* CUDA context + libraries, outside the allocator */
    double fragmentation;   /* share of the allocator's peak lost to fragmentation, e.g. 0.03 */
    double peak_flops;      /* dense bf16 FLOP/s */
    double tf32_share;      /* of every bf16 rate, when the operands are fp32 (TF32 tensor cores) */
    double
        fp8_share; /* of the bf16 rate of products, when the operands are fp8; 0: there is no fp8 */
    double hbm_Bps;
    uint32_t n_sm;
    double compute_capability; /* 8 (A100), 9 (H100), 10 (B200): rows of NCCL's tables; 0: as 8 */
    uint32_t collective_sms;   /* that a collective takes from kernels while it moves bytes */
    double gemm_efficiency;    /* of peak, large GEMM in a short burst */
    double gemm_k0;            /* k + k0: fill and drain of a tile's k loop, in elements */
    double hbm_efficiency;     /* reached by elementwise kernels */
    double attention_flops;    /* FLOP/s reached by fused attention, forward */
    double attention_masked;   /* of that rate, where a causal mask leaves half of the work; 0: 1 */
    double l2_bytes; /* of the last cache: elementwise operands that fit do not pass HBM; 0: none */
    double sustained_factor; /* training runs this much slower than a short burst */
    double launch_s;         /* host time to launch one kernel */
    double kernel_s;         /* fixed time of a kernel on the device */
    double
        blocking_s; /* a collective call that the host waits for, beyond NCCL's own time; 0: not known */
    /* Of kernels that have a rate of their own, bytes/s of their HBM traffic (attention: FLOP/s); 0: what hbm (attention)
     * says for all. Products have none: tiles say how fast they are. */
    double kernel_rate[KERNEL_N];
    const struct gemm_grid *
        gemm_grid; /* measured products, what the tile model is corrected by; in arena; NULL: none */
};

/* Constants of NCCL on this machine (sim/nccl.h has the formulas, topologies/README.md the keys). */
enum coll_protocol { PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_SIMPLE, PROTOCOL_N };
/* Of a ring's operations the last hands nothing on: what it costs, by what it does. */
enum coll_tail { TAIL_LOW_LATENCY, TAIL_ALL_REDUCE, TAIL_ALL_GATHER, TAIL_REDUCE_SCATTER, TAIL_N };
/* Size classes of an error band: below 1 MiB, to 32 MiB, from there on. */
enum band_size { BAND_SMALL, BAND_MEDIUM, BAND_LARGE, BAND_N };

/* Channels of a call by default: of rings and trees in a node, of a ring for each NIC by which it leaves one (also of a send to
 * another node), of multicast, and the most of grouped sends and receives. */
enum coll_channels { CHANNELS_RING, CHANNELS_NIC, CHANNELS_NVLS, CHANNELS_P2P, CHANNELS_N };

/* Multicast in the NVSwitch (NVLink SHARP). */
struct nvls_constants {
    double link_Bps;   /* of a GPU's NVLink, one direction, by multicast; 0: no NVLS */
    double base_s;     /* start of a call in one node */
    double net_step_s; /* one level of the tree between nodes (NVLSTree) */
    double ramp_s, ramp_at_s;
    double net_rate;                  /* NVLSTree: of link_Bps; 0: 1 */
    double net_ramp_s, net_ramp_at_s; /* NVLSTree; 0: as trees */
    uint32_t min_gpus;                /* of a node, in the group: fewer do not use it */
};
/* Grouped sends and receives: send/recv, all-to-all, an owner's direct sends. What is 0 costs nothing. */
struct p2p_constants {
    double base_s;    /* start of a call; 0: as `base` */
    double both_ways; /* of the rate, when a GPU sends and receives at once; 0: 1 */
    double ramp_s, ramp_at_s;
    double part_Bps;   /* of one channel, which carries a message alone up to 64 KiB */
    double ll_rate;    /* of NVLink's reached rate, all channels, by LL */
    double copy_Bps;   /* of what a GPU sends itself */
    double net_rate;   /* of a NIC's reached rate; 0: 1 */
    double net_peer_s; /* for each further peer on another node */
    double net_fill_s; /* the least that a large message takes between nodes */
};
/* A table of measurements that stands behind the constants and their band: of which collective, on how many nodes and GPUs of
 * each. */
enum { MEASURED_KINDS = 7, MEASURED_MAX = 64 };
extern const char *const measured_kinds[MEASURED_KINDS + 1]; /* as nccl-tests; NULL-terminated */
extern const char *const measured_algorithms[];              /* NCCL's names; NULL-terminated */
struct measured_table {
    uint8_t kind; /* of measured_kinds */
    uint32_t nodes;
    uint16_t gpus; /* of each node */
    uint8_t
        algorithm; /* 1 + that of measured_algorithms that all its calls ran by; 0: any that NCCL chose */
};
struct coll_constants {
    double base_s[PROTOCOL_N];          /* start-up of a collective */
    double step_s[PROTOCOL_N];          /* one ring step inside a node */
    double net_step_s[PROTOCOL_N];      /* one step of a ring between nodes */
    double tree_step_s[PROTOCOL_N];     /* one step of a tree between nodes; 0: as net_step_s */
    double pcie_step_s[PROTOCOL_N];     /* one step over PCIe, between NVLink domains of a node */
    double rate_share[PROTOCOL_N];      /* of the Simple rate: payload share of the protocol */
    double tail[TAIL_N];                /* of an operation that hands on as much; 0: none */
    double ramp_s;                      /* Simple: extra time that saturates (A), ... */
    double ramp_at_s;                   /* ... half reached at this transfer time (t0) */
    double net_ramp_s, net_ramp_at_s;   /* of rings over several nodes; 0: as above */
    double tree_ramp_s, tree_ramp_at_s; /* of trees, until they are full; 0: as of rings */
    double tree_rate[PROTOCOL_N];       /* of what rings of the protocol reach of NVLink; 0: 1 */
    bool no_ll128;                      /* the network does not carry LL128 */
    double
        believed_ll128; /* LL128's rate over Simple's, as NCCL's choice in one node takes it; 0: it
                              takes the fastest */
    double one_process_s;        /* added where one process drives all GPUs of a node */
    double channels[CHANNELS_N]; /* whole numbers; all 0: NCCL's (sim/nccl.h) */
    struct nvls_constants nvls;
    struct p2p_constants p2p;
    /* Half width of the 90 % error band of collectives with a table of as many ranks, in a node and between nodes; 0: no
     * measurement covers it. sim/nccl.h widens it for others. */
    double band[BAND_N], net_band[BAND_N];
    struct measured_table tables[MEASURED_MAX];
    uint32_t n_tables;
};

struct cluster {
    const char *name, *summary, *source; /* in arena, "" when not given */
    struct device device;
    uint32_t gpus_per_node;
    uint32_t nics_per_node; /* 0: one node only */
    const char *nic_name;   /* "ConnectX-6 HDR InfiniBand", or "" */
    uint32_t n_nodes;       /* set by cluster_resize() */
    bool nvswitch;          /* else direct links */
    uint32_t domain_nodes;  /* nodes whose GPUs share one NVLink domain; 1: each its own */
    /* GPUs of a node that NVLink joins, where it does not join them all: the node is then several
     * NVLink domains of this size, and PCIe connects them. 0: one domain; 1: there is no NVLink. */
    uint32_t domain_gpus;
    uint8_t domain_of_gpu[CLUSTER_MAX_GPUS_PER_NODE]; /* with domain_gpus */
    double nvlink_Bps;              /* a GPU's NVLink, one direction, raw; 0: no NVLink */
    double nvlink_efficiency;       /* reached by large transfers */
    double nic_Bps, nic_efficiency; /* a NIC, one direction */
    uint32_t pcie_switches;         /* 0: not described */
    double pcie_Bps;                /* a switch's uplink to the root, one direction */
    double pcie_efficiency;         /* of pcie_Bps, reached by large transfers; 0: 1 */
    /* CPU sockets (or NUMA nodes) and the link by which bytes leave one, one direction, reached;
     * n_cpus 0: not described, and crossing them costs nothing. */
    uint32_t n_cpus;
    double cpu_Bps;
    uint8_t nic_of_gpu[CLUSTER_MAX_GPUS_PER_NODE];    /* which NIC a GPU's own sends use */
    uint8_t switch_of_gpu[CLUSTER_MAX_GPUS_PER_NODE]; /* PCIe switch */
    uint8_t switch_of_nic[CLUSTER_MAX_NICS_PER_NODE];
    uint8_t cpu_of_switch[CLUSTER_MAX_SWITCHES]; /* with n_cpus */
    bool rail_optimised;                         /* NIC i of every node on leaf i of its pod */
    uint32_t nodes_per_leaf;                     /* 0: one leaf for all */
    double oversubscription;                     /* leaf down-link sum / up-link sum, >= 1 */
    double hop_s;                                /* one switch hop */
    bool sharp; /* switches that reduce (SHARP): CollNet is there */
    struct coll_constants coll;
    double price_per_gpu_hour;  /* 0: unknown */
    const char *const *sources; /* in arena: by field, see cluster_field(); NULL: none given */
};

/* Load by bundled name or alias (case does not matter), else from a file: JSON, of a plan file its cluster, or a topology file
 * (model/cluster/topology.h); else the one-line form. n_nodes is 1 until cluster_resize(). A bundled description without a source for
 * every number is refused. */
int cluster_load(const char *what, struct arena *a, struct cluster *c, struct err *e);
/* BASE:key=value,... (model/cluster/cluster_line.c); `what` has a colon. */
int cluster_from_line(const char *what, struct arena *a, struct cluster *c, struct err *e);
/* What stands at node= of such a line, or NULL. */
const char *cluster_line_node(const char *what, struct arena *a);
/* Other names of bundled clusters, and names of lines that many need. `means`: what it is loaded
 * as, a bundled name or the one-line form of one. */
extern const struct cluster_alias {
    const char *name, *means;
} cluster_aliases[];
extern const size_t cluster_n_aliases;
/* The topology file that `what` is made from: itself, or what stands at node= of the one-line form. NULL: none. */
const char *cluster_topology_file(const char *what, struct arena *a);
/* `file` names the text in messages. Unknown keys, values out of range and contradictions are refused. */
int cluster_from_json(const char *text, size_t len, const char *file, struct arena *a,
                      struct cluster *c, struct err *e);
/* From a place in another document (a plan). */
int cluster_from_tree(const struct json_at *at, struct arena *a, struct cluster *c, struct err *e);
/* The description as a new tree that reads back as the same cluster, every number exactly; n_nodes is not part of it. */
cJSON *cluster_to_json(const struct cluster *c);

/* The numbers of a description, one by one. */
struct cluster_field {
    const char *path;   /* "node.nic.rate" */
    const char *text;   /* as in the file: "25GB/s" */
    const char *source; /* NULL: none given */
};
size_t cluster_n_fields(void);
/* False when this description does not have it (an optional one). */
bool cluster_field(const struct cluster *c, size_t i, struct arena *a, struct cluster_field *out);

/* Say where the number at `path` comes from; the list of sources is copied, not shared. */
void cluster_set_source(struct cluster *c, struct arena *a, const char *path, const char *source);
/* Numbers whose path starts with `prefix` are taken over from another machine: "assumed: as NAME: " and the source so far. */
void cluster_assume(struct cluster *c, struct arena *a, const char *prefix, const char *as);
/* One node only, and nothing above it. */
void cluster_drop_nics(struct cluster *c);
/* All that lies between nodes as in `from`, which has to have NICs: NICs (more than the node has GPUs, in equal shares, are one for
 * each), leaves, what collectives pay there, and what tables of several nodes say: of the same GPUs, as many a node, or nothing. The
 * sources become "network=NAME: " and from's, NAME being `as`. What of collectives.nvls or .p2p `from` has none of is kept. Leaves hold whole
 * NVLink domains of c. ERR_INVALID: no NICs, too many tables. cluster_recheck() says whether the node suits. */
int cluster_take_network(struct cluster *c, const struct cluster *from, const char *as,
                         struct arena *a, struct err *e);
/* What a file with these values would be refused for; `what` names them in the message. */
int cluster_recheck(const struct cluster *c, const char *what, struct arena *a, struct err *e);

/* 1..CLUSTER_MAX_NODES nodes, at most CLUSTER_MAX_RANKS GPUs in all; several nodes need NICs. */
/* Ranks fill nodes in order; the last node may be partly used. */
int cluster_resize(struct cluster *c, uint32_t n_nodes, struct err *e);

/* Is a node several NVLink domains, or without NVLink? Then bytes between its GPUs pass PCIe. */
static inline bool cluster_is_split(const struct cluster *c)
{
    return c->domain_gpus && c->domain_gpus < c->gpus_per_node;
}

/* GPUs of a node, or of the nodes that share an NVLink domain: what traffic calls inside. */
static inline uint32_t cluster_domain_gpus(const struct cluster *c)
{
    return c->gpus_per_node * (c->domain_nodes > 1 ? c->domain_nodes : 1);
}

/* GPUs that reach each other by NVLink. */
static inline uint32_t cluster_nvlink_gpus(const struct cluster *c)
{
    return cluster_is_split(c) ? c->domain_gpus : cluster_domain_gpus(c);
}

/* model/cluster/cluster_domains.c: makes the node NVLink domains of `n` GPUs, GPU g in domain_of_gpu[g]
 * (NULL: n neighbours each); n = all of its GPUs joins them. `why` becomes the source. Where PCIe
 * then carries what GPUs send each other, the constants that the description lacks for that are
 * assumed, each with its source; multicast and error bands go, as no measured table is of such a
 * node. ERR_INVALID: no PCIe rate, an NVLink domain of several nodes, GPUs without NVLink that
 * would get some. `what` names the cluster in messages. */
int cluster_set_domains(struct cluster *c, uint32_t n, const uint8_t *domain_of_gpu,
                        const char *why, const char *what, struct arena *a, struct err *e);
/* The CPU of each PCIe switch, [pcie_switches]; the rate between CPUs is assumed unless the
 * description has one. */
void cluster_set_cpus(struct cluster *c, uint32_t n, const uint8_t *cpu_of_switch, const char *why,
                      struct arena *a);

/* The same machine with each NVLink domain as one node, which is what decides whether bytes pass NVLink or NICs: the
 * simulator and the step program see this one. NICs, leaves and n_nodes count accordingly, a last domain that is partly
 * used as one; PCIe switches are left out, the name is the same. The identity where a domain is one node. */
struct cluster cluster_by_domain(const struct cluster *c);

static inline uint32_t cluster_node_of(const struct cluster *c, uint32_t rank)
{
    return rank / c->gpus_per_node;
}

#endif
