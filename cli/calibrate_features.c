#include "cli/calibrate_features.h"

#include "sim/sim.h"

#include <string.h>

double calibrate_seconds(const struct device *d, const struct kernel_call *k)
{
    return (double)sim_kernel_time(d, NULL, k).alone_ps / 1e12;
}

bool calibrate_by_products(enum kernel k)
{
    return k == KERNEL_GEMM || k == KERNEL_GEMM_DGRAD || k == KERNEL_GEMM_WGRAD ||
           k == KERNEL_NEWTON_SCHULZ;
}

void calibrate_kernel_features(const struct kernel_call *k, uint32_t n_sm, double x[N_KERNEL])
{
    struct device d = {.peak_flops = 1e12,
                       .hbm_Bps = 1e30,
                       .tf32_share = 1,
                       .n_sm = n_sm,
                       .gemm_efficiency = 1,
                       .hbm_efficiency = 1,
                       .attention_flops = 1e30,
                       .sustained_factor = 1};

    memset(x, 0, N_KERNEL * sizeof(*x));
    if (calibrate_by_products(k->kernel)) {
        x[X_WORK] = calibrate_seconds(&d, k) * 1e12;
        d.gemm_k0 = 1;
        x[X_AREA] = calibrate_seconds(&d, k) * 1e12 - x[X_WORK];
    } else {
        x[X_RATE + (int)k->kernel] =
            kernel_bound(k->kernel) == 'A' ? (double)k->flops : (double)k->hbm_bytes;
    }
    d.peak_flops = 1e30;
    d.gemm_k0 = 0;
    d.kernel_s = 1;
    x[X_LAUNCH] = calibrate_seconds(&d, k);
}

double calibrate_common_rate(const struct nonneg *f, char bound)
{
    double sum = 0, s = 0;

    for (size_t r = 0; r < f->n_rows; r++)
        for (int k = 0; k < KERNEL_N; k++) {
            double x = f->rows[r * (f->n + 1) + X_RATE + (size_t)k];

            if (kernel_bound((enum kernel)k) != bound)
                continue;
            sum += x;
            s += x * f->x[X_RATE + k];
        }
    return s > 0 ? sum / s : 1e15;
}

void calibrate_unit_links(struct cluster *c, uint32_t ranks)
{
    c->gpus_per_node = ranks;
    c->n_nodes = c->domain_nodes = 1;
    c->nvswitch = true;
    c->nvlink_Bps = 1e30;
    c->nvlink_efficiency = 1;
    c->oversubscription = 1;
    for (int i = 0; i < PROTOCOL_N; i++)
        c->coll.rate_share[i] = 1;
}

void calibrate_coll_features(const struct program *p, const struct op *o, const struct instance *i,
                             double x[N_COLL])
{
    enum coll_algo algo = o->coll.algo == ALGO_AUTO ? ALGO_RING : o->coll.algo;
    struct cluster c;

    for (int k = 0; k < N_COLL; k++) {
        memset(&c, 0, sizeof(c));
        calibrate_unit_links(&c, p->gpus_per_node);
        for (int j = 0; j < PROTOCOL_N; j++) {
            c.coll.base_s[j] = k == Y_BASE;
            c.coll.step_s[j] = k == Y_STEP;
        }
        c.nvlink_Bps = k == Y_BYTES ? 1e9 : 1e30;
        x[k] = (double)sim_collective_ps(p, &c, o, i, algo) / 1e12;
        if (k == Y_BYTES)
            x[k] *= 1e9;
    }
}
