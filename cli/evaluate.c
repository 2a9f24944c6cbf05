#include "cli/evaluate.h"

#include "core/units.h"
#include "layouts/layout.h"
#include "model/graph/graph.h"
#include "model/plan/optimizers.h"

#include <math.h>
#include <string.h>

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
    tokens /= j->tp; /* tensor-parallel GPUs take the same ones */
    out->tokens_per_s_per_gpu = tokens / s;
    out->mfu = graph_model_flops_per_token(plan_whole(plan), j->seq_len, j->target_len) * tokens /
               s / plan->cluster.device.peak_flops;
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
                  plan->job.layout, shards < plan_data_ranks(plan) ? "groups of " : "", shards,
                  held.fullest, (double)held.most / held.mean);
    if (held.empty)
        strbuf_printf(out, "%u of %u hold nothing.\n", held.empty, plan->world);
    else
        strbuf_printf(out, "rank %u %.2f times.\n", held.emptiest, (double)held.least / held.mean);
}

void evaluate_title(const struct plan *plan, struct strbuf *out)
{
    static const char *const recomputes[] = {"no", "selective", "full"};
    const struct job *j = &plan->job;
    char taker[64] = "a GPU"; /* of a micro-batch */

    if (j->tp > 1)
        snprintf(taker, sizeof(taker), "each %u GPUs (tensor%s parallel)", j->tp,
                 j->sequence_parallel ? " and sequence" : "");
    strbuf_printf(out, "%s (%s parameters) on %u x %s: %u GPU%s %s\n", plan->model.name,
                  units_show_count(plan_whole(plan)->total_params).s, j->nodes, plan->cluster.name,
                  j->gpus, j->gpus == 1 ? "" : "s", plan->cluster.device.name);
    strbuf_printf(out, "%s", optimizer_name(j->optimizer));
    if (optimizer_row(j->optimizer)->newton_schulz)
        strbuf_printf(out, " (%u NS steps)", j->ns_steps);
    strbuf_printf(out, ", %llu", (unsigned long long)j->seq_len);
    if (j->target_len)
        strbuf_printf(out, " + %llu", (unsigned long long)j->target_len);
    strbuf_printf(out,
                  " tokens x %llu x %llu %s; %s parameters, %s gradients, %s states%s; %s "
                  "recomputation\n",
                  (unsigned long long)j->micro_batch, (unsigned long long)j->grad_accum, taker,
                  dtype_name(j->param_dtype), dtype_name(j->grad_dtype), dtype_name(j->state_dtype),
                  j->master_weights ? " + master" : "", recomputes[j->recompute]);
    if (j->price_per_gpu_hour > 0)
        strbuf_printf(out, "%.4g $ a GPU and hour\n", j->price_per_gpu_hour);
}
