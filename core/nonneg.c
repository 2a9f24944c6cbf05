#include "core/nonneg.h"

#include "core/mem.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 20000 };

void nonneg_init(struct nonneg *f, size_t n)
{
    *f = (struct nonneg){.n = n, .x = MEM_NEW(double, n)};
}

void nonneg_release(struct nonneg *f)
{
    mem_free(f->rows);
    mem_free(f->x);
    *f = (struct nonneg){0};
}

void nonneg_add(struct nonneg *f, const double *feature, double y)
{
    size_t want = (f->n_rows + 1) * (f->n + 1);

    if (y <= 0)
        return;
    f->rows = mem_grow(f->rows, &f->cap, want, sizeof(*f->rows));
    memcpy(f->rows + f->n_rows * (f->n + 1), feature, f->n * sizeof(*feature));
    f->rows[want - 1] = y;
    f->n_rows++;
}

void nonneg_solve(struct nonneg *f)
{
    size_t n = f->n, w = n + 1;
    double *g = MEM_NEW(double, n *n), *b = MEM_NEW(double, n), *scale = MEM_NEW(double, n);

    memset(f->x, 0, n * sizeof(*f->x));
    for (size_t r = 0; r < f->n_rows; r++)
        for (size_t i = 0; i < n; i++)
            scale[i] = fmax(scale[i], f->rows[r * w + i]);
    for (size_t r = 0; r < f->n_rows; r++) {
        const double *row = f->rows + r * w;

        for (size_t i = 0; i < n; i++) {
            double xi = scale[i] > 0 ? row[i] / scale[i] : 0;

            b[i] += xi; /* weight 1 / y times y */
            for (size_t j = 0; j < n; j++)
                g[i * n + j] += xi * (scale[j] > 0 ? row[j] / scale[j] : 0) / row[n];
        }
    }
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < n; i++) {
            double rest = b[i];

            for (size_t j = 0; j < n; j++)
                rest -= j == i ? 0 : g[i * n + j] * f->x[j];
            f->x[i] = g[i * n + i] > 0 && rest > 0 ? rest / g[i * n + i] : 0;
        }
    for (size_t i = 0; i < n; i++)
        f->x[i] = scale[i] > 0 ? f->x[i] / scale[i] : 0;
    mem_free(g);
    mem_free(b);
    mem_free(scale);
}

double nonneg_error(const struct nonneg *f)
{
    double off = 0, sum = 0;

    for (size_t r = 0; r < f->n_rows; r++) {
        const double *row = f->rows + r * (f->n + 1);
        double p = 0;

        for (size_t i = 0; i < f->n; i++)
            p += f->x[i] * row[i];
        off += fabs(p - row[f->n]);
        sum += row[f->n];
    }
    return sum > 0 ? off / sum : 0;
}
