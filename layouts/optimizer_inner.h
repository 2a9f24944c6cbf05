/* layouts/optimizer_inner.h - what optimizer.c (matrices), optimizer_work.c (who works what) and optimizer_tail.c (the rest)
 * share.
 */
#ifndef BALLAST_LAYOUTS_OPTIMIZER_INNER_H
#define BALLAST_LAYOUTS_OPTIMIZER_INNER_H

#include "layouts/step.h"
#include "model/plan/optimizers.h"

/* ---- optimizer_work.c ---- */

/* Rank -> items, from a list of (item, part of the states) ordered by item; in arena. Every rank that
 * has the part works its items. */
struct optimizer_pair {
    uint32_t item, part;
};
void optimizer_work_lists(struct lower *l, struct work_table *w, const struct optimizer_pair *pairs,
                          size_t n);

/* Of flat slices: all items, the matrices that lie in one slice, or the parts of those that boundaries cut. */
enum optimizer_items { ITEMS_ALL, ITEMS_WHOLE, ITEMS_CUT };
uint32_t optimizer_matrix_work(struct lower *l, enum work_rule rule, enum optimizer_items which,
                               bool batches);
struct work_item optimizer_matrix_item(const struct lower *l, uint32_t tensor, uint64_t elements);
/* What the products of an item work in. */
uint64_t optimizer_workspace_bytes(const struct lower *l, const struct work_item *w);

/* ---- optimizer.c ---- */

/* Adds an operand; a buffer that is PROGRAM_NONE is left out. Then all reduced gradients, and what an update writes. */
void optimizer_operand(struct lower *l, uint32_t op, uint32_t buffer, uint32_t tensor,
                       enum access access);
void optimizer_gradients(struct lower *l, uint32_t op, uint32_t tensor);
void optimizer_updates(struct lower *l, uint32_t op, uint32_t tensor);
/* Does an operation before the products make what they start from? */
static inline bool optimizer_has_momentum(const struct lower *l)
{
    return optimizer_row(l->j->optimizer)->start == START_MOMENTUM;
}
/* On the compute stream. */
struct op optimizer_op(const char *name, enum op_kind kind);
uint32_t optimizer_elementwise(struct lower *l, const char *name, enum kernel k,
                               double bytes_per_element, double share);

#endif
