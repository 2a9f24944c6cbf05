#include "exec/backend.h"

#include "core/mem.h"
#include "exec/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void *load(const char *path, const struct backend_library **lib, struct err *e)
{
    const void *object;
    void *handle = library_load(path, "backend_library", false, &object, e);

    if (handle)
        *lib = object;
    return handle;
}

int backend_open(struct backend *b, const char *path, const struct backend_options *o,
                 struct err *e)
{
    memset(b, 0, sizeof(*b));
    b->lib = &backend_cpu;
    b->t = o->transport;
    b->cpu_clock = o->cpu_clock;
    if (path) {
        b->lib = NULL; /* nothing is open yet: backend_close() has nothing to close */
        b->handle = load(path, &b->lib, e);
        if (!b->handle)
            return -1;
    }
    if (!b->lib->open(b, o, e))
        return 0;
    if (b->handle)
        dlclose(b->handle);
    b->lib = NULL;
    return -1;
}

int backend_agree(const char *path, const struct backend_options *o, struct err *e)
{
    enum { TEXT = 200 };
    struct transport *t = o->transport;
    char mine[TEXT] = "", *all = mem_alloc(t->size, TEXT);
    const struct backend_library *lib;
    int status;

    /* it stays loaded: backend_open() is next */
    if (!load(path, &lib, e) || lib->usable(o, e))
        snprintf(mine, TEXT, "%.*s", TEXT - 1, e->msg);
    status = transport_all_gather_control(t, mine, TEXT, all, e);
    for (uint32_t r = 0; r < t->size && !status; r++)
        if (all[(size_t)r * TEXT])
            status = err_set(e, ERR_EXTERNAL, "rank %u: %s", r, all + (size_t)r * TEXT);
    mem_free(all);
    return status;
}

void backend_close(struct backend *b)
{
    if (!b->lib)
        return;
    b->lib->close(b);
    if (b->handle)
        dlclose(b->handle);
    memset(b, 0, sizeof(*b));
}

double backend_now_s(const struct backend *b)
{
    struct timespec t;

    clock_gettime(b->cpu_clock ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int backend_status(const struct backend *b, struct err *e)
{
    if (!b->failed)
        return 0;
    *e = b->err;
    return -1;
}

void backend_fail(struct backend *b, const struct err *e)
{
    if (!b->failed)
        b->err = *e;
    b->failed = true;
}

void *backend_alloc(struct backend *b, enum stream s, size_t n)
{
    b->bytes += n;
    b->peak = b->bytes > b->peak ? b->bytes : b->peak;
    return b->lib->alloc(b, s, n);
}

void backend_free(struct backend *b, enum stream s, void *p, size_t n)
{
    if (!p)
        return;
    b->bytes -= n;
    b->lib->free(b, s, p);
}
