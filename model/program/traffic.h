/* model/program/traffic.h - what a collective moves: bytes per rank, inside the node and between nodes.
 *
 * A pure function of (collective, group, node shape): the simulator turns it into link use, the byte tables of compare
 * are its sums, and exec's transport counters are held against it. Payload bytes only, no headers.
 *
 * Even collectives over n ranks, chunk c = ceil(elements/n) elements (ring): all-gather and reduce-scatter send
 * (n-1)c a rank, all-reduce 2(n-1)c, all-to-all (n-1)c, and receive the same; a send is a shift, everyone's bytes to the next
 * member; broadcast and reduce: every rank but the
 * last sends the whole buffer once. A ring's bytes cross the nodes on rails: of what the g GPUs of a node send, 1/g
 * goes out by each of them, so a rank's share between nodes is sent/g (rounded up).
 *
 * An all-reduce of what ranks root: of every rank's own bytes, as an even one of these.
 *
 * Segment collectives, M bytes in all, rank r roots M_r, range of n ranks:
 *   p2p           root sends M_r to each of the n-1 others itself.
 *   ring          every rank passes on what it got, except what its successor roots: M - M_{r+1}; crossing on rails.
 *   tree          a pair of binary trees over nodes for every rail, chains inside a node (model/program/tree.h): every rank but a
 *                 few hands on what it got, 1/g of it to another node. Piece by piece, to the byte.
 *   hierarchical  root sends M_r to the peer GPU (same local rank) of each other node, which passes it on in its node.
 *   padded        an even all-gather of n x max_r M_r.
 * Reductions are the mirror image: send and receive change places.
 */
#ifndef BALLAST_MODEL_PROGRAM_TRAFFIC_H
#define BALLAST_MODEL_PROGRAM_TRAFFIC_H

#include "model/program/group_shape.h"
#include "model/program/program.h"

struct traffic_bytes {
    uint64_t sent_intra, sent_inter, recv_intra, recv_inter;
};
struct traffic_only {
    uint32_t rank;
    struct traffic_bytes bytes;
};
/* Per rank: `every`, except for `only` (ascending rank, in arena). */
struct traffic {
    struct traffic_bytes every;
    uint32_t n_only;
    struct traffic_only *only;
};

/* The collective instance `i` with algorithm `algo` (never AUTO for segment kinds), pieces
 * and repeats included. All groups of the family run it at once. O(segments + irregular ranks). */
void traffic_of(const struct program *p, const struct op *o, const struct instance *i,
                enum coll_algo algo, struct arena *a, struct traffic *t);
/* The same of the first ranks alone: those of whole groups, when the others' are known to be like them. `every` and `only` say
 * nothing of the rest. */
void traffic_of_first(const struct program *p, const struct op *o, const struct instance *i,
                      enum coll_algo algo, uint32_t first, struct arena *a, struct traffic *t);
/* Do the segments of this instance go to ranges of neighbours, not to the whole group? */
bool traffic_to_ranges(const struct program *p, const struct op *o, const struct instance *i);
/* Bytes of one of the n parts of an even collective's elements: its pieces, each cut into n parts. */
uint64_t traffic_chunk(const struct collective *k, uint64_t elements, uint32_t n);
struct traffic_bytes traffic_get(const struct traffic *t, uint32_t rank);

/* Sum over a whole step, of the phases in phase_mask (1u << enum phase): algo_of names the algorithm that AUTO became (NULL: ring).
 * sent/recv of every rank into per_rank [world]. */
void traffic_step(const struct program *p, uint32_t phase_mask,
                  enum coll_algo (*algo_of)(void *ctx, const struct instance *i), void *ctx,
                  struct traffic_bytes *per_rank);

#endif
