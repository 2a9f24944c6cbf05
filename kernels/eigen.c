#include "kernels/eigen.h"

#include "core/err.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

size_t kernel_eigen_workspace(size_t n)
{
    return (2 * n * n + 4 * n) * sizeof(double);
}

static double dot(const double *x, const double *y, size_t n)
{
    double sum[4] = {0, 0, 0, 0};
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (size_t j = 0; j < 4; j++)
            sum[j] += x[i + j] * y[i + j];
    for (; i < n; i++)
        sum[0] += x[i] * y[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void axpy(double alpha, const double *x, double *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += alpha * x[i];
}

/* Turn x into the v of H = I - beta v v^T with H x = alpha e1; returns beta, 0 for x = 0. */
static double reflector(double *x, size_t n, double *alpha)
{
    double top = 0, norm;

    for (size_t i = 0; i < n; i++)
        top = fabs(x[i]) > top ? fabs(x[i]) : top;
    *alpha = 0;
    if (top == 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        x[i] /= top;
    norm = sqrt(dot(x, x, n));
    *alpha = (x[0] > 0 ? -norm : norm) * top;
    x[0] += x[0] > 0 ? norm : -norm;
    return 2 / dot(x, x, n);
}

/* a = Q T Q^T: diagonal d, off-diagonal e[i] between i and i+1; row k of a keeps the reflector of step k behind its
 * diagonal, beta[k] beside it. */
static void tridiagonal(size_t n, double *a, double *d, double *e, double *beta, double *w)
{
    for (size_t k = 0; k + 1 < n; k++) {
        double *v = a + k * n + k + 1, half;
        size_t len = n - k - 1;

        d[k] = a[k * n + k];
        beta[k] = reflector(v, len, &e[k]);
        for (size_t i = 0; i < len; i++)
            w[i] = beta[k] * dot(a + (k + 1 + i) * n + k + 1, v, len);
        half = beta[k] / 2 * dot(w, v, len);
        axpy(-half, v, w, len);
        for (size_t i = 0; i < len; i++) {
            double *row = a + (k + 1 + i) * n + k + 1;

            for (size_t j = 0; j < len; j++)
                row[j] -= v[i] * w[j] + w[i] * v[j];
        }
    }
    d[n - 1] = a[n * n - 1];
}

/* Q^T from the reflectors: rows of qt become the columns of H_0 H_1 ... */
static void accumulate(size_t n, const double *a, const double *beta, double *qt)
{
    memset(qt, 0, n * n * sizeof(*qt));
    for (size_t i = 0; i < n; i++)
        qt[i * n + i] = 1;
    for (size_t k = n - 1; k-- > 0;) {
        const double *v = a + k * n + k + 1;

        for (size_t r = k + 1; r < n; r++)
            axpy(-beta[k] * dot(qt + r * n + k + 1, v, n - k - 1), v, qt + r * n + k + 1,
                 n - k - 1);
    }
}

/* One implicit QR step on rows lo..hi of T, which is unreduced there. */
static void qr_step(size_t n, size_t lo, size_t hi, double *d, double *e, double *qt)
{
    double delta = (d[hi - 1] - d[hi]) / 2, last = e[hi - 1], x, z;

    x = d[lo] - (d[hi] - last / (delta + copysign(hypot(delta, last), delta)) * last);
    z = e[lo];
    for (size_t k = lo; k < hi; k++) {
        double r = hypot(x, z), c = r > 0 ? x / r : 1, s = r > 0 ? z / r : 0;
        double d1 = d[k], d2 = d[k + 1], off = e[k];
        double *p = qt + k * n, *q = p + n;

        if (k > lo)
            e[k - 1] = r;
        d[k] = c * c * d1 + 2 * c * s * off + s * s * d2;
        d[k + 1] = s * s * d1 - 2 * c * s * off + c * c * d2;
        e[k] = c * s * (d2 - d1) + (c * c - s * s) * off;
        if (k + 1 < hi) {
            z = s * e[k + 1];
            e[k + 1] *= c;
            x = e[k];
        }
        for (size_t i = 0; i < n; i++) {
            double pi = p[i], qi = q[i];

            p[i] = c * pi + s * qi;
            q[i] = c * qi - s * pi;
        }
    }
}

/* False: no convergence, which NaN does. */
static bool diagonalise(size_t n, double *d, double *e, double *qt)
{
    size_t hi = n - 1, lo;

    for (size_t left = 60 * n; hi > 0 && left > 0; left--) {
        for (lo = hi; lo > 0; lo--)
            if (fabs(e[lo - 1]) <= DBL_EPSILON * (fabs(d[lo - 1]) + fabs(d[lo])) + DBL_MIN) {
                e[lo - 1] = 0;
                break;
            }
        if (lo == hi)
            hi--;
        else
            qr_step(n, lo, hi, d, e, qt);
    }
    return hi == 0;
}

/* Columns in descending order of values; order[] is room for n. */
static void sorted(size_t n, const double *d, const double *qt, double *order, float *values,
                   float *vectors)
{
    for (size_t i = 0; i < n; i++) { /* the place of i; equal ones keep their order */
        size_t place = 0;

        for (size_t j = 0; j < n; j++)
            place += d[j] > d[i] || (d[j] == d[i] && j < i);
        order[i] = (double)place;
    }
    for (size_t i = 0; i < n; i++) {
        size_t place = (size_t)order[i];

        values[place] = (float)d[i];
        for (size_t j = 0; j < n; j++)
            vectors[j * n + place] = (float)qt[i * n + j];
    }
}

void kernel_eigen(size_t n, const float *a, float *values, float *vectors, void *workspace)
{
    double *m = workspace, *qt = m + n * n, *d = qt + n * n, *e = d + n, *beta = e + n;
    double *w = beta + n;
    bool finite = true;

    BUG_ON(!n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            m[i * n + j] = ((double)a[i * n + j] + (double)a[j * n + i]) / 2;
            finite &= isfinite(m[i * n + j]) != 0;
        }
    if (finite) {
        tridiagonal(n, m, d, e, beta, w);
        accumulate(n, m, beta, qt);
        finite = diagonalise(n, d, e, qt);
    }
    if (finite) {
        sorted(n, d, qt, w, values, vectors);
        return;
    }
    for (size_t i = 0; i < n * n; i++)
        vectors[i] = NAN;
    for (size_t i = 0; i < n; i++)
        values[i] = NAN;
}

/* x[0..len) of rows from `first` on, minus beta v (v^T x). */
static void reflect(size_t n, double *x, size_t first, const double *v, double beta, double *w)
{
    size_t len = n - first;

    memset(w, 0, len * sizeof(*w));
    for (size_t i = 0; i < len; i++)
        axpy(v[i], x + (first + i) * n + first, w, len);
    for (size_t i = 0; i < len; i++)
        axpy(-beta * v[i], w, x + (first + i) * n + first, len);
}

void kernel_qr(size_t n, float *a, void *workspace)
{
    double *m = workspace, *vs = m + n * n, *beta = vs + n * n, *w = beta + n, alpha;

    /* row k of vs: the reflector of column k */
    for (size_t i = 0; i < n * n; i++)
        m[i] = a[i];
    for (size_t k = 0; k < n; k++) {
        double *v = vs + k * n;

        for (size_t i = k; i < n; i++)
            v[i - k] = m[i * n + k];
        beta[k] = reflector(v, n - k, &alpha);
        reflect(n, m, k, v, beta[k], w);
    }
    memset(m, 0, n * n * sizeof(*m));
    for (size_t i = 0; i < n; i++)
        m[i * n + i] = 1;
    for (size_t k = n; k-- > 0;)
        reflect(n, m, k, vs + k * n, beta[k], w);
    for (size_t i = 0; i < n * n; i++)
        a[i] = (float)m[i];
}
