/* The program's collectives: what is packed from where, moved by exec/collective.h, and put where. */
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
    struct segment *parts;

    if (o->coll.calls != CALLS_BROADCASTS || !c->chunk_bytes) {
        run_call(r, o, c);
        return;
    }
    parts = MEM_NEW(struct segment, n);
    for (uint32_t k = 0; k < n; k++)
        parts[k] = (struct segment){
            .root = k, .to_n = n, .offset = k * c->chunk_bytes, .bytes = c->chunk_bytes};
    c->kind = COLL_SEGMENT_GATHER;
    c->algo = ALGO_RING;
    c->segments = parts;
    c->n_segments = n;
    run_segments(r, o, c);
    mem_free(parts);
}

static enum coll_algo algorithm(const struct op *o)
{
    return o->coll.algo == ALGO_AUTO ? ALGO_RING : o->coll.algo;
}

/* ---- chunks of rows: every tensor of a unit that is cut by rows, one after the other in each rank's part ---- */

struct chunks {
    uint64_t bytes; /* of one rank */
    uint32_t unit;
    size_t size; /* of an element */
};

static struct chunks chunks_of(struct exec_run *r, uint32_t unit, enum dtype d)
{
    struct chunks c = {.unit = unit, .size = dtype_bytes(d, 1)};
    const struct unit *u = &r->p->model->units[unit];

    for (uint32_t i = u->first; i < u->first + u->n; i++)
        if (r->p->place[i].rule == PLACE_CHUNK)
            c.bytes += r->held.t[i].room * c.size;
    return c;
}

/* Copy place `place`'s rows between a buffer of the unit's whole tensors and its part. */
static void copy_rows(struct exec_run *r, const struct chunks *c, uint32_t place,
                      const struct run_buffer *b, char *part, bool to_part)
{
    const struct unit *u = &r->p->model->units[c->unit];
    uint64_t at = 0;

    for (uint32_t i = u->first; i < u->first + u->n; i++) {
        const struct tensor *t = &r->p->model->tensors[i];
        uint64_t rows = placement_rows(r->plan, t, STATE);
        uint64_t first = num_min(place * rows, t->rows);
        uint64_t n = (num_min(first + rows, t->rows) - first) * t->cols * c->size;
        char *whole;

        if (r->p->place[i].rule != PLACE_CHUNK)
            continue;
        whole = run_tensor(r, b, i).data + first * t->cols * c->size;
        run_copy(r, to_part ? part + at : whole, to_part ? whole : part + at, n);
        at += rows * t->cols * c->size;
    }
}

/* The rank's own rows, from a buffer of whole tensors or of the rank's parts. */
static void copy_own(struct exec_run *r, const struct chunks *c, const struct run_buffer *b,
                     char *part)
{
    const struct unit *u = &r->p->model->units[c->unit];

    for (uint32_t i = u->first; i < u->first + u->n; i++) {
        if (r->p->place[i].rule != PLACE_CHUNK)
            continue;
        run_copy(r, part, run_part(r, b, i).data, r->held.t[i].n * c->size);
        part += r->held.t[i].room * c->size;
    }
}

/* ---- gathers of parameters ---- */

/* Planted faults, so that tests see the check find them. */
static void plant(struct exec_run *r, const struct instance *i, const struct coll_call *c)
{
    const struct model *m = r->p->model;
    size_t size = dtype_bytes(c->dtype, 1), bytes = m->units[i->unit].numel * size;
    const struct segment *s = c->segments;

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

static void gather_even(struct exec_run *r, const struct op *o, const struct instance *i,
                        bool refresh)
{
    enum dtype d = o->coll.wire;
    struct chunks c = chunks_of(r, i->unit, d);
    uint32_t n = run_group(r, o)->n;
    char *parts = run_scratch(r, SCRATCH_PACK, n * c.bytes), *mine = parts + r->place * c.bytes;
    const struct run_buffer *params = run_find(r, r->p->known.params, 0, 0);
    const struct run_buffer *whole =
        refresh ? params : run_find(r, r->p->known.weights, i->unit, i->micro);
    struct coll_call call = {
        .kind = COLL_ALL_GATHER, .dtype = d, .data = parts, .chunk_bytes = c.bytes};

    run_zero(r, mine, c.bytes);
    copy_own(r, &c, params, mine);
    run_parts(r, o, &call);
    for (uint32_t k = 0; k < n; k++)
        copy_rows(r, &c, k, whole, parts + k * c.bytes, false);
}

/* The flat slices of all parameters, in pieces: each is cut into n parts, the next part of every rank's slice. */
static void gather_slices(struct exec_run *r, const struct op *o, const struct instance *i)
{
    size_t size = dtype_bytes(o->coll.wire, 1);
    uint64_t n = run_group(r, o)->n, all = op_coll_bytes(r->p, o, i) / size;
    uint64_t slice = placement_slice(r->plan, STATE);
    uint64_t piece = o->coll.piece_bytes && o->coll.piece_bytes < all * size
                         ? num_max(o->coll.piece_bytes / size, 1)
                         : all;
    uint64_t total = r->p->model->total_params, done = 0;
    char *params = run_find(r, r->p->known.params, 0, 0)->data;

    for (uint64_t at = 0; at < all; at += piece) {
        uint64_t chunk = num_ceil_div(num_min(piece, all - at), n),
                 end = num_min(done + chunk, slice);
        char *parts = run_scratch(r, SCRATCH_PACK, n * chunk * size);
        struct coll_call c = {.kind = COLL_ALL_GATHER,
                              .dtype = o->coll.wire,
                              .data = parts,
                              .chunk_bytes = chunk * size};

        run_zero(r, parts, n * chunk * size);
        for (int out = 0; out < 2; out++) {
            for (uint64_t k = out ? 0 : r->place; k < (out ? n : r->place + 1); k++) {
                uint64_t first = num_min(k * slice + done, total),
                         stop = num_min(k * slice + end, total);
                char *part = parts + k * chunk * size, *whole = params + first * size;

                if (stop > first)
                    run_copy(r, out ? whole : part, out ? part : whole, (stop - first) * size);
            }
            if (!out)
                run_parts(r, o, &c);
        }
        done = end;
    }
}

static void segments_of(struct exec_run *r, const struct op *o, const struct instance *i,
                        struct coll_call *c)
{
    const struct segment_table *t = &r->p->segment_tables[o->coll.table];
    uint32_t u = t->n_units == 1 ? 0 : i->unit;

    c->segments = t->segments + t->start[u];
    c->n_segments = t->start[u + 1] - t->start[u];
    c->algo = algorithm(o);
    c->dtype = o->coll.wire;
}

/* Among the parameters themselves, or from the owners' parts of them into the gathered unit. */
static void gather_owned(struct exec_run *r, const struct op *o, const struct instance *i,
                         bool refresh)
{
    const struct unit *u = &r->p->model->units[i->unit];
    const struct run_buffer *params = run_find(r, r->p->known.params, 0, 0);
    const struct run_buffer *to =
        refresh ? params : run_find(r, r->p->known.weights, i->unit, i->micro);
    struct coll_call c = {.kind = COLL_SEGMENT_GATHER, .data = run_tensor(r, to, u->first).data};

    segments_of(r, o, i, &c);
    for (uint32_t k = u->first; k < u->first + u->n && !refresh; k++)
        if (r->p->place[k].rule == PLACE_OWNER && r->held.t[k].n)
            run_copy(r, run_part(r, to, k).data, run_part(r, params, k).data,
                     dtype_bytes(o->coll.wire, r->held.t[k].n));
    run_segments(r, o, &c);
    plant(r, i, &c);
}

/* ---- reductions ---- */

/* What the sum over n ranks is multiplied by, here. */
static double mean_of(const struct exec_run *r, uint64_t n)
{
    return run_has(r, RUN_SUM) ? 1 : (run_has(r, RUN_TWICE) ? 2 : 1) / (double)n;
}

/* All-reduce of the bucket that ends where the last one began, in pieces. */
static void reduce_bucket(struct exec_run *r, const struct op *o, const struct instance *i)
{
    enum dtype d = o->coll.wire;
    size_t size = dtype_bytes(d, 1);
    uint64_t elements = op_coll_bytes(r->p, o, i) / size, first = r->bucket_end - elements,
             n = run_group(r, o)->n;
    uint64_t piece = o->coll.piece_bytes && o->coll.piece_bytes < elements * size
                         ? num_max(o->coll.piece_bytes / size, 1)
                         : elements;
    char *grads = (char *)run_find(r, r->p->known.grads, 0, 0)->data + first * size;

    r->bucket_end = first;
    for (uint64_t at = 0; at < elements; at += piece) {
        uint64_t k = num_min(piece, elements - at), chunk = num_ceil_div(k, n) * size;
        char *parts = run_scratch(r, SCRATCH_PACK, n * chunk);
        struct coll_call c = {.kind = COLL_ALL_REDUCE,
                              .dtype = d,
                              .data = parts,
                              .chunk_bytes = chunk,
                              .scale = mean_of(r, n)};

        run_zero(r, parts, n * chunk);
        run_copy(r, parts, grads + at * size, k * size);
        run_call(r, o, &c);
        run_copy(r, grads + at * size, parts, k * size);
    }
}

static void add_to(struct exec_run *r, enum dtype d, char *to, const char *from, uint64_t n)
{
    const struct kernel_on on = {.act = d, .weight = d, .grad = d};
    const struct kernel_sum a = {.n = n, .type = d, .x = to, .y = from, .out = to};

    launch_sum(r->b, r->stream, &on, &a);
}

/* Do all tensors' gradients stay on the rank, so that they are reduced where they are? */
static bool in_place(const struct exec_run *r)
{
    return r->p->buffers[r->p->known.grads].holds == HOLDS_MODEL;
}

/* A unit's whole gradients, all-reduced, then added to what earlier micro-batches left: the reference of check.c. */
static void reduce_whole(struct exec_run *r, const struct op *o, const struct instance *i)
{
    size_t size = dtype_bytes(o->coll.wire, 1);
    uint64_t elements = op_coll_bytes(r->p, o, i) / size, n = run_group(r, o)->n;
    struct coll_call c = {.kind = COLL_ALL_REDUCE,
                          .dtype = o->coll.wire,
                          .chunk_bytes = num_ceil_div(elements, n) * size,
                          .scale = mean_of(r, n)};
    char *parts = c.data = run_scratch(r, SCRATCH_PACK, n * c.chunk_bytes);

    run_zero(r, parts, n * c.chunk_bytes);
    run_copy(r, parts, run_find(r, r->p->known.grads, i->unit, i->micro)->data, elements * size);
    run_call(r, o, &c);
    add_to(r, o->coll.wire, run_find(r, r->p->known.grad_shard, i->unit, 0)->data, parts, elements);
}

static void reduce_even(struct exec_run *r, const struct op *o, const struct instance *i)
{
    enum dtype d = o->coll.wire;
    struct chunks c = chunks_of(r, i->unit, d);
    uint32_t n = run_group(r, o)->n;
    const struct run_buffer *grads = run_find(r, r->p->known.grads, i->unit, i->micro);
    char *parts = run_scratch(r, SCRATCH_PACK, n * c.bytes);
    struct coll_call call = {.kind = COLL_REDUCE_SCATTER,
                             .dtype = d,
                             .data = parts,
                             .chunk_bytes = c.bytes,
                             .scale = mean_of(r, n)};

    run_zero(r, parts, n * c.bytes);
    for (uint32_t k = 0; k < n; k++)
        copy_rows(r, &c, k, grads, parts + k * c.bytes, true);
    run_call(r, o, &call);
    parts += r->place * c.bytes;
    if (in_place(r))
        copy_rows(r, &c, r->place, grads, parts, false);
    else
        add_to(r, d, run_find(r, r->p->known.grad_shard, i->unit, 0)->data, parts,
               c.bytes / c.size);
}

/* Flat slices among whole gradients: the segments of the bucket that ends where the last one began. */
static void reduce_slices(struct exec_run *r, const struct op *o, const struct instance *i)
{
    size_t size = dtype_bytes(o->coll.wire, 1);
    struct coll_call c = {.kind = COLL_SEGMENT_REDUCE, .scale = mean_of(r, run_group(r, o)->n)};

    segments_of(r, o, i, &c);
    r->bucket_end -= op_coll_bytes(r->p, o, i) / size;
    c.data = (char *)run_find(r, r->p->known.grads, 0, 0)->data + r->bucket_end * size;
    run_call(r, o, &c);
}

/* A unit's segments: what owners have of it, or flat slices that keep no more than theirs. */
static void reduce_segments(struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct unit *u = &r->p->model->units[i->unit];
    const struct run_buffer *grads = run_find(r, r->p->known.grads, i->unit, i->micro), *to;
    struct coll_call c = {.kind = COLL_SEGMENT_REDUCE,
                          .data = run_tensor(r, grads, u->first).data,
                          .scale = mean_of(r, run_group(r, o)->n)};

    segments_of(r, o, i, &c);
    run_call(r, o, &c);
    if (in_place(r))
        return;
    to = run_find(r, r->p->known.grad_owned, i->unit, 0);
    for (uint32_t k = u->first; k < u->first + u->n; k++) {
        struct run_view mine = run_tensor(r, to, k);

        if (mine.elements)
            add_to(r, o->coll.wire, mine.data, run_part(r, grads, k).data, mine.elements);
    }
}

/* What the rank has of a unit's reduced gradients, owned or by rows, between whole gradients and one list of it. */
static void copy_reduced(struct exec_run *r, const struct op *o, const struct instance *i,
                         char *list, bool to_list)
{
    const struct unit *u = &r->p->model->units[i->unit];
    char *grads = run_find(r, r->p->known.grads, 0, 0)->data;
    size_t size = dtype_bytes(o->coll.wire, 1);

    for (uint32_t k = u->first; k < u->first + u->n; k++) {
        const struct held_tensor *h = &r->held.t[k];
        char *mine = grads + (h->flat_at + h->first) * size;

        if ((r->p->place[k].rule == PLACE_OWNER) != o->coll.rooted)
            continue;
        run_copy(r, to_list ? list : mine, to_list ? mine : list, h->n * size);
        list += h->room * size;
    }
}

/* All-reduce of a unit's reduced gradients in place: the rank's even part, or what it owns, which may be nothing. */
static void reduce_copies(struct exec_run *r, const struct op *o, const struct instance *i)
{
    struct run_buffer *b = run_find(r, o->operands[0].buffer, i->unit, 0);
    bool whole = in_place(r);
    size_t size = dtype_bytes(o->coll.wire, 1);
    uint32_t n = run_group(r, o)->n;
    uint64_t bytes = !whole           ? b->bytes
                     : o->coll.rooted ? segment_table_rooted(&r->p->segment_tables[o->coll.table],
                                                             i->unit, r->place)
                                      : op_coll_bytes(r->p, o, i);
    struct coll_call c = {.kind = COLL_ALL_REDUCE,
                          .dtype = o->coll.wire,
                          .chunk_bytes = num_ceil_div(bytes / size, n) * size,
                          .scale = mean_of(r, n)};

    if (!bytes)
        return;
    c.data = run_scratch(r, SCRATCH_PACK, n * c.chunk_bytes);
    run_zero(r, c.data, n * c.chunk_bytes);
    if (whole)
        copy_reduced(r, o, i, c.data, true);
    else
        run_copy(r, c.data, b->data, bytes);
    run_call(r, o, &c);
    if (whole)
        copy_reduced(r, o, i, c.data, false);
    else
        run_copy(r, b->data, c.data, bytes);
}

/* Between ranks that are in one place of different groups. */
static bool over_copies(const struct exec_run *r, const struct op *o)
{
    return r->p->groups[o->coll.group].stride[0] > 1;
}

/* ---- in the optimizer ---- */

/* The momentum or gradient of one matrix, cut by rows, whole on every rank afterwards. */
static void gather_matrix(struct exec_run *r, const struct op *o, const struct instance *i)
{
    uint32_t t = run_item(r, o, i);
    char *matrix = run_matrix(r, o, i);
    struct coll_call c = {.kind = COLL_ALL_GATHER,
                          .dtype = o->coll.wire,
                          .data = matrix,
                          .chunk_bytes = dtype_bytes(o->coll.wire, r->held.t[t].room)};
    char *mine = matrix + r->place * c.chunk_bytes;

    if (optimizer_row(r->plan->job.optimizer)->start == START_GRADIENT) {
        struct run_view g = run_gradient(r, t);

        run_zero(r, mine, c.chunk_bytes);
        run_copy(r, mine, g.data, dtype_bytes(g.dtype, g.elements));
    }
    run_call(r, o, &c);
}

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
                          .dtype = o->coll.wire,
                          .chunk_bytes = dtype_bytes(o->coll.wire, r->held.t[x->tensor].room)};

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

/* All held matrices, cut by rows: every rank's rows of all of them in one part. */
static void gather_held(struct exec_run *r, const struct op *o, const struct instance *i)
{
    const struct run_buffer *held = run_matrices(r, o, i);
    const struct model *m = r->p->model;
    enum optimizer_start travels = optimizer_row(r->plan->job.optimizer)->start;
    size_t size = dtype_bytes(o->coll.wire, 1);
    uint32_t n = run_group(r, o)->n;
    char *parts;
    struct coll_call c = {.kind = COLL_ALL_GATHER, .dtype = o->coll.wire};

    for (uint32_t t = 0; t < m->n_tensors; t++)
        c.chunk_bytes += r->held.t[t].matrix ? r->held.t[t].room * size : 0;
    c.data = parts = run_scratch(r, SCRATCH_PACK, n * c.chunk_bytes);
    run_zero(r, parts, n * c.chunk_bytes);
    for (int out = 0; out < 2; out++) {
        for (uint32_t k = out ? 0 : r->place; k < (out ? n : r->place + 1); k++) {
            char *part = parts + k * c.chunk_bytes;

            for (uint32_t t = 0; t < m->n_tensors; t++) {
                uint64_t first = num_min(k * r->held.t[t].room, m->tensors[t].numel),
                         end = num_min(first + r->held.t[t].room, m->tensors[t].numel);
                char *whole;

                if (!r->held.t[t].matrix)
                    continue;
                whole = run_tensor(r, held, t).data + first * size;
                if (!out && travels == START_GRADIENT)
                    whole = run_gradient(r, t).data;
                run_copy(r, out ? whole : part, out ? part : whole, (end - first) * size);
                part += r->held.t[t].room * size;
            }
        }
        if (!out)
            run_call(r, o, &c);
    }
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
    struct segment *mine;

    segments_of(r, o, i, &c);
    mine = MEM_NEW(struct segment, c.n_segments);
    for (uint32_t k = 0; k < c.n_segments; k++) {
        mine[k] = c.segments[k];
        if (r->place < mine[k].to_first || r->place >= mine[k].to_first + mine[k].to_n)
            continue;
        mine[k].offset += (uint64_t)(run_tensor(r, among, mine[k].tensor).data - (char *)c.data);
        if (gradients && mine[k].root == r->place)
            run_copy(r, (char *)c.data + mine[k].offset, run_gradient(r, mine[k].tensor).data,
                     mine[k].bytes);
    }
    c.segments = mine;
    run_call(r, o, &c);
    mem_free(mine);
}

static void gather_any(struct exec_run *r, const struct op *o, const struct instance *i)
{
    bool refresh = o->phase == PHASE_REFRESH;

    if (o->phase == PHASE_OPTIMIZER && o->coll.item_bytes)
        gather_matrix(r, o, i);
    else if (o->phase == PHASE_OPTIMIZER)
        gather_held(r, o, i);
    else if (o->coll.unit_bytes)
        gather_even(r, o, i, refresh);
    else
        gather_slices(r, o, i);
}

int run_collective(struct exec_run *r, const struct op *o, const struct instance *i)
{
    if (o->coll.interleaved)
        return 0; /* sharded.c */
    switch (o->coll.kind) {
    case COLL_ALL_REDUCE:
        if (over_copies(r, o))
            reduce_copies(r, o, i);
        else if (in_place(r))
            reduce_bucket(r, o, i);
        else
            reduce_whole(r, o, i);
        return 0;
    case COLL_REDUCE_SCATTER:
        reduce_even(r, o, i);
        return 0;
    case COLL_SEGMENT_REDUCE:
        if (r->p->place[r->p->model->units[i->unit].first].rule == PLACE_FLAT && in_place(r))
            reduce_slices(r, o, i);
        else
            reduce_segments(r, o, i);
        return 0;
    case COLL_SEGMENT_GATHER:
        if (o->phase == PHASE_OPTIMIZER)
            gather_cut(r, o, i);
        else
            gather_owned(r, o, i, o->phase == PHASE_REFRESH);
        return 0;
    case COLL_ALL_GATHER:
        gather_any(r, o, i);
        return 0;
    case COLL_ALL_TO_ALL:
        exchange_batch(r, o, i);
        return 0;
    default:
        return err_set(r->e, ERR_UNSUPPORTED, "exec runs no %s", coll_kind_name(o->coll.kind));
    }
}
