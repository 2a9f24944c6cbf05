/* The CUDA runtime's part: devices, streams, events, memory, clocks. */
#include "tests/cuda/standin.h"

#include "core/err.h"
#include "core/mem.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX_STREAMS = 4, GIVE_UP_S = 20 };

struct mark {
    unsigned refs;
    bool passed;
    uint64_t clock[MAX_STREAMS];
};
struct CUevent_st {
    struct mark *mark; /* of the last record; owned */
};

struct queued {
    struct standin_task t;      /* args owned */
    struct mark *record, *wait; /* references */
    uint64_t host[MAX_STREAMS]; /* the host's clock when it was issued */
    bool begun, free_it;
    struct queued *next;
};
struct CUstream_st {
    struct device *d;
    unsigned id;
    struct queued *head, **tail;
    uint64_t clock[MAX_STREAMS];
};

struct access {
    uintptr_t from, to;
    bool write;
    unsigned stream;
    uint64_t at;
    const char *name;
};
struct piece {
    char *p;
    size_t n;
};
struct device {
    int rank;
    uint64_t random, n_waits;
    struct CUstream_st *stream[MAX_STREAMS];
    unsigned n_streams;
    uint64_t host[MAX_STREAMS];
    struct access *seen; /* owned */
    size_t n_seen, cap_seen;
    struct piece *piece; /* owned */
    size_t n_pieces, cap_pieces;
    size_t bytes, high;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct device *here;
static char failure[600];
static uint64_t seed, forgotten;
static int n_devices = 64;
static unsigned slow_ms;
struct standin_calls standin_counters;

void standin_lock(void)
{
    pthread_mutex_lock(&lock);
}

void standin_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void standin_reset(uint64_t s)
{
    failure[0] = 0;
    seed = s;
    forgotten = 0;
    n_devices = 64;
    slow_ms = 0;
    standin_reset_nccl();
    memset(&standin_counters, 0, sizeof(standin_counters));
}

void standin_slow(unsigned ms)
{
    slow_ms = ms;
}

void standin_devices(int n)
{
    n_devices = n;
}

void standin_forget_wait(uint64_t k)
{
    forgotten = k;
}

const char *standin_failure(void)
{
    return failure[0] ? failure : NULL;
}

struct standin_calls standin_calls(void)
{
    return standin_counters;
}

void standin_count(uint64_t *which)
{
    __atomic_add_fetch(which, 1, __ATOMIC_RELAXED);
}

int standin_rank(void)
{
    return here ? here->rank : 0;
}

void standin_fail(const char *fmt, ...)
{
    char text[500];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (!failure[0])
        snprintf(failure, sizeof(failure), "rank %d: %s", standin_rank(), text);
}

static cudaError_t state(void)
{
    return failure[0] ? cudaErrorUnknown : cudaSuccess;
}

/* ---- memory and its clocks ---- */

static void join(uint64_t *to, const uint64_t *from)
{
    for (int i = 0; i < MAX_STREAMS; i++)
        to[i] = to[i] > from[i] ? to[i] : from[i];
}

static bool allocated(const struct device *d, const char *p, size_t n)
{
    for (size_t i = 0; i < d->n_pieces; i++)
        if (p >= d->piece[i].p && p + n <= d->piece[i].p + d->piece[i].n)
            return true;
    return false;
}

static void see(struct CUstream_st *s, const char *name, const struct standin_range *r)
{
    struct device *d = s->d;
    struct access a = {(uintptr_t)r->p, (uintptr_t)r->p + r->n, r->write,
                       s->id,           s->clock[s->id],        name};
    size_t kept = 0;

    if (standin_is_planted())
        return;
    if (!allocated(d, r->p, r->n)) {
        standin_fail("%s %s %zu bytes that are not allocated", name, r->write ? "writes" : "reads",
                     r->n);
        return;
    }
    for (size_t i = 0; i < d->n_seen; i++) {
        struct access *b = &d->seen[i];
        bool ordered = b->stream == s->id || b->at <= s->clock[b->stream];
        bool meets = b->from < a.to && a.from < b->to;

        if (meets && !ordered && (a.write || b->write))
            standin_fail("%s (stream %u) %s what %s (stream %u) %s, and no event orders them", name,
                         s->id, a.write ? "writes" : "reads", b->name, b->stream,
                         b->write ? "writes" : "reads");
        /* what comes after `a` comes after an ordered access that `a` covers */
        if (ordered && a.write && a.from <= b->from && b->to <= a.to)
            continue;
        if (b->stream == s->id && b->from == a.from && b->to == a.to && b->write == a.write)
            continue;
        d->seen[kept++] = *b;
    }
    d->n_seen = kept;
    d->seen = mem_grow(d->seen, &d->cap_seen, kept + 1, sizeof(*d->seen));
    d->seen[d->n_seen++] = a;
}

void standin_touch(struct standin_task *t, const void *p, size_t n, bool write)
{
    if (!p || !n)
        return;
    BUG_ON(t->n_ranges == STANDIN_RANGES);
    t->range[t->n_ranges++] = (struct standin_range){p, n, write};
}

static void forget_piece(struct device *d, const char *p)
{
    for (size_t i = 0; i < d->n_pieces; i++) {
        if (d->piece[i].p != p)
            continue;
        d->bytes -= d->piece[i].n;
        for (size_t k = 0, kept = 0; k <= d->n_seen; k++) {
            if (k == d->n_seen) {
                d->n_seen = kept;
                break;
            }
            if (d->seen[k].to <= (uintptr_t)p || d->seen[k].from >= (uintptr_t)p + d->piece[i].n)
                d->seen[kept++] = d->seen[k];
        }
        d->piece[i] = d->piece[--d->n_pieces];
        return;
    }
    standin_fail("cudaFreeAsync of what is not allocated");
}

/* ---- streams ---- */

static struct queued *append(struct CUstream_st *s)
{
    struct queued *q = MEM_NEW(struct queued, 1);

    memcpy(q->host, s->d->host, sizeof(q->host));
    *s->tail = q;
    s->tail = &q->next;
    return q;
}

void standin_issue(struct CUstream_st *s, const struct standin_task *t)
{
    struct queued *q = append(s);

    BUG_ON(s->d != here);
    q->t = *t;
    q->t.args = mem_alloc(1, t->n_args);
    if (t->n_args)
        memcpy(q->t.args, t->args, t->n_args);
}

static bool may_run(const struct queued *q)
{
    bool yes;

    if (!q)
        return false;
    if (q->wait)
        return q->wait->passed;
    if (!q->t.begin || !q->begun)
        return true;
    standin_lock();
    yes = q->t.done(q->t.args);
    standin_unlock();
    return yes;
}

static void drop(struct mark *m)
{
    if (m && --m->refs == 0)
        mem_free(m);
}

/* The first task of a stream, or the beginning of a meeting. */
static void run_first(struct CUstream_st *s)
{
    struct queued *q = s->head;
    struct timespec slow = {0, slow_ms * 1000000L};

    if (slow_ms && q->t.name)
        nanosleep(&slow, NULL);
    if (!q->begun) {
        join(s->clock, q->host);
        if (q->wait)
            join(s->clock, q->wait->clock);
        s->clock[s->id]++;
        for (unsigned i = 0; i < q->t.n_ranges; i++)
            see(s, q->t.name, &q->t.range[i]);
        q->begun = true;
        if (q->t.begin && !failure[0]) {
            standin_lock();
            q->t.begin(q->t.args);
            standin_unlock();
            return;
        }
    }
    if (q->record) {
        q->record->passed = true;
        memcpy(q->record->clock, s->clock, sizeof(s->clock));
    }
    if (q->t.run && (!failure[0] || q->t.begin)) /* a meeting's gives its calls back */
        q->t.run(q->t.args);
    if (q->free_it) {
        char *p = *(char **)q->t.args;

        forget_piece(s->d, p);
        mem_free(p);
    }
    s->head = q->next;
    if (!s->head)
        s->tail = &s->head;
    drop(q->record);
    drop(q->wait);
    mem_free(q->t.args);
    mem_free(q);
}

static uint64_t draw(struct device *d)
{
    d->random ^= d->random << 13;
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return d->random;
}

static bool progress(struct device *d)
{
    unsigned can[MAX_STREAMS], n = 0;

    for (unsigned i = 0; i < d->n_streams; i++)
        if (d->stream[i] && may_run(d->stream[i]->head))
            can[n++] = i;
    if (n)
        run_first(d->stream[can[draw(d) % n]]);
    return n > 0;
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void drain(struct CUstream_st *s)
{
    double since = now_s();
    struct timespec nap = {0, 20000};

    while (s->head && !failure[0]) {
        if (progress(s->d)) {
            since = now_s();
            continue;
        }
        if (now_s() - since > GIVE_UP_S)
            standin_fail("%s waits for ever", s->head->t.name ? s->head->t.name : "a stream");
        nanosleep(&nap, NULL);
    }
    join(s->d->host, s->clock);
}

/* ---- the API ---- */

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = n_devices;
    return n_devices ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int k)
{
    if (!here) {
        here = MEM_NEW(struct device, 1);
        here->rank = k;
        here->random = (seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)k * 7919) | 1;
    }
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int k)
{
    (void)k;
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "a stand-in");
    return state();
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int n, int k)
{
    (void)k;
    snprintf(text, (size_t)n, "0000:00:00.0"); /* no device of this machine */
    return state();
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr a, int k)
{
    (void)k;
    BUG_ON(a != cudaDevAttrMultiProcessorCount);
    *value = 8;
    return state();
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    *left = (size_t)15 << 30;
    *all = (size_t)16 << 30;
    return state();
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int k)
{
    (void)k;
    *pool = NULL;
    return state();
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr a, void *value)
{
    (void)pool;
    (void)a;
    (void)value;
    return state();
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr a, void *value)
{
    (void)pool;
    BUG_ON(a != cudaMemPoolAttrUsedMemHigh);
    *(uint64_t *)value = here->high;
    return state();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    struct CUstream_st *x = MEM_NEW(struct CUstream_st, 1);

    BUG_ON(flags != cudaStreamNonBlocking || here->n_streams == MAX_STREAMS);
    x->d = here;
    x->tail = &x->head;
    x->id = here->n_streams;
    here->stream[here->n_streams++] = x;
    *s = x;
    return state();
}

void standin_keep(void *p)
{
    static void **kept;
    static size_t n, cap;

    standin_lock();
    kept = mem_grow(kept, &cap, n + 1, sizeof(*kept));
    kept[n++] = p;
    standin_unlock();
}

/* The last stream takes the device with it. */
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    struct device *d = s->d;
    bool left = false;

    while (s->head) { /* after a failure */
        struct queued *q = s->head;

        s->head = q->next;
        if (q->free_it) {
            char *p = *(char **)q->t.args;

            forget_piece(d, p);
            mem_free(p);
        }
        drop(q->record);
        drop(q->wait);
        if (q->t.begin) /* a call that never met is still known to other ranks */
            standin_keep(q->t.args);
        else
            mem_free(q->t.args);
        mem_free(q);
    }
    d->stream[s->id] = NULL;
    mem_free(s);
    for (unsigned i = 0; i < d->n_streams; i++)
        left |= d->stream[i] != NULL;
    if (left)
        return state();
    if (d->n_pieces && !standin_is_planted())
        standin_fail("%zu pieces of device memory are not given back", d->n_pieces);
    for (size_t i = 0; i < d->n_pieces; i++)
        mem_free(d->piece[i].p);
    mem_free(d->piece);
    mem_free(d->seen);
    mem_free(d);
    here = NULL;
    return state();
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    drain(s);
    return state();
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    if (s->head)
        progress(s->d);
    if (!s->head)
        join(s->d->host, s->clock);
    return failure[0] ? cudaErrorUnknown : s->head ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    *e = MEM_NEW(struct CUevent_st, 1);
    return state();
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    drop(e->mark);
    mem_free(e);
    return state();
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    struct queued *q = append(s);

    drop(e->mark);
    e->mark = q->record = MEM_NEW(struct mark, 1);
    e->mark->refs = 2;
    return state();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    struct queued *q;

    BUG_ON(flags);
    standin_count(&standin_counters.waits);
    if (++here->n_waits == forgotten)
        return state();
    if (!e->mark)
        return state(); /* never recorded: CUDA does not wait either */
    q = append(s);
    q->t.name = "an event";
    q->wait = e->mark;
    e->mark->refs++;
    return state();
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    return failure[0] ? cudaErrorUnknown : e->mark->passed ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    if (!a->mark || !b->mark || !a->mark->passed || !b->mark->passed)
        return cudaErrorNotReady;
    *ms = 0.001f;
    return state();
}

cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t s)
{
    struct device *d = s->d;
    struct standin_task t = {.name = "cudaMallocAsync"};
    char *x = mem_alloc(1, n);

    memset(x, 0xa5, n); /* nobody should find zeros by luck */
    d->piece = mem_grow(d->piece, &d->cap_pieces, d->n_pieces + 1, sizeof(*d->piece));
    d->piece[d->n_pieces++] = (struct piece){x, n};
    d->bytes += n;
    d->high = d->high > d->bytes ? d->high : d->bytes;
    standin_touch(&t, x, n, true);
    standin_issue(s, &t);
    *p = x;
    return state();
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t s)
{
    struct standin_task t = {.name = "cudaFreeAsync", .args = &p, .n_args = sizeof(p)};

    for (size_t i = 0; i < s->d->n_pieces; i++)
        if (s->d->piece[i].p == p)
            standin_touch(&t, p, s->d->piece[i].n, true);
    standin_issue(s, &t);
    /* the last of the list */
    for (struct queued *q = s->head; q; q = q->next)
        q->free_it |= !q->next;
    return state();
}

struct bytes {
    void *to;
    const void *from; /* NULL: behind the struct */
    int value;
    size_t n;
};

static void run_copy(void *args)
{
    const struct bytes *b = args;

    memcpy(b->to, b->from ? b->from : (const void *)(b + 1), b->n);
}

static void run_set(void *args)
{
    const struct bytes *b = args;

    memset(b->to, b->value, b->n);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t s)
{
    struct bytes b = {.to = p, .value = value, .n = n};
    struct standin_task t = {
        .name = "cudaMemsetAsync", .run = run_set, .args = &b, .n_args = sizeof(b)};

    standin_count(&standin_counters.copies);
    standin_touch(&t, p, n, true);
    standin_issue(s, &t);
    return state();
}

/* Pageable host memory is taken at once on the way to the device, and written late on the way back. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    bool up = kind == cudaMemcpyHostToDevice;
    struct bytes *b = mem_alloc(1, sizeof(*b) + (up ? n : 0));
    struct standin_task t = {
        .name = "cudaMemcpyAsync", .run = run_copy, .args = b, .n_args = sizeof(*b) + (up ? n : 0)};

    *b = (struct bytes){.to = to, .from = up ? NULL : from, .n = n};
    if (up)
        memcpy(b + 1, from, n);
    else
        standin_touch(&t, from, n, false);
    if (kind != cudaMemcpyDeviceToHost)
        standin_touch(&t, to, n, true);
    standin_count(&standin_counters.copies);
    standin_issue(s, &t);
    mem_free(b);
    return state();
}

cudaError_t cudaGetLastError(void)
{
    return state();
}

const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaSuccess ? "no error" : failure[0] ? failure : "a stand-in's error";
}
