#include "exec/check.h"

#include "layouts/layout.h"
#include "model/traffic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ordered segment reductions go straight to their root, whatever the algorithm; padded ones are even. */
static enum coll_algo ordered_algo(void *ctx, const struct instance *i)
{
    const struct program *p = ctx;
    const struct op *o = &p->ops[i->op];

    if (o->coll.kind == COLL_SEGMENT_REDUCE && o->coll.algo != ALGO_PADDED)
        return ALGO_P2P;
    return o->coll.algo == ALGO_AUTO ? ALGO_RING : o->coll.algo;
}

struct traffic_bytes check_expected_bytes(const struct program *p, uint32_t rank)
{
    struct traffic_bytes *all = MEM_NEW(struct traffic_bytes, p->world), mine;

    traffic_step(p, (1u << PHASE_N) - 1, ordered_algo, (void *)(uintptr_t)p, all);
    mine = all[rank];
    mem_free(all);
    return mine;
}

/* Newton-Schulz on shards rounds otherwise: sums of products in another association (tall matrices), and X and A at
 * every gather where the wire is below fp32. Each of S iterations widens a difference by at most the polynomial's slope at
 * 0, 3.4445: a rounding of the first grows to 3.4445^S = 485 (S = 5) in the last place of an update. An element of the
 * update is about 0.2 lr = 0.004 large, the largest weight of a tensor 0.2 at the start: 485 * 0.004 / 0.2 = 10 units of
 * the weights' last place a step. Allowed: 64 a step. Measured: 16 after 3 steps (tests/exec/test_check.c). In a type of 16
 * bits the second step starts from gradients that differ in many places, and so on: 811 after 3 steps of fp16, 512 a step
 * allowed.
 * Where gradients or states are narrower than the parameters a rounding is one of theirs: a gradient that falls on the other
 * side of a boundary is off by as many of the parameters' places as there are bits between the two types.
 * AdamW divides by the gradient's own size: where the true gradient is 0 (biases of keys) it steps by noise, so what it
 * updates may also differ by the steps that it can have made, twice lr/10 each. */
enum { STOCK_ULP_A_STEP = 64, STOCK_ULP_A_NARROW_STEP = 512 };

/* Bits of a number's significand behind the first one. */
static int fraction_bits(enum dtype d)
{
    return d == DTYPE_BF16 ? 7 : d == DTYPE_FP16 ? 10 : 23;
}

static uint64_t allowed_ulp(const struct plan *plan, uint32_t steps)
{
    const struct job *j = &plan->job;
    int own = fraction_bits(j->param_dtype), least = own;

    if (plan->strategy != STRATEGY_STOCK || plan_shards(plan) == 1)
        return 0;
    least = fraction_bits(j->grad_dtype) < least ? fraction_bits(j->grad_dtype) : least;
    least = fraction_bits(j->state_dtype) < least ? fraction_bits(j->state_dtype) : least;
    return (uint64_t)(own < 23 ? STOCK_ULP_A_NARROW_STEP : STOCK_ULP_A_STEP) * steps
           << (own - least);
}

/* Numbers in order as integers, so that their distance counts the numbers of dtype d between (fp16's smallest, below
 * 2^-14, as if they went on like the others). */
static int64_t ordinal(enum dtype d, float x)
{
    int32_t i;

    memcpy(&i, &x, sizeof(i));
    return (i < 0 ? -(int64_t)(i & 0x7fffffff) : i) / (1 << (23 - fraction_bits(d)));
}

/* What one rank reports to all. */
struct verdict {
    uint64_t max_ulp, n_differ, sent, received;
    uint32_t tensor;
    uint32_t
        step; /* of the first difference, 2s-1: gathers of step s brought it, 2s: s left it; 0: none */
    bool bytes_equal;
    uint64_t element;
    float got, want;
};

struct training {
    struct exec_run r;
    double *loss;
    uint64_t sent, received; /* of the last step */
};

static int start(struct training *x, const struct plan *plan, const struct program *p,
                 struct backend *b, const struct run_options *o, uint32_t steps, struct arena *a,
                 struct err *e)
{
    x->loss = ARENA_NEW(a, double, steps);
    return exec_init(&x->r, plan, p, b, o, e);
}

static int one_step(struct training *x, uint32_t s, struct err *e)
{
    uint64_t sent = x->r.b->n_sent, received = x->r.b->n_received;

    if (exec_step(&x->r, e) || exec_loss(&x->r, &x->loss[s], e))
        return -1;
    x->sent = x->r.b->n_sent - sent;
    x->received = x->r.b->n_received - received;
    return 0;
}

/* One unit in the last place of x, as a number of dtype d. */
static double last_place(enum dtype d, double x)
{
    return x > 0 ? ldexp(1, ilogb(x) - fraction_bits(d)) : 1;
}

/* The resident parameters; owned by the caller. */
static char *to_host(const struct exec_run *r)
{
    struct run_buffer *b = run_find((struct exec_run *)(uintptr_t)r, r->p->known.params, 0, 0);
    char *host = mem_alloc(1, b->bytes);

    r->b->lib->download(r->b, STREAM_COMPUTE, host, b->data, b->bytes);
    return host;
}

/* Everything that this rank holds, now. Marks the tensors that differ. */
static void compare(const struct training *x, const struct training *ddp, bool relative,
                    struct verdict *v, bool *differ)
{
    const struct program *p = x->r.p;
    char *mine = to_host(&x->r), *theirs = to_host(&ddp->r);
    enum dtype d = p->buffers[p->known.params].dtype;
    size_t size = dtype_bytes(d, 1);

    v->n_differ = 0;
    for (uint32_t t = 0; t < p->model->n_tensors; t++) {
        const struct held_tensor *h = &x->r.held.t[t];
        uint64_t n = h->param_whole ? p->model->tensors[t].numel : h->n,
                 first = h->param_whole ? 0 : h->first;
        double largest = 0, worst = 0;

        for (uint64_t i = 0; i < n; i++) {
            float a, b;
            int64_t ulp;

            dtype_load(d, mine + (h->param_at + i) * size, &a, 1);
            dtype_load(d, theirs + (h->flat_at + first + i) * size, &b, 1);
            largest = fmax(largest, fabs((double)b));
            if (memcmp(&a, &b, sizeof(a)) == 0)
                continue;
            ulp = ordinal(d, a) - ordinal(d, b);
            ulp = ulp < 0 ? -ulp : ulp;
            worst = fmax(worst, relative ? fabs((double)a - (double)b) : (double)ulp);
            if (!v->n_differ++ && v->step == 0) {
                v->tensor = t;
                v->element = first + i;
                v->got = a;
                v->want = b;
            }
            differ[t] = true;
        }
        if (relative && !h->matrix && worst <= 2 * 0.1 * x->r.o.lr * (double)x->r.step)
            worst = 0;
        if (relative)
            worst = ceil(worst / last_place(d, largest));
        v->max_ulp = worst > (double)v->max_ulp ? (uint64_t)worst : v->max_ulp;
    }
    mem_free(mine);
    mem_free(theirs);
}

/* "layer0.q (owner 1), ...; seen by ranks 0 2" */
static void name_tensors(const struct program *p, const bool *all, const bool *ranks, char *text,
                         size_t n)
{
    size_t at = 0;

    text[0] = 0;
    for (uint32_t t = 0; t < p->model->n_tensors && at + 1 < n; t++) {
        if (!all[t])
            continue;
        at +=
            (size_t)snprintf(text + at, n - at, "%s%s", at ? ", " : "", p->model->tensors[t].name);
        if (p->place[t].rule == PLACE_OWNER && at + 1 < n)
            at += (size_t)snprintf(text + at, n - at, " (owner %u)", p->place[t].owner);
        if (at > n / 2) { /* the rest would push out the ranks */
            at += at + 1 < n ? (size_t)snprintf(text + at, n - at, ", ...") : 0;
            break;
        }
    }
    if (at && at + 1 < n)
        at += (size_t)snprintf(text + at, n - at, "; on rank");
    for (uint32_t r = 0; r < p->world && at + 1 < n; r++)
        if (ranks[r])
            at += (size_t)snprintf(text + at, n - at, " %u", r);
}

/* All ranks learn what each found. `differ`: this rank's tensors of its first step that differs. */
static int agree(struct transport *t, const struct program *p, const struct verdict *mine,
                 const bool *differ, struct check_result *c, struct err *e)
{
    uint32_t n = p->model->n_tensors, first = PROGRAM_NONE;
    struct verdict *all = MEM_NEW(struct verdict, t->size);
    bool *marks = MEM_NEW(bool, (size_t)t->size *n), *tensors = MEM_NEW(bool, n),
         *ranks = MEM_NEW(bool, t->size);
    int status = transport_all_gather_control(t, mine, sizeof(*mine), all, e) ||
                 transport_all_gather_control(t, differ, n * sizeof(*differ), marks, e);

    c->bytes_equal = true;
    for (uint32_t r = 0; r < t->size && !status; r++) {
        const struct verdict *v = &all[r];

        if (v->step && v->step < first) {
            first = v->step;
            c->evidence = first % 2 ? CHECK_GATHERED : CHECK_UPDATED;
            c->evidence_step = (first + 1) / 2;
            c->first[0] = 0;
            if (memcmp(&v->got, &v->want, sizeof(v->got)) != 0)
                snprintf(c->first, sizeof(c->first),
                         "step %u, rank %u: %s[%llu] is %.9g, ddp has %.9g", (v->step + 1) / 2, r,
                         p->model->tensors[v->tensor].name, (unsigned long long)v->element,
                         (double)v->got, (double)v->want);
        }
        c->n_differ += v->n_differ;
        c->max_ulp = v->max_ulp > c->max_ulp ? v->max_ulp : c->max_ulp;
        c->sent = v->sent > c->sent ? v->sent : c->sent;
        c->received = v->received > c->received ? v->received : c->received;
        c->bytes_equal &= v->bytes_equal;
    }
    for (uint32_t r = 0; r < t->size && !status; r++)
        for (uint32_t k = 0; k < n && all[r].step == first; k++) {
            tensors[k] |= marks[(size_t)r * n + k];
            ranks[r] |= marks[(size_t)r * n + k];
        }
    name_tensors(p, tensors, ranks, c->concerned, sizeof(c->concerned));
    mem_free(all);
    mem_free(marks);
    mem_free(tensors);
    mem_free(ranks);
    return status ? -1 : 0;
}

bool check_holds(const struct check_result *c)
{
    bool good = c->bytes_equal &&
                (c->allowed_ulp ? c->max_ulp <= c->allowed_ulp : c->evidence == CHECK_NOTHING);

    for (uint32_t i = 0; i < c->steps; i++)
        good &= fabs(c->loss[i] - c->loss_ddp[i]) <= c->allowed_loss * fabs(c->loss_ddp[i]);
    return good;
}

/* A step of both, then what differs: first what gathers brought, else what the step left. */
static int step_both(struct training *x, struct training *y, uint32_t s, uint64_t allowed,
                     struct verdict *v, bool *differ, struct err *e)
{
    uint32_t n = x->r.p->model->n_tensors;
    bool *now = MEM_NEW(bool, n), *came = MEM_NEW(bool, n), found = false;
    int status;

    x->r.witness = allowed ? NULL : &y->r;
    x->r.came_wrong = came;
    status = one_step(x, s, e);
    x->r.witness = NULL;
    if (!status)
        status = one_step(y, s, e);
    if (!status)
        compare(x, y, allowed > 0, v, now);
    for (uint32_t t = 0; t < n; t++)
        found |= came[t];
    /* what came wrong went wrong before this step's updates: name it as the step's beginning */
    if (!v->step && (found || v->n_differ)) {
        v->step = 2 * s + (found ? 1 : 2);
        memcpy(differ, found ? came : now, n * sizeof(*now));
    }
    mem_free(now);
    mem_free(came);
    return status;
}

/* Does the program sum the gradients of each micro-batch over ranks before it adds them up? */
static bool reduces_every_micro(const struct program *p)
{
    for (uint32_t i = 0; i < p->n_ops && p->n_micro > 1; i++)
        if (p->ops[i].kind == OP_COLLECTIVE && p->ops[i].phase == PHASE_BACKWARD &&
            p->ops[i].stream == STREAM_REDUCE && p->ops[i].guard.micro == WHEN_ALWAYS)
            return true;
    return false;
}

/* Does the program sum gradients inside groups, and then what came out over the groups? */
static uint32_t reduces_in_groups(const struct program *p)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == OP_COLLECTIVE && p->ops[i].phase == PHASE_BACKWARD &&
            p->ops[i].coll.kind == COLL_ALL_REDUCE && p->groups[p->ops[i].coll.group].stride[0] > 1)
            return p->shards;
    return p->world;
}

static int lower_ddp(const struct plan *plan, const struct layout_reference *as, struct arena *a,
                     struct plan **ddp, struct program *p, struct err *e)
{
    *ddp = ARENA_NEW(a, struct plan, 1);
    **ddp = *plan;
    (*ddp)->job.layout = "ddp";
    (*ddp)->job.shard_group = 0;
    return layout_place(*ddp, a, e) || layout_lower_reference(*ddp, as, a, p, e) ? -1 : 0;
}

int check_run(const struct plan *plan, struct backend *backend, const struct run_options *o,
              uint32_t steps, struct arena *a, struct check_result *c, struct err *e)
{
    struct run_options honest = *o, asked = *o;
    struct training x = {0}, y = {0};
    struct program p, q;
    struct plan *ddp;
    struct verdict v = {0};
    struct traffic_bytes b;
    bool *differ = ARENA_NEW(a, bool, plan->model.n_tensors);
    int status = -1;

    memset(c, 0, sizeof(*c));
    c->steps = steps;
    c->allowed_ulp = allowed_ulp(plan, steps);
    c->allowed_loss = c->allowed_ulp == 0                   ? 0
                      : plan->job.param_dtype == DTYPE_FP32 ? 0x1p-13
                                                            : 0x1p-7;
    asked.ordered = honest.ordered = true;
    honest.skip_owner = honest.shift_segment = honest.stale_unit = PROGRAM_NONE;
    if (layout_lower(plan, a, &p, e))
        goto out;
    c->every_micro = reduces_every_micro(&p);
    c->group = reduces_in_groups(&p);
    if (lower_ddp(plan, &(struct layout_reference){c->every_micro, c->group}, a, &ddp, &q, e) ||
        start(&x, plan, &p, backend, &asked, steps, a, e) ||
        start(&y, ddp, &q, backend, &honest, steps, a, e))
        goto out;
    for (uint32_t s = 0; s < steps; s++)
        if (step_both(&x, &y, s, c->allowed_ulp, &v, differ, e))
            goto out;
    b = check_expected_bytes(&p, backend->t->rank);
    v.sent = x.sent;
    v.received = x.received;
    v.bytes_equal =
        x.sent == b.sent_intra + b.sent_inter && x.received == b.recv_intra + b.recv_inter;
    if (agree(backend->t, &p, &v, differ, c, e))
        goto out;
    c->loss = x.loss;
    c->loss_ddp = y.loss;
    status = 0;
out:
    exec_release(&x.r);
    exec_release(&y.r);
    return status;
}
