#include "exec/guard.h"

#include "core/mem.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct guard {
    double limit_s;
    void (*give_up)(const char *what, double seconds);
    pthread_t thread;
    pthread_mutex_t lock; /* of `closed` */
    pthread_cond_t wake;
    bool closed;
    const char *what; /* atomic; NULL: in no call */
    int64_t since_ms; /* atomic */
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void look(struct guard *g)
{
    const char *what = __atomic_load_n(&g->what, __ATOMIC_ACQUIRE);
    int64_t since = __atomic_load_n(&g->since_ms, __ATOMIC_RELAXED);

    /* a time of a later call than `what` is shorter: it is told a look later */
    if (what && (double)(now_ms() - since) > g->limit_s * 1e3)
        g->give_up(what, g->limit_s);
}

static void *watch(void *arg)
{
    struct guard *g = arg;

    pthread_mutex_lock(&g->lock);
    while (!g->closed) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 250000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&g->wake, &g->lock, &until);
        if (!g->closed)
            look(g);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

struct guard *guard_open(double limit_s, void (*give_up)(const char *what, double seconds))
{
    struct guard *g = give_up ? MEM_NEW(struct guard, 1) : NULL;

    if (!g)
        return NULL;
    g->limit_s = limit_s;
    g->give_up = give_up;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->wake, NULL);
    if (!pthread_create(&g->thread, NULL, watch, g))
        return g;
    mem_free(g);
    return NULL;
}

void guard_close(struct guard *g)
{
    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    g->closed = true;
    pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->lock);
    pthread_join(g->thread, NULL);
    pthread_cond_destroy(&g->wake);
    pthread_mutex_destroy(&g->lock);
    mem_free(g);
}

void guard_enter(struct guard *g, const char *what)
{
    if (!g)
        return;
    __atomic_store_n(&g->since_ms, now_ms(), __ATOMIC_RELAXED);
    __atomic_store_n(&g->what, what, __ATOMIC_RELEASE);
}

void guard_leave(struct guard *g)
{
    if (g)
        __atomic_store_n(&g->what, NULL, __ATOMIC_RELEASE);
}
