#include "model/plan/mesh.h"

#include "core/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const keys[] = {"p", "g", "os"};
enum { MAX_FACTOR = 65535 }; /* the product of two is a uint32_t */

/* Digits and nothing else; more than any machine has is MAX_FACTOR + 1. Returns what follows, NULL: no digit. */
static const char *parse_number(const char *at, uint32_t *n)
{
    const char *start = at;

    for (*n = 0; *at >= '0' && *at <= '9'; at++)
        *n = (uint32_t)num_min(*n * 10 + (uint32_t)(*at - '0'), MAX_FACTOR + 1);
    return at > start ? at : NULL;
}

/* "p=AxB" up to a comma or the end: the index of its key and what follows, or -1. */
static int parse_one(const char *text, struct factor *x, const char **end)
{
    for (int k = 0; k < 3; k++) {
        size_t n = strlen(keys[k]);
        const char *at;

        if (strncmp(text, keys[k], n) != 0 || text[n] != '=')
            continue;
        at = parse_number(text + n + 1, &x->in_node);
        at = at && *at == 'x' ? parse_number(at + 1, &x->nodes) : NULL;
        if (!at || (*at && *at != ','))
            return -1;
        *end = at;
        return k;
    }
    return -1;
}

int mesh_parse(const char *text, struct factor f[3], bool said[3], struct err *e)
{
    memset(said, 0, 3 * sizeof(*said));
    for (const char *at = text;; at++) {
        struct factor x;
        int k = parse_one(at, &x, &at);

        if (k < 0 || said[k])
            return err_set(e, ERR_INVALID, "expected p=AxB,g=AxB,os=AxB, each once at most");
        if (num_min(x.in_node, x.nodes) == 0 || num_max(x.in_node, x.nodes) > MAX_FACTOR)
            return err_set(e, ERR_INVALID, "%s: expected numbers from 1 to %d", keys[k],
                           MAX_FACTOR);
        said[k] = true;
        f[k] = x;
        if (!*at)
            return 0;
    }
}

static void set_axis(struct mesh *m, enum axis a, uint32_t in, uint32_t in_stride, uint32_t nodes,
                     uint32_t node_stride)
{
    m->axis[a] = (struct mesh_axis){{in, nodes}, {in_stride, node_stride}};
}

void mesh_neighbours(struct mesh *m, uint32_t world, uint32_t tp, enum axis of, uint32_t n)
{
    m->world = world;
    for (int a = 0; a < AXIS_N; a++)
        set_axis(m, (enum axis)a, 1, 1, 1, 1);
    set_axis(m, AXIS_TP, tp, 1, 1, 1);
    set_axis(m, of, n, tp, 1, 1);
    set_axis(m, AXIS_D3, world / (n * tp), n * tp, 1, 1);
}

int mesh_nested(struct mesh *m, uint32_t world, uint32_t tp, uint32_t gpus_per_node,
                const struct factor cut[3], struct err *e)
{
    uint32_t gpus = (uint32_t)num_min(world, gpus_per_node), nodes = world / gpus;
    uint32_t node = gpus / tp; /* data ranks */
    struct factor inner = {1, 1}, outer;

    if (world % gpus)
        return err_set(e, ERR_INVALID,
                       "%" PRIu32 " ranks do not fill nodes of %" PRIu32
                       "; factors need whole nodes",
                       world, gpus);
    m->world = world;
    set_axis(m, AXIS_TP, tp, 1, 1, 1);
    for (int k = 0; k <= 3; k++) {
        outer = k < 3 ? cut[k] : (struct factor){node, nodes};
        if (!outer.in_node || !outer.nodes || outer.in_node % inner.in_node ||
            outer.nodes % inner.nodes) {
            if (k < 3)
                return err_set(e, ERR_INVALID,
                               "%s=%" PRIu32 "x%" PRIu32 " is no multiple of %s=%" PRIu32
                               "x%" PRIu32 " in each direction",
                               keys[k], outer.in_node, outer.nodes, k ? keys[k - 1] : "1x1",
                               inner.in_node, inner.nodes);
            return err_set(e, ERR_INVALID,
                           "os=%" PRIu32 "x%" PRIu32 " does not divide %" PRIu32
                           " GPUs in a node and %" PRIu32 " nodes",
                           inner.in_node, inner.nodes, node, nodes);
        }
        set_axis(m, (enum axis)k, outer.in_node / inner.in_node, inner.in_node * tp,
                 outer.nodes / inner.nodes, gpus * inner.nodes);
        inner = outer;
    }
    return 0;
}

uint32_t mesh_size(const struct mesh *m, axis_set over)
{
    uint32_t n = 1;

    for (int a = 0; a < AXIS_N; a++)
        if (over & AXES(a))
            n *= m->axis[a].size[0] * m->axis[a].size[1];
    return n;
}

uint32_t mesh_index(const struct mesh *m, uint32_t rank, axis_set over)
{
    uint32_t index = 0;

    for (int a = 0; a < AXIS_N; a++) {
        const struct mesh_axis *x = &m->axis[a];

        if (over & AXES(a))
            index = index * x->size[0] * x->size[1] + rank / x->stride[0] % x->size[0] +
                    rank / x->stride[1] % x->size[1] * x->size[0];
    }
    return index;
}

uint32_t mesh_rank(const struct mesh *m, uint32_t index, axis_set over)
{
    uint32_t rank = 0;

    for (int a = AXIS_N - 1; a >= 0; a--) {
        const struct mesh_axis *x = &m->axis[a];
        uint32_t n = x->size[0] * x->size[1], at = index % n;

        if (!(over & AXES(a)))
            continue;
        rank += at % x->size[0] * x->stride[0] + at / x->size[0] * x->stride[1];
        index /= n;
    }
    return rank;
}

uint32_t mesh_distinct(const struct mesh *m)
{
    uint32_t last = 0;

    for (int a = 0; a < AXIS_N; a++)
        for (int k = 0; k < 2 && a != AXIS_D3; k++)
            last += (m->axis[a].size[k] - 1) * m->axis[a].stride[k];
    return last + 1;
}
