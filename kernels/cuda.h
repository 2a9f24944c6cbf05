/* kernels/cuda.h - the kernels on an NVIDIA GPU, C API: cuda_NAME(on, a) does on on->stream what kernel_NAME(on, a) does on
 * the CPU (kernels.h has shapes and types), with pointers to device memory. Launches only: it returns at once, and errors
 * are those of cudaGetLastError(). The CPU's functions are the reference; results agree within rounding, sums having another
 * fixed order (no atomics: the same inputs give the same bits on one kind of GPU).
 *
 * on->workspace has cuda_workspace() bytes of device memory; it is free again when what was launched is done.
 * kernels/cuda_*.cu has the kernels, kernels/cuda_optimizer.c what is composed of them and of cuBLAS and cuSOLVER.
 */
#ifndef BALLAST_KERNELS_CUDA_H
#define BALLAST_KERNELS_CUDA_H

#include "kernels/functions.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_DECLARE(name, type) void cuda_##name(const struct kernel_on *on, const struct type *a);
KERNEL_SIMPLE_FUNCTIONS(CUDA_DECLARE)
#undef CUDA_DECLARE

/* Device bytes that the function wants in on->workspace for these arguments (a: its struct). */
size_t cuda_workspace(enum kernel_function f, const struct kernel_on *on, const void *a);

#ifdef __cplusplus
}
#endif

#endif
