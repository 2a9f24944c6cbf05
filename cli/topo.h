/* cli/topo.h - the parts of `ballast topo`: a cluster as a picture, and what is suspicious about it. */
#ifndef BALLAST_CLI_TOPO_H
#define BALLAST_CLI_TOPO_H

#include "core/opts.h"
#include "core/strbuf.h"
#include "core/table.h"
#include "model/cluster/cluster.h"
#include "model/cluster/topology.h"

/* One node and the fabric above it, within 100 columns; any number of GPUs, NICs and switches wraps. */
void topo_draw(const struct cluster *c, struct strbuf *out);

/* What a reader should know before trusting numbers of this cluster. A warning is likely a mistake in the description
 * or a machine that will disappoint; a note is a property that limits what runs on it. */
struct topo_finding {
    bool warning;
    uint32_t line;    /* of a topology file; 0: of the cluster */
    const char *text; /* in arena */
};
/* *out: [n] in arena; n is returned. */
size_t topo_check(const struct cluster *c, struct arena *a, const struct topo_finding **out);

/* A topology file's devices as rows; release the table. And its findings, as topo_check(). */
void topo_file_devices(const struct topology *t, struct arena *a, struct table *out);
size_t topo_file_check(const struct topology *t, struct arena *a, const struct topo_finding **out);

/* Fits the constants of collectives to measured tables (cli/coll_tables.h) as cli/topo_fit.h says.
 * ERR_INVALID: the rows identify no constant, or contradict each other. Both tables are to be
 * released, also on failure. *next, in the arena: what to measure next and which constants that
 * identifies, or NULL. */
struct topo_calibration {
    const char *cluster; /* as on the command line: where constants start */
    const char *const *files;
    size_t n_files;
    bool leave_one_out; /* also score each table by a fit to the others */
};
int topo_calibrate(const struct topo_calibration *k, struct cluster *c, struct arena *a,
                   struct table *constants, struct table *scores, const char **next, struct err *e);

/* Bytes/s, one direction, all reached by large transfers. */
struct topo_rates {
    double nvlink_Bps; /* a GPU; 0: no NVLink */
    double pcie_Bps;   /* a GPU to those that NVLink does not join with it; 0: not described */
    double nic_Bps;    /* a GPU, when all GPUs send: its share of its NIC */
    double node_Bps;   /* a node into the fabric: NICs that GPUs use */
    /* A node, when half of the nodes send to the other half; inside one domain or node by what joins
     * its GPUs. */
    double bisection_Bps;
    uint32_t gpus_on_busy_nic; /* the most GPUs that share one NIC */
    uint32_t nics_used;
};
struct topo_rates topo_rates(const struct cluster *c);

/* The links from one rank to another (ends: FROM,TO), each with its rate. t: the file that the cluster is from, for its direct
 * NVLinks, or NULL. */
int topo_route(const struct cluster *c, const struct topology *t, const struct opt_val *ends,
               enum table_format format, struct arena *a, int argc, char **argv, struct strbuf *out,
               struct err *e);

#endif
