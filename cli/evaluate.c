#include "cli/evaluate.h"

#include "cli/step_band.h"
#include "core/units.h"
#include "layouts/layout.h"
#include "model/graph/graph.h"
#include "model/plan/optimizers.h"

#include <math.h>
#include <string.h>

static const double MS = 1e9; /* ps */

const char *evaluate_resource_name(enum sim_resource r)
{
    static const char *const names[RESOURCE_N] = {
        "GPU compute", "HBM",       "NVLink",    "NVLink",   "NIC",  "NIC", "PCIe",
        "PCIe",        "PCIe root", "PCIe root", "CPU link", "leaf", "leaf"};

    return names[r];
}

/* Most of a step is waiting: for which communication, and what holds that. */
static void describe_wait(const struct prediction *p, char *to, size_t n)
{
    int64_t sum[TIME_N] = {0}, ranks = 0;
    int kind = TIME_GATHER, limit = 0;
    double step = (double)p->step_ps;
    size_t len;

    for (int k = 0; k < TIME_N; k++) {
        ranks += p->wait_ps[k][LIMIT_RANKS];
        for (int l = 0; l < LIMIT_RANKS; l++)
            sum[k] += p->wait_ps[k][l];
        kind = sum[k] > sum[kind] ? k : kind;
    }
    if (ranks > sum[kind]) {
        snprintf(to, n, "other ranks %.0f %%", 100 * (double)ranks / step);
        return;
    }
    for (int l = 1; l < LIMIT_RANKS; l++)
        limit = p->wait_ps[kind][l] > p->wait_ps[kind][limit] ? l : limit;
    len = (size_t)snprintf(to, n, "%s %.0f %%: ", time_category_name((enum time_category)kind),
                           100 * (double)sum[kind] / step);
    if (limit >= RESOURCE_N)
        snprintf(to + len, n - len, "%s", sim_limit_name(limit));
    else if (2 * p->fan_out_ps[kind] > sum[kind])
        snprintf(to + len, n - len, "owner's %s", evaluate_resource_name((enum sim_resource)limit));
    else
        snprintf(to + len, n - len, "%s %.0f %%", evaluate_resource_name((enum sim_resource)limit),
                 100 * p->busy[limit]);
}

/* What the slowest rank's step is spent on: kernels, or waiting. */
static void describe_bottleneck(struct evaluation *x)
{
    const struct prediction *p = &x->p;

    if (2 * p->exposed_comm_ps <= p->step_ps)
        snprintf(x->bottleneck, sizeof(x->bottleneck), "GPU compute %.0f %%",
                 100 * (double)p->compute_ps / (double)p->step_ps);
    else
        describe_wait(p, x->bottleneck, sizeof(x->bottleneck));
}

const char *fit_name(enum fit f)
{
    static const char *const names[] = {"yes", "tight", "no"};

    return names[f];
}

static enum fit fit_of(uint64_t needs, uint64_t capacity)
{
    return 1.05 * (double)needs <= (double)capacity ? FIT_YES
           : needs <= capacity                      ? FIT_TIGHT
                                                    : FIT_NO;
}

int evaluate(struct plan *plan, const struct sim_options *o, struct arena *a,
             struct evaluation *out, struct err *e)
{
    const struct job *j = &plan->job;
    double tokens = (double)(j->seq_len * j->micro_batch) * (double)j->grad_accum, s;
    struct sim_options with = *o;
    struct framework_costs costs;

    memset(out, 0, sizeof(*out));
    out->plan = plan;
    if (!o->serial) { /* else as ballast exec runs it */
        costs = *framework_costs(j->framework);
        costs.unfused = job_unfused_attention(j, &plan->model);
        if (j->loss == LOSS_FUSED)
            costs.logit_bytes = 0;
        else if (j->loss == LOSS_EAGER)
            costs.logit_bytes = FRAMEWORK_EAGER_LOGIT_BYTES;
        if (j->cuda_graphs) {
            costs.graphs = true;
            costs.host_s = 0;
        }
        with.framework = &costs;
    }
    if (layout_lower(plan, a, &out->program, e) ||
        sim_predict_fastest(&out->program, &plan->cluster, &with, a, &out->p, e))
        return err_prefix(e, "layout '%s'", plan->layout_full);
    s = (double)out->p.step_ps / 1e12;
    out->tokens_per_s_per_gpu = tokens / s;
    out->mfu = graph_model_flops_per_token(&plan->model, j->seq_len, j->target_len) * tokens / s /
               plan->cluster.device.peak_flops;
    out->fit = fit_of(out->p.memory.driver_bytes, plan->cluster.device.memory_bytes);
    out->fits = out->fit == FIT_YES;
    out->balance = plan->flops_mean > 0 ? (double)plan->flops_max / plan->flops_mean : 1;
    describe_bottleneck(out);
    return 0;
}

static double simulated_s(void *ctx, const struct plan *plan)
{
    struct sim_options o = {0};
    struct evaluation x;
    struct plan copy = *plan;
    struct arena a;
    struct err e;
    double s = INFINITY;

    (void)ctx;
    arena_init(&a);
    if (!evaluate(&copy, &o, &a, &x, &e))
        s = (double)x.p.step_ps / 1e12;
    arena_release(&a);
    return s;
}

const struct planner_time evaluate_time = {simulated_s, NULL};

double evaluate_usd_per_mtok(const struct evaluation *x)
{
    return x->plan->job.price_per_gpu_hour / 3600 / x->tokens_per_s_per_gpu * 1e6;
}

/* How owner segments travelled, in `to`: "tree", a mixture as "ring+tree", the way of most bytes first. NULL without owners. */
static const char *owner_algorithm(const struct evaluation *x, char *to, size_t n)
{
    enum coll_algo most = x->p.gather_algo;
    size_t len;

    if (x->plan->strategy != STRATEGY_OWNER || most == ALGO_AUTO)
        return NULL;
    len = (size_t)snprintf(to, n, "%s", coll_algo_name(most));
    for (int k = ALGO_AUTO + 1; k < ALGO_N && len < n; k++)
        if (k != (int)most && x->p.gather_algos & 1u << k)
            len += (size_t)snprintf(to + len, n - len, "+%s", coll_algo_name((enum coll_algo)k));
    return to;
}

/* Who says how they travel. */
static const char *owner_choice(const struct evaluation *x)
{
    return x->plan->strategy != STRATEGY_OWNER || x->p.gather_algo == ALGO_AUTO ? NULL
           : plan_gathers_as_framework(x->plan)                                 ? "framework"
           : x->plan->job.gather == ALGO_AUTO                                   ? "auto"
                                                                                : "asked";
}

const struct table_col evaluate_cols[] = {
    {"layout", "layout", TABLE_TEXT, 0, TABLE_AUTO},
    {"layout_full", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"optimizer", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"nodes", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"gpus", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"step_ms", "step ms", TABLE_FIXED, 1, TABLE_AUTO},
    {"forward_ms", "forward", TABLE_FIXED, 1, TABLE_AUTO},
    {"backward_ms", "backward", TABLE_FIXED, 1, TABLE_AUTO},
    {"optimizer_ms", "optimizer", TABLE_FIXED, 1, TABLE_AUTO},
    {"exposed_comm_ms", "exposed", TABLE_FIXED, 1, TABLE_AUTO},
    {"memory_gib", "GiB", TABLE_GIB, 1, TABLE_AUTO},
    {"memory_alloc_gib", NULL, TABLE_GIB, 2, TABLE_AUTO},
    {"memory_min_gib", NULL, TABLE_GIB, 2, TABLE_AUTO},
    {"fits", NULL, TABLE_BOOL, 0, TABLE_AUTO},
    {"fit", "fits", TABLE_TEXT, 0, TABLE_AUTO},
    {"capacity_gib", NULL, TABLE_GIB, 2, TABLE_AUTO},
    {"mfu", NULL, TABLE_FIXED, 4, TABLE_AUTO},
    {"mfu_percent", "MFU %", TABLE_FIXED, 1, TABLE_AUTO},
    {"mfu_basis", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"tokens_per_s_per_gpu", "tok/s/GPU", TABLE_FIXED, 0, TABLE_AUTO},
    {"bytes_per_rank_intra", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"bytes_per_rank_inter", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"bytes_per_rank_intra_recv", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"bytes_per_rank_inter_recv", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"optimizer_bytes", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"ns_flops_max", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"ns_flops_mean", NULL, TABLE_FIXED, 0, TABLE_AUTO},
    {"balance", NULL, TABLE_FIXED, 2, TABLE_AUTO},
    {"idle_ranks", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"empty_ranks", NULL, TABLE_INT, 0, TABLE_AUTO},
    {"held_balance", NULL, TABLE_FIXED, 2, TABLE_AUTO},
    {"gather_algorithm", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"gather_choice", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"error_percent", "+-%", TABLE_FIXED, 0, TABLE_AUTO},
    {"bottleneck", "limited by", TABLE_TEXT, 0, TABLE_AUTO},
    {"usd_per_million_tokens", NULL, TABLE_FIXED, 3, TABLE_AUTO},
    {"error_basis", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"error_missing", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"peak_at", NULL, TABLE_TEXT, 0, TABLE_AUTO},
    {"rank_classes", NULL, TABLE_INT, 0, TABLE_AUTO},
    /* objects last: in csv their commas stand in nobody's way */
    {"memory_parts", NULL, TABLE_JSON, 0, TABLE_AUTO},
    {"time_ms", NULL, TABLE_JSON, 0, TABLE_AUTO},
    {"path_ms", NULL, TABLE_JSON, 0, TABLE_AUTO},
    {"wait_ms", NULL, TABLE_JSON, 0, TABLE_AUTO},
};
const size_t evaluate_cols_n = sizeof(evaluate_cols) / sizeof(evaluate_cols[0]);

static cJSON *memory_parts(const struct evaluation *x)
{
    cJSON *o = json_new_object();

    for (int i = 0; i < MEM_PART_N; i++)
        json_add_double(o, mem_part_name((enum mem_part)i), (double)x->p.memory.parts[i] / 0x1p30);
    return o;
}

static cJSON *by_category(const int64_t *ps)
{
    cJSON *o = json_new_object();

    for (int i = 0; i < TIME_N; i++)
        json_add_double(o, time_category_name((enum time_category)i), (double)ps[i] / MS);
    return o;
}

/* Of what is waited for, what holds it: only what there is. */
static cJSON *by_limit(const struct prediction *p)
{
    cJSON *o = json_new_object();

    for (int k = 0; k < TIME_N; k++) {
        cJSON *of = NULL;

        for (int l = 0; l < LIMIT_N; l++) {
            if (!p->wait_ps[k][l])
                continue;
            of = of ? of : json_add_object(o, time_category_name((enum time_category)k));
            json_add_double(of, sim_limit_name(l), (double)p->wait_ps[k][l] / MS);
        }
    }
    return o;
}

void evaluate_row(struct table *t, const struct evaluation *x)
{
    const struct prediction *p = &x->p;
    const struct plan *plan = x->plan;
    char via[64];
    struct step_band band = step_band(plan);
    struct layout_held held = layout_held(plan);

    table_row(t);
    table_set_str(t, "layout", plan->job.layout);
    table_set_str(t, "layout_full", plan->layout_full);
    table_set_str(t, "optimizer", optimizer_name(plan->job.optimizer));
    table_set_u64(t, "nodes", plan->job.nodes);
    table_set_u64(t, "gpus", plan->job.gpus);
    table_set_double(t, "step_ms", (double)p->step_ps / MS);
    table_set_double(t, "forward_ms", (double)p->forward_ps / MS);
    table_set_double(t, "backward_ms", (double)p->backward_ps / MS);
    table_set_double(t, "optimizer_ms", (double)p->optimizer_ps / MS);
    table_set_double(t, "exposed_comm_ms", (double)p->exposed_comm_ps / MS);
    table_set_u64(t, "memory_gib", p->memory.driver_bytes);
    table_set_u64(t, "memory_alloc_gib", p->memory.peak_bytes);
    table_set_u64(t, "memory_min_gib", p->memory.driver_min_bytes);
    table_set_json(t, "memory_parts", memory_parts(x));
    table_set_bool(t, "fits", x->fits);
    table_set_str(t, "fit", fit_name(x->fit));
    table_set_u64(t, "capacity_gib", plan->cluster.device.memory_bytes);
    table_set_double(t, "mfu", x->mfu);
    table_set_double(t, "mfu_percent", 100 * x->mfu);
    table_set_str(t, "mfu_basis",
                  "6 FLOP per parameter and token; attention not halved for causal");
    table_set_double(t, "tokens_per_s_per_gpu", x->tokens_per_s_per_gpu);
    table_set_u64(t, "bytes_per_rank_intra", p->bytes_max.sent_intra);
    table_set_u64(t, "bytes_per_rank_inter", p->bytes_max.sent_inter);
    table_set_u64(t, "bytes_per_rank_intra_recv", p->bytes_max.recv_intra);
    table_set_u64(t, "bytes_per_rank_inter_recv", p->bytes_max.recv_inter);
    table_set_u64(t, "optimizer_bytes", p->optimizer_bytes);
    table_set_u64(t, "ns_flops_max", plan->flops_max);
    table_set_double(t, "ns_flops_mean", plan->flops_mean);
    table_set_double(t, "balance", x->balance);
    table_set_u64(t, "idle_ranks", evaluate_idle_ranks(plan));
    table_set_u64(t, "empty_ranks", held.empty);
    if (held.mean > 0)
        table_set_double(t, "held_balance", (double)held.most / held.mean);
    table_set_str(t, "gather_algorithm", owner_algorithm(x, via, sizeof(via)));
    table_set_str(t, "gather_choice", owner_choice(x));
    table_set_str(t, "bottleneck", x->bottleneck);
    if (plan->job.price_per_gpu_hour > 0)
        table_set_double(t, "usd_per_million_tokens", evaluate_usd_per_mtok(x));
    table_set_double(t, "error_percent", band.percent);
    table_set_str(t, "error_basis", band.basis);
    table_set_str(t, "error_missing", *band.missing ? band.missing : NULL);
    table_set_json(t, "time_ms", by_category(p->time_ps));
    table_set_json(t, "path_ms", by_category(p->path_ps));
    table_set_json(t, "wait_ms", by_limit(p));
    table_set_str(t, "peak_at", x->program.ops[p->memory.at.op].name);
    table_set_u64(t, "rank_classes", p->n_classes);
}

const struct table_col evaluate_memory_cols[] = {
    {"layout", "GiB", TABLE_TEXT, 0, TABLE_AUTO},
    {"params", "params", TABLE_GIB, 1, TABLE_AUTO},
    {"grads", "grads", TABLE_GIB, 1, TABLE_AUTO},
    {"states", "states", TABLE_GIB, 1, TABLE_AUTO},
    {"master", "master", TABLE_GIB, 1, TABLE_AUTO},
    {"activations", "activ.", TABLE_GIB, 1, TABLE_AUTO},
    {"gathered", "gathered", TABLE_GIB, 1, TABLE_AUTO},
    {"workspace", "worksp.", TABLE_GIB, 1, TABLE_AUTO},
    {"logits", "logits", TABLE_GIB, 1, TABLE_AUTO},
    {"buffers", "buffers", TABLE_GIB, 1, TABLE_AUTO},
    {"context", "context", TABLE_GIB, 1, TABLE_AUTO},
    {"fragmentation", "frag.", TABLE_GIB, 1, TABLE_AUTO},
    {"at", "peak in", TABLE_TEXT, 0, TABLE_AUTO},
};
const size_t evaluate_memory_cols_n =
    sizeof(evaluate_memory_cols) / sizeof(evaluate_memory_cols[0]);

void evaluate_memory_row(struct table *t, const struct evaluation *x)
{
    table_row(t);
    table_set_str(t, "layout", x->plan->job.layout);
    for (int i = 0; i < MEM_PART_N; i++)
        table_set_u64(t, mem_part_name((enum mem_part)i), x->p.memory.parts[i]);
    table_set_u64(t, "fragmentation",
                  x->p.memory.driver_bytes - x->p.memory.peak_bytes -
                      x->p.memory.parts[MEM_CONTEXT]);
    table_set_str(t, "at", phase_name(x->program.ops[x->p.memory.at.op].phase));
}

const struct table_col evaluate_time_cols[] = {
    {"layout", "ms", TABLE_TEXT, 0, TABLE_AUTO},
    {"gemm", "GEMM", TABLE_FIXED, 1, TABLE_AUTO},
    {"attention", "attn.", TABLE_FIXED, 1, TABLE_AUTO},
    {"elementwise", "elem.", TABLE_FIXED, 1, TABLE_AUTO},
    {"optimizer", "optim.", TABLE_FIXED, 1, TABLE_AUTO},
    {"gather", "gather", TABLE_FIXED, 1, TABLE_AUTO},
    {"reduce", "reduce", TABLE_FIXED, 1, TABLE_AUTO},
    {"refresh", "refresh", TABLE_FIXED, 1, TABLE_AUTO},
    {"intra", "GB: node", TABLE_FIXED, 1, TABLE_AUTO},
    {"inter", "between", TABLE_FIXED, 1, TABLE_AUTO},
    {"step", "step", TABLE_FIXED, 1, TABLE_AUTO},
    {"balance", "bal.", TABLE_FIXED, 2, TABLE_AUTO},
    {"via", "via", TABLE_TEXT, 0, TABLE_AUTO},
};
const size_t evaluate_time_cols_n = sizeof(evaluate_time_cols) / sizeof(evaluate_time_cols[0]);

void evaluate_time_row(struct table *t, const struct evaluation *x)
{
    const char *choice = owner_choice(x);
    char all[64];
    const char *via = owner_algorithm(x, all, sizeof(all));

    table_row(t);
    table_set_str(t, "layout", x->plan->job.layout);
    for (int i = 0; i < TIME_N; i++)
        table_set_double(t, time_category_name((enum time_category)i),
                         (double)x->p.time_ps[i] / MS);
    table_set_double(t, "intra", (double)x->p.bytes_max.sent_intra / 1e9);
    table_set_double(t, "inter", (double)x->p.bytes_max.sent_inter / 1e9);
    table_set_double(t, "step", (double)x->p.optimizer_bytes / 1e9);
    table_set_double(t, "balance", x->balance);
    table_set_str(t, "via",
                  choice && !strcmp(choice, "framework") ? choice
                  : via && strchr(via, '+')              ? "mixed"
                                                         : via);
}

uint32_t evaluate_idle_ranks(const struct plan *plan)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < plan->world; r++)
        n += plan->load_flops[r] == 0;
    return plan->flops_max ? n : 0;
}

/* A fuller rank than this times the mean, or an emptier one than that, is worth a word. */
static const double FULL = 1.05, EMPTY = 0.5;

void evaluate_say_uneven(const struct plan *plan, struct strbuf *out)
{
    struct layout_held held = layout_held(plan);
    uint32_t shards = placement_parts(plan, STATE);

    if ((double)held.most <= FULL * held.mean && (double)held.least >= EMPTY * held.mean)
        return;
    strbuf_printf(out, "%s cuts unevenly over %s%u ranks: rank %u holds %.2f times the mean, ",
                  plan->job.layout, shards < plan->world ? "groups of " : "", shards, held.fullest,
                  (double)held.most / held.mean);
    if (held.empty)
        strbuf_printf(out, "%u of %u hold nothing.\n", held.empty, plan->world);
    else
        strbuf_printf(out, "rank %u %.2f times.\n", held.emptiest, (double)held.least / held.mean);
}

void evaluate_title(const struct plan *plan, struct strbuf *out)
{
    static const char *const recomputes[] = {"no", "selective", "full"};
    const struct job *j = &plan->job;

    strbuf_printf(out, "%s (%s parameters) on %u x %s: %u GPU%s %s\n", plan->model.name,
                  units_show_count(plan->model.total_params).s, j->nodes, plan->cluster.name,
                  j->gpus, j->gpus == 1 ? "" : "s", plan->cluster.device.name);
    strbuf_printf(out, "%s", optimizer_name(j->optimizer));
    if (optimizer_row(j->optimizer)->newton_schulz)
        strbuf_printf(out, " (%u NS steps)", j->ns_steps);
    strbuf_printf(out, ", %llu", (unsigned long long)j->seq_len);
    if (j->target_len)
        strbuf_printf(out, " + %llu", (unsigned long long)j->target_len);
    strbuf_printf(out,
                  " tokens x %llu x %llu a GPU; %s parameters, %s gradients, %s states%s; %s "
                  "recomputation\n",
                  (unsigned long long)j->micro_batch, (unsigned long long)j->grad_accum,
                  dtype_name(j->param_dtype), dtype_name(j->grad_dtype), dtype_name(j->state_dtype),
                  j->master_weights ? " + master" : "", recomputes[j->recompute]);
    if (j->price_per_gpu_hour > 0)
        strbuf_printf(out, "%.4g $ a GPU and hour\n", j->price_per_gpu_hour);
}
