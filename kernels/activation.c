/* SwiGLU, GELU, residual addition and the bias of linear layers. */
#include "kernels/kernels.h"

#include "kernels/storage.h"

#include <math.h>
#include <string.h>

void kernel_swiglu(const struct kernel_on *on, const struct kernel_swiglu *a)
{
    float t0[CHUNK], t1[CHUNK], out[CHUNK];

    FOR_CHUNKS(i, len, a->n)
    {
        const float *g = load(on->act, a->gate, i, len, t0), *u = load(on->act, a->up, i, len, t1);

        for (size_t j = 0; j < len; j++)
            out[j] = g[j] / (1 + expf(-g[j])) * u[j];
        store(on->act, out, a->out, i, len);
    }
}

void kernel_swiglu_backward(const struct kernel_on *on, const struct kernel_swiglu *a)
{
    float t0[CHUNK], t1[CHUNK], t2[CHUNK], dg[CHUNK], du[CHUNK];

    FOR_CHUNKS(i, len, a->n)
    {
        const float *g = load(on->act, a->gate, i, len, t0), *u = load(on->act, a->up, i, len, t1);
        const float *dy = load(on->act, a->d_out, i, len, t2);

        for (size_t j = 0; j < len; j++) {
            float s = 1 / (1 + expf(-g[j]));

            du[j] = dy[j] * g[j] * s;
            dg[j] = dy[j] * u[j] * s * (1 + g[j] * (1 - s));
        }
        if (a->d_gate)
            store_add(on->act, dg, a->d_gate, i, len);
        if (a->d_up)
            store_add(on->act, du, a->d_up, i, len);
    }
}

#define SQRT_2_PI 0.79788456080286535588f /* sqrt(2 / pi) */
#define SQRT_HALF 0.70710678118654752440f
#define CUBIC     0.044715f

static float gelu(enum kernel_gelu_form form, float x)
{
    if (form == KERNEL_GELU_ERF)
        return 0.5f * x * (1 + erff(x * SQRT_HALF));
    return 0.5f * x * (1 + tanhf(SQRT_2_PI * (x + CUBIC * x * x * x)));
}

static float gelu_slope(enum kernel_gelu_form form, float x)
{
    float t;

    if (form == KERNEL_GELU_ERF)
        return 0.5f * (1 + erff(x * SQRT_HALF)) + 0.5f * SQRT_2_PI * x * expf(-0.5f * x * x);
    t = tanhf(SQRT_2_PI * (x + CUBIC * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * SQRT_2_PI * (1 + 3 * CUBIC * x * x);
}

/* One input of `width`, which lies at column `column` of rows of `full`. */
static void gelu_part(const struct kernel_on *on, const struct kernel_gelu *a, const void *x,
                      size_t width, size_t column)
{
    size_t full = a->width0 + a->width1;
    float tmp[CHUNK], out[CHUNK];

    for (size_t r = 0; r < a->rows; r++)
        FOR_CHUNKS(i, len, width)
        {
            const float *v = load(on->act, x, r * width + i, len, tmp);

            for (size_t j = 0; j < len; j++)
                out[j] = gelu(a->form, v[j]);
            store(on->act, out, a->out, r * full + column + i, len);
        }
}

static void gelu_part_backward(const struct kernel_on *on, const struct kernel_gelu *a,
                               const void *x, void *d_x, size_t width, size_t column)
{
    size_t full = a->width0 + a->width1;
    float t0[CHUNK], t1[CHUNK], out[CHUNK];

    for (size_t r = 0; r < a->rows; r++)
        FOR_CHUNKS(i, len, width)
        {
            const float *v = load(on->act, x, r * width + i, len, t0);
            const float *dy = load(on->act, a->d_out, r * full + column + i, len, t1);

            for (size_t j = 0; j < len; j++)
                out[j] = dy[j] * gelu_slope(a->form, v[j]);
            store_add(on->act, out, d_x, r * width + i, len);
        }
}

void kernel_gelu(const struct kernel_on *on, const struct kernel_gelu *a)
{
    gelu_part(on, a, a->x0, a->width0, 0);
    if (a->width1)
        gelu_part(on, a, a->x1, a->width1, a->width0);
}

void kernel_gelu_backward(const struct kernel_on *on, const struct kernel_gelu *a)
{
    if (a->d_x0)
        gelu_part_backward(on, a, a->x0, a->d_x0, a->width0, 0);
    if (a->width1 && a->d_x1)
        gelu_part_backward(on, a, a->x1, a->d_x1, a->width1, a->width0);
}

void kernel_add(const struct kernel_on *on, const struct kernel_add *a)
{
    struct kernel_sum sum = {.n = a->n, .type = on->act, .x = a->x, .y = a->y, .out = a->out};

    kernel_sum(on, &sum);
}

void kernel_add_backward(const struct kernel_on *on, const struct kernel_add *a)
{
    float tmp[CHUNK];

    FOR_CHUNKS(i, len, a->n)
    {
        const float *dy = load(on->act, a->d_out, i, len, tmp);

        if (a->d_x)
            store_add(on->act, dy, a->d_x, i, len);
        if (a->d_y)
            store_add(on->act, dy, a->d_y, i, len);
    }
}

size_t kernel_bias_workspace(size_t width)
{
    return 2 * width * sizeof(float);
}

void kernel_bias(const struct kernel_on *on, const struct kernel_bias *a)
{
    float *b = on->workspace;

    BUG_ON(on->workspace_bytes < kernel_bias_workspace(a->width));
    dtype_load(on->weight, a->bias, b, a->width);
    for (size_t r = 0; r < a->rows; r++)
        store_add(on->act, b, a->out, r * a->width, a->width);
}

void kernel_bias_backward(const struct kernel_on *on, const struct kernel_bias *a)
{
    float *sum = on->workspace, *tmp = sum + a->width;

    BUG_ON(on->workspace_bytes < kernel_bias_workspace(a->width));
    memset(sum, 0, a->width * sizeof(*sum));
    for (size_t r = 0; r < a->rows; r++) {
        const float *dy = load(on->act, a->d_out, r * a->width, a->width, tmp);

        for (size_t i = 0; i < a->width; i++)
            sum[i] += dy[i];
    }
    store_add(on->grad, sum, a->d_bias, 0, a->width);
}
