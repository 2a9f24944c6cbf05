/* exec/collective_inner.h - what the files of exec/collective.h share: a call at work, its messages and sums. */
#ifndef BALLAST_EXEC_COLLECTIVE_INNER_H
#define BALLAST_EXEC_COLLECTIVE_INNER_H

#include "exec/collective.h"
#include "model/program/tree.h"

struct play {
    const struct coll_carrier *by;
    const struct coll_group *g;
    const struct coll_call *c;
    struct tree tree; /* of the range at work; tree.n 0: none yet */
    uint32_t tree_first;
    struct err *e;
};

static inline char *at(const struct play *p, uint64_t offset)
{
    return (char *)p->c->data + offset;
}

static inline int send_to(struct play *p, uint32_t place, const void *data, size_t n)
{
    return p->by->send(p->by->ctx, p->g->ranks[place], data, n, p->e);
}

static inline int receive_from(struct play *p, uint32_t place, void *data, size_t n)
{
    return p->by->receive(p->by->ctx, p->g->ranks[place], data, n, p->e);
}

static inline int finish(struct play *p)
{
    return p->by->finish(p->by->ctx, p->e);
}

static inline void copy(struct play *p, void *to, const void *from, size_t n)
{
    p->by->copy(p->by->ctx, to, from, n);
}

/* Parts 0..n_parts of `bytes` each, added in that order; the caller's is `own`. */
static inline void reduce(struct play *p, void *to, uint32_t n_parts, uint32_t own,
                          const void *own_part, const void *others, size_t bytes, double scale)
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
static inline void add(struct play *p, void *to, const void *from, size_t bytes, double scale)
{
    reduce(p, to, 2, 0, to, from, bytes, scale);
}

static inline void multiply(struct play *p, void *to, size_t bytes, double scale)
{
    enum dtype d = p->c->dtype;
    const struct kernel_scale a = {
        .n = bytes / dtype_bytes(d, 1), .type = d, .alpha = (float)scale, .x = to};

    if (a.n && a.alpha != 1)
        p->by->scale(p->by->ctx, &a);
}

static inline double scale_of(const struct coll_call *c)
{
    return c->scale != 0 ? c->scale : 1;
}

static inline bool in_range(const struct wire_segment *s, uint32_t place)
{
    return place >= s->to_first && place < s->to_first + s->to_n;
}

/* Even kinds, on any n chunks (collective.c): ring; ring, or in the order of ranks. */
int even_all_gather(struct play *p, void *data, size_t chunk);
int even_reduce_scatter(struct play *p, void *data, size_t chunk, void *scratch);

/* Segments, the call's way (collective_segments.c). */
int segments_gather(struct play *p);
int segments_reduce(struct play *p);
size_t segments_scratch_bytes(const struct coll_call *c, const struct coll_group *g);

/* Ways along trees (collective_tree.c). */
int gather_hierarchical(struct play *p);
int reduce_hierarchical(struct play *p);
int gather_tree(struct play *p);
int reduce_tree(struct play *p);

#endif
