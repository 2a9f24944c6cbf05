/* model/plan/plan_json.h - what the writer and the reader of plan files share: names and columns. docs/PLAN.md is the page
 * for everybody else. */
#ifndef BALLAST_MODEL_PLAN_PLAN_JSON_H
#define BALLAST_MODEL_PLAN_PLAN_JSON_H

#include "model/plan/plan.h"

#define PLAN_FORMAT "ballast-plan"
enum { PLAN_VERSION = 1, PLAN_COLUMNS = 12 };

/* NULL-terminated, indexed by the enum. */
extern const char *const plan_roles[];
extern const char *const plan_slots[];
extern const char *const plan_rules[];
extern const char *const plan_strategies[];
extern const char *const plan_unit_kinds[];
extern const char *const plan_stacks[];
extern const char *const plan_norms[];
extern const char *const plan_acts[];
extern const char *const plan_positions[];
extern const char *const plan_mixers[];
/* Cells of a tensor's row; the last stands for one cell a dimension. */
extern const char *const plan_columns[];

/* Owner segments of unit u in parameter bytes, by offset; neighbours of one owner are one. Calls fn for each. */
void plan_segments(const struct plan *p, uint32_t u,
                   void (*fn)(void *ctx, uint32_t rank, uint64_t offset, uint64_t bytes),
                   void *ctx);
/* Adds the object "job" of a plan file: every field of the job, as resolved. The layout's factors must be filled. */
void plan_add_job(cJSON *to, const struct plan *p);
/* The optimizer that updates t. */
enum optimizer plan_optimizer_of(const struct plan *p, const struct tensor *t);
/* plan_slots.c: does each step of the model that graph.c builds find its tensors, with the sizes that the classes give, and is
 * no tensor left over? ERR_INVALID names file, class and tensor. O(tensors + classes x units). */
int plan_check_slots(const struct model *m, uint64_t seq_len, const char *file, struct err *e);
/* Elements of one rank's slice of the flat space, or 0 when nothing is cut that way. */
uint64_t plan_flat_slice(const struct plan *p);

#endif
