/* ballast recommend: the smallest cluster on which a step fits, the fastest way to run it there, and what more nodes give. */
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/metrics.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "core/num.h"
#include "layouts/layout.h"
#include "model/plan/optimizers.h"
#include "planner/planner.h"

#include <stdlib.h>
#include <string.h>

/* Lean ones first, of these the ones that need no solver: the search for the smallest size ends at the first that fits. */
static const char *const default_layouts[] = {
    "zero3+alltoall", "zero3",       "owner", "hsdp+alltoall", "hsdp", "hsdp+owner",
    "zero2",          "zero2-owner", "zero1", "zero1-owner",   "ddp"};
enum { N_DEFAULT = sizeof(default_layouts) / sizeof(default_layouts[0]) };
enum { MAX_SIZES = 8 }; /* rows of the answer */

static const char *recompute_of(const struct job *j)
{
    return job_option("recompute")->opt.choices[j->recompute];
}

static const struct opt rows[] = {
    COMMAND_LAYOUTS_ROW("all but those that rebuild every matrix on every rank",
                        "layouts to choose from; 'list' shows all"),
    {.name = "max-nodes",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "128",
     .min = 1,
     .max = CLUSTER_MAX_NODES,
     .help = "largest cluster to look at",
     .cli_only = true},
    COMMAND_OUTPUT_ROWS,
};

struct search {
    const struct setup *s;
    const char *const *layouts;
    size_t n_layouts;
    enum recompute least, most;
    uint64_t max_nodes, *sizes; /* [n_sizes] nodes, ascending, that the job goes on */
    size_t n_sizes;
    bool asked;           /* the layouts are the user's */
    uint64_t left_out;    /* the first size that the job does not go on, or 0 */
    struct err why;       /* ... and why not */
    struct arena *a;      /* of what is kept */
    uint64_t n_simulated; /* steps */
    struct progress *progress;
};

/* The best of a layout at a size: the fastest recomputation that fits, else the leanest. */
struct tried {
    struct arena a; /* owned, of the plan and what came of it; released when nothing is known */
    bool known;
    const char *name;
    uint64_t least; /* not known: what ranks hold all the time, where that is too much; else 0 */
    struct evaluation x;
};

static void tried_release(struct tried *t)
{
    if (t->known)
        arena_release(&t->a);
    t->known = false;
}

static bool better(const struct evaluation *x, const struct evaluation *y)
{
    return x->fits != y->fits ? x->fits
           : x->fits          ? x->p.step_ps < y->p.step_ps
                              : x->p.memory.driver_bytes < y->p.memory.driver_bytes;
}

/* Would what ranks hold all the time be too much, however evenly it were shared out? `least`: these bytes, or 0. */
static bool too_big(const struct plan *plan, uint64_t *least, struct err *e)
{
    struct plan p = *plan;
    uint64_t owned = 0, sum = 0;
    struct arena a;

    arena_init(&a);
    if (!layout_place(&p, &a, e)) {
        for (uint32_t i = 0; i < p.model.n_tensors; i++)
            if (p.place[i].rule == PLACE_OWNER)
                owned += layout_resident_bytes(&p, &p.model.tensors[i]);
        sum = layout_base_bytes(&p) + owned / placement_parts(&p, STATE);
    }
    arena_release(&a);
    *least = sum > p.cluster.device.memory_bytes ? sum : 0;
    return *least > 0;
}

/* In groups of all ranks it is the layout that it is made of, which is looked at too. */
static bool redundant(const struct search *s, const struct plan *p)
{
    const struct layout *l;
    enum strategy st;
    const char *full;
    uint32_t group;
    struct err e;

    return !s->asked &&
           !layout_resolve(p->job.layout, p->job.optimizer, s->a, &l, &st, &full, &e) &&
           l->groups == GROUPS_NODE &&
           !layout_groups(l, &p->job, p->cluster.gpus_per_node, &group, &e) &&
           group == plan_data_ranks(p);
}

/* What is looked for: any layout that fits; the best of each that is not too big at sight; one's peak, however large. */
enum look { LOOK_FOR_ONE, LOOK_FOR_BEST, LOOK_AT_ALL_COSTS };

/* Owners are planned once: recomputation changes nothing for them, unless they are chosen by time. */
static int try_layout(struct search *s, const char *layout, uint64_t nodes, enum look how,
                      struct tried *out, struct err *e)
{
    struct sim_options o = {0};
    struct plan *plan, *p;
    bool timed = s->s->job.objective && strstr(s->s->job.objective, "time");

    arena_init(&out->a);
    out->known = false;
    out->name = layout;
    plan = ARENA_NEW(&out->a, struct plan, 1);
    if (setup_plan(s->s, nodes, layout, &out->a, plan, e) || redundant(s, plan) ||
        (how != LOOK_AT_ALL_COSTS && too_big(plan, &out->least, e))) {
        arena_release(&out->a);
        return 0;
    }
    progress_next(s->progress,
                  arena_printf(&out->a, "%s on %llu nodes", layout, (unsigned long long)nodes));
    for (int r = (int)s->most; r >= (int)s->least; r--) {
        struct evaluation x;

        plan->job.recompute = (enum recompute)r;
        if ((r == (int)s->most || timed) && planner_plan(plan, &evaluate_time, &out->a, e))
            goto fail;
        p = ARENA_NEW(&out->a, struct plan, 1);
        *p = *plan;
        if (evaluate(p, &o, &out->a, &x, e))
            goto fail;
        s->n_simulated++;
        if (!out->known || better(&x, &out->x))
            out->x = x;
        out->known = true;
        if (!x.fits || how == LOOK_FOR_ONE)
            break; /* less recomputation takes more */
    }
    return 0;
fail:
    out->known = false;
    arena_release(&out->a);
    return -1;
}

/* Sizes that a global batch or a shard group divides for some layout; none at all, or none for a layout that was asked for, is
 * an error. */
static int find_sizes(struct search *s, struct err *e)
{
    bool *goes = ARENA_NEW(s->a, bool, s->n_layouts);

    s->sizes = ARENA_NEW(s->a, uint64_t, s->max_nodes);
    for (uint64_t n = 1; n <= s->max_nodes; n++) {
        bool any = false;

        for (size_t i = 0; i < s->n_layouts && (!any || !goes[i]); i++) {
            struct plan plan;
            struct arena a;
            struct err why;

            arena_init(&a);
            if (!setup_plan(s->s, n, s->layouts[i], &a, &plan, &why)) {
                any = goes[i] = true;
            } else if (!s->left_out || (!any && n == s->left_out)) {
                s->left_out = n;
                s->why = why;
            }
            arena_release(&a);
        }
        if (any)
            s->sizes[s->n_sizes++] = n;
    }
    for (size_t i = 0; i < s->n_layouts; i++)
        if (!goes[i] && (s->asked || !s->n_sizes)) {
            *e = s->why;
            return -1;
        }
    if (s->n_sizes == s->max_nodes)
        s->left_out = 0;
    return 0;
}

/* The layouts at one size, of[n_layouts], or looking for one those up to the first that fits; on failure nothing is left to
 * release. */
static int look(struct search *s, uint64_t nodes, enum look how, struct tried *of, struct err *e)
{
    memset(of, 0, s->n_layouts * sizeof(*of));
    for (size_t i = 0; i < s->n_layouts; i++) {
        if (try_layout(s, s->layouts[i], nodes, how, &of[i], e)) {
            while (i--)
                tried_release(&of[i]);
            return -1;
        }
        if (how == LOOK_FOR_ONE && of[i].known && of[i].x.fits)
            break;
    }
    return 0;
}

/* Does anything fit at this size? */
static int any_fits(struct search *s, uint64_t nodes, bool *fits, struct err *e)
{
    struct tried *of = MEM_NEW(struct tried, s->n_layouts);
    int status = look(s, nodes, LOOK_FOR_ONE, of, e);

    *fits = false;
    for (size_t i = 0; i < s->n_layouts && !status; i++) {
        *fits |= of[i].known && of[i].x.fits;
        tried_release(&of[i]);
    }
    mem_free(of);
    return status;
}

/* Index of the smallest size on which something fits, or n_sizes. Memory does not grow with the nodes: doubling brackets the
 * answer, bisection finds it. */
static int smallest(struct search *s, size_t *index, struct err *e)
{
    size_t below = 0, end = s->n_sizes, step = 1; /* the answer is in [below, end] */
    bool fits;

    for (size_t at = 0; end == s->n_sizes; step *= 2) {
        if (any_fits(s, s->sizes[at], &fits, e))
            return -1;
        if (fits)
            end = at;
        else
            below = at + 1;
        if (at + 1 == s->n_sizes)
            break;
        at = num_min(at + step, s->n_sizes - 1);
    }
    while (below < end && end < s->n_sizes) {
        size_t mid = below + (end - below) / 2;

        if (any_fits(s, s->sizes[mid], &fits, e))
            return -1;
        if (fits)
            end = mid;
        else
            below = mid + 1;
    }
    *index = end;
    return 0;
}

/* ---- the answer ---- */

struct answer {
    struct tried size[MAX_SIZES]; /* the best at the smallest size, then at twice the nodes each */
    size_t n;
    /* At the smallest size, or where nothing fits at the largest: the best of each layout, fastest first, then those that are
     * too big at sight. */
    struct tried *layout;
    size_t n_layouts, n_too_big;
};

static void answer_release(struct answer *w)
{
    for (size_t i = 1; i < w->n; i++) /* the first is one of the layouts */
        tried_release(&w->size[i]);
    for (size_t i = 0; i < w->n_layouts; i++)
        tried_release(&w->layout[i]);
    mem_free(w->layout);
}

static int by_rate(const void *x, const void *y)
{
    const struct tried *a = x, *b = y;

    if (a->known != b->known)
        return a->known ? -1 : 1;
    if (!a->known)
        return a->least != b->least ? (a->least > b->least ? -1 : 1) : 0;
    if (a->x.fits != b->x.fits)
        return a->x.fits ? -1 : 1;
    if (a->x.p.step_ps != b->x.p.step_ps)
        return a->x.p.step_ps < b->x.p.step_ps ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The best of a size in of[0], the others behind it by speed, those of which nothing is known last. */
static int look_sorted(struct search *s, uint64_t nodes, struct tried *of, struct err *e)
{
    if (look(s, nodes, LOOK_FOR_BEST, of, e))
        return -1;
    qsort(of, s->n_layouts, sizeof(*of), by_rate);
    return 0;
}

/* Nothing fits: of the layouts that were too big at sight those are simulated whose bound is below the least peak so far, so that
 * the leanest is one of those that are known. */
static int simulate_leaner(struct search *s, struct answer *w, struct err *e)
{
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < w->n_layouts; i++)
        least = num_min(least, w->layout[i].x.p.memory.driver_bytes);
    for (;;) {
        struct tried *best = NULL, with;

        for (size_t i = 0; i < w->n_too_big; i++) {
            struct tried *t = &w->layout[w->n_layouts + i];

            if (t->least < least && (!best || t->least < best->least))
                best = t;
        }
        if (!best) {
            qsort(w->layout, w->n_layouts + w->n_too_big, sizeof(*w->layout), by_rate);
            return 0;
        }
        if (try_layout(s, best->name, s->sizes[s->n_sizes - 1], LOOK_AT_ALL_COSTS, &with, e))
            return -1;
        BUG_ON(!with.known);
        least = num_min(least, with.x.p.memory.driver_bytes);
        *best = w->layout[w->n_layouts];
        w->layout[w->n_layouts++] = with;
        w->n_too_big--;
    }
}

static int fill(struct search *s, size_t index, struct answer *w, struct err *e)
{
    struct tried *of = MEM_NEW(struct tried, s->n_layouts);
    int status = 0;

    w->layout = MEM_NEW(struct tried, s->n_layouts);
    if (look_sorted(s, s->sizes[num_min(index, s->n_sizes - 1)], w->layout, e))
        status = -1;
    while (!status && w->n_layouts < s->n_layouts && w->layout[w->n_layouts].known)
        w->n_layouts++;
    while (!status && w->n_layouts + w->n_too_big < s->n_layouts &&
           w->layout[w->n_layouts + w->n_too_big].least)
        w->n_too_big++;
    if (!status && index == s->n_sizes)
        status = simulate_leaner(s, w, e);
    if (!status && index < s->n_sizes)
        w->size[w->n++] = w->layout[0];
    for (size_t at = index + 1; !status && at < s->n_sizes && w->n < MAX_SIZES; at++) {
        if (s->sizes[at] < 2 * w->size[w->n - 1].x.plan->job.nodes)
            continue;
        status = look_sorted(s, s->sizes[at], of, e);
        for (size_t i = 0; i < s->n_layouts && !status; i++)
            if (i == 0 && of[i].known && of[i].x.fits) /* buckets grow with the ranks */
                w->size[w->n++] = of[i];
            else
                tried_release(&of[i]);
    }
    mem_free(of);
    return status;
}

/* The two tables for people: sizes, and layouts on the smallest one. */
static const enum metric_id size_view[] = {
    METRIC_nodes,
    METRIC_gpus,
    METRIC_layout,
    METRIC_recompute,
    METRIC_step_ms,
    METRIC_memory_gib,
    METRIC_mfu_percent,
    METRIC_tokens_per_s_per_gpu,
    METRIC_tokens_per_s,
    METRIC_scaling_percent,
    METRIC_usd_per_million_tokens,
    METRIC_error_percent,
};
static const enum metric_id layout_view[] = {
    METRIC_layout,
    METRIC_recompute,
    METRIC_step_ms,
    METRIC_memory_gib,
    METRIC_fit,
    METRIC_mfu_percent,
    METRIC_tokens_per_s_per_gpu,
    METRIC_usd_per_million_tokens,
    METRIC_error_percent,
    METRIC_bottleneck,
};
enum {
    MAX_VIEW = sizeof(size_view) / sizeof(*size_view),
    N_LAYOUT_VIEW = sizeof(layout_view) / sizeof(*layout_view)
};

/* `rate`: tokens a second and GPU at the smallest size. */
static void fill_table(struct metric_table *t, const struct tried *of, size_t n, double rate)
{
    t->base_rate = rate;
    for (size_t i = 0; i < n; i++)
        metric_table_add(t, &of[i].x);
}

/* Without a price no column of it. */
static void print_view(const enum metric_id *view, size_t n_view, const struct tried *of, size_t n,
                       enum table_format f, double rate, struct strbuf *out)
{
    bool priced = of[0].x.plan->job.price_per_gpu_hour > 0;
    enum metric_id ids[MAX_VIEW];
    struct metric_table t;
    size_t k = 0;

    for (size_t i = 0; i < n_view; i++)
        if (priced || view[i] != METRIC_usd_per_million_tokens)
            ids[k++] = view[i];
    metric_table_view(&t, ids, k, NULL);
    fill_table(&t, of, n, rate);
    table_print(&t.t, f, out);
    metric_table_release(&t);
}

static const char *nodes_text(uint64_t n)
{
    return n == 1 ? "node" : "nodes";
}

/* What was not looked at, and why. */
static void print_left_out(const struct search *s, const struct answer *w, struct strbuf *out)
{
    if (w->n_too_big)
        strbuf_puts(out, "Too big by what ranks hold all the time, and not simulated:");
    for (size_t i = 0; i < w->n_too_big; i++) {
        const struct tried *t = &w->layout[w->n_layouts + i];

        strbuf_printf(out, "%s %s (%.0f GiB)", i ? "," : "", t->name, (double)t->least / 0x1p30);
    }
    if (w->n_too_big)
        strbuf_puts(out, ".\n");
    if (s->left_out)
        strbuf_printf(out, "%llu of %llu sizes left out: on %llu %s %s.\n",
                      (unsigned long long)(s->max_nodes - s->n_sizes),
                      (unsigned long long)s->max_nodes, (unsigned long long)s->left_out,
                      nodes_text(s->left_out), s->why.msg);
}

static void print_text(const struct search *s, const struct answer *w, enum table_format f,
                       struct strbuf *out)
{
    const struct evaluation *x = &w->size[0].x;
    const struct job *j = &x->plan->job;
    double rate = x->tokens_per_s_per_gpu;

    evaluate_title(x->plan, out);
    strbuf_printf(out, "\nThe smallest size that holds it, and at least twice the nodes each:\n\n");
    print_view(size_view, MAX_VIEW, w->size, w->n, f, rate, out);
    strbuf_printf(out, "\nOn %u %s, the best of each layout:\n\n", j->nodes, nodes_text(j->nodes));
    print_view(layout_view, N_LAYOUT_VIEW, w->layout, w->n_layouts, f, rate, out);
    strbuf_puts(out, "\n");
    print_left_out(s, w, out);
    strbuf_printf(out,
                  "Take %s with --recompute %s on %u %s (%u GPUs): %.1f ms a step, %.1f of "
                  "%.1f GiB.\n",
                  j->layout, recompute_of(j), j->nodes, nodes_text(j->nodes), j->gpus,
                  (double)x->p.step_ps / 1e9, (double)x->p.memory.driver_bytes / 0x1p30,
                  (double)x->plan->cluster.device.memory_bytes / 0x1p30);
    strbuf_printf(out,
                  "%llu steps simulated; fits: 5 %% head room. scaling: tokens a second and GPU "
                  "against the smallest size. step: within +-%%\n"
                  "where measured runs cover such a run (docs/VALIDATION.md); elsewhere read "
                  "ratios. docs/METRICS.md has all.\n",
                  (unsigned long long)s->n_simulated);
}

/* Eager cross entropy keeps fp32 copies of all logits; frameworks that have a fused kernel (llm-foundry does by default) do not. */
static void suggest_fused_loss(const struct tried *lean, struct strbuf *out)
{
    struct sim_options o = {0};
    struct plan plan = *lean->x.plan;
    struct evaluation x;
    struct arena a;
    struct err e;

    if (!job_eager_loss(&plan.job) || !model_has_head(&plan.model))
        return;
    plan.job.loss = LOSS_FUSED;
    arena_init(&a);
    if (!evaluate(&plan, &o, &a, &x, &e) && x.fit != FIT_NO)
        strbuf_printf(out,
                      "With --loss fused, as frameworks with a kernel for cross entropy have it, "
                      "%s needs %.1f GiB%s.\n",
                      lean->name, (double)x.p.memory.driver_bytes / 0x1p30,
                      x.fit == FIT_YES ? ", which fits" : ", which is tight");
    arena_release(&a);
}

/* The leanest is simulated, as are all whose bound is below its peak (simulate_leaner()). */
static void print_nothing(const struct search *s, const struct answer *w, struct strbuf *out)
{
    const struct tried *lean = &w->layout[0];
    const struct evaluation *x;

    for (size_t i = 1; i < w->n_layouts; i++)
        if (w->layout[i].x.p.memory.driver_bytes < lean->x.p.memory.driver_bytes)
            lean = &w->layout[i];
    x = &lean->x;
    strbuf_printf(out,
                  "Nothing fits on up to %llu %s: the leanest on %llu, %s with --recompute %s, "
                  "needs %.1f of %.1f GiB%s.\n",
                  (unsigned long long)s->max_nodes, nodes_text(s->max_nodes),
                  (unsigned long long)s->sizes[s->n_sizes - 1], lean->name,
                  recompute_of(&x->plan->job), (double)x->p.memory.driver_bytes / 0x1p30,
                  (double)s->s->cluster.device.memory_bytes / 0x1p30,
                  x->fit == FIT_TIGHT ? ", which is tight: less than 5 % head room" : "");
    suggest_fused_loss(lean, out);
    print_left_out(s, w, out);
}

static void print_rows(const struct search *s, const struct answer *w, enum table_format f,
                       int argc, char **argv, struct strbuf *out)
{
    double rate = w->n ? w->size[0].x.tokens_per_s_per_gpu : 0;
    struct metric_table sizes, layouts;

    metric_table_rows(&sizes, METRIC_IN_ROWS | METRIC_IN_RECOMMEND);
    metric_table_rows(&layouts, METRIC_IN_ROWS | METRIC_IN_RECOMMEND);
    fill_table(&sizes, w->size, w->n, rate);
    fill_table(&layouts, w->layout, w->n_layouts, rate);
    if (f == TABLE_AS_JSON) {
        cJSON *doc = output_document("ballast-recommend", 1, argc, argv), *big;

        json_add_str(doc, "model", s->s->model.name);
        json_add_str(doc, "cluster", s->s->cluster.name);
        json_add_u64(doc, "max_nodes", s->max_nodes);
        json_add_u64(doc, "sizes", s->n_sizes);
        json_add_u64(doc, "simulated", s->n_simulated);
        json_add_tree(doc, "rows", table_to_json(&sizes.t));
        json_add_tree(doc, "layouts", table_to_json(&layouts.t));
        big = json_add_array(doc, "too_big");
        for (size_t i = 0; i < w->n_too_big; i++) {
            cJSON *o = json_add_object(big, NULL);

            json_add_str(o, "layout", w->layout[w->n_layouts + i].name);
            json_add_double(o, "least_gib", (double)w->layout[w->n_layouts + i].least / 0x1p30);
        }
        json_print(doc, true, out);
        strbuf_puts(out, "\n");
        json_free(doc);
    } else {
        table_print(&sizes.t, f, out);
    }
    metric_table_release(&sizes);
    metric_table_release(&layouts);
}

/* The layouts asked for, or all of the default ones that this optimizer has and tells apart. */
static void choose_layouts(struct search *s, const struct opt_val *asked)
{
    const char **names = ARENA_NEW(s->a, const char *, N_DEFAULT), **full;

    s->layouts = names;
    if (asked->set) {
        s->layouts = asked->list;
        s->n_layouts = asked->n_list;
        return;
    }
    full = ARENA_NEW(s->a, const char *, N_DEFAULT);
    for (size_t i = 0; i < N_DEFAULT; i++) {
        const struct layout *l;
        enum strategy st;
        struct err why;
        bool seen = false;

        if (layout_resolve(default_layouts[i], s->s->job.optimizer, s->a, &l, &st,
                           &full[s->n_layouts], &why))
            continue;
        /* nothing to own, nothing to rebuild */
        seen = !optimizer_row(s->s->job.optimizer)->matrices &&
               (st == STRATEGY_OWNER || strchr(default_layouts[i], '+'));
        for (size_t k = 0; k < s->n_layouts; k++)
            seen |= !strcmp(full[k], full[s->n_layouts]);
        if (!seen)
            names[s->n_layouts++] = default_layouts[i];
    }
}

static int recommend(struct setup *s, const struct opts *o, int argc, char **argv,
                     struct strbuf *out, struct err *e)
{
    static const char *const found[] = {"nodes", "gpus"};
    struct progress progress;
    enum table_format f = (enum table_format)opts_get(o, "format")->u64;
    bool given = opts_get(o, "recompute")->set;
    struct search x = {.s = s,
                       .least = given ? s->job.recompute : RECOMPUTE_NONE,
                       .most = given ? s->job.recompute : RECOMPUTE_FULL,
                       .max_nodes = opts_get(o, "max-nodes")->u64,
                       .asked = opts_get(o, "layouts")->set,
                       .progress = &progress,
                       .a = &s->arena};
    struct answer w = {.n = 0};
    size_t index;
    bool fits;
    int status;

    for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++)
        if (opts_get(o, found[i])->set == OPT_FROM_CLI) /* a job file serves other commands too */
            return err_set(e, opts_fault(o, found[i]),
                           "%s has no place here: recommend finds the size, up to --max-nodes",
                           opts_said(o, found[i]).s);
    s->whole_nodes = true;
    choose_layouts(&x, opts_get(o, "layouts"));
    if (setup_check_used(s, x.layouts, x.n_layouts, e) || find_sizes(&x, e))
        return -1;
    progress_begin(&progress, "step", 0);
    status = smallest(&x, &index, e) || fill(&x, index, &w, e);
    progress_end(&progress);
    if (status) {
        answer_release(&w);
        return -1;
    }
    if (f == TABLE_AS_JSON || f == TABLE_AS_CSV)
        print_rows(&x, &w, f, argc, argv, out);
    else if (w.n)
        print_text(&x, &w, f, out);
    else
        print_nothing(&x, &w, out);
    fits = w.n > 0;
    answer_release(&w);
    return fits ? 0 : 1;
}

int cmd_recommend(int argc, char **argv, struct err *e)
{
    const struct command_frame frame = {
        .usage =
            "usage: ballast recommend MODEL --cluster CLUSTER [--max-nodes N] [options]\n\n"
            "Finds the fewest nodes on which one training step fits, the layout and recomputation "
            "that are\n"
            "fastest there, and what twice, four times ... the nodes give. Simulates every choice. "
            "MODEL: a\n"
            "config.json or its directory, a bundled name, or block:layers=...\n"
            "Exit status 1 when nothing fits on up to --max-nodes.\n\n",
        .rows = rows,
        .n_rows = sizeof(rows) / sizeof(rows[0]),
        .layouts = "layouts",
        .run = recommend,
    };

    return command_run(&frame, argc, argv, e);
}
