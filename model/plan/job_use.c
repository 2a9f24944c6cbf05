/* What rows of job_options.c say of an option beside its values: who has a use for it, what it
 * contradicts, and what it comes to. */
#include "model/plan/job_rows.h"

#include "core/num.h"
#include "model/plan/frameworks.h"
#include "model/plan/optimizers.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- who has a use for it ---- */

static struct job_text because(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static struct job_text because(const char *fmt, ...)
{
    struct job_text r;
    va_list args;

    va_start(args, fmt);
    vsnprintf(r.s, sizeof(r.s), fmt, args);
    va_end(args);
    return r;
}

static const struct job_text used = {""};

static const struct optimizer_row *row_of(const struct job_use *u)
{
    return optimizer_row(u->job->optimizer);
}

struct job_text job_use_always(const struct job_use *u)
{
    (void)u;
    return used;
}

struct job_text job_use_owners(const struct job_use *u)
{
    if (!row_of(u)->matrices)
        return because("no layout here has owners of matrices under %s", row_of(u)->name);
    return u->strategy == STRATEGY_OWNER ? used : because("no layout here has owners");
}

struct job_text job_use_gathered_params(const struct job_use *u)
{
    return u->gathers_params ? used : because("no layout here gathers parameters");
}

struct job_text job_use_buckets(const struct job_use *u)
{
    return u->has_buckets ? used
                          : because("only ddp, zero1 and zero2, without owners, reduce in buckets");
}

struct job_text job_use_newton_schulz(const struct job_use *u)
{
    return row_of(u)->newton_schulz ? used
                                    : because("%s has no Newton-Schulz steps", row_of(u)->name);
}

struct job_text job_use_symmetric_newton_schulz(const struct job_use *u)
{
    if (!row_of(u)->newton_schulz)
        return because("%s has no Newton-Schulz products", row_of(u)->name);
    return u->strategy != STRATEGY_STOCK ? used
                                         : because("stock's products are cut, and not symmetric");
}

struct job_text job_use_batched_newton_schulz(const struct job_use *u)
{
    if (!row_of(u)->newton_schulz)
        return job_use_newton_schulz(u);
    return u->strategy == STRATEGY_OWNER || u->strategy == STRATEGY_REPLICATED
               ? used
               : because("only whole matrices, under ddp or owners, are batched");
}

struct job_text job_use_adamw(const struct job_use *u)
{
    const struct optimizer_row *rest = optimizer_row(optimizer_of_rest(u->job->optimizer));

    return rest->each.operations ? used
                                 : because("%s updates all tensors, in one kernel", rest->name);
}

struct job_text job_use_attention(const struct job_use *u)
{
    return model_has_attention(u->model) ? used : because("'%.150s' has none", u->model->name);
}

struct job_text job_use_head(const struct job_use *u)
{
    return model_has_head(u->model) ? used : because("'%.150s' has no head", u->model->name);
}

struct job_text job_use_sync_last(const struct job_use *u)
{
    return u->may_sync_last
               ? used
               : because("only layouts that cut parameters and gradients can leave out reductions");
}

struct job_text job_use_several_ranks(const struct job_use *u)
{
    return u->one_rank ? because("one GPU has nothing to reduce") : used;
}

struct job_text job_use_tensor_parallel(const struct job_use *u)
{
    return u->job->tp > 1 ? used : because("one GPU has each layer's products (--tp 1)");
}

struct job_text job_use_refresh(const struct job_use *u)
{
    return u->refreshes ? used
                        : because("only zero1 and zero2 gather updated parameters beside forward");
}

struct job_text job_option_unused(const struct job_option *o, const struct job_use *u)
{
    return o->use ? o->use(u) : because("nothing in this version uses it");
}

/* ---- contradictions ---- */

int job_check_master(const struct job *j, const struct cluster *c, struct err *e)
{
    (void)c;
    return j->master_weights && j->param_dtype == DTYPE_FP32
               ? err_set(e, ERR_INVALID, "parameters are fp32 already")
               : 0;
}

int job_check_fp8(const struct job *j, const struct cluster *c, struct err *e)
{
    if (j->fp8 && c->device.fp8_share <= 0)
        return err_set(e, ERR_INVALID, "'%.60s' has no fp8 (device.fp8_share of '%.100s')",
                       c->device.name, c->name);
    return j->fp8 && j->param_dtype == DTYPE_FP32
               ? err_set(e, ERR_INVALID, "parameters are fp32, expected bf16 or fp16")
               : 0;
}

int job_check_overlap_reduce(const struct job *j, const struct cluster *c, struct err *e)
{
    (void)c;
    return j->overlap_reduce == OVERLAP_YES && framework_row(j->framework)->waits
               ? err_set(e, ERR_INVALID,
                         "'%s' waits for every reduction, so nothing runs beside one",
                         framework_name(j->framework))
               : 0;
}

static int one(uint32_t degree, const char *what, struct err *e)
{
    return degree == 1 ? 0
                       : err_set(e, ERR_UNSUPPORTED,
                                 "%s parallelism is not in this version; expected 1", what);
}

int job_check_tp(const struct job *j, const struct cluster *c, struct err *e)
{
    uint32_t node = cluster_nvlink_gpus(c), below = j->tp;

    while (node % below)
        below--;
    return node % j->tp ? err_set(e, ERR_INVALID,
                                  "tensor-parallel GPUs are neighbours on NVLink: %u do not divide "
                                  "the %u that it joins; nearest below: %u",
                                  j->tp, node, below)
                        : 0;
}

int job_check_data_ranks(const struct job *j, uint32_t gpus_per_node, struct err *e)
{
    if (j->gpus % j->tp)
        return err_set(e, ERR_INVALID, "--tp %u does not divide the %u GPUs of the job", j->tp,
                       j->gpus);
    if (gpus_per_node % j->tp)
        return err_set(e, ERR_UNSUPPORTED,
                       "--tp %u: tensor-parallel GPUs are of one node here, and %u do not divide "
                       "its %u",
                       j->tp, j->tp, gpus_per_node);
    return 0;
}

int job_check_pp(const struct job *j, const struct cluster *c, struct err *e)
{
    (void)c;
    return one(j->pp, "pipeline", e);
}

int job_check_ep(const struct job *j, const struct cluster *c, struct err *e)
{
    (void)c;
    return one(j->ep, "expert", e);
}

const struct job_option *job_contradiction(const struct job *j, const struct cluster *c,
                                           struct err *e)
{
    const struct job_option *o;
    size_t i = 0;

    while ((o = job_option_at(i)) && !(o->check && o->check(j, c, e)))
        i++;
    return o;
}

const struct job_option *job_not_run(const struct job *j)
{
    const struct job_option *o;

    for (size_t i = 0; (o = job_option_at(i)); i++) {
        if (o->exec == EXEC_ALL || o->exec_ignores || job_option_is_neutral(o, j))
            continue;
        if (job_option_get(o, j) >= 32 || !(o->exec >> job_option_get(o, j) & 1))
            break;
    }
    return o;
}

/* ---- what a job comes to ---- */

/* As Megatron does, the default bucket grows with the data ranks: a ring's latency does too. */
uint64_t job_default_bucket(const struct job *j)
{
    return num_max(UINT64_C(64) << 20, (uint64_t)job_data_ranks(j) << 20);
}

uint64_t job_written_gather(const struct plan *p)
{
    return plan_gathers_as_framework(p) ? ALGO_N : p->job.gather;
}

void job_set_gather(struct job *j, uint64_t value)
{
    j->gather_as_framework = value == ALGO_N;
    j->gather = value == ALGO_N ? ALGO_AUTO : (enum coll_algo)value;
}

void job_seen_attention(const struct plan *p, cJSON *to, const char *key)
{
    json_add_str(to, key, job_unfused_attention(&p->job, &p->model) ? "unfused" : "one kernel");
}

void job_seen_loss(const struct plan *p, cJSON *to, const char *key)
{
    json_add_str(to, key,
                 p->job.loss == LOSS_FUSED ? "fused"
                 : job_eager_loss(&p->job) ? "eager"
                                           : "the framework's");
}

void job_seen_overlap_reduce(const struct plan *p, cJSON *to, const char *key)
{
    json_add_bool(to, key, !job_reduces_after(&p->job));
}

/* Of one micro-batch, every is the last. */
void job_seen_grad_sync(const struct plan *p, cJSON *to, const char *key)
{
    if (p->job.grad_accum > 1)
        plan_add_option(to, p, job_option("grad-sync"));
    (void)key;
}

void job_seen_shard_group(const struct plan *p, cJSON *to, const char *key)
{
    if (p->job.shard_group == 0 || p->job.shard_group == plan_data_ranks(p))
        json_add_str(to, key, "all");
    else
        json_add_u64(to, key, p->job.shard_group);
}
