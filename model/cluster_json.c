/* The file form of a cluster, "ballast-cluster" version 1: one table of fields drives the reader, the writer and the list
 * of numbers with their sources. topologies/README.md documents every key.
 *
 * A field is a plain value or {"value": ..., "source": "..."}. Quantities are strings with units as on the command line
 * ("200Gb/s", "81920MiB", "3.6us", "312TFLOP/s") or plain numbers in the base unit (bytes, bytes/s, s, FLOP/s). The
 * writer uses the string only when it reads back as the same double.
 */
#include "model/cluster.h"

#include "core/num.h"
#include "core/units.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define FORMAT "ballast-cluster"
enum { VERSION = 1, NO_PARENT = -1 };

static const char *const protocols[] = {"ll", "ll128", "simple", NULL};
static const char *const tails[] = {"low_latency", "all_reduce", "all_gather", "reduce_scatter",
                                    NULL};
static const char *const band_sizes[] = {"small", "medium", "large", NULL};
static const char *const channels[] = {"ring", "nic", "nvls", "p2p", NULL};
static const char *const link_kinds[] = {"direct", "nvswitch", NULL};

/* ---- the tables ---- */

enum presence {
    REQUIRED,
    OPTIONAL,   /* absent: zero, or what cluster_from_tree() puts there first */
    WITH_NICS,  /* required with node.nic, refused without */
    NIC_SPREAD, /* with node.nic only; absent: GPUs spread over the NICs in order */
};

enum section_id {
    TOP,
    DEVICE,
    NODE,
    NVLINK,
    NIC,
    PCIE,
    FABRIC,
    COLLECTIVES,
    NVLS,
    P2P,
    N_SECTIONS
};
static const struct {
    const char *key;
    int parent;
    enum presence presence;
    const char *strings[4]; /* keys that are text, not fields */
} sections[N_SECTIONS] = {
    [TOP] = {"", NO_PARENT, REQUIRED, {"format", "name", "summary", "source"}},
    [DEVICE] = {"device", TOP, REQUIRED, {"name"}},
    [NODE] = {"node", TOP, REQUIRED, {NULL}},
    [NVLINK] = {"nvlink", NODE, REQUIRED, {NULL}},
    [NIC] = {"nic", NODE, OPTIONAL, {"name"}},
    [PCIE] = {"pcie", NODE, OPTIONAL, {NULL}},
    [FABRIC] = {"fabric", TOP, WITH_NICS, {NULL}},
    [COLLECTIVES] = {"collectives", TOP, REQUIRED, {NULL}},
    [NVLS] = {"nvls", COLLECTIVES, OPTIONAL, {NULL}},
    [P2P] = {"p2p", COLLECTIVES, OPTIONAL, {NULL}},
};

enum field_kind {
    U32,
    BYTES, /* uint64_t */
    RATE,  /* double, bytes/s, from here on */
    TIME,
    FLOPS,
    NUMBER,
    TIMES3, /* by protocol */
    SHARES3,
    TAILS,
    BANDS,
    COUNTS,    /* double, whole */
    FLAG,      /* bool */
    LINK_KIND, /* bool: nvswitch */
    NIC_OF_GPU,
    SWITCHES,
    KERNEL_RATES, /* double by enum kernel */
    GEMM_GRID,
};
struct field {
    enum section_id section;
    const char *key;
    enum field_kind kind;
    size_t offset;
    double lo, hi;
    enum presence presence;
};
#define CL(member)  offsetof(struct cluster, member)
#define DEV(member) (offsetof(struct cluster, device) + offsetof(struct device, member))
#define COL(member) (offsetof(struct cluster, coll) + offsetof(struct coll_constants, member))

/* The ranges keep every time between a picosecond's share and years: no product of them overflows. */
static const struct field fields[] = {
    {DEVICE, "memory", BYTES, DEV(memory_bytes), 1 << 20, 0x1p50, REQUIRED},
    {DEVICE, "context", BYTES, DEV(context_bytes), 0, 0x1p50, REQUIRED},
    {DEVICE, "fragmentation", NUMBER, DEV(fragmentation), 0, 0.9, REQUIRED},
    {DEVICE, "peak_bf16", FLOPS, DEV(peak_flops), 1e6, 1e20, REQUIRED},
    {DEVICE, "tf32_share", NUMBER, DEV(tf32_share), 1e-3, 1, OPTIONAL},
    {DEVICE, "fp8_share", NUMBER, DEV(fp8_share), 0.1, 8, OPTIONAL},
    {DEVICE, "hbm", RATE, DEV(hbm_Bps), 1e3, 1e17, REQUIRED},
    {DEVICE, "sms", U32, DEV(n_sm), 1, 65536, REQUIRED},
    {DEVICE, "collective_sms", U32, DEV(collective_sms), 0, 65536, OPTIONAL},
    {DEVICE, "gemm_efficiency", NUMBER, DEV(gemm_efficiency), 1e-3, 1, REQUIRED},
    {DEVICE, "gemm_k0", NUMBER, DEV(gemm_k0), 0, 1e6, REQUIRED},
    {DEVICE, "gemm_grid", GEMM_GRID, DEV(gemm_grid), 0, 0, OPTIONAL},
    {DEVICE, "hbm_efficiency", NUMBER, DEV(hbm_efficiency), 1e-3, 1, REQUIRED},
    {DEVICE, "attention", FLOPS, DEV(attention_flops), 1e6, 1e20, REQUIRED},
    {DEVICE, "attention_masked", NUMBER, DEV(attention_masked), 0.1, 1, OPTIONAL},
    {DEVICE, "l2", NUMBER, DEV(l2_bytes), 0, 0x1p40, OPTIONAL},
    {DEVICE, "sustained_factor", NUMBER, DEV(sustained_factor), 1, 10, REQUIRED},
    {DEVICE, "launch", TIME, DEV(launch_s), 0, 1, REQUIRED},
    {DEVICE, "kernel", TIME, DEV(kernel_s), 0, 1, REQUIRED},
    {DEVICE, "blocking_call", TIME, DEV(blocking_s), 0, 1, OPTIONAL},
    {DEVICE, "kernel_rates", KERNEL_RATES, DEV(kernel_rate), 1e3, 1e20, OPTIONAL},
    {NODE, "gpus", U32, CL(gpus_per_node), 1, CLUSTER_MAX_GPUS_PER_NODE, REQUIRED},
    {NVLINK, "kind", LINK_KIND, CL(nvswitch), 0, 0, REQUIRED},
    {NVLINK, "rate", RATE, CL(nvlink_Bps), 1e3, 1e17, REQUIRED},
    {NVLINK, "domain_nodes", U32, CL(domain_nodes), 1, CLUSTER_MAX_GPUS_PER_NODE, OPTIONAL},
    {NVLINK, "efficiency", NUMBER, CL(nvlink_efficiency), 1e-3, 1, REQUIRED},
    {NIC, "count", U32, CL(nics_per_node), 1, CLUSTER_MAX_NICS_PER_NODE, REQUIRED},
    {NIC, "rate", RATE, CL(nic_Bps), 1e3, 1e17, REQUIRED},
    {NIC, "efficiency", NUMBER, CL(nic_efficiency), 1e-3, 1, REQUIRED},
    {NIC, "of_gpu", NIC_OF_GPU, 0, 0, 0, NIC_SPREAD},
    {PCIE, "uplink", RATE, CL(pcie_Bps), 1e3, 1e17, REQUIRED},
    {PCIE, "switches", SWITCHES, 0, 0, 0, REQUIRED},
    {FABRIC, "rail_optimised", FLAG, CL(rail_optimised), 0, 0, REQUIRED},
    {FABRIC, "nodes_per_leaf", U32, CL(nodes_per_leaf), 0, CLUSTER_MAX_NODES, REQUIRED},
    {FABRIC, "oversubscription", NUMBER, CL(oversubscription), 1, 1000, REQUIRED},
    {FABRIC, "hop", TIME, CL(hop_s), 0, 1, REQUIRED},
    {FABRIC, "sharp", FLAG, CL(sharp), 0, 0, OPTIONAL},
    {COLLECTIVES, "base", TIMES3, COL(base_s), 0, 1, REQUIRED},
    {COLLECTIVES, "step", TIMES3, COL(step_s), 0, 1, REQUIRED},
    {COLLECTIVES, "net_step", TIMES3, COL(net_step_s), 0, 1, WITH_NICS},
    {COLLECTIVES, "rate_share", SHARES3, COL(rate_share), 1e-3, 1, REQUIRED},
    {COLLECTIVES, "ramp", TIME, COL(ramp_s), 0, 1, REQUIRED},
    {COLLECTIVES, "ramp_at", TIME, COL(ramp_at_s), 0, 1, REQUIRED},
    {COLLECTIVES, "net_ramp", TIME, COL(net_ramp_s), 0, 1, OPTIONAL},
    {COLLECTIVES, "net_ramp_at", TIME, COL(net_ramp_at_s), 0, 1, OPTIONAL},
    {COLLECTIVES, "tail", TAILS, COL(tail), 0, 10, OPTIONAL},
    {COLLECTIVES, "tree_rate", NUMBER, COL(tree_rate), 1e-3, 1, OPTIONAL},
    {COLLECTIVES, "believed_ll128", NUMBER, COL(believed_ll128), 1e-3, 1, OPTIONAL},
    {COLLECTIVES, "one_process", TIME, COL(one_process_s), 0, 1, OPTIONAL},
    {COLLECTIVES, "channels", COUNTS, COL(channels), 1, 64, OPTIONAL},
    {COLLECTIVES, "band", BANDS, COL(band), 1e-3, 10, OPTIONAL},
    {COLLECTIVES, "net_band", BANDS, COL(net_band), 1e-3, 10, OPTIONAL},
    {NVLS, "rate", RATE, COL(nvls.rate_Bps), 1e3, 1e17, REQUIRED},
    {NVLS, "base", TIME, COL(nvls.base_s), 0, 1, REQUIRED},
    {NVLS, "net_step", TIME, COL(nvls.net_step_s), 0, 1, WITH_NICS},
    {NVLS, "ramp", TIME, COL(nvls.ramp_s), 0, 1, REQUIRED},
    {NVLS, "ramp_at", TIME, COL(nvls.ramp_at_s), 0, 1, REQUIRED},
    {NVLS, "nic_share", NUMBER, COL(nvls.nic_share), 1e-3, 1, WITH_NICS},
    {NVLS, "min_gpus", U32, COL(nvls.min_gpus), 2, CLUSTER_MAX_GPUS_PER_NODE, REQUIRED},
    {P2P, "base", TIME, COL(p2p.base_s), 0, 1, REQUIRED},
    {P2P, "both_ways", NUMBER, COL(p2p.both_ways), 1e-3, 1, REQUIRED},
    {P2P, "ramp", TIME, COL(p2p.ramp_s), 0, 1, REQUIRED},
    {P2P, "ramp_at", TIME, COL(p2p.ramp_at_s), 0, 1, REQUIRED},
    {TOP, "price_per_gpu_hour", NUMBER, CL(price_per_gpu_hour), 0, 1e6, OPTIONAL},
};
enum { N_FIELDS = sizeof(fields) / sizeof(fields[0]) };

static void *member(struct cluster *c, const struct field *f)
{
    return (char *)c + f->offset;
}

static const void *const_member(const struct cluster *c, const struct field *f)
{
    return (const char *)c + f->offset;
}

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

/* Of a field that is one number a name: the names. NULL: it is no such field. */
static const char *const *names_of(enum field_kind k)
{
    return k == TIMES3 || k == SHARES3 ? protocols
           : k == TAILS                ? tails
           : k == BANDS                ? band_sizes
           : k == COUNTS               ? channels
                                       : NULL;
}

static int read_by_name(const struct json_at *v, const struct field *f, double *out, struct err *e)
{
    const char *const *names = names_of(f->kind);
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

static void spread_gpus(struct cluster *c)
{
    for (uint32_t g = 0; g < c->gpus_per_node; g++)
        c->nic_of_gpu[g] = (uint8_t)(g * c->nics_per_node / c->gpus_per_node);
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

/* The members of one switch: which[i] = s for each listed i; taken[] refuses a second switch. */
static int read_members(const struct json_at *sw, const char *key, uint32_t n, uint32_t s,
                        uint8_t *which, bool *taken, struct err *e)
{
    struct json_at list, it;

    if (!json_opt(sw, key, &list))
        return 0;
    if (json_is_array(&list, NULL, e))
        return -1;
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it)) {
        uint64_t i;

        if (json_as_u64(&it, 0, 1 << 20, &i, e))
            return -1;
        if (i >= n)
            return json_err(&it, ERR_INVALID, e, "is %llu, and the node has %u %s",
                            (unsigned long long)i, n, key);
        if (taken[i])
            return json_err(&it, ERR_INVALID, e, "is %llu, which switch %u has already",
                            (unsigned long long)i, which[i]);
        taken[i] = true;
        which[i] = (uint8_t)s;
    }
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

/* What kernels with a rate of their own are bound by; the others: false. */
static bool rate_of(enum kernel k, enum field_kind *kind)
{
    *kind = kernel_bound(k) == 'A' ? FLOPS : RATE;
    return k != KERNEL_NONE && (kernel_bound(k) == 'A' || kernel_bound(k) == 'E');
}

static int read_kernel_rates(const struct json_at *v, const struct field *f, double *out,
                             struct err *e)
{
    const char *names[KERNEL_N];
    enum field_kind kind;
    size_t n = 0;

    for (int k = 0; k < KERNEL_N; k++)
        if (rate_of((enum kernel)k, &kind))
            names[n++] = kernel_name((enum kernel)k);
    if (json_only_keys(v, names, n, e))
        return -1;
    for (int k = 0; k < KERNEL_N; k++) {
        struct field one = *f;
        struct json_at m;

        if (!rate_of((enum kernel)k, &one.kind) || !json_opt(v, kernel_name((enum kernel)k), &m))
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
        if (json_as_enum(v, link_kinds, &i, e))
            return -1;
        *(bool *)member(c, f) = i;
        return 0;
    case NIC_OF_GPU:
        return read_nic_of_gpu(v, c, e);
    case SWITCHES:
        return read_switches(v, c, e);
    case KERNEL_RATES:
        return read_kernel_rates(v, f, member(c, f), e);
    case GEMM_GRID:
        return read_gemm_grid(v, c, a, e);
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
    if (presence == OPTIONAL || presence == NIC_SPREAD || (presence == WITH_NICS && !n_nics))
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
        spread_gpus(r->c);
    if (rc <= 0)
        return rc;
    if (json_opt(&v, "value", &inner) || json_opt(&v, "source", &inner)) {
        if (json_only_keys(&v, keys, 2, e) || json_str_or(&v, "source", NULL, &source, e) ||
            json_get(&v, "value", &inner, e))
            return -1;
        if (source && *source)
            r->sources[f - fields] = arena_strdup(r->a, source);
        v = inner;
    }
    return read_value(&v, f, r->c, r->a, e);
}

static int only_known_keys(const struct json_at *at, enum section_id id, struct err *e)
{
    const char *keys[N_FIELDS + N_SECTIONS + 8];
    size_t n = 0;

    for (size_t i = 0; i < sizeof(sections[id].strings) / sizeof(sections[id].strings[0]); i++)
        if (sections[id].strings[i])
            keys[n++] = sections[id].strings[i];
    if (id == TOP)
        keys[n++] = "format_version";
    for (int s = 0; s < N_SECTIONS; s++)
        if (sections[s].parent == (int)id)
            keys[n++] = sections[s].key;
    for (int i = 0; i < N_FIELDS; i++)
        if (fields[i].section == id)
            keys[n++] = fields[i].key;
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
        if (fields[i].section == id && read_field(r, at, &fields[i], e))
            return -1;
    for (int s = 0; s < N_SECTIONS; s++) {
        struct json_at sub;
        int rc;

        if (sections[s].parent != (int)id)
            continue;
        rc = find(at, sections[s].key, sections[s].presence, c->nics_per_node, &sub, e);
        if (rc < 0 || (rc > 0 && read_section(r, &sub, (enum section_id)s, e)))
            return -1;
    }
    return 0;
}

/* What no field can see alone. */
static int check(const struct json_at *at, const struct cluster *c, struct err *e)
{
    const struct device *d = &c->device;

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
    if (strcmp(format, FORMAT) != 0)
        return json_err(at, ERR_PARSE, e, "has the format '%.60s', expected '" FORMAT "'", format);
    if (json_u64(at, "format_version", 1, JSON_EXACT, &version, e))
        return -1;
    if (version != VERSION)
        return json_err(at, ERR_UNSUPPORTED, e, "has format_version %llu; this program reads %d",
                        (unsigned long long)version, VERSION);
    if (read_section(&r, at, TOP, e))
        return -1;
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

/* ---- write ---- */

/* x as text with the unit, when that reads back as x; else the plain number. */
static void add_quantity(cJSON *to, const char *key, enum units_kind kind, double x, double scale,
                         const char *unit)
{
    struct err e;
    char text[64];
    double back;

    snprintf(text, sizeof(text), "%.15g%s", x / scale, unit);
    if (!units_parse(kind, text, &back, &e) && back == x)
        json_add_str(to, key, text);
    else
        json_add_double(to, key, x);
}

static void add_double(cJSON *to, const char *key, enum field_kind kind, double x)
{
    switch (kind) {
    case RATE:
        add_quantity(to, key, UNITS_BANDWIDTH, x, 1e9, "GB/s");
        break;
    case TIME:
    case TIMES3:
        add_quantity(to, key, UNITS_TIME, x, 1e-6, "us");
        break;
    case FLOPS:
        add_quantity(to, key, UNITS_FLOPS, x, 1e12, "TFLOP/s");
        break;
    default:
        json_add_double(to, key, x);
    }
}

static void add_switches(cJSON *to, const char *key, const struct cluster *c)
{
    cJSON *list = json_add_array(to, key);

    for (uint32_t s = 0; s < c->pcie_switches; s++) {
        cJSON *o = json_add_object(list, NULL), *gpus = json_add_array(o, "gpus"),
              *nics = json_add_array(o, "nics");

        for (uint32_t g = 0; g < c->gpus_per_node; g++)
            if (c->switch_of_gpu[g] == s)
                json_add_u64(gpus, NULL, g);
        for (uint32_t n = 0; n < c->nics_per_node; n++)
            if (c->switch_of_nic[n] == s)
                json_add_u64(nics, NULL, n);
    }
}

static void add_value(cJSON *to, const char *key, const struct cluster *c, const struct field *f)
{
    const double *x = const_member(c, f);
    cJSON *o;
    uint64_t n;

    switch (f->kind) {
    case U32:
        json_add_u64(to, key, *(const uint32_t *)const_member(c, f));
        break;
    case BYTES:
        n = *(const uint64_t *)const_member(c, f);
        if (n && n % (1 << 20) == 0)
            add_quantity(to, key, UNITS_BYTES, (double)n, 0x1p20, "MiB");
        else
            json_add_u64(to, key, n);
        break;
    case TIMES3:
    case SHARES3:
    case TAILS:
    case BANDS:
    case COUNTS:
        o = json_add_object(to, key);
        for (const char *const *name = names_of(f->kind); *name; name++)
            add_double(o, *name, f->kind, *x++);
        break;
    case FLAG:
        json_add_bool(to, key, *(const bool *)const_member(c, f));
        break;
    case LINK_KIND:
        json_add_str(to, key, link_kinds[*(const bool *)const_member(c, f)]);
        break;
    case NIC_OF_GPU:
        o = json_add_array(to, key);
        for (uint32_t g = 0; g < c->gpus_per_node; g++)
            json_add_u64(o, NULL, c->nic_of_gpu[g]);
        break;
    case SWITCHES:
        add_switches(to, key, c);
        break;
    case KERNEL_RATES:
        o = json_add_object(to, key);
        for (int k = 0; k < KERNEL_N; k++) {
            enum field_kind kind;

            if (rate_of((enum kernel)k, &kind) && x[k] > 0)
                add_double(o, kernel_name((enum kernel)k), kind, x[k]);
        }
        break;
    case GEMM_GRID:
        gemm_grid_add(to, key, c->device.gemm_grid);
        break;
    default:
        add_double(to, key, f->kind, *x);
    }
}

static bool has_section(const struct cluster *c, enum section_id id)
{
    switch (id) {
    case NIC:
    case FABRIC:
        return c->nics_per_node > 0;
    case PCIE:
        return c->pcie_switches > 0;
    case NVLS:
        return c->coll.nvls.rate_Bps > 0;
    case P2P:
        return c->coll.p2p.both_ways > 0;
    default:
        return true;
    }
}

static bool has_field(const struct cluster *c, const struct field *f)
{
    if (!has_section(c, f->section) || (f->presence >= WITH_NICS && !c->nics_per_node))
        return false;
    if (f->kind == KERNEL_RATES) {
        for (int k = 0; k < KERNEL_N; k++)
            if (c->device.kernel_rate[k] > 0)
                return true;
        return false;
    }
    if (f->kind == GEMM_GRID)
        return c->device.gemm_grid;
    if (f->presence != OPTIONAL)
        return true;
    if (f->kind == U32)
        return *(const uint32_t *)const_member(c, f) > f->lo;
    if (f->kind == FLAG)
        return *(const bool *)const_member(c, f);
    for (const char *const *name = names_of(f->kind); name && *name; name++)
        if (((const double *)const_member(c, f))[name - names_of(f->kind)] > 0)
            return true;
    return *(const double *)const_member(c, f) > 0;
}

static void add_section(cJSON *to, const struct cluster *c, enum section_id id)
{
    if (id == DEVICE)
        json_add_str(to, "name", c->device.name);
    if (id == NIC && *c->nic_name)
        json_add_str(to, "name", c->nic_name);
    for (int i = 0; i < N_FIELDS; i++) {
        const struct field *f = &fields[i];
        const char *source = c->sources ? c->sources[i] : NULL;

        if (f->section != id || !has_field(c, f))
            continue;
        if (source) {
            cJSON *o = json_add_object(to, f->key);

            add_value(o, "value", c, f);
            json_add_str(o, "source", source);
        } else {
            add_value(to, f->key, c, f);
        }
    }
    for (int s = 0; s < N_SECTIONS; s++)
        if (sections[s].parent == (int)id && has_section(c, (enum section_id)s))
            add_section(json_add_object(to, sections[s].key), c, (enum section_id)s);
}

cJSON *cluster_to_json(const struct cluster *c)
{
    cJSON *doc = json_new_object();

    json_add_str(doc, "format", FORMAT);
    json_add_u64(doc, "format_version", VERSION);
    json_add_str(doc, "name", c->name);
    if (*c->summary)
        json_add_str(doc, "summary", c->summary);
    if (*c->source)
        json_add_str(doc, "source", c->source);
    add_section(doc, c, TOP);
    return doc;
}

/* ---- one by one ---- */

static const char *path_of(const struct field *f, struct arena *a)
{
    const char *path = f->key;

    for (int up = (int)f->section; up != TOP; up = sections[up].parent)
        path = arena_printf(a, "%s.%s", sections[up].key, path);
    return path;
}

size_t cluster_n_fields(void)
{
    return N_FIELDS;
}

bool cluster_field(const struct cluster *c, size_t i, struct arena *a, struct cluster_field *out)
{
    const struct field *f;
    struct strbuf text;
    cJSON *tree;

    BUG_ON(i >= N_FIELDS);
    f = &fields[i];
    if (!has_field(c, f))
        return false;
    out->path = path_of(f, a);
    out->source = c->sources ? c->sources[i] : NULL;
    tree = json_new_array();
    add_value(tree, NULL, c, f);
    strbuf_init(&text);
    json_print(tree, false, &text);
    /* without the array's brackets, and a lone string without its quotes */
    text.s[text.len - 1] = 0;
    if (text.s[1] == '"')
        text.s[text.len - 2] = 0;
    out->text = arena_strdup(a, text.s + (text.s[1] == '"' ? 2 : 1));
    strbuf_release(&text);
    json_free(tree);
    return true;
}

/* ---- change ---- */

static const char **own_sources(struct cluster *c, struct arena *a)
{
    const char **own = ARENA_NEW(a, const char *, N_FIELDS);

    if (c->sources)
        memcpy(own, c->sources, N_FIELDS * sizeof(*own));
    c->sources = own;
    return own;
}

void cluster_set_source(struct cluster *c, struct arena *a, const char *path, const char *source)
{
    const char **own = own_sources(c, a);
    int i = 0;

    while (i < N_FIELDS && strcmp(path_of(&fields[i], a), path))
        i++;
    BUG_ON(i == N_FIELDS);
    own[i] = source;
}

void cluster_assume(struct cluster *c, struct arena *a, const char *prefix, const char *as)
{
    const char **own = own_sources(c, a);

    for (int i = 0; i < N_FIELDS; i++)
        if (!strncmp(path_of(&fields[i], a), prefix, strlen(prefix)))
            own[i] =
                arena_printf(a, "assumed: as %s%s%s", as, own[i] ? ": " : "", own[i] ? own[i] : "");
}

void cluster_drop_nics(struct cluster *c)
{
    c->nics_per_node = 0;
    c->nic_name = "";
    c->nic_Bps = c->nic_efficiency = c->hop_s = 0;
    c->rail_optimised = false;
    c->nodes_per_leaf = 0;
    c->oversubscription = 1;
    memset(c->coll.net_step_s, 0, sizeof(c->coll.net_step_s));
    memset(c->coll.net_band, 0, sizeof(c->coll.net_band));
    c->coll.net_ramp_s = c->coll.net_ramp_at_s = 0;
    c->coll.nvls.net_step_s = c->coll.nvls.nic_share = 0;
    c->sharp = false;
    memset(c->nic_of_gpu, 0, sizeof(c->nic_of_gpu));
    memset(c->switch_of_nic, 0, sizeof(c->switch_of_nic));
}

int cluster_recheck(const struct cluster *c, const char *what, struct arena *a, struct err *e)
{
    cJSON *tree = cluster_to_json(c);
    struct json_at at = json_at_tree(tree, what);
    struct cluster again;
    int rc = cluster_from_tree(&at, a, &again, e);

    json_free(tree);
    return rc;
}
