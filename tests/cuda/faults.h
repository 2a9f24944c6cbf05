/* tests/cuda/faults.h - the kernels of faults.cc, by what is wrong with them. */
#ifndef BALLAST_TESTS_CUDA_FAULTS_H
#define BALLAST_TESTS_CUDA_FAULTS_H

#ifdef __cplusplus
extern "C" {
#endif

enum fault {
    FAULT_NONE,
    FAULT_NO_BARRIER,
    FAULT_LEAVES,
    FAULT_TWO_BARRIERS,
    FAULT_ABSENT,
    FAULT_ALONE,
    FAULT_ON_ITS_WAY,
    FAULT_UNFINISHED,
    FAULT_TOO_MUCH,
};
/* On one block of 64 threads. x: 64 floats, 16-byte aligned. */
void fault_run(enum fault which, float *x);

#ifdef __cplusplus
}
#endif

#endif
