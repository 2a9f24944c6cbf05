/* The program's collectives: what is packed from where, moved by exec/collective.h, and put where.
 *
 * A collective says from which cut of which tensors to which cut it leads, and in which buffers (struct moved); where a part
 * is comes from model/plan/placement.h, where a tensor stands in a buffer from exec/tensors.c. An even collective moves a
 * list for each rank: that rank's part of every tensor, one after another in the room that all parts have.
 */
#include "exec/run.h"

#include "core/num.h"
#include "model/plan/optimizers.h"
#include "model/plan/segment_algo.h"

#include <string.h>

const struct coll_group *run_group(const struct exec_run *r, const struct op *o)
{
    return &r->groups[o->coll.group];
}

void run_call(struct exec_run *r, const struct op *o, struct coll_call *c)
{
    c->ordered = r->o.ordered;
    r->b->lib->collective(r->b, r->stream, run_group(r, o), c);
}

/* Segments in one call; or, as the framework broadcasts them, each in a call of its own. What is padded to equal parts is
 * one call in any case. */
static void run_segments(struct exec_run *r, const struct op *o, const struct coll_call *all)
{
    struct coll_call c = *all;
    bool apart = o->coll.calls == CALLS_BROADCASTS && !segment_algo(all->algo)->even;
    uint32_t each = apart ? 1 : all->n_segments;

    for (uint32_t k = 0; k < all->n_segments; k += each) {
        c.segments = all->segments + k;
        c.n_segments = each;
        run_call(r, o, &c);
    }
}

/* An all-gather of n parts; or, as the framework broadcasts them, each part along the ring from its rank. */
static void run_parts(struct exec_run *r, const struct op *o, struct coll_call *c)
{
    uint32_t n = run_group(r, o)->n;
    struct wire_segment *parts;

    if (o->coll.calls != CALLS_BROADCASTS || !c->chunk_bytes) {
        run_call(r, o, c);
        return;
    }
    parts = MEM_NEW(struct wire_segment, n);
    for (uint32_t k = 0; k < n; k++)
        parts[k] = (struct wire_segment){
            .root = k, .to_n = n, .offset = k * c->chunk_bytes, .bytes = c->chunk_bytes};
    c->kind = COLL_SEGMENT_GATHER;
    c->algo = ALGO_RING;
    c->segments = parts;
    c->n_segments = n;
    run_segments(r, o, c);
    mem_free(parts);
}

/* ---- lists of parts ---- */

/* The finer of the two cuts: whose parts are on the lists. */
static enum component finer(const struct exec_run *r, const struct moved *m)
{
    return placement_parts(r->plan, m->from) > placement_parts(r->plan, m->to) ? m->from : m->to;
}

/* The tensors of an operation, in the order in which they are on lists: those from `first` on that travel(). */
struct scope {
    const struct op *o;
    uint32_t first, n;
    bool units; /* of one unit: the others travel with the unit's other operation */
    bool
        segments; /* those that owners or flat slices hold; else those that are cut by rows, or not at all */
};

static struct scope scope_of(const struct exec_run *r, const struct op *o, const struct instance *i)
{
    struct scope s = {.o = o, .n = r->p->model->n_tensors};

    s.segments = o->coll.table != PROGRAM_NONE;
    if (op_in_loop(r->p, o, LOOP_ITEM)) {
        s.first = run_item(r, o, i);
        s.n = 1;
    } else if (op_in_loop(r->p, o, LOOP_UNIT) && !o->coll.moved.first) {
        s.first = r->p->model->units[i->unit].first;
        s.n = r->p->model->units[i->unit].n;
        s.units = true;
    }
    return s;
}

static bool travels(const struct exec_run *r, const struct scope *s, uint32_t tensor)
{
    enum place_rule rule = r->plan->place[tensor].rule;

    if (s->units && placement_parts(r->plan, finer(r, &s->o->coll.moved)) > 1)
        return (rule == PLACE_OWNER || rule == PLACE_FLAT) == s->segments;
    return s->o->coll.traffic != TRAFFIC_OPTIMIZER || r->held.t[tensor].matrix;
}

/* Elements of a list: the room of every part. */
static uint64_t list_room(const struct exec_run *r, const struct scope *s, enum component c,
                          uint32_t rank)
{
    uint64_t sum = 0;

    for (uint32_t t = s->first; t < s->first + s->n; t++)
        if (travels(r, s, t))
            sum += placement_extent(r->plan, t, c, rank).room;
    return sum;
}

enum pack { PACK, UNPACK, UNPACK_ADD };

static void add_to(struct exec_run *r, enum dtype d, char *to, const char *from, uint64_t n)
{
    const struct kernel_on on = {.act = d, .weight = d, .grad = d};
    const struct kernel_sum a = {.n = n, .type = d, .x = to, .y = from, .out = to};

    launch_sum(r->b, r->stream, &on, &a);
}

/* Elements [from, to) of a rank's list between a buffer that has these parts, or more of each tensor, and `packed`. What an
 * update starts from is read through run_gradient(). */
static void pack_list(struct exec_run *r, const struct scope *s, enum component c, uint32_t rank,
                      uint64_t from, uint64_t to, const struct run_buffer *b, char *packed,
                      enum pack how)
{
    bool gradient = s->o->coll.traffic == TRAFFIC_OPTIMIZER && how == PACK &&
                    r->p->buffers[b->buffer].part == MEM_GRADS;
    size_t size = dtype_bytes(s->o->coll.wire.dtype, 1);
    uint64_t at = 0;

    for (uint32_t t = s->first; t < s->first + s->n && at < to; t++) {
        struct extent x;
        struct run_view v;
        uint64_t lower, upper;
        char *here;

        if (!travels(r, s, t))
            continue;
        x = placement_extent(r->plan, t, c, rank);
        lower = num_max(from, at);
        upper = num_min(to, at + x.n);
        if (lower < upper) {
            v = gradient ? run_gradient(r, t) : run_tensor(r, b, t);
            here = v.data + (x.first + lower - at - v.first) * size;
            if (how == PACK)
                run_copy(r, packed + (lower - from) * size, here, (upper - lower) * size);
            else if (how == UNPACK)
                run_copy(r, here, packed + (lower - from) * size, (upper - lower) * size);
            else
                add_to(r, s->o->coll.wire.dtype, here, packed + (lower - from) * size,
                       upper - lower);
        }
        at += x.room;
    }
}

static struct run_buffer *from_buffer(struct exec_run *r, const struct op *o,
                                      const struct instance *i)
{
    return run_live(r, o->coll.moved.from_buffer, i, 0);
}

static struct run_buffer *to_buffer(struct exec_run *r, const struct op *o,
                                    const struct instance *i)
{
    return run_live(r, o->coll.moved.to_buffer, i, 0);
}

/* Elements of a call where `all` are cut into calls of a piece. */
static uint64_t piece_of(const struct collective *k, uint64_t all)
{
    return k->piece ? num_min(k->piece, all) : all;
}

/* What the sum over n ranks is multiplied by, here. */
static double mean_of(const struct exec_run *r, uint64_t n)
{
    return run_has(r, RUN_SUM) ? 1 : (run_has(r, RUN_TWICE) ? 2 : 1) / (double)n;
}

/* ---- even collectives ---- */

/* Every rank's list to all: calls of `piece` take the next part of each list. */
static void all_gather(struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct coll_group *g = run_group(r, o);
    const struct scope s = scope_of(r, o, i);
    const struct run_buffer *from = from_buffer(r, o, i), *to = to_buffer(r, o, i);
    size_t size = dtype_bytes(o->coll.wire.dtype, 1);
    uint64_t all = op_coll_elements(r->p, o, i), piece = piece_of(&o->coll, all), done = 0;

    for (uint64_t at = 0; at < all; at += piece) {
        uint64_t chunk = num_ceil_div(num_min(piece, all - at), g->n);
        struct coll_call c = {.kind = COLL_ALL_GATHER,
                              .dtype = o->coll.wire.dtype,
                              .data = run_scratch(r, SCRATCH_PACK, g->n * chunk * size),
                              .chunk_bytes = chunk * size};
        char *parts = c.data;

        run_zero(r, parts + g->self * c.chunk_bytes, c.chunk_bytes);
        pack_list(r, &s, o->coll.moved.from, g->ranks[g->self], done, done + chunk, from,
                  parts + g->self * c.chunk_bytes, PACK);
        run_parts(r, o, &c);
        for (uint32_t k = 0; k < g->n; k++)
            pack_list(r, &s, o->coll.moved.from, g->ranks[k], done, done + chunk, to,
                      parts + k * c.chunk_bytes, UNPACK);
        done += chunk;
    }
}

/* Sums of every rank's list, each to its rank. */
static void reduce_scatter(struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct coll_group *g = run_group(r, o);
    const struct scope s = scope_of(r, o, i);
    uint64_t room = list_room(r, &s, o->coll.moved.to, r->t->rank);
    struct coll_call c = {.kind = COLL_REDUCE_SCATTER,
                          .dtype = o->coll.wire.dtype,
                          .chunk_bytes = dtype_bytes(o->coll.wire.dtype, room),
                          .scale = mean_of(r, g->n)};
    char *parts = c.data = run_scratch(r, SCRATCH_PACK, g->n * c.chunk_bytes);

    run_zero(r, parts, g->n * c.chunk_bytes);
    for (uint32_t k = 0; k < g->n; k++)
        pack_list(r, &s, o->coll.moved.to, g->ranks[k], 0, room, from_buffer(r, o, i),
                  parts + k * c.chunk_bytes, PACK);
    run_call(r, o, &c);
    pack_list(r, &s, o->coll.moved.to, r->t->rank, 0, room, to_buffer(r, o, i),
              parts + g->self * c.chunk_bytes, o->coll.moved.adds ? UNPACK_ADD : UNPACK);
}

/* The sum of a list that all ranks have alike: of the unit's parts, or of a range of the model. */
static void all_reduce(struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct coll_group *g = run_group(r, o);
    const struct scope s = scope_of(r, o, i);
    enum component part = o->coll.moved.from;
    uint64_t first = o->coll.moved.first ? o->coll.moved.first[i->unit] : 0,
             all = o->coll.moved.first ? op_coll_elements(r->p, o, i)
                                       : list_room(r, &s, part, r->t->rank),
             piece = piece_of(&o->coll, all);

    for (uint64_t at = first; at < first + all; at += piece) {
        uint64_t n = num_min(piece, first + all - at);
        struct coll_call c = {.kind = COLL_ALL_REDUCE,
                              .dtype = o->coll.wire.dtype,
                              .chunk_bytes = dtype_bytes(o->coll.wire.dtype, num_ceil_div(n, g->n)),
                              .scale = mean_of(r, g->n)};

        c.data = run_scratch(r, SCRATCH_PACK, g->n * c.chunk_bytes);
        run_zero(r, c.data, g->n * c.chunk_bytes);
        pack_list(r, &s, part, r->t->rank, at, at + n, from_buffer(r, o, i), c.data, PACK);
        run_call(r, o, &c);
        pack_list(r, &s, part, r->t->rank, at, at + n, to_buffer(r, o, i), c.data,
                  o->coll.moved.adds ? UNPACK_ADD : UNPACK);
    }
}

/* ---- segments ---- */

/* To free with the call's segments. */
static struct wire_segment *segments_of(struct exec_run *r, const struct op *o,
                                        const struct instance *i, struct coll_call *c)
{
    struct wire_segment *s =
        wire_segments(&r->p->segment_tables[o->coll.table], i->unit, &o->coll.wire, &c->n_segments);

    c->segments = s;
    c->algo = o->coll.algo == ALGO_AUTO ? ALGO_RING : o->coll.algo;
    c->dtype = o->coll.wire.dtype;
    return s;
}

/* Where the segments of a unit, or of a bucket, are counted from: `b` has whole tensors. */
static char *segments_from(struct exec_run *r, const struct op *o, const struct instance *i,
                           const struct run_buffer *b)
{
    if (o->coll.moved.first)
        return (char *)b->data + dtype_bytes(o->coll.wire.dtype, o->coll.moved.first[i->unit]);
    return run_tensor(r, b, r->p->model->units[i->unit].first).data;
}

/* The rank's own parts of the unit between two buffers, of which one may have more of each tensor. */
static void own_parts(struct exec_run *r, const struct op *o, const struct instance *i,
                      const struct run_buffer *from, const struct run_buffer *to, bool adds)
{
    const struct scope s = scope_of(r, o, i);

    for (uint32_t t = s.first; t < s.first + s.n; t++) {
        struct run_view x = run_part(r, from, t), y = run_part(r, to, t);

        if (!travels(r, &s, t) || !x.elements)
            continue;
        if (adds)
            add_to(r, o->coll.wire.dtype, y.data, x.data, x.elements);
        else
            run_copy(r, y.data, x.data, dtype_bytes(o->coll.wire.dtype, x.elements));
    }
}

/* Planted faults, so that tests see the check find them. */
static void plant(struct exec_run *r, const struct instance *i, const struct coll_call *c)
{
    const struct model *m = r->p->model;
    size_t size = dtype_bytes(c->dtype, 1), bytes = m->units[i->unit].numel * size;
    const struct wire_segment *s = c->segments;

    if (i->unit != (m->n_units > 1))
        return;
    if (run_has(r, RUN_SHIFT) && c->n_segments) {
        char *aside = run_scratch(r, SCRATCH_PACK, s->bytes);

        run_copy(r, aside, (char *)c->data + s->offset, s->bytes);
        run_copy(r, (char *)c->data + s->offset + size, aside, s->bytes - size);
    }
    if (!run_has(r, RUN_STALE))
        return;
    if (r->stale) {
        run_copy(r, c->data, r->stale, bytes);
        return;
    }
    r->stale = backend_alloc(r->b, r->stream, bytes);
    r->stale_bytes = bytes;
    run_copy(r, r->stale, c->data, bytes);
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

static void gather_segments(struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct run_buffer *from = from_buffer(r, o, i), *to = to_buffer(r, o, i);
    struct coll_call c = {.kind = COLL_SEGMENT_GATHER, .data = segments_from(r, o, i, to)};
    struct wire_segment *s;

    s = segments_of(r, o, i, &c);
    if (from != to)
        own_parts(r, o, i, from, to, false);
    run_segments(r, o, &c);
    plant(r, i, &c);
    mem_free(s);
}

static void reduce_segments(struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct run_buffer *from = from_buffer(r, o, i), *to = to_buffer(r, o, i);
    struct coll_call c = {.kind = COLL_SEGMENT_REDUCE,
                          .data = segments_from(r, o, i, from),
                          .scale = mean_of(r, run_group(r, o)->n)};
    struct wire_segment *s;

    s = segments_of(r, o, i, &c);
    run_call(r, o, &c);
    mem_free(s);
    if (from != to)
        own_parts(r, o, i, from, to, o->coll.moved.adds);
}

/* ---- in the optimizer ---- */

/* A batch: this rank's rows of its k-th matrix to place k, which has them all then; or the rows of what it made of them back. Places
 * beyond the batch get and give nothing that counts. */
static void exchange_batch(struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct work_item *x = &r->p->work_tables[r->p->loops[o->loop].work].items[i->item];
    bool back = r->p->buffers[o->operands[1].buffer].holds == HOLDS_MATRIX_PARTS;
    const struct run_buffer *rows = run_live(r, o->operands[back ? 1 : 0].buffer, i, 0);
    char *matrix = run_operand(r, o, i, back ? 0 : 1).data, *parts;
    uint32_t n = run_group(r, o)->n;
    struct coll_call c = {.kind = COLL_ALL_TO_ALL,
                          .dtype = o->coll.wire.dtype,
                          .chunk_bytes =
                              dtype_bytes(o->coll.wire.dtype, r->held.t[x->tensor].room)};

    c.data = parts = back ? matrix : run_scratch(r, SCRATCH_PACK, n * c.chunk_bytes);
    for (uint32_t k = 0; k < n && !back; k++)
        if (k < x->n_batch)
            run_copy(r, parts + k * c.chunk_bytes, run_tensor(r, rows, x->batch[k]).data,
                     c.chunk_bytes);
        else
            run_zero(r, parts + k * c.chunk_bytes, c.chunk_bytes);
    run_call(r, o, &c);
    if (!back)
        run_copy(r, matrix, parts, n * c.chunk_bytes);
    for (uint32_t k = 0; k < x->n_batch && back; k++)
        run_copy(r, run_tensor(r, rows, x->batch[k]).data, parts + k * c.chunk_bytes,
                 c.chunk_bytes);
}

/* The matrices that slice boundaries cut, among their holders. The table counts offsets from each matrix's start; the
 * rank's copies (Muon's momentum; gradients where a rank has its slice's alone) stand one after another, whole gradients
 * where they are among all. */
static void gather_cut(struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct run_buffer *among =
        run_live(r, o->operands[o->n_operands - 1].buffer, i, 0); /* what it adds to */
    struct coll_call c = {.kind = COLL_SEGMENT_GATHER, .data = among->data};
    bool gradients = r->p->buffers[among->buffer].holds == HOLDS_MATRICES &&
                     optimizer_row(r->plan->job.optimizer)->start == START_GRADIENT;
    struct wire_segment *mine = segments_of(r, o, i, &c);

    for (uint32_t k = 0; k < c.n_segments; k++) {
        if (r->place < mine[k].to_first || r->place >= mine[k].to_first + mine[k].to_n)
            continue;
        mine[k].offset += (uint64_t)(run_tensor(r, among, mine[k].tensor).data - (char *)c.data);
        if (gradients && mine[k].root == r->place)
            run_copy(r, (char *)c.data + mine[k].offset, run_gradient(r, mine[k].tensor).data,
                     mine[k].bytes);
    }
    run_call(r, o, &c);
    mem_free(mine);
}

int run_collective(struct exec_run *r, const struct op *o, const struct instance *i)
{
    if (o->coll.interleaved)
        return 0; /* sharded.c */
    switch (o->coll.kind) {
    case COLL_ALL_REDUCE:
        all_reduce(r, o, i);
        return 0;
    case COLL_REDUCE_SCATTER:
        reduce_scatter(r, o, i);
        return 0;
    case COLL_ALL_GATHER:
        all_gather(r, o, i);
        return 0;
    case COLL_SEGMENT_REDUCE:
        reduce_segments(r, o, i);
        return 0;
    case COLL_SEGMENT_GATHER:
        if (o->coll.traffic == TRAFFIC_OPTIMIZER)
            gather_cut(r, o, i);
        else
            gather_segments(r, o, i);
        return 0;
    case COLL_ALL_TO_ALL:
        exchange_batch(r, o, i);
        return 0;
    case COLL_BROADCAST:
    case COLL_REDUCE:
    case COLL_SEND:
    case COLL_RECV:
    case COLL_N:
        break;
    }
    return err_set(r->e, ERR_UNSUPPORTED, "exec runs no %s", coll_kind_name(o->coll.kind));
}
