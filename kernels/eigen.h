/* kernels/eigen.h - dense symmetric eigenvectors and QR, in double, for the preconditioned optimizers.
 *
 * Without LAPACK: one order of operations, and no threads. O(n^3), unblocked: fit for the sides of the
 * matrices that one trains on CPUs, some hundreds. Both work in a workspace of kernel_eigen_workspace(n) bytes.
 */
#ifndef BALLAST_KERNELS_EIGEN_H
#define BALLAST_KERNELS_EIGEN_H

#include <stddef.h>

size_t kernel_eigen_workspace(size_t n);

/* a (n,n) = vectors diag(values) vectors^T; values descend, eigenvectors are columns. Only a's symmetric part counts.
 * Householder tridiagonalisation, then implicit QR steps with Wilkinson's shift (Golub and Van Loan, 8.3). Where a is
 * not finite, everything becomes NaN. a and vectors may be the same. */
void kernel_eigen(size_t n, const float *a, float *values, float *vectors, void *workspace);

/* a (n,n) = Q R: a becomes Q, orthogonal also when a is singular (Householder). Signs of columns are not normalised. */
void kernel_qr(size_t n, float *a, void *workspace);

#endif
