#include "layouts/step.h"

#include "core/num.h"

#include <string.h>

/* DTensor dispatches a Newton-Schulz step through Python, redistributing operands: about 0.47 ms of host time a matrix on
 * A100 hosts that launch a kernel in 6 us (MatrixFSDP's stock rows, arXiv 2607.05895): as many launches as take that
 * long. */
enum { STOCK_HOST_LAUNCHES = 78 };

static uint64_t smaller(const struct tensor *t)
{
    return t->rows < t->cols ? t->rows : t->cols;
}

static uint64_t larger(const struct tensor *t)
{
    return t->rows < t->cols ? t->cols : t->rows;
}

/* ---- work tables ---- */

/* Rank -> items, from an (item, rank) list ordered by item; in arena. */
struct pair {
    uint32_t item, rank;
};
static void work_lists(struct lower *l, struct work_table *w, const struct pair *pairs, size_t n)
{
    uint32_t *start = ARENA_NEW(l->a, uint32_t, l->n + 1), *list = ARENA_NEW(l->a, uint32_t, n);
    uint32_t *at = MEM_NEW(uint32_t, l->n);

    for (size_t i = 0; i < n; i++)
        start[pairs[i].rank + 1]++;
    for (uint32_t r = 0; r < l->n; r++) {
        start[r + 1] += start[r];
        at[r] = start[r];
    }
    for (size_t i = 0; i < n; i++)
        list[at[pairs[i].rank]++] = pairs[i].item;
    mem_free(at);
    w->start = start;
    w->list = list;
}

/* One matrix, or the part of it that one slice holds: the products are those of the whole matrix. */
static struct work_item matrix_item(const struct lower *l, uint32_t tensor, uint64_t elements)
{
    const struct tensor *t = &l->m->tensors[tensor];

    return (struct work_item){
        .tensor = tensor,
        .m = smaller(t),
        .n = larger(t),
        .elements = elements,
        .flops = layout_optimizer_flops(l->j->optimizer, l->j->ns_steps, smaller(t), larger(t))};
}

static uint32_t matrix_work(struct lower *l, enum work_rule rule)
{
    size_t most = (size_t)l->m->matrix_tensors + (rule == WORK_BY_SLICE ? l->n : 0);
    struct work_item *items = ARENA_NEW(l->a, struct work_item, most);
    struct pair *pairs = ARENA_NEW(l->a, struct pair, most);
    struct work_table w = {.items = items};
    uint64_t slice = part_slice(l->plan), at = 0;

    for (uint32_t i = 0; i < l->m->n_tensors; at += l->m->tensors[i].numel, i++) {
        const struct tensor *t = &l->m->tensors[i];
        uint64_t from = at, end = at + t->numel;

        if (!layout_updates_as_matrix(l->plan, t))
            continue;
        do { /* a boundary of slices cuts an item in two */
            uint64_t stop = rule == WORK_BY_SLICE ? num_min(end, (from / slice + 1) * slice) : end;
            uint32_t rank =
                rule == WORK_BY_SLICE ? (uint32_t)(from / slice) : l->plan->place[i].owner;

            BUG_ON(w.n_items == most);
            pairs[w.n_items] = (struct pair){w.n_items, rank};
            items[w.n_items++] = matrix_item(l, i, stop - from);
            from = stop;
        } while (from < end);
    }
    if (rule != WORK_ALL)
        work_lists(l, &w, pairs, w.n_items);
    return program_add_work(&l->b, &w);
}

/* ---- emitting ---- */

static void operand(struct lower *l, uint32_t op, uint32_t buffer, uint32_t tensor,
                    enum access access)
{
    if (buffer != PROGRAM_NONE)
        program_op_operand(&l->b, op, (struct operand){buffer, tensor, (uint8_t)access, 0});
}

/* Reduced gradients: all of them, or the rank's chunks and owned segments. */
static void gradient_operands(struct lower *l, uint32_t op, uint32_t tensor)
{
    if (l->move.full_grads)
        operand(l, op, l->grads, tensor, ACCESS_READ);
    operand(l, op, l->grad_shard, tensor, ACCESS_READ);
    operand(l, op, l->grad_owned, tensor, ACCESS_READ);
}

static void update_operands(struct lower *l, uint32_t op, uint32_t tensor)
{
    operand(l, op, l->params, tensor, ACCESS_ADD);
    operand(l, op, l->master, tensor, ACCESS_ADD);
}

static struct op optimizer_op(const char *name, enum op_kind kind)
{
    return (struct op){.name = name,
                       .kind = kind,
                       .phase = PHASE_OPTIMIZER,
                       .stream = STREAM_COMPUTE,
                       .guard = {.unit_class = PROGRAM_NONE}};
}

static uint64_t *item_bytes(struct lower *l, uint32_t work,
                            uint64_t (*bytes)(const struct lower *, const struct work_item *))
{
    const struct work_table *w = &l->p->work_tables[work];
    uint64_t *v = ARENA_NEW(l->a, uint64_t, w->n_items);

    for (uint32_t i = 0; i < w->n_items; i++)
        v[i] = bytes(l, &w->items[i]);
    return v;
}

/* Newton-Schulz works in bf16 on X (m x n), A and B (m x m). The preconditioned optimizers keep an update and two
 * scratch matrices of the larger side. */
static uint64_t workspace_bytes(const struct lower *l, const struct work_item *w)
{
    if (l->j->optimizer == OPTIMIZER_MUON)
        return dtype_bytes(DTYPE_BF16, 2 * w->m * w->m + w->m * w->n);
    return dtype_bytes(DTYPE_FP32, 2 * w->m * w->n + 2 * w->n * w->n);
}

/* The same on shards: X and A arrive whole, the products stay cut. */
static uint64_t sharded_workspace_bytes(const struct lower *l, const struct work_item *w)
{
    return dtype_bytes(DTYPE_BF16,
                       w->m * w->m + w->m * w->n + (2 * w->m * w->m + w->m * w->n) / l->n);
}

static uint64_t padded_matrix_bytes(const struct lower *l, const struct work_item *w)
{
    const struct tensor *t = &l->m->tensors[w->tensor];

    return dtype_bytes(l->j->param_dtype, num_ceil_div(t->rows, l->n) * t->cols * l->n);
}

static uint64_t square_bytes(const struct lower *l, const struct work_item *w)
{
    return dtype_bytes(l->j->param_dtype, num_ceil_div(w->m, l->n) * w->m * l->n);
}

static uint32_t gather_op(struct lower *l, const char *name, uint32_t repeat,
                          const uint64_t *by_item, uint64_t bytes)
{
    struct op o = optimizer_op(name, OP_COLLECTIVE);

    o.stream = STREAM_GATHER;
    o.coll = (struct collective){.kind = COLL_ALL_GATHER,
                                 .group = l->world,
                                 .item_bytes = by_item,
                                 .bytes = bytes,
                                 .table = PROGRAM_NONE,
                                 .repeat = repeat,
                                 .wire = l->j->param_dtype,
                                 .peer_op = PROGRAM_NONE};
    return program_add_op(&l->b, &o);
}

static enum kernel optimizer_kernel(const struct lower *l, bool sharded)
{
    switch (l->j->optimizer) {
    case OPTIMIZER_SHAMPOO:
        return KERNEL_SHAMPOO;
    case OPTIMIZER_SOAP:
        return KERNEL_SOAP;
    default:
        return sharded ? KERNEL_NEWTON_SCHULZ_SHARDED : KERNEL_NEWTON_SCHULZ;
    }
}

static uint32_t elementwise_op(struct lower *l, const char *name, enum kernel k,
                               double bytes_per_element, double share)
{
    struct op o = optimizer_op(name, OP_COMPUTE);

    o.by_item = true;
    o.item_bytes_each = bytes_per_element * share;
    o.call = (struct kernel_call){.kernel = k, .batch = 1, .launches = 1};
    return program_add_op(&l->b, &o);
}

static uint32_t products_op(struct lower *l, const struct matrix_step *s)
{
    struct op o = optimizer_op(
        arena_printf(l->a, "optimizer.%s", kernel_name(optimizer_kernel(l, s->products))),
        OP_COMPUTE);
    uint32_t n_products = l->j->optimizer == OPTIMIZER_MUON ? 3 * l->j->ns_steps : 12;

    o.by_item = true;
    o.item_flops_share = s->products ? 1.0 / l->n : 1.0;
    o.call = (struct kernel_call){.kernel = optimizer_kernel(l, s->products),
                                  .k = l->j->ns_steps,
                                  .batch = s->products ? l->n : 1,
                                  .launches = s->products ? STOCK_HOST_LAUNCHES : n_products + 4};
    return program_add_op(&l->b, &o);
}

/* Gathers before the item loop: matrices that boundaries cut (zero1), or all of them at once. */
static void gather_ahead(struct lower *l, const struct matrix_step *s, uint32_t once)
{
    struct op o = optimizer_op("optimizer.cut_gather", OP_COLLECTIVE);
    struct wait w = {.op = l->optimizer_begin};
    uint64_t all = 0;
    uint32_t id;

    if (s->cut_table != PROGRAM_NONE && l->n > 1) {
        o.stream = STREAM_GATHER;
        o.coll = (struct collective){.kind = COLL_SEGMENT_GATHER,
                                     .group = l->world,
                                     .algo = ALGO_RING,
                                     .table = s->cut_table,
                                     .wire = l->j->param_dtype,
                                     .peer_op = PROGRAM_NONE};
        id = program_add_op(&l->b, &o);
        program_op_wait(&l->b, id, w);
        operand(l, id, l->grads, OPERAND_WHOLE, ACCESS_ADD);
        l->optimizer_begin = id;
    }
    if (!s->gather_once)
        return;
    if (l->n > 1) {
        for (uint32_t i = 0; i < l->m->n_tensors; i++)
            if (layout_updates_as_matrix(l->plan, &l->m->tensors[i])) {
                struct work_item x = {.tensor = i};

                all += padded_matrix_bytes(l, &x);
            }
        id = gather_op(l, "optimizer.gather_once", 1, NULL, all);
        program_op_wait(&l->b, id, w);
        l->optimizer_begin = id;
    }
    o = optimizer_op("optimizer.gather_once.hold", OP_MARK);
    id = program_add_op(&l->b, &o);
    program_op_wait(&l->b, id, (struct wait){.op = l->optimizer_begin});
    program_op_life(&l->b, id, (struct life){.buffer = once});
    l->optimizer_begin = id;
}

/* A whole copy of every matrix for gather-once: its momentum, its orthogonalised update and the fp32 update that
 * torch.stack-like code materialises beside them. */
static uint32_t gather_once_buffer(struct lower *l)
{
    uint64_t each = 2 * dtype_bytes(l->j->param_dtype, 1);

    return program_add_buffer(&l->b, &(struct buffer){.name = "optimizer.gathered_once",
                                                      .part = MEM_WORKSPACE,
                                                      .dtype = l->j->param_dtype,
                                                      .rule = SIZE_CONST,
                                                      .bytes = l->m->matrix_params * each});
}

void lower_matrix_step(struct lower *l, const struct matrix_step *s)
{
    double g = (double)dtype_bytes(l->j->grad_dtype, 1),
           st = (double)dtype_bytes(l->j->state_dtype, 1);
    double p = (double)dtype_bytes(l->j->param_dtype, 1), share = s->sharded ? 1.0 / l->n : 1.0;
    uint32_t work, before, first, products, update, once = PROGRAM_NONE, gathers[2], n = 0, space;
    bool products_cut = s->products && l->n > 1;
    struct matrix_step step = *s;

    step.products = products_cut;
    if (l->j->optimizer == OPTIMIZER_ADAMW || !l->m->matrix_tensors)
        return;
    if (s->gather_once)
        once = gather_once_buffer(l);
    work = matrix_work(l, s->work);
    gather_ahead(l, s, once);
    space = program_add_buffer(
        &l->b,
        &(struct buffer){.name = "optimizer.workspace",
                         .part = MEM_WORKSPACE,
                         .dtype = DTYPE_BF16,
                         .rule = SIZE_BY_ITEM,
                         .item_bytes = item_bytes(
                             l, work, products_cut ? sharded_workspace_bytes : workspace_bytes)});
    program_open_loop(&l->b, &(struct loop){.kind = LOOP_ITEM, .work = work});
    /* gradient and state read, state and the bf16 input of the products written */
    first = before =
        elementwise_op(l, "optimizer.momentum", KERNEL_MOMENTUM, g + 2 * st + 2, share);
    program_op_wait(&l->b, first, (struct wait){.op = l->optimizer_begin});
    if (l->n > 1 && s->gather_each)
        gathers[n++] =
            gather_op(l, "optimizer.gather", 1, item_bytes(l, work, padded_matrix_bytes), 0);
    if (products_cut) { /* X X^T and B X need X whole, A A needs A whole, in each step */
        uint32_t steps = l->j->optimizer == OPTIMIZER_MUON ? l->j->ns_steps : 1;

        gathers[n++] = gather_op(l, "optimizer.gather_x", 2 * steps,
                                 item_bytes(l, work, padded_matrix_bytes), 0);
        gathers[n++] =
            gather_op(l, "optimizer.gather_a", steps, item_bytes(l, work, square_bytes), 0);
    }
    products = products_op(l, &step);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0)
            program_op_wait(&l->b, gathers[i], (struct wait){.op = before});
        program_op_wait(&l->b, products, (struct wait){.op = gathers[i]});
    }
    program_op_life(&l->b, first, (struct life){.buffer = space});
    gradient_operands(l, first, OPERAND_ITEM);
    operand(l, first, l->states, OPERAND_ITEM, ACCESS_ADD);
    operand(l, first, space, OPERAND_WHOLE, ACCESS_WRITE);
    for (uint32_t i = 0; i < n; i++)
        operand(l, gathers[i], space, OPERAND_WHOLE, ACCESS_ADD);
    operand(l, products, space, OPERAND_WHOLE, ACCESS_ADD);
    if (l->j->optimizer != OPTIMIZER_MUON) /* preconditioners */
        operand(l, products, l->states, OPERAND_ITEM, ACCESS_ADD);
    /* update read, parameter (and master copy) read and written */
    update = elementwise_op(l, "optimizer.update", KERNEL_MATRIX_UPDATE,
                            2 + 2 * p + (l->j->master_weights ? 8 : 0), share);
    program_op_life(&l->b, update, (struct life){.buffer = space, .release = true});
    operand(l, update, space, OPERAND_WHOLE, ACCESS_READ);
    update_operands(l, update, OPERAND_ITEM);
    program_close_loop(&l->b);
    if (once != PROGRAM_NONE) {
        struct op o = optimizer_op("optimizer.gather_once.drop", OP_MARK);
        uint32_t id = program_add_op(&l->b, &o);

        program_op_life(&l->b, id, (struct life){.buffer = once, .release = true});
    }
}

/* ---- the tail ---- */

/* Bytes an AdamW update moves per element: p, m, v read and written, g read, the fp32 master read and written. */
static double adamw_bytes(const struct lower *l)
{
    return 2.0 * (double)dtype_bytes(l->j->param_dtype, 1) +
           (double)dtype_bytes(l->j->grad_dtype, 1) +
           4.0 * (double)dtype_bytes(l->j->state_dtype, 1) + (l->j->master_weights ? 8 : 0);
}

static void owned_tails(struct lower *l)
{
    struct work_item *items = ARENA_NEW(l->a, struct work_item, l->m->n_units);
    struct pair *pairs = ARENA_NEW(l->a, struct pair, l->m->n_units);
    struct work_table w = {.items = items};
    uint32_t work, id;

    for (uint32_t u = 0; u < l->m->n_units; u++) {
        uint64_t elements = 0;
        uint32_t first = MODEL_NONE;

        for (uint32_t i = l->m->units[u].first; i < l->m->units[u].first + l->m->units[u].n; i++)
            if (l->plan->place[i].rule == PLACE_OWNER &&
                !layout_updates_as_matrix(l->plan, &l->m->tensors[i])) {
                elements += l->m->tensors[i].numel;
                first = first == MODEL_NONE ? i : first;
            }
        if (!elements)
            continue;
        pairs[w.n_items] = (struct pair){w.n_items, l->plan->place[first].owner};
        items[w.n_items++] =
            (struct work_item){.tensor = first, .m = 1, .n = elements, .elements = elements};
    }
    if (!w.n_items)
        return;
    work_lists(l, &w, pairs, w.n_items);
    work = program_add_work(&l->b, &w);
    program_open_loop(&l->b, &(struct loop){.kind = LOOP_ITEM, .work = work});
    id = elementwise_op(l, "optimizer.adamw.owned", KERNEL_ADAMW, adamw_bytes(l), 1);
    program_op_wait(&l->b, id, (struct wait){.op = l->optimizer_begin});
    gradient_operands(l, id, OPERAND_ITEM);
    operand(l, id, l->states, OPERAND_ITEM, ACCESS_ADD);
    update_operands(l, id, OPERAND_ITEM);
    program_close_loop(&l->b);
}

void lower_tail_step(struct lower *l)
{
    struct op o = optimizer_op("optimizer.adamw", OP_COMPUTE);
    uint64_t elements = 0, flat = 0;
    uint32_t id;

    for (uint32_t i = 0; i < l->m->n_tensors; i++) {
        const struct tensor *t = &l->m->tensors[i];

        if (layout_updates_as_matrix(l->plan, t))
            continue;
        if (l->plan->place[i].rule == PLACE_REPLICATED)
            elements += t->numel;
        if (l->plan->place[i].rule == PLACE_CHUNK)
            elements += num_ceil_div(t->rows, l->n) * t->cols;
        if (l->plan->place[i].rule == PLACE_FLAT)
            flat += t->numel;
    }
    /* A slice may hold nothing but tail: the fullest rank's share is what the slowest works. */
    elements += num_min(flat, part_slice(l->plan));
    if (elements) {
        o.call = (struct kernel_call){.kernel = KERNEL_ADAMW,
                                      .m = 1,
                                      .n = elements,
                                      .batch = 1,
                                      .flops = 12 * elements,
                                      .hbm_bytes = (uint64_t)((double)elements * adamw_bytes(l)),
                                      .launches = 1};
        id = program_add_op(&l->b, &o);
        program_op_wait(&l->b, id, (struct wait){.op = l->optimizer_begin});
        gradient_operands(l, id, OPERAND_WHOLE);
        operand(l, id, l->states, OPERAND_WHOLE, ACCESS_ADD);
        update_operands(l, id, OPERAND_WHOLE);
    }
    owned_tails(l);
}
