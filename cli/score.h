/* cli/score.h - error statistics of predictions against measurements.
 *
 * An error is predicted / measured - 1, in percent. Rows that are distrusted are counted and left out of every mean.
 */
#ifndef BALLAST_CLI_SCORE_H
#define BALLAST_CLI_SCORE_H

#include "core/table.h"

/* Size classes of collectives: all rows, and those of at least so many bytes. */
enum score_size { SCORE_ALL, SCORE_64KIB, SCORE_1MIB, SCORE_32MIB, SCORE_N };
extern const char *const score_size_names[SCORE_N]; /* "all", "64KiB", ... */

struct score {
    uint64_t skipped, distrusted;
    uint64_t n[SCORE_N];
    double sum_abs[SCORE_N];
    double sum, worst;
    const char *worst_id; /* borrowed */
    uint64_t banded[SCORE_N],
        in_band[SCORE_N];     /* rows with a band, and those whose measurement it holds */
    double sum_band[SCORE_N]; /* half widths, in percent */
};

/* Classes of a size; of what has no size (steps) only SCORE_ALL counts: n_bytes UINT64_MAX puts a row into all classes. */
void score_add(struct score *s, const char *id, uint64_t n_bytes, double measured,
               double predicted);
/* A band of +-half_percent around the prediction that was added last. */
void score_band(struct score *s, uint64_t n_bytes, double measured, double predicted,
                double half_percent);
void score_merge(struct score *to, const struct score *from);

extern const struct table_col score_cols[];
extern const size_t score_n_cols;
/* A row of such a table. `sizes`: whether size classes mean something. */
void score_row(struct table *t, const char *id, const struct score *s, bool sizes);

#endif
