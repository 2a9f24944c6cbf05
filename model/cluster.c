/* From what the user wrote to a cluster: a bundled name, else a JSON file, or a plan file, whose cluster it takes. The file form is cluster_json.c's. */
#include "model/cluster.h"

#include "core/num.h"
#include "core/suggest.h"
#include "model/bundled.h"

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

static int load_file(const char *path, struct arena *a, struct cluster *c, struct err *e)
{
    struct json_at top, at;
    const char *format;
    struct json j;
    int rc;

    if (ends_with(path, ".xml"))
        return err_set(e, ERR_UNSUPPORTED,
                       "'%.300s': NCCL topology XML is not read in this version; give a bundled "
                       "name or a JSON file",
                       path);
    if (json_load(&j, path, e))
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

static int unknown(const char *what, struct err *e)
{
    const char *names[64];
    size_t n = 0;

    for (; n < bundled_clusters_n && n < sizeof(names) / sizeof(names[0]); n++)
        names[n] = bundled_clusters[n].name;
    return err_set(e, ERR_UNKNOWN,
                   "cluster '%.200s' is neither a bundled name nor a file%s; give a name of "
                   "'ballast topo --list' or a JSON file",
                   what, suggest(what, names, n).s);
}

int cluster_load(const char *what, struct arena *a, struct cluster *c, struct err *e)
{
    struct stat st;

    for (size_t i = 0; i < bundled_clusters_n; i++)
        if (!strcasecmp(what, bundled_clusters[i].name))
            return load_bundled(&bundled_clusters[i], a, c, e);
    if (ends_with(what, ".xml") || ends_with(what, ".json") || stat(what, &st) == 0)
        return load_file(what, a, c, e); /* says why it cannot be read */
    if (strchr(what, ':'))
        return err_set(e, ERR_UNSUPPORTED,
                       "cluster '%.200s': the one-line form is not read in this version; give a "
                       "bundled name or a JSON file",
                       what);
    return unknown(what, e);
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
