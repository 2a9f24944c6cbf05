/* model/plan/model_load.h - the model that a user names on the command line.
 *
 * A plan file is one of the forms, which is why loading belongs to this room and not to that of tensors.
 */
#ifndef BALLAST_MODEL_PLAN_MODEL_LOAD_H
#define BALLAST_MODEL_PLAN_MODEL_LOAD_H

#include "model/tensors/model.h"

/* Load a model by what the user wrote: a path of a config.json or its directory, of a plan file (its model), a bundled name,
 * or a synthetic one-line form `block:key=value,...` (docs/CLI.md). `seq_len` sizes the learned positions of mlp=gelu. Everything is in
 * `a`. Errors name file and key. Cost: linear in tensors. */
int model_load(const char *what, uint64_t seq_len, struct arena *a, struct model *m, struct err *e);
/* The same with options. Roles that no tensor has are refused: a tied head is the embedding. */
int model_load_with(const char *what, const struct model_options *o, struct arena *a,
                    struct model *m, struct err *e);

#endif
