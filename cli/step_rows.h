/* cli/step_rows.h - measured training steps, and their predictions.
 *
 * A file is {"format": "ballast-steps", "rows": [...]}; a row has id, model, cluster, nodes or gpus, layout, optimizer, a
 * job object with the job options, a metric of the rows that sim prints, its measured value, and the source; `serial` when
 * operations ran one after the other, as under ballast exec; `distrust`, why the row is scored apart, or none. Paths are relative to the file's folder.
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
    const char *id, *model, *cluster, *layout, *optimizer, *source; /* in arena */
    uint64_t nodes, gpus;                                           /* as asked; 0: not */
    /* [n_options] of its `job`, as on the command line, without those that say what is so anyway; in arena */
    const char **options;
    size_t n_options;
    bool serial;
    enum step_metric metric;
    double value, predicted;
    uint32_t world; /* GPUs */
    double
        band; /* half width in percent of a step's time that such a run is within; NAN: none, or no time */
    const char *basis;    /* of the band, or NULL */
    const char *skipped;  /* why, or NULL */
    const char *distrust; /* why this row is scored apart, or NULL */
};

/* The rows of one document. */
struct step_set {
    const char *name,
        *what; /* of the file, without folder and .json; what it says of itself or NULL; in arena */
    size_t first, n;
};

struct step_rows {
    struct step_row *rows; /* [n] owned */
    struct step_set *sets; /* [n_sets] owned */
    size_t n, cap, n_sets, cap_sets;
};

/* Reads and predicts all rows of the document, appended to what `to` has (zeroed at first). */
int step_rows_read(const struct json_at *top, struct arena *a, struct step_rows *to, struct err *e);
void step_rows_release(struct step_rows *s);

#endif
