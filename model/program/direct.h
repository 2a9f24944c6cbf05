/* model/program/direct.h - direct sends between nodes as flows: which rank sends how much to which.
 *
 * Who sends directly: an owner to everyone (p2p), an owner to one rank of each other node (hierarchical), everyone to everyone
 * (all-to-all), everyone to the next (send). Their flows are few products: every rank of `from` sends to every rank of `to` that is
 * on another node from.bytes * to.bytes, so that W^2 flows are two lists of W, and what a link carries is a sum over one list times a
 * sum over the other (sim/direct.c). Flows inside a node are left out: model/program/traffic.h's sent_intra and recv_intra have them. Of all
 * flows of a rank together it has sent_inter and recv_inter.
 */
#ifndef BALLAST_MODEL_PROGRAM_DIRECT_H
#define BALLAST_MODEL_PROGRAM_DIRECT_H

#include "model/program/program.h"

struct direct_end {
    uint32_t rank;
    uint64_t bytes; /* or 1, where the other end says how many */
};
struct direct_product {
    uint32_t n_from, n_to;
    const struct direct_end *from, *to; /* ascending rank */
};

/* Does this collective send directly with this algorithm? Segments to ranges of a group know no relays: hierarchical is a ring. */
bool direct_is(const struct program *p, const struct op *o, const struct instance *i,
               enum coll_algo algo);

/* Calls each(ctx, product) for every product of the instance, of all groups of the family, repeats and pieces included; the lists
 * are valid during the call. O(members) a group, hierarchical O(members + places that own x nodes), ranges O(members) a
 * segment. */
void direct_flows(const struct program *p, const struct op *o, const struct instance *i,
                  enum coll_algo algo, void (*each)(void *ctx, const struct direct_product *x),
                  void *ctx);

#endif
