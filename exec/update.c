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

/* The held part of a parameter, and of its fp32 copy. */
static char *param_of(struct exec_run *r, uint32_t t)
{
    return run_part(r, run_find(r, r->p->known.params, 0, 0), t).data;
}

static float *master_of(struct exec_run *r, uint32_t t)
{
    if (r->p->known.master == PROGRAM_NONE)
        return NULL;
    return (float *)(void *)run_part(r, run_find(r, r->p->known.master, 0, 0), t).data;
}

static struct run_view states_of(struct exec_run *r, uint32_t t)
{
    return run_tensor(r, run_find(r, r->p->known.states, 0, 0), t);
}

/* A fault on purpose: the tensor's states are gone after its update. */
static void lose(struct exec_run *r, uint32_t t)
{
    struct run_view s = states_of(r, t);

    if (run_has(r, RUN_LOSE))
        run_zero(r, s.data, dtype_bytes(s.dtype, s.elements));
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

    a.buf = states_of(r, t).data;
    a.update = matrix + dtype_bytes(d, h->first);
    if (h->n == r->p->model->tensors[t].numel) {
        a.norm2 = r->norms + t;
        r->normed[t] = r->step;
    }
    launch_momentum(r->b, r->stream, &on, &a);
    lose(r, t);
}

static void newton_schulz(struct exec_run *r, const struct op *o, uint32_t t, char *matrix)
{
    const struct tensor *x = &r->p->model->tensors[t];
    struct kernel_orthogonalize a = {.rows = x->rows,
                                     .cols = x->cols,
                                     .hyper = r->o.hyper->ns,
                                     .type = r->plan->job.param_dtype,
                                     .matrix = matrix};
    struct kernel_on on = where(r);

    (void)o;
    a.hyper.steps = r->plan->job.ns_steps;
    a.hyper.stored = r->plan->job.param_dtype; /* as on a device */
    if (r->normed[t] == r->step)
        a.norm2 = r->norms + t;
    on.workspace_bytes = kernel_orthogonalize_workspace(x->rows, x->cols);
    launch_orthogonalize(r->b, r->stream, &on, &a);
}

/* The gradient of the whole matrix: as it was reduced or gathered where it stands (flat slices among whole gradients), or where an
 * operation before has gathered it. The update is left in fp32 scratch, where the next operation finds it. */
static const void *whole_gradient(struct exec_run *r, const struct op *o, uint32_t t,
                                  const char *matrix)
{
    bool reads = r->held.t[t].n == r->p->model->tensors[t].numel;
    struct run_view g;

    for (uint32_t k = 0; k < o->n_operands; k++)
        reads |= r->p->buffers[o->operands[k].buffer].part == MEM_GRADS;
    if (!reads)
        return matrix;
    g = run_gradient(r, t);
    return g.data - dtype_bytes(g.dtype, g.first);
}

static void shampoo(struct exec_run *r, const struct op *o, uint32_t t, char *matrix)
{
    const struct tensor *x = &r->p->model->tensors[t];
    struct kernel_shampoo a = {.rows = x->rows,
                               .cols = x->cols,
                               .hyper = r->o.hyper->shampoo,
                               .step = r->step,
                               .grad_type = r->plan->job.grad_dtype,
                               .state_type = r->plan->job.state_dtype,
                               .grad_scale = 1,
                               .grad = whole_gradient(r, o, t, matrix)};
    struct kernel_on on = where(r);

    a.state = states_of(r, t).data;
    a.update = run_scratch(r, SCRATCH_FP32, x->numel * sizeof(*a.update));
    on.workspace_bytes = kernel_shampoo_workspace(x->rows, x->cols, &a.hyper);
    launch_shampoo(r->b, r->stream, &on, &a);
    lose(r, t);
}

static void soap(struct exec_run *r, const struct op *o, uint32_t t, char *matrix)
{
    const struct tensor *x = &r->p->model->tensors[t];
    struct kernel_soap a = {.rows = x->rows,
                            .cols = x->cols,
                            .hyper = r->o.hyper->soap,
                            .step = r->step,
                            .grad_type = r->plan->job.grad_dtype,
                            .state_type = r->plan->job.state_dtype,
                            .grad_scale = 1,
                            .grad = whole_gradient(r, o, t, matrix)};
    struct kernel_on on = where(r);

    a.state = states_of(r, t).data;
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
    void (*products)(struct exec_run *r, const struct op *o, uint32_t t, char *matrix);
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
    a.m = states_of(r, t).data;
    a.v = (char *)a.m + dtype_bytes(a.state_type, h->room);
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
            x->products(r, o, run_item(r, o, i), run_matrix(r, o, i));
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
