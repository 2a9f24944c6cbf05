/* Shampoo and SOAP on a GPU: the steps of kernels/shampoo.c and soap.c, in fp32. Products are cuBLAS's, decompositions
 * cuSOLVER's, what lies between them kernels/precondition.h. Both libraries are column-major: a symmetric matrix is the same
 * either way, and eigenvectors, columns for cuSOLVER, are rows for us.
 *
 * cuSOLVER is loaded when a decomposition is due (BALLAST_CUSOLVER names its file), so that Muon needs none. */
#include "kernels/cuda_optimizer.h"

#include "core/mem.h"
#include "kernels/cuda.h"
#include "kernels/cuda_workspace.h"

#include <cuda_runtime_api.h>
#include <cusolverDn.h>
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- cuSOLVER ---- */

/* What we use of it: X(name without cusolverDn, arguments). */
#define SOLVER_FUNCTIONS(X)                                                                        \
    X(Create, (cusolverDnHandle_t *))                                                              \
    X(Destroy, (cusolverDnHandle_t))                                                               \
    X(SetStream, (cusolverDnHandle_t, cudaStream_t))                                               \
    X(Ssyevd_bufferSize, (cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int,            \
                          const float *, int, const float *, int *))                               \
    X(Ssyevd, (cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int, float *, int,         \
               float *, float *, int, int *))                                                      \
    X(Sgeqrf_bufferSize, (cusolverDnHandle_t, int, int, float *, int, int *))                      \
    X(Sgeqrf, (cusolverDnHandle_t, int, int, float *, int, float *, float *, int, int *))          \
    X(Sorgqr_bufferSize,                                                                           \
      (cusolverDnHandle_t, int, int, int, const float *, int, const float *, int *))               \
    X(Sorgqr, (cusolverDnHandle_t, int, int, int, float *, int, const float *, float *, int, int *))
#define SOLVER_POINTER(name, args) cusolverStatus_t(*name) args;
struct cuda_solver {
    SOLVER_FUNCTIONS(SOLVER_POINTER)
    void *library; /* owned */
    cusolverDnHandle_t handle;
    char *room; /* device, owned: info, then tau, then the solver's own */
    size_t cap;
};
#undef SOLVER_POINTER

static int why(struct cuda_handles *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int why(struct cuda_handles *h, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(h->why, sizeof(h->why), fmt, ap);
    va_end(ap);
    return -1;
}

static int checked(struct cuda_handles *h, cusolverStatus_t status, const char *what)
{
    return status == CUSOLVER_STATUS_SUCCESS
               ? 0
               : why(h, "cuSOLVER's %s: status %d", what, (int)status);
}

static int load(struct cuda_handles *h, struct cuda_solver *s)
{
    const char *names[] = {getenv("BALLAST_CUSOLVER"), "libcusolver.so.12", "libcusolver.so.11",
                           "libcusolver.so"};
    size_t n = sizeof(names) / sizeof(names[0]);

    for (size_t i = names[0] ? 0 : 1; i < (names[0] ? 1 : n) && !s->library; i++)
        s->library = dlopen(names[i], RTLD_NOW);
    if (!s->library)
        return why(h, "Shampoo and SOAP need cuSOLVER: %s", dlerror());
#define SOLVER_LOAD(name, args)                                                                    \
    *(void **)&s->name = dlsym(s->library, "cusolverDn" #name);                                    \
    if (!s->name)                                                                                  \
        return why(h, "cuSOLVER has no cusolverDn" #name);
    SOLVER_FUNCTIONS(SOLVER_LOAD)
#undef SOLVER_LOAD
    if (checked(h, s->Create(&s->handle), "Create"))
        return -1;
    return checked(h, s->SetStream(s->handle, h->stream), "SetStream");
}

static int need_solver(struct cuda_handles *h)
{
    if (h->solver)
        return 0;
    h->solver = MEM_NEW(struct cuda_solver, 1);
    if (!load(h, h->solver))
        return 0;
    cuda_solver_close(h);
    return -1;
}

void cuda_solver_close(struct cuda_handles *h)
{
    struct cuda_solver *s = h->solver;

    if (!s)
        return;
    if (s->room)
        cudaFreeAsync(s->room, h->stream);
    if (s->handle)
        s->Destroy(s->handle);
    if (s->library)
        dlclose(s->library);
    mem_free(s);
    h->solver = NULL;
}

/* Room for tau (n) and the solver's `extra` floats; where the latter are. */
static float *solver_room(struct cuda_handles *h, size_t n, int extra)
{
    struct cuda_solver *s = h->solver;
    size_t head = 256 + cuda_round(n * sizeof(float));
    size_t bytes = head + (size_t)extra * sizeof(float);
    cudaError_t status = cudaSuccess;

    if (bytes > s->cap) {
        if (s->room)
            cudaFreeAsync(s->room, h->stream);
        s->room = NULL;
        s->cap = 0;
        status = cudaMallocAsync((void **)&s->room, bytes, h->stream);
    }
    if (status != cudaSuccess) {
        why(h, "cuSOLVER's %zu bytes: %s", bytes, cudaGetErrorString(status));
        return NULL;
    }
    s->cap = bytes > s->cap ? bytes : s->cap;
    return (float *)(void *)(s->room + head);
}

static int *solver_info(struct cuda_handles *h)
{
    return (int *)(void *)h->solver->room;
}

static float *solver_tau(struct cuda_handles *h)
{
    return (float *)(void *)(h->solver->room + 256);
}

static int fits(struct cuda_handles *h, size_t n)
{
    return n <= INT_MAX ? 0 : why(h, "a side of %zu is beyond cuSOLVER's 2^31", n);
}

/* a (n,n), symmetric: an eigenvector a row, their values ascending. */
static int eigen(struct cuda_handles *h, size_t n, float *a, float *values)
{
    struct cuda_solver *s;
    float *room;
    int extra = 0;

    if (fits(h, n) || need_solver(h))
        return -1;
    s = h->solver;
    if (checked(h,
                s->Ssyevd_bufferSize(s->handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER,
                                     (int)n, a, (int)n, values, &extra),
                "Ssyevd_bufferSize"))
        return -1;
    room = solver_room(h, n, extra);
    if (!room)
        return -1;
    return checked(h,
                   s->Ssyevd(s->handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, (int)n, a,
                             (int)n, values, room, extra, solver_info(h)),
                   "Ssyevd");
}

/* Rows of a (n,n) become orthonormal, in order: Q^T of the QR of its transpose. */
static int orthonormal_rows(struct cuda_handles *h, size_t n, float *a)
{
    struct cuda_solver *s;
    float *room;
    int one = 0, two = 0, i = (int)n;

    if (fits(h, n) || need_solver(h))
        return -1;
    s = h->solver;
    if (checked(h, s->Sgeqrf_bufferSize(s->handle, i, i, a, i, &one), "Sgeqrf_bufferSize") ||
        checked(h, s->Sorgqr_bufferSize(s->handle, i, i, i, a, i, NULL, &two), "Sorgqr_bufferSize"))
        return -1;
    one = one > two ? one : two;
    room = solver_room(h, n, one);
    if (!room)
        return -1;
    if (checked(h, s->Sgeqrf(s->handle, i, i, a, i, solver_tau(h), room, one, solver_info(h)),
                "Sgeqrf"))
        return -1;
    return checked(h, s->Sorgqr(s->handle, i, i, i, a, i, solver_tau(h), room, one, solver_info(h)),
                   "Sorgqr");
}

/* ---- what both share ---- */

static void *at(enum dtype d, void *p, size_t i)
{
    return (char *)p + dtype_bytes(d, i);
}

static void cast(const struct kernel_on *on, size_t n, enum dtype from_type, const void *from,
                 enum dtype to_type, void *to)
{
    const struct kernel_cast a = {
        .n = n, .x_type = from_type, .y_type = to_type, .x = from, .y = to};

    cuda_cast(on, &a);
}

static int product(struct cuda_handles *h, bool ta, bool tb, size_t m, size_t n, size_t k,
                   float alpha, const float *a, size_t lda, const float *b, size_t ldb, float beta,
                   float *c)
{
    return cuda_product(h, ta, tb, m, n, k, alpha, DTYPE_FP32, a, lda, b, ldb, beta, DTYPE_FP32, c,
                        n);
}

static int copy(struct cuda_handles *h, float *to, const float *from, size_t n)
{
    cudaError_t status =
        cudaMemcpyAsync(to, from, n * sizeof(*to), cudaMemcpyDeviceToDevice, h->stream);

    return status == cudaSuccess ? 0 : why(h, "%s", cudaGetErrorString(status));
}

/* ---- Shampoo ---- */

struct shampoo {
    struct cuda_handles *h;
    struct kernel_on on; /* of the kernels that it launches */
    const struct kernel_shampoo *a;
    float *g, *m, *t, *p, *q, *values;
    double *adam;
};

/* L = b2 L + (1-b2) g g^T (left) or g^T g of a block (r,c); when due, its root. State elements `stat` and `root`. */
static int precondition(const struct shampoo *w, bool left, size_t r, size_t c, size_t stat,
                        size_t root)
{
    const struct kernel_shampoo *a = w->a;
    enum dtype d = a->state_type;
    size_t n = left ? r : c;
    struct kernel_root by = {.n = n,
                             .as_rows = true,
                             .correct = 1 - pow((double)a->hyper.beta2, (double)a->step),
                             .ridge = a->hyper.ridge,
                             .values = w->values,
                             .vectors = w->p};

    cast(&w->on, n * n, d, at(d, a->state, stat), DTYPE_FP32, w->p);
    if (product(w->h, !left, left, n, n, left ? c : r, 1 - a->hyper.beta2, w->g, c, w->g, c,
                a->hyper.beta2, w->p))
        return -1;
    cast(&w->on, n * n, DTYPE_FP32, w->p, d, at(d, a->state, stat));
    if ((a->step - 1) % a->hyper.frequency != 0)
        return 0;
    if (eigen(w->h, n, w->p, w->values))
        return -1;
    by.info = solver_info(w->h);
    cuda_root(&w->on, &by);
    if (product(w->h, true, false, n, n, n, 1, w->p, n, w->p, n, 0, w->q))
        return -1;
    cast(&w->on, n * n, DTYPE_FP32, w->q, d, at(d, a->state, root));
    return 0;
}

/* The update of the block (r,c) whose first element is `first` of the matrix, its state from `stat` on. */
static int shampoo_block(const struct shampoo *w, size_t first, size_t r, size_t c, size_t stat)
{
    const struct kernel_shampoo *a = w->a;
    enum dtype d = a->state_type;
    size_t all = a->rows * a->cols, rr = r * r, cc = c * c;
    const struct kernel_moments moments = {.rows = r,
                                           .cols = c,
                                           .ld = a->cols,
                                           .grad_type = a->grad_type,
                                           .state_type = d,
                                           .step = a->step,
                                           .beta1 = a->hyper.beta1,
                                           .beta2 = a->hyper.beta2,
                                           .eps = a->hyper.eps,
                                           .grad_scale = a->grad_scale,
                                           .grad = (const char *)a->grad +
                                                   dtype_bytes(a->grad_type, first),
                                           .m = at(d, a->state, first),
                                           .v = at(d, a->state, all + first),
                                           .g = w->g,
                                           .direction = w->m,
                                           .adam = w->adam};
    const struct kernel_graft graft = {.rows = r,
                                       .cols = c,
                                       .ld = a->cols,
                                       .x = w->m,
                                       .adam = a->hyper.graft ? w->adam : NULL,
                                       .to = a->update + first};

    cuda_moments(&w->on, &moments);
    if (precondition(w, true, r, c, stat, stat + rr + cc) ||
        precondition(w, false, r, c, stat + rr, stat + 2 * rr + cc))
        return -1;
    cast(&w->on, rr, d, at(d, a->state, stat + rr + cc), DTYPE_FP32, w->p);
    cast(&w->on, cc, d, at(d, a->state, stat + 2 * rr + cc), DTYPE_FP32, w->q);
    if (product(w->h, false, false, r, c, r, 1, w->p, r, w->m, c, 0, w->t) ||
        product(w->h, false, false, r, c, c, 1, w->t, c, w->q, c, 0, w->m))
        return -1;
    cuda_graft(&w->on, &graft);
    return 0;
}

int cuda_shampoo(struct cuda_handles *h, const struct kernel_on *on, const struct kernel_shampoo *a)
{
    struct cuda_shampoo_room room = cuda_shampoo_room(a);
    char *base = on->workspace;
    size_t max = a->hyper.max_dim, stat = 2 * a->rows * a->cols;
    struct shampoo w = {.h = h,
                        .on = *on,
                        .a = a,
                        .g = (float *)(void *)(base + room.g),
                        .m = (float *)(void *)(base + room.m),
                        .t = (float *)(void *)(base + room.t),
                        .p = (float *)(void *)(base + room.p),
                        .q = (float *)(void *)(base + room.q),
                        .values = (float *)(void *)(base + room.values),
                        .adam = (double *)(void *)(base + room.adam)};

    w.on.workspace = base + room.inner;
    w.on.workspace_bytes = room.bytes - room.inner;
    for (size_t row = 0; row < a->rows; row += max)
        for (size_t col = 0; col < a->cols; col += max) {
            size_t r = cuda_least(max, a->rows - row), c = cuda_least(max, a->cols - col);

            if (shampoo_block(&w, row * a->cols + col, r, c, stat))
                return -1;
            stat += 2 * (r * r + c * c);
        }
    return 0;
}

/* ---- SOAP ---- */

/* One side and where its state lies. */
struct side {
    size_t n; /* 0: it keeps its axes */
    bool left;
    size_t stat, basis, values; /* elements of the state */
};

struct soap {
    struct cuda_handles *h;
    struct kernel_on on;
    const struct kernel_soap *a;
    struct side side[2];
    float *g, *m, *v, *x, *t;
    float *l, *q, *p;
    float *values, *sorted;
    uint32_t *place;
};

static void get(const struct soap *w, size_t i, size_t n, float *to)
{
    cast(&w->on, n, w->a->state_type, at(w->a->state_type, w->a->state, i), DTYPE_FP32, to);
}

static void put(const struct soap *w, const float *from, size_t i, size_t n)
{
    cast(&w->on, n, DTYPE_FP32, from, w->a->state_type, at(w->a->state_type, w->a->state, i));
}

/* x = QL^T x QR, or back: QL x QR^T */
static int rotate(const struct soap *w, bool back, float *x)
{
    size_t rows = w->a->rows, cols = w->a->cols;

    for (int i = 0; i < 2; i++) {
        const struct side *s = &w->side[i];
        int status;

        if (!s->n)
            continue;
        get(w, s->basis, s->n * s->n, w->q);
        if (s->left)
            status = product(w->h, !back, false, rows, cols, rows, 1, w->q, rows, x, cols, 0, w->t);
        else
            status = product(w->h, false, back, rows, cols, cols, 1, x, cols, w->q, cols, 0, w->t);
        if (status || copy(w->h, x, w->t, rows * cols))
            return -1;
    }
    return 0;
}

/* L = keep L + (1 - beta) g g^T; leaves it in w->l. */
static int accumulate(const struct soap *w, const struct side *s, float keep)
{
    size_t cols = w->a->cols, n = s->n;

    if (keep != 0)
        get(w, s->stat, n * n, w->l);
    if (product(w->h, !s->left, s->left, n, n, s->left ? cols : w->a->rows,
                1 - w->a->hyper.beta_shampoo, w->g, cols, w->g, cols, keep, w->l))
        return -1;
    put(w, w->l, s->stat, n * n);
    return 0;
}

/* Eigenvectors come as rows by ascending values, and become columns by descending ones. */
static int begin(const struct soap *w, const struct side *s)
{
    const struct kernel_order order = {
        .n = s->n, .values = w->values, .sorted = w->sorted, .place = w->place};
    const struct kernel_permute columns = {.rows = s->n,
                                           .cols = s->n,
                                           .transpose = true,
                                           .row_place = w->place,
                                           .from = w->l,
                                           .to = w->q};

    if (accumulate(w, s, 0) || eigen(w->h, s->n, w->l, w->values))
        return -1;
    cuda_order(&w->on, &order);
    cuda_permute(&w->on, &columns);
    put(w, w->q, s->basis, s->n * s->n);
    put(w, w->sorted, s->values, s->n);
    return 0;
}

/* One step of power iteration on L (in w->l), with v's rows or columns following their eigenvectors. */
static int refresh(const struct soap *w, const struct side *s)
{
    size_t n = s->n, rows = w->a->rows, cols = w->a->cols;
    const struct kernel_order order = {
        .n = n, .x = w->q, .y = w->p, .values = w->values, .sorted = w->sorted, .place = w->place};
    const struct kernel_permute to_rows = {
        .rows = n, .cols = n, .transpose = true, .col_place = w->place, .from = w->p, .to = w->q};
    const struct kernel_permute to_columns = {
        .rows = n, .cols = n, .transpose = true, .from = w->q, .to = w->p};
    const struct kernel_permute follow = {.rows = rows,
                                          .cols = cols,
                                          .row_place = s->left ? w->place : NULL,
                                          .col_place = s->left ? NULL : w->place,
                                          .from = w->t,
                                          .to = w->v};

    get(w, s->basis, n * n, w->q);
    if (product(w->h, false, false, n, n, n, 1, w->l, n, w->q, n, 0, w->p))
        return -1;
    cuda_order(&w->on, &order);
    cuda_permute(&w->on, &to_rows);
    if (copy(w->h, w->t, w->v, rows * cols))
        return -1;
    cuda_permute(&w->on, &follow);
    put(w, w->sorted, s->values, n);
    if (orthonormal_rows(w->h, n, w->q))
        return -1;
    cuda_permute(&w->on, &to_columns);
    put(w, w->p, s->basis, n * n);
    return 0;
}

/* The update into w->x; v stays in w. */
static int adam(const struct soap *w, uint64_t t)
{
    const struct kernel_soap_hyper *h = &w->a->hyper;
    size_t n = w->a->rows * w->a->cols;
    const struct kernel_average mean = {.n = n, .beta = h->beta1, .x = w->g, .mean = w->m};
    const struct kernel_average square = {
        .n = n, .beta = h->beta2, .square = true, .x = w->x, .mean = w->v};
    const struct kernel_adam_step step = {.n = n,
                                          .rate =
                                              (float)(sqrt(1 - pow((double)h->beta2, (double)t)) /
                                                      (1 - pow((double)h->beta1, (double)t))),
                                          .eps = h->eps,
                                          .v = w->v,
                                          .x = w->x};

    get(w, 0, n, w->m);
    get(w, n, n, w->v);
    if (copy(w->h, w->x, w->g, n) || rotate(w, false, w->x))
        return -1;
    cuda_average(&w->on, &mean);
    cuda_average(&w->on, &square);
    put(w, w->m, 0, n);
    if (copy(w->h, w->x, w->m, n) || rotate(w, false, w->x))
        return -1;
    cuda_adam_step(&w->on, &step);
    return rotate(w, true, w->x);
}

static struct soap soap_of(struct cuda_handles *h, const struct kernel_on *on,
                           const struct kernel_soap *a)
{
    struct cuda_soap_room room = cuda_soap_room(a);
    char *base = on->workspace;
    size_t first = 2 * a->rows * a->cols;
    struct soap w = {.h = h,
                     .on = *on,
                     .a = a,
                     .g = (float *)(void *)(base + room.g),
                     .m = (float *)(void *)(base + room.m),
                     .v = (float *)(void *)(base + room.v),
                     .x = (float *)(void *)(base + room.x),
                     .t = (float *)(void *)(base + room.t),
                     .l = (float *)(void *)(base + room.l),
                     .q = (float *)(void *)(base + room.q),
                     .p = (float *)(void *)(base + room.p),
                     .values = (float *)(void *)(base + room.values),
                     .sorted = (float *)(void *)(base + room.sorted),
                     .place = (uint32_t *)(void *)(base + room.place)};

    w.on.workspace = NULL; /* none of its kernels wants any */
    w.on.workspace_bytes = 0;
    for (int i = 0; i < 2; i++) {
        size_t len = i ? a->cols : a->rows;

        if (len > a->hyper.max_dim)
            continue;
        w.side[i] = (struct side){len, !i, first, first + len * len, first + 2 * len * len};
        first += 2 * len * len + len;
    }
    return w;
}

int cuda_soap(struct cuda_handles *h, const struct kernel_on *on, const struct kernel_soap *a)
{
    size_t n = a->rows * a->cols;
    uint64_t t = a->step - a->hyper.skip_first;
    struct soap w = soap_of(h, on, a);
    const struct kernel_scale by = {.n = n, .type = DTYPE_FP32, .alpha = a->grad_scale, .x = w.g};
    cudaError_t status;

    cast(&w.on, n, a->grad_type, a->grad, DTYPE_FP32, w.g);
    cuda_scale(&w.on, &by);
    for (int i = 0; i < 2 && a->step == 1; i++)
        if (w.side[i].n && begin(&w, &w.side[i]))
            return -1;
    if (!t) {
        status = cudaMemsetAsync(a->update, 0, n * sizeof(*a->update), h->stream);
        return status == cudaSuccess ? 0 : why(h, "%s", cudaGetErrorString(status));
    }
    if (adam(&w, t) || copy(h, a->update, w.x, n))
        return -1;
    for (int i = 0; i < 2; i++) {
        if (!w.side[i].n)
            continue;
        if (a->step == 1)
            get(&w, w.side[i].stat, w.side[i].n * w.side[i].n, w.l);
        else if (accumulate(&w, &w.side[i], a->hyper.beta_shampoo))
            return -1;
        if (t % a->hyper.frequency == 0 && refresh(&w, &w.side[i]))
            return -1;
    }
    put(&w, w.v, n, n);
    return 0;
}
