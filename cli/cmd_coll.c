/* ballast coll: what nccl-tests would print for a collective on a cluster, by the model that every step uses (sim/nccl.h). */
#include "cli/coll_tables.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "core/num.h"

#include <math.h>
#include <string.h>
#include <strings.h>

/* By enum coll_algo. */
#define X(v, way) #way,
static const char *const gathers[] = {"auto", SEGMENT_ALGOS(X) NULL};
#undef X

static const struct opt rows[] = {
    {.name = "cluster",
     .letter = 'c',
     .type = OPT_STRING,
     .meta = "CLUSTER",
     .help = "bundled name (ballast topo --list), file, or BASE:key=value,..."},
    {.name = "nodes",
     .type = OPT_COUNT,
     .meta = "N",
     .min = 1,
     .max = CLUSTER_MAX_NODES,
     .dflt = "1",
     .help = "nodes of the cluster"},
    {.name = "ranks",
     .type = OPT_STRING,
     .meta = "LIST",
     .dflt_note = "all",
     .help = "who takes part: 0-3,8-11 or, every eighth, 0-63/8"},
    {.name = "min",
     .letter = 'b',
     .type = OPT_BYTES,
     .dflt = "8",
     .min = 1,
     .max = UINT64_C(1) << 50,
     .help = "smallest size"},
    {.name = "max",
     .letter = 'e',
     .type = OPT_BYTES,
     .dflt = "8G",
     .min = 1,
     .max = UINT64_C(1) << 50,
     .help = "largest size"},
    {.name = "factor",
     .letter = 'f',
     .type = OPT_DOUBLE,
     .meta = "X",
     .dflt = "2",
     .lo = 1.01,
     .hi = 1e6,
     .help = "each size so many times the one before"},
    {.name = "algo",
     .type = OPT_LIST,
     .meta = "A,...",
     .dflt_note = "NCCL's choice",
     .help = "allowed: Ring, Tree, NVLS, NVLSTree, CollNet, as NCCL_ALGO"},
    {.name = "proto",
     .type = OPT_LIST,
     .meta = "P,...",
     .dflt_note = "NCCL's choice",
     .help = "allowed: LL, LL128, Simple, as NCCL_PROTO"},
    {.name = "nccl",
     .type = OPT_STRING,
     .meta = "VERSION",
     .dflt_note = "2.27; 2.29 on Blackwell",
     .help = "NCCL's version, as 2.27: which algorithm it takes over nodes, and how it sends"},
    {.name = "in-place", .type = OPT_FLAG, .help = "buffers in place, nccl-tests' right half"},
    {.name = "one-process",
     .type = OPT_FLAG,
     .help = "one process drives all GPUs of a node, not one each"},
    {.name = "gather",
     .type = OPT_CHOICE,
     .choices = gathers,
     .dflt = "auto",
     .help = "of owner_gather and owner_reduce: who hands on what"},
    {.name = "owners",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "1",
     .min = 1,
     .max = 1 << 24,
     .help = "of owner_gather and owner_reduce: ranks, evenly spread, that own equal parts"},
    {.name = "piece",
     .type = OPT_BYTES,
     .dflt_note = "all at once",
     .help = "cut into calls of so many bytes, one after the other"},
    {.name = "contend",
     .type = OPT_LIST,
     .meta = "C[@LIST],...",
     .help = "collectives of the same size that run at once, as all_gather@8-15; + for , in LIST"},
    {.name = "measured",
     .type = OPT_STRING,
     .meta = "FILE",
     .help = "a table of measurements beside the prediction (docs/CLI.md)"},
    {.name = "plot",
     .type = OPT_STRING,
     .meta = "PREFIX",
     .help = "bus bandwidth over size: PREFIX.svg and PREFIX.png"},
    COMMAND_OUTPUT_ROWS,
};

enum { MAX_CALLS = 256 };

struct asked {
    struct cluster cluster;
    struct call calls[MAX_CALLS]; /* the first is what is asked for, the others contend */
    uint32_t n_calls;
    const char *name;                  /* of the collective */
    uint32_t n_nodes;                  /* that the ranks are on */
    enum band_basis basis;             /* of the row that least is known of */
    const struct coll_table *measured; /* or NULL */
};

/* ---- what is asked for ---- */

static bool number(const char **s, uint64_t *out)
{
    const char *from = *s;

    for (*out = 0; **s >= '0' && **s <= '9' && *s - from < 9; ++*s)
        *out = *out * 10 + (uint64_t)(**s - '0');
    return *s > from;
}

/* One piece of a list, FIRST[-LAST[/STEP]]; *s moves behind it. */
static bool range(const char **s, uint64_t *first, uint64_t *last, uint64_t *step)
{
    *step = 1;
    if (!number(s, first))
        return false;
    *last = *first;
    if (**s == '-') {
        ++*s;
        if (!number(s, last))
            return false;
        if (**s == '/') {
            ++*s;
            if (!number(s, step) || !*step)
                return false;
        }
    }
    return *first <= *last;
}

static int read_ranks(const char *text, uint64_t world, struct arena *a, struct call *c,
                      struct err *e)
{
    const char *s = text;
    bool *in = mem_alloc(world, sizeof(*in));
    uint32_t *list, n = 0;
    int status = -1;

    do {
        uint64_t first, last, step;

        if (!range(&s, &first, &last, &step) || (*s && *s != ',' && *s != '+')) {
            err_set(e, ERR_INVALID,
                    "ranks '%.100s': expected numbers and ranges, as 0-3,8-11 or 0-63/8", text);
            goto out;
        }
        for (uint64_t r = first; r <= last; r += step) {
            if (r >= world) {
                err_set(e, ERR_INVALID, "ranks '%.100s': there is no rank %llu, the last is %llu",
                        text, (unsigned long long)r, (unsigned long long)world - 1);
                goto out;
            }
            if (in[r]) {
                err_set(e, ERR_INVALID, "ranks '%.100s' name rank %llu twice", text,
                        (unsigned long long)r);
                goto out;
            }
            in[r] = true;
            n++;
        }
    } while (*s++);
    list = ARENA_NEW(a, uint32_t, n);
    c->ranks = list;
    c->n_ranks = n;
    for (uint64_t r = 0; r < world; r++)
        if (in[r])
            *list++ = (uint32_t)r;
    status = 0;
out:
    mem_free(in);
    return status;
}

static int read_nccl(const struct opts *o, struct nccl_options *n, struct err *e)
{
    const struct opt_val *algos = opts_get(o, "algo"), *protos = opts_get(o, "proto");
    const char *version = opts_get(o, "nccl")->text;
    uint32_t bit;

    if (version && nccl_version_parse(version, &n->version, e))
        return err_prefix(e, "--nccl");
    if (version && (n->version < NCCL_OLDEST || n->version > NCCL_NEWEST))
        return err_set(e, ERR_INVALID, "--nccl %s: the choices of NCCL 2.%d to 2.%d are known here",
                       version, NCCL_OLDEST % 100, NCCL_NEWEST % 100);
    n->out_of_place = !opts_get(o, "in-place")->u64;
    n->one_process = opts_get(o, "one-process")->u64;
    for (size_t i = 0; i < algos->n_list; i++) {
        if (nccl_algo_parse(algos->list[i], &bit, e))
            return err_prefix(e, "--algo");
        n->algos |= bit;
    }
    for (size_t i = 0; i < protos->n_list; i++) {
        if (nccl_protocol_parse(protos->list[i], &bit, e))
            return err_prefix(e, "--proto");
        n->protocols |= bit;
    }
    return 0;
}

static int read_contenders(const struct opts *o, struct asked *q, struct arena *a, struct err *e)
{
    const struct opt_val *v = opts_get(o, "contend");
    uint64_t world = (uint64_t)q->cluster.n_nodes * q->cluster.gpus_per_node;

    if (v->n_list >= MAX_CALLS)
        return err_set(e, ERR_INVALID, "--contend names %zu collectives, at most %d", v->n_list,
                       MAX_CALLS - 1);
    for (size_t i = 0; i < v->n_list; i++) {
        struct call *c = &q->calls[q->n_calls++];
        const char *at = strchr(v->list[i], '@');
        char *name =
            arena_strndup(a, v->list[i], at ? (size_t)(at - v->list[i]) : strlen(v->list[i]));

        *c = q->calls[0];
        c->nccl.algos = c->nccl.protocols = 0;
        if (coll_or_owners_parse(name, &c->kind, e) || (at && read_ranks(at + 1, world, a, c, e)))
            return err_prefix(e, "--contend");
    }
    return 0;
}

/* Was the table measured on the cluster that is asked for, by its name? */
static bool measured_here(const struct asked *q, const struct coll_table *t)
{
    return !strcasecmp(t->cluster_name, q->cluster.name);
}

/* Of several tables the cluster's own before another's, then those of as many processes as asked for. */
static int suits(const struct asked *q, const struct coll_table *t)
{
    return 2 * measured_here(q, t) + (t->call.nccl.one_process == q->calls[0].nccl.one_process);
}

/* Is it an owner's collective, which no measured table has? */
static bool segments(enum coll_kind kind)
{
    return kind == COLL_SEGMENT_GATHER || kind == COLL_SEGMENT_REDUCE;
}

static int read_measured(const char *path, const struct opts *o, struct asked *q, struct arena *a,
                         struct err *e)
{
    enum coll_kind kind = q->calls[0].kind;
    struct coll_table *list;
    struct json_at top;
    struct json j;
    size_t n;
    int status;

    if (coll_file_load(&j, path, segments(kind) ? NULL : coll_kind_nccl_name(kind), e))
        return -1;
    top = json_top(&j);
    status = coll_tables_read(&top, opts_get(o, "cluster")->text, true, a, &list, &n, e);
    json_release(&j);
    if (status)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (list[i].call.kind == q->calls[0].kind && list[i].call.n_ranks == q->calls[0].n_ranks &&
            (!q->measured || suits(q, &list[i]) > suits(q, q->measured)))
            q->measured = &list[i];
    if (!q->measured)
        return err_set(e, ERR_INVALID, "'%s': has no table of %s over %u ranks", path, q->name,
                       q->calls[0].n_ranks);
    for (uint32_t i = 0; i < q->n_calls; i++) { /* as the table was run */
        struct nccl_options *run = &q->calls[i].nccl;

        run->one_process |= q->measured->call.nccl.one_process;
        run->version = run->version ? run->version : q->measured->call.nccl.version;
    }
    return 0;
}

/* NVLink domains between the first rank and the last that have a member. */
static uint32_t count_nodes(const struct asked *q)
{
    const struct call *c = &q->calls[0];
    uint32_t domain = cluster_domain_gpus(&q->cluster), n = 1;

    if (!c->ranks)
        return (uint32_t)num_ceil_div(c->n_ranks, domain);
    for (uint32_t i = 1; i < c->n_ranks; i++)
        n += c->ranks[i] / domain != c->ranks[i - 1] / domain;
    return n;
}

static int read_question(const struct opts *o, struct arena *a, struct asked *q, struct err *e)
{
    struct call *c = &q->calls[0];
    const char *ranks = opts_get(o, "ranks")->text, *cluster = opts_get(o, "cluster")->text,
               *measured = opts_get(o, "measured")->text;
    bool owners;

    if (opts_positionals(o, 1, 1, "COLLECTIVE", e))
        return -1;
    if (!cluster)
        return err_set(e, ERR_USAGE,
                       "--cluster is needed: a bundled name (ballast topo --list), a file, "
                       "or a line");
    q->n_calls = 1;
    if (coll_or_owners_parse(o->pos[0], &c->kind, e) || cluster_load(cluster, a, &q->cluster, e) ||
        cluster_resize(&q->cluster, (uint32_t)opts_get(o, "nodes")->u64, e) ||
        read_nccl(o, &c->nccl, e))
        return -1;
    owners = segments(c->kind);
    q->name = owners ? o->pos[0] : coll_kind_name(c->kind);
    c->n_ranks = q->cluster.n_nodes * q->cluster.gpus_per_node;
    if (ranks && read_ranks(ranks, c->n_ranks, a, c, e))
        return err_prefix(e, "--ranks");
    if (measured &&
        (opts_get(o, "min")->set || opts_get(o, "max")->set || opts_get(o, "factor")->set))
        return err_set(e, ERR_USAGE,
                       "--measured has sizes of its own: no --min, --max or --factor");
    if (!owners && (opts_get(o, "gather")->set || opts_get(o, "owners")->set))
        return err_set(e, ERR_USAGE, "--gather and --owners go with owner_gather and owner_reduce");
    if (owners && opts_get(o, "algo")->set)
        return err_set(e, ERR_USAGE, "--algo is NCCL's choice; who hands on what of %s is --gather",
                       q->name);
    if (c->n_ranks < 2)
        return err_set(e, ERR_INVALID, "%s over 1 rank, expected at least 2 (--nodes, --ranks)",
                       q->name);
    c->algo = owners ? (enum coll_algo)opts_get(o, "gather")->u64 : ALGO_RING;
    c->n_owners = (uint32_t)opts_get(o, "owners")->u64;
    c->piece_bytes = opts_get(o, "piece")->u64;
    q->n_nodes = count_nodes(q);
    if (read_contenders(o, q, a, e))
        return -1;
    return measured ? read_measured(measured, o, q, a, e) : 0;
}

/* ---- answers ---- */

static const struct table_col cols[] = {
    {"bytes", "bytes", TABLE_INT, 0, TABLE_AUTO},
    {"time_us", "time us", TABLE_FIXED, 2, TABLE_AUTO},
    {"algbw_GBps", "algbw GB/s", TABLE_FIXED, 2, TABLE_AUTO},
    {"busbw_GBps", "busbw GB/s", TABLE_FIXED, 2, TABLE_AUTO},
    {"algorithm", "algorithm", TABLE_TEXT, 0, TABLE_AUTO},
    {"protocol", "protocol", TABLE_TEXT, 0, TABLE_AUTO},
    {"band_percent", "band +-%", TABLE_FIXED, 0, TABLE_AUTO},
    {"alone_us", "alone us", TABLE_FIXED, 2, TABLE_AUTO},
    {"measured_us", "measured us", TABLE_FIXED, 2, TABLE_AUTO},
    {"error_percent", "error %", TABLE_FIXED, 1, TABLE_AUTO},
    {"distrust", "set apart", TABLE_TEXT, 0, TABLE_AUTO},
    {"channels", NULL, TABLE_INT, 0, TABLE_AUTO},
};

enum { N_COLS = sizeof(cols) / sizeof(cols[0]) };

/* The sizes: the measured ones, or min, min x factor, ... up to max. */
static size_t sizes(const struct opts *o, const struct asked *q, uint64_t *out, size_t cap)
{
    double size = (double)opts_get(o, "min")->u64, most = (double)opts_get(o, "max")->u64;
    size_t n = 0;

    if (q->measured) {
        for (; n < q->measured->n_rows && n < cap; n++)
            out[n] = q->measured->rows[n].n_bytes;
        return n;
    }
    for (; size <= most && n < cap; size *= opts_get(o, "factor")->d)
        if (!n || (uint64_t)size > out[n - 1])
            out[n++] = (uint64_t)size;
    return n;
}

static const char *algorithm(const struct asked *q, const struct call_time *t)
{
    return segments(q->calls[0].kind) ? coll_algo_name(t->algo) : nccl_algo_name(t->nccl.algo);
}

static void fill(struct table *t, struct asked *q, uint64_t bytes, const struct call_time *x,
                 double measured_us, const char *distrust)
{
    double us = (double)x->end_ps / 1e6, algbw = (double)bytes / us / 1e3;
    enum band_basis basis;
    double band = nccl_band(&q->cluster, q->calls[0].kind, bytes, q->calls[0].n_ranks, q->n_nodes,
                            segments(q->calls[0].kind) ? NCCL_ALGO_N : x->nccl.algo, &basis);

    if (basis > q->basis) /* the document's is its weakest row's */
        q->basis = basis;
    table_row(t);
    table_set_u64(t, "bytes", bytes);
    table_set_double(t, "time_us", us);
    table_set_double(t, "algbw_GBps", algbw);
    table_set_double(t, "busbw_GBps",
                     algbw * call_bus_factor(q->calls[0].kind, q->calls[0].n_ranks));
    table_set_str(t, "algorithm", algorithm(q, x));
    table_set_str(t, "protocol", nccl_protocol_shown(&x->nccl));
    table_set_double(t, "band_percent", 100 * band);
    table_set_u64(t, "channels", (uint64_t)x->nccl.channels);
    if (q->n_calls > 1)
        table_set_double(t, "alone_us", (double)x->alone_ps / 1e6);
    if (measured_us > 0) {
        table_set_double(t, "measured_us", measured_us);
        table_set_double(t, "error_percent", 100 * (us / measured_us - 1));
    }
    table_set_str(t, "distrust", distrust);
}

static int predict(struct asked *q, const uint64_t *size, size_t n, struct table *t, struct err *e)
{
    bool in_place = !q->calls[0].nccl.out_of_place;

    for (size_t i = 0; i < n; i++) {
        struct call_time out[MAX_CALLS];
        const struct coll_row *m = q->measured ? &q->measured->rows[i] : NULL;

        for (uint32_t k = 0; k < q->n_calls; k++)
            q->calls[k].n_bytes = size[i];
        if (call_times(&q->cluster, q->calls, q->n_calls, out, e))
            return -1;
        fill(t, q, size[i], &out[0],
             !m         ? 0
             : in_place ? m->inplace_us
                        : m->time_us,
             m ? m->distrust : NULL);
    }
    return 0;
}

static int plot(const char *prefix, const struct asked *q, const struct table *t, struct arena *a,
                struct err *e)
{
    struct plot_point *p = ARENA_NEW(a, struct plot_point, t->n_rows),
                      *m = ARENA_NEW(a, struct plot_point, t->n_rows);
    struct plot_points all = {.predicted = p, .n_predicted = t->n_rows, .measured = m};

    for (size_t i = 0; i < t->n_rows; i++) {
        const struct table_cell *cell = &t->cells[i * t->n_cols];
        double bytes = (double)cell[0].v.u64, us = cell[1].v.d, busbw = cell[3].v.d,
               band = cell[6].v.d / 100;

        /* the band is one of times: a time of nothing would be no bound, so the band ends at a tenth */
        p[i] = (struct plot_point){bytes, busbw, busbw / (1 + band), busbw / fmax(1 - band, 0.1)};
        if (cell[8].state == TABLE_DOUBLE && cell[10].state != TABLE_STR)
            m[all.n_measured++] = (struct plot_point){bytes, busbw * us / cell[8].v.d, 0, 0};
    }
    all.title =
        arena_printf(a, "%s over %u ranks of %s", q->name, q->calls[0].n_ranks, q->cluster.name);
    return plot_coll(prefix, &all, e);
}

/* Where the table is from: this cluster, another, or GPUs of a kind on a cluster that it does not name. */
static void say_measured(const struct asked *q, struct strbuf *out)
{
    const struct coll_table *t = q->measured;

    strbuf_printf(out, "measured: %s", t->id);
    if (!measured_here(q, t) && t->cluster_name[0])
        strbuf_printf(out, ", which is of %s, not of this cluster", t->cluster_name);
    else if (!measured_here(q, t) && coll_system_has(t->system, &q->cluster))
        strbuf_printf(out, ", on %s of a cluster that it does not name", t->system);
    else if (!measured_here(q, t))
        strbuf_printf(out, ", which is of %s, not of this cluster", t->system);
    strbuf_puts(out, "\n");
}

static const char *basis_text(const struct asked *q)
{
    const struct call *c = &q->calls[0];

    switch (q->basis) {
    case BASIS_NONE:
        return "unvalidated: no measured table covers such a call on this fabric";
    case BASIS_UNCHECKED:
        return "unchecked: no measured table has switches that reduce (CollNet)";
    case BASIS_OTHER_KIND:
        return q->n_nodes > 1 ? "unvalidated: no measured table of this collective on this fabric"
                              : "unvalidated: no measured table of this collective in such a node";
    case BASIS_OTHER_RANKS:
    case BASIS_MEASURED:
        break;
    }
    if (q->n_calls > 1 || c->piece_bytes || c->nccl.algos || c->nccl.protocols)
        return "of the tables of this fabric, which have no such run: a lower bound";
    if (q->basis == BASIS_MEASURED)
        return "validated by measured tables of this fabric";
    return q->n_nodes > 1 ? "extrapolated from measured tables of this fabric: of other nodes, "
                            "GPUs of each or algorithms"
                          : "from measured tables of other numbers of GPUs of such a node";
}

static void print_head(const struct asked *q, const char *basis, struct strbuf *out)
{
    const struct nccl_options *n = &q->calls[0].nccl;

    strbuf_printf(out, "%s over %u ranks, %u x %s, %s", q->name, q->calls[0].n_ranks,
                  q->cluster.n_nodes, q->cluster.name,
                  n->out_of_place ? "out of place" : "in place");
    if (n->one_process)
        strbuf_puts(out, ", one process a node");
    if (n->version)
        strbuf_printf(out, ", NCCL %u.%u", n->version / 100, n->version % 100);
    if (q->n_calls > 1)
        strbuf_puts(out, ", others at once");
    strbuf_printf(out, "; band: %s\n\n", basis);
}

static void print(const struct asked *q, const struct table *t, enum table_format f, int argc,
                  char **argv, struct strbuf *out)
{
    const char *basis = basis_text(q);

    if (f == TABLE_AS_JSON) {
        cJSON *doc = output_document("ballast-coll", 1, argc, argv);

        json_add_str(doc, "collective", q->name);
        json_add_str(doc, "cluster", q->cluster.name);
        json_add_u64(doc, "nodes", q->cluster.n_nodes);
        json_add_u64(doc, "ranks", q->calls[0].n_ranks);
        json_add_str(doc, "error_basis", basis);
        if (q->measured)
            json_add_str(doc, "measured", q->measured->id);
        json_add_tree(doc, "rows", table_to_json(t));
        json_print(doc, true, out);
        strbuf_putc(out, '\n');
        json_free(doc);
        return;
    }
    if (f != TABLE_AS_CSV && q->measured)
        say_measured(q, out);
    if (f != TABLE_AS_CSV)
        print_head(q, basis, out);
    table_print(t, f, out);
}

/* Is a row of the measured table set apart? */
static bool any_apart(const struct asked *q)
{
    for (size_t i = 0; q->measured && i < q->measured->n_rows; i++)
        if (q->measured->rows[i].distrust)
            return true;
    return false;
}

static int coll(const struct opts *o, struct arena *a, int argc, char **argv, struct strbuf *out,
                struct err *e)
{
    enum { MAX_SIZES = 4000 };
    uint64_t *size = ARENA_NEW(a, uint64_t, MAX_SIZES);
    struct asked *q = ARENA_NEW(a, struct asked, 1);
    const char *prefix = opts_get(o, "plot")->text;
    struct table_col shown[N_COLS];
    struct table t;
    size_t n;
    int status;

    if (read_question(o, a, q, e))
        return -1;
    n = sizes(o, q, size, MAX_SIZES);
    if (!n)
        return err_set(e, ERR_USAGE, "-b is above -e: no size to predict");
    memcpy(shown, cols, sizeof(cols));
    for (size_t i = 0; i < N_COLS; i++)
        if ((q->n_calls == 1 && !strcmp(cols[i].key, "alone_us")) ||
            (!any_apart(q) && !strcmp(cols[i].key, "distrust")) ||
            (!q->measured &&
             (!strcmp(cols[i].key, "measured_us") || !strcmp(cols[i].key, "error_percent"))))
            shown[i].head = NULL;
    table_init(&t, shown, N_COLS);
    status = predict(q, size, n, &t, e);
    if (!status)
        print(q, &t, (enum table_format)opts_get(o, "format")->u64, argc, argv, out);
    if (!status && prefix)
        status = plot(prefix, q, &t, a, e);
    table_release(&t);
    return status;
}

int cmd_coll(int argc, char **argv, struct err *e)
{
    static const struct plain_command command = {
        .usage =
            "usage: ballast coll COLLECTIVE --cluster CLUSTER [--nodes N] [options]\n\n"
            "Predicts the table that nccl-tests would print. COLLECTIVE: all_reduce, all_gather, "
            "reduce_scatter,\n"
            "broadcast, reduce, alltoall, sendrecv; owner_gather and owner_reduce are an owner's "
            "whole matrix to\n"
            "all ranks, and the sum of all to it.\n\n",
        .rows = rows,
        .n_rows = sizeof(rows) / sizeof(rows[0]),
        .run = coll,
    };

    return command_plain(&command, argc, argv, e);
}
