#include "sim/framework.h"

#include "core/err.h"

/* PyTorch eager. Loss in fp32 as kernels of their own, the small kernels (casts, dropout, masks) that surround an
 * operation, a micro-batch's start: llm-foundry, 8 x A100. Casts and squares of RMSNorm and rotary positions: InternEvo.
 * Unfused attention by count, 16 bits a score: written, scaled (read, written), masked, through softmax and dropout with a byte of its mask, read: 21. T5's: no scaling, the mask
 * with the bias (read beside the scores), softmax in fp32 between two casts (6 + 8 + 6 for 4): 14 more */
static const struct framework_costs fsdp2 = {
    .kernels_s = 13.1e-6,
    .score_bytes = 21,
    .bias_bytes = 14,
    .logit_bytes = FRAMEWORK_EAGER_LOGIT_BYTES,
    .micro_batch_s = 3.8e-3,
    .eager = 3,
    .accumulate = 3,
};

/* what torch.compile fuses is one kernel; attention is scaled_dot_product_attention's FlashAttention-2, whose causal forward reaches
 * 0.85 to 0.95 of the rate without a mask (arXiv 2307.08691). Unfused: one kernel from product to product, by count 9 bytes a score, and 2 of a bias */
static const struct framework_costs fsdp2_compiled = {
    .score_bytes = 9,
    .bias_bytes = 2,
    .masked = 0.85,
    .logit_bytes = 20,
    .micro_batch_s = 3.8e-3,
    .accumulate = 3,
};

/* fused kernels of its own; gradient_accumulation_fusion. No run of it has been compared */
static const struct framework_costs megatron = {
    .kernels_s = 3e-6,
    .score_bytes = 9.9,
    .bias_bytes = 2,
    .logit_bytes = 40,
    .micro_batch_s = 1e-3,
    .accumulate = 1,
};

/* vTrain's 120 runs on one node of A100 (arXiv 2312.12391): a layer's forward takes the host 0.76 ms for its 10 operations,
 * attention is unfused; GPUs that are not busy enough to get hot run at burst clocks */
static const struct framework_costs megatron_deepspeed = {
    .host_s = 75.6e-6,
    .sustained = 1,
    .kernels_s = 6.2e-6,
    .score_bytes = 9.9,
    .bias_bytes = 2,
    .logit_bytes = 67.6,
    .micro_batch_s = 5.1e-3,
    .adamw_bytes = 23.4,
    .accumulate = 1,
};

/* FSDP2's kernels. Pieces: AMSP's runs through DeepSpeed (arXiv 2311.00257): ZeRO-3 on 1,024 A800, 14 s a step, and MiCS
 * on 8 and 1,024 */
static const struct framework_costs deepspeed = {
    .kernels_s = 13.1e-6,
    .score_bytes = 21,
    .bias_bytes = 14,
    .logit_bytes = FRAMEWORK_EAGER_LOGIT_BYTES,
    .micro_batch_s = 3.8e-3,
    .piece_s = 15e-6,
    .accumulate = 3,
};

const struct framework_costs *framework_costs(enum framework f)
{
    switch (f) {
    case FRAMEWORK_FSDP2:
        return &fsdp2;
    case FRAMEWORK_FSDP2_COMPILED:
        return &fsdp2_compiled;
    case FRAMEWORK_MEGATRON:
        return &megatron;
    case FRAMEWORK_MEGATRON_DEEPSPEED:
        return &megatron_deepspeed;
    case FRAMEWORK_DEEPSPEED:
        return &deepspeed;
    case FRAMEWORK_N:
        break;
    }
    BUG_ON(true);
    return NULL;
}
