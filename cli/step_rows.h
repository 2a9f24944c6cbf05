/* cli/step_rows.h - measured training steps, and their predictions.
 *
 * A file is {"format": "ballast-steps", "rows": [...]}; a row has id, model, cluster, nodes or gpus, layout, optimizer, a
 * job object with the job options, a metric of the rows that sim prints, its measured value, and the source; `serial` when
 * operations ran one after the other, as under ballast exec. Paths are relative to the file's folder.
 */
#ifndef BALLAST_CLI_STEP_ROWS_H
#define BALLAST_CLI_STEP_ROWS_H

#include "core/json.h"

enum step_metric {
    STEP_MS,
    FORWARD_MS,
    BACKWARD_MS,
    OPTIMIZER_MS,
    MEMORY_GIB,
    MEMORY_ALLOC_GIB,
    TOKENS,
    MFU,
    BALANCE,
    BYTES_INTRA,
    BYTES_INTER,
    BYTES_INTRA_RECV,
    BYTES_INTER_RECV,
    STEP_METRIC_N
};
extern const char *const step_metric_names[]; /* NULL-terminated */

struct step_row {
    const char *id, *model, *cluster, *layout, *source; /* in arena */
    uint64_t nodes, gpus;
    bool serial;
    enum step_metric metric;
    double value, predicted;
    const char *skipped; /* why, or NULL */
};

/* Reads and predicts all rows of the document, appended to the list (mem_grow). */
int step_rows_read(const struct json_at *top, struct arena *a, struct step_row **list, size_t *n,
                   size_t *cap, struct err *e);

#endif
