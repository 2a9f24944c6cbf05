/* tests/cuda/both.h - a kernel of kernels/cuda_*.cu, run by the emulation, beside its CPU reference.
 *
 *     struct both b;
 *     both_begin(&b, way, DTYPE_BF16);
 *     x = both_in(&b, DTYPE_BF16, n, -1, 1), y = both_out(&b, DTYPE_FP32, n);
 *     BOTH(&b, cast, kernel_cast, .n = n, .x = P(x), .y = P(y), ...);
 *     both_end(&b, noise);
 *
 * Both sides get arrays of equal contents, allocated to the byte; outputs begin as different NaNs. BOTH fills the arguments
 * once a side and calls kernel_NAME and cuda_NAME, the latter with exactly cuda_workspace() bytes, full of NaN. both_end()
 * then wants what both wrote to agree within half an ulp of the storage type (two when it was added to) and `noise` fp32 ulps
 * of the array's largest value, and what they read to be as it was.
 * A way is a size of blocks, an order of threads, and by how many elements the device's arrays are off 16 bytes.
 */
#ifndef BALLAST_TESTS_CUDA_BOTH_H
#define BALLAST_TESTS_CUDA_BOTH_H

#include "kernels/cuda.h"
#include "tests/cuda/emulate_control.h"
#include "tests/kernels/trial.h"

struct way {
    uint64_t seed;
    unsigned block;
    size_t shift;
};

enum { BOTH_MAX = 16, BOTH_CPU_WORKSPACE = 16 << 20 };
enum both_kind { BOTH_IN, BOTH_OUT, BOTH_CHANGED };

struct both_array {
    enum both_kind kind;
    enum dtype d; /* DTYPE_N: bytes, which have to be equal */
    size_t n, bytes;
    bool doubles;
    void *p[2], *made[2], *start; /* p: what the kernel sees; made, start: owned */
};

struct both {
    struct way way;
    uint64_t seed;
    struct kernel_on on;
    struct both_array array[BOTH_MAX];
    size_t n;
    const char *name;
};

static inline void both_begin(struct both *b, struct way way, enum dtype type)
{
    memset(b, 0, sizeof(*b));
    b->way = way;
    b->seed = way.seed + 77;
    b->on = (struct kernel_on){
        .act = type, .weight = type, .grad = type, .gemm = &kernel_gemm_reference};
    emulate_reset(way.seed, way.block);
}

static inline size_t both_make(struct both *b, enum both_kind kind, enum dtype d, size_t n,
                               const void *from)
{
    struct both_array *a = &b->array[b->n];
    size_t one = d == DTYPE_N ? 1 : (size_t)dtype_bytes(d, 1);
    size_t shift = d == DTYPE_N ? 0 : b->way.shift * one;

    ck_assert_uint_lt(b->n, BOTH_MAX);
    *a = (struct both_array){.kind = kind, .d = d, .n = n, .bytes = n * one};
    for (int side = 0; side < 2; side++) {
        size_t off = side ? shift : 0;

        /* to the byte, so that what runs over the end is seen */
        ck_assert_int_eq(posix_memalign(&a->made[side], 64, off + a->bytes + !a->bytes), 0);
        a->p[side] = (char *)a->made[side] + off;
        if (from)
            memcpy(a->p[side], from, a->bytes);
        else
            memset(a->p[side], side ? 0xfe : 0xff, a->bytes);
    }
    a->start = mem_alloc(1, a->bytes + 1);
    memcpy(a->start, a->p[0], a->bytes);
    return b->n++;
}

static inline size_t both_random(struct both *b, enum both_kind kind, enum dtype d, size_t n,
                                 double lo, double hi)
{
    void *x = random_array(&b->seed, d, n, lo, hi, NULL);
    size_t i = both_make(b, kind, d, n, x);

    mem_free(x);
    return i;
}

static inline size_t both_in(struct both *b, enum dtype d, size_t n, double lo, double hi)
{
    return both_random(b, BOTH_IN, d, n, lo, hi);
}

static inline size_t both_changed(struct both *b, enum dtype d, size_t n, double lo, double hi)
{
    return both_random(b, BOTH_CHANGED, d, n, lo, hi);
}

static inline size_t both_out(struct both *b, enum dtype d, size_t n)
{
    return both_make(b, BOTH_OUT, d, n, NULL);
}

/* n doubles, which have to be equal to 2^-40: sums of the same terms in another order. */
static inline size_t both_doubles(struct both *b, size_t n)
{
    size_t i = both_make(b, BOTH_OUT, DTYPE_N, n * sizeof(double), NULL);

    b->array[i].doubles = true;
    return i;
}

/* Bytes: ids, choices. */
static inline size_t both_bytes(struct both *b, enum both_kind kind, const void *from, size_t n)
{
    return both_make(b, kind, DTYPE_N, n, from);
}

/* on->workspace of a side; the caller frees it. */
static inline struct kernel_on both_on(const struct both *b, int side, enum kernel_function f,
                                       const void *args)
{
    struct kernel_on on = b->on;

    on.workspace_bytes = side ? cuda_workspace(f, &on, args) : BOTH_CPU_WORKSPACE;
    on.workspace = mem_alloc(1, on.workspace_bytes + !on.workspace_bytes);
    memset(on.workspace, 0xff, on.workspace_bytes);
    return on;
}

#define P(i) (b_->array[i].p[side_])
#define BOTH(b, fn, type, ...)                                                                     \
    do {                                                                                           \
        struct both *const b_ = (b);                                                               \
                                                                                                   \
        b_->name = #fn;                                                                            \
        for (int side_ = 0; side_ < 2; side_++) {                                                  \
            const struct type a_ = {__VA_ARGS__};                                                  \
            struct kernel_on on_ = both_on(b_, side_, KERNEL_FN_##fn, &a_);                        \
                                                                                                   \
            if (side_)                                                                             \
                cuda_##fn(&on_, &a_);                                                              \
            else                                                                                   \
                kernel_##fn(&on_, &a_);                                                            \
            mem_free(on_.workspace);                                                               \
        }                                                                                          \
    } while (0)

static inline void both_compare_array(const struct both *b, size_t k, double noise)
{
    const struct both_array *a = &b->array[k];
    double top = 0, ulps = a->kind == BOTH_CHANGED ? 4 : 2;

    if (a->kind == BOTH_IN) {
        for (int side = 0; side < 2; side++)
            MUST(!memcmp(a->p[side], a->start, a->bytes), "%s: %s changed array %zu, an input",
                 b->name, side ? "the device" : "the CPU", k);
        return;
    }
    for (size_t i = 0; a->doubles && i < a->bytes / sizeof(double); i++) {
        double want = ((const double *)a->p[0])[i], got = ((const double *)a->p[1])[i];

        MUST(fabs(got - want) <= 0x1p-40 * fabs(want), "%s: %.17g, the CPU's %.17g", b->name, got,
             want);
    }
    if (a->doubles)
        return;
    if (a->d == DTYPE_N) {
        MUST(!memcmp(a->p[0], a->p[1], a->bytes),
             "%s: array %zu of bytes differs, seed %llu block %u", b->name, k,
             (unsigned long long)b->way.seed, b->way.block);
        return;
    }
    for (size_t i = 0; i < a->n; i++)
        if (isfinite(value_at(a->d, a->p[0], i)))
            top = fmax(top, fabs((double)value_at(a->d, a->p[0], i)));
    for (size_t i = 0; i < a->n; i++) {
        double want = value_at(a->d, a->p[0], i), got = value_at(a->d, a->p[1], i);
        double tol = ulps * half_ulp(a->d) * fabs(want) + noise * 0x1p-23 * top +
                     (a->d == DTYPE_FP16 ? 0x1p-24 : 0);

        if ((isnan(want) && isnan(got)) || (isinf(want) && want * got > 0 && isinf(got)))
            continue;
        MUST(fabs(got - want) <= tol,
             "%s: array %zu[%zu] of %zu is %.9g, the CPU's %.9g, within %.2g (%s, seed %llu, block "
             "%u, "
             "shift %zu)",
             b->name, k, i, a->n, got, want, tol, dtype_name(a->d), (unsigned long long)b->way.seed,
             b->way.block, b->way.shift);
    }
}

static inline void both_end(struct both *b, double noise)
{
    MUST(!emulate_failure(), "%s: %s", b->name, emulate_failure());
    for (size_t k = 0; k < b->n; k++)
        both_compare_array(b, k, noise);
    for (size_t k = 0; k < b->n; k++) {
        free(b->array[k].made[0]);
        free(b->array[k].made[1]);
        mem_free(b->array[k].start);
    }
}

static const enum dtype both_types[3] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
static const struct way both_ways[] = {{0, 256, 0}, {1, 32, 1}, {2, 96, 0}, {3, 512, 3}};
enum { BOTH_WAYS = sizeof(both_ways) / sizeof(both_ways[0]) };

/* for every way and type */
#define EVERY_WAY(w, d)                                                                            \
    for (size_t w##_ = 0; w##_ < BOTH_WAYS * 3; w##_++)                                            \
        for (struct way w = both_ways[w##_ / 3], *once_ = &w; once_; once_ = NULL)                 \
            for (enum dtype d = both_types[w##_ % 3], *again_ = &d; again_; again_ = NULL)

#endif
