/* kernels/cuda_update.cu against kernels/update.c and precondition.c. */
#include "tests/cuda/both.h"

static const size_t lengths[] = {1, 15, 2050};
enum { N_SIZES = sizeof(lengths) / sizeof(lengths[0]) };

#define EVERY_SIZE(n)                                                                              \
    for (size_t k_ = 0; k_ < N_SIZES; k_++)                                                        \
        for (size_t n = lengths[k_], *only_ = &n; only_; only_ = NULL)

START_TEST(momentum_is_the_cpus)
{
    EVERY_WAY(w, d)
    EVERY_SIZE(n)
    for (int k = 0; k < 6; k++) {
        enum dtype state = both_types[k % 3], update = both_types[(k + 1) % 3];
        struct both b;
        size_t g, m, u;

        both_begin(&b, w, d);
        g = both_in(&b, d, n, -3, 3);
        m = both_changed(&b, state, n, -3, 3);
        u = both_out(&b, update, n);
        BOTH(&b, momentum, kernel_momentum, .n = n, .grad_type = d, .state_type = state,
             .update_type = update, .mu = 0.9f, .grad_scale = 0.25f, .nesterov = k < 3,
             .grad = P(g), .buf = P(m), .update = P(u));
        both_end(&b, 1);
    }
}
END_TEST

/* The norm in the same pass; a length that takes several parts, and one whose last part is a pack. */
START_TEST(momentum_with_its_norm_is_the_cpus)
{
    static const size_t sizes[] = {1, 2050, 40000, 5 * 8192 + 3};

    EVERY_WAY(w, d)
    for (int k = 0; k < 4; k++) {
        enum dtype state = both_types[k % 3];
        struct both b;
        size_t g, m, u, sum;

        both_begin(&b, w, d);
        g = both_in(&b, d, sizes[k], -3, 3);
        m = both_changed(&b, state, sizes[k], -3, 3);
        u = both_out(&b, d, sizes[k]);
        sum = both_doubles(&b, 1);
        BOTH(&b, momentum, kernel_momentum, .n = sizes[k], .grad_type = d, .state_type = state,
             .update_type = d, .mu = 0.9f, .grad_scale = 0.25f, .nesterov = true, .grad = P(g),
             .buf = P(m), .update = P(u), .norm2 = P(sum));
        both_end(&b, 1);
    }
}
END_TEST

/* What momentum left is what normalize would have computed: the same parts in the same order, so the same bits. */
START_TEST(normalize_by_the_norm_of_momentum_has_the_bits_of_its_own)
{
    enum { N = 3 * 8192 + 5 };

    for (size_t w = 0; w < BOTH_WAYS; w++)
        for (int k = 0; k < 3; k++) {
            enum dtype d = both_types[k];
            size_t bytes = (size_t)dtype_bytes(d, N);
            uint64_t seed = 5 + w;
            void *g = random_array(&seed, d, N, -2, 2, NULL);
            void *buf = random_array(&seed, d, N, -2, 2, NULL);
            void *x = mem_alloc(1, bytes), *y = mem_alloc(1, bytes);
            double norm2;
            struct kernel_on on = {.act = d, .weight = d, .grad = d};
            struct kernel_momentum m = {.n = N,
                                        .grad_type = d,
                                        .state_type = d,
                                        .update_type = d,
                                        .mu = 0.95f,
                                        .grad_scale = 1,
                                        .nesterov = true,
                                        .grad = g,
                                        .buf = buf,
                                        .update = x,
                                        .norm2 = &norm2};
            struct kernel_normalize own = {.n = N, .type = d, .eps = 1e-7f, .x = y};
            struct kernel_normalize given = {
                .n = N, .type = d, .eps = 1e-7f, .x = x, .norm2 = &norm2};

            emulate_reset(both_ways[w].seed, both_ways[w].block);
            on.workspace_bytes = cuda_workspace(KERNEL_FN_momentum, &on, &m);
            on.workspace = mem_alloc(1, on.workspace_bytes);
            cuda_momentum(&on, &m);
            memcpy(y, x, bytes);
            ck_assert_uint_eq(cuda_workspace(KERNEL_FN_normalize, &on, &given), 0);
            cuda_normalize(&on, &own);
            cuda_normalize(&on, &given);
            ck_assert_ptr_null(emulate_failure());
            ck_assert(!memcmp(x, y, bytes));
            mem_free(on.workspace);
            mem_free(x);
            mem_free(y);
            mem_free(buf);
            mem_free(g);
        }
}
END_TEST

START_TEST(matrix_update_is_the_cpus)
{
    EVERY_WAY(w, d)
    EVERY_SIZE(n)
    for (int k = 0; k < 6; k++) {
        enum dtype update = both_types[k % 3];
        struct both b;
        size_t u, p, master;

        both_begin(&b, w, d);
        u = both_in(&b, update, n, -3, 3);
        p = both_changed(&b, d, n, -3, 3);
        master = both_changed(&b, DTYPE_FP32, n, -3, 3);
        BOTH(&b, matrix_update, kernel_matrix_update, .n = n, .param_type = d,
             .update_type = update, .lr = 0.1f, .decay = 0.5f, .scale = 2, .update = P(u),
             .param = P(p), .master = k < 3 ? P(master) : NULL);
        both_end(&b, 1);
    }
}
END_TEST

START_TEST(adamw_is_the_cpus)
{
    EVERY_WAY(w, d)
    EVERY_SIZE(n)
    for (int k = 0; k < 6; k++) {
        enum dtype state = both_types[k % 3], grad = both_types[(k + 2) % 3];
        struct both b;
        size_t g, p, m, v, master;

        both_begin(&b, w, d);
        g = both_in(&b, grad, n, -3, 3);
        p = both_changed(&b, d, n, -3, 3);
        m = both_changed(&b, state, n, -1, 1);
        v = both_changed(&b, state, n, 0, 1);
        master = both_changed(&b, DTYPE_FP32, n, -3, 3);
        BOTH(&b, adamw, kernel_adamw, .n = n, .param_type = d, .grad_type = grad,
             .state_type = state, .step = (uint64_t)k * k + 1, .lr = 0.01f, .beta1 = 0.9f,
             .beta2 = 0.95f, .eps = 1e-8f, .decay = 0.1f, .grad_scale = 0.5f, .grad = P(g),
             .param = P(p), .m = P(m), .v = P(v), .master = k < 3 ? P(master) : NULL);
        both_end(&b, 2);
    }
}
END_TEST

/* ---- pieces of Shampoo and SOAP ---- */

START_TEST(moments_of_a_block_are_the_cpus)
{
    static const size_t shapes[][3] = {{1, 1, 1}, {5, 13, 13}, {17, 6, 19}, {40, 300, 310}};

    EVERY_WAY(w, d)
    for (int k = 0; k < 4; k++) {
        size_t rows = shapes[k][0], cols = shapes[k][1], ld = shapes[k][2];
        enum dtype state = both_types[k % 3];
        struct both b;
        size_t grad, m, v, g, to, adam;
        double nothing = 0, *sums[2];

        both_begin(&b, w, d);
        grad = both_in(&b, d, rows * ld, -3, 3);
        m = both_changed(&b, state, rows * ld, -1, 1);
        v = both_changed(&b, state, rows * ld, 0.1, 1);
        g = both_out(&b, DTYPE_FP32, rows * cols);
        to = both_out(&b, DTYPE_FP32, rows * cols);
        adam = both_bytes(&b, BOTH_CHANGED, &nothing, sizeof(nothing));
        BOTH(&b, moments, kernel_moments, .rows = rows, .cols = cols, .ld = ld, .grad_type = d,
             .state_type = state, .step = 3, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f,
             .grad_scale = 0.5f, .grad = P(grad), .m = P(m), .v = P(v), .g = P(g),
             .direction = P(to), .adam = P(adam));
        sums[0] = b.array[adam].p[0];
        sums[1] = b.array[adam].p[1];
        MUST(fabs(*sums[0] - *sums[1]) <= 1e-6 * *sums[0], "|adam|^2 %g, the CPU's %g", *sums[1],
             *sums[0]);
        *sums[1] = *sums[0]; /* close is what it has to be */
        both_end(&b, 2);
    }
}
END_TEST

START_TEST(roots_are_the_cpus)
{
    static const size_t sizes[] = {1, 5, 300};

    EVERY_WAY(w, d)
    for (int k = 0; k < 12; k++) {
        size_t n = sizes[k % 3], values, vectors, info;
        const int failed = k == 4;
        float *v;
        struct both b;

        both_begin(&b, w, d);
        values = both_in(&b, DTYPE_FP32, n, k % 2 ? -1 : 0, k == 5 ? 0 : 3);
        vectors = both_changed(&b, DTYPE_FP32, n * n, -1, 1);
        info = both_bytes(&b, BOTH_IN, &failed, sizeof(failed));
        for (int side = 0; side < 2 && k == 7; side++) {
            v = b.array[values].p[side];
            v[n / 2] = NAN;
            memcpy(b.array[values].start, v, n * sizeof(*v));
        }
        BOTH(&b, root, kernel_root, .n = n, .as_rows = k < 6, .correct = 0.3, .ridge = 1e-3f,
             .values = P(values), .info = k % 2 ? NULL : P(info), .vectors = P(vectors));
        both_end(&b, 2);
    }
}
END_TEST

START_TEST(grafts_are_the_cpus)
{
    static const size_t shapes[][3] = {{1, 1, 1}, {5, 13, 13}, {17, 6, 19}, {40, 300, 310}};

    EVERY_WAY(w, d)
    for (int k = 0; k < 8; k++) {
        size_t rows = shapes[k % 4][0], cols = shapes[k % 4][1], ld = shapes[k % 4][2];
        const double size = 7;
        struct both b;
        size_t x, adam, to;

        both_begin(&b, w, d);
        x = both_in(&b, DTYPE_FP32, rows * cols, -1, k == 4 ? -1 : 1);
        adam = both_bytes(&b, BOTH_IN, &size, sizeof(size));
        to = both_changed(&b, DTYPE_FP32, rows * ld, -1, 1);
        BOTH(&b, graft, kernel_graft, .rows = rows, .cols = cols, .ld = ld, .x = P(x),
             .adam = k < 6 ? P(adam) : NULL, .to = P(to));
        both_end(&b, 2);
    }
}
END_TEST

START_TEST(averages_and_steps_are_the_cpus)
{
    EVERY_WAY(w, d) EVERY_SIZE(n)
    {
        struct both b;
        size_t x, mean, square, v;

        both_begin(&b, w, d);
        x = both_changed(&b, DTYPE_FP32, n, -3, 3);
        mean = both_changed(&b, DTYPE_FP32, n, -3, 3);
        square = both_changed(&b, DTYPE_FP32, n, 0, 3);
        v = both_in(&b, DTYPE_FP32, n, 0, 3);
        BOTH(&b, average, kernel_average, .n = n, .beta = 0.9f, .x = P(x), .mean = P(mean));
        BOTH(&b, average, kernel_average, .n = n, .beta = 0.9f, .square = true, .x = P(x),
             .mean = P(square));
        BOTH(&b, adam_step, kernel_adam_step, .n = n, .rate = 0.5f, .eps = 1e-8f, .v = P(v),
             .x = P(x));
        both_end(&b, 1);
    }
}
END_TEST

/* Integers, so that products are exact and places have to be the same. */
static size_t small_integers(struct both *b, size_t n)
{
    float *x = MEM_NEW(float, n);
    size_t i;

    for (size_t k = 0; k < n; k++)
        x[k] = (float)rng_size(&b->seed, 0, 4) - 2;
    i = both_make(b, BOTH_IN, DTYPE_FP32, n, x);
    mem_free(x);
    return i;
}

START_TEST(orders_are_the_cpus)
{
    static const size_t sizes[] = {1, 5, 32, 77};

    EVERY_WAY(w, d)
    for (int k = 0; k < 8; k++) {
        size_t n = sizes[k % 4], x, y, given, values, sorted, place;
        uint32_t *none = MEM_NEW(uint32_t, n);
        struct both b;

        both_begin(&b, w, d);
        x = small_integers(&b, n * n);
        y = small_integers(&b, n * n);
        given = small_integers(&b, n);
        values = both_changed(&b, DTYPE_FP32, n, 0, 1);
        sorted = both_out(&b, DTYPE_FP32, n);
        place = both_bytes(&b, BOTH_CHANGED, none, n * sizeof(*none));
        if (k == 6)
            for (int side = 0; side < 2; side++) {
                ((float *)b.array[given].p[side])[3] = NAN;
                memcpy(b.array[given].start, b.array[given].p[side], n * sizeof(float));
            }
        if (k < 4)
            BOTH(&b, order, kernel_order, .n = n, .x = P(x), .y = P(y), .values = P(values),
                 .sorted = P(sorted), .place = P(place));
        else
            BOTH(&b, order, kernel_order, .n = n, .values = P(given), .sorted = P(sorted),
                 .place = P(place));
        both_end(&b, 0);
        mem_free(none);
    }
}
END_TEST

/* A random order of n. */
static size_t places(struct both *b, size_t n)
{
    uint32_t *p = MEM_NEW(uint32_t, n);
    size_t i;

    for (size_t k = 0; k < n; k++) {
        size_t j = rng_size(&b->seed, 0, k);

        p[k] = p[j];
        p[j] = (uint32_t)k;
    }
    i = both_bytes(b, BOTH_IN, p, n * sizeof(*p));
    mem_free(p);
    return i;
}

START_TEST(permutations_are_the_cpus)
{
    EVERY_WAY(w, d)
    for (int k = 0; k < 8; k++) {
        size_t rows = 1 + (size_t)k * 7, cols = 60 - (size_t)k * 5, from, to, r, c;
        struct both b;

        both_begin(&b, w, d);
        from = both_in(&b, DTYPE_FP32, rows * cols, -1, 1);
        to = both_out(&b, DTYPE_FP32, rows * cols);
        r = places(&b, rows);
        c = places(&b, cols);
        BOTH(&b, permute, kernel_permute, .rows = rows, .cols = cols, .transpose = k & 1,
             .row_place = k & 2 ? P(r) : NULL, .col_place = k & 4 ? P(c) : NULL, .from = P(from),
             .to = P(to));
        both_end(&b, 0);
    }
}
END_TEST

SUITE_MAIN("cuda/update", momentum_is_the_cpus, momentum_with_its_norm_is_the_cpus,
           normalize_by_the_norm_of_momentum_has_the_bits_of_its_own, matrix_update_is_the_cpus,
           adamw_is_the_cpus, moments_of_a_block_are_the_cpus, roots_are_the_cpus,
           grafts_are_the_cpus, averages_and_steps_are_the_cpus, orders_are_the_cpus,
           permutations_are_the_cpus)
