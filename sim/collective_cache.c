/* Collectives by pattern: one activity for the same collective on the same segments, and the fastest way where it is open. */
#include "sim/collective.h"

#include "core/num.h"
#include "model/program/direct.h"
#include "model/plan/segment_algo.h"

#include <math.h>
#include <string.h>

struct key {
    uint32_t kind, algo, table, row, group, repeat, calls;
    struct wire wire;
    uint64_t bytes, piece;
};
struct coll_cache_slot {
    struct key key;
    struct coll_activity *value;
};

void coll_cache_init(struct coll_cache *k, const struct program *p, const struct cluster *c,
                     const struct nccl_options *nccl)
{
    struct err e;

    memset(k, 0, sizeof(*k));
    k->p = p;
    k->c = c;
    k->first = p->world;
    if (nccl)
        k->nccl = *nccl;
    arena_init(&k->arena);
    BUG_ON(fabric_init(&k->fabric, c, p->world, NULL, &k->arena, &e));
}

void coll_cache_fold(struct coll_cache *k)
{
    const struct program *p = k->p;

    if (p->distinct < p->world && p->gpus_per_node % p->distinct == 0 &&
        p->world % p->gpus_per_node == 0)
        k->first = p->gpus_per_node;
}

void coll_cache_release(struct coll_cache *k)
{
    mem_free(k->slots);
    arena_release(&k->arena);
    memset(k, 0, sizeof(*k));
}

static uint64_t hash(const struct key *key)
{
    const unsigned char *b = (const unsigned char *)key;
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < sizeof(*key); i++)
        h = (h ^ b[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

static struct coll_cache_slot *slot(struct coll_cache *k, const struct key *key)
{
    size_t at;

    if (k->n * 2 >= k->cap) {
        struct coll_cache_slot *old = k->slots;
        size_t cap = k->cap;

        k->cap = cap ? 2 * cap : 256;
        k->slots = MEM_NEW(struct coll_cache_slot, k->cap);
        for (size_t i = 0; i < cap; i++)
            if (old[i].value)
                *slot(k, &old[i].key) = old[i];
        mem_free(old);
    }
    for (at = hash(key) & (k->cap - 1); k->slots[at].value; at = (at + 1) & (k->cap - 1))
        if (!memcmp(&k->slots[at].key, key, sizeof(*key)))
            break;
    return &k->slots[at];
}

/* What an owner sends to other nodes itself, or takes in from them, cannot pass faster than by all NICs of its node. */
static double at_least_ps(const struct coll_cache *k, const struct op *o, const struct instance *i,
                          enum coll_algo algo)
{
    const struct group_shape s = group_shape(k->p, &k->p->groups[o->coll.group]);
    const struct segment_table *t = &k->p->segment_tables[o->coll.table];
    uint32_t u = t->n_units > 1 ? i->unit : 0;
    uint64_t most = 0;

    if (s.nodes < 2 || !direct_is(k->p, o, i, algo) || traffic_to_ranges(k->p, o, i))
        return 0;
    for (uint32_t n = t->start[u]; n < t->start[u + 1]; n++)
        most = num_max(most, wire_bytes(&o->coll.wire, t->segments[n].elements));
    return (double)most * (segment_algo(algo)->one_a_node ? s.nodes - 1 : s.n - s.per_node) /
           (k->c->nics_per_node * coll_capacity(&k->fabric, RESOURCE_NIC_TX));
}

static enum coll_algo fastest(const struct coll_cache *k, const struct op *o,
                              const struct instance *i, double ways_ps[ALGO_N])
{
    enum coll_algo best = ALGO_RING;
    int64_t best_ps = INT64_MAX;
    struct arena scratch;

    for (const enum coll_algo *way = segment_algo_choices; *way != ALGO_AUTO; way++) {
        const struct coll_activity *x;
        double bound = at_least_ps(k, o, i, *way);

        if (bound > (double)best_ps) {
            ways_ps[*way] = bound;
            continue;
        }
        arena_init(&scratch);
        x = coll_make(k, o, i, *way, &scratch);
        ways_ps[*way] = x->possible ? (double)x->alone_ps : INFINITY;
        if (x->possible && x->alone_ps < best_ps) {
            best_ps = x->alone_ps;
            best = *way;
        }
        arena_release(&scratch);
    }
    return best;
}

const struct coll_activity *coll_get(struct coll_cache *k, const struct op *o,
                                     const struct instance *i, enum coll_algo algo)
{
    const struct collective *c = &o->coll;
    bool segments = c->kind == COLL_SEGMENT_GATHER || c->kind == COLL_SEGMENT_REDUCE;
    struct coll_cache_slot *s;
    double ways_ps[ALGO_N] = {0};
    struct key key;
    struct coll_activity *x;

    memset(&key, 0, sizeof(key));
    key.kind = (uint32_t)c->kind;
    key.algo = segments ? (uint32_t)algo : (uint32_t)ALGO_RING;
    key.group = c->group;
    key.repeat = c->repeat;
    key.wire = c->wire;
    key.piece = c->piece;
    key.table = segments || c->rooted ? c->table : PROGRAM_NONE;
    key.calls = (uint32_t)c->calls;
    key.row = key.table != PROGRAM_NONE && k->p->segment_tables[c->table].n_units > 1 ? i->unit : 0;
    key.bytes = segments ? 0 : op_coll_bytes(k->p, o, i);
    s = slot(k, &key);
    if (s->value)
        return s->value;
    if (!segments)
        algo = ALGO_RING;
    else if (algo == ALGO_AUTO)
        algo = fastest(k, o, i, ways_ps);
    x = coll_make(k, o, i, algo, &k->arena);
    memcpy(x->ways_ps, ways_ps, sizeof(ways_ps));
    s->key = key;
    s->value = x;
    k->n++;
    return x;
}

int64_t sim_collective_ps(const struct program *p, const struct cluster *c, const struct op *o,
                          const struct instance *i, enum coll_algo algo)
{
    struct cluster domains = cluster_by_domain(c);
    struct coll_cache k;
    int64_t t;

    coll_cache_init(&k, p, &domains, NULL);
    t = coll_get(&k, o, i, algo)->alone_ps;
    coll_cache_release(&k);
    return t;
}
