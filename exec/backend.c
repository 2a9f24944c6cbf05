#include "exec/backend.h"

#include <dlfcn.h>
#include <string.h>
#include <time.h>

int backend_open(struct backend *b, const char *path, const struct backend_options *o,
                 struct err *e)
{
    memset(b, 0, sizeof(*b));
    b->lib = &backend_cpu;
    b->t = o->transport;
    b->cpu_clock = o->cpu_clock;
    if (path) {
        b->handle = dlopen(path, RTLD_NOW);
        b->lib = b->handle ? dlsym(b->handle, "backend_library") : NULL;
        if (!b->handle)
            return err_set(e, ERR_EXTERNAL, "cannot load %s", dlerror());
        if (!b->lib) {
            dlclose(b->handle);
            return err_set(e, ERR_EXTERNAL, "'%s' has no backend_library", path);
        }
    }
    if (!b->lib->open(b, o, e))
        return 0;
    if (b->handle)
        dlclose(b->handle);
    b->lib = NULL;
    return -1;
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
