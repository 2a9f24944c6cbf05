/* The object "job" of a plan file, written and read row by row of job_options.c. */
#include "model/plan/job_options.h"
#include "model/plan/plan_load.h"

#include <inttypes.h>
#include <string.h>

void plan_add_option(cJSON *to, const struct plan *p, const struct job_option *o)
{
    uint64_t v = o->written ? o->written(p) : job_option_get(o, &p->job);
    struct job_key key = job_option_key(o);
    const char *text;
    double d;

    if (o->unless_zero && !v)
        return;
    switch (o->field) {
    case FIELD_NONE:
        return;
    case FIELD_32:
    case FIELD_64:
    case FIELD_BOOL:
        if (job_option_is_truth(o))
            json_add_bool(to, key.s, v);
        else if (o->opt.type == OPT_CHOICE)
            json_add_str(to, key.s, o->opt.choices[v]);
        else
            json_add_u64(to, key.s, v);
        return;
    case FIELD_TEXT:
        memcpy(&text, (const char *)&p->job + o->at, sizeof(text));
        json_add_str(to, key.s, text);
        return;
    case FIELD_DOUBLE:
        memcpy(&d, (const char *)&p->job + o->at, sizeof(d));
        json_add_double(to, key.s, d);
        return;
    }
}

void plan_add_job(cJSON *to, const struct plan *p)
{
    cJSON *job = json_add_object(to, "job");
    const struct job_option *o;

    for (size_t i = 0; (o = job_option_at(i)); i++)
        plan_add_option(job, p, o);
}

static int read_number(const struct job_option *o, const struct json_at *at, uint64_t *v,
                       struct err *e)
{
    bool truth, own = o->lo || o->hi;
    int choice;

    if (job_option_is_truth(o)) {
        if (json_as_bool(at, &truth, e))
            return -1;
        *v = truth;
        return 0;
    }
    if (o->opt.type == OPT_CHOICE) {
        if (json_as_enum(at, o->opt.choices, &choice, e))
            return -1;
        *v = (uint64_t)choice;
        return 0;
    }
    return json_as_u64(at, own ? o->lo : o->opt.min, own ? o->hi : o->opt.max, v, e);
}

static int read_option(struct plan_reader *r, const struct json_at *job, const struct job_option *o)
{
    struct job *j = &r->p->job;
    struct job_key key = job_option_key(o);
    struct json_at at;
    const char *text = NULL;
    uint64_t v;
    double d;

    if (o->field == FIELD_NONE)
        return 0;
    if (!json_opt(job, key.s, &at)) {
        if (o->always)
            return json_get(job, key.s, &at, r->e); /* says that it is missing */
        job_option_make_neutral(o, j);
        return 0;
    }
    switch (o->field) {
    case FIELD_NONE:
        return 0;
    case FIELD_32:
    case FIELD_64:
    case FIELD_BOOL:
        if (read_number(o, &at, &v, r->e))
            return -1;
        if (o->set)
            o->set(j, v);
        else
            job_option_put(o, j, v);
        return 0;
    case FIELD_TEXT:
        if (json_as_str(&at, &text, r->e))
            return -1;
        text = arena_strdup(r->a, text);
        memcpy((char *)j + o->at, &text, sizeof(text));
        return 0;
    case FIELD_DOUBLE:
        if (json_as_double(&at, o->opt.lo, o->opt.hi, &d, r->e))
            return -1;
        memcpy((char *)j + o->at, &d, sizeof(d));
        return 0;
    }
    return 0;
}

int plan_check_job(const struct plan *p, struct err *e)
{
    struct err why;
    const struct job_option *wrong = job_contradiction(&p->job, &p->cluster, &why);

    return wrong ? err_set(e, why.code, "job has %s, but %.300s", job_option_show(wrong, &p->job).s,
                           why.msg)
                 : 0;
}

int plan_read_job(struct plan_reader *r, const struct json_at *top)
{
    const struct job *j = &r->p->job;
    const struct job_option *o;
    const char **keys = NULL;
    struct json_at job;
    size_t n = 0, cap = 0;
    int status;

    for (size_t i = 0; (o = job_option_at(i)); i++) {
        if (o->field == FIELD_NONE)
            continue;
        keys = mem_grow(keys, &cap, n + 1, sizeof(*keys));
        keys[n++] = arena_strdup(r->a, job_option_key(o).s);
    }
    status =
        json_object(top, "job", &job, r->e) || json_only_keys_or_null(&job, keys, n, "mesh", r->e)
            ? -1
            : 0;
    for (size_t i = 0; !status && (o = job_option_at(i)); i++)
        status = read_option(r, &job, o);
    mem_free(keys);
    if (!status && j->shard_group && j->gpus % j->shard_group)
        return json_err(&job, ERR_INVALID, r->e,
                        "has groups of %" PRIu32 " of its %" PRIu32 " ranks, expected a divisor",
                        j->shard_group, j->gpus);
    return status;
}
