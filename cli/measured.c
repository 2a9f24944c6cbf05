#include "cli/measured.h"

#include "exec/sample.h"

#include <math.h>
#include <string.h>
#include <sys/resource.h>

/* ---- rows ---- */

const char *measured_row_name(int k)
{
    static const char *const others[] = {"forward phase", "backward phase", "optimizer phase",
                                         "step"};

    return k < TIME_N ? time_category_name((enum time_category)k) : others[k - TIME_N];
}

double measured_predicted_ms(const struct measured *m, int k)
{
    const struct prediction *p = &m->predicted;

    return (double)(k < TIME_N          ? p->busy_ps[k]
                    : k == ROW_FORWARD  ? p->forward_ps
                    : k == ROW_BACKWARD ? p->backward_ps
                    : k == ROW_STEP     ? p->step_ps
                                        : p->optimizer_ps) /
           1e9;
}

static int phase_row(enum phase p)
{
    return p == PHASE_FORWARD ? ROW_FORWARD : p == PHASE_BACKWARD ? ROW_BACKWARD : ROW_OPTIMIZER;
}

/* ---- classes ---- */

const char *measured_class_name(int c)
{
    static const char *const kinds[] = {"gemm",        "attention", "norm",
                                        "elementwise", "embedding", "loss"};

    return c < CLASS_OPTIMIZER    ? kinds[c]
           : c < CLASS_COLLECTIVE ? kernel_name((enum kernel)(c - CLASS_OPTIMIZER))
           : c < CLASS_WAITING    ? coll_kind_name((enum coll_kind)(c - CLASS_COLLECTIVE))
           : c == CLASS_WAITING   ? "waiting"
                                  : "total";
}

/* The operation whose arithmetic the interleaved collective o is spread over: the one in its loop that waits for it. */
static const struct op *played_in(const struct program *p, const struct op *o)
{
    const struct loop *l = &p->loops[o->loop];

    for (uint32_t i = l->first_op; i < l->first_op + l->n_ops; i++)
        for (uint32_t k = 0; k < p->ops[i].n_waits; k++)
            if (p->ops[i].waits[k].op == o->id && p->ops[i].kind == OP_COMPUTE)
                return &p->ops[i];
    BUG_ON(true);
    return NULL;
}

static int kernel_class(enum kernel k)
{
    switch (k) {
    case KERNEL_EMBED:
    case KERNEL_EMBED_BACKWARD:
    case KERNEL_POSITION_ADD:
    case KERNEL_POSITION_BACKWARD:
        return CLASS_EMBEDDING;
    case KERNEL_RMSNORM:
    case KERNEL_RMSNORM_BACKWARD:
    case KERNEL_LAYERNORM:
    case KERNEL_LAYERNORM_BACKWARD:
        return CLASS_NORM;
    case KERNEL_CROSS_ENTROPY:
    case KERNEL_CROSS_ENTROPY_BACKWARD:
        return CLASS_LOSS;
    default:
        return kernel_bound(k) == 'G'   ? CLASS_GEMM
               : kernel_bound(k) == 'A' ? CLASS_ATTENTION
                                        : CLASS_ELEMENTWISE;
    }
}

int measured_class_of(const struct program *p, const struct op *o)
{
    if (o->kind == OP_COLLECTIVE && o->coll.interleaved)
        o = played_in(p, o);
    if (o->kind == OP_COLLECTIVE)
        return CLASS_COLLECTIVE + (int)o->coll.kind;
    return o->phase == PHASE_OPTIMIZER ? CLASS_OPTIMIZER + (int)o->call.kernel
                                       : kernel_class(o->call.kernel);
}

/* Seconds by class of the rank that stands for its like; what no operation fills up to its last one is waiting. */
static void predicted_rank(const struct measured *m, uint32_t rank, double sum[N_CLASSES])
{
    int64_t end = 0, busy = 0;

    memset(sum, 0, N_CLASSES * sizeof(*sum));
    for (size_t i = 0; i < m->predicted.n_instances; i++) {
        const struct sim_instance *x = &m->predicted.instances[i];

        if (!x->shared && x->rank != rank)
            continue;
        sum[measured_class_of(m->p, &m->p->ops[x->id.op])] +=
            1e-12 * (double)(x->end_ps - x->start_ps);
        busy += x->end_ps - x->start_ps;
        end = x->end_ps > end ? x->end_ps : end;
    }
    sum[CLASS_TOTAL] = 1e-12 * (double)busy;
    sum[CLASS_WAITING] = end > busy ? 1e-12 * (double)(end - busy) : 0;
}

static void largest(double *to, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = x[i] > to[i] ? x[i] : to[i];
}

int measured_init(struct measured *m, const struct plan *plan, struct program *p, bool serial,
                  struct err *e)
{
    struct sim_options so = {.serial = serial, .keep_trace = true};
    bool *done;

    memset(m, 0, sizeof(*m));
    arena_init(&m->arena);
    m->plan = plan;
    m->p = p;
    m->serial = serial;
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == OP_COLLECTIVE && p->ops[i].coll.algo == ALGO_AUTO)
            p->ops[i].coll.algo = ALGO_RING;
    if (sim_predict(p, &plan->cluster, &so, &m->arena, &m->predicted, e))
        return -1;
    done = MEM_NEW(bool, p->world);
    for (size_t i = 0; i < m->predicted.n_instances; i++) {
        uint32_t rank = m->predicted.instances[i].rank;
        double sum[N_CLASSES];

        if (done[rank])
            continue;
        done[rank] = true;
        predicted_rank(m, rank, sum);
        largest(m->predicted_s, sum, N_CLASSES);
    }
    mem_free(done);
    return 0;
}

void measured_release(struct measured *m)
{
    mem_free(m->rows);
    mem_free(m->classes);
    arena_release(&m->arena);
    memset(m, 0, sizeof(*m));
}

/* ---- one step ---- */

/* What a rank says of a step. */
struct told {
    double rows[N_ROWS], classes[N_CLASSES], n[N_CLASSES];
};

static void tell(const struct measured *m, const struct exec_run *r, const double *own_s,
                 struct told *x)
{
    double first = r->n_times ? r->times[0].start_s : 0, last = first;

    memset(x, 0, sizeof(*x));
    for (size_t i = 0; i < r->n_times; i++) {
        const struct op *o = &m->p->ops[r->times[i].id.op];
        double s = r->times[i].end_s - r->times[i].start_s;
        int c = measured_class_of(m->p, o);

        x->rows[sim_category(o)] += s;
        x->rows[phase_row(o->phase)] += s;
        x->classes[c] += own_s[i];
        x->n[c]++;
        x->classes[CLASS_TOTAL] += own_s[i];
        x->n[CLASS_TOTAL]++;
        x->classes[CLASS_WAITING] += s - own_s[i];
    }
    for (size_t i = 0; i < r->n_times; i++) {
        first = fmin(first, r->times[i].start_s);
        last = fmax(last, r->times[i].end_s);
    }
    x->rows[ROW_STEP] = last - first;
    x->n[CLASS_WAITING] = 0;
    for (int k = 0; k < COLL_N && m->p->world > 1; k++)
        x->n[CLASS_WAITING] += x->n[CLASS_COLLECTIVE + k];
}

int measured_step(struct measured *m, struct exec_run *r, struct err *e)
{
    struct told mine, *all = MEM_NEW(struct told, r->t->size);
    double *own_s = MEM_NEW(double, r->n_times);
    size_t cap_rows = m->cap_steps;
    int status;

    for (size_t i = 0; i < r->n_times; i++)
        own_s[i] = r->times[i].end_s - r->times[i].start_s;
    status = sample_collectives(r, own_s, e);
    tell(m, r, own_s, &mine);
    if (!status)
        status = transport_all_gather_control(r->t, &mine, sizeof(mine), all, e);
    m->rows = mem_grow(m->rows, &cap_rows, m->n_steps + 1, sizeof(*m->rows));
    m->classes = mem_grow(m->classes, &m->cap_steps, m->n_steps + 1, sizeof(*m->classes));
    memset(m->rows[m->n_steps], 0, sizeof(*m->rows));
    memset(m->classes[m->n_steps], 0, sizeof(*m->classes));
    for (uint32_t i = 0; i < r->t->size && !status; i++) {
        largest(m->rows[m->n_steps], all[i].rows, N_ROWS);
        largest(m->classes[m->n_steps], all[i].classes, N_CLASSES);
        for (int k = 0; k < N_CLASSES; k++)
            m->n_ops[k] = (uint64_t)all[i].n[k] > m->n_ops[k] ? (uint64_t)all[i].n[k] : m->n_ops[k];
    }
    m->n_steps++;
    mem_free(all);
    mem_free(own_s);
    return status;
}

/* ---- the end ---- */

static uint64_t resident_bytes(void)
{
    struct rusage u;

    return getrusage(RUSAGE_SELF, &u) ? 0 : (uint64_t)u.ru_maxrss * 1024;
}

int measured_end(struct measured *m, struct exec_run *r, struct err *e)
{
    struct measured_memory mine = {.rank = r->t->rank,
                                   .bytes = r->peak,
                                   .scratch_bytes = exec_scratch_bytes(r),
                                   .resident_bytes = resident_bytes()};
    struct measured_memory *all = MEM_NEW(struct measured_memory, r->t->size);
    uint64_t scratch = 0, resident = 0;
    int status;

    memcpy(mine.parts, r->part_peak, sizeof(mine.parts));
    status = transport_all_gather_control(r->t, &mine, sizeof(mine), all, e);
    for (uint32_t i = 0; i < r->t->size && !status; i++) {
        if (i == 0 || all[i].bytes > m->memory.bytes)
            m->memory = all[i];
        scratch = all[i].scratch_bytes > scratch ? all[i].scratch_bytes : scratch;
        resident = all[i].resident_bytes > resident ? all[i].resident_bytes : resident;
    }
    m->memory.scratch_bytes = scratch;
    m->memory.resident_bytes = resident;
    mem_free(all);
    return status ? -1 : 0;
}

int measured_loss(struct measured *m, struct exec_run *r, struct err *e)
{
    if (exec_loss(r, &m->loss, e))
        return -1;
    if (!isfinite(m->loss) && !m->endless_step)
        m->endless_step = r->step;
    return 0;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return a < b ? -1 : a > b;
}

struct measured_spread measured_spread(const struct measured *m, const double *column, size_t apart)
{
    double *x = MEM_NEW(double, m->n_steps);
    size_t n = m->n_steps;
    struct measured_spread s;

    for (size_t i = 0; i < n; i++)
        x[i] = column[i * apart];
    qsort(x, n, sizeof(*x), by_value);
    s = (struct measured_spread){n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2, x[0], x[n - 1]};
    mem_free(x);
    return s;
}
