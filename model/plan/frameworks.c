#include "model/plan/frameworks.h"

#include "core/err.h"

/* PyTorch without a compiler. ZeRO-1 as ZeroRedundancyOptimizer and InternEvo have it. */
static const struct framework_row fsdp2 = {
    .eager_loss = true,
    .flat_copies = true,
    .broadcasts = true,
    .vocab_multiple = 1,
    .compiled = FRAMEWORK_FSDP2_COMPILED,
};

static const struct framework_row fsdp2_compiled = {
    .flat_copies = true,
    .broadcasts = true,
    .vocab_multiple = 1,
    .compiled = FRAMEWORK_N,
};

static const struct framework_row megatron = {
    .selective = SELECTIVE_BUT_ATTENTION,
    .vocab_multiple = 128,
    .compiled = FRAMEWORK_N,
};

/* Without overlap_comm (vTrain's runs, arXiv 2312.12391). */
static const struct framework_row megatron_deepspeed = {
    .unfused_attention = true,
    .reduces_after = true,
    .selective = SELECTIVE_BUT_ATTENTION,
    .vocab_multiple = 128,
    .compiled = FRAMEWORK_N,
};

/* Parameters are gathered module by module into lists of a piece a rank, and each call is waited
 * for (AMSP's runs, arXiv 2311.00257). */
static const struct framework_row deepspeed = {
    .eager_loss = true,
    .pieces = true,
    .waits = true,
    .vocab_multiple = 1,
    .compiled = FRAMEWORK_N,
};

const struct framework_row *framework_row(enum framework f)
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

const char *framework_name(enum framework f)
{
    switch (f) {
#define X(v, name)                                                                                 \
    case v:                                                                                        \
        return name;
        FRAMEWORKS(X)
#undef X
    case FRAMEWORK_N:
        break;
    }
    return "?";
}
