#include "tests/kernels/trial.h"

/* s: rows, width, layer, has a bias */
static struct kernel_norm args(struct trial *t)
{
    struct kernel_norm a = {.rows = t->s[0],
                            .width = t->s[1],
                            .eps = (float)t->f[0],
                            .x = t->in[0].p,
                            .weight = t->in[1].p,
                            .out = t->out.p,
                            .d_out = t->d_out,
                            .d_x = t->in[0].grad,
                            .d_weight = t->in[1].grad};

    if (t->s[3]) {
        a.bias = t->in[2].p;
        a.d_bias = t->in[2].grad;
    }
    return a;
}

static void forward(struct trial *t)
{
    struct kernel_norm a = args(t);

    (t->s[2] ? kernel_layernorm : kernel_rmsnorm)(&t->on, &a);
}

static void backward(struct trial *t)
{
    struct kernel_norm a = args(t);

    (t->s[2] ? kernel_layernorm_backward : kernel_rmsnorm_backward)(&t->on, &a);
}

/* variance as the mean of squared differences of all pairs */
static void naive(const struct trial *t, double *const *x, double *out)
{
    size_t n = t->s[1];

    for (size_t r = 0; r < t->s[0]; r++) {
        const double *v = x[0] + r * n;
        double second = 0, mean = 0;

        for (size_t i = 0; i < n; i++) {
            mean += t->s[2] ? v[i] / (double)n : 0;
            for (size_t j = 0; j < n; j++)
                second += t->s[2] ? (v[i] - v[j]) * (v[i] - v[j]) / 2 : v[i] * v[i];
        }
        second /= (double)n * (double)n;
        for (size_t i = 0; i < n; i++)
            out[r * n + i] =
                (v[i] - mean) * pow(second + t->f[0], -0.5) * x[1][i] + (t->s[3] ? x[2][i] : 0);
    }
}

static void norms(bool layer, bool bias, const char *name)
{
    FOR_TRIALS(i, 7)
    {
        struct trial t = trial_new(name, (uint64_t)i, trial_type(i));
        uint64_t s = t.seed + 21;

        t.s[0] = rng_size(&s, 1, 5);
        t.s[1] = rng_size(&s, 2, 19);
        t.s[2] = layer;
        t.s[3] = bias;
        t.f[0] = (float)1e-2;
        t.noise = 32;
        t.on.grad = i % 2 ? DTYPE_FP32 : t.on.grad;
        trial_in(&t, "x", t.s[0] * t.s[1], t.on.act, -2, 2);
        trial_in(&t, "weight", t.s[1], t.on.weight, 0.5, 1.5);
        if (bias)
            trial_in(&t, "bias", t.s[1], t.on.weight, -1, 1);
        for (size_t k = 0; k < t.n_in; k++) {
            t.in[k].optional = true;
            t.in[k].grad_type = k ? t.on.grad : t.on.act;
        }
        trial_out(&t, t.s[0] * t.s[1], t.on.act);
        t.on.workspace_bytes = kernel_norm_workspace(t.s[1]);
        t.forward = forward;
        t.backward = backward;
        t.naive = naive;
        trial_run(&t);
    }
}

START_TEST(rms_norm_divides_by_the_root_mean_square)
{
    norms(false, false, "rmsnorm");
}
END_TEST

START_TEST(layer_norm_takes_the_mean_off_first)
{
    norms(true, false, "layernorm without bias");
    norms(true, true, "layernorm");
}
END_TEST

/* x = [3, 4]: mean square 12.5. x = [1, 3]: mean 2, variance 1. */
START_TEST(two_numbers_by_hand)
{
    float room[12], x[] = {3, 4, 1, 3}, w[] = {1, 2}, b[] = {0, 10}, out[4];
    struct kernel_on on = {.workspace = room, .workspace_bytes = sizeof(room)};
    struct kernel_norm a = {.rows = 2, .width = 2, .x = x, .weight = w, .out = out};

    kernel_rmsnorm(&on, &a);
    ck_assert_float_eq_tol(out[0], 3 / sqrtf(12.5f), 1e-6f);
    ck_assert_float_eq_tol(out[1], 8 / sqrtf(12.5f), 1e-6f);
    a.bias = b;
    kernel_layernorm(&on, &a);
    ck_assert_float_eq_tol(out[2], -1, 1e-6f);
    ck_assert_float_eq_tol(out[3], 12, 1e-5f);
}
END_TEST

START_TEST(a_row_of_zeros_stays_finite)
{
    float room[18], x[3] = {0, 0, 0}, w[3] = {1, 1, 1}, out[3], g[3] = {1, 2, 3}, dx[3] = {0, 0, 0};
    struct kernel_on on = {.workspace = room, .workspace_bytes = sizeof(room)};
    struct kernel_norm a = {.rows = 1,
                            .width = 3,
                            .eps = 1e-5f,
                            .x = x,
                            .weight = w,
                            .out = out,
                            .d_out = g,
                            .d_x = dx};

    kernel_rmsnorm(&on, &a);
    kernel_rmsnorm_backward(&on, &a);
    for (int i = 0; i < 3; i++) {
        ck_assert(out[i] == 0);
        ck_assert_float_eq_tol(dx[i], g[i] / sqrtf(1e-5f), 1e-2f);
    }
}
END_TEST

SUITE_MAIN("kernels/norm", rms_norm_divides_by_the_root_mean_square,
           layer_norm_takes_the_mean_off_first, two_numbers_by_hand, a_row_of_zeros_stays_finite)
