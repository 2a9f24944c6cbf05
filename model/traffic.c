#include "model/traffic.h"

#include "core/num.h"
#include "model/tree.h"

#include <stdlib.h>
#include <string.h>

/* ---- groups on nodes ---- */

static bool contiguous(const struct group *g)
{
    return g->n_axes == 1 && g->stride[0] == 1;
}

/* Is `rank` the first member of its group? */
static bool is_base(const struct group *g, uint32_t rank)
{
    if (g->members)
        return rank == 0;
    for (uint32_t k = 0; k < g->n_axes; k++)
        if (rank / g->stride[k] % g->size[k])
            return false;
    return true;
}

/* Neighbours from `base` on. */
static struct group_shape range_shape(const struct program *p, uint32_t base, uint32_t n)
{
    uint32_t gpn = p->gpus_per_node, first = (uint32_t)num_min(n, gpn - base % gpn);
    struct group_shape s = {.n = n, .nodes = 1, .per_node = first};

    if (n > first) {
        s.nodes += (uint32_t)num_ceil_div(n - first, gpn);
        s.per_node = (uint32_t)num_max(first, num_min(n - first, gpn));
    }
    return s;
}

/* The group of `base`, by its members. */
static struct group_shape listed_shape(const struct program *p, const struct group *g,
                                       uint32_t base)
{
    struct group_shape s = {.n = g->n_members};
    uint32_t node = PROGRAM_NONE, here = 0;

    for (uint32_t i = 0; i < g->n_members; i++) {
        uint32_t n = group_member(g, base, i) / p->gpus_per_node;

        if (n != node) {
            s.nodes++;
            here = 0;
        }
        node = n;
        if (++here > s.per_node)
            s.per_node = here;
    }
    return s;
}

/* Is the first group of the family one that touches most nodes? Of neighbours, and of ranks that are apart by what a node
 * divides or is divided by, it is. */
static bool first_says_all(const struct program *p, const struct group *g)
{
    uint32_t gpn = p->gpus_per_node, by = contiguous(g) ? g->n_members : g->stride[0];

    return g->members || (g->n_axes == 1 && (by % gpn == 0 || gpn % by == 0));
}

struct group_shape group_shape(const struct program *p, const struct group *g)
{
    struct group_shape s = {0}, x;

    for (uint32_t base = 0; base < p->world; base++) {
        if (!is_base(g, base))
            continue;
        x = contiguous(g) ? range_shape(p, base, g->n_members) : listed_shape(p, g, base);
        if (x.nodes > s.nodes || (x.nodes == s.nodes && x.per_node < s.per_node))
            s = x;
        if (first_says_all(p, g) || g->n_members == p->world)
            break;
    }
    return s;
}

/* Does every node that a group of the family touches hold equally many of its members? O(1) for ranges, else O(world). */
static bool regular(const struct program *p, const struct group *g, const struct group_shape *s)
{
    uint32_t node = PROGRAM_NONE, here = s->per_node;

    if (g->members)
        return false;
    if (contiguous(g))
        return g->n_members % p->gpus_per_node == 0 || p->gpus_per_node % g->n_members == 0 ||
               (g->n_members == p->world && s->nodes == 1);
    for (uint32_t base = 0; base < p->world; base++) {
        if (!is_base(g, base))
            continue;
        for (uint32_t i = 0; i < g->n_members; i++) {
            uint32_t n = group_member(g, base, i) / p->gpus_per_node;

            if (n != node || i == 0) {
                if (here != s->per_node)
                    return false;
                here = 0;
            }
            node = n;
            here++;
        }
    }
    return here == s->per_node;
}

/* ---- collecting ---- */

/* Differences from `every`, by rank: dense, made when the first rank differs. */
struct collect {
    const struct program *p;
    const struct group *g;
    uint32_t first; /* ranks to count, the first ones */
    struct group_shape s;
    bool regular; /* members on a node: s.per_node everywhere */
    struct traffic_bytes every;
    int64_t (*deltas)[4]; /* owned [first]: sent_intra, sent_inter, recv_intra, recv_inter */
    size_t n_deltas;      /* ranks that may differ */
};

static void put(struct collect *c, uint32_t rank, int64_t si, int64_t se, int64_t ri, int64_t re)
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

/* Members of the group of `base` on the node of `rank`. */
static uint32_t on_node(const struct collect *c, uint32_t base, uint32_t rank)
{
    uint32_t node = rank / c->p->gpus_per_node, first = node * c->p->gpus_per_node, n = 0;

    if (c->regular)
        return c->s.per_node;
    if (contiguous(c->g)) {
        uint64_t end =
            num_min((uint64_t)first + c->p->gpus_per_node, (uint64_t)base + c->g->n_members);

        return (uint32_t)end - (first > base ? first : base);
    }
    for (uint32_t i = 0; i < c->g->n_members; i++)
        n += group_member(c->g, base, i) / c->p->gpus_per_node == node;
    return n;
}

/* Bytes of a ring that go to another node: the group's `on` GPUs of a node take turns on the rails. */
static uint64_t cross(const struct collect *c, uint64_t bytes, uint32_t on)
{
    return on < c->g->n_members ? num_ceil_div(bytes, on) : 0;
}

/* The ranks from which on some have fewer or more neighbours than s.per_node: of the world only the last node. */
static uint32_t first_irregular(const struct collect *c)
{
    if (c->regular)
        return c->p->world;
    return contiguous(c->g) && c->g->n_members == c->p->world && c->s.nodes > 1
               ? c->p->world - c->p->world % c->p->gpus_per_node
               : 0;
}

/* Ranks that may take part, and the i-th of them. */
static uint32_t n_places(const struct collect *c)
{
    return c->g->members ? c->g->n_members : c->first;
}

static uint32_t place(const struct collect *c, uint32_t i)
{
    return c->g->members ? c->g->members[i] : i;
}

/* Every rank sends and receives `bytes` on rings. */
static void even_ring(struct collect *c, uint64_t bytes)
{
    uint64_t inter = cross(c, bytes, c->s.per_node);

    c->every = (struct traffic_bytes){bytes - inter, inter, bytes - inter, inter};
    for (uint32_t i = first_irregular(c); i < n_places(c); i++) {
        uint32_t rank = place(c, i);
        int64_t d =
            (int64_t)cross(c, bytes, on_node(c, group_base(c->g, rank), rank)) - (int64_t)inter;

        if (d)
            put(c, rank, -d, d, -d, d);
    }
}

/* Rings of all-reduces, of what each place roots. O(segments + ranks that root). */
static void rooted_rings(struct collect *c, const struct collective *k, uint32_t unit)
{
    const struct segment_table *t = &c->p->segment_tables[k->table];
    uint32_t u = t->n_units == 1 ? 0 : unit, shards = program_shards(c->p), n = c->g->n_members;
    uint64_t *own = MEM_NEW(uint64_t, shards), each = dtype_bytes(k->wire, 1);

    for (uint32_t i = t->start[u]; i < t->start[u + 1]; i++)
        own[t->segments[i].root] += t->segments[i].bytes;
    for (uint32_t rank = 0; rank < c->first; rank++) {
        uint64_t bytes = 2 * (n - 1) * num_ceil_div(own[rank % shards] / each, n) * each;
        int64_t b = (int64_t)bytes,
                x = bytes ? (int64_t)cross(c, bytes, on_node(c, group_base(c->g, rank), rank)) : 0;

        if (bytes)
            put(c, rank, b - x, x, b - x, x);
    }
    mem_free(own);
}

/* Every member sends `bytes` to the next one, the last to the first: nccl-tests' sendrecv. */
static void even_shift(struct collect *c, uint64_t bytes)
{
    uint32_t n = c->g->n_members, gpn = c->p->gpus_per_node;
    int64_t b = (int64_t)bytes;

    c->every = (struct traffic_bytes){bytes, 0, bytes, 0};
    for (uint32_t base = 0; base < c->first; base++) {
        if (!is_base(c->g, base))
            continue;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t from = group_member(c->g, base, i), to = group_member(c->g, base, (i + 1) % n);

            if (from / gpn == to / gpn)
                continue;
            put(c, from, -b, b, 0, 0);
            put(c, to, 0, 0, -b, b);
        }
    }
}

static void even_all_to_all(struct collect *c, uint64_t chunk)
{
    uint64_t inter = (c->g->n_members - c->s.per_node) * chunk, intra = (c->s.per_node - 1) * chunk;

    c->every = (struct traffic_bytes){intra, inter, intra, inter};
    for (uint32_t i = first_irregular(c); i < n_places(c); i++) {
        uint32_t rank = place(c, i);
        int64_t on = on_node(c, group_base(c->g, rank), rank),
                d = ((int64_t)c->s.per_node - on) * (int64_t)chunk;

        if (d)
            put(c, rank, -d, d, -d, d);
    }
}

uint64_t traffic_chunk(const struct collective *k, uint64_t bytes, uint32_t n)
{
    uint64_t unit = dtype_bytes(k->wire, 1), elements = bytes / unit, piece, full, rest;

    if (!k->piece_bytes || k->piece_bytes >= bytes)
        return num_ceil_div(elements, n) * unit;
    piece = k->piece_bytes / unit ? k->piece_bytes / unit : 1;
    full = elements / piece;
    rest = elements % piece;
    return (full * num_ceil_div(piece, n) + num_ceil_div(rest, n)) * unit;
}

/* One root sends to `n` ranks of range [first, first+n) itself. */
static void p2p_range(struct collect *c, uint32_t base, const struct segment *s)
{
    for (uint32_t i = 0; i < s->to_n; i++) {
        uint32_t root = group_member(c->g, base, s->root),
                 to = group_member(c->g, base, s->to_first + i);
        bool same = root / c->p->gpus_per_node == to / c->p->gpus_per_node;
        int64_t b = (int64_t)s->bytes;

        if (to == root)
            continue;
        put(c, root, same ? b : 0, same ? 0 : b, 0, 0);
        put(c, to, 0, 0, same ? b : 0, same ? 0 : b);
    }
}

/* Segments [s, s+n) that share one range: a ring through the range in rank order. */
static void ring_range(struct collect *c, uint32_t base, const struct segment *s, uint32_t n)
{
    uint64_t all = 0;
    uint32_t k = 0;

    for (uint32_t i = 0; i < n; i++)
        all += s[i].bytes;
    for (uint32_t i = 0; i < s->to_n; i++) {
        uint32_t at = s->to_first + i, next = i + 1 < s->to_n ? at + 1 : s->to_first;
        uint32_t rank = group_member(c->g, base, at), to = group_member(c->g, base, next);
        bool same = rank / c->p->gpus_per_node == to / c->p->gpus_per_node;
        int64_t b = (int64_t)all;

        for (k = 0; k < n; k++)
            if (s[k].root == next)
                b -= (int64_t)s[k].bytes;
        put(c, rank, same ? b : 0, same ? 0 : b, 0, 0);
        put(c, to, 0, 0, same ? b : 0, same ? 0 : b);
    }
}

/* Owned bytes per rooting rank, ascending. */
struct owned {
    uint32_t root;
    uint64_t bytes;
};

static int by_root(const void *x, const void *y)
{
    const struct owned *a = x, *b = y;

    return a->root < b->root ? -1 : a->root > b->root;
}

/* Bytes that each member roots, [n_members]; to free. */
static uint64_t *by_member(const struct collect *c, const struct owned *o, uint32_t n)
{
    uint64_t *own = MEM_NEW(uint64_t, c->g->n_members);

    for (uint32_t i = 0; i < n; i++)
        own[o[i].root] = o[i].bytes;
    return own;
}

/* How many members from k on share k's node: members of a node follow one another. */
static uint32_t run_of(const struct collect *c, uint32_t base, uint32_t k)
{
    uint32_t gpn = c->p->gpus_per_node, node = group_member(c->g, base, k) / gpn, on = 1;

    if (contiguous(c->g))
        return (uint32_t)num_min((node + 1) * gpn - (base + k), c->g->n_members - k);
    while (k + on < c->g->n_members && group_member(c->g, base, k + on) / gpn == node)
        on++;
    return on;
}

/* Everyone receives all; roots send their own bytes to all others. O(members). */
static void whole_p2p(struct collect *c, uint32_t base, const struct owned *o, uint32_t n,
                      uint64_t all)
{
    uint64_t *own = by_member(c, o, n);

    for (uint32_t k = 0, on; k < c->g->n_members; k += on) {
        uint64_t here = 0;

        on = run_of(c, base, k);
        for (uint32_t q = 0; q < on; q++)
            here += own[k + q];
        for (uint32_t q = 0; q < on && here; q++) {
            int64_t b = (int64_t)own[k + q];

            put(c, group_member(c->g, base, k + q), (on - 1) * b, (c->g->n_members - on) * b,
                (int64_t)here - b, -(int64_t)here);
        }
    }
    c->every = (struct traffic_bytes){0, 0, 0, all};
    mem_free(own);
}

/* What a ring of all bytes (even_ring) moves too much: nobody hands its successor what that one roots. */
static void whole_ring(struct collect *c, uint32_t base, const struct owned *o, uint32_t n,
                       uint64_t all)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = group_member(c->g, base, o[i].root);
        uint32_t before =
            group_member(c->g, base, (o[i].root + c->g->n_members - 1) % c->g->n_members);
        int64_t b = (int64_t)o[i].bytes, x;

        /* the share that does not cross, so that sent = M - M_next and recv = M - M_self stay exact */
        x = (int64_t)cross(c, all, on_node(c, base, before)) -
            (int64_t)cross(c, all - o[i].bytes, on_node(c, base, before));
        put(c, before, -(b - x), -x, 0, 0);
        x = (int64_t)cross(c, all, on_node(c, base, rank)) -
            (int64_t)cross(c, all - o[i].bytes, on_node(c, base, rank));
        put(c, rank, 0, 0, -(b - x), -x);
    }
}

/* Root -> the GPU in the same place of every other node -> a chain through its node, where all but the last of the chain
 * send and all but its entry receive. A place beyond a smaller node's members wraps. O(members + places x nodes' sizes). */
static void whole_hierarchical(struct collect *c, uint32_t base, const struct owned *o, uint32_t n,
                               uint64_t all)
{
    uint64_t *own = by_member(c, o, n), at_place[CLUSTER_MAX_GPUS_PER_NODE] = {0};
    uint64_t entering
        [CLUSTER_MAX_GPUS_PER_NODE]; /* [on] all bytes that enter a node of `sized` at this member */
    uint32_t nodes = 0, sized = 0;

    for (uint32_t k = 0, on; k < c->g->n_members; k += on, nodes++) {
        on = run_of(c, base, k);
        for (uint32_t q = 0; q < on; q++)
            at_place[q] += own[k + q];
    }
    for (uint32_t k = 0, on; k < c->g->n_members; k += on) {
        on = run_of(c, base, k);
        if (on != sized) {
            memset(entering, 0, sizeof(entering));
            for (uint32_t q = 0; q < CLUSTER_MAX_GPUS_PER_NODE; q++)
                entering[q % on] += at_place[q];
            sized = on;
        }
        for (uint32_t q = 0; q < on; q++)
            put(c, group_member(c->g, base, k + q),
                on > 1 ? (int64_t)(all - entering[(q + 1) % on]) : 0,
                (int64_t)((nodes - 1) * own[k + q]), on > 1 ? (int64_t)(all - entering[q]) : 0,
                (int64_t)(entering[q] - own[k + q]));
    }
    mem_free(own);
}

struct tree_ctx {
    struct collect *c;
    uint32_t base, first;       /* place 0 of the range is member `first` of the group of `base` */
    struct traffic_bytes every; /* what put() differs from */
};

static void put_tree(void *ctx, uint32_t place, const struct traffic_bytes *b)
{
    const struct tree_ctx *x = ctx;

    put(x->c, group_member(x->c->g, x->base, x->first + place),
        (int64_t)(b->sent_intra - x->every.sent_intra),
        (int64_t)(b->sent_inter - x->every.sent_inter),
        (int64_t)(b->recv_intra - x->every.recv_intra),
        (int64_t)(b->recv_inter - x->every.recv_inter));
}

/* Segments [s, s+n) of one range, in the group of `base`. */
static void tree_range(struct collect *c, uint32_t base, const struct segment *s, uint32_t n,
                       const struct collective *k)
{
    struct tree_ctx x = {c, base, s->to_first, c->every};
    struct tree t;

    if (contiguous(c->g)) {
        tree_init_neighbours(&t, base + s->to_first, s->to_n, c->p->gpus_per_node);
    } else {
        uint32_t *ranks = MEM_NEW(uint32_t, s->to_n);

        for (uint32_t i = 0; i < s->to_n; i++)
            ranks[i] = group_member(c->g, base, s->to_first + i);
        tree_init(&t, ranks, s->to_n, c->p->gpus_per_node);
        mem_free(ranks);
    }
    tree_bytes(&t, s, n, dtype_bytes(k->wire, 1), &c->every, put_tree, &x);
    tree_release(&t);
}

/* Most ranks hand on all bytes, 1/per_node of them to another node. */
static void whole_tree(struct collect *c, const struct segment *s, uint32_t n,
                       const struct collective *k)
{
    uint64_t all = 0, inter;

    for (uint32_t i = 0; i < n; i++)
        all += s[i].bytes;
    inter = c->s.nodes > 1 ? all / c->s.per_node : 0;
    c->every = (struct traffic_bytes){all - inter, inter, all - inter, inter};
    for (uint32_t base = 0; base < c->first; base++) {
        if (!is_base(c->g, base))
            continue;
        tree_range(c, base, s, n, k);
        if (c->g->n_members == c->p->world)
            break;
    }
}

static void whole_range(struct collect *c, enum coll_algo algo, const struct segment *s, uint32_t n)
{
    struct owned *o = MEM_NEW(struct owned, n);
    uint64_t all = 0, biggest = 0;
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++)
        o[i] = (struct owned){s[i].root, s[i].bytes};
    qsort(o, n, sizeof(*o), by_root);
    for (uint32_t i = 0; i < n; i++) {
        all += o[i].bytes;
        if (m && o[m - 1].root == o[i].root)
            o[m - 1].bytes += o[i].bytes;
        else
            o[m++] = o[i];
    }
    for (uint32_t i = 0; i < m; i++)
        biggest = num_max(biggest, o[i].bytes);
    if (algo == ALGO_PADDED) {
        even_ring(c, (c->g->n_members - 1) * biggest);
    } else {
        if (algo != ALGO_P2P && algo != ALGO_HIERARCHICAL)
            even_ring(c, all);
        for (uint32_t base = 0; base < c->first; base++) {
            if (!is_base(c->g, base))
                continue;
            if (algo == ALGO_P2P)
                whole_p2p(c, base, o, m, all);
            else if (algo == ALGO_HIERARCHICAL)
                whole_hierarchical(c, base, o, m, all);
            else
                whole_ring(c, base, o, m, all);
            if (c->g->n_members == c->p->world)
                break;
        }
    }
    mem_free(o);
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

static void segments(struct collect *c, const struct collective *k, uint32_t unit,
                     enum coll_algo algo)
{
    const struct segment_table *t = &c->p->segment_tables[k->table];
    uint32_t u = t->n_units == 1 ? 0 : unit;
    const struct segment *s = t->segments + t->start[u];
    uint32_t n = t->start[u + 1] - t->start[u], run;

    if (n && s->to_n == c->g->n_members) {
        if (algo == ALGO_TREE)
            whole_tree(c, s, n, k);
        else
            whole_range(c, algo, s, n);
        return;
    }
    for (uint32_t base = 0; base < c->first; base++) {
        if (!is_base(c->g, base))
            continue;
        for (uint32_t i = 0; i < n; i += run) {
            for (run = 1; i + run < n && s[i + run].to_first == s[i].to_first &&
                          s[i + run].to_n == s[i].to_n && s[i + run].tensor == s[i].tensor;)
                run++;
            if (algo == ALGO_P2P)
                for (uint32_t j = 0; j < run; j++)
                    p2p_range(c, base, &s[i + j]);
            else if (algo == ALGO_TREE)
                tree_range(c, base, &s[i], run, k);
            else
                ring_range(c, base, &s[i], run);
        }
        if (c->g->n_members == c->p->world)
            break;
    }
}

static struct traffic_bytes bytes_of(const uint64_t v[4], uint64_t repeat, bool mirror)
{
    return mirror
               ? (struct traffic_bytes){v[2] * repeat, v[3] * repeat, v[0] * repeat, v[1] * repeat}
               : (struct traffic_bytes){v[0] * repeat, v[1] * repeat, v[2] * repeat, v[3] * repeat};
}

static void finish(struct collect *c, bool mirror, uint64_t repeat, struct arena *a,
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
    struct collect c = {.p = p, .g = &p->groups[k->group], .first = first};
    uint64_t bytes = op_coll_bytes(p, o, i), chunk, n = c.g->n_members;

    c.s = group_shape(p, c.g);
    c.regular = regular(p, c.g, &c.s);
    if (n > 1 && bytes) {
        chunk = traffic_chunk(k, bytes, c.g->n_members);
        switch (k->kind) {
        case COLL_ALL_REDUCE:
            if (k->rooted)
                rooted_rings(&c, k, i->unit);
            else
                even_ring(&c, 2 * (n - 1) * chunk);
            break;
        case COLL_ALL_GATHER:
        case COLL_REDUCE_SCATTER:
            even_ring(&c, (n - 1) * chunk);
            break;
        case COLL_ALL_TO_ALL:
            even_all_to_all(&c, chunk);
            break;
        case COLL_BROADCAST:
        case COLL_REDUCE: {
            struct segment s = {.to_n = (uint32_t)n, .bytes = bytes};

            whole_range(&c, ALGO_RING, &s, 1);
            break;
        }
        case COLL_SEGMENT_GATHER:
        case COLL_SEGMENT_REDUCE:
            segments(&c, k, i->unit, algo);
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
