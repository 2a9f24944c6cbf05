/* Elementwise parts of the optimizers. What is stored is rounded, what is computed with is not: a step uses the fp32
 * momentum, the next one starts from its stored form. */
#include "kernels/kernels.h"

#include "kernels/storage.h"

#include <math.h>

void kernel_momentum(const struct kernel_on *on, const struct kernel_momentum *a)
{
    float t0[CHUNK], buf[CHUNK], up[CHUNK];
    double sum = 0;

    (void)on;
    FOR_CHUNKS(i, len, a->n)
    {
        const float *g = load(a->grad_type, a->grad, i, len, t0);

        dtype_load(a->state_type, at_const(a->state_type, a->buf, i), buf, len);
        for (size_t j = 0; j < len; j++) {
            float x = a->grad_scale * g[j];

            buf[j] = a->mu * buf[j] + (1 - a->mu) * x;
            up[j] = a->nesterov ? (1 - a->mu) * x + a->mu * buf[j] : buf[j];
        }
        store(a->state_type, buf, a->buf, i, len);
        store(a->update_type, up, a->update, i, len);
        if (a->norm2) {
            const float *u = load(a->update_type, a->update, i, len, t0);

            for (size_t j = 0; j < len; j++)
                sum += (double)u[j] * (double)u[j];
        }
    }
    if (a->norm2)
        *a->norm2 = sum;
}

/* p = keep * p - u, on the master copy if there is one. */
static void apply(enum dtype d, void *param, float *master, size_t at, size_t len, float keep,
                  const float *u)
{
    float p[CHUNK];

    if (master)
        for (size_t j = 0; j < len; j++)
            p[j] = master[at + j];
    else
        dtype_load(d, at_const(d, param, at), p, len);
    for (size_t j = 0; j < len; j++)
        p[j] = keep * p[j] - u[j];
    if (master)
        for (size_t j = 0; j < len; j++)
            master[at + j] = p[j];
    store(d, p, param, at, len);
}

void kernel_matrix_update(const struct kernel_on *on, const struct kernel_matrix_update *a)
{
    float tmp[CHUNK], u[CHUNK], rate = a->lr * a->scale;

    (void)on;
    FOR_CHUNKS(i, len, a->n)
    {
        const float *x = load(a->update_type, a->update, i, len, tmp);

        for (size_t j = 0; j < len; j++)
            u[j] = rate * x[j];
        apply(a->param_type, a->param, a->master, i, len, 1 - a->lr * a->decay, u);
    }
}

void kernel_adamw(const struct kernel_on *on, const struct kernel_adamw *a)
{
    double c1 = 1 - pow((double)a->beta1, (double)a->step),
           c2 = 1 - pow((double)a->beta2, (double)a->step);
    float rate = (float)((double)a->lr / c1), root = (float)sqrt(c2);
    float t0[CHUNK], m[CHUNK], v[CHUNK], u[CHUNK];

    (void)on;
    BUG_ON(!a->step);
    FOR_CHUNKS(i, len, a->n)
    {
        const float *grad = load(a->grad_type, a->grad, i, len, t0);

        dtype_load(a->state_type, at_const(a->state_type, a->m, i), m, len);
        dtype_load(a->state_type, at_const(a->state_type, a->v, i), v, len);
        for (size_t j = 0; j < len; j++) {
            float g = a->grad_scale * grad[j];

            m[j] = a->beta1 * m[j] + (1 - a->beta1) * g;
            v[j] = a->beta2 * v[j] + (1 - a->beta2) * g * g;
            u[j] = rate * m[j] / (sqrtf(v[j]) / root + a->eps);
        }
        store(a->state_type, m, a->m, i, len);
        store(a->state_type, v, a->v, i, len);
        apply(a->param_type, a->param, a->master, i, len, 1 - a->lr * a->decay, u);
    }
}
