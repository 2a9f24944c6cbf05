/* A topology file before it is a cluster: its devices, one a row, and its findings. */
#include "cli/topo.h"

#include "core/units.h"

static const char *const kinds[] = {"GPU", "NIC"};
static const struct table_col cols[] = {
    {.key = "device", .head = "device", .kind = TABLE_TEXT},
    {.key = "line", .head = "line", .kind = TABLE_INT},
    {.key = "busid", .head = "bus id", .kind = TABLE_TEXT},
    {.key = "numa", .head = "NUMA", .kind = TABLE_INT},
    {.key = "tree", .head = "PCIe tree", .kind = TABLE_TEXT},
    {.key = "pcie_GBps", .head = "PCIe GB/s", .kind = TABLE_FIXED, .decimals = 2},
    {.key = "nvlinks", .head = "NVLinks", .kind = TABLE_INT},
    {.key = "net_GBps", .head = "net GB/s", .kind = TABLE_FIXED, .decimals = 2},
    {.key = "name", .head = "name", .kind = TABLE_TEXT},
    {.key = "host", .head = "host", .kind = TABLE_INT}, /* where there are several */
};
enum { N_COLS = sizeof(cols) / sizeof(cols[0]) };

/* What GPUs and NICs have in common. */
static void device(const struct topology *t, struct table *out, bool gpu, uint32_t i, uint32_t line,
                   uint32_t host, int32_t pci, int32_t root, int32_t numa, struct arena *a)
{
    double Bps = pci >= 0 ? topology_link_Bps(&t->pcis[pci]) : 0;

    table_row(out);
    table_set_str(out, "device", arena_printf(a, "%s %u", kinds[!gpu], i));
    table_set_u64(out, "line", line);
    if (pci >= 0)
        table_set_str(out, "busid", t->pcis[pci].busid);
    if (t->n_hosts > 1)
        table_set_u64(out, "host", host);
    if (numa >= 0)
        table_set_u64(out, "numa", (uint64_t)numa);
    if (root >= 0 && t->form != TOPOLOGY_SMI)
        table_set_str(out, "tree", t->pcis[root].busid);
    else if (root >= 0)
        table_set_str(out, "tree", arena_printf(a, "%d", root));
    if (Bps > 0)
        table_set_double(out, "pcie_GBps", Bps / 1e9);
}

void topo_file_devices(const struct topology *t, struct arena *a, struct table *out)
{
    table_init(out, cols, t->n_hosts > 1 ? N_COLS : N_COLS - 1);
    for (uint32_t i = 0; i < t->n_gpus; i++) {
        const struct topology_gpu *g = &t->gpus[i];

        device(t, out, true, i, g->line, g->host, g->pci, g->root, g->numa, a);
        if (t->form != TOPOLOGY_PCI_ONLY)
            table_set_u64(out, "nvlinks", g->n_links);
        if (topology_gpu_name(t, i))
            table_set_str(out, "name", topology_gpu_name(t, i));
        else if (g->sm)
            table_set_str(out, "name", arena_printf(a, "sm_%u", g->sm));
    }
    for (uint32_t i = 0; i < t->n_nics; i++) {
        const struct topology_nic *n = &t->nics[i];

        device(t, out, false, i, n->line, n->host, n->pci, n->root, n->numa, a);
        if (n->Bps > 0)
            table_set_double(out, "net_GBps", n->Bps / 1e9);
        if (*n->name)
            table_set_str(out, "name",
                          n->n_ports > 1 ? arena_printf(a, "%s, %u ports", n->name, n->n_ports)
                                         : n->name);
    }
}

size_t topo_file_check(const struct topology *t, struct arena *a, const struct topo_finding **out)
{
    struct topology_finding *found;
    size_t n = topology_check(t, a, &found);
    struct topo_finding *f = ARENA_NEW(a, struct topo_finding, n);

    for (size_t i = 0; i < n; i++)
        f[i] = (struct topo_finding){found[i].warning, found[i].line, found[i].text};
    *out = f;
    return n;
}
