/* core/nonneg.h - relative least squares without negative coefficients: what constants make a sum of features the time that was
 * measured?
 *
 * Minimises sum over rows of (x . feature - y)^2 / y by coordinate descent on the normal equations, whose columns are scaled to
 * one; x >= 0. A feature that no row has gets 0. Cost: 20,000 rounds of n^2, whatever the rows. Deterministic.
 */
#ifndef BALLAST_CORE_NONNEG_H
#define BALLAST_CORE_NONNEG_H

#include <stddef.h>

struct nonneg {
    size_t n;     /* features */
    double *rows; /* owned: [n_rows][n + 1], the last is y */
    size_t n_rows, cap;
    double *x; /* owned: [n] result */
};

void nonneg_init(struct nonneg *f, size_t n);
void nonneg_release(struct nonneg *f);
/* A measurement: feature[n] and y. Nothing is learnt from y <= 0. */
void nonneg_add(struct nonneg *f, const double *feature, double y);
void nonneg_solve(struct nonneg *f);
/* Sum of absolute errors over the sum of y; 0 without rows. */
double nonneg_error(const struct nonneg *f);

#endif
