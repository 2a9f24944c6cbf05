/* cli/coll_tables.h - measured tables of collectives, as nccl-tests prints them, and their predictions.
 *
 * The file is a JSON array of tables: id, cluster, nodes, gpus, collective and rows [{bytes, time_us}], with what else is known of
 * the run (docs/CLI.md has the keys). A table whose cluster is no bundled name takes the fallback, else a cluster made from its own
 * system, gpus_per_node, nics_per_node and nic_gbps, with the network that its system or conditions name.
 */
#ifndef BALLAST_CLI_COLL_TABLES_H
#define BALLAST_CLI_COLL_TABLES_H

#include "core/json.h"
#include "sim/call.h"

struct coll_row {
    uint64_t n_bytes;
    double time_us, inplace_us; /* inplace_us 0: not given */
    const char *distrust;       /* why this row is scored apart, or NULL */
    bool contradicts;           /* ... found by reading, not said by the file */
    double predicted_us;        /* set by coll_table_predict() */
    struct nccl_time nccl;
};

struct coll_table {
    const char *id, *system, *source, *conditions, *collective; /* in arena; "" when not given */
    const char *skipped;      /* why nothing is predicted, or NULL */
    const char *cluster_name; /* as the file says, "" */
    const char *forced;       /* NCCL_ALGO of the run, in arena, or NULL: NCCL chose */
    const char *assumed;      /* of `cluster`, beyond what the file's keys say, or NULL */
    struct cluster cluster;   /* resized; unless skipped */
    struct call call;         /* n_bytes is each row's */
    char why[200];            /* room for `skipped` */
    struct coll_row *rows;
    size_t n_rows;
};

/* "all_reduce", "all-reduce", "AllReduce", "alltoall", "sendrecv". -1 and the nearest name in *e. */
int coll_kind_parse(const char *name, enum coll_kind *out, struct err *e);
/* ... or owner_gather, owner_reduce, which no measured table has. */
int coll_or_owners_parse(const char *name, enum coll_kind *out, struct err *e);
/* "alltoall", "sendrecv": what nccl-tests calls it. Not of owner collectives. */
const char *coll_kind_nccl_name(enum coll_kind kind);
/* The names that nccl-tests knows, for messages and options; NULL-terminated. */
extern const char *const coll_kind_names[];
/* "Ring" -> its bit; without case. -1 and the nearest name in *e. */
int nccl_algo_parse(const char *name, uint32_t *bit, struct err *e);
int nccl_protocol_parse(const char *name, uint32_t *bit, struct err *e);
/* "2.27" or "2.27.3" into 227. */
int nccl_version_parse(const char *text, uint32_t *out, struct err *e);

/* A file of tables or of steps, or what nccl-tests printed (cli/nccl_text.h). `asked`: the collective that a log which does not say
 * so itself is of, or NULL. */
int coll_file_load(struct json *j, const char *path, const char *asked, struct err *e);
/* Is this JSON a file of tables (an array), not one of steps? */
bool coll_tables_here(const struct json_at *top);
/* All tables of the document. `cluster`: one as on the command line, or NULL: for tables without a bundled one, or `always`. */
int coll_tables_read(const struct json_at *top, const char *cluster, bool always, struct arena *a,
                     struct coll_table **list, size_t *n, struct err *e);
/* Fills in predictions with the table's cluster; what the model has no way for becomes `skipped`. */
int coll_table_predict(struct coll_table *t, struct err *e);

/* Tables of several documents: no id twice, which would count one measurement as two. ERR_INVALID names it. O(n log n). */
int coll_tables_distinct(const struct coll_table *list, size_t n, struct err *e);
/* Does the system that a table describes have GPUs of the cluster's kind, as far as its words tell? */
bool coll_system_has(const char *system, const struct cluster *c);

#endif
