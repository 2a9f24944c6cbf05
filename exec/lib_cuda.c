/* exec/lib_cuda.c - build/ballast-cuda.so: the backend for NVIDIA GPUs. The only file that talks to the CUDA runtime's
 * streams, cuBLAS and NCCL; kernels/cuda.h has the kernels.
 *
 * A rank takes the GPU of its place on its node, and the cores of that GPU's NUMA node. A stream of the program is a CUDA stream, an event a CUDA event, memory is
 * stream-ordered (cudaMallocAsync). Products are cuBLAS's with fp32 accumulation; the rest of a mixed product is cast around
 * one in fp32. Collectives: all-gather, all-reduce and reduce-scatter are NCCL's own, owner segments along a ring NCCL's broadcast and reduce;
 * every other algorithm, and ordered reductions, are carried by ncclSend and ncclRecv in groups, as exec/collective.c says,
 * with sums in kernels. Each stream has a communicator of its own, so that a gather and a reduction overlap.
 * NCCL is loaded when there are several ranks (BALLAST_NCCL names its file, else libnccl.so.2), so that one rank needs none.
 */
#include "core/mem.h"
#include "exec/backend.h"
#include "kernels/cuda.h"
#include "kernels/cuda_optimizer.h"
#include "kernels/operands.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What we use of NCCL: X(name without nccl, arguments). */
#define NCCL_FUNCTIONS(X)                                                                          \
    X(GetUniqueId, (ncclUniqueId *))                                                               \
    X(CommInitRank, (ncclComm_t *, int, ncclUniqueId, int))                                        \
    X(CommAbort, (ncclComm_t))                                                                     \
    X(CommDestroy, (ncclComm_t))                                                                   \
    X(CommGetAsyncError, (ncclComm_t, ncclResult_t *))                                             \
    X(GroupStart, (void))                                                                          \
    X(GroupEnd, (void))                                                                            \
    X(Send, (const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                 \
    X(Recv, (void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                       \
    X(Broadcast, (const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))    \
    X(Reduce,                                                                                      \
      (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t))  \
    X(AllGather, (const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t))         \
    X(AllReduce,                                                                                   \
      (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))       \
    X(ReduceScatter,                                                                               \
      (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))
#define NCCL_POINTER(name, args) ncclResult_t(*name) args;
struct nccl {
    NCCL_FUNCTIONS(NCCL_POINTER)
    const char *(*GetErrorString)(ncclResult_t);
    void *handle;
};
#undef NCCL_POINTER

struct room {
    void *p; /* owned, of its stream */
    size_t cap;
};

/* Some of the ranks, and their communicators: made by the members when they first meet on a stream. */
struct party {
    struct party *next;
    uint32_t n, *ranks; /* owned */
    ncclComm_t comm[STREAM_N];
};

struct cuda {
    struct backend *b;
    int device;
    cudaStream_t stream[STREAM_N];
    struct cuda_handles handles[STREAM_N]; /* a cuBLAS handle has one workspace: one a stream */
    cudaMemPool_t pool;
    cudaEvent_t *events; /* owned */
    size_t n_events, made_events, cap_events;
    struct room work[STREAM_N], operand[STREAM_N][3], scratch[STREAM_N];
    struct nccl nccl;
    struct party world, *parties; /* owned */
    double watchdog_s;
};

static struct cuda *cuda_of(struct backend *b)
{
    return b->ctx;
}

/* ---- errors: the first one stays with the backend ---- */

static void fail(struct backend *b, const char *what, const char *why)
{
    struct err e = {.code = ERR_NONE};

    err_set(&e, ERR_EXTERNAL, "%s: %s", what, why);
    backend_fail(b, &e);
}

static bool ok(struct backend *b, cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return true;
    fail(b, what, cudaGetErrorString(status));
    return false;
}

static bool nccl_ok(struct backend *b, ncclResult_t status, const char *what)
{
    if (status == ncclSuccess || status == ncclInProgress)
        return true;
    fail(b, what, cuda_of(b)->nccl.GetErrorString(status));
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
    ok(b, cudaFreeAsync(p, cuda_of(b)->stream[s]), "cudaFreeAsync");
}

static uint64_t cuda_device_peak(struct backend *b)
{
    uint64_t n = 0;

    ok(b, cudaMemPoolGetAttribute(cuda_of(b)->pool, cudaMemPoolAttrUsedMemHigh, &n),
       "cudaMemPoolGetAttribute");
    return n;
}

/* Contents are lost when it grows. */
static void *room(struct backend *b, struct room *r, enum stream s, size_t n)
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

static void cuda_zero(struct backend *b, enum stream s, void *p, size_t n)
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

static void cuda_copy(struct backend *b, enum stream s, void *to, const void *from, size_t n)
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

static void look_at(struct backend *b, const struct party *p)
{
    struct cuda *x = cuda_of(b);

    for (int k = 0; k < STREAM_N; k++) {
        ncclResult_t r = ncclSuccess;

        if (p->comm[k] && (x->nccl.CommGetAsyncError(p->comm[k], &r) != ncclSuccess ||
                           (r != ncclSuccess && r != ncclInProgress)))
            nccl_ok(b, r, "NCCL");
    }
}

/* NCCL waits for ever for a rank that is gone: look at its errors and at the clock while the stream is at work. */
static void wait_stream(struct backend *b, enum stream s)
{
    struct cuda *x = cuda_of(b);
    double start = now_s();
    cudaError_t status;

    if (b->t->size == 1) {
        ok(b, cudaStreamSynchronize(x->stream[s]), "cudaStreamSynchronize");
        return;
    }
    while ((status = cudaStreamQuery(x->stream[s])) == cudaErrorNotReady && !b->failed) {
        struct timespec nap = {0, 20000};

        for (const struct party *p = &x->world; p; p = p == &x->world ? x->parties : p->next)
            look_at(b, p);
        if (now_s() - start > x->watchdog_s)
            fail(b, stream_name(s), "nothing moved for the watchdog's time");
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

static void cuda_launch(struct backend *b, enum stream s, enum kernel_function k,
                        const struct kernel_on *on, const void *a)
{
    struct cuda *x = cuda_of(b);
    struct kernel_on here = *on;
    char what[48];

    if (b->failed)
        return;
    here.stream = x->stream[s];
    here.workspace_bytes = cuda_workspace(k, on, a);
    here.workspace = room(b, &x->work[s], s, here.workspace_bytes);
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
            fail(b, what, x->handles[s].why);                                                      \
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
    a.y = room(b, &cuda_of(b)->operand[s][which], s, n * sizeof(float));
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
            fail(b, "cublasGemmEx", cuda_of(b)->handles[s].why);
        return;
    }
    wide.a =
        widen(b, s, 0, g->a_type, g->a, extent(g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->lda));
    wide.b =
        widen(b, s, 1, g->b_type, g->b, extent(g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->ldb));
    if (g->c_type != DTYPE_FP32) {
        BUG_ON(g->ldc != g->n);
        wide.c = keeps ? (void *)(uintptr_t)widen(b, s, 2, g->c_type, g->c, n)
                       : room(b, &cuda_of(b)->operand[s][2], s, n * sizeof(float));
    }
    wide.a_type = wide.b_type = wide.c_type = DTYPE_FP32;
    cuda_gemm(b, s, &wide);
    out.x = wide.c;
    if (g->c_type != DTYPE_FP32)
        cuda_launch(b, s, KERNEL_FN_cast, &on, &out);
}

/* ---- groups of some ranks ---- */

/* The first member makes an id and sends it to the others over the transport; they come here in the same order, since all
 * members issue a group's collectives alike. ncclCommSplit would be a call of all ranks, who are elsewhere. */
static int hand_out(struct transport *t, const struct coll_group *g, ncclUniqueId *id,
                    struct err *e)
{
    enum { TAG = TRANSPORT_CONTROL + 64 };
    struct transport_request *q = MEM_NEW(struct transport_request, g->n);
    size_t n = 0;
    int status = 0;

    for (uint32_t i = 1; i < g->n && !g->self && !status; i++)
        status = t->lib->isend(t, g->ranks[i], TAG, id, sizeof(*id), &q[n++], e);
    if (g->self)
        status = t->lib->irecv(t, g->ranks[0], TAG, id, sizeof(*id), &q[n++], e);
    if (!status)
        status = t->lib->wait(t, q, n, e);
    mem_free(q);
    return status;
}

static struct party *party_of(struct cuda *x, const struct coll_group *g)
{
    struct party *p = x->parties;

    if (g->n == x->b->t->size)
        return &x->world;
    while (p && (p->n != g->n || memcmp(p->ranks, g->ranks, g->n * sizeof(*p->ranks)) != 0))
        p = p->next;
    if (p)
        return p;
    p = MEM_NEW(struct party, 1);
    p->n = g->n;
    p->ranks = MEM_NEW(uint32_t, g->n);
    memcpy(p->ranks, g->ranks, g->n * sizeof(*p->ranks));
    p->next = x->parties;
    x->parties = p;
    return p;
}

/* A rank's number in it is its place in the group. NULL: it failed. */
static ncclComm_t comm_of(struct backend *b, enum stream s, const struct coll_group *g)
{
    struct cuda *x = cuda_of(b);
    struct party *p = party_of(x, g);
    struct err e = {.code = ERR_NONE};
    ncclUniqueId id;

    if (p->comm[s])
        return p->comm[s];
    memset(&id, 0, sizeof(id));
    if (!g->self && !nccl_ok(b, x->nccl.GetUniqueId(&id), "ncclGetUniqueId"))
        return NULL;
    if (hand_out(b->t, g, &id, &e)) {
        backend_fail(b, &e);
        return NULL;
    }
    nccl_ok(b, x->nccl.CommInitRank(&p->comm[s], (int)g->n, id, (int)g->self), "ncclCommInitRank");
    return b->failed ? NULL : p->comm[s];
}

/* ---- collectives ---- */

struct carried {
    struct backend *b;
    enum stream s;
    const struct coll_group *g;
    bool open; /* a group of sends and receives */
};

/* Messages go from rank to rank on the communicator of all. */
static int in_group(struct carried *c)
{
    struct cuda *x = cuda_of(c->b);

    if (!c->open)
        nccl_ok(c->b, x->nccl.GroupStart(), "ncclGroupStart");
    c->open = true;
    return c->b->failed ? -1 : 0;
}

static int carry_send(void *ctx, uint32_t rank, const void *data, size_t n, struct err *e)
{
    struct carried *c = ctx;
    struct cuda *x = cuda_of(c->b);

    (void)e;
    if (!n)
        return 0;
    c->b->n_sent += n;
    if (in_group(c) ||
        !nccl_ok(c->b,
                 x->nccl.Send(data, n, ncclInt8, (int)rank, x->world.comm[c->s], x->stream[c->s]),
                 "ncclSend"))
        return -1;
    return 0;
}

static int carry_receive(void *ctx, uint32_t rank, void *data, size_t n, struct err *e)
{
    struct carried *c = ctx;
    struct cuda *x = cuda_of(c->b);

    (void)e;
    if (!n)
        return 0;
    c->b->n_received += n;
    if (in_group(c) ||
        !nccl_ok(c->b,
                 x->nccl.Recv(data, n, ncclInt8, (int)rank, x->world.comm[c->s], x->stream[c->s]),
                 "ncclRecv"))
        return -1;
    return 0;
}

static int carry_finish(void *ctx, struct err *e)
{
    struct carried *c = ctx;

    (void)e;
    if (c->open)
        nccl_ok(c->b, cuda_of(c->b)->nccl.GroupEnd(), "ncclGroupEnd");
    c->open = false;
    return c->b->failed ? -1 : 0;
}

static void carry_copy(void *ctx, void *to, const void *from, size_t n)
{
    struct carried *c = ctx;

    cuda_copy(c->b, c->s, to, from, n);
}

static void carry_zero(void *ctx, void *p, size_t n)
{
    struct carried *c = ctx;

    cuda_zero(c->b, c->s, p, n);
}

static void carry_reduce(void *ctx, const struct kernel_reduce *a)
{
    const struct kernel_on on = {.act = a->type, .weight = a->type, .grad = a->type};
    struct carried *c = ctx;

    cuda_launch(c->b, c->s, KERNEL_FN_reduce, &on, a);
}

static void carry_scale(void *ctx, const struct kernel_scale *a)
{
    const struct kernel_on on = {.act = a->type, .weight = a->type, .grad = a->type};
    struct carried *c = ctx;

    cuda_launch(c->b, c->s, KERNEL_FN_scale, &on, a);
}

static ncclDataType_t nccl_type(enum dtype d)
{
    return d == DTYPE_FP32   ? ncclFloat32
           : d == DTYPE_BF16 ? ncclBfloat16
           : d == DTYPE_FP16 ? ncclFloat16
                             : ncclInt8;
}

static void scale_by(struct carried *c, enum dtype d, void *p, size_t bytes, double scale)
{
    const struct kernel_scale a = {
        .n = bytes / dtype_bytes(d, 1), .type = d, .alpha = (float)scale, .x = p};

    if (scale != 0 && (scale < 1 || scale > 1) && a.n)
        carry_scale(c, &a);
}

/* Sums of NCCL's own, then the scale; bytes as the ring's, which NCCL may or may not take. */
static void even(struct carried *by, const struct coll_call *c)
{
    struct cuda *x = cuda_of(by->b);
    cudaStream_t s = x->stream[by->s];
    uint32_t n = by->g->n;
    size_t count = c->chunk_bytes / dtype_bytes(c->dtype, 1), ring = (n - 1) * c->chunk_bytes;
    char *own = (char *)c->data + by->g->self * c->chunk_bytes;
    ncclDataType_t d = nccl_type(c->dtype);
    ncclComm_t comm = count ? comm_of(by->b, by->s, by->g) : NULL;

    if (!comm)
        return;
    if (c->kind == COLL_ALL_GATHER) {
        nccl_ok(by->b, x->nccl.AllGather(own, c->data, count, d, comm, s), "ncclAllGather");
    } else if (c->kind == COLL_REDUCE_SCATTER) {
        nccl_ok(by->b, x->nccl.ReduceScatter(c->data, own, count, d, ncclSum, comm, s),
                "ncclReduceScatter");
        scale_by(by, c->dtype, own, c->chunk_bytes, c->scale);
    } else {
        nccl_ok(by->b, x->nccl.AllReduce(c->data, c->data, n * count, d, ncclSum, comm, s),
                "ncclAllReduce");
        scale_by(by, c->dtype, c->data, n * c->chunk_bytes, c->scale);
        ring *= 2;
    }
    by->b->n_sent += ring;
    by->b->n_received += ring;
}

/* Segments along rings as broadcasts or reductions in one group. A rank sends what it gets, but the last of the ring
 * nothing (a gather) or the root nothing (a reduction). */
static void rings(struct carried *by, const struct coll_call *c)
{
    struct cuda *x = cuda_of(by->b);
    cudaStream_t s = x->stream[by->s];
    bool gather = c->kind == COLL_SEGMENT_GATHER;
    uint32_t n = by->g->n, self = by->g->self;
    ncclComm_t comm = comm_of(by->b, by->s, by->g);

    if (!comm || in_group(by))
        return;
    for (uint32_t i = 0; i < c->n_segments; i++) {
        const struct segment *g = &c->segments[i];
        char *p = (char *)c->data + g->offset;
        size_t count = g->bytes / dtype_bytes(c->dtype, 1);
        bool root = g->root == self, last = (g->root + n - 1) % n == self;

        if (gather && count)
            nccl_ok(by->b,
                    x->nccl.Broadcast(p, p, count, nccl_type(c->dtype), (int)g->root, comm, s),
                    "ncclBroadcast");
        else if (count)
            nccl_ok(
                by->b,
                x->nccl.Reduce(p, p, count, nccl_type(c->dtype), ncclSum, (int)g->root, comm, s),
                "ncclReduce");
        by->b->n_sent += (gather ? last : root) ? 0 : g->bytes;
        by->b->n_received += (gather ? root : last) ? 0 : g->bytes;
    }
    carry_finish(by, NULL);
    for (uint32_t i = 0; i < c->n_segments && !gather; i++)
        if (c->segments[i].root == self)
            scale_by(by, c->dtype, (char *)c->data + c->segments[i].offset, c->segments[i].bytes,
                     c->scale);
}

/* Does NCCL have this one? */
static bool native(const struct coll_group *g, const struct coll_call *c)
{
    bool segments = c->kind == COLL_SEGMENT_GATHER || c->kind == COLL_SEGMENT_REDUCE;

    if (c->kind == COLL_ALL_GATHER)
        return true;
    if (segments && c->algo != ALGO_RING)
        return false;
    for (uint32_t i = 0; segments && i < c->n_segments; i++)
        if (c->segments[i].to_first || c->segments[i].to_n != g->n)
            return false;
    return (segments || c->kind == COLL_ALL_REDUCE || c->kind == COLL_REDUCE_SCATTER) &&
           (!c->ordered || c->kind == COLL_SEGMENT_GATHER);
}

static void cuda_collective(struct backend *b, enum stream s, const struct coll_group *g,
                            const struct coll_call *c)
{
    struct carried by = {.b = b, .s = s, .g = g};
    const struct coll_carrier carrier = {.ctx = &by,
                                         .send = carry_send,
                                         .receive = carry_receive,
                                         .finish = carry_finish,
                                         .copy = carry_copy,
                                         .zero = carry_zero,
                                         .reduce = carry_reduce,
                                         .scale = carry_scale};
    struct coll_call here = *c;
    struct err e = {.code = ERR_NONE};

    if (b->failed)
        return;
    if (g->n > 1 && native(g, c)) {
        if (c->kind == COLL_SEGMENT_GATHER || c->kind == COLL_SEGMENT_REDUCE)
            rings(&by, c);
        else
            even(&by, c);
        return;
    }
    here.scratch = room(b, &cuda_of(b)->scratch[s], s, collective_scratch_bytes(c, g));
    if (!b->failed && collective_carry(&carrier, g, &here, &e) && !b->failed)
        backend_fail(b, &e);
}

/* ---- start and end ---- */

static int load_nccl(struct nccl *n, struct err *e)
{
    const char *path = getenv("BALLAST_NCCL");

    n->handle = dlopen(path ? path : "libnccl.so.2", RTLD_NOW);
    if (!n->handle)
        return err_set(e, ERR_EXTERNAL, "several ranks need NCCL: %s", dlerror());
#define NCCL_LOAD(name, args)                                                                      \
    *(void **)&n->name = dlsym(n->handle, "nccl" #name);                                           \
    if (!n->name)                                                                                  \
        return err_set(e, ERR_EXTERNAL, "NCCL has no nccl" #name);
    NCCL_FUNCTIONS(NCCL_LOAD)
#undef NCCL_LOAD
    *(void **)&n->GetErrorString = dlsym(n->handle, "ncclGetErrorString");
    return n->GetErrorString ? 0 : err_set(e, ERR_EXTERNAL, "NCCL has no ncclGetErrorString");
}

/* Rank 0 makes an id for each stream's communicator; MPI (the transport) hands them out. */
static int join(struct cuda *x, struct transport *t, struct err *e)
{
    ncclUniqueId mine[STREAM_N], *all;
    int status;

    memset(mine, 0, sizeof(mine));
    if (load_nccl(&x->nccl, e))
        return -1;
    for (int s = 0; s < STREAM_N && t->rank == 0; s++)
        if (x->nccl.GetUniqueId(&mine[s]) != ncclSuccess)
            return err_set(e, ERR_EXTERNAL, "ncclGetUniqueId failed");
    all = mem_alloc(t->size, sizeof(mine));
    status = transport_all_gather_control(t, mine, sizeof(mine), all, e);
    for (int s = 0; s < STREAM_N && !status; s++)
        if (x->nccl.CommInitRank(&x->world.comm[s], (int)t->size, all[s], (int)t->rank) !=
            ncclSuccess)
            status = err_set(e, ERR_EXTERNAL,
                             "ncclCommInitRank failed for %u ranks (set "
                             "NCCL_DEBUG=WARN to see why)",
                             t->size);
    mem_free(all);
    return status;
}

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

static int take_gpu(struct cuda *x, const struct backend_options *o, struct err *e)
{
    struct transport *t = o->transport;
    char bus[32] = "";
    uint32_t place;
    int n = 0;
    cudaError_t status = cudaGetDeviceCount(&n);

    if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice ||
        (status == cudaSuccess && !n))
        return err_set(e, ERR_EXTERNAL, "there is no NVIDIA GPU, or no driver for it, here");
    if (status != cudaSuccess)
        return err_set(e, ERR_EXTERNAL, "cudaGetDeviceCount: %s", cudaGetErrorString(status));
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
            fail(b, "cuBLAS", x->handles[s].why);
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

static void leave(struct cuda *x, struct party *p, bool failed)
{
    for (int s = 0; s < STREAM_N; s++)
        if (p->comm[s])
            (failed ? x->nccl.CommAbort : x->nccl.CommDestroy)(p->comm[s]);
}

static void cuda_close(struct backend *b)
{
    struct cuda *x = cuda_of(b);

    leave(x, &x->world, b->failed);
    while (x->parties) {
        struct party *p = x->parties;

        x->parties = p->next;
        leave(x, p, b->failed);
        mem_free(p->ranks);
        mem_free(p);
    }
    for (int s = 0; s < STREAM_N && x->stream[s]; s++) {
        struct room *rooms[] = {&x->work[s], &x->scratch[s], &x->operand[s][0], &x->operand[s][1],
                                &x->operand[s][2]};

        for (size_t k = 0; k < sizeof(rooms) / sizeof(rooms[0]); k++)
            if (rooms[k]->p)
                cudaFreeAsync(rooms[k]->p, x->stream[s]);
        cuda_handles_close(&x->handles[s]);
        cudaStreamSynchronize(x->stream[s]);
        cudaStreamDestroy(x->stream[s]);
    }
    for (size_t i = 0; i < x->made_events; i++)
        cudaEventDestroy(x->events[i]);
    if (x->nccl.handle)
        dlclose(x->nccl.handle);
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
        status = join(x, o->transport, e);
    if (status)
        cuda_close(b);
    return status;
}

extern const struct backend_library backend_library;
const struct backend_library backend_library = {
    .name = "cuda",
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
    .forget = cuda_forget,
    .gemm = cuda_gemm,
    .launch = cuda_launch,
    .collective = cuda_collective,
};
