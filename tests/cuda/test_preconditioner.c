/* Shampoo, SOAP and Newton-Schulz of kernels/cuda_*.c on the stand-in, against the CPU's: the same formulas composed of other
 * pieces. Eigenvalues are sorted the other way, vectors lie the other way, and a workspace has other offsets. */
#include "core/mem.h"
#include "kernels/cuda.h"
#include "kernels/cuda_optimizer.h"
#include "tests/cuda/standin.h"
#include "tests/kernels/trial.h"

#include <cuda_runtime_api.h>

enum { STEPS = 5 };

struct device {
    cudaStream_t stream;
    struct cuda_handles h;
};

static void device_open(struct device *d, uint64_t seed)
{
    memset(d, 0, sizeof(*d));
    standin_reset(seed);
    ck_assert_int_eq(cudaSetDevice(0), cudaSuccess);
    ck_assert_int_eq(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), cudaSuccess);
    ck_assert_int_eq(cuda_handles_open(&d->h, d->stream), 0);
}

static void device_close(struct device *d)
{
    cuda_handles_close(&d->h);
    cudaStreamSynchronize(d->stream);
    cudaStreamDestroy(d->stream);
    ck_assert_msg(!standin_failure(), "%s", standin_failure());
}

static void *on_device(struct device *d, const void *from, size_t n)
{
    void *p = NULL;

    ck_assert_int_eq(cudaMallocAsync(&p, n, d->stream), cudaSuccess);
    if (from)
        cudaMemcpyAsync(p, from, n, cudaMemcpyHostToDevice, d->stream);
    return p;
}

static void from_device(struct device *d, void *to, void *from, size_t n)
{
    cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToHost, d->stream);
    cudaStreamSynchronize(d->stream);
    cudaFreeAsync(from, d->stream);
}

/* |x - y| / |y| */
static double apart(const float *x, const float *y, size_t n)
{
    double d = 0, all = 0;

    for (size_t i = 0; i < n; i++) {
        d += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        all += (double)y[i] * y[i];
    }
    return all > 0 ? sqrt(d / all) : sqrt(d);
}

/* One optimizer, both ways: an update of n floats from a gradient, with a state. */
struct method {
    const char *name;
    enum kernel_function f;
    size_t rows, cols, state, workspace; /* elements, bytes */
    enum dtype type;
    struct kernel_shampoo shampoo;
    struct kernel_soap soap;
};

static void *set(struct method *m, uint64_t step, const void *grad, void *state, float *update)
{
    if (m->f == KERNEL_FN_shampoo) {
        m->shampoo.step = step;
        m->shampoo.grad = grad;
        m->shampoo.state = state;
        m->shampoo.update = update;
        return &m->shampoo;
    }
    m->soap.step = step;
    m->soap.grad = grad;
    m->soap.state = state;
    m->soap.update = update;
    return &m->soap;
}

static void compare(struct method *m, uint64_t seed, double tolerance)
{
    size_t n = m->rows * m->cols, state_bytes = (size_t)dtype_bytes(m->type, m->state);
    size_t grad_bytes = (size_t)dtype_bytes(m->type, n);
    struct kernel_on on = {.gemm = &kernel_gemm_reference};
    void *state = MEM_NEW(char, state_bytes);
    float *want = MEM_NEW(float, n), *got = MEM_NEW(float, n);
    struct device d;
    void *device_state;

    device_open(&d, seed);
    device_state = on_device(&d, state, state_bytes);
    for (uint64_t step = 1; step <= STEPS; step++) {
        void *grad = random_array(&seed, m->type, n, -1, 1, NULL), *args;
        void *device_grad = on_device(&d, grad, grad_bytes), *unused = MEM_NEW(char, n * 4);
        float *device_update = on_device(&d, NULL, n * sizeof(float));
        struct kernel_on there = on;

        on.workspace_bytes = m->workspace;
        on.workspace = mem_alloc(1, m->workspace);
        args = set(m, step, grad, state, want);
        if (m->f == KERNEL_FN_shampoo)
            kernel_shampoo(&on, args);
        else
            kernel_soap(&on, args);
        args = set(m, step, device_grad, device_state, device_update);
        there.workspace_bytes = 0;
        there.workspace_bytes = cuda_workspace(m->f, &there, args);
        there.workspace = on_device(&d, NULL, there.workspace_bytes);
        there.stream = d.stream;
        ck_assert_msg(!(m->f == KERNEL_FN_shampoo ? cuda_shampoo(&d.h, &there, args)
                                                  : cuda_soap(&d.h, &there, args)),
                      "%s: %s", m->name, d.h.why);
        from_device(&d, got, device_update, n * sizeof(float));
        from_device(&d, unused, device_grad, grad_bytes);
        cudaFreeAsync(there.workspace, d.stream);
        ck_assert_msg(!standin_failure(), "%s", standin_failure());
        ck_assert_msg(apart(got, want, n) <= tolerance,
                      "%s (%zu,%zu) step %llu: the update is %.3g off", m->name, m->rows, m->cols,
                      (unsigned long long)step, apart(got, want, n));
        mem_free(on.workspace);
        mem_free(grad);
        mem_free(unused);
    }
    cudaFreeAsync(device_state, d.stream);
    device_close(&d);
    mem_free(state);
    mem_free(want);
    mem_free(got);
}

static void shampoo(size_t rows, size_t cols, size_t max, bool graft, enum dtype type,
                    uint64_t seed)
{
    const struct kernel_shampoo_hyper usual = KERNEL_SHAMPOO_DEFAULTS;
    struct method m = {
        .name = "shampoo", .f = KERNEL_FN_shampoo, .rows = rows, .cols = cols, .type = type};

    m.shampoo = (struct kernel_shampoo){.rows = rows,
                                        .cols = cols,
                                        .hyper = usual,
                                        .grad_type = type,
                                        .state_type = type,
                                        .grad_scale = 0.5f};
    m.shampoo.hyper.max_dim = max;
    m.shampoo.hyper.graft = graft;
    m.shampoo.hyper.frequency = 2;
    m.shampoo.hyper.ridge = 1e-3f;
    m.state = kernel_shampoo_state(rows, cols, &m.shampoo.hyper);
    m.workspace = kernel_shampoo_workspace(rows, cols, &m.shampoo.hyper);
    compare(&m, seed, 1e-4);
}

START_TEST(shampoo_is_the_cpus)
{
    shampoo(12, 12, 100, true, DTYPE_FP32, 1);
    shampoo(7, 19, 100, false, DTYPE_FP32, 2);
    shampoo(19, 7, 8, true, DTYPE_FP32, 3);
    shampoo(1, 5, 100, true, DTYPE_FP32, 4);
    shampoo(17, 9, 6, true, DTYPE_BF16, 5);
}
END_TEST

static void soap(size_t rows, size_t cols, size_t max, bool skip, enum dtype type, uint64_t seed)
{
    const struct kernel_soap_hyper usual = KERNEL_SOAP_DEFAULTS;
    struct method m = {
        .name = "soap", .f = KERNEL_FN_soap, .rows = rows, .cols = cols, .type = type};

    m.soap = (struct kernel_soap){.rows = rows,
                                  .cols = cols,
                                  .hyper = usual,
                                  .grad_type = type,
                                  .state_type = type,
                                  .grad_scale = 2};
    m.soap.hyper.max_dim = max;
    m.soap.hyper.skip_first = skip;
    m.soap.hyper.frequency = 2;
    m.state = kernel_soap_state(rows, cols, &m.soap.hyper);
    m.workspace = kernel_soap_workspace(rows, cols, &m.soap.hyper);
    compare(&m, seed, 1e-4);
}

START_TEST(soap_is_the_cpus)
{
    soap(12, 12, 100, true, DTYPE_FP32, 11);
    soap(7, 19, 100, false, DTYPE_FP32, 12);
    soap(19, 7, 8, true, DTYPE_FP32, 13);
    soap(9, 9, 4, true, DTYPE_FP32, 14);
    soap(1, 5, 100, false, DTYPE_FP32, 15);
    soap(11, 6, 100, true, DTYPE_BF16, 16);
}
END_TEST

START_TEST(a_zero_gradient_gives_a_zero_update)
{
    enum { N = 12 };
    const struct kernel_shampoo_hyper hyper = KERNEL_SHAMPOO_DEFAULTS;
    struct device d;
    float zero[N] = {0}, got[N], *update, *grad;
    struct kernel_shampoo a = {.rows = 3,
                               .cols = 4,
                               .hyper = hyper,
                               .step = 1,
                               .grad_type = DTYPE_FP32,
                               .state_type = DTYPE_FP32,
                               .grad_scale = 1};
    size_t bytes = kernel_shampoo_state(3, 4, &hyper) * sizeof(float);
    float *state = MEM_NEW(float, bytes / sizeof(float));
    struct kernel_on on = {.gemm = NULL};

    device_open(&d, 3);
    a.grad = grad = on_device(&d, zero, sizeof(zero));
    a.state = on_device(&d, state, bytes);
    a.update = update = on_device(&d, NULL, sizeof(zero));
    on.stream = d.stream;
    on.workspace_bytes = cuda_workspace(KERNEL_FN_shampoo, &on, &a);
    on.workspace = on_device(&d, NULL, on.workspace_bytes);
    ck_assert_int_eq(cuda_shampoo(&d.h, &on, &a), 0);
    from_device(&d, got, update, sizeof(got));
    for (int i = 0; i < N; i++)
        ck_assert(got[i] == 0);
    cudaFreeAsync(grad, d.stream);
    cudaFreeAsync(a.state, d.stream);
    cudaFreeAsync(on.workspace, d.stream);
    device_close(&d);
    mem_free(state);
}
END_TEST

START_TEST(without_cusolver_it_says_so)
{
    struct device d;
    float one = 1, *p;
    struct kernel_soap_hyper hyper = KERNEL_SOAP_DEFAULTS;
    struct kernel_soap a = {.rows = 1,
                            .cols = 1,
                            .hyper = hyper,
                            .step = 1,
                            .grad_type = DTYPE_FP32,
                            .state_type = DTYPE_FP32,
                            .grad_scale = 1};
    struct kernel_on on = {.gemm = NULL};

    device_open(&d, 3);
    p = on_device(&d, &one, sizeof(one));
    a.grad = p;
    a.update = p;
    a.state = on_device(&d, NULL, 64);
    on.stream = d.stream;
    on.workspace_bytes = cuda_workspace(KERNEL_FN_soap, &on, &a);
    on.workspace = on_device(&d, NULL, on.workspace_bytes);
    setenv("BALLAST_CUSOLVER", "/nowhere/libcusolver.so", 1);
    ck_assert_int_eq(cuda_soap(&d.h, &on, &a), -1);
    setenv("BALLAST_CUSOLVER", "", 1);
    ck_assert_ptr_nonnull(strstr(d.h.why, "need cuSOLVER"));
    cudaStreamSynchronize(d.stream);
    cudaFreeAsync(p, d.stream);
    cudaFreeAsync(a.state, d.stream);
    cudaFreeAsync(on.workspace, d.stream);
    device_close(&d);
}
END_TEST

/* cuSOLVER is in this program. */
__attribute__((constructor)) static void setup(void)
{
    setenv("BALLAST_CUSOLVER", "", 1);
}

/* Both forms, wide, tall and square, in every storage type: the products and roundings of the CPU's version that stores its
 * matrices in that type, so its bits; with the norm given as momentum leaves it, the same. */
START_TEST(newton_schulz_has_the_bits_of_the_cpus)
{
    static const size_t shapes[][2] = {{8, 24}, {24, 8}, {16, 16}, {1, 5}};
    static const enum dtype types[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};

    for (int k = 0; k < 4 * 3 * 4; k++) {
        const size_t *s = shapes[k % 4], n = s[0] * s[1];
        enum dtype d = types[k / 4 % 3];
        size_t bytes = (size_t)dtype_bytes(d, n);
        uint64_t seed = 11 + (uint64_t)k;
        void *x = random_array(&seed, d, n, -1, 1, NULL);
        double norm2 = kernel_norm2(&(struct kernel_on){.act = d}, d, x, n);
        struct kernel_orthogonalize a = {
            .rows = s[0], .cols = s[1], .hyper = KERNEL_NS_DEFAULTS, .type = d, .matrix = x};
        struct kernel_on on = {.gemm = &kernel_gemm_reference}, there = on;
        struct kernel_orthogonalize on_it = a;
        void *got = mem_alloc(1, bytes);
        struct device dev;

        a.hyper.stored = d;
        a.hyper.form = k / 12 % 2 ? KERNEL_NS_GRAM : KERNEL_NS_STANDARD;
        a.hyper.restart = k / 12 == 3 ? 2 : 0;
        on_it.hyper = a.hyper;
        device_open(&dev, seed);
        on_it.matrix = on_device(&dev, x, bytes);
        if (k / 24)
            on_it.norm2 = on_device(&dev, &norm2, sizeof(norm2));
        there.stream = dev.stream;
        there.workspace_bytes = 0;
        there.workspace_bytes = cuda_workspace(KERNEL_FN_orthogonalize, &there, &on_it);
        there.workspace = on_device(&dev, NULL, there.workspace_bytes);
        ck_assert_msg(!cuda_orthogonalize(&dev.h, &there, &on_it), "%s", dev.h.why);
        from_device(&dev, got, on_it.matrix, bytes);
        on.workspace_bytes = kernel_orthogonalize_workspace(s[0], s[1]);
        on.workspace = mem_alloc(1, on.workspace_bytes);
        kernel_orthogonalize(&on, &a);
        ck_assert_msg(!memcmp(got, x, bytes), "%zu x %zu %s form %d", s[0], s[1], dtype_name(d),
                      (int)a.hyper.form);
        cudaFreeAsync(there.workspace, dev.stream);
        if (on_it.norm2)
            cudaFreeAsync((void *)(uintptr_t)on_it.norm2, dev.stream);
        device_close(&dev);
        mem_free(on.workspace);
        mem_free(got);
        mem_free(x);
    }
}
END_TEST

SUITE_MAIN("cuda/preconditioner", newton_schulz_has_the_bits_of_the_cpus, shampoo_is_the_cpus,
           soap_is_the_cpus, a_zero_gradient_gives_a_zero_update, without_cusolver_it_says_so)
