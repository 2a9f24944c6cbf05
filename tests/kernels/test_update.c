#include "tests/kernels/trial.h"

/* Elementwise optimizer kernels against the formulas in double. Numbers of another library are in the goldens
 * (test_optimizer_golden.c). */

enum { N = 700 };
static const struct kernel_on on;

static bool near(enum dtype d, double got, double want)
{
    return fabs(got - want) <= half_ulp(d) * fabs(want) + 1e-6;
}

START_TEST(momentum_averages_and_nesterov_looks_ahead)
{
    FOR_TRIALS(i, 4)
    {
        enum dtype d = trial_type(i);
        uint64_t s = (uint64_t)i;
        double g[N], b[N], norm2 = 0;
        float up[N];
        void *grad = random_array(&s, d, N, -1, 1, g), *buf = random_array(&s, d, N, -1, 1, b);
        struct kernel_momentum a = {.n = N,
                                    .grad_type = d,
                                    .state_type = d,
                                    .update_type = DTYPE_FP32,
                                    .mu = 0.75f,
                                    .grad_scale = 0.5f,
                                    .nesterov = i >= 6,
                                    .grad = grad,
                                    .buf = buf,
                                    .update = up,
                                    .norm2 = i % 2 ? &norm2 : NULL};

        kernel_momentum(&on, &a);
        if (a.norm2)
            MUST(kernel_norm2(&on, DTYPE_FP32, up, N) <= norm2 &&
                     kernel_norm2(&on, DTYPE_FP32, up, N) >= norm2,
                 "norm, seed %d", i);
        for (int k = 0; k < N; k++) {
            double want = 0.75 * b[k] + 0.25 * g[k] / 2;

            MUST(near(d, value_at(d, buf, (size_t)k), want), "buffer, seed %d", i);
            MUST(near(DTYPE_FP32, up[k], i >= 6 ? 0.125 * g[k] + 0.75 * want : want),
                 "update, seed %d", i);
        }
        mem_free(grad);
        mem_free(buf);
    }
}
END_TEST

START_TEST(a_matrix_update_decays_then_steps_and_follows_the_master)
{
    FOR_TRIALS(i, 2)
    {
        enum dtype d = trial_type(i);
        uint64_t s = (uint64_t)i;
        double p[N], u[N];
        float *master = NULL;
        void *param = random_array(&s, d, N, -1, 1, p), *up = random_array(&s, d, N, -1, 1, u);
        struct kernel_matrix_update a = {.n = N,
                                         .param_type = d,
                                         .update_type = d,
                                         .lr = 0.1f,
                                         .decay = 0.25f,
                                         .scale = 2,
                                         .update = up,
                                         .param = param};

        if (i >= 3) {
            a.master = master = random_array(&s, DTYPE_FP32, N, -1, 1, p);
        }
        kernel_matrix_update(&on, &a);
        for (int k = 0; k < N; k++) {
            double want = p[k] * (1 - 0.1 * 0.25) - 0.2 * u[k];

            MUST(near(d, value_at(d, param, (size_t)k), want), "parameter, seed %d", i);
            MUST(!master || near(DTYPE_FP32, master[k], want), "master, seed %d", i);
        }
        mem_free(param);
        mem_free(up);
        mem_free(master);
    }
}
END_TEST

/* On its first step AdamW moves by lr * g / (|g| + eps), whatever the betas are. */
START_TEST(the_first_adamw_step_has_the_size_of_the_rate)
{
    FOR_TRIALS(i, 2)
    {
        enum dtype d = trial_type(i);
        uint64_t s = (uint64_t)i;
        double g[N], p[N];
        float master[N];
        void *grad = random_array(&s, d, N, -1, 1, g), *param = random_array(&s, d, N, -1, 1, p);
        void *m = mem_alloc(N, 4), *v = mem_alloc(N, 4);
        struct kernel_adamw a = {.n = N,
                                 .param_type = d,
                                 .grad_type = d,
                                 .state_type = d,
                                 .step = 1,
                                 .lr = 0.01f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.95f,
                                 .eps = 1e-8f,
                                 .decay = 0.5f,
                                 .grad_scale = 0.25f,
                                 .grad = grad,
                                 .param = param,
                                 .m = m,
                                 .v = v};

        dtype_load(d, param, master, N);
        a.master = i < 3 ? NULL : master;
        kernel_adamw(&on, &a);
        for (int k = 0; k < N; k++) {
            double want = p[k] * 0.995 - (g[k] > 0 ? 0.01 : g[k] < 0 ? -0.01 : 0);

            MUST(fabs(g[k]) < 1e-3 || near(d, value_at(d, param, (size_t)k), want), "seed %d", i);
            MUST(near(d, value_at(d, m, (size_t)k), 0.1 * g[k] / 4), "m, seed %d", i);
            MUST(near(d, value_at(d, v, (size_t)k), 0.05 * g[k] * g[k] / 16), "v, seed %d", i);
        }
        mem_free(grad);
        mem_free(param);
        mem_free(m);
        mem_free(v);
    }
}
END_TEST

SUITE_MAIN("kernels/update", momentum_averages_and_nesterov_looks_ahead,
           a_matrix_update_decays_then_steps_and_follows_the_master,
           the_first_adamw_step_has_the_size_of_the_rate)
