#include "kernels/quantize.h"

#include "kernels/storage.h"

#include <math.h>
#include <string.h>

enum { BLOCK = KERNEL_QUANT_BLOCK };

size_t kernel_quantize_blocks(size_t n)
{
    return n / BLOCK + (n % BLOCK != 0);
}

static float limit_of(enum dtype codes)
{
    BUG_ON(codes != DTYPE_INT8 && codes != DTYPE_INT4);
    return codes == DTYPE_INT8 ? 127 : 7;
}

/* absmax / limit; NaN when an element is no number. */
static float scale_of(const float *x, size_t n, float limit)
{
    float top = 0;

    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return NAN;
        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    }
    return top / limit;
}

/* Division and rintf: a scale that is not normal would make its inverse infinite, or rounding go astray. */
static int code_of(float x, float scale, float limit)
{
    float q = scale > 0 ? rintf(x / scale) : 0;

    return (int)(q > limit ? limit : q < -limit ? -limit : q);
}

void kernel_quantize(const struct kernel_on *on, const struct kernel_quantize *a)
{
    float x[BLOCK], limit = limit_of(a->codes);
    uint8_t *q = a->q;

    (void)on;
    for (size_t first = 0; first < a->n; first += BLOCK) {
        size_t len = a->n - first < BLOCK ? a->n - first : BLOCK;
        float scale;

        dtype_load(a->type, at_const(a->type, a->x, first), x, len);
        scale = scale_of(x, len, limit);
        a->scale[first / BLOCK] = scale;
        for (size_t i = 0; i < len; i++) {
            unsigned code = (unsigned)code_of(x[i], scale, limit);
            size_t k = first + i;

            if (a->codes == DTYPE_INT8)
                q[k] = (uint8_t)code;
            else if (k % 2)
                q[k / 2] = (uint8_t)(q[k / 2] | (code & 15) << 4);
            else
                q[k / 2] = (uint8_t)(code & 15);
        }
    }
}

static int code_at(enum dtype codes, const uint8_t *q, size_t k)
{
    int half;

    if (codes == DTYPE_INT8)
        return (int8_t)q[k];
    half = k % 2 ? q[k / 2] >> 4 : q[k / 2] & 15;
    return half < 8 ? half : half - 16;
}

void kernel_dequantize(const struct kernel_on *on, const struct kernel_quantize *a)
{
    float x[BLOCK];

    (void)on;
    limit_of(a->codes);
    for (size_t first = 0; first < a->n; first += BLOCK) {
        size_t len = a->n - first < BLOCK ? a->n - first : BLOCK;

        for (size_t i = 0; i < len; i++)
            x[i] = (float)code_at(a->codes, a->q, first + i) * a->scale[first / BLOCK];
        store(a->type, x, a->x, first, len);
    }
}
