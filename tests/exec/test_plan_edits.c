/* A plan file that somebody edited: every number, word and flag in turn takes other values, and what comes of it is a
 * refusal in one line that names the file, or a plan that is predicted and runs a step. Nothing reads or writes where it
 * should not: this is a test for SAN=1. */
#include "exec/run.h"
#include "model/graph/graph.h"
#include "sim/sim.h"
#include "tests/exec/threads.h"
#include "tests/layouts/plans.h"

#include <ctype.h>
#include <stdio.h>

enum { MOST_FLOPS = 20000000, MOST_RANKS = 2 };

struct loaded {
    struct plan plan;
    struct program program;
};

static unsigned n_refused, n_run, n_values;

static int one_step(struct transport *t, void *ctx, struct err *e)
{
    const struct loaded *x = ctx;
    const struct run_options o = {.seed = 3, .lr = 0.02};
    struct exec_run r;
    struct backend b;
    double loss;
    int status;

    open_cpu(&b, t, 0);
    status = exec_init(&r, &x->plan, &x->program, &b, &o, e);
    if (!status)
        status = exec_step(&r, e);
    if (!status)
        status = exec_loss(&r, &loss, e);
    exec_release(&r);
    backend_close(&b);
    return status;
}

/* Does a step of it take no more than a blink? */
static bool is_short(const struct plan *p)
{
    uint64_t sum = 0;
    struct unit_graph g;
    struct err e;

    if (p->world > MOST_RANKS || p->job.grad_accum > 4 || p->job.ns_steps > 20)
        return false;
    for (uint32_t u = 0; u < p->model.n_units; u++) {
        if (graph_build(
                &p->model, p->model.units[u].class_id,
                &(struct graph_batch){.micro_batch = p->job.micro_batch, .seq_len = p->job.seq_len},
                p->job.param_dtype, &g, &e))
            return false;
        sum += g.forward_flops;
    }
    return sum < MOST_FLOPS && p->job.seq_len * p->job.micro_batch < 1 << 10;
}

static void one_line(const struct err *e, const char *what)
{
    MUST(e->code != ERR_NONE && *e->msg && !strchr(e->msg, '\n'), "%s: '%s'", what, e->msg);
}

/* `what` was done to the file. */
static void try_text(const char *text, const char *what)
{
    struct err e = {.code = ERR_NONE};
    struct sim_options o = {.unfold = true};
    struct prediction out;
    struct loaded x;
    struct arena a;

    arena_init(&a);
    n_refused++;
    if (plan_from_json(text, strlen(text), "plan.json", &a, &x.plan, &e)) {
        one_line(&e, what);
        MUST(strstr(e.msg, "plan.json") != NULL, "%s: '%s' names no file", what, e.msg);
    } else if (layout_check(&x.plan, &e) || layout_lower(&x.plan, &a, &x.program, &e)) {
        one_line(&e, what);
    } else if (is_short(&x.plan)) {
        n_refused--;
        if (sim_predict(&x.program, &x.plan.cluster, &o, &a, &out, &e))
            one_line(&e, what);
        e.code = ERR_NONE;
        if (threads_run(x.plan.world, one_step, &x, &e)) /* plans are wider than exec */
            MUST(e.code == ERR_UNSUPPORTED, "%s: %s", what, e.msg);
        n_run++;
    }
    arena_release(&a);
}

/* The text with [at, end) replaced. */
static void replace(const char *text, const char *at, const char *end, const char *by)
{
    const char *line = at;
    char what[300];
    struct strbuf b;

    while (line > text && line[-1] != '\n')
        line--;
    snprintf(what, sizeof(what), "%.*s[%.*s -> %s]", (int)(at - line > 150 ? 150 : at - line), line,
             (int)(end - at), at, by);
    strbuf_init(&b);
    strbuf_add(&b, text, (size_t)(at - text));
    strbuf_puts(&b, by);
    strbuf_puts(&b, end);
    try_text(b.s, what);
    strbuf_release(&b);
}

/* Words of plan files, each put where another stood. */
static const char *const words[] = {
    "\"q\"",     "\"k\"",      "\"qkv\"",     "\"norm1\"",    "\"gate\"",    "\"up\"",
    "\"down\"",  "\"other\"",  "\"matrix\"",  "\"norm\"",     "\"expert\"",  "\"router\"",
    "\"bias\"",  "\"layer\"",  "\"embed\"",   "\"head\"",     "\"swiglu\"",  "\"gelu\"",
    "\"geglu\"", "\"rms\"",    "\"rope\"",    "\"none\"",     "\"learned\"", "\"mla\"",
    "\"delta\"", "\"mamba2\"", "\"unknown\"", "\"muon\"",     "\"adamw\"",   "\"soap\"",
    "\"owner\"", "\"chunk\"",  "\"flat\"",    "\"bf16\"",     "\"fp32\"",    "null",
    "true",      "0",          "[]",          "\"position\"", "\"\""};
static const char *const numbers[] = {"0",
                                      "1",
                                      "2",
                                      "3",
                                      "7",
                                      "16",
                                      "48",
                                      "4096",
                                      "1073741824",
                                      "null",
                                      "-1",
                                      "0.5",
                                      "\"9007199254740993\"",
                                      "true"};
static const char *const flags[] = {"true", "false", "null", "0", "1"};

/* Each value of the text, with every ninth of the words for it, or with all where PLAN_EDITS is set (minutes). Keys stay, and
 * so does the cluster, which has tests of its own. */
static void edit_all(const char *text)
{
    const char *cluster = strstr(text, "\"cluster\""), *model = strstr(text, "\"model\"");
    size_t stride = getenv("PLAN_EDITS") ? 1 : 9;
    const char *end;

    BUG_ON(!cluster || !model);
    for (const char *p = text; *p; p = end) {
        const char *const *by = numbers;
        size_t n = sizeof(numbers) / sizeof(numbers[0]);
        bool inside = cluster < model ? p < cluster || p >= model : p < model || p >= cluster;

        end = p + 1;
        if (*p == '"') {
            end = strchr(p + 1, '"') + 1;
            by = words;
            n = sizeof(words) / sizeof(words[0]);
        } else if (isdigit((unsigned char)*p) || *p == '-') {
            end = p + strspn(p, "-+.eE0123456789");
        } else if (isalpha((unsigned char)*p)) {
            end = p + strspn(p, "truefalsn");
            by = flags;
            n = sizeof(flags) / sizeof(flags[0]);
        } else {
            continue;
        }
        if (*end == ':' || !inside)
            continue;
        for (size_t i = n_values++ % stride; i < n; i += stride)
            if (strncmp(p, by[i], (size_t)(end - p)) != 0 || by[i][end - p])
                replace(text, p, end, by[i]);
    }
}

static void edit(const char *model, const char *layout, uint32_t world, uint32_t group)
{
    struct job j = plans_job();
    struct arena a;
    struct plan plan;
    struct err e;
    cJSON *tree;
    char *text;

    j.seq_len = 16;
    j.micro_batch = 1;
    j.shard_group = group;
    n_refused = n_run = n_values = 0;
    arena_init(&a);
    plans_make(&plan, &a, model, layout, &j, world, 4);
    MUST(cluster_load("dgx-a100", &a, &plan.cluster, &e) == 0 &&
             cluster_resize(&plan.cluster, plan.job.nodes, &e) == 0,
         "%s", e.msg);
    plans_loads(&plan, &a);
    tree = plan_to_json(&plan);
    text = json_text(tree, true);
    json_free(tree);
    try_text(text, "nothing");
    ck_assert_uint_eq(n_run, 1);
    edit_all(text);
    ck_assert_uint_gt(n_refused, 200); /* most edits contradict something */
    ck_assert_uint_gt(n_run, 5);       /* another window, norm or number of steps does not */
    mem_free(text);
    arena_release(&a);
}

START_TEST(an_edited_llama_is_refused_or_runs)
{
    edit("block:layers=2,hidden=16,ffn=24,heads=4,kv-heads=2,mlp=swiglu,vocab=37", "owner", 2, 0);
}
END_TEST

START_TEST(an_edited_gpt2_is_refused_or_runs)
{
    edit("block:layers=1,hidden=12,ffn=24,heads=3,mlp=gelu,vocab=29", "zero1-owner", 2, 0);
}
END_TEST

START_TEST(edited_experts_are_refused_or_run)
{
    edit("qwen-moe", "zero3+gather", 2, 0);
}
END_TEST

START_TEST(an_edited_split_up_block_is_refused_or_runs)
{
    edit("one-layer", "ddp", 1, 0);
}
END_TEST

/* Two copies: owners are all in place 0. */
START_TEST(edited_copies_are_refused_or_run)
{
    edit("one-layer", "hsdp+owner", 2, 1);
}
END_TEST

SUITE_MAIN("exec/plan_edits", an_edited_llama_is_refused_or_runs, an_edited_gpt2_is_refused_or_runs,
           edited_experts_are_refused_or_run, an_edited_split_up_block_is_refused_or_runs,
           edited_copies_are_refused_or_run)
