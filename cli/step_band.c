#include "cli/step_band.h"

#include "cli/setup.h"
#include "cli/step_rows.h"
#include "core/strbuf.h"
#include "layouts/layout.h"
#include "model/cluster/bundled.h"
#include "model/plan/job_options.h"

#include <math.h>
#include <string.h>

/* Wider than the fitted rows miss: nine in ten of rows that were not fitted should lie within. `files` are bundled
 * measurements; of their rows those of this layout count. Optimizer and framework are those of all its rows, and save
 * reading the rows of a set that cannot cover the job. */
static const struct covering {
    const char *files[2];
    const char *layout;
    enum optimizer optimizer;
    enum framework framework;
    double percent;
    const char *basis;
} sets[] = {
    {{"vtrain"},
     "ddp",
     OPTIMIZER_ADAMW,
     FRAMEWORK_MEGATRON_DEEPSPEED,
     4,
     "vtrain: 120 runs of GPT on 2 to 8 A100; Megatron-DeepSpeed"},
    {{"llm-foundry"},
     "zero3",
     OPTIMIZER_ADAMW,
     FRAMEWORK_FSDP2,
     8,
     "llm-foundry: 11 runs of MPT on 8 A100; FSDP"},
    {{"internevo"},
     "zero1",
     OPTIMIZER_ADAMW,
     FRAMEWORK_FSDP2,
     8,
     "internevo: InternLM-7B on 8 to 1024 A100; ZeRO-1"},
    {{"amsp"},
     "zero1",
     OPTIMIZER_ADAMW,
     FRAMEWORK_FSDP2,
     10,
     "amsp: LLaMA-7B on 8 and 1024 A800; ZeRO-1"},
    {{"amsp"},
     "zero3",
     OPTIMIZER_ADAMW,
     FRAMEWORK_DEEPSPEED,
     50,
     "amsp: LLaMA-7B on 1024 A800; ZeRO-3 through DeepSpeed"},
    {{"amsp-mics"},
     "mics",
     OPTIMIZER_ADAMW,
     FRAMEWORK_DEEPSPEED,
     20,
     "amsp: LLaMA-7B on 8 and 1024 A800; MiCS through DeepSpeed"},
    {{"fms-fsdp"},
     "hsdp",
     OPTIMIZER_ADAMW,
     FRAMEWORK_FSDP2_COMPILED,
     12,
     "fms-fsdp: Llama 2 7B on 128 A100 and 96 H100; HSDP, torch.compile"},
    {{"matrixfsdp-weak-scaling", "matrixfsdp-sequences"},
     "zero3+owner",
     OPTIMIZER_MUON,
     FRAMEWORK_FSDP2,
     10,
     "matrixfsdp: blocks of 16 to 128 layers on 8 to 64 A100; owners"},
    {{"matrixfsdp-weak-scaling", "matrixfsdp-sequences"},
     "zero3+stock",
     OPTIMIZER_MUON,
     FRAMEWORK_FSDP2,
     15,
     "matrixfsdp: blocks of 16 to 128 layers on 8 to 64 A100; stock"},
};

/* ---- a job as values that can be compared ---- */

static const char CLUSTER[] = "cluster", PARAMETERS[] = "parameters";

/* What a cluster is made of, without its name, its size and where its numbers come from. */
static void describe(const struct cluster *c, struct strbuf *text)
{
    struct cluster bare = *c;
    cJSON *tree;

    bare.sources = NULL;
    bare.name = bare.summary = bare.source = "";
    bare.n_nodes = 1;
    tree = cluster_to_json(&bare);
    json_print(tree, false, text);
    json_free(tree);
}

/* What its units are made of, as words. */
static void add_parts(cJSON *to, const struct model *m)
{
    bool encoder = false, words = false, experts = false;
    uint32_t mixers = 0;
    char text[24];

    for (uint32_t c = 0; c < m->n_classes; c++) {
        const struct unit_class *k = &m->classes[c];

        words |= k->kind == UNIT_EMBED;
        if (k->kind != UNIT_LAYER)
            continue;
        encoder |= !k->causal;
        experts |= k->n_experts > 0;
        mixers |= 1u << k->mixer;
    }
    snprintf(text, sizeof(text), "%#x", mixers);
    json_add_str(to, "mixers of tokens", text);
    json_add_bool(to, "encoder of words", encoder && words);
    json_add_bool(to, "experts", experts);
    json_add_bool(to, "head", model_has_head(m));
}

/* What options come to (`seen`), or the values of those that have a use. */
static void add_options(cJSON *to, const struct plan *plan, bool seen)
{
    const struct job_use use =
        layout_use(layout_find(plan->layout), plan->strategy, &plan->job, &plan->model);

    const struct job_option *o;

    for (size_t i = 0; (o = job_option_at(i)); i++) {
        if (o->band == BAND_BESIDE || !o->seen == seen)
            continue;
        if (seen)
            o->seen(plan, to, job_option_key(o).s);
        else if (!*job_option_unused(o, &use).s)
            plan_add_option(to, plan, o);
    }
}

/* The job as resolved: what an option that is not given becomes, and one value for two words that mean the same. */
static cJSON *values_of(const struct plan *plan)
{
    cJSON *job = json_new_object();
    struct strbuf cluster;

    add_options(job, plan, false);
    add_options(job, plan, true);
    json_add_u64(job, PARAMETERS, plan_whole(plan)->total_params);
    json_add_u64(job, "also_matrices", plan->model.also_matrices);
    add_parts(job, &plan->model);
    strbuf_init(&cluster);
    describe(&plan->cluster, &cluster);
    json_add_str(job, CLUSTER, cluster.s);
    strbuf_release(&cluster);
    return job;
}

/* Sizes, between whose smallest and largest a prediction interpolates; of everything else the very value must be there. */
static bool interpolates(const char *key)
{
    const struct job_option *o;

    for (size_t i = 0; (o = job_option_at(i)); i++)
        if (o->band == BAND_BETWEEN && !strcmp(job_option_key(o).s, key))
            return true;
    return !strcmp(key, PARAMETERS);
}

/* ---- what a set covers ---- */

/* Values of the rows of each set, read when the first band is asked for that the set could cover. */
static cJSON *read_rows[sizeof(sets) / sizeof(sets[0])];

struct rows_of_set {
    const struct covering *set;
    cJSON *rows; /* borrowed */
};

static int note_row(void *ctx, struct step_row *m, struct setup *s, struct err *e)
{
    struct rows_of_set *k = ctx;
    struct plan *plan = ARENA_NEW(&s->arena, struct plan, 1);

    if (setup_plan(s, m->nodes, m->layout, &s->arena, plan, e) || layout_place(plan, &s->arena, e))
        return -1;
    if (!strcmp(plan->layout_full, k->set->layout))
        cJSON_AddItemToArray(k->rows, values_of(plan));
    return 0;
}

/* Calls fn for each row of the set's files until one returns true; was there one? The files are the program's own: what is wrong
 * in one of them is our mistake. */
static bool any_row(const struct covering *set,
                    bool (*fn)(void *ctx, const struct json_at *row, struct arena *a), void *ctx)
{
    bool any = false;

    for (size_t f = 0; f < bundled_measurements_n; f++) {
        const struct bundled_file *b = &bundled_measurements[f];
        struct json_at top, rows, it;
        struct arena a;
        struct json j;
        struct err e;

        if (strcmp(b->name, set->files[0]) != 0 &&
            (!set->files[1] || strcmp(b->name, set->files[1]) != 0))
            continue;
        arena_init(&a);
        BUG_ON(json_parse(&j, b->name, (const char *)b->text, b->len, &e));
        top = json_top(&j);
        BUG_ON(step_rows_open(&top, &rows, &e));
        for (bool more = json_first(&rows, &it); more && !any; more = json_next(&it))
            any = fn(ctx, &it, &a);
        json_release(&j);
        arena_release(&a);
    }
    return any;
}

static bool read_one(void *ctx, const struct json_at *at, struct arena *a)
{
    struct step_row row;
    struct err e;

    BUG_ON(step_row_read(at, &row, a, &e));
    if (step_metric_is_time(row.metric) && !row.distrust)
        BUG_ON(step_row_with_setup(at, &row, a, note_row, ctx, &e));
    return false;
}

/* Is the row's cluster the one that is wanted? Most jobs are of another, and then no row need be turned into a job. */
struct wanted {
    struct strbuf cluster;
    char last[200]; /* name of the row before: rows of one cluster stand together */
};

static bool ran_on(void *ctx, const struct json_at *at, struct arena *a)
{
    struct wanted *w = ctx;
    const char *name;
    struct cluster c;
    struct strbuf text;
    struct err e;
    bool same;

    BUG_ON(json_str(at, CLUSTER, &name, &e));
    if (!strcmp(name, w->last))
        return false;
    snprintf(w->last, sizeof(w->last), "%s", name);
    BUG_ON(cluster_load(name, a, &c, &e));
    strbuf_init(&text);
    describe(&c, &text);
    same = text.len == w->cluster.len && !memcmp(text.s, w->cluster.s, text.len);
    strbuf_release(&text);
    return same;
}

static bool set_ran_on(const struct covering *set, const struct cluster *c)
{
    struct wanted w = {.last = ""};
    bool same;

    strbuf_init(&w.cluster);
    describe(c, &w.cluster);
    same = any_row(set, ran_on, &w);
    strbuf_release(&w.cluster);
    return same;
}

static const cJSON *rows_of(size_t set)
{
    struct rows_of_set k = {&sets[set], read_rows[set]};

    if (k.rows)
        return k.rows;
    k.rows = read_rows[set] = json_new_array();
    any_row(&sets[set], read_one, &k);
    return k.rows;
}

/* The first key of the job for whose value no row stands, or NULL. */
static const cJSON *first_missing(const cJSON *job, const cJSON *rows)
{
    const cJSON *value, *row;

    cJSON_ArrayForEach(value, job)
    {
        bool same = false, above = false, below = false;

        cJSON_ArrayForEach(row, rows)
        {
            const cJSON *had = cJSON_GetObjectItemCaseSensitive(row, value->string);

            same |= had && cJSON_Compare(had, value, true);
            above |= had && cJSON_IsNumber(had) && had->valuedouble >= value->valuedouble;
            below |= had && cJSON_IsNumber(had) && had->valuedouble <= value->valuedouble;
        }
        if (!same && !(interpolates(value->string) && above && below))
            return value;
    }
    return NULL;
}

/* value NULL: the cluster. */
static void say_missing(const char *basis, const cJSON *value, char *to, size_t n)
{
    int name = (int)strcspn(basis, ":");
    struct strbuf text;

    if (!value || !strcmp(value->string, CLUSTER)) {
        snprintf(to, n, "%.*s: no row ran on this cluster", name, basis);
        return;
    }
    strbuf_init(&text);
    json_print(value, false, &text);
    snprintf(to, n, "%.*s: no row has %s %.60s", name, basis, value->string, text.s);
    strbuf_release(&text);
}

struct step_band step_band(const struct plan *plan)
{
    struct step_band out = {NAN, "unvalidated", ""};
    cJSON *job = NULL;

    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        const struct covering *set = &sets[i];
        const cJSON *missing = NULL;
        bool here;

        if (strcmp(plan->layout_full, set->layout) || plan->job.optimizer != set->optimizer ||
            plan->job.framework != set->framework)
            continue;
        here = read_rows[i] || set_ran_on(set, &plan->cluster);
        if (here) {
            job = job ? job : values_of(plan);
            missing = first_missing(job, rows_of(i));
            if (!missing) {
                out = (struct step_band){set->percent, set->basis, ""};
                break;
            }
        }
        if (!*out.missing)
            say_missing(set->basis, missing, out.missing, sizeof(out.missing));
    }
    json_free(job);
    return out;
}
