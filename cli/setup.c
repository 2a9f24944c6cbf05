#include "cli/setup.h"

#include "cli/mesh.h"
#include "cli/model_opts.h"
#include "core/num.h"
#include "core/units.h"
#include "layouts/layout.h"
#include "model/plan/frameworks.h"
#include "model/plan/model_load.h"
#include "planner/planner.h"

#include <string.h>
#include <strings.h>

static int read_job_file(struct opts *o, struct err *e)
{
    const struct opt_val *v = opts_get(o, "job");
    struct json j;
    struct json_at top;
    int status;

    if (!v->set)
        return 0;
    if (json_load(&j, v->text, e))
        return -1;
    top = json_top(&j);
    status = opts_apply_json(o, &top, e);
    json_release(&j);
    return status;
}

static int read_job(struct setup *s, struct err *e)
{
    const struct job_reading r = {s->opts, &s->model, &s->cluster};
    enum assign_objective order[4];
    uint32_t n;

    if (job_read(&r, &s->job, e))
        return -1;
    if (planner_objectives(s->job.objective, order, &n, e))
        return opts_get(s->opts, "objective")->set == OPT_FROM_JSON
                   ? err_prefix(e, "'%s'", opts_get(s->opts, "job")->text)
                   : -1;
    return 0;
}

const char *setup_path(const char *file, const char *what, struct arena *a)
{
    const char *slash = strrchr(file, '/');
    size_t len = strlen(what);
    bool path = strchr(what, '/') || (len > 5 && !strcmp(what + len - 5, ".json"));

    if (!slash || !path || what[0] == '/' || !strncmp(what, "block:", 6))
        return what;
    return arena_printf(a, "%.*s/%s", (int)(slash - file), file, what);
}

static const char *cluster_path(const struct opts *o, struct arena *a)
{
    const struct opt_val *v = opts_get(o, "cluster"), *job = opts_get(o, "job");

    return v->set == OPT_FROM_JSON && job->text ? setup_path(job->text, v->text, a) : v->text;
}

int setup_init(struct setup *s, struct opts *o, const char *model, struct err *e)
{
    struct model_options mo;
    uint64_t gpn;

    memset(s, 0, sizeof(*s));
    arena_init(&s->arena);
    s->opts = o;
    if (read_job_file(o, e) || model_opts_read(o, &mo, e))
        goto fail;
    if (opts_get(o, "names")->set == OPT_FROM_JSON)
        mo.names = setup_path(o->json_file, mo.names, &s->arena);
    mo.seq_len = opts_get(o, "seq-len")->u64;
    if (model_load_with(model, &mo, &s->arena, &s->model, e) ||
        cluster_load(cluster_path(o, &s->arena), &s->arena, &s->cluster, e))
        goto fail;
    if (opts_get(o, "gpus-per-node")->set) {
        gpn = opts_get(o, "gpus-per-node")->u64;
        if (gpn > s->cluster.gpus_per_node) {
            err_set(e, ERR_INVALID, "%s %llu: a node of '%s' has %u",
                    opts_said(o, "gpus-per-node").s, (unsigned long long)gpn, s->cluster.name,
                    s->cluster.gpus_per_node);
            goto fail;
        }
        s->cluster.gpus_per_node = (uint32_t)gpn;
    }
    if (read_job(s, e))
        goto fail;
    return 0;
fail:
    arena_release(&s->arena);
    return -1;
}

void setup_release(struct setup *s)
{
    arena_release(&s->arena);
}

/* ---- sizes ---- */

/* G neighbours share a copy of what the layout cuts, and there are W/G copies. Of several layouts those that have one copy
 * leave it to the others. */
static int resolve_shard_group(const struct setup *s, struct job *j, struct err *e)
{
    const struct opt_val *v = opts_get(s->opts, "shard-group");
    const struct layout *l;
    enum strategy strategy;
    const char *full;
    struct arena a;
    int status;

    arena_init(&a);
    status = layout_resolve(j->layout, j->optimizer, &a, &l, &strategy, &full, e);
    arena_release(&a);
    if (status)
        return -1;
    if (v->set)
        j->shard_group = (uint32_t)v->u64;
    if (s->some_have_groups && !layout_has_groups(l, j->optimizer))
        j->shard_group = 0;
    if (layout_groups(l, j, s->cluster.gpus_per_node, &j->shard_group, e))
        return v->set ? err_prefix(e, "%s %llu", opts_said(s->opts, "shard-group").s,
                                   (unsigned long long)v->u64)
                      : -1;
    return 0;
}

static int resolve_size(const struct setup *s, uint64_t nodes, struct job *j, struct err *e)
{
    const struct opt_val *v = opts_get(s->opts, "gpus");
    uint64_t gpn = s->cluster.gpus_per_node, gpus = v->u64;

    /* of a pair that differs, what the command line says beats what a job file says */
    if (v->set && nodes && !s->whole_nodes && num_ceil_div(gpus, gpn) != nodes &&
        v->set != opts_get(s->opts, "nodes")->set) {
        if (v->set == OPT_FROM_JSON)
            gpus = nodes * gpn;
        else
            nodes = 0;
    }
    if (!v->set || s->whole_nodes)
        gpus = (nodes ? nodes : 1) * gpn;
    if (gpus > CLUSTER_MAX_RANKS)
        return err_set(e, ERR_INVALID, "%llu GPUs are more than 2^24", (unsigned long long)gpus);
    if (nodes && num_ceil_div(gpus, gpn) != nodes)
        return err_set(e, ERR_INVALID, "%s %llu at %llu a node fill %llu nodes, and %s is %llu",
                       opts_said(s->opts, "gpus").s, (unsigned long long)gpus,
                       (unsigned long long)gpn, (unsigned long long)num_ceil_div(gpus, gpn),
                       opts_said(s->opts, "nodes").s, (unsigned long long)nodes);
    j->gpus = (uint32_t)gpus;
    j->nodes = (uint32_t)num_ceil_div(gpus, gpn);
    return resolve_shard_group(s, j, e);
}

static int resolve_batch(const struct setup *s, struct job *j, struct err *e)
{
    const struct opt_val *v = opts_get(s->opts, "global-batch");
    const struct opt_val *accum = opts_get(s->opts, "grad-accum");
    uint64_t step, batch, tokens = 1, below;
    char number[64];
    size_t len;

    if (!v->set || (v->set == OPT_FROM_JSON && accum->set == OPT_FROM_CLI))
        return 0;
    if (accum->set == OPT_FROM_JSON && v->set == OPT_FROM_JSON)
        return err_set(e, ERR_INVALID,
                       "'%s': global_batch and grad_accum say the same thing twice; give one",
                       opts_get(s->opts, "job")->text);
    if (accum->set == OPT_FROM_CLI)
        return err_set(e, ERR_USAGE,
                       "--global-batch and --grad-accum say the same thing twice; give one");
    len = strlen(v->text);
    if (len > 3 && !strcasecmp(v->text + len - 3, "tok")) {
        tokens = j->seq_len;
        len -= 3;
    }
    snprintf(number, sizeof(number), "%.*s", (int)num_min(len, sizeof(number) - 1), v->text);
    if (units_count(number, &batch, e))
        return err_prefix(e, "%s %s", opts_said(s->opts, "global-batch").s, v->text);
    if (!num_mul(j->micro_batch, job_data_ranks(j), &step) || !num_mul(step, tokens, &step) ||
        step > NUM_MAX / 2)
        return err_set(e, ERR_OVERFLOW, "%s %s: micro-batch x GPUs%s passes 2^62",
                       opts_said(s->opts, "global-batch").s, v->text,
                       tokens > 1 ? " x seq-len" : "");
    below = num_max(batch / step, 1) * step; /* 0 is no batch */
    if (batch % step || !batch)
        return err_set(e, ERR_INVALID,
                       "%s %s is no multiple of micro-batch x GPUs%s (%llu); nearest: "
                       "%llu%s and %llu%s",
                       opts_said(s->opts, "global-batch").s, v->text,
                       tokens > 1 ? " x seq-len" : "", (unsigned long long)step,
                       (unsigned long long)below, tokens > 1 ? "tok" : "",
                       (unsigned long long)(below + step), tokens > 1 ? "tok" : "");
    j->grad_accum = batch / step;
    if (j->grad_accum > 4096)
        return err_set(e, ERR_INVALID, "%s %s needs %llu micro-batches a step, more than 4096",
                       opts_said(s->opts, "global-batch").s, v->text,
                       (unsigned long long)j->grad_accum);
    return 0;
}

int setup_plan(const struct setup *s, uint64_t nodes, const char *layout, struct arena *a,
               struct plan *plan, struct err *e)
{
    struct job *j = &plan->job;

    memset(plan, 0, sizeof(*plan));
    plan->model = s->model;
    plan->cluster = s->cluster;
    *j = s->job;
    j->layout = arena_strdup(a, layout);
    if (resolve_size(s, nodes, j, e) || resolve_batch(s, j, e) ||
        cluster_resize(&plan->cluster, j->nodes, e))
        return -1;
    if (mesh_check(s->opts, plan, s->some_take_mesh, e))
        return -1;
    j->bucket_bytes =
        opts_get(s->opts, "bucket")->set ? opts_get(s->opts, "bucket")->u64 : job_default_bucket(j);
    return 0;
}

/* ---- options without effect ---- */

static bool one_rank(const struct setup *s)
{
    const struct opt_val *gpus = opts_get(s->opts, "gpus"), *nodes = opts_get(s->opts, "nodes");

    return gpus->set ? gpus->u64 == 1 : s->cluster.gpus_per_node == 1 && !nodes->set;
}

/* What is known of a framework's way to send updates is so under some layouts alone. */
static int check_gather(const struct setup *s, const struct job_use *use, size_t n, struct err *e)
{
    bool sends = false;
    char known[200];
    size_t len = 0;

    for (size_t i = 0; i < n; i++)
        sends |= use[i].strategy == STRATEGY_OWNER && use[i].refreshes;
    if (opts_get(s->opts, "gather")->set != OPT_FROM_CLI || !s->job.gather_as_framework ||
        (sends && framework_row(s->job.framework)->broadcasts))
        return 0;
    for (int f = 0; f < FRAMEWORK_N; f++)
        if (framework_row((enum framework)f)->broadcasts)
            len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", len ? " and " : "",
                                    framework_name((enum framework)f));
    return err_set(e, ERR_INVALID,
                   "--gather framework has no effect: it is known of %s, under zero1-owner and "
                   "zero2-owner",
                   known);
}

static int check_options(const struct setup *s, const struct job_use *use, size_t n, struct err *e)
{
    const struct job_option *o;

    for (size_t i = 0; (o = job_option_at(i)); i++) {
        enum opt_from set = o->of_command ? OPT_UNSET : opts_get(s->opts, o->opt.name)->set;
        size_t k = 0;

        if (set == OPT_UNSET || (set == OPT_FROM_JSON && o->use))
            continue; /* a job file may serve other layouts too */
        while (k < n && *job_option_unused(o, &use[k]).s)
            k++;
        if (k == n)
            return err_set(e, ERR_INVALID, "%s has no effect: %s",
                           opts_said(s->opts, o->opt.name).s, job_option_unused(o, &use[0]).s);
    }
    return check_gather(s, use, n, e);
}

int setup_check_used(struct setup *s, const char *const *layouts, size_t n, struct err *e)
{
    struct job_use *use = MEM_NEW(struct job_use, n);
    int status = 0;
    struct arena a;

    arena_init(&a);
    for (size_t i = 0; i < n && !status; i++) {
        const struct layout *l;
        enum strategy st;
        const char *full;

        status = layout_resolve(layouts[i], s->job.optimizer, &a, &l, &st, &full, e);
        for (size_t k = 0; k < i && !status; k++)
            if (!strcasecmp(layouts[k], layouts[i]))
                status = err_set(e, ERR_USAGE, "layout '%s' is named twice", layouts[i]);
        if (status)
            break;
        use[i] = layout_use(l, st, &s->job, &s->model);
        use[i].one_rank = one_rank(s);
        s->some_have_groups |= layout_has_groups(l, s->job.optimizer);
        s->some_take_mesh |= l->nested;
    }
    arena_release(&a);
    if (!status)
        status = check_options(s, use, n, e);
    mem_free(use);
    return status;
}
