/* ballast topo --calibrate: a cluster's constants of NCCL from measured tables, by least squares of ln(predicted/measured).
 *
 * Every constant has a physical range and a prior of 50 % at its present value. A constant is moved when the rows tell it: when its
 * standard error, the other constants being uncertain as the rows and their priors leave them, is less than half the prior's, and
 * less than the change. All others are kept as they are, to the bit: no row reacts to them, or the rows tell them only together with
 * others (the base and the steps of one protocol over one number of ranks, say), or what the rows say agrees with the description. */
#include "cli/topo.h"

#include "cli/coll_tables.h"
#include "cli/progress.h"
#include "cli/score.h"
#include "core/leastsq.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Residuals of repeated measurements of one system (two tables of it differ by 4-7 % over all sizes), where they count as
 * outliers, and how far a constant is believed to lie from where it starts. */
static const double noise = 0.04, outlier = 0.05, prior = 0.5;

#define US 1e-6
struct tunable {
    const char *path; /* of the field whose source changes */
    const char *part; /* of a field with parts, or "" */
    size_t offset;    /* of the double in struct cluster */
    bool net;         /* of what lies between nodes */
    double lo, hi;    /* physical range */
    double start;     /* when the description has none */
};
#define CL(member) offsetof(struct cluster, member)
static const struct tunable tunables[] = {
    {"node.nvlink.efficiency", "", CL(nvlink_efficiency), false, 0.3, 0.99, 0},
    {"node.pcie.efficiency", "", CL(pcie_efficiency), false, 0.2, 0.99, 0},
    {"node.pcie.cpu_link", "", CL(cpu_Bps), false, 1e9, 1e12, 0},
    {"collectives.pcie_step", "ll", CL(coll.pcie_step_s[PROTOCOL_LL]), false, 0.1 * US, 20 * US, 0},
    {"collectives.pcie_step", "simple", CL(coll.pcie_step_s[PROTOCOL_SIMPLE]), false, 0.1 * US,
     50 * US, 0},
    {"collectives.base", "ll", CL(coll.base_s[PROTOCOL_LL]), false, 1 * US, 60 * US, 0},
    {"collectives.base", "ll128", CL(coll.base_s[PROTOCOL_LL128]), false, 1 * US, 60 * US, 0},
    {"collectives.base", "simple", CL(coll.base_s[PROTOCOL_SIMPLE]), false, 1 * US, 100 * US, 0},
    {"collectives.step", "ll", CL(coll.step_s[PROTOCOL_LL]), false, 0.1 * US, 5 * US, 0},
    {"collectives.step", "ll128", CL(coll.step_s[PROTOCOL_LL128]), false, 0.1 * US, 5 * US, 0},
    {"collectives.step", "simple", CL(coll.step_s[PROTOCOL_SIMPLE]), false, 0.1 * US, 5 * US, 0},
    {"collectives.rate_share", "ll", CL(coll.rate_share[PROTOCOL_LL]), false, 0.005, 0.3, 0},
    {"collectives.rate_share", "ll128", CL(coll.rate_share[PROTOCOL_LL128]), false, 0.1, 0.95, 0},
    {"collectives.tail", "low_latency", CL(coll.tail[TAIL_LOW_LATENCY]), false, 0.05, 4, 1},
    {"collectives.tail", "all_reduce", CL(coll.tail[TAIL_ALL_REDUCE]), false, 0.02, 2, 0.4},
    {"collectives.tail", "all_gather", CL(coll.tail[TAIL_ALL_GATHER]), false, 0.02, 2, 0.5},
    {"collectives.tail", "reduce_scatter", CL(coll.tail[TAIL_REDUCE_SCATTER]), false, 0.02, 2, 0.4},
    {"collectives.ramp", "", CL(coll.ramp_s), false, 1 * US, 2e3 * US, 0},
    {"collectives.ramp_at", "", CL(coll.ramp_at_s), false, 1 * US, 2e3 * US, 0},
    {"collectives.one_process", "", CL(coll.one_process_s), false, 1 * US, 100 * US, 15 * US},
    {"collectives.net_step", "ll", CL(coll.net_step_s[PROTOCOL_LL]), true, 0.3 * US, 400 * US, 0},
    {"collectives.net_step", "ll128", CL(coll.net_step_s[PROTOCOL_LL128]), true, 0.3 * US, 600 * US,
     0},
    {"collectives.net_step", "simple", CL(coll.net_step_s[PROTOCOL_SIMPLE]), true, 1 * US, 600 * US,
     0},
    {"node.nic.efficiency", "", CL(nic_efficiency), true, 0.3, 0.995, 0},
    {"collectives.net_ramp", "", CL(coll.net_ramp_s), true, 1 * US, 4e3 * US, 120 * US},
    {"collectives.net_ramp_at", "", CL(coll.net_ramp_at_s), true, 1 * US, 4e3 * US, 200 * US},
    {"collectives.tree_step", "ll", CL(coll.tree_step_s[PROTOCOL_LL]), true, 0.3 * US, 400 * US, 0},
    {"collectives.tree_step", "ll128", CL(coll.tree_step_s[PROTOCOL_LL128]), true, 0.3 * US,
     600 * US, 0},
    {"collectives.tree_step", "simple", CL(coll.tree_step_s[PROTOCOL_SIMPLE]), true, 1 * US,
     600 * US, 0},
    {"collectives.tree_ramp", "", CL(coll.tree_ramp_s), true, 1 * US, 8e3 * US, 0},
    {"collectives.tree_ramp_at", "", CL(coll.tree_ramp_at_s), true, 1 * US, 8e3 * US, 0},
    {"collectives.tree_rate", "ll", CL(coll.tree_rate[PROTOCOL_LL]), true, 0.05, 0.999, 0},
    {"collectives.tree_rate", "ll128", CL(coll.tree_rate[PROTOCOL_LL128]), true, 0.1, 0.999, 0},
    {"collectives.tree_rate", "simple", CL(coll.tree_rate[PROTOCOL_SIMPLE]), true, 0.3, 0.999, 0},
    {"collectives.nvls.link_rate", "", CL(coll.nvls.link_Bps), false, 1e10, 5e12, 0},
    {"collectives.nvls.base", "", CL(coll.nvls.base_s), false, 1 * US, 100 * US, 0},
    {"collectives.nvls.ramp", "", CL(coll.nvls.ramp_s), false, 1 * US, 1e3 * US, 0},
    {"collectives.nvls.ramp_at", "", CL(coll.nvls.ramp_at_s), false, 1 * US, 1e3 * US, 0},
    {"collectives.nvls.net_step", "", CL(coll.nvls.net_step_s), true, 0.3 * US, 200 * US, 0},
    {"collectives.nvls.net_rate", "", CL(coll.nvls.net_rate), true, 0.3, 0.999, 0},
    {"collectives.nvls.net_ramp", "", CL(coll.nvls.net_ramp_s), true, 1 * US, 8e3 * US, 0},
    {"collectives.nvls.net_ramp_at", "", CL(coll.nvls.net_ramp_at_s), true, 1 * US, 8e3 * US, 0},
    {"collectives.p2p.base", "", CL(coll.p2p.base_s), false, 1 * US, 100 * US, 12 * US},
    {"collectives.p2p.both_ways", "", CL(coll.p2p.both_ways), false, 0.4, 0.999, 0.85},
    {"collectives.p2p.ramp", "", CL(coll.p2p.ramp_s), false, 1 * US, 1e3 * US, 50 * US},
    {"collectives.p2p.ramp_at", "", CL(coll.p2p.ramp_at_s), false, 1 * US, 1e3 * US, 50 * US},
    {"collectives.p2p.part_rate", "", CL(coll.p2p.part_Bps), false, 1e9, 2e11, 0},
    {"collectives.p2p.ll_rate", "", CL(coll.p2p.ll_rate), false, 0.02, 0.999, 0},
    {"collectives.p2p.copy_rate", "", CL(coll.p2p.copy_Bps), false, 1e10, 1e13, 0},
    {"collectives.p2p.net_rate", "", CL(coll.p2p.net_rate), true, 0.2, 0.999, 0},
    {"collectives.p2p.net_peer", "", CL(coll.p2p.net_peer_s), true, 0.1 * US, 100 * US, 0},
    {"collectives.p2p.net_fill", "", CL(coll.p2p.net_fill_s), true, 1 * US, 1e3 * US, 0},
};
enum { N_TUNABLES = sizeof(tunables) / sizeof(tunables[0]) };

static double *constant(struct cluster *c, size_t i)
{
    return (double *)((char *)c + tunables[i].offset);
}

/* What the rows tell of a constant. */
enum verdict { NO_ROW, TOGETHER, AGREES, MOVED };
struct told {
    enum verdict verdict;
    double spread; /* standard error of ln(value); not for NO_ROW */
    bool at_bound;
};

struct fitting {
    struct cluster *c;
    struct coll_table *tables;
    size_t n_tables;
    size_t without;          /* a table that is left out; SIZE_MAX: none */
    size_t free[N_TUNABLES]; /* indices of the constants that are searched for */
    size_t n_free;
    struct cluster before;        /* the description as it was given */
    struct told told[N_TUNABLES]; /* by fit() */
};

static bool over_nodes(const struct coll_table *t)
{
    return t->cluster.n_nodes > t->cluster.domain_nodes;
}

static bool used(const struct fitting *f, size_t table, const struct coll_row *r)
{
    return table != f->without && !f->tables[table].skipped && !r->distrust;
}

static size_t n_rows(const struct fitting *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_tables; i++)
        for (size_t k = 0; k < f->tables[i].n_rows; k++)
            n += used(f, i, &f->tables[i].rows[k]);
    return n;
}

/* Predictions of all tables with the constants that c has now. What cannot be predicted is NAN. */
static void predict(struct fitting *f)
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

static void residuals(void *ctx, const double *values, double *out)
{
    struct fitting *f = ctx;

    for (size_t k = 0; k < f->n_free; k++)
        *constant(f->c, f->free[k]) = values[k];
    predict(f);
    for (size_t i = 0; i < f->n_tables; i++)
        for (size_t k = 0; k < f->tables[i].n_rows; k++) {
            const struct coll_row *r = &f->tables[i].rows[k];

            if (used(f, i, r))
                *out++ = log(r->predicted_us / r->time_us);
        }
}

/* How much the rows of tables over several nodes (of tables in a node) react to what stands between the predictions of
 * two residuals() calls. */
static double reaction(const struct fitting *f, bool net, const double *x, const double *y)
{
    double most = 0;
    size_t at = 0;

    for (size_t i = 0; i < f->n_tables; i++)
        for (size_t k = 0; k < f->tables[i].n_rows; k++) {
            if (!used(f, i, &f->tables[i].rows[k]))
                continue;
            if (over_nodes(&f->tables[i]) == net)
                most = fmax(most, fabs(x[at] - y[at]));
            at++;
        }
    return most;
}

/* Free are the constants that some row reacts to: constants of a node by tables in a node, those of the network by tables
 * over several nodes, so that a table of the network cannot bend what it says little about. */
static void find_free(struct fitting *f)
{
    size_t n = n_rows(f), found[N_TUNABLES], n_found = 0;
    double *base = MEM_NEW(double, n), *moved = MEM_NEW(double, n);

    f->n_free = 0;
    residuals(f, NULL, base);
    for (size_t i = 0; i < N_TUNABLES; i++) {
        double *x = constant(f->c, i), was = *x;

        *x = was * 1.1;
        residuals(f, NULL, moved);
        *x = was;
        if (was > 0 && reaction(f, tunables[i].net, base, moved) > 1e-6)
            found[n_found++] = i;
    }
    memcpy(f->free, found, n_found * sizeof(*found));
    f->n_free = n_found;
    mem_free(base);
    mem_free(moved);
}

/* Constants that the description leaves out start where machines of this kind have them, where tables can say something. */
static void fill_in(struct cluster *c, const struct fitting *f)
{
    bool net = false, in_node = false;

    for (size_t i = 0; i < f->n_tables; i++) {
        net |= over_nodes(&f->tables[i]) && !f->tables[i].skipped;
        in_node |= !over_nodes(&f->tables[i]) && !f->tables[i].skipped;
    }
    for (size_t i = 0; i < N_TUNABLES; i++) {
        double *x = constant(c, i);

        if (*x <= 0 && tunables[i].start > 0 && (tunables[i].net ? net : in_node))
            *x = tunables[i].start;
    }
}

/* Searches the free constants; p: [n_free]. */
static int search(struct fitting *f, struct leastsq_param *p, struct err *e)
{
    struct leastsq q = {.residuals = residuals,
                        .ctx = f,
                        .n_rows = n_rows(f),
                        .noise = noise,
                        .outlier = outlier,
                        .prior = prior};

    for (size_t k = 0; k < f->n_free; k++) {
        const struct tunable *t = &tunables[f->free[k]];
        double x = *constant(f->c, f->free[k]);

        p[k] = (struct leastsq_param){.lo = t->lo, .hi = t->hi, .start = x};
        /* a description may start at or beyond a range's end */
        p[k].start = fmin(fmax(x, t->lo * 1.001), t->hi * 0.999);
    }
    return f->n_free ? leastsq_fit(&q, p, f->n_free, e) : 0;
}

/* Gives the constants that are not searched for the values of the description, and the others where a search starts. */
static void restart(struct fitting *f)
{
    bool searched[N_TUNABLES] = {false};

    for (size_t k = 0; k < f->n_free; k++)
        searched[f->free[k]] = true;
    for (size_t i = 0; i < N_TUNABLES; i++) {
        double was = *constant(&f->before, i);

        *constant(f->c, i) = searched[i] && was <= 0 ? tunables[i].start : was;
    }
}

/* Keeps what moved by no more than its standard error: takes it off the free ones. What the description left out has no value to
 * agree with. False: all moved further. */
static bool keep_what_agrees(struct fitting *f, const struct leastsq_param *p)
{
    size_t n = 0, before = f->n_free;

    for (size_t k = 0; k < before; k++) {
        size_t i = f->free[k];
        double was = *constant(&f->before, i);

        f->told[i].at_bound = p[k].at_bound;
        if (was > 0 && fabs(log(p[k].value / was)) <= f->told[i].spread)
            f->told[i].verdict = AGREES;
        else
            f->free[n++] = i;
    }
    f->n_free = n;
    return n < before;
}

/* Fits what the rows tell; f->told says what became of each constant, f->free which moved. ERR_INVALID: the rows tell none. */
static int fit(struct fitting *f, struct err *e)
{
    struct leastsq_param p[N_TUNABLES];
    size_t n = 0;

    memset(f->told, 0, sizeof(f->told));
    find_free(f);
    if (search(f, p, e))
        return -1;
    for (size_t k = 0; k < f->n_free; k++) {
        size_t i = f->free[k];
        bool told = p[k].spread < prior / 2;

        f->told[i] = (struct told){.verdict = told ? MOVED : TOGETHER, .spread = p[k].spread};
        p[n] = p[k];
        f->free[n] = i;
        n += told;
    }
    if (!n)
        return err_set(e, ERR_INVALID,
                       "%zu row%s tell%s none of the constants of %s from the others: nothing to "
                       "fit; measure more sizes, collectives or numbers of ranks",
                       n_rows(f), n_rows(f) == 1 ? "" : "s", n_rows(f) == 1 ? "s" : "", f->c->name);
    f->n_free = n;
    while (keep_what_agrees(f, p)) {
        restart(f);
        if (search(f, p, e))
            return -1;
    }
    restart(f);
    if (search(f, p, e))
        return -1;
    for (size_t k = 0; k < f->n_free; k++)
        *constant(f->c, f->free[k]) = p[k].value;
    predict(f);
    return 0;
}

static struct score score_of(const struct fitting *f, size_t table)
{
    const struct coll_table *t = &f->tables[table];
    struct score s = {.skipped = t->skipped != NULL};

    for (size_t k = 0; k < t->n_rows && !t->skipped; k++) {
        const struct coll_row *r = &t->rows[k];

        if (r->distrust)
            s.distrusted++;
        else
            score_add(&s, t->id, r->n_bytes, r->time_us, r->predicted_us);
    }
    return s;
}

/* ---- bands ---- */

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

/* Relative errors of predictions by size class, in a node [0] and between nodes [1]. */
struct errors {
    double *of[2][BAND_N]; /* owned */
    size_t n[2][BAND_N], cap[2][BAND_N];
};

static void errors_add(struct errors *x, const struct coll_table *t)
{
    int net = over_nodes(t);

    for (size_t k = 0; k < t->n_rows && !t->skipped; k++) {
        const struct coll_row *r = &t->rows[k];
        int b = nccl_band_size(r->n_bytes);

        if (r->distrust)
            continue;
        x->of[net][b] = mem_grow(x->of[net][b], &x->cap[net][b], x->n[net][b] + 1, sizeof(double));
        x->of[net][b][x->n[net][b]++] = fabs(r->time_us / r->predicted_us - 1) /
                                        nccl_band_factor(t->call.kind, (enum band_size)b);
    }
}

/* Half widths that hold nine in ten of the measurements of each size class; of fewer than ten rows nothing is said. Frees. */
static void errors_to_bands(struct errors *x, struct coll_constants *c)
{
    for (int net = 0; net < 2; net++)
        for (int b = 0; b < BAND_N; b++) {
            size_t n = x->n[net][b];

            if (n >= 10) {
                qsort(x->of[net][b], n, sizeof(double), by_value);
                double width = x->of[net][b][(n * 9 + 9) / 10 - 1];

                /* a band as wide as the value says nothing */
                (net ? c->net_band : c->band)[b] = width < 1 ? fmax(width, 0.001) : 0;
            }
            mem_free(x->of[net][b]);
        }
}

/* ---- the report ---- */

static const struct table_col constant_cols[] = {
    {"constant", "constant", TABLE_TEXT, 0, TABLE_AUTO},
    {"unit", "unit", TABLE_TEXT, 0, TABLE_AUTO},
    {"before", "before", TABLE_FIXED, 3, TABLE_AUTO},
    {"fitted", "fitted", TABLE_FIXED, 3, TABLE_AUTO},
    {"spread_percent", "+-%", TABLE_FIXED, 0, TABLE_AUTO},
    {"kept", NULL, TABLE_BOOL, 0, TABLE_AUTO},
    {"says", "what the tables say", TABLE_TEXT, 0, TABLE_AUTO},
};

static const char *says(const struct told *t)
{
    switch (t->verdict) {
    case NO_ROW:
        return "no row reacts to it: kept";
    case TOGETHER:
        return "not told apart from others: kept";
    case AGREES:
        return "agrees: kept";
    case MOVED:
        break;
    }
    return t->at_bound        ? "at the end of its physical range: the model lacks something here"
           : t->spread > 0.15 ? "roughly"
                              : "well";
}

/* Every constant that the description has or the fit gives it. */
static void report_constants(const struct fitting *f, struct arena *a, struct table *t)
{
    table_init(t, constant_cols, sizeof(constant_cols) / sizeof(constant_cols[0]));
    for (size_t i = 0; i < N_TUNABLES; i++) {
        const struct tunable *x = &tunables[i];
        bool time = x->hi<0.01, rate = x->hi> 1e6;
        double unit = time ? US : rate ? 1e9 : 1;
        double was = *constant((struct cluster *)&f->before, i), is = *constant(f->c, i);

        if (is <= 0)
            continue;
        table_row(t);
        table_set_str(t, "constant",
                      *x->part ? arena_printf(a, "%s.%s", x->path, x->part) : x->path);
        table_set_str(t, "unit", time ? "us" : rate ? "GB/s" : "");
        if (was > 0)
            table_set_double(t, "before", was / unit);
        table_set_double(t, "fitted", is / unit);
        if (f->told[i].verdict != NO_ROW)
            table_set_double(t, "spread_percent", 100 * f->told[i].spread);
        table_set_bool(t, "kept", f->told[i].verdict != MOVED);
        table_set_str(t, "says", says(&f->told[i]));
    }
}

static struct score report_tables(const struct fitting *f, const char *suffix, struct arena *a,
                                  struct table *t)
{
    struct score all = {0};

    for (size_t i = 0; i < f->n_tables; i++) {
        struct score s = score_of(f, i);

        score_row(t, arena_printf(a, "%s%s", f->tables[i].id, suffix), &s, true);
        score_merge(&all, &s);
    }
    return all;
}

/* Each table predicted by a fit to all others. */
static int leave_one_out(const struct fitting *f, struct arena *a, struct table *t,
                         struct errors *errors, struct progress *done, struct err *e)
{
    struct score all = {0};

    if (f->n_tables < 2)
        return err_set(e, ERR_INVALID, "--leave-one-out needs two tables or more");
    for (size_t i = 0; i < f->n_tables; i++) {
        struct cluster c = f->before;
        struct fitting one = *f;
        struct score s;

        if (f->tables[i].skipped)
            continue;
        one.c = &c;
        one.without = i;
        progress_next(done, arena_printf(a, "without %s", f->tables[i].id));
        fill_in(&c, &one);
        if (fit(&one, e))
            return err_prefix(e, "without %s", f->tables[i].id);
        s = score_of(&one, i);
        errors_add(errors, &f->tables[i]);
        score_row(t, arena_printf(a, "%s, left out", f->tables[i].id), &s, true);
        score_merge(&all, &s);
    }
    score_row(t, "each table left out once", &all, true);
    return 0;
}

/* ---- the command ---- */

static int read_files(const struct topo_calibration *k, struct fitting *f, struct arena *a,
                      struct err *e)
{
    for (size_t i = 0; i < k->n_files; i++) {
        struct coll_table *more, *all;
        struct json j;
        struct json_at top;
        size_t n;
        int rc;

        if (coll_file_load(&j, k->files[i], NULL, e))
            return -1;
        top = json_top(&j);
        rc = coll_tables_read(&top, k->cluster, true, a, &more, &n, e);
        json_release(&j);
        if (rc)
            return -1;
        all = ARENA_NEW(a, struct coll_table, f->n_tables + n);
        if (f->n_tables)
            memcpy(all, f->tables, f->n_tables * sizeof(*all));
        memcpy(all + f->n_tables, more, n * sizeof(*all));
        f->tables = all;
        f->n_tables += n;
    }
    if (coll_tables_distinct(f->tables, f->n_tables, e))
        return -1;
    if (!n_rows(f))
        return err_set(e, ERR_INVALID, "the tables have no row that %s can predict: nothing to fit",
                       k->cluster);
    return 0;
}

static void set_sources(const struct topo_calibration *k, const struct fitting *f, struct arena *a)
{
    const char *source =
        arena_printf(a, "fit by ballast topo --calibrate to %zu rows of %zu tables in %s%s",
                     n_rows(f), f->n_tables, k->files[0], k->n_files > 1 ? " and others" : "");

    for (size_t i = 0; i < f->n_free; i++)
        cluster_set_source(f->c, a, tunables[f->free[i]].path, source);
    source = arena_printf(
        a, "nine in ten rows of the tables that the constants are fitted to lie within");
    if (f->c->coll.band[BAND_SMALL] > 0 || f->c->coll.band[BAND_LARGE] > 0)
        cluster_set_source(f->c, a, "collectives.band", source);
    if (f->c->coll.net_band[BAND_SMALL] > 0 || f->c->coll.net_band[BAND_LARGE] > 0)
        cluster_set_source(f->c, a, "collectives.net_band", source);
}

int topo_calibrate(const struct topo_calibration *k, struct cluster *c, struct arena *a,
                   struct table *constants, struct table *scores, struct err *e)
{
    struct fitting f = {.c = c, .without = SIZE_MAX};
    struct errors errors = {0};
    struct progress done;
    struct score all, was;
    size_t n_fits = 1;
    int status;

    if (read_files(k, &f, a, e))
        return -1;
    f.before = *c;
    table_init(scores, score_cols, score_n_cols);
    predict(&f);
    all = report_tables(&f, ", before", a, scores);
    score_row(scores, "all, before", &all, true);
    for (size_t i = 0; i < f.n_tables && k->leave_one_out; i++)
        n_fits += !f.tables[i].skipped;
    progress_begin(&done, "fit", n_fits);
    progress_next(&done, "all tables");
    fill_in(c, &f);
    if (fit(&f, e))
        return -1;
    report_constants(&f, a, constants);
    was = all;
    all = report_tables(&f, "", a, scores);
    if (all.sum_abs[SCORE_ALL] > 1.05 * was.sum_abs[SCORE_ALL])
        return err_set(
            e, ERR_INVALID,
            "the fit has %.1f %% mean error, the description %.1f %%: the tables contradict "
            "each other, or are of another machine",
            all.sum_abs[SCORE_ALL] / (double)all.n[SCORE_ALL],
            was.sum_abs[SCORE_ALL] / (double)was.n[SCORE_ALL]);
    score_row(scores, "all, fitted", &all, true);
    status = k->leave_one_out ? leave_one_out(&f, a, scores, &errors, &done, e) : 0;
    progress_end(&done);
    if (status)
        return -1;
    for (size_t i = 0; i < f.n_tables && !k->leave_one_out; i++)
        errors_add(&errors, &f.tables[i]);
    errors_to_bands(&errors, &c->coll);
    set_sources(k, &f, a);
    return 0;
}
