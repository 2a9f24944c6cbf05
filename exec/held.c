#include "exec/held.h"

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

void held_init(struct held *h, const struct plan *plan, const struct program *p, uint32_t rank,
               struct arena *a)
{
    *h = (struct held){.t = ARENA_NEW(a, struct held_tensor, p->model->n_tensors)};
    mark_matrices(h, p);
    for (uint32_t i = 0; i < p->model->n_tensors; i++) {
        const struct tensor *t = &p->model->tensors[i];
        struct held_tensor *x = &h->t[i];

        const struct extent has = placement_extent(plan, i, STATE, rank);

        x->first = has.first;
        x->n = has.n;
        x->room = has.room;
        x->unit_at = t->at - plan->model.tensors[plan->model.units[t->unit].first].at;
        x->flat_at = t->at;
        x->state_at = h->states;
        for (int c = 0; c < COMPONENT_N; c++) {
            x->part_at[c] = h->parts[c];
            h->parts[c] += placement_extent(plan, i, (enum component)c, rank).room;
        }
        x->n_state = state_elements(plan, x, i);
        h->states += x->n_state;
    }
}
