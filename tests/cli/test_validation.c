/* The errors of the predictions that the program carries measurements for: a change that makes one grow by more than a tenth
 * is seen here. The bounds are our own output (docs/VALIDATION.md); lower them when a model gets better. */
#include "cli/coll_tables.h"
#include "cli/score.h"
#include "cli/step_predict.h"
#include "model/cluster/bundled.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

static struct arena arena;
static struct err err;

static const struct bundled_file *find(const char *name)
{
    for (size_t i = 0; i < bundled_measurements_n; i++)
        if (!strcmp(bundled_measurements[i].name, name))
            return &bundled_measurements[i];
    ck_abort_msg("no bundled measurements '%s'", name);
    return NULL;
}

static void parse(const char *name, struct json *j)
{
    const struct bundled_file *f = find(name);

    if (json_parse(j, name, (const char *)f->text, f->len, &err))
        ck_abort_msg("%s", err.msg);
}

/* Mean absolute error in percent: all sizes, from 1 MiB, from 32 MiB. */
static const struct {
    const char *name;
    double all, from_1MiB, from_32MiB;
} tables[] = {
    {"a100-node", 4.8, 4.4, 2.7}, {"h100-node", 5.2, 3.9, 2.5}, {"b200-node", 5.1, 5.2, 3.7},
    {"gb200", 3.5, 3.5, 3.5},     {"hdr", 6.3, 1.5, 1.4},       {"roce", 7.1, 7.1, 9.0},
    {"efa", 5.3, 5.9, 2.9},       {"efa-h100", 5.4, 2.3, 2.0},  {"ndr", 5.7, 4.5, 1.9},
    {"ndr-b200", 5.1, 4.5, 1.5},  {"tcpxo", 3.8, 3.1, 2.2}};

static struct score score_file(const char *name)
{
    struct coll_table *list;
    struct score s = {0};
    struct json_at top;
    struct json j;
    size_t n;

    parse(name, &j);
    top = json_top(&j);
    if (coll_tables_read(&top, NULL, false, &arena, &list, &n, &err))
        ck_abort_msg("%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(!list[i].skipped, "%s: %s", list[i].id, list[i].skipped);
        if (coll_table_predict(&list[i], &err))
            ck_abort_msg("%s", err.msg);
        for (size_t k = 0; k < list[i].n_rows; k++)
            if (!list[i].rows[k].distrust)
                score_add(&s, list[i].id, list[i].rows[k].n_bytes, list[i].rows[k].time_us,
                          list[i].rows[k].predicted_us);
    }
    json_release(&j);
    return s;
}

static void within(const char *name, const char *what, const struct score *s, enum score_size k,
                   double bound)
{
    double mean = s->sum_abs[k] / (double)s->n[k];

    ck_assert_msg(mean <= 1.1 * bound, "%s, %s: %.2f %%, was %.2f", name, what, mean, bound);
}

START_TEST(collectives_are_predicted_as_well_as_before)
{
    arena_init(&arena);
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        struct score s = score_file(tables[i].name);

        within(tables[i].name, "all sizes", &s, SCORE_ALL, tables[i].all);
        within(tables[i].name, "from 1 MiB", &s, SCORE_1MIB, tables[i].from_1MiB);
        within(tables[i].name, "from 32 MiB", &s, SCORE_32MIB, tables[i].from_32MiB);
    }
    arena_release(&arena);
}
END_TEST

/* Mean and largest absolute error in percent. */
static const struct {
    const char *name;
    double mean, most;
} steps[] = {{"vtrain", 1.6, 5.7},
             {"llm-foundry", 0.8, 2.0},
             {"internevo", 1.2, 2.0},
             {"matrixfsdp-sequences", 1.3, 4.5},
             {"torchtitan", 5.1, 7.4},
             {"matrixfsdp-weak-scaling", 4.4, 9.7},
             {"amsp", 2.5, 4.6},
             {"fms-fsdp", 3.6, 5.6},
             {"amsp-mics", 7.2, 7.6},
             {"amsp-engine", 7.6, 10.9},
             {"fsdp-paper", 0.9, 1.7},
             {"matrixfsdp-sizes", 22.0, 74.4},
             {"matrixfsdp-phases", 3.4, 5.1},
             {"matrixfsdp-balance", 2.3, 3.9},
             {"deepspeed-roberta", 10.6, 23.4},
             {"superbench", 63.0, 95.7},
             {"vtrain-multi", 10.0, 10.0},
             {"matrixfsdp-ablation", 5.1, 13.5}};

START_TEST(steps_are_predicted_as_well_as_before)
{
    arena_init(&arena);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct step_rows r = {0};
        struct score s = {0};
        struct json_at top;
        struct json j;

        parse(steps[i].name, &j);
        top = json_top(&j);
        if (step_rows_read(&top, &arena, &r, &err))
            ck_abort_msg("%s", err.msg);
        for (size_t k = 0; k < r.n; k++)
            score_add(&s, r.rows[k].id, 0, r.rows[k].value, r.rows[k].predicted);
        within(steps[i].name, "mean", &s, SCORE_ALL, steps[i].mean);
        ck_assert_msg(s.worst <= 1.1 * steps[i].most, "%s: %s is off %.2f %%, was %.2f",
                      steps[i].name, s.worst_id, s.worst, steps[i].most);
        step_rows_release(&r);
        json_release(&j);
    }
    arena_release(&arena);
}
END_TEST

SUITE_MAIN("cli/validation", collectives_are_predicted_as_well_as_before,
           steps_are_predicted_as_well_as_before)
