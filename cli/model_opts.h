/* cli/model_opts.h - the options about a model, the same in every command that takes one. */
#ifndef BALLAST_CLI_MODEL_OPTS_H
#define BALLAST_CLI_MODEL_OPTS_H

#include "core/opts.h"
#include "model/tensors/model.h"

/* Everything but seq_len, which is the caller's. */
int model_opts_read(const struct opts *o, struct model_options *out, struct err *e);

#endif
