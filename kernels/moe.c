/* Routing of tokens to experts, and the way there and back. */
#include "kernels/kernels.h"

#include "kernels/storage.h"

#include <math.h>
#include <string.h>

/* The expert of every choice, one row of probabilities, one of their gradients. */
size_t kernel_route_workspace(size_t tokens, size_t n_experts, size_t n_active)
{
    return tokens * n_active * sizeof(uint32_t) + 2 * n_experts * sizeof(float);
}

static void softmax(enum dtype act, const void *logits, size_t at, size_t n, float *p)
{
    float top = -INFINITY;
    double sum = 0;

    dtype_load(act, at_const(act, logits, at), p, n);
    for (size_t i = 0; i < n; i++)
        top = p[i] > top ? p[i] : top;
    for (size_t i = 0; i < n; i++) {
        p[i] = expf(p[i] - top);
        sum += p[i];
    }
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(p[i] / sum);
}

static void check(const struct kernel_on *on, const struct kernel_route *a)
{
    BUG_ON(!a->n_active || a->n_active > a->n_experts);
    BUG_ON(a->tokens > UINT32_MAX / a->n_active);
    BUG_ON(on->workspace_bytes < kernel_route_workspace(a->tokens, a->n_experts, a->n_active));
}

/* The n_active largest of p, best first; writes weights and experts. */
static void choose(const struct kernel_route *a, const float *p, struct kernel_choice *c,
                   uint32_t *expert)
{
    float sum = 0;

    for (size_t k = 0; k < a->n_active; k++) {
        uint32_t best = UINT32_MAX;

        for (uint32_t i = 0; i < a->n_experts; i++) {
            bool taken = false;

            for (size_t j = 0; j < k; j++)
                taken |= expert[j] == i;
            if (!taken && (best == UINT32_MAX || p[i] > p[best]))
                best = i;
        }
        expert[k] = best;
        c[k].weight = p[best];
        sum += p[best];
    }
    for (size_t k = 0; k < a->n_active; k++)
        if (a->normalize)
            c[k].weight /= sum;
}

void kernel_route(const struct kernel_on *on, const struct kernel_route *a)
{
    size_t n = a->tokens * a->n_active;
    float *p = on->workspace;
    uint32_t *expert = (uint32_t *)(void *)(p + 2 * a->n_experts);

    check(on, a);
    memset(a->offsets, 0, (a->n_experts + 1) * sizeof(*a->offsets));
    for (size_t t = 0; t < a->tokens; t++) {
        softmax(on->act, a->logits, t * a->n_experts, a->n_experts, p);
        choose(a, p, a->choices + t * a->n_active, expert + t * a->n_active);
    }
    /* counting sort: offsets[e+1] counts, then sums, then serves as the cursor of e and ends as the start of e+1 */
    for (size_t i = 0; i < n; i++)
        a->offsets[expert[i]]++;
    for (size_t e = 0, sum = 0; e <= a->n_experts; e++) {
        size_t count = a->offsets[e];

        a->offsets[e] = (uint32_t)sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        a->choices[i].slot = a->offsets[expert[i]]++;
    for (size_t e = a->n_experts; e > 0; e--)
        a->offsets[e] = a->offsets[e - 1];
    a->offsets[0] = 0;
}

static size_t expert_of(const struct kernel_route *a, uint32_t slot)
{
    size_t lo = 0, hi = a->n_experts;

    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;

        if (a->offsets[mid] <= slot)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* With s = sum of the chosen p: w = p/s, so dp = (dw - sum dw*w) / s; then the softmax's own. */
void kernel_route_backward(const struct kernel_on *on, const struct kernel_route *a)
{
    float *p = on->workspace, *dp = p + a->n_experts;

    check(on, a);
    for (size_t t = 0; t < a->tokens; t++) {
        const struct kernel_choice *c = a->choices + t * a->n_active;
        const float *dw = a->d_choices + t * a->n_active;
        float sum = 0, along = 0, dot = 0;

        softmax(on->act, a->logits, t * a->n_experts, a->n_experts, p);
        memset(dp, 0, a->n_experts * sizeof(*dp));
        for (size_t k = 0; k < a->n_active; k++) {
            sum += p[expert_of(a, c[k].slot)];
            along += dw[k] * c[k].weight;
        }
        for (size_t k = 0; k < a->n_active; k++)
            dp[expert_of(a, c[k].slot)] = a->normalize ? (dw[k] - along) / sum : dw[k];
        for (size_t i = 0; i < a->n_experts; i++)
            dot += dp[i] * p[i];
        for (size_t i = 0; i < a->n_experts; i++)
            dp[i] = p[i] * (dp[i] - dot);
        store_add(on->act, dp, a->d_logits, t * a->n_experts, a->n_experts);
    }
}

void kernel_dispatch(const struct kernel_on *on, const struct kernel_exchange *a)
{
    size_t row = a->hidden * storage_bytes(on->act);

    for (size_t i = 0; i < a->tokens * a->n_active; i++)
        memcpy((char *)a->out + a->choices[i].slot * row,
               (const char *)a->in + i / a->n_active * row, row);
}

void kernel_dispatch_backward(const struct kernel_on *on, const struct kernel_exchange *a)
{
    float tmp[CHUNK], sum[CHUNK];

    for (size_t t = 0; t < a->tokens; t++)
        FOR_CHUNKS(i, len, a->hidden)
        {
            memset(sum, 0, sizeof(sum));
            for (size_t k = 0; k < a->n_active; k++) {
                size_t slot = a->choices[t * a->n_active + k].slot;
                const float *dy = load(on->act, a->d_out, slot * a->hidden + i, len, tmp);

                for (size_t j = 0; j < len; j++)
                    sum[j] += dy[j];
            }
            store_add(on->act, sum, a->d_in, t * a->hidden + i, len);
        }
}

void kernel_combine(const struct kernel_on *on, const struct kernel_exchange *a)
{
    float tmp[CHUNK], sum[CHUNK];

    for (size_t t = 0; t < a->tokens; t++)
        FOR_CHUNKS(i, len, a->hidden)
        {
            memset(sum, 0, sizeof(sum));
            for (size_t k = 0; k < a->n_active; k++) {
                struct kernel_choice c = a->choices[t * a->n_active + k];
                const float *y = load(on->act, a->in, c.slot * a->hidden + i, len, tmp);

                for (size_t j = 0; j < len; j++)
                    sum[j] += c.weight * y[j];
            }
            store(on->act, sum, a->out, t * a->hidden + i, len);
        }
}

void kernel_combine_backward(const struct kernel_on *on, const struct kernel_exchange *a)
{
    float t0[CHUNK], t1[CHUNK], dx[CHUNK];

    for (size_t i = 0; i < a->tokens * a->n_active; i++) {
        struct kernel_choice c = a->choices[i];
        double dot = 0;

        FOR_CHUNKS(j, len, a->hidden)
        {
            const float *dy = load(on->act, a->d_out, i / a->n_active * a->hidden + j, len, t0);
            const float *y = load(on->act, a->in, c.slot * a->hidden + j, len, t1);

            for (size_t x = 0; x < len; x++) {
                dot += dy[x] * y[x];
                dx[x] = c.weight * dy[x];
            }
            if (a->d_in)
                store_add(on->act, dx, a->d_in, c.slot * a->hidden + j, len);
        }
        if (a->d_choices)
            a->d_choices[i] += (float)dot;
    }
}
