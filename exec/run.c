#include "exec/run.h"

#include "core/num.h"
#include "model/plan/job_options.h"
#include "model/plan/optimizers.h"

#include <string.h>

/* ---- buffers ---- */

static size_t slot_of(const struct exec_run *r, uint32_t buffer, struct buffer_at at)
{
    size_t i = data_hash(buffer, at.unit, at.micro, 0) & (r->cap_map - 1);

    while (r->map[i].used && (r->map[i].buffer != buffer || r->map[i].at.unit != at.unit ||
                              r->map[i].at.micro != at.micro))
        i = (i + 1) & (r->cap_map - 1);
    return i;
}

static void grow_map(struct exec_run *r)
{
    struct run_buffer *old = r->map;
    size_t cap = r->cap_map;

    r->cap_map = cap ? 2 * cap : 256;
    r->map = MEM_NEW(struct run_buffer, r->cap_map);
    for (size_t i = 0; i < cap; i++)
        if (old[i].used)
            r->map[slot_of(r, old[i].buffer, old[i].at)] = old[i];
    mem_free(old);
}

static uint64_t size_of(const struct exec_run *r, uint32_t buffer, uint32_t unit, uint32_t item)
{
    const struct buffer *b = &r->p->buffers[buffer];
    const struct segment_table *t;
    uint64_t sum = 0;

    switch (b->rule) {
    case SIZE_CONST:
        return b->bytes;
    case SIZE_BY_UNIT:
        return b->unit_bytes[unit];
    case SIZE_BY_RANK:
        return rank_table_get(&b->ranks, r->t->rank);
    case SIZE_BY_ITEM:
        return b->item_bytes[item];
    case SIZE_SEGMENTS:
        t = &r->p->segment_tables[b->table];
        for (uint32_t i = t->start[unit]; i < t->start[unit + 1]; i++)
            sum +=
                t->segments[i].root == program_root(r->p, t, r->t->rank) ? t->segments[i].bytes : 0;
        return sum;
    }
    return 0;
}

/* What an item's workspace has to have room for here: its matrix on the way to the products, all parts of it, padded. */
static uint64_t matrix_room(const struct exec_run *r, const struct op *o, uint32_t item)
{
    uint32_t t = r->p->work_tables[r->p->loops[o->loop].work].items[item].tensor;

    return dtype_bytes(run_travel(r), num_max(r->held.t[t].room * placement_parts(r->plan, STATE),
                                              r->p->model->tensors[t].numel));
}

static void count_bytes(struct exec_run *r, enum mem_part part, uint64_t bytes)
{
    r->bytes += bytes;
    r->part_bytes[part] += bytes;
    if (r->bytes > r->peak) {
        r->peak = r->bytes;
        memcpy(r->part_peak, r->part_bytes, sizeof(r->part_peak));
    }
}

/* bytes: as the program counts them; room: at least that many, as it is. A buffer that is reserved in parts has all its room
 * from the first part on, and each of its `part` bytes counts when it comes. */
static void reserve(struct exec_run *r, uint32_t buffer, struct buffer_at at, uint64_t bytes,
                    uint64_t part, uint64_t room)
{
    struct run_buffer *b;
    void *data;

    if (2 * (r->n_map + 1) > r->cap_map)
        grow_map(r);
    b = &r->map[slot_of(r, buffer, at)];
    count_bytes(r, r->p->buffers[buffer].part, part);
    if (b->used) {
        b->counted += part;
        BUG_ON(part == bytes || b->counted > bytes);
        return;
    }
    room = num_max(bytes, room);
    data = backend_alloc(r->b, r->stream, room);
    r->b->lib->zero(r->b, r->stream, data, room);
    *b = (struct run_buffer){buffer, at, data, bytes, part, room, true};
    r->n_map++;
}

/* Open addressing without tombstones: what follows a freed slot moves up. */
static void drop(struct exec_run *r, size_t i)
{
    size_t k = i;

    backend_free(r->b, r->stream, r->map[i].data, r->map[i].room);
    r->map[i].used = false;
    r->n_map--;
    for (;;) {
        struct run_buffer moved;

        k = (k + 1) & (r->cap_map - 1);
        if (!r->map[k].used)
            return;
        moved = r->map[k];
        r->map[k].used = false;
        r->map[slot_of(r, moved.buffer, moved.at)] = moved;
    }
}

static void release(struct exec_run *r, uint32_t buffer, struct buffer_at at)
{
    size_t i = slot_of(r, buffer, at);

    BUG_ON(!r->map[i].used);
    r->bytes -= r->map[i].counted;
    r->part_bytes[r->p->buffers[buffer].part] -= r->map[i].counted;
    drop(r, i);
}

struct run_buffer *run_live(struct exec_run *r, uint32_t buffer, const struct instance *i,
                            int32_t d_unit)
{
    struct run_buffer *b;
    struct buffer_at at;

    if (!buffer_instance(r->p, buffer, i, d_unit, &at))
        return NULL;
    b = &r->map[slot_of(r, buffer, at)];
    BUG_ON(!b->used);
    return b;
}

struct run_buffer *run_find(struct exec_run *r, uint32_t buffer, uint32_t unit, uint32_t micro)
{
    const struct instance i = {.unit = unit, .micro = micro};
    struct run_buffer *b = run_live(r, buffer, &i, 0);

    BUG_ON(!b);
    return b;
}

void *run_scratch(struct exec_run *r, int which, size_t n)
{
    void **p = &r->scratch[r->stream][which];
    size_t *cap = &r->cap_scratch[r->stream][which];

    if (n > *cap) {
        backend_free(r->b, r->stream, *p, *cap);
        *p = backend_alloc(r->b, r->stream, n);
        *cap = n;
    }
    return *p;
}

bool run_has(const struct exec_run *r, enum run_fault fault)
{
    return r->o.fault == fault && r->o.faulty == r->t->rank;
}

void run_copy(struct exec_run *r, void *to, const void *from, size_t n)
{
    r->b->lib->copy(r->b, r->stream, to, from, n);
}

void run_zero(struct exec_run *r, void *p, size_t n)
{
    r->b->lib->zero(r->b, r->stream, p, n);
}

/* ---- the walk ---- */

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
    for (uint32_t k = 0; k < o->n_lives; k++) {
        const struct life *l = &o->lives[k];
        struct buffer_at at;
        uint64_t bytes;

        if (l->release || !buffer_instance(r->p, l->buffer, i, l->d_unit, &at))
            continue;
        bytes = size_of(r, l->buffer, at.unit, i->item);
        reserve(r, l->buffer, at, bytes, l->bytes ? l->bytes : bytes,
                r->p->buffers[l->buffer].holds == HOLDS_MATRIX ? matrix_room(r, o, i->item) : 0);
        if (l->buffer == r->p->known.inputs && at.unit == 0 &&
            r->p->model->classes[r->p->model->units[0].class_id].kind != UNIT_EMBED)
            fill_input(r, i);
    }
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
    for (uint32_t k = 0; k < o->n_lives; k++) {
        const struct life *l = &o->lives[k];
        struct buffer_at at;

        if (l->release && buffer_instance(r->p, l->buffer, i, l->d_unit, &at))
            release(r, l->buffer, at);
    }
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

uint64_t exec_scratch_bytes(const struct exec_run *r)
{
    uint32_t last = r->p->model->units[r->p->model->n_units - 1].class_id;
    uint64_t sum = r->b->own_bytes + 2 * r->graphs[last].values[0].bytes;

    for (int s = 0; s < STREAM_N; s++)
        for (int i = 0; i < SCRATCH_N; i++)
            sum += r->cap_scratch[s][i];
    return sum;
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

/* ---- start and end ---- */

/* Tensor t as it is at the start, as much of it as stands at `to`. */
static void put_weights(struct exec_run *r, uint32_t t, const struct run_view *to)
{
    enum { BLOCK = 4096 };
    const struct tensor *x = &r->p->model->tensors[t];
    float mean = x->role == ROLE_NORM && !x->is_bias ? 1 : 0;
    float sd = x->role == ROLE_NORM || x->role == ROLE_BIAS ? 0 : 0.05f;
    float w[BLOCK], stored[BLOCK];

    for (uint64_t k = 0; k < to->elements; k += BLOCK) {
        uint64_t m = num_min(BLOCK, to->elements - k);

        for (uint64_t j = 0; j < m; j++)
            w[j] = data_weight(r->o.seed, t, to->first + k + j, mean, sd);
        dtype_store(to->dtype, w, stored, m);
        r->b->lib->upload(r->b, r->stream, to->data + dtype_bytes(to->dtype, k), stored,
                          dtype_bytes(to->dtype, m));
    }
}

static void first_weights(struct exec_run *r, uint32_t buffer)
{
    for (uint32_t t = 0; t < r->p->model->n_tensors && buffer != PROGRAM_NONE; t++) {
        struct run_view to = run_tensor(r, run_find(r, buffer, 0, 0), t);

        put_weights(r, t, &to);
    }
}

/* Room for the events of awaited instances. */
static void make_marks(struct exec_run *r)
{
    const struct program *p = r->p;

    r->marks = ARENA_NEW(&r->arena, struct run_marks, p->n_ops);
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (uint32_t k = 0; k < p->ops[i].n_waits; k++) {
            const struct op *o = &p->ops[p->ops[i].waits[k].op];
            struct run_marks *m = &r->marks[o->id];

            if (m->at || op_in_loop(p, o, LOOP_ITEM))
                continue;
            m->n_units = op_in_loop(p, o, LOOP_UNIT) ? p->model->n_units : 1;
            m->n = m->n_units * (op_in_loop(p, o, LOOP_MICRO) ? p->n_micro : 1);
            m->at = ARENA_NEW(&r->arena, uint32_t, m->n);
        }
}

/* The group that this rank is in, of every family. */
static void make_groups(struct exec_run *r)
{
    const struct program *p = r->p;

    r->groups = ARENA_NEW(&r->arena, struct coll_group, p->n_groups);
    for (uint32_t k = 0; k < p->n_groups; k++) {
        const struct group *g = &p->groups[k];
        uint32_t *ranks = ARENA_NEW(&r->arena, uint32_t, g->n_members);

        r->groups[k] = (struct coll_group){
            .ranks = ranks, .n = g->n_members, .gpus_per_node = p->gpus_per_node};
        for (uint32_t i = 0; i < g->n_members; i++) {
            ranks[i] = group_member(g, group_base(g, r->t->rank), i);
            if (ranks[i] == r->t->rank)
                r->groups[k].self = i;
        }
    }
}

int exec_job(const struct job *j, struct err *e)
{
    const struct job_option *o;

    if (!run_implements(j->optimizer))
        return err_set(
            e, ERR_UNSUPPORTED,
            "exec does not run %s: it is there for predictions, with plan, sim and compare",
            optimizer_name(j->optimizer));
    o = job_not_run(j);
    return o ? err_set(e, ERR_UNSUPPORTED, "the plan's job has %s, and exec runs only %s",
                       job_option_show(o, j).s, job_option_run(o, j).s)
             : 0;
}

static size_t reduced_bytes(const struct exec_run *r)
{
    return dtype_bytes(r->plan->job.grad_dtype, r->p->model->total_params);
}

int exec_init(struct exec_run *r, const struct plan *plan, const struct program *p,
              struct backend *b, const struct run_options *o, struct err *e)
{
    const struct job *j = &plan->job;
    const struct graph_batch batch = job_batch(j);
    uint64_t last;

    memset(r, 0, sizeof(*r));
    r->plan = plan;
    r->p = p;
    r->b = b;
    r->t = b->t;
    r->o = *o;
    arena_init(&r->arena);
    if (b->t->size != p->world)
        return err_set(e, ERR_INVALID, "the plan is for %u ranks, this job has %u", p->world,
                       b->t->size);
    if (exec_job(j, e) || graph_trains(&plan->model, j->seq_len, e))
        return -1;
    r->place = placement_index(plan, STATE, b->t->rank);
    held_init(&r->held, plan, p, b->t->rank, &r->arena);
    r->graphs = ARENA_NEW(&r->arena, struct unit_graph, p->model->n_classes);
    for (uint32_t c = 0; c < p->model->n_classes; c++)
        if (graph_build(p->model, c, &batch, j->param_dtype, &r->graphs[c], e))
            return -1;
    for (uint32_t k = 0; k < p->n_buffers; k++)
        if (p->buffers[k].span == SPAN_RESIDENT)
            reserve(r, k, (struct buffer_at){0}, size_of(r, k, 0, 0), size_of(r, k, 0, 0), 0);
    /* what the plan counts is what kernels use */
    BUG_ON(run_find(r, p->known.states, 0, 0)->bytes !=
           dtype_bytes(j->state_dtype, r->held.states));
    make_groups(r);
    for (uint32_t k = 0; k < p->n_ops; k++)
        if (p->ops[k].purpose == PURPOSE_UNIT_DONE)
            r->last_forward = k;
    last = r->graphs[p->model->units[p->model->n_units - 1].class_id].values[0].bytes;
    r->output = backend_alloc(b, STREAM_COMPUTE, last);
    r->output_grad = backend_alloc(b, STREAM_COMPUTE, last);
    r->output_bytes = last;
    r->losses = backend_alloc(b, STREAM_COMPUTE, p->n_micro * sizeof(*r->losses));
    r->normed = ARENA_NEW(&r->arena, uint64_t, p->model->n_tensors);
    r->reduced_in = ARENA_NEW(&r->arena, uint64_t, p->model->n_tensors);
    if (o->keep_reduced)
        r->reduced = backend_alloc(b, STREAM_COMPUTE, reduced_bytes(r));
    if (!r->o.hyper)
        r->o.hyper = &run_hyper;
    if (optimizer_row(j->optimizer)->start == START_MOMENTUM)
        r->norms = backend_alloc(b, STREAM_COMPUTE, p->model->n_tensors * sizeof(*r->norms));
    make_marks(r);
    first_weights(r, p->known.params);
    first_weights(r, p->known.master);
    b->lib->sync(b);
    return backend_status(b, e) ? err_prefix(e, "rank %u: start", r->t->rank) : 0;
}

void exec_release(struct exec_run *r)
{
    struct backend *b = r->b;

    if (b) /* a step that failed may have left work in the streams */
        b->lib->sync(b);
    for (size_t i = 0; i < r->cap_map; i++)
        if (r->map[i].used)
            backend_free(b, STREAM_COMPUTE, r->map[i].data, r->map[i].room);
    for (int s = 0; s < STREAM_N; s++)
        for (int i = 0; i < SCRATCH_N; i++)
            backend_free(b, (enum stream)s, r->scratch[s][i], r->cap_scratch[s][i]);
    backend_free(b, STREAM_COMPUTE, r->stale, r->stale_bytes);
    backend_free(b, STREAM_COMPUTE, r->output, r->output_bytes);
    backend_free(b, STREAM_COMPUTE, r->output_grad, r->output_bytes);
    if (r->reduced)
        backend_free(b, STREAM_COMPUTE, r->reduced, reduced_bytes(r));
    if (r->norms)
        backend_free(b, STREAM_COMPUTE, r->norms, r->p->model->n_tensors * sizeof(*r->norms));
    if (r->losses)
        backend_free(b, STREAM_COMPUTE, r->losses, r->p->n_micro * sizeof(*r->losses));
    if (b)
        b->lib->sync(b);
    mem_free(r->map);
    mem_free(r->times);
    arena_release(&r->arena);
    memset(r, 0, sizeof(*r));
}
