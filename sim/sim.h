/* sim/sim.h - predict a step program on a cluster: times, memory, link use.
 *
 * Operations become fluid activities (sim/fluid.h): a kernel uses its GPU's SMs and HBM, a collective the NVLinks, NICs
 * and leaf up-links that its traffic crosses plus a latency. Ranks of a role share a timeline; where their work differs
 * (the optimizer step) they split into classes of equal work and merge at the next collective. `unfold` gives every
 * rank its own timeline: same numbers, for tests.
 */
#ifndef BALLAST_SIM_SIM_H
#define BALLAST_SIM_SIM_H

#include "model/cluster/cluster.h"
#include "model/program/program.h"
#include "model/program/traffic.h"
#include "sim/framework.h"
#include "sim/nccl.h"

struct sim_options {
    bool unfold;
    bool keep_trace; /* fill prediction.instances */
    bool
        serial; /* one stream: operations one after the other in walking order, as exec runs them */
    struct nccl_options nccl;
    const struct framework_costs *framework; /* NULL: none, as ballast exec */
};

/* Where the time of the critical path went. */
enum time_category {
    TIME_GEMM,
    TIME_ATTENTION,
    TIME_ELEMENTWISE,
    TIME_OPTIMIZER,
    TIME_GATHER,
    TIME_REDUCE,
    TIME_REFRESH,
    TIME_TENSOR, /* between tensor-parallel ranks */
    TIME_N
};
const char *time_category_name(enum time_category t);
/* What the time of an operation, or the waiting for it, is put down to. */
enum time_category sim_category(const struct op *o);

struct sim_instance {
    struct instance id;
    uint32_t rank;         /* representative of its class */
    bool shared;           /* by all ranks */
    enum coll_algo algo;   /* of a segment collective; AUTO: none */
    struct nccl_time nccl; /* of a collective: what NCCL chose */
    int64_t start_ps, end_ps;
};

enum sim_resource {
    RESOURCE_SM,
    RESOURCE_HBM,
    RESOURCE_NVLINK_TX,
    RESOURCE_NVLINK_RX,
    RESOURCE_NIC_TX,
    RESOURCE_NIC_RX,
    RESOURCE_PCIE_TX, /* a GPU to its PCIe switch: what leaves the node, or its NVLink domain */
    RESOURCE_PCIE_RX,
    RESOURCE_ROOT_UP, /* a PCIe switch to the root: to and from NICs on another switch */
    RESOURCE_ROOT_DOWN,
    RESOURCE_CPU, /* out of a CPU to another of the node */
    RESOURCE_LEAF_UP,
    RESOURCE_LEAF_DOWN,
    RESOURCE_N
};
const char *sim_resource_name(enum sim_resource r);

/* What a wait is put down to: a resource, namely the busiest link of the collective that is waited for; latency, where that
 * link is idle for more than half of the call; the framework's host, where it is busy for more than half of it; kernels of
 * other ranks. */
enum { LIMIT_LATENCY = RESOURCE_N, LIMIT_HOST, LIMIT_RANKS, LIMIT_N };
const char *sim_limit_name(int limit);

struct sim_memory {
    uint64_t peak_bytes; /* the allocator's peak of the fullest rank */
    uint64_t
        parts[MEM_PART_N]; /* at that instant; context in parts[MEM_CONTEXT], outside peak_bytes */
    uint64_t min_peak_bytes; /* the emptiest rank's peak */
    uint32_t rank;           /* the fullest rank */
    struct instance at;      /* the operation at the peak */
    int64_t at_ps;
    uint64_t driver_bytes; /* peak with fragmentation + context: what nvidia-smi shows */
    uint64_t driver_min_bytes;
};

struct prediction {
    int64_t step_ps, forward_ps, backward_ps, optimizer_ps; /* as docs/METRICS.md defines them */
    int64_t exposed_comm_ps; /* the compute stream waits for communication */
    int64_t compute_ps;      /* the compute stream of the critical class is busy */
    int64_t
        time_ps[TIME_N]; /* of the slowest rank's compute stream: kernels by kind, waiting by what
                                 it waits for; sums to step_ps */
    int64_t
        busy_ps[TIME_N]; /* of the slowest rank: all its operations by kind, overlapped or not */
    /* the waiting in time_ps by phase and kind of the collective; what is left of exposed_comm_ps is waiting for kernels of
     * other ranks */
    int64_t exposed_ps[PHASE_N][COLL_N];
    int64_t wait_ps[TIME_N]
                   [LIMIT_N]; /* the same waiting by what holds the one that is waited for; sums to
                                          exposed_comm_ps */
    int64_t fan_out_ps
        [TIME_N]; /* of it: the busiest link carries more than twice what such links carry on average */
    double stretch
        [PHASE_N]; /* of the layers that the host launches most slowly: their time over the device's; 1: none */
    int64_t path_ps[TIME_N]; /* of the critical path, wherever it runs; sums to step_ps */
    double busy[RESOURCE_N]; /* of the busiest instance, share of step time */
    uint32_t busy_instance[RESOURCE_N];
    enum sim_resource bottleneck;
    enum coll_algo gather_algo; /* what auto became for most bytes */
    double segments_ps
        [ALGO_N]; /* of AUTO's calls for segments, each alone: as chosen (AUTO), and by each way that it could
                                    choose, at least so much */
    uint32_t gather_algos; /* 1u << algo of all that it became */
    struct sim_memory memory;
    struct traffic_bytes bytes_max; /* largest over ranks, each field on its own */
    uint64_t optimizer_bytes;       /* sent in optimizer and refresh, largest over ranks */
    uint32_t n_classes;             /* of ranks */
    uint64_t n_activities, n_events;
    struct sim_instance *instances; /* keep_trace: in arena, by start */
    size_t n_instances;
};

int sim_predict(const struct program *p, const struct cluster *c, const struct sim_options *o,
                struct arena *a, struct prediction *out, struct err *e);

/* The same of the fastest way that owners' segments can travel where the program leaves it open (ALGO_AUTO): what each call takes
 * alone, or one way for all; the operations then say which. */
int sim_predict_fastest(struct program *p, const struct cluster *c, const struct sim_options *o,
                        struct arena *a, struct prediction *out, struct err *e);

/* Seconds to whole picoseconds; what is beyond 2^63 (a device of absurd rates) becomes INT64_MAX, which the engine
 * refuses as ERR_OVERFLOW. */
int64_t sim_ps(double s);

/* Duration of one kernel alone on the device, and its use of SMs (seconds of the whole chip) and HBM (bytes). */
struct kernel_time {
    int64_t alone_ps;
    double hbm_bytes;
};
struct kernel_time sim_kernel_time(const struct device *d, const struct framework_costs *f,
                                   const struct kernel_call *k);

/* Duration of a collective alone, by algorithm, in ps. */
int64_t sim_collective_ps(const struct program *p, const struct cluster *c, const struct op *o,
                          const struct instance *i, enum coll_algo algo);

/* One process of a Chrome trace (chrome://tracing, Perfetto): what a rank did, a row a stream. */
struct sim_trace_process {
    uint32_t pid;     /* unique; processes stand in the order of the list */
    const char *name; /* "rank 3 (predicted)": no quotes, no backslashes */
    const struct sim_instance
        *instances; /* borrowed, by start; of the rank, and shared ones when asked for */
    size_t n;
    uint32_t rank;
    bool with_shared;
};
int sim_write_processes(const char *path, const struct program *p,
                        const struct sim_trace_process *list, uint32_t n, struct err *e);

/* A prediction with keep_trace: a process a class of ranks; what all share stands in the first one's. */
int sim_write_trace(const char *path, const struct program *p, const struct prediction *pr,
                    struct err *e);

#endif
