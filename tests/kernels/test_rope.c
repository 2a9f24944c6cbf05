#include "tests/kernels/trial.h"

#include <complex.h>

/* s: tokens, seq, heads, head_dim */
static struct kernel_rope args(struct trial *t)
{
    return (struct kernel_rope){.tokens = t->s[0],
                                .seq = t->s[1],
                                .heads = t->s[2],
                                .head_dim = t->s[3],
                                .theta = (float)t->f[0],
                                .x = t->in[0].p,
                                .out = t->out.p,
                                .d_out = t->d_out,
                                .d_x = t->in[0].grad};
}

static void forward(struct trial *t)
{
    struct kernel_rope a = args(t);

    kernel_rope(&t->on, &a);
}

static void backward(struct trial *t)
{
    struct kernel_rope a = args(t);

    kernel_rope_backward(&t->on, &a);
}

/* (x_i + i x_(i + d/2)) times a power of e^(i angle) */
static void naive(const struct trial *t, double *const *x, double *out)
{
    size_t d = t->s[3], half = d / 2;

    for (size_t i = 0; i < t->s[0] * t->s[2] * half; i++) {
        size_t pair = i % half, row = i / half, token = row / t->s[2];
        double complex unit = cexp(I * exp(-(double)pair / (double)half * log(t->f[0])));
        double complex z = x[0][row * d + pair] + I * x[0][row * d + pair + half];

        for (size_t k = 0; k < token % t->s[1]; k++)
            z *= unit;
        out[row * d + pair] = creal(z);
        out[row * d + pair + half] = cimag(z);
    }
}

START_TEST(pairs_turn_by_position_times_frequency)
{
    FOR_TRIALS(i, 8)
    {
        struct trial t = trial_new("rope", (uint64_t)i, trial_type(i));
        uint64_t s = t.seed + 5;

        t.s[1] = rng_size(&s, 1, 7);
        t.s[0] = t.s[1] * rng_size(&s, 1, 2);
        t.s[2] = rng_size(&s, 1, 3);
        t.s[3] = 2 * rng_size(&s, 1, 5);
        t.f[0] = i % 2 ? 10000 : 500;
        trial_in(&t, "x", t.s[0] * t.s[2] * t.s[3], t.on.act, -1, 1);
        trial_out(&t, t.in[0].n, t.on.act);
        t.on.workspace_bytes = kernel_rope_workspace(t.s[3]);
        t.forward = forward;
        t.backward = backward;
        t.naive = naive;
        trial_run(&t);
    }
}
END_TEST

/* What makes it an encoding of distance: q.k depends on the difference of positions alone. */
START_TEST(scores_depend_on_the_distance_alone)
{
    enum { SEQ = 40, D = 16 };
    float q[SEQ * D], k[SEQ * D], q2[SEQ * D], k2[SEQ * D], room[3 * D];
    struct kernel_on on = {.workspace = room, .workspace_bytes = sizeof(room)};
    struct kernel_rope a = {.tokens = SEQ, .seq = SEQ, .heads = 1, .head_dim = D, .theta = 10000};
    uint64_t s = 3;
    double first = 0;

    for (int i = 0; i < SEQ * D; i++) {
        q[i] = i < D ? (float)rng_in(&s, -1, 1) : q[i - D];
        k[i] = i < D ? (float)rng_in(&s, -1, 1) : k[i - D];
    }
    a.x = q;
    a.out = q2;
    kernel_rope(&on, &a);
    a.x = k;
    a.out = k2;
    kernel_rope(&on, &a);
    for (int at = 5; at < SEQ; at++) {
        double dot = 0;

        for (int i = 0; i < D; i++)
            dot += q2[at * D + i] * k2[(at - 5) * D + i];
        if (at == 5)
            first = dot;
        MUST(fabs(dot - first) < 1e-5, "at %d: %g, expected %g", at, dot, first);
    }
}
END_TEST

SUITE_MAIN("kernels/rope", pairs_turn_by_position_times_frequency,
           scores_depend_on_the_distance_alone)
