#include "model/plan/segment_algo.h"

#include "core/err.h"

#define ROW_p2p          .direct = DIRECT_ALWAYS
#define ROW_ring         .direct = DIRECT_NO
#define ROW_tree         .tree = true
#define ROW_hierarchical .direct = DIRECT_WHOLE, .one_a_node = true
#define ROW_padded       .even = true, .baseline = true

static const struct segment_algo rows[ALGO_N] = {
#define X(v, way) [v] = {.name = #way, ROW_##way},
    SEGMENT_ALGOS(X)
#undef X
};

const enum coll_algo segment_algo_choices[] = {ALGO_RING, ALGO_TREE, ALGO_P2P, ALGO_HIERARCHICAL,
                                               ALGO_AUTO};

const struct segment_algo *segment_algo(enum coll_algo a)
{
    BUG_ON(a <= ALGO_AUTO || a >= ALGO_N);
    return &rows[a];
}
