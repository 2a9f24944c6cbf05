/* SwiGLU, GELU, residual addition, biases: elementwise; a bias's gradient is a sum over rows in fixed parts. */
#include "kernels/cuda_common.cuh"

struct swiglu_op {
    enum dtype act;
    struct kernel_swiglu a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float g[PACK], u[PACK];

        load(act, a.gate, i, len, g);
        load(act, a.up, i, len, u);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            u[j] = g[j] / (1 + expf(-g[j])) * u[j];
        store(act, u, a.out, i, len);
    }
};

void cuda_swiglu(const struct kernel_on *on, const struct kernel_swiglu *a)
{
    each(on, a->n, swiglu_op{on->act, *a});
}

struct swiglu_backward_op {
    enum dtype act;
    struct kernel_swiglu a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float g[PACK], u[PACK], dy[PACK];

        load(act, a.gate, i, len, g);
        load(act, a.up, i, len, u);
        load(act, a.d_out, i, len, dy);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            float s = 1 / (1 + expf(-g[j])), du = dy[j] * g[j] * s;

            g[j] = dy[j] * u[j] * s * (1 + g[j] * (1 - s));
            u[j] = du;
        }
        if (a.d_gate)
            store_add(act, g, a.d_gate, i, len);
        if (a.d_up)
            store_add(act, u, a.d_up, i, len);
    }
};

void cuda_swiglu_backward(const struct kernel_on *on, const struct kernel_swiglu *a)
{
    each(on, a->n, swiglu_backward_op{on->act, *a});
}

/* ---- GELU ---- */

#define SQRT_2_PI 0.79788456080286535588f /* sqrt(2 / pi) */
#define SQRT_HALF 0.70710678118654752440f
#define CUBIC     0.044715f

__device__ __forceinline__ float gelu(enum kernel_gelu_form form, float x)
{
    if (form == KERNEL_GELU_ERF)
        return 0.5f * x * (1 + erff(x * SQRT_HALF));
    return 0.5f * x * (1 + tanhf(SQRT_2_PI * (x + CUBIC * x * x * x)));
}

__device__ __forceinline__ float gelu_slope(enum kernel_gelu_form form, float x)
{
    float t;

    if (form == KERNEL_GELU_ERF)
        return 0.5f * (1 + erff(x * SQRT_HALF)) + 0.5f * SQRT_2_PI * x * expf(-0.5f * x * x);
    t = tanhf(SQRT_2_PI * (x + CUBIC * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * SQRT_2_PI * (1 + 3 * CUBIC * x * x);
}

/* One input of `width`, which lies at column `column` of rows of `full`; with d_x its gradient, else the output. */
struct gelu_op {
    enum dtype act;
    enum kernel_gelu_form form;
    uint64_t width, column, full;
    const void *x, *d_out;
    void *out, *d_x;

    __device__ void operator()(uint64_t row, uint64_t col, unsigned len) const
    {
        uint64_t here = row * width + col, there = row * full + column + col;
        float v[PACK], dy[PACK];

        load(act, x, here, len, v);
        if (d_x)
            load(act, d_out, there, len, dy);
#pragma unroll
        for (unsigned j = 0; j < PACK; j++)
            v[j] = d_x ? dy[j] * gelu_slope(form, v[j]) : gelu(form, v[j]);
        if (d_x)
            store_add(act, v, d_x, here, len);
        else
            store(act, v, out, there, len);
    }
};

void cuda_gelu(const struct kernel_on *on, const struct kernel_gelu *a)
{
    uint64_t full = a->width0 + a->width1;

    each_row(on, a->rows, a->width0,
             gelu_op{on->act, a->form, a->width0, 0, full, a->x0, NULL, a->out, NULL});
    each_row(on, a->rows, a->width1,
             gelu_op{on->act, a->form, a->width1, a->width0, full, a->x1, NULL, a->out, NULL});
}

void cuda_gelu_backward(const struct kernel_on *on, const struct kernel_gelu *a)
{
    uint64_t full = a->width0 + a->width1;

    if (a->d_x0)
        each_row(on, a->rows, a->width0,
                 gelu_op{on->act, a->form, a->width0, 0, full, a->x0, a->d_out, NULL, a->d_x0});
    if (a->d_x1)
        each_row(
            on, a->rows, a->width1,
            gelu_op{on->act, a->form, a->width1, a->width0, full, a->x1, a->d_out, NULL, a->d_x1});
}

/* ---- addition ---- */

void cuda_add(const struct kernel_on *on, const struct kernel_add *a)
{
    const struct kernel_sum sum = {a->n, on->act, a->x, a->y, a->out};

    cuda_sum(on, &sum);
}

struct add_backward_op {
    enum dtype act;
    struct kernel_add a;

    __device__ void operator()(uint64_t i, unsigned len) const
    {
        float dy[PACK];

        load(act, a.d_out, i, len, dy);
        if (a.d_x)
            store_add(act, dy, a.d_x, i, len);
        if (a.d_y)
            store_add(act, dy, a.d_y, i, len);
    }
};

void cuda_add_backward(const struct kernel_on *on, const struct kernel_add *a)
{
    each(on, a->n, add_backward_op{on->act, *a});
}

/* ---- biases ---- */

struct bias_op {
    enum dtype act, weight;
    struct kernel_bias a;

    __device__ void operator()(uint64_t row, uint64_t col, unsigned len) const
    {
        float b[PACK];

        load(weight, a.bias, col, len, b);
        store_add(act, b, a.out, row * a.width + col, len);
    }
};

void cuda_bias(const struct kernel_on *on, const struct kernel_bias *a)
{
    each_row(on, a->rows, a->width, bias_op{on->act, on->weight, *a});
}

struct bias_term {
    enum dtype act;
    struct kernel_bias a;

    __device__ void operator()(uint64_t row, uint64_t col, unsigned len, float x[1][PACK]) const
    {
        load(act, a.d_out, row * a.width + col, len, x[0]);
    }
};

void cuda_bias_backward(const struct kernel_on *on, const struct kernel_bias *a)
{
    void *to[1] = {a->d_bias};

    sum_rows<1>(on, a->rows, a->width, static_cast<float *>(on->workspace), to,
                bias_term{on->act, *a});
}
