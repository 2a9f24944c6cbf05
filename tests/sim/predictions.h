/* tests/sim/predictions.h - a plan, its program and its prediction, for tests of whole steps. */
#ifndef BALLAST_TESTS_SIM_PREDICTIONS_H
#define BALLAST_TESTS_SIM_PREDICTIONS_H

#include "sim/fluid.h"
#include "sim/framework.h"
#include "sim/sim.h"
#include "tests/layouts/plans.h"

#include "core/num.h"

#include <math.h>

static struct arena a;
static struct plan plan;
static struct program prog;
static struct prediction pr;
static struct err e;

static inline void predict(bool unfold)
{
    const struct sim_options o = {.unfold = unfold};

    MUST(sim_predict(&prog, &plan.cluster, &o, &a, &pr, &e) == 0, "%s", e.msg);
}

/* A cluster with everything that an ideal one leaves out. */
static inline void real_cluster(struct cluster *c)
{
    c->device.launch_s = 6e-6;
    c->device.kernel_s = 2e-6;
    c->device.n_sm = 108;
    c->device.collective_sms = 16;
    c->device.gemm_efficiency = 0.9;
    c->device.gemm_k0 = 100;
    c->device.hbm_efficiency = 0.85;
    c->device.context_bytes = 700 << 20;
    c->device.fragmentation = 0.03;
    c->nvlink_efficiency = 0.78;
    c->nic_efficiency = 0.95;
    c->nics_per_node = c->gpus_per_node > 1 ? c->gpus_per_node / 2 : 1;
    for (uint32_t i = 0; i < c->gpus_per_node; i++)
        c->nic_of_gpu[i] = (uint8_t)(i / 2 % c->nics_per_node);
    c->nodes_per_leaf = 4;
    c->oversubscription = 2;
    c->rail_optimised = c->gpus_per_node % 2 == 0;
    c->pcie_switches = 2; /* GPUs in turn, NICs in halves: some cross the root */
    c->pcie_Bps = 1.2e10;
    for (uint32_t i = 0; i < c->gpus_per_node; i++)
        c->switch_of_gpu[i] = (uint8_t)(i % 2);
    for (uint32_t i = 0; i < c->nics_per_node; i++)
        c->switch_of_nic[i] = (uint8_t)(2 * i / c->nics_per_node);
    for (int i = 0; i < PROTOCOL_N; i++) {
        c->coll.base_s[i] = 6e-6;
        c->coll.step_s[i] = 1e-6 * (i + 1);
        c->coll.net_step_s[i] = 3e-6 * (i + 1);
        c->coll.rate_share[i] = (i + 2) / 4.0;
    }
    c->coll.ramp_s = 2e-5;
    c->coll.ramp_at_s = 1e-4;
}

static inline void make(const char *model, const char *layout, const struct job *j, uint32_t world,
                        uint32_t gpn)
{
    struct job x = *j;

    arena_init(&a);
    if (!x.mesh && !x.shard_group)
        plans_fit(&x, layout, world, gpn, 3);
    plans_make(&plan, &a, model, layout, &x, world, gpn);
    plans_lower(&plan, &a, &prog);
}

#endif
