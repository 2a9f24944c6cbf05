/* The trees against what their definition promises, on every shape of up to 64 places; the closed counting of bytes
 * against a walk along all edges. */
#include "model/program/tree.h"
#include "tests/suite.h"

#include <string.h>

enum { MAX = 64, MAX_SEGMENTS = 12 };

static uint32_t ranks[MAX];

/* Ranks first..first+n-1. */
static struct tree make(uint32_t first, uint32_t n, uint32_t gpn)
{
    struct tree t;

    for (uint32_t i = 0; i < n; i++)
        ranks[i] = first + i;
    tree_init(&t, ranks, n, gpn);
    return t;
}

static const struct {
    uint32_t first, n, gpn;
} shapes[] = {{0, 1, 8},  {0, 2, 8},  {0, 2, 1},  {0, 3, 1},  {0, 3, 2},  {0, 4, 2},  {0, 4, 1},
              {0, 5, 2},  {0, 5, 1},  {0, 7, 3},  {0, 7, 1},  {0, 8, 4},  {0, 8, 1},  {0, 9, 1},
              {0, 12, 5}, {0, 12, 1}, {0, 63, 8}, {0, 64, 8}, {0, 64, 4}, {0, 63, 1}, {0, 64, 1},
              {3, 9, 4},  {7, 2, 8},  {5, 20, 3}, {6, 21, 8}, {1, 63, 16}};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static bool same_node(const struct tree *t, uint32_t a, uint32_t b)
{
    return tree_node(t, a) == tree_node(t, b);
}

/* Hand-drawn, one GPU a node. Seven nodes behind the root (8 in all): 0 -> 4 -> {2 -> {1, 3}, 6 -> {5, 7}}, and moved by one
 * 0 -> 3 -> {1 -> {7, 2}, 5 -> {4, 6}}. Six behind it (7): 0 -> 4 -> {2 -> {1, 3}, 6 -> {5}}, and v for 7 - v. */
START_TEST(trees_of_7_and_8_nodes_are_those_drawn_by_hand)
{
    static const uint32_t parents[4][8] = {{0, 2, 4, 2, 0, 6, 4, 6},
                                           {0, 3, 1, 0, 5, 3, 5, 1},
                                           {0, 2, 4, 2, 0, 6, 4, 0},
                                           {0, 3, 1, 0, 5, 3, 5, 0}};

    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t root = 0; root < 8 - k / 2; root++) {
            uint32_t n = 8 - k / 2;
            struct tree t = make(0, n, 1);

            for (uint32_t v = 1; v < n; v++)
                ck_assert_uint_eq(tree_links(&t, root, k % 2, (root + v) % n).parent,
                                  (root + parents[k][v]) % n);
            tree_release(&t);
        }
}
END_TEST

/* Every place is reached once from the root, along chains and at most two edges down from a node; the longest way has
 * tree_depth() edges between nodes and at most one turn around each of the two end nodes. */
START_TEST(every_tree_spans_its_range)
{
    for (int s = 0; s < N_SHAPES; s++) {
        struct tree t = make(shapes[s].first, shapes[s].n, shapes[s].gpn);

        for (uint32_t root = 0; root < t.n; root++)
            for (uint32_t i = 0; i < t.n_trees; i++) {
                uint32_t deepest = 0, longest = 0, children = 0;

                for (uint32_t k = 0; k < t.n; k++) {
                    struct tree_links x = tree_links(&t, root, i, k);
                    uint32_t outside = 0, between = 0, inside = 0;

                    ck_assert((x.parent == PROGRAM_NONE) == (k == root));
                    children += x.n_children;
                    for (uint32_t c = 0; c < x.n_children; c++) {
                        ck_assert_uint_eq(tree_links(&t, root, i, x.child[c]).parent, k);
                        outside += !same_node(&t, k, x.child[c]);
                    }
                    ck_assert_uint_le(outside, k == root || same_node(&t, k, root) ? 1 : 2);
                    ck_assert_uint_le(x.n_children - outside, 1);
                    for (uint32_t at = k; at != root;) {
                        uint32_t up = tree_links(&t, root, i, at).parent;

                        *(same_node(&t, at, up) ? &inside : &between) += 1;
                        MUST(inside + between < t.n, "a loop at %u", at);
                        at = up;
                    }
                    deepest = between > deepest ? between : deepest;
                    longest = inside > longest ? inside : longest;
                }
                ck_assert_uint_eq(children, t.n - 1);
                ck_assert_uint_eq(deepest, tree_depth(t.n_nodes));
                ck_assert_uint_le(longest, (t.n_nodes > 1 ? 2 : 1) * (t.rails - 1));
            }
        tree_release(&t);
    }
}
END_TEST

START_TEST(neighbours_are_a_list_of_ranks)
{
    for (uint32_t rank = 0; rank < 20; rank++)
        for (uint32_t n = 1; n <= 40; n++)
            for (uint32_t gpn = 1; gpn <= 9; gpn++) {
                struct tree x = make(rank, n, gpn), y;

                tree_init_neighbours(&y, rank, n, gpn);
                ck_assert(x.n == y.n && x.n_nodes == y.n_nodes && x.rails == y.rails &&
                          x.n_trees == y.n_trees);
                ck_assert_mem_eq(x.first, y.first, (x.n_nodes + 1) * sizeof(*x.first));
                tree_release(&x);
                tree_release(&y);
            }
}
END_TEST

START_TEST(depth_is_the_logarithm)
{
    for (uint32_t n = 1, log = 0; n <= 5000; n++) {
        log += n > 1u << log;
        ck_assert_uint_eq(tree_depth(n), log);
    }
}
END_TEST

/* What full bandwidth takes: who passes on in one tree of a pair is a leaf of the other. An even number of nodes leaves
 * one that is a leaf of both. */
START_TEST(an_inner_node_of_one_tree_is_a_leaf_of_the_other)
{
    for (uint32_t nodes = 2; nodes <= MAX; nodes++) {
        struct tree t = make(0, nodes, 1);
        uint32_t idle = 0;

        for (uint32_t k = 1; k < nodes; k++) {
            bool a = tree_links(&t, 0, 0, k).n_children > 0,
                 b = tree_links(&t, 0, 1, k).n_children > 0;

            ck_assert(!a || !b);
            idle += !a && !b;
        }
        ck_assert_uint_eq(idle, nodes % 2 == 0);
        tree_release(&t);
    }
}
END_TEST

START_TEST(pieces_are_whole_elements_and_nothing_is_left)
{
    for (int s = 0; s < N_SHAPES; s++)
        for (uint64_t bytes = 0; bytes < 200; bytes += 7) {
            struct tree t = make(shapes[s].first, shapes[s].n, shapes[s].gpn);
            uint64_t at = 0;

            for (uint32_t i = 0; i < t.n_trees; i++) {
                struct tree_piece x = tree_piece(&t, i, bytes, 4);

                ck_assert_uint_eq(x.offset, at);
                ck_assert(i + 1 == t.n_trees || x.bytes % 4 == 0);
                at += x.bytes;
            }
            ck_assert_uint_eq(at, bytes);
            tree_release(&t);
        }
}
END_TEST

/* ---- bytes ---- */

static struct traffic_bytes counted[MAX], every;

static void take(void *ctx, uint32_t place, const struct traffic_bytes *b)
{
    int64_t *last = ctx;

    MUST(*last < (int64_t)place, "place %u does not ascend", place);
    MUST(memcmp(b, &every, sizeof(*b)) != 0, "place %u does not differ", place);
    *last = place;
    counted[place] = *b;
}

static void walk(const struct tree *t, const struct wire_segment *s, uint32_t n, uint64_t element,
                 struct traffic_bytes *to)
{
    memset(to, 0, t->n * sizeof(*to));
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < t->n_trees; i++)
            for (uint32_t at = 0; at < t->n; at++) {
                struct tree_links x = tree_links(t, s[k].root - s[k].to_first, i, at);
                uint64_t b = tree_piece(t, i, s[k].bytes, element).bytes;

                for (uint32_t c = 0; c < x.n_children; c++) {
                    bool in = same_node(t, at, x.child[c]);

                    *(in ? &to[at].sent_intra : &to[at].sent_inter) += b;
                    *(in ? &to[x.child[c]].recv_intra : &to[x.child[c]].recv_inter) += b;
                }
            }
}

static uint64_t random_to(uint64_t *seed, uint64_t n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % n;
}

START_TEST(counted_bytes_are_those_of_the_edges)
{
    for (uint64_t trial = 0; trial < 4000; trial++) {
        uint64_t seed = trial;
        int s = (int)random_to(&seed, N_SHAPES);
        struct tree t = make(shapes[s].first, shapes[s].n, shapes[s].gpn);
        struct wire_segment segments[MAX_SEGMENTS];
        uint32_t n = (uint32_t)random_to(&seed, MAX_SEGMENTS + 1),
                 first = (uint32_t)random_to(&seed, 5);
        bool even = random_to(&seed, 2), zero = random_to(&seed, 2);
        struct traffic_bytes walked[MAX];
        uint64_t all = 0, inter;
        int64_t last = -1;

        for (uint32_t k = 0; k < n; k++) {
            segments[k] = (struct wire_segment){.root = first + (uint32_t)random_to(&seed, t.n),
                                                .to_first = first,
                                                .to_n = t.n,
                                                .bytes = even ? 2 * t.n_trees * random_to(&seed, 3)
                                                              : random_to(&seed, 100)};
            all += segments[k].bytes;
        }
        inter = t.n_nodes > 1 && !zero ? all / t.rails : 0;
        every = zero ? (struct traffic_bytes){0, 0, 0, 0}
                     : (struct traffic_bytes){all - inter, inter, all - inter, inter};
        for (uint32_t k = 0; k < t.n; k++)
            counted[k] = every;
        tree_bytes(&t, segments, n, 2, &every, take, &last);
        walk(&t, segments, n, 2, walked);
        for (uint32_t k = 0; k < t.n; k++)
            MUST(!memcmp(&counted[k], &walked[k], sizeof(walked[k])),
                 "trial %llu: %u places from %u, %u a node, place %u: sent %llu+%llu, walked "
                 "%llu+%llu",
                 (unsigned long long)trial, t.n, shapes[s].first, shapes[s].gpn, k,
                 (unsigned long long)counted[k].sent_intra,
                 (unsigned long long)counted[k].sent_inter,
                 (unsigned long long)walked[k].sent_intra,
                 (unsigned long long)walked[k].sent_inter);
        tree_release(&t);
    }
}
END_TEST

static void count_places(void *ctx, uint32_t place, const struct traffic_bytes *b)
{
    (void)place, (void)b;
    ++*(uint32_t *)ctx;
}

/* 16,384 places, 5 roots, pieces of equal size: the nodes of the roots and their two neighbours, no more. */
START_TEST(few_places_of_a_large_range_differ)
{
    enum { N = 16384 };
    uint32_t *many = MEM_NEW(uint32_t, N), n = 0;
    struct wire_segment s[5];
    struct tree t;

    for (uint32_t i = 0; i < N; i++)
        many[i] = i;
    for (uint32_t k = 0; k < 5; k++)
        s[k] = (struct wire_segment){.root = 3000 * k + 17, .to_n = N, .bytes = 32 * 1000};
    every = (struct traffic_bytes){140000, 20000, 140000, 20000};
    tree_init(&t, many, N, 8);
    tree_bytes(&t, s, 5, 2, &every, count_places, &n);
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_le(n, 5 * 3 * 8);
    tree_release(&t);
    mem_free(many);
}
END_TEST

/* Leaves of 2 nodes, 8 nodes (the trees above): tree 1 crosses by 0-4, 4-2, 2-1, 4-6, 6-5 (not 2-3, 6-7): leaf {2,3} is left
 * by 2-1, {4,5} by 4-2 and 4-6, {0,1} by 0-4, {6,7} by 6-5. Tree 2 crosses by 0-3, 3-1, 3-5, 1-7, 1-2, 5-6 (not 5-4):
 * {0,1} is left by 0-3, 1-7, 1-2, {2,3} by 3-1, 3-5, {4,5} by 5-6. Out: 4, 3, 3, 1. In: {0,1} 2-1, 3-1; {2,3} 4-2, 0-3, 1-2;
 * {4,5} 0-4, 6-5, 3-5; {6,7} 4-6, 1-7, 5-6. */
START_TEST(edges_between_leaves_by_hand)
{
    struct tree_crossings x = tree_crossings(8, 2);

    ck_assert_uint_eq(x.out, 4);
    ck_assert_uint_eq(x.in, 3);
    x = tree_crossings(8, 8);
    ck_assert_uint_eq(x.out + x.in, 0);
}
END_TEST

SUITE_MAIN("model/tree", trees_of_7_and_8_nodes_are_those_drawn_by_hand, every_tree_spans_its_range,
           neighbours_are_a_list_of_ranks, depth_is_the_logarithm,
           an_inner_node_of_one_tree_is_a_leaf_of_the_other,
           pieces_are_whole_elements_and_nothing_is_left, counted_bytes_are_those_of_the_edges,
           few_places_of_a_large_range_differ, edges_between_leaves_by_hand)
