/* What owners' segments move, algorithm by algorithm (model/program/traffic.h has the sums). */
#include "model/program/traffic_inner.h"

#include "core/num.h"
#include "model/program/tree.h"

#include <stdlib.h>
#include <string.h>

/* One root sends to `n` ranks of range [first, first+n) itself. */
static void one_p2p(struct traffic_collect *c, uint32_t base, const struct wire_segment *s)
{
    for (uint32_t i = 0; i < s->to_n; i++) {
        uint32_t root = group_member(c->g, base, s->root),
                 to = group_member(c->g, base, s->to_first + i);
        bool same = root / c->p->gpus_per_node == to / c->p->gpus_per_node;
        int64_t b = (int64_t)s->bytes;

        if (to == root)
            continue;
        traffic_put(c, root, same ? b : 0, same ? 0 : b, 0, 0);
        traffic_put(c, to, 0, 0, same ? b : 0, same ? 0 : b);
    }
}

static void range_p2p(struct traffic_collect *c, uint32_t base, const struct wire_segment *s,
                      uint32_t n, const struct collective *coll)
{
    (void)coll;
    for (uint32_t i = 0; i < n; i++)
        one_p2p(c, base, &s[i]);
}

/* Segments [s, s+n) that share one range: a ring through the range in rank order. */
static void range_ring(struct traffic_collect *c, uint32_t base, const struct wire_segment *s,
                       uint32_t n, const struct collective *coll)
{
    uint64_t all = 0;
    uint32_t k = 0;

    (void)coll;
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
        traffic_put(c, rank, same ? b : 0, same ? 0 : b, 0, 0);
        traffic_put(c, to, 0, 0, same ? b : 0, same ? 0 : b);
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
static uint64_t *by_member(const struct traffic_collect *c, const struct owned *o, uint32_t n)
{
    uint64_t *own = MEM_NEW(uint64_t, c->g->n_members);

    for (uint32_t i = 0; i < n; i++)
        own[o[i].root] = o[i].bytes;
    return own;
}

/* How many members from k on share k's node: members of a node follow one another. */
static uint32_t run_of(const struct traffic_collect *c, uint32_t base, uint32_t k)
{
    uint32_t gpn = c->p->gpus_per_node, node = group_member(c->g, base, k) / gpn, on = 1;

    if (group_contiguous(c->g))
        return (uint32_t)num_min((node + 1) * gpn - (base + k), c->g->n_members - k);
    while (k + on < c->g->n_members && group_member(c->g, base, k + on) / gpn == node)
        on++;
    return on;
}

/* Everyone receives all; roots send their own bytes to all others. O(members). */
static void group_p2p(struct traffic_collect *c, uint32_t base, const struct owned *o, uint32_t n,
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

            traffic_put(c, group_member(c->g, base, k + q), (on - 1) * b,
                        (c->g->n_members - on) * b, (int64_t)here - b, -(int64_t)here);
        }
    }
    c->every = (struct traffic_bytes){0, 0, 0, all};
    mem_free(own);
}

/* What a ring of all bytes (even_ring) moves too much: nobody hands its successor what that one roots. */
static void group_ring(struct traffic_collect *c, uint32_t base, const struct owned *o, uint32_t n,
                       uint64_t all)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = group_member(c->g, base, o[i].root);
        uint32_t before =
            group_member(c->g, base, (o[i].root + c->g->n_members - 1) % c->g->n_members);
        int64_t b = (int64_t)o[i].bytes, x;

        /* the share that does not cross, so that sent = M - M_next and recv = M - M_self stay exact */
        x = (int64_t)traffic_cross(c, all, traffic_on_node(c, base, before)) -
            (int64_t)traffic_cross(c, all - o[i].bytes, traffic_on_node(c, base, before));
        traffic_put(c, before, -(b - x), -x, 0, 0);
        x = (int64_t)traffic_cross(c, all, traffic_on_node(c, base, rank)) -
            (int64_t)traffic_cross(c, all - o[i].bytes, traffic_on_node(c, base, rank));
        traffic_put(c, rank, 0, 0, -(b - x), -x);
    }
}

/* Root -> the GPU in the same place of every other node -> a chain through its node, where all but the last of the chain
 * send and all but its entry receive. A place beyond a smaller node's members wraps. O(members + places x nodes' sizes). */
static void group_hierarchical(struct traffic_collect *c, uint32_t base, const struct owned *o,
                               uint32_t n, uint64_t all)
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
            traffic_put(c, group_member(c->g, base, k + q),
                        on > 1 ? (int64_t)(all - entering[(q + 1) % on]) : 0,
                        (int64_t)((nodes - 1) * own[k + q]),
                        on > 1 ? (int64_t)(all - entering[q]) : 0,
                        (int64_t)(entering[q] - own[k + q]));
    }
    mem_free(own);
}

struct tree_ctx {
    struct traffic_collect *c;
    uint32_t base, first;       /* place 0 of the range is member `first` of the group of `base` */
    struct traffic_bytes every; /* what traffic_put() differs from */
};

static void put_tree(void *ctx, uint32_t place, const struct traffic_bytes *b)
{
    const struct tree_ctx *x = ctx;

    traffic_put(x->c, group_member(x->c->g, x->base, x->first + place),
                (int64_t)(b->sent_intra - x->every.sent_intra),
                (int64_t)(b->sent_inter - x->every.sent_inter),
                (int64_t)(b->recv_intra - x->every.recv_intra),
                (int64_t)(b->recv_inter - x->every.recv_inter));
}

/* Segments [s, s+n) of one range, in the group of `base`. */
static void range_tree(struct traffic_collect *c, uint32_t base, const struct wire_segment *s,
                       uint32_t n, const struct collective *k)
{
    struct tree_ctx x = {c, base, s->to_first, c->every};
    struct tree t;

    if (group_contiguous(c->g)) {
        tree_init_neighbours(&t, base + s->to_first, s->to_n, c->p->gpus_per_node);
    } else {
        uint32_t *ranks = MEM_NEW(uint32_t, s->to_n);

        for (uint32_t i = 0; i < s->to_n; i++)
            ranks[i] = group_member(c->g, base, s->to_first + i);
        tree_init(&t, ranks, s->to_n, c->p->gpus_per_node);
        mem_free(ranks);
    }
    tree_bytes(&t, s, n, dtype_bytes(k->wire.dtype, 1), &c->every, put_tree, &x);
    tree_release(&t);
}

/* Most ranks hand on all bytes, 1/per_node of them to another node. */
static void whole_tree(struct traffic_collect *c, const struct wire_segment *s, uint32_t n,
                       const struct collective *k)
{
    uint64_t all = 0, inter;

    for (uint32_t i = 0; i < n; i++)
        all += s[i].bytes;
    inter = c->s.nodes > 1 ? all / c->s.per_node : 0;
    c->every = (struct traffic_bytes){all - inter, inter, all - inter, inter};
    for (uint32_t base = 0; base < c->first; base++) {
        if (!group_is_base(c->g, base))
            continue;
        range_tree(c, base, s, n, k);
        if (c->g->n_members == c->p->world)
            break;
    }
}

/* ---- one row a way ---- */

/* Segments of one owner are one; by owner. To free. */
static struct owned *by_owner(const struct wire_segment *s, uint32_t n, uint32_t *m, uint64_t *all)
{
    struct owned *o = MEM_NEW(struct owned, n);

    *all = *m = 0;
    for (uint32_t i = 0; i < n; i++)
        o[i] = (struct owned){s[i].root, s[i].bytes};
    qsort(o, n, sizeof(*o), by_root);
    for (uint32_t i = 0; i < n; i++) {
        *all += o[i].bytes;
        if (*m && o[*m - 1].root == o[i].root)
            o[*m - 1].bytes += o[i].bytes;
        else
            o[(*m)++] = o[i];
    }
    return o;
}

/* The same in every group; one group that is the world is the only one. */
static void each_group(struct traffic_collect *c, const struct wire_segment *s, uint32_t n,
                       void (*fn)(struct traffic_collect *c, uint32_t base, const struct owned *o,
                                  uint32_t m, uint64_t all))
{
    uint64_t all;
    uint32_t m;
    struct owned *o = by_owner(s, n, &m, &all);

    for (uint32_t base = 0; base < c->first; base++) {
        if (!group_is_base(c->g, base))
            continue;
        fn(c, base, o, m, all);
        if (c->g->n_members == c->p->world)
            break;
    }
    mem_free(o);
}

static void whole_p2p(struct traffic_collect *c, const struct wire_segment *s, uint32_t n,
                      const struct collective *k)
{
    (void)k;
    each_group(c, s, n, group_p2p);
}

static void whole_ring(struct traffic_collect *c, const struct wire_segment *s, uint32_t n,
                       const struct collective *k)
{
    uint64_t all = 0;

    (void)k;
    for (uint32_t i = 0; i < n; i++)
        all += s[i].bytes;
    traffic_even_ring(c, all);
    each_group(c, s, n, group_ring);
}

static void whole_hierarchical(struct traffic_collect *c, const struct wire_segment *s, uint32_t n,
                               const struct collective *k)
{
    (void)k;
    each_group(c, s, n, group_hierarchical);
}

/* Every owner's part is as large as the largest. */
static void whole_padded(struct traffic_collect *c, const struct wire_segment *s, uint32_t n,
                         const struct collective *k)
{
    uint64_t all, biggest = 0;
    uint32_t m;
    struct owned *o = by_owner(s, n, &m, &all);

    (void)k;
    for (uint32_t i = 0; i < m; i++)
        biggest = num_max(biggest, o[i].bytes);
    mem_free(o);
    traffic_even_ring(c, (c->g->n_members - 1) * biggest);
}

/* To a part of the group these go as a ring does. */
static void range_hierarchical(struct traffic_collect *c, uint32_t base,
                               const struct wire_segment *s, uint32_t n, const struct collective *k)
{
    range_ring(c, base, s, n, k);
}

static void range_padded(struct traffic_collect *c, uint32_t base, const struct wire_segment *s,
                         uint32_t n, const struct collective *k)
{
    range_ring(c, base, s, n, k);
}

/* Segments that go to all of the group, and in the group of `base` n that share one range. */
static const struct {
    void (*whole)(struct traffic_collect *c, const struct wire_segment *s, uint32_t n,
                  const struct collective *k);
    void (*range)(struct traffic_collect *c, uint32_t base, const struct wire_segment *s,
                  uint32_t n, const struct collective *k);
} ways[ALGO_N] = {
#define X(v, way) [v] = {whole_##way, range_##way},
    SEGMENT_ALGOS(X)
#undef X
};

void traffic_broadcast(struct traffic_collect *c, const struct wire_segment *s)
{
    whole_ring(c, s, 1, NULL);
}

void traffic_segments(struct traffic_collect *c, const struct collective *k, uint32_t unit,
                      enum coll_algo algo)
{
    uint32_t n, run;
    struct wire_segment *s = wire_segments(&c->p->segment_tables[k->table], unit, &k->wire, &n);
    bool whole = n && s->to_n == c->g->n_members;

    if (whole)
        ways[algo].whole(c, s, n, k);
    for (uint32_t base = 0; base < c->first && !whole; base++) {
        if (!group_is_base(c->g, base))
            continue;
        for (uint32_t i = 0; i < n; i += run) {
            for (run = 1; i + run < n && s[i + run].to_first == s[i].to_first &&
                          s[i + run].to_n == s[i].to_n && s[i + run].tensor == s[i].tensor;)
                run++;
            ways[algo].range(c, base, &s[i], run, k);
        }
        if (c->g->n_members == c->p->world)
            break;
    }
    mem_free(s);
}
