#include "cli/topo.h"

#include "core/num.h"
#include "core/units.h"

#include <string.h>

/* A device takes a cell of 7 columns, a box at most 12 cells, a row of boxes at most 96 columns. */
enum { CELL = 7, BOX_CELLS = 12, ROW_COLUMNS = 96 };

/* A PCIe switch or a part of a large one: what hangs on it. */
struct box {
    char title[24];
    uint32_t gpus[BOX_CELLS], nics[BOX_CELLS];
    uint32_t n_gpus, n_nics;
};

static uint32_t cells(const struct box *b)
{
    uint32_t n = b->n_gpus > b->n_nics ? b->n_gpus : b->n_nics;

    return n > 1 ? n : 2; /* room for the title */
}

static uint32_t columns(const struct box *b)
{
    return cells(b) * CELL;
}

/* Members i of [n] with which[i] == s, or all when which is NULL. */
static uint32_t members(const uint8_t *which, uint32_t n, uint32_t s, uint32_t *out)
{
    uint32_t k = 0;

    for (uint32_t i = 0; i < n; i++)
        if (!which || which[i] == s)
            out[k++] = i;
    return k;
}

/* The boxes of switch s, appended to boxes. */
static uint32_t cut(const struct cluster *c, uint32_t s, struct box *boxes)
{
    uint32_t gpus[CLUSTER_MAX_GPUS_PER_NODE], nics[CLUSTER_MAX_NICS_PER_NODE];
    bool known = c->pcie_switches > 0;
    uint32_t n_gpus = members(known ? c->switch_of_gpu : NULL, c->gpus_per_node, s, gpus);
    uint32_t n_nics = members(known ? c->switch_of_nic : NULL, c->nics_per_node, s, nics);
    uint32_t most = n_gpus > n_nics ? n_gpus : n_nics;
    uint32_t n = (uint32_t)num_max(num_ceil_div(most, BOX_CELLS), 1);

    for (uint32_t i = 0; i < n; i++) {
        struct box *b = &boxes[i];

        memset(b, 0, sizeof(*b));
        if (known)
            snprintf(b->title, sizeof(b->title), n > 1 ? "PCIe %u.%u" : "PCIe %u", s, i);
        for (uint32_t k = i * BOX_CELLS; k < (i + 1) * BOX_CELLS; k++) {
            if (k < n_gpus)
                b->gpus[b->n_gpus++] = gpus[k];
            if (k < n_nics)
                b->nics[b->n_nics++] = nics[k];
        }
    }
    return n;
}

static void cell(struct strbuf *out, const char *fmt, uint32_t i)
{
    char text[16];

    snprintf(text, sizeof(text), fmt, i);
    strbuf_printf(out, " %-*s", CELL - 1, text);
}

/* One line of a row of boxes: names of devices, or the stroke under or over them. */
static void devices(struct strbuf *out, const struct box *b, uint32_t n, bool gpu, bool stroke)
{
    strbuf_puts(out, "  ");
    for (uint32_t i = 0; i < n; i++, b++) {
        const uint32_t *list = gpu ? b->gpus : b->nics;
        uint32_t k = gpu ? b->n_gpus : b->n_nics;

        for (uint32_t j = 0; j < k; j++)
            cell(out, stroke ? "  |" : gpu ? "GPU%u" : "NIC%u", list[j]);
        strbuf_pad(out, ' ', columns(b) - k * CELL + 1);
    }
    while (out->s[out->len - 1] == ' ')
        out->s[--out->len] = 0;
    strbuf_putc(out, '\n');
}

static void titles(struct strbuf *out, const struct box *b, uint32_t n)
{
    strbuf_puts(out, "  ");
    for (uint32_t i = 0; i < n; i++, b++) {
        uint32_t room = columns(b) - 2, len = (uint32_t)strlen(b->title);

        strbuf_printf(out, "[%s", b->title);
        strbuf_pad(out, '-', room > len + 1 ? room - len - 1 : 0);
        strbuf_puts(out, "] ");
        strbuf_putc(out, ' ');
    }
    while (out->s[out->len - 1] == ' ')
        out->s[--out->len] = 0;
    strbuf_putc(out, '\n');
}

static void row(const struct cluster *c, const struct box *b, uint32_t n, struct strbuf *out)
{
    uint32_t width = 0, n_nics = 0, n_gpus = 0;

    for (uint32_t i = 0; i < n; i++) {
        width += columns(&b[i]) + 1;
        n_nics += b[i].n_nics;
        n_gpus += b[i].n_gpus;
    }
    if (n_gpus) {
        if (!cluster_is_split(c)) { /* else nothing joins them all */
            strbuf_puts(out, "  ");
            strbuf_pad(out, c->nvswitch ? '=' : '-', width - 1);
            strbuf_putc(out, '\n');
            devices(out, b, n, true, true);
        }
        devices(out, b, n, true, false);
        devices(out, b, n, true, true);
    }
    if (c->pcie_switches)
        titles(out, b, n);
    if (n_nics) {
        devices(out, b, n, false, true);
        devices(out, b, n, false, false);
        devices(out, b, n, false, true);
    }
}

/* What joins the GPUs. */
static const char *joins(const struct cluster *c)
{
    if (c->domain_gpus == 1 && cluster_is_split(c))
        return "PCIe";
    return c->nvswitch ? "NVSwitch" : "direct NVLinks";
}

static void draw_nvlink(const struct cluster *c, struct strbuf *out)
{
    uint32_t gpus[CLUSTER_MAX_GPUS_PER_NODE], used = 0;

    if (!cluster_is_split(c)) {
        strbuf_printf(out,
                      c->nvswitch ? "  NVSwitch: %.4g a GPU to all others\n"
                                  : "  direct links: %.4g a GPU, all its links together\n",
                      c->nvlink_Bps / 1e9);
        return;
    }
    if (c->domain_gpus > 1) {
        strbuf_puts(out, "  NVLink joins GPUs");
        for (uint32_t d = 0; d < c->gpus_per_node / c->domain_gpus; d++) {
            uint32_t n = members(c->domain_of_gpu, c->gpus_per_node, d, gpus);

            strbuf_puts(out, d ? "," : "");
            for (uint32_t i = 0; i < n; i++)
                strbuf_printf(out, "%c%u", i ? '+' : ' ', gpus[i]);
            used += 4 * n;
            if (used >= 64 && d + 1 < c->gpus_per_node / c->domain_gpus) {
                strbuf_puts(out, "\n   ");
                used = 0;
            }
        }
        strbuf_printf(out, ": %.4g a GPU; PCIe joins the rest\n", c->nvlink_Bps / 1e9);
    } else {
        strbuf_puts(out, "  no NVLink: PCIe joins the GPUs\n");
    }
    if (c->n_cpus)
        strbuf_printf(out, "  %u CPUs, %.4g from one to another\n", c->n_cpus, c->cpu_Bps / 1e9);
}

static void draw_node(const struct cluster *c, struct strbuf *out)
{
    struct box *boxes =
        MEM_NEW(struct box, c->pcie_switches + CLUSTER_MAX_GPUS_PER_NODE / BOX_CELLS + 2);
    uint32_t n = 0, from = 0, width = 0;

    for (uint32_t s = 0; s < (c->pcie_switches ? c->pcie_switches : 1); s++)
        n += cut(c, s, &boxes[n]);
    strbuf_printf(out, "node: %u x %s on %s, rates in GB/s a direction\n\n", c->gpus_per_node,
                  c->device.name, joins(c));
    draw_nvlink(c, out);
    if (c->domain_nodes > 1)
        strbuf_printf(out, "  one NVLink domain: %u nodes, %u GPUs\n", c->domain_nodes,
                      cluster_domain_gpus(c));
    for (uint32_t i = 0; i < n; i++) {
        if (width && width + columns(&boxes[i]) + 1 > ROW_COLUMNS) {
            row(c, &boxes[from], i - from, out);
            strbuf_putc(out, '\n');
            from = i;
            width = 0;
        }
        width += columns(&boxes[i]) + 1;
    }
    row(c, &boxes[from], n - from, out);
    if (c->nics_per_node)
        strbuf_printf(out, "  %.4g a NIC%s%s", c->nic_Bps / 1e9, *c->nic_name ? ", " : "",
                      c->nic_name);
    else
        strbuf_puts(out, "  no NICs");
    if (c->pcie_switches)
        strbuf_printf(out, "; %.4g from a PCIe switch to the root", c->pcie_Bps / 1e9);
    strbuf_puts(out, "\n");
    mem_free(boxes);
}

static void draw_nic_use(const struct cluster *c, struct strbuf *out)
{
    size_t start = out->len;

    strbuf_puts(out, "  sends of GPU go by NIC:");
    for (uint32_t g = 0; g < c->gpus_per_node; g++) {
        char text[24];

        snprintf(text, sizeof(text), " %u>%u", g, c->nic_of_gpu[g]);
        if (out->len - start + strlen(text) > 98) {
            strbuf_puts(out, "\n   ");
            start = out->len - 3;
        }
        strbuf_puts(out, text);
    }
    strbuf_putc(out, '\n');
}

static void draw_fabric(const struct cluster *c, struct strbuf *out)
{
    uint32_t per = c->nodes_per_leaf ? c->nodes_per_leaf : c->n_nodes;
    uint32_t pods = (uint32_t)num_ceil_div(c->n_nodes, per);
    bool rails = c->rail_optimised && c->nics_per_node > 1;
    double node_GBps = c->nics_per_node * c->nic_Bps / 1e9;

    strbuf_printf(out, "\nfabric: %u node%s", c->n_nodes, c->n_nodes > 1 ? "s" : "");
    if (c->domain_nodes > 1 && c->n_nodes > c->domain_nodes)
        strbuf_printf(out, " in %u NVLink domains of %u", cluster_by_domain(c).n_nodes,
                      c->domain_nodes);
    strbuf_printf(out, ", %.4g GB/s each into it\n\n", node_GBps);
    if (pods > 1)
        strbuf_printf(out,
                      "  [spine]\n"
                      "     |     %.5g GB/s up from each %s of %u nodes, oversubscription %s:1\n",
                      node_GBps * per / c->oversubscription, rails ? "pod" : "leaf", per,
                      units_show_double(c->oversubscription).s);
    if (rails)
        strbuf_printf(out, "  [%u pod%s of %u leaves]  rails: NIC i of every node on leaf i\n",
                      pods, pods > 1 ? "s" : "", c->nics_per_node);
    else
        strbuf_printf(out, "  [%u %s]  no rails: all NICs of a node on its leaf\n", pods,
                      pods > 1 ? "leaves" : "leaf");
    strbuf_printf(out, "     |     %u x %.4g GB/s a node, ", c->nics_per_node, c->nic_Bps / 1e9);
    if (c->nodes_per_leaf)
        strbuf_printf(out, "up to %u nodes a %s\n", per, rails ? "pod" : "leaf");
    else
        strbuf_puts(out, "all nodes\n");
    strbuf_puts(out, "  [node 0]");
    if (c->n_nodes > 1)
        strbuf_printf(out, " ... [node %u]", c->n_nodes - 1);
    strbuf_putc(out, '\n');
}

void topo_draw(const struct cluster *c, struct strbuf *out)
{
    bool own = c->nics_per_node == c->gpus_per_node;

    for (uint32_t g = 0; g < c->gpus_per_node; g++)
        own = own && c->nic_of_gpu[g] == g;
    draw_node(c, out);
    if (c->nics_per_node && !own)
        draw_nic_use(c, out);
    if (c->nics_per_node)
        draw_fabric(c, out);
}
