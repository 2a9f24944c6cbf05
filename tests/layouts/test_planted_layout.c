/* Rows of layouts that are planted here, in place of the table: what a row says and nothing lowers is refused by its name, and what is
 * not refused lowers. */
#include "model/program/traffic.h"
#include "tests/layouts/formulas.h"
#include "tests/layouts/plans.h"

/* Instead of layouts/rows.c. */
static struct layout row;
const struct layout *const layouts_all[] = {&row, NULL};

static struct arena a;
static struct err e;

static int place(struct plan *p, struct program *prog, const struct layout *l)
{
    memset(p, 0, sizeof(*p));
    row = *l;
    MUST(!plans_model(&p->model, "llama", &a, &e), "%s", e.msg);
    plans_ideal_cluster(&p->cluster, 4, 8);
    p->job = plans_job();
    p->job.layout = l->name;
    p->job.gpus = 8;
    p->job.nodes = 2;
    e.msg[0] = 0;
    if (layout_place(p, &a, &e))
        return -1;
    plans_owners(p);
    return layout_lower(p, &a, prog, &e);
}

/* As zero3 with +gather, over groups of a node. */
static struct layout good(void)
{
    return (struct layout){.name = "planted",
                           .line = "planted",
                           .strategy = STRATEGY_GATHER,
                           .allowed = 1u << STRATEGY_GATHER,
                           .rule = PLACE_CHUNK,
                           .groups = GROUPS_NODE,
                           .cut = {true, true, true},
                           .level_stream = STREAM_ALL_REDUCE};
}

START_TEST(rows_that_nothing_lowers_are_refused_by_name)
{
    struct program prog;
    struct plan p;

    arena_init(&a);
#define REFUSED(change)                                                                            \
    {                                                                                              \
        struct layout l = good();                                                                  \
                                                                                                   \
        change;                                                                                    \
        MUST(place(&p, &prog, &l) && strstr(e.msg, "layout 'planted': nothing lowers such a row"), \
             "%s: '%s'", #change, e.msg);                                                          \
    }
    REFUSED(l.cut[STATE] = false)
    REFUSED(l.cut[GRAD] = false)
    REFUSED(l.cut[PARAM] = l.cut[GRAD] = l.cut[STATE] = false)
    REFUSED(l.rule = PLACE_REPLICATED)
    REFUSED(l.rule = PLACE_OWNER)
    REFUSED(l.rule = PLACE_FLAT)
    REFUSED(l.level_stream = STREAM_COMPUTE)
    REFUSED(l.level_stream = STREAM_GATHER)
    REFUSED(l.strategy = STRATEGY_STOCK)
    REFUSED(l.nested = true)
    REFUSED(l.groups = GROUPS_NONE; l.nested = true; l.buckets = true)
    REFUSED(l.groups = GROUPS_NONE; l.nested = true; l.level_stream = STREAM_COMPUTE)
    REFUSED(l.groups = GROUPS_NONE; l.nested = true; l.allowed |= 1u << STRATEGY_OWNER)
#undef REFUSED
    arena_release(&a);
}
END_TEST

/* A new row of cuts that no layout has: gradients and states over all in rows, parameters whole. All that it moves is a
 * reduction of every micro-batch, a gather of matrices and one of parameters, as mesh with P = 1 and Q = S = all. */
START_TEST(a_row_that_is_lowered_moves_what_its_cuts_say)
{
    struct layout l = good();
    struct program prog;
    struct plan p;
    uint64_t formula[PHASE_N];

    arena_init(&a);
    l.groups = GROUPS_NONE;
    l.cut[PARAM] = false;
    MUST(!place(&p, &prog, &l), "%s", e.msg);
    p.job.mesh = "p=1x1,g=4x2,os=4x2";
    formula_mesh(&p, formula);
    for (int ph = 0; ph < PHASE_N; ph++) {
        struct traffic_bytes rank[8];
        uint64_t sent = 0;

        traffic_step(&prog, 1u << ph, NULL, NULL, rank);
        for (int r = 0; r < 8; r++)
            sent += rank[r].sent_intra + rank[r].sent_inter;
        ck_assert_uint_eq(sent, formula[ph]);
    }
    arena_release(&a);
}
END_TEST

SUITE_MAIN("layouts/planted_layout", rows_that_nothing_lowers_are_refused_by_name,
           a_row_that_is_lowered_moves_what_its_cuts_say)
