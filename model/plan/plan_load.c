/* Reads a plan file back, into the same struct plan: the model goes through its builder, everything that can be computed
 * from the rest is computed and compared. What only layouts/ knows (rules, loads) is layout_check()'s. */
#include "model/plan/plan_load.h"

#include "core/num.h"
#include "model/plan/job_options.h"
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

/* ---- the document ---- */

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

static int slice(struct plan *p, const struct json_at *top, const struct plan_reader *r)
{
    return plan_slice(p, r->a, r->e) ? err_prefix(r->e, "'%s'", top->file) : 0;
}

static int read_plan(struct plan_reader *r, const struct json_at *top)
{
    struct plan *p = r->p;
    struct plan_tables t = {0};
    struct json_at at;
    int status = -1;

    if (read_head(top, r->e) || plan_read_job(r, top) || read_cluster(r, top))
        return -1;
    if (plan_check_job(p, r->e))
        return err_prefix(r->e, "'%s'", top->file);
    p->world = p->job.gpus;
    if (!plan_check_columns(r, top) && !plan_read_layout(r, top) && !plan_read_model(r, top, &t) &&
        !slice(p, top, r) && !plan_check_rows(r, &t) && !plan_check_offsets(r, &t) &&
        !plan_check_units(r, &t) && !plan_read_loads(r, top))
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
