/* Turns a program into fluid activities, runs them, and reads the prediction off.
 *
 * Every instance of the walk becomes one activity, shared by all ranks, until ranks differ: in a loop over a rank's own
 * items the timeline splits into classes of ranks with equal work, each with its representative's resources. It merges
 * again where an operation of the compute stream waits for a collective, which ends at once for all. Unfolded, every rank
 * is a class of its own from the start. O(instances + classes x instances in split stretches).
 */
#include "sim/sim.h"

#include "sim/run.h"

#include <stdlib.h>
#include <string.h>

/* ---- classes of ranks ---- */

struct signature {
    uint64_t hash;
    uint32_t rank;
};

static int by_hash(const void *x, const void *y)
{
    const struct signature *a = x, *b = y;

    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 33;
    h *= UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 33;
    h *= UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 33;
}

/* Ranks are alike when their lists hold the same multiset of shapes: times add up the same in any order. A sum of mixed
 * hashes is such a signature; 64 bits make an accidental match of two of 131,072 ranks a 1e-9 event. */
static uint64_t work_hash(const struct program *p, uint32_t rank)
{
    uint64_t h = 0;

    for (uint32_t t = 0; t < p->n_work_tables; t++) {
        const struct work_table *w = &p->work_tables[t];

        for (uint32_t i = w->start ? w->start[rank] : 0; w->start && i < w->start[rank + 1]; i++) {
            const struct work_item *x = &w->items[w->list[i]];

            h += mix(x->m * UINT64_C(0x9e3779b97f4a7c15) ^
                     mix(x->n + mix(x->elements + mix(t + 1))));
        }
    }
    return h;
}

static void make_classes(struct run *r)
{
    uint32_t n = r->p->world;
    struct signature *s = MEM_NEW(struct signature, n);

    r->class_of = MEM_NEW(uint32_t, n);
    r->rep = MEM_NEW(uint32_t, n);
    for (uint32_t i = 0; i < n; i++)
        s[i] = (struct signature){r->unfold ? i : work_hash(r->p, i), i};
    qsort(s, n, sizeof(*s), by_hash);
    for (uint32_t i = 0; i < n; i++) { /* the lowest rank stands for its class */
        if (i == 0 || s[i].hash != s[i - 1].hash)
            r->rep[r->n_classes++] = s[i].rank;
        r->class_of[s[i].rank] = r->n_classes - 1;
    }
    mem_free(s);
}

/* ---- tasks ---- */

/* The tasks of one instance: one shared, or one a class. */
struct spot {
    uint32_t first; /* task, or PROGRAM_NONE: no such instance */
    bool split;     /* tasks first .. first + n_classes - 1 */
};

/* Where the instances of an awaited op are: [micro][unit] of spots, and the last one. */
struct where {
    struct spot *at; /* owned, or NULL when nobody waits for it */
    uint32_t n_units;
    struct spot last;
};

struct build {
    struct run *r;
    struct where *where;        /* [n_ops] */
    struct spot tail[STREAM_N]; /* last of each stream; serial: all of the first */
    uint32_t split_since;       /* first task of the split stretch; PROGRAM_NONE: not split */
    uint32_t class_id;          /* the class that walks an item loop */
};

static uint32_t new_task(struct build *b, const struct instance *i, uint32_t class_id,
                         const struct fluid_activity *a)
{
    struct run *r = b->r;
    uint32_t id = fluid_add(r->f, a, 0);

    r->tasks = mem_grow(r->tasks, &r->cap_tasks, (size_t)id + 1, sizeof(*r->tasks));
    r->tasks[id] = (struct task){.id = *i, .class_id = class_id, .coll = NULL};
    r->n_tasks = id + 1;
    return id;
}

/* The queue that an operation stands in. */
static enum stream lane(const struct build *b, const struct op *o)
{
    return b->r->serial || b->r->p->in_order ? STREAM_COMPUTE : o->stream;
}

static void after_spot(struct build *b, uint32_t task, struct spot s, uint32_t class_id)
{
    if (s.first == PROGRAM_NONE)
        return;
    if (!s.split) {
        fluid_after(b->r->f, task, s.first);
    } else if (class_id != PROGRAM_NONE) {
        fluid_after(b->r->f, task, s.first + class_id);
    } else {
        for (uint32_t k = 0; k < b->r->n_classes; k++)
            fluid_after(b->r->f, task, s.first + k);
    }
}

/* The instance that a wait of instance i means. */
static struct spot resolve(const struct build *b, const struct op *o, const struct instance *i,
                           const struct wait *w)
{
    const struct where *at = &b->where[w->op];
    struct awaited a = program_awaited(b->r->p, o, i, w);

    if (a.kind == WAIT_NOTHING)
        return (struct spot){PROGRAM_NONE, false};
    if (a.kind == WAIT_LAST)
        return at->last;
    return at->at[(uint64_t)a.micro * at->n_units + a.unit];
}

static void place(struct build *b, const struct instance *i, struct spot s)
{
    struct where *at = &b->where[i->op];

    at->last = s;
    if (at->at)
        at->at[(uint64_t)i->micro * at->n_units + i->unit] = s;
    b->tail[lane(b, &b->r->p->ops[i->op])] = s;
}

/* A kernel uses SMs at full rate and HBM by its traffic, on every rank or on a class's representative. */
static struct fluid_activity kernel_activity(struct build *b, const struct op *o,
                                             const struct kernel_call *call, uint32_t only_rank)
{
    struct kernel_time t = run_kernel_time(b->r, o, call);
    struct fluid_use *u = ARENA_NEW(&b->r->arena, struct fluid_use, 2);
    double rate = t.alone_ps > 0 ? t.hbm_bytes / (double)t.alone_ps : 0;
    double hbm = b->r->c->device.hbm_Bps / 1e12;
    struct fluid_amount *a;

    if (rate > hbm)
        rate = hbm;
    u[0] = (struct fluid_use){.kind = RESOURCE_SM, .every = 1};
    u[1] = (struct fluid_use){.kind = RESOURCE_HBM, .every = rate};
    if (only_rank != PROGRAM_NONE) {
        a = ARENA_NEW(&b->r->arena, struct fluid_amount, 2);
        a[0] = (struct fluid_amount){only_rank, 1};
        a[1] = (struct fluid_amount){only_rank, rate};
        u[0] = (struct fluid_use){.kind = RESOURCE_SM, .n_only = 1, .only = &a[0]};
        u[1] = (struct fluid_use){.kind = RESOURCE_HBM, .n_only = 1, .only = &a[1]};
    }
    return (struct fluid_activity){.work = (double)t.alone_ps,
                                   .cap = 1,
                                   .weight = rate > 0 ? 1 / rate : 1,
                                   .uses = u,
                                   .n_uses = rate > 0 ? 2 : 1};
}

/* Is the split over for this instance: does it wait for a collective that came after ranks went apart? */
static bool joins(const struct build *b, const struct op *o, const struct instance *i)
{
    if (o->kind == OP_COLLECTIVE)
        return true;
    if (b->r->unfold || b->split_since == PROGRAM_NONE)
        return false;
    for (uint32_t k = 0; k < o->n_waits; k++) {
        struct spot s = resolve(b, o, i, &o->waits[k]);

        if (s.first != PROGRAM_NONE && !s.split && s.first > b->split_since)
            return true;
    }
    return false;
}

static uint32_t add_one(struct build *b, const struct instance *i, uint32_t class_id)
{
    const struct op *o = &b->r->p->ops[i->op];
    const struct coll_activity *coll = NULL;
    struct fluid_activity a = {0};
    struct kernel_call call;
    int64_t host_ps = 0;
    uint32_t id;

    if (o->kind == OP_COMPUTE) {
        call = op_call(b->r->p, o, i->item);
        a = kernel_activity(b, o, &call,
                            class_id == PROGRAM_NONE ? PROGRAM_NONE : b->r->rep[class_id]);
    } else if (o->kind == OP_COLLECTIVE) {
        coll = coll_get(&b->r->cache, o, i, o->coll.algo);
        a = coll->activity;
        host_ps = run_host_ps(b->r, o, i);
        a.latency_ps += host_ps;
    }
    id = new_task(b, i, class_id, &a);
    b->r->tasks[id].coll = coll;
    b->r->tasks[id].host_ps = host_ps;
    after_spot(b, id, b->tail[lane(b, o)], class_id);
    for (uint32_t k = 0; k < o->n_waits; k++)
        after_spot(b, id, resolve(b, o, i, &o->waits[k]), class_id);
    return id;
}

/* An instance that all ranks run: one task, or in a split stretch one a class. */
static void add_common(struct build *b, const struct instance *i)
{
    const struct op *o = &b->r->p->ops[i->op];
    struct spot s = {PROGRAM_NONE, false};

    if (b->split_since != PROGRAM_NONE && !joins(b, o, i)) {
        s.split = true;
        for (uint32_t k = 0; k < b->r->n_classes; k++) {
            uint32_t id = add_one(b, i, k);

            s.first = k ? s.first : id;
        }
    } else {
        if (o->kind != OP_COLLECTIVE && !b->r->unfold)
            b->split_since = PROGRAM_NONE;
        s.first = add_one(b, i, PROGRAM_NONE);
    }
    place(b, i, s);
}

/* ---- item loops with lists of their own ---- */

/* One loop over own items: every class walks its list; at the end one mark a class stands for the whole loop, so that
 * classes with different numbers of items line up again. */
struct own_walk {
    struct build *b;
    uint32_t loop;
    uint32_t prev[STREAM_N];
    uint32_t made[64]; /* task of each op of the loop in this item */
};

static int own_instance(void *ctx, const struct instance *i)
{
    struct own_walk *w = ctx;
    struct build *b = w->b;
    const struct program *p = b->r->p;
    const struct op *o = &p->ops[i->op];
    const struct loop *l = &p->loops[w->loop];
    struct fluid_activity a;
    struct kernel_call call;
    uint32_t id;

    if (i->op < l->first_op || i->op >= l->first_op + l->n_ops)
        return 0;
    BUG_ON(o->kind !=
           OP_COMPUTE); /* ranks with lists of their own share no collective inside the loop */
    call = op_call(p, o, i->item);
    a = kernel_activity(b, o, &call, b->r->rep[b->class_id]);
    id = new_task(b, i, b->class_id, &a);
    if (w->prev[lane(b, o)] != PROGRAM_NONE)
        fluid_after(b->r->f, id, w->prev[lane(b, o)]);
    else
        after_spot(b, id, b->tail[lane(b, o)], b->class_id);
    for (uint32_t k = 0; k < o->n_waits; k++) {
        uint32_t on = o->waits[k].op;

        if (on >= l->first_op && on < l->first_op + l->n_ops) {
            if (w->made[on - l->first_op] != PROGRAM_NONE)
                fluid_after(b->r->f, id, w->made[on - l->first_op]);
        } else {
            after_spot(b, id, b->where[on].last, b->class_id);
        }
    }
    w->prev[lane(b, o)] = id;
    w->made[i->op - l->first_op] = id;
    return 0;
}

static void add_own_loop(struct build *b, uint32_t loop)
{
    struct run *r = b->r;
    const struct loop *l = &r->p->loops[loop];
    struct instance mark = {.op = l->first_op};
    const struct fluid_activity nothing = {0};
    struct spot *ends = MEM_NEW(struct spot, r->n_classes);
    struct spot s = {PROGRAM_NONE, true};

    BUG_ON(l->n_ops > 64);
    if (b->split_since == PROGRAM_NONE)
        b->split_since = r->n_tasks ? r->n_tasks - 1 : 0;
    for (uint32_t k = 0; k < r->n_classes; k++) {
        struct own_walk w = {.b = b, .loop = loop};

        memset(w.prev, 0xff, sizeof(w.prev));
        memset(w.made, 0xff, sizeof(w.made));
        b->class_id = k;
        program_walk_range(r->p, r->rep[k], l->first_op, l->n_ops, own_instance, &w);
        ends[k] = (struct spot){w.prev[STREAM_COMPUTE], false};
    }
    for (uint32_t k = 0; k < r->n_classes; k++) {
        uint32_t id = new_task(b, &mark, k, &nothing);

        r->tasks[id].joint = true;
        s.first = k ? s.first : id;
        if (ends[k].first != PROGRAM_NONE)
            fluid_after(r->f, id, ends[k].first);
        else
            after_spot(b, id, b->tail[STREAM_COMPUTE], k);
    }
    b->tail[STREAM_COMPUTE] = s;
    for (uint32_t i = l->first_op; i < l->first_op + l->n_ops; i++)
        b->where[i].last = s;
    mem_free(ends);
}

/* ---- the walk ---- */

static int common_instance(void *ctx, const struct instance *i)
{
    struct build *b = ctx;
    const struct program *p = b->r->p;
    uint32_t l = p->ops[i->op].loop;

    if (l != PROGRAM_NONE && p->loops[l].kind == LOOP_ITEM &&
        p->work_tables[p->loops[l].work].start)
        return 0; /* see build_all */
    add_common(b, i);
    return 0;
}

/* Outermost loops over own items cut the role's list into stretches that all ranks walk alike. */
static void build_all(struct build *b, const struct role *role)
{
    const struct program *p = b->r->p;
    uint32_t at = role->first_op, end = role->first_op + role->n_ops;

    for (uint32_t l = 0; l < p->n_loops; l++) {
        const struct loop *x = &p->loops[l];

        if (x->kind != LOOP_ITEM || !p->work_tables[x->work].start || x->first_op < at ||
            x->first_op >= end)
            continue;
        BUG_ON(x->parent != PROGRAM_NONE);
        program_walk_range(p, role->first_rank, at, x->first_op - at, common_instance, b);
        add_own_loop(b, l);
        at = x->first_op + x->n_ops;
    }
    program_walk_range(p, role->first_rank, at, end - at, common_instance, b);
}

static void awaited(struct build *b)
{
    const struct program *p = b->r->p;

    b->where = MEM_NEW(struct where, p->n_ops);
    for (uint32_t i = 0; i < p->n_ops; i++)
        b->where[i].last.first = PROGRAM_NONE;
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (uint32_t k = 0; k < p->ops[i].n_waits; k++) {
            const struct op *o = &p->ops[p->ops[i].waits[k].op];
            struct where *w = &b->where[o->id];
            uint32_t micros = op_in_loop(p, o, LOOP_MICRO) ? p->n_micro : 1;

            if (w->at || op_in_loop(p, o, LOOP_ITEM))
                continue;
            w->n_units = op_in_loop(p, o, LOOP_UNIT) ? p->model->n_units : 1;
            w->at = MEM_NEW(struct spot, (size_t)w->n_units * micros);
            for (uint64_t n = 0; n < (uint64_t)w->n_units * micros; n++)
                w->at[n].first = PROGRAM_NONE;
        }
}

/* An instance costs about 200 bytes: what would take more than a few GB is refused before it is built. */
enum { MAX_INSTANCES = 1 << 25 };

static int count_instance(void *ctx, const struct instance *i)
{
    uint32_t *n = ctx;

    (void)i;
    return ++*n > MAX_INSTANCES;
}

static int check_size(const struct program *p, struct err *e)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_roles; i++)
        if (program_walk(p, p->roles[i].first_rank, count_instance, &n))
            return err_set(
                e, ERR_UNSUPPORTED,
                "a step of more than %u operations: %u units, %u micro-batches; expected "
                "fewer layers or a smaller --grad-accum",
                MAX_INSTANCES, p->model->n_units, p->n_micro);
    return 0;
}

/* The step does not fit into the engine's time: which operation is beyond it. */
static int late(const struct run *r, uint32_t task, struct err *e)
{
    const struct instance *i = &r->tasks[task].id;
    const struct op *o = &r->p->ops[i->op];
    const char *tensor = "", *unit = "";

    if (op_in_loop(r->p, o, LOOP_ITEM))
        tensor =
            r->p->model->tensors[r->p->work_tables[r->p->loops[o->loop].work].items[i->item].tensor]
                .name;
    else if (op_in_loop(r->p, o, LOOP_UNIT))
        unit = r->p->model->units[i->unit].name;
    return err_set(e, ERR_OVERFLOW,
                   "operation %s%s%s%s%s, micro-batch %u, ends beyond 2^63 ps (106 days): expected "
                   "rates of a device and links that do a step in less",
                   o->name, *unit ? " of unit " : "", unit, *tensor ? " on " : "", tensor,
                   i->micro);
}

int run_program(struct run *r, const struct program *p, const struct cluster *c,
                const struct sim_options *o, struct err *e)
{
    struct build b = {.r = r, .split_since = PROGRAM_NONE};
    struct fabric fabric;
    int status;

    memset(r, 0, sizeof(*r));
    if (check_size(p, e))
        return -1;
    arena_init(&r->arena);
    if (fabric_init(&fabric, c, p->world, NULL, &r->arena, e))
        return -1;
    r->p = p;
    r->c = c;
    r->unfold = o->unfold;
    r->serial = o->serial;
    r->framework = o->framework;
    coll_cache_init(&r->cache, p, c, &o->nccl);
    if (!o->unfold)
        coll_cache_fold(&r->cache);
    r->f = fluid_new();
    coll_make_kinds(r->f, &r->cache.fabric);
    make_classes(r);
    run_find_stretch(r);
    for (int s = 0; s < STREAM_N; s++)
        b.tail[s] = (struct spot){PROGRAM_NONE, false};
    if (o->unfold)
        b.split_since = 0;
    awaited(&b);
    BUG_ON(p->n_roles != 1); /* pipeline stages: build each role, then match sends and receives */
    build_all(&b, &p->roles[0]);
    status = fluid_run(r->f, e);
    if (status && fluid_at_fault(r->f) != UINT32_MAX)
        status = late(r, fluid_at_fault(r->f), e);
    for (uint32_t i = 0; i < p->n_ops; i++)
        mem_free(b.where[i].at);
    mem_free(b.where);
    return status;
}

void run_release(struct run *r)
{
    fluid_free(r->f);
    coll_cache_release(&r->cache);
    mem_free(r->tasks);
    mem_free(r->class_of);
    mem_free(r->rep);
    arena_release(&r->arena);
}
