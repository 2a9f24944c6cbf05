#include "kernels/eigen.h"
#include "kernels/optimizer.h"
#include "tests/kernels/trial.h"

static void run(struct kernel_newton_schulz *a, int scribble)
{
    size_t bytes = kernel_newton_schulz_workspace(a->rows, a->cols);
    struct kernel_on on = {
        .gemm = &kernel_gemm_reference, .workspace = mem_alloc(bytes, 1), .workspace_bytes = bytes};

    memset(on.workspace, scribble, bytes);
    kernel_newton_schulz(&on, a);
    mem_free(on.workspace);
}

/* rank < min: a product of two thin factors */
static float *matrix(uint64_t *s, size_t rows, size_t cols, size_t rank)
{
    float *u = random_array(s, DTYPE_FP32, rows * rank, -1, 1, NULL);
    float *v = random_array(s, DTYPE_FP32, rank * cols, -1, 1, NULL);
    float *x = MEM_NEW(float, rows *cols + 1);

    if (rank)
        kernel_gemm_reference.fn(NULL, false, false, rows, cols, rank, 1, u, rank, v, cols, 0, x,
                                 cols);
    mem_free(u);
    mem_free(v);
    return x;
}

/* Singular values of x, descending, by the eigenvalues of its Gram matrix. */
static void singular(const float *x, size_t rows, size_t cols, float *values)
{
    float *g = MEM_NEW(float, cols *cols), *q = MEM_NEW(float, cols *cols);
    void *room = mem_alloc(kernel_eigen_workspace(cols), 1);

    kernel_gemm_reference.fn(NULL, true, false, cols, cols, rows, 1, x, cols, x, cols, 0, g, cols);
    kernel_eigen(cols, g, values, q, room);
    for (size_t i = 0; i < cols; i++)
        values[i] = sqrtf(fmaxf(values[i], 0));
    mem_free(g);
    mem_free(q);
    mem_free(room);
}

/* What the quintic promises: five steps bring all but the smallest singular values between 0.67 and 1.21. */
START_TEST(singular_values_come_close_to_one)
{
    for (int i = 0; i < 12; i++) {
        uint64_t s = (uint64_t)i;
        size_t rows = rng_size(&s, 8, 40), cols = rng_size(&s, 2, 6);
        struct kernel_newton_schulz a = {rows, cols, KERNEL_NS_DEFAULTS, NULL, NULL};
        float values[6];

        a.x = random_array(&s, DTYPE_FP32, rows * cols, -1, 1, NULL);
        a.hyper.form = i % 2 ? KERNEL_NS_GRAM : KERNEL_NS_STANDARD;
        run(&a, 0xff);
        singular(a.x, rows, cols, values);
        MUST(values[0] < 1.21f && values[cols - 1] > 0.67f, "%g .. %g, seed %d", values[0],
             values[cols - 1], i);
        mem_free(a.x);
    }
}
END_TEST

/* Standard and Gram are one polynomial; also for matrices larger than a GEMM block, and of low rank. */
START_TEST(the_two_forms_agree)
{
    static const size_t shapes[][3] = {{1, 1, 1},   {1, 9, 1},   {9, 1, 1},     {30, 30, 30},
                                       {17, 80, 4}, {80, 17, 4}, {70, 270, 70}, {5, 5, 0}};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        for (uint32_t steps = 0; steps <= 6; steps += 2) {
            uint64_t s = i;
            size_t n = shapes[i][0] * shapes[i][1];
            float *x = matrix(&s, shapes[i][0], shapes[i][1], shapes[i][2]);
            struct kernel_newton_schulz a = {shapes[i][0], shapes[i][1], KERNEL_NS_DEFAULTS, x,
                                             NULL};
            struct kernel_newton_schulz b = a;
            double err = 0, norm = 0;

            b.x = MEM_NEW(float, n);
            memcpy(b.x, x, n * sizeof(*x));
            a.hyper.steps = b.hyper.steps = steps;
            b.hyper.form = KERNEL_NS_GRAM;
            b.hyper.restart = i % 2 ? 3 : 0;
            run(&a, 0xff);
            run(&b, 0x3c);
            for (size_t k = 0; k < n; k++) {
                MUST(isfinite(a.x[k]) && isfinite(b.x[k]), "%zux%zu", a.rows, a.cols);
                err += pow((double)a.x[k] - (double)b.x[k], 2);
                norm += pow((double)a.x[k], 2);
            }
            MUST(err <= 1e-6 * norm, "%zux%zu of rank %zu, %u steps: they differ by %.2g",
                 shapes[i][0], shapes[i][1], shapes[i][2], steps, sqrt(err / norm));
            mem_free(a.x);
            mem_free(b.x);
        }
}
END_TEST

START_TEST(scale_and_transposition_of_the_input_do_not_matter)
{
    enum { R = 7, C = 12 };
    uint64_t s = 5;
    float *x = random_array(&s, DTYPE_FP32, R * C, -1, 1, NULL), t[C * R], big[R * C];
    struct kernel_newton_schulz a = {R, C, KERNEL_NS_DEFAULTS, x, NULL}, b = a, c = a;

    b.rows = C;
    b.cols = R;
    b.x = t;
    c.x = big;
    for (int i = 0; i < R; i++)
        for (int j = 0; j < C; j++) {
            t[j * R + i] = x[i * C + j];
            big[i * C + j] = 1e15f * x[i * C + j];
        }
    run(&a, 0);
    run(&b, 0xff);
    run(&c, 0xff);
    for (int i = 0; i < R; i++)
        for (int j = 0; j < C; j++) {
            ck_assert_float_eq_tol(t[j * R + i], x[i * C + j], 1e-5f);
            ck_assert_float_eq_tol(big[i * C + j], x[i * C + j], 1e-5f);
        }
    mem_free(x);
}
END_TEST

START_TEST(a_zero_matrix_stays_zero_and_a_tiny_one_small)
{
    for (int form = 0; form < 2; form++) {
        float x[6] = {0}, y[6] = {1e-20f, 0, 0, 0, 0, 0};
        struct kernel_newton_schulz a = {2, 3, KERNEL_NS_DEFAULTS, x, NULL};

        a.hyper.form = (enum kernel_ns_form)form;
        run(&a, 0xff);
        a.x = y;
        run(&a, 0xff);
        for (int i = 0; i < 6; i++) {
            ck_assert(x[i] == 0);
            ck_assert(fabsf(y[i]) < 1e-9f); /* below eps it is not blown up to 1 */
        }
    }
}
END_TEST

/* Workspaces of nothing but NaN and of numbers: the same bytes. */
START_TEST(a_step_is_a_function_of_its_input)
{
    enum { R = 33, C = 65 };

    for (int form = 0; form < 2; form++) {
        uint64_t s = 9, s2 = 9;
        float *x = random_array(&s, DTYPE_FP32, R * C, -1, 1, NULL);
        float *y = random_array(&s2, DTYPE_FP32, R * C, -1, 1, NULL);
        struct kernel_newton_schulz a = {R, C, KERNEL_NS_DEFAULTS, x, NULL}, b = a;

        a.hyper.form = b.hyper.form = (enum kernel_ns_form)form;
        b.x = y;
        run(&a, 0xff);
        run(&b, 0x3c);
        ck_assert_mem_eq(x, y, R * C * sizeof(*x));
        mem_free(x);
        mem_free(y);
    }
}
END_TEST

START_TEST(scalings_by_hand)
{
    ck_assert_float_eq_tol(kernel_muon_scale(KERNEL_MUON_SPECTRAL, 400, 100), 2, 1e-6f);
    ck_assert_float_eq_tol(kernel_muon_scale(KERNEL_MUON_SPECTRAL, 100, 400), 1, 1e-6f);
    ck_assert_float_eq_tol(kernel_muon_scale(KERNEL_MUON_RMS, 100, 400), 4, 1e-6f);
    ck_assert_float_eq_tol(kernel_muon_scale(KERNEL_MUON_RMS, 400, 100), 4, 1e-6f);
}
END_TEST

SUITE_MAIN("kernels/newton_schulz", singular_values_come_close_to_one, the_two_forms_agree,
           scale_and_transposition_of_the_input_do_not_matter,
           a_zero_matrix_stays_zero_and_a_tiny_one_small, a_step_is_a_function_of_its_input,
           scalings_by_hand)
