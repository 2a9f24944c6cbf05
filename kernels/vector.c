/* Plain vectors: cast, scale, axpy, sum, reduce. */
#include "kernels/kernels.h"

#include "kernels/storage.h"

#include <math.h>

void kernel_cast(const struct kernel_on *on, const struct kernel_cast *a)
{
    float tmp[CHUNK];

    (void)on;
    FOR_CHUNKS(i, len, a->n)
    store(a->y_type, load(a->x_type, a->x, i, len, tmp), a->y, i, len);
}

void kernel_scale(const struct kernel_on *on, const struct kernel_scale *a)
{
    float tmp[CHUNK];

    (void)on;
    FOR_CHUNKS(i, len, a->n)
    {
        dtype_load(a->type, at_const(a->type, a->x, i), tmp, len);
        for (size_t j = 0; j < len; j++)
            tmp[j] *= a->alpha;
        store(a->type, tmp, a->x, i, len);
    }
}

void kernel_normalize(const struct kernel_on *on, const struct kernel_normalize *a)
{
    double norm2 = a->norm2 ? *a->norm2 : kernel_norm2(on, a->type, a->x, a->n);
    double norm = sqrt(norm2), eps = (double)a->eps;
    struct kernel_scale by = {.n = a->n, .type = a->type, .x = a->x};

    by.alpha = (float)(1 / (norm < eps ? eps : norm));
    kernel_scale(on, &by);
}

void kernel_diagonal(const struct kernel_on *on, const struct kernel_diagonal *a)
{
    float x;

    (void)on;
    for (size_t i = 0; i < a->n; i++) {
        dtype_load(a->type, at_const(a->type, a->x, i * a->n + i), &x, 1);
        x += a->alpha;
        store(a->type, &x, a->x, i * a->n + i, 1);
    }
}

void kernel_axpy(const struct kernel_on *on, const struct kernel_axpy *a)
{
    float tmp[CHUNK], ax[CHUNK];

    (void)on;
    FOR_CHUNKS(i, len, a->n)
    {
        const float *v = load(a->x_type, a->x, i, len, tmp);

        for (size_t j = 0; j < len; j++)
            ax[j] = a->alpha * v[j];
        store_add(a->y_type, ax, a->y, i, len);
    }
}

void kernel_sum(const struct kernel_on *on, const struct kernel_sum *a)
{
    float t0[CHUNK], t1[CHUNK], sum[CHUNK];

    (void)on;
    FOR_CHUNKS(i, len, a->n)
    {
        const float *x = load(a->type, a->x, i, len, t0), *y = load(a->type, a->y, i, len, t1);

        for (size_t j = 0; j < len; j++)
            sum[j] = x[j] + y[j];
        store(a->type, sum, a->out, i, len);
    }
}

void kernel_reduce(const struct kernel_on *on, const struct kernel_reduce *a)
{
    float tmp[CHUNK], sum[CHUNK];
    size_t bytes = a->n * storage_bytes(a->type);

    (void)on;
    FOR_CHUNKS(i, len, a->n)
    {
        for (size_t j = 0; j < len; j++)
            sum[j] = 0;
        for (uint32_t k = 0; k < a->n_parts; k++) {
            const char *other = (const char *)a->others + (k - (k > a->own)) * bytes;
            const float *x = load(a->type, k == a->own ? a->own_part : other, i, len, tmp);

            for (size_t j = 0; j < len; j++)
                sum[j] += x[j];
        }
        for (size_t j = 0; j < len; j++)
            sum[j] *= a->scale;
        store(a->type, sum, a->out, i, len);
    }
}

double kernel_norm2(const struct kernel_on *on, enum dtype d, const void *x, size_t n)
{
    float tmp[CHUNK];
    double sum = 0;

    (void)on;
    FOR_CHUNKS(i, len, n)
    {
        const float *v = load(d, x, i, len, tmp);

        for (size_t j = 0; j < len; j++)
            sum += (double)v[j] * (double)v[j];
    }
    return sum;
}
