#include "exec/owners.h"

#include "core/mem.h"
#include "core/num.h"
#include "exec/run.h"
#include "model/plan/optimizers.h"

#include <string.h>

/* The operations over items that update matrices; there may be several loops (cut and whole matrices). */
static bool of_matrix(const struct op *o)
{
    return o->phase == PHASE_OPTIMIZER && o->kind == OP_COMPUTE && o->by_item &&
           o->call.kernel != KERNEL_ADAMW;
}

/* Calls fn for every (operation, item) of a rank. */
static void each_item(const struct program *p, uint32_t rank,
                      void (*fn)(void *ctx, const struct op *o, uint32_t item), void *ctx)
{
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const struct op *o = &p->ops[i];
        const struct work_table *w;

        if (!of_matrix(o))
            continue;
        w = &p->work_tables[p->loops[o->loop].work];
        if (!w->start)
            for (uint32_t k = 0; k < w->n_items; k++)
                fn(ctx, o, k);
        else
            for (uint32_t k = w->start[rank]; k < w->start[rank + 1]; k++)
                fn(ctx, o, w->list[k]);
    }
}

/* ---- predicted ---- */

struct prophet {
    const struct program *p;
    double (*fn)(void *ctx, const struct kernel_call *k);
    void *ctx;
    double sum;
};

static void foretell(void *ctx, const struct op *o, uint32_t item)
{
    struct prophet *x = ctx;
    struct kernel_call k = op_call(x->p, o, item);

    x->sum += x->fn(x->ctx, &k);
}

void owners_predict(const struct program *p, double (*fn)(void *ctx, const struct kernel_call *k),
                    void *ctx, double *seconds)
{
    for (uint32_t r = 0; r < p->world; r++) {
        struct prophet x = {p, fn, ctx, 0};

        each_item(p, r, foretell, &x);
        seconds[r] = x.sum;
    }
}

/* ---- measured ---- */

struct bench {
    const struct plan *plan;
    const struct program *p;
    struct backend *b;
    struct kernel_on on;
    char *grad, *state, *matrix, *param, *master; /* of the largest matrix */
    size_t n;                                     /* its elements */
    double *norm2;                                /* of the momentum */
    struct owner_time *to;
};

static void room(struct bench *x, bool take)
{
    const struct job *j = &x->plan->job;
    struct {
        char **p;
        enum dtype d;
    } all[] = {{&x->grad, j->grad_dtype},
               {&x->state, j->state_dtype},
               {&x->matrix, j->param_dtype},
               {&x->param, j->param_dtype},
               {&x->master, DTYPE_FP32}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        size_t bytes = dtype_bytes(all[i].d, x->n);

        if (take)
            *all[i].p = backend_alloc(x->b, STREAM_COMPUTE, bytes);
        else
            backend_free(x->b, STREAM_COMPUTE, *all[i].p, bytes);
    }
    if (take)
        x->norm2 = backend_alloc(x->b, STREAM_COMPUTE, sizeof(*x->norm2));
    else
        backend_free(x->b, STREAM_COMPUTE, x->norm2, sizeof(*x->norm2));
}

/* Numbers of an even spread, a block of them again and again. */
static void fill(struct bench *x, char *to, enum dtype d, float size)
{
    enum { BLOCK = 1 << 16 };
    float *f = MEM_NEW(float, BLOCK);
    char *host = mem_alloc(BLOCK, sizeof(*f));
    uint32_t s = 1;

    for (int i = 0; i < BLOCK; i++) {
        s = s * 1664525 + 1013904223;
        f[i] = size * ((float)(s >> 8) / 8388608.0f - 1);
    }
    dtype_store(d, f, host, BLOCK);
    for (size_t i = 0; i < x->n; i += BLOCK)
        x->b->lib->upload(x->b, STREAM_COMPUTE, to + dtype_bytes(d, i), host,
                          dtype_bytes(d, num_min(BLOCK, x->n - i)));
    mem_free(host);
    mem_free(f);
}

static void momentum(const struct bench *x, const struct tensor *t)
{
    const struct job *j = &x->plan->job;
    const struct kernel_momentum a = {.n = t->numel,
                                      .grad_type = j->grad_dtype,
                                      .state_type = j->state_dtype,
                                      .update_type = j->param_dtype,
                                      .mu = 0.95f,
                                      .grad_scale = 1,
                                      .nesterov = true,
                                      .grad = x->grad,
                                      .buf = x->state,
                                      .update = x->matrix,
                                      .norm2 = x->norm2};

    launch_momentum(x->b, STREAM_COMPUTE, &x->on, &a);
}

static void newton_schulz(const struct bench *x, const struct tensor *t)
{
    struct kernel_orthogonalize a = {.rows = t->rows,
                                     .cols = t->cols,
                                     .hyper = run_hyper.ns,
                                     .type = x->plan->job.param_dtype,
                                     .matrix = x->matrix,
                                     .norm2 = x->norm2};
    struct kernel_on on = x->on;

    a.hyper.steps = x->plan->job.ns_steps;
    a.hyper.stored = a.type;
    on.workspace_bytes = kernel_orthogonalize_workspace(t->rows, t->cols);
    launch_orthogonalize(x->b, STREAM_COMPUTE, &on, &a);
}

static void update(const struct bench *x, const struct tensor *t)
{
    const struct job *j = &x->plan->job;
    const struct kernel_matrix_update a = {
        .n = t->numel,
        .param_type = j->param_dtype,
        .update_type = j->param_dtype,
        .lr = 0.001f,
        .decay = 0.01f,
        .scale = kernel_muon_scale(KERNEL_MUON_RMS, t->rows, t->cols),
        .update = x->matrix,
        .param = x->param,
        .master = j->master_weights ? (float *)(void *)x->master : NULL};

    launch_matrix_update(x->b, STREAM_COMPUTE, &x->on, &a);
}

static void work(void *ctx, const struct op *o, uint32_t item)
{
    struct bench *x = ctx;
    const struct work_item *w = &x->p->work_tables[x->p->loops[o->loop].work].items[item];
    const struct tensor *t = &x->p->model->tensors[w->tensor];

    if (o->call.kernel == KERNEL_MOMENTUM)
        momentum(x, t);
    else if (o->call.kernel == KERNEL_MATRIX_UPDATE)
        update(x, t);
    else
        newton_schulz(x, t);
}

static void count(void *ctx, const struct op *o, uint32_t item)
{
    struct bench *x = ctx;
    const struct work_item *w = &x->p->work_tables[x->p->loops[o->loop].work].items[item];

    if (o->call.kernel != KERNEL_NEWTON_SCHULZ && o->call.kernel != KERNEL_NEWTON_SCHULZ_SHARDED)
        return;
    x->to->flops += w->flops;
    x->to->n++;
}

int owners_replay(const struct plan *plan, const struct program *p, struct backend *b,
                  uint32_t repeats, struct owner_time *times, struct err *e)
{
    const struct job *j = &plan->job;
    struct bench x = {.plan = plan, .p = p, .b = b};

    if (!optimizer_row(j->optimizer)->newton_schulz || !run_implements(j->optimizer))
        return err_set(e, ERR_UNSUPPORTED,
                       "owners are replayed where exec runs Newton-Schulz, the plan has %s",
                       optimizer_name(j->optimizer));
    x.on =
        (struct kernel_on){.act = j->param_dtype, .weight = j->param_dtype, .grad = j->grad_dtype};
    for (uint32_t i = 0; i < p->model->n_tensors; i++)
        x.n = num_max(x.n, p->model->tensors[i].numel);
    room(&x, true);
    if (!b->failed) {
        fill(&x, x.grad, j->grad_dtype, 1e-3f);
        fill(&x, x.state, j->state_dtype, 1e-3f);
        fill(&x, x.param, j->param_dtype, 0.05f);
        fill(&x, x.master, DTYPE_FP32, 0.05f);
    }
    memset(times, 0, p->world * sizeof(*times));
    for (uint32_t k = 0; k <= repeats && !b->failed; k++)
        for (uint32_t r = 0; r < p->world && !b->failed; r++) {
            double start, s;

            b->lib->sync(b);
            start = backend_now_s(b);
            each_item(p, r, work, &x);
            b->lib->sync(b);
            s = backend_now_s(b) - start;
            if (k == 1 || (k > 1 && s < times[r].s))
                times[r].s = s;
        }
    for (uint32_t r = 0; r < p->world; r++) {
        x.to = &times[r];
        each_item(p, r, count, &x);
    }
    room(&x, false);
    b->lib->sync(b);
    return backend_status(b, e);
}
