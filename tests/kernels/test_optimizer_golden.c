/* Newton-Schulz, Muon, AdamW, SOAP and Shampoo against tables of other programs: golden/make.py says which and how to
 * make them again. */
#include "core/json.h"
#include "kernels/optimizer.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

static struct arena arena;
static struct err e;
static char room[1 << 16];
static const struct kernel_on on = {
    .gemm = &kernel_gemm_reference, .workspace = room, .workspace_bytes = sizeof(room)};

/* ---- reading ---- */

#define OK(call) MUST((call) == 0, "%s", e.msg)

static float *numbers_of(const struct json_at *at, size_t n)
{
    float *x = ARENA_NEW(&arena, float, n);
    struct json_at it;
    size_t len, i = 0;
    double v;

    OK(json_is_array(at, &len, &e));
    MUST(len == n, "%s: %zu numbers, expected %zu", at->path, len, n);
    for (bool more = json_first(at, &it); more; more = json_next(&it)) {
        OK(json_as_double(&it, -INFINITY, INFINITY, &v, &e));
        x[i++] = (float)v;
    }
    return x;
}

static float *numbers(const struct json_at *c, const char *key, size_t n)
{
    struct json_at at;

    OK(json_get(c, key, &at, &e));
    return numbers_of(&at, n);
}

/* Row i of an array of arrays, or NULL. */
static float *row(const struct json_at *c, const char *key, size_t i, size_t n)
{
    struct json_at at, it;
    size_t rows;

    OK(json_array(c, key, &at, &rows, &e));
    if (i >= rows)
        return NULL;
    OK(json_elem(&at, i, &it, &e));
    return numbers_of(&it, n);
}

static float number(const struct json_at *c, const char *key)
{
    double v;

    OK(json_double(c, key, -INFINITY, INFINITY, &v, &e));
    return (float)v;
}

static size_t size(const struct json_at *c, const char *key)
{
    uint64_t v;

    OK(json_u64(c, key, 0, 1 << 20, &v, &e));
    return (size_t)v;
}

static const char *text(const struct json_at *c, const char *key)
{
    const char *s;

    OK(json_str(c, key, &s, &e));
    return s;
}

static void for_cases(const char *file, void (*fn)(const struct json_at *c))
{
    struct json_at top, cases, it;
    struct json j;
    size_t n = 0;

    arena_init(&arena);
    OK(json_load(&j, file, &e));
    top = json_top(&j);
    ck_assert(strlen(text(&top, "source")) > 0);
    OK(json_array(&top, "cases", &cases, NULL, &e));
    for (bool more = json_first(&cases, &it); more; more = json_next(&it), n++)
        fn(&it);
    ck_assert_uint_gt(n, 0);
    json_release(&j);
    arena_release(&arena);
}

/* Within tol of the largest expected value. */
static void same(const char *what, size_t step, const float *got, const float *want, size_t n,
                 double tol)
{
    double top = 0;

    for (size_t i = 0; i < n; i++)
        top = fmax(top, fabs((double)want[i]));
    for (size_t i = 0; i < n; i++)
        MUST(fabs((double)got[i] - (double)want[i]) <= tol * top,
             "%s: step %zu: element %zu is %.9g, expected %.9g within %.1g of %.3g", what, step + 1,
             i, (double)got[i], (double)want[i], tol, top);
}

/* ---- Newton-Schulz ---- */

static void newton_schulz(const struct json_at *c)
{
    static const struct {
        const char *name;
        enum kernel_ns_form form;
        uint32_t restart;
        enum dtype stored;
        double tol;
    } ways[] = {{"standard", KERNEL_NS_STANDARD, 0, DTYPE_FP32, 1e-5},
                {"gram", KERNEL_NS_GRAM, 0, DTYPE_FP32, 1e-4},
                {"gram, restarted", KERNEL_NS_GRAM, 3, DTYPE_FP32, 1e-4},
                {"standard in bf16", KERNEL_NS_STANDARD, 0, DTYPE_BF16, 0.12}};
    size_t rows = size(c, "rows"), cols = size(c, "cols"), n = rows * cols;
    const float *want = numbers(c, "y", n);

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct kernel_newton_schulz a = {rows, cols, KERNEL_NS_DEFAULTS, numbers(c, "x", n), NULL};

        a.hyper.steps = (uint32_t)size(c, "steps");
        a.hyper.form = ways[i].form;
        a.hyper.restart = ways[i].restart;
        a.hyper.stored = ways[i].stored;
        kernel_newton_schulz(&on, &a);
        same(arena_printf(&arena, "%s, %s", text(c, "name"), ways[i].name), a.hyper.steps - 1, a.x,
             want, n, ways[i].tol);
    }
}

START_TEST(newton_schulz_agrees_in_both_forms)
{
    for_cases("tests/kernels/golden/newton_schulz.json", newton_schulz);
}
END_TEST

/* ---- Muon ---- */

static void muon(const struct json_at *c)
{
    size_t rows = size(c, "rows"), cols = size(c, "cols"), n = rows * cols;
    float *p = numbers(c, "p", n), *buf = ARENA_NEW(&arena, float, n),
          *x = ARENA_NEW(&arena, float, n), *grad;
    bool rms = !strcmp(text(c, "scaling"), "rms");

    for (size_t i = 0; (grad = row(c, "grads", i, n)); i++) {
        struct kernel_momentum m = {.n = n,
                                    .mu = number(c, "mu"),
                                    .grad_scale = 1,
                                    .nesterov = true,
                                    .grad = grad,
                                    .buf = buf,
                                    .update = x};
        struct kernel_newton_schulz ns = {rows, cols, KERNEL_NS_DEFAULTS, x, NULL};
        struct kernel_matrix_update u = {
            .n = n,
            .lr = number(c, "lr"),
            .decay = number(c, "decay"),
            .scale = kernel_muon_scale(rms ? KERNEL_MUON_RMS : KERNEL_MUON_SPECTRAL, rows, cols),
            .update = x,
            .param = p};

        kernel_momentum(&on, &m);
        kernel_newton_schulz(&on, &ns);
        kernel_matrix_update(&on, &u);
        same(text(c, "name"), i, p, row(c, "after", i, n), n, 2e-6);
    }
}

START_TEST(three_muon_steps_agree_with_both_scalings)
{
    for_cases("tests/kernels/golden/muon.json", muon);
}
END_TEST

/* ---- AdamW ---- */

static void adamw(const struct json_at *c)
{
    enum { N = 11 };
    float *p = numbers(c, "p", N), m[N] = {0}, v[N] = {0}, *grad;

    for (size_t i = 0; (grad = row(c, "grads", i, N)); i++) {
        struct kernel_adamw a = {.n = N,
                                 .step = i + 1,
                                 .lr = number(c, "lr"),
                                 .beta1 = number(c, "beta1"),
                                 .beta2 = number(c, "beta2"),
                                 .eps = number(c, "eps"),
                                 .decay = number(c, "decay"),
                                 .grad_scale = 1,
                                 .grad = grad,
                                 .param = p,
                                 .m = m,
                                 .v = v};

        kernel_adamw(&on, &a);
        same(text(c, "name"), i, p, row(c, "after", i, N), N, 5e-7);
    }
}

START_TEST(three_adamw_steps_agree)
{
    for_cases("tests/kernels/golden/adamw.json", adamw);
}
END_TEST

/* ---- SOAP ---- */

static void copy(const struct json_at *c, const char *key, float *to, size_t n)
{
    struct json_at s;

    OK(json_object(c, "state", &s, &e));
    memcpy(to, numbers(&s, key, n), n * sizeof(*to));
}

static void soap(const struct json_at *c)
{
    size_t rows = size(c, "rows"), cols = size(c, "cols"), n = rows * cols;
    struct kernel_soap a = {.rows = rows,
                            .cols = cols,
                            .hyper = KERNEL_SOAP_DEFAULTS,
                            .step = size(c, "step"),
                            .grad_scale = 1,
                            .update = ARENA_NEW(&arena, float, n)};
    float *sum = ARENA_NEW(&arena, float, n), *s;

    a.hyper.beta1 = number(c, "beta1");
    a.hyper.beta2 = number(c, "beta2");
    a.hyper.beta_shampoo = number(c, "beta_shampoo");
    a.hyper.eps = number(c, "eps");
    a.hyper.frequency = (uint32_t)size(c, "frequency");
    a.hyper.max_dim = size(c, "max_dim");
    a.state = s = ARENA_NEW(&arena, float, kernel_soap_state(rows, cols, &a.hyper));
    if (a.step > 1) {
        copy(c, "m", s, n);
        copy(c, "v", s + n, n);
        copy(c, "l", s + 2 * n, rows * rows);
        copy(c, "ql", s + 2 * n + rows * rows, rows * rows);
        copy(c, "r", s + 2 * n + 2 * rows * rows + rows, cols * cols);
        copy(c, "qr", s + 2 * n + 2 * rows * rows + rows + cols * cols, cols * cols);
    }
    for (size_t i = 0; (a.grad = row(c, "grads", i, n)); i++, a.step++) {
        kernel_soap(&on, &a);
        for (size_t k = 0; k < n; k++)
            sum[k] -= a.update[k];
        same(text(c, "name"), i, sum, row(c, "after", i, n), n, 1e-4);
    }
}

START_TEST(three_soap_steps_agree)
{
    for_cases("tests/kernels/golden/soap.json", soap);
}
END_TEST

/* ---- Shampoo ---- */

static void shampoo(const struct json_at *c)
{
    size_t rows = size(c, "rows"), cols = size(c, "cols"), n = rows * cols;
    struct kernel_shampoo a = {.rows = rows,
                               .cols = cols,
                               .hyper = KERNEL_SHAMPOO_DEFAULTS,
                               .step = 1,
                               .grad_scale = 1,
                               .update = ARENA_NEW(&arena, float, n)};

    a.hyper.beta1 = number(c, "beta1");
    a.hyper.beta2 = number(c, "beta2");
    a.hyper.eps = number(c, "eps");
    a.hyper.ridge = number(c, "ridge");
    a.hyper.frequency = (uint32_t)size(c, "frequency");
    a.hyper.max_dim = size(c, "max_dim");
    OK(json_bool(c, "graft", &a.hyper.graft, &e));
    a.state = ARENA_NEW(&arena, float, kernel_shampoo_state(rows, cols, &a.hyper));
    for (size_t i = 0; (a.grad = row(c, "grads", i, n)); i++, a.step++) {
        kernel_shampoo(&on, &a);
        same(text(c, "name"), i, a.update, row(c, "updates", i, n), n, 1e-4);
    }
}

START_TEST(three_shampoo_steps_agree)
{
    for_cases("tests/kernels/golden/shampoo.json", shampoo);
}
END_TEST

SUITE_MAIN("kernels/optimizer: golden", newton_schulz_agrees_in_both_forms,
           three_muon_steps_agree_with_both_scalings, three_adamw_steps_agree,
           three_soap_steps_agree, three_shampoo_steps_agree)
