/* exec/sample.h - measure what predictions are made of: kernels and collectives where a step runs them, and alone.
 *
 * Times are medians over repetitions. A collective counts from the last rank's arrival: the least over ranks of what each
 * spent in it. Every rank of the transport calls the same functions in the same order. */
#ifndef BALLAST_EXEC_SAMPLE_H
#define BALLAST_EXEC_SAMPLE_H

#include "exec/run.h"

struct sample {
    struct instance id;
    double s;
};

/* Train `steps` steps after one that does not count; [*n] samples in arena, every operation of this rank's walk but marks. */
int sample_steps(const struct plan *plan, const struct program *p, struct backend *b,
                 const struct run_options *o, uint32_t steps, struct arena *a, struct sample **out,
                 size_t *n, struct err *e);

/* In of_step [r->n_times], seconds of the last step's operations, put for each collective the least over ranks.
 * Collective. */
int sample_collectives(struct exec_run *r, double *of_step, struct err *e);

/* One product alone. */
double sample_gemm(struct backend *b, enum dtype d, uint64_t m, uint64_t n, uint64_t k);
/* x x^T of x (n,k) by our kernel for symmetric products, which takes bf16 alone. */
double sample_symmetric(struct backend *b, uint64_t n, uint64_t k);
/* Newton-Schulz on one matrix, stored as d. */
double sample_orthogonalize(struct backend *b, enum dtype d, enum kernel_ns_form form,
                            uint64_t rows, uint64_t cols, uint32_t steps);
/* Bytes a second read and written by copying `bytes` (a multiple of 4) in memory. */
double sample_copy_Bps(struct backend *b, size_t bytes);
/* What launching a kernel costs: one after another on an element. */
double sample_launch_s(struct backend *b);
/* One collective of `bytes` in all (point-to-point: COLL_SEND, from rank 0 to the group's last) among the first n ranks. */
int sample_collective(struct backend *b, enum coll_kind kind, uint32_t n, size_t bytes, double *s,
                      struct err *e);

#endif
