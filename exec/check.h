/* exec/check.h - the proof: a plan's layout trains like plain data parallelism.
 *
 * Trains `steps` steps from one seed twice, under the plan's layout and under ddp (every rank all matrices, all-reduced
 * gradients), with reductions in the order of the ranks, and compares losses and every parameter that a rank holds. Bytes
 * sent and received by every rank in a step, counted at the transport, must equal the program's table.
 */
#ifndef BALLAST_EXEC_CHECK_H
#define BALLAST_EXEC_CHECK_H

#include "exec/run.h"

struct check_result {
    uint32_t steps;
    double *loss, *loss_ddp; /* [steps], in arena */
    uint64_t max_ulp;        /* largest distance of a parameter, over ranks; 0: bitwise equal */
    uint64_t n_differ;       /* parameters that differ, over ranks */
    char first[160];         /* the first difference, or "" */
    uint64_t sent, received; /* of the rank that sent (received) most, in a step */
    bool bytes_equal;
};

/* Collective: all ranks call it. The result is the same on all. */
int check_run(const struct plan *plan, struct transport *t, const struct kernel_gemm *gemm,
              const struct run_options *o, uint32_t steps, struct arena *a, struct check_result *c,
              struct err *e);

/* Bytes that rank sends and receives in a step with ordered reductions, by the program's table. */
struct traffic_bytes check_expected_bytes(const struct program *p, uint32_t rank);

#endif
