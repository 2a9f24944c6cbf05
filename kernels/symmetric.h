/* kernels/symmetric.h - the products of Newton-Schulz that are symmetric: half of them is computed, half is its mirror image.
 *
 * c (n,n) = alpha x x^T + beta add, x (n,k); with `transposed` x lies as (k,n) and c is alpha x^T x + beta add. A A of a symmetric
 * A is the first with x = A. All matrices are bf16 without gaps, sums are fp32, rounded once; c is symmetric to the bit,
 * and of `add` the lower triangle counts. c may be neither x nor add.
 */
#ifndef BALLAST_KERNELS_SYMMETRIC_H
#define BALLAST_KERNELS_SYMMETRIC_H

#include "kernels/kernels.h"

struct kernel_symmetric {
    size_t n, k;
    bool transposed;
    float alpha, beta;
    const void *x;
    const void *add; /* (n,n), or NULL: nothing is added */
    void *c;
};
void kernel_symmetric(const struct kernel_on *on, const struct kernel_symmetric *a);

#endif
