/* The step of the matrix optimizer: what each strategy gathers, holds, works and gives back. Who
 * works what is optimizer_work.c's, what is no matrix optimizer_tail.c's. */
#include "layouts/optimizer_inner.h"

#include "core/num.h"

#include <string.h>

/* DTensor dispatches a Newton-Schulz step through Python, redistributing operands: about 1.6 ms of
 * host time a matrix on A100 hosts that launch a kernel in 6 us (MatrixFSDP's stock rows, arXiv
 * 2607.05895): as many launches as take that long. */
enum { STOCK_HOST_LAUNCHES = 260 };

/* ---- emitting ---- */

void optimizer_operand(struct lower *l, uint32_t op, uint32_t buffer, uint32_t tensor,
                       enum access access)
{
    if (buffer != PROGRAM_NONE)
        program_op_operand(
            &l->b, op,
            (struct operand){.buffer = buffer, .tensor = tensor, .access = (uint8_t)access});
}

/* Reduced gradients: all of them, or the rank's chunks and owned segments. */
void optimizer_gradients(struct lower *l, uint32_t op, uint32_t tensor)
{
    if (l->move.full_grads)
        optimizer_operand(l, op, l->grads, tensor, ACCESS_READ);
    optimizer_operand(l, op, l->grad_shard, tensor, ACCESS_READ);
    optimizer_operand(l, op, l->grad_owned, tensor, ACCESS_READ);
}

void optimizer_updates(struct lower *l, uint32_t op, uint32_t tensor)
{
    optimizer_operand(l, op, l->params, tensor, ACCESS_ADD);
    optimizer_operand(l, op, l->master, tensor, ACCESS_ADD);
}

struct op optimizer_op(const char *name, enum op_kind kind)
{
    return (struct op){.name = name,
                       .kind = kind,
                       .phase = PHASE_OPTIMIZER,
                       .stream = STREAM_COMPUTE,
                       .guard = {.unit_class = PROGRAM_NONE}};
}

static uint64_t *by_item(struct lower *l, uint32_t work,
                         uint64_t (*size)(const struct lower *, const struct work_item *))
{
    const struct work_table *w = &l->p->work_tables[work];
    uint64_t *v = ARENA_NEW(l->a, uint64_t, w->n_items);

    for (uint32_t i = 0; i < w->n_items; i++)
        v[i] = size(l, &w->items[i]);
    return v;
}

/* The same on shards: X and A arrive whole, the products stay cut. */
static uint64_t sharded_workspace_bytes(const struct lower *l, const struct work_item *w)
{
    return dtype_bytes(DTYPE_BF16,
                       w->m * w->m + w->m * w->n + (2 * w->m * w->m + w->m * w->n) / l->shards);
}

/* Elements of all parts of a matrix, padded; of A = X X^T cut into as many. */
static uint64_t padded_matrix(const struct lower *l, const struct work_item *w)
{
    const struct tensor *t = &l->m->tensors[w->tensor];

    return placement_rows(l->plan, t, STATE) * t->cols * l->shards;
}

static uint64_t padded_square(const struct lower *l, const struct work_item *w)
{
    return num_ceil_div(w->m, l->shards) * w->m * l->shards;
}

/* Among the ranks that share the states, `repeat` times in a row: so many elements of every item,
 * or `elements` outside loops over items. */
static uint32_t shard_op(struct lower *l, const char *name, enum coll_kind kind, enum stream stream,
                         enum dtype wire, uint32_t repeat, const uint64_t *items, uint64_t elements)
{
    struct op o = optimizer_op(name, OP_COLLECTIVE);

    o.stream = stream;
    o.coll = (struct collective){.kind = kind,
                                 .traffic = TRAFFIC_OPTIMIZER,
                                 .group = l->shard,
                                 .moved = {.from = STATE,
                                           .to = WHOLE,
                                           .from_buffer = PROGRAM_NONE,
                                           .to_buffer = PROGRAM_NONE},
                                 .item_elements = items,
                                 .elements = elements,
                                 .table = PROGRAM_NONE,
                                 .repeat = repeat,
                                 .wire = {.dtype = wire},
                                 .peer_op = PROGRAM_NONE};
    return program_add_op(&l->b, &o);
}

/* Between which buffers an operation moves: what products start from, of the gradients where there
 * is no momentum. */
static void moves(struct lower *l, uint32_t op, uint32_t from, uint32_t to)
{
    l->p->ops[op].coll.moved.from_buffer = from;
    l->p->ops[op].coll.moved.to_buffer = to;
}

static uint32_t start_buffer(const struct lower *l, uint32_t momentum)
{
    return optimizer_has_momentum(l) ? momentum : l->move.full_grads ? l->grads : l->grad_shard;
}

static uint32_t gather_op(struct lower *l, const char *name, enum dtype wire, uint32_t repeat,
                          const uint64_t *items, uint64_t elements)
{
    return shard_op(l, name, COLL_ALL_GATHER, STREAM_GATHER, wire, repeat, items, elements);
}

uint32_t optimizer_elementwise(struct lower *l, const char *name, enum kernel k,
                               double bytes_per_element, double share)
{
    struct op o = optimizer_op(name, OP_COMPUTE);

    o.by_item = true;
    o.item_bytes_each = bytes_per_element * share;
    o.call = (struct kernel_call){.kernel = k, .batch = 1, .launches = 1};
    return program_add_op(&l->b, &o);
}

static uint32_t products_op(struct lower *l, const struct matrix_step *s, const char *suffix)
{
    const struct optimizer_row *row = optimizer_row(l->j->optimizer);
    enum kernel k = s->products ? row->products_sharded : row->products;
    struct op o =
        optimizer_op(arena_printf(l->a, "optimizer.%s%s", kernel_name(k), suffix), OP_COMPUTE);

    BUG_ON(k == KERNEL_NONE); /* a strategy that the row does not have */
    o.by_item = true;
    o.item_bytes_each = optimizer_bytes(l->j, &row->product_bytes, false);
    o.item_flops_share = s->products ? 1.0 / l->shards : 1.0;
    o.call = (struct kernel_call){.kernel = k,
                                  .k = l->j->ns_steps,
                                  .batch = s->products ? l->shards : 1,
                                  .symmetric = l->j->ns_symmetric && !s->products,
                                  .launches = s->products ? STOCK_HOST_LAUNCHES
                                                          : row->launches + row->launches_a_step *
                                                                                l->j->ns_steps};
    return program_add_op(&l->b, &o);
}

/* ---- loops over matrices ---- */

/* What one loop does. `held`: the buffer in which an earlier loop left what the products start
 * from, or PROGRAM_NONE: the loop makes it, in its workspace. */
struct matrix_loop {
    uint32_t work, held;
    const char *suffix; /* of the operations' names */
    uint32_t after;     /* the operation that its first one waits for */
    double share;       /* of a matrix that a rank's elementwise operations touch */
};

static const char *suffixed(struct lower *l, const char *name, const char *suffix)
{
    return arena_printf(l->a, "%s%s", name, suffix);
}

/* Gradient and state read, state and the bf16 input of the products written. */
static uint32_t momentum_op(struct lower *l, const struct matrix_loop *x, uint32_t to)
{
    double bytes = optimizer_bytes(l->j, &optimizer_row(l->j->optimizer)->momentum, false);
    uint32_t id = optimizer_elementwise(l, suffixed(l, "optimizer.momentum", x->suffix),
                                        KERNEL_MOMENTUM, bytes, x->share);

    program_op_wait(&l->b, id, (struct wait){.op = x->after});
    optimizer_gradients(l, id, OPERAND_ITEM);
    optimizer_operand(l, id, l->states, OPERAND_ITEM, ACCESS_ADD);
    optimizer_operand(l, id, to, OPERAND_ITEM, ACCESS_WRITE);
    return id;
}

/* Update and states read and written. */
static uint32_t normalize_op(struct lower *l, const struct matrix_loop *x, uint32_t at)
{
    const struct optimizer_row *row = optimizer_row(l->j->optimizer);
    uint32_t id = optimizer_elementwise(
        l, arena_printf(l->a, "optimizer.%s%s", kernel_name(row->normalize), x->suffix),
        row->normalize, optimizer_bytes(l->j, &row->normalize_bytes, false), x->share);

    l->p->ops[id].item_bytes_row = optimizer_bytes(l->j, &row->normalize_row, false) * x->share;
    optimizer_operand(l, id, l->states, OPERAND_ITEM, ACCESS_ADD);
    optimizer_operand(l, id, at, OPERAND_ITEM, ACCESS_ADD);
    return id;
}

/* The operations after the products: update read, parameter (and master copy) read and written;
 * before it, where the optimizer does so, the update is normalized in place. The first of them
 * waits for `after`; returns the last. */
static uint32_t update_ops(struct lower *l, const struct matrix_loop *x, uint32_t from,
                           uint32_t after)
{
    const struct optimizer_row *row = optimizer_row(l->j->optimizer);
    uint32_t first = row->normalize == KERNEL_NONE ? PROGRAM_NONE : normalize_op(l, x, from);
    uint32_t id =
        optimizer_elementwise(l, suffixed(l, "optimizer.update", x->suffix), KERNEL_MATRIX_UPDATE,
                              optimizer_bytes(l->j, &row->update, l->j->master_weights), x->share);

    optimizer_operand(l, id, from, OPERAND_ITEM, ACCESS_READ);
    optimizer_updates(l, id, OPERAND_ITEM);
    if (after != PROGRAM_NONE)
        program_op_wait(&l->b, first == PROGRAM_NONE ? id : first, (struct wait){.op = after});
    return id;
}

/* The gathers of an item before its products; returns how many. */
static uint32_t item_gathers(struct lower *l, const struct matrix_step *s, uint32_t work,
                             uint32_t gathers[2])
{
    enum dtype d = optimizer_travel_dtype(l->j);
    uint32_t n = 0, steps = l->j->ns_steps;

    if (l->shards > 1 && s->gather_each)
        gathers[n++] = gather_op(l, "optimizer.gather", d, 1, by_item(l, work, padded_matrix), 0);
    if (s->products) { /* X X^T and B X need X whole, A A needs A whole, in each step */
        gathers[n++] =
            gather_op(l, "optimizer.gather_x", d, 2 * steps, by_item(l, work, padded_matrix), 0);
        gathers[n++] = gather_op(l, "optimizer.gather_a", l->j->param_dtype, steps,
                                 by_item(l, work, padded_square), 0);
    }
    for (uint32_t i = 0; i < n; i++)
        l->p->ops[gathers[i]].coll.interleaved = s->products;
    for (uint32_t i = 0; i < n && !optimizer_has_momentum(l); i++)
        optimizer_gradients(l, gathers[i], OPERAND_ITEM);
    return n;
}

static void matrix_loop(struct lower *l, const struct matrix_step *s, const struct matrix_loop *x)
{
    uint32_t ops[4], n = 0, products, n_gathers, space, id;
    bool held = x->held != PROGRAM_NONE, momentum = optimizer_has_momentum(l);

    space = program_add_buffer(
        &l->b, &(struct buffer){.name = suffixed(l, "optimizer.workspace", x->suffix),
                                .part = MEM_WORKSPACE,
                                .dtype = optimizer_travel_dtype(l->j),
                                .rule = SIZE_BY_ITEM,
                                .span = SPAN_ITEM,
                                .holds = held ? HOLDS_NOTHING : HOLDS_MATRIX,
                                .item_bytes = by_item(l, x->work,
                                                      s->products ? sharded_workspace_bytes
                                                                  : optimizer_workspace_bytes)});
    program_open_loop(&l->b, &(struct loop){.kind = LOOP_ITEM, .work = x->work});
    if (!held && momentum)
        ops[n++] = momentum_op(l, x, space);
    n_gathers = item_gathers(l, s, x->work, &ops[n]);
    products = products_op(l, s, x->suffix);
    for (uint32_t i = n; i < n + n_gathers; i++) {
        program_op_wait(&l->b, products, (struct wait){.op = ops[i]});
        optimizer_operand(l, ops[i], space, OPERAND_WHOLE, ACCESS_ADD);
        moves(l, ops[i], start_buffer(l, space), space);
    }
    if (n && n_gathers)
        program_op_wait(&l->b, ops[n], (struct wait){.op = ops[0]});
    n += n_gathers;
    ops[n++] = products;
    if (held || !momentum) /* momentum_op() waits itself */
        program_op_wait(&l->b, ops[0], (struct wait){.op = x->after});
    program_op_life(&l->b, ops[0], (struct life){.buffer = space});
    optimizer_operand(l, products, space, OPERAND_WHOLE, ACCESS_ADD);
    if (held)
        optimizer_operand(l, products, x->held, OPERAND_ITEM, ACCESS_ADD);
    if (!momentum) { /* gradient, moments and preconditioners */
        if (!held && !n_gathers)
            optimizer_gradients(l, products, OPERAND_ITEM);
        optimizer_operand(l, products, l->states, OPERAND_ITEM, ACCESS_ADD);
    }
    id = update_ops(l, x, held && momentum ? x->held : space, PROGRAM_NONE);
    program_op_life(&l->b, id, (struct life){.buffer = space, .release = true});
    program_close_loop(&l->b);
}

/* ---- matrices that are gathered before the loop that works them ---- */

static uint32_t hold_mark(struct lower *l, const char *name, uint32_t buffer, bool release,
                          uint32_t after)
{
    struct op o = optimizer_op(name, OP_MARK);
    uint32_t id = program_add_op(&l->b, &o);

    if (after != PROGRAM_NONE)
        program_op_wait(&l->b, id, (struct wait){.op = after});
    program_op_life(&l->b, id, (struct life){.buffer = buffer, .release = release});
    return id;
}

/* A loop that leaves every item's momentum in `held`. */
static uint32_t momentum_loop(struct lower *l, const struct matrix_loop *x)
{
    uint32_t id;

    program_open_loop(&l->b, &(struct loop){.kind = LOOP_ITEM, .work = x->work});
    id = momentum_op(l, x, x->held);
    program_close_loop(&l->b);
    return id;
}

/* Every item's update, from `held`. */
static void update_loop(struct lower *l, const struct matrix_loop *x)
{
    program_open_loop(&l->b, &(struct loop){.kind = LOOP_ITEM, .work = x->work});
    update_ops(l, x, x->held, x->after);
    program_close_loop(&l->b);
}

/* One whole copy of every matrix, as it travels: momentum arrives in it, and the products of each
 * leave their update there. */
static uint32_t gather_once_buffer(struct lower *l, uint32_t work)
{
    enum dtype d = optimizer_travel_dtype(l->j);

    return program_add_buffer(&l->b, &(struct buffer){.name = "optimizer.gathered_once",
                                                      .part = MEM_WORKSPACE,
                                                      .dtype = d,
                                                      .rule = SIZE_CONST,
                                                      .span = SPAN_STEP,
                                                      .holds = HOLDS_MATRICES,
                                                      .bytes = dtype_bytes(d, l->m->matrix_params),
                                                      .work = work});
}

/* Momentum of all matrices (preconditioned optimizers start from the gradients themselves), one
 * gather of all, then their products and updates. */
static void once_step(struct lower *l, const struct matrix_step *s)
{
    struct matrix_loop x = {.work = optimizer_matrix_work(l, WORK_ALL, ITEMS_ALL, false),
                            .suffix = "",
                            .share = 1.0 / l->shards};
    uint64_t all = 0;
    uint32_t id;

    x.held = gather_once_buffer(l, x.work);
    x.after = hold_mark(l, "optimizer.gather_once.hold", x.held, false, l->optimizer_begin);
    if (optimizer_has_momentum(l))
        x.after = momentum_loop(l, &x);
    if (l->shards > 1) {
        for (uint32_t i = 0; i < l->m->n_tensors; i++)
            if (layout_updates_as_matrix(l->plan, &l->m->tensors[i])) {
                struct work_item item = {.tensor = i};

                all += padded_matrix(l, &item);
            }
        id = gather_op(l, "optimizer.gather_once", optimizer_travel_dtype(l->j), 1, NULL, all);
        program_op_wait(&l->b, id, (struct wait){.op = x.after});
        if (!optimizer_has_momentum(l))
            optimizer_gradients(l, id, OPERAND_WHOLE);
        optimizer_operand(l, id, x.held, OPERAND_WHOLE, ACCESS_ADD);
        moves(l, id, start_buffer(l, x.held), x.held);
        x.after = id;
    }
    matrix_loop(l, s, &x);
    hold_mark(l, "optimizer.gather_once.drop", x.held, true, PROGRAM_NONE);
}

/* ---- matrices of one shape, one a rank at a time ---- */

/* Batches of at most `shards` matrices with equal rows and columns, in the order of their first;
 * the k-th is worked by place k. What travels is padded to a whole batch. */
static uint32_t batch_work(struct lower *l)
{
    struct work_item *items = ARENA_NEW(l->a, struct work_item, l->m->matrix_tensors);
    uint32_t *open = ARENA_NEW(l->a, uint32_t, l->m->matrix_tensors); /* [shapes] items */
    struct part_alike *alike = MEM_NEW(struct part_alike, l->m->n_tensors);
    struct work_table w = {.items = items};

    part_alike(l->plan, alike);
    for (uint32_t i = 0; i < l->m->n_tensors; i++) {
        const struct part_alike *x = &alike[i];
        struct work_item *to;

        if (x->shape == PROGRAM_NONE)
            continue;
        if (x->ordinal % l->shards == 0) {
            uint32_t *batch = ARENA_NEW(l->a, uint32_t, l->shards + 1);

            open[x->shape] = w.n_items++;
            items[open[x->shape]] = optimizer_matrix_item(l, i, l->m->tensors[i].numel);
            /* beyond the batch there is no tensor: who reads too far does not find the first one */
            memset(batch, 0xff, (l->shards + 1) * sizeof(*batch));
            items[open[x->shape]].batch = batch;
        }
        to = &items[open[x->shape]];
        ((uint32_t *)(uintptr_t)to->batch)[to->n_batch++] = i;
    }
    mem_free(alike);
    return program_add_work(&l->b, &w);
}

/* The matrix as it came, and Newton-Schulz's A and B. */
static uint64_t arrived_workspace_bytes(const struct lower *l, const struct work_item *w)
{
    return dtype_bytes(optimizer_travel_dtype(l->j), padded_matrix(l, w)) +
           dtype_bytes(DTYPE_BF16, 2 * w->m * w->m);
}

/* Every batch: a rank's rows of its matrices go to whoever works each, and come back as rows of the
 * updates. A batch comes while the one before is worked: it waits for a mark that stands before the
 * products, and so for the mark of the batch before. */
static void batch_loop(struct lower *l, const struct matrix_step *s, uint32_t held, uint32_t after,
                       uint32_t *out)
{
    uint32_t work = batch_work(l), space, in, next, products;
    enum dtype wire = optimizer_travel_dtype(l->j);
    const uint64_t *elements = by_item(l, work, padded_matrix);

    space = program_add_buffer(
        &l->b, &(struct buffer){.name = "optimizer.workspace",
                                .part = MEM_WORKSPACE,
                                .dtype = wire,
                                .rule = SIZE_BY_ITEM,
                                .span = SPAN_ITEM,
                                .holds = HOLDS_MATRIX,
                                .item_bytes = by_item(l, work, arrived_workspace_bytes)});
    program_open_loop(&l->b, &(struct loop){.kind = LOOP_ITEM, .work = work});
    in = shard_op(l, "optimizer.all_to_all", COLL_ALL_TO_ALL, STREAM_GATHER, wire, 1, elements, 0);
    next = program_add_op(&l->b, &(struct op){.name = "optimizer.next_batch",
                                              .kind = OP_MARK,
                                              .phase = PHASE_OPTIMIZER,
                                              .stream = STREAM_COMPUTE,
                                              .guard = {.unit_class = PROGRAM_NONE}});
    products = products_op(l, s, "");
    *out = shard_op(l, "optimizer.all_to_all.back", COLL_ALL_TO_ALL, STREAM_REDUCE, wire, 1,
                    elements, 0);
    program_op_wait(&l->b, in, (struct wait){.op = after});
    program_op_wait(&l->b, in, (struct wait){.op = next});
    program_op_wait(&l->b, products, (struct wait){.op = in});
    program_op_wait(&l->b, *out, (struct wait){.op = products});
    program_op_life(&l->b, in, (struct life){.buffer = space});
    program_op_life(&l->b, *out, (struct life){.buffer = space, .release = true});
    optimizer_operand(l, in, held, OPERAND_ITEM, ACCESS_READ);
    optimizer_operand(l, in, space, OPERAND_WHOLE, ACCESS_WRITE);
    optimizer_operand(l, products, space, OPERAND_WHOLE, ACCESS_ADD);
    optimizer_operand(l, *out, space, OPERAND_WHOLE, ACCESS_READ);
    optimizer_operand(l, *out, held, OPERAND_ITEM, ACCESS_WRITE);
    moves(l, in, held, space);
    moves(l, *out, space, held);
    program_close_loop(&l->b);
}

/* Rows of all matrices' momentum, the batches, rows of all updates. */
static void alltoall_step(struct lower *l, const struct matrix_step *s)
{
    struct matrix_loop x = {.work = optimizer_matrix_work(l, WORK_ALL, ITEMS_ALL, false),
                            .suffix = "",
                            .share = 1.0 / l->shards};
    enum dtype d = optimizer_travel_dtype(l->j);
    uint64_t rows = 0;
    uint32_t out;

    for (uint32_t i = 0; i < l->p->work_tables[x.work].n_items; i++)
        rows += padded_matrix(l, &l->p->work_tables[x.work].items[i]) / l->shards;
    x.held = program_add_buffer(&l->b, &(struct buffer){.name = "optimizer.rows",
                                                        .part = MEM_WORKSPACE,
                                                        .dtype = d,
                                                        .rule = SIZE_CONST,
                                                        .span = SPAN_STEP,
                                                        .holds = HOLDS_MATRIX_PARTS,
                                                        .cut = STATE,
                                                        .bytes = dtype_bytes(d, rows),
                                                        .work = x.work});
    x.after = hold_mark(l, "optimizer.rows.hold", x.held, false, l->optimizer_begin);
    x.after = momentum_loop(l, &x);
    batch_loop(l, s, x.held, x.after, &out);
    x.after = out;
    update_loop(l, &x);
    hold_mark(l, "optimizer.rows.drop", x.held, true, PROGRAM_NONE);
}

/* The matrices that a rank holds parts of and not all: at most one at either end of its slice. */
static uint64_t cut_held_bytes(const struct lower *l, const struct work_table *w)
{
    uint64_t most = 0;

    for (uint32_t r = 0; r < l->n; r++) {
        uint64_t sum = 0;

        for (uint32_t k = w->start[r]; k < w->start[r + 1]; k++)
            sum += l->m->tensors[w->items[w->list[k]].tensor].numel;
        most = num_max(most, sum);
    }
    return dtype_bytes(optimizer_travel_dtype(l->j), most);
}

/* The parts of matrices that boundaries cut, to all their holders: of momentum, or of gradients.
 * Where these are cut too they come into `buffer` from the reduced ones. */
static uint32_t cut_gather(struct lower *l, const struct matrix_step *s, uint32_t buffer,
                           const uint32_t *waits, uint32_t n)
{
    struct op o = optimizer_op("optimizer.cut_gather", OP_COLLECTIVE);
    uint32_t id;

    o.stream = STREAM_GATHER;
    o.coll = (struct collective){.kind = COLL_SEGMENT_GATHER,
                                 .traffic = TRAFFIC_OPTIMIZER,
                                 .group = l->shard,
                                 .algo = ALGO_RING,
                                 .table = s->cut_table,
                                 .wire = {.dtype = optimizer_travel_dtype(l->j)},
                                 .peer_op = PROGRAM_NONE};
    id = program_add_op(&l->b, &o);
    for (uint32_t i = 0; i < n; i++)
        program_op_wait(&l->b, id, (struct wait){.op = waits[i]});
    if (!optimizer_has_momentum(l) && !l->move.full_grads)
        optimizer_gradients(l, id, OPERAND_WHOLE);
    optimizer_operand(l, id, buffer, OPERAND_WHOLE, ACCESS_ADD);
    l->p->ops[id].coll.moved.from = STATE;
    l->p->ops[id].coll.moved.to = WHOLE;
    moves(l, id, buffer, buffer);
    return id;
}

/* Flat slices: the momentum (or gradients) of matrices that boundaries cut, their gather among the
 * holders, meanwhile the matrices that lie in one slice, then the products of the cut ones, by all
 * holders of each. */
static void slice_step(struct lower *l, const struct matrix_step *s)
{
    struct matrix_loop x = {.work = optimizer_matrix_work(l, WORK_BY_SLICE, ITEMS_CUT, false),
                            .suffix = ".cut",
                            .share = 1,
                            .after = l->optimizer_begin};
    struct matrix_loop whole = {
        .held = PROGRAM_NONE, .suffix = "", .share = 1, .after = l->optimizer_begin};
    bool cut = l->p->work_tables[x.work].n_items > 0;
    uint32_t waits[2], n = 1;

    if (cut) {
        x.held = program_add_buffer(
            &l->b, &(struct buffer){.name = "optimizer.cut",
                                    .part = MEM_WORKSPACE,
                                    .dtype = optimizer_travel_dtype(l->j),
                                    .rule = SIZE_CONST,
                                    .span = SPAN_STEP,
                                    .holds = HOLDS_MATRICES,
                                    .bytes = cut_held_bytes(l, &l->p->work_tables[x.work]),
                                    .work = x.work});
        waits[0] = x.after = hold_mark(l, "optimizer.cut.hold", x.held, false, l->optimizer_begin);
        if (optimizer_has_momentum(l))
            waits[n++] = momentum_loop(l, &x); /* a rank without cuts has the mark alone */
        x.after = cut_gather(l, s, x.held, waits, n);
    }
    whole.work = optimizer_matrix_work(l, WORK_BY_SLICE, ITEMS_WHOLE, false);
    matrix_loop(l, s, &whole);
    if (!cut)
        return;
    matrix_loop(l, s, &x);
    hold_mark(l, "optimizer.cut.drop", x.held, true, x.after);
}

void lower_matrix_step(struct lower *l, const struct matrix_step *s)
{
    struct matrix_loop x = {.held = PROGRAM_NONE, .suffix = "", .after = l->optimizer_begin};
    struct matrix_step step = *s;

    step.products = s->products && l->shards > 1;
    if (!optimizer_row(l->j->optimizer)->matrices || !l->m->matrix_tensors)
        return;
    if (s->gather_once) {
        once_step(l, &step);
    } else if (s->alltoall && l->shards > 1) {
        alltoall_step(l, &step);
    } else if (s->cut_table != PROGRAM_NONE && (optimizer_has_momentum(l) || !l->move.full_grads)) {
        slice_step(l, &step);
    } else {
        if (s->cut_table != PROGRAM_NONE)
            x.after = cut_gather(l, s, l->grads, &x.after, 1);
        x.work = optimizer_matrix_work(l, s->work, ITEMS_ALL,
                                       !s->sharded && s->cut_table == PROGRAM_NONE);
        x.share = s->sharded ? 1.0 / l->shards : 1.0;
        matrix_loop(l, &step, &x);
    }
}
