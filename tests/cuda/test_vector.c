/* kernels/cuda_vector.cu against kernels/vector.c. */
#include "tests/cuda/both.h"

static const size_t sizes[] = {1, 7, 8, 513, 9001};
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

#define EVERY_SIZE(n)                                                                              \
    for (size_t k_ = 0; k_ < N_SIZES; k_++)                                                        \
        for (size_t n = sizes[k_], *only_ = &n; only_; only_ = NULL)

/* All 65,536 halves, and floats of all kinds to halves. */
START_TEST(conversions_are_those_of_the_core)
{
    enum { N = 1 << 16 };
    uint16_t *halves = MEM_NEW(uint16_t, N);
    uint32_t *words = MEM_NEW(uint32_t, N);
    uint64_t seed = 5;

    for (size_t i = 0; i < N; i++) {
        halves[i] = (uint16_t)i;
        words[i] = (uint32_t)rng_u64(&seed);
        if (i % 4 == 0) /* near ties of bf16 and of fp16, and subnormals of the latter */
            words[i] = (words[i] & 0xffff0000u) | 0x7fffu | (words[i] & 0x8000u);
        else if (i % 4 == 1)
            words[i] = (words[i] & 0xffffe000u) | 0x1000u;
        else if (i % 4 == 2)
            words[i] = (words[i] & 0x83ffffffu) | 0x30000000u | (words[i] & 0x0c000000u);
    }
    for (int h = 1; h < 3; h++) {
        float *wide = MEM_NEW(float, N), *want = MEM_NEW(float, N);
        uint16_t *narrow = MEM_NEW(uint16_t, N), *expected = MEM_NEW(uint16_t, N);
        const struct kernel_on on = {.act = DTYPE_FP32};
        struct kernel_cast up = {
            .n = N, .x_type = both_types[h], .y_type = DTYPE_FP32, .x = halves, .y = wide};
        struct kernel_cast down = {
            .n = N, .x_type = DTYPE_FP32, .y_type = both_types[h], .x = words, .y = narrow};

        emulate_reset(1, 0);
        cuda_cast(&on, &up);
        cuda_cast(&on, &down);
        dtype_load(both_types[h], halves, want, N);
        dtype_store(both_types[h], (const float *)(const void *)words, expected, N);
        ck_assert(!memcmp(wide, want, N * sizeof(*wide)));
        for (size_t i = 0; i < N; i++)
            MUST(narrow[i] == expected[i], "%08x becomes %04x, expected %04x (%s)", words[i],
                 narrow[i], expected[i], dtype_name(both_types[h]));
        mem_free(wide);
        mem_free(want);
        mem_free(narrow);
        mem_free(expected);
    }
    mem_free(halves);
    mem_free(words);
}
END_TEST

START_TEST(cast_is_the_cpus)
{
    EVERY_WAY(w, d)
    EVERY_SIZE(n)
    for (int to = 0; to < 3; to++) {
        struct both b;
        size_t x, y;

        both_begin(&b, w, d);
        x = both_in(&b, d, n, -3, 3);
        y = both_out(&b, both_types[to], n);
        BOTH(&b, cast, kernel_cast, .n = n, .x_type = d, .y_type = both_types[to], .x = P(x),
             .y = P(y));
        both_end(&b, 0);
    }
}
END_TEST

START_TEST(scale_is_the_cpus)
{
    EVERY_WAY(w, d) EVERY_SIZE(n)
    {
        struct both b;
        size_t x;

        both_begin(&b, w, d);
        x = both_changed(&b, d, n, -3, 3);
        BOTH(&b, scale, kernel_scale, .n = n, .type = d, .alpha = 0.7f, .x = P(x));
        both_end(&b, 0);
    }
}
END_TEST

START_TEST(normalize_is_the_cpus)
{
    EVERY_WAY(w, d) EVERY_SIZE(n)
    {
        struct both b;
        size_t x;

        both_begin(&b, w, d);
        x = both_changed(&b, d, n, -3, 3);
        BOTH(&b, normalize, kernel_normalize, .n = n, .type = d, .eps = 1e-7f, .x = P(x));
        both_end(&b, 2);
    }
}
END_TEST

START_TEST(normalize_of_zeros_is_zero)
{
    struct both b;
    size_t x;

    both_begin(&b, both_ways[1], DTYPE_FP32);
    x = both_changed(&b, DTYPE_FP32, 100, 0, 0);
    BOTH(&b, normalize, kernel_normalize, .n = 100, .type = DTYPE_FP32, .eps = 1e-7f, .x = P(x));
    both_end(&b, 0);
}
END_TEST

START_TEST(diagonal_is_the_cpus)
{
    static const size_t sides[] = {1, 7, 300};

    EVERY_WAY(w, d)
    for (int k = 0; k < 3; k++) {
        struct both b;
        size_t x;

        both_begin(&b, w, d);
        x = both_changed(&b, d, sides[k] * sides[k], -3, 3);
        BOTH(&b, diagonal, kernel_diagonal, .n = sides[k], .type = d, .alpha = 0.75f, .x = P(x));
        both_end(&b, 0);
    }
}
END_TEST

START_TEST(axpy_is_the_cpus)
{
    EVERY_WAY(w, d)
    EVERY_SIZE(n)
    for (int to = 0; to < 3; to++) {
        struct both b;
        size_t x, y;

        both_begin(&b, w, d);
        x = both_in(&b, d, n, -3, 3);
        y = both_changed(&b, both_types[to], n, -3, 3);
        BOTH(&b, axpy, kernel_axpy, .n = n, .x_type = d, .y_type = both_types[to], .alpha = -1.5f,
             .x = P(x), .y = P(y));
        both_end(&b, 1);
    }
}
END_TEST

START_TEST(sum_is_the_cpus_in_place_too)
{
    EVERY_WAY(w, d)
    EVERY_SIZE(n)
    for (int place = 0; place < 2; place++) {
        struct both b;
        size_t x, y, out;

        both_begin(&b, w, d);
        x = both_in(&b, d, n, -3, 3);
        y = place ? both_changed(&b, d, n, -3, 3) : both_in(&b, d, n, -3, 3);
        out = place ? y : both_out(&b, d, n);
        BOTH(&b, sum, kernel_sum, .n = n, .type = d, .x = P(x), .y = P(y), .out = P(out));
        both_end(&b, 0);
    }
}
END_TEST

START_TEST(reduce_is_the_cpus_wherever_the_own_part_is)
{
    EVERY_WAY(w, d)
    EVERY_SIZE(n)
    for (uint32_t own = 0; own < 5; own++) {
        struct both b;
        size_t mine, others, out;

        both_begin(&b, w, d);
        mine = both_in(&b, d, n, -3, 3);
        others = both_in(&b, d, 4 * n, -3, 3);
        out = both_out(&b, d, n);
        BOTH(&b, reduce, kernel_reduce, .n = n, .type = d, .n_parts = 5, .own = own, .scale = 0.2f,
             .own_part = P(mine), .others = P(others), .out = P(out));
        both_end(&b, 1);
    }
}
END_TEST

/* Different orders of threads and sizes of blocks: sums have one order, given by the block's size. */
START_TEST(bits_do_not_depend_on_the_order_of_threads)
{
    enum { N = 20000 };
    const struct kernel_on plain = {.act = DTYPE_FP32};
    uint64_t seed = 9;
    float *x = random_array(&seed, DTYPE_FP32, N, -1, 1, NULL), *first = MEM_NEW(float, N);
    float *y = MEM_NEW(float, N);

    for (uint64_t s = 0; s < 4; s++) {
        struct kernel_normalize a = {.n = N, .type = DTYPE_FP32, .eps = 1e-7f, .x = y};
        struct kernel_on on = plain;

        on.workspace_bytes = cuda_workspace(KERNEL_FN_normalize, &on, &a);
        on.workspace = mem_alloc(1, on.workspace_bytes);
        memcpy(y, x, N * sizeof(*y));
        emulate_reset(s, 0);
        cuda_normalize(&on, &a);
        ck_assert_ptr_null(emulate_failure());
        if (!s)
            memcpy(first, y, N * sizeof(*y));
        ck_assert(!memcmp(first, y, N * sizeof(*y)));
        mem_free(on.workspace);
    }
    mem_free(x);
    mem_free(y);
    mem_free(first);
}
END_TEST

SUITE_MAIN("cuda/vector", conversions_are_those_of_the_core, cast_is_the_cpus, scale_is_the_cpus,
           normalize_is_the_cpus, normalize_of_zeros_is_zero, diagonal_is_the_cpus,
           axpy_is_the_cpus, sum_is_the_cpus_in_place_too,
           reduce_is_the_cpus_wherever_the_own_part_is, bits_do_not_depend_on_the_order_of_threads)
