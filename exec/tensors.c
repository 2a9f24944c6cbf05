/* Where tensors stand in live buffers, as the program says (enum holds): operands of kernels, the parts that updates touch,
 * matrices on the way to their products. */
#include "exec/run.h"

#include "model/plan/optimizers.h"

/* ---- places ---- */

/* Do t's gradients travel as segments (to an owner, to flat slices), not as even parts? */
static bool is_segment(const struct exec_run *r, uint32_t tensor)
{
    return r->p->place[tensor].rule == PLACE_OWNER || r->p->place[tensor].rule == PLACE_FLAT;
}

/* Behind those of the unit's tensors that are in the same buffer. Where gradients are not cut at all none is a segment. */
static struct run_place among_unit(const struct exec_run *r, enum component cut, uint32_t tensor,
                                   bool segments)
{
    bool apart = placement_parts(r->plan, cut) > 1;
    struct extent h = placement_extent(r->plan, tensor, cut, r->t->rank);
    struct run_place x = {.first = h.first, .n = h.n};

    if (apart && is_segment(r, tensor) != segments)
        return (struct run_place){0};
    for (uint32_t i = r->p->model->units[r->p->model->tensors[tensor].unit].first; i < tensor; i++)
        if (!apart || is_segment(r, i) == segments)
            x.at += placement_extent(r->plan, i, cut, r->t->rank).room;
    return x;
}

/* Behind the matrices of the rank's list before it, whole or the rank's parts. */
static struct run_place among_items(const struct exec_run *r, uint32_t work, uint32_t tensor,
                                    bool parts)
{
    const struct work_table *w = &r->p->work_tables[work];
    uint32_t first = w->start ? w->start[r->t->rank] : 0,
             n = w->start ? w->start[r->t->rank + 1] - first : w->n_items;
    uint64_t at = 0;

    for (uint32_t k = 0; k < n; k++) {
        uint32_t t = w->items[w->start ? w->list[first + k] : k].tensor;
        const struct held_tensor *h = &r->held.t[t];
        uint64_t all = r->p->model->tensors[t].numel;

        if (t == tensor)
            return parts ? (struct run_place){at, h->first, h->n} : (struct run_place){at, 0, all};
        at += parts ? h->room : all;
    }
    return (struct run_place){0};
}

struct run_place run_place(const struct exec_run *r, uint32_t buffer, uint32_t tensor)
{
    const struct buffer *b = &r->p->buffers[buffer];
    const struct held_tensor *h = &r->held.t[tensor];
    uint64_t all = r->p->model->tensors[tensor].numel;
    struct extent x;

    switch (b->holds) {
    case HOLDS_NOTHING:
        break;
    case HOLDS_UNIT:
        return (struct run_place){h->unit_at, 0, all};
    case HOLDS_UNIT_PARTS:
        return among_unit(r, b->cut, tensor, false);
    case HOLDS_UNIT_SEGMENTS:
        return among_unit(r, b->cut, tensor, true);
    case HOLDS_MODEL:
        return (struct run_place){h->flat_at, 0, all};
    case HOLDS_MODEL_PARTS:
        x = placement_extent(r->plan, tensor, b->cut, r->t->rank);
        return (struct run_place){h->part_at[b->cut], x.first, x.n};
    case HOLDS_MODEL_STATES:
        return (struct run_place){h->state_at, 0, h->n_state};
    case HOLDS_MATRIX:
        return (struct run_place){0, 0, all};
    case HOLDS_MATRICES:
        return among_items(r, b->work, tensor, false);
    case HOLDS_MATRIX_PARTS:
        return among_items(r, b->work, tensor, true);
    }
    return (struct run_place){0};
}

struct run_view run_tensor(const struct exec_run *r, const struct run_buffer *b, uint32_t tensor)
{
    struct run_place x = run_place(r, b->buffer, tensor);
    enum dtype d = r->p->buffers[b->buffer].dtype;

    return (struct run_view){(char *)b->data + x.at * dtype_bytes(d, 1), d, x.n, x.first};
}

struct run_view run_part(const struct exec_run *r, const struct run_buffer *b, uint32_t tensor)
{
    const struct held_tensor *h = &r->held.t[tensor];
    struct run_view v = run_tensor(r, b, tensor);

    v.data += (h->first - v.first) * dtype_bytes(v.dtype, 1);
    v.first = h->first;
    v.elements = h->n;
    return v;
}

/* ---- operands ---- */

struct run_view run_expert(struct exec_run *r, const struct operand *x, const struct instance *i,
                           uint32_t e)
{
    const struct buffer *b = &r->p->buffers[x->buffer];
    int64_t unit = (int64_t)i->unit + x->d_unit;
    struct run_buffer *at = run_live(r, x->buffer, i, x->d_unit);
    struct run_view v = {.dtype = b->dtype};

    if (!at) { /* beyond the last layer of a model without a head */
        v.data = x->buffer == r->p->known.inputs ? r->output : r->output_grad;
        v.elements = r->graphs[r->p->model->units[i->unit].class_id].values[0].bytes /
                     dtype_bytes(b->dtype, 1);
        return v;
    }
    if (x->tensor != OPERAND_WHOLE && x->tensor != OPERAND_ITEM)
        return run_tensor(r, at, r->p->model->units[unit].first + x->tensor + e * x->stride);
    v.data =
        at->bytes ? at->data : NULL; /* the gradient of a first layer's input: nobody wants it */
    v.elements = at->bytes / dtype_bytes(b->dtype, 1);
    return v;
}

struct run_view run_operand(struct exec_run *r, const struct op *o, const struct instance *i,
                            uint32_t k)
{
    return run_expert(r, &o->operands[k], i, 0);
}

/* ---- in the optimizer ---- */

static void keep_reduced(struct exec_run *r, uint32_t tensor, const struct run_view *v)
{
    const struct held_tensor *h = &r->held.t[tensor];

    if (!r->reduced || r->reduced_in[tensor] == r->step || !h->n)
        return;
    BUG_ON(v->dtype != r->plan->job.grad_dtype);
    run_copy(r, r->reduced + dtype_bytes(v->dtype, h->flat_at + h->first), v->data,
             dtype_bytes(v->dtype, h->n));
    r->reduced_in[tensor] = r->step;
}

struct run_view run_gradient(struct exec_run *r, uint32_t tensor)
{
    const struct known_buffers *k = &r->p->known;
    uint32_t buffer = r->p->buffers[k->grads].holds == HOLDS_MODEL ? k->grads
                      : is_segment(r, tensor)                      ? k->grad_owned
                                                                   : k->grad_shard;
    struct run_view v =
        run_part(r, run_find(r, buffer, r->p->model->tensors[tensor].unit, 0), tensor);

    keep_reduced(r, tensor, &v);
    return v;
}

uint32_t run_item(const struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct work_item *x = &r->p->work_tables[r->p->loops[o->loop].work].items[i->item];

    if (!x->n_batch)
        return x->tensor;
    return r->place < x->n_batch ? x->batch[r->place] : MODEL_NONE;
}

enum dtype run_travel(const struct exec_run *r)
{
    return optimizer_travel_dtype(&r->plan->job);
}

struct run_buffer *run_matrices(struct exec_run *r, const struct op *o, const struct instance *i)
{
    for (uint32_t k = 0; k < o->n_operands; k++) {
        enum holds x = r->p->buffers[o->operands[k].buffer].holds;

        if (x == HOLDS_MATRIX || x == HOLDS_MATRICES || x == HOLDS_MATRIX_PARTS)
            return run_live(r, o->operands[k].buffer, i, o->operands[k].d_unit);
    }
    return NULL;
}

char *run_matrix(struct exec_run *r, const struct op *o, const struct instance *i)
{
    struct run_buffer *b = run_matrices(r, o, i);
    struct run_view v;

    if (!b)
        return NULL;
    v = run_tensor(r, b, run_item(r, o, i));
    return v.data - dtype_bytes(v.dtype, v.first);
}
