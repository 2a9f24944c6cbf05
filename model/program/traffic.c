/* Even collectives, and sums over a step; owners' segments are traffic_segments.c's. */
#include "model/program/traffic.h"

#include "core/num.h"
#include "model/program/traffic_inner.h"

#include <string.h>

/* ---- collecting ---- */

void traffic_put(struct traffic_collect *c, uint32_t rank, int64_t si, int64_t se, int64_t ri,
                 int64_t re)
{
    int64_t *d;

    if (rank >= c->first)
        return;
    if (!c->deltas)
        c->deltas = mem_alloc(c->first, sizeof(*c->deltas));
    d = c->deltas[rank];
    c->n_deltas += !(d[0] | d[1] | d[2] | d[3]);
    d[0] += si;
    d[1] += se;
    d[2] += ri;
    d[3] += re;
}

uint32_t traffic_on_node(const struct traffic_collect *c, uint32_t base, uint32_t rank)
{
    uint32_t node = rank / c->p->gpus_per_node, first = node * c->p->gpus_per_node, n = 0;

    if (c->regular)
        return c->s.per_node;
    if (group_contiguous(c->g)) {
        uint64_t end =
            num_min((uint64_t)first + c->p->gpus_per_node, (uint64_t)base + c->g->n_members);

        return (uint32_t)end - (first > base ? first : base);
    }
    if (c->on_node)
        return c->on_node[node];
    for (uint32_t i = 0; i < c->g->n_members; i++)
        n += group_member(c->g, base, i) / c->p->gpus_per_node == node;
    return n;
}

/* Listed members are one group, whose nodes are counted once: for each rank anew it would cost ranks x members. */
static void count_nodes(struct traffic_collect *c, struct arena *a)
{
    if (!c->g->members || c->regular)
        return;
    c->on_node = ARENA_NEW(a, uint32_t, num_ceil_div(c->p->world, c->p->gpus_per_node));
    for (uint32_t i = 0; i < c->g->n_members; i++)
        c->on_node[c->g->members[i] / c->p->gpus_per_node]++;
}

uint64_t traffic_cross(const struct traffic_collect *c, uint64_t bytes, uint32_t on)
{
    return on < c->g->n_members ? num_ceil_div(bytes, on) : 0;
}

/* The ranks from which on some have fewer or more neighbours than s.per_node: of the world only the last node. */
static uint32_t first_irregular(const struct traffic_collect *c)
{
    if (c->regular)
        return c->p->world;
    return group_contiguous(c->g) && c->g->n_members == c->p->world && c->s.nodes > 1
               ? c->p->world - c->p->world % c->p->gpus_per_node
               : 0;
}

/* Ranks that may take part, and the i-th of them. */
static uint32_t n_places(const struct traffic_collect *c)
{
    return c->g->members ? c->g->n_members : c->first;
}

static uint32_t place(const struct traffic_collect *c, uint32_t i)
{
    return c->g->members ? c->g->members[i] : i;
}

void traffic_even_ring(struct traffic_collect *c, uint64_t bytes)
{
    uint64_t inter = traffic_cross(c, bytes, c->s.per_node);

    c->every = (struct traffic_bytes){bytes - inter, inter, bytes - inter, inter};
    for (uint32_t i = first_irregular(c); i < n_places(c); i++) {
        uint32_t rank = place(c, i);
        int64_t d =
            (int64_t)traffic_cross(c, bytes, traffic_on_node(c, group_base(c->g, rank), rank)) -
            (int64_t)inter;

        if (d)
            traffic_put(c, rank, -d, d, -d, d);
    }
}

/* Rings of all-reduces, of what each rank roots. O(segments + ranks that root). */
static void rooted_rings(struct traffic_collect *c, const struct collective *k, uint32_t unit)
{
    const struct segment_table *t = &c->p->segment_tables[k->table];
    uint32_t u = t->n_units == 1 ? 0 : unit, n = c->g->n_members;
    uint64_t *own = MEM_NEW(uint64_t, c->p->groups[t->group].n_members);

    for (uint32_t i = t->start[u]; i < t->start[u + 1]; i++)
        own[t->segments[i].root] += t->segments[i].elements;
    for (uint32_t rank = 0; rank < c->first; rank++) {
        uint64_t bytes =
            2 * (n - 1) * wire_bytes(&k->wire, num_ceil_div(own[program_root(c->p, t, rank)], n));
        int64_t b = (int64_t)bytes,
                x = bytes ? (int64_t)traffic_cross(c, bytes,
                                                   traffic_on_node(c, group_base(c->g, rank), rank))
                          : 0;

        if (bytes)
            traffic_put(c, rank, b - x, x, b - x, x);
    }
    mem_free(own);
}

/* Every member sends `bytes` to the next one, the last to the first: nccl-tests' sendrecv. */
static void even_shift(struct traffic_collect *c, uint64_t bytes)
{
    uint32_t n = c->g->n_members, gpn = c->p->gpus_per_node;
    int64_t b = (int64_t)bytes;

    c->every = (struct traffic_bytes){bytes, 0, bytes, 0};
    for (uint32_t base = 0; base < c->first; base++) {
        if (!group_is_base(c->g, base))
            continue;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t from = group_member(c->g, base, i), to = group_member(c->g, base, (i + 1) % n);

            if (from / gpn == to / gpn)
                continue;
            traffic_put(c, from, -b, b, 0, 0);
            traffic_put(c, to, 0, 0, -b, b);
        }
    }
}

static void even_all_to_all(struct traffic_collect *c, uint64_t chunk)
{
    uint64_t inter = (c->g->n_members - c->s.per_node) * chunk, intra = (c->s.per_node - 1) * chunk;

    c->every = (struct traffic_bytes){intra, inter, intra, inter};
    for (uint32_t i = first_irregular(c); i < n_places(c); i++) {
        uint32_t rank = place(c, i);
        int64_t on = traffic_on_node(c, group_base(c->g, rank), rank),
                d = ((int64_t)c->s.per_node - on) * (int64_t)chunk;

        if (d)
            traffic_put(c, rank, -d, d, -d, d);
    }
}

uint64_t traffic_chunk(const struct collective *k, uint64_t elements, uint32_t n)
{
    if (!k->piece || k->piece >= elements)
        return wire_bytes(&k->wire, num_ceil_div(elements, n));
    return elements / k->piece * wire_bytes(&k->wire, num_ceil_div(k->piece, n)) +
           wire_bytes(&k->wire, num_ceil_div(elements % k->piece, n));
}

bool traffic_to_ranges(const struct program *p, const struct op *o, const struct instance *i)
{
    const struct segment_table *t;
    uint32_t row;

    if (o->coll.kind != COLL_SEGMENT_GATHER && o->coll.kind != COLL_SEGMENT_REDUCE)
        return false;
    t = &p->segment_tables[o->coll.table];
    row = t->n_units > 1 ? i->unit : 0;
    return t->start[row] < t->start[row + 1] &&
           t->segments[t->start[row]].to_n < p->groups[o->coll.group].n_members;
}

static struct traffic_bytes bytes_of(const uint64_t v[4], uint64_t repeat, bool mirror)
{
    return mirror
               ? (struct traffic_bytes){v[2] * repeat, v[3] * repeat, v[0] * repeat, v[1] * repeat}
               : (struct traffic_bytes){v[0] * repeat, v[1] * repeat, v[2] * repeat, v[3] * repeat};
}

static void finish(struct traffic_collect *c, bool mirror, uint64_t repeat, struct arena *a,
                   struct traffic *t)
{
    const uint64_t ev[4] = {c->every.sent_intra, c->every.sent_inter, c->every.recv_intra,
                            c->every.recv_inter};

    bool listed = c->g->members; /* who is not listed moves nothing */

    t->only = ARENA_NEW(a, struct traffic_only, listed ? (size_t)c->g->n_members : c->n_deltas);
    t->n_only = 0;
    for (uint32_t i = 0; (listed || c->deltas) && i < n_places(c); i++) {
        uint32_t r = place(c, i);
        static const int64_t none[4];
        const int64_t *d = c->deltas ? c->deltas[r] : none;
        uint64_t v[4];

        if (!listed && !(d[0] | d[1] | d[2] | d[3]))
            continue;
        for (int k = 0; k < 4; k++) {
            BUG_ON((int64_t)ev[k] + d[k] < 0);
            v[k] = (uint64_t)((int64_t)ev[k] + d[k]);
        }
        t->only[t->n_only++] = (struct traffic_only){r, bytes_of(v, repeat, mirror)};
    }
    t->every = listed ? (struct traffic_bytes){0} : bytes_of(ev, repeat, mirror);
    mem_free(c->deltas);
}

void traffic_of(const struct program *p, const struct op *o, const struct instance *i,
                enum coll_algo algo, struct arena *a, struct traffic *t)
{
    traffic_of_first(p, o, i, algo, p->world, a, t);
}

void traffic_of_first(const struct program *p, const struct op *o, const struct instance *i,
                      enum coll_algo algo, uint32_t first, struct arena *a, struct traffic *t)
{
    const struct collective *k = &o->coll;
    struct traffic_collect c = {.p = p, .g = &p->groups[k->group], .first = first};
    uint64_t bytes = op_coll_bytes(p, o, i), chunk, n = c.g->n_members;

    c.s = group_shape(p, c.g);
    c.regular = group_regular(p, c.g, &c.s);
    count_nodes(&c, a);
    if (n > 1 && bytes) {
        chunk = traffic_chunk(k, op_coll_elements(p, o, i), c.g->n_members);
        switch (k->kind) {
        case COLL_ALL_REDUCE:
            if (k->rooted)
                rooted_rings(&c, k, i->unit);
            else
                traffic_even_ring(&c, 2 * (n - 1) * chunk);
            break;
        case COLL_ALL_GATHER:
        case COLL_REDUCE_SCATTER:
            traffic_even_ring(&c, (n - 1) * chunk);
            break;
        case COLL_ALL_TO_ALL:
            even_all_to_all(&c, chunk);
            break;
        case COLL_BROADCAST:
        case COLL_REDUCE: {
            struct wire_segment s = {.to_n = (uint32_t)n, .bytes = bytes};

            traffic_broadcast(&c, &s);
            break;
        }
        case COLL_SEGMENT_GATHER:
        case COLL_SEGMENT_REDUCE:
            traffic_segments(&c, k, i->unit, algo);
            break;
        case COLL_SEND:
            even_shift(&c, bytes);
            break;
        case COLL_RECV: /* counted by the op that sends */
        case COLL_N:
            break;
        }
    }
    finish(&c, k->kind == COLL_REDUCE || k->kind == COLL_SEGMENT_REDUCE, k->repeat ? k->repeat : 1,
           a, t);
}

struct traffic_bytes traffic_get(const struct traffic *t, uint32_t rank)
{
    uint32_t lo = 0, hi = t->n_only;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (t->only[mid].rank < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < t->n_only && t->only[lo].rank == rank ? t->only[lo].bytes : t->every;
}

/* ---- a whole step ---- */

struct step_ctx {
    const struct program *p;
    enum coll_algo (*algo_of)(void *ctx, const struct instance *i);
    void *ctx;
    struct traffic_bytes every;
    struct traffic_bytes *per_rank;
    uint32_t phase_mask;
};

static void add_bytes(struct traffic_bytes *to, const struct traffic_bytes *b, int64_t sign)
{
    to->sent_intra += (uint64_t)sign * b->sent_intra;
    to->sent_inter += (uint64_t)sign * b->sent_inter;
    to->recv_intra += (uint64_t)sign * b->recv_intra;
    to->recv_inter += (uint64_t)sign * b->recv_inter;
}

static int step_instance(void *ctx, const struct instance *i)
{
    struct step_ctx *s = ctx;
    const struct op *o = &s->p->ops[i->op];
    struct arena scratch;
    struct traffic t;
    enum coll_algo algo;

    if (o->kind != OP_COLLECTIVE || !(s->phase_mask & 1u << o->phase))
        return 0;
    algo = s->algo_of ? s->algo_of(s->ctx, i) : o->coll.algo;
    if (algo == ALGO_AUTO)
        algo = ALGO_RING;
    arena_init(&scratch);
    traffic_of(s->p, o, i, algo, &scratch, &t);
    add_bytes(&s->every, &t.every, 1);
    for (uint32_t k = 0; k < t.n_only; k++) {
        add_bytes(&s->per_rank[t.only[k].rank], &t.only[k].bytes, 1);
        add_bytes(&s->per_rank[t.only[k].rank], &t.every, -1);
    }
    arena_release(&scratch);
    return 0;
}

void traffic_step(const struct program *p, uint32_t phase_mask,
                  enum coll_algo (*algo_of)(void *ctx, const struct instance *i), void *ctx,
                  struct traffic_bytes *per_rank)
{
    struct step_ctx s = {
        .p = p, .algo_of = algo_of, .ctx = ctx, .per_rank = per_rank, .phase_mask = phase_mask};

    memset(per_rank, 0, p->world * sizeof(*per_rank));
    for (uint32_t i = 0; i < p->n_roles; i++)
        program_walk(p, p->roles[i].first_rank, step_instance, &s);
    for (uint32_t r = 0; r < p->world; r++)
        add_bytes(&per_rank[r], &s.every, 1);
}
