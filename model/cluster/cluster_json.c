/* Reads the file form of a cluster, "ballast-cluster" version 1: one table of fields (cluster_fields.c) drives the reader,
 * the writer (cluster_write.c) and the list of numbers with their sources (cluster_sources.c). topologies/README.md documents
 * every key.
 *
 * A field is a plain value or {"value": ..., "source": "..."}. Quantities are strings with units as on the command line
 * ("200Gb/s", "81920MiB", "3.6us", "312TFLOP/s") or plain numbers in the base unit (bytes, bytes/s, s, FLOP/s).
 */
#include "model/cluster/cluster_inner.h"

#include "core/units.h"

#include <math.h>
#include <string.h>

/* ---- read one value ---- */

static int read_double(const struct json_at *v, const struct field *f, double *out, struct err *e)
{
    uint64_t n;

    switch (f->kind) {
    case RATE:
        return json_as_quantity(v, UNITS_BANDWIDTH, f->lo, f->hi, out, e);
    case TIME:
    case TIMES3:
        return json_as_quantity(v, UNITS_TIME, f->lo, f->hi, out, e);
    case FLOPS:
        return json_as_quantity(v, UNITS_FLOPS, f->lo, f->hi, out, e);
    case COUNTS:
        if (json_as_u64(v, (uint64_t)f->lo, (uint64_t)f->hi, &n, e))
            return -1;
        *out = (double)n;
        return 0;
    default:
        return json_as_double(v, f->lo, f->hi, out, e);
    }
}

static int read_by_name(const struct json_at *v, const struct field *f, double *out, struct err *e)
{
    const char *const *names = cluster_names_of(f->kind);
    size_t n = 0;

    while (names[n])
        n++;
    if (json_only_keys(v, names, n, e))
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct json_at m;

        if (json_get(v, names[i], &m, e) || read_double(&m, f, &out[i], e))
            return -1;
    }
    return 0;
}

static int read_nic_of_gpu(const struct json_at *v, struct cluster *c, struct err *e)
{
    struct json_at it;
    uint32_t g = 0;
    size_t n;

    if (json_is_array(v, &n, e))
        return -1;
    if (n < c->gpus_per_node)
        return json_err(v, ERR_INVALID, e, "has %zu entries: GPU %zu of %u has no NIC", n, n,
                        c->gpus_per_node);
    if (n > c->gpus_per_node)
        return json_err(v, ERR_INVALID, e, "has %zu entries, and the node has %u GPUs", n,
                        c->gpus_per_node);
    for (bool ok = json_first(v, &it); ok; ok = json_next(&it)) {
        uint64_t nic;

        if (json_as_u64(&it, 0, c->nics_per_node - 1, &nic, e))
            return -1;
        c->nic_of_gpu[g++] = (uint8_t)nic;
    }
    return 0;
}

/* One list of n things, that of `holder` number s: which[i] = s for each listed i; taken[] refuses
 * a second. */
static int read_list(const struct json_at *list, const char *things, const char *holder, uint32_t n,
                     uint32_t s, uint8_t *which, bool *taken, struct err *e)
{
    struct json_at it;

    if (json_is_array(list, NULL, e))
        return -1;
    for (bool ok = json_first(list, &it); ok; ok = json_next(&it)) {
        uint64_t i;

        if (json_as_u64(&it, 0, 1 << 20, &i, e))
            return -1;
        if (i >= n)
            return json_err(&it, ERR_INVALID, e, "is %llu, and the node has %u %s",
                            (unsigned long long)i, n, things);
        if (taken[i])
            return json_err(&it, ERR_INVALID, e, "is %llu, which %s %u has already",
                            (unsigned long long)i, holder, which[i]);
        taken[i] = true;
        which[i] = (uint8_t)s;
    }
    return 0;
}

static int read_members(const struct json_at *sw, const char *key, uint32_t n, uint32_t s,
                        uint8_t *which, bool *taken, struct err *e)
{
    struct json_at list;

    return json_opt(sw, key, &list) ? read_list(&list, key, "switch", n, s, which, taken, e) : 0;
}

/* Lists that hold each of n things once; their number in *lists. */
static int read_lists(const struct json_at *v, const char *things, const char *thing,
                      const char *holder, uint32_t n, uint8_t *which, uint32_t *lists,
                      struct err *e)
{
    bool taken[CLUSTER_MAX_SWITCHES] = {false};
    struct json_at it;
    uint32_t s = 0;
    size_t k;

    if (json_is_array(v, &k, e))
        return -1;
    if (k < 1 || k > CLUSTER_MAX_GPUS_PER_NODE)
        return json_err(v, ERR_INVALID, e, "has %zu entries, expected 1 to %d", k,
                        CLUSTER_MAX_GPUS_PER_NODE);
    for (bool ok = json_first(v, &it); ok; ok = json_next(&it), s++)
        if (read_list(&it, things, holder, n, s, which, taken, e))
            return -1;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i])
            return json_err(v, ERR_INVALID, e, "leave out %s %u", thing, i);
    *lists = (uint32_t)k;
    return 0;
}

/* NVLink domains of one size; all GPUs in one is a node that is not split. */
static int read_domains(const struct json_at *v, struct cluster *c, struct err *e)
{
    uint32_t sizes[CLUSTER_MAX_GPUS_PER_NODE] = {0}, n;

    if (read_lists(v, "GPUs", "GPU", "domain", c->gpus_per_node, c->domain_of_gpu, &n, e))
        return -1;
    for (uint32_t g = 0; g < c->gpus_per_node; g++)
        sizes[c->domain_of_gpu[g]]++;
    for (uint32_t d = 1; d < n; d++)
        if (sizes[d] != sizes[0])
            return json_err(v, ERR_INVALID, e,
                            "are of %u GPUs and of %u (domain %u), expected domains of one size",
                            sizes[0], sizes[d], d);
    if (sizes[0] < 2)
        return json_err(v, ERR_INVALID, e,
                        "are of one GPU each: leave out node.nvlink where there is no NVLink");
    c->domain_gpus = n > 1 ? sizes[0] : 0;
    return 0;
}

static int read_switches(const struct json_at *v, struct cluster *c, struct err *e)
{
    static const char *const keys[] = {"gpus", "nics"};
    bool gpu[CLUSTER_MAX_GPUS_PER_NODE] = {false}, nic[CLUSTER_MAX_NICS_PER_NODE] = {false};
    struct json_at it;
    uint32_t s = 0;
    size_t n;

    if (json_is_array(v, &n, e))
        return -1;
    if (n < 1 || n > 255)
        return json_err(v, ERR_INVALID, e, "has %zu entries, expected 1 to 255", n);
    for (bool ok = json_first(v, &it); ok; ok = json_next(&it), s++)
        if (json_only_keys(&it, keys, 2, e) ||
            read_members(&it, "gpus", c->gpus_per_node, s, c->switch_of_gpu, gpu, e) ||
            read_members(&it, "nics", c->nics_per_node, s, c->switch_of_nic, nic, e))
            return -1;
    for (uint32_t g = 0; g < c->gpus_per_node; g++)
        if (!gpu[g])
            return json_err(v, ERR_INVALID, e, "leave out GPU %u", g);
    for (uint32_t i = 0; i < c->nics_per_node; i++)
        if (!nic[i])
            return json_err(v, ERR_INVALID, e, "leave out NIC %u", i);
    c->pcie_switches = (uint32_t)n;
    return 0;
}

static int read_kernel_rates(const struct json_at *v, const struct field *f, double *out,
                             struct err *e)
{
    const char *names[KERNEL_N];
    enum field_kind kind;
    size_t n = 0;

    for (int k = 0; k < KERNEL_N; k++)
        if (cluster_rate_of((enum kernel)k, &kind))
            names[n++] = kernel_name((enum kernel)k);
    if (json_only_keys(v, names, n, e))
        return -1;
    for (int k = 0; k < KERNEL_N; k++) {
        struct field one = *f;
        struct json_at m;

        if (!cluster_rate_of((enum kernel)k, &one.kind) ||
            !json_opt(v, kernel_name((enum kernel)k), &m))
            continue;
        if (read_double(&m, &one, &out[k], e))
            return -1;
    }
    return 0;
}

static int read_gemm_grid(const struct json_at *v, struct cluster *c, struct arena *a,
                          struct err *e)
{
    struct gemm_grid *g = ARENA_NEW(a, struct gemm_grid, 1);

    c->device.gemm_grid = g;
    return gemm_grid_read(v, g, e);
}

/* A number without sign, blank or leading zero; behind it. NULL: there is none, or it passes most. */
static const char *plain_number(const char *s, uint32_t most, uint32_t *out)
{
    *out = 0;
    if (*s < '1' || *s > '9')
        return NULL;
    for (; *s >= '0' && *s <= '9'; s++)
        if ((*out = *out * 10 + (uint32_t)(*s - '0')) > most)
            return NULL;
    return s;
}

/* "8": of one node; "4x8": of four nodes of 8; "2x8:Ring": all of it by rings. */
static int read_table(const struct json_at *v, uint32_t kind, struct coll_constants *k,
                      struct err *e)
{
    struct measured_table t = {.kind = (uint8_t)kind, .nodes = 1};
    const char *text, *s;
    uint32_t gpus;

    if (json_as_str(v, &text, e))
        return -1;
    s = plain_number(text, CLUSTER_MAX_RANKS, &gpus);
    if (s && *s == 'x') {
        t.nodes = gpus;
        s = plain_number(s + 1, CLUSTER_MAX_RANKS, &gpus);
    }
    if (s && *s == ':')
        for (uint8_t i = 0; measured_algorithms[i] && !t.algorithm; i++)
            if (!strcmp(s + 1, measured_algorithms[i])) {
                t.algorithm = i + 1;
                s += 1 + strlen(measured_algorithms[i]);
            }
    if (!s || *s || (text[0] == '1' && text[1] == 'x') || gpus > CLUSTER_MAX_GPUS_PER_NODE ||
        (t.nodes == 1 && gpus == 1))
        return json_err(v, ERR_INVALID, e,
                        "is '%.40s', expected the GPUs of a node, as 8, or nodes and GPUs of each, "
                        "as 4x8; and by which algorithm, if only one, as 4x8:Ring",
                        text);
    t.gpus = (uint16_t)gpus;
    for (uint32_t i = 0; i < k->n_tables; i++) {
        const struct measured_table *x = &k->tables[i];

        if (x->kind == kind && x->nodes == t.nodes && x->gpus == t.gpus &&
            x->algorithm == t.algorithm)
            return json_err(v, ERR_INVALID, e, "names '%.40s' twice", text);
    }
    k->tables[k->n_tables++] = t;
    return 0;
}

static int read_tables(const struct json_at *v, struct coll_constants *out, struct err *e)
{
    if (json_only_keys(v, measured_kinds, MEASURED_KINDS, e))
        return -1;
    for (uint32_t k = 0; k < MEASURED_KINDS; k++) {
        struct json_at list, it;
        size_t n;

        if (!json_opt(v, measured_kinds[k], &list))
            continue;
        if (json_is_array(&list, &n, e))
            return -1;
        if (out->n_tables + n > MEASURED_MAX)
            return json_err(&list, ERR_INVALID, e, "makes more than %d tables", MEASURED_MAX);
        for (bool ok = json_first(&list, &it); ok; ok = json_next(&it))
            if (read_table(&it, k, out, e))
                return -1;
    }
    return 0;
}

static int read_value(const struct json_at *v, const struct field *f, struct cluster *c,
                      struct arena *a, struct err *e)
{
    uint64_t n;
    double x;
    int i;

    switch (f->kind) {
    case U32:
        if (json_as_u64(v, (uint64_t)f->lo, (uint64_t)f->hi, &n, e))
            return -1;
        *(uint32_t *)member(c, f) = (uint32_t)n;
        return 0;
    case BYTES:
        if (json_as_quantity(v, UNITS_BYTES, f->lo, f->hi, &x, e))
            return -1;
        if (x != floor(x))
            return json_err(v, ERR_INVALID, e, "is %s, expected whole bytes",
                            units_show_double(x).s);
        *(uint64_t *)member(c, f) = (uint64_t)x;
        return 0;
    case TIMES3:
    case SHARES3:
    case TAILS:
    case BANDS:
    case COUNTS:
        return read_by_name(v, f, member(c, f), e);
    case FLAG:
        return json_as_bool(v, member(c, f), e);
    case LINK_KIND:
        if (json_as_enum(v, cluster_link_kinds, &i, e))
            return -1;
        *(bool *)member(c, f) = i;
        return 0;
    case NIC_OF_GPU:
        return read_nic_of_gpu(v, c, e);
    case SWITCHES:
        return read_switches(v, c, e);
    case DOMAINS:
        return read_domains(v, c, e);
    case CPUS:
        return read_lists(v, "PCIe switches", "PCIe switch", "CPU", c->pcie_switches,
                          c->cpu_of_switch, &c->n_cpus, e);
    case KERNEL_RATES:
        return read_kernel_rates(v, f, member(c, f), e);
    case GEMM_GRID:
        return read_gemm_grid(v, c, a, e);
    case TABLES:
        return read_tables(v, &c->coll, e);
    default:
        return read_double(v, f, member(c, f), e);
    }
}

/* ---- read sections ---- */

struct reader {
    struct cluster *c;
    struct arena *a;
    const char **sources; /* [N_FIELDS] in arena */
};

/* Whether to read on with what is at `key`: 1 yes, 0 absent and that is fine, -1 refused. */
static int find(const struct json_at *in, const char *key, enum presence presence, uint32_t n_nics,
                struct json_at *out, struct err *e)
{
    bool there = json_opt(in, key, out);

    if (there && presence >= WITH_NICS && !n_nics)
        return json_err(out, ERR_INVALID, e, "is given, but node.nic is not");
    if (there)
        return 1;
    if (presence == OPTIONAL || presence >= NIC_SPREAD || (presence == WITH_NICS && !n_nics))
        return 0;
    return json_get(in, key, out, e);
}

static int read_field(struct reader *r, const struct json_at *in, const struct field *f,
                      struct err *e)
{
    static const char *const keys[] = {"value", "source"};
    struct json_at v, inner;
    const char *source;
    int rc = find(in, f->key, f->presence, r->c->nics_per_node, &v, e);

    if (rc == 0 && f->kind == NIC_OF_GPU)
        cluster_spread_nics(r->c);
    if (rc <= 0)
        return rc;
    if (json_opt(&v, "value", &inner) || json_opt(&v, "source", &inner)) {
        if (json_only_keys(&v, keys, 2, e) || json_str_or(&v, "source", NULL, &source, e) ||
            json_get(&v, "value", &inner, e))
            return -1;
        if (source && *source)
            r->sources[f - cluster_fields] = arena_strdup(r->a, source);
        v = inner;
    }
    return read_value(&v, f, r->c, r->a, e);
}

static int only_known_keys(const struct json_at *at, enum section_id id, struct err *e)
{
    const char *keys[N_FIELDS + N_SECTIONS + 8];
    size_t n = 0;

    for (size_t i = 0;
         i < sizeof(cluster_sections[id].strings) / sizeof(cluster_sections[id].strings[0]); i++)
        if (cluster_sections[id].strings[i])
            keys[n++] = cluster_sections[id].strings[i];
    if (id == TOP)
        keys[n++] = "format_version";
    for (int s = 0; s < N_SECTIONS; s++)
        if (cluster_sections[s].parent == (int)id)
            keys[n++] = cluster_sections[s].key;
    for (int i = 0; i < N_FIELDS; i++)
        if (cluster_fields[i].section == id)
            keys[n++] = cluster_fields[i].key;
    return json_only_keys(at, keys, n, e);
}

static int read_text(const struct json_at *at, const char *key, bool required, struct arena *a,
                     const char **out, struct err *e)
{
    const char *s = "";

    if (required ? json_str(at, key, &s, e) : json_str_or(at, key, "", &s, e))
        return -1;
    if (required && !*s)
        return json_err(at, ERR_INVALID, e, "has an empty '%s'", key);
    if (strlen(s) > 1000)
        return json_err(at, ERR_INVALID, e, "has a '%s' of %zu bytes, at most 1000", key,
                        strlen(s));
    *out = arena_strdup(a, s);
    return 0;
}

static int read_section(struct reader *r, const struct json_at *at, enum section_id id,
                        struct err *e)
{
    struct cluster *c = r->c;

    if (only_known_keys(at, id, e))
        return -1;
    if (id == TOP && (read_text(at, "name", true, r->a, &c->name, e) ||
                      read_text(at, "summary", false, r->a, &c->summary, e) ||
                      read_text(at, "source", false, r->a, &c->source, e)))
        return -1;
    if (id == DEVICE && read_text(at, "name", true, r->a, &c->device.name, e))
        return -1;
    if (id == NIC && read_text(at, "name", false, r->a, &c->nic_name, e))
        return -1;
    for (int i = 0; i < N_FIELDS; i++)
        if (cluster_fields[i].section == id && read_field(r, at, &cluster_fields[i], e))
            return -1;
    for (int s = 0; s < N_SECTIONS; s++) {
        struct json_at sub;
        int rc;

        if (cluster_sections[s].parent != (int)id)
            continue;
        rc = find(at, cluster_sections[s].key, cluster_sections[s].presence, c->nics_per_node, &sub,
                  e);
        if (rc < 0 || (rc > 0 && read_section(r, &sub, (enum section_id)s, e)))
            return -1;
    }
    return 0;
}

/* NVLink domains within a node, and what joins them. */
static int check_split(const struct json_at *at, const struct cluster *c, struct err *e)
{
    if (!c->n_cpus != !(c->cpu_Bps > 0))
        return json_err(at, ERR_INVALID, e, "has node.pcie.%s without node.pcie.%s",
                        c->n_cpus ? "cpus" : "cpu_link", c->n_cpus ? "cpu_link" : "cpus");
    if (!cluster_is_split(c))
        return 0;
    if (c->domain_nodes > 1)
        return json_err(at, ERR_INVALID, e,
                        "has NVLink domains of %u GPUs and of %u nodes, expected one of them",
                        c->domain_gpus, c->domain_nodes);
    if (!c->pcie_switches)
        return json_err(at, ERR_INVALID, e,
                        "has GPUs that NVLink does not join, and no node.pcie that does");
    if (c->coll.nvls.link_Bps > 0)
        return json_err(at, ERR_INVALID, e,
                        "has collectives.nvls, and no NVSwitch joins all GPUs of a node");
    return 0;
}

/* What no field can see alone. */
static int check(const struct json_at *at, const struct cluster *c, struct err *e)
{
    const struct device *d = &c->device;

    if (check_split(at, c, e))
        return -1;

    if (d->context_bytes >= d->memory_bytes)
        return json_err(at, ERR_INVALID, e, "has device.context %s, expected less than memory %s",
                        units_show_bytes(d->context_bytes).s, units_show_bytes(d->memory_bytes).s);
    if (d->collective_sms >= d->n_sm)
        return json_err(at, ERR_INVALID, e,
                        "has device.collective_sms %u, expected less than sms %u",
                        d->collective_sms, d->n_sm);
    if (d->attention_flops > d->peak_flops)
        return json_err(at, ERR_INVALID, e, "has device.attention above device.peak_bf16");
    for (int k = 0; k < KERNEL_N; k++)
        if (d->kernel_rate[k] > (kernel_bound((enum kernel)k) == 'A' ? d->peak_flops : d->hbm_Bps))
            return json_err(at, ERR_INVALID, e, "has device.kernel_rates.%s above device.%s",
                            kernel_name((enum kernel)k),
                            kernel_bound((enum kernel)k) == 'A' ? "peak_bf16" : "hbm");
    if (cluster_domain_gpus(c) > CLUSTER_MAX_GPUS_PER_NODE ||
        c->nics_per_node * c->domain_nodes > CLUSTER_MAX_NICS_PER_NODE)
        return json_err(at, ERR_INVALID, e,
                        "has an NVLink domain of %u GPUs and %u NICs, expected at most %d and %d",
                        cluster_domain_gpus(c), c->nics_per_node * c->domain_nodes,
                        CLUSTER_MAX_GPUS_PER_NODE, CLUSTER_MAX_NICS_PER_NODE);
    if (c->nodes_per_leaf % c->domain_nodes)
        return json_err(at, ERR_INVALID, e,
                        "has fabric.nodes_per_leaf %u, expected whole NVLink domains of %u nodes",
                        c->nodes_per_leaf, c->domain_nodes);
    if (c->oversubscription > 1 && !c->nodes_per_leaf)
        return json_err(at, ERR_INVALID, e,
                        "has fabric.oversubscription %s, but nodes_per_leaf 0 is one leaf for all, "
                        "without up-links",
                        units_show_double(c->oversubscription).s);
    return 0;
}

int cluster_from_tree(const struct json_at *at, struct arena *a, struct cluster *c, struct err *e)
{
    struct reader r = {.c = c, .a = a, .sources = ARENA_NEW(a, const char *, N_FIELDS)};
    const char *format;
    uint64_t version;

    memset(c, 0, sizeof(*c));
    c->nic_name = "";
    c->n_nodes = c->domain_nodes = 1;
    c->oversubscription = 1;
    c->device.tf32_share = 0.5;
    if (json_str(at, "format", &format, e))
        return -1;
    if (strcmp(format, CLUSTER_FORMAT) != 0)
        return json_err(at, ERR_PARSE, e, "has the format '%.60s', expected '" CLUSTER_FORMAT "'",
                        format);
    if (json_u64(at, "format_version", 1, JSON_EXACT, &version, e))
        return -1;
    if (version != CLUSTER_VERSION)
        return json_err(at, ERR_UNSUPPORTED, e, "has format_version %llu; this program reads %d",
                        (unsigned long long)version, CLUSTER_VERSION);
    if (read_section(&r, at, TOP, e))
        return -1;
    if (!(c->nvlink_Bps > 0)) { /* node.nvlink is left out */
        c->domain_gpus = 1;
        for (uint32_t g = 0; g < c->gpus_per_node; g++)
            c->domain_of_gpu[g] = (uint8_t)g;
    }
    c->sources = r.sources;
    return check(at, c, e);
}

int cluster_from_json(const char *text, size_t len, const char *file, struct arena *a,
                      struct cluster *c, struct err *e)
{
    struct json j;
    struct json_at top;
    int rc;

    if (json_parse(&j, file, text, len, e))
        return -1;
    top = json_top(&j);
    rc = cluster_from_tree(&top, a, c, e);
    json_release(&j);
    return rc;
}
