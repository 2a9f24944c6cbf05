/* Segments from their roots to their ranges, or summed into their roots: the ways that need no tree, and the table of all. */
#include "exec/collective_inner.h"
#include "model/plan/segment_algo.h"

/* ---- p2p and ring ---- */

static uint32_t range_next(const struct wire_segment *s, uint32_t place)
{
    return place + 1 < s->to_first + s->to_n ? place + 1 : s->to_first;
}

static uint32_t range_prev(const struct wire_segment *s, uint32_t place)
{
    return place > s->to_first ? place - 1 : s->to_first + s->to_n - 1;
}

static int gather_p2p(struct play *p)
{
    uint32_t self = p->g->self;

    for (uint32_t i = 0; i < p->c->n_segments; i++) {
        const struct wire_segment *s = &p->c->segments[i];

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
        const struct wire_segment *s = &p->c->segments[i];

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
        const struct wire_segment *s = &p->c->segments[i];

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
        const struct wire_segment *s = &c->segments[i];

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
        const struct wire_segment *s = &c->segments[i];

        if (self != s->root)
            continue;
        reduce(p, at(p, s->offset), s->to_n, self - s->to_first, at(p, s->offset),
               (char *)c->scratch + used, s->bytes, scale_of(c));
        used += (s->to_n - 1) * s->bytes;
    }
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
        const struct wire_segment *s = &p->c->segments[i];

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
    if (reduce ? even_reduce_scatter(p, chunks, chunk, chunks + n * chunk)
               : even_all_gather(p, chunks, chunk))
        return -1;
    for (uint32_t r = 0; r < n; r++)
        if (!reduce || r == self)
            pack(p, chunks, chunk, r, true);
    return 0;
}

/* ---- one row a way ---- */

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

int segments_gather(struct play *p)
{
    return ways[p->c->algo].gather(p);
}

int segments_reduce(struct play *p)
{
    return ways[reduce_way(p->c)].reduce(p);
}

size_t segments_scratch_bytes(const struct coll_call *c, const struct coll_group *g)
{
    if (c->kind == COLL_SEGMENT_REDUCE)
        return ways[reduce_way(c)].scratch(c, g);
    return segment_algo(c->algo)->even ? g->n * padded_chunk(c, g->n) : 0;
}
