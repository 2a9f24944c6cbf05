/* cli/step_rows.h - measured training steps: reading them.
 *
 * A file is {"format": "ballast-steps", "rows": [...]}; a row has id, model, cluster, nodes or gpus, layout, optimizer, a
 * job object with the job options, a metric of the rows that sim prints, its measured value, and the source; `serial` when
 * operations ran one after the other, as under ballast exec; `distrust`, why the row is scored apart, or none. Paths are relative to the file's folder.
 */
#ifndef BALLAST_CLI_STEP_ROWS_H
#define BALLAST_CLI_STEP_ROWS_H

#include "cli/metrics.h"
#include "core/json.h"

/* The metrics that a row may have measured. */
enum { STEP_METRIC_N = 13 };
extern const enum metric_id step_metrics[STEP_METRIC_N];

struct step_row {
    const char *id, *model, *cluster, *layout, *optimizer, *source; /* in arena */
    uint64_t nodes, gpus;                                           /* as asked; 0: not */
    /* [n_options] of its `job`, as on the command line, without those that say what is so anyway; in arena */
    const char **options;
    size_t n_options;
    bool serial;
    enum metric_id metric;
    double value, predicted;
    uint32_t world; /* GPUs */
    double
        band; /* half width in percent of a step's time that such a run is within; NAN: none, or no time */
    const char *basis;    /* of the band, or NULL */
    const char *skipped;  /* why, or NULL */
    const char *distrust; /* why this row is scored apart, or NULL */
};

/* Is it a step's time, which bands are of? */
bool step_metric_is_time(enum metric_id m);

/* The list of rows of a document of steps. ERR_PARSE or ERR_INVALID when the document is none. */
int step_rows_open(const struct json_at *top, struct json_at *rows, struct err *e);
/* What one row says, without its prediction. */
int step_row_read(const struct json_at *at, struct step_row *m, struct arena *a, struct err *e);
/* Turns the row that step_row_read() filled into job options (what its `job` says, and what stands beside it), fills
 * row->options, and hands the setup to `fn`, whose status it returns. What this version does not support marks the
 * row as skipped and is no error. */
struct setup;
int step_row_with_setup(const struct json_at *at, struct step_row *m, struct arena *a,
                        int (*fn)(void *ctx, struct step_row *m, struct setup *s, struct err *e),
                        void *ctx, struct err *e);

#endif
