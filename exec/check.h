/* exec/check.h - the proof: a plan's layout trains like plain data parallelism.
 *
 * Trains `steps` steps from one seed twice, under the plan's layout and under ddp (every rank all matrices, all-reduced
 * gradients), with reductions in the order of the ranks, and compares after every step the losses and everything that a rank
 * holds (exec/compare.h): parameters, fp32 copies, optimizer states, and the reduced gradients, whose scale Muon's and Adam's
 * parameters hardly show; and what gathers bring in a step with ddp's parameters. So the tensors of the first step that differs
 * are those where the fault is, and the verdict names them with their owners. A layout that reduces every micro-batch is
 * compared with a ddp that does so too: only the order of the sums is the layout's. Bytes
 * sent and received by every rank in a step, counted at the transport, must equal the program's table. Numbers that are not
 * finite prove nothing, equal or not.
 */
#ifndef BALLAST_EXEC_CHECK_H
#define BALLAST_EXEC_CHECK_H

#include "exec/compare.h"

/* Where the first step that differs does so. */
enum check_evidence {
    CHECK_NOTHING,
    CHECK_GATHERED, /* what gathers brought is not what ddp holds */
    CHECK_REDUCED, /* gathers brought the right parameters, and the gradients that updates found are others */
    CHECK_UPDATED, /* gradients are right, and updates (and the refresh) left other parameters or states */
};

struct check_result {
    uint32_t steps;
    double *loss, *loss_ddp; /* [steps], in arena */
    double allowed_loss;     /* relative; with allowed_ulp */
    uint64_t
        max_ulp; /* largest distance of a parameter over ranks, in the numbers of its dtype between the two; where
                       * allowed_ulp is not 0 in units of the last place of the tensor's largest element */
    uint64_t n_differ[COMPARE_N]; /* over ranks, after the last step */
    double worst, allowed; /* of states and gradients where allowed_ulp is not 0: compare.h */
    enum check_evidence evidence;
    uint32_t evidence_step; /* from 1 */
    char first[160];        /* the first difference in what a step left, or "" */
    char concerned
        [512]; /* tensors of the first step that differs, with owners and ranks that saw it, or "" */
    uint64_t
        allowed_ulp; /* of a layout that orders its arithmetic otherwise (+stock); 0: bits have to be equal */
    uint32_t
        endless_step; /* from 1: the first that leaves what is not finite, in `endless`; 0: none */
    char endless[200];
    uint64_t sent, received; /* of the rank that sent (received) most, in a step */
    bool bytes_equal;
    bool every_micro; /* ddp reduced the gradients of every micro-batch, as the layout does */
    uint32_t group;   /* ... first inside groups of so many ranks; the world: at once */
};

/* Is everything finite and within what is allowed, the losses too, and every byte accounted for? */
bool check_holds(const struct check_result *c);
/* Is it, and nothing of it differs by a bit? */
bool check_bits(const struct check_result *c);

/* Collective: all ranks call it. The result is the same on all. */
int check_run(const struct plan *plan, struct backend *backend, const struct run_options *o,
              uint32_t steps, struct arena *a, struct check_result *c, struct err *e);

/* Bytes that rank sends and receives in a step with ordered reductions, by the program's table. */
struct traffic_bytes check_expected_bytes(const struct program *p, uint32_t rank);

#endif
