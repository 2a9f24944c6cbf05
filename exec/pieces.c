#include "exec/pieces.h"

#include "core/mem.h"
#include "exec/run.h"

#include <math.h>
#include <string.h>

enum { MAX_ARRAYS = 8 };

struct pieces {
    struct backend *b;
    struct kernel_on on;
    uint64_t seed, n_arrays; /* made so far: the hash of the next */
    void *p[MAX_ARRAYS];     /* of one launch */
    size_t bytes[MAX_ARRAYS];
    unsigned n;
};

/* ---- operands: until release() ---- */

static void *put(struct pieces *x, const void *host, size_t bytes)
{
    void *p = backend_alloc(x->b, STREAM_COMPUTE, bytes);

    BUG_ON(x->n == MAX_ARRAYS);
    x->p[x->n] = p;
    x->bytes[x->n++] = bytes;
    x->b->lib->upload(x->b, STREAM_COMPUTE, p, host, bytes);
    return p;
}

/* Normal ones around 0; their squares, so that roots can be taken. */
static void *some(struct pieces *x, enum dtype d, size_t n, bool square)
{
    float *f = MEM_NEW(float, n);
    void *raw = mem_alloc(1, dtype_bytes(d, n)), *p;
    uint64_t k = x->n_arrays++;

    for (size_t i = 0; i < n; i++) {
        f[i] = data_weight(x->seed, k, i, 0, 1);
        f[i] *= square ? f[i] : 1;
    }
    dtype_store(d, f, raw, n);
    p = put(x, raw, dtype_bytes(d, n));
    mem_free(raw);
    mem_free(f);
    return p;
}

static void *numbers(struct pieces *x, enum dtype d, size_t n)
{
    return some(x, d, n, false);
}

static void *squares(struct pieces *x, enum dtype d, size_t n)
{
    return some(x, d, n, true);
}

/* Whole and small: sums of their products are exact in any order, and some are equal. */
static float *integers(struct pieces *x, size_t n)
{
    float *f = MEM_NEW(float, n), *p;
    uint64_t k = x->n_arrays++;

    for (size_t i = 0; i < n; i++)
        f[i] = (float)(data_hash(x->seed, k, i, 2) % 17) - 8;
    p = put(x, f, n * sizeof(*f));
    mem_free(f);
    return p;
}

/* 0 .. n-1 in another order. */
static uint32_t *places(struct pieces *x, size_t n)
{
    uint32_t *f = MEM_NEW(uint32_t, n), *p;
    uint64_t k = x->n_arrays++;

    for (size_t i = 0; i < n; i++) {
        size_t j = data_hash(x->seed, k, i, 3) % (i + 1);

        f[i] = f[j];
        f[j] = (uint32_t)i;
    }
    p = put(x, f, n * sizeof(*f));
    mem_free(f);
    return p;
}

static void *bytes(struct pieces *x, size_t n)
{
    uint8_t *f = MEM_NEW(uint8_t, n), *p;
    uint64_t k = x->n_arrays++;

    for (size_t i = 0; i < n; i++)
        f[i] = (uint8_t)data_hash(x->seed, k, i, 4);
    p = put(x, f, n);
    mem_free(f);
    return p;
}

static double *one(struct pieces *x, double value)
{
    return put(x, &value, sizeof(value));
}

static void release(struct pieces *x)
{
    while (x->n > 0) {
        x->n--;
        backend_free(x->b, STREAM_COMPUTE, x->p[x->n], x->bytes[x->n]);
    }
}

#define PIECE(x, fn, type, ...)                                                                    \
    do {                                                                                           \
        const struct type a_ = {__VA_ARGS__};                                                      \
                                                                                                   \
        launch_##fn((x)->b, STREAM_COMPUTE, &(x)->on, &a_);                                        \
        release(x);                                                                                \
    } while (0)

/* ---- kernels of stored types ---- */

static void vectors(struct pieces *x, enum dtype d, size_t width, size_t n)
{
    static const enum dtype types[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};

    for (int k = 0; k < 3; k++) {
        PIECE(x, cast, kernel_cast, .n = n, .x_type = d, .y_type = types[k], .x = numbers(x, d, n),
              .y = numbers(x, types[k], n));
        PIECE(x, axpy, kernel_axpy, .n = n, .x_type = types[k], .y_type = d, .alpha = 0.7f,
              .x = numbers(x, types[k], n), .y = numbers(x, d, n));
    }
    PIECE(x, scale, kernel_scale, .n = n, .type = d, .alpha = 0.3f, .x = numbers(x, d, n));
    PIECE(x, normalize, kernel_normalize, .n = n, .type = d, .eps = 1e-7f, .x = numbers(x, d, n));
    PIECE(x, normalize, kernel_normalize, .n = n, .type = d, .eps = 1e-7f, .x = numbers(x, d, n),
          .norm2 = one(x, (double)n));
    PIECE(x, diagonal, kernel_diagonal, .n = width, .type = d, .alpha = 2,
          .x = numbers(x, d, width * width));
    PIECE(x, sum, kernel_sum, .n = n, .type = d, .x = numbers(x, d, n), .y = numbers(x, d, n),
          .out = numbers(x, d, n));
    PIECE(x, reduce, kernel_reduce, .n = n, .type = d, .n_parts = 4, .own = 1, .scale = 0.25f,
          .own_part = numbers(x, d, n), .others = numbers(x, d, 3 * n), .out = numbers(x, d, n));
}

static void states(struct pieces *x, enum dtype d, size_t width, size_t n)
{
    static const enum dtype codes[] = {DTYPE_INT8, DTYPE_INT4};
    size_t rows = width, cols = width, ld = n / width;

    for (int k = 0; k < 2; k++) {
        size_t q = dtype_bytes(codes[k], n), blocks = kernel_quantize_blocks(n);

        PIECE(x, quantize, kernel_quantize, .n = n, .type = d, .codes = codes[k],
              .x = numbers(x, d, n), .q = bytes(x, q), .scale = numbers(x, DTYPE_FP32, blocks));
        PIECE(x, dequantize, kernel_quantize, .n = n, .type = d, .codes = codes[k],
              .x = numbers(x, d, n), .q = bytes(x, q), .scale = squares(x, DTYPE_FP32, blocks));
    }
    /* a block out of wider rows */
    PIECE(x, moments, kernel_moments, .rows = rows, .cols = cols, .ld = ld, .grad_type = d,
          .state_type = d, .step = 3, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f,
          .grad_scale = 0.5f, .grad = numbers(x, d, rows * ld), .m = numbers(x, d, rows * ld),
          .v = squares(x, d, rows * ld), .g = numbers(x, DTYPE_FP32, rows * cols),
          .direction = numbers(x, DTYPE_FP32, rows * cols), .adam = one(x, 0));
}

/* ---- what preconditioners do between products, in fp32 ---- */

static float *floats(struct pieces *x, size_t n)
{
    return numbers(x, DTYPE_FP32, n);
}

static void preconditioners(struct pieces *x, size_t n, size_t rows, size_t cols)
{
    for (int way = 0; way < 2; way++) {
        PIECE(x, root, kernel_root, .n = n, .as_rows = way, .correct = 0.5, .ridge = 1e-6f,
              .values = squares(x, DTYPE_FP32, n), .vectors = floats(x, n * n));
        PIECE(x, graft, kernel_graft, .rows = n, .cols = n, .ld = cols, .x = floats(x, n * n),
              .adam = way ? one(x, 5) : NULL, .to = floats(x, n * cols));
        PIECE(x, average, kernel_average, .n = rows * cols, .beta = 0.95f, .square = way,
              .x = floats(x, rows * cols), .mean = floats(x, rows * cols));
        PIECE(x, order, kernel_order, .n = n, .x = way ? integers(x, n * n) : NULL,
              .y = way ? integers(x, n * n) : NULL, .values = integers(x, n),
              .sorted = floats(x, n), .place = places(x, n));
        PIECE(x, permute, kernel_permute, .rows = rows, .cols = cols, .transpose = way,
              .row_place = places(x, rows), .col_place = way ? places(x, cols) : NULL,
              .from = floats(x, rows * cols), .to = floats(x, rows * cols));
    }
    PIECE(x, adam_step, kernel_adam_step, .n = rows * cols, .rate = 0.1f, .eps = 1e-8f,
          .v = squares(x, DTYPE_FP32, rows * cols), .x = floats(x, rows * cols));
}

void pieces_launch(struct backend *b, uint64_t width, uint64_t seed)
{
    static const enum dtype types[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
    /* no multiple of a pack or a block */
    size_t rows = width, cols = width + width / 2 + 5, m = width;
    struct pieces x = {.b = b, .seed = seed};

    for (int k = 0; k < 3; k++) {
        x.on = (struct kernel_on){.act = types[k], .weight = types[k], .grad = types[k]};
        vectors(&x, types[k], width, rows * cols);
        states(&x, types[k], width, rows * cols);
    }
    x.on = (struct kernel_on){.act = DTYPE_FP32, .weight = DTYPE_FP32, .grad = DTYPE_FP32};
    preconditioners(&x, width, rows, cols);
    if (m > PIECES_SYMMETRIC)
        m = PIECES_SYMMETRIC;
    for (int way = 0; way < 2; way++)
        PIECE(&x, symmetric, kernel_symmetric, .n = m, .k = m + m / 2, .transposed = way,
              .alpha = 0.5f, .beta = 2, .x = numbers(&x, DTYPE_BF16, m * (m + m / 2)),
              .add = way ? numbers(&x, DTYPE_BF16, m * m) : NULL,
              .c = numbers(&x, DTYPE_BF16, m * m));
    b->lib->sync(b);
}
