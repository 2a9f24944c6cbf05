/* What a rank has in memory while it runs: the live instances of the program's buffers, counted by part as the program counts
 * them, and scratch beside them. */
#include "exec/run.h"

#include "core/num.h"

#include <string.h>

/* ---- live buffers ---- */

static size_t slot_of(const struct exec_run *r, uint32_t buffer, struct buffer_at at)
{
    size_t i = data_hash(buffer, at.unit, at.micro, 0) & (r->cap_map - 1);

    while (r->map[i].used && (r->map[i].buffer != buffer || r->map[i].at.unit != at.unit ||
                              r->map[i].at.micro != at.micro))
        i = (i + 1) & (r->cap_map - 1);
    return i;
}

static void grow_map(struct exec_run *r)
{
    struct run_buffer *old = r->map;
    size_t cap = r->cap_map;

    r->cap_map = cap ? 2 * cap : 256;
    r->map = MEM_NEW(struct run_buffer, r->cap_map);
    for (size_t i = 0; i < cap; i++)
        if (old[i].used)
            r->map[slot_of(r, old[i].buffer, old[i].at)] = old[i];
    mem_free(old);
}

static uint64_t size_of(const struct exec_run *r, uint32_t buffer, uint32_t unit, uint32_t item)
{
    const struct buffer *b = &r->p->buffers[buffer];
    const struct segment_table *t;
    uint64_t sum = 0;

    switch (b->rule) {
    case SIZE_CONST:
        return b->bytes;
    case SIZE_BY_UNIT:
        return b->unit_bytes[unit];
    case SIZE_BY_RANK:
        return rank_table_get(&b->ranks, r->t->rank);
    case SIZE_BY_ITEM:
        return b->item_bytes[item];
    case SIZE_SEGMENTS:
        t = &r->p->segment_tables[b->table];
        for (uint32_t i = t->start[unit]; i < t->start[unit + 1]; i++)
            sum += t->segments[i].root == program_root(r->p, t, r->t->rank)
                       ? t->segments[i].elements
                       : 0;
        return dtype_bytes(b->dtype, sum);
    }
    return 0;
}

/* What an item's workspace has to have room for here: its matrix on the way to the products, all parts of it, padded. */
static uint64_t matrix_room(const struct exec_run *r, const struct op *o, uint32_t item)
{
    uint32_t t = r->p->work_tables[r->p->loops[o->loop].work].items[item].tensor;

    return dtype_bytes(run_travel(r), num_max(r->held.t[t].room * placement_parts(r->plan, STATE),
                                              r->p->model->tensors[t].numel));
}

static void count_bytes(struct exec_run *r, enum mem_part part, uint64_t bytes)
{
    r->bytes += bytes;
    r->part_bytes[part] += bytes;
    if (r->bytes > r->peak) {
        r->peak = r->bytes;
        memcpy(r->part_peak, r->part_bytes, sizeof(r->part_peak));
    }
}

/* bytes: as the program counts them; room: at least that many, as it is. A buffer that is reserved in parts has all its room
 * from the first part on, and each of its `part` bytes counts when it comes. */
static void reserve(struct exec_run *r, uint32_t buffer, struct buffer_at at, uint64_t bytes,
                    uint64_t part, uint64_t room)
{
    struct run_buffer *b;
    void *data;

    if (2 * (r->n_map + 1) > r->cap_map)
        grow_map(r);
    b = &r->map[slot_of(r, buffer, at)];
    count_bytes(r, r->p->buffers[buffer].part, part);
    if (b->used) {
        b->counted += part;
        BUG_ON(part == bytes || b->counted > bytes);
        return;
    }
    room = num_max(bytes, room);
    data = backend_alloc(r->b, r->stream, room);
    r->b->lib->zero(r->b, r->stream, data, room);
    *b = (struct run_buffer){buffer, at, data, bytes, part, room, true};
    r->n_map++;
}

/* Open addressing without tombstones: what follows a freed slot moves up. */
static void drop(struct exec_run *r, size_t i)
{
    size_t k = i;

    backend_free(r->b, r->stream, r->map[i].data, r->map[i].room);
    r->map[i].used = false;
    r->n_map--;
    for (;;) {
        struct run_buffer moved;

        k = (k + 1) & (r->cap_map - 1);
        if (!r->map[k].used)
            return;
        moved = r->map[k];
        r->map[k].used = false;
        r->map[slot_of(r, moved.buffer, moved.at)] = moved;
    }
}

static void release(struct exec_run *r, uint32_t buffer, struct buffer_at at)
{
    size_t i = slot_of(r, buffer, at);

    BUG_ON(!r->map[i].used);
    r->bytes -= r->map[i].counted;
    r->part_bytes[r->p->buffers[buffer].part] -= r->map[i].counted;
    drop(r, i);
}

void run_reserve_resident(struct exec_run *r)
{
    for (uint32_t k = 0; k < r->p->n_buffers; k++)
        if (r->p->buffers[k].span == SPAN_RESIDENT) {
            uint64_t bytes = size_of(r, k, 0, 0);

            reserve(r, k, (struct buffer_at){0}, bytes, bytes, 0);
        }
}

void run_lives_begin(struct exec_run *r, const struct op *o, const struct instance *i)
{
    for (uint32_t k = 0; k < o->n_lives; k++) {
        const struct life *l = &o->lives[k];
        struct buffer_at at;
        uint64_t bytes;

        if (l->release || !buffer_instance(r->p, l->buffer, i, l->d_unit, &at))
            continue;
        bytes = size_of(r, l->buffer, at.unit, i->item);
        reserve(r, l->buffer, at, bytes, l->bytes ? l->bytes : bytes,
                r->p->buffers[l->buffer].holds == HOLDS_MATRIX ? matrix_room(r, o, i->item) : 0);
    }
}

void run_lives_end(struct exec_run *r, const struct op *o, const struct instance *i)
{
    for (uint32_t k = 0; k < o->n_lives; k++) {
        const struct life *l = &o->lives[k];
        struct buffer_at at;

        if (l->release && buffer_instance(r->p, l->buffer, i, l->d_unit, &at))
            release(r, l->buffer, at);
    }
}

void run_release_all(struct exec_run *r)
{
    for (size_t i = 0; i < r->cap_map; i++)
        if (r->map[i].used)
            backend_free(r->b, STREAM_COMPUTE, r->map[i].data, r->map[i].room);
    for (int s = 0; s < STREAM_N; s++)
        for (int i = 0; i < SCRATCH_N; i++)
            backend_free(r->b, (enum stream)s, r->scratch[s][i], r->cap_scratch[s][i]);
    mem_free(r->map);
}

struct run_buffer *run_live(struct exec_run *r, uint32_t buffer, const struct instance *i,
                            int32_t d_unit)
{
    struct run_buffer *b;
    struct buffer_at at;

    if (!buffer_instance(r->p, buffer, i, d_unit, &at))
        return NULL;
    b = &r->map[slot_of(r, buffer, at)];
    BUG_ON(!b->used);
    return b;
}

struct run_buffer *run_find(struct exec_run *r, uint32_t buffer, uint32_t unit, uint32_t micro)
{
    const struct instance i = {.unit = unit, .micro = micro};
    struct run_buffer *b = run_live(r, buffer, &i, 0);

    BUG_ON(!b);
    return b;
}

/* ---- scratch ---- */

void *run_scratch(struct exec_run *r, int which, size_t n)
{
    void **p = &r->scratch[r->stream][which];
    size_t *cap = &r->cap_scratch[r->stream][which];

    if (n > *cap) {
        backend_free(r->b, r->stream, *p, *cap);
        *p = backend_alloc(r->b, r->stream, n);
        *cap = n;
    }
    return *p;
}

uint64_t exec_scratch_bytes(const struct exec_run *r)
{
    uint32_t last = r->p->model->units[r->p->model->n_units - 1].class_id;
    uint64_t sum = r->b->own_bytes + 2 * r->graphs[last].values[0].bytes;

    for (int s = 0; s < STREAM_N; s++)
        for (int i = 0; i < SCRATCH_N; i++)
            sum += r->cap_scratch[s][i];
    return sum;
}

void run_copy(struct exec_run *r, void *to, const void *from, size_t n)
{
    r->b->lib->copy(r->b, r->stream, to, from, n);
}

void run_zero(struct exec_run *r, void *p, size_t n)
{
    r->b->lib->zero(r->b, r->stream, p, n);
}
