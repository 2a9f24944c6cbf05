/* ballast topo --calibrate: the constants that are fitted to measured tables (cli/topo_fit.h says
 * how), the report, and the bands of the result. */
#include "cli/topo.h"

#include "cli/coll_tables.h"
#include "cli/progress.h"
#include "cli/score.h"
#include "cli/topo_fit.h"
#include "core/num.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define US         1e-6
#define CL(member) offsetof(struct cluster, member)
const struct topo_tunable topo_tunables[] = {
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
const size_t topo_n_tunables = sizeof(topo_tunables) / sizeof(topo_tunables[0]);

static struct score score_of(const struct topo_fit *f, size_t table)
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
    uint32_t kinds[2][BAND_N]; /* that rows are of, 1u << enum coll_kind */
};

static void errors_add(struct errors *x, const struct coll_table *t)
{
    int net = topo_over_nodes(t);

    for (size_t k = 0; k < t->n_rows && !t->skipped; k++) {
        const struct coll_row *r = &t->rows[k];
        int b = nccl_band_size(r->n_bytes);

        if (r->distrust)
            continue;
        x->of[net][b] = mem_grow(x->of[net][b], &x->cap[net][b], x->n[net][b] + 1, sizeof(double));
        x->of[net][b][x->n[net][b]++] = fabs(r->time_us / r->predicted_us - 1) /
                                        nccl_band_factor(t->call.kind, (enum band_size)b);
        x->kinds[net][b] |= 1u << t->call.kind;
    }
}

/* Does a band hold for this kind without being widened? */
static uint32_t band_kinds(void)
{
    uint32_t kinds = 0;

    for (enum coll_kind k = 0; k < COLL_N; k++)
        if (nccl_band_factor(k, BAND_SMALL) == 1)
            kinds |= 1u << k;
    return kinds;
}

/* Half widths that hold nine in ten of the measurements of each size class. Fewer than ten rows say
 * nothing. Bands of other collectives are multiples of these (sim/nccl.h), so rows of some
 * collectives can only widen a band, and make none where there was none. Frees. */
static void errors_to_bands(struct errors *x, struct coll_constants *c)
{
    for (int net = 0; net < 2; net++) {
        double *band = net ? c->net_band : c->band, found[BAND_N];
        bool all = true;

        for (int b = 0; b < BAND_N; b++) {
            size_t n = x->n[net][b];

            found[b] = band[b];
            if (n >= 10) {
                bool of_all = (x->kinds[net][b] & band_kinds()) == band_kinds();
                double width;

                qsort(x->of[net][b], n, sizeof(double), by_value);
                width = fmin(fmax(x->of[net][b][(n * 9 + 9) / 10 - 1], 0.001), 10);
                if (of_all || band[b] > 0)
                    found[b] = of_all ? width : fmax(width, band[b]);
            }
            all = all && found[b] > 0;
            mem_free(x->of[net][b]);
        }
        if (all) /* a description says all size classes or none */
            memcpy(band, found, sizeof(found));
    }
}

/* The table as a description lists it (struct measured_table): nodes are NVLink domains. */
static struct measured_table measured(const struct coll_table *t)
{
    uint32_t domain = t->cluster.domain_nodes > 1 ? t->cluster.domain_nodes : 1;
    struct measured_table m = {.nodes = (uint32_t)num_ceil_div(t->cluster.n_nodes, domain)};

    while (strcmp(measured_kinds[m.kind], coll_kind_nccl_name(t->call.kind)))
        m.kind++;
    m.gpus = t->call.n_ranks / m.nodes;
    return m;
}

/* Lists the tables that stand behind the constants of a node, or of the network: those that were
 * fitted to, and those of the description unless a constant moved, since the machine that they
 * measured is then another one. */
static void cover(const struct topo_fit *f, bool net)
{
    struct coll_constants *c = &f->c->coll;
    const double *band = net ? c->net_band : c->band;
    uint32_t n = 0;
    bool moved = false;

    for (size_t i = 0; i < f->n_tunables; i++)
        moved |= f->tunables[i].net == net && topo_moved(f->told[i].verdict);
    for (uint32_t i = 0; i < c->n_tables; i++)
        if (!moved || (c->tables[i].nodes > 1) != net)
            c->tables[n++] = c->tables[i];
    c->n_tables = n;
    for (size_t i = 0; i < f->n_tables && band[BAND_SMALL] > 0; i++) {
        struct measured_table m;
        bool there = false;

        if (f->tables[i].skipped || topo_over_nodes(&f->tables[i]) != net)
            continue;
        m = measured(&f->tables[i]);
        for (uint32_t k = 0; k < c->n_tables; k++)
            there |= c->tables[k].kind == m.kind && c->tables[k].nodes == m.nodes &&
                     c->tables[k].gpus == m.gpus;
        if (!there && c->n_tables < MEASURED_MAX)
            c->tables[c->n_tables++] = m;
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

/* "all_gather over 2 GPUs", "all_reduce over 16 GPUs of 2 nodes". */
static const char *show_group(const struct topo_group *g, struct arena *a)
{
    const char *kind = coll_kind_nccl_name(g->call.kind);

    return g->over_nodes
               ? arena_printf(a, "%s over %u GPUs of %u nodes", kind, g->call.n_ranks, g->n_nodes)
               : arena_printf(a, "%s over %u GPUs", kind, g->call.n_ranks);
}

static const char *name_of(size_t i, struct arena *a)
{
    const struct topo_tunable *x = &topo_tunables[i];

    return *x->part ? arena_printf(a, "%s.%s", x->path, x->part) : x->path;
}

/* "14 rows of all_reduce, 10.0 % faster": than predicted, in the mean. */
static const char *show_rows(const struct topo_told *t, struct arena *a)
{
    double percent = 100 * (exp(t->off) - 1);
    const char *kinds = "";

    for (enum coll_kind k = 0; k < COLL_N; k++)
        if (t->kinds & 1u << k)
            kinds = arena_printf(a, "%s%s%s", kinds, *kinds ? ", " : "", coll_kind_nccl_name(k));
    return arena_printf(a, "%zu row%s of %s, %.1f %% %s", t->rows, t->rows == 1 ? "" : "s", kinds,
                        fabs(percent), percent < 0 ? "faster" : "slower");
}

static const char *says(const struct topo_fit *f, size_t i, struct arena *a)
{
    const struct topo_told *t = &f->told[i];
    const char *how = t->at_bound ? "at the end of its physical range: the model lacks something"
                      : t->spread > 0.15 ? "roughly"
                                         : "well";

    switch (t->verdict) {
    case TOPO_NO_ROW:
        return "no row reacts to it: kept";
    case TOPO_TOGETHER:
        return t->partner == i ? "told too roughly: kept"
                               : arena_printf(a, "not told apart from %s: kept",
                                              strchr(name_of(t->partner, a), '.') + 1);
    case TOPO_AGREES:
        return "agrees: kept";
    case TOPO_AGAINST:
        return arena_printf(a, "moves against its rows (%s): kept", show_rows(t, a));
    case TOPO_HELD:
        return arena_printf(a, "%s: %s; held by %s", how, show_rows(t, a),
                            show_group(topo_call_group(f->calls, t->call), a));
    case TOPO_MOVED:
        return arena_printf(a, "%s: %s", how, show_rows(t, a));
    }
    return "";
}

/* Every constant that the description has or the fit gives it. */
static void report_constants(const struct topo_fit *f, struct arena *a, struct table *t)
{
    table_init(t, constant_cols, sizeof(constant_cols) / sizeof(constant_cols[0]));
    for (size_t i = 0; i < topo_n_tunables; i++) {
        const struct topo_tunable *x = &topo_tunables[i];
        bool time = x->hi<0.01, rate = x->hi> 1e6;
        double unit = time ? US : rate ? 1e9 : 1;
        double was = topo_value(&f->before, x), is = topo_value(f->c, x);

        if (is <= 0)
            continue;
        table_row(t);
        table_set_str(t, "constant", name_of(i, a));
        table_set_str(t, "unit", time ? "us" : rate ? "GB/s" : "");
        if (was > 0)
            table_set_double(t, "before", was / unit);
        table_set_double(t, "fitted", is / unit);
        if (f->told[i].verdict != TOPO_NO_ROW)
            table_set_double(t, "spread_percent", 100 * f->told[i].spread);
        table_set_bool(t, "kept", !topo_moved(f->told[i].verdict));
        table_set_str(t, "says", says(f, i, a));
    }
}

/* "all_gather over 2 GPUs, which tells collectives.base.ll"; NULL: no table tells more. */
static const char *show_next(const struct topo_fit *f, struct arena *a)
{
    const char *text = "";

    if (!f->next)
        return NULL;
    for (size_t i = 0; i < topo_n_tunables; i++)
        if (f->next_tells[i])
            text = arena_printf(a, "%s%s%s", text, *text ? ", " : "", name_of(i, a));
    return arena_printf(a, "%s, which tells %s", show_group(f->next, a), text);
}

static struct score report_tables(const struct topo_fit *f, const char *suffix, struct arena *a,
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
static int leave_one_out(const struct topo_fit *f, struct arena *a, struct table *t,
                         struct errors *errors, struct progress *done, struct err *e)
{
    struct score all = {0};

    if (f->n_tables < 2)
        return err_set(e, ERR_INVALID, "--leave-one-out needs two tables or more");
    for (size_t i = 0; i < f->n_tables; i++) {
        struct cluster c = f->before;
        struct topo_fit one = *f;
        struct score s;

        if (f->tables[i].skipped)
            continue;
        one.c = &c;
        one.without = i;
        progress_next(done, arena_printf(a, "without %s", f->tables[i].id));
        if (topo_fit(&one, e))
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

static int read_files(const struct topo_calibration *k, struct arena *a, struct coll_table **tables,
                      size_t *n_tables, struct err *e)
{
    *tables = NULL;
    *n_tables = 0;
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
        all = ARENA_NEW(a, struct coll_table, *n_tables + n);
        if (*n_tables)
            memcpy(all, *tables, *n_tables * sizeof(*all));
        memcpy(all + *n_tables, more, n * sizeof(*all));
        *tables = all;
        *n_tables += n;
    }
    return coll_tables_distinct(*tables, *n_tables, e);
}

static void set_sources(const struct topo_calibration *k, const struct topo_fit *f, struct arena *a)
{
    const char *source = arena_printf(
        a, "fit by ballast topo --calibrate to %zu rows of %zu tables in %s%s", topo_fit_rows(f),
        f->n_tables, k->files[0], k->n_files > 1 ? " and others" : "");

    for (size_t i = 0; i < topo_n_tunables; i++)
        if (topo_moved(f->told[i].verdict))
            cluster_set_source(f->c, a, topo_tunables[i].path, source);
    if (f->c->coll.believed_ll128 != f->before.coll.believed_ll128)
        cluster_set_source(f->c, a, "collectives.believed_ll128",
                           "follows node.nvlink.efficiency, so that NCCL's choice stays as it was");
    source = "nine in ten rows of the tables that the constants are fitted to lie within";
    if (memcmp(f->c->coll.band, f->before.coll.band, sizeof(f->c->coll.band)))
        cluster_set_source(f->c, a, "collectives.band", source);
    if (memcmp(f->c->coll.net_band, f->before.coll.net_band, sizeof(f->c->coll.net_band)))
        cluster_set_source(f->c, a, "collectives.net_band", source);
    if (f->c->coll.n_tables != f->before.coll.n_tables ||
        memcmp(f->c->coll.tables, f->before.coll.tables,
               f->before.coll.n_tables * sizeof(*f->before.coll.tables)))
        cluster_set_source(f->c, a, "collectives.tables",
                           "the tables that constants are fitted to");
}

int topo_calibrate(const struct topo_calibration *k, struct cluster *c, struct arena *a,
                   struct table *constants, struct table *scores, const char **next, struct err *e)
{
    struct coll_table *tables;
    struct errors errors = {0};
    struct progress done;
    struct score all, was;
    size_t n_tables, n_fits = 1;
    struct topo_fit f;
    int status;

    if (read_files(k, a, &tables, &n_tables, e))
        return -1;
    topo_fit_init(&f, topo_tunables, topo_n_tunables, c, tables, n_tables, a);
    if (!topo_fit_rows(&f))
        return err_set(e, ERR_INVALID, "the tables have no row that %s can predict: nothing to fit",
                       k->cluster);
    table_init(scores, score_cols, score_n_cols);
    all = report_tables(&f, ", before", a, scores);
    score_row(scores, "all, before", &all, true);
    for (size_t i = 0; i < f.n_tables && k->leave_one_out; i++)
        n_fits += !f.tables[i].skipped;
    progress_begin(&done, "fit", n_fits);
    progress_next(&done, "all tables");
    if (topo_fit(&f, e))
        return -1;
    topo_fit_measure_next(&f);
    *next = show_next(&f, a);
    if (!topo_fit_tells(&f))
        return err_set(e, ERR_INVALID,
                       "%zu row%s none of the constants of %s: nothing to fit; measure also %s",
                       topo_fit_rows(&f), topo_fit_rows(&f) == 1 ? " identifies" : "s identify",
                       c->name,
                       *next ? *next : "more sizes, other collectives or other numbers of GPUs");
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
    cover(&f, false);
    cover(&f, true);
    set_sources(k, &f, a);
    return 0;
}
