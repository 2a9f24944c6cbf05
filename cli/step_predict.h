/* cli/step_predict.h - measured training steps beside their predictions. */
#ifndef BALLAST_CLI_STEP_PREDICT_H
#define BALLAST_CLI_STEP_PREDICT_H

#include "cli/step_rows.h"

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
