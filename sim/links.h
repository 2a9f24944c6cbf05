/* sim/links.h - what a collective puts on which links, from what each rank sends (model/traffic.h).
 *
 * NVLink by GPU, NICs and PCIe by what leaves and enters a node, leaves by what their NICs carry. Rings use a node's NICs evenly and
 * each GPU its own; direct sends take the routes of sim/fabric.h, another GPU's NIC included (PXN), pair by pair in sum.
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

/* The NVLinks, NICs, PCIe links, leaves and HBM of an instance: out [RESOURCE_N], zeroed; compute is not touched. t: its traffic of
 * the first k->first ranks. Direct sends between nodes are written down for all ranks. O(ranks of `only`), rings; direct sends
 * O(members x (1 + NICs that receive)), whatever the pairs. */
void links_of(const struct coll_cache *k, const struct op *o, const struct instance *i,
              enum coll_algo algo, const struct group_shape *s, const struct traffic *t,
              struct arena *arena, struct amounts *out);

/* sim/links_direct.c: the same of direct sends between nodes, without HBM. traffic: of all ranks. */
void links_direct(const struct coll_cache *k, const struct op *o, const struct instance *i,
                  enum coll_algo algo, const struct traffic *traffic, struct arena *arena,
                  struct amounts *out);

#endif
