#include "cli/topo_fit.h"

#include "core/leastsq.h"
#include "core/mem.h"

#include <math.h>
#include <string.h>

/* Residuals of repeated measurements of one system (two tables of it differ by 4-7 % over all
 * sizes), where they count as outliers, and how far a constant is believed to lie from where it
 * starts. */
static const double noise = 0.04, outlier = 0.05, prior = 0.5;

static double *constant(const struct topo_fit *f, struct cluster *c, size_t i)
{
    return (double *)((char *)c + f->tunables[i].offset);
}

double topo_value(const struct cluster *c, const struct topo_tunable *t)
{
    return *(const double *)((const char *)c + t->offset);
}

static double before(const struct topo_fit *f, size_t i)
{
    return topo_value(&f->before, &f->tunables[i]);
}

static bool left_out(const struct topo_fit *f, size_t i)
{
    return topo_value(&f->given, &f->tunables[i]) <= 0;
}

bool topo_moved(enum topo_verdict v)
{
    switch (v) {
    case TOPO_NO_ROW:
    case TOPO_TOGETHER:
    case TOPO_AGREES:
    case TOPO_AGAINST:
        return false;
    case TOPO_HELD:
    case TOPO_MOVED:
        return true;
    }
    return false;
}

bool topo_over_nodes(const struct coll_table *t)
{
    return t->cluster.n_nodes > t->cluster.domain_nodes;
}

static bool used(const struct topo_fit *f, size_t table, const struct coll_row *r)
{
    return table != f->without && !f->tables[table].skipped && !r->distrust;
}

size_t topo_fit_rows(const struct topo_fit *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_tables; i++)
        for (size_t k = 0; k < f->tables[i].n_rows; k++)
            n += used(f, i, &f->tables[i].rows[k]);
    return n;
}

/* Predictions of all tables with the constants that c has now. What cannot be predicted is NAN. */
static void predict(struct topo_fit *f)
{
    struct err e;

    for (size_t i = 0; i < f->n_tables; i++) {
        struct coll_table *t = &f->tables[i];
        uint32_t nodes = t->cluster.n_nodes;

        if (t->skipped)
            continue;
        t->cluster = *f->c;
        t->cluster.n_nodes = nodes;
        if (coll_table_predict(t, &e))
            for (size_t k = 0; k < t->n_rows; k++)
                t->rows[k].predicted_us = NAN;
    }
}

/* NCCL chooses between Simple and LL128 in a node by a table of its own, which our formula states
 * in times at the rate that NVLink reaches here: y < d + y / believed_ll128. With the rate the
 * times y change and NCCL's choice does not, so 1/believed_ll128 - 1 goes with the rate. */
static void follow_choice(const struct cluster *before, struct cluster *c)
{
    double b = before->coll.believed_ll128, rate = c->nvlink_efficiency / before->nvlink_efficiency;

    if (b > 0 && c->nvlink_efficiency != before->nvlink_efficiency)
        c->coll.believed_ll128 = 1 / (1 + (1 / b - 1) * rate);
    else
        c->coll.believed_ll128 = b;
}

static void residuals(void *ctx, const double *values, double *out)
{
    struct topo_fit *f = ctx;

    for (size_t k = 0; k < f->n_free; k++)
        *constant(f, f->c, f->free[k]) = values[k];
    follow_choice(&f->before, f->c);
    predict(f);
    for (size_t i = 0; i < f->n_tables; i++)
        for (size_t k = 0; k < f->tables[i].n_rows; k++) {
            const struct coll_row *r = &f->tables[i].rows[k];

            if (used(f, i, r))
                *out++ = log(r->predicted_us / r->time_us);
        }
}

/* How much the rows of tables over several nodes (of tables in a node) react to what stands between
 * the predictions of two residuals() calls. */
static double reaction(const struct topo_fit *f, bool net, const double *x, const double *y)
{
    double most = 0;
    size_t at = 0;

    for (size_t i = 0; i < f->n_tables; i++)
        for (size_t k = 0; k < f->tables[i].n_rows; k++) {
            if (!used(f, i, &f->tables[i].rows[k]))
                continue;
            if (topo_over_nodes(&f->tables[i]) == net)
                most = fmax(most, fabs(x[at] - y[at]));
            at++;
        }
    return most;
}

/* Free are the constants that some row reacts to: constants of a node by tables in a node, those of
 * the network by tables over several nodes, so that a table of the network cannot bend what it says
 * little about. */
static void find_free(struct topo_fit *f)
{
    size_t n = topo_fit_rows(f), found[TOPO_MAX_TUNABLES], n_found = 0;
    double *base = MEM_NEW(double, n), *moved = MEM_NEW(double, n);

    f->n_free = 0;
    residuals(f, NULL, base);
    for (size_t i = 0; i < f->n_tunables; i++) {
        double *x = constant(f, f->c, i), was = *x;

        *x = was * 1.1;
        residuals(f, NULL, moved);
        *x = was;
        if (was > 0 && reaction(f, f->tunables[i].net, base, moved) > 1e-6)
            found[n_found++] = i;
    }
    memcpy(f->free, found, n_found * sizeof(*found));
    f->n_free = n_found;
    mem_free(base);
    mem_free(moved);
}

/* The description, and constants that it leaves out where machines of this kind have them, if
 * tables can say something. */
static void begin(struct topo_fit *f)
{
    bool net = false, in_node = false;

    memset(f->told, 0, sizeof(f->told));
    *f->c = f->before;
    for (size_t i = 0; i < f->n_tables; i++) {
        net |= topo_over_nodes(&f->tables[i]) && !f->tables[i].skipped;
        in_node |= !topo_over_nodes(&f->tables[i]) && !f->tables[i].skipped;
    }
    for (size_t i = 0; i < f->n_tunables; i++) {
        if (left_out(f, i) && f->tunables[i].start > 0 && (f->tunables[i].net ? net : in_node))
            *constant(f, f->c, i) = f->tunables[i].start;
    }
}

/* Searches the free constants; p: [n_free]. */
static int search(struct topo_fit *f, struct leastsq_param *p, struct err *e)
{
    struct leastsq q = {.residuals = residuals,
                        .ctx = f,
                        .n_rows = topo_fit_rows(f),
                        .noise = noise,
                        .outlier = outlier,
                        .prior = prior};

    for (size_t k = 0; k < f->n_free; k++) {
        const struct topo_tunable *t = &f->tunables[f->free[k]];
        double x = *constant(f, f->c, f->free[k]);

        p[k] = (struct leastsq_param){.lo = t->lo, .hi = t->hi, .start = x};
        /* a description may start at or beyond a range's end */
        p[k].start = fmin(fmax(x, t->lo * 1.001), t->hi * 0.999);
    }
    return f->n_free ? leastsq_fit(&q, p, f->n_free, e) : 0;
}

/* Puts the constants that are searched where the search starts, those that are held where they are
 * held, and all others where the description has them. */
static void restart(struct topo_fit *f)
{
    bool searched[TOPO_MAX_TUNABLES] = {false};

    for (size_t k = 0; k < f->n_free; k++)
        searched[f->free[k]] = true;
    for (size_t i = 0; i < f->n_tunables; i++) {
        *constant(f, f->c, i) = searched[i] && left_out(f, i)     ? f->tunables[i].start
                                : f->told[i].verdict == TOPO_HELD ? f->told[i].value
                                                                  : before(f, i);
    }
    follow_choice(&f->before, f->c);
}

/* Takes a constant off those that are searched. Where one is kept, those that were held beside it
 * are searched again. */
static void settle(struct topo_fit *f, size_t k, enum topo_verdict v)
{
    f->told[f->free[k]].verdict = v;
    memmove(f->free + k, f->free + k + 1, (--f->n_free - k) * sizeof(*f->free));
    for (size_t i = 0; i < f->n_tunables && !topo_moved(v); i++)
        if (f->told[i].verdict == TOPO_HELD) {
            f->told[i].verdict = TOPO_MOVED;
            f->free[f->n_free++] = i;
        }
}

/* Keeps what moved by no more than its standard error. What the description left out has no value
 * to agree with. False: all moved further. */
static bool keep_what_agrees(struct topo_fit *f, const struct leastsq_param *p)
{
    bool kept = false;

    for (size_t k = f->n_free; k-- > 0;) {
        size_t i = f->free[k];
        double was = before(f, i);

        f->told[i].at_bound = p[k].at_bound;
        if (was > 0 && fabs(log(p[k].value / was)) <= f->told[i].spread) {
            settle(f, k, TOPO_AGREES);
            kept = true;
        }
    }
    return kept;
}

/* ---- what no row is of ---- */

/* ln(time / time by the description) of every call (f->calls) when the constants of `which` have
 * `value` and all others are as the description has them; 0 where there is no time. `held`: by the
 * algorithm and protocol that NCCL chooses by the description, so that what one constant does is
 * not hidden by another choice; else by what it chooses then. */
static void changes(const struct topo_fit *f, const size_t *which, const double *value, size_t n,
                    bool held, double *change)
{
    struct cluster c = f->before;
    struct topo_guess *guess = MEM_NEW(struct topo_guess, f->calls->n);

    for (size_t k = 0; k < n; k++)
        *constant(f, &c, which[k]) = value[k];
    follow_choice(&f->before, &c);
    topo_calls_guess(f->calls, &c, held ? f->guess_before : NULL, guess);
    for (size_t i = 0; i < f->calls->n; i++) {
        double was = f->guess_before[i].seconds;

        change[i] = was > 0 ? log(guess[i].seconds / was) : 0;
    }
    mem_free(guess);
}

/* How far rows are off the description: the largest deviations of ln(measured / predicted), 0
 * included, of rows that react at least `least`. */
struct off {
    double lo, hi, mean;
    size_t n;
    uint32_t kinds; /* 1u << enum coll_kind */
};
static struct off rows_off(const struct topo_fit *f, const double *reaction, double least)
{
    struct off o = {0};
    size_t at = 0;

    for (size_t i = 0; i < f->n_tables; i++)
        for (size_t k = 0; k < f->tables[i].n_rows; k++, at++) {
            const struct coll_row *r = &f->tables[i].rows[k];
            double off = log(r->time_us * 1e-6 / f->guess_before[at].seconds);

            if (!used(f, i, r) || !isfinite(off) || fabs(reaction[at]) < least)
                continue;
            o.lo = fmin(o.lo, off);
            o.hi = fmax(o.hi, off);
            o.kinds |= 1u << f->tables[i].call.kind;
            o.mean += (off - o.mean) / (double)++o.n;
        }
    return o;
}

/* The largest reaction of a row that is used. */
static double most_of_rows(const struct topo_fit *f, const double *reaction)
{
    double most = 0;

    for (size_t i = 0; i < f->n_tables; i++)
        for (size_t k = 0; k < f->tables[i].n_rows; k++, reaction++)
            if (used(f, i, &f->tables[i].rows[k]))
                most = fmax(most, fabs(*reaction));
    return most;
}

/* The least share of a call's change that is within what rows are off; 1: all changes are. *at: the
 * call that has it. */
static double share_within(const struct topo_fit *f, const double *change, const struct off *o,
                           size_t *at)
{
    double least = 1;

    for (size_t i = f->calls->n_rows; i < f->calls->n; i++) {
        double limit = change[i] > 0 ? o->hi : o->lo;

        if (fabs(change[i]) > fabs(limit) + 1e-9 && limit / change[i] < least) {
            least = limit / change[i];
            *at = i;
        }
    }
    return least;
}

/* The rows that react to a constant most are its own. */
static struct off own_rows(const struct topo_fit *f, const double *reaction, struct topo_told *t)
{
    struct off o = rows_off(f, reaction, 0.5 * most_of_rows(f, reaction));

    t->rows = o.n;
    t->kinds = o.kinds;
    t->off = o.mean;
    return o;
}

/* How far the constant may go from the description to `value`, as a share of ln: all of the way
 * is 1. *t gets its own rows and the call that stops it. change: room for f->calls->n. */
static double confined(const struct topo_fit *f, size_t i, double value, double *change,
                       struct topo_told *t)
{
    enum { TRIES = 20 };
    double was = before(f, i), share = 1;
    struct off o;

    changes(f, &i, &value, 1, true, change);
    o = own_rows(f, change, t);
    for (int k = 0; k < TRIES; k++) {
        double s = share_within(f, change, &o, &t->call), v;

        if (s >= 1)
            return share;
        share *= s * 0.999; /* a call's change is not quite in proportion */
        if (share < 1e-3)
            return 0;
        v = was * pow(value / was, share);
        changes(f, &i, &v, 1, true, change);
    }
    return 0;
}

/* Of the constants that are searched, keeps or holds the one that may go the least part of its way.
 * False: all may go all of it. */
static bool confine_one(struct topo_fit *f, const struct leastsq_param *p, double *change)
{
    double least = 1;
    size_t which = 0;

    for (size_t k = 0; k < f->n_free; k++) {
        double s;

        if (before(f, f->free[k]) <= 0)
            continue;
        s = confined(f, f->free[k], p[k].value, change, &f->told[f->free[k]]);
        if (s < least) {
            least = s;
            which = k;
        }
    }
    if (least < 1) {
        struct topo_told *t = &f->told[f->free[which]];
        double was = before(f, f->free[which]), v = p[which].value;
        bool stays = least * fabs(log(v / was)) <= t->spread;

        t->value = stays ? was : was * pow(v / was, least);
        settle(f, which, !stays ? TOPO_HELD : least > 0 ? TOPO_AGREES : TOPO_AGAINST);
    }
    return least < 1;
}

/* The constants that moved, and their values. */
static size_t moved(const struct topo_fit *f, size_t *which, double *value)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_tunables; i++)
        if (topo_moved(f->told[i].verdict)) {
            which[n] = i;
            value[n++] = f->told[i].value;
        }
    return n;
}

/* A constant that the description leaves out cannot go a part of the way. It is judged by what
 * calls take with it and without it, the others having moved. Keeps the one out that brings a call
 * furthest beyond what rows are off. False: there is none. */
static bool take_out_one(struct topo_fit *f, const struct leastsq_param *p, double *change)
{
    size_t which[TOPO_MAX_TUNABLES], n, out = f->n_free, n_calls = f->calls->n;
    double value[TOPO_MAX_TUNABLES], most = 0, *without = MEM_NEW(double, n_calls);
    struct off o = rows_off(f, change, 0);

    for (size_t k = 0; k < f->n_free; k++)
        f->told[f->free[k]].value = p[k].value;
    n = moved(f, which, value);
    changes(f, which, value, n, true, change);
    for (size_t k = 0; k < f->n_free; k++) {
        size_t i = f->free[k], at = 0;
        double v = f->told[i].value;

        if (before(f, i) > 0)
            continue;
        while (which[at] != i)
            at++;
        value[at] = 0;
        changes(f, which, value, n, true, without);
        value[at] = v;
        for (size_t c = f->calls->n_rows; c < n_calls; c++) {
            double beyond = fmax(change[c] - o.hi, o.lo - change[c]);

            /* by the constant's doing */
            beyond = fmin(beyond, change[c] > 0 ? change[c] - without[c] : without[c] - change[c]);
            if (beyond > most + 1e-9) {
                most = beyond;
                out = k;
                f->told[i].call = c;
            }
        }
        for (size_t c = 0; c < n_calls; c++)
            without[c] -= change[c];
        own_rows(f, without, &f->told[i]);
    }
    if (out < f->n_free)
        settle(f, out, TOPO_AGAINST);
    mem_free(without);
    return most > 0;
}

/* Several constants may change a call too far together. Shrinks those that do, until no call changes
 * further than some row is off. */
static void confine_together(struct topo_fit *f, double *change)
{
    size_t which[TOPO_MAX_TUNABLES], n, at = 0;
    double value[TOPO_MAX_TUNABLES], alone[TOPO_MAX_TUNABLES], share;
    struct off o = rows_off(f, change, 0);

    for (;;) {
        double most = 0, direction;

        n = moved(f, which, value);
        changes(f, which, value, n, false, change);
        share = share_within(f, change, &o, &at);
        if (share >= 1)
            return;
        direction = copysign(1, change[at]);
        for (size_t k = 0; k < n; k++) {
            changes(f, &which[k], &value[k], 1, true, change);
            alone[k] = direction * change[at];
            most = fmax(most, alone[k]);
        }
        for (size_t k = 0; k < n; k++) {
            struct topo_told *t = &f->told[which[k]];
            double was = before(f, which[k]);

            /* none acts on the call as it was where NCCL now chooses something else: then all */
            if (most > 0 && alone[k] < 0.1 * most)
                continue;
            t->verdict = was > 0 ? TOPO_HELD : TOPO_AGAINST;
            t->call = at;
            t->value = was > 0 ? was * pow(value[k] / was, share * 0.999) : 0;
        }
    }
}

/* ---- what to measure ---- */

void topo_fit_measure_next(struct topo_fit *f)
{
    const double step = 1e-3;
    const size_t n_calls = f->calls->n;
    size_t n = 0, which[TOPO_MAX_TUNABLES], partner[TOPO_MAX_TUNABLES], n_used = 0, row = 0,
           most = 0;
    double *change = MEM_NEW(double, n_calls), *slopes = MEM_NEW(double, n_calls * f->n_tunables);
    double *rows = MEM_NEW(double, n_calls * f->n_tunables), spread[TOPO_MAX_TUNABLES];

    for (size_t i = 0; i < f->n_tunables; i++)
        if (before(f, i) > 0)
            which[n++] = i;
    for (size_t k = 0; k < n; k++) {
        double value = before(f, which[k]) * exp(step);

        changes(f, &which[k], &value, 1, true, change);
        for (size_t i = 0; i < n_calls; i++)
            slopes[i * n + k] = change[i] / step;
    }
    for (size_t i = 0; i < f->n_tables; i++)
        for (size_t k = 0; k < f->tables[i].n_rows; k++, row++)
            if (used(f, i, &f->tables[i].rows[k]))
                memcpy(rows + n_used++ * n, slopes + row * n, n * sizeof(*rows));
    for (size_t i = f->n_tables; i < f->calls->n_groups; i++) {
        const struct topo_group *g = &f->calls->groups[i];
        bool tells[TOPO_MAX_TUNABLES] = {false};
        size_t told = 0;

        memcpy(rows + n_used * n, slopes + g->first * n, g->n * n * sizeof(*rows));
        leastsq_spreads(rows, n_used + g->n, n, noise, prior, spread, partner);
        for (size_t k = 0; k < n; k++) {
            size_t c = which[k];

            tells[c] = f->told[c].verdict == TOPO_TOGETHER && spread[k] < prior / 2 &&
                       f->tunables[c].net == g->over_nodes;
            told += tells[c];
        }
        if (told > most) {
            most = told;
            f->next = g;
            memcpy(f->next_tells, tells, sizeof(tells));
        }
    }
    mem_free(change);
    mem_free(slopes);
    mem_free(rows);
}

bool topo_fit_tells(const struct topo_fit *f)
{
    for (size_t i = 0; i < f->n_tunables; i++)
        if (f->told[i].verdict != TOPO_NO_ROW && f->told[i].verdict != TOPO_TOGETHER)
            return true;
    return false;
}

/* Where a description has no section p2p, sends start as LL does and reach all of the rate
 * (sim/nccl.c). Writes that down, so that tables can tell another value. */
static void say_of_sends(struct coll_constants *c)
{
    if (c->p2p.both_ways > 0)
        return;
    c->p2p.both_ways = 1;
    c->p2p.base_s = c->base_s[PROTOCOL_LL];
}

/* Takes the section away again where the tables tell nothing of it. */
static void unsay_of_sends(struct topo_fit *f)
{
    for (size_t i = 0; i < f->n_tunables; i++)
        if (topo_moved(f->told[i].verdict) && !strncmp(f->tunables[i].path, "collectives.p2p.", 16))
            return;
    f->c->coll.p2p = f->given.coll.p2p;
}

int topo_fit(struct topo_fit *f, struct err *e)
{
    struct leastsq_param p[TOPO_MAX_TUNABLES];
    double *change;
    size_t n = 0;
    int status;

    begin(f);
    find_free(f);
    if (search(f, p, e))
        return -1;
    for (size_t k = 0; k < f->n_free; k++) {
        size_t i = f->free[k];
        bool told = p[k].spread < prior / 2;

        f->told[i] = (struct topo_told){.verdict = told ? TOPO_MOVED : TOPO_TOGETHER,
                                        .spread = p[k].spread,
                                        .partner = f->free[p[k].partner]};
    }
    for (size_t k = 0; k < f->n_free; k++)
        if (f->told[f->free[k]].verdict == TOPO_MOVED) {
            p[n] = p[k];
            f->free[n++] = f->free[k];
        }
    f->n_free = n;
    change = MEM_NEW(double, f->calls->n);
    keep_what_agrees(f, p);
    do {
        restart(f);
        status = search(f, p, e);
    } while (!status &&
             (keep_what_agrees(f, p) || confine_one(f, p, change) || take_out_one(f, p, change)));
    if (!status) {
        for (size_t k = 0; k < f->n_free; k++)
            f->told[f->free[k]].value = p[k].value;
        confine_together(f, change);
        for (size_t i = 0; i < f->n_tunables; i++)
            *constant(f, f->c, i) =
                topo_moved(f->told[i].verdict) ? f->told[i].value : before(f, i);
        follow_choice(&f->before, f->c);
        unsay_of_sends(f);
        predict(f);
    }
    mem_free(change);
    return status;
}

void topo_fit_init(struct topo_fit *f, const struct topo_tunable *tunables, size_t n_tunables,
                   struct cluster *c, struct coll_table *tables, size_t n_tables, struct arena *a)
{
    struct topo_calls *calls = ARENA_NEW(a, struct topo_calls, 1);
    struct topo_guess *guess;

    BUG_ON(n_tunables > TOPO_MAX_TUNABLES);
    *f = (struct topo_fit){.tunables = tunables,
                           .n_tunables = n_tunables,
                           .given = *c,
                           .before = *c,
                           .c = c,
                           .tables = tables,
                           .n_tables = n_tables,
                           .without = SIZE_MAX,
                           .calls = calls};
    say_of_sends(&f->before.coll);
    predict(f);
    topo_calls_init(calls, c, tables, n_tables, a);
    f->guess_before = guess = ARENA_NEW(a, struct topo_guess, calls->n);
    topo_calls_guess(calls, c, NULL, guess);
}
