#include "cli/explain.h"

#include "layouts/layout.h"
#include "model/plan/frameworks.h"
#include "model/plan/optimizers.h"
#include "model/plan/segment_algo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MS = 1e9;       /* ps */
static const double WORTH_IT = 0.1; /* percent of the step: less is not advice */

/* ---- candidates ---- */

struct search {
    struct explanation *out;
    struct arena *a;
};

/* The job again, for one change. */
static struct plan again(const struct search *s)
{
    const struct plan *p = s->out->base->plan;

    return (struct plan){.model = *plan_whole(p), .cluster = p->cluster, .job = p->job};
}

static double tokens(const struct job *j)
{
    return (double)(j->seq_len * j->micro_batch) * (double)j->grad_accum;
}

/* Plan and simulate `plan`, and keep what came of it. `option` and `note` must outlive the search. */
static void try_it(struct search *s, struct plan *plan, bool what_if, const char *option,
                   const char *note)
{
    const struct evaluation *base = s->out->base;
    struct explain_change *c = &s->out->list[s->out->n++];
    struct sim_options o = {0};
    struct evaluation x;
    struct arena a;
    struct err e;

    BUG_ON(s->out->n > EXPLAIN_MAX);
    *c = (struct explain_change){.option = option, .note = note, .what_if = what_if};
    arena_init(&a);
    if (planner_plan(plan, &evaluate_time, &a, &e) || evaluate(plan, &o, &a, &x, &e)) {
        c->failed = arena_strdup(s->a, e.msg);
    } else {
        c->fits = x.fits;
        c->step_ps = x.p.step_ps;
        c->memory_bytes = x.p.memory.driver_bytes;
        c->tokens_per_s_per_gpu = x.tokens_per_s_per_gpu;
        c->gain_ms = ((double)base->p.step_ps -
                      (double)x.p.step_ps * tokens(&base->plan->job) / tokens(&plan->job)) /
                     MS;
        c->gain_percent = 100 * c->gain_ms * MS / (double)base->p.step_ps;
    }
    arena_release(&a);
}

/* Not baselines, which the simulator does not choose either. */
static void try_gathers(struct search *s)
{
    const struct evaluation *base = s->out->base;

    if (base->plan->strategy != STRATEGY_OWNER || base->p.gather_algo == ALGO_AUTO)
        return;
    for (int k = ALGO_AUTO + 1; k < ALGO_N; k++) {
        struct plan p = again(s);

        if (k == (int)base->p.gather_algo || segment_algo((enum coll_algo)k)->baseline)
            continue;
        p.job.gather = (enum coll_algo)k;
        p.job.gather_as_framework = false;
        try_it(s, &p, false, arena_printf(s->a, "--gather %s", coll_algo_name(p.job.gather)), NULL);
    }
}

static void try_planner(struct search *s)
{
    struct plan p = again(s);

    if (s->out->base->plan->strategy != STRATEGY_OWNER || !strcmp(p.job.planner, "ilp"))
        return;
    p.job.planner = "ilp";
    try_it(s, &p, false, "--planner ilp", NULL);
}

static void try_overlap(struct search *s)
{
    const struct plan *base = s->out->base->plan;
    const struct layout *l = layout_find(base->layout);
    struct plan p = again(s);

    if (plan_data_ranks(base) == 1)
        return;
    if (l->cut[PARAM]) {
        p.job.prefetch++;
        try_it(s, &p, false, arena_printf(s->a, "--prefetch %u", p.job.prefetch), NULL);
        p = again(s);
        p.job.reshard_never = !p.job.reshard_never;
        try_it(s, &p, false, p.job.reshard_never ? "--reshard never" : "--reshard always",
               p.job.reshard_never ? "units stay gathered" : "units are gathered twice");
    }
    p = again(s);
    if (job_reduces_after(&p.job) && !framework_row(p.job.framework)->waits) {
        p.job.overlap_reduce = OVERLAP_YES;
        try_it(s, &p, false, "--overlap-reduce yes", "beside backward");
    }
    p = again(s);
    if (layout_has_buckets(l, base->strategy)) {
        p.job.bucket_bytes *= 4;
        try_it(
            s, &p, false,
            arena_printf(s->a, "--bucket %lluMiB", (unsigned long long)(p.job.bucket_bytes >> 20)),
            NULL);
    }
}

/* Less is a gain of time; more, for a job that does not fit, of memory. */
static void try_recompute(struct search *s)
{
    static const char *const names[] = {"--recompute none", "--recompute selective",
                                        "--recompute full"};

    for (int r = RECOMPUTE_NONE; r <= RECOMPUTE_FULL; r++) {
        struct plan p = again(s);

        if (r == (int)p.job.recompute || (r > (int)p.job.recompute && s->out->base->fits))
            continue;
        p.job.recompute = (enum recompute)r;
        try_it(s, &p, false, names[r], NULL);
    }
}

static void try_layouts(struct search *s)
{
    static const char *const names[] = {"ddp",         "zero1", "zero1-owner",    "zero2",
                                        "zero2-owner", "zero3", "zero3+alltoall", "owner",
                                        "hsdp"};
    const struct plan *base = s->out->base->plan;
    const char *seen[sizeof(names) / sizeof(names[0])];
    size_t n = 0;

    if (plan_data_ranks(base) == 1)
        return;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct plan p = again(s);
        const struct layout *l;
        enum strategy st;
        const char *full;
        struct err e;
        bool known;

        if (layout_resolve(names[i], p.job.optimizer, s->a, &l, &st, &full, &e))
            continue;
        known =
            !strcmp(full, base->layout_full) ||
            (l->groups == GROUPS_NODE && base->job.nodes == 1) ||                /* zero3 */
            (st == STRATEGY_OWNER && !optimizer_row(p.job.optimizer)->matrices); /* cut freely */
        for (size_t k = 0; k < n; k++)
            known |= !strcmp(full, seen[k]);
        if (known)
            continue;
        seen[n++] = full;
        p.job.layout = names[i];
        p.job.shard_group = 0;
        try_it(s, &p, false, arena_printf(s->a, "--layout %s", names[i]), NULL);
    }
}

/* Twice the ranks to a copy hold less, half of them gather less. */
static void try_groups(struct search *s)
{
    const struct plan *base = s->out->base->plan;
    uint32_t g = placement_parts(base, STATE), to[2] = {2 * g, g / 2};

    if (!layout_has_groups(layout_find(base->layout), base->job.optimizer))
        return;
    for (int i = 0; i < 2; i++) {
        struct plan p = again(s);

        if (to[i] < 2 || to[i] > base->world || base->world % to[i])
            continue;
        p.job.shard_group = to[i];
        try_it(s, &p, false, arena_printf(s->a, "--shard-group %u", to[i]), NULL);
    }
}

/* With accumulation to spare the batch stays what it is. */
static void try_batch(struct search *s)
{
    struct plan p = again(s);
    struct job *j = &p.job;
    bool even = j->grad_accum % 2 == 0;

    if (s->out->base->fits) {
        j->micro_batch *= 2;
        if (even)
            j->grad_accum /= 2;
    } else if (j->micro_batch % 2 == 0) {
        j->micro_batch /= 2;
        j->grad_accum *= 2;
        even = true;
    } else {
        return;
    }
    try_it(s, &p, false,
           even
               ? arena_printf(s->a, "--micro-batch %llu --grad-accum %llu",
                              (unsigned long long)j->micro_batch, (unsigned long long)j->grad_accum)
               : arena_printf(s->a, "--micro-batch %llu", (unsigned long long)j->micro_batch),
           even ? NULL : "twice the tokens a step");
}

static void try_dtypes(struct search *s)
{
    struct plan p = again(s);

    if (p.job.state_dtype == DTYPE_FP32) {
        p.job.state_dtype = DTYPE_BF16;
        try_it(s, &p, false, "--state-dtype bf16", "rounds states");
    }
    p = again(s);
    if (p.job.master_weights) {
        p.job.master_weights = false;
        try_it(s, &p, false, "--master-weights no", "rounds updates");
    }
}

static void try_compiled(struct search *s)
{
    struct plan p = again(s);
    enum framework compiled = framework_row(p.job.framework)->compiled;

    if (compiled == FRAMEWORK_N)
        return;
    p.job.framework = compiled;
    try_it(s, &p, false, arena_printf(s->a, "--framework %s", framework_name(compiled)),
           "compiled layers");
}

static void try_sync(struct search *s)
{
    struct plan p = again(s);

    if (p.job.grad_accum == 1 || p.world == 1 ||
        !layout_may_sync_last(layout_find(s->out->base->plan->layout)))
        return;
    p.job.sync_last = !p.job.sync_last;
    try_it(s, &p, false, p.job.sync_last ? "--grad-sync last" : "--grad-sync every", NULL);
}

static void try_fused(struct search *s)
{
    struct plan p = again(s);

    if (job_unfused_attention(&p.job, &p.model)) {
        p.job.attention = ATTENTION_FLASH;
        try_it(s, &p, false, "--attention flash", "kernels of its own");
    }
    p = again(s);
    if (job_eager_loss(&p.job) && model_has_head(&p.model)) {
        p.job.loss = LOSS_FUSED;
        try_it(s, &p, false, "--loss fused", "a kernel of its own");
    }
}

static void try_refresh(struct search *s)
{
    struct plan p = again(s);

    if (!layout_refreshes(layout_find(s->out->base->plan->layout)) || p.job.gpus == 1 ||
        p.job.overlap_refresh)
        return;
    p.job.overlap_refresh = true;
    try_it(s, &p, false, "--overlap-refresh yes", "beside the next forward");
}

static void try_symmetric(struct search *s)
{
    struct plan p = again(s);

    if (!optimizer_row(p.job.optimizer)->newton_schulz ||
        s->out->base->plan->strategy == STRATEGY_STOCK || p.job.ns_symmetric)
        return;
    p.job.ns_symmetric = true;
    try_it(s, &p, false, "--ns-kernels symmetric", "kernels of their own");
}

static void try_nics(struct search *s)
{
    const struct plan *base = s->out->base->plan;
    struct plan p = again(s);
    struct cluster *c = &p.cluster;

    if (cluster_by_domain(c).n_nodes < 2 || !c->nics_per_node)
        return;
    c->nic_Bps *= 2;
    try_it(s, &p, true,
           arena_printf(s->a, "NICs of %s", units_show_bandwidth(base->cluster.nic_Bps * 2).s),
           "another machine");
    if (base->cluster.nics_per_node >= base->cluster.gpus_per_node)
        return;
    p = again(s);
    c->nics_per_node = c->gpus_per_node;
    for (uint32_t g = 0; g < c->gpus_per_node; g++) {
        c->nic_of_gpu[g] = (uint8_t)g;
        c->switch_of_nic[g] = c->switch_of_gpu[g];
    }
    try_it(s, &p, true,
           arena_printf(s->a, "a NIC a GPU (%u in place of %u)", c->nics_per_node,
                        base->cluster.nics_per_node),
           "another machine");
}

/* Of a job that fits: what fits and gains most. Of one that does not: what fits and costs least time, then what needs
 * least memory. */
static int best_first(const void *x, const void *y)
{
    const struct explain_change *a = x, *b = y;

    if (!a->failed != !b->failed)
        return a->failed ? 1 : -1;
    if (a->fits != b->fits)
        return a->fits ? -1 : 1;
    if (!a->fits && a->memory_bytes != b->memory_bytes)
        return a->memory_bytes < b->memory_bytes ? -1 : 1;
    if (a->gain_ms < b->gain_ms || a->gain_ms > b->gain_ms)
        return a->gain_ms > b->gain_ms ? -1 : 1;
    return strcmp(a->option, b->option);
}

static bool worth_it(const struct evaluation *base, const struct explain_change *c)
{
    if (c->failed)
        return false;
    if (base->fits)
        return c->fits && c->gain_percent >= WORTH_IT;
    return c->fits || c->memory_bytes < base->p.memory.driver_bytes;
}

/* Two settings of one option are one piece of advice: the better one. Options of a kind share their first word. */
static bool same_kind(const struct explain_change *a, const struct explain_change *b)
{
    size_t n = strcspn(a->option, " ");

    return a->what_if == b->what_if &&
           (a->what_if || (n == strcspn(b->option, " ") && !strncmp(a->option, b->option, n)));
}

/* The best of each kind to the front; the rest keeps its order. */
static void choose_best(struct explanation *x)
{
    for (uint32_t i = 0; i < x->n && x->n_best < EXPLAIN_BEST; i++) {
        struct explain_change c = x->list[i];
        bool seen = false;

        for (uint32_t k = 0; k < x->n_best; k++)
            seen |= same_kind(&x->list[k], &c);
        if (seen || !worth_it(x->base, &c))
            continue;
        memmove(&x->list[x->n_best + 1], &x->list[x->n_best], (i - x->n_best) * sizeof(c));
        x->list[x->n_best++] = c;
    }
}

void explain_find(const struct evaluation *base, struct arena *a, struct explanation *out)
{
    struct search s = {out, a};

    *out = (struct explanation){.base = base,
                                .list = ARENA_NEW(a, struct explain_change, EXPLAIN_MAX)};
    try_gathers(&s);
    try_planner(&s);
    try_overlap(&s);
    try_recompute(&s);
    try_groups(&s);
    try_layouts(&s);
    try_batch(&s);
    try_dtypes(&s);
    try_compiled(&s);
    try_fused(&s);
    try_sync(&s);
    try_refresh(&s);
    try_symmetric(&s);
    try_nics(&s);
    qsort(out->list, out->n, sizeof(*out->list), best_first);
    choose_best(out);
}

/* ---- words ---- */

static int64_t exposed_ps(const struct prediction *p, enum coll_kind k)
{
    int64_t sum = 0;

    for (int ph = 0; ph < PHASE_N; ph++)
        sum += p->exposed_ps[ph][k];
    return sum;
}

/* What the slowest rank waits for that is no collective: kernels of others. */
static int64_t others_ps(const struct prediction *p)
{
    int64_t left = p->exposed_comm_ps;

    for (int k = 0; k < COLL_N; k++)
        left -= exposed_ps(p, (enum coll_kind)k);
    return left;
}

static double percent(const struct prediction *p, int64_t ps)
{
    return 100 * (double)ps / (double)p->step_ps;
}

static void say_kernels(const struct prediction *p, struct strbuf *out)
{
    static const char *const names[] = {"GEMM", "attention", "elementwise", "optimizer"};
    const char *sep = ": ";

    strbuf_printf(out, "- Kernels: %.1f ms of %.1f (%.1f %%)", (double)p->compute_ps / MS,
                  (double)p->step_ps / MS, percent(p, p->compute_ps));
    for (int k = TIME_GEMM; k <= TIME_OPTIMIZER; k++) {
        if (!p->time_ps[k])
            continue;
        strbuf_printf(out, "%s%s %.1f", sep, names[k], (double)p->time_ps[k] / MS);
        sep = ", ";
    }
    strbuf_puts(out, ".\n");
}

static void say_waiting(const struct prediction *p, struct strbuf *out)
{
    int64_t others = others_ps(p), comm = p->exposed_comm_ps - others, all = 0;

    for (int k = TIME_GATHER; k <= TIME_TENSOR; k++)
        all += p->busy_ps[k];
    strbuf_printf(out, "- Waiting for communication: %.1f ms (%.1f %%)", (double)comm / MS,
                  percent(p, comm));
    if (all > 0)
        strbuf_printf(out, ", of collectives that last %.1f ms in sum", (double)all / MS);
    strbuf_puts(out, comm ? ":\n" : ".\n");
    for (int k = 0; k < COLL_N; k++) {
        const char *sep = " (";

        if (!exposed_ps(p, (enum coll_kind)k))
            continue;
        strbuf_printf(out, "  - %s %.1f", coll_kind_name((enum coll_kind)k),
                      (double)exposed_ps(p, (enum coll_kind)k) / MS);
        for (int ph = 0; ph < PHASE_N; ph++)
            if (p->exposed_ps[ph][k]) {
                strbuf_printf(out, "%s%s %.1f", sep, phase_name((enum phase)ph),
                              (double)p->exposed_ps[ph][k] / MS);
                sep = ", ";
            }
        strbuf_puts(out, ")\n");
    }
    if (others > 0)
        strbuf_printf(out, "- Waiting for kernels of other ranks: %.1f ms (%.1f %%).\n",
                      (double)others / MS, percent(p, others));
}

/* More than what the smooth change from one regime to the other leaves when the host is twice as fast. */
static void say_launch(const struct prediction *p, struct strbuf *out)
{
    const char *sep = ": ";

    for (int ph = 0; ph < PHASE_N; ph++) {
        if (p->stretch[ph] < 1.05)
            continue;
        if (sep[0] == ':')
            strbuf_puts(out, "- Launch-bound: the host is slower than the GPU in layers");
        strbuf_printf(out, "%s%s takes %.2f times its kernels' own time", sep,
                      phase_name((enum phase)ph), p->stretch[ph]);
        sep = ", ";
    }
    if (sep[0] == ',')
        strbuf_puts(out, ".\n");
}

static void say_limit(const struct evaluation *x, struct strbuf *out)
{
    const struct prediction *p = &x->p;
    int link = RESOURCE_NVLINK_TX;

    for (int r = RESOURCE_NVLINK_TX; r < RESOURCE_N; r++)
        if (p->busy[r] > p->busy[link])
            link = r;
    strbuf_printf(out, "- Limited by: %s. Busiest: %s, %.1f %% of the step", x->bottleneck,
                  evaluate_resource_name(p->bottleneck), 100 * p->busy[p->bottleneck]);
    if (p->busy[link] > 0 && link != (int)p->bottleneck)
        strbuf_printf(out, "; busiest link: %s, %.1f %%",
                      evaluate_resource_name((enum sim_resource)link), 100 * p->busy[link]);
    strbuf_puts(out, ".\n");
}

static void say_step(const struct evaluation *x, struct strbuf *out)
{
    const struct prediction *p = &x->p;

    say_kernels(p, out);
    say_launch(p, out);
    say_waiting(p, out);
    strbuf_printf(out, "- The optimizer's phase: %.1f ms (%.1f %%), %.1f of them its kernels.\n",
                  (double)p->optimizer_ps / MS, percent(p, p->optimizer_ps),
                  (double)p->time_ps[TIME_OPTIMIZER] / MS);
    say_limit(x, out);
    strbuf_printf(out, "- Memory: %.1f of %.1f GiB on the fullest rank%s.\n",
                  (double)p->memory.driver_bytes / 0x1p30,
                  (double)x->plan->cluster.device.memory_bytes / 0x1p30,
                  x->fits ? "" : ": it does not fit");
}

/* ---- changes ---- */

static const struct table_col change_cols[] = {
    {"option", "change", TABLE_TEXT, 0, TABLE_AUTO},
    {"step_ms", "step ms", TABLE_FIXED, 1, TABLE_AUTO},
    {"gain_ms", "gain ms", TABLE_FIXED, 1, TABLE_AUTO},
    {"gain_percent", "gain %", TABLE_FIXED, 1, TABLE_AUTO},
    {"tokens_per_s_per_gpu", "tok/s/GPU", TABLE_FIXED, 0, TABLE_AUTO},
    {"memory_gib", "GiB", TABLE_GIB, 1, TABLE_AUTO},
    {"fits", "fits", TABLE_BOOL, 0, TABLE_AUTO},
    {"what_if", NULL, TABLE_BOOL, 0, TABLE_AUTO},
    {"note", "note", TABLE_TEXT, 0, TABLE_AUTO},
    {"failed", NULL, TABLE_TEXT, 0, TABLE_AUTO},
};

static void fill(const struct explanation *x, uint32_t n, struct table *t)
{
    table_init(t, change_cols, sizeof(change_cols) / sizeof(change_cols[0]));
    for (uint32_t i = 0; i < n; i++) {
        const struct explain_change *c = &x->list[i];

        table_row(t);
        table_set_str(t, "option", c->option);
        table_set_bool(t, "what_if", c->what_if);
        table_set_str(t, "note", c->note);
        table_set_str(t, "failed", c->failed);
        if (c->failed)
            continue;
        table_set_double(t, "step_ms", (double)c->step_ps / MS);
        table_set_double(t, "gain_ms", c->gain_ms);
        table_set_double(t, "gain_percent", c->gain_percent);
        table_set_double(t, "tokens_per_s_per_gpu", c->tokens_per_s_per_gpu);
        table_set_u64(t, "memory_gib", c->memory_bytes);
        table_set_bool(t, "fits", c->fits);
    }
}

static void say_rest(const struct explanation *x, struct strbuf *out)
{
    const char *sep = "Also tried: ";

    for (uint32_t i = x->n_best; i < x->n; i++) {
        const struct explain_change *c = &x->list[i];

        if (c->failed)
            continue;
        strbuf_printf(out, "%s%s (%+.1f %%%s)", sep, c->option,
                      fabs(c->gain_percent) < 0.05 ? 0 : c->gain_percent, /* no -0.0 */
                      c->fits ? "" : ", does not fit");
        sep = (i - x->n_best) % 3 == 2 ? ",\n  " : ", ";
    }
    if (strcmp(sep, "Also tried: ") != 0)
        strbuf_puts(out, ".\n");
}

void explain_print(const struct explanation *x, enum table_format f, struct strbuf *out)
{
    bool fits = x->base->fits;
    struct table t;

    say_step(x->base, out);
    strbuf_puts(out, "\n");
    if (!x->n_best) {
        strbuf_printf(out, "None of %u changes %s.\n", x->n,
                      fits ? "gains time and fits" : "needs less memory");
    } else {
        strbuf_printf(out,
                      "What %s (%u changes simulated, one at a time; gain: of the time that "
                      "this step's tokens take):\n\n",
                      fits ? "would help most" : "would make it fit, or come closest", x->n);
        fill(x, x->n_best, &t);
        table_print(&t, f, out);
        table_release(&t);
        strbuf_puts(out, "\n");
    }
    say_rest(x, out);
}

cJSON *explain_json(const struct explanation *x)
{
    const struct prediction *p = &x->base->p;
    cJSON *doc = json_new_object(), *o, *limit;
    struct table t;

    o = json_add_object(doc, "kernels_ms");
    for (int k = TIME_GEMM; k <= TIME_OPTIMIZER; k++)
        json_add_double(o, time_category_name((enum time_category)k), (double)p->time_ps[k] / MS);
    o = json_add_object(doc, "waiting_ms");
    for (int k = 0; k < COLL_N; k++)
        if (exposed_ps(p, (enum coll_kind)k)) {
            cJSON *kind = json_add_object(o, coll_kind_name((enum coll_kind)k));

            for (int ph = 0; ph < PHASE_N; ph++)
                json_add_double(kind, phase_name((enum phase)ph),
                                (double)p->exposed_ps[ph][k] / MS);
        }
    json_add_double(doc, "waiting_for_ranks_ms", (double)others_ps(p) / MS);
    o = json_add_object(doc, "launch_stretch");
    for (int ph = 0; ph < PHASE_N; ph++)
        json_add_double(o, phase_name((enum phase)ph), p->stretch[ph]);
    limit = json_add_object(doc, "limit");
    json_add_str(limit, "resource", sim_resource_name(p->bottleneck));
    json_add_double(limit, "busy", p->busy[p->bottleneck]);
    json_add_str(limit, "words", x->base->bottleneck);
    json_add_u64(doc, "best", x->n_best);
    fill(x, x->n, &t);
    json_add_tree(doc, "changes", table_to_json(&t));
    table_release(&t);
    return doc;
}
