/* A row of options that is planted here and that nothing implements: all who read rows refuse it by name, and where it says
 * that it has a use, no band covers it and it is found out by changing nothing. */
#include "cli/step_band.h"
#include "exec/run.h"
#include "tests/cli/jobs.h"

#include <math.h>

/* ---- a planted row ---- */

static enum { PLANTED_NOT, PLANTED_BARE, PLANTED_CLAIMS } planted;
static struct job_option row = {
    .opt = {.name = "planted", .type = OPT_CHOICE, .dflt = "no", .help = "does nothing"},
    .group = GROUP_OVERLAP,
    .field = FIELD_BOOL,
};

static struct job_text claims(const struct job_use *u)
{
    (void)u;
    return (struct job_text){""};
}

const struct job_option *__real_job_option_at(size_t i);

/* A byte of struct job that no field has: padding, which copies of the struct keep. */
static size_t hole(void)
{
    static const size_t sizes[] = {[FIELD_32] = sizeof(uint32_t),
                                   [FIELD_64] = sizeof(uint64_t),
                                   [FIELD_BOOL] = sizeof(bool),
                                   [FIELD_TEXT] = sizeof(const char *),
                                   [FIELD_DOUBLE] = sizeof(double)};
    bool used[sizeof(struct job)] = {[offsetof(struct job, gather_as_framework)] = true};
    const struct job_option *o;
    size_t at = 0;

    for (size_t i = 0; (o = __real_job_option_at(i)); i++)
        if (o->field)
            memset(used + o->at, true, sizes[o->field]);
    while (at < sizeof(used) && used[at])
        at++;
    BUG_ON(at == sizeof(used)); /* no padding is left for a planted option */
    return at;
}

const struct job_option *__wrap_job_option_at(size_t i);
const struct job_option *__wrap_job_option_at(size_t i)
{
    const struct job_option *o = __real_job_option_at(i);

    if (o || !planted || !__real_job_option_at(i - 1))
        return o;
    for (size_t k = 0; !row.opt.choices; k++) /* no, yes */
        if (!strcmp(__real_job_option_at(k)->opt.name, "fp8"))
            row.opt.choices = __real_job_option_at(k)->opt.choices;
    row.at = hole();
    row.use = planted == PLANTED_CLAIMS ? claims : NULL;
    return &row;
}

/* ---- who finds it ---- */

/* Does a value of the option change what is predicted of any base? */
static bool changes_something(const struct job_option *o)
{
    const char *value;
    bool any = false;

    for (int v = 0; !any && (value = value_of(o, v)); v++)
        for (int b = 0; b < N_BASES && !any; b++) {
            const struct base of = without(&bases[b], o->opt.name);
            struct sim_options so = {0};
            struct evaluation x[2];
            struct made m[2];
            bool possible = true;

            for (int k = 0; k < 2; k++) {
                make(&m[k], &of, k ? o->opt.name : NULL, value, OPT_FROM_CLI);
                possible &= !m[k].status && !evaluate(&m[k].plan, &so, &m[k].a, &x[k], &m[k].e);
            }
            any = possible &&
                  (x[0].p.step_ps != x[1].p.step_ps ||
                   x[0].p.memory.peak_bytes != x[1].p.memory.peak_bytes ||
                   x[0].p.bytes_max.sent_intra != x[1].p.bytes_max.sent_intra ||
                   fabs(x[0].plan->job.price_per_gpu_hour - x[1].plan->job.price_per_gpu_hour) > 0);
            unmake(&m[0]);
            unmake(&m[1]);
        }
    return any;
}

START_TEST(an_option_changes_what_is_predicted)
{
    const struct job_option *o;

    for (size_t i = 0; (o = job_option_at(i)); i++)
        if (o->field && !o->of_command)
            MUST(changes_something(o) != one_value(o->opt.name), "--%s changes nothing",
                 o->opt.name);
    planted = PLANTED_CLAIMS; /* a row that says it has a use, and has none */
    ck_assert(!changes_something(job_option("planted")));
}
END_TEST

START_TEST(a_planted_row_is_refused_by_every_reader)
{
    const struct base measured = {
        "block:layers=32,hidden=4096,ffn=11008,heads=32,mlp=swiglu,vocab=103168",
        "zero1",
        {{"cluster", "internevo-a100"},
         {"gpus", "64"},
         {"precision", "fsdp2-bf16"},
         {"optimizer", "adamw"}}};
    struct made m;
    struct err e;
    struct plan other;

    planted = PLANTED_BARE;
    make(&m, &measured, "planted", "yes", OPT_FROM_CLI);
    MUST(m.status && strstr(m.e.msg, "--planted has no effect: nothing in this version uses it"),
         "%s", m.e.msg);
    unmake(&m);
    make(&m, &measured, "planted", "yes", OPT_FROM_JSON);
    MUST(m.status && strstr(m.e.msg, "'job.json': planted has no effect"), "%s", m.e.msg);
    unmake(&m);
    make(&m, &measured, NULL, NULL, OPT_FROM_CLI);
    MUST(!m.status, "%s", m.e.msg);
    other = m.plan;
    job_option_put(&row, &other.job, 1);
    MUST(layout_check(&other, &e) && strstr(e.msg, "job has planted, which has no effect"), "%s",
         e.msg);
    MUST(!layout_check(&m.plan, &e), "%s", e.msg);
    other.job.optimizer = OPTIMIZER_MUON;
    MUST(exec_job(&other.job, &e) && strstr(e.msg, "the plan's job has planted"), "%s", e.msg);
    unmake(&m);
}
END_TEST

START_TEST(a_planted_row_that_says_it_has_a_use_has_no_band)
{
    const struct base measured = {
        "block:layers=24,hidden=1024,ffn=4096,heads=16,mlp=gelu,vocab=51200",
        "ddp",
        {{"gpus", "8"},
         {"seq-len", "1024"},
         {"precision", "deepspeed-fp16"},
         {"optimizer", "adamw"}}};
    struct step_band band;
    struct made m;
    char *text;
    cJSON *tree;

    planted = PLANTED_CLAIMS;
    for (int yes = 0; yes < 2; yes++) {
        make(&m, &measured, "framework", "megatron-deepspeed", OPT_FROM_CLI);
        MUST(!m.status, "%s", m.e.msg);
        m.plan.job.micro_batch = m.plan.job.grad_accum = 4;
        job_option_put(&row, &m.plan.job, (uint64_t)yes);
        band = step_band(&m.plan);
        MUST(yes == !!isnan(band.percent), "planted %d: %.0f %% %s", yes, band.percent,
             band.missing);
        MUST(!yes || strstr(band.missing, "no row has planted true"), "%s", band.missing);
        tree = plan_to_json(&m.plan);
        text = json_text(tree, true);
        MUST(strstr(text, yes ? "\"planted\": true" : "\"planted\": false"), "no key");
        mem_free(text);
        json_free(tree);
        unmake(&m);
    }
}
END_TEST

SUITE_MAIN("cli/planted_option", an_option_changes_what_is_predicted,
           a_planted_row_is_refused_by_every_reader,
           a_planted_row_that_says_it_has_a_use_has_no_band)
