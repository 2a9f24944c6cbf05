/* How long a kernel takes alone. GEMM: the tile and wave model of docs/MODEL.md, the best of four tile shapes;
 * attention at the device's measured rate; both at tf32_share of it when the operands are fp32; everything else by its HBM traffic; kernels
 * with a rate of their own (device.kernel_rate) at that; never less than its launches cost the
 * host. Newton-Schulz is its three products a step. */
#include "sim/sim.h"

#include "core/num.h"

#include <math.h>

/* Tile shapes of a GEMM and their rate against the largest. */
static const struct {
    uint32_t rows, cols;
    double rate;
} tiles[] = {{256, 128, 1.0}, {128, 128, 0.95}, {128, 64, 0.8}, {64, 64, 0.6}};

static double gemm_s(const struct device *d, bool fp32, double m, double n, double k, double batch)
{
    double rate = fp32 ? d->tf32_share : 1;
    double best = INFINITY, bytes = (fp32 ? 4 : 2) * batch * (m * k + k * n + m * n), memory;

    for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++) {
        double a = tiles[i].rows, b = tiles[i].cols;
        double waves = ceil(batch * ceil(m / a) * ceil(n / b) / d->n_sm);
        double s = waves * 2 * a * b * (k + d->gemm_k0) /
                   (rate * d->peak_flops / d->n_sm * d->gemm_efficiency * tiles[i].rate);

        if (s < best)
            best = s;
    }
    memory = bytes / (d->hbm_Bps * d->hbm_efficiency);
    best *= d->sustained_factor;
    return d->kernel_s + (best > memory ? best : memory);
}

static double newton_schulz_s(const struct device *d, const struct kernel_call *k)
{
    double m = (double)k->m, n = (double)k->n, part = ceil(m / (double)k->batch);
    /* X is (m, n), m <= n; on shards each product has m/W of the rows; bf16 whatever the parameters are */
    double step = gemm_s(d, false, part, m, n, 1) + gemm_s(d, false, part, m, m, 1) +
                  gemm_s(d, false, part, n, m, 1);
    /* norm and cast once, scaling in the epilogues */
    double once = d->kernel_s + part * n * 6 / (d->hbm_Bps * d->hbm_efficiency);

    return (double)k->k * step + once;
}

/* Preconditioned updates: products in TF32, and fp32 traffic of a few passes. `flops` is the work of
 * this rank, whatever share of a matrix that is, and `batch` says nothing here: dividing by it would count a cut twice. */
static double preconditioned_s(const struct device *d, const struct kernel_call *k)
{
    double flops = (double)k->flops / (d->peak_flops * d->tf32_share * d->gemm_efficiency) *
                   d->sustained_factor;
    double bytes = 4.0 * 12 * (double)k->m * (double)k->n / (d->hbm_Bps * d->hbm_efficiency);

    return d->kernel_s * k->launches + flops + bytes;
}

/* By bytes or, attention, by FLOPs when they take longer; at the kernel's own rate where the device has one. */
static double by_traffic_s(const struct device *d, const struct kernel_call *k)
{
    double own = d->kernel_rate[k->kernel], bytes_s, flops_s;

    if (kernel_bound(k->kernel) != 'A')
        return (double)k->hbm_bytes / (own > 0 ? own : d->hbm_Bps * d->hbm_efficiency);
    bytes_s = (double)k->hbm_bytes / (d->hbm_Bps * d->hbm_efficiency);
    flops_s =
        (double)k->flops / ((own > 0 ? own : d->attention_flops) * (k->fp32 ? d->tf32_share : 1));
    return fmax(bytes_s, flops_s);
}

int64_t sim_ps(double s)
{
    return s * 1e12 < 0x1p63 ? llround(s * 1e12) : INT64_MAX;
}

struct kernel_time sim_kernel_time(const struct device *d, const struct kernel_call *k)
{
    struct kernel_time t = {.hbm_bytes = (double)k->hbm_bytes};
    double s = 0, host = (double)k->launches * d->launch_s;

    switch (k->kernel) {
    case KERNEL_NONE:
        break;
    case KERNEL_GEMM:
        s = gemm_s(d, k->fp32, (double)k->m, (double)k->n, (double)k->k, (double)k->batch);
        break;
    case KERNEL_GEMM_DGRAD: /* (m,n) x (n,k) */
        s = gemm_s(d, k->fp32, (double)k->m, (double)k->k, (double)k->n, (double)k->batch);
        break;
    case KERNEL_GEMM_WGRAD: /* (n,m) x (m,k) */
        s = gemm_s(d, k->fp32, (double)k->n, (double)k->k, (double)k->m, (double)k->batch);
        break;
    case KERNEL_NEWTON_SCHULZ:
    case KERNEL_NEWTON_SCHULZ_SHARDED:
        s = newton_schulz_s(d, k);
        t.hbm_bytes = 2 * (double)k->k * (2 * (double)(k->m * k->n) + 3 * (double)(k->m * k->m)) /
                      (double)k->batch;
        break;
    case KERNEL_SHAMPOO:
    case KERNEL_SOAP:
        s = preconditioned_s(d, k);
        t.hbm_bytes = 4.0 * 12 * (double)k->m * (double)k->n;
        break;
    default:
        s = d->kernel_s * k->launches + by_traffic_s(d, k);
        break;
    }
    t.alone_ps = sim_ps(s > host ? s : host);
    return t;
}
