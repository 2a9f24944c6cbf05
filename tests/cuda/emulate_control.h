/* tests/cuda/emulate_control.h - what a test says to the emulation of a GPU, and hears from it; C and C++. */
#ifndef BALLAST_TESTS_CUDA_EMULATE_CONTROL_H
#define BALLAST_TESTS_CUDA_EMULATE_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From now on: threads of a block take their turns in an order drawn from the seed, again after every wait (0: by index, the
 * same always), and launches that leave the size of their blocks open have `block` threads (0: what the kernel asks for).
 * Forgets failures and faults. */
void emulate_reset(uint64_t seed, unsigned block);
/* A fault of all kernels: the k-th barrier that a thread of a block comes to is none; 0: no fault. */
void emulate_forget_barrier(uint64_t k);
/* The first failure of a kernel since then (a barrier that not all threads reach, a shuffle from a thread that is not there, too
 * much shared memory ...), or NULL. What a kernel wrote is worth nothing then. */
const char *emulate_failure(void);
struct emulate_counts {
    uint64_t launches, blocks, barriers, warp_operations;
};
struct emulate_counts emulate_counts(void);

#ifdef __cplusplus
}
#endif

#endif
