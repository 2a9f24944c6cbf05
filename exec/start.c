/* A run's start, with the first weights, and its end. */
#include "exec/run.h"

#include "core/num.h"
#include "model/plan/job_options.h"
#include "model/plan/optimizers.h"

#include <string.h>

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

/* Collectives that can be predicted and are not run here: on quantised wires, or of what the program does not name. */
static int check_collectives(const struct program *p, struct err *e)
{
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const struct collective *k = &p->ops[i].coll;

        if (p->ops[i].kind != OP_COLLECTIVE)
            continue;
        if (k->wire.block || k->wire.dtype > DTYPE_FP16)
            return err_set(e, ERR_UNSUPPORTED,
                           "'%s' travels as %s: exec runs collectives of fp32, bf16 and fp16",
                           p->ops[i].name, dtype_name(k->wire.dtype));
        if (!k->interleaved &&
            (k->moved.from_buffer == PROGRAM_NONE || k->moved.to_buffer == PROGRAM_NONE))
            return err_set(e, ERR_UNSUPPORTED,
                           "'%s' does not say what it moves, so exec cannot run it",
                           p->ops[i].name);
    }
    return 0;
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
    if (exec_job(j, e) || graph_trains(&plan->model, j->seq_len, e) || check_collectives(p, e))
        return -1;
    r->place = placement_index(plan, STATE, b->t->rank);
    held_init(&r->held, plan, p, b->t->rank, &r->arena);
    r->graphs = ARENA_NEW(&r->arena, struct unit_graph, p->model->n_classes);
    for (uint32_t c = 0; c < p->model->n_classes; c++)
        if (graph_build(p->model, c, &batch, j->param_dtype, &r->graphs[c], e))
            return -1;
    run_reserve_resident(r);
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
    run_release_all(r);
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
    mem_free(r->times);
    arena_release(&r->arena);
    memset(r, 0, sizeof(*r));
}
