/* Plain vectors: zero, cast, scale, axpy, sum. */
#include "kernels/kernels.h"

#include "kernels/storage.h"

#include <string.h>

void kernel_zero(const struct kernel_on *on, enum dtype d, void *x, size_t n)
{
    (void)on;
    if (n)
        memset(x, 0, n * storage_bytes(d));
}

void kernel_cast(const struct kernel_on *on, enum dtype from, const void *x, enum dtype to, void *y,
                 size_t n)
{
    float tmp[CHUNK];

    (void)on;
    FOR_CHUNKS(i, len, n)
    store(to, load(from, x, i, len, tmp), y, i, len);
}

void kernel_scale(const struct kernel_on *on, enum dtype d, float alpha, void *x, size_t n)
{
    float tmp[CHUNK];

    (void)on;
    FOR_CHUNKS(i, len, n)
    {
        dtype_load(d, at_const(d, x, i), tmp, len);
        for (size_t j = 0; j < len; j++)
            tmp[j] *= alpha;
        store(d, tmp, x, i, len);
    }
}

void kernel_axpy(const struct kernel_on *on, float alpha, enum dtype dx, const void *x,
                 enum dtype dy, void *y, size_t n)
{
    float tmp[CHUNK], ax[CHUNK];

    (void)on;
    FOR_CHUNKS(i, len, n)
    {
        const float *v = load(dx, x, i, len, tmp);

        for (size_t j = 0; j < len; j++)
            ax[j] = alpha * v[j];
        store_add(dy, ax, y, i, len);
    }
}

void kernel_sum(const struct kernel_on *on, enum dtype d, const void *x, const void *y, void *out,
                size_t n)
{
    float t0[CHUNK], t1[CHUNK], sum[CHUNK];

    (void)on;
    FOR_CHUNKS(i, len, n)
    {
        const float *a = load(d, x, i, len, t0), *b = load(d, y, i, len, t1);

        for (size_t j = 0; j < len; j++)
            sum[j] = a[j] + b[j];
        store(d, sum, out, i, len);
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
