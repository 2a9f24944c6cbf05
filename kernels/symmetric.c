#include "kernels/symmetric.h"

#include "kernels/storage.h"

static float element(const void *p, size_t i)
{
    float x;

    dtype_load(DTYPE_BF16, at_const(DTYPE_BF16, p, i), &x, 1);
    return x;
}

/* Plain: row i of x by row j. */
void kernel_symmetric(const struct kernel_on *on, const struct kernel_symmetric *a)
{
    size_t row = a->transposed ? 1 : a->k, step = a->transposed ? a->n : 1;

    (void)on;
    for (size_t i = 0; i < a->n; i++)
        for (size_t j = 0; j <= i; j++) {
            float sum = 0;

            for (size_t k = 0; k < a->k; k++)
                sum += element(a->x, i * row + k * step) * element(a->x, j * row + k * step);
            sum *= a->alpha;
            if (a->add)
                sum += a->beta * element(a->add, i * a->n + j);
            dtype_store(DTYPE_BF16, &sum, at_ptr(DTYPE_BF16, a->c, i * a->n + j), 1);
            dtype_store(DTYPE_BF16, &sum, at_ptr(DTYPE_BF16, a->c, j * a->n + i), 1);
        }
}
