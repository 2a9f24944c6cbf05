/* What the fields of an optimizer's row come to for a job. */
#include "core/num.h"
#include "model/plan/optimizers.h"

uint64_t optimizer_whole(double x)
{
    return x < 0x1p63 ? (uint64_t)x : NUM_MAX;
}

uint64_t optimizer_flops(enum optimizer o, uint32_t ns_steps, uint64_t rows, uint64_t cols)
{
    const struct optimizer_row *row = optimizer_row(o);

    return row->matrices ? optimizer_whole(row->flops(ns_steps, rows, cols)) : 0;
}

uint64_t optimizer_state_elements(enum optimizer o, const struct tensor *t)
{
    const struct optimizer_row *row = optimizer_row(o);

    if (row->matrices && tensor_is_matrix(t))
        return row->state_elements(t->rows, t->cols);
    return optimizer_row(optimizer_of_rest(o))->each.states * t->numel;
}

enum dtype optimizer_travel_dtype(const struct job *j)
{
    switch (optimizer_row(j->optimizer)->start) {
    case START_GRADIENT:
        return j->grad_dtype;
    case START_MOMENTUM:
        return j->param_dtype;
    }
    BUG_ON(true);
}

double optimizer_bytes(const struct job *j, const struct optimizer_bytes *b, bool master)
{
    return b->grad * (double)dtype_bytes(j->grad_dtype, 1) +
           b->state * (double)dtype_bytes(j->state_dtype, 1) +
           b->param * (double)dtype_bytes(j->param_dtype, 1) + b->fixed +
           (master ? 2 * (double)dtype_bytes(DTYPE_FP32, 1) : 0);
}
