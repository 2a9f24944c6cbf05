/* model/program/group_shape.h - how the groups of a family lie on nodes. */
#ifndef BALLAST_MODEL_PROGRAM_GROUP_SHAPE_H
#define BALLAST_MODEL_PROGRAM_GROUP_SHAPE_H

#include "model/program/program.h"

/* How a group lies on nodes: one of the family that touches most, for regular families all. */
struct group_shape {
    uint32_t n;        /* members */
    uint32_t nodes;    /* nodes touched */
    uint32_t per_node; /* members on a full node */
};
struct group_shape group_shape(const struct program *p, const struct group *g);
/* Does every node that a group of the family touches hold equally many of its members? O(1) for ranges, else O(world). */
bool group_regular(const struct program *p, const struct group *g, const struct group_shape *s);
/* Neighbours? */
bool group_contiguous(const struct group *g);
/* Is `rank` the first member of its group? */
bool group_is_base(const struct group *g, uint32_t rank);

#endif
