/* cli/model_opts.h - the options about a model, the same in every command that takes one. */
#ifndef BALLAST_CLI_MODEL_OPTS_H
#define BALLAST_CLI_MODEL_OPTS_H

#include "core/opts.h"
#include "model/tensors/model.h"

extern const char *const model_opts_roles[]; /* that a matrix optimizer may take by option */

#define MODEL_OPTION_ROWS                                                                          \
    {.name = "split-fused",                                                                        \
     .type = OPT_FLAG,                                                                             \
     .help = "fused q, k, v and fused gate, up as matrices of their own"},                         \
        {.name = "as",                                                                             \
         .type = OPT_STRING,                                                                       \
         .meta = "FAMILY",                                                                         \
         .dflt_note = "its model_type",                                                            \
         .help = "read a config.json as this family, for types that are not known"},               \
        {.name = "mtp", .type = OPT_FLAG, .help = "take in layers of multi-token prediction"},     \
        {.name = "names",                                                                          \
         .type = OPT_STRING,                                                                       \
         .meta = "FILE",                                                                           \
         .help = "patterns for a list of tensors: roles, units (docs/MODELS.md)"},                 \
    {                                                                                              \
        .name = "also-matrices", .type = OPT_LIST, .choices = model_opts_roles,                    \
        .dflt_note = "none", .help = "also for the matrix optimizer"                               \
    }

/* Everything but seq_len, which is the caller's. */
int model_opts_read(const struct opts *o, struct model_options *out, struct err *e);

#endif
