/* RMSNorm (Zhang and Sennrich, 2019) and LayerNorm (Ba et al., 2016). With y = xhat * w and r = 1/sqrt(..):
 *   dx = r * (g - xhat * mean(g * xhat) [- mean(g], layer only)), g = dy * w; dw = sum dy * xhat; db = sum dy. */
#include "kernels/kernels.h"

#include "kernels/storage.h"

#include <math.h>
#include <string.h>

enum { N_ROWS = 6 };

size_t kernel_norm_workspace(size_t width)
{
    return N_ROWS * width * sizeof(float);
}

/* Row buffers of the workspace. */
struct room {
    float *x, *g, *weight, *bias, *d_weight, *d_bias;
};

static struct room room_of(const struct kernel_on *on, const struct kernel_norm *a)
{
    float *w = on->workspace;
    size_t n = a->width;

    BUG_ON(!n || on->workspace_bytes < kernel_norm_workspace(n));
    return (struct room){w, w + n, w + 2 * n, w + 3 * n, w + 4 * n, w + 5 * n};
}

struct stats {
    float mean, r;
};

static struct stats row_stats(const float *x, size_t n, float eps, bool layer)
{
    double sum = 0, squares = 0, mean = 0;

    if (layer) {
        for (size_t i = 0; i < n; i++)
            sum += x[i];
        mean = sum / (double)n;
    }
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return (struct stats){(float)mean, (float)(1 / sqrt(squares / (double)n + (double)eps))};
}

static void forward(const struct kernel_on *on, const struct kernel_norm *a, bool layer)
{
    struct room w = room_of(on, a);
    size_t n = a->width;

    dtype_load(on->weight, a->weight, w.weight, n);
    if (a->bias)
        dtype_load(on->weight, a->bias, w.bias, n);
    else
        memset(w.bias, 0, n * sizeof(*w.bias));
    for (size_t row = 0; row < a->rows; row++) {
        const float *x = load(on->act, a->x, row * n, n, w.x);
        struct stats s = row_stats(x, n, a->eps, layer);

        for (size_t i = 0; i < n; i++)
            w.g[i] = (x[i] - s.mean) * s.r * w.weight[i] + w.bias[i];
        store(on->act, w.g, a->out, row * n, n);
    }
}

static void backward(const struct kernel_on *on, const struct kernel_norm *a, bool layer)
{
    struct room w = room_of(on, a);
    size_t n = a->width;

    dtype_load(on->weight, a->weight, w.weight, n);
    memset(w.d_weight, 0, n * sizeof(*w.d_weight));
    memset(w.d_bias, 0, n * sizeof(*w.d_bias));
    for (size_t row = 0; row < a->rows; row++) {
        double along = 0, total = 0;
        float mean_along, mean_g;
        struct stats s;

        dtype_load(on->act, at_const(on->act, a->x, row * n), w.x, n);
        dtype_load(on->act, at_const(on->act, a->d_out, row * n), w.g, n);
        s = row_stats(w.x, n, a->eps, layer);
        for (size_t i = 0; i < n; i++) {
            w.x[i] = (w.x[i] - s.mean) * s.r;
            w.d_weight[i] += w.g[i] * w.x[i];
            w.d_bias[i] += w.g[i];
            w.g[i] *= w.weight[i];
            along += w.g[i] * w.x[i];
            total += w.g[i];
        }
        mean_along = (float)(along / (double)n);
        mean_g = layer ? (float)(total / (double)n) : 0;
        for (size_t i = 0; i < n; i++)
            w.g[i] = s.r * (w.g[i] - mean_g - w.x[i] * mean_along);
        if (a->d_x)
            store_add(on->act, w.g, a->d_x, row * n, n);
    }
    if (a->d_weight)
        store_add(on->grad, w.d_weight, a->d_weight, 0, n);
    if (a->d_bias)
        store_add(on->grad, w.d_bias, a->d_bias, 0, n);
}

void kernel_rmsnorm(const struct kernel_on *on, const struct kernel_norm *a)
{
    BUG_ON(a->bias);
    forward(on, a, false);
}

void kernel_rmsnorm_backward(const struct kernel_on *on, const struct kernel_norm *a)
{
    BUG_ON(a->d_bias);
    backward(on, a, false);
}

void kernel_layernorm(const struct kernel_on *on, const struct kernel_norm *a)
{
    forward(on, a, true);
}

void kernel_layernorm_backward(const struct kernel_on *on, const struct kernel_norm *a)
{
    backward(on, a, true);
}
