/* Segments along trees: the two levels of a hierarchy, and the trees of model/program/tree.h. */
#include "exec/collective_inner.h"

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

static struct stand stand_of(const struct coll_group *g, const struct wire_segment *s,
                             uint32_t self)
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
static int each_entry(struct play *p, const struct wire_segment *s,
                      int (*fn)(struct play *, const struct wire_segment *, uint32_t))
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

static int send_segment(struct play *p, const struct wire_segment *s, uint32_t to)
{
    return send_to(p, to, at(p, s->offset), s->bytes);
}

int gather_hierarchical(struct play *p)
{
    uint32_t self = p->g->self;

    for (uint32_t i = 0; i < p->c->n_segments; i++) {
        const struct wire_segment *s = &p->c->segments[i];
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

static int add_segment(struct play *p, const struct wire_segment *s, uint32_t from)
{
    if (receive_from(p, from, p->c->scratch, s->bytes) || finish(p))
        return -1;
    add(p, at(p, s->offset), p->c->scratch, s->bytes, 1);
    return 0;
}

int reduce_hierarchical(struct play *p)
{
    uint32_t self = p->g->self;

    for (uint32_t i = 0; i < p->c->n_segments; i++) {
        const struct wire_segment *s = &p->c->segments[i];
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
static void tree_of(struct play *p, const struct wire_segment *s)
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
        const struct wire_segment *s = &p->c->segments[k];

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

int gather_tree(struct play *p)
{
    return each_piece(p, pass_down);
}

int reduce_tree(struct play *p)
{
    return each_piece(p, sum_up);
}
