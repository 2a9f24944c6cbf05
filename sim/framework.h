/* sim/framework.h - what a training framework adds to its arithmetic: the host's time, more memory traffic, less overlap.
 *
 * NULL stands for no framework: one fused kernel an operation, as ballast exec runs them. Each constant has a meaning and
 * a source; docs/VALIDATION.md has the runs that they are fitted to. What a framework does, rather than what it costs, is in
 * model/plan/frameworks.h.
 */
#ifndef BALLAST_SIM_FRAMEWORK_H
#define BALLAST_SIM_FRAMEWORK_H

#include "model/plan/frameworks.h"

#include <stdbool.h>

/* HBM traffic of PyTorch's cross entropy by logit (framework_costs.logit_bytes). */
enum { FRAMEWORK_EAGER_LOGIT_BYTES = 46 };

struct framework_costs {
    /* The host's time for an operation of a layer's forward; of backward twice that. 0: the device's launch time for each
     * kernel. */
    double host_s;
    double sustained; /* of GEMMs, in place of the device's sustained_factor; 0: the device's */
    /* More device time an elementwise operation: the small kernels (bias, dropout, casts) that a fused one saves. */
    double kernels_s;
    /* Unfused attention: HBM traffic of softmax, mask and dropout by score and forward pass, backward twice that. */
    double score_bytes;
    /* ... and what of it is more where something of every score's own is added (relative positions, and masks with them). */
    double bias_bytes;
    bool unfused; /* attention is (the job says: job_unfused_attention()) */
    double
        masked; /* of attention's rate, where a mask leaves half of the work, in place of the device's; 0: the device's */
    double
        logit_bytes; /* of the loss by logit, forward and backward together; 0: one fused kernel */
    double
        micro_batch_s;  /* beside operations, a micro-batch: loss scaling, data, synchronisation */
    double adamw_bytes; /* by parameter; 0: one fused kernel */
    /* HBM traffic of RMSNorm and rotary positions over that of a fused kernel: PyTorch casts to fp32, squares, averages and
     * scales one after the other; 0: 1. */
    double eager;
    double piece_s; /* the host's time for a piece of a collective's list (CALLS_PIECES) */
    /* Passes over a gradient that stays on the rank when a further micro-batch adds to it: autograd reads both and writes
     * one, a product that accumulates into it only reads it more. */
    double accumulate;
    bool graphs; /* kernels are launched as graphs: no launch is waited for */
};

const struct framework_costs *framework_costs(enum framework f);

#endif
