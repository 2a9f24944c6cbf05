/* cli/measured.h - what a replay took and held, over all ranks and steps, beside its prediction.
 *
 * One frame for both: seconds are summed by category and phase (the rows of the step table) and by class of operation.
 * A rank's collective lasts until the last rank has come; from there on it is the collective's own time, the same on all
 * ranks: the least of what they spent in it. The rest is waiting, a class of its own. So is it in the prediction, where a
 * collective starts when its last rank is there and the time before is nobody's.
 */
#ifndef BALLAST_CLI_MEASURED_H
#define BALLAST_CLI_MEASURED_H

#include "exec/run.h"
#include "sim/sim.h"

/* Categories, then phases (the optimizer's with its refresh), then the step. */
enum { ROW_FORWARD = TIME_N, ROW_BACKWARD, ROW_OPTIMIZER, ROW_STEP, N_ROWS };
const char *measured_row_name(int row);

/* Classes of operations: kernels of a model by kind, the optimizer's one by one, collectives by kind; then what a rank
 * waits for others, and the sum of all but that. A collective that exec plays inside a kernel (`interleaved`) belongs to
 * that kernel's class. */
enum {
    CLASS_GEMM,
    CLASS_ATTENTION,
    CLASS_NORM,
    CLASS_ELEMENTWISE,
    CLASS_EMBEDDING,
    CLASS_LOSS,
    CLASS_OPTIMIZER,                               /* + enum kernel */
    CLASS_COLLECTIVE = CLASS_OPTIMIZER + KERNEL_N, /* + enum coll_kind */
    CLASS_WAITING = CLASS_COLLECTIVE + COLL_N,
    CLASS_TOTAL,
    N_CLASSES
};
const char *measured_class_name(int c);
int measured_class_of(const struct program *p, const struct op *o);

/* Of the fullest rank, at its fullest moment. */
struct measured_memory {
    uint32_t rank;
    uint64_t bytes, parts[MEM_PART_N]; /* of the program's buffers */
    uint64_t scratch_bytes;            /* beside them, largest over ranks: exec_scratch_bytes() */
    uint64_t resident_bytes; /* of a process as the system counts it, largest over ranks */
};

struct measured {
    const struct plan *plan;
    const struct program *p;
    bool serial; /* one operation after the other: the backend's streams do not overlap */
    struct prediction predicted;   /* with instances */
    double predicted_s[N_CLASSES]; /* largest over ranks */
    uint64_t n_ops[N_CLASSES];     /* of a step, largest over ranks; none: the class has no row */
    uint64_t seed;                 /* of the run, for who reports it; measured_init() leaves 0 */
    uint64_t n_steps, cap_steps;
    double (*rows)[N_ROWS];       /* owned [n_steps], seconds, largest over ranks */
    double (*classes)[N_CLASSES]; /* owned [n_steps], the same */
    struct measured_memory memory;
    double loss; /* of the last step */
    uint64_t
        endless_step; /* from 1, warm-up included: the first whose loss is not finite; 0: none */
    struct arena arena;
};

/* Predicts the program as exec runs it: one operation after the other, rings where nothing else was asked for (which it
 * writes into the program). Release also after a failure. */
int measured_init(struct measured *m, const struct plan *plan, struct program *p, bool serial,
                  struct err *e);
void measured_release(struct measured *m);
/* What the last step took. Collective: every rank calls it after the same step. */
int measured_step(struct measured *m, struct exec_run *r, struct err *e);
/* After every step, warm-up included. Collective. */
int measured_loss(struct measured *m, struct exec_run *r, struct err *e);
/* Memory, after the last step. Collective. */
int measured_end(struct measured *m, struct exec_run *r, struct err *e);

/* Over the steps: median, smallest, largest. `column` is of rows or classes: &m->rows[0][k], N_ROWS apart. */
struct measured_spread {
    double median, min, max;
};
struct measured_spread measured_spread(const struct measured *m, const double *column,
                                       size_t apart);

/* Milliseconds of a row. */
double measured_predicted_ms(const struct measured *m, int row);

#endif
