/* exec/compare.h - what a rank holds after a step, under two layouts: parameters, fp32 copies, optimizer states (momentum,
 * moments, preconditioners) and the gradients that its updates found. Numbers of one layout lie elsewhere under the other; this
 * knows where. The other run is ddp, which has all of everything on every rank.
 */
#ifndef BALLAST_EXEC_COMPARE_H
#define BALLAST_EXEC_COMPARE_H

#include "exec/run.h"

enum compare_what {
    COMPARE_GRADIENT, /* reduced; where the rank holds part of a tensor and no update looked at it, all of it counts */
    COMPARE_PARAMETER,
    COMPARE_MASTER,
    COMPARE_STATE,
    COMPARE_N
};
const char *compare_name(enum compare_what w); /* "the reduced gradient of", ... */

/* The first number that differs. Element: of the tensor, of a state counted from the tensor's first one here. */
struct compare_first {
    enum compare_what what;
    uint32_t tensor; /* MODEL_NONE: none differs */
    uint64_t element;
    float got, want;
};

struct comparison {
    /* Bits have to be equal; or, where a layout orders its arithmetic otherwise, parameters may be off by allowed_ulp units of
     * the last place of their tensor's largest, and all else by `allowed` of it. */
    bool relative;
    uint64_t allowed_ulp;
    double allowed;
    uint64_t n_differ
        [COMPARE_N]; /* parameters: in bits; others: by more than is allowed, in tensors where one is */
    uint64_t
        max_ulp;  /* of parameters; relative: in units of the last place of the tensor's largest */
    double worst; /* relative: the largest of what `allowed` is compared with */
    bool *gradients;              /* [n_tensors] whose gradients differ by more than is allowed */
    bool *left;                   /* [n_tensors] of which something else does so */
    struct compare_first first;   /* in the order of the kinds above */
    struct compare_first endless; /* likewise, the first that is not finite, here or under ddp */
};

/* `keep_reduced` in both runs' options. Does not wait for the streams: after a step. */
void compare_runs(const struct exec_run *x, const struct exec_run *ddp, struct comparison *c);

#endif
