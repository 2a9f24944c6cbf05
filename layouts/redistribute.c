#include "layouts/redistribute.h"

#include "layouts/step.h"

struct exchange redistribute_nothing(void)
{
    return (struct exchange){
        .group = PROGRAM_NONE, .table = PROGRAM_NONE, .from = WHOLE, .to = WHOLE};
}

/* Whole gradients, bucket by bucket: the elements of a bucket stand at the unit that completes it.
 */
static void add_buckets(struct lower *l, struct exchange *x, const struct bucket *buckets)
{
    uint64_t *elements = ARENA_NEW(l->a, uint64_t, l->m->n_units),
             *first = ARENA_NEW(l->a, uint64_t, l->m->n_units);

    for (uint32_t u = 0; u < l->m->n_units; u++) {
        elements[u] = buckets[u].elements;
        first[u] = buckets[u].first;
    }
    x->first = first;
    x->even = elements;
}

static uint32_t add_table(struct lower *l, struct segment_table t)
{
    t.group = l->shard;
    return program_add_segments(&l->b, &t);
}

/* The segments of owners, or of flat slices. `at`: the component whose parts they are. */
static void add_segments(struct lower *l, struct exchange *x, enum component at, uint64_t bucket)
{
    struct bucket *buckets;

    if (placement_parts(l->plan, at) == 1)
        return;
    if (l->plan->strategy == STRATEGY_OWNER) {
        if (l->owner_table == PROGRAM_NONE)
            l->owner_table = add_table(l, part_owner_segments(l->plan, l->a));
        x->table = l->owner_table;
        x->algo = l->j->gather;
        return;
    }
    if (l->layout->rule != PLACE_FLAT)
        return;
    buckets = part_buckets(l->plan, bucket, l->a);
    add_buckets(l, x, buckets);
    x->even = NULL;
    if (!bucket) /* a unit at a time */
        x->first = NULL;
    x->table = add_table(l, part_slice_segments(l->plan, buckets, l->a));
    x->algo = ALGO_RING;
}

struct exchange redistribute(struct lower *l, enum component from, enum component to, bool sums,
                             enum dtype d, uint64_t bucket)
{
    const struct plan *plan = l->plan;
    enum component part = sums ? to : from; /* the finer one */
    axis_set over = sums ? plan->over[to] & ~plan->over[from] : plan->over[from] & ~plan->over[to];
    struct exchange x = redistribute_nothing();

    x.from = from;
    x.to = to;
    x.wire.dtype = d;
    x.even_kind = sums ? COLL_REDUCE_SCATTER : COLL_ALL_GATHER;
    x.segment_kind = sums ? COLL_SEGMENT_REDUCE : COLL_SEGMENT_GATHER;
    if (from == to) {
        over = (AXES(AXIS_N) - 1) & ~(plan->over[to] | AXES(AXIS_TP));
        x.even_kind = x.segment_kind = COLL_ALL_REDUCE;
    }
    x.group = lower_group(l, &plan->mesh, over);
    if (x.group == PROGRAM_NONE)
        return x;
    if (bucket && part == WHOLE) {
        add_buckets(l, &x, part_buckets(plan, bucket, l->a));
        return x;
    }
    add_segments(l, &x, part, bucket);
    x.even = part_even(plan, part, from == to ? 1 : mesh_size(&plan->mesh, over), l->a);
    return x;
}

uint32_t exchange_ops(struct lower *l, const struct exchange *x, const char *name, struct op ops[2])
{
    struct op like = {.kind = OP_COLLECTIVE,
                      .guard = {.unit_class = PROGRAM_NONE},
                      .coll = {.group = x->group,
                               .moved = {.from = x->from,
                                         .to = x->to,
                                         .from_buffer = PROGRAM_NONE,
                                         .to_buffer = PROGRAM_NONE,
                                         .first = x->first},
                               .table = PROGRAM_NONE,
                               .piece = x->piece,
                               .wire = x->wire,
                               .peer_op = PROGRAM_NONE}};
    uint32_t n = 0;

    if (x->group == PROGRAM_NONE)
        return 0;
    if (x->table != PROGRAM_NONE) {
        ops[n] = like;
        ops[n].name = name;
        ops[n].coll.kind = x->segment_kind;
        ops[n].coll.algo = x->algo;
        ops[n].coll.table = x->table;
        ops[n++].coll.rooted = x->segment_kind == COLL_ALL_REDUCE;
    }
    if (x->even) {
        ops[n] = like;
        ops[n].name = n ? arena_printf(l->a, "%s.tail", name) : name;
        ops[n].coll.kind = x->even_kind;
        ops[n++].coll.unit_elements = x->even;
    }
    return n;
}
