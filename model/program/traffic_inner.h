/* model/program/traffic_inner.h - what traffic.c (even collectives) and traffic_segments.c (owners' segments) share: bytes are collected as
 * differences from what every rank moves.
 */
#ifndef BALLAST_MODEL_PROGRAM_TRAFFIC_INNER_H
#define BALLAST_MODEL_PROGRAM_TRAFFIC_INNER_H

#include "model/program/traffic.h"

/* Differences from `every`, by rank: dense, made when the first rank differs. */
struct traffic_collect {
    const struct program *p;
    const struct group *g;
    uint32_t first; /* ranks to count, the first ones */
    struct group_shape s;
    bool regular;      /* members on a node: s.per_node everywhere */
    uint32_t *on_node; /* [nodes] in arena, of a group that lists its members and is not regular */
    struct traffic_bytes every;
    int64_t (*deltas)[4]; /* owned [first]: sent_intra, sent_inter, recv_intra, recv_inter */
    size_t n_deltas;      /* ranks that may differ */
};

/* A rank moves so much more than every rank: sent and received inside the node, between nodes. */
void traffic_put(struct traffic_collect *c, uint32_t rank, int64_t si, int64_t se, int64_t ri,
                 int64_t re);
/* Members of the group of `base` on the node of `rank`. */
uint32_t traffic_on_node(const struct traffic_collect *c, uint32_t base, uint32_t rank);
/* Bytes of a ring that go to another node: the group's `on` GPUs of a node take turns on the rails. */
uint64_t traffic_cross(const struct traffic_collect *c, uint64_t bytes, uint32_t on);
/* Every rank sends and receives `bytes` on rings. */
void traffic_even_ring(struct traffic_collect *c, uint64_t bytes);

/* traffic_segments.c: a row of a segment table, by a way that is not ALGO_AUTO; one segment to all of every group, along a ring. */
void traffic_segments(struct traffic_collect *c, const struct collective *k, uint32_t unit,
                      enum coll_algo algo);
void traffic_broadcast(struct traffic_collect *c, const struct wire_segment *s);

#endif
