/* model/tensors/tensors.h - models from lists of tensors: what a .safetensors header, an index or a list in JSON says.
 *
 * A list has names, and shapes unless it is an index without its files. Names are matched against those of the families
 * that config.json files describe (model/tensors/hf.h), and against patterns of the user, which come first: they give each tensor
 * a unit, a role and a slot. What a layer computes follows from shapes where its slots make a block that the graph knows
 * (heads are then a guess whose product is right); otherwise its products with weights are counted, and a note says that
 * attention is not.
 */
#ifndef BALLAST_MODEL_TENSORS_TENSORS_H
#define BALLAST_MODEL_TENSORS_TENSORS_H

#include "core/json.h"
#include "model/tensors/model.h"

enum { TENSORS_MAX = 4000000 };

struct file_tensor {
    const char *name;        /* in the arena */
    const char *dtype;       /* as the file writes it; "" when it does not */
    const char *role, *unit; /* as a list in JSON says, or NULL */
    uint64_t shape[4]; /* dimensions beyond the fourth are multiplied into it; a scalar is [1] */
    uint32_t n_dims;   /* 0: unknown */
};
struct tensor_list {
    struct file_tensor *v; /* owned [n] */
    size_t n, cap;
    const char *file; /* in the arena, for messages */
    bool has_shapes;
    uint64_t total_parameters; /* an index's own claim, or 0 */
    const char *quantization;  /* what packs or scales, or NULL */
    const char *packed;        /* a tensor whose shape only the packing's own code knows, or NULL */
    size_t n_buffers, n_scales; /* left out */
};

void tensor_list_init(struct tensor_list *l);
void tensor_list_release(struct tensor_list *l);
struct file_tensor *tensor_list_add(struct tensor_list *l, const char *name, struct arena *a);
/* A shape from an array in JSON: 0 to 8 dimensions, each at least 1. */
int tensor_shape(const struct json_at *at, struct file_tensor *t, struct err *e);

/* safetensors.c: the header of a file; its text alone for tests. The data behind it is not read. O(header). */
int safetensors_read(const char *path, struct arena *a, struct tensor_list *l, struct err *e);
int safetensors_parse(const char *text, size_t len, const char *file, struct arena *a,
                      struct tensor_list *l, struct err *e);

/* model_index.c: an index, with the shapes of the shards that lie beside it; where one is missing, names only, and
 * *missing says which. `read_shards` false: names only. */
int index_parse(const struct json_at *top, bool read_shards, struct arena *a, struct tensor_list *l,
                const char **missing, struct err *e);
/* {"tensors": [{"name", "shape"[, "role", "unit", "dtype"]}, ...]} or {"tensors": {"name": [rows, cols], ...}} */
bool is_tensor_list(const struct json_at *top);
int tensor_list_parse(const struct json_at *top, struct arena *a, struct tensor_list *l,
                      struct err *e);

/* Where the list and a model from the config.json beside it differ: text in the arena, or NULL when every tensor of the
 * model is in the list with its shape (where it has shapes). *extra counts the others of the list. */
const char *tensor_list_differs(const struct tensor_list *l, const struct model *m, struct arena *a,
                                size_t *extra);

/* tensor_names.c: takes out what is no parameter (rotary frequencies, masks, scales of quantised weights), undoes
 * packings whose shapes say how (mxfp4), and names one that does not. */
void tensor_list_clean(struct tensor_list *l, struct arena *a);

/* Patterns of a user, from a file: roles, units, and what shapes do not say. */
struct name_pattern {
    const char *match, *role, *unit; /* role, unit: NULL keeps */
    bool used;
};
struct name_patterns {
    struct name_pattern *v; /* in the arena [n] */
    size_t n;
    uint64_t active_experts; /* 0: unknown */
    const char *file;
};
int name_patterns_load(const char *path, struct arena *a, struct name_patterns *p, struct err *e);
int name_patterns_parse(const struct json_at *top, struct arena *a, struct name_patterns *p,
                        struct err *e);
/* Does the name match? "*" stands for any characters. O(product of the lengths) at worst. */
bool name_matches(const char *pattern, const char *name);

/* model_tensors.c: units, roles, classes. `p` may be NULL. Takes nothing from l. */
int model_from_tensors(const struct tensor_list *l, struct name_patterns *p, struct arena *a,
                       struct model *m, struct err *e);
/* model_hf.c: a config.json that is parsed already. */
int model_from_config_tree(const struct json_at *top, const struct model_options *o,
                           struct arena *a, struct model *m, struct err *e);
#endif
