/* The algorithms of model/program/traffic.c, played for real: even kinds here, segments in collective_segments.c and
 * collective_tree.c. Each function says which edges it sends along; sums are fp32. */
#include "exec/collective.h"

#include "exec/collective_inner.h"

#include <string.h>

/* ---- even kinds: n chunks of c bytes in `data` ---- */

int even_all_gather(struct play *p, void *data, size_t chunk)
{
    uint32_t n = p->g->n, self = p->g->self, next = (self + 1) % n, prev = (self + n - 1) % n;

    for (uint32_t s = 0; s + 1 < n; s++) {
        uint32_t out = (self + n - s) % n, in = (self + 2 * n - s - 1) % n;

        if (receive_from(p, prev, (char *)data + in * chunk, chunk) ||
            send_to(p, next, (char *)data + out * chunk, chunk) || finish(p))
            return -1;
    }
    return 0;
}

static int reduce_scatter_ring(struct play *p, void *data, size_t chunk, void *scratch)
{
    uint32_t n = p->g->n, self = p->g->self, next = (self + 1) % n, prev = (self + n - 1) % n;
    double scale = scale_of(p->c);

    for (uint32_t s = 0; s + 1 < n; s++) {
        uint32_t out = (self + 2 * n - s - 1) % n, in = (self + 2 * n - s - 2) % n;
        bool last = s + 2 == n;

        if (receive_from(p, prev, scratch, chunk) ||
            send_to(p, next, (char *)data + out * chunk, chunk) || finish(p))
            return -1;
        add(p, (char *)data + in * chunk, scratch, chunk, last ? scale : 1);
    }
    if (n == 1)
        multiply(p, data, chunk, scale);
    return 0;
}

/* Every rank sends chunk j to rank j; rank j adds them in the order of the ranks. */
static int reduce_scatter_ordered(struct play *p, void *data, size_t chunk, void *scratch)
{
    uint32_t n = p->g->n, self = p->g->self;
    char *own = (char *)data + self * chunk;

    for (uint32_t j = 0; j < n; j++)
        if (j != self && (receive_from(p, j, (char *)scratch + (j - (j > self)) * chunk, chunk) ||
                          send_to(p, j, (char *)data + j * chunk, chunk)))
            return -1;
    if (finish(p))
        return -1;
    reduce(p, own, n, self, own, scratch, chunk, scale_of(p->c));
    return 0;
}

int even_reduce_scatter(struct play *p, void *data, size_t chunk, void *scratch)
{
    return p->c->ordered ? reduce_scatter_ordered(p, data, chunk, scratch)
                         : reduce_scatter_ring(p, data, chunk, scratch);
}

/* data: chunk j goes to rank j; on exit chunk j came from rank j. */
static int all_to_all(struct play *p)
{
    size_t chunk = p->c->chunk_bytes;
    uint32_t n = p->g->n, self = p->g->self;

    copy(p, p->c->scratch, p->c->data, n * chunk);
    for (uint32_t j = 0; j < n; j++)
        if (j != self && (receive_from(p, j, at(p, j * chunk), chunk) ||
                          send_to(p, j, (char *)p->c->scratch + j * chunk, chunk)))
            return -1;
    return finish(p);
}

/* ---- dispatch ---- */

size_t collective_scratch_bytes(const struct coll_call *c, const struct coll_group *g)
{
    switch (c->kind) {
    case COLL_REDUCE_SCATTER:
    case COLL_ALL_REDUCE:
        return (c->ordered ? g->n : 1) * c->chunk_bytes;
    case COLL_ALL_TO_ALL:
        return g->n * c->chunk_bytes;
    case COLL_SEGMENT_GATHER:
    case COLL_SEGMENT_REDUCE:
        return segments_scratch_bytes(c, g);
    case COLL_ALL_GATHER:
    case COLL_BROADCAST:
    case COLL_REDUCE:
    case COLL_SEND:
    case COLL_RECV:
    case COLL_N:
        break;
    }
    return 0;
}

static int dispatch(struct play *p)
{
    const struct coll_call *c = p->c;

    switch (c->kind) {
    case COLL_ALL_GATHER:
        return even_all_gather(p, c->data, c->chunk_bytes);
    case COLL_REDUCE_SCATTER:
        return even_reduce_scatter(p, c->data, c->chunk_bytes, c->scratch);
    case COLL_ALL_REDUCE:
        return even_reduce_scatter(p, c->data, c->chunk_bytes, c->scratch) ||
               even_all_gather(p, c->data, c->chunk_bytes);
    case COLL_ALL_TO_ALL:
        return all_to_all(p);
    case COLL_SEGMENT_GATHER:
        return segments_gather(p);
    case COLL_SEGMENT_REDUCE:
        return segments_reduce(p);
    case COLL_BROADCAST:
    case COLL_REDUCE:
    case COLL_SEND:
    case COLL_RECV:
    case COLL_N:
        break;
    }
    return err_set(p->e, ERR_UNSUPPORTED, "exec runs no %s", coll_kind_name(c->kind));
}

int collective_carry(const struct coll_carrier *by, const struct coll_group *g,
                     const struct coll_call *c, struct err *e)
{
    struct play p = {.by = by, .g = g, .c = c, .e = e};
    int status;

    BUG_ON(c->algo == ALGO_AUTO &&
           (c->kind == COLL_SEGMENT_GATHER || c->kind == COLL_SEGMENT_REDUCE));
    status = dispatch(&p);
    tree_release(&p.tree);
    return status ? -1 : 0;
}

/* ---- host memory ---- */

struct host {
    struct transport *t;
    uint32_t tag;
    struct transport_request *req; /* owned */
    size_t n_req, cap_req;
};

static struct transport_request *request(struct host *h)
{
    h->req = mem_grow(h->req, &h->cap_req, h->n_req + 1, sizeof(*h->req));
    memset(&h->req[h->n_req], 0, sizeof(*h->req));
    return &h->req[h->n_req++];
}

static int host_send(void *ctx, uint32_t rank, const void *data, size_t n, struct err *e)
{
    struct host *h = ctx;

    return h->t->lib->isend(h->t, rank, h->tag, data, n, request(h), e);
}

static int host_receive(void *ctx, uint32_t rank, void *data, size_t n, struct err *e)
{
    struct host *h = ctx;

    return h->t->lib->irecv(h->t, rank, h->tag, data, n, request(h), e);
}

static int host_finish(void *ctx, struct err *e)
{
    struct host *h = ctx;
    size_t n = h->n_req;

    h->n_req = 0;
    return h->t->lib->wait(h->t, h->req, n, e);
}

static void host_copy(void *ctx, void *to, const void *from, size_t n)
{
    (void)ctx;
    if (n)
        memcpy(to, from, n);
}

static void host_zero(void *ctx, void *p, size_t n)
{
    (void)ctx;
    if (n)
        memset(p, 0, n);
}

static void host_reduce(void *ctx, const struct kernel_reduce *a)
{
    const struct kernel_on on = {.act = a->type};

    (void)ctx;
    kernel_reduce(&on, a);
}

static void host_scale(void *ctx, const struct kernel_scale *a)
{
    const struct kernel_on on = {.act = a->type};

    (void)ctx;
    kernel_scale(&on, a);
}

int collective_run(struct transport *t, const struct coll_group *g, const struct coll_call *c,
                   struct err *e)
{
    struct host h = {.t = t, .tag = c->tag};
    const struct coll_carrier by = {.ctx = &h,
                                    .send = host_send,
                                    .receive = host_receive,
                                    .finish = host_finish,
                                    .copy = host_copy,
                                    .zero = host_zero,
                                    .reduce = host_reduce,
                                    .scale = host_scale};
    int status = collective_carry(&by, g, c, e);

    mem_free(h.req);
    return status;
}
