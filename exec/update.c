/* The optimizer's operations on the parts that this rank holds: momentum, Newton-Schulz and update of one matrix of the
 * rank's list, and AdamW on the rest. Every constant is in run_hyper; the rate is exec/run.h's option. */
#include "exec/run.h"

#include "core/num.h"
#include "kernels/optimizer.h"
#include "model/plan/optimizers.h"

#include <string.h>

const struct run_hyper run_hyper = {
    .momentum = 0.95f,
    .nesterov = true,
    .scaling = KERNEL_MUON_RMS,
    .adam_share = 0.1f,
    .beta1 = 0.9f,
    .beta2 = 0.95f,
    .eps = 1e-8f,
    .decay = 0.01f,
    .ns = KERNEL_NS_DEFAULTS,
    .shampoo = KERNEL_SHAMPOO_DEFAULTS,
    .soap = KERNEL_SOAP_DEFAULTS,
};

static struct kernel_on where(struct exec_run *r)
{
    const struct job *j = &r->plan->job;

    return (struct kernel_on){
        .act = j->param_dtype, .weight = j->param_dtype, .grad = j->grad_dtype};
}

uint32_t run_item(const struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct work_item *x = &r->p->work_tables[r->p->loops[o->loop].work].items[i->item];

    if (!x->n_batch)
        return x->tensor;
    return r->place < x->n_batch ? x->batch[r->place] : MODEL_NONE;
}

enum dtype run_travel(const struct exec_run *r)
{
    return optimizer_travel_dtype(&r->plan->job);
}

char *run_rows(struct exec_run *r, uint32_t tensor)
{
    uint64_t before = 0;

    for (uint32_t t = 0; t < tensor; t++)
        before += r->held.t[t].matrix ? r->held.t[t].room : 0;
    return (char *)run_find(r, r->p->known.held, 0, 0)->data + dtype_bytes(run_travel(r), before);
}

/* Where the op finds the whole matrix, or would if it had more than this rank's rows: in the buffer that holds all of the rank's list, or in the workspace of the item at
 * work, which has room for n padded parts. */
char *run_matrix(struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct work_table *w = &r->p->work_tables[r->p->loops[o->loop].work];
    uint64_t before = 0;

    for (uint32_t k = 0; k < o->n_operands; k++) {
        if (o->operands[k].buffer != r->p->known.held)
            continue;
        if (r->p->known.held_parts)
            return run_rows(r, run_item(r, o, i)) -
                   dtype_bytes(run_travel(r), r->held.t[run_item(r, o, i)].first);
        for (uint32_t n = 0; n < i->position; n++)
            before +=
                r->p->model
                    ->tensors[w->items[w->start ? w->list[w->start[r->t->rank] + n] : n].tensor]
                    .numel;
        return (char *)run_find(r, r->p->known.held, 0, 0)->data +
               dtype_bytes(run_travel(r), before);
    }
    for (uint32_t k = 0; k < o->n_operands; k++)
        if (r->p->buffers[o->operands[k].buffer].span == SPAN_ITEM)
            return run_find(r, o->operands[k].buffer, 0, 0)->data;
    BUG_ON(true);
}

static char *resident(struct exec_run *r, uint32_t buffer, uint64_t element)
{
    return (char *)run_find(r, buffer, 0, 0)->data +
           element * dtype_bytes(r->p->buffers[buffer].dtype, 1);
}

/* The held part of a parameter, and of its fp32 copy. */
static char *param_of(struct exec_run *r, uint32_t t)
{
    const struct held_tensor *h = &r->held.t[t];

    return resident(r, r->p->known.params, h->param_at + (h->param_whole ? h->first : 0));
}

static float *master_of(struct exec_run *r, uint32_t t)
{
    if (r->p->known.master == PROGRAM_NONE)
        return NULL;
    return (float *)(void *)resident(r, r->p->known.master, r->held.t[t].master_at);
}

/* A fault on purpose: the tensor's states are gone after its update. */
static void lose(struct exec_run *r, uint32_t t)
{
    const struct held_tensor *h = &r->held.t[t];

    if (run_has(r, RUN_LOSE))
        run_zero(r, resident(r, r->p->known.states, h->state_at),
                 dtype_bytes(r->plan->job.state_dtype, h->n_state));
}

/* The update of the held part, in the matrix's place; padding of a last part stays zero, as it was reserved. Of a whole
 * matrix the same pass leaves the norm that Newton-Schulz begins with; of a part it would be a part of it. */
static void momentum(struct exec_run *r, uint32_t t, char *matrix)
{
    const struct held_tensor *h = &r->held.t[t];
    enum dtype d = r->plan->job.param_dtype;
    struct run_view g = run_gradient(r, t);
    struct kernel_on on = where(r);
    struct kernel_momentum a = {.n = h->n,
                                .grad_type = g.dtype,
                                .state_type = r->plan->job.state_dtype,
                                .update_type = d,
                                .mu = r->o.hyper->momentum,
                                .grad_scale = 1,
                                .nesterov = r->o.hyper->nesterov,
                                .grad = g.data};

    a.buf = resident(r, r->p->known.states, h->state_at);
    a.update = matrix + dtype_bytes(d, h->first);
    if (h->n == r->p->model->tensors[t].numel) {
        a.norm2 = r->norms + t;
        r->normed[t] = r->step;
    }
    launch_momentum(r->b, r->stream, &on, &a);
    lose(r, t);
}

static void newton_schulz(struct exec_run *r, uint32_t t, char *matrix)
{
    const struct tensor *x = &r->p->model->tensors[t];
    struct kernel_orthogonalize a = {.rows = x->rows,
                                     .cols = x->cols,
                                     .hyper = r->o.hyper->ns,
                                     .type = r->plan->job.param_dtype,
                                     .matrix = matrix};
    struct kernel_on on = where(r);

    a.hyper.steps = r->plan->job.ns_steps;
    a.hyper.stored = r->plan->job.param_dtype; /* as on a device */
    if (r->normed[t] == r->step)
        a.norm2 = r->norms + t;
    on.workspace_bytes = kernel_orthogonalize_workspace(x->rows, x->cols);
    launch_orthogonalize(r->b, r->stream, &on, &a);
}

/* The gradient of the whole matrix: as it was reduced, gathered where it stands (flat slices among whole gradients) or gathered into `matrix`. The update is left in fp32 scratch,
 * where the next operation finds it. */
static const void *whole_gradient(struct exec_run *r, uint32_t t, const char *matrix)
{
    struct run_view g;

    if (r->held.t[t].n < r->p->model->tensors[t].numel &&
        (r->p->place[t].rule != PLACE_FLAT || r->p->known.held != PROGRAM_NONE))
        return matrix;
    g = run_gradient(r, t);
    return g.data - dtype_bytes(g.dtype, r->held.t[t].first);
}

static void shampoo(struct exec_run *r, uint32_t t, char *matrix)
{
    const struct tensor *x = &r->p->model->tensors[t];
    struct kernel_shampoo a = {.rows = x->rows,
                               .cols = x->cols,
                               .hyper = r->o.hyper->shampoo,
                               .step = r->step,
                               .grad_type = r->plan->job.grad_dtype,
                               .state_type = r->plan->job.state_dtype,
                               .grad_scale = 1,
                               .grad = whole_gradient(r, t, matrix)};
    struct kernel_on on = where(r);

    a.state = resident(r, r->p->known.states, r->held.t[t].state_at);
    a.update = run_scratch(r, SCRATCH_FP32, x->numel * sizeof(*a.update));
    on.workspace_bytes = kernel_shampoo_workspace(x->rows, x->cols, &a.hyper);
    launch_shampoo(r->b, r->stream, &on, &a);
    lose(r, t);
}

static void soap(struct exec_run *r, uint32_t t, char *matrix)
{
    const struct tensor *x = &r->p->model->tensors[t];
    struct kernel_soap a = {.rows = x->rows,
                            .cols = x->cols,
                            .hyper = r->o.hyper->soap,
                            .step = r->step,
                            .grad_type = r->plan->job.grad_dtype,
                            .state_type = r->plan->job.state_dtype,
                            .grad_scale = 1,
                            .grad = whole_gradient(r, t, matrix)};
    struct kernel_on on = where(r);

    a.state = resident(r, r->p->known.states, r->held.t[t].state_at);
    a.update = run_scratch(r, SCRATCH_FP32, x->numel * sizeof(*a.update));
    on.workspace_bytes = kernel_soap_workspace(x->rows, x->cols, &a.hyper);
    launch_soap(r->b, r->stream, &on, &a);
    lose(r, t);
}

/* The held part's update, `update` of `type`, times the rate and `scale`. */
static void matrix_update(struct exec_run *r, uint32_t t, const void *update, enum dtype type,
                          float scale)
{
    struct kernel_on on = where(r);
    struct kernel_matrix_update a = {.n = r->held.t[t].n,
                                     .param_type = r->plan->job.param_dtype,
                                     .update_type = type,
                                     .lr = (float)r->o.lr,
                                     .decay = r->o.hyper->decay,
                                     .scale = scale,
                                     .update = update};

    a.param = param_of(r, t);
    a.master = master_of(r, t);
    launch_matrix_update(r->b, r->stream, &on, &a);
}

/* Where Newton-Schulz left it: in the matrix's place. */
static void orthogonal_update(struct exec_run *r, uint32_t t, const char *matrix)
{
    const struct tensor *x = &r->p->model->tensors[t];
    enum dtype d = r->plan->job.param_dtype;

    matrix_update(r, t, matrix + dtype_bytes(d, r->held.t[t].first), d,
                  kernel_muon_scale(r->o.hyper->scaling, x->rows, x->cols));
}

/* From the scratch; Adam's step size, as AdamW's. */
static void preconditioned_update(struct exec_run *r, uint32_t t, const char *matrix)
{
    (void)matrix;
    matrix_update(r, t, (float *)r->scratch[r->stream][SCRATCH_FP32] + r->held.t[t].first,
                  DTYPE_FP32, r->o.hyper->adam_share);
}

/* What exec runs of each optimizer of matrices; the rows of the others say that it does not
 * (exec_job()). */
static const struct implementation {
    void (*products)(struct exec_run *r, uint32_t t, char *matrix);
    void (*update)(struct exec_run *r, uint32_t t, const char *matrix);
} implementations[OPTIMIZER_N] = {
    [OPTIMIZER_MUON] = {newton_schulz, orthogonal_update},
    [OPTIMIZER_SHAMPOO] = {shampoo, preconditioned_update},
    [OPTIMIZER_SOAP] = {soap, preconditioned_update},
};

bool run_implements(enum optimizer o)
{
    return (unsigned)o < OPTIMIZER_N && optimizer_row(o)->exec &&
           (!optimizer_row(o)->matrices || implementations[o].products) &&
           optimizer_row(optimizer_of_rest(o))->each.kernel == KERNEL_ADAMW;
}

static void adamw(struct exec_run *r, uint32_t t)
{
    const struct run_hyper *c = r->o.hyper;
    const struct held_tensor *h = &r->held.t[t];
    struct run_view g;
    struct kernel_on on = where(r);
    struct kernel_adamw a = {.n = h->n,
                             .param_type = r->plan->job.param_dtype,
                             .state_type = r->plan->job.state_dtype,
                             .step = r->step,
                             .lr = (float)r->o.lr * c->adam_share,
                             .beta1 = c->beta1,
                             .beta2 = c->beta2,
                             .eps = c->eps,
                             .decay = c->decay,
                             .grad_scale = 1};

    if (!h->n)
        return;
    g = run_gradient(r, t);
    a.grad_type = g.dtype;
    a.grad = g.data;
    a.param = param_of(r, t);
    a.master = master_of(r, t);
    a.m = resident(r, r->p->known.states, h->state_at);
    a.v = resident(r, r->p->known.states, h->state_at + h->room);
    launch_adamw(r->b, r->stream, &on, &a);
    lose(r, t);
}

/* Everything that no matrix optimizer updates, owned by this rank or not. */
static void adamw_all(struct exec_run *r, bool owned, uint32_t unit)
{
    for (uint32_t t = 0; t < r->p->model->n_tensors; t++)
        if (!r->held.t[t].matrix && (r->p->place[t].rule == PLACE_OWNER) == owned &&
            (!owned || r->p->model->tensors[t].unit == unit))
            adamw(r, t);
}

int run_update(struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct implementation *x = &implementations[r->plan->job.optimizer];
    bool forgets = run_has(r, RUN_SKIP);

    switch (o->call.kernel) {
    case KERNEL_MOMENTUM:
        momentum(r, run_item(r, o, i), run_matrix(r, o, i));
        return 0;
    case KERNEL_NEWTON_SCHULZ:
    case KERNEL_SHAMPOO:
    case KERNEL_SOAP:
        if (run_item(r, o, i) != MODEL_NONE)
            x->products(r, run_item(r, o, i), run_matrix(r, o, i));
        return 0;
    case KERNEL_NEWTON_SCHULZ_SHARDED:
        run_sharded(r, o, i);
        return 0;
    case KERNEL_MATRIX_UPDATE:
        if (!forgets)
            x->update(r, run_item(r, o, i), run_matrix(r, o, i));
        return 0;
    case KERNEL_ADAMW:
        if (o->by_item)
            adamw_all(r, true, r->p->model->tensors[run_item(r, o, i)].unit);
        else
            adamw_all(r, false, 0);
        return 0;
    default:
        return err_set(r->e, ERR_UNSUPPORTED, "exec runs no %s yet", kernel_name(o->call.kernel));
    }
}
