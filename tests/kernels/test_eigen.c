#include "kernels/eigen.h"
#include "tests/kernels/trial.h"

static void *room_for(size_t n)
{
    void *room = mem_alloc(kernel_eigen_workspace(n), 1);

    memset(room, 0xff, kernel_eigen_workspace(n));
    return room;
}

/* Largest element of |q^T q - 1|. */
static double skew(const float *q, size_t n)
{
    double worst = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = i == j ? -1 : 0;

            for (size_t k = 0; k < n; k++)
                sum += (double)q[k * n + i] * (double)q[k * n + j];
            worst = fmax(worst, fabs(sum));
        }
    return worst;
}

/* a = c^T c of rank `rank`, or any symmetric matrix. */
static float *symmetric(uint64_t *s, size_t n, size_t rank)
{
    float *c = random_array(s, DTYPE_FP32, (rank + 1) * n, -1, 1, NULL), *a = MEM_NEW(float, n *n);

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            for (size_t k = 0; k < rank; k++)
                a[i * n + j] += c[k * n + i] * c[k * n + j] * (rank == n && k % 2 ? -1 : 1);
    mem_free(c);
    return a;
}

static void decomposes(const float *a, size_t n, int seed)
{
    float *values = MEM_NEW(float, n), *q = MEM_NEW(float, n *n);
    void *room = room_for(n);
    double top = 0;

    kernel_eigen(n, a, values, q, room);
    for (size_t i = 0; i < n * n; i++)
        top = fmax(top, fabs((double)a[i]));
    MUST(skew(q, n) < 1e-6, "n = %zu: off by %g, seed %d", n, skew(q, n), seed);
    for (size_t i = 0; i < n; i++) {
        MUST(!i || values[i] <= values[i - 1], "n = %zu: values ascend, seed %d", n, seed);
        for (size_t j = 0; j < n; j++) {
            double sum = 0;

            for (size_t k = 0; k < n; k++)
                sum += (double)q[i * n + k] * (double)values[k] * (double)q[j * n + k];
            MUST(fabs(sum - (double)a[i * n + j]) <= 1e-6 * (double)n * top,
                 "n = %zu [%zu,%zu]: %g, expected %g, seed %d", n, i, j, sum, (double)a[i * n + j],
                 seed);
        }
    }
    mem_free(values);
    mem_free(q);
    mem_free(room);
}

START_TEST(vectors_and_values_give_the_matrix_back)
{
    for (int i = 0; i < 40; i++) {
        uint64_t s = (uint64_t)i;
        size_t n = rng_size(&s, 1, i % 10 ? 20 : 90), rank = i % 3 ? rng_size(&s, 0, n) : n;
        float *a = symmetric(&s, n, rank);

        decomposes(a, n, i);
        mem_free(a);
    }
}
END_TEST

/* Ones: n and 0. The second difference: 2 - 2 cos(k pi / (n+1)). */
START_TEST(known_spectra)
{
    enum { N = 12 };
    float ones[N * N], diff[N * N] = {0}, values[N], q[N * N];
    void *room = room_for(N);

    for (int i = 0; i < N * N; i++)
        ones[i] = 1;
    for (int i = 0; i < N; i++) {
        diff[i * N + i] = 2;
        if (i)
            diff[i * N + i - 1] = diff[(i - 1) * N + i] = -1;
    }
    kernel_eigen(N, ones, values, q, room);
    ck_assert_float_eq_tol(values[0], N, 1e-5f);
    for (int i = 1; i < N; i++)
        ck_assert_float_eq_tol(values[i], 0, 1e-5f);
    kernel_eigen(N, diff, values, q, room);
    for (int k = 1; k <= N; k++)
        ck_assert_float_eq_tol(values[N - k], 2 - 2 * cosf((float)k * (float)M_PI / (N + 1)),
                               1e-5f);
    mem_free(room);
}
END_TEST

START_TEST(diagonal_zero_and_wide_ranges)
{
    float a[9] = {1e-20f, 0, 0, 0, 1e20f, 0, 0, 0, 3}, zero[9] = {0}, values[3], q[9];
    void *room = room_for(3);

    kernel_eigen(3, a, values, q, room);
    ck_assert(values[0] == 1e20f && values[1] == 3 && values[2] == 1e-20f);
    kernel_eigen(3, zero, values, q, room);
    ck_assert(values[0] == 0 && values[2] == 0 && skew(q, 3) == 0);
    a[5] = INFINITY;
    kernel_eigen(3, a, values, q, room);
    ck_assert(isnan(values[0]) && isnan(q[8]));
    mem_free(room);
}
END_TEST

/* Q is orthogonal whatever a is, and Q^T a is upper triangular. */
START_TEST(qr_is_orthogonal_also_of_singular_matrices)
{
    for (int i = 0; i < 30; i++) {
        uint64_t s = (uint64_t)i;
        size_t n = rng_size(&s, 1, 25);
        float *a = random_array(&s, DTYPE_FP32, n * n, -1, 1, NULL), *q = MEM_NEW(float, n *n);
        void *room = room_for(n);

        for (size_t k = 0; k < n * n; k++)
            if (i % 3 == 1 && k % n > n / 2)
                a[k] = 0; /* zero columns */
            else if (i % 3 == 2 && k % n > 1)
                a[k] = a[k - 2]; /* equal columns */
        memcpy(q, a, n * n * sizeof(*a));
        kernel_qr(n, q, room);
        MUST(skew(q, n) < 1e-6, "n = %zu: off by %g, seed %d", n, skew(q, n), i);
        for (size_t r = 1; r < n; r++)
            for (size_t c = 0; c < r; c++) {
                double sum = 0;

                for (size_t k = 0; k < n; k++)
                    sum += (double)q[k * n + r] * (double)a[k * n + c];
                MUST(fabs(sum) < 1e-5, "n = %zu: R[%zu,%zu] is %g, seed %d", n, r, c, sum, i);
            }
        mem_free(a);
        mem_free(q);
        mem_free(room);
    }
}
END_TEST

SUITE_MAIN("kernels/eigen", vectors_and_values_give_the_matrix_back, known_spectra,
           diagonal_zero_and_wide_ranges, qr_is_orthogonal_also_of_singular_matrices)
