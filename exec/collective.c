/* The algorithms of model/program/traffic.c, played for real. Each function says which edges it sends along; sums are fp32. */
#include "exec/collective.h"

#include "core/num.h"
#include "model/plan/segment_algo.h"
#include "model/program/tree.h"

#include <string.h>

struct play {
    const struct coll_carrier *by;
    const struct coll_group *g;
    const struct coll_call *c;
    struct tree tree; /* of the range at work; tree.n 0: none yet */
    uint32_t tree_first;
    struct err *e;
};

static char *at(const struct play *p, uint64_t offset)
{
    return (char *)p->c->data + offset;
}

static int send_to(struct play *p, uint32_t place, const void *data, size_t n)
{
    return p->by->send(p->by->ctx, p->g->ranks[place], data, n, p->e);
}

static int receive_from(struct play *p, uint32_t place, void *data, size_t n)
{
    return p->by->receive(p->by->ctx, p->g->ranks[place], data, n, p->e);
}

static int finish(struct play *p)
{
    return p->by->finish(p->by->ctx, p->e);
}

static void copy(struct play *p, void *to, const void *from, size_t n)
{
    p->by->copy(p->by->ctx, to, from, n);
}

/* Parts 0..n_parts of `bytes` each, added in that order; the caller's is `own`. */
static void reduce(struct play *p, void *to, uint32_t n_parts, uint32_t own, const void *own_part,
                   const void *others, size_t bytes, double scale)
{
    enum dtype d = p->c->dtype;
    const struct kernel_reduce a = {.n = bytes / dtype_bytes(d, 1),
                                    .type = d,
                                    .n_parts = n_parts,
                                    .own = own,
                                    .scale = (float)scale,
                                    .own_part = own_part,
                                    .others = others,
                                    .out = to};

    if (a.n)
        p->by->reduce(p->by->ctx, &a);
}

/* to += from, times scale, rounded once. */
static void add(struct play *p, void *to, const void *from, size_t bytes, double scale)
{
    reduce(p, to, 2, 0, to, from, bytes, scale);
}

static void multiply(struct play *p, void *to, size_t bytes, double scale)
{
    enum dtype d = p->c->dtype;
    const struct kernel_scale a = {
        .n = bytes / dtype_bytes(d, 1), .type = d, .alpha = (float)scale, .x = to};

    if (a.n && a.alpha != 1)
        p->by->scale(p->by->ctx, &a);
}

static double scale_of(const struct coll_call *c)
{
    return c->scale != 0 ? c->scale : 1;
}

/* ---- even kinds: n chunks of c bytes in `data` ---- */

static int all_gather_ring(struct play *p, void *data, size_t chunk)
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

static int reduce_scatter(struct play *p, void *data, size_t chunk, void *scratch)
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

/* ---- segments ---- */

static bool in_range(const struct segment *s, uint32_t place)
{
    return place >= s->to_first && place < s->to_first + s->to_n;
}

static uint32_t range_next(const struct segment *s, uint32_t place)
{
    return place + 1 < s->to_first + s->to_n ? place + 1 : s->to_first;
}

static uint32_t range_prev(const struct segment *s, uint32_t place)
{
    return place > s->to_first ? place - 1 : s->to_first + s->to_n - 1;
}

static int gather_p2p(struct play *p)
{
    uint32_t self = p->g->self;

    for (uint32_t i = 0; i < p->c->n_segments; i++) {
        const struct segment *s = &p->c->segments[i];

        for (uint32_t k = s->to_first; k < s->to_first + s->to_n; k++) {
            if (k == s->root)
                continue;
            if (self == s->root && send_to(p, k, at(p, s->offset), s->bytes))
                return -1;
            if (self == k && receive_from(p, s->root, at(p, s->offset), s->bytes))
                return -1;
        }
    }
    return finish(p);
}

/* root -> root+1 -> ... around the range */
static int gather_ring(struct play *p)
{
    uint32_t self = p->g->self;

    for (uint32_t i = 0; i < p->c->n_segments; i++) {
        const struct segment *s = &p->c->segments[i];

        if (!in_range(s, self))
            continue;
        if (self != s->root &&
            (receive_from(p, range_prev(s, self), at(p, s->offset), s->bytes) || finish(p)))
            return -1;
        if (range_next(s, self) != s->root &&
            send_to(p, range_next(s, self), at(p, s->offset), s->bytes))
            return -1;
    }
    return finish(p);
}

/* The mirror image: sums travel the other way, root+... down to root. */
static int reduce_ring(struct play *p)
{
    uint32_t self = p->g->self;

    for (uint32_t i = 0; i < p->c->n_segments; i++) {
        const struct segment *s = &p->c->segments[i];

        if (!in_range(s, self))
            continue;
        if (range_next(s, self) != s->root) {
            if (receive_from(p, range_next(s, self), p->c->scratch, s->bytes) || finish(p))
                return -1;
            add(p, at(p, s->offset), p->c->scratch, s->bytes, 1);
        }
        if (self != s->root && send_to(p, range_prev(s, self), at(p, s->offset), s->bytes))
            return -1;
        if (finish(p)) /* the scratch is free again */
            return -1;
        if (self == s->root)
            multiply(p, at(p, s->offset), s->bytes, scale_of(p->c));
    }
    return 0;
}

/* Every rank sends its part to the root, which adds in the order of the ranks. */
static int reduce_p2p(struct play *p)
{
    const struct coll_call *c = p->c;
    uint32_t self = p->g->self;
    uint64_t used = 0;

    for (uint32_t i = 0; i < c->n_segments; i++) { /* all in flight at once */
        const struct segment *s = &c->segments[i];

        for (uint32_t k = s->to_first; k < s->to_first + s->to_n; k++) {
            if (k == s->root)
                continue;
            if (self == s->root) {
                if (receive_from(p, k, (char *)c->scratch + used, s->bytes))
                    return -1;
                used += s->bytes;
            } else if (self == k && send_to(p, s->root, at(p, s->offset), s->bytes)) {
                return -1;
            }
        }
    }
    if (finish(p))
        return -1;
    used = 0;
    for (uint32_t i = 0; i < c->n_segments; i++) {
        const struct segment *s = &c->segments[i];

        if (self != s->root)
            continue;
        reduce(p, at(p, s->offset), s->to_n, self - s->to_first, at(p, s->offset),
               (char *)c->scratch + used, s->bytes, scale_of(c));
        used += (s->to_n - 1) * s->bytes;
    }
    return 0;
}

/* ---- hierarchical: whole ranges only ---- */

struct node {
    uint32_t first, n; /* places */
};

static struct node node_of(const struct coll_group *g, uint32_t place)
{
    uint32_t node = g->ranks[place] / g->gpus_per_node;
    struct node x = {place, 1};

    while (x.first > 0 && g->ranks[x.first - 1] / g->gpus_per_node == node)
        x.first--;
    while (x.first + x.n < g->n && g->ranks[x.first + x.n] / g->gpus_per_node == node)
        x.n++;
    return x;
}

/* Where the caller stands in a segment's tree: its predecessor (PROGRAM_NONE: the root), and successors. */
struct stand {
    uint32_t from;
    bool entry;    /* of another node: its predecessor is the root */
    uint32_t next; /* in its node's chain, or PROGRAM_NONE */
};

static struct stand stand_of(const struct coll_group *g, const struct segment *s, uint32_t self)
{
    struct node home = node_of(g, s->root), here = node_of(g, self);
    uint32_t entry = here.first + (s->root - home.first) % here.n;
    uint32_t along =
        (self - here.first + here.n - (entry - here.first)) % here.n; /* steps behind the entry */
    struct stand x = {.next = PROGRAM_NONE};

    x.entry = along == 0 && here.first != home.first;
    if (along)
        x.from = here.first + (self - here.first + here.n - 1) % here.n;
    else
        x.from = x.entry ? s->root : PROGRAM_NONE;
    if (along + 1 < here.n)
        x.next = here.first + (self - here.first + 1) % here.n;
    return x;
}

/* Calls fn for the entry of every node but the root's. */
static int each_entry(struct play *p, const struct segment *s,
                      int (*fn)(struct play *, const struct segment *, uint32_t))
{
    struct node home = node_of(p->g, s->root);

    for (uint32_t k = 0; k < p->g->n;) {
        struct node x = node_of(p->g, k);

        if (x.first != home.first && fn(p, s, x.first + (s->root - home.first) % x.n))
            return -1;
        k = x.first + x.n;
    }
    return 0;
}

static int send_segment(struct play *p, const struct segment *s, uint32_t to)
{
    return send_to(p, to, at(p, s->offset), s->bytes);
}

static int gather_hierarchical(struct play *p)
{
    uint32_t self = p->g->self;

    for (uint32_t i = 0; i < p->c->n_segments; i++) {
        const struct segment *s = &p->c->segments[i];
        struct stand x = stand_of(p->g, s, self);

        if (x.from != PROGRAM_NONE &&
            (receive_from(p, x.from, at(p, s->offset), s->bytes) || finish(p)))
            return -1;
        if (self == s->root && each_entry(p, s, send_segment))
            return -1;
        if (x.next != PROGRAM_NONE && send_to(p, x.next, at(p, s->offset), s->bytes))
            return -1;
    }
    return finish(p);
}

static int add_segment(struct play *p, const struct segment *s, uint32_t from)
{
    if (receive_from(p, from, p->c->scratch, s->bytes) || finish(p))
        return -1;
    add(p, at(p, s->offset), p->c->scratch, s->bytes, 1);
    return 0;
}

static int reduce_hierarchical(struct play *p)
{
    uint32_t self = p->g->self;

    for (uint32_t i = 0; i < p->c->n_segments; i++) {
        const struct segment *s = &p->c->segments[i];
        struct stand x = stand_of(p->g, s, self);

        if (x.next != PROGRAM_NONE && add_segment(p, s, x.next))
            return -1;
        if (self == s->root && each_entry(p, s, add_segment))
            return -1;
        if (x.from != PROGRAM_NONE && (send_to(p, x.from, at(p, s->offset), s->bytes) || finish(p)))
            return -1;
        if (self == s->root)
            multiply(p, at(p, s->offset), s->bytes, scale_of(p->c));
    }
    return 0;
}

/* ---- tree: model/program/tree.h says who hands what to whom ---- */

/* A segment's range as the trees see it: neighbours mostly share one. */
static void tree_of(struct play *p, const struct segment *s)
{
    if (p->tree.n == s->to_n && p->tree_first == s->to_first)
        return;
    tree_release(&p->tree);
    tree_init(&p->tree, p->g->ranks + s->to_first, s->to_n, p->g->gpus_per_node);
    p->tree_first = s->to_first;
}

/* Calls fn for every piece of every segment that has bytes and passes the caller: pieces in the same order on all ranks, so
 * that who waits for a piece waits for somebody who is no further. */
static int each_piece(struct play *p, int (*fn)(struct play *, char *, size_t, struct tree_links))
{
    size_t element = dtype_bytes(p->c->dtype, 1);

    for (uint32_t k = 0; k < p->c->n_segments; k++) {
        const struct segment *s = &p->c->segments[k];

        if (!in_range(s, p->g->self))
            continue;
        tree_of(p, s);
        for (uint32_t i = 0; i < p->tree.n_trees; i++) {
            struct tree_piece x = tree_piece(&p->tree, i, s->bytes, element);

            if (x.bytes &&
                fn(p, at(p, s->offset + x.offset), x.bytes,
                   tree_links(&p->tree, s->root - s->to_first, i, p->g->self - s->to_first)))
                return -1;
        }
    }
    return finish(p);
}

static int pass_down(struct play *p, char *data, size_t bytes, struct tree_links x)
{
    if (x.parent != PROGRAM_NONE &&
        (receive_from(p, p->tree_first + x.parent, data, bytes) || finish(p)))
        return -1;
    for (uint32_t k = 0; k < x.n_children; k++)
        if (send_to(p, p->tree_first + x.child[k], data, bytes))
            return -1;
    return 0;
}

static int sum_up(struct play *p, char *data, size_t bytes, struct tree_links x)
{
    for (uint32_t k = 0; k < x.n_children; k++) {
        if (receive_from(p, p->tree_first + x.child[k], p->c->scratch, bytes) || finish(p))
            return -1;
        add(p, data, p->c->scratch, bytes, 1);
    }
    if (x.parent != PROGRAM_NONE)
        return send_to(p, p->tree_first + x.parent, data, bytes);
    multiply(p, data, bytes, scale_of(p->c));
    return 0;
}

/* ---- padded: segments packed into n equal chunks ---- */

static size_t padded_chunk(const struct coll_call *c, uint32_t n)
{
    size_t most = 0;

    for (uint32_t r = 0; r < n; r++) {
        size_t sum = 0;

        for (uint32_t i = 0; i < c->n_segments; i++)
            sum += c->segments[i].root == r ? c->segments[i].bytes : 0;
        most = sum > most ? sum : most;
    }
    return most;
}

/* Copy the segments that rank r roots between the unit's buffer and its chunk. */
static void pack(struct play *p, char *chunks, size_t chunk, uint32_t r, bool out)
{
    size_t used = 0;

    for (uint32_t i = 0; i < p->c->n_segments; i++) {
        const struct segment *s = &p->c->segments[i];

        if (s->root != r)
            continue;
        if (out)
            copy(p, at(p, s->offset), chunks + r * chunk + used, s->bytes);
        else
            copy(p, chunks + r * chunk + used, at(p, s->offset), s->bytes);
        used += s->bytes;
    }
}

static int padded(struct play *p, bool reduce)
{
    size_t chunk = padded_chunk(p->c, p->g->n);
    char *chunks = p->c->scratch;
    uint32_t n = p->g->n, self = p->g->self;

    p->by->zero(p->by->ctx, chunks, n * chunk);
    for (uint32_t r = 0; r < n; r++)
        if (reduce || r == self)
            pack(p, chunks, chunk, r, false);
    if (reduce ? reduce_scatter(p, chunks, chunk, chunks + n * chunk)
               : all_gather_ring(p, chunks, chunk))
        return -1;
    for (uint32_t r = 0; r < n; r++)
        if (!reduce || r == self)
            pack(p, chunks, chunk, r, true);
    return 0;
}

/* ---- one row a way ---- */

static int gather_tree(struct play *p)
{
    return each_piece(p, pass_down);
}

static int reduce_tree(struct play *p)
{
    return each_piece(p, sum_up);
}

static int gather_padded(struct play *p)
{
    return padded(p, false);
}

static int reduce_padded(struct play *p)
{
    return padded(p, true);
}

/* What a reduction keeps beside the segments: all that others send to this rank, ... */
static size_t scratch_p2p(const struct coll_call *c, const struct coll_group *g)
{
    size_t received = 0;

    for (uint32_t i = 0; i < c->n_segments; i++)
        if (c->segments[i].root == g->self)
            received += c->segments[i].bytes * (c->segments[i].to_n - 1);
    return received;
}

/* ... the largest segment that passes by, ... */
static size_t scratch_ring(const struct coll_call *c, const struct coll_group *g)
{
    size_t most = 0;

    (void)g;
    for (uint32_t i = 0; i < c->n_segments; i++)
        most = c->segments[i].bytes > most ? c->segments[i].bytes : most;
    return most;
}

static size_t scratch_tree(const struct coll_call *c, const struct coll_group *g)
{
    return scratch_ring(c, g);
}

static size_t scratch_hierarchical(const struct coll_call *c, const struct coll_group *g)
{
    return scratch_ring(c, g);
}

/* ... or all equal parts, and what comes of them. */
static size_t scratch_padded(const struct coll_call *c, const struct coll_group *g)
{
    return 2 * (size_t)g->n * padded_chunk(c, g->n);
}

static const struct {
    int (*gather)(struct play *p);
    int (*reduce)(struct play *p);
    size_t (*scratch)(const struct coll_call *c, const struct coll_group *g); /* of reduce */
} ways[ALGO_N] = {
#define X(v, way) [v] = {gather_##way, reduce_##way, scratch_##way},
    SEGMENT_ALGOS(X)
#undef X
};

/* In the order of ranks a sum goes straight to its owner, unless it is even and has one order anyway. */
static enum coll_algo reduce_way(const struct coll_call *c)
{
    return c->ordered && !segment_algo(c->algo)->even ? ALGO_P2P : c->algo;
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
        return segment_algo(c->algo)->even ? g->n * padded_chunk(c, g->n) : 0;
    case COLL_SEGMENT_REDUCE:
        return ways[reduce_way(c)].scratch(c, g);
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
        return all_gather_ring(p, c->data, c->chunk_bytes);
    case COLL_REDUCE_SCATTER:
        return reduce_scatter(p, c->data, c->chunk_bytes, c->scratch);
    case COLL_ALL_REDUCE:
        return reduce_scatter(p, c->data, c->chunk_bytes, c->scratch) ||
               all_gather_ring(p, c->data, c->chunk_bytes);
    case COLL_ALL_TO_ALL:
        return all_to_all(p);
    case COLL_SEGMENT_GATHER:
        return ways[c->algo].gather(p);
    case COLL_SEGMENT_REDUCE:
        return ways[reduce_way(c)].reduce(p);
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
