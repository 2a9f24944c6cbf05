/* layouts/lives.h - one class of units: which of its values live from forward to backward, and in which order its kernels run.
 *
 * Recomputation decides what is kept: what is not, and backward reads, is made again when backward begins. Walks over a
 * unit's few dozen operations; no cost worth naming.
 */
#ifndef BALLAST_LAYOUTS_LIVES_H
#define BALLAST_LAYOUTS_LIVES_H

#include "model/graph/graph.h"
#include "model/plan/frameworks.h"

/* One kernel of a pass: the op's forward (part -1) or a part of its backward. */
struct entry {
    uint32_t op;
    int part;
};
struct pass {
    struct entry list[GRAPH_MAX_OPS * 3];
    uint32_t n;
};

struct class_lives {
    const struct unit_graph *g;
    const struct unit_class *c;
    bool kept[GRAPH_MAX_VALUES]; /* from forward to backward */
    bool recomputed[GRAPH_MAX_VALUES];
    bool outside[GRAPH_MAX_VALUES]; /* the unit's output where the next unit takes it, and what is
                                       carried from unit to unit */
    struct pass forward, backward;
};

/* Sets kept[] and recomputed[] by the mode and, of selective recomputation, the framework's policy. outside[] is set. */
void lives_retain(struct class_lives *k, enum recompute mode, enum selective policy);
/* Fills the passes: forward; what is made again and then backward. */
void lives_passes(struct class_lives *k);
/* Does kernel x of a pass make the gradient of value v? */
bool lives_makes_grad(const struct unit_graph *g, struct entry x, uint32_t v);
/* Positions in a pass: of the last kernel that reads v, of the one that makes it; PROGRAM_NONE: none. */
uint32_t lives_last_read(const struct unit_graph *g, const struct pass *p, uint32_t v);
uint32_t lives_made_at(const struct unit_graph *g, const struct pass *p, uint32_t v);

#endif
