/* Every collective of exec/collective.c against the plain definition of what it has to leave behind, and its bytes
 * against model/program/traffic.h, on worlds and node shapes that are not round. Values are small integers, so that fp32 sums
 * are exact in any order and a wrong element is a wrong element. */
#include "exec/collective.h"

#include "model/program/traffic.h"
#include "tests/exec/threads.h"
#include "tests/suite.h"

#include <stdio.h>

enum { MAX_WORLD = 64, MAX_SEGMENTS = 12, ELEMENTS = 90 };

struct setting {
    enum coll_kind kind;
    enum coll_algo algo;
    bool ordered, bf16; /* else fp32; sums up to 17 ranks are exact in both */
    uint32_t world, gpn;
    size_t chunk_elements;
    struct wire_segment segments[MAX_SEGMENTS];
    uint32_t n_segments;
    struct traffic traffic;
};

static enum dtype type_of(const struct setting *s)
{
    return s->bf16 ? DTYPE_BF16 : DTYPE_FP32;
}

static float value(uint32_t rank, uint32_t i)
{
    return (float)((rank * 7 + i * 3) % 11);
}

static float sum_of(uint32_t first, uint32_t n, uint32_t i)
{
    float s = 0;

    for (uint32_t r = first; r < first + n; r++)
        s += value(r, i);
    return s;
}

static int wrong(struct err *e, const struct setting *s, uint32_t rank, uint32_t i, float got,
                 float want)
{
    return err_set(e, ERR_INVALID, "%s %s world %u: rank %u element %u is %g, expected %g",
                   coll_kind_name(s->kind), coll_algo_name(s->algo), s->world, rank, i, (double)got,
                   (double)want);
}

static int check_even(const struct setting *s, uint32_t rank, const float *x, struct err *e)
{
    for (uint32_t i = 0; i < s->world * s->chunk_elements; i++) {
        uint32_t from = (uint32_t)(i / s->chunk_elements);
        float want = 0;

        if (s->kind == COLL_REDUCE_SCATTER && from != rank)
            continue;
        switch (s->kind) {
        case COLL_ALL_GATHER:
            want = value(from, i);
            break;
        case COLL_ALL_TO_ALL: /* chunk `rank` of rank `from` */
            want = value(from, (uint32_t)(rank * s->chunk_elements + i % s->chunk_elements));
            break;
        default:
            want = sum_of(0, s->world, i) * 0.5f;
        }
        if (x[i] != want)
            return wrong(e, s, rank, i, x[i], want);
    }
    return 0;
}

static int check_segments(const struct setting *s, uint32_t rank, const float *x, struct err *e)
{
    size_t size = dtype_bytes(type_of(s), 1);

    for (uint32_t k = 0; k < s->n_segments; k++) {
        const struct wire_segment *g = &s->segments[k];
        bool in = rank >= g->to_first && rank < g->to_first + g->to_n;

        if (s->kind == COLL_SEGMENT_GATHER ? !in : rank != g->root)
            continue;
        for (uint32_t i = (uint32_t)(g->offset / size); i < (g->offset + g->bytes) / size; i++) {
            float want = s->kind == COLL_SEGMENT_GATHER ? value(g->root, i)
                                                        : sum_of(g->to_first, g->to_n, i) * 0.5f;

            if (x[i] != want)
                return wrong(e, s, rank, i, x[i], want);
        }
    }
    return 0;
}

/* Edges of rings are counted as rails (model/program/traffic.h): of them only sums are compared. */
static bool edges_are_counted(const struct setting *s)
{
    return s->n_segments &&
           (s->algo == ALGO_P2P || s->algo == ALGO_TREE || s->algo == ALGO_HIERARCHICAL ||
            s->ordered) &&
           s->algo != ALGO_PADDED;
}

/* The counters, and inside and between nodes apart. */
static int check_bytes(const struct setting *s, const struct transport *t, struct err *e)
{
    const struct threads_rank *x = t->ctx;
    struct traffic_bytes b = traffic_get(&s->traffic, t->rank), got = {0};

    for (uint32_t r = 0; r < s->world; r++) {
        bool same = r / s->gpn == t->rank / s->gpn;

        *(same ? &got.sent_intra : &got.sent_inter) += x->sent_to[r];
        *(same ? &got.recv_intra : &got.recv_inter) += x->received_from[r];
    }
    if (got.sent_intra + got.sent_inter == b.sent_intra + b.sent_inter &&
        got.recv_intra + got.recv_inter == b.recv_intra + b.recv_inter &&
        (!edges_are_counted(s) || !memcmp(&got, &b, sizeof(b))))
        return 0;
    return err_set(e, ERR_INVALID,
                   "%s %s%s world %u gpn %u rank %u: sent %llu+%llu received %llu+%llu, traffic.h "
                   "says %llu+%llu %llu+%llu",
                   coll_kind_name(s->kind), coll_algo_name(s->algo), s->ordered ? " ordered" : "",
                   s->world, s->gpn, t->rank, (unsigned long long)got.sent_intra,
                   (unsigned long long)got.sent_inter, (unsigned long long)got.recv_intra,
                   (unsigned long long)got.recv_inter, (unsigned long long)b.sent_intra,
                   (unsigned long long)b.sent_inter, (unsigned long long)b.recv_intra,
                   (unsigned long long)b.recv_inter);
}

static int play(struct transport *t, void *ctx, struct err *e)
{
    const struct setting *s = ctx;
    bool even = !s->n_segments && s->kind != COLL_SEGMENT_GATHER && s->kind != COLL_SEGMENT_REDUCE;
    uint32_t ranks[MAX_WORLD], n = even ? (uint32_t)(s->world * s->chunk_elements) : ELEMENTS;
    size_t size = dtype_bytes(type_of(s), 1);
    float *x = MEM_NEW(float, n + 1);
    void *data = mem_alloc(n + 1, size);
    struct coll_group g = {ranks, s->world, t->rank, s->gpn};
    struct coll_call c = {.kind = s->kind,
                          .algo = s->algo,
                          .ordered = s->ordered,
                          .dtype = type_of(s),
                          .tag = 5,
                          .data = data,
                          .chunk_bytes = s->chunk_elements * size,
                          .segments = s->segments,
                          .n_segments = s->n_segments,
                          .scale = 0.5};
    int status;

    for (uint32_t r = 0; r < s->world; r++)
        ranks[r] = r;
    for (uint32_t i = 0; i < n; i++)
        x[i] = value(t->rank, i);
    dtype_store(type_of(s), x, data, n);
    c.scratch = mem_alloc(1, collective_scratch_bytes(&c, &g));
    status = collective_run(t, &g, &c, e);
    dtype_load(type_of(s), data, x, n);
    if (!status)
        status = even ? check_even(s, t->rank, x, e) : check_segments(s, t->rank, x, e);
    if (!status)
        status = check_bytes(s, t, e);
    mem_free(c.scratch);
    mem_free(data);
    mem_free(x);
    return status;
}

/* The traffic of a one-op program. An ordered segment reduction moves what the mirrored p2p does. */
static void expect(struct setting *s, struct arena *a)
{
    static const struct model none = {.n_units = 1};
    const uint32_t start[2] = {0, s->n_segments};
    struct segment elements[MAX_SEGMENTS];
    struct segment_table table = {.n_units = 1, .start = start, .segments = elements};
    uint64_t each = dtype_bytes(type_of(s), 1);
    struct group world = {.n_axes = 1, .size = {s->world}, .stride = {1}, .n_members = s->world};
    struct program p = {.model = &none,
                        .world = s->world,
                        .gpus_per_node = s->gpn,
                        .n_micro = 1,
                        .groups = &world,
                        .n_groups = 1,
                        .segment_tables = &table,
                        .n_segment_tables = 1};
    struct op o = {.kind = OP_COLLECTIVE,
                   .loop = PROGRAM_NONE,
                   .coll = {.kind = s->kind,
                            .elements = s->world * s->chunk_elements,
                            .wire = {.dtype = type_of(s)}}};
    struct instance i = {0};

    for (uint32_t k = 0; k < s->n_segments; k++) {
        const struct wire_segment *x = &s->segments[k];

        elements[k] = (struct segment){x->root,   x->to_first,      x->to_n,
                                       x->tensor, x->offset / each, x->bytes / each};
    }
    traffic_of(&p, &o, &i,
               s->ordered && s->kind == COLL_SEGMENT_REDUCE && s->algo != ALGO_PADDED ? ALGO_P2P
                                                                                      : s->algo,
               a, &s->traffic);
}

static void run(struct setting *s)
{
    struct arena a;
    struct err e = {0};

    arena_init(&a);
    expect(s, &a);
    if (threads_run(s->world, play, s, &e))
        ck_abort_msg("%s", e.msg);
    arena_release(&a);
}

static const uint32_t worlds[][2] = {{1, 8}, {2, 8}, {3, 2}, {4, 4},  {5, 2},
                                     {7, 4}, {8, 4}, {9, 4}, {16, 8}, {17, 8}};
enum { N_WORLDS = sizeof(worlds) / sizeof(worlds[0]) };

START_TEST(even_kinds_leave_what_they_promise_and_move_what_traffic_says)
{
    static const enum coll_kind kinds[] = {COLL_ALL_GATHER, COLL_REDUCE_SCATTER, COLL_ALL_REDUCE,
                                           COLL_ALL_TO_ALL};

    for (int w = 0; w < N_WORLDS; w++)
        for (int k = 0; k < 4; k++)
            for (int ordered = 0; ordered < 2; ordered++) {
                struct setting s = {.kind = kinds[k],
                                    .algo = ALGO_RING,
                                    .ordered = ordered,
                                    .world = worlds[w][0],
                                    .gpn = worlds[w][1],
                                    .chunk_elements = 5};

                if (ordered && kinds[k] != COLL_REDUCE_SCATTER && kinds[k] != COLL_ALL_REDUCE)
                    continue;
                run(&s);
            }
}
END_TEST

/* Owners scattered, several segments of one owner, some ranks without any, gaps between. */
static void scatter(struct setting *s, uint32_t seed)
{
    uint64_t offset = 0;

    s->n_segments = 0;
    for (uint32_t i = 0; i < 7; i++) {
        uint32_t n = 1 + (seed * 5 + i * 3) % 12;

        s->segments[s->n_segments++] = (struct wire_segment){.root = (seed * 3 + i * i) % s->world,
                                                             .to_n = s->world,
                                                             .tensor = i,
                                                             .offset = offset,
                                                             .bytes = n * 4};
        offset += n * 4 + (i % 2) * 4;
    }
    ck_assert_uint_le(offset, ELEMENTS * 4);
}

START_TEST(owner_segments_arrive_by_every_algorithm)
{
    static const enum coll_algo algos[] = {ALGO_P2P, ALGO_RING, ALGO_TREE, ALGO_HIERARCHICAL,
                                           ALGO_PADDED};

    for (int w = 0; w < N_WORLDS; w++)
        for (int k = 0; k < 5; k++)
            for (uint32_t seed = 0; seed < 3; seed++)
                for (int reduce = 0; reduce < 3; reduce++) { /* gather, reduce, ordered reduce */
                    struct setting s = {.kind = reduce ? COLL_SEGMENT_REDUCE : COLL_SEGMENT_GATHER,
                                        .algo = algos[k],
                                        .ordered = reduce == 2,
                                        .world = worlds[w][0],
                                        .gpn = worlds[w][1]};

                    scatter(&s, seed);
                    run(&s);
                }
}
END_TEST

/* zero1's cut matrices: ranges of neighbours, each rank with its own part. */
START_TEST(ranges_gather_among_their_ranks_only)
{
    struct setting s = {.kind = COLL_SEGMENT_GATHER, .algo = ALGO_RING, .world = 7, .gpn = 4};
    const struct wire_segment cuts[] = {
        {.root = 0, .to_first = 0, .to_n = 2, .tensor = 1, .offset = 0, .bytes = 8},
        {.root = 1, .to_first = 0, .to_n = 2, .tensor = 1, .offset = 8, .bytes = 12},
        {.root = 2, .to_first = 2, .to_n = 3, .tensor = 2, .offset = 20, .bytes = 4},
        {.root = 3, .to_first = 2, .to_n = 3, .tensor = 2, .offset = 24, .bytes = 16},
        {.root = 4, .to_first = 2, .to_n = 3, .tensor = 2, .offset = 40, .bytes = 8}};

    static const enum coll_algo algos[] = {ALGO_RING, ALGO_P2P, ALGO_TREE};

    memcpy(s.segments, cuts, sizeof(cuts));
    s.n_segments = 5;
    for (int k = 0; k < 3; k++)
        for (int reduce = 0; reduce < 3; reduce++) {
            s.kind = reduce ? COLL_SEGMENT_REDUCE : COLL_SEGMENT_GATHER;
            s.ordered = reduce == 2;
            s.algo = algos[k];
            run(&s);
        }
}
END_TEST

/* Trees: large and odd worlds, roots anywhere, ranges that start and end inside nodes, segments that are empty or smaller
 * than a tree has pieces. */
START_TEST(trees_of_any_world_and_range_move_what_traffic_says)
{
    static const uint32_t large[][2] = {{1, 1},  {2, 1},   {3, 1},  {4, 2},  {5, 4},
                                        {7, 3},  {8, 1},   {8, 2},  {12, 5}, {12, 1},
                                        {63, 8}, {63, 16}, {64, 8}, {64, 1}, {64, 4}};

    for (size_t w = 0; w < sizeof(large) / sizeof(large[0]); w++)
        for (uint32_t seed = 0; seed < 6; seed++)
            for (int reduce = 0; reduce < 2; reduce++) {
                struct setting s = {.kind = reduce ? COLL_SEGMENT_REDUCE : COLL_SEGMENT_GATHER,
                                    .algo = ALGO_TREE,
                                    .world = large[w][0],
                                    .gpn = large[w][1]};
                uint32_t first = seed < 3 ? 0 : seed * 5 % s.world,
                         n = seed < 3 ? s.world : 1 + seed * 11 % (s.world - first);
                uint64_t at = 0;

                for (uint32_t k = 0; k < 8; k++) { /* the second half to another range */
                    uint32_t to_first = k < 4 || seed < 3 ? first : first / 2,
                             to_n = k < 4 || seed < 3 ? n : s.world - to_first;

                    s.segments[k] =
                        (struct wire_segment){.root = to_first + (seed * 7 + k * k * 3) % to_n,
                                              .to_first = to_first,
                                              .to_n = to_n,
                                              .tensor = k,
                                              .offset = at,
                                              .bytes = 4 * ((seed + 5 * k * k) % 19)};
                    at += s.segments[k].bytes;
                }
                ck_assert_uint_le(at, ELEMENTS * 4);
                s.n_segments = 8;
                run(&s);
            }
}
END_TEST

static uint32_t random_to(uint64_t *seed, uint64_t n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*seed >> 33) % n);
}

START_TEST(random_segments_arrive_in_both_types)
{
    static const enum coll_algo algos[] = {ALGO_P2P, ALGO_RING, ALGO_TREE, ALGO_HIERARCHICAL,
                                           ALGO_PADDED};

    for (uint64_t trial = 0; trial < 400; trial++) {
        uint64_t seed = trial, at = 0;
        struct setting s = {.kind = random_to(&seed, 2) ? COLL_SEGMENT_REDUCE : COLL_SEGMENT_GATHER,
                            .algo = algos[random_to(&seed, 5)],
                            .bf16 = random_to(&seed, 2),
                            .world = 1 + random_to(&seed, 17),
                            .gpn = 1 + random_to(&seed, 8)};
        size_t size = dtype_bytes(type_of(&s), 1);

        s.ordered = s.kind == COLL_SEGMENT_REDUCE && random_to(&seed, 2);
        s.n_segments = 1 + random_to(&seed, MAX_SEGMENTS);
        for (uint32_t k = 0; k < s.n_segments; k++) {
            s.segments[k] = (struct wire_segment){
                .root = random_to(&seed, s.world),
                .to_n = s.world,
                .tensor = k,
                .offset = at,
                .bytes = size * random_to(&seed, ELEMENTS / MAX_SEGMENTS + 1)};
            at += s.segments[k].bytes;
        }
        run(&s);
    }
}
END_TEST

static int plant(struct transport *t, void *ctx, struct err *e)
{
    struct setting s = *(struct setting *)ctx;

    if (t->rank == 1)
        s.segments[2].offset += 4; /* one rank puts a segment in a wrong place */
    return play(t, &s, e);
}

START_TEST(a_segment_at_a_wrong_offset_is_caught)
{
    struct setting s = {.kind = COLL_SEGMENT_GATHER, .algo = ALGO_RING, .world = 4, .gpn = 2};
    struct arena a;
    struct err e = {0};

    arena_init(&a);
    scatter(&s, 1);
    expect(&s, &a);
    ck_assert_int_eq(threads_run(4, plant, &s, &e), -1);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("exec/collective", even_kinds_leave_what_they_promise_and_move_what_traffic_says,
           owner_segments_arrive_by_every_algorithm, ranges_gather_among_their_ranks_only,
           trees_of_any_world_and_range_move_what_traffic_says,
           random_segments_arrive_in_both_types, a_segment_at_a_wrong_offset_is_caught)
