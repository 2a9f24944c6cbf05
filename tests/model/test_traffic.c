/* traffic_of() against a model that plays every algorithm edge by edge: who hands which bytes to whom, step by step.
 *
 * Totals per rank must agree exactly. The split into inside and between nodes: direct algorithms (p2p, hierarchical,
 * all-to-all, rings over a part of the group) and trees by the edges themselves; rings over a whole group by the rail rule of
 * the header, a rank's share between nodes being sent/g of the g members on its node, rounded up. That rule is itself
 * held against the edges: what a node's members send out together is the crossing edge, up to the rounding. */
#include "core/num.h"
#include "model/plan/segment_algo.h"
#include "model/program/traffic.h"
#include "tests/suite.h"

#include <string.h>

enum { MAX_WORLD = 64, MAX_SEGMENTS = 16 };

static struct arena a;
static struct program p;
static struct group groups[1];
static struct segment segments[MAX_SEGMENTS];
static uint32_t starts[3];
static struct segment_table tables[1];
static struct op op;
static struct instance at;

/* ---- the played model ---- */

static struct traffic_bytes played[MAX_WORLD];
static bool in_ring[MAX_WORLD]; /* of a whole-group ring: the rail rule applies */
static uint32_t on_node[MAX_WORLD];

static void edge(uint32_t from, uint32_t to, uint64_t bytes)
{
    bool same = from / p.gpus_per_node == to / p.gpus_per_node;

    MUST(from != to, "rank %u sends to itself", from);
    *(same ? &played[from].sent_intra : &played[from].sent_inter) += bytes;
    *(same ? &played[to].recv_intra : &played[to].recv_inter) += bytes;
}

/* The groups of a family, found by comparing coordinates, not by bases: rank r belongs with q when the difference is
 * a sum of index x stride with the same other coordinates. Simple for a test: grow from the smallest unused rank. */
static uint32_t members_of(uint32_t base, uint32_t *out)
{
    const struct group *g = &groups[0];
    uint32_t n = 0;

    for (uint32_t k = 0; k < (g->n_axes > 2 ? g->size[2] : 1); k++)
        for (uint32_t j = 0; j < (g->n_axes > 1 ? g->size[1] : 1); j++)
            for (uint32_t i = 0; i < g->size[0]; i++)
                out[n++] = base + i * g->stride[0] + (g->n_axes > 1 ? j * g->stride[1] : 0) +
                           (g->n_axes > 2 ? k * g->stride[2] : 0);
    return n;
}

/* Elements of one rank in each piece, padded. */
static uint64_t chunk_of_pieces(uint64_t bytes, uint64_t piece_bytes, uint64_t wire, uint32_t n)
{
    uint64_t left = bytes / wire, piece = piece_bytes / wire, chunk = 0;

    if (!piece_bytes || piece_bytes >= bytes)
        piece = left;
    while (left) {
        uint64_t now = piece < left ? piece : left, each = 0;

        while (each * n < now)
            each++;
        chunk += each;
        left -= now;
    }
    return chunk * wire;
}

static void play_ring_steps(const uint32_t *m, uint32_t n, uint64_t chunk, uint32_t rounds)
{
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t step = 0; step + 1 < n; step++)
            for (uint32_t i = 0; i < n; i++)
                edge(m[i], m[(i + 1) % n], chunk);
    for (uint32_t i = 0; i < n; i++)
        in_ring[m[i]] = true;
}

/* One segment along the ring of members first..first+n, from the root to its predecessor. */
static void play_ring_segment(const uint32_t *m, uint32_t n, uint32_t root, uint64_t bytes)
{
    for (uint32_t hop = 0; hop + 1 < n; hop++)
        edge(m[(root + hop) % n], m[(root + hop + 1) % n], bytes);
}

static void play_hierarchical(const uint32_t *m, uint32_t n, uint32_t root, uint64_t bytes)
{
    uint32_t gpn = p.gpus_per_node, place = 0;

    for (uint32_t i = 0; i < root; i++)
        place += m[i] / gpn == m[root] / gpn;
    for (uint32_t node = 0; node * gpn < p.world; node++) {
        uint32_t local[MAX_WORLD], k = 0;

        for (uint32_t i = 0; i < n; i++)
            if (m[i] / gpn == node)
                local[k++] = m[i];
        if (!k)
            continue;
        if (node != m[root] / gpn)
            edge(m[root], local[place % k], bytes);
        for (uint32_t j = 0; j + 1 < k; j++)
            edge(local[(place + j) % k], local[(place + j + 1) % k], bytes);
    }
}

/* The pair of trees over nodes 1..k (counted from the root's, 0), by recursion instead of bits: the top of an interval is
 * its number that two divides most often, and hangs on `above`. Sends `bytes` down every edge, between the members
 * `rail` (mod the node's number of members). In the second tree node shown(v) stands where v
 * stands in the first. */
struct nodes {
    uint32_t n, home;
    uint32_t member[MAX_WORLD][MAX_WORLD], size[MAX_WORLD]; /* by node, in rank order */
};

static uint32_t rail_member(const struct nodes *x, uint32_t v, uint32_t rail)
{
    uint32_t node = (x->home + v) % x->n;

    return x->member[node][rail % x->size[node]];
}

static uint32_t shown(uint32_t v, uint32_t k, uint32_t second)
{
    if (!second || v == 0)
        return v;
    if (k % 2 == 0)
        return k + 1 - v;      /* mirrored */
    return v == 1 ? k : v - 1; /* moved by one */
}

static void hang(const struct nodes *x, uint32_t above, uint32_t lo, uint32_t hi, uint32_t second,
                 uint32_t rail, uint64_t bytes)
{
    uint32_t top = lo, k = x->n - 1;

    if (lo > hi)
        return;
    for (uint32_t v = lo, d = 1; v <= hi; v++)
        while (v % d == 0) {
            top = v;
            d *= 2;
        }
    edge(rail_member(x, shown(above, k, second), rail), rail_member(x, shown(top, k, second), rail),
         bytes);
    hang(x, top, lo, top - 1, second, rail, bytes);
    hang(x, top, top + 1, hi, second, rail, bytes);
}

static void play_tree(const uint32_t *m, uint32_t n, uint32_t root, uint64_t bytes)
{
    static struct nodes x;
    uint64_t wire = dtype_bytes(op.coll.wire.dtype, 1), elements = bytes / wire, done = 0;
    uint32_t rails = 0, pieces;

    x.n = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || m[i] / p.gpus_per_node != m[i - 1] / p.gpus_per_node)
            x.size[x.n++] = 0;
        if (i == root)
            x.home = x.n - 1;
        x.member[x.n - 1][x.size[x.n - 1]++] = m[i];
        rails = (uint32_t)num_max(rails, x.size[x.n - 1]);
    }
    pieces = x.n > 1 ? 2 * rails : 1;
    for (uint32_t i = 0; i < pieces; i++) {
        uint64_t end = i + 1 < pieces ? elements * (i + 1) / pieces * wire : bytes;

        for (uint32_t node = 0; node < x.n; node++) { /* chains */
            uint32_t start = i / 2 % x.size[node];

            for (uint32_t q = 0; node == x.home && q < x.size[node]; q++)
                start = x.member[node][q] == m[root] ? q : start;
            for (uint32_t q = 0; q + 1 < x.size[node]; q++)
                edge(x.member[node][(start + q) % x.size[node]],
                     x.member[node][(start + q + 1) % x.size[node]], end - done);
        }
        hang(&x, 0, 1, x.n - 1, i % 2, i / 2, end - done);
        done = end;
    }
}

static void play_segments(const uint32_t *m, uint32_t n, enum coll_algo algo)
{
    uint32_t u = tables[0].n_units == 1 ? 0 : at.unit;
    uint64_t owned[MAX_WORLD] = {0}, most = 0;

    for (uint32_t i = starts[u]; i < starts[u + 1]; i++) {
        const struct segment *s = &segments[i];
        const uint32_t *range = m + s->to_first;
        bool whole = s->to_n == n;

        owned[s->root] += 2 * s->elements;
        most = num_max(most, owned[s->root]);
        if (algo == ALGO_P2P) {
            for (uint32_t k = 0; k < s->to_n; k++)
                if (range[k] != m[s->root])
                    edge(m[s->root], range[k], 2 * s->elements);
        } else if (algo == ALGO_HIERARCHICAL && whole) {
            play_hierarchical(m, n, s->root, 2 * s->elements);
        } else if (algo == ALGO_TREE) {
            play_tree(range, s->to_n, s->root - s->to_first, 2 * s->elements);
        } else if (algo != ALGO_PADDED || !whole) {
            play_ring_segment(range, s->to_n, s->root - s->to_first, 2 * s->elements);
            for (uint32_t k = 0; whole && k < n; k++)
                in_ring[m[k]] = true;
        }
    }
    if (algo == ALGO_PADDED && starts[u + 1] > starts[u] && segments[starts[u]].to_n == n)
        play_ring_steps(m, n, most, 1);
}

static void play_group(const uint32_t *m, uint32_t n, enum coll_algo algo)
{
    const struct collective *c = &op.coll;
    uint64_t chunk =
        n > 1 ? chunk_of_pieces(wire_bytes(&c->wire, c->elements), wire_bytes(&c->wire, c->piece),
                                dtype_bytes(c->wire.dtype, 1), n)
              : 0;

    switch (c->kind) {
    case COLL_ALL_REDUCE:
        play_ring_steps(m, n, chunk, 2);
        break;
    case COLL_ALL_GATHER:
    case COLL_REDUCE_SCATTER:
        play_ring_steps(m, n, chunk, 1);
        break;
    case COLL_ALL_TO_ALL:
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++)
                if (i != j)
                    edge(m[i], m[j], chunk);
        break;
    case COLL_BROADCAST:
    case COLL_REDUCE:
        play_ring_segment(m, n, 0, wire_bytes(&c->wire, c->elements));
        for (uint32_t i = 0; i < n; i++)
            in_ring[m[i]] = true;
        break;
    default:
        play_segments(m, n, algo);
        break;
    }
}

static void rail_rule(const uint32_t *m, uint32_t n)
{
    uint64_t out[MAX_WORLD] = {0}, rule[MAX_WORLD] = {0};
    bool many = false, even = op.coll.kind <= COLL_REDUCE_SCATTER;

    for (uint32_t i = 0; i < n; i++) {
        on_node[m[i]] = 0;
        for (uint32_t k = 0; k < n; k++)
            on_node[m[i]] += m[k] / p.gpus_per_node == m[i] / p.gpus_per_node;
        many |= m[i] / p.gpus_per_node != m[0] / p.gpus_per_node;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct traffic_bytes *b = &played[m[i]];
        uint64_t sent = b->sent_intra + b->sent_inter, recv = b->recv_intra + b->recv_inter;

        if (!in_ring[m[i]])
            continue;
        out[m[i] / p.gpus_per_node] += b->sent_inter;
        b->sent_inter = many ? num_ceil_div(sent, on_node[m[i]]) : 0;
        b->recv_inter = many ? num_ceil_div(recv, on_node[m[i]]) : 0;
        b->sent_intra = sent - b->sent_inter;
        b->recv_intra = recv - b->recv_inter;
        rule[m[i] / p.gpus_per_node] += b->sent_inter;
    }
    for (uint32_t i = 0; even && i < n; i++) {
        uint32_t node = m[i] / p.gpus_per_node;

        MUST(rule[node] >= out[node] && rule[node] < out[node] + on_node[m[i]],
             "node %u: %llu by the rule, %llu played", node, (unsigned long long)rule[node],
             (unsigned long long)out[node]);
    }
}

/* Play all groups of the family. */
static void play(enum coll_algo algo)
{
    bool used[MAX_WORLD] = {false};
    uint32_t m[MAX_WORLD], n;

    memset(played, 0, sizeof(played));
    memset(in_ring, 0, sizeof(in_ring));
    for (uint32_t r = 0; r < p.world; r++) {
        if (used[r])
            continue;
        n = members_of(r, m);
        for (uint32_t i = 0; i < n; i++) {
            MUST(m[i] < p.world && !used[m[i]], "a bad family in the test");
            used[m[i]] = true;
        }
        if (n > 1) {
            play_group(m, n, algo);
            rail_rule(m, n);
        }
    }
    if (op.coll.kind == COLL_REDUCE || op.coll.kind == COLL_SEGMENT_REDUCE)
        for (uint32_t r = 0; r < p.world; r++)
            played[r] = (struct traffic_bytes){played[r].recv_intra, played[r].recv_inter,
                                               played[r].sent_intra, played[r].sent_inter};
}

static void agree(enum coll_algo algo)
{
    const struct group *g = &groups[0];
    struct traffic t;

    play(algo);
    arena_init(&a);
    traffic_of(&p, &op, &at, algo, &a, &t);
    for (uint32_t i = 1; i < t.n_only; i++)
        MUST(t.only[i - 1].rank < t.only[i].rank, "ranks do not ascend");
    for (uint32_t r = 0; r < p.world; r++) {
        struct traffic_bytes x = traffic_get(&t, r), *y = &played[r];
        uint64_t k = op.coll.repeat ? op.coll.repeat : 1;

        MUST(x.sent_intra == k * y->sent_intra && x.sent_inter == k * y->sent_inter &&
                 x.recv_intra == k * y->recv_intra && x.recv_inter == k * y->recv_inter,
             "%s %s world %u gpn %u group %ux%u(%u,%u) rank %u: sent %llu+%llu recv "
             "%llu+%llu, played %llu+%llu %llu+%llu",
             coll_kind_name(op.coll.kind), coll_algo_name(algo), p.world, p.gpus_per_node,
             g->size[0], g->n_axes > 1 ? g->size[1] : 1, g->stride[0],
             g->n_axes > 1 ? g->stride[1] : 0, r, (unsigned long long)x.sent_intra,
             (unsigned long long)x.sent_inter, (unsigned long long)x.recv_intra,
             (unsigned long long)x.recv_inter, (unsigned long long)y->sent_intra,
             (unsigned long long)y->sent_inter, (unsigned long long)y->recv_intra,
             (unsigned long long)y->recv_inter);
    }
    arena_release(&a);
}

/* ---- what is tried ---- */

static void setup(uint32_t world, uint32_t gpn, struct group g)
{
    memset(&p, 0, sizeof(p));
    memset(&op, 0, sizeof(op));
    memset(&at, 0, sizeof(at));
    g.n_members = 1;
    for (uint32_t i = 0; i < g.n_axes; i++)
        g.n_members *= g.size[i];
    g.name = "group";
    groups[0] = g;
    tables[0] = (struct segment_table){.n_units = 1, .start = starts, .segments = segments};
    p = (struct program){.world = world,
                         .gpus_per_node = gpn,
                         .n_micro = 1,
                         .groups = groups,
                         .n_groups = 1,
                         .segment_tables = tables,
                         .n_segment_tables = 1};
    op = (struct op){
        .kind = OP_COLLECTIVE,
        .coll = {.table = PROGRAM_NONE, .wire = {.dtype = DTYPE_BF16}, .peer_op = PROGRAM_NONE}};
}

static void even_kinds(void)
{
    static const enum coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_ALL_GATHER, COLL_REDUCE_SCATTER,
                                           COLL_BROADCAST,  COLL_ALL_TO_ALL, COLL_REDUCE};
    static const uint64_t bytes[] = {2, 14, 1000, 4096}, pieces[] = {0, 6, 96, 8192};

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (size_t b = 0; b < 4; b++)
            for (size_t i = 0; i < 4; i++) {
                op.coll.kind = kinds[k];
                op.coll.elements = (bytes[b]) / 2;
                op.coll.piece =
                    kinds[k] == COLL_BROADCAST || kinds[k] == COLL_REDUCE ? 0 : pieces[i] / 2;
                op.coll.repeat = (uint32_t)i;
                op.coll.wire.dtype = i == 3 ? DTYPE_INT8 : DTYPE_BF16;
                agree(ALGO_RING);
            }
    op.coll.repeat = 0;
}

/* Segments over the whole group: roots by a fixed rule, some ranks own nothing, one owns twice. */
static void whole_segments(uint32_t n, uint32_t seed)
{
    static const enum coll_algo algos[] = {ALGO_P2P, ALGO_RING, ALGO_TREE, ALGO_HIERARCHICAL,
                                           ALGO_PADDED};
    uint32_t k = 0;
    uint64_t offset = 0;

    for (uint32_t i = 0; i < 1 + seed % 6; i++) {
        segments[k++] = (struct segment){.root = (i * (seed | 1) + seed / 3) % n,
                                         .to_n = n,
                                         .tensor = PROGRAM_NONE,
                                         .offset = offset,
                                         .elements = 7 + 13 * ((i + seed) % 5)};
        offset += segments[k - 1].elements;
    }
    starts[0] = 0;
    starts[1] = k;
    op.coll.table = 0;
    for (int reduce = 0; reduce < 2; reduce++)
        for (size_t i = 0; i < 5; i++) {
            op.coll.kind = reduce ? COLL_SEGMENT_REDUCE : COLL_SEGMENT_GATHER;
            agree(algos[i]);
        }
    op.coll.table = PROGRAM_NONE;
}

static const uint32_t worlds[] = {1, 2, 3, 5, 7, 8};
static const uint32_t per_node[] = {1, 2, 3, 4, 5, 8};

static struct group world_group(uint32_t n)
{
    return (struct group){.n_axes = 1, .size = {n}, .stride = {1}};
}

START_TEST(even_collectives_of_the_world_move_what_playing_them_moves)
{
    for (size_t w = 0; w < 6; w++)
        for (size_t g = 0; g < 6; g++) {
            setup(worlds[w], per_node[g], world_group(worlds[w]));
            even_kinds();
        }
    for (uint32_t w = 17; w <= 24; w++) { /* three nodes, the last one partly used */
        setup(w, 8, world_group(w));
        even_kinds();
    }
}
END_TEST

START_TEST(segments_to_the_world_move_what_playing_them_moves)
{
    for (size_t w = 1; w < 6; w++)
        for (size_t g = 0; g < 6; g++)
            for (uint32_t seed = 0; seed < 24; seed++) {
                setup(worlds[w], per_node[g], world_group(worlds[w]));
                whole_segments(worlds[w], seed);
            }
    for (uint32_t w = 17; w <= 24; w++)
        for (uint32_t seed = 0; seed < 24; seed++) {
            setup(w, 8, world_group(w));
            whole_segments(w, seed);
        }
    for (uint32_t w = 63; w <= 64; w++)
        for (uint32_t gpn = 1; gpn <= 16; gpn *= 2)
            for (uint32_t seed = 0; seed < 8; seed++) {
                setup(w, gpn, world_group(w));
                whole_segments(w, seed);
            }
}
END_TEST

/* {world, gpn, axes: size x stride}. Rails, replicas, halves of nodes, groups that straddle nodes unevenly. */
static const struct {
    uint32_t world, gpn;
    struct group g;
} families[] = {
    {8, 8, {.n_axes = 1, .size = {4}, .stride = {1}}},        /* 4 of 8 in one node */
    {16, 8, {.n_axes = 1, .size = {4}, .stride = {1}}},       /* halves of two nodes */
    {16, 4, {.n_axes = 1, .size = {8}, .stride = {1}}},       /* two nodes each */
    {24, 8, {.n_axes = 1, .size = {3}, .stride = {8}}},       /* rails */
    {16, 8, {.n_axes = 1, .size = {2}, .stride = {8}}},       /* rails of two */
    {8, 8, {.n_axes = 1, .size = {2}, .stride = {4}}},        /* replicas in a node */
    {8, 4, {.n_axes = 1, .size = {2}, .stride = {4}}},        /* replicas in two nodes */
    {16, 4, {.n_axes = 1, .size = {4}, .stride = {2}}},       /* every other rank of two nodes */
    {16, 4, {.n_axes = 2, .size = {2, 2}, .stride = {1, 4}}}, /* halves of two nodes together */
    {16, 4, {.n_axes = 2, .size = {2, 4}, .stride = {2, 4}}}, /* two of each of four nodes */
    {24, 8, {.n_axes = 3, .size = {2, 2, 3}, .stride = {1, 4, 8}}},
    {24, 8, {.n_axes = 1, .size = {12}, .stride = {1}}}, /* 8 + 4, then 4 + 8 */
    {6, 4, {.n_axes = 1, .size = {3}, .stride = {1}}},   /* the second straddles: 1 + 2 */
    {6, 4, {.n_axes = 1, .size = {3}, .stride = {2}}},   /* 2 + 1 each */
    {9, 4, {.n_axes = 1, .size = {3}, .stride = {3}}},   /* 0,3,6: 2 + 1; 1,4,7; 2,5,8: 1 + 1 + 1 */
    {12, 8, {.n_axes = 1, .size = {6}, .stride = {2}}},  /* 4 + 2 */
    {12, 8, {.n_axes = 1, .size = {2}, .stride = {6}}},  /* 0,6 inside; 2,8 across */
};

START_TEST(collectives_of_groups_move_what_playing_them_moves)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        setup(families[i].world, families[i].gpn, families[i].g);
        even_kinds();
        for (uint32_t seed = 0; seed < 12; seed++) {
            setup(families[i].world, families[i].gpn, families[i].g);
            whole_segments(groups[0].n_members, seed);
        }
    }
}
END_TEST

/* ZeRO-1's cut matrices: the holders of a matrix are neighbours and exchange their parts. */
START_TEST(segments_to_a_part_of_the_group_stay_inside_it)
{
    static const enum coll_algo algos[] = {ALGO_P2P, ALGO_RING, ALGO_TREE};

    for (uint32_t first = 0; first < 5; first++)
        for (uint32_t n = 2; first + n < 7; n++)
            for (size_t g = 0; g < 6; g++)
                for (size_t k = 0; k < 3; k++) {
                    setup(7, per_node[g], world_group(7));
                    starts[0] = 0;
                    for (uint32_t i = 0; i < n; i++)
                        segments[i] = (struct segment){
                            .root = first + i, .to_first = first, .to_n = n, .elements = 5 + 3 * i};
                    /* a second matrix that shares the last holder */
                    segments[n] = (struct segment){.root = first + n - 1,
                                                   .to_first = first + n - 1,
                                                   .to_n = 2,
                                                   .tensor = 1,
                                                   .elements = 100};
                    segments[n + 1] = segments[n];
                    segments[n + 1].root++;
                    starts[1] = n + 2;
                    op.coll.table = 0;
                    op.coll.kind = COLL_SEGMENT_GATHER;
                    agree(algos[k]);
                    op.coll.kind = COLL_SEGMENT_REDUCE;
                    agree(algos[k]);
                }
}
END_TEST

START_TEST(a_row_of_a_table_is_taken_by_unit)
{
    setup(4, 2, world_group(4));
    tables[0].n_units = 2;
    starts[0] = 0;
    starts[1] = 1;
    starts[2] = 3;
    segments[0] = (struct segment){.root = 1, .to_n = 4, .elements = 5};
    segments[1] = (struct segment){.root = 2, .to_n = 4, .elements = 50};
    segments[2] = (struct segment){.root = 0, .to_n = 4, .offset = 50, .elements = 500};
    op.coll.table = 0;
    op.coll.kind = COLL_SEGMENT_GATHER;
    for (at.unit = 0; at.unit < 2; at.unit++)
        for (int k = ALGO_P2P; k < ALGO_N; k++)
            agree((enum coll_algo)k);
}
END_TEST

/* By hand, two nodes of 8 ranks, 16 x 100 bytes: every rank sends 1500; of a node's 12000 one edge, 1500, leaves, so
 * 187.5 a GPU, rounded up to 188. An owner of 134,217,728 bytes (a 4096 x 16384 matrix in bf16) sends it to 63 ranks:
 * 8,455,716,864 bytes by p2p, of them 7 inside the node and 56 out; by ring it sends 134,217,728 once. */
START_TEST(hand_counted_bytes)
{
    struct traffic t;
    struct traffic_bytes b;

    setup(16, 8, world_group(16));
    arena_init(&a);
    op.coll.kind = COLL_ALL_GATHER;
    op.coll.elements = (1600) / 2;
    traffic_of(&p, &op, &at, ALGO_RING, &a, &t);
    b = traffic_get(&t, 9);
    ck_assert_uint_eq(b.sent_inter, 188);
    ck_assert_uint_eq(b.sent_intra, 1312);

    setup(64, 8, world_group(64));
    starts[0] = 0;
    starts[1] = 1;
    segments[0] = (struct segment){.root = 10, .to_n = 64, .elements = 134217728 / 2};
    op.coll.table = 0;
    op.coll.kind = COLL_SEGMENT_GATHER;
    traffic_of(&p, &op, &at, ALGO_P2P, &a, &t);
    b = traffic_get(&t, 10);
    ck_assert_uint_eq(b.sent_intra + b.sent_inter, 8455716864);
    ck_assert_uint_eq(b.sent_inter, 56 * 134217728ull);
    ck_assert_uint_eq(b.recv_intra + b.recv_inter, 0);
    b = traffic_get(&t, 11);
    ck_assert_uint_eq(b.recv_intra, 134217728);
    b = traffic_get(&t, 63);
    ck_assert_uint_eq(b.recv_inter, 134217728);
    traffic_of(&p, &op, &at, ALGO_RING, &a, &t);
    b = traffic_get(&t, 10);
    ck_assert_uint_eq(b.sent_intra + b.sent_inter, 134217728);
    ck_assert_uint_eq(b.recv_intra + b.recv_inter, 0);
    b = traffic_get(&t, 9);
    ck_assert_uint_eq(b.sent_intra + b.sent_inter, 0);
    arena_release(&a);
}
END_TEST

/* AUTO chooses among all ways that are not there to compare with, each once; names are those of the enumerators. */
START_TEST(each_way_is_chosen_among_or_a_baseline)
{
    for (int v = ALGO_AUTO + 1; v < ALGO_N; v++) {
        const struct segment_algo *row = segment_algo((enum coll_algo)v);
        int seen = 0;

        for (const enum coll_algo *c = segment_algo_choices; *c != ALGO_AUTO; c++)
            seen += *c == (enum coll_algo)v;
        MUST(seen == !row->baseline, "%s is tried %d times", row->name, seen);
        ck_assert_str_eq(row->name, coll_algo_name((enum coll_algo)v));
    }
    ck_assert_str_eq(segment_algo(ALGO_P2P)->name, "p2p");
    ck_assert_str_eq(segment_algo(ALGO_PADDED)->name, "padded");
}
END_TEST

SUITE_MAIN("model/traffic", each_way_is_chosen_among_or_a_baseline,
           even_collectives_of_the_world_move_what_playing_them_moves,
           segments_to_the_world_move_what_playing_them_moves,
           collectives_of_groups_move_what_playing_them_moves,
           segments_to_a_part_of_the_group_stay_inside_it, a_row_of_a_table_is_taken_by_unit,
           hand_counted_bytes)
