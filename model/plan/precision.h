/* model/plan/precision.h - the dtypes of parameters, gradients, states and master copy as frameworks have them, by name.
 *
 * Bytes a parameter under AdamW (Muon's matrices have one state element where AdamW has two):
 *
 *     name           params grads master states  formula
 *     fsdp2-fp32     4      4     -      8       16 P/W      fully_shard without a mixed-precision policy
 *     fsdp2-bf16     2      2     -      4       8 P/W       the same, of a model in bf16
 *     megatron       2      4     4      8       (6 + 12/W) P  under zero1: the distributed optimizer with fp32 gradients
 *     deepspeed-fp16 2      2     4      8       ZeRO paper (arXiv 1910.02054): 4 P + 12 P/W, 2 P + 14 P/W, 16 P/W
 *     deepspeed-bf16 2      4     4      8       its estimator of ZeRO-3, 18 P/W: fp32 gradients beside fp32 states
 *     muon-bf16      2      2     -      4 (2)   bf16 throughout, no master copy (MatrixFSDP)
 */
#ifndef BALLAST_MODEL_PLAN_PRECISION_H
#define BALLAST_MODEL_PLAN_PRECISION_H

#include "core/dtype.h"

#include <stdbool.h>

struct precision {
    const char *name;
    enum dtype param_dtype, grad_dtype, state_dtype;
    bool master_weights;
};
extern const struct precision precisions[];
extern const char *const precision_names[]; /* in the same order, NULL at the end */

#endif
