/* cli/topo_calls.h - the calls by which a fit is judged: its rows, and beyond.
 *
 * First come the rows of the tables, in their order. Then every collective that nccl-tests runs,
 * from 1 KiB to 8 GiB in powers of two, over the first 2, 4, 8, ... GPUs of a node, over a whole
 * node, over two nodes, and over the groups of the tables: some hundred calls. A constant that
 * moves changes some of them, and most of them no row has measured.
 */
#ifndef BALLAST_CLI_TOPO_CALLS_H
#define BALLAST_CLI_TOPO_CALLS_H

#include "cli/coll_tables.h"

/* A collective over a set of GPUs. */
struct topo_group {
    struct call call; /* n_bytes is not read */
    uint32_t n_nodes;
    bool over_nodes; /* leaves an NVLink domain */
    bool none;       /* a table that is skipped */
    const uint64_t *bytes;
    size_t first, n; /* of its calls */
};
struct topo_calls {
    struct topo_group *groups; /* [n_groups] in arena: that of each table, then the others */
    size_t n_groups;
    size_t n_rows, n; /* calls that are rows of tables, and all */
};

/* What is predicted of a call. */
struct topo_guess {
    double seconds; /* NAN: NCCL has no such call here */
    enum nccl_algo algo;
    enum coll_protocol protocol;
};

/* `c`: whose GPUs and NICs. */
void topo_calls_init(struct topo_calls *t, const struct cluster *c, const struct coll_table *tables,
                     size_t n_tables, struct arena *a);
const struct topo_group *topo_call_group(const struct topo_calls *t, size_t call);
/* out[t->n] of all calls. `held`: each by this algorithm and protocol; NULL: by what NCCL chooses.
 * Some microseconds a group. */
void topo_calls_guess(const struct topo_calls *t, const struct cluster *c,
                      const struct topo_guess *held, struct topo_guess *out);

#endif
