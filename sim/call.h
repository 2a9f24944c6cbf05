/* sim/call.h - single collectives as nccl-tests runs them: these ranks, so many bytes, alone or several at once. */
#ifndef BALLAST_SIM_CALL_H
#define BALLAST_SIM_CALL_H

#include "model/cluster/cluster.h"
#include "model/program/program.h"
#include "sim/nccl.h"

struct call {
    enum coll_kind
        kind; /* COLL_SEND: everyone to the next rank; of 2 ranks the first to the second */
    uint32_t n_ranks;
    const uint32_t *ranks; /* [n_ranks] ascending; NULL: the first n_ranks of the cluster */
    uint64_t
        n_bytes; /* the size column of nccl-tests: of all-gather and reduce-scatter the whole buffer */
    enum coll_algo algo; /* of segment kinds: who hands on what; AUTO: the fastest */
    uint32_t n_owners;   /* of segment kinds: so many ranks, evenly spread, own equal parts; 0: 1 */
    uint64_t piece_bytes; /* cut into calls of so many bytes, one after the other; 0: one call */
    struct nccl_options nccl;
};

struct call_time {
    int64_t alone_ps;
    int64_t end_ps; /* all calls started together, links shared by channels */
    struct nccl_time nccl;
    enum coll_algo algo; /* what AUTO became */
};

/* out[n]. ERR_INVALID: fewer than 2 ranks, more than the cluster has, one named twice or out of order; ERR_UNSUPPORTED: the
 * options allow nothing that NCCL has for such a call. */
int call_times(const struct cluster *c, const struct call *calls, uint32_t n, struct call_time *out,
               struct err *e);

/* The same call of n sizes (call->n_bytes is not read), each alone: out[n], end_ps as alone_ps. One fabric for all and no
 * engine, so a table costs hardly more than what NCCL chooses for each size. Errors as above. */
int call_sizes(const struct cluster *c, const struct call *call, const uint64_t *n_bytes,
               uint32_t n, struct call_time *out, struct err *e);

/* nccl-tests' busbw / algbw of a kind over n ranks: 2(n-1)/n of all-reduce, (n-1)/n of all-gather, reduce-scatter and all-to-all,
 * else 1 (NVIDIA nccl-tests, doc/PERFORMANCE.md). */
double call_bus_factor(enum coll_kind kind, uint32_t n);

#endif
