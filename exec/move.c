/* The program's collectives: what is packed from where, moved by exec/collective.h, and put where.
 *
 * A collective says from which cut of which tensors to which cut it leads, and in which buffers
 * (struct moved). An even one moves a list of parts for each rank (exec/pack.h), an owners' one its
 * segments.
 */
#include "exec/pack.h"
#include "exec/plant.h"

#include "core/num.h"
#include "model/plan/optimizers.h"
#include "model/plan/segment_algo.h"

const struct coll_group *run_group(const struct exec_run *r, const struct op *o)
{
    return &r->groups[o->coll.group];
}

void run_call(struct exec_run *r, const struct op *o, struct coll_call *c)
{
    c->ordered = r->o.ordered;
    r->b->lib->collective(r->b, r->stream, run_group(r, o), c);
}

/* Segments in one call; or, as the framework broadcasts them, each in a call of its own. What is
 * padded to equal parts is one call in any case. */
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

/* An all-gather of n parts; or, as the framework broadcasts them, each part along the ring from its
 * rank. */
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
    const struct pack_scope s = pack_scope(r, o, i);
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
    const struct pack_scope s = pack_scope(r, o, i);
    uint64_t room = pack_room(r, &s, o->coll.moved.to, r->t->rank);
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
    const struct pack_scope s = pack_scope(r, o, i);
    enum component part = o->coll.moved.from;
    uint64_t first = o->coll.moved.first ? o->coll.moved.first[i->unit] : 0,
             all = o->coll.moved.first ? op_coll_elements(r->p, o, i)
                                       : pack_room(r, &s, part, r->t->rank),
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

/* The rank's own parts of the unit between two buffers, of which one may have more of each tensor.
 */
static void own_parts(struct exec_run *r, const struct op *o, const struct instance *i,
                      const struct run_buffer *from, const struct run_buffer *to, bool adds)
{
    const struct pack_scope s = pack_scope(r, o, i);

    for (uint32_t t = s.first; t < s.first + s.n; t++) {
        struct run_view x = run_part(r, from, t), y = run_part(r, to, t);

        if (!pack_travels(r, &s, t) || !x.elements)
            continue;
        if (adds)
            pack_add(r, o->coll.wire.dtype, y.data, x.data, x.elements);
        else
            run_copy(r, y.data, x.data, dtype_bytes(o->coll.wire.dtype, x.elements));
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
    plant_gather(r, i, &c);
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

/* A batch: this rank's rows of its k-th matrix to place k, which has them all then; or the rows of
 * what it made of them back. Places beyond the batch get and give nothing that counts. */
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

/* The matrices that slice boundaries cut, among their holders. The table counts offsets from each
 * matrix's start; the rank's copies (Muon's momentum; gradients where a rank has its slice's alone)
 * stand one after another, whole gradients where they are among all. */
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
