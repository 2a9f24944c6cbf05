/* sim/links.h - what a collective puts on which links, from what each rank sends (model/program/traffic.h).
 *
 * NVLink by GPU, NICs and PCIe by what leaves and enters a node, leaves by what their NICs carry.
 * Rings use a node's NICs evenly and each GPU its own; direct sends take the routes of
 * sim/fabric.h, another GPU's NIC included (PXN), pair by pair in sum. Where NVLink does not join
 * all GPUs of a node, a ring goes on to the nearest GPU next (NVLink, then the same PCIe switch,
 * the same CPU), as NCCL looks for its rings, and every hop takes its route (links_node.c).
 */
#ifndef BALLAST_SIM_LINKS_H
#define BALLAST_SIM_LINKS_H

#include "sim/collective.h"

/* Bytes by instance of a resource: `every`, but for `only` (ascending). */
struct amounts {
    double every;
    struct fluid_amount *only; /* in arena */
    uint32_t n_only;
    double most;
};

/* Adds an entry to `only`, which has room. */
void links_note(struct amounts *a, uint32_t instance, double amount);

/* Bytes by instance of each kind of link. */
struct links_tally {
    const struct fabric *f;
    uint64_t *bytes[RESOURCE_N]; /* owned, [instances]; NULL: not there */
};
void links_tally_init(struct links_tally *t, const struct fabric *f);
void links_put(struct links_tally *t, enum sim_resource r, uint32_t instance, uint64_t bytes);
/* Up from one PCIe switch of a node, over the link between CPUs where they differ, down to another.
 */
void links_put_root(struct links_tally *t, uint32_t node, uint8_t from, uint8_t to, uint64_t bytes);
/* As amounts, into out [RESOURCE_N] where there is something; releases the tally. */
void links_tally_finish(struct links_tally *t, struct arena *arena, struct amounts *out);

/* Do bytes inside a node have routes of their own, or is every GPU joined with every other? */
bool links_have_routes(const struct fabric *f);
/* links_node.c: what the first ranks send on rings inside their nodes, hop by hop. Returns the
 * share of a ring's hops that pass PCIe, of the ring with most of them. */
double links_rings(const struct coll_cache *k, const struct op *o, const struct traffic *t,
                   uint32_t first, struct links_tally *out);
/* ... and one message inside a node; true: it passes PCIe. */
bool links_message(struct links_tally *out, uint32_t from, uint32_t to, uint64_t bytes);

/* The NVLinks, NICs, PCIe links, leaves and HBM of an instance: out [RESOURCE_N], zeroed; compute
 * is not touched. t: its traffic of the first k->first ranks. Direct sends between nodes are
 * written down for all ranks. O(ranks of `only`), rings; direct sends O(members x (1 + NICs that
 * receive)), whatever the pairs. Returns the share of steps inside a node that pass PCIe, 0 where
 * NVLink carries all. */
double links_of(const struct coll_cache *k, const struct op *o, const struct instance *i,
                enum coll_algo algo, const struct group_shape *s, const struct traffic *t,
                struct arena *arena, struct amounts *out);

/* sim/links_direct.c: the same of direct sends, without HBM. traffic: of all ranks. */
double links_direct(const struct coll_cache *k, const struct op *o, const struct instance *i,
                    enum coll_algo algo, const struct traffic *traffic, struct arena *arena,
                    struct amounts *out);

#endif
