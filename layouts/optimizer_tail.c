/* The elementwise optimizer, on all that no matrix optimizer updates. */
#include "layouts/optimizer_inner.h"

#include "core/num.h"

static const struct optimizer_row *rest(const struct lower *l)
{
    return optimizer_row(optimizer_of_rest(l->j->optimizer));
}

/* Bytes an update moves per element. Fused: as the row says. Without fusion, which AdamW alone
 * has, operation by operation, as torch.optim.adamw has them: decay (p twice), lerp (m twice,
 * g), mul (v twice), addcmul (v twice, g), sqrt into a temporary (v, t), division and epsilon (t
 * twice each), addcdiv (p twice, m, t); with a master copy that is what is worked, and the
 * parameter is written from it. */
static double rest_bytes(const struct lower *l)
{
    double p = (double)dtype_bytes(l->j->param_dtype, 1),
           g = (double)dtype_bytes(l->j->grad_dtype, 1),
           s = (double)dtype_bytes(l->j->state_dtype, 1);

    if (l->j->adamw != ADAMW_FUSED)
        return 4 * (l->j->master_weights ? 4 : p) + 2 * g + 14 * s +
               (l->j->master_weights ? 4 + p : 0);
    return optimizer_bytes(l->j, &rest(l)->each.bytes, l->j->master_weights);
}

/* Kernels that the update of n tensors is. */
static uint32_t rest_launches(const struct lower *l, uint64_t n)
{
    switch (l->j->adamw) {
    case ADAMW_FUSED:
        return 1;
    case ADAMW_FOREACH:
        return rest(l)->each.operations;
    case ADAMW_PER_TENSOR:
        return (uint32_t)n * rest(l)->each.operations;
    case ADAMW_KERNELS_N:
        break;
    }
    BUG_ON(true);
}

static void owned_tails(struct lower *l)
{
    struct work_item *items = ARENA_NEW(l->a, struct work_item, l->m->n_units);
    struct optimizer_pair *pairs = ARENA_NEW(l->a, struct optimizer_pair, l->m->n_units);
    struct work_table w = {.items = items};
    uint32_t work, id;
    uint64_t most = 0; /* tensors of an owned tail */

    for (uint32_t u = 0; u < l->m->n_units; u++) {
        uint64_t elements = 0, tensors = 0;
        uint32_t first = MODEL_NONE;

        for (uint32_t i = l->m->units[u].first; i < l->m->units[u].first + l->m->units[u].n; i++)
            if (l->plan->place[i].rule == PLACE_OWNER &&
                !layout_updates_as_matrix(l->plan, &l->m->tensors[i])) {
                elements += l->m->tensors[i].numel;
                tensors++;
                first = first == MODEL_NONE ? i : first;
            }
        if (!elements)
            continue;
        most = num_max(most, tensors);
        pairs[w.n_items] = (struct optimizer_pair){w.n_items, l->plan->place[first].owner};
        items[w.n_items++] =
            (struct work_item){.tensor = first, .m = 1, .n = elements, .elements = elements};
    }
    if (!w.n_items)
        return;
    optimizer_work_lists(l, &w, pairs, w.n_items);
    work = program_add_work(&l->b, &w);
    program_open_loop(&l->b, &(struct loop){.kind = LOOP_ITEM, .work = work});
    id = optimizer_elementwise(l, arena_printf(l->a, "optimizer.%s.owned", rest(l)->name),
                               rest(l)->each.kernel, rest_bytes(l), 1);
    l->p->ops[id].call.launches = rest_launches(l, most);
    program_op_wait(&l->b, id, (struct wait){.op = l->optimizer_begin});
    optimizer_gradients(l, id, OPERAND_ITEM);
    optimizer_operand(l, id, l->states, OPERAND_ITEM, ACCESS_ADD);
    optimizer_updates(l, id, OPERAND_ITEM);
    program_close_loop(&l->b);
}

void lower_tail_step(struct lower *l)
{
    struct op o = optimizer_op(arena_printf(l->a, "optimizer.%s", rest(l)->name), OP_COMPUTE);
    uint64_t elements = 0, flat = 0, tensors = 0;
    uint32_t id, temporary;
    struct life lives[2] = {{.release = false}, {.release = true}};

    for (uint32_t i = 0; i < l->m->n_tensors; i++) {
        const struct tensor *t = &l->m->tensors[i];

        if (layout_updates_as_matrix(l->plan, t))
            continue;
        tensors +=
            l->plan->place[i].rule == PLACE_REPLICATED || l->plan->place[i].rule == PLACE_CHUNK;
        if (l->plan->place[i].rule == PLACE_REPLICATED)
            elements += t->numel;
        if (l->plan->place[i].rule == PLACE_CHUNK)
            elements += placement_rows(l->plan, t, STATE) * t->cols;
        if (l->plan->place[i].rule == PLACE_FLAT)
            flat += t->numel;
    }
    /* A slice may hold nothing but tail: the fullest rank's share is what the slowest works. */
    elements += num_min(flat, placement_slice(l->plan, STATE));
    tensors += flat > 0; /* a slice is updated as one */
    if (elements) {
        o.call = (struct kernel_call){.kernel = rest(l)->each.kernel,
                                      .m = 1,
                                      .n = elements,
                                      .batch = 1,
                                      .flops = rest(l)->each.flops * elements,
                                      .hbm_bytes = (uint64_t)((double)elements * rest_bytes(l)),
                                      .launches = rest_launches(l, tensors)};
        if (l->j->adamw == ADAMW_FOREACH) {
            temporary = program_add_buffer(
                &l->b, &(struct buffer){.name = "adamw.denominator",
                                        .part = MEM_WORKSPACE,
                                        .dtype = l->j->state_dtype,
                                        .rule = SIZE_CONST,
                                        .span = SPAN_STEP,
                                        .bytes = dtype_bytes(l->j->state_dtype, elements)});
            lives[0].buffer = lives[1].buffer = temporary;
            o.lives = lives;
            o.n_lives = 2;
        }
        id = program_add_op(&l->b, &o);
        program_op_wait(&l->b, id, (struct wait){.op = l->optimizer_begin});
        optimizer_gradients(l, id, OPERAND_WHOLE);
        optimizer_operand(l, id, l->states, OPERAND_WHOLE, ACCESS_ADD);
        optimizer_updates(l, id, OPERAND_WHOLE);
    }
    owned_tails(l);
}
