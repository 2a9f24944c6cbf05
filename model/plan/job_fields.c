/* What is done with any row of job_options.c: finding it, and reading, writing and comparing its
 * field of struct job by how that is stored. */
#include "model/plan/job_options.h"

#include <stdio.h>
#include <string.h>

const struct job_option *job_option(const char *name)
{
    const struct job_option *o;
    size_t i = 0;

    while ((o = job_option_at(i)) && strcmp(o->opt.name, name) != 0)
        i++;
    BUG_ON(!o);
    return o;
}

struct job_key job_option_key(const struct job_option *o)
{
    struct job_key k;

    BUG_ON(strlen(o->opt.name) >= sizeof(k.s));
    strcpy(k.s, o->opt.name);
    for (char *s = k.s; *s; s++)
        if (*s == '-')
            *s = '_';
    return k;
}

void job_options_add(struct opts *o)
{
    static const char *const headings[] = {
#define X(v, heading) "Job options, " heading,
        JOB_GROUPS(X)
#undef X
    };

    for (int g = 0; g < GROUP_N; g++) {
        const char *heading = headings[g];
        const struct job_option *row;

        for (size_t i = 0; (row = job_option_at(i)); i++)
            if ((int)row->group == g && !row->of_command) {
                opts_add(o, heading, &row->opt, 1);
                heading = NULL;
            }
    }
}

/* ---- fields ---- */

static const void *at(const struct job_option *o, const struct job *j)
{
    return (const char *)j + o->at;
}

static const char *text(const struct job_option *o, const struct job *j)
{
    const char *s;

    memcpy(&s, at(o, j), sizeof(s));
    return s;
}

uint64_t job_option_get(const struct job_option *o, const struct job *j)
{
    uint64_t v64 = 0;
    uint32_t v32;
    bool truth;

    switch (o->field) {
    case FIELD_32:
        memcpy(&v32, at(o, j), sizeof(v32));
        return v32;
    case FIELD_64:
        memcpy(&v64, at(o, j), sizeof(v64));
        return v64;
    case FIELD_BOOL:
        memcpy(&truth, at(o, j), sizeof(truth));
        return truth;
    case FIELD_NONE:
    case FIELD_TEXT:
    case FIELD_DOUBLE:
        break;
    }
    return 0;
}

void job_option_put(const struct job_option *o, struct job *j, uint64_t value)
{
    char *to = (char *)j + o->at;
    uint32_t v32 = (uint32_t)value;
    bool truth = value != 0;

    switch (o->field) {
    case FIELD_32:
        BUG_ON(value > UINT32_MAX);
        memcpy(to, &v32, sizeof(v32));
        return;
    case FIELD_64:
        memcpy(to, &value, sizeof(value));
        return;
    case FIELD_BOOL:
        memcpy(to, &truth, sizeof(truth));
        return;
    case FIELD_NONE:
    case FIELD_TEXT:
    case FIELD_DOUBLE:
        break;
    }
    BUG_ON(true);
}

bool job_option_has_value(const struct job_option *o, const struct job *j)
{
    return o->field == FIELD_TEXT ? text(o, j) != NULL : !o->opt.min || job_option_get(o, j);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

bool job_option_same(const struct job_option *o, const struct job *a, const struct job *b)
{
    switch (o->field) {
    case FIELD_NONE:
        return true;
    case FIELD_32:
    case FIELD_64:
    case FIELD_BOOL:
        return job_option_get(o, a) == job_option_get(o, b);
    case FIELD_TEXT:
        return same_text(text(o, a), text(o, b));
    case FIELD_DOUBLE:
        return !memcmp(at(o, a), at(o, b), sizeof(double));
    }
    return true;
}

void job_option_make_neutral(const struct job_option *o, struct job *j)
{
    const double zero = 0;

    switch (o->field) {
    case FIELD_NONE:
        return;
    case FIELD_32:
    case FIELD_64:
    case FIELD_BOOL:
        job_option_put(o, j, o->neutral_of ? o->neutral_of(j) : o->neutral);
        return;
    case FIELD_TEXT:
        memcpy((char *)j + o->at, &o->opt.dflt, sizeof(o->opt.dflt));
        return;
    case FIELD_DOUBLE:
        memcpy((char *)j + o->at, &zero, sizeof(zero));
        return;
    }
}

bool job_option_is_neutral(const struct job_option *o, const struct job *j)
{
    struct job neutral = *j;

    job_option_make_neutral(o, &neutral);
    return job_option_same(o, j, &neutral);
}

struct job_text job_option_show(const struct job_option *o, const struct job *j)
{
    struct job_text r;
    struct job_key key = job_option_key(o);
    uint64_t v = job_option_get(o, j);

    if (o->field == FIELD_TEXT)
        snprintf(r.s, sizeof(r.s), "%s %.100s", key.s, text(o, j) ? text(o, j) : "null");
    else if (job_option_is_truth(o))
        snprintf(r.s, sizeof(r.s), v ? "%s" : "%s false", key.s);
    else if (o->opt.type == OPT_CHOICE)
        snprintf(r.s, sizeof(r.s), "%s %s", key.s, o->opt.choices[v]);
    else
        snprintf(r.s, sizeof(r.s), "%s %llu", key.s, (unsigned long long)v);
    return r;
}

struct job_text job_option_run(const struct job_option *o, const struct job *j)
{
    struct job neutral = *j;
    struct job_text r;
    size_t n;

    job_option_make_neutral(o, &neutral);
    r = job_option_show(o, &neutral);
    n = strlen(r.s);
    for (uint64_t v = 0; o->opt.type == OPT_CHOICE && v < 32 && o->opt.choices[v]; v++)
        if (v != job_option_get(o, &neutral) && o->exec >> v & 1)
            n += (size_t)snprintf(r.s + n, sizeof(r.s) - n, " or %s", o->opt.choices[v]);
    return r;
}
