/* Every row of the options of a job, under every layout, strategy and optimizer: an option without a use is refused by its
 * name and neutral in plans; one with a use goes through command line, plan and plan file as it was said; and what exec does
 * not run it refuses by name. */
#include "exec/run.h"
#include "model/plan/optimizers.h"
#include "tests/cli/jobs.h"

/* ---- rows ---- */

START_TEST(a_row_is_complete_and_its_neutral_value_is_the_default)
{
    const struct job_option *o, *other;
    struct opts opts;
    struct job j;

    opts_init(&opts);
    job_options_add(&opts);
    for (size_t i = 0; (o = job_option_at(i)); i++) {
        const char *name = o->opt.name;
        const struct opt_val *v;

        for (size_t k = 0; k < i; k++) {
            other = job_option_at(k);
            MUST(strcmp(other->opt.name, name) != 0, "--%s stands twice", name);
            MUST(!o->field || !other->field || other->at != o->at, "--%s and --%s are one field",
                 name, other->opt.name);
        }
        MUST(o->use, "--%s: nobody has a use for it", name);
        if (o->of_command)
            continue;
        MUST(o->opt.help && *o->opt.help, "--%s has no help", name);
        MUST(!strstr(o->opt.help, ". "), "--%s: more than a sentence of help", name);
        MUST(!o->field || value_of(o, 0), "--%s has no value here to try", name);
        v = opts_get(&opts, name);
        if (!o->field || !o->opt.dflt)
            continue;
        memset(&j, 0x55, sizeof(j));
        j.gpus = 8;
        job_option_make_neutral(o, &j);
        MUST(job_option_is_neutral(o, &j), "--%s", name);
        if (o->field == FIELD_TEXT)
            continue; /* it is the default */
        MUST(job_option_get(o, &j) == v->u64, "--%s is neutral at %llu, and by default %llu", name,
             (unsigned long long)job_option_get(o, &j), (unsigned long long)v->u64);
    }
    opts_release(&opts);
}
END_TEST

/* ---- without a use ---- */

static void must_be_refused(struct made *m, const struct base *b, const struct job_option *o,
                            const char *value)
{
    char says[300];
    struct plan other = m->plan;
    struct job_option set;
    struct err e;

    /* on the command line */
    struct made line;
    make(&line, b, o->opt.name, value, OPT_FROM_CLI);
    snprintf(says, sizeof(says), "--%s has no effect: ", o->opt.name);
    MUST(line.status && !strncmp(line.e.msg, says, strlen(says)), "%s --%s %s: %s", b->layout,
         o->opt.name, value, line.status ? line.e.msg : "taken");
    unmake(&line);
    /* in a job file, which may be for several layouts: neutral */
    make(&line, b, o->opt.name, value, OPT_FROM_JSON);
    MUST(!line.status, "%s %s: %s", b->layout, o->opt.name, line.e.msg);
    MUST(job_option_is_neutral(o, &line.plan.job) &&
             job_option_same(o, &line.plan.job, &m->plan.job),
         "%s: a plan has %s", b->layout, job_option_show(o, &line.plan.job).s);
    unmake(&line);
    /* in a plan file */
    set = *o;
    set.neutral = o->neutral + 1;
    set.neutral_of = NULL;
    set.opt.dflt = "bytes,flops";
    job_option_make_neutral(&set, &other.job);
    snprintf(says, sizeof(says), "job has %s", job_option_show(o, &other.job).s);
    MUST(layout_check(&other, &e) && strstr(e.msg, says) && strstr(e.msg, "has no effect"),
         "%s %s: %s", b->layout, says, e.msg);
}

START_TEST(what_has_no_use_is_refused_by_name_and_neutral_in_a_plan)
{
    static const char *const gpus[] = {"8", "1"};
    unsigned refused = 0, taken = 0;

    for (int opt = 0; opt < OPTIMIZER_N; opt++)
        for (size_t l = 0; layouts_all[l]; l++)
            for (int st = 0; st < STRATEGY_N; st++)
                for (int g = 0; g < 2; g++) {
                    const struct job_option *o;
                    struct base b = {g ? bare : with_head,
                                     NULL,
                                     {{"optimizer", optimizer_names[opt]},
                                      {"gpus", gpus[g]},
                                      {"seq-len", "32"}}};
                    struct job_use use;
                    struct made m;
                    char name[40];

                    if (!(layouts_all[l]->allowed & 1u << st) && st != STRATEGY_REPLICATED)
                        continue;
                    snprintf(name, sizeof(name), "%s%s%s", layouts_all[l]->name,
                             st == STRATEGY_REPLICATED ? "" : "+",
                             strategy_name((enum strategy)st));
                    b.layout = name;
                    make(&m, &b, NULL, NULL, OPT_FROM_CLI);
                    if (m.status) { /* not for this optimizer */
                        unmake(&m);
                        continue;
                    }
                    MUST(!layout_check(&m.plan, &m.e), "%s: %s", name, m.e.msg);
                    use = layout_use(layouts_all[l], m.plan.strategy, &m.plan.job, &m.plan.model);
                    for (size_t i = 0; (o = job_option_at(i)); i++) {
                        taken += !*job_option_unused(o, &use).s;
                        if (!*job_option_unused(o, &use).s)
                            continue;
                        MUST(o->field != FIELD_NONE, "--%s is no field", o->opt.name);
                        refused++;
                        must_be_refused(&m, &b, o, value_of(o, 0));
                    }
                    unmake(&m);
                }
    MUST(refused > 500 && taken > 2000, "%u refused, %u taken", refused, taken);
}
END_TEST

/* ---- with a use ---- */

static void must_come_back(const struct made *m, const struct job_option *o, const char *value)
{
    cJSON *tree = plan_to_json(&m->plan);
    char *text = json_text(tree, true);
    const struct job_option *each;
    struct plan back;
    struct arena a;
    struct err e;

    arena_init(&a);
    MUST(!plan_from_json(text, strlen(text), "plan.json", &a, &back, &e) &&
             !layout_check(&back, &e),
         "--%s %s: %s", o->opt.name, value, e.msg);
    for (size_t i = 0; (each = job_option_at(i)); i++)
        MUST(job_option_same(each, &m->plan.job, &back.job), "--%s %s: %s comes back as %s",
             o->opt.name, value, job_option_show(each, &m->plan.job).s,
             job_option_show(each, &back.job).s);
    MUST(plan_gathers_as_framework(&m->plan) == plan_gathers_as_framework(&back), "--%s %s",
         o->opt.name, value);
    mem_free(text);
    json_free(tree);
    arena_release(&a);
}

START_TEST(a_value_goes_through_plan_and_plan_file)
{
    const struct job_option *o;

    for (size_t i = 0; (o = job_option_at(i)); i++) {
        unsigned other = 0;
        const char *value;
        char says[60];

        for (int v = 0; o->field && !o->of_command && (value = value_of(o, v)); v++)
            for (int b = 0; b < N_BASES; b++) {
                const struct base x = without(&bases[b], o->opt.name);
                struct made m, was;

                make(&m, &x, o->opt.name, value, OPT_FROM_CLI);
                if (m.status) {
                    snprintf(says, sizeof(says), "--%s", o->opt.name);
                    MUST(strstr(m.e.msg, says), "--%s %s: %s", o->opt.name, value, m.e.msg);
                    unmake(&m);
                    continue;
                }
                make(&was, &x, NULL, NULL, OPT_FROM_CLI);
                other += !job_option_same(o, &was.plan.job, &m.plan.job);
                must_come_back(&m, o, value);
                unmake(&was);
                unmake(&m);
            }
        MUST(!o->field || o->of_command || (other == 0) == one_value(o->opt.name),
             "--%s: %u plans have another value", o->opt.name, other);
    }
}
END_TEST

START_TEST(exec_refuses_what_it_does_not_run_by_name)
{
    const struct job_option *o;
    struct made m;
    struct err e;

    make(&m, &bases[0], NULL, NULL, OPT_FROM_CLI);
    ck_assert_int_eq(exec_job(&m.plan.job, &e), 0);
    for (size_t i = 0; (o = job_option_at(i)); i++)
        for (uint64_t v = 0; o->opt.type == OPT_CHOICE && o->field && o->opt.choices[v]; v++) {
            struct job j = m.plan.job;
            bool runs =
                o->exec == EXEC_ALL || o->exec_ignores || v == o->neutral || o->exec >> v & 1;

            if (o->set || o->field == FIELD_TEXT || !strcmp(o->opt.name, "optimizer"))
                continue;
            job_option_put(o, &j, v);
            MUST((exec_job(&j, &e) == 0) == runs, "%s: %s", job_option_show(o, &j).s, e.msg);
            MUST(runs || strstr(e.msg, job_option_show(o, &j).s), "%s", e.msg);
        }
    unmake(&m);
}
END_TEST

SUITE_MAIN("cli/options", a_row_is_complete_and_its_neutral_value_is_the_default,
           what_has_no_use_is_refused_by_name_and_neutral_in_a_plan,
           a_value_goes_through_plan_and_plan_file, exec_refuses_what_it_does_not_run_by_name)
