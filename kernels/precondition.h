/* kernels/precondition.h - what Shampoo and SOAP do between their products and decompositions, as kernels: a device composes
 * its steps of them (kernels/cuda_preconditioner.c), the CPU's steps use the same. The conventions of kernels.h; all of it
 * is fp32 but what is said to be stored.
 */
#ifndef BALLAST_KERNELS_PRECONDITION_H
#define BALLAST_KERNELS_PRECONDITION_H

#include "kernels/kernels.h"

/* Of one block: g = grad_scale * grad, m = b1 m + (1-b1) g, v = b2 v + (1-b2) g^2; direction = m/(1-b1^t), and the sum of
 * squares of Adam's step direction / (sqrt(v/(1-b2^t)) + eps). m and v count unrounded, and are rounded where they lie. */
struct kernel_moments {
    size_t rows, cols, ld; /* ld: elements between the rows of grad, m and v */
    enum dtype grad_type, state_type;
    uint64_t step; /* t, 1 for the first */
    float beta1, beta2, eps, grad_scale;
    const void *grad;
    void *m, *v;
    float *g, *direction; /* (rows, cols), written */
    double *adam;         /* (1), written */
};
void kernel_moments(const struct kernel_on *on, const struct kernel_moments *a);

/* vectors = vectors * (max(l, 0)/correct + ridge * top)^(-1/8), each by its eigenvalue l, top the largest l/correct: then
 * vectors vectors^T is the inverse fourth root of the matrix they belong to. All 1 where top is not positive; NaN where l is
 * NaN, or all where the solver says that it failed. */
struct kernel_root {
    size_t n;
    bool as_rows; /* an eigenvector is a row (as cuSOLVER's are, seen row-major), else a column */
    double correct;
    float ridge;
    const float *values; /* (n), in any order */
    const int *info;     /* (1) of the solver: not 0 is a failure; or NULL */
    float *vectors;      /* (n,n) */
};
void kernel_root(const struct kernel_on *on, const struct kernel_root *a);

/* to = x, scaled to the norm sqrt(*adam) unless adam is NULL or x is zero. */
struct kernel_graft {
    size_t rows, cols, ld; /* ld of `to` */
    const float *x;        /* (rows, cols) */
    const double *adam;    /* (1), or NULL */
    float *to;
};
void kernel_graft(const struct kernel_on *on, const struct kernel_graft *a);

/* mean = beta * mean + (1 - beta) * x, or x^2 */
struct kernel_average {
    size_t n;
    float beta;
    bool square;
    const float *x;
    float *mean;
};
void kernel_average(const struct kernel_on *on, const struct kernel_average *a);

/* x = rate * x / (sqrt(v) + eps) */
struct kernel_adam_step {
    size_t n;
    float rate, eps;
    const float *v;
    float *x;
};
void kernel_adam_step(const struct kernel_on *on, const struct kernel_adam_step *a);

/* place[j]: where j stands when values descend; equal ones keep their order, and NaN counts as the smallest. With x and y
 * the values are diag(x^T y), else those given. O(n^2). */
struct kernel_order {
    size_t n;
    const float *x, *y; /* (n,n), or NULL */
    float *values;      /* (n): read without x, written with it */
    float *sorted;      /* (n), written */
    uint32_t *place;    /* (n), written */
};
void kernel_order(const struct kernel_on *on, const struct kernel_order *a);

/* Element (i,j) of `from` (rows, cols) goes to (row_place[i], col_place[j]) of `to`, or, transposed, of its transpose
 * (cols, rows). Places that are NULL are their own. */
struct kernel_permute {
    size_t rows, cols;
    bool transpose;
    const uint32_t *row_place, *col_place;
    const float *from;
    float *to;
};
void kernel_permute(const struct kernel_on *on, const struct kernel_permute *a);

#endif
