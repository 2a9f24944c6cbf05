/* NCCL's part: communicators, groups, and who meets whom. */
#include "tests/cuda/standin.h"

#include "core/dtype.h"
#include "core/err.h"
#include "core/mem.h"

#include <nccl.h>
#include <stdio.h>
#include <string.h>

enum { MAX_RANKS = 64, MAX_COMMS = 64 };

enum kind { BROADCAST, REDUCE, ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, SEND, RECV };
static const char *const names[] = {"ncclBroadcast", "ncclReduce",        "ncclAllGather",
                                    "ncclAllReduce", "ncclReduceScatter", "ncclSend",
                                    "ncclRecv"};

/* One call of one rank. */
struct item {
    enum kind kind;
    struct ncclComm *comm;
    const void *from;
    void *to;
    size_t count;
    ncclDataType_t type;
    int peer;       /* or root */
    uint64_t index; /* of a collective in its communicator */
    bool done;
    struct item *next; /* waiting for its other half */
};
struct meeting {
    uint64_t index;
    struct item *of[MAX_RANKS];
    int n;
    struct meeting *next;
};
struct shared {
    int n, left;
    struct meeting *meetings;
    struct item *waiting[MAX_RANKS][MAX_RANKS][2]; /* [from][to] sends, receives; oldest first */
};
struct ncclComm {
    struct shared *shared;
    int rank;
    uint64_t next;
    bool aborted; /* what is under way ends */
};
/* Calls that go together: one task. */
struct group {
    struct item *item; /* owned */
    size_t n, cap;
};

static enum standin_plant planted;
static int planted_rank;
static bool gone;                       /* it has not come to a call */
static struct shared *comms[MAX_COMMS]; /* by number of the id; under the lock */
static unsigned made;
static _Thread_local int depth;
static _Thread_local struct group open_group;
static _Thread_local cudaStream_t group_stream;

static size_t bytes_of(const struct item *i)
{
    return i->count * (i->type == ncclFloat32 ? 4 : i->type == ncclInt8 ? 1 : 2);
}

static enum dtype dtype_of(ncclDataType_t t)
{
    return t == ncclFloat32 ? DTYPE_FP32 : t == ncclBfloat16 ? DTYPE_BF16 : DTYPE_FP16;
}

void standin_plant(enum standin_plant what, int rank)
{
    planted = what;
    planted_rank = rank;
    gone = false;
}

bool standin_is_planted(void)
{
    return planted != STANDIN_WELL;
}

void standin_reset_nccl(void)
{
    planted = STANDIN_WELL;
    /* ids that some rank never came to */
    for (int i = 0; i < MAX_COMMS; i++) {
        if (comms[i])
            standin_keep(comms[i]);
        comms[i] = NULL;
    }
}

/* ---- meeting ---- */

static void sum(const struct meeting *m, int n, size_t first, size_t count, ncclDataType_t type,
                void *to)
{
    enum dtype d = dtype_of(type);
    size_t size = dtype_bytes(d, 1);
    float *s = MEM_NEW(float, count), *x = MEM_NEW(float, count);

    for (int r = 0; r < n; r++) {
        dtype_load(d, (const char *)m->of[r]->from + first * size, x, count);
        for (size_t k = 0; k < count; k++)
            s[k] += x[k];
    }
    dtype_store(d, s, to, count);
    mem_free(s);
    mem_free(x);
}

static void perform(struct meeting *m, int n)
{
    const struct item *a = m->of[0];
    size_t bytes = bytes_of(a);
    char *aside = mem_alloc(n, bytes + 1);

    /* results aside first: in-place calls read what others write */
    for (int r = 0; r < n; r++)
        if (a->kind == ALL_GATHER)
            memcpy(aside + r * bytes, m->of[r]->from, bytes);
        else if (a->kind == REDUCE_SCATTER)
            sum(m, n, (size_t)r * a->count, a->count, a->type, aside + r * bytes);
    if (a->kind == ALL_REDUCE || a->kind == REDUCE)
        sum(m, n, 0, a->count, a->type, aside);
    else if (a->kind == BROADCAST)
        memcpy(aside, m->of[a->peer]->from, bytes);
    for (int r = 0; r < n; r++) {
        void *to = m->of[r]->to;

        if (a->kind == ALL_GATHER)
            memcpy(to, aside, n * bytes);
        else if (a->kind == REDUCE_SCATTER)
            memcpy(to, aside + r * bytes, bytes);
        else if (a->kind != REDUCE || r == a->peer)
            memcpy(to, aside, bytes);
        m->of[r]->done = true;
    }
    mem_free(aside);
}

static void arrive(struct item *i)
{
    struct shared *s = i->comm->shared;
    struct meeting *m = s->meetings, **at = &s->meetings;
    const struct item *first = NULL;

    while (m && m->index != i->index)
        m = m->next;
    if (!m) {
        m = MEM_NEW(struct meeting, 1);
        m->index = i->index;
        m->next = s->meetings;
        s->meetings = m;
    }
    for (int r = 0; r < s->n && !first; r++)
        first = m->of[r];
    if (first && (first->kind != i->kind || first->count != i->count || first->type != i->type ||
                  first->peer != i->peer))
        standin_fail("collective %llu of a communicator is %s of %zu (root %d) here and %s of %zu "
                     "(root %d) on rank %d",
                     (unsigned long long)i->index, names[i->kind], i->count, i->peer,
                     names[first->kind], first->count, first->peer, first->comm->rank);
    m->of[i->comm->rank] = i;
    if (++m->n < s->n || standin_failure())
        return;
    for (int r = 0; r < s->n; r++)
        if (m->of[r]->comm->aborted)
            return;
    perform(m, s->n);
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    mem_free(m);
}

static void match(struct item *i)
{
    bool sends = i->kind == SEND;
    int from = sends ? i->comm->rank : i->peer, to = sends ? i->peer : i->comm->rank;
    struct item **others = &i->comm->shared->waiting[from][to][sends], *o = *others;
    struct item **mine = &i->comm->shared->waiting[from][to][!sends];

    if (!o || o->comm->aborted) {
        while (*mine)
            mine = &(*mine)->next;
        *mine = i;
        return;
    }
    *others = o->next;
    if (bytes_of(o) != bytes_of(i)) {
        standin_fail("%s of %zu bytes meets %s of %zu bytes on rank %d", names[i->kind],
                     bytes_of(i), names[o->kind], bytes_of(o), o->comm->rank);
        return;
    }
    memcpy(sends ? o->to : i->to, sends ? i->from : o->from, bytes_of(i));
    i->done = o->done = true;
}

static void begin(void *args)
{
    struct group *g = args;

    if (planted >= STANDIN_SILENT && standin_rank() == planted_rank) {
        gone = true;
        return;
    }
    for (size_t k = 0; k < g->n; k++)
        if (g->item[k].comm->aborted)
            continue;
        else if (g->item[k].kind >= SEND)
            match(&g->item[k]);
        else
            arrive(&g->item[k]);
}

static bool done(void *args)
{
    struct group *g = args;
    bool all = true;

    for (size_t k = 0; k < g->n; k++)
        all &= g->item[k].done || g->item[k].comm->aborted;
    return all;
}

/* What was aborted may have met others already. */
static void end(void *args)
{
    struct group *g = args;
    bool all = true;

    for (size_t k = 0; k < g->n; k++)
        all &= g->item[k].done;
    if (all)
        mem_free(g->item);
    else
        standin_keep(g->item);
}

/* ---- calls ---- */

static void touch(struct standin_task *t, const struct item *i, int n)
{
    size_t bytes = bytes_of(i);
    bool root = i->comm->rank == i->peer;

    if (i->kind == SEND || i->kind == ALL_GATHER || i->kind == REDUCE ||
        (i->kind == BROADCAST && root) || i->kind == ALL_REDUCE)
        standin_touch(t, i->from, bytes, false);
    if (i->kind == REDUCE_SCATTER)
        standin_touch(t, i->from, n * bytes, false);
    if (i->kind != SEND && (i->kind != REDUCE || root))
        standin_touch(t, i->to, i->kind == ALL_GATHER ? n * bytes : bytes, true);
}

static void issue_group(cudaStream_t s)
{
    struct group g = open_group;
    struct standin_task t = {.name = g.n == 1 ? names[g.item[0].kind] : "a group of NCCL calls",
                             .run = end,
                             .args = &g,
                             .n_args = sizeof(g),
                             .begin = begin,
                             .done = done};

    open_group = (struct group){0};
    /* a group of many calls: what it touches, in several tasks before the meeting */
    for (size_t k = 0; k < g.n; k++) {
        struct standin_task look = {.name = names[g.item[k].kind]};

        touch(g.n > STANDIN_RANGES / 2 ? &look : &t, &g.item[k], g.item[k].comm->shared->n);
        if (g.n > STANDIN_RANGES / 2)
            standin_issue(s, &look);
    }
    standin_issue(s, &t);
}

static ncclResult_t call(const struct item *i, cudaStream_t s)
{
    struct item x = *i;

    if (planted == STANDIN_NO_CALL && standin_rank() == planted_rank)
        return ncclInvalidUsage;
    standin_count(i->kind >= SEND ? &standin_counters.messages : &standin_counters.collectives);
    if (i->kind < SEND)
        x.index = i->comm->next++;
    if (i->peer < 0 || i->peer >= i->comm->shared->n)
        standin_fail("%s names rank %d of %d", names[i->kind], i->peer, i->comm->shared->n);
    if (open_group.n && group_stream != s)
        standin_fail("a group of NCCL calls on two streams");
    group_stream = s;
    open_group.item =
        mem_grow(open_group.item, &open_group.cap, open_group.n + 1, sizeof(*open_group.item));
    open_group.item[open_group.n++] = x;
    if (!depth)
        issue_group(s);
    return standin_failure() ? ncclInternalError : ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (!depth) {
        standin_fail("ncclGroupEnd without ncclGroupStart");
        return ncclInvalidUsage;
    }
    if (--depth == 0 && open_group.n)
        issue_group(group_stream);
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *p, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
                      cudaStream_t s)
{
    struct item i = {.kind = SEND, .comm = c, .from = p, .count = n, .type = t, .peer = peer};

    return call(&i, s);
}

ncclResult_t ncclRecv(void *p, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t s)
{
    struct item i = {.kind = RECV, .comm = c, .to = p, .count = n, .type = t, .peer = peer};

    return call(&i, s);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t t, int root,
                           ncclComm_t c, cudaStream_t s)
{
    struct item i = {BROADCAST, c, from, to, n, t, root, 0, false, NULL};

    return call(&i, s);
}

ncclResult_t ncclReduce(const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t op,
                        int root, ncclComm_t c, cudaStream_t s)
{
    struct item i = {REDUCE, c, from, to, n, t, root, 0, false, NULL};

    BUG_ON(op != ncclSum);
    return call(&i, s);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t t, ncclComm_t c,
                           cudaStream_t s)
{
    struct item i = {ALL_GATHER, c, from, to, n, t, 0, 0, false, NULL};

    return call(&i, s);
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t op,
                           ncclComm_t c, cudaStream_t s)
{
    struct item i = {ALL_REDUCE, c, from, to, n, t, 0, 0, false, NULL};

    BUG_ON(op != ncclSum);
    return call(&i, s);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n, ncclDataType_t t,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    struct item i = {REDUCE_SCATTER, c, from, to, n, t, 0, 0, false, NULL};

    BUG_ON(op != ncclSum);
    return call(&i, s);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    unsigned k;

    standin_lock();
    k = made++ % MAX_COMMS;
    standin_unlock();
    memset(id, 0, sizeof(*id));
    memcpy(id, &k, sizeof(k));
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *c, int n, ncclUniqueId id, int rank)
{
    unsigned k;

    memcpy(&k, &id, sizeof(k));
    BUG_ON(k >= MAX_COMMS || n > MAX_RANKS);
    if (planted == STANDIN_NO_COMM && standin_rank() == planted_rank)
        return ncclSystemError;
    *c = MEM_NEW(struct ncclComm, 1);
    standin_lock();
    if (!comms[k]) {
        comms[k] = MEM_NEW(struct shared, 1);
        comms[k]->n = comms[k]->left = n;
    }
    (*c)->shared = comms[k];
    (*c)->rank = rank;
    if (--comms[k]->left == 0) { /* all are in: the number is free */
        comms[k]->left = n;
        comms[k] = NULL;
    }
    standin_unlock();
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    standin_lock();
    if (--c->shared->left == 0) {
        while (c->shared->meetings) { /* after a failure */
            struct meeting *m = c->shared->meetings;

            c->shared->meetings = m->next;
            mem_free(m);
        }
        mem_free(c->shared);
    }
    standin_unlock();
    mem_free(c);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    standin_lock();
    c->aborted = true;
    standin_unlock();
    standin_keep(c);
    standin_keep(c->shared);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *r)
{
    bool other = standin_rank() != planted_rank && gone;

    (void)c;
    *r = standin_failure()                  ? ncclInternalError
         : planted == STANDIN_DIED && other ? ncclRemoteError
                                            : ncclSuccess;
    return planted == STANDIN_NO_ANSWER && other ? ncclInvalidArgument : ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r)
{
    return standin_failure()          ? standin_failure()
           : r == ncclSuccess         ? "no error"
           : r == ncclSystemError     ? "a system's error"
           : r == ncclRemoteError     ? "another rank is gone"
           : r == ncclInvalidUsage    ? "a wrong use"
           : r == ncclInvalidArgument ? "a wrong argument"
                                      : "an error";
}
