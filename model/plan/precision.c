#include "model/plan/precision.h"

#include <stddef.h>

#define PRECISIONS(X)                                                                              \
    X("fsdp2-fp32", DTYPE_FP32, DTYPE_FP32, DTYPE_FP32, false)                                     \
    X("fsdp2-bf16", DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, false)                                     \
    X("megatron", DTYPE_BF16, DTYPE_FP32, DTYPE_FP32, true)                                        \
    X("deepspeed-fp16", DTYPE_FP16, DTYPE_FP16, DTYPE_FP32, true)                                  \
    X("deepspeed-bf16", DTYPE_BF16, DTYPE_FP32, DTYPE_FP32, true)                                  \
    X("muon-bf16", DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, false)

const struct precision precisions[] = {
#define X(name, param, grad, state, master) {name, param, grad, state, master},
    PRECISIONS(X)
#undef X
};

const char *const precision_names[] = {
#define X(name, param, grad, state, master) name,
    PRECISIONS(X)
#undef X
        NULL};
