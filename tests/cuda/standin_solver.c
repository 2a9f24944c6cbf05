/* cuSOLVER: decompositions of the CPU's reference, laid out as LAPACK lays them out. */
#include "tests/cuda/standin.h"

#include "core/mem.h"
#include "kernels/eigen.h"

#include <cusolverDn.h>
#include <string.h>

struct cusolverDnContext {
    cudaStream_t stream;
};

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *h)
{
    *h = MEM_NEW(struct cusolverDnContext, 1);
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t h)
{
    mem_free(h);
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t h, cudaStream_t s)
{
    h->stream = s;
    return CUSOLVER_STATUS_SUCCESS;
}

struct decomposition {
    size_t n;
    float *a, *out; /* out: eigenvalues, or tau */
    int *info;
};

static void issue(cusolverDnHandle_t h, const char *name, void (*run)(void *),
                  struct decomposition *d, float *work, int lwork)
{
    struct standin_task t = {.name = name, .run = run, .args = d, .n_args = sizeof(*d)};

    standin_touch(&t, d->a, d->n * d->n * sizeof(float), true);
    standin_touch(&t, d->out, d->n * sizeof(float), true);
    standin_touch(&t, work, (size_t)lwork * sizeof(float), true);
    standin_touch(&t, d->info, sizeof(int), true);
    standin_count(&standin_counters.kernels);
    standin_issue(h->stream, &t);
}

static void transpose(size_t n, float *a)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) {
            float keep = a[i * n + j];

            a[i * n + j] = a[j * n + i];
            a[j * n + i] = keep;
        }
}

static void mirror(size_t n, float *a)
{
    for (size_t i = 0; i < n / 2; i++)
        for (size_t j = 0; j < n; j++) {
            float keep = a[i * n + j];

            a[i * n + j] = a[(n - 1 - i) * n + j];
            a[(n - 1 - i) * n + j] = keep;
        }
}

/* Eigenvectors are columns, and lie column by column, by ascending values. */
static void run_eigen(void *args)
{
    const struct decomposition *d = args;
    void *room = mem_alloc(1, kernel_eigen_workspace(d->n));
    float *values = MEM_NEW(float, d->n);

    kernel_eigen(d->n, d->a, values, d->a, room);
    transpose(d->n, d->a);
    mirror(d->n, d->a);
    for (size_t i = 0; i < d->n; i++)
        d->out[i] = values[d->n - 1 - i];
    *d->info = 0;
    mem_free(values);
    mem_free(room);
}

cusolverStatus_t cusolverDnSsyevd_bufferSize(cusolverDnHandle_t h, cusolverEigMode_t mode,
                                             cublasFillMode_t fill, int n, const float *a, int lda,
                                             const float *w, int *lwork)
{
    (void)h, (void)mode, (void)fill, (void)a, (void)lda, (void)w;
    *lwork = 2 * n + 1;
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSsyevd(cusolverDnHandle_t h, cusolverEigMode_t mode,
                                  cublasFillMode_t fill, int n, float *a, int lda, float *w,
                                  float *work, int lwork, int *info)
{
    struct decomposition d = {(size_t)n, a, w, info};

    (void)fill;
    if (mode != CUSOLVER_EIG_MODE_VECTOR || lda < n || lwork < 2 * n + 1)
        return CUSOLVER_STATUS_INVALID_VALUE;
    issue(h, "Ssyevd", run_eigen, &d, work, lwork);
    return CUSOLVER_STATUS_SUCCESS;
}

/* QR is done in one, by Sorgqr; tau tells it that Sgeqrf was here, on this matrix. */
static float mark_of(const struct decomposition *d)
{
    float sum = (float)d->n;

    for (size_t i = 0; i < d->n * d->n; i++)
        sum += d->a[i] * (float)(i % 7);
    return sum;
}

static void run_factor(void *args)
{
    const struct decomposition *d = args;

    for (size_t i = 0; i < d->n; i++)
        d->out[i] = mark_of(d);
    *d->info = 0;
}

static void run_form(void *args)
{
    const struct decomposition *d = args;
    float mark = mark_of(d);
    void *room = mem_alloc(1, kernel_eigen_workspace(d->n));

    for (size_t i = 0; i < d->n; i++)
        if (memcmp(&d->out[i], &mark, sizeof(mark)))
            standin_fail("Sorgqr without the Sgeqrf of its matrix");
    transpose(d->n, d->a);
    kernel_qr(d->n, d->a, room);
    transpose(d->n, d->a);
    *d->info = 0;
    mem_free(room);
}

cusolverStatus_t cusolverDnSgeqrf_bufferSize(cusolverDnHandle_t h, int m, int n, float *a, int lda,
                                             int *lwork)
{
    (void)h, (void)m, (void)a, (void)lda;
    *lwork = n;
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSgeqrf(cusolverDnHandle_t h, int m, int n, float *a, int lda, float *tau,
                                  float *work, int lwork, int *info)
{
    struct decomposition d = {(size_t)n, a, tau, info};

    if (m != n || lda < n || lwork < n)
        return CUSOLVER_STATUS_INVALID_VALUE;
    issue(h, "Sgeqrf", run_factor, &d, work, lwork);
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSorgqr_bufferSize(cusolverDnHandle_t h, int m, int n, int k,
                                             const float *a, int lda, const float *tau, int *lwork)
{
    (void)h, (void)m, (void)k, (void)a, (void)lda, (void)tau;
    *lwork = 3 * n;
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSorgqr(cusolverDnHandle_t h, int m, int n, int k, float *a, int lda,
                                  const float *tau, float *work, int lwork, int *info)
{
    struct decomposition d = {(size_t)n, a, (float *)(uintptr_t)tau, info};

    if (m != n || k != n || lda < n || lwork < 3 * n)
        return CUSOLVER_STATUS_INVALID_VALUE;
    issue(h, "Sorgqr", run_form, &d, work, lwork);
    return CUSOLVER_STATUS_SUCCESS;
}
