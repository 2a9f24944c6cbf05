/* Cross-entropy in fp32 whatever the logits are, and a squared error for models without a head. */
#include "kernels/kernels.h"

#include "kernels/storage.h"

#include <math.h>

static size_t n_counted(const struct kernel_cross_entropy *a)
{
    size_t n = 0;

    for (size_t t = 0; t < a->tokens; t++) {
        BUG_ON(a->targets[t] >= 0 && (uint64_t)a->targets[t] >= a->vocab);
        n += a->targets[t] >= 0;
    }
    return n;
}

void kernel_cross_entropy(const struct kernel_on *on, const struct kernel_cross_entropy *a)
{
    size_t counted = n_counted(a);
    double loss = 0;

    for (size_t t = 0; t < a->tokens; t++) {
        float *y = a->log_probs + t * a->vocab, top = -INFINITY, shift;
        double sum = 0;

        dtype_load(on->act, at_const(on->act, a->logits, t * a->vocab), y, a->vocab);
        for (size_t i = 0; i < a->vocab; i++)
            top = y[i] > top ? y[i] : top;
        for (size_t i = 0; i < a->vocab; i++)
            sum += expf(y[i] - top);
        shift = (float)log(sum);
        for (size_t i = 0; i < a->vocab; i++)
            y[i] = y[i] - top - shift;
        if (a->targets[t] >= 0)
            loss -= y[a->targets[t]];
    }
    *a->loss = counted ? (float)(loss / (double)counted) : 0;
}

void kernel_cross_entropy_backward(const struct kernel_on *on, const struct kernel_cross_entropy *a)
{
    size_t counted = n_counted(a);
    float each = counted ? a->scale / (float)counted : 0, d[CHUNK];

    for (size_t t = 0; t < a->tokens; t++) {
        const float *y = a->log_probs + t * a->vocab;

        if (a->targets[t] < 0)
            continue;
        FOR_CHUNKS(i, len, a->vocab)
        {
            for (size_t j = 0; j < len; j++)
                d[j] = each * (expf(y[i + j]) - (i + j == (size_t)a->targets[t]));
            store_add(on->act, d, a->d_logits, t * a->vocab + i, len);
        }
    }
}

void kernel_squared_error(const struct kernel_on *on, const struct kernel_squared_error *a)
{
    float t0[CHUNK], t1[CHUNK];
    double sum = 0;

    BUG_ON(!a->n);
    FOR_CHUNKS(i, len, a->n)
    {
        const float *x = load(on->act, a->x, i, len, t0);
        const float *y = a->target ? load(on->act, a->target, i, len, t1) : NULL;

        for (size_t j = 0; j < len; j++) {
            double d = (double)x[j] - (y ? (double)y[j] : 0);

            sum += d * d;
        }
    }
    *a->loss = (float)(0.5 * sum / (double)a->n);
}

void kernel_squared_error_backward(const struct kernel_on *on, const struct kernel_squared_error *a)
{
    float t0[CHUNK], t1[CHUNK], d[CHUNK], each = a->scale / (float)a->n;

    BUG_ON(!a->n);
    FOR_CHUNKS(i, len, a->n)
    {
        const float *x = load(on->act, a->x, i, len, t0);
        const float *y = a->target ? load(on->act, a->target, i, len, t1) : NULL;

        for (size_t j = 0; j < len; j++)
            d[j] = each * (x[j] - (y ? y[j] : 0));
        store_add(on->act, d, a->d_x, i, len);
    }
}
