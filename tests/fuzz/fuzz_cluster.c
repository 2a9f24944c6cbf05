/* Any text as a cluster file: refused with one line, or a description that reads back as itself. */
#include "model/cluster/cluster.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct cluster *c)
{
    BUG_ON(c->gpus_per_node < 1 || c->gpus_per_node > CLUSTER_MAX_GPUS_PER_NODE);
    BUG_ON(c->nics_per_node > CLUSTER_MAX_NICS_PER_NODE || c->n_nodes != 1);
    BUG_ON(!(c->nvlink_Bps > 0) != (c->domain_gpus == 1) ||
           (c->nics_per_node && !(c->nic_Bps > 0)));
    BUG_ON(!(c->oversubscription >= 1) || !isfinite(c->device.peak_flops));
    BUG_ON(c->device.context_bytes >= c->device.memory_bytes);
    for (uint32_t g = 0; g < c->gpus_per_node; g++) {
        BUG_ON(c->nics_per_node && c->nic_of_gpu[g] >= c->nics_per_node);
        BUG_ON(c->pcie_switches && c->switch_of_gpu[g] >= c->pcie_switches);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct cluster c, again;
    struct cluster_field f;
    struct err e;

    arena_init(&a);
    if (cluster_from_json((const char *)data, size, "fuzz", &a, &c, &e)) {
        BUG_ON(e.code == ERR_NONE || !*e.msg || strchr(e.msg, '\n'));
    } else {
        cJSON *tree = cluster_to_json(&c), *tree_again;
        char *text = json_text(tree, true), *text_again;

        check(&c);
        for (size_t i = 0; i < cluster_n_fields(); i++)
            BUG_ON(cluster_field(&c, i, &a, &f) && (!*f.path || !*f.text));
        BUG_ON(cluster_from_json(text, strlen(text), "again", &a, &again, &e));
        tree_again = cluster_to_json(&again);
        text_again = json_text(tree_again, true);
        BUG_ON(strcmp(text, text_again) != 0);
        mem_free(text);
        mem_free(text_again);
        json_free(tree);
        json_free(tree_again);
    }
    arena_release(&a);
    return 0;
}
