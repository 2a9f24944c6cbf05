#include "model/program/program.h"

#include "core/num.h"

#include <math.h>
#include <string.h>

/* ---- names ---- */

const char *phase_name(enum phase p)
{
    static const char *const names[PHASE_N] = {"forward", "backward", "optimizer", "refresh"};

    return names[p];
}

const char *stream_name(enum stream s)
{
    static const char *const names[STREAM_N] = {"compute", "gather", "reduce", "all-reduce"};

    return names[s];
}

const char *mem_part_name(enum mem_part p)
{
    switch (p) {
#define X(v, name)                                                                                 \
    case v:                                                                                        \
        return name;
        MEM_PARTS(X)
#undef X
    case MEM_PART_N:
        break;
    }
    return "?";
}

const char *coll_kind_name(enum coll_kind k)
{
    static const char *const names[COLL_N] = {
        "all_reduce", "all_gather",   "reduce_scatter", "broadcast", "reduce",
        "all_to_all", "owner_gather", "owner_reduce",   "send",      "recv"};

    return names[k];
}

/* ---- tables ---- */

uint64_t rank_table_get(const struct rank_table *t, uint32_t rank)
{
    uint32_t lo = 0, hi = t->n_only;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (t->only[mid].rank < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < t->n_only && t->only[lo].rank == rank ? t->only[lo].value : t->every;
}

struct kernel_call op_call(const struct program *p, const struct op *o, uint32_t item)
{
    struct kernel_call k = o->call;
    const struct work_item *w;

    if (!o->by_item)
        return k;
    w = &p->work_tables[p->loops[o->loop].work].items[item];
    k.m = w->m;
    k.n = w->n;
    k.flops = (uint64_t)llround((double)w->flops * o->item_flops_share);
    k.hbm_bytes = (uint64_t)llround((double)w->elements * o->item_bytes_each +
                                    (double)w->rows * o->item_bytes_row);
    k.more = w->more;
    return k;
}

uint32_t group_base(const struct group *g, uint32_t rank)
{
    uint32_t base = rank;

    if (g->members)
        return 0;
    for (uint32_t k = 0; k < g->n_axes; k++)
        base -= rank / g->stride[k] % g->size[k] * g->stride[k];
    return base;
}

uint32_t group_member(const struct group *g, uint32_t base, uint32_t i)
{
    uint32_t r = base;

    if (g->members)
        return g->members[i];
    if (g->n_axes == 1)
        return base + i * g->stride[0];
    for (uint32_t k = 0; k < g->n_axes; k++) {
        r += i % g->size[k] * g->stride[k];
        i /= g->size[k];
    }
    return r;
}

uint32_t group_index(const struct group *g, uint32_t rank)
{
    uint32_t index = 0, times = 1;

    BUG_ON(g->members);
    for (uint32_t k = 0; k < g->n_axes; k++) {
        index += rank / g->stride[k] % g->size[k] * times;
        times *= g->size[k];
    }
    return index;
}

struct group mesh_group(const struct mesh *m, axis_set over, const char *name)
{
    struct group g = {.name = name, .n_members = mesh_size(m, over)};

    for (int a = 0; a < AXIS_N; a++)
        for (int k = 0; k < 2; k++) {
            uint32_t size = m->axis[a].size[k], stride = m->axis[a].stride[k], i = g.n_axes;

            if (!(over & AXES(a)) || size == 1)
                continue;
            for (; i > 0 && g.stride[i - 1] > stride; i--) {
                g.size[i] = g.size[i - 1];
                g.stride[i] = g.stride[i - 1];
            }
            g.size[i] = size;
            g.stride[i] = stride;
            g.n_axes++;
        }
    for (uint32_t k = 0; k + 1 < g.n_axes;) { /* neighbours of neighbours are neighbours */
        if (g.stride[k + 1] != g.stride[k] * g.size[k]) {
            k++;
            continue;
        }
        g.size[k] *= g.size[k + 1];
        g.n_axes--;
        for (uint32_t i = k + 1; i < g.n_axes; i++) {
            g.size[i] = g.size[i + 1];
            g.stride[i] = g.stride[i + 1];
        }
    }
    if (!g.n_axes) {
        g.n_axes = 1;
        g.size[0] = g.stride[0] = 1;
    }
    return g;
}

uint32_t program_root(const struct program *p, const struct segment_table *t, uint32_t rank)
{
    return group_index(&p->groups[t->group], rank);
}

uint64_t segment_table_rooted(const struct segment_table *t, uint32_t unit, uint32_t root)
{
    uint32_t u = t->n_units == 1 ? 0 : unit;
    uint64_t sum = 0;

    for (uint32_t k = t->start[u]; k < t->start[u + 1]; k++)
        sum += t->segments[k].root == root ? t->segments[k].elements : 0;
    return sum;
}

static uint64_t most_rooted(const struct segment_table *t, uint32_t unit)
{
    uint32_t u = t->n_units == 1 ? 0 : unit;
    uint64_t most = 0;

    for (uint32_t k = t->start[u]; k < t->start[u + 1]; k++)
        most = num_max(most, segment_table_rooted(t, unit, t->segments[k].root));
    return most;
}

uint64_t wire_bytes(const struct wire *w, uint64_t elements)
{
    return dtype_bytes(w->dtype, elements) +
           (w->block ? dtype_bytes(w->scale, num_ceil_div(elements, w->block)) : 0);
}

struct wire_segment *wire_segments(const struct segment_table *t, uint32_t unit,
                                   const struct wire *w, uint32_t *n)
{
    uint32_t u = t->n_units == 1 ? 0 : unit;
    const struct segment *s = t->segments + t->start[u];
    struct wire_segment *v;

    *n = t->start[u + 1] - t->start[u];
    v = MEM_NEW(struct wire_segment, *n + 1);
    for (uint32_t i = 0; i < *n; i++)
        v[i] = (struct wire_segment){s[i].root,
                                     s[i].to_first,
                                     s[i].to_n,
                                     s[i].tensor,
                                     dtype_bytes(w->dtype, s[i].offset),
                                     wire_bytes(w, s[i].elements)};
    return v;
}

uint64_t op_coll_elements(const struct program *p, const struct op *o, const struct instance *i)
{
    const struct collective *c = &o->coll;

    if (c->kind == COLL_SEGMENT_GATHER || c->kind == COLL_SEGMENT_REDUCE) {
        const struct segment_table *t = &p->segment_tables[c->table];
        uint32_t u = t->n_units == 1 ? 0 : i->unit;
        uint64_t sum = 0;

        for (uint32_t k = t->start[u]; k < t->start[u + 1]; k++)
            sum += t->segments[k].elements;
        return sum;
    }
    if (c->rooted)
        return most_rooted(&p->segment_tables[c->table], i->unit);
    if (c->item_elements)
        return c->item_elements[i->item];
    return c->unit_elements ? c->unit_elements[i->unit] : c->elements;
}

uint64_t op_coll_bytes(const struct program *p, const struct op *o, const struct instance *i)
{
    return wire_bytes(&o->coll.wire, op_coll_elements(p, o, i));
}

uint32_t op_calls(const struct program *p, const struct op *o, const struct instance *i)
{
    const struct collective *c = &o->coll;
    uint32_t members = p->groups[c->group].n_members;

    switch (c->calls) {
    case CALLS_USUAL:
        break;
    case CALLS_BROADCASTS:
        if (c->kind == COLL_SEGMENT_GATHER) {
            const struct segment_table *t = &p->segment_tables[c->table];
            uint32_t u = t->n_units == 1 ? 0 : i->unit;

            return t->start[u + 1] - t->start[u];
        }
        return members;
    case CALLS_PIECES:
        return p->model->units[i->unit].n * members;
    }
    return 1;
}

/* ---- waits ---- */

bool op_in_loop(const struct program *p, const struct op *o, enum loop_kind kind)
{
    for (uint32_t l = o->loop; l != PROGRAM_NONE; l = p->loops[l].parent)
        if (p->loops[l].kind == kind)
            return true;
    return false;
}

bool buffer_instance(const struct program *p, uint32_t buffer, const struct instance *i,
                     int32_t d_unit, struct buffer_at *at)
{
    int64_t unit = (int64_t)i->unit + d_unit;

    *at = (struct buffer_at){0};
    switch (p->buffers[buffer].span) {
    case SPAN_RESIDENT:
    case SPAN_STEP:
    case SPAN_ITEM:
        return true;
    case SPAN_MICRO:
        at->micro = i->micro;
        return true;
    case SPAN_UNIT_MICRO:
        at->micro = i->micro;
        break;
    case SPAN_UNIT:
        break;
    }
    if (unit < 0 || unit >= p->model->n_units)
        return false;
    at->unit = (uint32_t)unit;
    return true;
}

struct awaited program_awaited(const struct program *p, const struct op *o,
                               const struct instance *i, const struct wait *w)
{
    const struct op *on = &p->ops[w->op];
    bool of_unit = op_in_loop(p, on, LOOP_UNIT), of_micro = op_in_loop(p, on, LOOP_MICRO);
    int64_t unit = of_unit ? (int64_t)i->unit + w->d_unit : 0;
    int64_t micro = of_micro ? (int64_t)i->micro + w->d_micro : 0;

    /* of items: the same one, or the last of the loop */
    if (op_in_loop(p, on, LOOP_ITEM) || (of_unit && !op_in_loop(p, o, LOOP_UNIT)) ||
        (of_micro && !op_in_loop(p, o, LOOP_MICRO)))
        return (struct awaited){.kind = WAIT_LAST};
    if (unit < 0 || unit >= p->model->n_units || micro < 0 || micro >= p->n_micro)
        return (struct awaited){.kind = WAIT_NOTHING};
    return (struct awaited){WAIT_INSTANCE, (uint32_t)unit, (uint32_t)micro};
}

/* ---- walking ---- */

struct walk {
    const struct program *p;
    uint32_t rank;
    struct instance at;
    int (*fn)(void *ctx, const struct instance *i);
    void *ctx;
};

static bool when_holds(enum when w, uint32_t index, uint32_t last)
{
    switch (w) {
    case WHEN_ALWAYS:
        return true;
    case WHEN_FIRST:
        return index == 0;
    case WHEN_LAST:
        return index == last;
    case WHEN_NOT_FIRST:
        return index != 0;
    case WHEN_NOT_LAST:
        return index != last;
    }
    return true;
}

static bool exists(const struct program *p, const struct op *o, const struct instance *i)
{
    if (!when_holds(o->guard.micro, i->micro, p->n_micro - 1))
        return false;
    if (o->guard.units && !o->guard.units[i->unit])
        return false;
    if (o->guard.unit_class != PROGRAM_NONE &&
        p->model->units[i->unit].class_id != o->guard.unit_class)
        return false;
    return o->kind != OP_COLLECTIVE || op_coll_bytes(p, o, i) > 0;
}

static int walk_range(struct walk *w, uint32_t first, uint32_t n, uint32_t inside);

static int walk_loop(struct walk *w, uint32_t l)
{
    const struct loop *loop = &w->p->loops[l];
    const struct work_table *t = NULL;
    uint32_t n = loop->list ? loop->n_list : loop->end - loop->begin;
    struct instance saved = w->at;
    int r = 0;

    if (loop->kind == LOOP_ITEM) {
        t = &w->p->work_tables[loop->work];
        n = t->start ? t->start[w->rank + 1] - t->start[w->rank] : t->n_items;
    }
    for (uint32_t k = 0; k < n && !r; k++) {
        uint32_t index =
            loop->list ? loop->list[k] : (loop->descending ? loop->end - 1 - k : loop->begin + k);

        switch (loop->kind) {
        case LOOP_MICRO:
            w->at.micro = index;
            break;
        case LOOP_UNIT:
            w->at.unit = index;
            break;
        case LOOP_ITEM:
            w->at.item = t->start ? t->list[t->start[w->rank] + k] : k;
            w->at.position = k;
            break;
        }
        r = walk_range(w, loop->first_op, loop->n_ops, l);
    }
    w->at = saved;
    return r;
}

/* The outermost loop that holds `op` and lies directly inside loop `inside` (PROGRAM_NONE: outside all). */
static uint32_t loop_below(const struct program *p, uint32_t op, uint32_t inside)
{
    uint32_t l = p->ops[op].loop, below = PROGRAM_NONE;

    while (l != inside && l != PROGRAM_NONE) {
        below = l;
        l = p->loops[l].parent;
    }
    return below;
}

static int walk_range(struct walk *w, uint32_t first, uint32_t n, uint32_t inside)
{
    uint32_t i = first;
    int r = 0;

    while (i < first + n && !r) {
        uint32_t l = loop_below(w->p, i, inside);

        if (l != PROGRAM_NONE) {
            r = walk_loop(w, l);
            i = w->p->loops[l].first_op + w->p->loops[l].n_ops;
            continue;
        }
        if (exists(w->p, &w->p->ops[i], &w->at)) {
            w->at.op = i;
            r = w->fn(w->ctx, &w->at);
        }
        i++;
    }
    return r;
}

const struct role *program_role(const struct program *p, uint32_t rank)
{
    for (uint32_t i = 0; i < p->n_roles; i++) {
        const struct role *r = &p->roles[i];

        if (rank >= r->first_rank && (rank - r->first_rank) % r->rank_stride == 0 &&
            (rank - r->first_rank) / r->rank_stride < r->n_ranks)
            return r;
    }
    return NULL;
}

int program_walk_range(const struct program *p, uint32_t rank, uint32_t first_op, uint32_t n_ops,
                       int (*fn)(void *ctx, const struct instance *i), void *ctx)
{
    struct walk w = {.p = p, .rank = rank, .fn = fn, .ctx = ctx};

    return walk_range(&w, first_op, n_ops, PROGRAM_NONE);
}

int program_walk(const struct program *p, uint32_t rank,
                 int (*fn)(void *ctx, const struct instance *i), void *ctx)
{
    const struct role *role = program_role(p, rank);

    BUG_ON(!role);
    return program_walk_range(p, rank, role->first_op, role->n_ops, fn, ctx);
}

/* ---- building ---- */

void program_builder_init(struct program_builder *b, struct program *p, struct arena *a)
{
    memset(b, 0, sizeof(*b));
    b->p = p;
    b->a = a;
    b->open_loop = PROGRAM_NONE;
}

void program_builder_release(struct program_builder *b)
{
    struct program *p = b->p;

    if (!b->cap_ops)
        return;
    mem_free(p->ops);
    mem_free(p->loops);
    mem_free(p->groups);
    mem_free(p->buffers);
    mem_free(p->segment_tables);
    mem_free(p->work_tables);
    memset(b, 0, sizeof(*b));
}

static void *to_arena(struct arena *a, void *list, size_t n, size_t size)
{
    void *p = arena_alloc(a, n, size);

    if (n)
        memcpy(p, list, n * size);
    mem_free(list);
    return p;
}

int program_builder_finish(struct program_builder *b, struct err *e)
{
    struct program *p = b->p;

    BUG_ON(b->open_loop != PROGRAM_NONE);
    p->ops = to_arena(b->a, p->ops, p->n_ops, sizeof(*p->ops));
    p->loops = to_arena(b->a, p->loops, p->n_loops, sizeof(*p->loops));
    p->groups = to_arena(b->a, p->groups, p->n_groups, sizeof(*p->groups));
    p->buffers = to_arena(b->a, p->buffers, p->n_buffers, sizeof(*p->buffers));
    p->segment_tables =
        to_arena(b->a, p->segment_tables, p->n_segment_tables, sizeof(*p->segment_tables));
    p->work_tables = to_arena(b->a, p->work_tables, p->n_work_tables, sizeof(*p->work_tables));
    memset(b, 0, sizeof(*b));
    return program_check(p, e);
}

#define APPEND(list, count, cap, value)                                                            \
    do {                                                                                           \
        (list) = mem_grow((list), &(cap), (size_t)(count) + 1, sizeof(*(list)));                   \
        (list)[count] = (value);                                                                   \
    } while (0)

uint32_t program_add_group(struct program_builder *b, const struct group *g)
{
    APPEND(b->p->groups, b->p->n_groups, b->cap_groups, *g);
    return b->p->n_groups++;
}

uint32_t program_add_buffer(struct program_builder *b, const struct buffer *v)
{
    APPEND(b->p->buffers, b->p->n_buffers, b->cap_buffers, *v);
    return b->p->n_buffers++;
}

uint32_t program_add_segments(struct program_builder *b, const struct segment_table *t)
{
    APPEND(b->p->segment_tables, b->p->n_segment_tables, b->cap_tables, *t);
    return b->p->n_segment_tables++;
}

uint32_t program_add_work(struct program_builder *b, const struct work_table *t)
{
    APPEND(b->p->work_tables, b->p->n_work_tables, b->cap_work, *t);
    return b->p->n_work_tables++;
}

uint32_t program_open_loop(struct program_builder *b, const struct loop *l)
{
    struct loop v = *l;

    v.parent = b->open_loop;
    v.first_op = b->p->n_ops;
    v.n_ops = 0;
    APPEND(b->p->loops, b->p->n_loops, b->cap_loops, v);
    return b->open_loop = b->p->n_loops++;
}

void program_close_loop(struct program_builder *b)
{
    struct loop *l;

    BUG_ON(b->open_loop == PROGRAM_NONE);
    l = &b->p->loops[b->open_loop];
    l->n_ops = b->p->n_ops - l->first_op;
    b->open_loop = l->parent;
}

static void *copy(struct arena *a, const void *list, size_t n, size_t size)
{
    void *p = arena_alloc(a, n, size);

    if (n)
        memcpy(p, list, n * size);
    return p;
}

uint32_t program_add_op(struct program_builder *b, const struct op *o)
{
    struct op v = *o;

    v.id = b->p->n_ops;
    v.loop = b->open_loop;
    v.waits = copy(b->a, o->waits, o->n_waits, sizeof(*o->waits));
    v.lives = copy(b->a, o->lives, o->n_lives, sizeof(*o->lives));
    v.operands = copy(b->a, o->operands, o->n_operands, sizeof(*o->operands));
    APPEND(b->p->ops, b->p->n_ops, b->cap_ops, v);
    return b->p->n_ops++;
}

void program_op_wait(struct program_builder *b, uint32_t op, struct wait w)
{
    struct op *o = &b->p->ops[op];
    struct wait *list = arena_alloc(b->a, o->n_waits + 1, sizeof(*list));

    if (o->n_waits)
        memcpy(list, o->waits, o->n_waits * sizeof(*list));
    list[o->n_waits++] = w;
    o->waits = list;
}

void program_op_life(struct program_builder *b, uint32_t op, struct life l)
{
    struct op *o = &b->p->ops[op];
    struct life *list = arena_alloc(b->a, o->n_lives + 1, sizeof(*list));

    if (o->n_lives)
        memcpy(list, o->lives, o->n_lives * sizeof(*list));
    list[o->n_lives++] = l;
    o->lives = list;
}

void program_op_operand(struct program_builder *b, uint32_t op, struct operand v)
{
    struct op *o = &b->p->ops[op];
    struct operand *list = arena_alloc(b->a, o->n_operands + 1, sizeof(*list));

    if (o->n_operands)
        memcpy(list, o->operands, o->n_operands * sizeof(*list));
    list[o->n_operands++] = v;
    o->operands = list;
}
