#include "tests/kernels/trial.h"

static void start(struct trial *t, const char *name, int i)
{
    *t = trial_new(name, (uint64_t)i, trial_type(i));
}

/* ---- SwiGLU ---- */

static void swiglu_forward(struct trial *t)
{
    struct kernel_swiglu a = {.n = t->out.n, .gate = t->in[0].p, .up = t->in[1].p, .out = t->out.p};

    kernel_swiglu(&t->on, &a);
}

static void swiglu_backward(struct trial *t)
{
    struct kernel_swiglu a = {.n = t->out.n,
                              .gate = t->in[0].p,
                              .up = t->in[1].p,
                              .d_out = t->d_out,
                              .d_gate = t->in[0].grad,
                              .d_up = t->in[1].grad};

    kernel_swiglu_backward(&t->on, &a);
}

static void swiglu_naive(const struct trial *t, double *const *x, double *out)
{
    for (size_t i = 0; i < t->out.n; i++)
        out[i] = x[0][i] * (0.5 + 0.5 * tanh(x[0][i] / 2)) * x[1][i];
}

START_TEST(swiglu_gates_by_sigmoid)
{
    FOR_TRIALS(i, 4)
    {
        struct trial t;
        size_t n = i < 3 ? 600 : 1 + (size_t)i;

        start(&t, "swiglu", i);
        trial_in(&t, "gate", n, t.on.act, -6, 6);
        trial_in(&t, "up", n, t.on.act, -2, 2);
        t.in[0].optional = t.in[1].optional = true;
        trial_out(&t, n, t.on.act);
        t.forward = swiglu_forward;
        t.backward = swiglu_backward;
        t.naive = swiglu_naive;
        trial_run(&t);
    }
}
END_TEST

START_TEST(swiglu_of_large_gates_stays_finite)
{
    float g[4] = {200, -200, 88, -104}, u[4] = {1, 1, 1, 1}, out[4], dg[4] = {0}, du[4] = {0};
    struct kernel_on on = {0};
    struct kernel_swiglu a = {4, g, u, out, u, dg, du};

    kernel_swiglu(&on, &a);
    kernel_swiglu_backward(&on, &a);
    ck_assert(out[0] == 200 && fabsf(out[1]) < 1e-30f && out[2] == 88);
    for (int i = 0; i < 4; i++)
        ck_assert(isfinite(out[i]) && isfinite(dg[i]) && isfinite(du[i]));
}
END_TEST

/* ---- GELU; s: rows, width0, width1, form ---- */

static struct kernel_gelu gelu_args(struct trial *t)
{
    struct kernel_gelu a = {.rows = t->s[0],
                            .width0 = t->s[1],
                            .width1 = t->s[2],
                            .form = (enum kernel_gelu_form)t->s[3],
                            .x0 = t->in[0].p,
                            .out = t->out.p,
                            .d_out = t->d_out,
                            .d_x0 = t->in[0].grad};

    if (t->s[2]) {
        a.x1 = t->in[1].p;
        a.d_x1 = t->in[1].grad;
    }
    return a;
}

static void gelu_forward(struct trial *t)
{
    struct kernel_gelu a = gelu_args(t);

    kernel_gelu(&t->on, &a);
}

static void gelu_backward(struct trial *t)
{
    struct kernel_gelu a = gelu_args(t);

    kernel_gelu_backward(&t->on, &a);
}

/* tanh(u) = 1 - 2/(1 + e^2u); the normal distribution through erfc */
static void gelu_naive(const struct trial *t, double *const *x, double *out)
{
    for (size_t i = 0; i < t->out.n; i++) {
        size_t w = t->s[1] + t->s[2], r = i / w, c = i % w;
        double v = c < t->s[1] ? x[0][r * t->s[1] + c] : x[1][r * t->s[2] + c - t->s[1]];
        double u = sqrt(2 / acos(-1)) * v * (1 + 0.044715 * v * v);

        out[i] = t->s[3] == KERNEL_GELU_ERF ? v * erfc(-v / sqrt(2)) / 2
                                            : v * (1 - 1 / (1 + exp(2 * u)));
    }
}

START_TEST(gelu_of_one_and_of_two_inputs)
{
    FOR_TRIALS(i, 12)
    {
        struct trial t;
        uint64_t s = (uint64_t)i + 3;

        start(&t, "gelu", i);
        t.s[0] = rng_size(&s, 1, 4);
        t.s[1] = i < 3 ? 530 : rng_size(&s, 1, 9);
        t.s[2] = i % 2 ? rng_size(&s, 1, 9) : 0;
        t.s[3] = (size_t)(i / 6 % 2);
        trial_in(&t, "x0", t.s[0] * t.s[1], t.on.act, -4, 4);
        if (t.s[2])
            trial_in(&t, "x1", t.s[0] * t.s[2], t.on.act, -4, 4);
        t.in[0].optional = t.in[1].optional = t.s[2] != 0;
        trial_out(&t, t.s[0] * (t.s[1] + t.s[2]), t.on.act);
        t.forward = gelu_forward;
        t.backward = i < 3 ? NULL : gelu_backward;
        t.naive = gelu_naive;
        trial_run(&t);
    }
}
END_TEST

/* ---- addition, bias ---- */

static void add_forward(struct trial *t)
{
    struct kernel_add a = {.n = t->out.n, .x = t->in[0].p, .y = t->in[1].p, .out = t->out.p};

    kernel_add(&t->on, &a);
}

static void add_backward(struct trial *t)
{
    struct kernel_add a = {
        .n = t->out.n, .d_out = t->d_out, .d_x = t->in[0].grad, .d_y = t->in[1].grad};

    kernel_add_backward(&t->on, &a);
}

static void add_naive(const struct trial *t, double *const *x, double *out)
{
    for (size_t i = 0; i < t->out.n; i++)
        out[i] = x[0][i] + x[1][i];
}

START_TEST(a_residual_hands_its_gradient_to_both)
{
    FOR_TRIALS(i, 4)
    {
        struct trial t;
        size_t n = i < 3 ? 513 : 1 + (size_t)i;

        start(&t, "add", i);
        trial_in(&t, "x", n, t.on.act, -1, 1);
        trial_in(&t, "y", n, t.on.act, -1, 1);
        t.in[0].optional = t.in[1].optional = true;
        trial_out(&t, n, t.on.act);
        t.forward = add_forward;
        t.backward = add_backward;
        t.naive = add_naive;
        trial_run(&t);
    }
}
END_TEST

/* s: rows, width; in place on a product, here a row of constants */
static void bias_forward(struct trial *t)
{
    struct kernel_bias a = {.rows = t->s[0], .width = t->s[1], .bias = t->in[0].p, .out = t->out.p};
    float three = 3;

    for (size_t i = 0; i < t->out.n; i++)
        dtype_store(t->on.act, &three, (char *)t->out.p + i * dtype_bytes(t->on.act, 1), 1);
    kernel_bias(&t->on, &a);
}

static void bias_backward(struct trial *t)
{
    struct kernel_bias a = {
        .rows = t->s[0], .width = t->s[1], .d_out = t->d_out, .d_bias = t->in[0].grad};

    kernel_bias_backward(&t->on, &a);
}

static void bias_naive(const struct trial *t, double *const *x, double *out)
{
    for (size_t i = 0; i < t->out.n; i++)
        out[i] = 3 + x[0][i % t->s[1]];
}

START_TEST(a_bias_goes_to_every_row)
{
    FOR_TRIALS(i, 5)
    {
        struct trial t;
        uint64_t s = (uint64_t)i;

        start(&t, "bias", i);
        t.s[0] = rng_size(&s, 1, 9);
        t.s[1] = i < 3 ? 600 : rng_size(&s, 1, 9);
        trial_in(&t, "bias", t.s[1], t.on.weight, -1, 1);
        trial_out(&t, t.s[0] * t.s[1], t.on.act);
        t.on.workspace_bytes = kernel_bias_workspace(t.s[1]);
        t.forward = bias_forward;
        t.backward = bias_backward;
        t.naive = bias_naive;
        trial_run(&t);
    }
}
END_TEST

SUITE_MAIN("kernels/activation", swiglu_gates_by_sigmoid, swiglu_of_large_gates_stays_finite,
           gelu_of_one_and_of_two_inputs, a_residual_hands_its_gradient_to_both,
           a_bias_goes_to_every_row)
