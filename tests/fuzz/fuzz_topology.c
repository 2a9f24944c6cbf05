/* Any bytes as a topology file, XML or nvidia-smi's matrix: refused with one line, or devices whose findings have lines of
 * the file, and a refusal or a cluster that reads back. */
#include "model/cluster/topology.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void one_line(const struct err *e)
{
    BUG_ON(e->code == ERR_NONE || !*e->msg || strchr(e->msg, '\n'));
}

static void check(const struct topology *t, struct arena *a)
{
    struct topology_finding *f;
    size_t n = topology_check(t, a, &f);

    for (size_t i = 0; i < n; i++)
        BUG_ON(!*f[i].text || strchr(f[i].text, '\n') || (i && f[i].line < f[i - 1].line));
    for (uint32_t i = 0; i < t->n_gpus; i++)
        BUG_ON(t->gpus[i].pci >= (int32_t)t->n_pcis);
    for (uint32_t i = 0; i < t->n_nvlinks; i++)
        BUG_ON(t->nvlinks[i].gpu >= t->n_gpus);
}

static void convert(const struct topology *t, const struct cluster *base, struct arena *a)
{
    struct cluster c;
    struct err e;

    if (topology_to_cluster(t, base, a, &c, &e)) {
        one_line(&e);
        return;
    }
    BUG_ON(cluster_recheck(&c, "again", a, &e));
    for (uint32_t g = 0; g < c.gpus_per_node; g++)
        BUG_ON(c.nics_per_node && c.nic_of_gpu[g] >= c.nics_per_node);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cluster base;
    static struct arena kept;
    struct topology t;
    struct arena a;
    struct err e;

    if (!base.name) {
        arena_init(&kept);
        BUG_ON(cluster_load("hgx-a100", &kept, &base, &e));
    }
    arena_init(&a);
    topology_is((const char *)data, size);
    if (topology_parse((const char *)data, size, "fuzz", &a, &t, &e)) {
        one_line(&e);
    } else {
        check(&t, &a);
        convert(&t, NULL, &a);
        convert(&t, &base, &a);
    }
    arena_release(&a);
    return 0;
}
