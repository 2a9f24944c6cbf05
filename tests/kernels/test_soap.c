#include "kernels/optimizer.h"
#include "tests/kernels/trial.h"

/* Numbers of another library are in test_optimizer_golden.c. */

static void run(struct kernel_soap *a, int scribble)
{
    size_t bytes = kernel_soap_workspace(a->rows, a->cols, &a->hyper);
    struct kernel_on on = {
        .gemm = &kernel_gemm_reference, .workspace = mem_alloc(bytes, 1), .workspace_bytes = bytes};

    memset(on.workspace, scribble, bytes);
    kernel_soap(&on, a);
    mem_free(on.workspace);
}

static struct kernel_soap soap_of(size_t rows, size_t cols, float *update)
{
    return (struct kernel_soap){.rows = rows,
                                .cols = cols,
                                .hyper = KERNEL_SOAP_DEFAULTS,
                                .step = 1,
                                .grad_scale = 1,
                                .update = update};
}

/* As the plan counts it: 2mn + 2m^2 + m + 2n^2 + n. */
START_TEST(state_counts_moments_and_two_squares_a_side)
{
    struct kernel_soap_hyper h = KERNEL_SOAP_DEFAULTS;

    ck_assert_uint_eq(kernel_soap_state(3, 5, &h), 2 * 15 + 2 * 9 + 3 + 2 * 25 + 5);
    h.max_dim = 4;
    ck_assert_uint_eq(kernel_soap_state(3, 5, &h), 2 * 15 + 2 * 9 + 3);
}
END_TEST

/* Sides that keep their axes leave Adam. */
START_TEST(without_bases_it_is_adam)
{
    enum { R = 4, C = 6, N = R * C };
    uint64_t s = 2;
    float update[N], state[2 * N] = {0}, p[N] = {0}, m[N] = {0}, v[N] = {0};
    struct kernel_soap a = soap_of(R, C, update);
    struct kernel_on on = {0};

    a.hyper.max_dim = 3;
    a.hyper.skip_first = false;
    a.hyper.eps = 0;
    a.state = state;
    for (; a.step <= 3; a.step++) {
        float *g = random_array(&s, DTYPE_FP32, N, -1, 1, NULL);
        struct kernel_adamw b = {.n = N,
                                 .step = a.step,
                                 .lr = 1,
                                 .beta1 = a.hyper.beta1,
                                 .beta2 = a.hyper.beta2,
                                 .grad_scale = 1,
                                 .grad = g,
                                 .param = p,
                                 .m = m,
                                 .v = v};

        memset(p, 0, sizeof(p));
        kernel_adamw(&on, &b);
        a.grad = g;
        run(&a, 0xff);
        for (int i = 0; i < N; i++)
            ck_assert_float_eq_tol(update[i], -p[i], 1e-5f);
        mem_free(g);
    }
}
END_TEST

/* A diagonal gradient has the axes as eigenvectors: signs on the diagonal in the first step, zeros beside it. */
START_TEST(a_diagonal_gradient_steps_by_its_signs)
{
    float g[9] = {1, 0, 0, 0, -2, 0, 0, 0, 4}, update[9], state[2 * 9 + 2 * (2 * 9 + 3)] = {0};
    struct kernel_soap a = soap_of(3, 3, update);

    a.hyper.skip_first = false;
    a.grad = g;
    a.state = state;
    run(&a, 0xff);
    for (int i = 0; i < 9; i++)
        ck_assert_float_eq_tol(update[i], g[i] > 0 ? 1 : g[i] < 0 ? -1 : 0, 1e-5f);
}
END_TEST

static void steps(enum dtype d, bool zero, int n_steps, int scribble, float *update)
{
    enum { R = 5, C = 6, N = R * C };
    uint64_t s = 4;
    struct kernel_soap a = soap_of(R, C, update);

    a.grad_type = a.state_type = d;
    a.hyper.frequency = 2;
    a.state = mem_alloc(kernel_soap_state(R, C, &a.hyper), dtype_bytes(d, 1));
    for (; a.step <= (uint64_t)n_steps; a.step++) {
        double u = rng_in(&s, 0.5, 1), edge = zero ? 0 : 1;
        void *g = random_array(&s, d, N, -edge, edge, NULL);

        a.grad_scale = (float)u;
        if (a.step % 2 == 0) /* of rank one */
            for (size_t i = C; i < N; i++)
                memcpy((char *)g + i * dtype_bytes(d, 1), (char *)g + i % C * dtype_bytes(d, 1),
                       dtype_bytes(d, 1));
        a.grad = g;
        run(&a, scribble);
        mem_free(g);
    }
    mem_free(a.state);
}

START_TEST(the_first_step_is_skipped_when_asked)
{
    float update[30];

    steps(DTYPE_FP32, false, 1, 0xff, update);
    for (int i = 0; i < 30; i++)
        ck_assert(update[i] == 0);
    steps(DTYPE_FP32, false, 2, 0xff, update);
    ck_assert(update[0] != 0);
}
END_TEST

START_TEST(low_rank_and_zero_gradients_stay_finite)
{
    float update[30];

    for (int i = 0; i < 9; i++)
        for (int zero = 0; zero < 2; zero++) {
            steps(trial_type(i), zero, 1 + i, 0xff, update);
            for (int k = 0; k < 30; k++)
                MUST(zero ? update[k] == 0 : isfinite(update[k]), "after %d steps: %g", 1 + i,
                     update[k]);
        }
}
END_TEST

START_TEST(same_bytes_over_any_workspace)
{
    float a[30], b[30];

    steps(DTYPE_FP32, false, 7, 0xff, a);
    steps(DTYPE_FP32, false, 7, 0x3c, b);
    ck_assert_mem_eq(a, b, sizeof(a));
}
END_TEST

SUITE_MAIN("kernels/soap", state_counts_moments_and_two_squares_a_side, without_bases_it_is_adam,
           a_diagonal_gradient_steps_by_its_signs, the_first_step_is_skipped_when_asked,
           low_rank_and_zero_gradients_stay_finite, same_bytes_over_any_workspace)
