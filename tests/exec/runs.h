/* tests/exec/runs.h - a few steps of small models, every rank a thread, under a layout and under plain data parallelism from
 * the same seed: with ordered reductions losses and weights have to be equal to the last bit, and every byte that a rank
 * moved has to be in the program. Peak memory by part is what the simulator predicts. Every rank's calls are counted.
 */
#ifndef BALLAST_TESTS_EXEC_RUNS_H
#define BALLAST_TESTS_EXEC_RUNS_H

#include "exec/run.h"

#include "model/program/traffic.h"
#include "sim/sim.h"
#include "tests/exec/threads.h"
#include "tests/layouts/plans.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 3, MAX_STEPS = 20, MAX_WORLD = 8, RUN_NODE = 4 };

struct outcome {
    const struct plan *plan;
    const struct program *p;
    struct run_options o;
    uint64_t shuffle;
    int steps;
    double loss[MAX_STEPS];
    float *weights[MAX_WORLD]; /* [rank][total_params]: what the rank holds; elsewhere NAN; owned */
    struct traffic_bytes moved[MAX_WORLD];
    uint64_t peak[MAX_WORLD], part_peak[MAX_WORLD][MEM_PART_N];
    uint64_t calls[MAX_WORLD][STREAM_N]; /* collectives of the last step, by stream */
};

static void copy_weights(struct exec_run *r, float *to)
{
    const struct model *m = r->p->model;
    const struct run_buffer *params = run_find(r, r->p->known.params, 0, 0);

    for (uint64_t i = 0; i < m->total_params; i++)
        to[i] = NAN;
    for (uint32_t t = 0; t < m->n_tensors; t++) {
        struct run_view v = run_tensor(r, params, t);

        dtype_load(v.dtype, v.data, to + r->held.t[t].flat_at + v.first, v.elements);
    }
}

/* The backend's collectives, counted. */
static _Thread_local const struct backend_library *real;
static _Thread_local uint64_t *n_calls; /* [STREAM_N] */

static void counted(struct backend *b, enum stream s, const struct coll_group *g,
                    const struct coll_call *c)
{
    n_calls[s]++;
    real->collective(b, s, g, c);
}

static int one_rank(struct transport *t, void *ctx, struct err *e)
{
    struct outcome *x = ctx;
    struct backend_library counting;
    struct backend b;
    struct exec_run r;
    int status;

    open_cpu(&b, t, x->shuffle ? x->shuffle + t->rank : 0);
    real = b.lib;
    n_calls = x->calls[t->rank];
    counting = *b.lib;
    counting.collective = counted;
    b.lib = &counting;
    status = exec_init(&r, x->plan, x->p, &b, &x->o, e);

    for (int s = 0; s < x->steps && !status; s++) {
        double loss;

        if (s == x->steps - 1) {
            t->n_sent = t->n_received = 0;
            memset(n_calls, 0, STREAM_N * sizeof(*n_calls));
        }
        status = exec_step(&r, e);
        if (!status)
            status = exec_loss(&r, &loss, e);
        if (!status && t->rank == 0)
            x->loss[s] = loss;
    }
    if (!status) {
        x->moved[t->rank] =
            (struct traffic_bytes){.sent_intra = t->n_sent, .recv_intra = t->n_received};
        x->weights[t->rank] = MEM_NEW(float, x->p->model->total_params);
        copy_weights(&r, x->weights[t->rank]);
        x->peak[t->rank] = r.peak;
        memcpy(x->part_peak[t->rank], r.part_peak, sizeof(r.part_peak));
    }
    exec_release(&r);
    if (b.bytes)
        status = err_set(e, ERR_INVALID, "rank %u: %llu bytes are not given back", t->rank,
                         (unsigned long long)b.bytes);
    backend_close(&b);
    return status;
}

static void release(struct outcome *x)
{
    for (int i = 0; i < MAX_WORLD; i++)
        mem_free(x->weights[i]);
}

struct setting {
    const char *model, *layout;
    uint32_t world;
    struct job job;
    enum run_fault fault; /* of rank 1 */
    int steps;            /* 0: STEPS */
    double lr;            /* 0: 0.02 */
    uint64_t shuffle;
    bool every_micro; /* ddp reduces every micro-batch */
    bool forget; /* what the refresh waits for, and that the optimizer waits for sums over copies */
    bool apart;  /* copies are not summed */
    bool nameless;        /* no operation is called what the layout calls it */
    bool at_once;         /* ddp sums over all ranks, not in groups first */
    const char *left_out; /* an operation of this name does nothing */
    const char *unwaited; /* ... that nobody waits for */
};

static bool over_copies(const struct program *p, const struct op *o)
{
    return o->kind == OP_COLLECTIVE && p->groups[o->coll.group].stride[0] > 1;
}

/* Faults in the program. */
static void forget_waits(struct program *p)
{
    for (uint32_t i = 0; i < p->n_ops; i++) {
        struct wait *w = ((struct wait *)(uintptr_t)p->ops[i].waits);
        uint32_t n = 0;

        for (uint32_t k = 0; k < p->ops[i].n_waits && p->ops[i].phase != PHASE_REFRESH; k++)
            if (!over_copies(p, &p->ops[w[k].op]))
                w[n++] = w[k];
        p->ops[i].n_waits = n;
    }
}

static void change_named(struct program *p, const char *left_out, const char *unwaited)
{
    uint32_t changed = 0;

    for (uint32_t i = 0; i < p->n_ops; i++) {
        struct wait *w = ((struct wait *)(uintptr_t)p->ops[i].waits);
        uint32_t n = 0;

        for (uint32_t k = 0; k < p->ops[i].n_waits; k++)
            if (!unwaited || strcmp(p->ops[w[k].op].name, unwaited))
                w[n++] = w[k];
        changed += p->ops[i].n_waits - n;
        p->ops[i].n_waits = n;
        if (left_out && !strcmp(p->ops[i].name, left_out)) {
            p->ops[i].kind = OP_MARK;
            changed++;
        }
    }
    MUST(changed > 0, "no operation %s", left_out ? left_out : unwaited);
}

static void leave_apart(struct program *p)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (over_copies(p, &p->ops[i]))
            p->ops[i].kind = OP_MARK;
}

/* How ddp's reference sums for a layout, from what the job says: in the shard groups, then over them; with nested factors
 * among those that share the parts of the gradients, then the states', then the copies. `mesh`: room for its mesh. */
static struct layout_reference reference(const struct setting *s, struct mesh *mesh)
{
    struct layout_reference ref = {.every_micro = s->every_micro, .mesh = mesh};
    uint32_t groups = s->job.shard_group > 1 && !s->at_once ? s->job.shard_group : s->world;
    axis_set level[] = {AXES(AXIS_D0), AXES(AXIS_D3), 0};
    struct factor f[3];
    struct err e;
    bool said[3];

    if (s->job.mesh) {
        MUST(!mesh_parse(s->job.mesh, f, said, &e) &&
                 !mesh_nested(mesh, s->world, 1, plans_node(s->world, RUN_NODE), f, &e),
             "%s: %s", s->job.mesh, e.msg);
        level[0] |= AXES(AXIS_D1);
        level[1] = AXES(AXIS_D2);
        level[2] = AXES(AXIS_D3);
        if (factor_ranks(f[1]) == 1)
            level[0] = AXES(AXIS_D2), level[1] = 0;
        /* parameters that are whole leave no gradients out: they were zero2's */
        ref.every_micro = factor_ranks(f[1]) > 1 && s->job.grad_accum > 1 &&
                          !(s->job.sync_last && factor_ranks(f[0]) > 1);
    } else {
        mesh_neighbours(mesh, s->world, 1, AXIS_D0, groups);
    }
    for (int i = 0; i < 3; i++)
        if (mesh_size(mesh, level[i]) > 1 && !(s->at_once && ref.n_levels))
            ref.level[ref.n_levels++] = level[i];
    if (s->at_once && s->job.mesh)
        ref.level[0] = AXES(AXIS_N) - 1;
    return ref;
}

static void run(const struct setting *s, const char *layout, struct arena *a, struct outcome *x)
{
    struct plan *plan = ARENA_NEW(a, struct plan, 1);
    struct program *p = ARENA_NEW(a, struct program, 1);
    bool ddp = !strcmp(layout, "ddp");
    struct mesh mesh;
    const struct layout_reference ref = reference(s, &mesh);
    struct job j = s->job;
    struct err e = {0};

    memset(x, 0, sizeof(*x));
    j.shard_group = ddp ? 0 : j.shard_group;
    plans_make(plan, a, s->model, layout, &j, s->world, RUN_NODE);
    if (ddp ? layout_lower_reference(plan, &ref, a, p, &e) : layout_lower(plan, a, p, &e))
        ck_abort_msg("%s", e.msg);
    if (s->nameless)
        plans_rename_ops(p, a);
    if (s->forget)
        forget_waits(p);
    if (s->apart && !ddp)
        leave_apart(p);
    if ((s->left_out || s->unwaited) && !ddp)
        change_named(p, s->left_out, s->unwaited);
    x->shuffle = s->shuffle;
    x->steps = s->steps ? s->steps : STEPS;
    x->plan = plan;
    x->p = p;
    x->o = (struct run_options){.seed = 7, .ordered = true, .lr = s->lr > 0 ? s->lr : 0.02};
    if (strcmp(layout, "ddp") && s->fault) {
        x->o.fault = s->fault;
        x->o.faulty = 1;
    }
    if (threads_run(s->world, one_rank, x, &e))
        ck_abort_msg("%s %s world %u: %s", s->model, layout, s->world, e.msg);
}

/* The first difference, or NULL. */
static const char *differs(const struct setting *s, const struct outcome *x,
                           const struct outcome *ddp, char *text, size_t n)
{
    for (int i = 0; i < x->steps; i++)
        if (x->loss[i] != ddp->loss[i]) {
            snprintf(text, n, "%s %s world %u: loss of step %d is %.17g, ddp %.17g", s->model,
                     s->layout, s->world, i + 1, x->loss[i], ddp->loss[i]);
            return text;
        }
    for (uint32_t r = 0; r < s->world; r++)
        for (uint64_t i = 0; i < x->p->model->total_params; i++)
            if (!isnan(x->weights[r][i]) && x->weights[r][i] != ddp->weights[0][i]) {
                snprintf(text, n, "%s %s world %u: rank %u weight %llu is %.9g, ddp %.9g", s->model,
                         s->layout, s->world, r, (unsigned long long)i, (double)x->weights[r][i],
                         (double)ddp->weights[0][i]);
                return text;
            }
    return NULL;
}

/* What an ordered run moves: segment reductions by mirrored p2p, the rest as the job's algorithm says. */
static enum coll_algo ordered_algo(void *ctx, const struct instance *i)
{
    const struct outcome *x = ctx;
    const struct op *o = &x->p->ops[i->op];

    if (o->coll.kind == COLL_SEGMENT_REDUCE && o->coll.algo != ALGO_PADDED)
        return ALGO_P2P;
    return o->coll.algo == ALGO_AUTO ? ALGO_RING : o->coll.algo;
}

static void check_bytes(const struct setting *s, struct outcome *x)
{
    struct traffic_bytes *b = MEM_NEW(struct traffic_bytes, s->world);

    traffic_step(x->p, 15, ordered_algo, x, b);
    for (uint32_t r = 0; r < s->world; r++)
        if (x->moved[r].sent_intra != b[r].sent_intra + b[r].sent_inter ||
            x->moved[r].recv_intra != b[r].recv_intra + b[r].recv_inter)
            ck_abort_msg(
                "%s %s world %u: rank %u sent %llu received %llu, the program says %llu %llu",
                s->model, s->layout, s->world, r, (unsigned long long)x->moved[r].sent_intra,
                (unsigned long long)x->moved[r].recv_intra,
                (unsigned long long)(b[r].sent_intra + b[r].sent_inter),
                (unsigned long long)(b[r].recv_intra + b[r].recv_inter));
    mem_free(b);
}

static void check_memory(const struct setting *s, const struct outcome *x, struct arena *a)
{
    struct sim_options o = {.unfold = true};
    struct prediction out;
    struct err e = {0};
    uint64_t most = 0;

    ck_assert_int_eq(sim_predict(x->p, &x->plan->cluster, &o, a, &out, &e), 0);
    for (uint32_t r = 0; r < s->world; r++)
        most = x->peak[r] > most ? x->peak[r] : most;
    /* In walking order nothing overlaps: exec never holds more than the streams' overlap allows. */
    if (most > out.memory.peak_bytes)
        ck_abort_msg("%s %s world %u: peak %llu, predicted %llu", s->model, s->layout, s->world,
                     (unsigned long long)most, (unsigned long long)out.memory.peak_bytes);
    /* Predicted in walking order it is the same bytes in every part, on the same rank. */
    o.serial = true;
    ck_assert_int_eq(sim_predict(x->p, &x->plan->cluster, &o, a, &out, &e), 0);
    ck_assert_uint_eq(out.memory.peak_bytes, most);
    ck_assert_uint_eq(out.memory.peak_bytes, x->peak[out.memory.rank]);
    for (uint32_t r = 0; r < out.memory.rank; r++)
        ck_assert_uint_lt(x->peak[r], most);
    for (int k = 0; k < MEM_PART_N; k++)
        if (k != MEM_CONTEXT && x->part_peak[out.memory.rank][k] != out.memory.parts[k])
            ck_abort_msg("%s %s world %u: %s of rank %u is %llu, predicted %llu", s->model,
                         s->layout, s->world, mem_part_name((enum mem_part)k), out.memory.rank,
                         (unsigned long long)x->part_peak[out.memory.rank][k],
                         (unsigned long long)out.memory.parts[k]);
}

/* `ddp` has been run with the same settings. */
static void compare_with(struct setting *s, const struct outcome *ddp)
{
    struct outcome x;
    struct arena a;
    char text[256];

    if (!plans_go_together(s->layout, s->job.optimizer))
        return;
    arena_init(&a);
    run(s, s->layout, &a, &x);
    if (differs(s, &x, ddp, text, sizeof(text)))
        ck_abort_msg("%s", text);
    ck_assert(isfinite(x.loss[x.steps - 1]));
    check_bytes(s, &x);
    check_memory(s, &x, &a);
    release(&x);
    arena_release(&a);
}

static inline void compare(struct setting *s)
{
    struct outcome ddp;
    struct arena a;

    arena_init(&a);
    run(s, "ddp", &a, &ddp);
    compare_with(s, &ddp);
    release(&ddp);
    arena_release(&a);
}

static struct setting small(const char *model, const char *layout, uint32_t world)
{
    struct setting s = {.model = model, .layout = layout, .world = world, .job = plans_job()};

    s.job.seq_len = 16;
    s.job.micro_batch = 1;
    s.job.param_dtype = s.job.grad_dtype = DTYPE_FP32;
    return s;
}

/* The i-th name of a layout whose bits are ddp's (+stock's are near, tests/exec/test_check.c), and what it takes: a group
 * or factors by the seed, and when the reference sums. False past the last. */
static bool layout_of(struct setting *s, uint32_t i, uint32_t seed)
{
    const char *name;

    for (uint32_t l = 0; (name = plans_name(l)); l++)
        if (!strstr(name, "+stock") && i-- == 0) {
            s->layout = name;
            plans_fit(&s->job, name, s->world, RUN_NODE, seed);
            s->every_micro = plans_row(name)->cut[GRAD] && s->world > 1 &&
                             s->job.shard_group != 1 && s->job.grad_accum > 1 && !s->job.sync_last;
            return true;
        }
    return false;
}

/* `ddp` has been run with the same settings for those that neither sum in groups nor in every micro-batch; of the
 * others, each of which wants a reference of its own, every fourth by the seed: all take minutes. */
static inline void compare_all(struct setting *s, const struct outcome *ddp, uint32_t seed)
{
    for (uint32_t l = 0; layout_of(s, l, seed + l); l++)
        if (!s->job.shard_group && !s->job.mesh && !s->every_micro)
            compare_with(s, ddp);
        else if ((l + seed) % 4 == 0)
            compare(s);
    s->job.shard_group = 0;
    s->job.mesh = NULL;
}

static const char *const models[] = {"block", "llama", "gpt2"};

#endif
