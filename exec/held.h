/* exec/held.h - which part of every tensor a rank holds, and where it stands in its resident buffers.
 *
 * Resident buffers (parameters, states, master) list tensors in the model's order, each whole or with the elements that the
 * rank holds: all of it, its chunk of rows (padded to ceil(rows/G) rows), what lies in its flat slice, or nothing. Units' buffers list whole tensors.
 */
#ifndef BALLAST_EXEC_HELD_H
#define BALLAST_EXEC_HELD_H

#include "model/plan/placement.h"
#include "model/program/program.h"

struct held_tensor {
    uint64_t first, n; /* elements of the tensor whose state is here: [first, first+n) */
    uint64_t room;     /* elements reserved for them (padding included) */
    uint64_t
        state_at; /* element offset in the states buffer; AdamW has two runs of `room`, one after the other */
    uint64_t
        n_state; /* elements reserved there; a matrix of Shampoo's or SOAP's: all of its state, or 0 */
    uint64_t
        part_at[COMPONENT_N]; /* element offset among the parts of all tensors, in their rooms */
    uint64_t unit_at;         /* element offset in its unit's buffer */
    uint64_t flat_at;         /* element offset in the concatenation of all tensors */
    bool matrix;              /* updated by the matrix optimizer */
};
struct held {
    struct held_tensor *t;               /* [n_tensors], in arena */
    uint64_t states, parts[COMPONENT_N]; /* elements in all */
};

/* For one rank. State elements as layout_state_bytes() counts them: one a held element for Muon's matrices, two for AdamW;
 * Shampoo and SOAP keep what kernel_*_state() says of the whole matrix. Cost: tensors. */
void held_init(struct held *h, const struct plan *plan, const struct program *p, uint32_t rank,
               struct arena *a);

#endif
