/* model/cluster.h - what it is trained on: nodes of GPUs, their links, and the constants of the device.
 *
 * The description is physical: GPUs of a node on NVSwitch or direct NVLinks, PCIe switches, NICs and which GPUs use
 * them, leaf switches with oversubscription. Rates are bytes per second and direction. Every number of a bundled file
 * has a source (topologies/README.md).
 */
#ifndef BALLAST_MODEL_CLUSTER_H
#define BALLAST_MODEL_CLUSTER_H

#include "core/err.h"
#include "core/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum { CLUSTER_MAX_GPUS_PER_NODE = 128, CLUSTER_MAX_NICS_PER_NODE = 64 };

/* One GPU. */
struct device {
    const char *name;       /* "A100-SXM4-80GB" */
    uint64_t memory_bytes;  /* what the driver reports as total */
    uint64_t context_bytes; /* CUDA context + libraries, outside the allocator */
    double fragmentation;   /* share of the allocator's peak lost to fragmentation, e.g. 0.03 */
    double peak_flops;      /* dense bf16 FLOP/s */
    double hbm_Bps;
    uint32_t n_sm;
    double gemm_efficiency;  /* of peak, large GEMM in a short burst */
    double gemm_k0;          /* k + k0: fill and drain of a tile's k loop, in elements */
    double hbm_efficiency;   /* reached by elementwise kernels */
    double attention_flops;  /* FLOP/s reached by fused attention, forward */
    double sustained_factor; /* training runs this much slower than a short burst */
    double launch_s;         /* host time to launch one kernel */
    double kernel_s;         /* fixed time of a kernel on the device */
};

/* Constants of one transport: what a collective's step costs (physics.md), by protocol. */
enum coll_protocol { PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_SIMPLE, PROTOCOL_N };
struct coll_constants {
    double base_s[PROTOCOL_N];     /* start-up of a collective */
    double step_s[PROTOCOL_N];     /* one ring step inside a node */
    double net_step_s[PROTOCOL_N]; /* one ring step between nodes */
    double rate_share[PROTOCOL_N]; /* of the Simple rate: payload share of the protocol */
    double ramp_s;                 /* Simple: extra time that saturates (A), ... */
    double ramp_at_s;              /* ... half reached at this transfer time (t0) */
};

struct cluster {
    const char *name, *summary, *source;
    struct device device;
    uint32_t gpus_per_node;
    uint32_t nics_per_node;
    uint32_t n_nodes;               /* set by cluster_resize() */
    bool nvswitch;                  /* else direct links, all pairs */
    double nvlink_Bps;              /* a GPU's NVLink, one direction, raw */
    double nvlink_efficiency;       /* reached by large transfers */
    double nic_Bps, nic_efficiency; /* a NIC, one direction */
    uint32_t pcie_switches;         /* 0: not described */
    double pcie_Bps;                /* a switch's uplink to the root, one direction */
    uint8_t nic_of_gpu[CLUSTER_MAX_GPUS_PER_NODE];    /* which NIC a GPU's own sends use */
    uint8_t switch_of_gpu[CLUSTER_MAX_GPUS_PER_NODE]; /* PCIe switch */
    uint8_t switch_of_nic[CLUSTER_MAX_NICS_PER_NODE];
    bool rail_optimised;     /* NIC i of every node on leaf i of its pod */
    uint32_t nodes_per_leaf; /* 0: one leaf for all */
    double oversubscription; /* leaf down-link sum / up-link sum, >= 1 */
    double hop_s;            /* one switch hop */
    struct coll_constants coll;
    double price_per_gpu_hour; /* 0: unknown */
};

/* Load by bundled name (case does not matter) or path of a JSON file. n_nodes is 1 until cluster_resize(). */
int cluster_load(const char *what, struct arena *a, struct cluster *c, struct err *e);
int cluster_from_json(const char *text, size_t len, const char *name, struct arena *a,
                      struct cluster *c, struct err *e);
/* Ranks fill nodes in order; the last node may be partly used. */
int cluster_resize(struct cluster *c, uint32_t n_nodes, struct err *e);

static inline uint32_t cluster_node_of(const struct cluster *c, uint32_t rank)
{
    return rank / c->gpus_per_node;
}

#endif
