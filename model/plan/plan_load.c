/* Reads a plan file back, into the same struct plan: the model goes through its builder, everything that can be computed
 * from the rest is computed and compared. What only layouts/ knows (rules, loads) is layout_check()'s. */
#include "model/plan/plan_load.h"

#include "core/num.h"
#include "model/plan/optimizers.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- values ---- */

int plan_as_count(const struct json_at *at, uint64_t *out, struct err *e)
{
    const char *s;
    uint64_t v = 0;

    if (!cJSON_IsString(at->node))
        return json_as_u64(at, 0, UINT64_MAX, out, e);
    if (json_as_str(at, &s, e))
        return -1;
    for (const char *d = s; *d; d++)
        if (*d < '0' || *d > '9' || !num_mul(v, 10, &v) || !num_add(v, (uint64_t)(*d - '0'), &v))
            return json_err(at, ERR_INVALID, e, "is '%.30s', expected a whole number below 2^63",
                            s);
    if (v <= JSON_EXACT)
        return json_err(at, ERR_INVALID, e, "is '%.30s', expected text only above 2^53", s);
    *out = v;
    return 0;
}

int plan_count(const struct json_at *at, const char *key, uint64_t *out, struct err *e)
{
    struct json_at m;

    return json_get(at, key, &m, e) ? -1 : plan_as_count(&m, out, e);
}

int plan_expect(const struct json_at *at, const char *key, uint64_t want, struct err *e)
{
    struct json_at m;
    uint64_t v;

    if (json_get(at, key, &m, e) || plan_as_count(&m, &v, e))
        return -1;
    if (v != want)
        return json_err(&m, ERR_INVALID, e,
                        "is %" PRIu64 ", but the rest of the file says %" PRIu64, v, want);
    return 0;
}

int plan_u32(const struct json_at *at, const char *key, uint32_t lo, uint32_t hi, uint32_t *out,
             struct err *e)
{
    uint64_t v;

    if (json_u64(at, key, lo, hi, &v, e))
        return -1;
    *out = (uint32_t)v;
    return 0;
}

int plan_text(struct plan_reader *r, const struct json_at *at, const char *key, const char **out)
{
    const char *s;

    if (json_str(at, key, &s, r->e))
        return -1;
    *out = arena_strdup(r->a, s);
    return 0;
}

/* ---- job ---- */

static int read_job(struct plan_reader *r, const struct json_at *top)
{
    struct job *j = &r->p->job;
    struct err *e = r->e;
    struct json_at at, mesh;
    int choice, gather;

    if (json_object(top, "job", &at, e) ||
        KEYS_BUT("mesh", &at, e, "nodes", "gpus", "layout", "optimizer", "ns_steps", "seq_len",
                 "target_len", "micro_batch", "grad_accum", "param_dtype", "grad_dtype",
                 "state_dtype", "master_weights", "recompute", "gather", "prefetch", "bucket",
                 "planner", "objective", "mesh", "shard_group", "tp", "pp", "ep", "framework",
                 "attention", "loss", "adamw", "ns_batch", "ns_kernels", "cuda_graphs", "fp8",
                 "overlap_reduce", "overlap_refresh", "grad_sync", "reshard", "price") ||
        plan_u32(&at, "nodes", 1, CLUSTER_MAX_NODES, &j->nodes, e) ||
        plan_u32(&at, "gpus", 1, CLUSTER_MAX_RANKS, &j->gpus, e) ||
        plan_text(r, &at, "layout", &j->layout) ||
        ENUM(&at, "optimizer", optimizer_names, j->optimizer, e) ||
        plan_u32(&at, "ns_steps", 0, 1000, &j->ns_steps, e) ||
        json_u64(&at, "seq_len", 1, MAX_SIZE, &j->seq_len, e) ||
        json_u64_or(&at, "target_len", 1, MAX_SIZE, 0, &j->target_len, e) ||
        json_u64(&at, "micro_batch", 1, MAX_SIZE, &j->micro_batch, e) ||
        json_u64(&at, "grad_accum", 1, MAX_SIZE, &j->grad_accum, e) ||
        ENUM(&at, "param_dtype", plan_dtypes, j->param_dtype, e) ||
        ENUM(&at, "grad_dtype", plan_dtypes, j->grad_dtype, e) ||
        ENUM(&at, "state_dtype", plan_dtypes, j->state_dtype, e) ||
        json_bool(&at, "master_weights", &j->master_weights, e) ||
        ENUM(&at, "recompute", plan_recomputes, j->recompute, e) ||
        ENUM(&at, "gather", plan_algos, gather, e) ||
        plan_u32(&at, "prefetch", 0, MAX_UNITS, &j->prefetch, e) ||
        json_u64(&at, "bucket", 0, JSON_EXACT, &j->bucket_bytes, e) ||
        plan_text(r, &at, "planner", &j->planner) ||
        plan_text(r, &at, "objective", &j->objective) ||
        plan_u32(&at, "shard_group", 0, CLUSTER_MAX_RANKS, &j->shard_group, e) ||
        plan_u32(&at, "tp", 1, 1, &j->tp, e) || plan_u32(&at, "pp", 1, 1, &j->pp, e) ||
        plan_u32(&at, "ep", 1, 1, &j->ep, e) ||
        ENUM(&at, "framework", plan_frameworks, j->framework, e) ||
        ENUM_OR(&at, "attention", plan_attentions, ATTENTION_AUTO, j->attention, e) ||
        ENUM_OR(&at, "loss", plan_losses, LOSS_AUTO, j->loss, e) ||
        ENUM_OR(&at, "adamw", plan_adamw, ADAMW_FUSED, j->adamw, e) ||
        json_u64_or(&at, "ns_batch", 0, UINT64_C(1000000000000), 0, &j->ns_batch, e) ||
        ENUM_OR(&at, "ns_kernels", plan_ns_kernels, 0, j->ns_symmetric, e) ||
        json_bool_or(&at, "cuda_graphs", false, &j->cuda_graphs, e) ||
        json_bool_or(&at, "fp8", false, &j->fp8, e) ||
        ENUM_OR(&at, "grad_sync", plan_grad_syncs, 0, j->sync_last, e) ||
        ENUM_OR(&at, "reshard", plan_reshards, 0, j->reshard_never, e) ||
        ENUM_OR(&at, "overlap_reduce", plan_overlaps, OVERLAP_AUTO, j->overlap_reduce, e) ||
        json_bool_or(&at, "overlap_refresh", false, &j->overlap_refresh, e) ||
        json_double(&at, "price", 0, 1e6, &j->price_per_gpu_hour, e))
        return -1;
    j->gather_as_framework = gather == ALGO_N;
    j->gather = gather == ALGO_N ? ALGO_AUTO : (enum coll_algo)gather;
    if (j->param_dtype > DTYPE_FP16 || j->grad_dtype > DTYPE_FP16 || j->state_dtype > DTYPE_FP16)
        return json_err(&at, ERR_INVALID, e, "trains in %s, %s, %s, expected fp32, bf16 or fp16",
                        dtype_name(j->param_dtype), dtype_name(j->grad_dtype),
                        dtype_name(j->state_dtype));
    if (j->param_dtype == DTYPE_FP32 && j->master_weights)
        return json_err(&at, ERR_INVALID, e,
                        "has master_weights, but its parameters are fp32 already");
    if (json_opt(&at, "mesh", &mesh))
        return json_err(&at, ERR_UNSUPPORTED, e,
                        "has a mesh of its own; this version has the layout's");
    if (j->shard_group && j->gpus % j->shard_group)
        return json_err(&at, ERR_INVALID, e,
                        "has groups of %" PRIu32 " of its %" PRIu32 " ranks, expected a divisor",
                        j->shard_group, j->gpus);
    return 0;
}

static int read_cluster(struct plan_reader *r, const struct json_at *top)
{
    struct cluster *c = &r->p->cluster;
    const struct job *j = &r->p->job;
    struct json_at at;

    if (json_object(top, "cluster", &at, r->e) || cluster_from_tree(&at, r->a, c, r->e) ||
        cluster_resize(c, j->nodes, r->e))
        return -1;
    if (num_ceil_div(j->gpus, c->gpus_per_node) != j->nodes)
        return json_err(top, ERR_INVALID, r->e,
                        "puts %" PRIu32 " GPUs on %" PRIu32 " nodes of %" PRIu32, j->gpus, j->nodes,
                        c->gpus_per_node);
    return 0;
}

/* ---- the document ---- */

static int read_head(const struct json_at *top, struct err *e)
{
    const char *format, *version;
    uint64_t n;

    if (json_is_object(top, e) || json_str(top, "format", &format, e))
        return -1;
    if (strcmp(format, PLAN_FORMAT) != 0)
        return json_err(top, ERR_PARSE, e, "has the format '%.60s', expected '" PLAN_FORMAT "'",
                        format);
    if (json_u64(top, "format_version", 1, JSON_EXACT, &n, e))
        return -1;
    if (n != PLAN_VERSION)
        return json_err(top, ERR_UNSUPPORTED, e,
                        "has format_version %" PRIu64 "; this program reads %d", n, PLAN_VERSION);
    return json_str(top, "ballast_version", &version, e) ||
                   KEYS_BUT("flat_slice", top, e, "format", "format_version", "ballast_version",
                            "layout", "layout_full", "strategy", "world", "mesh", "loads", "job",
                            "cluster", "model", "flat_slice", "units", "columns", "tensors")
               ? -1
               : 0;
}

static int read_plan(struct plan_reader *r, const struct json_at *top)
{
    struct plan *p = r->p;
    struct plan_tables t = {0};
    struct json_at at;
    int status = -1;

    if (read_head(top, r->e) || read_job(r, top) || read_cluster(r, top))
        return -1;
    p->world = p->job.gpus;
    if (!plan_check_columns(r, top) && !plan_read_layout(r, top) && !plan_read_model(r, top, &t) &&
        !plan_check_offsets(r, &t) && !plan_check_units(r, &t) && !plan_read_loads(r, top))
        status = 0;
    mem_free(t.classes);
    if (status)
        return -1;
    /* a file says auto where the option has no meaning; another layout of this job then has its default */
    p->job.gather_as_framework |= p->job.gather == ALGO_AUTO && !plan_sends_updates(p);
    if (plan_flat_slice(p))
        return plan_expect(top, "flat_slice", plan_flat_slice(p), r->e);
    if (json_opt(top, "flat_slice", &at))
        return json_err(&at, ERR_INVALID, r->e, "is given, but no tensor has rule flat");
    return 0;
}

int plan_from_json(const char *s, size_t len, const char *file, struct arena *a, struct plan *p,
                   struct err *e)
{
    struct plan_reader r = {p, a, e};
    struct json_at top;
    struct json j;
    int status;

    memset(p, 0, sizeof(*p));
    if (json_parse(&j, file, s, len, e))
        return -1;
    top = json_top(&j);
    status = read_plan(&r, &top);
    json_release(&j);
    return status;
}

int plan_load(const char *path, struct arena *a, struct plan *p, struct err *e)
{
    struct plan_reader r = {p, a, e};
    struct json_at top;
    struct json j;
    int status;

    memset(p, 0, sizeof(*p));
    if (json_load(&j, path, e))
        return -1;
    top = json_top(&j);
    status = read_plan(&r, &top);
    json_release(&j);
    return status;
}
