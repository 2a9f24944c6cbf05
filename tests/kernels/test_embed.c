#include "tests/kernels/trial.h"

/* s: tokens, hidden, vocab */
static struct kernel_embed embed_args(struct trial *t)
{
    return (struct kernel_embed){.tokens = t->s[0],
                                 .hidden = t->s[1],
                                 .vocab = t->s[2],
                                 .ids = t->extra,
                                 .table = t->in[0].p,
                                 .out = t->out.p,
                                 .d_out = t->d_out,
                                 .d_table = t->in[0].grad};
}

static void embed_forward(struct trial *t)
{
    struct kernel_embed a = embed_args(t);

    kernel_embed(&t->on, &a);
}

static void embed_backward(struct trial *t)
{
    struct kernel_embed a = embed_args(t);

    kernel_embed_backward(&t->on, &a);
}

/* a product with one-hot rows */
static void embed_naive(const struct trial *t, double *const *x, double *out)
{
    const int64_t *ids = t->extra;

    for (size_t i = 0; i < t->s[0] * t->s[1]; i++) {
        out[i] = 0;
        for (size_t v = 0; v < t->s[2]; v++)
            out[i] += (ids[i / t->s[1]] == (int64_t)v) * x[0][v * t->s[1] + i % t->s[1]];
    }
}

START_TEST(embedding_is_a_product_with_one_hot_rows)
{
    FOR_TRIALS(i, 6)
    {
        struct trial t = trial_new("embed", (uint64_t)i, trial_type(i));
        uint64_t s = t.seed + 99;
        int64_t ids[9];

        t.s[0] = rng_size(&s, 1, 9);
        t.s[1] = i < 3 ? 523 : rng_size(&s, 1, 13);
        t.s[2] = i < 3 ? 2 : rng_size(&s, 1, 7);
        for (size_t k = 0; k < t.s[0]; k++)
            ids[k] = (int64_t)rng_size(&s, 0, t.s[2] - 1);
        t.extra = ids;
        t.roundings = (double)t.s[0];
        trial_in(&t, "table", t.s[1] * t.s[2], t.on.weight, -1, 1);
        trial_out(&t, t.s[0] * t.s[1], t.on.act);
        t.forward = embed_forward;
        t.backward = embed_backward;
        t.naive = embed_naive;
        trial_run(&t);
    }
}
END_TEST

/* s: tokens, hidden, seq */
static struct kernel_position position_args(struct trial *t)
{
    return (struct kernel_position){.tokens = t->s[0],
                                    .hidden = t->s[1],
                                    .seq = t->s[2],
                                    .x = t->in[0].p,
                                    .table = t->in[1].p,
                                    .out = t->out.p,
                                    .d_out = t->d_out,
                                    .d_x = t->in[0].grad,
                                    .d_table = t->in[1].grad};
}

static void position_forward(struct trial *t)
{
    struct kernel_position a = position_args(t);

    kernel_position(&t->on, &a);
}

static void position_backward(struct trial *t)
{
    struct kernel_position a = position_args(t);

    kernel_position_backward(&t->on, &a);
}

static void position_naive(const struct trial *t, double *const *x, double *out)
{
    size_t period = t->s[2] * t->s[1];

    for (size_t i = 0; i < t->s[0] * t->s[1]; i++)
        out[i] = x[1][i % period] + x[0][i];
}

/* The table may be longer than the sequences: the rest of its gradient stays as it was. */
START_TEST(positions_repeat_with_each_sequence)
{
    FOR_TRIALS(i, 6)
    {
        struct trial t = trial_new("position", (uint64_t)i, trial_type(i));
        uint64_t s = t.seed + 7;

        t.s[2] = rng_size(&s, 1, 5);
        t.s[0] = t.s[2] * rng_size(&s, 1, 3);
        t.s[1] = i < 3 ? 519 : rng_size(&s, 1, 9);
        trial_in(&t, "x", t.s[0] * t.s[1], t.on.act, -1, 1);
        trial_in(&t, "table", (t.s[2] + 1) * t.s[1], t.on.weight, -1, 1);
        t.in[0].optional = t.in[1].optional = true;
        trial_out(&t, t.s[0] * t.s[1], t.on.act);
        t.forward = position_forward;
        t.backward = position_backward;
        t.naive = position_naive;
        if (i < 3) /* differences of half a thousand inputs take their time */
            t.backward = NULL;
        trial_run(&t);
    }
}
END_TEST

SUITE_MAIN("kernels/embed", embedding_is_a_product_with_one_hot_rows,
           positions_repeat_with_each_sequence)
