#include "cli/score.h"

#include <math.h>

const char *const score_size_names[SCORE_N] = {"all", "64KiB", "1MiB", "32MiB"};
static const uint64_t least[SCORE_N] = {0, 64 << 10, 1 << 20, 32 << 20};

const struct table_col score_cols[] = {
    {"id", "of", TABLE_TEXT, 0, TABLE_AUTO},
    {"rows", "rows", TABLE_INT, 0, TABLE_AUTO},
    {"skipped", "skip", TABLE_INT, 0, TABLE_AUTO},
    {"distrusted", "apart", TABLE_INT, 0, TABLE_AUTO},
    {"mape_percent", "mean %", TABLE_FIXED, 1, TABLE_AUTO},
    {"mape_64KiB", ">=64KiB", TABLE_FIXED, 1, TABLE_AUTO},
    {"mape_1MiB", ">=1MiB", TABLE_FIXED, 1, TABLE_AUTO},
    {"mape_32MiB", ">=32MiB", TABLE_FIXED, 1, TABLE_AUTO},
    {"max_percent", "max %", TABLE_FIXED, 1, TABLE_AUTO},
    {"bias_percent", "bias %", TABLE_FIXED, 1, TABLE_AUTO},
    {"in_band_percent", "in band %", TABLE_FIXED, 0, TABLE_AUTO},
    {"band_percent", "band +-%", TABLE_FIXED, 1, TABLE_AUTO},
    {"worst", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"mape_percent_by_size", NULL, TABLE_JSON, 0, TABLE_AUTO},
    {"in_band_percent_by_size", NULL, TABLE_JSON, 0, TABLE_AUTO},
    {"band_percent_by_size", NULL, TABLE_JSON, 0, TABLE_AUTO},
};
const size_t score_n_cols = sizeof(score_cols) / sizeof(score_cols[0]);

void score_add(struct score *s, const char *id, uint64_t n_bytes, double measured, double predicted)
{
    double error = 100 * (predicted / measured - 1);

    for (int k = 0; k < SCORE_N; k++)
        if (n_bytes >= least[k]) {
            s->n[k]++;
            s->sum_abs[k] += fabs(error);
        }
    s->sum += error;
    if (fabs(error) >= s->worst) {
        s->worst = fabs(error);
        s->worst_id = id;
    }
}

void score_band(struct score *s, uint64_t n_bytes, double measured, double predicted,
                double half_percent)
{
    for (int k = 0; k < SCORE_N; k++)
        if (n_bytes >= least[k]) {
            s->banded[k]++;
            s->in_band[k] += fabs(measured / predicted - 1) * 100 <= half_percent;
            s->sum_band[k] += half_percent;
        }
}

void score_merge(struct score *to, const struct score *from)
{
    to->skipped += from->skipped;
    to->distrusted += from->distrusted;
    for (int k = 0; k < SCORE_N; k++) {
        to->n[k] += from->n[k];
        to->sum_abs[k] += from->sum_abs[k];
        to->banded[k] += from->banded[k];
        to->in_band[k] += from->in_band[k];
        to->sum_band[k] += from->sum_band[k];
    }
    to->sum += from->sum;
    if (from->n[SCORE_ALL] && from->worst >= to->worst) {
        to->worst = from->worst;
        to->worst_id = from->worst_id;
    }
}

void score_row(struct table *t, const char *id, const struct score *s, bool sizes)
{
    static const char *const keys[SCORE_N] = {"mape_percent", "mape_64KiB", "mape_1MiB",
                                              "mape_32MiB"};
    cJSON *by_size = json_new_object(), *in_band = json_new_object(), *width = json_new_object();

    table_row(t);
    table_set_str(t, "id", id);
    table_set_u64(t, "rows", s->n[SCORE_ALL]);
    table_set_u64(t, "skipped", s->skipped);
    table_set_u64(t, "distrusted", s->distrusted);
    for (int k = 0; k < (sizes ? SCORE_N : 1); k++)
        if (s->n[k]) {
            table_set_double(t, keys[k], s->sum_abs[k] / (double)s->n[k]);
            json_add_double(by_size, score_size_names[k], s->sum_abs[k] / (double)s->n[k]);
        }
    table_set_json(t, "mape_percent_by_size", by_size);
    table_set_json(t, "in_band_percent_by_size", in_band);
    table_set_json(t, "band_percent_by_size", width);
    if (!s->n[SCORE_ALL])
        return;
    table_set_double(t, "max_percent", s->worst);
    table_set_double(t, "bias_percent", s->sum / (double)s->n[SCORE_ALL]);
    table_set_str(t, "worst", s->worst_id);
    for (int k = 0; k < SCORE_N; k++)
        if (s->banded[k]) {
            double n = (double)s->banded[k], in = 100.0 * (double)s->in_band[k] / n;

            json_add_double(in_band, score_size_names[k], in);
            json_add_double(width, score_size_names[k], s->sum_band[k] / n);
            if (k == SCORE_ALL) {
                table_set_double(t, "in_band_percent", in);
                table_set_double(t, "band_percent", s->sum_band[k] / n);
            }
        }
}
