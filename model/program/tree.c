#include "model/program/tree.h"

#include "core/num.h"

#include <string.h>

/* Nodes are known: close the last one, count. */
static void count_trees(struct tree *t)
{
    t->first[t->n_nodes] = t->n;
    for (uint32_t k = 0; k < t->n_nodes; k++)
        t->rails = (uint32_t)num_max(t->rails, t->first[k + 1] - t->first[k]);
    t->n_trees = t->n_nodes > 1 ? 2 * t->rails : 1;
}

void tree_init(struct tree *t, const uint32_t *ranks, uint32_t n, uint32_t gpus_per_node)
{
    *t = (struct tree){.n = n, .first = MEM_NEW(uint32_t, n + 1)};
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || ranks[i] / gpus_per_node != ranks[i - 1] / gpus_per_node)
            t->first[t->n_nodes++] = i;
    count_trees(t);
}

void tree_init_neighbours(struct tree *t, uint32_t rank, uint32_t n, uint32_t gpus_per_node)
{
    uint32_t into = rank % gpus_per_node; /* its node */

    *t = (struct tree){.n = n, .first = MEM_NEW(uint32_t, (into + n) / gpus_per_node + 2)};
    for (uint32_t i = 0; i < n; i += gpus_per_node - (t->n_nodes == 1 ? into : 0))
        t->first[t->n_nodes++] = i;
    count_trees(t);
}

void tree_release(struct tree *t)
{
    mem_free(t->first);
    memset(t, 0, sizeof(*t));
}

uint32_t tree_node(const struct tree *t, uint32_t place)
{
    uint32_t lo = 0, hi = t->n_nodes;

    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        *(t->first[mid] <= place ? &lo : &hi) = mid;
    }
    return lo;
}

struct tree_piece tree_piece(const struct tree *t, uint32_t i, uint64_t bytes, uint64_t element)
{
    uint64_t n = bytes / element, first = num_part(n, t->n_trees, i) * element,
             end = num_part(n, t->n_trees, i + 1) * element;

    return (struct tree_piece){first, (i + 1 < t->n_trees ? end : bytes) - first};
}

/* ---- the node trees: nodes 0 (the root's), 1..k ---- */

/* Where node v of 1..k stands in the first tree's order when it plays the second, and back. */
static uint32_t to_second(uint32_t v, uint32_t k)
{
    return k % 2 ? v % k + 1 : k + 1 - v;
}

static uint32_t from_second(uint32_t at, uint32_t k)
{
    return k % 2 ? (at + k - 2) % k + 1 : k + 1 - at;
}

static uint32_t node_parent(uint32_t v, uint32_t k, uint32_t second)
{
    uint32_t at = second ? to_second(v, k) : v, bit = at & (0 - at),
             up = ((at - bit) | 2 * bit) <= k ? (at - bit) | 2 * bit : at - bit;

    return second && up ? from_second(up, k) : up;
}

/* At most two; returns how many. Node v's subtree below it has its bit, above it the largest that is there. */
static uint32_t node_children(uint32_t v, uint32_t k, uint32_t second, uint32_t child[2])
{
    uint32_t at = second && v ? to_second(v, k) : v, half = (at & (0 - at)) / 2, n = 0;

    if (k == 0)
        return 0;
    if (at == 0) {
        for (half = 1; 2 * half <= k;)
            half *= 2;
        child[n++] = half;
    } else if (half) {
        child[n++] = at - half;
        while (half && at + half > k)
            half /= 2;
        if (half)
            child[n++] = at + half;
    }
    for (uint32_t i = 0; i < n; i++)
        child[i] = second ? from_second(child[i], k) : child[i];
    return n;
}

uint32_t tree_depth(uint32_t nodes)
{
    uint32_t depth = 0;

    while (nodes > 1 && (nodes - 1) >> depth)
        depth++;
    return depth;
}

struct tree_crossings tree_crossings(uint32_t nodes, uint32_t per_leaf)
{
    uint32_t leaves = (uint32_t)num_ceil_div(nodes, per_leaf);
    uint32_t *out = MEM_NEW(uint32_t, leaves), *in = MEM_NEW(uint32_t, leaves);
    struct tree_crossings most = {0, 0};

    for (uint32_t second = 0; second < 2; second++)
        for (uint32_t v = 1; v < nodes; v++) {
            uint32_t from = node_parent(v, nodes - 1, second) / per_leaf, to = v / per_leaf;

            out[from] += from != to;
            in[to] += from != to;
        }
    for (uint32_t i = 0; i < leaves; i++) {
        most.out = (uint32_t)num_max(most.out, out[i]);
        most.in = (uint32_t)num_max(most.in, in[i]);
    }
    mem_free(out);
    mem_free(in);
    return most;
}

/* ---- places ---- */

static uint32_t size_of(const struct tree *t, uint32_t node)
{
    return t->first[node + 1] - t->first[node];
}

/* The member of a node that tree i runs through. */
static uint32_t rail_place(const struct tree *t, uint32_t i, uint32_t node)
{
    return t->first[node] + i / 2 % size_of(t, node);
}

struct tree_links tree_links(const struct tree *t, uint32_t root, uint32_t i, uint32_t place)
{
    uint32_t home = tree_node(t, root), here = tree_node(t, place), first = t->first[here],
             on = size_of(t, here), k = t->n_nodes - 1;
    uint32_t v = (here + t->n_nodes - home) % t->n_nodes, below[2],
             start = here == home ? root : rail_place(t, i, here),
             after = first + (place - first + 1) % on;
    struct tree_links x = {.parent = PROGRAM_NONE};

    if (place != start)
        x.parent = first + (place - first + on - 1) % on;
    else if (here != home)
        x.parent = rail_place(t, i, (home + node_parent(v, k, i % 2)) % t->n_nodes);
    if (place == rail_place(t, i, here)) {
        x.n_children = node_children(v, k, i % 2, below);
        for (uint32_t c = 0; c < x.n_children; c++)
            x.child[c] = rail_place(t, i, (home + below[c]) % t->n_nodes);
    }
    if (after != start)
        x.child[x.n_children++] = after;
    return x;
}

/* ---- bytes of all places ---- */

/* Per tree: of all segments, and of those rooted in one node. */
struct load {
    const struct tree *t;
    uint64_t *own;     /* [n] bytes that a place roots */
    uint64_t *all;     /* [n_trees] */
    uint64_t **rooted; /* [n_nodes] -> [n_trees], or NULL: nothing is rooted there */
    uint64_t bytes;
    bool even; /* every segment's pieces are equal */
};

static void load_init(struct load *l, const struct tree *t, const struct wire_segment *s,
                      uint32_t n, uint64_t element)
{
    *l = (struct load){.t = t,
                       .own = MEM_NEW(uint64_t, t->n),
                       .all = MEM_NEW(uint64_t, t->n_trees),
                       .rooted = MEM_NEW(uint64_t *, t->n_nodes),
                       .even = true};
    for (uint32_t k = 0; k < n; k++) {
        uint32_t root = s[k].root - s[k].to_first;
        uint64_t **at = &l->rooted[tree_node(t, root)];

        if (!*at)
            *at = MEM_NEW(uint64_t, t->n_trees);
        for (uint32_t i = 0; i < t->n_trees; i++) {
            uint64_t bytes = tree_piece(t, i, s[k].bytes, element).bytes;

            (*at)[i] += bytes;
            l->all[i] += bytes;
        }
        l->own[root] += s[k].bytes;
        l->bytes += s[k].bytes;
        l->even &= s[k].bytes % (t->n_trees * element) == 0;
    }
}

static void load_release(struct load *l)
{
    for (uint32_t k = 0; k < l->t->n_nodes; k++)
        mem_free(l->rooted[k]);
    mem_free(l->rooted);
    mem_free(l->own);
    mem_free(l->all);
}

/* An inner node has two children, a leaf none: in the first tree even v are inner, in the second odd ones. Only nodes 0, 1
 * and k may have another number; from a root in node r these are r, r+1 and r-1. */
static bool usual(uint32_t v, uint32_t k)
{
    return v > 1 && v < k;
}

static uint32_t usual_children(uint32_t v, uint32_t second)
{
    return (v + second) % 2 ? 0 : 2;
}

/* Sums of what roots at an even, and at an odd, number of nodes before this one have, per tree. */
struct parity {
    uint64_t *by[2]; /* [n_trees]; owned */
};

static void parity_move(struct parity *p, const struct load *l, uint32_t root_node, uint32_t v)
{
    for (uint32_t i = 0; l->rooted[root_node] && i < l->t->n_trees; i++) {
        p->by[v % 2][i] += l->rooted[root_node][i];
        p->by[(v + 1) % 2][i] -= l->rooted[root_node][i];
    }
}

static void parity_init(struct parity *p, const struct load *l)
{
    p->by[0] = MEM_NEW(uint64_t, l->t->n_trees);
    p->by[1] = MEM_NEW(uint64_t, l->t->n_trees);
    for (uint32_t r = 0; r < l->t->n_nodes; r++)
        for (uint32_t i = 0; l->rooted[r] && i < l->t->n_trees; i++)
            p->by[(l->t->n_nodes - r) % l->t->n_nodes % 2][i] += l->rooted[r][i];
}

/* From node k-1 to node k: all distances grow by one, that of k's own root falls from n_nodes to 0. */
static void parity_next(struct parity *p, const struct load *l, uint32_t k)
{
    uint64_t *even = p->by[0];

    p->by[0] = p->by[1];
    p->by[1] = even;
    if (l->t->n_nodes % 2)
        parity_move(p, l, k, 0);
}

/* Bytes that the rail's member of `node` sends to the nodes below, in tree i. */
static uint64_t sent_down(const struct load *l, const struct parity *p, uint32_t node, uint32_t i)
{
    uint32_t n = l->t->n_nodes, second = i % 2, child[2];
    uint64_t bytes = 2 * p->by[second][i]; /* v + second even */

    for (uint32_t j = 0; j < (n < 3 ? n : 3);
         j++) { /* roots in this node, the one before, the one after */
        uint32_t r = (node + (j == 0 ? 0 : j == 1 ? n - 1 : 1)) % n, v = (node + n - r) % n;

        if (l->rooted[r] && !usual(v, n - 1))
            bytes +=
                (node_children(v, n - 1, second, child) - (uint64_t)usual_children(v, second)) *
                l->rooted[r][i];
    }
    return bytes;
}

static bool near_root(const struct load *l, uint32_t node)
{
    uint32_t n = l->t->n_nodes;

    return l->rooted[node] || l->rooted[(node + n - 1) % n] || l->rooted[(node + 1) % n];
}

/* All bytes come in once, but what the place roots itself: those of the trees that enter the node here from outside, the
 * others along the chain; and the chain hands on to the next place what that one gets inside the node. */
static void node_bytes(const struct load *l, const struct parity *p, uint32_t node,
                       const struct traffic_bytes *every,
                       void (*put)(void *, uint32_t, const struct traffic_bytes *), void *ctx)
{
    const struct tree *t = l->t;
    uint32_t on = size_of(t, node), first = t->first[node];
    uint64_t enters[CLUSTER_MAX_GPUS_PER_NODE] = {0}, leaves[CLUSTER_MAX_GPUS_PER_NODE] = {0};

    for (uint32_t i = 0; t->n_nodes > 1 && i < t->n_trees; i++) {
        enters[i / 2 % on] += l->all[i] - (l->rooted[node] ? l->rooted[node][i] : 0);
        leaves[i / 2 % on] += sent_down(l, p, node, i);
    }
    for (uint32_t q = 0; q < on; q++) {
        uint32_t next = (q + 1) % on;
        struct traffic_bytes b = {.sent_intra = l->bytes - l->own[first + next] - enters[next],
                                  .sent_inter = leaves[q],
                                  .recv_intra = l->bytes - l->own[first + q] - enters[q],
                                  .recv_inter = enters[q]};

        if (memcmp(&b, every, sizeof(b)))
            put(ctx, first + q, &b);
    }
}

void tree_bytes(const struct tree *t, const struct wire_segment *s, uint32_t n, uint64_t element,
                const struct traffic_bytes *every,
                void (*put)(void *ctx, uint32_t place, const struct traffic_bytes *b), void *ctx)
{
    struct traffic_bytes
        far; /* of a place on a full node without roots nearby, where pieces are equal */
    uint64_t inter;
    struct parity p;
    struct load l;
    bool same;

    load_init(&l, t, s, n, element);
    parity_init(&p, &l);
    inter = t->n_nodes > 1 ? l.bytes / t->rails : 0;
    far = (struct traffic_bytes){l.bytes - inter, inter, l.bytes - inter, inter};
    same = l.even && !memcmp(&far, every, sizeof(far));
    for (uint32_t k = 0; k < t->n_nodes; k++) {
        if (k)
            parity_next(&p, &l, k);
        if (!same || size_of(t, k) != t->rails || near_root(&l, k))
            node_bytes(&l, &p, k, every, put, ctx);
    }
    mem_free(p.by[0]);
    mem_free(p.by[1]);
    load_release(&l);
}
