/* exec/pack.h - lists of parts: what even collectives move.
 *
 * The list of a rank is its part of every tensor that an operation moves, one after another, each
 * in the room that all ranks' parts have (model/plan/placement.h). Lists are packed from buffers
 * that have these parts, or more of each tensor (exec/tensors.c), and unpacked into such.
 */
#ifndef BALLAST_EXEC_PACK_H
#define BALLAST_EXEC_PACK_H

#include "exec/run.h"

/* The tensors of an operation, in the order in which they are on lists: those from `first` on that
 * travel. */
struct pack_scope {
    const struct op *o;
    uint32_t first, n;
    bool units;    /* of one unit: the others travel with the unit's other operation */
    bool segments; /* those that owners or flat slices hold; else those that are cut by rows, or not
                      at all */
};
struct pack_scope pack_scope(const struct exec_run *r, const struct op *o,
                             const struct instance *i);
bool pack_travels(const struct exec_run *r, const struct pack_scope *s, uint32_t tensor);

/* Elements of a rank's list: the room of every part. */
uint64_t pack_room(const struct exec_run *r, const struct pack_scope *s, enum component c,
                   uint32_t rank);

/* Elements [from, to) of a rank's list between a buffer and `packed`. What an update starts from is
 * read through run_gradient(). O(tensors of the scope). */
enum pack_how { PACK, UNPACK, UNPACK_ADD };
void pack_list(struct exec_run *r, const struct pack_scope *s, enum component c, uint32_t rank,
               uint64_t from, uint64_t to, const struct run_buffer *b, char *packed,
               enum pack_how how);
/* to += from, n elements. */
void pack_add(struct exec_run *r, enum dtype d, char *to, const char *from, uint64_t n);

#endif
