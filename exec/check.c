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

/* fp32 numbers in order as integers, so that their distance counts the numbers between. */
static int64_t ordinal(float x)
{
    int32_t i;

    memcpy(&i, &x, sizeof(i));
    return i < 0 ? -(int64_t)(i & 0x7fffffff) : i;
}

/* What one rank reports to all. */
struct verdict {
    uint64_t max_ulp, n_differ, sent, received;
    uint32_t tensor;
    bool bytes_equal;
    uint64_t element;
    float got, want;
};

struct training {
    struct exec_run r;
    double *loss;
    uint64_t sent, received; /* of the last step */
};

static int train(struct training *x, const struct plan *plan, const struct program *p,
                 struct transport *t, const struct kernel_gemm *gemm, const struct run_options *o,
                 uint32_t steps, struct arena *a, struct err *e)
{
    x->loss = ARENA_NEW(a, double, steps);
    if (exec_init(&x->r, plan, p, t, gemm, o, e))
        return -1;
    for (uint32_t s = 0; s < steps; s++) {
        uint64_t sent = t->n_sent, received = t->n_received;

        if (exec_step(&x->r, e) || exec_loss(&x->r, &x->loss[s], e))
            return -1;
        x->sent = t->n_sent - sent;
        x->received = t->n_received - received;
    }
    return 0;
}

static void compare(const struct training *x, const struct training *ddp, struct verdict *v)
{
    const struct program *p = x->r.p;
    struct run_buffer *mine = run_find((struct exec_run *)(uintptr_t)&x->r, p->known.params, 0, 0);
    struct run_buffer *theirs =
        run_find((struct exec_run *)(uintptr_t)&ddp->r, ddp->r.p->known.params, 0, 0);
    enum dtype d = p->buffers[p->known.params].dtype;
    size_t size = dtype_bytes(d, 1);

    for (uint32_t t = 0; t < p->model->n_tensors; t++) {
        const struct held_tensor *h = &x->r.held.t[t];
        uint64_t n = h->param_whole ? p->model->tensors[t].numel : h->n,
                 first = h->param_whole ? 0 : h->first;

        for (uint64_t i = 0; i < n; i++) {
            float a, b;
            int64_t ulp;

            dtype_load(d, (char *)mine->data + (h->param_at + i) * size, &a, 1);
            dtype_load(d, (char *)theirs->data + (h->flat_at + first + i) * size, &b, 1);
            ulp = ordinal(a) - ordinal(b);
            ulp = ulp < 0 ? -ulp : ulp;
            if (!ulp)
                continue;
            if (!v->n_differ++) {
                v->tensor = t;
                v->element = first + i;
                v->got = a;
                v->want = b;
            }
            if ((uint64_t)ulp > v->max_ulp)
                v->max_ulp = (uint64_t)ulp;
        }
    }
}

/* All ranks learn what each found. */
static int agree(struct transport *t, const struct program *p, const struct verdict *mine,
                 struct check_result *c, struct err *e)
{
    struct verdict *all = MEM_NEW(struct verdict, t->size);
    int status = transport_all_gather_control(t, mine, sizeof(*mine), all, e);

    c->bytes_equal = true;
    for (uint32_t r = 0; r < t->size && !status; r++) {
        const struct verdict *v = &all[r];

        if (v->n_differ && !c->n_differ)
            snprintf(c->first, sizeof(c->first), "rank %u: %s[%llu] is %.9g, ddp has %.9g", r,
                     p->model->tensors[v->tensor].name, (unsigned long long)v->element,
                     (double)v->got, (double)v->want);
        c->n_differ += v->n_differ;
        c->max_ulp = v->max_ulp > c->max_ulp ? v->max_ulp : c->max_ulp;
        c->sent = v->sent > c->sent ? v->sent : c->sent;
        c->received = v->received > c->received ? v->received : c->received;
        c->bytes_equal &= v->bytes_equal;
    }
    mem_free(all);
    return status;
}

static int lower_ddp(const struct plan *plan, struct arena *a, struct plan **ddp, struct program *p,
                     struct err *e)
{
    *ddp = ARENA_NEW(a, struct plan, 1);
    **ddp = *plan;
    (*ddp)->job.layout = "ddp";
    return layout_place(*ddp, a, e) || layout_lower(*ddp, a, p, e) ? -1 : 0;
}

int check_run(const struct plan *plan, struct transport *t, const struct kernel_gemm *gemm,
              const struct run_options *o, uint32_t steps, struct arena *a, struct check_result *c,
              struct err *e)
{
    struct run_options honest = *o, asked = *o;
    struct training x = {0}, y = {0};
    struct program p, q;
    struct plan *ddp;
    struct verdict v = {0};
    struct traffic_bytes b;
    int status = -1;

    memset(c, 0, sizeof(*c));
    c->steps = steps;
    asked.ordered = honest.ordered = true;
    honest.skip_owner = PROGRAM_NONE;
    if (layout_lower(plan, a, &p, e) || lower_ddp(plan, a, &ddp, &q, e) ||
        train(&x, plan, &p, t, gemm, &asked, steps, a, e) ||
        train(&y, ddp, &q, t, gemm, &honest, steps, a, e))
        goto out;
    compare(&x, &y, &v);
    b = check_expected_bytes(&p, t->rank);
    v.sent = x.sent;
    v.received = x.received;
    v.bytes_equal =
        x.sent == b.sent_intra + b.sent_inter && x.received == b.recv_intra + b.recv_inter;
    if (agree(t, &p, &v, c, e))
        goto out;
    c->loss = x.loss;
    c->loss_ddp = y.loss;
    status = 0;
out:
    exec_release(&x.r);
    exec_release(&y.r);
    return status;
}
