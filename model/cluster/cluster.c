/* From what the user wrote to a cluster: a bundled name, a file, one line. The JSON form is cluster_json.c's, the one-line form
 * cluster_line.c's, topology files topology.c's. */
#include "model/cluster/cluster.h"

#include "core/file.h"
#include "core/num.h"
#include "core/suggest.h"
#include "model/cluster/bundled.h"
#include "model/cluster/topology.h"

#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && !strcasecmp(s + n - k, end);
}

static int load_bundled(const struct bundled_file *b, struct arena *a, struct cluster *c,
                        struct err *e)
{
    if (cluster_from_json((const char *)b->text, b->len, b->name, a, c, e))
        return -1;
    for (size_t i = 0; i < cluster_n_fields(); i++) {
        struct cluster_field f;

        if (cluster_field(c, i, a, &f) && !f.source)
            return err_set(e, ERR_INVALID, "bundled cluster '%s': %s has no source", b->name,
                           f.path);
    }
    return 0;
}

static int load_json(const char *text, size_t len, const char *path, struct arena *a,
                     struct cluster *c, struct err *e)
{
    struct json_at top, at;
    const char *format;
    struct json j;
    int rc;

    if (json_parse(&j, path, text, len, e))
        return -1;
    top = at = json_top(&j);
    if (json_str(&top, "format", &format, e) ||
        (!strcmp(format, "ballast-plan") && json_object(&top, "cluster", &at, e)))
        rc = -1;
    else
        rc = cluster_from_tree(&at, a, c, e);
    json_release(&j);
    return rc;
}

static bool is_topology(const char *path, const char *text, size_t len)
{
    return ends_with(path, ".xml") || topology_is(text, len);
}

static int load_file(const char *path, struct arena *a, struct cluster *c, struct err *e)
{
    struct topology t;
    char *text;
    size_t len;
    int rc;

    if (file_read(path, JSON_MAX_BYTES, &text, &len, e))
        return -1;
    if (is_topology(path, text, len))
        rc = topology_parse(text, len, path, a, &t, e) || topology_to_cluster(&t, NULL, a, c, e)
                 ? -1
                 : 0;
    else if (strcspn(text, "{[") == len) /* not even cut short or wrong */
        rc = err_set(e, ERR_PARSE,
                     "'%.200s' is neither JSON nor a topology file, NCCL's XML or the text of "
                     "nvidia-smi topo -m",
                     path);
    else
        rc = load_json(text, len, path, a, c, e);
    mem_free(text);
    return rc;
}

static int unknown(const char *what, struct err *e)
{
    const char *names[64];
    size_t n = 0;

    for (size_t i = 0; i < bundled_clusters_n && n < 64; i++)
        names[n++] = bundled_clusters[i].name;
    for (size_t i = 0; i < cluster_n_aliases && n < 64; i++)
        names[n++] = cluster_aliases[i].name;
    return err_set(e, ERR_UNKNOWN,
                   "cluster '%.200s' is neither a bundled name nor a file%s; give a name of "
                   "'ballast topo --list', a JSON or topology file, or BASE:key=value,...",
                   what, suggest(what, names, n).s);
}

/* A board by its maker's name, whatever is built around it; a rack as clouds give it away, with 16
 * of its 18 trays. */
const struct cluster_alias cluster_aliases[] = {
    {"hgx-a100", "dgx-a100"},
    {"hgx-h100", "hgx-h100-ndr"},
    {"dgx-h100", "hgx-h100-ndr"},
    {"hgx-h200", "hgx-h200-ndr"},
    {"dgx-h200", "hgx-h200-ndr"},
    {"dgx-b200", "hgx-b200"},
    {"gb200-nvl72-16trays", "gb200-nvl72:domain_nodes=16"},
};
const size_t cluster_n_aliases = sizeof(cluster_aliases) / sizeof(cluster_aliases[0]);

static const struct cluster_alias *find_alias(const char *what)
{
    for (size_t i = 0; i < cluster_n_aliases; i++)
        if (!strcasecmp(what, cluster_aliases[i].name))
            return &cluster_aliases[i];
    return NULL;
}

static const struct bundled_file *find_bundled(const char *what)
{
    for (size_t i = 0; i < bundled_clusters_n; i++)
        if (!strcasecmp(what, bundled_clusters[i].name))
            return &bundled_clusters[i];
    return NULL;
}

static bool is_there(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

int cluster_load(const char *what, struct arena *a, struct cluster *c, struct err *e)
{
    const struct cluster_alias *alias = find_alias(what);
    const struct bundled_file *b = find_bundled(what);

    if (alias) {
        if (cluster_load(alias->means, a, c, e))
            return -1;
        c->name = alias->name;
        return 0;
    }
    if (b)
        return load_bundled(b, a, c, e);
    if (is_there(what))
        return load_file(what, a, c, e);
    if (strchr(what, ':'))
        return cluster_from_line(what, a, c, e);
    if (ends_with(what, ".xml") || ends_with(what, ".json"))
        return load_file(what, a, c, e); /* says why it cannot be read */
    return unknown(what, e);
}

/* Whether the file can be read and is a topology. */
static bool file_is_topology(const char *path)
{
    struct err e;
    char *text;
    size_t len;
    bool is;

    if (file_read(path, JSON_MAX_BYTES, &text, &len, &e))
        return false;
    is = is_topology(path, text, len);
    mem_free(text);
    return is;
}

const char *cluster_topology_file(const char *what, struct arena *a)
{
    if (find_alias(what) || find_bundled(what))
        return NULL;
    if (is_there(what))
        return file_is_topology(what) ? arena_strdup(a, what) : NULL;
    return cluster_line_node(what, a);
}

int cluster_resize(struct cluster *c, uint32_t n_nodes, struct err *e)
{
    if (n_nodes < 1 || n_nodes > CLUSTER_MAX_NODES)
        return err_set(e, ERR_INVALID, "cluster '%.100s': %u nodes, expected 1 to %d", c->name,
                       n_nodes, CLUSTER_MAX_NODES);
    if ((uint64_t)n_nodes * c->gpus_per_node > CLUSTER_MAX_RANKS)
        return err_set(e, ERR_INVALID,
                       "cluster '%.100s': %u nodes of %u GPUs are more than %d ranks", c->name,
                       n_nodes, c->gpus_per_node, CLUSTER_MAX_RANKS);
    if (n_nodes > c->domain_nodes && !c->nics_per_node)
        return err_set(e, ERR_INVALID, "cluster '%.100s' has no NICs: %s only, not %u", c->name,
                       c->domain_nodes > 1 ? "one NVLink domain" : "one node", n_nodes);
    c->n_nodes = n_nodes;
    return 0;
}

struct cluster cluster_by_domain(const struct cluster *c)
{
    struct cluster d = *c;
    uint32_t n = c->domain_nodes;

    if (n <= 1)
        return d;
    d.domain_nodes = 1;
    d.gpus_per_node = c->gpus_per_node * n;
    d.nics_per_node = c->nics_per_node * n;
    d.n_nodes = (uint32_t)num_ceil_div(c->n_nodes, n);
    d.nodes_per_leaf = c->nodes_per_leaf / n; /* whole domains: cluster_json.c refuses else */
    d.pcie_switches = 0;
    for (uint32_t g = 0; g < d.gpus_per_node; g++)
        d.nic_of_gpu[g] = (uint8_t)(g / c->gpus_per_node * c->nics_per_node +
                                    c->nic_of_gpu[g % c->gpus_per_node]);
    return d;
}
