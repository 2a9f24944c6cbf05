/* model/plan/mesh.h - the ranks as a mesh: which ranks share one copy of parameters, gradients and
 * optimizer states.
 *
 * A rank is a tuple of coordinates, one an axis. Tensor-parallel ranks are neighbours, inside a node; each sees a model of its own
 * (model/tensors/slice.h), which the data axes cut further. The data axes are nested, inner to outer:
 * parameters are cut over d0, gradients over d0 d1, states over d0 d1 d2, and d3 numbers the
 * replicas. An axis has a part inside a node and a part over nodes, because d1 may lie inside the
 * nodes that d0 leaves room in, and over nodes at the same time. A set of axes names a family of
 * groups: the ranks that differ in those coordinates alone (mesh_group() in
 * model/program/program.h).
 *
 * Sharding factors as AMSP writes them (arXiv 2311.00257): (ranks in a node) x (nodes).
 */
#ifndef BALLAST_MODEL_PLAN_MESH_H
#define BALLAST_MODEL_PLAN_MESH_H

#include "core/err.h"

#include <stdbool.h>
#include <stdint.h>

enum axis { AXIS_D0, AXIS_D1, AXIS_D2, AXIS_D3, AXIS_TP, AXIS_N };
typedef uint32_t axis_set; /* a set: 1u << enum axis */
#define AXES(a) (1u << (a))

/* Sharding factor: (ranks in a node) x (nodes). 1 x 1 is not cut. */
struct factor {
    uint32_t in_node, nodes;
};
static inline uint32_t factor_ranks(struct factor f)
{
    return f.in_node * f.nodes;
}

/* The coordinate of rank r is the mixed number of digits r / stride % size: the first digit inside
 * a node, the second over nodes; size 1 where the axis has no such part. */
struct mesh_axis {
    uint32_t size[2], stride[2];
};
struct mesh {
    uint32_t world;
    struct mesh_axis axis[AXIS_N];
};

/* Groups of n data ranks in a row on axis `of`, replicas on d3; a data rank is tp neighbours. n x tp divides the world. */
void mesh_neighbours(struct mesh *m, uint32_t world, uint32_t tp, enum axis of, uint32_t n);
/* Parameters, gradients and states cut by `cut`, each factor within the next. ERR_INVALID names the
 * rule that is broken: a factor that the next or the machine is no multiple of, or ranks that do
 * not fill their nodes. Factors count data ranks. */
int mesh_nested(struct mesh *m, uint32_t world, uint32_t tp, uint32_t gpus_per_node,
                const struct factor cut[3], struct err *e);

/* Reads "p=AxB,g=AxB,os=AxB", each once at most and in any order; `said` tells which are there, the
 * others are left as they are. ERR_INVALID. */
int mesh_parse(const char *text, struct factor f[3], bool said[3], struct err *e);

/* Ranks of a group over these axes. */
uint32_t mesh_size(const struct mesh *m, axis_set over);
/* Number of the rank among those of its group. d0 counts most: the parts of an inner axis are cut
 * again by the next one, so that a part over d0 d1 lies within the part over d0. */
uint32_t mesh_index(const struct mesh *m, uint32_t rank, axis_set over);
/* The lowest rank that has this number. */
uint32_t mesh_rank(const struct mesh *m, uint32_t index, axis_set over);
/* Ranks [0, n) hold everything that any rank holds; the others are their replicas. */
uint32_t mesh_distinct(const struct mesh *m);

#endif
