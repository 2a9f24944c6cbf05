#include "exec/transport.h"

#include "core/mem.h"
#include "exec/library.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- one rank ---- */

static int self_open(struct transport *t, struct err *e)
{
    (void)e;
    t->rank = 0;
    t->size = 1;
    return 0;
}

static void self_close(struct transport *t)
{
    (void)t;
}

static int self_send(struct transport *t, uint32_t to, uint32_t tag, const void *data, size_t n,
                     struct transport_request *r, struct err *e)
{
    (void)t, (void)tag, (void)data, (void)n, (void)r;
    return err_set(e, ERR_INVALID, "a single rank cannot send to rank %u", to);
}

static int self_receive(struct transport *t, uint32_t from, uint32_t tag, void *data, size_t n,
                        struct transport_request *r, struct err *e)
{
    (void)t, (void)tag, (void)data, (void)n, (void)r;
    return err_set(e, ERR_INVALID, "a single rank cannot receive from rank %u", from);
}

static int self_wait(struct transport *t, struct transport_request *r, size_t n, struct err *e)
{
    (void)t, (void)r, (void)n, (void)e;
    return 0;
}

static void self_abort(struct transport *t, int status)
{
    (void)t;
    exit(status);
}

const struct transport_library transport_self = {
    .name = "self",
    .open = self_open,
    .close = self_close,
    .isend = self_send,
    .irecv = self_receive,
    .wait = self_wait,
    .abort = self_abort,
};

/* ---- loading ---- */

int transport_open(struct transport *t, const char *path, struct err *e)
{
    double watchdog_s = t->watchdog_s;

    memset(t, 0, sizeof(*t));
    t->watchdog_s = watchdog_s > 0 ? watchdog_s : 60;
    t->lib = &transport_self;
    if (path) {
        const void *object;

        t->handle = library_load(path, "transport_library", true, &object, e);
        if (!t->handle)
            return err_prefix(e, "the transport between ranks");
        t->lib = object;
    }
    if (t->lib->open(t, e)) {
        if (t->handle)
            dlclose(t->handle);
        return -1;
    }
    return 0;
}

void transport_close(struct transport *t)
{
    t->lib->close(t);
    if (t->handle)
        dlclose(t->handle);
    memset(t, 0, sizeof(*t));
}

/* ---- the job's end ---- */

void transport_note(struct transport *t, const char *fmt, ...)
{
    char text[TRANSPORT_NOTE];
    va_list ap;

    if (!t->lib->note)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    t->lib->note(t, text);
}

bool transport_claim(struct transport *t)
{
    return !t->lib || !t->lib->claim || t->lib->claim(t);
}

/* ---- control ---- */

int transport_all_gather_control(struct transport *t, const void *mine, size_t n, void *out,
                                 struct err *e)
{
    struct transport_request *r = MEM_NEW(struct transport_request, 2 * t->size);
    char *to = out;
    int status = 0;

    memcpy(to + t->rank * n, mine, n);
    for (uint32_t i = 0; i < t->size && !status; i++)
        if (i != t->rank)
            status = t->lib->irecv(t, i, TRANSPORT_CONTROL, to + i * n, n, &r[2 * i], e) ||
                     t->lib->isend(t, i, TRANSPORT_CONTROL, to + t->rank * n, n, &r[2 * i + 1], e);
    if (!status)
        status = t->lib->wait(t, r, 2 * (size_t)t->size, e);
    mem_free(r);
    return status ? err_prefix(e, "rank %u: a control message", t->rank) : 0;
}

int transport_barrier(struct transport *t, struct err *e)
{
    char mine = 0, *all = MEM_NEW(char, t->size);
    int status = transport_all_gather_control(t, &mine, 1, all, e);

    mem_free(all);
    return status;
}
