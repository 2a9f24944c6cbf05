#include "kernels/optimizer.h"
#include "tests/kernels/trial.h"

/* Numbers of an independent implementation are in test_optimizer_golden.c. */

static void run(struct kernel_shampoo *a, int scribble)
{
    size_t bytes = kernel_shampoo_workspace(a->rows, a->cols, &a->hyper);
    struct kernel_on on = {
        .gemm = &kernel_gemm_reference, .workspace = mem_alloc(bytes, 1), .workspace_bytes = bytes};

    memset(on.workspace, scribble, bytes);
    kernel_shampoo(&on, a);
    mem_free(on.workspace);
}

/* As the plan counts it: 2mn, and 2 (r^2 + c^2) a block of r x c. */
START_TEST(state_counts_moments_and_four_squares_a_block)
{
    struct kernel_shampoo_hyper h = KERNEL_SHAMPOO_DEFAULTS;

    ck_assert_uint_eq(kernel_shampoo_state(3, 5, &h), 2 * 15 + 2 * (9 + 25));
    h.max_dim = 3; /* 3x3 and 3x2 */
    ck_assert_uint_eq(kernel_shampoo_state(3, 5, &h), 2 * 15 + 2 * (9 + 9) + 2 * (9 + 4));
    ck_assert_uint_eq(kernel_shampoo_state(7, 3, &h), 2 * 21 + 2 * 2 * (9 + 9) + 2 * (1 + 9));
}
END_TEST

/* 1 x 1, first step: L = R = g^2, so L^(-1/4) g R^(-1/4) = sign(g); Adam's step has size 1 too. */
START_TEST(a_scalar_steps_by_its_sign)
{
    for (int graft = 0; graft < 2; graft++) {
        float g = -3, state[6] = {0}, update;
        struct kernel_shampoo a = {.rows = 1,
                                   .cols = 1,
                                   .hyper = KERNEL_SHAMPOO_DEFAULTS,
                                   .step = 1,
                                   .grad_scale = 0.5f,
                                   .grad = &g,
                                   .state = state,
                                   .update = &update};

        a.hyper.graft = graft;
        run(&a, 0xff);
        ck_assert_float_eq_tol(update, -1, 1e-5f);
    }
}
END_TEST

/* Blocks do not see each other: each is the matrix of its own. */
START_TEST(blocks_are_matrices_of_their_own)
{
    enum { R = 5, C = 7, MAX = 4 };
    uint64_t s = 3;
    float *g = random_array(&s, DTYPE_FP32, R * C, -1, 1, NULL), update[R * C];
    struct kernel_shampoo a = {.rows = R,
                               .cols = C,
                               .hyper = KERNEL_SHAMPOO_DEFAULTS,
                               .step = 1,
                               .grad_scale = 1,
                               .grad = g,
                               .update = update};

    a.hyper.max_dim = MAX;
    a.state = MEM_NEW(float, kernel_shampoo_state(R, C, &a.hyper));
    run(&a, 0xff);
    for (size_t r = 0; r < R; r += MAX)
        for (size_t c = 0; c < C; c += MAX) {
            size_t nr = r + MAX < R ? MAX : R - r, nc = c + MAX < C ? MAX : C - c;
            float part[MAX * MAX], out[MAX * MAX];
            struct kernel_shampoo b = a;

            b.rows = nr;
            b.cols = nc;
            b.grad = part;
            b.update = out;
            b.state = MEM_NEW(float, kernel_shampoo_state(nr, nc, &b.hyper));
            for (size_t i = 0; i < nr * nc; i++)
                part[i] = g[(r + i / nc) * C + c + i % nc];
            run(&b, 0x3c);
            for (size_t i = 0; i < nr * nc; i++)
                ck_assert(out[i] == update[(r + i / nc) * C + c + i % nc]);
            mem_free(b.state);
        }
    mem_free(a.state);
    mem_free(g);
}
END_TEST

static void steps(enum dtype d, size_t rows, size_t cols, size_t rank, int n_steps, int scribble,
                  float *update)
{
    uint64_t s = 11;
    struct kernel_shampoo a = {.rows = rows,
                               .cols = cols,
                               .hyper = KERNEL_SHAMPOO_DEFAULTS,
                               .grad_type = d,
                               .state_type = d,
                               .grad_scale = 1,
                               .update = update};

    a.hyper.frequency = 2;
    a.state = mem_alloc(kernel_shampoo_state(rows, cols, &a.hyper), dtype_bytes(d, 1));
    for (a.step = 1; a.step <= (uint64_t)n_steps; a.step++) {
        float *u = random_array(&s, DTYPE_FP32, rows, -1, 1, NULL);
        float *v = random_array(&s, DTYPE_FP32, cols, -1, 1, NULL), *g = MEM_NEW(float, rows *cols);
        void *grad = mem_alloc(rows * cols, dtype_bytes(d, 1));

        for (size_t i = 0; rank && i < rows * cols; i++)
            g[i] = u[i / cols] * v[i % cols] + (rank > 1 && i % cols == i / cols);
        dtype_store(d, g, grad, rows * cols);
        a.grad = grad;
        run(&a, scribble);
        mem_free(u);
        mem_free(v);
        mem_free(g);
        mem_free(grad);
    }
    mem_free(a.state);
}

START_TEST(low_rank_and_zero_gradients_stay_finite)
{
    float update[42];

    for (int i = 0; i < 6; i++)
        for (size_t rank = 0; rank < 2; rank++) {
            steps(trial_type(i), 6, 7, rank, 1 + i, 0xff, update);
            for (int k = 0; k < 42; k++)
                MUST(rank ? isfinite(update[k]) : update[k] == 0, "rank %zu after %d steps: %g",
                     rank, 1 + i, update[k]);
        }
}
END_TEST

START_TEST(same_bytes_over_any_workspace_and_near_with_bf16_states)
{
    float a[25], b[25], c[25];

    steps(DTYPE_FP32, 5, 5, 5, 4, 0xff, a);
    steps(DTYPE_FP32, 5, 5, 5, 4, 0x3c, b);
    steps(DTYPE_BF16, 5, 5, 5, 4, 0xff, c);
    ck_assert_mem_eq(a, b, sizeof(a));
    for (int i = 0; i < 25; i++)
        MUST(fabsf(a[i] - c[i]) < 0.1f, "[%d]: %g with bf16, %g with fp32", i, c[i], a[i]);
}
END_TEST

SUITE_MAIN("kernels/shampoo", state_counts_moments_and_four_squares_a_block,
           a_scalar_steps_by_its_sign, blocks_are_matrices_of_their_own,
           low_rank_and_zero_gradients_stay_finite,
           same_bytes_over_any_workspace_and_near_with_bf16_states)
