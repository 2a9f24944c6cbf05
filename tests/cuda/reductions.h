/* tests/cuda/reductions.h - the kernels of reductions.cc: CUB's block reduction as it is to be used, and as it is not. */
#ifndef BALLAST_TESTS_CUDA_REDUCTIONS_H
#define BALLAST_TESTS_CUDA_REDUCTIONS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A product of these depends on their order, not on how they are grouped. */
struct reduction_matrix {
    uint16_t m[2][2];
};
/* No multiple of what a shuffle moves. */
struct reduction_five {
    uint16_t x[5];
};

enum reduction {
    REDUCTION_DOUBLES, /* out[0] = their sum */
    REDUCTION_FLOATS,
    REDUCTION_MATRICES,   /* out[0] = their product, modulo 2^16 */
    REDUCTION_FIVES,      /* out[0] = their sum */
    REDUCTION_TWICE,      /* of doubles: out[0] = their sum, out[1] = twice it */
    REDUCTION_NO_BARRIER, /* the same, wrong */
    REDUCTION_EVERY,      /* of doubles: out[i] = what thread i gets */
    REDUCTION_OTHER_SIZE, /* compiled for another block */
    REDUCTION_OWN_ROOM,   /* each thread brings storage of its own */
    REDUCTION_SOME,       /* the last thread does not take part */
};
/* By one block of 32, 64, 96, 256, 512 or 1024 threads; in: an item a thread. */
void reduction_run(enum reduction which, unsigned block, const void *in, void *out);

#ifdef __cplusplus
}
#endif

#endif
