/* model/cluster/bundled.h - topologies/NAME.json and experiments/NN-name/measured/NAME.json, as the build put them into the program
 * (tools/embed.sh).
 *
 * Sorted by name. The text is the file as it is, with a NUL behind it that len does not count.
 */
#ifndef BALLAST_MODEL_CLUSTER_BUNDLED_H
#define BALLAST_MODEL_CLUSTER_BUNDLED_H

#include <stddef.h>

struct bundled_file {
    const char *name; /* without folder and .json */
    const unsigned char *text;
    size_t len;
};

extern const struct bundled_file
    bundled_clusters[]; /* [bundled_clusters_n], then one with name NULL */
extern const size_t bundled_clusters_n;
extern const struct bundled_file bundled_grids[]; /* topologies/gemm/NAME.json, likewise */
extern const size_t bundled_grids_n;
extern const struct bundled_file bundled_measurements[]; /* likewise */
extern const size_t bundled_measurements_n;

#endif
