#include "exec/compare.h"

#include "core/num.h"
#include "model/plan/optimizers.h"

#include <math.h>
#include <string.h>

const char *compare_name(enum compare_what w)
{
    static const char *const names[COMPARE_N] = {
        [COMPARE_GRADIENT] = "the reduced gradient of ",
        [COMPARE_PARAMETER] = "",
        [COMPARE_MASTER] = "the fp32 copy of ",
        [COMPARE_STATE] = "the state of ",
    };

    return names[w];
}

/* Bits of a number's significand behind the first one. */
static int fraction_bits(enum dtype d)
{
    return d == DTYPE_BF16 ? 7 : d == DTYPE_FP16 ? 10 : 23;
}

/* Numbers in order as integers, so that their distance counts the numbers of dtype d between (fp16's smallest, below
 * 2^-14, as if they went on like the others). */
static int64_t ordinal(enum dtype d, float x)
{
    int32_t i;

    memcpy(&i, &x, sizeof(i));
    return (i < 0 ? -(int64_t)(i & 0x7fffffff) : i) / (1 << (23 - fraction_bits(d)));
}

/* One unit in the last place of x, as a number of dtype d. */
static double last_place(enum dtype d, double x)
{
    return x > 0 ? ldexp(1, ilogb(x) - fraction_bits(d)) : 1;
}

/* A buffer of both runs, on the host. */
struct both {
    enum compare_what what;
    enum dtype dtype;
    char *mine, *theirs; /* owned */
    double largest;      /* of theirs */
};

static char *to_host(const struct exec_run *r, const void *data, size_t n)
{
    char *host = mem_alloc(1, n);

    r->b->lib->download(r->b, STREAM_COMPUTE, host, data, n);
    return host;
}

static char *resident(const struct exec_run *r, uint32_t buffer)
{
    const struct run_buffer *b = run_find((struct exec_run *)(uintptr_t)r, buffer, 0, 0);

    return to_host(r, b->data, b->bytes);
}

/* How far apart the numbers of one tensor are. */
struct distance {
    double worst, largest; /* distance; of theirs */
    uint64_t n;            /* that differ */
    struct compare_first first, endless;
    bool endless_set;
};

/* n numbers at element `at` of mine and `at_ddp` of theirs, from `element` of the tensor's on. */
static void look(const struct both *b, bool relative, uint64_t at, uint64_t at_ddp, uint64_t n,
                 uint32_t tensor, uint64_t element, struct distance *s)
{
    size_t size = dtype_bytes(b->dtype, 1);

    for (uint64_t i = 0; i < n; i++) {
        float x, y;

        dtype_load(b->dtype, b->mine + (at + i) * size, &x, 1);
        dtype_load(b->dtype, b->theirs + (at_ddp + i) * size, &y, 1);
        s->largest = fmax(s->largest, fabs((double)y));
        if (!s->endless_set && !(isfinite(x) && isfinite(y))) {
            s->endless = (struct compare_first){b->what, tensor, element + i, x, y};
            s->endless_set = true;
        }
        /* a sum that starts from 0 and one that starts from its first number differ in the sign of a zero, and in nothing else */
        if (memcmp(&x, &y, sizeof(x)) == 0 ||
            (fpclassify(x) == FP_ZERO && fpclassify(y) == FP_ZERO))
            continue;
        if (!s->n++)
            s->first = (struct compare_first){b->what, tensor, element + i, x, y};
        if (isnan(x) || isnan(y))
            s->worst = INFINITY;
        else if (relative)
            s->worst = fmax(s->worst, fabs((double)x - (double)y));
        else
            s->worst = fmax(s->worst, fabs((double)(ordinal(b->dtype, x) - ordinal(b->dtype, y))));
    }
}

/* What buffer `mine` of x has of a tensor, beside the same of `theirs` of ddp, which has all of it. */
static void look_at(const struct both *b, const struct exec_run *x, uint32_t mine,
                    const struct exec_run *ddp, uint32_t theirs, bool relative, uint32_t tensor,
                    struct distance *s)
{
    struct run_place p = run_place(x, mine, tensor), q = run_place(ddp, theirs, tensor);

    look(b, relative, p.at, q.at + p.first, p.n, tensor, p.first, s);
}

static void count(const struct both *b, struct comparison *c, uint32_t tensor, struct distance *s)
{
    if (s->endless_set && c->endless.tensor == MODEL_NONE)
        c->endless = s->endless;
    if (!s->n)
        return;
    c->n_differ[b->what] += s->n;
    (b->what == COMPARE_GRADIENT ? c->gradients : c->left)[tensor] = true;
    if (c->first.tensor == MODEL_NONE)
        c->first = s->first;
}

static uint64_t as_count(double x)
{
    return x < 0x1p63 ? (uint64_t)x : UINT64_MAX;
}

/* AdamW divides by the gradient's own size: where the true gradient is 0 (biases of keys) it steps by noise, and what it updates
 * may also differ by the steps that it can have made, twice lr/10 each. */
static void count_parameter(const struct exec_run *x, const struct both *b, struct comparison *c,
                            uint32_t tensor, struct distance *s)
{
    double steps = 2 * (double)x->o.hyper->adam_share * x->o.lr * (double)x->step;

    if (c->relative && !x->held.t[tensor].matrix && s->worst <= steps)
        s->worst = 0;
    if (c->relative)
        s->worst = ceil(s->worst / last_place(b->dtype, s->largest));
    c->max_ulp = num_max(c->max_ulp, as_count(s->worst));
    if (c->relative && as_count(s->worst) <= c->allowed_ulp) {
        c->n_differ[COMPARE_PARAMETER] += s->n;
        s->n = 0;
    }
    count(b, c, tensor, s);
}

/* A bias's gradient may be nothing but rounding: it is compared with the largest of all tensors. */
static void count_other(const struct exec_run *x, const struct both *b, struct comparison *c,
                        uint32_t tensor, struct distance *s)
{
    double of = x->p->model->tensors[tensor].is_bias ? b->largest : s->largest;

    double off = s->worst > 0 ? s->worst / of : 0;

    if (c->relative)
        c->worst = fmax(c->worst, off);
    if (c->relative && off <= c->allowed)
        s->n = 0;
    count(b, c, tensor, s);
}

static void both_release(struct both *b)
{
    mem_free(b->mine);
    mem_free(b->theirs);
}

static void find_largest(struct both *b, uint64_t n)
{
    size_t size = dtype_bytes(b->dtype, 1);

    for (uint64_t i = 0; i < n; i++) {
        float y;

        dtype_load(b->dtype, b->theirs + i * size, &y, 1);
        b->largest = fmax(b->largest, fabs((double)y));
    }
}

static void gradients(const struct exec_run *x, const struct exec_run *ddp, struct comparison *c)
{
    enum dtype d = x->plan->job.grad_dtype;
    const struct model *m = x->p->model;
    size_t bytes = dtype_bytes(d, m->total_params);
    struct both b = {COMPARE_GRADIENT, d, to_host(x, x->reduced, bytes),
                     to_host(ddp, ddp->reduced, bytes), 0};

    find_largest(&b, m->total_params);
    for (uint32_t t = 0; t < m->n_tensors; t++) {
        const struct held_tensor *h = &x->held.t[t];
        struct distance s = {0};

        look(&b, c->relative, h->flat_at + h->first, h->flat_at + h->first, h->n, t, h->first, &s);
        if (h->n && x->reduced_in[t] != x->step) {
            s.n = h->n;
            s.worst = INFINITY;
            s.first = (struct compare_first){COMPARE_GRADIENT, t, h->first, NAN, NAN};
        }
        count_other(x, &b, c, t, &s);
    }
    both_release(&b);
}

static void parameters(const struct exec_run *x, const struct exec_run *ddp, struct comparison *c)
{
    uint32_t buffer = x->p->known.params;
    struct both b = {COMPARE_PARAMETER, x->p->buffers[buffer].dtype, resident(x, buffer),
                     resident(ddp, ddp->p->known.params), 0};

    for (uint32_t t = 0; t < x->p->model->n_tensors; t++) {
        struct distance s = {0};

        look_at(&b, x, x->p->known.params, ddp, ddp->p->known.params, c->relative, t, &s);
        count_parameter(x, &b, c, t, &s);
    }
    both_release(&b);
}

static void masters(const struct exec_run *x, const struct exec_run *ddp, struct comparison *c)
{
    struct both b = {.what = COMPARE_MASTER, .dtype = DTYPE_FP32};

    if (x->p->known.master == PROGRAM_NONE)
        return;
    b.mine = resident(x, x->p->known.master);
    b.theirs = resident(ddp, ddp->p->known.master);
    find_largest(&b, ddp->held.parts[STATE]);
    for (uint32_t t = 0; t < x->p->model->n_tensors; t++) {
        struct distance s = {0};

        look_at(&b, x, x->p->known.master, ddp, ddp->p->known.master, c->relative, t, &s);
        count_other(x, &b, c, t, &s);
    }
    both_release(&b);
}

/* Muon's momentum and AdamW's two moments are cut as the tensor is; what Shampoo and SOAP keep of a matrix is whole. */
static void states(const struct exec_run *x, const struct exec_run *ddp, struct comparison *c)
{
    struct both b = {COMPARE_STATE, x->plan->job.state_dtype, resident(x, x->p->known.states),
                     resident(ddp, ddp->p->known.states), 0};
    const struct optimizer_row *row = optimizer_row(x->plan->job.optimizer),
                               *rest = optimizer_row(optimizer_of_rest(x->plan->job.optimizer));

    find_largest(&b, ddp->held.states);
    for (uint32_t t = 0; t < x->p->model->n_tensors; t++) {
        const struct held_tensor *h = &x->held.t[t], *all = &ddp->held.t[t];

        for (uint64_t run = 0; run < (h->matrix ? 1 : rest->each.states); run++) {
            struct distance s = {0};

            if (h->matrix && row->states == STATES_WHOLE)
                look(&b, c->relative, h->state_at, all->state_at, h->n_state, t, 0, &s);
            else
                look(&b, c->relative, h->state_at + run * h->room,
                     all->state_at + run * all->room + h->first, h->n, t, run * h->n, &s);
            count_other(x, &b, c, t, &s);
        }
    }
    both_release(&b);
}

void run_witness(struct exec_run *r, const struct instance *i)
{
    const struct exec_run *y = r->witness;
    const struct unit *u = &r->p->model->units[i->unit];

    if (!y || r->p->buffers[r->p->known.weights].holds != HOLDS_UNIT)
        return;
    for (uint32_t t = u->first; t < u->first + u->n; t++) {
        struct run_view got = run_tensor(r, run_find(r, r->p->known.weights, i->unit, i->micro), t),
                        want = run_tensor(
                            y, run_find((struct exec_run *)(uintptr_t)y, y->p->known.params, 0, 0),
                            t);
        size_t n = dtype_bytes(got.dtype, got.elements);
        char *x = mem_alloc(1, n), *z = mem_alloc(1, n);

        r->b->lib->download(r->b, r->stream, x, got.data, n);
        r->b->lib->download(r->b, r->stream, z, want.data, n);
        r->came_wrong[t] |= memcmp(x, z, n) != 0;
        mem_free(x);
        mem_free(z);
    }
}

void compare_runs(const struct exec_run *x, const struct exec_run *ddp, struct comparison *c)
{
    memset(c->n_differ, 0, sizeof(c->n_differ));
    c->first.tensor = c->endless.tensor = MODEL_NONE;
    gradients(x, ddp, c);
    parameters(x, ddp, c);
    masters(x, ddp, c);
    states(x, ddp, c);
}
