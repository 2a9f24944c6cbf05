/* What an operation takes beside the device's time for it: launches that are slower than the device, gradients that stay, and
 * what the host does for a collective. */
#include "sim/run.h"

#include "core/num.h"

#include <math.h>

/* How sharply the slower of host and device wins: NVIDIA's queue hides the one behind the other but for jitter. */
static const double SHARPNESS = 6;

/* Operations of one class of units in one phase, those that recompute apart, and their time on the device. */
struct pass_times {
    double n, n_recomputed, device_s;
};

static struct pass_times pass_times(const struct run *r, uint32_t class_id, enum phase phase)
{
    struct pass_times t = {0, 0, 0};

    for (uint32_t i = 0; i < r->p->n_ops; i++) {
        const struct op *o = &r->p->ops[i];

        if (o->kind != OP_COMPUTE || o->phase != phase || o->guard.unit_class != class_id ||
            o->by_item)
            continue;
        t.device_s +=
            (double)sim_kernel_time(&r->c->device, r->framework, &o->call).alone_ps / 1e12;
        if (o->purpose == PURPOSE_RECOMPUTE)
            t.n_recomputed++;
        else
            t.n++;
    }
    return t;
}

/* Layers whose operations the host launches more slowly than the device works them: all of a pass take longer alike. */
static double stretch(double host_s, double device_s)
{
    return device_s > 0 ? pow(1 + pow(host_s / device_s, SHARPNESS), 1 / SHARPNESS) : 1;
}

void run_find_stretch(struct run *r)
{
    uint32_t n = r->p->model->n_classes;
    double host_s = r->framework ? r->framework->host_s : 0;

    if (host_s <= 0)
        return;
    r->stretch = ARENA_NEW(&r->arena, double, (size_t)PHASE_N *n);
    for (uint32_t i = 0; i < PHASE_N * n; i++)
        r->stretch[i] = 1;
    for (uint32_t c = 0; c < n; c++) {
        struct pass_times forward = pass_times(r, c, PHASE_FORWARD);
        struct pass_times backward = pass_times(r, c, PHASE_BACKWARD);

        if (r->p->model->classes[c].kind != UNIT_LAYER)
            continue;
        r->stretch[PHASE_FORWARD * n + c] = stretch(forward.n * host_s, forward.device_s);
        r->stretch[PHASE_BACKWARD * n + c] =
            stretch((2 * forward.n + backward.n_recomputed) * host_s, backward.device_s);
    }
}

/* Gradients that stay on the rank: elements that an operation of backward adds to. */
static double kept_grad_elements(const struct program *p, const struct op *o)
{
    const struct model *m = p->model;
    uint32_t class_id = o->guard.unit_class, u = 0;
    double sum = 0;

    if (o->phase != PHASE_BACKWARD || class_id == PROGRAM_NONE || p->known.grads == PROGRAM_NONE ||
        p->buffers[p->known.grads].holds != HOLDS_MODEL)
        return 0;
    while (m->units[u].class_id != class_id)
        u++;
    for (uint32_t i = 0; i < o->n_operands; i++) {
        const struct operand *x = &o->operands[i];
        const struct tensor *t = &m->tensors[m->units[x->d_unit ? 0 : u].first];

        if (x->buffer != p->known.grads || x->access != ACCESS_ADD || x->tensor == OPERAND_WHOLE)
            continue;
        for (uint32_t k = 0; k < num_max(x->count, 1); k++)
            sum += (double)t[x->tensor + k * x->stride].numel;
    }
    return sum;
}

/* The first micro-batch makes gradients, the others add to them; an operation stands for all of them, so each takes its
 * share. */
static int64_t accumulate_ps(const struct run *r, const struct op *o)
{
    const struct device *d = &r->c->device;
    double further = (double)(r->p->n_micro - 1) / r->p->n_micro;

    if (!r->framework || further <= 0)
        return 0;
    return sim_ps(r->framework->accumulate * further *
                  (double)dtype_bytes(r->p->buffers[r->p->known.grads].dtype, 1) *
                  kept_grad_elements(r->p, o) / (d->hbm_Bps * d->hbm_efficiency));
}

struct kernel_time run_kernel_time(const struct run *r, const struct op *o,
                                   const struct kernel_call *call)
{
    struct kernel_time t = sim_kernel_time(&r->c->device, r->framework, call);

    if (r->p->known.grads != PROGRAM_NONE)
        t.alone_ps += accumulate_ps(r, o);

    if (r->stretch && o->guard.unit_class != PROGRAM_NONE)
        t.alone_ps = llround((double)t.alone_ps *
                             r->stretch[o->phase * r->p->model->n_classes + o->guard.unit_class]);
    return t;
}

/* What the host adds to a collective: it waits for each broadcast, and hands over piece after piece. */
int64_t run_host_ps(const struct run *r, const struct op *o, const struct instance *i)
{
    /* AMSP's ZeRO-1 on 1,024 A800 (arXiv 2311.00257): the step that MFU .36 leaves beside compute and bytes */
    static const double usual_s = 0.44e-3;
    double each_s = 0;

    if (!r->framework)
        return 0;
    switch (o->coll.calls) {
    case CALLS_USUAL:
        return 0;
    case CALLS_BROADCASTS:
        each_s = r->c->device.blocking_s > 0 ? r->c->device.blocking_s : usual_s;
        if (o->coll.kind == COLL_ALL_GATHER && op_in_loop(r->p, o, LOOP_UNIT))
            each_s /= r->p->model->n_units; /* the broadcasts of all units together */
        break;
    case CALLS_PIECES:
        each_s = r->framework->piece_s;
        break;
    }
    return sim_ps(each_s * op_calls(r->p, o, i));
}
