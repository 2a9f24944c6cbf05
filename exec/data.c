#include "exec/run.h"

static uint64_t mix(uint64_t h)
{
    h ^= h >> 33;
    h *= UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 33;
    h *= UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 33;
}

uint64_t data_hash(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    return mix(a + mix(b + mix(c + mix(d + UINT64_C(0x9e3779b97f4a7c15)))));
}

/* Sequences that can be learnt: a token is its predecessor plus a stride that the seed fixes, seldom something else. */
static int64_t next_token(uint64_t h, uint64_t vocab, int64_t before, uint64_t stride)
{
    if (h % 8 == 0)
        return (int64_t)(h / 8 % vocab);
    return (int64_t)(((uint64_t)before + stride) % vocab);
}

void data_tokens(uint64_t seed, uint64_t step, uint64_t micro, uint32_t rank, uint64_t vocab,
                 uint64_t sequences, uint64_t seq_len, int64_t *inputs, int64_t *targets)
{
    for (uint64_t s = 0; s < sequences; s++) {
        uint64_t h = data_hash(seed, step << 20 | micro, rank, s);
        uint64_t stride = 1 + data_hash(seed, 0, 0, 0) % 7;
        int64_t at = (int64_t)(h % vocab);

        for (uint64_t i = 0; i < seq_len; i++) {
            inputs[s * seq_len + i] = at;
            at = next_token(data_hash(h, i, 0, 0), vocab, at, stride);
            targets[s * seq_len + i] = at;
        }
    }
}

void data_batch(const struct exec_run *r, uint32_t micro, int64_t *inputs, int64_t *targets)
{
    const struct job *j = &r->plan->job;
    uint64_t n = j->seq_len, first;

    if (!r->o.tokens) {
        data_tokens(r->o.seed, r->step, micro, r->t->rank, r->p->model->vocab, j->micro_batch, n,
                    inputs, targets);
        return;
    }
    first = (((r->step - 1) * r->p->n_micro + micro) * r->p->world + r->t->rank) * j->micro_batch;
    for (uint64_t s = 0; s < j->micro_batch; s++)
        token_file_read(r->o.tokens, first + s, inputs + s * n, targets + s * n);
}

/* The sum of four uniform numbers is close enough to normal, and the same on every machine. */
float data_weight(uint64_t seed, uint64_t tensor, uint64_t i, float mean, float sd)
{
    uint64_t h = data_hash(seed, tensor, i, 1);
    int32_t sum = (int32_t)(h & 0xffff) + (int32_t)(h >> 16 & 0xffff) +
                  (int32_t)(h >> 32 & 0xffff) + (int32_t)(h >> 48);

    return mean + sd * (float)(sum - 131070) * (1.0f / 37837.2f); /* sqrt(4/12) * 65536 */
}
