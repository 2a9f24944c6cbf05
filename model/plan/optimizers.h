/* model/plan/optimizers.h - what an optimizer is to everybody else: one row.
 *
 * A row says what an optimizer keeps, computes, moves and allows. model, layouts, planner, sim,
 * exec and the command line read its fields and never ask which optimizer it is, so that a new
 * optimizer is an enumerator in OPTIMIZERS (model/tensors/model.h), a row and its formulas in
 * model/plan/optimizers.c. An enumerator without a row does not compile.
 *
 * An *elementwise* optimizer (AdamW, Lion) updates every tensor by the fields `each`; it has no
 * strategy, because nothing is to be rebuilt. An optimizer of matrices updates matrices by the
 * fields below `start` and leaves the rest to AdamW.
 */
#ifndef BALLAST_MODEL_PLAN_OPTIMIZERS_H
#define BALLAST_MODEL_PLAN_OPTIMIZERS_H

#include "model/plan/plan.h"

/* HBM bytes an element: each number counts how often an element of that dtype is read or
 * written; `fixed` is bytes whatever the job's dtypes are. */
struct optimizer_bytes {
    double grad, state, param, fixed;
};

/* What the products of a matrix start from. It is what travels where a rank rebuilds a matrix
 * from parts. */
enum optimizer_start {
    /* Reduced gradients, in their dtype; moments are updated beside the products. */
    START_GRADIENT,
    /* An operation before the products updates the momentum and leaves their input in the
     * parameters' dtype; the products leave the update in its place. */
    START_MOMENTUM,
};

/* How a matrix's states are cut where its matrix is. */
enum optimizer_states {
    /* As the matrix: a rank holds the states of the elements that it updates. */
    STATES_BY_ROWS,
    /* Whole on every rank that updates the matrix: no part of it can be updated alone. */
    STATES_WHOLE,
};

struct optimizer_row {
    const char *name;
    const char *line; /* one line of help */
    bool matrices;    /* has a step of its own for matrices; false: elementwise */

    /* Elementwise optimizers: one fused kernel over all elements that a rank holds. */
    struct {
        enum kernel kernel;
        uint32_t states, flops; /* of an element */
        /* Without an fp32 master copy, which adds a read and a write. */
        struct optimizer_bytes bytes;
        /* Kernels of an update without fusion (--adamw); 0: there is no such update. */
        uint32_t operations;
    } each;

    /* Optimizers of matrices; a matrix is rows x cols as it is stored (struct tensor). */
    enum optimizer_start start;
    enum optimizer_states states;
    /* Bit mask of 1u << enum strategy, beside STRATEGY_REPLICATED. STOCK and ALLTOALL cut states
     * by rows and work in Newton-Schulz's room: with STATES_BY_ROWS and newton_schulz only. */
    uint32_t strategies;
    enum strategy sharded; /* in place of stock, where that is the layout's default */
    bool newton_schulz;    /* job.ns_steps, ns_symmetric and ns_batch have a use */
    double (*flops)(uint32_t ns_steps, uint64_t rows, uint64_t cols); /* of one step of a matrix */
    uint64_t (*state_elements)(uint64_t rows, uint64_t cols);
    /* What the products of `batch` matrices of m x n work in, in bytes. m <= n. */
    uint64_t (*workspace)(uint64_t m, uint64_t n, uint64_t batch);
    enum kernel products, products_sharded; /* of whole matrices; of 1/W of each product (stock) */
    /* Launches of the products: once, and with each Newton-Schulz step. */
    uint32_t launches, launches_a_step;
    /* HBM bytes an element. Of the operation before the products (START_MOMENTUM); of the
     * products, beside what the kernel's shapes say; of the update, without an fp32 master copy. */
    struct optimizer_bytes momentum, product_bytes, update;
    /* Between products and update; KERNEL_NONE: nothing. Bytes an element, and a row beside. */
    enum kernel normalize;
    struct optimizer_bytes normalize_bytes, normalize_row;

    bool exec; /* exec runs it (exec/update.c); the others are predictions */
};

/* Never NULL. */
const struct optimizer_row *optimizer_row(enum optimizer o);

/* All names, by enumerator, NULL-terminated. */
extern const char *const optimizer_names[];

static inline const char *optimizer_name(enum optimizer o)
{
    return optimizer_row(o)->name;
}

/* What updates the tensors that are no matrices: AdamW beside an optimizer of matrices, else the
 * optimizer itself. */
static inline enum optimizer optimizer_of_rest(enum optimizer o)
{
    return optimizer_row(o)->matrices ? OPTIMIZER_ADAMW : o;
}

/* x, or NUM_MAX from 2^63 on: a reader of plans refuses such sums, and a cast would be
 * undefined. */
uint64_t optimizer_whole(double x);
/* FLOPs of one matrix's step, NUM_MAX where they pass 2^63. 0 for an elementwise optimizer. */
uint64_t optimizer_flops(enum optimizer o, uint32_t ns_steps, uint64_t rows, uint64_t cols);
/* Elements of t's states on a rank that holds all of them. */
uint64_t optimizer_state_elements(enum optimizer o, const struct tensor *t);

/* The dtype in which a matrix travels to its products. */
enum dtype optimizer_travel_dtype(const struct job *j);

/* HBM bytes an element of `b`. `master`: an fp32 copy of the parameters is read and written
 * beside. */
double optimizer_bytes(const struct job *j, const struct optimizer_bytes *b, bool master);

#endif
