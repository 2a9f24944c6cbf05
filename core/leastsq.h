/* core/leastsq.h - non-linear least squares of a few positive parameters, within bounds: MINPACK's Levenberg-Marquardt.
 *
 * Parameters are searched in their logarithm, mapped onto (lo, hi), so a fit cannot leave the bounds. Large residuals count less
 * than their square (soft L1 beyond `outlier`), so a bad row does not pull the others. A weak prior holds what the data do not
 * determine near its start. Cost: parameters x rows calls of the model an iteration, some tens of iterations. Deterministic.
 */
#ifndef BALLAST_CORE_LEASTSQ_H
#define BALLAST_CORE_LEASTSQ_H

#include "core/err.h"

#include <stdbool.h>
#include <stddef.h>

struct leastsq_param {
    double lo, hi, start; /* 0 < lo < start < hi */
    double value;         /* result */
    /* Result: the standard error of ln(value), the other parameters being known as far as rows and priors tell them. It is no
     * larger than `prior`; as large means that the rows say nothing. */
    double spread;
    /* Result: the parameter that the rows confuse this one with most (the correlation of their
     * errors is 0.5 or more), or itself. */
    size_t partner;
    bool at_bound; /* result: within 1 % of lo or hi */
};

struct leastsq {
    /* Residuals of rows for the values of all parameters: ln(predicted / measured) or alike. */
    void (*residuals)(void *ctx, const double *values, double *out);
    void *ctx;
    size_t n_rows;
    double outlier; /* > 0: residuals beyond it count linearly */
    double noise;   /* > 0: the residual that good rows have; weighs the prior */
    double prior;   /* > 0: standard deviation of ln(value / start) believed before seeing data */
};

/* ERR_INVALID when a start lies outside its bounds, ERR_EXTERNAL when the search fails. */
int leastsq_fit(const struct leastsq *q, struct leastsq_param *p, size_t n, struct err *e);

/* What rows tell of n parameters (some tens): spread[n] and partner[n] as in struct leastsq_param,
 * from the rows' slopes j[rows][n] in ln(value). The covariance of the errors is the inverse of
 * J'J / noise^2 + 1 / prior^2. With the prior the matrix is positive whatever the rows tell, and
 * another parameter is uncertain within its prior, not beyond. O(rows n^2 + n^3). */
void leastsq_spreads(const double *j, size_t rows, size_t n, double noise, double prior,
                     double *spread, size_t *partner);

#endif
