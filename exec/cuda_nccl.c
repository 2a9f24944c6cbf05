/* What moves between GPUs: NCCL, which is loaded when there are several ranks (BALLAST_NCCL names its file, else libnccl.so.2), so
 * that one rank needs none.
 *
 * All-gather, all-reduce and reduce-scatter are NCCL's own, owner segments along a ring its broadcast and reduce; every other
 * algorithm, and ordered reductions, are carried by ncclSend and ncclRecv in groups, as exec/collective.c says, with sums in
 * kernels. Each stream has a communicator of its own, so that a gather and a reduction overlap.
 */
#include "exec/cuda_inner.h"

#include "core/mem.h"

#include <dlfcn.h>
#include <nccl.h>
#include <string.h>

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
struct functions {
    NCCL_FUNCTIONS(NCCL_POINTER)
    const char *(*GetErrorString)(ncclResult_t);
};
#undef NCCL_POINTER

/* Some of the ranks, and their communicators: made by the members when they first meet on a stream. */
struct party {
    struct party *next;
    uint32_t n, *ranks; /* owned */
    ncclComm_t comm[STREAM_N];
};

struct cuda_nccl {
    struct functions f;
    void *handle;
    struct guard *guard;          /* borrowed */
    struct party world, *parties; /* owned */
};

/* ---- calls ---- */

static bool answer(struct backend *b, ncclResult_t status, const char *what)
{
    struct cuda_nccl *x = cuda_of(b)->nccl;

    guard_leave(x->guard);
    if (status == ncclSuccess || status == ncclInProgress)
        return true;
    cuda_fail(b, what, x->f.GetErrorString(status));
    return false;
}

/* Any of them may connect ranks, and wait for them. */
#define NCCL(b, name, ...)                                                                         \
    (guard_enter(cuda_of(b)->nccl->guard, "nccl" #name),                                           \
     answer(b, cuda_of(b)->nccl->f.name(__VA_ARGS__), "nccl" #name))

static void look_at(struct backend *b, const struct party *p)
{
    struct cuda_nccl *x = cuda_of(b)->nccl;

    for (int k = 0; k < STREAM_N; k++) {
        ncclResult_t r = ncclSuccess, asked = ncclSuccess;

        if (p->comm[k])
            asked = x->f.CommGetAsyncError(p->comm[k], &r);
        answer(b, asked == ncclSuccess ? r : asked, "NCCL");
    }
}

void cuda_nccl_look(struct backend *b)
{
    struct cuda_nccl *x = cuda_of(b)->nccl;

    look_at(b, &x->world);
    for (const struct party *p = x->parties; p; p = p->next)
        look_at(b, p);
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

static struct party *party_of(struct backend *b, const struct coll_group *g)
{
    struct cuda_nccl *x = cuda_of(b)->nccl;
    struct party *p = x->parties;

    if (g->n == b->t->size)
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
    struct party *p = party_of(b, g);
    struct err e = {.code = ERR_NONE};
    ncclUniqueId id;

    if (p->comm[s])
        return p->comm[s];
    memset(&id, 0, sizeof(id));
    if (!g->self && !NCCL(b, GetUniqueId, &id))
        return NULL;
    if (hand_out(b->t, g, &id, &e)) {
        backend_fail(b, &e);
        return NULL;
    }
    NCCL(b, CommInitRank, &p->comm[s], (int)g->n, id, (int)g->self);
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
    if (!c->open)
        NCCL(c->b, GroupStart);
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
        !NCCL(c->b, Send, data, n, ncclInt8, (int)rank, x->nccl->world.comm[c->s], x->stream[c->s]))
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
        !NCCL(c->b, Recv, data, n, ncclInt8, (int)rank, x->nccl->world.comm[c->s], x->stream[c->s]))
        return -1;
    return 0;
}

static int carry_finish(void *ctx, struct err *e)
{
    struct carried *c = ctx;

    (void)e;
    if (c->open)
        NCCL(c->b, GroupEnd);
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
    cudaStream_t s = cuda_of(by->b)->stream[by->s];
    uint32_t n = by->g->n;
    size_t count = c->chunk_bytes / dtype_bytes(c->dtype, 1), ring = (n - 1) * c->chunk_bytes;
    char *own = (char *)c->data + by->g->self * c->chunk_bytes;
    ncclDataType_t d = nccl_type(c->dtype);
    ncclComm_t comm = count ? comm_of(by->b, by->s, by->g) : NULL;

    if (!comm)
        return;
    if (c->kind == COLL_ALL_GATHER) {
        NCCL(by->b, AllGather, own, c->data, count, d, comm, s);
    } else if (c->kind == COLL_REDUCE_SCATTER) {
        NCCL(by->b, ReduceScatter, c->data, own, count, d, ncclSum, comm, s);
        scale_by(by, c->dtype, own, c->chunk_bytes, c->scale);
    } else {
        NCCL(by->b, AllReduce, c->data, c->data, n * count, d, ncclSum, comm, s);
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
    cudaStream_t s = cuda_of(by->b)->stream[by->s];
    bool gather = c->kind == COLL_SEGMENT_GATHER;
    uint32_t n = by->g->n, self = by->g->self;
    ncclComm_t comm = comm_of(by->b, by->s, by->g);

    if (!comm || in_group(by))
        return;
    for (uint32_t i = 0; i < c->n_segments; i++) {
        const struct wire_segment *g = &c->segments[i];
        char *p = (char *)c->data + g->offset;
        size_t count = g->bytes / dtype_bytes(c->dtype, 1);
        bool root = g->root == self, last = (g->root + n - 1) % n == self;

        if (gather && count)
            NCCL(by->b, Broadcast, p, p, count, nccl_type(c->dtype), (int)g->root, comm, s);
        else if (count)
            NCCL(by->b, Reduce, p, p, count, nccl_type(c->dtype), ncclSum, (int)g->root, comm, s);
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

void cuda_collective(struct backend *b, enum stream s, const struct coll_group *g,
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
    here.scratch = cuda_room(b, &cuda_of(b)->scratch[s], s, collective_scratch_bytes(c, g));
    if (!b->failed && collective_carry(&carrier, g, &here, &e) && !b->failed)
        backend_fail(b, &e);
}

/* ---- start and end ---- */

/* Of the file that it was loaded from. */
static int load(struct cuda_nccl *x, struct err *e)
{
    x->handle = cuda_nccl_file(e);
    if (!x->handle)
        return -1;
#define NCCL_LOAD(name, args)                                                                      \
    *(void **)&x->f.name = dlsym(x->handle, "nccl" #name);                                         \
    if (!x->f.name)                                                                                \
        return err_set(e, ERR_EXTERNAL, "NCCL has no nccl" #name);
    NCCL_FUNCTIONS(NCCL_LOAD)
#undef NCCL_LOAD
    *(void **)&x->f.GetErrorString = dlsym(x->handle, "ncclGetErrorString");
    return x->f.GetErrorString ? 0 : err_set(e, ERR_EXTERNAL, "NCCL has no ncclGetErrorString");
}

void *cuda_nccl_file(struct err *e)
{
    const char *path = getenv("BALLAST_NCCL");
    void *h = dlopen(path ? path : "libnccl.so.2", RTLD_NOW);

    if (!h)
        err_set(e, ERR_EXTERNAL, "several ranks need NCCL: %s", dlerror());
    return h;
}

/* Rank 0 makes an id for each stream's communicator; MPI (the transport) hands them out. */
int cuda_nccl_open(struct backend *b, const struct backend_options *o, struct err *e)
{
    struct cuda_nccl *x = MEM_NEW(struct cuda_nccl, 1);
    struct transport *t = o->transport;
    ncclUniqueId mine[STREAM_N], *all;
    int status;

    cuda_of(b)->nccl = x;
    memset(mine, 0, sizeof(mine));
    if (load(x, e))
        return -1;
    x->guard = o->guard;
    for (int s = 0; s < STREAM_N && t->rank == 0; s++)
        if (!NCCL(b, GetUniqueId, &mine[s]))
            return backend_status(b, e);
    all = mem_alloc(t->size, sizeof(mine));
    status = transport_all_gather_control(t, mine, sizeof(mine), all, e);
    for (int s = 0; s < STREAM_N && !status; s++)
        if (!NCCL(b, CommInitRank, &x->world.comm[s], (int)t->size, all[s], (int)t->rank)) {
            backend_status(b, e);
            status = err_prefix(e, "rank %u of %u (NCCL_DEBUG=WARN says more)", t->rank, t->size);
        }
    mem_free(all);
    return status;
}

static void leave(struct cuda_nccl *x, struct party *p, bool failed)
{
    for (int s = 0; s < STREAM_N; s++)
        if (p->comm[s])
            (failed ? x->f.CommAbort : x->f.CommDestroy)(p->comm[s]);
}

void cuda_nccl_close(struct backend *b)
{
    struct cuda_nccl *x = cuda_of(b)->nccl;

    if (!x)
        return;
    leave(x, &x->world, b->failed);
    while (x->parties) {
        struct party *p = x->parties;

        x->parties = p->next;
        leave(x, p, b->failed);
        mem_free(p->ranks);
        mem_free(p);
    }
}

/* When its kernels are over. */
void cuda_nccl_unload(struct backend *b)
{
    struct cuda_nccl *x = cuda_of(b)->nccl;

    if (x && x->handle)
        dlclose(x->handle);
    mem_free(x);
}
