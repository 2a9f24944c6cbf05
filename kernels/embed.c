/* Token and learned position embeddings. A table's gradient is added to row by row, in token order: with 16-bit
 * gradients a frequent token rounds once an occurrence, as it does on devices. */
#include "kernels/kernels.h"

#include "kernels/storage.h"

void kernel_embed(const struct kernel_on *on, const struct kernel_embed *a)
{
    float tmp[CHUNK];

    for (size_t t = 0; t < a->tokens; t++) {
        size_t id = (size_t)a->ids[t];

        BUG_ON(a->ids[t] < 0 || id >= a->vocab);
        FOR_CHUNKS(i, len, a->hidden)
        store(on->act, load(on->weight, a->table, id * a->hidden + i, len, tmp), a->out,
              t * a->hidden + i, len);
    }
}

void kernel_embed_backward(const struct kernel_on *on, const struct kernel_embed *a)
{
    float tmp[CHUNK];

    for (size_t t = 0; t < a->tokens; t++) {
        size_t id = (size_t)a->ids[t];

        BUG_ON(a->ids[t] < 0 || id >= a->vocab);
        FOR_CHUNKS(i, len, a->hidden)
        store_add(on->grad, load(on->act, a->d_out, t * a->hidden + i, len, tmp), a->d_table,
                  id * a->hidden + i, len);
    }
}

void kernel_position(const struct kernel_on *on, const struct kernel_position *a)
{
    float tmp[CHUNK], tmp2[CHUNK], sum[CHUNK];

    BUG_ON(!a->seq || a->tokens % a->seq);
    for (size_t t = 0; t < a->tokens; t++)
        FOR_CHUNKS(i, len, a->hidden)
        {
            const float *x = load(on->act, a->x, t * a->hidden + i, len, tmp);
            const float *p = load(on->weight, a->table, t % a->seq * a->hidden + i, len, tmp2);

            for (size_t j = 0; j < len; j++)
                sum[j] = x[j] + p[j];
            store(on->act, sum, a->out, t * a->hidden + i, len);
        }
}

void kernel_position_backward(const struct kernel_on *on, const struct kernel_position *a)
{
    float tmp[CHUNK], sum[CHUNK];

    BUG_ON(!a->seq || a->tokens % a->seq);
    if (a->d_x)
        FOR_CHUNKS(i, len, a->tokens * a->hidden)
    store_add(on->act, load(on->act, a->d_out, i, len, tmp), a->d_x, i, len);
    if (!a->d_table)
        return;
    /* the sequences' sum first: one rounding a call */
    FOR_CHUNKS(i, len, a->seq * a->hidden)
    {
        for (size_t j = 0; j < len; j++)
            sum[j] = 0;
        for (size_t b = 0; b < a->tokens / a->seq; b++) {
            const float *g = load(on->act, a->d_out, b * a->seq * a->hidden + i, len, tmp);

            for (size_t j = 0; j < len; j++)
                sum[j] += g[j];
        }
        store_add(on->grad, sum, a->d_table, i, len);
    }
}
