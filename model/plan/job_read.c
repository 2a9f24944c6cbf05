/* From options that are parsed to a job: row by row, with the readers of options whose value
 * depends on more than what was said of them. */
#include "model/plan/job_rows.h"

#include "model/plan/frameworks.h"
#include "model/plan/precision.h"
#include "model/tensors/slice.h"

#include <string.h>

int job_read_with_size(const struct job_reading *r, const struct job_option *o, struct job *j,
                       struct err *e)
{
    (void)r, (void)o, (void)j, (void)e;
    return 0;
}

static bool learned_positions(const struct model *m)
{
    for (uint32_t i = 0; i < m->n_classes; i++)
        if (m->classes[i].position == POSITION_LEARNED)
            return true;
    return false;
}

/* A stack without an embedding has no table of positions. */
int job_read_seq_len(const struct job_reading *r, const struct job_option *o, struct job *j,
                     struct err *e)
{
    const struct model *m = r->model;

    j->seq_len = opts_get(r->opts, o->opt.name)->u64;
    if (!learned_positions(m) || !m->max_seq_len || j->seq_len <= m->max_seq_len)
        return 0;
    if (opts_get(r->opts, o->opt.name)->set)
        return err_set(e, ERR_INVALID, "%s %llu: '%s' has learned positions for %llu tokens",
                       opts_said(r->opts, o->opt.name).s, (unsigned long long)j->seq_len, m->name,
                       (unsigned long long)m->max_seq_len);
    j->seq_len = m->max_seq_len;
    return 0;
}

/* The model is cut here once to see whether it can be. */
int job_read_tp(const struct job_reading *r, const struct job_option *o, struct job *j,
                struct err *e)
{
    struct model sliced;
    struct arena a;
    int status;

    j->tp = (uint32_t)opts_get(r->opts, o->opt.name)->u64;
    arena_init(&a);
    status = model_slice(r->model, j->tp, 1, &a, &sliced, e);
    arena_release(&a);
    return status ? err_prefix(e, "%s %u", opts_said(r->opts, o->opt.name).s, j->tp) : 0;
}

int job_read_target_len(const struct job_reading *r, const struct job_option *o, struct job *j,
                        struct err *e)
{
    const struct opt_val *v = opts_get(r->opts, o->opt.name);

    if (model_bridge(r->model) != MODEL_NONE)
        j->target_len = v->set ? v->u64 : j->seq_len;
    else if (v->set)
        return err_set(e, ERR_INVALID, "%s %llu: '%s' has no decoder beside an encoder",
                       opts_said(r->opts, o->opt.name).s, (unsigned long long)v->u64,
                       r->model->name);
    return 0;
}

/* What an option says wins over --precision, but not a job file's over the command line's. */
static bool said(const struct opts *o, const char *name)
{
    const struct opt_val *v = opts_get(o, name);

    return v->set && !(v->set == OPT_FROM_JSON && opts_get(o, "precision")->set == OPT_FROM_CLI);
}

/* What --precision says, or NULL. */
static const struct precision *precision_of(const struct opts *o)
{
    const struct opt_val *v = opts_get(o, "precision");

    return v->set ? &precisions[v->u64] : NULL;
}

static enum dtype dtype_of(const struct opts *o, const char *name, enum dtype precise)
{
    return precision_of(o) && !said(o, name) ? precise : (enum dtype)opts_get(o, name)->u64;
}

#define DTYPE_READER(member)                                                                       \
    int job_read_##member(const struct job_reading *r, const struct job_option *o, struct job *j,  \
                          struct err *e)                                                           \
    {                                                                                              \
        const struct precision *p = precision_of(r->opts);                                         \
                                                                                                   \
        (void)e;                                                                                   \
        j->member = dtype_of(r->opts, o->opt.name, p ? p->member : DTYPE_FP32);                    \
        return 0;                                                                                  \
    }
DTYPE_READER(param_dtype)
DTYPE_READER(grad_dtype)
DTYPE_READER(state_dtype)
#undef DTYPE_READER

int job_read_master_weights(const struct job_reading *r, const struct job_option *o, struct job *j,
                            struct err *e)
{
    const struct precision *p = precision_of(r->opts);

    (void)e;
    j->master_weights = j->param_dtype != DTYPE_FP32 && (!p || p->master_weights);
    if (said(r->opts, o->opt.name))
        j->master_weights = opts_get(r->opts, o->opt.name)->u64 == 1;
    return 0;
}

/* Broadcasts are what is known of frameworks; where they have no place the layout leaves them out. */
int job_read_gather(const struct job_reading *r, const struct job_option *o, struct job *j,
                    struct err *e)
{
    const struct opt_val *v = opts_get(r->opts, o->opt.name);
    enum framework f = (enum framework)opts_get(r->opts, "framework")->u64;

    (void)e;
    job_set_gather(j, v->set ? v->u64 : framework_row(f)->broadcasts ? ALGO_N : ALGO_AUTO);
    return 0;
}

int job_read_price(const struct job_reading *r, const struct job_option *o, struct job *j,
                   struct err *e)
{
    const struct opt_val *v = opts_get(r->opts, o->opt.name);

    (void)e;
    j->price_per_gpu_hour = v->set ? v->d : r->cluster->price_per_gpu_hour;
    return 0;
}

static int read_plain(const struct job_reading *r, const struct job_option *o, struct job *j)
{
    const struct opt_val *v = opts_get(r->opts, o->opt.name);

    switch (o->field) {
    case FIELD_32:
    case FIELD_64:
    case FIELD_BOOL:
        job_option_put(o, j, v->text ? v->u64 : o->neutral);
        break;
    case FIELD_TEXT:
        memcpy((char *)j + o->at, &v->text, sizeof(v->text));
        break;
    case FIELD_DOUBLE:
        memcpy((char *)j + o->at, &v->d, sizeof(v->d));
        break;
    case FIELD_NONE:
        break;
    }
    return 0;
}

int job_read(const struct job_reading *r, struct job *j, struct err *e)
{
    const struct job_option *o, *wrong;
    char number[24];

    memset(j, 0, sizeof(*j));
    for (size_t i = 0; (o = job_option_at(i)); i++)
        if (o->read ? o->read(r, o, j, e) : read_plain(r, o, j))
            return -1;
    wrong = job_contradiction(j, r->cluster, e);
    if (!wrong)
        return 0;
    snprintf(number, sizeof(number), "%llu", (unsigned long long)job_option_get(wrong, j));
    err_prefix(e, "%s %s", opts_said(r->opts, wrong->opt.name).s,
               wrong->opt.choices ? wrong->opt.choices[job_option_get(wrong, j)] : number);
    if (wrong->with) {
        const struct job_option *with = job_option(wrong->with);
        struct err first = *e;

        err_set(e, first.code, "%s (%s %s)", first.msg, opts_said(r->opts, wrong->with).s,
                with->opt.choices[job_option_get(with, j)]);
    }
    return -1;
}
