/* The simulator's resources: what each is called, how many there are, and how much each carries. */
#include "sim/collective.h"

#include "core/num.h"

#include <math.h>

const char *sim_resource_name(enum sim_resource r)
{
    static const char *const names[RESOURCE_N] = {
        "GPU compute", "HBM",          "NVLink send",   "NVLink receive", "NIC send",
        "NIC receive", "PCIe send",    "PCIe receive",  "PCIe root up",   "PCIe root down",
        "CPU link",    "leaf up-link", "leaf down-link"};

    return names[r];
}

const char *sim_limit_name(int limit)
{
    static const char *const others[] = {"latency", "host", "other ranks"};

    return limit < RESOURCE_N ? sim_resource_name((enum sim_resource)limit)
                              : others[limit - RESOURCE_N];
}

/* The graph's links behind a resource; FABRIC_KIND_N: none. NVLink counts per GPU, whatever its links are. */
static enum fabric_kind graph_kind(enum sim_resource r)
{
    static const enum fabric_kind kinds[RESOURCE_N] = {[RESOURCE_SM] = FABRIC_KIND_N,
                                                       [RESOURCE_HBM] = FABRIC_KIND_N,
                                                       [RESOURCE_NVLINK_TX] = FABRIC_KIND_N,
                                                       [RESOURCE_NVLINK_RX] = FABRIC_KIND_N,
                                                       [RESOURCE_NIC_TX] = FABRIC_NIC_TX,
                                                       [RESOURCE_NIC_RX] = FABRIC_NIC_RX,
                                                       [RESOURCE_PCIE_TX] = FABRIC_PCIE_UP,
                                                       [RESOURCE_PCIE_RX] = FABRIC_PCIE_DOWN,
                                                       [RESOURCE_ROOT_UP] = FABRIC_ROOT_UP,
                                                       [RESOURCE_ROOT_DOWN] = FABRIC_ROOT_DOWN,
                                                       [RESOURCE_CPU] = FABRIC_CPU,
                                                       [RESOURCE_LEAF_UP] = FABRIC_LEAF_UP,
                                                       [RESOURCE_LEAF_DOWN] = FABRIC_LEAF_DOWN};

    return kinds[r];
}

uint32_t coll_instances(const struct fabric *f, enum sim_resource r)
{
    enum fabric_kind k = graph_kind(r);

    if (k == FABRIC_KIND_N)
        return f->world;
    return (uint32_t)num_max(1, fabric_n(f, k));
}

bool coll_is_there(const struct fabric *f, enum sim_resource r)
{
    enum fabric_kind k = graph_kind(r);

    if (r == RESOURCE_NVLINK_TX || r == RESOURCE_NVLINK_RX)
        return f->c.domain_gpus != 1;

    return k == FABRIC_KIND_N || fabric_n(f, k) > 0;
}

double coll_capacity(const struct fabric *f, enum sim_resource r)
{
    enum fabric_kind k = graph_kind(r);
    double Bps;

    if (r == RESOURCE_SM)
        return 1.0;
    if (r == RESOURCE_HBM)
        return f->c.device.hbm_Bps / 1e12;
    if (r == RESOURCE_NVLINK_TX || r == RESOURCE_NVLINK_RX)
        return f->c.nvlink_Bps > 0 ? f->c.nvlink_Bps * f->c.nvlink_efficiency / 1e12 : 1.0;
    if (!fabric_n(f, k))
        return 1.0; /* nobody uses it */
    Bps = fabric_Bps(f, k, 0);
    if ((k == FABRIC_NIC_TX || k == FABRIC_NIC_RX) && fabric_n(f, FABRIC_PCIE_OUT))
        Bps = fmin(Bps, fabric_Bps(f, FABRIC_PCIE_OUT, 0));
    return Bps / 1e12;
}

void coll_make_kinds(struct fluid *f, const struct fabric *fabric)
{
    for (int r = 0; r < RESOURCE_N; r++) {
        uint32_t id = fluid_kind(f, sim_resource_name((enum sim_resource)r),
                                 coll_instances(fabric, (enum sim_resource)r),
                                 coll_capacity(fabric, (enum sim_resource)r));

        BUG_ON(id != (uint32_t)r);
    }
}
