/* Every number of a cluster's file: where it stands, what it is, in which range, and where it goes in struct cluster. */
#include "model/cluster/cluster_inner.h"

static const char *const protocols[] = {"ll", "ll128", "simple", NULL};
static const char *const tails[] = {"low_latency", "all_reduce", "all_gather", "reduce_scatter",
                                    NULL};
static const char *const band_sizes[] = {"small", "medium", "large", NULL};
static const char *const channels[] = {"ring", "nic", "nvls", "p2p", NULL};
const char *const measured_algorithms[] = {"Ring", "Tree", "NVLS", "NVLSTree", NULL};
const char *const measured_kinds[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                      "reduce",     "alltoall",   "sendrecv",       NULL};
const char *const cluster_link_kinds[] = {"direct", "nvswitch", NULL};

const struct section cluster_sections[N_SECTIONS] = {
    [TOP] = {"", NO_PARENT, REQUIRED, {"format", "name", "summary", "source"}},
    [DEVICE] = {"device", TOP, REQUIRED, {"name"}},
    [NODE] = {"node", TOP, REQUIRED, {NULL}},
    [NVLINK] = {"nvlink", NODE, OPTIONAL, {NULL}},
    [NIC] = {"nic", NODE, OPTIONAL, {"name"}},
    [PCIE] = {"pcie", NODE, OPTIONAL, {NULL}},
    [FABRIC] = {"fabric", TOP, WITH_NICS, {NULL}},
    [COLLECTIVES] = {"collectives", TOP, REQUIRED, {NULL}},
    [NVLS] = {"nvls", COLLECTIVES, OPTIONAL, {NULL}},
    [P2P] = {"p2p", COLLECTIVES, OPTIONAL, {NULL}},
};

#define CL(member)  offsetof(struct cluster, member)
#define DEV(member) (offsetof(struct cluster, device) + offsetof(struct device, member))
#define COL(member) (offsetof(struct cluster, coll) + offsetof(struct coll_constants, member))

/* The ranges keep every time between a picosecond's share and years: no product of them overflows. */
const struct field cluster_fields[] = {
    {DEVICE, "memory", BYTES, DEV(memory_bytes), 1 << 20, 0x1p50, REQUIRED},
    {DEVICE, "context", BYTES, DEV(context_bytes), 0, 0x1p50, REQUIRED},
    {DEVICE, "fragmentation", NUMBER, DEV(fragmentation), 0, 0.9, REQUIRED},
    {DEVICE, "peak_bf16", FLOPS, DEV(peak_flops), 1e6, 1e20, REQUIRED},
    {DEVICE, "tf32_share", NUMBER, DEV(tf32_share), 1e-3, 1, OPTIONAL},
    {DEVICE, "fp8_share", NUMBER, DEV(fp8_share), 0.1, 8, OPTIONAL},
    {DEVICE, "hbm", RATE, DEV(hbm_Bps), 1e3, 1e17, REQUIRED},
    {DEVICE, "sms", U32, DEV(n_sm), 1, 65536, REQUIRED},
    {DEVICE, "compute_capability", NUMBER, DEV(compute_capability), 1, 100, OPTIONAL},
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
    {NVLINK, "domains", DOMAINS, 0, 0, 0, OPTIONAL},
    {NVLINK, "efficiency", NUMBER, CL(nvlink_efficiency), 1e-3, 1, REQUIRED},
    {NIC, "count", U32, CL(nics_per_node), 1, CLUSTER_MAX_NICS_PER_NODE, REQUIRED},
    {NIC, "rate", RATE, CL(nic_Bps), 1e3, 1e17, REQUIRED},
    {NIC, "efficiency", NUMBER, CL(nic_efficiency), 1e-3, 1, REQUIRED},
    {NIC, "of_gpu", NIC_OF_GPU, CL(nic_of_gpu), 0, 0, NIC_SPREAD},
    {PCIE, "uplink", RATE, CL(pcie_Bps), 1e3, 1e17, REQUIRED},
    {PCIE, "efficiency", NUMBER, CL(pcie_efficiency), 1e-3, 1, OPTIONAL},
    {PCIE, "switches", SWITCHES, 0, 0, 0, REQUIRED},
    {PCIE, "cpus", CPUS, 0, 0, 0, OPTIONAL},
    {PCIE, "cpu_link", RATE, CL(cpu_Bps), 1e3, 1e17, OPTIONAL},
    {FABRIC, "rail_optimised", FLAG, CL(rail_optimised), 0, 0, REQUIRED},
    {FABRIC, "nodes_per_leaf", U32, CL(nodes_per_leaf), 0, CLUSTER_MAX_NODES, REQUIRED},
    {FABRIC, "oversubscription", NUMBER, CL(oversubscription), 1, 1000, REQUIRED},
    {FABRIC, "hop", TIME, CL(hop_s), 0, 1, REQUIRED},
    {FABRIC, "sharp", FLAG, CL(sharp), 0, 0, OPTIONAL},
    {COLLECTIVES, "base", TIMES3, COL(base_s), 0, 1, REQUIRED},
    {COLLECTIVES, "step", TIMES3, COL(step_s), 0, 1, REQUIRED},
    {COLLECTIVES, "net_step", TIMES3, COL(net_step_s), 0, 1, WITH_NICS},
    {COLLECTIVES, "tree_step", TIMES3, COL(tree_step_s), 0, 1, NIC_OPTIONAL},
    {COLLECTIVES, "pcie_step", TIMES3, COL(pcie_step_s), 0, 1, OPTIONAL},
    {COLLECTIVES, "rate_share", SHARES3, COL(rate_share), 1e-3, 1, REQUIRED},
    {COLLECTIVES, "ramp", TIME, COL(ramp_s), 0, 1, REQUIRED},
    {COLLECTIVES, "ramp_at", TIME, COL(ramp_at_s), 0, 1, REQUIRED},
    {COLLECTIVES, "net_ramp", TIME, COL(net_ramp_s), 0, 1, NIC_OPTIONAL},
    {COLLECTIVES, "net_ramp_at", TIME, COL(net_ramp_at_s), 0, 1, NIC_OPTIONAL},
    {COLLECTIVES, "tree_ramp", TIME, COL(tree_ramp_s), 0, 1, NIC_OPTIONAL},
    {COLLECTIVES, "tree_ramp_at", TIME, COL(tree_ramp_at_s), 0, 1, NIC_OPTIONAL},
    {COLLECTIVES, "no_ll128", FLAG, COL(no_ll128), 0, 0, NIC_OPTIONAL},
    {COLLECTIVES, "tail", TAILS, COL(tail), 0, 10, OPTIONAL},
    {COLLECTIVES, "tree_rate", SHARES3, COL(tree_rate), 1e-3, 1, NIC_OPTIONAL},
    {COLLECTIVES, "believed_ll128", NUMBER, COL(believed_ll128), 1e-3, 1, OPTIONAL},
    {COLLECTIVES, "one_process", TIME, COL(one_process_s), 0, 1, OPTIONAL},
    {COLLECTIVES, "channels", COUNTS, COL(channels), 1, 64, OPTIONAL},
    {COLLECTIVES, "band", BANDS, COL(band), 0, 10, OPTIONAL},
    {COLLECTIVES, "net_band", BANDS, COL(net_band), 0, 10, NIC_OPTIONAL},
    {COLLECTIVES, "tables", TABLES, 0, 0, 0, OPTIONAL},
    {NVLS, "link_rate", RATE, COL(nvls.link_Bps), 1e3, 1e17, REQUIRED},
    {NVLS, "base", TIME, COL(nvls.base_s), 0, 1, REQUIRED},
    {NVLS, "net_step", TIME, COL(nvls.net_step_s), 0, 1, WITH_NICS},
    {NVLS, "ramp", TIME, COL(nvls.ramp_s), 0, 1, REQUIRED},
    {NVLS, "ramp_at", TIME, COL(nvls.ramp_at_s), 0, 1, REQUIRED},
    {NVLS, "net_rate", NUMBER, COL(nvls.net_rate), 1e-3, 1, NIC_OPTIONAL},
    {NVLS, "net_ramp", TIME, COL(nvls.net_ramp_s), 0, 1, NIC_OPTIONAL},
    {NVLS, "net_ramp_at", TIME, COL(nvls.net_ramp_at_s), 0, 1, NIC_OPTIONAL},
    {NVLS, "min_gpus", U32, COL(nvls.min_gpus), 2, CLUSTER_MAX_GPUS_PER_NODE, REQUIRED},
    {P2P, "base", TIME, COL(p2p.base_s), 0, 1, REQUIRED},
    {P2P, "both_ways", NUMBER, COL(p2p.both_ways), 1e-3, 1, REQUIRED},
    {P2P, "ramp", TIME, COL(p2p.ramp_s), 0, 1, REQUIRED},
    {P2P, "ramp_at", TIME, COL(p2p.ramp_at_s), 0, 1, REQUIRED},
    {P2P, "part_rate", RATE, COL(p2p.part_Bps), 1e3, 1e17, OPTIONAL},
    {P2P, "ll_rate", NUMBER, COL(p2p.ll_rate), 1e-3, 1, OPTIONAL},
    {P2P, "copy_rate", RATE, COL(p2p.copy_Bps), 1e3, 1e17, OPTIONAL},
    {P2P, "net_rate", NUMBER, COL(p2p.net_rate), 1e-3, 1, NIC_OPTIONAL},
    {P2P, "net_peer", TIME, COL(p2p.net_peer_s), 0, 1, NIC_OPTIONAL},
    {P2P, "net_fill", TIME, COL(p2p.net_fill_s), 0, 1, NIC_OPTIONAL},
    {TOP, "price_per_gpu_hour", NUMBER, CL(price_per_gpu_hour), 0, 1e6, OPTIONAL},
};
_Static_assert(sizeof(cluster_fields) / sizeof(cluster_fields[0]) == N_FIELDS, "N_FIELDS");

const char *const *cluster_names_of(enum field_kind k)
{
    return k == TIMES3 || k == SHARES3 ? protocols
           : k == TAILS                ? tails
           : k == BANDS                ? band_sizes
           : k == COUNTS               ? channels
                                       : NULL;
}

bool cluster_rate_of(enum kernel k, enum field_kind *kind)
{
    *kind = kernel_bound(k) == 'A' ? FLOPS : RATE;
    return k != KERNEL_NONE && (kernel_bound(k) == 'A' || kernel_bound(k) == 'E');
}

const char *cluster_path_of(const struct field *f, struct arena *a)
{
    const char *path = f->key;

    for (int up = (int)f->section; up != TOP; up = cluster_sections[up].parent)
        path = arena_printf(a, "%s.%s", cluster_sections[up].key, path);
    return path;
}

bool cluster_is_of_network(const struct field *f)
{
    return f->presence >= WITH_NICS || f->section == NIC ||
           cluster_sections[f->section].presence >= WITH_NICS;
}

bool cluster_has_section(const struct cluster *c, enum section_id id)
{
    switch (id) {
    case NIC:
    case FABRIC:
        return c->nics_per_node > 0;
    case NVLINK:
        return c->nvlink_Bps > 0;
    case PCIE:
        return c->pcie_switches > 0;
    case NVLS:
        return c->coll.nvls.link_Bps > 0;
    case P2P:
        return c->coll.p2p.both_ways > 0;
    default:
        return true;
    }
}

bool cluster_has_field(const struct cluster *c, const struct field *f)
{
    if (!cluster_has_section(c, f->section) || (f->presence >= WITH_NICS && !c->nics_per_node))
        return false;
    if (f->kind == KERNEL_RATES) {
        for (int k = 0; k < KERNEL_N; k++)
            if (c->device.kernel_rate[k] > 0)
                return true;
        return false;
    }
    if (f->kind == GEMM_GRID)
        return c->device.gemm_grid;
    if (f->kind == TABLES)
        return c->coll.n_tables;
    if (f->kind == DOMAINS)
        return cluster_is_split(c);
    if (f->kind == CPUS)
        return c->n_cpus;
    if (f->presence != OPTIONAL && f->presence != NIC_OPTIONAL)
        return true;
    if (f->kind == U32)
        return *(const uint32_t *)const_member(c, f) > f->lo;
    if (f->kind == FLAG)
        return *(const bool *)const_member(c, f);
    for (const char *const *name = cluster_names_of(f->kind); name && *name; name++)
        if (((const double *)const_member(c, f))[name - cluster_names_of(f->kind)] > 0)
            return true;
    return *(const double *)const_member(c, f) > 0;
}
