#include "model/program/group_shape.h"

#include "core/num.h"

bool group_contiguous(const struct group *g)
{
    return g->n_axes == 1 && g->stride[0] == 1;
}

bool group_is_base(const struct group *g, uint32_t rank)
{
    if (g->members)
        return rank == 0;
    for (uint32_t k = 0; k < g->n_axes; k++)
        if (rank / g->stride[k] % g->size[k])
            return false;
    return true;
}

/* Neighbours from `base` on. */
static struct group_shape range_shape(const struct program *p, uint32_t base, uint32_t n)
{
    uint32_t gpn = p->gpus_per_node, first = (uint32_t)num_min(n, gpn - base % gpn);
    struct group_shape s = {.n = n, .nodes = 1, .per_node = first};

    if (n > first) {
        s.nodes += (uint32_t)num_ceil_div(n - first, gpn);
        s.per_node = (uint32_t)num_max(first, num_min(n - first, gpn));
    }
    return s;
}

/* The group of `base`, by its members. */
static struct group_shape listed_shape(const struct program *p, const struct group *g,
                                       uint32_t base)
{
    struct group_shape s = {.n = g->n_members};
    uint32_t node = PROGRAM_NONE, here = 0;

    for (uint32_t i = 0; i < g->n_members; i++) {
        uint32_t n = group_member(g, base, i) / p->gpus_per_node;

        if (n != node) {
            s.nodes++;
            here = 0;
        }
        node = n;
        if (++here > s.per_node)
            s.per_node = here;
    }
    return s;
}

/* Is the first group of the family one that touches most nodes? Of neighbours, and of ranks that are apart by what a node
 * divides or is divided by, it is. */
static bool first_says_all(const struct program *p, const struct group *g)
{
    uint32_t gpn = p->gpus_per_node, by = group_contiguous(g) ? g->n_members : g->stride[0];

    if (g->members || g->n_axes == 1)
        return g->members || by % gpn == 0 || gpn % by == 0;
    for (uint32_t k = 0; k < g->n_axes; k++) /* each inside nodes, or over whole ones */
        if (g->stride[k] % gpn && gpn % (g->stride[k] * g->size[k]))
            return false;
    return true;
}

struct group_shape group_shape(const struct program *p, const struct group *g)
{
    struct group_shape s = {0}, x;

    for (uint32_t base = 0; base < p->world; base++) {
        if (!group_is_base(g, base))
            continue;
        x = group_contiguous(g) ? range_shape(p, base, g->n_members) : listed_shape(p, g, base);
        if (x.nodes > s.nodes || (x.nodes == s.nodes && x.per_node < s.per_node))
            s = x;
        if (first_says_all(p, g) || g->n_members == p->world)
            break;
    }
    return s;
}

bool group_regular(const struct program *p, const struct group *g, const struct group_shape *s)
{
    uint32_t node = PROGRAM_NONE, here = s->per_node;

    if (g->members)
        return false;
    if (group_contiguous(g))
        return g->n_members % p->gpus_per_node == 0 || p->gpus_per_node % g->n_members == 0 ||
               (g->n_members == p->world && s->nodes == 1);
    for (uint32_t base = 0; base < p->world; base++) {
        if (!group_is_base(g, base))
            continue;
        for (uint32_t i = 0; i < g->n_members; i++) {
            uint32_t n = group_member(g, base, i) / p->gpus_per_node;

            if (n != node || i == 0) {
                if (here != s->per_node)
                    return false;
                here = 0;
            }
            node = n;
            here++;
        }
    }
    return here == s->per_node;
}
