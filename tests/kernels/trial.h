/* tests/kernels/trial.h - one kernel against a naive forward in double, and its backward against that one's slopes.
 *
 * A trial names the arrays of a kernel, calls it, and gives the naive forward, written another way. trial_run() then
 * holds, for random values that the storage type can represent:
 *   forward   within half an ulp of the storage type and `noise` fp32 ulps of the naive result
 *   backward  equal to central differences of the naive forward, weighted with a random d(out), *added* to what the
 *             gradient buffers held; a second call adds once more; a gradient that is not wanted changes no other
 *   both      the same bytes again, whatever lay in the workspace and in the output
 * Failure messages carry the seed.
 */
#ifndef BALLAST_TESTS_KERNELS_TRIAL_H
#define BALLAST_TESTS_KERNELS_TRIAL_H

#include "core/mem.h"
#include "kernels/kernels.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

/* ---- random numbers (splitmix64) ---- */

static inline uint64_t rng_u64(uint64_t *s)
{
    uint64_t z = *s += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline double rng_in(uint64_t *s, double lo, double hi)
{
    return lo + (hi - lo) * (double)(rng_u64(s) >> 11) * 0x1p-53;
}

static inline size_t rng_size(uint64_t *s, size_t lo, size_t hi)
{
    return lo + (size_t)(rng_u64(s) % (hi - lo + 1));
}

/* ---- arrays ---- */

static inline double half_ulp(enum dtype d)
{
    return d == DTYPE_FP32 ? 0x1p-24 : d == DTYPE_BF16 ? 0x1p-8 : 0x1p-11;
}

static inline float value_at(enum dtype d, const void *p, size_t i)
{
    float x;

    dtype_load(d, (const char *)p + i * dtype_bytes(d, 1), &x, 1);
    return x;
}

/* n random values of type d; their exact values go to x unless it is NULL. */
static inline void *random_array(uint64_t *seed, enum dtype d, size_t n, double lo, double hi,
                                 double *x)
{
    char *p = mem_alloc(n + 1, dtype_bytes(d, 1));

    for (size_t i = 0; i < n; i++) {
        float v = (float)rng_in(seed, lo, hi);

        dtype_store(d, &v, p + i * dtype_bytes(d, 1), 1);
        if (x)
            x[i] = value_at(d, p, i);
    }
    return p;
}

struct arr {
    const char *name;
    size_t n;
    double lo, hi;
    enum dtype d, grad_type;
    bool no_grad;   /* the kernel has no gradient for it */
    bool optional;  /* its gradient may be NULL */
    double *x;      /* exact values */
    void *p, *grad; /* what the kernel sees; grad is NULL when it is not wanted */
    double *slope;  /* expected gradient */
};

struct trial {
    const char *name;
    uint64_t seed;
    struct kernel_on on;
    struct arr in[4], out;
    size_t n_in;
    size_t s[8]; /* sizes, meaning is the test's */
    double f[2];
    const void *extra;
    double noise;     /* fp32 ulps, of the largest value of an array */
    double roundings; /* of a gradient in its storage type in one call; 0: 1 */
    double loose;     /* more half ulps of the storage type, of the largest gradient */
    void *d_out;
    void (*forward)(struct trial *t);
    void (*backward)(struct trial *t);
    void (*naive)(const struct trial *t, double *const *x, double *out);
};

static inline void trial_in(struct trial *t, const char *name, size_t n, enum dtype d, double lo,
                            double hi)
{
    t->in[t->n_in++] =
        (struct arr){.name = name, .n = n, .lo = lo, .hi = hi, .d = d, .grad_type = d};
}

static inline void trial_out(struct trial *t, size_t n, enum dtype d)
{
    t->out = (struct arr){.name = "out", .n = n, .d = d};
}

static inline double largest(const double *x, size_t n)
{
    double m = 0;

    for (size_t i = 0; i < n; i++)
        m = fmax(m, fabs(x[i]));
    return m;
}

static inline void trial_scribble(struct trial *t, int byte)
{
    if (t->on.workspace)
        memset(t->on.workspace, byte, t->on.workspace_bytes);
}

static inline void trial_forward(struct trial *t)
{
    size_t bytes = t->out.n * dtype_bytes(t->out.d, 1);
    double *want = MEM_NEW(double, t->out.n), *x[4], top;
    void *first = mem_alloc(t->out.n + 1, dtype_bytes(t->out.d, 1));

    for (size_t i = 0; i < t->n_in; i++)
        x[i] = t->in[i].x;
    memset(t->out.p, 0xff, bytes);
    trial_scribble(t, 0xff);
    t->forward(t);
    memcpy(first, t->out.p, bytes);
    memset(t->out.p, 0x3c, bytes);
    trial_scribble(t, 0x3c);
    t->forward(t);
    MUST(!memcmp(first, t->out.p, bytes), "%s: forward differs on a second call, seed %llu",
         t->name, (unsigned long long)t->seed);
    t->naive(t, x, want);
    top = largest(want, t->out.n);
    for (size_t i = 0; i < t->out.n; i++) {
        double got = value_at(t->out.d, t->out.p, i);
        double tol = half_ulp(t->out.d) * fabs(want[i]) + t->noise * 0x1p-23 * top + 0x1p-25;

        MUST(fabs(got - want[i]) <= tol,
             "%s: out[%zu] of %zu is %.9g, expected %.9g within %.2g (%s, seed %llu)", t->name, i,
             t->out.n, got, want[i], tol, dtype_name(t->out.d), (unsigned long long)t->seed);
    }
    mem_free(first);
    mem_free(want);
}

static inline void trial_slopes(struct trial *t)
{
    double *up = MEM_NEW(double, t->out.n), *down = MEM_NEW(double, t->out.n), *x[4];
    const double h = 1e-4;

    for (size_t i = 0; i < t->n_in; i++)
        x[i] = t->in[i].x;
    for (size_t i = 0; i < t->n_in; i++) {
        t->in[i].slope = MEM_NEW(double, t->in[i].n);
        for (size_t j = 0; j < t->in[i].n && !t->in[i].no_grad; j++) {
            double keep = x[i][j], sum = 0;

            x[i][j] = keep + h;
            t->naive(t, x, up);
            x[i][j] = keep - h;
            t->naive(t, x, down);
            x[i][j] = keep;
            for (size_t o = 0; o < t->out.n; o++)
                sum += (up[o] - down[o]) * value_at(t->out.d, t->d_out, o);
            t->in[i].slope[j] = sum / (2 * h);
        }
    }
    mem_free(up);
    mem_free(down);
}

/* grad == before + slope, as far as its type can say it. */
static inline void trial_check_added(const struct trial *t, const struct arr *a, const void *before,
                                     const char *which)
{
    double top = largest(a->slope, a->n), n = t->roundings ? t->roundings : 1;

    for (size_t j = 0; j < a->n; j++) {
        double old = value_at(a->grad_type, before, j), want = old + a->slope[j];
        double got = value_at(a->grad_type, a->grad, j);
        double tol = half_ulp(a->grad_type) *
                         (n * fmax(fabs(want), fabs(old)) + t->loose * top + (n - 1) * top) +
                     t->noise * 0x1p-23 * (top + fabs(old)) + 1e-7 * top + 0x1p-25;

        MUST(fabs(got - want) <= tol,
             "%s: %s call: gradient of %s[%zu] of %zu is %.9g, expected %.9g + %.9g within %.2g "
             "(%s, seed %llu)",
             t->name, which, a->name, j, a->n, got, old, a->slope[j], tol, dtype_name(a->grad_type),
             (unsigned long long)t->seed);
    }
}

static inline void trial_backward(struct trial *t)
{
    void *start[4], *once[4];
    size_t bytes[4];

    trial_slopes(t);
    for (size_t i = 0; i < t->n_in; i++) {
        struct arr *a = &t->in[i];

        bytes[i] = a->n * dtype_bytes(a->grad_type, 1);
        start[i] = random_array(&t->seed, a->grad_type, a->n, -0.5, 0.5, NULL);
        once[i] = mem_alloc(a->n + 1, dtype_bytes(a->grad_type, 1));
        a->grad = a->no_grad ? NULL : mem_alloc(a->n + 1, dtype_bytes(a->grad_type, 1));
        if (a->grad)
            memcpy(a->grad, start[i], bytes[i]);
    }
    trial_scribble(t, 0xff);
    t->backward(t);
    for (size_t i = 0; i < t->n_in; i++)
        if (t->in[i].grad) {
            trial_check_added(t, &t->in[i], start[i], "first");
            memcpy(once[i], t->in[i].grad, bytes[i]);
        }
    t->backward(t);
    for (size_t i = 0; i < t->n_in; i++)
        if (t->in[i].grad)
            trial_check_added(t, &t->in[i], once[i], "second");
    /* again from the start, without one gradient after the other */
    for (size_t skip = 0; skip <= t->n_in; skip++) {
        void *kept = skip < t->n_in ? t->in[skip].grad : NULL;

        if (skip < t->n_in && !t->in[skip].optional)
            continue;
        for (size_t i = 0; i < t->n_in; i++)
            if (t->in[i].grad)
                memcpy(t->in[i].grad, start[i], bytes[i]);
        if (kept)
            t->in[skip].grad = NULL;
        trial_scribble(t, 0x3c);
        t->backward(t);
        for (size_t i = 0; i < t->n_in; i++)
            MUST(!t->in[i].grad || !memcmp(once[i], t->in[i].grad, bytes[i]),
                 "%s: gradient of %s differs on another call, seed %llu", t->name, t->in[i].name,
                 (unsigned long long)t->seed);
        if (kept)
            t->in[skip].grad = kept;
    }
    for (size_t i = 0; i < t->n_in; i++) {
        mem_free(start[i]);
        mem_free(once[i]);
        mem_free(t->in[i].grad);
        mem_free(t->in[i].slope);
    }
}

/* Arrays are listed, on.workspace_bytes is set; the random stream goes on from t->seed. */
static inline void trial_run(struct trial *t)
{
    uint64_t stream = t->seed;

    t->on.workspace = t->on.workspace_bytes ? mem_alloc(t->on.workspace_bytes, 1) : NULL;
    for (size_t i = 0; i < t->n_in; i++) {
        t->in[i].x = MEM_NEW(double, t->in[i].n + 1);
        t->in[i].p =
            random_array(&stream, t->in[i].d, t->in[i].n, t->in[i].lo, t->in[i].hi, t->in[i].x);
    }
    t->out.p = mem_alloc(t->out.n + 1, dtype_bytes(t->out.d, 1));
    t->d_out = random_array(&stream, t->out.d, t->out.n, -1, 1, NULL);
    trial_forward(t);
    if (t->backward)
        trial_backward(t);
    for (size_t i = 0; i < t->n_in; i++) {
        mem_free(t->in[i].x);
        mem_free(t->in[i].p);
    }
    mem_free(t->out.p);
    mem_free(t->d_out);
    mem_free(t->on.workspace);
}

static inline struct trial trial_new(const char *name, uint64_t seed, enum dtype d)
{
    return (struct trial){.name = name,
                          .seed = seed,
                          .noise = 8,
                          .on = {.act = d, .weight = d, .grad = d, .gemm = &kernel_gemm_reference}};
}

/* Loop tests run over seeds and the three types. */
enum { TRIAL_TYPES = 3 };
static inline enum dtype trial_type(int i)
{
    static const enum dtype types[TRIAL_TYPES] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};

    return types[i % TRIAL_TYPES];
}

#define FOR_TRIALS(i, n) for (int i = 0; i < (n)*TRIAL_TYPES; i++)

#endif
