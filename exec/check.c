#include "exec/check.h"

#include "layouts/layout.h"
#include "model/plan/segment_algo.h"
#include "model/program/traffic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ordered segment reductions go straight to their root, whatever the algorithm; padded ones are even. */
static enum coll_algo ordered_algo(void *ctx, const struct instance *i)
{
    const struct program *p = ctx;
    const struct op *o = &p->ops[i->op];

    enum coll_algo algo = o->coll.algo == ALGO_AUTO ? ALGO_RING : o->coll.algo;

    return o->coll.kind == COLL_SEGMENT_REDUCE && !segment_algo(algo)->even ? ALGO_P2P : algo;
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
 * What AdamW updates by noise may differ by more: compare.c. */
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

    if (plan->strategy != STRATEGY_STOCK || placement_parts(plan, STATE) == 1)
        return 0;
    least = fraction_bits(j->grad_dtype) < least ? fraction_bits(j->grad_dtype) : least;
    least = fraction_bits(j->state_dtype) < least ? fraction_bits(j->state_dtype) : least;
    return (uint64_t)(own < 23 ? STOCK_ULP_A_NARROW_STEP : STOCK_ULP_A_STEP) * steps
           << (own - least);
}

/* The same of states and gradients, as a share of their tensor's largest number: they follow parameters that are off by the
 * above, and in a narrow type every activation on the way rounds. Measured after 3 steps (tests/exec/test_check.c): 8e-5 in fp32,
 * 0.07 in bf16; allowed 2^-12 and 2^-4 a step. A wrong factor is off by 1 or more, and never allowed. */
static double allowed_share(const struct plan *plan, uint32_t steps)
{
    const struct job *j = &plan->job;
    bool narrow =
        j->param_dtype != DTYPE_FP32 || j->grad_dtype != DTYPE_FP32 || j->state_dtype != DTYPE_FP32;

    return fmin(steps * (narrow ? 0x1p-4 : 0x1p-12), 0.5);
}

/* What one rank reports to all. */
struct verdict {
    uint64_t max_ulp, n_differ[COMPARE_N], sent, received;
    double worst;
    /* of the first difference, 3 (s-1) + the evidence of step s (from 1); 0: none */
    uint32_t when;
    struct compare_first first;
    uint32_t endless_step; /* from 1: the first that left what is not finite; 0: none */
    struct compare_first endless;
    bool bytes_equal;
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

        if (v->when && v->when < first) {
            first = v->when;
            c->evidence = (enum check_evidence)((first - 1) % 3 + 1);
            c->evidence_step = (first + 2) / 3;
            c->first[0] = 0;
            if (v->first.tensor != MODEL_NONE)
                snprintf(c->first, sizeof(c->first),
                         "step %u, rank %u: %s%s[%llu] is %.9g, ddp has %.9g", c->evidence_step, r,
                         compare_name(v->first.what), p->model->tensors[v->first.tensor].name,
                         (unsigned long long)v->first.element, (double)v->first.got,
                         (double)v->first.want);
        }
        if (v->endless_step && (!c->endless_step || v->endless_step < c->endless_step)) {
            c->endless_step = v->endless_step;
            snprintf(c->endless, sizeof(c->endless), "%s%s[%llu] on rank %u",
                     compare_name(v->endless.what), p->model->tensors[v->endless.tensor].name,
                     (unsigned long long)v->endless.element, r);
        }
        for (int k = 0; k < COMPARE_N; k++)
            c->n_differ[k] += v->n_differ[k];
        c->worst = fmax(c->worst, v->worst);
        c->max_ulp = v->max_ulp > c->max_ulp ? v->max_ulp : c->max_ulp;
        c->sent = v->sent > c->sent ? v->sent : c->sent;
        c->received = v->received > c->received ? v->received : c->received;
        c->bytes_equal &= v->bytes_equal;
    }
    for (uint32_t r = 0; r < t->size && !status; r++)
        for (uint32_t k = 0; k < n && all[r].when == first; k++) {
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
    bool good = c->bytes_equal && !c->endless_step && c->evidence == CHECK_NOTHING;

    for (uint32_t i = 0; i < c->steps; i++)
        good &= fabs(c->loss[i] - c->loss_ddp[i]) <= c->allowed_loss * fabs(c->loss_ddp[i]);
    return good;
}

bool check_bits(const struct check_result *c)
{
    bool bits = check_holds(c) && !c->max_ulp && !(c->worst > 0) && !c->n_differ[COMPARE_PARAMETER];

    for (uint32_t i = 0; i < c->steps; i++)
        bits &= c->loss[i] == c->loss_ddp[i];
    return bits;
}

static bool any(const bool *marks, uint32_t n)
{
    bool found = false;

    for (uint32_t t = 0; t < n; t++)
        found |= marks[t];
    return found;
}

/* A step of both, then what differs: first what gathers brought, then what reductions left, else what updates did. What came
 * wrong went wrong before this step's updates: it is named as the step's beginning. */
static int step_both(struct training *x, struct training *y, uint32_t s, struct comparison *c,
                     struct verdict *v, bool *differ, struct err *e)
{
    uint32_t n = x->r.p->model->n_tensors;
    bool *came = MEM_NEW(bool, n);
    const bool *found[3] = {came, c->gradients, c->left}; /* enum check_evidence - 1 */
    int status;

    memset(c->gradients, 0, n * sizeof(*c->gradients));
    memset(c->left, 0, n * sizeof(*c->left));
    x->r.witness = c->relative ? NULL : &y->r;
    x->r.came_wrong = came;
    status = one_step(x, s, e);
    x->r.witness = NULL;
    if (!status)
        status = one_step(y, s, e);
    if (!status)
        compare_runs(&x->r, &y->r, c);
    for (uint32_t k = 0; k < 3 && !status && !v->when; k++)
        if (any(found[k], n)) {
            v->when = 3 * s + k + 1;
            v->first = c->first;
            memcpy(differ, found[k], n * sizeof(*differ));
        }
    if (!status && !v->endless_step && c->endless.tensor != MODEL_NONE) {
        v->endless_step = s + 1;
        v->endless = c->endless;
    }
    mem_free(came);
    return status;
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
    struct layout_reference as;
    struct training x = {0}, y = {0};
    struct program p, q;
    struct plan *ddp;
    struct verdict v = {0};
    struct comparison now;
    struct traffic_bytes b;
    bool *differ = ARENA_NEW(a, bool, plan->model.n_tensors);
    int status = -1;

    memset(c, 0, sizeof(*c));
    c->steps = steps;
    c->allowed_ulp = allowed_ulp(plan, steps);
    c->allowed_loss = c->allowed_ulp == 0                   ? 0
                      : plan->job.param_dtype == DTYPE_FP32 ? 0x1p-13
                                                            : 0x1p-7;
    c->allowed = allowed_share(plan, steps);
    now = (struct comparison){.relative = c->allowed_ulp > 0,
                              .allowed_ulp = c->allowed_ulp,
                              .allowed = c->allowed,
                              .gradients = ARENA_NEW(a, bool, plan->model.n_tensors),
                              .left = ARENA_NEW(a, bool, plan->model.n_tensors)};
    asked.ordered = honest.ordered = true;
    asked.keep_reduced = honest.keep_reduced = true;
    honest.fault = RUN_RIGHT;
    if (layout_lower(plan, a, &p, e))
        goto out;
    layout_reference(plan, &as);
    c->every_micro = as.every_micro;
    c->group = as.n_levels > 1 ? mesh_size(as.mesh, as.level[0]) : plan->world;
    if (lower_ddp(plan, &as, a, &ddp, &q, e) || start(&x, plan, &p, backend, &asked, steps, a, e) ||
        start(&y, ddp, &q, backend, &honest, steps, a, e))
        goto out;
    for (uint32_t s = 0; s < steps; s++)
        if (step_both(&x, &y, s, &now, &v, differ, e))
            goto out;
    v.max_ulp = now.max_ulp;
    v.worst = now.worst;
    memcpy(v.n_differ, now.n_differ, sizeof(v.n_differ));
    b = check_expected_bytes(&p, backend->t->rank);
    v.sent = x.sent;
    v.received = x.received;
    v.bytes_equal =
        x.sent == b.sent_intra + b.sent_inter && x.received == b.recv_intra + b.recv_inter;
    if (agree(backend->t, &p, &v, differ, c, e))
        goto out;
    c->loss = x.loss;
    c->loss_ddp = y.loss;
    for (uint32_t s = 0; s < steps && (!c->endless_step || s < c->endless_step); s++)
        if (!isfinite(x.loss[s]) || !isfinite(y.loss[s])) {
            c->endless_step = s + 1;
            snprintf(c->endless, sizeof(c->endless), "the loss%s",
                     isfinite(x.loss[s]) ? " under ddp" : "");
            break;
        }
    status = 0;
out:
    exec_release(&x.r);
    exec_release(&y.r);
    return status;
}
