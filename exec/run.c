/* The walk: every instance's turn, with the events that order streams and say what it took. */
#include "exec/run.h"

#include "core/num.h"

bool run_has(const struct exec_run *r, enum run_fault fault)
{
    return r->o.fault == fault && r->o.faulty == r->t->rank;
}

/* The first layer's input of a model without an embedding; tokens are made where they are looked up. */
static void fill_input(struct exec_run *r, const struct instance *i)
{
    struct run_buffer *b = run_find(r, r->p->known.inputs, 0, i->micro);
    enum dtype d = r->p->buffers[b->buffer].dtype;
    uint64_t n = b->bytes / dtype_bytes(d, 1);
    float x[256], half[256];

    for (uint64_t k = 0; k < n; k += 256) {
        uint64_t m = num_min(256, n - k);

        for (uint64_t j = 0; j < m; j++)
            x[j] = data_weight(data_hash(r->o.seed, r->step, i->micro, r->t->rank), 0, k + j, 0, 1);
        dtype_store(d, x, half, m);
        r->b->lib->upload(r->b, r->stream, (char *)b->data + k * dtype_bytes(d, 1), half,
                          dtype_bytes(d, m));
    }
}

/* Does the operation reserve it, in such a model? */
static bool makes_input(const struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct model *m = r->p->model;
    bool makes = false;

    for (uint32_t k = 0; k < o->n_lives; k++)
        makes |= !o->lives[k].release && o->lives[k].buffer == r->p->known.inputs &&
                 i->unit + (int64_t)o->lives[k].d_unit == 0;
    return makes && m->classes[m->units[0].class_id].kind != UNIT_EMBED;
}

/* Events of what the instance waits for; one of its own stream has been given to it before. */
static void wait_for(struct exec_run *r, const struct op *o, const struct instance *i)
{
    for (uint32_t k = 0; k < o->n_waits; k++) {
        const struct run_marks *m = &r->marks[o->waits[k].op];
        struct awaited a = program_awaited(r->p, o, i, &o->waits[k]);
        uint32_t event = PROGRAM_NONE;

        if (r->p->ops[o->waits[k].op].stream == o->stream)
            continue;
        if (a.kind == WAIT_LAST)
            event = m->last;
        else if (a.kind == WAIT_INSTANCE)
            event = m->at[(size_t)a.micro * m->n_units + a.unit];
        if (event != PROGRAM_NONE)
            r->b->lib->wait(r->b, r->stream, event);
    }
}

static void mark(struct exec_run *r, const struct instance *i, uint32_t event)
{
    struct run_marks *m = &r->marks[i->op];

    m->last = event;
    if (m->at && i->unit < m->n_units)
        m->at[(size_t)i->micro * m->n_units + i->unit] = event;
}

static int failed_at(struct exec_run *r, const struct instance *i)
{
    return err_prefix(r->e, "rank %u: %s of unit %s", r->t->rank, r->p->ops[i->op].name,
                      r->p->model->units[i->unit].name);
}

static int play(void *ctx, const struct instance *i)
{
    struct exec_run *r = ctx;
    const struct op *o = &r->p->ops[i->op];
    struct run_time time = {.id = *i};
    int status = 0;

    r->stream = r->p->in_order ? STREAM_COMPUTE : o->stream;
    wait_for(r, o, i);
    time.start = r->b->lib->record(r->b, r->stream);
    run_lives_begin(r, o, i);
    if (makes_input(r, o, i))
        fill_input(r, i);
    if (r->o.on_op)
        status = r->o.on_op(r->o.on_op_ctx, r, i, r->e);
    if (status)
        ;
    else if (o->kind == OP_COMPUTE)
        status = o->phase == PHASE_OPTIMIZER ? run_update(r, o, i) : run_compute(r, o, i);
    else if (o->kind == OP_COLLECTIVE)
        status = run_collective(r, o, i);
    else if (i->op == r->last_forward) {
        run_output(r, i);
        run_witness(r, i);
    }
    if (status || backend_status(r->b, r->e))
        return failed_at(r, i);
    run_lives_end(r, o, i);
    time.end = r->b->lib->record(r->b, r->stream);
    mark(r, i, time.end);
    if (o->kind == OP_MARK)
        return 0;
    r->times = mem_grow(r->times, &r->cap_times, r->n_times + 1, sizeof(*r->times));
    r->times[r->n_times++] = time;
    return 0;
}

/* Waits for all of it; times and loss come to the host. */
static int finish(struct exec_run *r)
{
    float *losses = MEM_NEW(float, r->p->n_micro);
    const struct run_time *at = NULL;

    r->b->lib->sync(r->b);
    for (size_t i = 0; i < r->n_times && r->b->failed && !at; i++)
        at = r->b->lib->passed(r->b, r->times[i].end) ? NULL : &r->times[i];
    for (size_t i = 0; i < r->n_times && !r->b->failed; i++) {
        r->times[i].start_s = r->b->lib->seconds(r->b, r->times[i].start);
        r->times[i].end_s = r->b->lib->seconds(r->b, r->times[i].end);
    }
    r->b->lib->forget(r->b);
    r->b->lib->download(r->b, STREAM_COMPUTE, losses, r->losses, r->p->n_micro * sizeof(*losses));
    for (uint32_t m = 0; m < r->p->n_micro; m++)
        r->loss += (double)losses[m] / r->p->n_micro;
    mem_free(losses);
    if (!backend_status(r->b, r->e))
        return 0;
    return at ? failed_at(r, &at->id)
              : err_prefix(r->e, "rank %u: step %llu", r->t->rank, (unsigned long long)r->step);
}

int exec_step(struct exec_run *r, struct err *e)
{
    int status;

    r->e = e;
    r->step++;
    r->loss = 0;
    r->n_times = 0;
    r->stream = STREAM_COMPUTE;
    for (uint32_t i = 0; i < r->p->n_ops; i++) {
        r->marks[i].last = PROGRAM_NONE;
        for (uint32_t k = 0; k < r->marks[i].n; k++)
            r->marks[i].at[k] = PROGRAM_NONE;
    }
    if (r->p->known.grads != PROGRAM_NONE &&
        r->p->buffers[r->p->known.grads].holds == HOLDS_MODEL) {
        struct run_buffer *b = run_find(r, r->p->known.grads, 0, 0);

        run_zero(r, b->data, b->bytes);
    }
    status = program_walk(r->p, r->t->rank, play, r);
    return status ? status : finish(r);
}

int exec_loss(struct exec_run *r, double *loss, struct err *e)
{
    double *all = MEM_NEW(double, r->t->size);
    int status = transport_all_gather_control(r->t, &r->loss, sizeof(r->loss), all, e);

    *loss = 0;
    for (uint32_t i = 0; i < r->t->size && !status; i++)
        *loss += all[i] / r->t->size;
    mem_free(all);
    return status;
}
