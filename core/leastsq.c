#include "core/leastsq.h"

#include "core/mem.h"

#include <cminpack.h>
#include <math.h>
#include <string.h>

struct search {
    const struct leastsq *q;
    struct leastsq_param *p;
    double *values; /* [n] */
    size_t n;
};

/* u in R to (lo, hi): a logistic of the logarithm. */
static double to_value(const struct leastsq_param *p, double u)
{
    double s = 1 / (1 + exp(-u));

    return p->lo * pow(p->hi / p->lo, s);
}

static double from_value(const struct leastsq_param *p, double v)
{
    double s = log(v / p->lo) / log(p->hi / p->lo);

    return log(s / (1 - s));
}

/* A residual whose square grows like its size beyond the outlier bound. */
static double soft(double r, double outlier)
{
    double z = r / outlier;

    return copysign(outlier * sqrt(2 * (sqrt(1 + z * z) - 1)), r);
}

/* Rows, then the prior's pull on each parameter. */
static int residuals(void *ctx, int m, int n, const double *u, double *out, int iflag)
{
    struct search *s = ctx;

    (void)m;
    (void)iflag;
    for (int i = 0; i < n; i++)
        s->values[i] = to_value(&s->p[i], u[i]);
    s->q->residuals(s->q->ctx, s->values, out);
    for (size_t i = 0; i < s->q->n_rows; i++)
        out[i] = isfinite(out[i]) ? soft(out[i], s->q->outlier) : 1e3;
    for (int i = 0; i < n; i++)
        out[s->q->n_rows + (size_t)i] =
            log(s->values[i] / s->p[i].start) * s->q->noise / s->q->prior;
    return 0;
}

void leastsq_spreads(const double *j, size_t rows, size_t n, double noise, double prior,
                     double *spread, size_t *partner)
{
    double *a = MEM_NEW(double, n * 2 * n), *inverse = a + n;

    for (size_t x = 0; x < n; x++)
        for (size_t y = 0; y < n; y++) {
            double dot = 0;

            for (size_t i = 0; i < rows; i++)
                dot += j[i * n + x] * j[i * n + y];
            a[x * 2 * n + y] = dot / (noise * noise) + (x == y ? 1 / (prior * prior) : 0);
            inverse[x * 2 * n + y] = x == y;
        }
    for (size_t c = 0; c < n; c++) { /* Gauss-Jordan, pivots on the diagonal */
        double pivot = a[c * 2 * n + c];

        for (size_t y = 0; y < 2 * n; y++)
            a[c * 2 * n + y] /= pivot;
        for (size_t x = 0; x < n; x++) {
            double f = a[x * 2 * n + c];

            if (x == c || f == 0)
                continue;
            for (size_t y = 0; y < 2 * n; y++)
                a[x * 2 * n + y] -= f * a[c * 2 * n + y];
        }
    }
    for (size_t x = 0; x < n; x++) {
        double most = 0;

        spread[x] = fmin(sqrt(fmax(inverse[x * 2 * n + x], 0)), prior);
        partner[x] = x;
        for (size_t y = 0; y < n; y++) {
            double both = inverse[x * 2 * n + x] * inverse[y * 2 * n + y];
            double r = fabs(inverse[x * 2 * n + y]) / sqrt(both);

            if (x != y && r > most && r >= 0.5) {
                most = r;
                partner[x] = y;
            }
        }
    }
    mem_free(a);
}

/* The rows' slopes at the result, and what they tell of each parameter. */
static void spreads(const struct search *s, size_t n)
{
    size_t rows = s->q->n_rows, *partner = MEM_NEW(size_t, n);
    double *base = MEM_NEW(double, rows), *moved = MEM_NEW(double, rows), sum = 0;
    double *j = MEM_NEW(double, rows *n), *spread = MEM_NEW(double, n), noise = s->q->noise;

    for (size_t k = 0; k < n; k++)
        s->values[k] = s->p[k].value;
    s->q->residuals(s->q->ctx, s->values, base);
    for (size_t i = 0; i < rows; i++) {
        double r = soft(base[i], s->q->outlier);

        sum += r * r;
    }
    if (rows > n) /* the model misses more than noise */
        noise = fmax(noise, sqrt(sum / (double)(rows - n)));
    for (size_t k = 0; k < n; k++) {
        const double step = 1e-3;

        s->values[k] = s->p[k].value * exp(step);
        s->q->residuals(s->q->ctx, s->values, moved);
        s->values[k] = s->p[k].value;
        for (size_t i = 0; i < rows; i++)
            j[i * n + k] = (moved[i] - base[i]) / step;
    }
    leastsq_spreads(j, rows, n, noise, s->q->prior, spread, partner);
    for (size_t k = 0; k < n; k++) {
        s->p[k].spread = spread[k];
        s->p[k].partner = partner[k];
    }
    mem_free(base);
    mem_free(moved);
    mem_free(j);
    mem_free(spread);
    mem_free(partner);
}

int leastsq_fit(const struct leastsq *q, struct leastsq_param *p, size_t n, struct err *e)
{
    struct search s = {.q = q, .p = p, .n = n, .values = MEM_NEW(double, n)};
    int m = (int)(q->n_rows + n), k = (int)n, info, nfev = 0;
    double *u = MEM_NEW(double, n), *out = MEM_NEW(double, (size_t)m);
    double *diag = MEM_NEW(double, n), *jac = MEM_NEW(double, (size_t)m *n);
    double *qtf = MEM_NEW(double, n), *work = MEM_NEW(double, 3 * n + (size_t)m);
    int *pivots = MEM_NEW(int, n), status = 0;

    for (size_t i = 0; i < n && !status; i++) {
        if (!(p[i].lo > 0 && p[i].lo < p[i].start && p[i].start < p[i].hi))
            status = err_set(e, ERR_INVALID, "a fit starts at %g, expected between %g and %g",
                             p[i].start, p[i].lo, p[i].hi);
        else
            u[i] = from_value(&p[i], p[i].start);
    }
    if (!status) {
        info = lmdif(residuals, &s, m, k, u, out, 1e-9, 1e-9, 0, 200 * (k + 1), 1e-6, diag, 1, 10,
                     0, &nfev, jac, m, pivots, qtf, work, work + n, work + 2 * n, work + 3 * n);
        if (info <= 0)
            status =
                err_set(e, ERR_EXTERNAL, "the least-squares search failed (MINPACK info %d)", info);
    }
    for (size_t i = 0; i < n && !status; i++) {
        p[i].value = to_value(&p[i], u[i]);
        p[i].at_bound = log(p[i].value / p[i].lo) < 0.01 || log(p[i].hi / p[i].value) < 0.01;
    }
    if (!status)
        spreads(&s, n);
    mem_free(s.values);
    mem_free(u);
    mem_free(out);
    mem_free(diag);
    mem_free(jac);
    mem_free(qtf);
    mem_free(work);
    mem_free(pivots);
    return status;
}
