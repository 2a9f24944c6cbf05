/* model/plan/frameworks.h - what each training framework does: one row a framework.
 *
 * A row holds the habits that decide which operations a step has, which bytes it moves, and what
 * waits for what. Layouts, the job's defaults and the command line read them by field. What the
 * habits cost in time is in sim/framework.h, which has a row for each framework as well. To add a
 * framework: a name in FRAMEWORKS (model/plan/job.h) and these two rows. A name without a row does
 * not compile.
 */
#ifndef BALLAST_MODEL_PLAN_FRAMEWORKS_H
#define BALLAST_MODEL_PLAN_FRAMEWORKS_H

#include "model/plan/job.h"

/* What selective recomputation keeps from forward to backward. */
enum selective {
    /* The result of attention, and of every other matrix multiplication of a layer: torchtitan's
     * policy `op`. The policy works operation by operation, so it also keeps results that neither
     * backward nor a recomputation reads. */
    SELECTIVE_OPERATIONS,
    /* Everything but the inside of attention: Megatron-LM (Korthikanti et al., arXiv 2205.05198). */
    SELECTIVE_BUT_ATTENTION,
};

struct framework_row {
    bool unfused_attention; /* scores pass through memory */
    bool eager_loss;        /* PyTorch's cross entropy in fp32, one kernel an operation */
    bool reduces_after;     /* gradients are reduced when backward has ended */
    /* A gathered unit arrives in one flat buffer and its tensors are copied out of it; gradients are
     * copied into another one before their reduction (FSDP2, _fsdp_collectives.py). */
    bool flat_copies;
    /* ZeRO-1 and ZeRO-2 split by whole tensors: after the step the ranks broadcast what they updated,
     * one broadcast after the other, and the host waits for each. Else one all-gather. */
    bool broadcasts;
    /* A gather or a reduction is handed a list of pieces, one for each tensor and rank. Else one
     * buffer. */
    bool pieces;
    bool waits; /* the host waits for every collective, so that nothing runs beside one */
    /* Under tensor parallelism the vocabulary is padded to a multiple of so many a rank
     * (Megatron-LM, --make-vocab-size-divisible-by). */
    uint32_t vocab_multiple;
    enum selective selective;
    enum framework
        compiled; /* the same framework with compiled layers; FRAMEWORK_N: there is none */
};

const struct framework_row *framework_row(enum framework f);

#endif
