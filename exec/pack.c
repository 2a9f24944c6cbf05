#include "exec/pack.h"

#include "core/num.h"

/* The finer of the two cuts: whose parts are on the lists. */
static enum component finer(const struct exec_run *r, const struct moved *m)
{
    return placement_parts(r->plan, m->from) > placement_parts(r->plan, m->to) ? m->from : m->to;
}

struct pack_scope pack_scope(const struct exec_run *r, const struct op *o, const struct instance *i)
{
    struct pack_scope s = {.o = o, .n = r->p->model->n_tensors};

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

bool pack_travels(const struct exec_run *r, const struct pack_scope *s, uint32_t tensor)
{
    enum place_rule rule = r->plan->place[tensor].rule;

    if (s->units && placement_parts(r->plan, finer(r, &s->o->coll.moved)) > 1)
        return (rule == PLACE_OWNER || rule == PLACE_FLAT) == s->segments;
    return s->o->coll.traffic != TRAFFIC_OPTIMIZER || r->held.t[tensor].matrix;
}

uint64_t pack_room(const struct exec_run *r, const struct pack_scope *s, enum component c,
                   uint32_t rank)
{
    uint64_t sum = 0;

    for (uint32_t t = s->first; t < s->first + s->n; t++)
        if (pack_travels(r, s, t))
            sum += placement_extent(r->plan, t, c, rank).room;
    return sum;
}

void pack_add(struct exec_run *r, enum dtype d, char *to, const char *from, uint64_t n)
{
    const struct kernel_on on = {.act = d, .weight = d, .grad = d};
    const struct kernel_sum a = {.n = n, .type = d, .x = to, .y = from, .out = to};

    launch_sum(r->b, r->stream, &on, &a);
}

void pack_list(struct exec_run *r, const struct pack_scope *s, enum component c, uint32_t rank,
               uint64_t from, uint64_t to, const struct run_buffer *b, char *packed,
               enum pack_how how)
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

        if (!pack_travels(r, s, t))
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
                pack_add(r, s->o->coll.wire.dtype, here, packed + (lower - from) * size,
                         upper - lower);
        }
        at += x.room;
    }
}
