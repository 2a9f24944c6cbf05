/* What NCCL's own tuning model predicts of the bundled tables between nodes, beside our prediction
 * (docs/VALIDATION.md quotes both). NCCL chooses algorithms by this model; as a predictor of times it
 * is the peer that everyone has at hand. It has nothing about sends and receives. */
#include "cli/coll_tables.h"
#include "cli/score.h"
#include "model/cluster/bundled.h"
#include "sim/nccl_tuning.h"
#include "tests/suite.h"

#include <math.h>

static struct err err;

/* The least time that NCCL believes of what was allowed. INFINITY: its model has no such call. */
static double believed_s(const struct coll_table *t, uint64_t n_bytes)
{
    struct cluster c = cluster_by_domain(&t->cluster);
    double n = t->call.n_ranks, nodes = c.n_nodes, per_node = n / nodes, least = INFINITY;
    struct nccl_call call = {.kind = t->call.kind,
                             .n = n,
                             .nodes = nodes,
                             .per_node = per_node,
                             .bytes = (double)n_bytes,
                             .nics = fmin(per_node, c.nics_per_node),
                             .version =
                                 t->call.nccl.version ? t->call.nccl.version : nccl_version(&c)};
    struct nccl_beliefs believed;

    if (nodes < 2 || t->call.kind == COLL_ALL_TO_ALL || t->call.kind == COLL_SEND)
        return INFINITY;
    nccl_believe(&c, &call, &believed);
    for (int a = 0; a < NCCL_ALGO_N; a++)
        for (int p = 0; p < PROTOCOL_N; p++) {
            bool allowed = !t->call.nccl.algos || t->call.nccl.algos & 1u << a;

            if (allowed && !(c.coll.no_ll128 && p == PROTOCOL_LL128))
                least = fmin(least, believed.s[a][p]);
        }
    return least;
}

static void add_table(struct coll_table *t, struct score *table, struct score *ours)
{
    for (size_t k = 0; k < t->n_rows; k++) {
        const struct coll_row *r = &t->rows[k];
        double s = believed_s(t, r->n_bytes);

        if (r->distrust || isinf(s))
            continue;
        score_add(table, t->id, r->n_bytes, r->time_us, 1e6 * s);
        score_add(ours, t->id, r->n_bytes, r->time_us, r->predicted_us);
    }
}

static void add_file(const struct bundled_file *f, struct score *table, struct score *ours)
{
    struct arena arena;
    struct coll_table *list;
    struct json_at top;
    struct json j;
    size_t n;

    arena_init(&arena);
    if (json_parse(&j, f->name, (const char *)f->text, f->len, &err))
        ck_abort_msg("%s", err.msg);
    top = json_top(&j);
    if (coll_tables_here(&top)) {
        if (coll_tables_read(&top, NULL, false, &arena, &list, &n, &err))
            ck_abort_msg("%s", err.msg);
        for (size_t i = 0; i < n; i++) {
            if (coll_table_predict(&list[i], &err))
                ck_abort_msg("%s", err.msg);
            add_table(&list[i], table, ours);
        }
    }
    json_release(&j);
    arena_release(&arena);
}

static double mean(const struct score *s, enum score_size k)
{
    return s->sum_abs[k] / (double)s->n[k];
}

/* The model knows the generation of a machine and the rates of its links, and no measurement of it. Its
 * errors do not depend on our constants. */
START_TEST(our_times_are_nearer_than_those_of_nccl_s_table)
{
    struct score table = {0}, ours = {0};

    for (size_t i = 0; i < bundled_measurements_n; i++)
        add_file(&bundled_measurements[i], &table, &ours);
    ck_assert_uint_eq(table.n[SCORE_ALL], 285);
    ck_assert_double_eq_tol(mean(&table, SCORE_ALL), 34.4, 0.1);
    ck_assert_double_eq_tol(mean(&table, SCORE_32MIB), 14.6, 0.1);
    MUST(4 * mean(&ours, SCORE_ALL) < mean(&table, SCORE_ALL), "%.1f %% of all sizes",
         mean(&ours, SCORE_ALL));
    MUST(4 * mean(&ours, SCORE_32MIB) < mean(&table, SCORE_32MIB), "%.1f %% from 32 MiB",
         mean(&ours, SCORE_32MIB));
}
END_TEST

SUITE_MAIN("cli/peers", our_times_are_nearer_than_those_of_nccl_s_table)
