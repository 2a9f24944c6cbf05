#include "tests/kernels/trial.h"

static float *log_probs;

/* s: tokens, vocab; the loss is the output, d(out) is its scale */
static struct kernel_cross_entropy args(struct trial *t)
{
    return (struct kernel_cross_entropy){.tokens = t->s[0],
                                         .vocab = t->s[1],
                                         .logits = t->in[0].p,
                                         .targets = t->extra,
                                         .log_probs = log_probs,
                                         .loss = t->out.p,
                                         .scale = value_at(DTYPE_FP32, t->d_out, 0),
                                         .d_logits = t->in[0].grad};
}

static void forward(struct trial *t)
{
    struct kernel_cross_entropy a = args(t);

    kernel_cross_entropy(&t->on, &a);
}

static void backward(struct trial *t)
{
    struct kernel_cross_entropy a = args(t);

    kernel_cross_entropy_backward(&t->on, &a);
}

static void naive(const struct trial *t, double *const *x, double *out)
{
    const int64_t *targets = t->extra;
    double n = 0;

    out[0] = 0;
    for (size_t i = 0; i < t->s[0]; i++) {
        double below = 0;

        if (targets[i] < 0)
            continue;
        for (size_t v = 0; v < t->s[1]; v++)
            below += exp(x[0][i * t->s[1] + v] - x[0][i * t->s[1] + (size_t)targets[i]]);
        out[0] += log(below);
        n++;
    }
    out[0] = n > 0 ? out[0] / n : 0;
}

START_TEST(cross_entropy_is_the_mean_over_counted_tokens)
{
    FOR_TRIALS(i, 9)
    {
        struct trial t = trial_new("cross_entropy", (uint64_t)i, trial_type(i));
        uint64_t s = t.seed + 1;
        int64_t targets[6];

        t.s[0] = rng_size(&s, 1, 6);
        t.s[1] = i < 3 ? 530 : rng_size(&s, 1, 20);
        for (size_t k = 0; k < t.s[0]; k++)
            targets[k] = i < 6 || k % 2 ? (int64_t)rng_size(&s, 0, t.s[1] - 1) : -100;
        t.extra = targets;
        trial_in(&t, "logits", t.s[0] * t.s[1], t.on.act, -3, 3);
        trial_out(&t, 1, DTYPE_FP32);
        log_probs = MEM_NEW(float, t.in[0].n);
        t.forward = forward;
        t.backward = backward;
        t.naive = naive;
        trial_run(&t);
        mem_free(log_probs);
    }
}
END_TEST

START_TEST(equal_logits_cost_log_vocab_and_huge_ones_stay_finite)
{
    float x[6] = {7, 7, 7, 1e30f, -1e30f, 0}, logp[6], loss, d[6] = {0};
    int64_t targets[2] = {1, -1};
    struct kernel_on on = {0};
    struct kernel_cross_entropy a = {2, 3, x, targets, logp, &loss, 1, d};

    kernel_cross_entropy(&on, &a);
    ck_assert_float_eq_tol(loss, logf(3), 1e-6f);
    targets[1] = 0;
    kernel_cross_entropy(&on, &a);
    kernel_cross_entropy_backward(&on, &a);
    ck_assert_float_eq_tol(loss, logf(3) / 2, 1e-6f);
    for (int i = 3; i < 6; i++)
        ck_assert(d[i] == 0);
    targets[0] = targets[1] = -1;
    kernel_cross_entropy(&on, &a);
    ck_assert(loss == 0);
}
END_TEST

/* ---- squared error; s: whether there is a target ---- */

static struct kernel_squared_error square_args(struct trial *t)
{
    return (struct kernel_squared_error){.n = t->in[0].n,
                                         .x = t->in[0].p,
                                         .target = t->s[0] ? t->in[1].p : NULL,
                                         .loss = t->out.p,
                                         .scale = value_at(DTYPE_FP32, t->d_out, 0),
                                         .d_x = t->in[0].grad};
}

static void square_forward(struct trial *t)
{
    struct kernel_squared_error a = square_args(t);

    kernel_squared_error(&t->on, &a);
}

static void square_backward(struct trial *t)
{
    struct kernel_squared_error a = square_args(t);

    kernel_squared_error_backward(&t->on, &a);
}

static void square_naive(const struct trial *t, double *const *x, double *out)
{
    out[0] = 0;
    for (size_t i = 0; i < t->in[0].n; i++)
        out[0] += pow(x[0][i] - (t->s[0] ? x[1][i] : 0), 2) / (2 * (double)t->in[0].n);
}

START_TEST(squared_error_is_half_the_mean_square)
{
    FOR_TRIALS(i, 6)
    {
        struct trial t = trial_new("squared_error", (uint64_t)i, trial_type(i));
        size_t n = i < 3 ? 700 : 1 + (size_t)i;

        t.s[0] = (size_t)i % 2;
        trial_in(&t, "x", n, t.on.act, -2, 2);
        if (t.s[0]) {
            trial_in(&t, "target", n, t.on.act, -2, 2);
            t.in[1].no_grad = true;
        }
        trial_out(&t, 1, DTYPE_FP32);
        t.forward = square_forward;
        t.backward = square_backward;
        t.naive = square_naive;
        trial_run(&t);
    }
}
END_TEST

SUITE_MAIN("kernels/loss", cross_entropy_is_the_mean_over_counted_tokens,
           equal_logits_cost_log_vocab_and_huge_ones_stay_finite,
           squared_error_is_half_the_mean_square)
