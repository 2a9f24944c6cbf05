/* Writes the file form of a cluster (cluster_json.c reads it). Quantities are strings with units when these read back as the
 * same double, else plain numbers.
 */
#include "core/units.h"
#include "model/cluster/cluster_inner.h"

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

/* Lists of the i with which[i] = 0, 1, ... */
static void add_lists(cJSON *to, const char *key, const uint8_t *which, uint32_t n, uint32_t lists)
{
    cJSON *all = json_add_array(to, key);

    for (uint32_t k = 0; k < lists; k++) {
        cJSON *list = json_add_array(all, NULL);

        for (uint32_t i = 0; i < n; i++)
            if (which[i] == k)
                json_add_u64(list, NULL, i);
    }
}

static void add_tables(cJSON *to, const char *key, const struct coll_constants *c)
{
    cJSON *o = json_add_object(to, key), *list;
    char text[40];
    int n;

    for (uint32_t k = 0; k < MEASURED_KINDS; k++) {
        list = NULL;
        for (uint32_t i = 0; i < c->n_tables; i++) {
            const struct measured_table *t = &c->tables[i];

            if (t->kind != k)
                continue;
            if (!list)
                list = json_add_array(o, measured_kinds[k]);
            n = t->nodes > 1 ? snprintf(text, sizeof(text), "%ux", t->nodes) : 0;
            snprintf(text + n, sizeof(text) - (size_t)n, "%u%s%s", t->gpus, t->algorithm ? ":" : "",
                     t->algorithm ? measured_algorithms[t->algorithm - 1] : "");
            json_add_str(list, NULL, text);
        }
    }
}

void cluster_add_value(cJSON *to, const char *key, const struct cluster *c, const struct field *f)
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
        for (const char *const *name = cluster_names_of(f->kind); *name; name++)
            add_double(o, *name, f->kind, *x++);
        break;
    case FLAG:
        json_add_bool(to, key, *(const bool *)const_member(c, f));
        break;
    case LINK_KIND:
        json_add_str(to, key, cluster_link_kinds[*(const bool *)const_member(c, f)]);
        break;
    case NIC_OF_GPU:
        o = json_add_array(to, key);
        for (uint32_t g = 0; g < c->gpus_per_node; g++)
            json_add_u64(o, NULL, c->nic_of_gpu[g]);
        break;
    case TABLES:
        add_tables(to, key, &c->coll);
        break;
    case SWITCHES:
        add_switches(to, key, c);
        break;
    case DOMAINS:
        add_lists(to, key, c->domain_of_gpu, c->gpus_per_node, c->gpus_per_node / c->domain_gpus);
        break;
    case CPUS:
        add_lists(to, key, c->cpu_of_switch, c->pcie_switches, c->n_cpus);
        break;
    case KERNEL_RATES:
        o = json_add_object(to, key);
        for (int k = 0; k < KERNEL_N; k++) {
            enum field_kind kind;

            if (cluster_rate_of((enum kernel)k, &kind) && x[k] > 0)
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

static void add_section(cJSON *to, const struct cluster *c, enum section_id id)
{
    if (id == DEVICE)
        json_add_str(to, "name", c->device.name);
    if (id == NIC && *c->nic_name)
        json_add_str(to, "name", c->nic_name);
    for (int i = 0; i < N_FIELDS; i++) {
        const struct field *f = &cluster_fields[i];
        const char *source = c->sources ? c->sources[i] : NULL;

        if (f->section != id || !cluster_has_field(c, f))
            continue;
        if (source) {
            cJSON *o = json_add_object(to, f->key);

            cluster_add_value(o, "value", c, f);
            json_add_str(o, "source", source);
        } else {
            cluster_add_value(to, f->key, c, f);
        }
    }
    for (int s = 0; s < N_SECTIONS; s++)
        if (cluster_sections[s].parent == (int)id && cluster_has_section(c, (enum section_id)s))
            add_section(json_add_object(to, cluster_sections[s].key), c, (enum section_id)s);
}

cJSON *cluster_to_json(const struct cluster *c)
{
    cJSON *doc = json_new_object();

    json_add_str(doc, "format", CLUSTER_FORMAT);
    json_add_u64(doc, "format_version", CLUSTER_VERSION);
    json_add_str(doc, "name", c->name);
    if (*c->summary)
        json_add_str(doc, "summary", c->summary);
    if (*c->source)
        json_add_str(doc, "source", c->source);
    add_section(doc, c, TOP);
    return doc;
}
