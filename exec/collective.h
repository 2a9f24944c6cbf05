/* exec/collective.h - collectives by point-to-point messages, in the program's algorithm.
 *
 * The same kinds and algorithms as model/program/traffic.h counts: what each rank sends and receives here equals
 * traffic_of() to the byte. Messages and sums are a carrier's: host memory over a transport, or a device's. Reductions add
 * in fp32 and store in the wire's dtype.
 *
 * `ordered` makes a reduction deterministic: every contribution goes to the rank that reduces it (direct sends), which
 * adds them in ascending rank. Bytes: reduce-scatter and all-reduce as the ring's; a segment reduction as its mirrored
 * p2p (a rank sends M - M_self, an owner receives (n-1) M_self). Without it sums follow the ring, chain or tree.
 */
#ifndef BALLAST_EXEC_COLLECTIVE_H
#define BALLAST_EXEC_COLLECTIVE_H

#include "exec/transport.h"
#include "kernels/kernels.h"
#include "model/program/program.h"

/* Members of the caller's group, in group order. */
struct coll_group {
    const uint32_t *ranks; /* [n] */
    uint32_t n, self;      /* self: the caller's place */
    uint32_t gpus_per_node;
};

struct coll_call {
    enum coll_kind kind;
    enum coll_algo algo; /* of segment kinds; never AUTO */
    bool ordered;
    enum dtype dtype; /* of the elements on the wire */
    uint32_t tag;     /* the same on all members, other than that of other calls in flight */
    /* even kinds: `data` has n chunks of chunk_bytes (all-gather: own chunk in place on entry; reduce-scatter: the sum of
     * chunk `self` in place on exit, other chunks destroyed; all-reduce: all chunks summed) */
    void *data;
    size_t chunk_bytes;
    /* segment kinds: `data` is the unit's buffer; a gather fills every segment whose range the caller is in, a reduction
     * leaves the sums in the segments it roots (others are destroyed) */
    const struct wire_segment *segments; /* [n_segments], roots and ranges in group places */
    uint32_t n_segments;
    double scale;  /* reductions: the sum is multiplied by it in fp32 (1/n for a mean); 0: 1 */
    void *scratch; /* collective_scratch_bytes() */
};

size_t collective_scratch_bytes(const struct coll_call *c, const struct coll_group *g);

/* Messages are matched by pair of ranks, in order. A carrier may do all of this later, as long as each call sees what those
 * before it did: `finish` says that nothing after it may start before the messages so far have arrived. Ranks are the
 * program's. */
struct coll_carrier {
    void *ctx;
    int (*send)(void *ctx, uint32_t rank, const void *data, size_t n, struct err *e);
    int (*receive)(void *ctx, uint32_t rank, void *data, size_t n, struct err *e);
    int (*finish)(void *ctx, struct err *e);
    void (*copy)(void *ctx, void *to, const void *from, size_t n);
    void (*zero)(void *ctx, void *p, size_t n);
    void (*reduce)(void *ctx, const struct kernel_reduce *a);
    void (*scale)(void *ctx, const struct kernel_scale *a);
};
int collective_carry(const struct coll_carrier *by, const struct coll_group *g,
                     const struct coll_call *c, struct err *e);

/* On host memory over a transport. Blocking for the caller. Cost as traffic.h says. */
int collective_run(struct transport *t, const struct coll_group *g, const struct coll_call *c,
                   struct err *e);

#endif
