#include "kernels/precondition.h"

#include "kernels/storage.h"

#include <math.h>

void kernel_moments(const struct kernel_on *on, const struct kernel_moments *a)
{
    float grad[CHUNK], m[CHUNK], v[CHUNK];
    double c1 = 1 - pow((double)a->beta1, (double)a->step),
           c2 = 1 - pow((double)a->beta2, (double)a->step), sum = 0;

    (void)on;
    BUG_ON(!a->step || a->ld < a->cols);
    for (size_t r = 0; r < a->rows; r++)
        FOR_CHUNKS(i, len, a->cols)
        {
            float *g = a->g + r * a->cols + i, *to = a->direction + r * a->cols + i;
            size_t at = r * a->ld + i;

            dtype_load(a->grad_type, at_const(a->grad_type, a->grad, at), grad, len);
            dtype_load(a->state_type, at_const(a->state_type, a->m, at), m, len);
            dtype_load(a->state_type, at_const(a->state_type, a->v, at), v, len);
            for (size_t j = 0; j < len; j++) {
                double step;

                g[j] = a->grad_scale * grad[j];
                m[j] = a->beta1 * m[j] + (1 - a->beta1) * g[j];
                v[j] = a->beta2 * v[j] + (1 - a->beta2) * g[j] * g[j];
                to[j] = (float)((double)m[j] / c1);
                step = (double)to[j] / (sqrt((double)v[j] / c2) + (double)a->eps);
                sum += step * step;
            }
            store(a->state_type, m, a->m, at, len);
            store(a->state_type, v, a->v, at, len);
        }
    *a->adam = sum;
}

void kernel_root(const struct kernel_on *on, const struct kernel_root *a)
{
    double top = 0;

    (void)on;
    for (size_t j = 0; j < a->n; j++)
        top = (double)a->values[j] > top ? (double)a->values[j] : top;
    top /= a->correct;
    for (size_t j = 0; j < a->n; j++) {
        double l = a->values[j] > 0 ? (double)a->values[j] / a->correct : 0;
        float by = 1; /* of nothing but zeros, the identity */

        if (isnan(a->values[j]) || (a->info && *a->info))
            by = NAN;
        else if (top > 0)
            by = (float)pow(l + (double)a->ridge * top, -0.125);
        for (size_t i = 0; i < a->n; i++)
            a->vectors[a->as_rows ? j * a->n + i : i * a->n + j] *= by;
    }
}

void kernel_graft(const struct kernel_on *on, const struct kernel_graft *a)
{
    double norm = sqrt(kernel_norm2(on, DTYPE_FP32, a->x, a->rows * a->cols));
    bool scales = a->adam && norm > 0;
    float by = scales ? (float)(sqrt(*a->adam) / norm) : 1;

    BUG_ON(a->ld < a->cols);
    for (size_t r = 0; r < a->rows; r++)
        for (size_t i = 0; i < a->cols; i++)
            a->to[r * a->ld + i] = a->x[r * a->cols + i] * by;
}

void kernel_average(const struct kernel_on *on, const struct kernel_average *a)
{
    (void)on;
    for (size_t i = 0; i < a->n; i++) {
        float x = (1 - a->beta) * a->x[i];

        a->mean[i] = a->beta * a->mean[i] + (a->square ? x * a->x[i] : x);
    }
}

void kernel_adam_step(const struct kernel_on *on, const struct kernel_adam_step *a)
{
    (void)on;
    for (size_t i = 0; i < a->n; i++)
        a->x[i] = a->rate * a->x[i] / (sqrtf(a->v[i]) + a->eps);
}

/* diag(x^T y); NaN has no place, the smallest has */
static void column_dots(const struct kernel_order *a)
{
    for (size_t j = 0; j < a->n; j++) {
        double sum = 0;

        for (size_t i = 0; i < a->n; i++)
            sum += (double)a->x[i * a->n + j] * (double)a->y[i * a->n + j];
        a->values[j] = (float)sum;
    }
}

static float comparable(float x)
{
    return isnan(x) ? -INFINITY : x;
}

void kernel_order(const struct kernel_on *on, const struct kernel_order *a)
{
    (void)on;
    BUG_ON(a->n > UINT32_MAX || a->values == a->sorted);
    if (a->x)
        column_dots(a);
    for (size_t i = 0; i < a->n; i++) {
        float x = comparable(a->values[i]);
        uint32_t place = 0;

        for (size_t j = 0; j < a->n; j++) {
            float y = comparable(a->values[j]);

            place += y > x || (y == x && j < i);
        }
        a->place[i] = place;
        a->sorted[place] = x;
    }
}

void kernel_permute(const struct kernel_on *on, const struct kernel_permute *a)
{
    (void)on;
    for (size_t i = 0; i < a->rows; i++)
        for (size_t j = 0; j < a->cols; j++) {
            size_t r = a->row_place ? a->row_place[i] : i, c = a->col_place ? a->col_place[j] : j;

            a->to[a->transpose ? c * a->rows + r : r * a->cols + c] = a->from[i * a->cols + j];
        }
}
