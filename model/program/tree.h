/* model/program/tree.h - the trees that carry owner segments with `--gather tree`: said once, counted by traffic_segments.c, timed by
 * sim/collective.c, walked by exec/collective.c.
 *
 * A segment goes from its root to all places of its range (members of a group in rank order; those of a node follow one
 * another). Between nodes it travels as NCCL's trees do: a pair of binary trees, each with half of the bytes, in which an
 * inner node of one is a leaf of the other, so that every node passes on as many bytes as it gets (Sanders, Speck and
 * Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35, 2009; NCCL's
 * double binary tree, its channels). Inside a node it goes along a chain.
 *
 *   Node tree. Node 0 is the root's; the others are counted on from it, 1..K, around the range's nodes. The first tree
 *   hangs them in order: the lowest set bit b of v is its level, its parent is v+b or v-b, whichever is twice as even;
 *   where that is beyond K, v-b; the top hangs on node 0. Odd v are leaves. The second is the first with K+1-v in the
 *   place of v (K even) or with v moved by one (K odd: then node K is a leaf of both). Depth ceil(log2(K+1)).
 *   Rails. The pair stands once for every member of the fullest node: rail c runs through member c of every node (c mod its
 *   members), so that all NICs carry the same. A segment is cut into 2 x rails pieces of whole elements.
 *   Chain. In the root's node it starts at the root, elsewhere at the rail's member, and goes around the node once. The
 *   rail's member also sends to the nodes below.
 *
 * On one node there is one chain and one piece. Reductions run the same edges backwards.
 */
#ifndef BALLAST_MODEL_PROGRAM_TREE_H
#define BALLAST_MODEL_PROGRAM_TREE_H

#include "model/program/traffic.h"

struct tree {
    uint32_t n, n_nodes;
    uint32_t rails;   /* members of the fullest node */
    uint32_t n_trees; /* 2 x rails (tree i: rail i/2, pair's i%2), or 1 */
    uint32_t *first;  /* [n_nodes + 1] first place of each node; owned */
};

/* Places 0..n-1 on `ranks`, ascending. O(n). */
void tree_init(struct tree *t, const uint32_t *ranks, uint32_t n, uint32_t gpus_per_node);
/* The same for ranks rank..rank+n-1. O(nodes). */
void tree_init_neighbours(struct tree *t, uint32_t rank, uint32_t n, uint32_t gpus_per_node);
void tree_release(struct tree *t);
uint32_t tree_node(const struct tree *t, uint32_t place); /* O(log nodes) */

/* What tree i carries of a segment of `bytes` in elements of `element` bytes. */
struct tree_piece {
    uint64_t offset, bytes;
};
struct tree_piece tree_piece(const struct tree *t, uint32_t i, uint64_t bytes, uint64_t element);

/* Where `place` hangs in tree i of a segment from `root`. */
enum { TREE_CHILDREN = 3 };
struct tree_links {
    uint32_t parent; /* PROGRAM_NONE at the root */
    uint32_t n_children, child[TREE_CHILDREN];
};
struct tree_links tree_links(const struct tree *t, uint32_t root, uint32_t i, uint32_t place);

/* Edges between nodes on the longest way down from the root, of `nodes` nodes. */
uint32_t tree_depth(uint32_t nodes);
/* Both trees of a pair, rooted in the first of `nodes` nodes, on leaf switches of `per_leaf` nodes each: the most edges that
 * leave one leaf, and that enter one. O(nodes). */
struct tree_crossings {
    uint32_t out, in;
};
struct tree_crossings tree_crossings(uint32_t nodes, uint32_t per_leaf);

/* What the places send and receive when all n segments of this range are sent: put gets every place that does not move
 * just `every`, ascending. Where all pieces are equal and `every` is what a place then moves (1/rails of the bytes between
 * nodes), only places near roots and on smaller nodes are looked at. O(places + segments x trees). */
void tree_bytes(const struct tree *t, const struct wire_segment *s, uint32_t n, uint64_t element,
                const struct traffic_bytes *every,
                void (*put)(void *ctx, uint32_t place, const struct traffic_bytes *b), void *ctx);

#endif
