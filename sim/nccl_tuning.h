/* sim/nccl_tuning.h - what NCCL believes of its algorithms, by which it chooses one for a call over several nodes.
 *
 * Before a call NCCL compares latency * l + bytes / bandwidth of every algorithm and protocol by a model of its own, with figures
 * of a GPU generation and a link, not of the machine it runs on. The call then takes what it takes: sim/nccl.h has the measured
 * costs. The two differ by up to a factor of three, so a choice by measured costs would be better than NCCL's, and wrong.
 *
 * With n ranks on N nodes, g to a node, C channels of the graph search and `bus` their bandwidth together:
 *
 *   Ring       bandwidth bus n/steps, of which LL has half and at most the CPU's limit, LL128 0.92 and at most its limit a channel;
 *              latency base + (steps - I) max(hop, overhead) + I net hop, I = k (N - 1); 1.4 times that for large all-reduces.
 *   Tree       bus/2 * 0.92, a chain in a node: base + 2 ((g-1) hop + floor(log2 N) net hop). On two nodes bandwidth inside counts, which may be
 *              twice that of the NICs. LL has 1/3.8, LL128 15/16 of it; all times a correction by size (tree_share[]).
 *   NVLSTree   by version: up to 2.27 5/6 of the slower of multicast and (on three nodes and more half of) the NICs; from 2.28 on with
 *              an efficiency a generation. Latency 25 us + 2 floor(log2 N) net hop.
 *
 * `bus` comes from the graph search: as many channels as there are NICs (ports of one GPU count as one NIC), each at the largest
 * speed of NCCL's list that the NIC has and that all channels together leave on a GPU's NVLink.
 *
 * Sources: NVIDIA/nccl, src/graph/tuning.cc (ncclTopoTuneModel, ncclTopoGetAlgoTime) and src/graph/search.cc of versions 2.18 to
 * 2.30, the tables as data. CPUs are taken for other than AMD's, and plug-ins to report no latency of the NIC.
 */
#ifndef BALLAST_SIM_NCCL_TUNING_H
#define BALLAST_SIM_NCCL_TUNING_H

#include "sim/nccl.h"

/* Seconds that NCCL of the call's version believes a call over two nodes or more takes, [algo][protocol]. INFINITY: it has no such
 * choice. O(1). */
struct nccl_beliefs {
    double s[NCCL_ALGO_N][PROTOCOL_N];
};
void nccl_believe(const struct cluster *c, const struct nccl_call *call, struct nccl_beliefs *out);

#endif
