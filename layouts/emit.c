#include "layouts/emit.h"

#include <string.h>

void emit_init(struct emit *x, const char *name, enum op_kind kind, enum phase phase, enum stream s)
{
    memset(x, 0, sizeof(*x));
    x->op.name = name;
    x->op.kind = kind;
    x->op.phase = phase;
    x->op.stream = s;
    x->op.guard.unit_class = PROGRAM_NONE;
    x->op.waits = x->waits;
    x->op.lives = x->lives;
    x->op.operands = x->operands;
}

void emit_wait(struct emit *x, uint32_t op, int32_t d_unit, int32_t d_micro)
{
    if (op == PROGRAM_NONE)
        return;
    BUG_ON(x->op.n_waits == MAX_LIST);
    x->waits[x->op.n_waits++] = (struct wait){.op = op, .d_unit = d_unit, .d_micro = d_micro};
}

void emit_life(struct emit *x, uint32_t buffer, int32_t d_unit, bool release)
{
    if (buffer == PROGRAM_NONE)
        return;
    BUG_ON(x->op.n_lives == MAX_LIST);
    x->lives[x->op.n_lives++] =
        (struct life){.buffer = buffer, .d_unit = d_unit, .release = release};
}

void emit_operand_of(struct emit *x, uint32_t buffer, uint32_t tensor, int32_t d_unit,
                     enum access access)
{
    if (buffer == PROGRAM_NONE)
        return;
    BUG_ON(x->op.n_operands == MAX_LIST);
    x->operands[x->op.n_operands++] = (struct operand){
        .buffer = buffer, .tensor = tensor, .access = (uint8_t)access, .d_unit = d_unit};
}

void emit_operand(struct emit *x, uint32_t buffer, uint32_t tensor, enum access access)
{
    emit_operand_of(x, buffer, tensor, 0, access);
}

uint32_t emit_add(struct lower *l, struct emit *x)
{
    return program_add_op(&l->b, &x->op);
}

bool *unit_mask(struct lower *l, uint32_t only)
{
    bool *mask = ARENA_NEW(l->a, bool, l->m->n_units);

    mask[only] = true;
    return mask;
}

uint32_t last_unit(const struct lower *l)
{
    return l->m->n_units - 1;
}

uint32_t unit_of_class(const struct lower *l, uint32_t class_id)
{
    uint32_t u = 0;

    while (l->m->units[u].class_id != class_id)
        u++;
    return u;
}
