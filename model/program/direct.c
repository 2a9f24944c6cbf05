#include "model/program/direct.h"

#include "core/mem.h"
#include "model/plan/segment_algo.h"
#include "model/program/traffic.h"

struct walk {
    const struct program *p;
    const struct group *g;
    uint32_t base;
    uint64_t repeat;
    bool mirror; /* owners receive */
    void (*each)(void *ctx, const struct direct_product *x);
    void *ctx;
    struct direct_end *roots, *others; /* owned [n_members] */
};

bool direct_is(const struct program *p, const struct op *o, const struct instance *i,
               enum coll_algo algo)
{
    switch (o->coll.kind) {
    case COLL_ALL_TO_ALL:
    case COLL_SEND:
        return true;
    case COLL_SEGMENT_GATHER:
    case COLL_SEGMENT_REDUCE:
        return algo != ALGO_AUTO &&
               (segment_algo(algo)->direct == DIRECT_ALWAYS ||
                (segment_algo(algo)->direct == DIRECT_WHOLE && !traffic_to_ranges(p, o, i)));
    case COLL_ALL_REDUCE:
    case COLL_ALL_GATHER:
    case COLL_REDUCE_SCATTER:
    case COLL_BROADCAST:
    case COLL_REDUCE:
    case COLL_RECV:
    case COLL_N:
        break;
    }
    return false;
}

static void emit(struct walk *w, uint32_t n_roots, uint32_t n_others)
{
    struct direct_product x = {n_roots, n_others, w->roots, w->others};

    if (w->mirror)
        x = (struct direct_product){n_others, n_roots, w->others, w->roots};
    w->each(w->ctx, &x);
}

static uint32_t member(const struct walk *w, uint32_t i)
{
    return group_member(w->g, w->base, i);
}

static uint32_t node_of(const struct walk *w, uint32_t i)
{
    return member(w, i) / w->p->gpus_per_node;
}

/* Members of the group from k on share k's node: how many. */
static uint32_t run_of(const struct walk *w, uint32_t k)
{
    uint32_t on = 1;

    while (k + on < w->g->n_members && node_of(w, k + on) == node_of(w, k))
        on++;
    return on;
}

/* Members first .. first + n - 1, each as `bytes`. */
static void others(struct walk *w, uint32_t first, uint32_t n, uint64_t bytes)
{
    for (uint32_t i = 0; i < n; i++)
        w->others[i] = (struct direct_end){member(w, first + i), bytes};
}

/* Each root to all members. own: [n_members] bytes that a member roots. */
static void everyone(struct walk *w, const uint64_t *own)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->g->n_members; i++)
        if (own[i])
            w->roots[n++] = (struct direct_end){member(w, i), own[i]};
    others(w, 0, w->g->n_members, 1);
    emit(w, n, w->g->n_members);
}

/* Each root to the member in its place of every other node; a place beyond a smaller node's members wraps. */
static void places(struct walk *w, const uint64_t *own)
{
    uint32_t most = 0, n = w->g->n_members, *runs = MEM_NEW(uint32_t, n);

    for (uint32_t k = 0; k < n; k += runs[k]) {
        runs[k] = run_of(w, k);
        most = runs[k] > most ? runs[k] : most;
    }
    for (uint32_t q = 0; q < most; q++) {
        uint32_t n_roots = 0, n_others = 0;

        for (uint32_t k = 0, on; k < n; k += on) {
            on = runs[k];
            if (q < on && own[k + q])
                w->roots[n_roots++] = (struct direct_end){member(w, k + q), own[k + q]};
            w->others[n_others++] = (struct direct_end){member(w, k + q % on), 1};
        }
        if (n_roots)
            emit(w, n_roots, n_others);
    }
    mem_free(runs);
}

static void segments(struct walk *w, const struct collective *k, uint32_t unit, enum coll_algo algo)
{
    const struct segment_table *t = &w->p->segment_tables[k->table];
    uint32_t u = t->n_units > 1 ? unit : 0, n = w->g->n_members;
    uint64_t *own;

    if (t->start[u] == t->start[u + 1])
        return;
    if (t->segments[t->start[u]].to_n < n) {
        for (uint32_t i = t->start[u]; i < t->start[u + 1]; i++) {
            const struct segment *s = &t->segments[i];

            w->roots[0] = (struct direct_end){member(w, s->root),
                                              wire_bytes(&k->wire, s->elements) * w->repeat};
            others(w, s->to_first, s->to_n, 1);
            emit(w, 1, s->to_n);
        }
        return;
    }
    own = MEM_NEW(uint64_t, n);
    for (uint32_t i = t->start[u]; i < t->start[u + 1]; i++)
        own[t->segments[i].root] += wire_bytes(&k->wire, t->segments[i].elements) * w->repeat;
    if (segment_algo(algo)->one_a_node)
        places(w, own);
    else
        everyone(w, own);
    mem_free(own);
}

static void one_group(struct walk *w, const struct op *o, const struct instance *i,
                      enum coll_algo algo)
{
    uint32_t n = w->g->n_members;
    uint64_t bytes = op_coll_bytes(w->p, o, i) * w->repeat;

    switch (o->coll.kind) {
    case COLL_ALL_TO_ALL:
        for (uint32_t k = 0; k < n; k++)
            w->roots[k] = (struct direct_end){
                member(w, k), traffic_chunk(&o->coll, op_coll_elements(w->p, o, i), n) * w->repeat};
        others(w, 0, n, 1);
        emit(w, n, n);
        break;
    case COLL_SEND:
        for (uint32_t k = 0; k < n; k++) {
            w->roots[0] = (struct direct_end){member(w, k), bytes};
            others(w, (k + 1) % n, 1, 1);
            emit(w, 1, 1);
        }
        break;
    case COLL_SEGMENT_GATHER:
    case COLL_SEGMENT_REDUCE:
        segments(w, &o->coll, i->unit, algo);
        break;
    case COLL_ALL_REDUCE: /* these pass from neighbour to neighbour */
    case COLL_ALL_GATHER:
    case COLL_REDUCE_SCATTER:
    case COLL_BROADCAST:
    case COLL_REDUCE:
    case COLL_RECV:
    case COLL_N:
        BUG_ON(true);
    }
}

void direct_flows(const struct program *p, const struct op *o, const struct instance *i,
                  enum coll_algo algo, void (*each)(void *ctx, const struct direct_product *x),
                  void *ctx)
{
    const struct group *g = &p->groups[o->coll.group];
    struct walk w = {.p = p,
                     .g = g,
                     .repeat = o->coll.repeat ? o->coll.repeat : 1,
                     .mirror = o->coll.kind == COLL_SEGMENT_REDUCE,
                     .each = each,
                     .ctx = ctx,
                     .roots = MEM_NEW(struct direct_end, g->n_members),
                     .others = MEM_NEW(struct direct_end, g->n_members)};

    BUG_ON(!direct_is(p, o, i, algo));
    for (; w.base < p->world; w.base++) {
        if (group_base(g, w.base) != w.base)
            continue;
        one_group(&w, o, i, algo);
        if (g->members || g->n_members == p->world)
            break;
    }
    mem_free(w.roots);
    mem_free(w.others);
}
