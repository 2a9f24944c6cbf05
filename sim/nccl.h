/* sim/nccl.h - how long NCCL takes for one call, alone on its links.
 *
 * Time = latency + transfer. `transfer` is what the bytes take on the busiest link; latency is everything that leaves links
 * idle. With n ranks on N nodes of g, k = 2 for all-reduce and 1 for all-gather and reduce-scatter, b bytes in all:
 *
 *   Ring   base + steps_in_node * step + steps_between * net_step + y + tail [ + ramp(y), Simple ]
 *          y = k (n-1)/n b / rate; of the k(n-1) steps N in n go between nodes. A ring's last operation receives and hands
 *          nothing on: tail * (b/n) / rate. LL and LL128 have a share of NVLink's rate; NICs carry a flag word beside each data word of
 *          LL, and 128 bytes for 120 of LL128.
 *   ramp   A s y / (y + t0 s), s = n/8: per step an extra A/8/k that saturates as the piece of a step grows. Over nodes the
 *          network's A and t0, at most two nodes' ranks.
 *   Tree   (all-reduce over nodes) base + 2(g-1) step + 2 log2(N) tree_step + y [ + fill(y), Simple ]; 2(g-1)/g b through a GPU of
 *          what tree_rate leaves of NVLink, and through the NICs of the busiest node what tree_sent() says: b over two nodes, 2 b from
 *          four on, since an inner node of one tree is a leaf of the other.
 *   fill   A s y / sqrt(y^2 + t0^2), s = (g-1 + log2 N)/8: a tree's chunk is as large as its channel's part up to 512 KiB, so that nothing
 *          overlaps until then and all of the depth is paid.
 *   NVLS   (all-reduce in a node) base + y + ramp, y = b (1 + 1/heads) / nvls.link_rate: the switch adds, and each of at most 32 heads
 *          sends b once and gets its part. ramp as of rings.
 *   NVLSTree  NVLS in nodes, Tree between them: base + 2 log2(N) net_step + y + fill(y), s = g/8; net_rate of NVLS's rate in a node.
 *   CollNet   (switches that reduce) two levels; b through a node's NICs each way. No measurement checks it.
 *   P2P    grouped sends and receives: p2p.base, a step for each further 16 peers or relay, and beside y (with what a GPU copies to itself) and a ramp of its own the time of a part:
 *          a message is cut from 64 KiB on (NCCL's p2p parts), and until then one channel carries it at part_rate. LL up to
 *          16 KiB a channel, at ll_rate of NVLink for all. Between nodes a step of LL, net_peer for each further peer, and at least net_fill.
 *
 *   PCIe   Where NVLink does not join the GPUs of a call in a node (pcie_share), y is what the busiest
 *          of NVLink, PCIe and the link between CPUs takes; steps over PCIe have their own time
 *          (pcie_step); the tail goes at PCIe's rate; LL has half of it at most (a flag word beside
 *          each data word), and there is no LL128: NCCL allows it on NVLink paths only. As many
 *          channels as for one NIC: NCCL finds one ring and doubles it.
 *
 * Choice: NCCL takes what its tuning table believes fastest, which is not always what is. In one node Simple follows LL128 where
 * the table says so: 8.4 us + 1.7 us steps + y < 6.6 us + 0.6 us steps + y/believed_ll128, and NVLS follows rings by the times
 * themselves. Over nodes sim/nccl_tuning.h has the table.
 *
 * Channels: rings and trees in a node 24, over nodes 2 a NIC, at most 32; NVLS 16; both fewer, down to one, while the call has less
 * than threads * threshold bytes a channel: LL 512 * 8 (rings: times n), LL128 640 * 8, Simple 512 * 64. Sends and receives in a node 32;
 * over nodes the ring's count rounded up to a power of two, and at most 2 a peer. coll.channels replaces 24, 2, 16 and 32. Source:
 * NCCL's source as far as known here, not checked against a version: channels doubled after the graph search (graph/connect.cc:
 * 12 rings through an NVSwitch, one for a NIC), MAXCHANNELS 32, the loop over nc in enqueue.cc with the thresholds of
 * graph/tuning.cc, p2pnChannels in graph/paths.cc; logs of 8 A100 and H100 say "24 coll channels, 16 nvls channels, 32 p2p
 * channels", of several nodes with 8 NICs 16. Unsure: Hopper's 4 a NIC where a node has few, what versions from 2.22 on give small
 * calls, sends of few bytes, domains of several nodes, and that direct NVLinks have as many as switches.
 *
 * Sources: formulas after NCCL's documentation of rings, trees and protocols and its tuning model's terms (latency + bytes /
 * bandwidth per algorithm and protocol); tail, ramp and constants are fitted to measured nccl-tests tables
 * (docs/VALIDATION.md). Cost: O(1).
 */
#ifndef BALLAST_SIM_NCCL_H
#define BALLAST_SIM_NCCL_H

#include "model/cluster/cluster.h"
#include "model/program/program.h"

enum nccl_algo {
    NCCL_RING,
    NCCL_TREE,
    NCCL_NVLS,
    NCCL_NVLS_TREE,
    NCCL_COLLNET,
    NCCL_P2P,
    NCCL_ALGO_N
};
/* GPUs of a node that reduce by multicast, at most. */
enum { NCCL_HEADS = 32 };
const char *nccl_algo_name(enum nccl_algo a);         /* "Ring", as NCCL_ALGO spells it */
const char *nccl_protocol_name(enum coll_protocol p); /* "LL128", as NCCL_PROTO does */
struct nccl_time;
const char *nccl_protocol_shown(const struct nccl_time *t); /* that the call goes by */

/* How NCCL is run. Zeroes: a process for each GPU, its own choice, buffers as FSDP has them (in place). */
struct nccl_options {
    bool out_of_place, one_process;
    uint32_t version;          /* of NCCL, major * 100 + minor; 0: nccl_version() */
    uint32_t algos, protocols; /* bit sets (1u << enum) of what is allowed; 0: all */
};

struct nccl_call {
    enum coll_kind kind;
    bool direct;             /* grouped sends and receives, whatever the kind: an owner's fan-out */
    double n;                /* ranks, >= 2 */
    double nodes;            /* that they are on */
    double per_node;         /* ranks on the fullest node */
    double bytes;            /* of the whole buffer: of all-gather and reduce-scatter n parts */
    double steps, net_steps; /* of the ring (direct: rounds of peers) in a node and between nodes */
    double ramp_ranks;       /* whose steps the ramp counts; n for a ring */
    double node_s, nic_s; /* of the ring's (direct: its own) bytes on the busiest link inside a node
                           * (NVLink, and PCIe with pcie_share) and beyond, at its rate */
    double
        pcie_share; /* of the steps inside a node, those over PCIe, as no NVLink joins the GPUs */
    double spine_s; /* what a step between nodes takes more, over the spine */
    double nics;    /* that a ring of it leaves a node by; 0: on one node */
    double peers;   /* direct: ranks on other nodes that one sends to, or receives from */
    bool in_place, one_process, one_way;
    uint32_t version; /* of NCCL, major * 100 + minor */
};

struct nccl_time {
    enum nccl_algo algo;
    enum coll_protocol protocol;
    double latency_s, transfer_s;
    double ramp_s;   /* part of the latency */
    bool sends_ll;   /* P2P chooses its protocol by the message, whatever is allowed: LL here */
    double channels; /* thread blocks of the call on a GPU, each with connections of its own */
    /* Seconds of links inside a node and of NICs that this algorithm needs per second that
     * call.node_s and .nic_s say. */
    double node_scale, nic_scale;
};

/* The versions whose choices are followed, as major x 100 + minor. */
enum { NCCL_OLDEST = 218, NCCL_NEWEST = 230 };
/* The version of NCCL that is taken for a cluster's: 2.27, which PyTorch 2.9 brings, and for Blackwell 2.29, as in the tables. */
uint32_t nccl_version(const struct cluster *c);

/* What the busiest of N nodes sends by a pair of binary trees, over the bytes of an all-reduce: 1, 1.5 and 2 for two, three, and
 * more nodes (NCCL's trees, each with half of the bytes; a node sends one piece up and one to each child). */
double nccl_tree_sent(double nodes);

/* False: NCCL has no such algorithm for this call here. */
bool nccl_time(const struct cluster *c, const struct nccl_call *call, enum nccl_algo algo,
               enum coll_protocol protocol, struct nccl_time *out);

/* What NCCL would do, of what is allowed. False: nothing is left. */
bool nccl_choose(const struct cluster *c, const struct nccl_call *call, uint32_t algos,
                 uint32_t protocols, struct nccl_time *out);

/* The class of a size in an error band. */
enum band_size nccl_band_size(uint64_t n_bytes);
/* How much wider than the others' the band of a kind is: send/recv and all-to-all, whose small sizes jump, and owners' segments. */
double nccl_band_factor(enum coll_kind kind, enum band_size size);
/* What measured tables of the cluster say of a call. */
enum band_basis {
    BASIS_MEASURED, /* one is of this kind over as many nodes and ranks of each, by this algorithm */
    BASIS_OTHER_RANKS, /* ... over other numbers of them, or by another algorithm alone */
    BASIS_OTHER_KIND,  /* of other kinds, in a node or on this network */
    BASIS_NONE,        /* none is of this generation, or of this network */
    BASIS_UNCHECKED    /* switches that reduce: nothing checks CollNet */
};
/* Half width of the 90 % band of a call of n ranks on so many nodes (NVLink domains) by an algorithm (NCCL_ALGO_N: none of NCCL's) as a share of its time: the cluster's for BASIS_MEASURED, wider
 * the less there is. The factors are of predictions by fits that leave such tables out (docs/VALIDATION.md). */
double nccl_band(const struct cluster *c, enum coll_kind kind, uint64_t n_bytes, uint32_t n_ranks,
                 uint32_t n_nodes, enum nccl_algo algo, enum band_basis *basis);

#endif
