/* Reads a prediction off a finished run: phases, critical path, link use, bytes. */
#include "sim/run.h"

#include <stdlib.h>
#include <string.h>

static const struct op *op_of(const struct run *r, uint32_t task)
{
    return &r->p->ops[r->tasks[task].id.op];
}

const char *time_category_name(enum time_category t)
{
    static const char *const names[TIME_N] = {"gemm",   "attention", "elementwise", "optimizer",
                                              "gather", "reduce",    "refresh",     "tp"};

    return names[t];
}

static enum time_category traffic_category(enum traffic_class t)
{
    switch (t) {
    case TRAFFIC_GATHER:
    case TRAFFIC_OPTIMIZER:
        return TIME_GATHER;
    case TRAFFIC_REDUCE:
        return TIME_REDUCE;
    case TRAFFIC_REFRESH:
        return TIME_REFRESH;
    case TRAFFIC_TENSOR:
        return TIME_TENSOR;
    case TRAFFIC_N:
        break;
    }
    BUG_ON(true);
}

enum time_category sim_category(const struct op *o)
{
    if (o->kind == OP_COLLECTIVE)
        return traffic_category(o->coll.traffic);
    if (o->phase == PHASE_OPTIMIZER)
        return TIME_OPTIMIZER;
    switch (kernel_bound(o->call.kernel)) {
    case 'G':
        return TIME_GEMM;
    case 'A':
        return TIME_ATTENTION;
    default:
        return TIME_ELEMENTWISE;
    }
}

static enum time_category category(const struct run *r, uint32_t task)
{
    return sim_category(op_of(r, task));
}

static uint32_t last_task(const struct run *r)
{
    uint32_t last = 0;

    for (uint32_t i = 1; i < r->n_tasks; i++)
        if (fluid_end_ps(r->f, i) > fluid_end_ps(r->f, last))
            last = i;
    return last;
}

/* The class whose compute ends last: what the others wait for. */
static uint32_t slowest_class(const struct run *r)
{
    uint32_t worst = 0;
    int64_t end = -1;

    for (uint32_t i = 0; i < r->n_tasks; i++)
        if (r->tasks[i].class_id != PROGRAM_NONE && op_of(r, i)->kind == OP_COMPUTE &&
            fluid_end_ps(r->f, i) > end) {
            end = fluid_end_ps(r->f, i);
            worst = r->tasks[i].class_id;
        }
    return worst;
}

/* Forward of a micro-batch lasts from the end of the backward before to its own last kernel; backward from there to its
 * last kernel, the last one's to its last reduction; the rest is the optimizer, refresh included. */
static void phases(const struct run *r, struct prediction *out)
{
    uint32_t n = r->p->n_micro;
    int64_t *forward = MEM_NEW(int64_t, n), *backward = MEM_NEW(int64_t, n), reduced = 0,
            before = 0;

    for (uint32_t i = 0; i < r->n_tasks; i++) {
        const struct op *o = op_of(r, i);
        int64_t t = fluid_end_ps(r->f, i), *at;

        if (o->phase > PHASE_BACKWARD)
            continue;
        if (t > reduced)
            reduced = t;
        if (o->stream != STREAM_COMPUTE)
            continue;
        at = o->phase == PHASE_FORWARD ? &forward[r->tasks[i].id.micro]
                                       : &backward[r->tasks[i].id.micro];
        if (t > *at)
            *at = t;
    }
    backward[n - 1] = reduced;
    for (uint32_t m = 0; m < n; m++) {
        out->forward_ps += forward[m] - before;
        out->backward_ps += backward[m] - forward[m];
        before = backward[m];
    }
    out->optimizer_ps = out->step_ps - before;
    mem_free(forward);
    mem_free(backward);
}

static void critical_path(const struct run *r, struct prediction *out)
{
    uint32_t i = last_task(r);

    while (i != UINT32_MAX) {
        out->path_ps[category(r, i)] += fluid_end_ps(r->f, i) - fluid_ready_ps(r->f, i);
        i = fluid_last_before(r->f, i);
    }
}

/* What takes at least half of the time that the task's call takes alone; latency where nothing does. */
static int limit_of(const struct task *t, const struct op *o)
{
    int64_t alone_ps;

    if (o->kind != OP_COLLECTIVE)
        return LIMIT_RANKS;
    alone_ps = t->coll->alone_ps + t->host_ps;
    return 2 * t->host_ps > alone_ps          ? LIMIT_HOST
           : 2 * t->coll->link_ps >= alone_ps ? (int)t->coll->link
                                              : LIMIT_LATENCY;
}

/* Blame the waiting in [from, until) on the chain of predecessors that ends in task i. */
static void blame(const struct run *r, uint32_t i, int64_t from, int64_t until,
                  struct prediction *out)
{
    for (; i != UINT32_MAX && until > from; i = fluid_last_before(r->f, i)) {
        const struct op *o = op_of(r, i);
        int64_t start = fluid_ready_ps(r->f, i), end = fluid_end_ps(r->f, i);

        start = start > from ? start : from;
        end = end < until ? end : until;
        if (end > start) {
            const struct task *t = &r->tasks[i];
            int limit = limit_of(t, o);

            out->time_ps[category(r, i)] += end - start;
            out->wait_ps[category(r, i)][limit] += end - start;
            if (o->kind == OP_COLLECTIVE)
                out->exposed_ps[o->phase][o->coll.kind] += end - start;
            if (limit < RESOURCE_N && t->coll->fan_out)
                out->fan_out_ps[category(r, i)] += end - start;
        }
        until = start < until ? start : until;
    }
}

/* The compute stream of the slowest class: tasks of a stream are made in the order in which they run. */
static void compute_time(const struct run *r, struct prediction *out)
{
    uint32_t k = slowest_class(r);
    int64_t before = 0;

    for (uint32_t i = 0; i < r->n_tasks; i++) {
        int64_t start = fluid_ready_ps(r->f, i), end = fluid_end_ps(r->f, i);

        if (r->tasks[i].joint ||
            (r->tasks[i].class_id != PROGRAM_NONE && r->tasks[i].class_id != k))
            continue;
        if (op_of(r, i)->kind != OP_MARK)
            out->busy_ps[category(r, i)] += end - start;
        if (op_of(r, i)->kind != OP_COMPUTE)
            continue;
        blame(r, fluid_last_before(r->f, i), before, start, out);
        out->time_ps[category(r, i)] += end - start;
        out->compute_ps += end - start;
        before = end;
    }
    blame(r, last_task(r), before, out->step_ps, out);
    out->exposed_comm_ps = out->step_ps - out->compute_ps;
}

static void stretches(const struct run *r, struct prediction *out)
{
    uint32_t n = r->p->model->n_classes;

    for (uint32_t i = 0; i < PHASE_N; i++)
        out->stretch[i] = 1;
    for (uint32_t i = 0; r->stretch && i < PHASE_N * n; i++)
        if (r->stretch[i] > out->stretch[i / n])
            out->stretch[i / n] = r->stretch[i];
}

static void resources(const struct run *r, struct prediction *out)
{
    const struct fabric *f = &r->cache.fabric;
    double best = -1;

    for (int k = 0; k < RESOURCE_N; k++) {
        uint32_t n = coll_instances(f, (enum sim_resource)k);

        for (uint32_t i = 0; i < n; i++) {
            double used = fluid_used(r->f, (uint32_t)k, i);

            if (used > out->busy[k]) {
                out->busy[k] = used;
                out->busy_instance[k] = i;
            }
        }
        out->busy[k] /= coll_capacity(f, (enum sim_resource)k) * (double)out->step_ps;
    }
    out->busy[RESOURCE_SM] = (double)out->compute_ps / (double)out->step_ps;
    for (int k = 0; k < RESOURCE_N; k++)
        if (out->busy[k] > best) {
            best = out->busy[k];
            out->bottleneck = (enum sim_resource)k;
        }
}

static void add(struct traffic_bytes *to, const struct traffic_bytes *b, int64_t sign)
{
    to->sent_intra += (uint64_t)sign * b->sent_intra;
    to->sent_inter += (uint64_t)sign * b->sent_inter;
    to->recv_intra += (uint64_t)sign * b->recv_intra;
    to->recv_inter += (uint64_t)sign * b->recv_inter;
}

static void most(uint64_t *to, uint64_t v)
{
    if (v > *to)
        *to = v;
}

/* A call for owners' segments: how it went, and how it could have gone. */
static void note_ways(const struct run *r, uint32_t task, uint64_t by_algo[ALGO_N],
                      struct prediction *out)
{
    const struct coll_activity *c = r->tasks[task].coll;
    const struct op *o = op_of(r, task);

    by_algo[c->algo] += op_coll_bytes(r->p, o, &r->tasks[task].id);
    if (o->coll.algo != ALGO_AUTO)
        return;
    out->segments_ps[ALGO_AUTO] += (double)c->alone_ps;
    for (int k = ALGO_AUTO + 1; k < ALGO_N; k++)
        out->segments_ps[k] += c->ways_ps[k];
}

static void bytes(const struct run *r, struct prediction *out)
{
    uint32_t n = r->cache.first;
    struct traffic_bytes *rank = MEM_NEW(struct traffic_bytes, n);
    struct traffic_bytes *update = MEM_NEW(struct traffic_bytes, n), every = {0}, every_up = {0};
    uint64_t by_algo[ALGO_N] = {0};

    for (uint32_t i = 0; i < r->n_tasks; i++) {
        const struct coll_activity *c = r->tasks[i].coll;
        const struct op *o = op_of(r, i);
        bool in_step = o->coll.traffic == TRAFFIC_OPTIMIZER || o->coll.traffic == TRAFFIC_REFRESH;

        if (!c)
            continue;
        if (o->coll.kind == COLL_SEGMENT_GATHER || o->coll.kind == COLL_SEGMENT_REDUCE)
            note_ways(r, i, by_algo, out);
        add(&every, &c->traffic.every, 1);
        if (in_step)
            add(&every_up, &c->traffic.every, 1);
        for (uint32_t k = 0; k < c->traffic.n_only; k++) {
            const struct traffic_only *x = &c->traffic.only[k];

            add(&rank[x->rank], &x->bytes, 1);
            add(&rank[x->rank], &c->traffic.every, -1);
            if (!in_step)
                continue;
            add(&update[x->rank], &x->bytes, 1);
            add(&update[x->rank], &c->traffic.every, -1);
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        add(&rank[k], &every, 1);
        add(&update[k], &every_up, 1);
        most(&out->bytes_max.sent_intra, rank[k].sent_intra);
        most(&out->bytes_max.sent_inter, rank[k].sent_inter);
        most(&out->bytes_max.recv_intra, rank[k].recv_intra);
        most(&out->bytes_max.recv_inter, rank[k].recv_inter);
        most(&out->optimizer_bytes, update[k].sent_intra + update[k].sent_inter);
    }
    out->gather_algo = ALGO_AUTO;
    for (int k = 1; k < ALGO_N; k++)
        out->gather_algos |= by_algo[k] ? 1u << k : 0;
    for (int k = 1; k < ALGO_N; k++)
        if (by_algo[k] > by_algo[out->gather_algo])
            out->gather_algo = (enum coll_algo)k;
    mem_free(rank);
    mem_free(update);
}

static int by_start(const void *x, const void *y)
{
    const struct sim_instance *a = x, *b = y;

    if (a->start_ps != b->start_ps)
        return a->start_ps < b->start_ps ? -1 : 1;
    if (a->id.op != b->id.op)
        return a->id.op < b->id.op ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static void trace(const struct run *r, struct arena *a, struct prediction *out)
{
    out->instances = ARENA_NEW(a, struct sim_instance, r->n_tasks);
    for (uint32_t i = 0; i < r->n_tasks; i++) {
        const struct task *t = &r->tasks[i];

        if (t->joint || op_of(r, i)->kind == OP_MARK)
            continue;
        out->instances[out->n_instances++] =
            (struct sim_instance){.id = t->id,
                                  .rank = t->class_id == PROGRAM_NONE ? 0 : r->rep[t->class_id],
                                  .shared = t->class_id == PROGRAM_NONE,
                                  .algo = t->coll ? t->coll->algo : ALGO_AUTO,
                                  .nccl = t->coll ? t->coll->nccl : (struct nccl_time){0},
                                  .start_ps = fluid_ready_ps(r->f, i),
                                  .end_ps = fluid_end_ps(r->f, i)};
    }
    qsort(out->instances, out->n_instances, sizeof(*out->instances), by_start);
}

int sim_predict(const struct program *p, const struct cluster *c, const struct sim_options *o,
                struct arena *a, struct prediction *out, struct err *e)
{
    struct cluster domains = cluster_by_domain(c);
    struct run r;
    int status = -1;

    memset(out, 0, sizeof(*out));
    if (run_program(&r, p, &domains, o, e))
        goto out;
    out->step_ps = fluid_makespan_ps(r.f);
    out->n_classes = r.n_classes;
    out->n_activities = r.n_tasks;
    out->n_events = fluid_n_events(r.f);
    if (out->step_ps == 0) {
        err_set(e, ERR_INVALID, "the step program does nothing");
        goto out;
    }
    phases(&r, out);
    critical_path(&r, out);
    compute_time(&r, out);
    stretches(&r, out);
    resources(&r, out);
    bytes(&r, out);
    run_memory(&r, &out->memory);
    if (o->keep_trace)
        trace(&r, a, out);
    status = 0;
out:
    run_release(&r);
    return status;
}
