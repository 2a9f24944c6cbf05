/* Nodes whose GPUs are not all joined by NVLink: pairs with a bridge, or no NVLink at all. What
 * GPUs of different domains send each other passes PCIe, for which few descriptions have constants;
 * they are assumed here, in one place, each with its source. */
#include "model/cluster/cluster.h"

#include <string.h>

/* NCCL's topology model gives a PCIe 3.0 x16 link 12 GB/s of the 15.75 that its 16 lanes of 8 GT/s
 * carry with 128b/130b. */
static const double PCIE_EFFICIENCY = 12 / 15.75;
static const char PCIE_EFFICIENCY_SOURCE[] = "assumed: as NCCL's topology model takes a PCIe 3.0 "
                                             "x16 link, 12 of 15.75 GB/s (src/graph/topo.h)";

/* A ring's step over PCIe in NCCL's tuning model, by protocol. */
static const double PCIE_STEP_S[PROTOCOL_N] = {1e-6, 2.5e-6, 5.7e-6};
static const char PCIE_STEP_SOURCE[] =
    "assumed: latencies of a ring over PCIe in NCCL's tuning model (src/graph/tuning.cc)";

/* What NCCL's topology model takes between AMD's CPUs, in the middle of its 6 to 40 GB/s for
 * others. */
static const double CPU_LINK_BPS = 16e9;
static const char CPU_LINK_SOURCE[] =
    "assumed: between CPUs 16 GB/s, as NCCL's topology model takes AMD's (Intel's 6 to 40; "
    "src/graph/topo.h)";

static void number_domains(struct cluster *c, uint32_t n, const uint8_t *domain_of_gpu)
{
    for (uint32_t g = 0; g < c->gpus_per_node; g++)
        c->domain_of_gpu[g] = (uint8_t)(domain_of_gpu ? domain_of_gpu[g] : g / n);
    c->domain_gpus = n;
}

static void drop_nvlink(struct cluster *c)
{
    c->nvlink_Bps = c->nvlink_efficiency = 0;
    c->nvswitch = false;
}

int cluster_set_domains(struct cluster *c, uint32_t n, const uint8_t *domain_of_gpu,
                        const char *why, const char *what, struct arena *a, struct err *e)
{
    if (n > 1 && !(c->nvlink_Bps > 0))
        return err_set(e, ERR_INVALID,
                       "cluster '%.200s': an NVLink domain of %u GPUs, and '%.100s' has no NVLink: "
                       "its rate is not known",
                       what, n, c->name);
    if (n == c->gpus_per_node && n > 1) {
        c->domain_gpus = 0;
        return 0;
    }
    if (c->domain_nodes > 1)
        return err_set(
            e, ERR_INVALID,
            "cluster '%.200s': an NVLink domain of %u GPUs, and in '%.100s' one is of %u "
            "nodes",
            what, n, c->name, c->domain_nodes);
    if (n < c->gpus_per_node && !(c->pcie_switches && c->pcie_Bps > 0))
        return err_set(e, ERR_INVALID,
                       "cluster '%.200s': GPUs that NVLink does not join, and '%.100s' does not "
                       "describe their PCIe: expected a base with node.pcie",
                       what, c->name);
    number_domains(c, n, domain_of_gpu);
    if (n > 1)
        cluster_set_source(c, a, "node.nvlink.domains", why);
    else
        drop_nvlink(c);
    memset(&c->coll.nvls, 0, sizeof(c->coll.nvls));
    memset(c->coll.band, 0, sizeof(c->coll.band));
    memset(c->coll.net_band, 0, sizeof(c->coll.net_band));
    if (!cluster_is_split(c)) /* one GPU a node */
        return 0;
    if (!(c->pcie_efficiency > 0)) {
        c->pcie_efficiency = PCIE_EFFICIENCY;
        cluster_set_source(c, a, "node.pcie.efficiency", PCIE_EFFICIENCY_SOURCE);
    }
    if (!(c->coll.pcie_step_s[PROTOCOL_SIMPLE] > 0)) {
        memcpy(c->coll.pcie_step_s, PCIE_STEP_S, sizeof(PCIE_STEP_S));
        cluster_set_source(c, a, "collectives.pcie_step", PCIE_STEP_SOURCE);
    }
    return 0;
}

void cluster_set_cpus(struct cluster *c, uint32_t n, const uint8_t *cpu_of_switch, const char *why,
                      struct arena *a)
{
    c->n_cpus = n;
    memcpy(c->cpu_of_switch, cpu_of_switch, c->pcie_switches);
    cluster_set_source(c, a, "node.pcie.cpus", why);
    if (!(c->cpu_Bps > 0)) {
        c->cpu_Bps = CPU_LINK_BPS;
        cluster_set_source(c, a, "node.pcie.cpu_link", CPU_LINK_SOURCE);
    }
}
