/* kernels/cuda_symmetric.cu against kernels/symmetric.c, by the tensor cores that tests/cuda/emulate_mma.h describes. */
#include "tests/cuda/both.h"

#include "kernels/optimizer.h"

struct shape {
    size_t n, k;
    bool transposed, add;
};

/* Small integers: sums are exact, and so is the result, whatever the order; else random values. */
static size_t make(struct both *b, size_t n, bool integers, bool symmetric, size_t side)
{
    float *x = MEM_NEW(float, n);
    uint16_t *p = MEM_NEW(uint16_t, n);
    size_t i;

    for (size_t k = 0; k < n; k++)
        x[k] = integers ? (float)rng_size(&b->seed, 0, 6) - 3 : (float)rng_in(&b->seed, -1, 1);
    for (size_t k = 0; k < n && symmetric; k++)
        x[k] = x[k / side > k % side ? k : k % side * side + k / side];
    dtype_store(DTYPE_BF16, x, p, n);
    i = both_make(b, BOTH_IN, DTYPE_BF16, n, p);
    mem_free(x);
    mem_free(p);
    return i;
}

static void multiply(struct way w, struct shape s, bool integers)
{
    struct both b;
    size_t x, add, c;
    const uint16_t *got;

    both_begin(&b, w, DTYPE_BF16);
    x = make(&b, s.n * s.k, integers, false, 1);
    add = make(&b, s.n * s.n, integers, true, s.n);
    c = both_out(&b, DTYPE_BF16, s.n * s.n);
    BOTH(&b, symmetric, kernel_symmetric, .n = s.n, .k = s.k, .transposed = s.transposed,
         .alpha = s.add ? 2 : 1, .beta = s.add ? -3 : 0, .x = P(x), .add = s.add ? P(add) : NULL,
         .c = P(c));
    got = b.array[c].p[1];
    for (size_t i = 0; i < s.n; i++)
        for (size_t j = 0; j < i; j++)
            MUST(got[i * s.n + j] == got[j * s.n + i], "(%zu,%zu) is not (%zu,%zu)", i, j, j, i);
    if (integers)
        MUST(!memcmp(got, b.array[c].p[0], b.array[c].bytes), "(%zu,%zu): not exact", s.n, s.k);
    both_end(&b, 40);
}

static const struct shape shapes[] = {
    {1, 1, false, false},    {5, 3, true, true},     {40, 16, false, true}, {64, 64, true, false},
    {128, 40, false, false}, {129, 33, false, true}, {130, 72, true, true}, {200, 65, true, false},
    {300, 96, false, true},  {264, 32, true, false},
};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

START_TEST(products_of_integers_are_exact)
{
    for (size_t w = 0; w < BOTH_WAYS; w++)
        for (int k = 0; k < N_SHAPES; k++)
            multiply(both_ways[w], shapes[k], true);
}
END_TEST

START_TEST(products_are_the_cpus)
{
    for (int k = 0; k < N_SHAPES; k++)
        multiply(both_ways[k % BOTH_WAYS], shapes[k], false);
}
END_TEST

/* A A of a symmetric A is what Newton-Schulz wants: x is A. */
START_TEST(square_of_a_symmetric_matrix)
{
    enum { N = 136 };
    struct both b;
    size_t a, c;
    float x[2];
    double want = 0;

    both_begin(&b, both_ways[1], DTYPE_BF16);
    a = make(&b, N * N, true, true, N);
    c = both_out(&b, DTYPE_BF16, N * N);
    BOTH(&b, symmetric, kernel_symmetric, .n = N, .k = N, .alpha = 1, .x = P(a), .c = P(c));
    for (size_t k = 0; k < N; k++)
        want += (double)value_at(DTYPE_BF16, b.array[a].p[1], 131 * N + k) *
                (double)value_at(DTYPE_BF16, b.array[a].p[1], k * N + 7);
    x[0] = (float)want;
    dtype_store(DTYPE_BF16, x, x + 1, 1);
    ck_assert(value_at(DTYPE_BF16, x + 1, 0) == value_at(DTYPE_BF16, b.array[c].p[1], 131 * N + 7));
    both_end(&b, 0);
}
END_TEST

SUITE_MAIN("cuda/symmetric", products_of_integers_are_exact, products_are_the_cpus,
           square_of_a_symmetric_matrix)
