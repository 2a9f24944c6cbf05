/* Extents, runs and meshes: by hand, and against counting element by element. */
#include "model/plan/placement.h"

#include "core/num.h"
#include "model/program/program.h"
#include "tests/suite.h"

#include <string.h>

static struct arena arena;

/* Tensors of these rows x cols, all with one rule, on a mesh of these factors. */
static void make(struct plan *p, enum place_rule rule, uint32_t world, uint32_t node,
                 const struct factor f[3], uint32_t n, const uint64_t shape[][2])
{
    struct unit_class c = {.kind = UNIT_LAYER, .name = "layer"};
    struct model_builder b;
    struct err e = {0};

    arena_init(&arena);
    memset(p, 0, sizeof(*p));
    model_builder_init(&b, &p->model, &arena);
    model_builder_unit(&b, "unit", &c);
    for (uint32_t i = 0; i < n; i++)
        model_builder_tensor(&b, arena_printf(&arena, "t%u", i), ROLE_MATRIX, SLOT_Q, false, -1, 2,
                             shape[i]);
    ck_assert(model_builder_finish(&b, &e) == 0);
    model_builder_release(&b);
    p->world = world;
    p->job.tp = 1;
    p->cluster.gpus_per_node = node;
    memcpy(p->factor, f, sizeof(p->factor));
    p->place = ARENA_NEW(&arena, struct placement, n);
    for (uint32_t i = 0; i < n; i++)
        p->place[i] = (struct placement){.rule = rule, .owner = i % 2};
    if (placement_set_mesh(p, &e))
        ck_abort_msg("%s", e.msg);
}

/* 10 rows of 2: over d0 in 2 parts of 5, each over d1 in 2 parts of 3 rows and what is left of the 5. */
START_TEST(parts_of_parts_by_hand)
{
    const struct factor f[3] = {{2, 1}, {4, 1}, {4, 2}};
    const uint64_t shape[][2] = {{10, 2}};
    static const uint64_t first[4] = {0, 10, 6, 16}, n[4] = {6, 6, 4, 4};
    struct plan p;

    make(&p, PLACE_CHUNK, 8, 4, f, 1, shape);
    ck_assert_uint_eq(placement_parts(&p, PARAM), 2);
    ck_assert_uint_eq(placement_parts(&p, GRAD), 4);
    ck_assert_uint_eq(placement_parts(&p, STATE), 8);
    for (uint32_t r = 0; r < 8; r++) {
        struct extent x = placement_extent(&p, 0, GRAD, r);

        /* rank 0 has d0 0 and d1 0, rank 1 d0 1 and d1 0, rank 2 d0 0 and d1 1 */
        ck_assert_uint_eq(x.first, first[r % 4]);
        ck_assert_uint_eq(x.n, n[r % 4]);
        ck_assert_uint_eq(x.room, 6);
    }
    /* over two nodes: 3 rows become 2 and 1, 2 rows 2 and none */
    ck_assert_uint_eq(placement_extent(&p, 0, STATE, 0).n, 4);
    ck_assert_uint_eq(placement_extent(&p, 0, STATE, 4).n, 2);
    ck_assert_uint_eq(placement_extent(&p, 0, STATE, 4).first, 4);
    ck_assert_uint_eq(placement_extent(&p, 0, STATE, 2).n, 4);
    ck_assert_uint_eq(placement_extent(&p, 0, STATE, 6).n, 0);
    ck_assert_uint_eq(mesh_index(&p.mesh, 6, p.over[STATE]), 3);
    arena_release(&arena);
}
END_TEST

/* ---- against counting ---- */

typedef struct extent extent_fn(const struct plan *, uint32_t, enum component, uint32_t);

/* An extent that forgets where its parent ends: what a nested cut is easily got wrong by. */
static struct extent careless(const struct plan *p, uint32_t tensor, enum component c, uint32_t r)
{
    struct extent x = placement_extent(p, tensor, c, r);
    uint64_t numel = p->model.tensors[tensor].numel;

    x.n = num_min(x.room, numel - num_min(numel, x.first));
    return x;
}

/* Every element is on as many ranks as there are replicas of its component, and a part of a component lies
 * within the rank's part of the one before. */
static bool holds(const struct plan *p, extent_fn *extent)
{
    bool good = true;

    for (uint32_t i = 0; i < p->model.n_tensors; i++)
        for (int c = 0; c < COMPONENT_N; c++) {
            uint64_t numel = p->model.tensors[i].numel;
            uint32_t *times = MEM_NEW(uint32_t, numel);

            for (uint32_t r = 0; r < p->world; r++) {
                struct extent x = extent(p, i, (enum component)c, r), outer = {0, numel, numel};

                if (c)
                    outer = extent(p, i, (enum component)(c - 1), r);
                good &= x.n <= x.room && x.first + x.n <= numel;
                good &= !x.n || (x.first >= outer.first && x.first + x.n <= outer.first + outer.n);
                for (uint64_t k = x.first; k < x.first + x.n && k < numel; k++)
                    times[k]++;
            }
            for (uint64_t k = 0; k < numel; k++)
                good &= times[k] == p->world / placement_parts(p, (enum component)c);
            mem_free(times);
        }
    return good;
}

struct seen {
    const struct plan *p;
    uint32_t tensor;
    enum component c;
    uint64_t elements;
    bool good;
};

static void look(void *ctx, const struct placement_run *run)
{
    struct seen *s = ctx;

    for (uint32_t k = 0; k < run->n; k++) {
        uint32_t rank = mesh_rank(&s->p->mesh, run->part + k, s->p->over[s->c]);
        struct extent x = placement_extent(s->p, s->tensor, s->c, rank);

        s->good &= placement_index(s->p, s->c, rank) == run->part + k;
        s->good &= x.first == run->first + k * run->each && x.n == run->each && x.n;
        s->elements += run->each;
    }
}

static bool runs_agree(const struct plan *p)
{
    bool good = true;

    for (uint32_t i = 0; i < p->model.n_tensors; i++)
        for (int c = 0; c < COMPONENT_N; c++) {
            struct seen s = {p, i, (enum component)c, 0, true};

            placement_runs(p, i, s.c, look, &s);
            good &= s.good && s.elements == p->model.tensors[i].numel;
        }
    return good;
}

static const struct factor factors[][3] = {
    {{1, 1}, {1, 1}, {1, 1}}, {{1, 1}, {1, 1}, {4, 3}}, {{1, 1}, {4, 3}, {4, 3}},
    {{4, 3}, {4, 3}, {4, 3}}, {{4, 1}, {4, 1}, {4, 3}}, {{2, 1}, {2, 3}, {4, 3}},
    {{2, 1}, {4, 1}, {4, 3}}, {{1, 3}, {2, 3}, {2, 3}}, {{2, 1}, {2, 1}, {2, 1}},
};
enum { N_FACTORS = sizeof(factors) / sizeof(factors[0]) };
static const uint64_t shapes[][2] = {{10, 3}, {1, 7}, {5, 5}, {24, 2}, {2, 11}, {13, 1}};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

START_TEST(parts_share_out_every_tensor_and_nest)
{
    static const enum place_rule rules[] = {PLACE_CHUNK, PLACE_FLAT, PLACE_REPLICATED};
    uint32_t caught = 0;

    for (int k = 0; k < N_FACTORS; k++)
        for (int r = 0; r < 3; r++) {
            struct plan p;

            make(&p, rules[r], 12, 4, factors[k], N_SHAPES, shapes);
            if (rules[r] != PLACE_REPLICATED) {
                ck_assert(holds(&p, placement_extent));
                ck_assert(runs_agree(&p));
                caught += !holds(&p, careless);
            }
            for (uint32_t t = 0; t < N_SHAPES && rules[r] == PLACE_REPLICATED; t++)
                ck_assert_uint_eq(placement_extent(&p, t, STATE, 7).n, p.model.tensors[t].numel);
            arena_release(&arena);
        }
    ck_assert_uint_gt(caught, 0); /* the planted one */
}
END_TEST

START_TEST(owners_have_all_or_nothing)
{
    struct plan p;

    make(&p, PLACE_OWNER, 12, 4, factors[1], N_SHAPES, shapes);
    for (uint32_t t = 0; t < N_SHAPES; t++)
        for (uint32_t r = 0; r < 12; r++) {
            ck_assert_uint_eq(placement_extent(&p, t, STATE, r).n,
                              r == t % 2 ? p.model.tensors[t].numel : 0);
            ck_assert_uint_eq(placement_extent(&p, t, PARAM, r).n, p.model.tensors[t].numel);
        }
    ck_assert(runs_agree(&p));
    arena_release(&arena);
}
END_TEST

/* ---- meshes and groups ---- */

/* The members of a group are the ranks that agree with the first in all other coordinates, ascending; and
 * every rank is in one. */
START_TEST(groups_are_the_ranks_that_differ_in_the_axes_alone)
{
    for (int k = 0; k < N_FACTORS; k++)
        for (axis_set over = 1; over < AXES(AXIS_N); over++) {
            struct plan p;
            struct group g;

            make(&p, PLACE_CHUNK, 12, 4, factors[k], 1, shapes);
            g = mesh_group(&p.mesh, over, "g");
            ck_assert_uint_eq(g.n_members, mesh_size(&p.mesh, over));
            for (uint32_t r = 0; r < 12; r++) {
                uint32_t base = group_base(&g, r), mates = 0;

                for (uint32_t q = 0; q < 12; q++)
                    mates += mesh_index(&p.mesh, q, AXES(AXIS_N) - 1 - over) ==
                             mesh_index(&p.mesh, r, AXES(AXIS_N) - 1 - over);
                ck_assert_uint_eq(mates, g.n_members);
                ck_assert_uint_eq(group_member(&g, base, group_index(&g, r)), r);
                for (uint32_t i = 0; i + 1 < g.n_members; i++)
                    ck_assert_uint_lt(group_member(&g, base, i), group_member(&g, base, i + 1));
                for (uint32_t i = 0; i < g.n_members; i++)
                    ck_assert_uint_eq(
                        mesh_index(&p.mesh, group_member(&g, base, i), AXES(AXIS_N) - 1 - over),
                        mesh_index(&p.mesh, r, AXES(AXIS_N) - 1 - over));
            }
            arena_release(&arena);
        }
}
END_TEST

START_TEST(distinct_ranks_hold_what_any_rank_holds)
{
    for (int k = 0; k < N_FACTORS; k++) {
        struct plan p;
        uint32_t n;

        make(&p, PLACE_CHUNK, 12, 4, factors[k], 1, shapes);
        n = mesh_distinct(&p.mesh);
        for (uint32_t r = 0; r < 12; r++) {
            bool found = false;

            for (uint32_t q = 0; q < n; q++)
                found |= placement_index(&p, STATE, q) == placement_index(&p, STATE, r);
            ck_assert(found);
        }
        arena_release(&arena);
    }
}
END_TEST

START_TEST(factors_that_do_not_nest_are_refused_by_the_rule_they_break)
{
    static const struct {
        struct factor f[3];
        uint32_t world;
        const char *says;
    } bad[] = {
        {{{4, 1}, {2, 1}, {4, 1}}, 8, "g=2x1 is no multiple of p=4x1"},
        {{{1, 1}, {2, 1}, {3, 1}}, 8, "os=3x1 is no multiple of g=2x1"},
        {{{1, 1}, {1, 1}, {3, 1}}, 8, "os=3x1 does not divide 4 GPUs in a node and 2 nodes"},
        {{{1, 1}, {1, 1}, {4, 4}}, 8, "os=4x4 does not divide 4 GPUs in a node and 2 nodes"},
        {{{0, 1}, {1, 1}, {1, 1}}, 8, "p=0x1"},
        {{{2, 1}, {2, 1}, {4, 1}}, 6, "do not fill nodes"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct mesh m;
        struct err e = {0};

        ck_assert_int_eq(mesh_nested(&m, bad[i].world, 1, 4, bad[i].f, &e), -1);
        ck_assert_msg(strstr(e.msg, bad[i].says), "%s", e.msg);
    }
}
END_TEST

/* Digits alone, and no number that a uint32_t could not hold. */
START_TEST(texts_of_factors)
{
    static const char *const good[] = {"p=1x1",   "os=8x2,p=8x1", "g=65535x65535",
                                       "p=08x01", "os=2x1",       "p=1x1,g=2x1,os=2x3"};
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "expected p=AxB"},
               {"p", "expected p=AxB"},
               {"p=", "expected p=AxB"},
               {"p=8", "expected p=AxB"},
               {"p=8x", "expected p=AxB"},
               {"p=x8", "expected p=AxB"},
               {"p=8x1x1", "expected p=AxB"},
               {"p=8x1,", "expected p=AxB"},
               {",p=8x1", "expected p=AxB"},
               {"p=8x1,,g=8x1", "expected p=AxB"},
               {"p=8x1,p=8x1", "each once at most"},
               {"P=8x1", "expected p=AxB"},
               {"o=8x1", "expected p=AxB"},
               {"p= 8x1", "expected p=AxB"},
               {"p=8 x1", "expected p=AxB"},
               {"p=-8x1", "expected p=AxB"},
               {"p=+8x1", "expected p=AxB"},
               {"p=8x1g=8x1", "expected p=AxB"},
               {"p=0x1", "p: expected numbers from 1"},
               {"g=1x0", "g: expected numbers from 1"},
               {"os=65536x1", "os: expected numbers from 1 to 65535"},
               {"p=1x4294967297", "p: expected numbers from 1"},
               {"p=99999999999999999999x1", "p: expected numbers from 1"}};
    struct factor f[3] = {{7, 7}, {7, 7}, {7, 7}};
    struct err e;
    bool said[3];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        MUST(!mesh_parse(good[i], f, said, &e), "%s: %s", good[i], e.msg);
    ck_assert(f[0].in_node == 1 && f[1].in_node == 2 && f[2].in_node == 2 && f[2].nodes == 3);
    ck_assert(said[0] && said[1] && said[2]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        e.msg[0] = 0;
        MUST(mesh_parse(bad[i].text, f, said, &e) && strstr(e.msg, bad[i].says), "'%s': %s",
             bad[i].text, e.msg);
    }
}
END_TEST

SUITE_MAIN("model/placement", texts_of_factors, parts_of_parts_by_hand,
           parts_share_out_every_tensor_and_nest, owners_have_all_or_nothing,
           groups_are_the_ranks_that_differ_in_the_axes_alone,
           distinct_ranks_hold_what_any_rank_holds,
           factors_that_do_not_nest_are_refused_by_the_rule_they_break)
