/* tests/exec/threads.h - a transport between threads of one process, so that collectives run on any number of ranks
 * without MPI. Sends copy into a queue a pair of ranks; receives wait for it. */
#ifndef BALLAST_TESTS_EXEC_THREADS_H
#define BALLAST_TESTS_EXEC_THREADS_H

#include "core/mem.h"
#include "exec/backend.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

struct threads_message {
    struct threads_message *next;
    uint32_t tag;
    size_t n;
    char data[];
};
struct threads_world {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint32_t size;
    struct threads_message **queue; /* [size][size] from, to; owned */
};
struct threads_receive {
    uint32_t from, tag;
    void *data;
    size_t n;
};
struct threads_rank {
    struct threads_world *world;
    struct threads_receive *list; /* owned */
    size_t n, cap;
    uint64_t *sent_to, *received_from; /* [size] bytes by peer, without control messages; owned */
};

static int threads_isend(struct transport *t, uint32_t to, uint32_t tag, const void *data, size_t n,
                         struct transport_request *r, struct err *e)
{
    struct threads_rank *x = t->ctx;
    struct threads_message *m = mem_alloc(1, sizeof(*m) + n), **at;

    (void)e;
    m->tag = tag;
    m->n = n;
    if (n)
        memcpy(m->data, data, n);
    pthread_mutex_lock(&x->world->lock);
    for (at = &x->world->queue[t->rank * t->size + to]; *at; at = &(*at)->next)
        ;
    *at = m;
    pthread_cond_broadcast(&x->world->moved);
    pthread_mutex_unlock(&x->world->lock);
    if (tag < TRANSPORT_CONTROL) {
        t->n_sent += n;
        x->sent_to[to] += n;
    }
    r->active = false;
    return 0;
}

static int threads_irecv(struct transport *t, uint32_t from, uint32_t tag, void *data, size_t n,
                         struct transport_request *r, struct err *e)
{
    struct threads_rank *x = t->ctx;

    (void)e;
    x->list = mem_grow(x->list, &x->cap, x->n + 1, sizeof(*x->list));
    x->list[x->n] = (struct threads_receive){from, tag, data, n};
    r->handle = x->n++;
    r->active = true;
    return 0;
}

/* In the order of the requests: messages of one pair and tag match in order. */
static int threads_wait(struct transport *t, struct transport_request *r, size_t n, struct err *e)
{
    struct threads_rank *x = t->ctx;
    int status = 0;

    for (size_t i = 0; i < n && !status; i++) {
        struct threads_receive *w;
        struct threads_message *m, **at;

        if (!r[i].active)
            continue;
        w = &x->list[r[i].handle];
        pthread_mutex_lock(&x->world->lock);
        for (;;) {
            struct timespec until;

            for (at = &x->world->queue[w->from * t->size + t->rank]; *at && (*at)->tag != w->tag;
                 at = &(*at)->next)
                ;
            if (*at)
                break;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += 10;
            if (pthread_cond_timedwait(&x->world->moved, &x->world->lock, &until)) {
                status = err_set(e, ERR_EXTERNAL, "rank %u waits for rank %u, tag %u", t->rank,
                                 w->from, w->tag);
                break;
            }
        }
        if (!status) {
            m = *at;
            *at = m->next;
            if (m->n != w->n)
                status = err_set(e, ERR_INVALID, "rank %u got %zu bytes from %u, expected %zu",
                                 t->rank, m->n, w->from, w->n);
            else if (m->n)
                memcpy(w->data, m->data, m->n);
            if (w->tag < TRANSPORT_CONTROL) {
                t->n_received += m->n;
                x->received_from[w->from] += m->n;
            }
            mem_free(m);
        }
        pthread_mutex_unlock(&x->world->lock);
        r[i].active = false;
    }
    x->n = 0;
    return status;
}

static int threads_open(struct transport *t, struct err *e)
{
    (void)t, (void)e;
    return 0;
}

static void threads_close(struct transport *t)
{
    struct threads_rank *x = t->ctx;

    mem_free(x->list);
    mem_free(x->sent_to);
    mem_free(x->received_from);
}

static void threads_abort(struct transport *t, int status)
{
    (void)t;
    abort();
    (void)status;
}

static const struct transport_library threads_library = {
    .name = "threads",
    .open = threads_open,
    .close = threads_close,
    .isend = threads_isend,
    .irecv = threads_irecv,
    .wait = threads_wait,
    .abort = threads_abort,
};

struct threads_job {
    struct transport t;
    struct threads_rank rank;
    int (*fn)(struct transport *t, void *ctx, struct err *e);
    void *ctx;
    int status;
    struct err e;
};

static void *threads_main(void *arg)
{
    struct threads_job *j = arg;

    j->status = j->fn(&j->t, j->ctx, &j->e);
    return NULL;
}

/* Run fn on `size` ranks; 0 when all return 0, else -1 and the first rank's error in *e. */
static int threads_run(uint32_t size, int (*fn)(struct transport *t, void *ctx, struct err *e),
                       void *ctx, struct err *e)
{
    struct threads_world w = {.size = size,
                              .queue = MEM_NEW(struct threads_message *, (size_t)size * size)};
    struct threads_job *j = MEM_NEW(struct threads_job, size);
    pthread_t *id = MEM_NEW(pthread_t, size);
    int status = 0;

    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.moved, NULL);
    for (uint32_t r = 0; r < size; r++) {
        j[r].rank.world = &w;
        j[r].rank.sent_to = MEM_NEW(uint64_t, size);
        j[r].rank.received_from = MEM_NEW(uint64_t, size);
        j[r].fn = fn;
        j[r].ctx = ctx;
        j[r].t =
            (struct transport){.lib = &threads_library, .rank = r, .size = size, .ctx = &j[r].rank};
        BUG_ON(pthread_create(&id[r], NULL, threads_main, &j[r]));
    }
    for (uint32_t r = 0; r < size; r++) {
        pthread_join(id[r], NULL);
        if (j[r].status && !status) {
            status = -1;
            *e = j[r].e;
        }
        threads_close(&j[r].t);
    }
    for (uint32_t i = 0; i < size * size; i++) /* what nobody received */
        for (struct threads_message *m = w.queue[i], *next; m; m = next) {
            if (!status)
                status =
                    err_set(e, ERR_INVALID, "rank %u sent %zu bytes that rank %u never received",
                            i / size, m->n, i % size);
            next = m->next;
            mem_free(m);
        }
    mem_free(w.queue);
    mem_free(id);
    mem_free(j);
    return status;
}

/* The cpu backend with our own products; shuffle: 0, or the seed of its order. */
static inline void open_cpu(struct backend *b, struct transport *t, uint64_t shuffle)
{
    const struct backend_options o = {
        .transport = t, .gemm = &kernel_gemm_reference, .shuffle = shuffle};
    struct err e = {0};

    BUG_ON(backend_open(b, NULL, &o, &e));
}

#endif
