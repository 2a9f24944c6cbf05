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

/* What GEMMs of a run are slower than in a short burst. */
static double sustained(const struct device *d, const struct framework_costs *f)
{
    return f && f->sustained > 0 ? f->sustained : d->sustained_factor;
}

/* What a product reads. The result of fp8 has 16 bits. */
enum operands { OPERANDS_16, OPERANDS_32, OPERANDS_8 };

static enum operands operands(const struct kernel_call *k)
{
    return k->fp8 ? OPERANDS_8 : k->fp32 ? OPERANDS_32 : OPERANDS_16;
}

/* A product in a burst by tiles and waves, without its start. */
static double tiles_s(const struct device *d, enum operands type, double m, double n, double k,
                      double batch)
{
    double rate = type == OPERANDS_32 ? d->tf32_share : type == OPERANDS_8 ? d->fp8_share : 1;
    double best = INFINITY;

    for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++) {
        double a = tiles[i].rows, b = tiles[i].cols;
        double waves = ceil(batch * ceil(m / a) * ceil(n / b) / d->n_sm);

        best =
            fmin(best, waves * 2 * a * b * (k + d->gemm_k0) /
                           (rate * d->peak_flops / d->n_sm * d->gemm_efficiency * tiles[i].rate));
    }
    return best;
}

static double gemm_bytes_s(const struct device *d, enum operands type, double m, double n, double k,
                           double batch)
{
    double in = type == OPERANDS_32 ? 4 : type == OPERANDS_8 ? 1 : 2;
    double out = type == OPERANDS_32 ? 4 : 2;

    return batch * (in * (m * k + k * n) + out * m * n) / (d->hbm_Bps * d->hbm_efficiency);
}

/* Operands of 16 bits become fp8 as they come (dynamic scaling): read for the largest, read and written. */
static double cast_s(const struct device *d, enum operands type, double m, double n, double k,
                     double batch)
{
    return type == OPERANDS_8
               ? batch * (2 + 2 + 1) * (m * k + k * n) / (d->hbm_Bps * d->hbm_efficiency)
               : 0;
}

/* Measured over modelled around the shape: the geometric mean of the grid's corners. The model has the constants of where it was
 * measured, so that what is changed here counts. */
static double grid_factor(const struct device *d, double m, double n, double k)
{
    struct gemm_corner c[8];
    int count = gemm_grid_around(d->gemm_grid, m, n, k, c);
    struct device then;
    double log_sum = 0;

    if (!count)
        return 1;
    then = (struct device){.peak_flops = d->gemm_grid->model.sm_flops * d->gemm_grid->model.sms,
                           .n_sm = (uint32_t)d->gemm_grid->model.sms,
                           .gemm_efficiency = 1,
                           .gemm_k0 = d->gemm_grid->model.k0,
                           .hbm_Bps = d->gemm_grid->model.hbm_Bps,
                           .hbm_efficiency = 1,
                           .kernel_s = d->gemm_grid->model.kernel_s};
    for (int i = 0; i < count; i++) {
        double work = tiles_s(&then, OPERANDS_16, c[i].m, c[i].n, c[i].k, 1);
        double bytes = gemm_bytes_s(&then, OPERANDS_16, c[i].m, c[i].n, c[i].k, 1);

        log_sum += c[i].weight * log(c[i].s / (then.kernel_s + fmax(work, bytes)));
    }
    return exp(log_sum);
}

/* Where the grid is slower than the model its products ran throttled, which is what `sustained` stands for: the larger of the two
 * counts, not both. */
static double gemm_s(const struct device *d, const struct framework_costs *f, enum operands type,
                     double m, double n, double k, double batch)
{
    /* a batch fills the machine as one product of as many rows does */
    double grid = grid_factor(d, m * batch, n, k), hot = sustained(d, f);
    double work = tiles_s(d, type, m, n, k, batch), bytes = gemm_bytes_s(d, type, m, n, k, batch);

    return fmax(grid * (d->kernel_s + fmax(work, bytes)),
                fmin(grid, 1) * (d->kernel_s + fmax(work * hot, bytes))) +
           cast_s(d, type, m, n, k, batch);
}

/* X X^T of an (m, k) X by tiles of the lower triangle, each written twice; a tile's rate as for whole products. */
static double symmetric_s(const struct device *d, const struct framework_costs *f, double m,
                          double k, double batch)
{
    static const double TILE = 128;
    double rows = ceil(m / TILE), waves = ceil(batch * rows * (rows + 1) / 2 / d->n_sm);
    double work = waves * 2 * TILE * TILE * (k + d->gemm_k0) /
                  (d->peak_flops / d->n_sm * d->gemm_efficiency * tiles[1].rate);

    return d->kernel_s +
           fmax(work * sustained(d, f), gemm_bytes_s(d, OPERANDS_16, m, m, k, 0.5 * batch));
}

static double newton_schulz_s(const struct device *d, const struct framework_costs *f,
                              const struct kernel_call *k)
{
    double m = (double)k->m, n = (double)k->n, part = ceil(m / (double)k->batch);
    double batch = 1 + (double)k->more;
    /* X is (m, n), m <= n; on shards each product has m/W of the rows; bf16 whatever the parameters are */
    double square = gemm_s(d, f, OPERANDS_16, part, m, n, batch),
           power = gemm_s(d, f, OPERANDS_16, part, m, m, batch);
    /* norm and cast once, scaling in the epilogues */
    double once = d->kernel_s + batch * part * n * 6 / (d->hbm_Bps * d->hbm_efficiency), step;

    if (k->symmetric) { /* small ones are no faster */
        square = fmin(square, symmetric_s(d, f, m, n, batch));
        power = fmin(power, symmetric_s(d, f, m, m, batch));
    }
    step = square + power + gemm_s(d, f, OPERANDS_16, part, n, m, batch);
    if (k->more) { /* who batches does so where it pays */
        struct kernel_call one = *k;

        one.more = 0;
        return fmin((double)k->k * step + once, batch * newton_schulz_s(d, f, &one));
    }
    return (double)k->k * step + once;
}

/* Preconditioned updates: products in TF32, and fp32 traffic of a few passes. `flops` is the work of
 * this rank, whatever share of a matrix that is, and `batch` says nothing here: dividing by it would count a cut twice. */
static double preconditioned_s(const struct device *d, const struct framework_costs *f,
                               const struct kernel_call *k)
{
    double flops =
        (double)k->flops / (d->peak_flops * d->tf32_share * d->gemm_efficiency) * sustained(d, f);
    double bytes = 4.0 * 12 * (double)k->m * (double)k->n / (d->hbm_Bps * d->hbm_efficiency);

    return d->kernel_s * k->launches + flops + bytes;
}

/* HBM traffic of a kernel that moves so many bytes: what fits into L2 stays there. Half of it where they are as many as L2 has. */
static double hbm_traffic(const struct device *d, double bytes)
{
    return bytes > 0 ? bytes * bytes / (bytes + d->l2_bytes) : 0;
}

/* What the framework's kernels move for one fused kernel. */
static double framework_bytes(const struct framework_costs *f, const struct kernel_call *k)
{
    double elements = (double)(k->m * k->n);

    switch (k->kernel) {
    case KERNEL_CROSS_ENTROPY:
    case KERNEL_CROSS_ENTROPY_BACKWARD:
        return f->logit_bytes > 0 ? f->logit_bytes / 2 * elements : (double)k->hbm_bytes;
    case KERNEL_ADAMW:
        return f->adamw_bytes > 0 ? f->adamw_bytes * elements : (double)k->hbm_bytes;
    case KERNEL_RMSNORM:
    case KERNEL_RMSNORM_BACKWARD:
    case KERNEL_ROPE:
    case KERNEL_ROPE_BACKWARD:
        return (f->eager > 0 ? f->eager : 1) * (double)k->hbm_bytes;
    default:
        return (double)k->hbm_bytes;
    }
}

static double elementwise_s(const struct device *d, const struct framework_costs *f,
                            const struct kernel_call *k)
{
    double own = d->kernel_rate[k->kernel], bytes = (double)k->hbm_bytes;

    if (own > 0)
        return bytes / own;
    if (f)
        bytes = framework_bytes(f, k);
    return hbm_traffic(d, bytes) / (d->hbm_Bps * d->hbm_efficiency) + (f ? f->kernels_s : 0) +
           (f && k->kernel == KERNEL_CROSS_ENTROPY ? f->micro_batch_s : 0);
}

/* Two products and, unfused, a softmax whose scores pass memory. */
static double unfused_attention_s(const struct device *d, const struct framework_costs *f,
                                  const struct kernel_call *k, bool backward)
{
    double each = f->score_bytes + (k->biased ? f->bias_bytes : 0), times = backward ? 2 : 1;
    double scores = each * (double)(k->batch * k->m * k->n);
    double products =
        gemm_s(d, f, operands(k), (double)k->m, (double)k->n, (double)k->k, (double)k->batch) +
        gemm_s(d, f, operands(k), (double)k->m, (double)k->k, (double)k->n, (double)k->batch);

    return times * (products + scores / (d->hbm_Bps * d->hbm_efficiency));
}

/* Fused attention at its rate, less where a mask halves the work: tiles on the diagonal are worked whole. */
static double attention_s(const struct device *d, const struct framework_costs *f,
                          const struct kernel_call *k)
{
    bool backward = k->kernel == KERNEL_ATTENTION_BACKWARD;
    bool scan = k->kernel == KERNEL_SCAN || k->kernel == KERNEL_SCAN_BACKWARD;
    double masked = f && f->masked > 0 ? f->masked : d->attention_masked;
    double own = d->kernel_rate[k->kernel], rate = own > 0 ? own : d->attention_flops, flops_s;
    double whole =
        (backward ? 10.0 : 4.0) * (double)k->batch * (double)(k->m * k->n) * (double)k->k;

    if (f && f->unfused && !scan)
        return unfused_attention_s(d, f, k, backward);
    if (own <= 0 && !scan && masked > 0 && (double)k->flops < 0.75 * whole)
        rate *= masked;
    flops_s = (double)k->flops / (rate * (k->fp32 ? d->tf32_share : 1));
    return fmax((double)k->hbm_bytes / (d->hbm_Bps * d->hbm_efficiency), flops_s);
}

int64_t sim_ps(double s)
{
    return s * 1e12 < 0x1p63 ? llround(s * 1e12) : INT64_MAX;
}

struct kernel_time sim_kernel_time(const struct device *d, const struct framework_costs *f,
                                   const struct kernel_call *k)
{
    struct kernel_time t = {.hbm_bytes = (double)k->hbm_bytes};
    double s = 0, host = f && f->graphs ? 0 : (double)k->launches * d->launch_s;

    switch (k->kernel) {
    case KERNEL_NONE:
        break;
    case KERNEL_COPY: /* none without a framework */
        if (f)
            s = d->kernel_s + (double)k->hbm_bytes / (d->hbm_Bps * d->hbm_efficiency);
        else
            host = t.hbm_bytes = 0;
        break;
    case KERNEL_GEMM:
        s = gemm_s(d, f, operands(k), (double)k->m, (double)k->n, (double)k->k, (double)k->batch);
        break;
    case KERNEL_GEMM_DGRAD: /* (m,n) x (n,k) */
        s = gemm_s(d, f, operands(k), (double)k->m, (double)k->k, (double)k->n, (double)k->batch);
        break;
    case KERNEL_GEMM_WGRAD: /* (n,m) x (m,k) */
        s = gemm_s(d, f, operands(k), (double)k->n, (double)k->k, (double)k->m, (double)k->batch);
        break;
    case KERNEL_NEWTON_SCHULZ:
    case KERNEL_NEWTON_SCHULZ_SHARDED:
        s = newton_schulz_s(d, f, k);
        t.hbm_bytes = 2 * (double)k->k * (2 * (double)(k->m * k->n) + 3 * (double)(k->m * k->m)) /
                      (double)k->batch;
        break;
    case KERNEL_SHAMPOO:
    case KERNEL_SOAP:
        s = preconditioned_s(d, f, k);
        t.hbm_bytes = 4.0 * 12 * (double)k->m * (double)k->n;
        break;
    default:
        s = d->kernel_s * k->launches +
            (kernel_bound(k->kernel) == 'A' ? attention_s(d, f, k) : elementwise_s(d, f, k));
        break;
    }
    t.alone_ps = sim_ps(s > host ? s : host);
    return t;
}
