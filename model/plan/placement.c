#include "model/plan/placement.h"

#include "core/num.h"

uint32_t placement_parts(const struct plan *p, enum component c)
{
    return mesh_size(&p->mesh, p->over[c]);
}

uint32_t placement_index(const struct plan *p, enum component c, uint32_t rank)
{
    return mesh_index(&p->mesh, rank, p->over[c]);
}

/* The room of one of the parts that `total` is cut into. */
static uint64_t room_of(const struct plan *p, uint64_t total, enum component c)
{
    for (int a = 0; a < AXIS_N; a++)
        if (p->over[c] & AXES(a))
            total = num_ceil_div(total, mesh_size(&p->mesh, AXES(a)));
    return total;
}

uint64_t placement_rows(const struct plan *p, const struct tensor *t, enum component c)
{
    return room_of(p, t->rows, c);
}

uint64_t placement_slice(const struct plan *p, enum component c)
{
    return room_of(p, p->model.total_params, c);
}

/* The rank's part of `total`. */
static struct extent part_of(const struct plan *p, uint64_t total, enum component c, uint32_t rank)
{
    struct extent x = {0, total, total};

    for (int a = 0; a < AXIS_N; a++) {
        uint64_t lower;

        if (!(p->over[c] & AXES(a)))
            continue;
        x.room = num_ceil_div(x.room, mesh_size(&p->mesh, AXES(a)));
        lower = num_min(mesh_index(&p->mesh, rank, AXES(a)) * x.room, x.n);
        x.first += lower;
        x.n = num_min(x.n - lower, x.room);
    }
    return x;
}

struct extent placement_extent(const struct plan *p, uint32_t tensor, enum component c,
                               uint32_t rank)
{
    const struct tensor *t = &p->model.tensors[tensor];
    struct extent x = {0, t->numel, t->numel};
    uint64_t lower, upper;

    if (placement_parts(p, c) == 1)
        return x;
    switch (p->place[tensor].rule) {
    case PLACE_REPLICATED:
        break;
    case PLACE_CHUNK:
        x = part_of(p, t->rows, c, rank);
        x = (struct extent){x.first * t->cols, x.n * t->cols, x.room * t->cols};
        break;
    case PLACE_FLAT:
        x = part_of(p, p->model.total_params, c, rank);
        lower = num_min(num_max(x.first, t->at), t->at + t->numel);
        upper = num_min(num_max(x.first + x.n, t->at), t->at + t->numel);
        x = (struct extent){lower - t->at, upper - lower, upper - lower};
        break;
    case PLACE_OWNER:
        if (placement_index(p, c, rank) != p->place[tensor].owner)
            x = (struct extent){0};
        break;
    }
    return x;
}

/* ---- runs of parts ---- */

struct run_walk {
    const struct plan *p;
    enum component c;
    uint64_t from, to; /* what is looked at */
    uint64_t base;     /* subtracted from where a run begins */
    uint64_t times;    /* elements of what is counted: rows have cols */
    void (*fn)(void *ctx, const struct placement_run *run);
    void *ctx;
};

static void emit_run(const struct run_walk *w, uint32_t part, uint64_t n, uint64_t first,
                     uint64_t each)
{
    struct placement_run run = {part, (uint32_t)n, (first - w->base) * w->times, each * w->times};

    w->fn(w->ctx, &run);
}

/* The parts of [first, first + n), which has `room`, over the axes from `a` on; they are numbered
 * from `part` times their number on. */
static void walk_runs(const struct run_walk *w, int a, uint32_t part, uint64_t first, uint64_t n,
                      uint64_t room)
{
    uint64_t from = num_max(w->from, first), to = num_min(w->to, first + n), each;
    uint32_t size, k;

    if (from >= to)
        return;
    while (a < AXIS_N && (!(w->p->over[w->c] & AXES(a)) || mesh_size(&w->p->mesh, AXES(a)) == 1))
        a++;
    if (a == AXIS_N) {
        emit_run(w, part, 1, from, to - from);
        return;
    }
    size = mesh_size(&w->p->mesh, AXES(a));
    each = num_ceil_div(room, size);
    for (k = (uint32_t)((from - first) / each); from < to;) {
        uint64_t full = from == first + k * each ? (to - from) / each : 0;
        uint64_t end = num_min(to, first + (k + 1) * each);

        if (full && (w->p->over[w->c] >> (a + 1)) == 0) {
            emit_run(w, part * size + k, full, from, each);
            k += (uint32_t)full;
            from += full * each;
            continue;
        }
        walk_runs(w, a + 1, part * size + k, first + k * each,
                  num_min(each, first + n - (first + k * each)), each);
        from = end;
        k++;
    }
}

void placement_flat_runs(const struct plan *p, uint64_t from, uint64_t to, enum component c,
                         void (*fn)(void *ctx, const struct placement_run *run), void *ctx)
{
    struct run_walk w = {
        .p = p, .c = c, .from = from, .to = to, .base = from, .times = 1, .fn = fn, .ctx = ctx};

    walk_runs(&w, 0, 0, 0, p->model.total_params, p->model.total_params);
}

void placement_runs(const struct plan *p, uint32_t tensor, enum component c,
                    void (*fn)(void *ctx, const struct placement_run *run), void *ctx)
{
    const struct tensor *t = &p->model.tensors[tensor];
    struct run_walk w = {.p = p, .c = c, .times = 1, .fn = fn, .ctx = ctx};
    enum place_rule rule = placement_parts(p, c) == 1 ? PLACE_REPLICATED : p->place[tensor].rule;

    switch (rule) {
    case PLACE_REPLICATED:
        emit_run(&w, 0, 1, 0, t->numel);
        break;
    case PLACE_CHUNK:
        w.to = t->rows;
        w.times = t->cols;
        walk_runs(&w, 0, 0, 0, t->rows, t->rows);
        break;
    case PLACE_FLAT:
        placement_flat_runs(p, t->at, t->at + t->numel, c, fn, ctx);
        break;
    case PLACE_OWNER:
        emit_run(&w, p->place[tensor].owner, 1, 0, t->numel);
        break;
    }
}

/* ---- the mesh of a plan ---- */

/* Axes that have more than one rank. */
static axis_set cut_axes(const struct mesh *m, axis_set over)
{
    for (int a = 0; a < AXIS_N; a++)
        if (mesh_size(m, AXES(a)) == 1)
            over &= ~AXES(a);
    return over;
}

_Static_assert(COMPONENT_N == 3, "each component has axes of its own");

struct factor placement_factor(const struct plan *p, uint32_t n)
{
    uint32_t node = p->cluster.gpus_per_node / p->job.tp;

    return (struct factor){(uint32_t)num_min(n, node), (uint32_t)num_ceil_div(n, node)};
}

int placement_set_mesh(struct plan *p, struct err *e)
{
    static const enum axis first[COMPONENT_N] = {AXIS_D0, AXIS_D1, AXIS_D2};
    uint32_t tp = p->job.tp, group = p->job.shard_group ? p->job.shard_group : plan_data_ranks(p);
    struct factor all = placement_factor(p, group);
    int cut = COMPONENT_N; /* the first component that is cut over the shard group */
    bool nested = false;

    for (int c = COMPONENT_N - 1; c >= 0; c--) {
        const struct factor *f = &p->factor[c];

        if (f->in_node == all.in_node && f->nodes == all.nodes && cut == c + 1)
            cut = c;
        else
            nested |= factor_ranks(*f) != 1;
    }
    if (nested && mesh_nested(&p->mesh, p->world, tp, p->cluster.gpus_per_node, p->factor, e))
        return -1;
    if (!nested)
        mesh_neighbours(&p->mesh, p->world, tp, cut < COMPONENT_N ? first[cut] : AXIS_D2,
                        cut < COMPONENT_N ? group : 1);
    p->over[PARAM] = cut_axes(&p->mesh, AXES(AXIS_D0));
    p->over[GRAD] = cut_axes(&p->mesh, AXES(AXIS_D0) | AXES(AXIS_D1));
    p->over[STATE] = cut_axes(&p->mesh, AXES(AXIS_D0) | AXES(AXIS_D1) | AXES(AXIS_D2));
    return 0;
}
