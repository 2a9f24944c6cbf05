/* sim/collective.h - a collective as one fluid activity: its latency, and what it uses of which links.
 *
 * Time alone is sim/nccl.h's: a latency in which links are idle, then a transfer at the rate of the busiest link.
 * Bytes on links are sim/links.h's, so that an owner that sends a matrix to 63 ranks is the bottleneck at its own port.
 */
#ifndef BALLAST_SIM_COLLECTIVE_H
#define BALLAST_SIM_COLLECTIVE_H

#include "sim/fabric.h"
#include "sim/fluid.h"
#include "sim/nccl.h"
#include "sim/sim.h"

struct coll_activity {
    struct fluid_activity activity; /* uses in the cache's arena */
    int64_t alone_ps;
    enum sim_resource link; /* the busiest one, which moves its share in link_ps of alone_ps */
    int64_t link_ps;
    bool
        fan_out; /* that link carries more than twice what such links carry on average: an owner's, or its node's */
    double ways_ps
        [ALGO_N]; /* where AUTO chose: what each way would have taken alone, or at least so much */
    enum coll_algo algo;
    bool possible; /* false: none of the allowed algorithms and protocols can do it */
    struct nccl_time nccl;
    struct traffic traffic;
};

/* Activities by pattern: the same collective on the same segments is made once. */
struct coll_cache {
    const struct program *p;
    const struct cluster *c;
    uint32_t
        first; /* ranks whose use of links is written down: all, or a node's where all nodes do alike */
    struct fabric fabric;
    struct nccl_options nccl;
    struct arena arena;
    struct coll_cache_slot *slots; /* owned */
    size_t n, cap;
};

/* The cluster, by domain, must make a fabric (fabric_init). */
void coll_cache_init(struct coll_cache *k, const struct program *p, const struct cluster *c,
                     const struct nccl_options *nccl);
/* Groups in nodes that hold equally many do in every node what they do in the first; so do ranks in one place of them. */
void coll_cache_fold(struct coll_cache *k);
void coll_cache_release(struct coll_cache *k);
/* The activity of an instance by one algorithm (never AUTO; RING where there are no segments), made anew in `arena`. */
struct coll_activity *coll_make(const struct coll_cache *k, const struct op *o,
                                const struct instance *i, enum coll_algo algo, struct arena *arena);
/* AUTO is resolved to the fastest of p2p, ring, tree and hierarchical. */
const struct coll_activity *coll_get(struct coll_cache *k, const struct op *o,
                                     const struct instance *i, enum coll_algo algo);

/* How many there are of a resource, at least 1, and units per ps of each: SM-shares, bytes. A NIC is no faster than its own
 * PCIe link. */
uint32_t coll_instances(const struct fabric *f, enum sim_resource r);
double coll_capacity(const struct fabric *f, enum sim_resource r);
/* Is there any? One level of switches has no leaves, a single node no NICs. */
bool coll_is_there(const struct fabric *f, enum sim_resource r);
/* Creates the kinds of sim_resource in the order of the enum. */
void coll_make_kinds(struct fluid *f, const struct fabric *fabric);

#endif
