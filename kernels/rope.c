/* Rotary position embedding (Su et al., 2021), half-split. A rotation: its backward turns the other way. */
#include "kernels/kernels.h"

#include "kernels/storage.h"

#include <math.h>

/* Two rows of angles and two of data, of head_dim/2 each, and one whole row. */
size_t kernel_rope_workspace(size_t head_dim)
{
    return 3 * head_dim * sizeof(float);
}

static void angles(const struct kernel_rope *a, size_t position, float *cosine, float *sine)
{
    for (size_t i = 0; i < a->head_dim / 2; i++) {
        double angle =
            (double)position * pow((double)a->theta, -2.0 * (double)i / (double)a->head_dim);

        cosine[i] = (float)cos(angle);
        sine[i] = (float)sin(angle);
    }
}

static void turn(const struct kernel_on *on, const struct kernel_rope *a, const void *in, void *out,
                 float sign, bool add)
{
    size_t d = a->head_dim, half = d / 2;
    float *cosine = on->workspace, *sine = cosine + half, *tmp = sine + half, *y = tmp + d;

    BUG_ON(d % 2 || !a->seq || a->tokens % a->seq);
    BUG_ON(on->workspace_bytes < kernel_rope_workspace(d));
    for (size_t s = 0; s < a->seq; s++) {
        angles(a, s, cosine, sine);
        for (size_t t = s; t < a->tokens; t += a->seq)
            for (size_t h = 0; h < a->heads; h++) {
                size_t at = (t * a->heads + h) * d;
                const float *x = load(on->act, in, at, d, tmp);

                for (size_t i = 0; i < half; i++) {
                    float si = sign * sine[i];

                    y[i] = x[i] * cosine[i] - x[i + half] * si;
                    y[i + half] = x[i + half] * cosine[i] + x[i] * si;
                }
                if (add)
                    store_add(on->act, y, out, at, d);
                else
                    store(on->act, y, out, at, d);
            }
    }
}

void kernel_rope(const struct kernel_on *on, const struct kernel_rope *a)
{
    turn(on, a, a->x, a->out, 1, false);
}

void kernel_rope_backward(const struct kernel_on *on, const struct kernel_rope *a)
{
    turn(on, a, a->d_out, a->d_x, -1, true);
}
