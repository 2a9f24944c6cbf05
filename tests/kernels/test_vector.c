#include "tests/kernels/trial.h"

static const struct kernel_on on;

static bool near(enum dtype d, double got, double want)
{
    return fabs(got - want) <= half_ulp(d) * fabs(want) + 1e-7;
}

START_TEST(sums_scale_and_axpy_round_once)
{
    FOR_TRIALS(i, 4)
    {
        enum dtype d = trial_type(i), d2 = trial_type(i / 3);
        uint64_t s = (uint64_t)i;
        size_t n = rng_size(&s, 1, 1100);
        double *x = MEM_NEW(double, n), *y = MEM_NEW(double, n), norm = 0;
        void *px = random_array(&s, d, n, -1, 1, x), *py = random_array(&s, d2, n, -1, 1, y);
        void *out = random_array(&s, d, n, -1, 1, NULL);
        struct kernel_sum sum = {.n = n, .type = d, .x = px, .y = px, .out = out};
        struct kernel_scale by = {.n = n, .type = d, .alpha = -0.3f, .x = out};
        struct kernel_axpy add = {
            .n = n, .x_type = d, .y_type = d2, .alpha = 1.5f, .x = px, .y = py};
        struct kernel_normalize unit = {.n = n, .type = d, .eps = 1e-9f, .x = px};

        kernel_sum(&on, &sum);
        for (size_t k = 0; k < n; k++)
            MUST(value_at(d, out, k) == (float)(2 * x[k]), "sum, seed %d", i);
        kernel_scale(&on, &by);
        for (size_t k = 0; k < n; k++)
            MUST(near(d, value_at(d, out, k), -0.3f * 2 * x[k]), "scale, seed %d", i);
        kernel_axpy(&on, &add);
        for (size_t k = 0; k < n; k++)
            MUST(near(d2, value_at(d2, py, k), y[k] + 1.5 * x[k]), "axpy, seed %d", i);
        for (size_t k = 0; k < n; k++)
            norm += x[k] * x[k];
        ck_assert_double_eq_tol(kernel_norm2(&on, d, px, n), norm, 1e-9 * norm);
        kernel_normalize(&on, &unit);
        for (size_t k = 0; k < n; k++)
            MUST(near(d, value_at(d, px, k), x[k] / sqrt(norm)), "normalize, seed %d", i);
        mem_free(x);
        mem_free(y);
        mem_free(px);
        mem_free(py);
        mem_free(out);
    }
}
END_TEST

/* A ring sums into one of its operands. */
START_TEST(a_sum_may_lie_on_an_operand)
{
    FOR_TRIALS(i, 2)
    {
        enum dtype d = trial_type(i);
        uint64_t s = (uint64_t)i;
        size_t n = 1025;
        void *x = random_array(&s, d, n, -1, 1, NULL), *y = random_array(&s, d, n, -1, 1, NULL);
        void *out = random_array(&s, d, n, -1, 1, NULL);
        struct kernel_sum sum = {.n = n, .type = d, .x = x, .y = y, .out = out};

        kernel_sum(&on, &sum);
        sum.out = i < 3 ? x : y;
        kernel_sum(&on, &sum);
        ck_assert_mem_eq(out, i < 3 ? x : y, n * dtype_bytes(d, 1));
        mem_free(x);
        mem_free(y);
        mem_free(out);
    }
}
END_TEST

START_TEST(a_cast_there_and_back_keeps_what_the_smaller_type_can_say)
{
    uint64_t s = 8;
    size_t n = 700;
    void *x = random_array(&s, DTYPE_BF16, n, -9, 9, NULL), *back = mem_alloc(n, 2);
    float *wide = MEM_NEW(float, n);
    struct kernel_cast out = {
        .n = n, .x_type = DTYPE_BF16, .y_type = DTYPE_FP32, .x = x, .y = wide};
    struct kernel_cast in = {
        .n = n, .x_type = DTYPE_FP32, .y_type = DTYPE_BF16, .x = wide, .y = back};

    kernel_cast(&on, &out);
    kernel_cast(&on, &in);
    ck_assert_mem_eq(x, back, n * 2);
    mem_free(x);
    mem_free(back);
    mem_free(wide);
}
END_TEST

SUITE_MAIN("kernels/vector", sums_scale_and_axpy_round_once, a_sum_may_lie_on_an_operand,
           a_cast_there_and_back_keeps_what_the_smaller_type_can_say)
