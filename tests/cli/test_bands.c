/* A band is there for a measured run, and goes as soon as one option has a value that no run of its set had. Every option of
 * the table is tried, so that one that is added later is tried too. */
#include "cli/evaluate.h"
#include "cli/setup.h"
#include "cli/step_band.h"
#include "planner/planner.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

/* Runs that stand in experiments/.../measured, as their rows say them, and the other values that rows of their set have. */
static const struct base {
    const char *model, *layout;
    const char *given[12][2];
    /* option and value: another row has it, or the value is of no effect here, as far as `same` simulated steps show */
    const char *covered[8][2];
} bases[] = {
    {"block:layers=32,hidden=4096,ffn=16384,heads=32,mlp=split-up",
     "owner",
     {{"cluster", "matrixfsdp-a100"},
      {"nodes", "2"},
      {"optimizer", "muon"},
      {"ns-steps", "2"},
      {"state-dtype", "bf16"},
      {"master-weights", "no"},
      {"planner", "role-greedy"}},
     {{"nodes", "8"}}},
    {"block:layers=32,hidden=4096,ffn=11008,heads=32,mlp=swiglu,vocab=103168",
     "zero1",
     {{"cluster", "internevo-a100"},
      {"gpus", "64"},
      {"optimizer", "adamw"},
      {"seq-len", "2048"},
      {"micro-batch", "2"},
      {"grad-accum", "4"},
      {"recompute", "none"}},
     {{"gpus", "128"}}},
    {"block:layers=24,hidden=2048,ffn=8192,heads=16,mlp=gelu,vocab=50368",
     "zero3",
     {{"cluster", "dgx-a100"},
      {"gpus", "8"},
      {"optimizer", "adamw"},
      {"seq-len", "2048"},
      {"micro-batch", "10"},
      {"grad-accum", "4"},
      {"recompute", "none"}},
     {{"grad-accum", "3"}}},
    {"block:layers=24,hidden=1024,ffn=4096,heads=16,mlp=gelu,vocab=51200",
     "ddp",
     {{"cluster", "dgx-a100"},
      {"gpus", "8"},
      {"optimizer", "adamw"},
      {"seq-len", "1024"},
      {"micro-batch", "4"},
      {"grad-accum", "4"},
      {"param-dtype", "fp16"},
      {"grad-dtype", "fp16"},
      {"framework", "megatron-deepspeed"}},
     {{"gpus", "4"}, {"micro-batch", "7"}}},
};
enum { N_BASES = sizeof(bases) / sizeof(bases[0]) };

struct found {
    bool possible;
    double percent;
    int64_t step_ps;
    char missing[160];
};

/* The run with one option as `value`; NULL: as it was. */
static struct found try(const struct base *b, const char *option, const char *value)
{
    struct sim_options so = {0};
    struct found out = {0};
    struct evaluation x;
    struct step_band band;
    struct opts o;
    struct setup s;
    struct plan plan;
    struct err e;
    int status = 0;

    opts_init(&o);
    job_options_add(&o);
    for (int i = 0; i < 12 && b->given[i][0]; i++)
        ck_assert_int_eq(opts_set(&o, b->given[i][0], b->given[i][1], OPT_FROM_CLI, &e), 0);
    if (option)
        status = opts_set(&o, option, value, OPT_FROM_CLI, &e);
    if (!status && !setup_init(&s, &o, b->model, &e)) {
        const struct opt_val *nodes = opts_get(&o, "nodes");

        if (!setup_check_used(&s, (const char *const[]){b->layout}, 1, &e) &&
            !setup_plan(&s, nodes->set ? nodes->u64s[0] : 0, b->layout, &s.arena, &plan, &e) &&
            !planner_plan(&plan, &evaluate_time, &s.arena, &e) &&
            !evaluate(&plan, &so, &s.arena, &x, &e)) {
            band = step_band(&plan);
            out = (struct found){.possible = true, .percent = band.percent, .step_ps = x.p.step_ps};
            memcpy(out.missing, band.missing, sizeof(out.missing));
        }
        setup_release(&s);
    }
    opts_release(&o);
    return out;
}

START_TEST(a_measured_run_has_a_band)
{
    for (int i = 0; i < N_BASES; i++) {
        struct found f = try(&bases[i], NULL, NULL);

        MUST(f.possible && f.percent > 0, "%s: %s", bases[i].layout, f.missing);
        MUST(!*f.missing, "%s: %s", bases[i].layout, f.missing);
        for (int k = 0; k < 8 && bases[i].covered[k][0]; k++) {
            const char *const *c = bases[i].covered[k];

            f = try(&bases[i], c[0], c[1]);
            MUST(f.possible && f.percent > 0, "%s %s %s: %s", bases[i].layout, c[0], c[1],
                 f.missing);
        }
    }
}
END_TEST

/* Values that no row has: far from those of any; for choices all of them are tried. */
static const char *const far_values[][2] = {
    {"cluster", "dgx-h100"}, {"cluster", "aws-p4d"},   {"nodes", "64"},
    {"gpus", "2048"},        {"gpus-per-node", "2"},   {"global-batch", "1048576"},
    {"seq-len", "65536"},    {"seq-len", "64"},        {"micro-batch", "512"},
    {"grad-accum", "512"},   {"prefetch", "4"},        {"bucket", "8GiB"},
    {"ns-steps", "9"},       {"objective", "bytes"},   {"shard-group", "4"},
    {"ns-batch", "1GiB"},    {"also-matrices", "head"}};
/* Refused here, whatever the value. */
static const char *const refused[] = {"target-len", "tp", "pp", "ep"};

static bool is_refused(const char *name)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (!strcmp(refused[i], name))
            return true;
    return false;
}

/* Rows of its set that have a value besides: lists of what the files of the set say. */
static bool rows_have(const struct base *b, const char *option, const char *value)
{
    if (!strcmp(option, "planner"))
        return !strcmp(value, "role-greedy");
    for (int k = 0; k < 8 && b->covered[k][0]; k++)
        if (!strcmp(b->covered[k][0], option) && !strcmp(b->covered[k][1], value))
            return true;
    for (int k = 0; k < 12 && b->given[k][0]; k++)
        if (!strcmp(b->given[k][0], option) && !strcmp(b->given[k][1], value))
            return true;
    return false;
}

static void must_lose_it(const struct base *b, const char *option, const char *value, int *tried)
{
    struct found was = try(b, NULL, NULL), f = try(b, option, value);

    if (!f.possible || rows_have(b, option, value))
        return;
    ++*tried;
    /* what changes nothing is the same run */
    MUST(isnan(f.percent) || f.step_ps == was.step_ps,
         "%s: --%s %s keeps the band of %.0f %%, and its step is %+.1f %%", b->layout, option,
         value, f.percent, 100 * ((double)f.step_ps / (double)was.step_ps - 1));
    MUST(!isnan(f.percent) || *f.missing || strcmp(option, "ns-steps"),
         "no word on what is missing");
}

START_TEST(a_value_that_no_row_has_removes_the_band)
{
    for (int i = 0; i < N_BASES; i++) {
        const struct job_option *option;
        int tried = 0;

        for (size_t n = 0; (option = job_option_at(n)); n++) {
            const struct opt *row = &option->opt;
            bool any = row->choices != NULL || option->band == BAND_BESIDE || is_refused(row->name);

            for (int c = 0; row->choices && row->choices[c]; c++)
                must_lose_it(&bases[i], row->name, row->choices[c], &tried);
            for (size_t k = 0; k < sizeof(far_values) / sizeof(far_values[0]); k++)
                if (!strcmp(far_values[k][0], row->name)) {
                    any = true;
                    must_lose_it(&bases[i], row->name, far_values[k][1], &tried);
                }
            MUST(any, "--%s has no value here to try: give it one that no row has, or say why not",
                 row->name);
        }
        MUST(tried > 30, "%s: only %d values tried", bases[i].layout, tried);
    }
}
END_TEST

/* The faults that made this rule: each was within a band that said +-8 or +-10 %. */
START_TEST(direct_sends_and_small_groups_have_no_band)
{
    MUST(isnan(try(&bases[0], "gather", "p2p").percent), "p2p");
    MUST(isnan(try(&bases[1], "shard-group", "8").percent), "groups of 8");
    MUST(isnan(try(&bases[1], "grad-accum", "1").percent), "one micro-batch");
}
END_TEST

/* Parts of a model that no row had: words before MatrixFSDP's bare blocks, and far more of these. */
START_TEST(a_model_of_other_parts_has_no_band)
{
    struct base b = bases[0];
    struct found f;

    b.model = "block:layers=32,hidden=4096,ffn=16384,heads=32,mlp=split-up,vocab=50304";
    f = try(&b, NULL, NULL);
    MUST(isnan(f.percent) && strstr(f.missing, "no row has encoder of words true"), "%s",
         f.missing);
    b.model = "block:layers=320,hidden=4096,ffn=16384,heads=32,mlp=split-up";
    f = try(&b, NULL, NULL);
    MUST(isnan(f.percent) && strstr(f.missing, "parameters"), "%s", f.missing);
}
END_TEST

SUITE_MAIN("cli/bands", a_measured_run_has_a_band, a_value_that_no_row_has_removes_the_band,
           direct_sends_and_small_groups_have_no_band, a_model_of_other_parts_has_no_band)
