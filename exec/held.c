#include "exec/held.h"

#include "core/num.h"
#include "layouts/layout.h"
#include "model/plan/optimizers.h"

static void mark_matrices(struct held *h, const struct program *p)
{
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const struct op *o = &p->ops[i];
        const struct work_table *w;

        if (!o->by_item || o->call.kernel == KERNEL_ADAMW)
            continue;
        w = &p->work_tables[p->loops[o->loop].work];
        for (uint32_t k = 0; k < w->n_items; k++)
            h->t[w->items[k].tensor].matrix = true;
    }
}

uint64_t held_slice(const struct program *p)
{
    return num_ceil_div(p->model->total_params, program_shards(p));
}

static void part_of(const struct program *p, uint32_t place, uint32_t i, uint64_t flat,
                    struct held_tensor *x)
{
    const struct tensor *t = &p->model->tensors[i];
    uint64_t rows = num_ceil_div(t->rows, program_shards(p)), first, slice = held_slice(p), end;

    switch (p->place[i].rule) {
    case PLACE_REPLICATED:
        x->n = x->room = t->numel;
        break;
    case PLACE_FLAT:
        first = num_min(num_max(place * slice, flat), flat + t->numel);
        end = num_min(num_max((place + 1) * slice, flat), flat + t->numel);
        x->first = first - flat;
        x->n = x->room = end - first;
        break;
    case PLACE_CHUNK:
        first = num_min(place * rows, t->rows);
        x->first = first * t->cols;
        x->n = (num_min(first + rows, t->rows) - first) * t->cols;
        x->room = rows * t->cols;
        break;
    case PLACE_OWNER:
        x->n = x->room = p->place[i].owner == place ? t->numel : 0;
        break;
    }
}

static uint64_t state_elements(const struct plan *plan, const struct held_tensor *x, uint32_t i)
{
    const struct tensor *t = &plan->model.tensors[i];

    if (!x->matrix)
        return optimizer_row(optimizer_of_rest(plan->job.optimizer))->each.states * x->room;
    if (optimizer_row(plan->job.optimizer)->states == STATES_BY_ROWS)
        return layout_share(optimizer_state_elements(plan->job.optimizer, t), x->room, t->numel);
    return x->n == t->numel ||
                   (layout_state_is_whole(plan, t) && (x->n || plan->place[i].rule != PLACE_FLAT))
               ? optimizer_state_elements(plan->job.optimizer, t)
               : 0;
}

void held_init(struct held *h, const struct plan *plan, const struct program *p, uint32_t place,
               struct arena *a)
{
    uint64_t unit_at = 0, flat = 0;
    uint32_t unit = MODEL_NONE;

    *h = (struct held){.t = ARENA_NEW(a, struct held_tensor, p->model->n_tensors)};
    mark_matrices(h, p);
    for (uint32_t i = 0; i < p->model->n_tensors; i++) {
        const struct tensor *t = &p->model->tensors[i];
        struct held_tensor *x = &h->t[i];

        unit_at = t->unit == unit ? unit_at : 0;
        unit = t->unit;
        part_of(p, place, i, flat, x);
        x->unit_at = unit_at;
        x->flat_at = flat;
        x->state_at = h->states;
        x->part_at = h->parts;
        x->n_state = state_elements(plan, x, i);
        h->states += x->n_state;
        h->parts += x->room;
        unit_at += t->numel;
        flat += t->numel;
    }
}
