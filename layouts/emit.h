/* layouts/emit.h - what step.c, buffers.c and passes.c share: collecting one operation, and the pieces of a step that they make.
 *
 * emit_init(), then what it waits for, reserves, releases and touches, then emit_add(). A buffer or operation that is PROGRAM_NONE is left
 * out.
 */
#ifndef BALLAST_LAYOUTS_EMIT_H
#define BALLAST_LAYOUTS_EMIT_H

#include "layouts/lives.h"
#include "layouts/step.h"

/* Most ops have few waits, lives and operands: collect them here, then add the op. */
enum { MAX_LIST = 24 };
struct emit {
    struct op op;
    struct wait waits[MAX_LIST];
    struct life lives[MAX_LIST];
    struct operand operands[MAX_LIST];
};

void emit_init(struct emit *x, const char *name, enum op_kind kind, enum phase phase,
               enum stream s);
void emit_wait(struct emit *x, uint32_t op, int32_t d_unit, int32_t d_micro);
void emit_life(struct emit *x, uint32_t buffer, int32_t d_unit, bool release);
/* Tensor `tensor` of the unit d_unit further on, or the whole buffer. */
void emit_operand_of(struct emit *x, uint32_t buffer, uint32_t tensor, int32_t d_unit,
                     enum access access);
void emit_operand(struct emit *x, uint32_t buffer, uint32_t tensor, enum access access);
uint32_t emit_add(struct lower *l, struct emit *x);

/* [n_units], true for one; in arena. */
bool *unit_mask(struct lower *l, uint32_t only);
uint32_t last_unit(const struct lower *l);
/* The first of a class. */
uint32_t unit_of_class(const struct lower *l, uint32_t class_id);

/* buffers.c: what forward and backward hold; the buffer of a value of a class, or of its gradient. */
void step_buffers(struct lower *l);
uint32_t value_buffer(struct lower *l, uint32_t class_id, uint32_t v, bool grad);

/* passes.c: the kernels of forward, or of backward, for every unit of a class. */
void emit_pass(struct lower *l, uint32_t class_id, const struct class_lives *k, bool backward);

#endif
