/* ballast topo --route: the links between two ranks, as NCCL takes them. */
#include "cli/output.h"
#include "cli/topo.h"
#include "sim/fabric.h"

static const struct table_col cols[] = {
    {.key = "link", .head = "link", .kind = TABLE_TEXT},
    {.key = "of", .head = "of", .kind = TABLE_TEXT},
    {.key = "GBps", .head = "GB/s", .kind = TABLE_FIXED, .decimals = 2},
};

/* Whose link it is. A node is an NVLink domain. */
static const char *whose(const struct fabric *f, struct fabric_link l, struct arena *a)
{
    uint32_t i = l.instance, g = f->c.gpus_per_node, n = f->c.nics_per_node, s = f->c.pcie_switches;

    switch (l.kind) {
    case FABRIC_NVLINK_PAIR:
        return arena_printf(a, "rank %u to %u", i / g / g * g + i / g % g, i / g / g * g + i % g);
    case FABRIC_ROOT_UP:
    case FABRIC_ROOT_DOWN:
        return arena_printf(a, "node %u, PCIe switch %u", i / s, i % s);
    case FABRIC_CPU:
        return arena_printf(a, "node %u, CPU %u", i / f->c.n_cpus, i % f->c.n_cpus);
    case FABRIC_PCIE_OUT:
    case FABRIC_PCIE_IN:
    case FABRIC_NIC_TX:
    case FABRIC_NIC_RX:
        return arena_printf(a, "node %u, NIC %u", i / n, i % n);
    case FABRIC_LEAF_UP:
    case FABRIC_LEAF_DOWN:
        return f->n_rails > 1 ? arena_printf(a, "pod %u, rail %u", i / f->n_rails, i % f->n_rails)
                              : arena_printf(a, "leaf %u", i);
    default:
        return arena_printf(a, "rank %u", i);
    }
}

static void as_text(const struct fabric *f, const struct fabric_route *r, const struct table *t,
                    uint32_t from, uint32_t to, enum table_format format, struct strbuf *out)
{
    if (format != TABLE_AS_CSV) {
        strbuf_printf(out, "%s, rank %u to rank %u: ", f->c.name, from, to);
        if (!r->n)
            strbuf_puts(out, "no link");
        else
            strbuf_printf(out, "%.2f GB/s", fabric_route_Bps(f, r) / 1e9);
        if (r->proxy != from)
            strbuf_printf(out, ", through rank %u, whose NIC is on the receiver's rail (PXN)",
                          r->proxy);
        strbuf_puts(out, "\n\n");
    }
    table_print(t, format, out);
}

static void as_json(const struct fabric *f, const struct fabric_route *r, const struct table *t,
                    uint32_t from, uint32_t to, int argc, char **argv, struct strbuf *out)
{
    cJSON *doc = output_document("ballast-route", 1, argc, argv);

    json_add_str(doc, "cluster", f->c.name);
    json_add_u64(doc, "from", from);
    json_add_u64(doc, "to", to);
    json_add_u64(doc, "proxy", r->proxy);
    json_add_double(doc, "GBps", fabric_route_Bps(f, r) / 1e9);
    json_add_tree(doc, "links", table_to_json(t));
    json_print(doc, true, out);
    strbuf_putc(out, '\n');
    json_free(doc);
}

int topo_route(const struct cluster *c, const struct topology *t, const struct opt_val *ends,
               enum table_format format, struct arena *a, int argc, char **argv, struct strbuf *out,
               struct err *e)
{
    uint32_t world = c->n_nodes * c->gpus_per_node;
    const uint8_t *nvlinks = NULL;
    struct fabric_route r;
    struct fabric f;
    struct table rows;

    if (ends->n_list != 2)
        return err_set(e, ERR_USAGE, "--route has %zu ranks, expected two: FROM,TO", ends->n_list);
    for (int i = 0; i < 2; i++)
        if (ends->u64s[i] >= world)
            return err_set(e, ERR_INVALID, "--route: rank %llu, expected 0 to %u (--nodes %u)",
                           (unsigned long long)ends->u64s[i], world - 1, c->n_nodes);
    if ((t && t->n_gpus == c->gpus_per_node && fabric_nvlinks(t, a, &nvlinks, e)) ||
        fabric_init(&f, c, world, nvlinks, a, e))
        return -1;
    fabric_route(&f, (uint32_t)ends->u64s[0], (uint32_t)ends->u64s[1], &r);
    table_init(&rows, cols, sizeof(cols) / sizeof(cols[0]));
    for (uint32_t i = 0; i < r.n; i++) {
        table_row(&rows);
        table_set_str(&rows, "link", fabric_kind_name(r.links[i].kind));
        table_set_str(&rows, "of", whose(&f, r.links[i], a));
        table_set_double(&rows, "GBps", fabric_Bps(&f, r.links[i].kind, r.links[i].instance) / 1e9);
    }
    if (format == TABLE_AS_JSON)
        as_json(&f, &r, &rows, (uint32_t)ends->u64s[0], (uint32_t)ends->u64s[1], argc, argv, out);
    else
        as_text(&f, &r, &rows, (uint32_t)ends->u64s[0], (uint32_t)ends->u64s[1], format, out);
    table_release(&rows);
    return 0;
}
