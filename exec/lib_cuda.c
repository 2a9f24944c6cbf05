/* exec/lib_cuda.c - build/ballast-cuda.so: the backend for NVIDIA GPUs: the device, its streams, memory and products.
 * exec/cuda_nccl.c has what moves between devices, kernels/cuda.h the kernels.
 *
 * A rank takes the GPU of its place on its node, and the cores near that GPU. A stream of the program is a CUDA stream, an event a CUDA event, memory is
 * stream-ordered (cudaMallocAsync). Products are cuBLAS's with fp32 accumulation; the rest of a mixed product is cast around
 * one in fp32.
 */
#include "core/mem.h"
#include "exec/cuda_inner.h"
#include "kernels/cuda.h"
#include "kernels/operands.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- errors ---- */

void cuda_fail(struct backend *b, const char *what, const char *why)
{
    struct err e = {.code = ERR_NONE};

    err_set(&e, ERR_EXTERNAL, "%s: %s", what, why);
    backend_fail(b, &e);
}

static bool ok(struct backend *b, cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return true;
    cuda_fail(b, what, cudaGetErrorString(status));
    return false;
}

/* ---- memory and copies ---- */

static void *cuda_alloc(struct backend *b, enum stream s, size_t n)
{
    void *p = NULL;
    char what[64];

    snprintf(what, sizeof(what), "out of device memory: %zu bytes", n);
    if (!b->failed)
        ok(b, cudaMallocAsync(&p, n ? n : 1, cuda_of(b)->stream[s]), what);
    return p;
}

static void cuda_free(struct backend *b, enum stream s, void *p)
{
    /* after a failure no event orders the streams: what one of them may still touch stays until the process ends */
    if (!b->failed)
        ok(b, cudaFreeAsync(p, cuda_of(b)->stream[s]), "cudaFreeAsync");
}

static uint64_t cuda_device_peak(struct backend *b)
{
    uint64_t n = 0;

    ok(b, cudaMemPoolGetAttribute(cuda_of(b)->pool, cudaMemPoolAttrUsedMemHigh, &n),
       "cudaMemPoolGetAttribute");
    return n;
}

void *cuda_room(struct backend *b, struct cuda_room *r, enum stream s, size_t n)
{
    if (n <= r->cap)
        return r->p;
    if (r->p)
        cuda_free(b, s, r->p);
    b->own_bytes += n - r->cap;
    r->p = cuda_alloc(b, s, n);
    r->cap = r->p ? n : 0;
    return r->p;
}

void cuda_zero(struct backend *b, enum stream s, void *p, size_t n)
{
    if (n && !b->failed)
        ok(b, cudaMemsetAsync(p, 0, n, cuda_of(b)->stream[s]), "cudaMemsetAsync");
}

static void move(struct backend *b, enum stream s, void *to, const void *from, size_t n,
                 enum cudaMemcpyKind kind)
{
    if (n && !b->failed)
        ok(b, cudaMemcpyAsync(to, from, n, kind, cuda_of(b)->stream[s]), "cudaMemcpyAsync");
}

void cuda_copy(struct backend *b, enum stream s, void *to, const void *from, size_t n)
{
    move(b, s, to, from, n, cudaMemcpyDeviceToDevice);
}

/* From pageable memory the call returns when the bytes have been taken. */
static void cuda_upload(struct backend *b, enum stream s, void *to, const void *from_host, size_t n)
{
    move(b, s, to, from_host, n, cudaMemcpyHostToDevice);
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool cuda_passed(struct backend *b, uint32_t event)
{
    struct cuda *x = cuda_of(b);

    return event < x->made_events && cudaEventQuery(x->events[event]) == cudaSuccess;
}

/* NCCL waits for ever for a rank that is gone: look at its errors, and at the clock since an event was last seen to pass. */
static void wait_stream(struct backend *b, enum stream s)
{
    struct cuda *x = cuda_of(b);
    double moved = now_s();
    size_t passed = 0;
    char what[64];
    cudaError_t status;

    if (b->t->size == 1) {
        ok(b, cudaStreamSynchronize(x->stream[s]), "cudaStreamSynchronize");
        return;
    }
    while ((status = cudaStreamQuery(x->stream[s])) == cudaErrorNotReady && !b->failed) {
        struct timespec nap = {0, 20000};

        cuda_nccl_look(b);
        for (; passed < x->n_events && cuda_passed(b, (uint32_t)passed); passed++)
            moved = now_s();
        snprintf(what, sizeof(what), "nothing moved for %g s", x->watchdog_s);
        if (now_s() - moved > x->watchdog_s)
            cuda_fail(b, stream_name(s), what);
        nanosleep(&nap, NULL);
    }
    if (!b->failed)
        ok(b, status, "cudaStreamQuery");
}

static void cuda_download(struct backend *b, enum stream s, void *to_host, const void *from,
                          size_t n)
{
    move(b, s, to_host, from, n, cudaMemcpyDeviceToHost);
    if (!b->failed)
        wait_stream(b, s);
}

/* ---- events ---- */

static uint32_t cuda_record(struct backend *b, enum stream s)
{
    struct cuda *x = cuda_of(b);

    if (x->n_events == x->made_events) {
        x->events = mem_grow(x->events, &x->cap_events, x->n_events + 1, sizeof(*x->events));
        x->made_events += ok(b, cudaEventCreate(&x->events[x->n_events]), "cudaEventCreate");
    }
    if (!b->failed)
        ok(b, cudaEventRecord(x->events[x->n_events], x->stream[s]), "cudaEventRecord");
    return (uint32_t)x->n_events++;
}

static void cuda_wait(struct backend *b, enum stream s, uint32_t event)
{
    struct cuda *x = cuda_of(b);

    if (!b->failed)
        ok(b, cudaStreamWaitEvent(x->stream[s], x->events[event], 0), "cudaStreamWaitEvent");
}

static void cuda_sync(struct backend *b)
{
    for (int s = 0; s < STREAM_N && !b->failed; s++)
        wait_stream(b, (enum stream)s);
}

static double cuda_seconds(struct backend *b, uint32_t event)
{
    struct cuda *x = cuda_of(b);
    float ms = 0;

    if (!b->failed)
        ok(b, cudaEventElapsedTime(&ms, x->events[0], x->events[event]), "cudaEventElapsedTime");
    return (double)ms * 1e-3;
}

static void cuda_forget(struct backend *b)
{
    struct cuda *x = cuda_of(b);

    x->n_events = 0;
}

/* ---- work ---- */

void cuda_launch(struct backend *b, enum stream s, enum kernel_function k,
                 const struct kernel_on *on, const void *a)
{
    struct cuda *x = cuda_of(b);
    struct kernel_on here = *on;
    char what[48];

    if (b->failed)
        return;
    here.stream = x->stream[s];
    here.workspace_bytes = cuda_workspace(k, on, a);
    here.workspace = cuda_room(b, &x->work[s], s, here.workspace_bytes);
    if (b->failed)
        return;
    snprintf(what, sizeof(what), "kernel %s", kernel_function_name(k));
    switch (k) {
#define SIMPLE(name, type)                                                                         \
    case KERNEL_FN_##name:                                                                         \
        cuda_##name(&here, a);                                                                     \
        break;
        KERNEL_SIMPLE_FUNCTIONS(SIMPLE)
#undef SIMPLE
#define COMPOSED(name, type)                                                                       \
    case KERNEL_FN_##name:                                                                         \
        if (cuda_##name(&x->handles[s], &here, a))                                                 \
            cuda_fail(b, what, x->handles[s].why);                                                 \
        break;
        KERNEL_COMPOSED_FUNCTIONS(COMPOSED)
#undef COMPOSED
    case KERNEL_FN_N:
        break;
    }
    if (!b->failed)
        ok(b, cudaGetLastError(), what);
}

/* An operand in fp32: itself, or a copy. Rows follow one another without gaps where it is copied. */
static const void *widen(struct backend *b, enum stream s, int which, enum dtype d, const void *p,
                         uint64_t n)
{
    const struct kernel_on on = {.act = d, .weight = d, .grad = d};
    struct kernel_cast a = {.n = n, .x_type = d, .y_type = DTYPE_FP32, .x = p};

    if (d == DTYPE_FP32)
        return p;
    a.y = cuda_room(b, &cuda_of(b)->operand[s][which], s, n * sizeof(float));
    cuda_launch(b, s, KERNEL_FN_cast, &on, &a);
    return a.y;
}

static uint64_t extent(uint64_t rows, uint64_t cols, uint64_t ld)
{
    return rows ? (rows - 1) * ld + cols : 0;
}

static void cuda_gemm(struct backend *b, enum stream s, const struct backend_gemm *g)
{
    const struct kernel_on on = {.act = g->c_type, .weight = g->c_type, .grad = g->c_type};
    struct backend_gemm wide = *g;
    uint64_t n = g->m * g->n;
    bool keeps = g->beta > 0 || g->beta < 0;
    struct kernel_cast out = {.n = n, .x_type = DTYPE_FP32, .y_type = g->c_type, .y = g->c};

    if (!n || b->failed)
        return;
    if (cuda_product_is_direct(g->a_type, g->b_type, g->c_type)) {
        if (cuda_product(&cuda_of(b)->handles[s], g->ta, g->tb, g->m, g->n, g->k, g->alpha,
                         g->a_type, g->a, g->lda, g->b, g->ldb, g->beta, g->c_type, g->c, g->ldc))
            cuda_fail(b, "cublasGemmEx", cuda_of(b)->handles[s].why);
        return;
    }
    wide.a =
        widen(b, s, 0, g->a_type, g->a, extent(g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->lda));
    wide.b =
        widen(b, s, 1, g->b_type, g->b, extent(g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->ldb));
    if (g->c_type != DTYPE_FP32) {
        BUG_ON(g->ldc != g->n);
        wide.c = keeps ? (void *)(uintptr_t)widen(b, s, 2, g->c_type, g->c, n)
                       : cuda_room(b, &cuda_of(b)->operand[s][2], s, n * sizeof(float));
    }
    wide.a_type = wide.b_type = wide.c_type = DTYPE_FP32;
    cuda_gemm(b, s, &wide);
    out.x = wide.c;
    if (g->c_type != DTYPE_FP32)
        cuda_launch(b, s, KERNEL_FN_cast, &on, &out);
}

/* ---- start and end ---- */

/* The rank's place among those of its node, by host name. */
static int place_on_node(struct transport *t, uint32_t *place, struct err *e)
{
    enum { NAME = 256 };
    char mine[NAME] = "", *all = mem_alloc(t->size, NAME);
    int status;

    if (gethostname(mine, NAME - 1))
        mine[0] = 0;
    status = transport_all_gather_control(t, mine, NAME, all, e);
    *place = 0;
    for (uint32_t r = 0; r < t->rank && !status; r++)
        *place += !strcmp(all + (size_t)r * NAME, mine);
    mem_free(all);
    return status;
}

static int count_gpus(int *n, struct err *e)
{
    cudaError_t status = cudaGetDeviceCount(n);

    if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice ||
        (status == cudaSuccess && !*n))
        return err_set(e, ERR_EXTERNAL, "there is no NVIDIA GPU, or no driver for it, here");
    if (status != cudaSuccess)
        return err_set(e, ERR_EXTERNAL, "cudaGetDeviceCount: %s", cudaGetErrorString(status));
    return 0;
}

static int cuda_usable(const struct backend_options *o, struct err *e)
{
    int n = 0;

    return count_gpus(&n, e) || (o->transport->size > 1 && !cuda_nccl_file(e)) ? -1 : 0;
}

static int take_gpu(struct cuda *x, const struct backend_options *o, struct err *e)
{
    struct transport *t = o->transport;
    char bus[32] = "";
    uint32_t place;
    int n = 0;
    cudaError_t status;

    if (count_gpus(&n, e))
        return -1;
    if (place_on_node(t, &place, e))
        return -1;
    if (place >= (uint32_t)n && n > 1)
        return err_set(e, ERR_EXTERNAL, "rank %u is number %u on its node, which shows %d GPUs",
                       t->rank, place + 1, n);
    x->device = (int)place % n; /* a launcher that binds shows each rank one GPU */
    status = cudaSetDevice(x->device);
    if (status != cudaSuccess)
        return err_set(e, ERR_EXTERNAL, "GPU %d: %s", x->device, cudaGetErrorString(status));
    if (o->stay_near && cudaDeviceGetPCIBusId(bus, sizeof(bus), x->device) == cudaSuccess)
        o->stay_near(bus);
    return 0;
}

static int make_streams(struct backend *b, struct cuda *x)
{
    uint64_t keep = UINT64_MAX;

    if (!ok(b, cudaDeviceGetDefaultMemPool(&x->pool, x->device), "cudaDeviceGetDefaultMemPool") ||
        !ok(b, cudaMemPoolSetAttribute(x->pool, cudaMemPoolAttrReleaseThreshold, &keep),
            "cudaMemPoolSetAttribute"))
        return -1;
    for (int s = 0; s < STREAM_N; s++)
        if (!ok(b, cudaStreamCreateWithFlags(&x->stream[s], cudaStreamNonBlocking),
                "cudaStreamCreate") ||
            cuda_handles_open(&x->handles[s], x->stream[s])) {
            cuda_fail(b, "cuBLAS", x->handles[s].why);
            return -1;
        }
    return 0;
}

static int describe(struct backend *b, struct cuda *x)
{
    struct cudaDeviceProp p;
    size_t left = 0, all = 0;
    int n_sm = 0;

    if (!ok(b, cudaGetDeviceProperties(&p, x->device), "cudaGetDeviceProperties") ||
        !ok(b, cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, x->device),
            "cudaDeviceGetAttribute") ||
        !ok(b, cudaMemGetInfo(&left, &all), "cudaMemGetInfo"))
        return -1;
    b->device = (struct backend_device){
        .memory_bytes = all, .context_bytes = all - left, .n_sm = (uint32_t)n_sm, .overlaps = true};
    snprintf(b->device.name, sizeof(b->device.name), "%.159s", p.name);
    return 0;
}

static void cuda_close(struct backend *b)
{
    struct cuda *x = cuda_of(b);

    cuda_nccl_close(b);
    for (int s = 0; s < STREAM_N && x->stream[s]; s++) {
        struct cuda_room *rooms[] = {&x->work[s], &x->scratch[s], &x->operand[s][0],
                                     &x->operand[s][1], &x->operand[s][2]};

        for (size_t k = 0; k < sizeof(rooms) / sizeof(rooms[0]); k++)
            if (rooms[k]->p)
                cudaFreeAsync(rooms[k]->p, x->stream[s]);
        cuda_handles_close(&x->handles[s]);
        cudaStreamSynchronize(x->stream[s]);
        cudaStreamDestroy(x->stream[s]);
    }
    for (size_t i = 0; i < x->made_events; i++)
        cudaEventDestroy(x->events[i]);
    cuda_nccl_unload(b);
    mem_free(x->events);
    mem_free(x);
    b->ctx = NULL;
}

static int cuda_open(struct backend *b, const struct backend_options *o, struct err *e)
{
    struct cuda *x = MEM_NEW(struct cuda, 1);
    int status;

    b->ctx = x;
    x->b = b;
    x->watchdog_s = o->transport->watchdog_s > 0 ? o->transport->watchdog_s : 60;
    status = take_gpu(x, o, e);
    if (!status && (make_streams(b, x) || describe(b, x)))
        status = backend_status(b, e);
    if (!status && o->transport->size > 1)
        status = cuda_nccl_open(b, o, e);
    if (status)
        cuda_close(b);
    return status;
}

extern const struct backend_library backend_library;
const struct backend_library backend_library = {
    .name = "cuda",
    .usable = cuda_usable,
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .device_peak = cuda_device_peak,
    .zero = cuda_zero,
    .copy = cuda_copy,
    .upload = cuda_upload,
    .download = cuda_download,
    .record = cuda_record,
    .wait = cuda_wait,
    .sync = cuda_sync,
    .seconds = cuda_seconds,
    .passed = cuda_passed,
    .forget = cuda_forget,
    .gemm = cuda_gemm,
    .launch = cuda_launch,
    .collective = cuda_collective,
};
