/* What must hold of any program. program_builder_finish() runs it, so that walkers and simulators index freely. */
#include "model/program/program.h"

#include <string.h>

#define BAD(...) return err_set(e, ERR_INVALID, __VA_ARGS__)

static int check_roles(const struct program *p, struct err *e)
{
    uint64_t ranks = 0, ops = 0;

    for (uint32_t i = 0; i < p->n_roles; i++) {
        const struct role *r = &p->roles[i];
        uint64_t last = r->first_rank + (uint64_t)(r->n_ranks - 1) * r->rank_stride;

        if (!r->n_ranks || !r->rank_stride || last >= p->world)
            BAD("role '%s' has ranks %u + %u x %u of %u", r->name, r->first_rank, r->n_ranks,
                r->rank_stride, p->world);
        if (r->first_op != ops || r->n_ops > p->n_ops - r->first_op)
            BAD("role '%s' has ops %u+%u of %u, expected from %llu on", r->name, r->first_op,
                r->n_ops, p->n_ops, (unsigned long long)ops);
        ops += r->n_ops;
        ranks += r->n_ranks;
    }
    if (ops != p->n_ops)
        BAD("the roles run %llu of %u ops", (unsigned long long)ops, p->n_ops);
    for (uint32_t k = 0; k < p->world && ranks; k++)
        if (!program_role(p, k))
            BAD("rank %u has no role", k);
    if (ranks != p->world)
        BAD("the roles have %llu ranks, the world %u", (unsigned long long)ranks, p->world);
    return 0;
}

/* Axes from the finest to the coarsest, each a whole multiple of the one before: then every rank is in one group. */
static int check_group(const struct program *p, const struct group *g, struct err *e)
{
    uint64_t members = 1, step = 1;

    if (g->members)
        BAD("group '%s' is a list of ranks, expected axes", g->name);
    if (g->n_axes < 1 || g->n_axes > 3)
        BAD("group '%s' has %u axes, expected 1 to 3", g->name, g->n_axes);
    for (uint32_t k = 0; k < g->n_axes; k++) {
        if (!g->size[k] || !g->stride[k] || g->stride[k] % step)
            BAD("group '%s': axis %u is %u with stride %u, expected strides that are multiples of "
                "%llu",
                g->name, k, g->size[k], g->stride[k], (unsigned long long)step);
        step = (uint64_t)g->size[k] * g->stride[k];
        members *= g->size[k];
    }
    if (p->world % step)
        BAD("group '%s' shares out %llu ranks, the world has %u", g->name, (unsigned long long)step,
            p->world);
    if (members != g->n_members)
        BAD("group '%s' says %u members, its axes make %llu", g->name, g->n_members,
            (unsigned long long)members);
    return 0;
}

static int check_loop(const struct program *p, uint32_t i, struct err *e)
{
    const struct loop *l = &p->loops[i];
    uint32_t most = l->kind == LOOP_MICRO ? p->n_micro : p->model ? p->model->n_units : 0;

    if (!l->n_ops || l->first_op >= p->n_ops || l->n_ops > p->n_ops - l->first_op)
        BAD("loop %u holds ops %u+%u of %u", i, l->first_op, l->n_ops, p->n_ops);
    if (l->parent != PROGRAM_NONE) {
        const struct loop *out = &p->loops[l->parent < i ? l->parent : 0];

        if (l->parent >= i || l->first_op < out->first_op ||
            l->first_op + l->n_ops > out->first_op + out->n_ops)
            BAD("loop %u leaves its parent", i);
        for (uint32_t up = l->parent; up != PROGRAM_NONE; up = p->loops[up].parent)
            if (p->loops[up].kind == l->kind)
                BAD("loop %u counts what loop %u around it counts", i, up);
    }
    if (l->kind == LOOP_ITEM) {
        if (l->work >= p->n_work_tables)
            BAD("loop %u walks work table %u of %u", i, l->work, p->n_work_tables);
        return 0;
    }
    for (uint32_t k = 0; l->list && k < l->n_list; k++)
        if (l->list[k] >= most)
            BAD("loop %u lists %u of %u", i, l->list[k], most);
    if (!l->list && (l->begin > l->end || l->end > most))
        BAD("loop %u runs from %u to %u of %u", i, l->begin, l->end, most);
    return 0;
}

/* The ops of a loop's range are in it or in a loop inside it, and no others are. */
static int check_nesting(const struct program *p, const struct op *o, struct err *e)
{
    if (o->loop != PROGRAM_NONE && o->loop >= p->n_loops)
        BAD("op '%s' is in loop %u of %u", o->name, o->loop, p->n_loops);
    for (uint32_t i = 0; i < p->n_loops; i++) {
        const struct loop *l = &p->loops[i];
        bool inside = o->id >= l->first_op && o->id - l->first_op < l->n_ops, named = false;

        for (uint32_t k = o->loop; k != PROGRAM_NONE && !named; k = p->loops[k].parent)
            named = k == i;
        if (inside != named)
            BAD("op '%s' %s loop %u, but its own loop says otherwise", o->name,
                inside ? "stands in" : "stands outside", i);
    }
    return 0;
}

static int check_collective(const struct program *p, const struct op *o, struct err *e)
{
    const struct collective *c = &o->coll;
    bool segments = c->kind == COLL_SEGMENT_GATHER || c->kind == COLL_SEGMENT_REDUCE;

    if (c->group >= p->n_groups)
        BAD("op '%s' has no group", o->name);
    if (c->rooted && c->kind != COLL_ALL_REDUCE)
        BAD("op '%s' is a %s of what ranks root, expected an all_reduce", o->name,
            coll_kind_name(c->kind));
    if ((segments || c->rooted) && c->table >= p->n_segment_tables)
        BAD("op '%s' uses segment table %u of %u", o->name, c->table, p->n_segment_tables);
    if (c->calls == CALLS_BROADCASTS && c->kind != COLL_SEGMENT_GATHER &&
        c->kind != COLL_ALL_GATHER)
        BAD("op '%s' is a %s by broadcasts, expected a gather", o->name, coll_kind_name(c->kind));
    if (c->calls == CALLS_PIECES && !op_in_loop(p, o, LOOP_UNIT))
        BAD("op '%s' moves pieces of a unit, but is in no loop over units", o->name);
    if (c->item_elements && !op_in_loop(p, o, LOOP_ITEM))
        BAD("op '%s' moves elements by item, but is in no loop over items", o->name);
    if ((c->kind == COLL_SEND || c->kind == COLL_RECV) && c->peer_op >= p->n_ops)
        BAD("op '%s' has no peer", o->name);
    for (uint32_t i = 0; segments && i < p->segment_tables[c->table].n_units; i++) {
        const struct segment_table *t = &p->segment_tables[c->table];

        for (uint32_t k = t->start[i]; k < t->start[i + 1]; k++) {
            const struct segment *s = &t->segments[k];
            uint32_t n = p->groups[c->group].n_members;

            if (s->to_first > n || s->to_n > n - s->to_first || s->root < s->to_first ||
                s->root - s->to_first >= s->to_n || s->elements == 0)
                BAD("op '%s': segment %u of unit %u: %llu elements, root %u, range %u+%u of %u",
                    o->name, k, i, (unsigned long long)s->elements, s->root, s->to_first, s->to_n,
                    n);
        }
    }
    return 0;
}

/* Of spans: how messages name them, the loops that tell instances apart, and the sizes that they can have. */
#define LOOPS(k) (1u << LOOP_##k)
#define SIZES(k) (1u << SIZE_##k)
static const struct {
    const char *name;
    uint32_t loops, sizes; /* bits */
} spans[] = {
    [SPAN_RESIDENT] = {"resident", 0, SIZES(BY_RANK)},
    [SPAN_STEP] = {"one a step", 0, SIZES(CONST)},
    [SPAN_UNIT] = {"one a unit", LOOPS(UNIT), SIZES(CONST) | SIZES(BY_UNIT) | SIZES(SEGMENTS)},
    [SPAN_MICRO] = {"one a micro-batch", LOOPS(MICRO), SIZES(CONST)},
    [SPAN_UNIT_MICRO] = {"one a unit and micro-batch", LOOPS(UNIT) | LOOPS(MICRO),
                         SIZES(CONST) | SIZES(BY_UNIT) | SIZES(SEGMENTS)},
    [SPAN_ITEM] = {"one an item", LOOPS(ITEM), SIZES(BY_ITEM)},
};

static int check_life(const struct program *p, const struct op *o, const struct life *l,
                      struct err *e)
{
    static const char *const counted[] = {
        [LOOP_MICRO] = "micro-batches", [LOOP_UNIT] = "units", [LOOP_ITEM] = "items"};
    const struct buffer *b;

    if (l->buffer >= p->n_buffers)
        BAD("op '%s' %s buffer %u of %u", o->name, l->release ? "releases" : "reserves", l->buffer,
            p->n_buffers);
    b = &p->buffers[l->buffer];
    for (int k = LOOP_MICRO; k <= LOOP_ITEM; k++)
        if (spans[b->span].loops & 1u << k && !op_in_loop(p, o, (enum loop_kind)k))
            BAD("op '%s' holds '%s', %s, but is in no loop over %s", o->name, b->name,
                spans[b->span].name, counted[k]);
    return 0;
}

/* Who names a tensor of a buffer means one that is there, whole: kernels read and write it. */
static int check_operand(const struct program *p, const struct op *o, const struct operand *x,
                         struct err *e)
{
    const struct buffer *b;

    if (x->buffer >= p->n_buffers)
        BAD("op '%s' uses buffer %u of %u", o->name, x->buffer, p->n_buffers);
    b = &p->buffers[x->buffer];
    if (x->tensor == OPERAND_ITEM) {
        if (b->holds == HOLDS_NOTHING && b->span != SPAN_ITEM)
            BAD("op '%s' uses the item's tensor of '%s', which holds none", o->name, b->name);
    } else if (x->tensor != OPERAND_WHOLE && b->holds != HOLDS_UNIT && b->holds != HOLDS_MODEL) {
        BAD("op '%s' uses tensor %u of '%s', which has no whole ones", o->name, x->tensor, b->name);
    }
    return 0;
}

static int check_op(const struct program *p, const struct op *o, struct err *e)
{
    if (check_nesting(p, o, e))
        return -1;
    for (uint32_t i = 0; i < o->n_waits; i++)
        if (o->waits[i].op >= p->n_ops)
            BAD("op '%s' waits for op %u of %u", o->name, o->waits[i].op, p->n_ops);
    for (uint32_t i = 0; i < o->n_operands; i++)
        if (check_operand(p, o, &o->operands[i], e))
            return -1;
    for (uint32_t i = 0; i < o->n_lives; i++)
        if (check_life(p, o, &o->lives[i], e))
            return -1;
    if (o->by_item && !op_in_loop(p, o, LOOP_ITEM))
        BAD("op '%s' works by item, but is in no loop over items", o->name);
    return o->kind == OP_COLLECTIVE ? check_collective(p, o, e) : 0;
}

static int check_names(const struct program *p, struct err *e)
{
    for (uint32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].id != i)
            BAD("op %u has id %u", i, p->ops[i].id);
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(p->ops[i].name, p->ops[k].name))
                BAD("ops %u and %u are both called '%s'", k, i, p->ops[i].name);
    }
    return 0;
}

static int check_tables(const struct program *p, struct err *e)
{
    uint32_t units = p->model ? p->model->n_units : 1;

    for (uint32_t i = 0; i < p->n_segment_tables; i++) {
        const struct segment_table *t = &p->segment_tables[i];

        if (t->n_units != 1 && t->n_units != units)
            BAD("segment table %u has %u rows, expected 1 or %u", i, t->n_units, units);
        for (uint32_t u = 0; u < t->n_units; u++)
            for (uint32_t k = t->start[u]; k < t->start[u + 1]; k++)
                if (k > t->start[u] && /* in the one row of a step: by tensor */
                    (t->n_units > 1 || t->segments[k].tensor == t->segments[k - 1].tensor) &&
                    t->segments[k].offset < t->segments[k - 1].offset + t->segments[k - 1].elements)
                    BAD("segment table %u: segments %u and %u of unit %u overlap", i, k - 1, k, u);
    }
    for (uint32_t i = 0; i < p->n_work_tables; i++) {
        const struct work_table *w = &p->work_tables[i];

        for (uint32_t r = 0; w->start && r < p->world; r++)
            if (w->start[r] > w->start[r + 1])
                BAD("work table %u: rank %u has items %u to %u", i, r, w->start[r],
                    w->start[r + 1]);
        for (uint32_t k = 0; w->start && k < w->start[p->world]; k++)
            if (w->list[k] >= w->n_items)
                BAD("work table %u lists item %u of %u", i, w->list[k], w->n_items);
    }
    return 0;
}

static const char *const size_names[] = {[SIZE_CONST] = "constant",
                                         [SIZE_BY_UNIT] = "by unit",
                                         [SIZE_BY_RANK] = "by rank",
                                         [SIZE_SEGMENTS] = "by segments",
                                         [SIZE_BY_ITEM] = "by item"};

/* What a buffer holds goes with its span, and whole tensors with its size. */
static int check_holds(const struct program *p, const struct buffer *b, struct err *e)
{
    static const struct {
        const char *what;
        enum span span;
        uint32_t sizes;
    } holds[] = {
        [HOLDS_UNIT] = {"a unit's tensors", SPAN_UNIT_MICRO, SIZES(BY_UNIT)},
        [HOLDS_UNIT_PARTS] = {"parts of a unit's tensors", SPAN_UNIT, SIZES(BY_UNIT)},
        [HOLDS_UNIT_SEGMENTS] = {"segments of a unit", SPAN_UNIT, SIZES(SEGMENTS)},
        [HOLDS_MODEL] = {"all tensors", SPAN_RESIDENT, SIZES(BY_RANK)},
        [HOLDS_MODEL_PARTS] = {"parts of all tensors", SPAN_RESIDENT, SIZES(BY_RANK)},
        [HOLDS_MODEL_STATES] = {"states of all tensors", SPAN_RESIDENT, SIZES(BY_RANK)},
        [HOLDS_MATRIX] = {"an item's matrix", SPAN_ITEM, SIZES(BY_ITEM)},
        [HOLDS_MATRICES] = {"matrices of items", SPAN_STEP, SIZES(CONST)},
        [HOLDS_MATRIX_PARTS] = {"parts of matrices of items", SPAN_STEP, SIZES(CONST)},
    };
    uint64_t all = dtype_bytes(b->dtype, p->model ? p->model->total_params : 0);

    if (b->holds == HOLDS_NOTHING)
        return 0;
    if (b->span != holds[b->holds].span)
        BAD("buffer '%s' holds %s, but is %s", b->name, holds[b->holds].what, spans[b->span].name);
    if (!(holds[b->holds].sizes & 1u << b->rule))
        BAD("buffer '%s' holds %s, but its size is %s", b->name, holds[b->holds].what,
            size_names[b->rule]);
    if ((b->holds == HOLDS_MATRICES || b->holds == HOLDS_MATRIX_PARTS) &&
        b->work >= p->n_work_tables)
        BAD("buffer '%s' holds %s of work table %u of %u", b->name, holds[b->holds].what, b->work,
            p->n_work_tables);
    for (uint32_t r = 0; b->holds == HOLDS_MODEL && r <= b->ranks.n_only; r++) {
        uint64_t bytes = r ? b->ranks.only[r - 1].value : b->ranks.every;

        if (bytes != all)
            BAD("buffer '%s' holds all tensors, %llu bytes, and has %llu", b->name,
                (unsigned long long)all, (unsigned long long)bytes);
    }
    for (uint32_t u = 0; b->holds == HOLDS_UNIT && u < p->model->n_units; u++)
        if (b->unit_bytes[u] != dtype_bytes(b->dtype, p->model->units[u].numel))
            BAD("buffer '%s' holds unit %u, %llu bytes, and has %llu", b->name, u,
                (unsigned long long)dtype_bytes(b->dtype, p->model->units[u].numel),
                (unsigned long long)b->unit_bytes[u]);
    return 0;
}

/* A buffer's size where it is needed, what it holds, and its life. */
static int check_buffer(const struct program *p, uint32_t v, struct err *e)
{
    const struct buffer *b = &p->buffers[v];
    uint32_t reserved = 0, released = 0, loop = PROGRAM_NONE;

    if (!(spans[b->span].sizes & 1u << b->rule))
        BAD("buffer '%s' is %s, but its size is %s", b->name, spans[b->span].name,
            size_names[b->rule]);
    if ((b->rule == SIZE_BY_UNIT && !b->unit_bytes) ||
        (b->rule == SIZE_BY_ITEM && !b->item_bytes) ||
        (b->rule == SIZE_SEGMENTS && b->table >= p->n_segment_tables))
        BAD("buffer '%s' has no table of its sizes", b->name);
    if (check_holds(p, b, e))
        return -1;
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (uint32_t k = 0; k < p->ops[i].n_lives; k++) {
            if (p->ops[i].lives[k].buffer != v)
                continue;
            if (b->span == SPAN_ITEM && loop != PROGRAM_NONE && loop != p->ops[i].loop)
                BAD("buffer '%s' is one an item, but op '%s' holds it in another loop", b->name,
                    p->ops[i].name);
            loop = p->ops[i].loop;
            reserved += !p->ops[i].lives[k].release;
            released += p->ops[i].lives[k].release;
        }
    if (b->span == SPAN_RESIDENT ? reserved || released : !reserved || !released)
        BAD("buffer '%s' is %s, but reserved by %u and released by %u ops", b->name,
            spans[b->span].name, reserved, released);
    return 0;
}

int program_check(const struct program *p, struct err *e)
{
    if (!p->world || !p->gpus_per_node || !p->n_micro)
        BAD("%u ranks, %u a node, %u micro-batches", p->world, p->gpus_per_node, p->n_micro);
    if (!p->distinct || p->distinct > p->world)
        BAD("%u of %u ranks are distinct", p->distinct, p->world);
    if (check_roles(p, e) || check_names(p, e) || check_tables(p, e))
        return -1;
    for (uint32_t i = 0; i < p->n_groups; i++)
        if (check_group(p, &p->groups[i], e))
            return -1;
    for (uint32_t i = 0; i < p->n_loops; i++)
        if (check_loop(p, i, e))
            return -1;
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (check_op(p, &p->ops[i], e))
            return -1;
    for (uint32_t i = 0; i < p->n_buffers; i++)
        if (check_buffer(p, i, e))
            return -1;
    return 0;
}
