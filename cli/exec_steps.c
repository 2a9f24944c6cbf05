#include "cli/exec_steps.h"

#include "cli/output.h"
#include "core/version.h"
#include "model/plan/model_load.h"
#include "model/plan/optimizers.h"
#include "model/plan/job_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static bool same_text(cJSON *x, cJSON *y)
{
    char *a = json_text(x, false), *b = json_text(y, false);
    bool same = !strcmp(a, b);

    mem_free(a);
    mem_free(b);
    json_free(x);
    json_free(y);
    return same;
}

static bool name_is_model(const struct plan *p, struct arena *a)
{
    struct plan other = *p;
    struct err e;

    return !model_load(p->model.name, p->job.seq_len, a, &other.model, &e) &&
           other.model.n_tensors == p->model.n_tensors && other.model.n_units == p->model.n_units &&
           same_text(plan_to_json(&other), plan_to_json(p));
}

static bool name_is_cluster(const struct cluster *c, struct arena *a)
{
    struct cluster other;
    struct err e;

    return !cluster_load(c->name, a, &other, &e) &&
           same_text(cluster_to_json(&other), cluster_to_json(c));
}

/* The absolute path of a file that may not be there yet, in a folder that is. */
static char *absolute(const char *path, struct arena *a, struct err *e)
{
    const char *slash = strrchr(path, '/');
    char *folder =
        slash ? arena_strndup(a, path, (size_t)(slash - path) + 1) : arena_strdup(a, ".");
    char *real = realpath(folder, NULL), *out;

    if (!real) {
        err_set(e, ERR_EXTERNAL, "'%.300s': %s", path, strerror(errno));
        return NULL;
    }
    out = arena_printf(a, "%s/%s", strcmp(real, "/") ? real : "", slash ? slash + 1 : path);
    free(real);
    return out;
}

/* `to` as seen from the folder of `from`: "plan.json", "../plans/a.json". */
static const char *seen_from(const char *from, const char *to, struct arena *a, struct err *e)
{
    const char *x = absolute(from, a, e), *y = x ? absolute(to, a, e) : NULL, *up = "";
    size_t same = 0;

    if (!y)
        return NULL;
    for (size_t i = 0; x[i] && x[i] == y[i]; i++)
        if (x[i] == '/')
            same = i + 1;
    for (const char *s = x + same; (s = strchr(s, '/')); s++)
        up = arena_printf(a, "../%s", up);
    return arena_printf(a, "%s%s%s", *up || strchr(y + same, '/') ? "" : "./", up, y + same);
}

/* ---- rows ---- */

/* What exec runs of the job, where the row does not say it itself. */
static void add_job(cJSON *row, const struct plan *plan)
{
    cJSON *job = json_new_object();
    const struct job_option *o;
    struct plan ran = *plan;

    for (size_t i = 0; (o = job_option_at(i)); i++) {
        if (!o->exec || !job_option_has_value(o, &ran.job) ||
            cJSON_HasObjectItem(row, job_option_key(o).s))
            continue;
        if (o->exec_as && !job_option_get(o, &ran.job))
            job_option_put(o, &ran.job, o->exec_as);
        plan_add_option(job, &ran, o);
    }
    json_add_tree(row, "job", job);
}

struct row {
    const struct measured *m;
    const char *model, *cluster, *source;
};

static void add_row(cJSON *rows, const struct row *x, const char *metric, double value)
{
    const struct plan *p = x->m->plan;
    cJSON *o = json_add_object(rows, NULL);
    struct arena a;

    arena_init(&a);
    json_add_str(o, "id", arena_printf(&a, "%s-%u-%s", p->layout_full, p->world, metric));
    json_add_str(o, "model", x->model);
    json_add_str(o, "cluster", x->cluster);
    json_add_u64(o, "nodes", p->job.nodes);
    json_add_u64(o, "gpus", p->world);
    json_add_str(o, "layout", p->layout_full);
    json_add_str(o, "optimizer", optimizer_name(p->job.optimizer));
    json_add_bool(o, "serial", x->m->serial);
    add_job(o, p);
    json_add_str(o, "metric", metric);
    json_add_double(o, "value", value);
    json_add_str(o, "source", x->source);
    arena_release(&a);
}

int exec_steps(const char *path, const char *plan_path, const struct measured *m,
               const struct machine *on, struct err *e)
{
    struct measured_spread step = measured_spread(m, &m->rows[0][ROW_STEP], N_ROWS),
                           update = measured_spread(m, &m->rows[0][ROW_OPTIMIZER], N_ROWS);
    const struct plan *p = m->plan;
    struct strbuf text;
    struct arena a;
    struct row x = {.m = m};
    cJSON *doc, *rows;
    const char *plan;
    int status = -1;

    arena_init(&a);
    plan = seen_from(path, plan_path, &a, e);
    if (!plan)
        goto out;
    x.model = name_is_model(p, &a) ? p->model.name : plan;
    x.cluster = name_is_cluster(&p->cluster, &a) ? p->cluster.name : plan;
    x.source = arena_printf(&a,
                            "ballast exec %s, %u ranks, %s, %s products%s: median of %llu steps, "
                            "%.3f to %.3f ms a step",
                            ballast_version, p->world, on->b.lib->name, on->gemm_name,
                            on->b.cpu_clock ? ", CPU time" : "", (unsigned long long)m->n_steps,
                            1e3 * step.min, 1e3 * step.max);
    doc = json_new_object();
    json_add_str(doc, "format", "ballast-steps");
    json_add_u64(doc, "format_version", 1);
    json_add_str(doc, "what", "a plan replayed on this machine");
    rows = json_add_array(doc, "rows");
    add_row(rows, &x, "step_ms", 1e3 * step.median);
    add_row(rows, &x, "optimizer_ms", 1e3 * update.median);
    add_row(rows, &x, "memory_alloc_gib", (double)m->memory.bytes / 0x1p30);
    strbuf_init(&text);
    json_print(doc, true, &text);
    strbuf_puts(&text, "\n");
    status = output_write(path, &text, e);
    strbuf_release(&text);
    json_free(doc);
out:
    arena_release(&a);
    return status;
}
