/* model/plan/segment_algo.h - the ways that owners' segments travel: what each is, one row a way.
 *
 * Beside these traits each reader has a table of functions, made of SEGMENT_ALGOS: bytes (model/program/traffic_segments.c), steps
 * (sim/collective.c), and how exec plays them (exec/collective.c). A way without a function or a row does not compile.
 */
#ifndef BALLAST_MODEL_PLAN_SEGMENT_ALGO_H
#define BALLAST_MODEL_PLAN_SEGMENT_ALGO_H

#include "model/plan/job.h"

#include <stdbool.h>

/* Do owners send to each receiver themselves (grouped sends and receives)? WHOLE: only where segments go to all of the group. */
enum segment_direct { DIRECT_NO, DIRECT_WHOLE, DIRECT_ALWAYS };

struct segment_algo {
    const char *name;
    enum segment_direct direct;
    bool one_a_node; /* to one rank of each other node, which hands on inside it */
    bool tree;       /* along trees: leaves carry what their edges carry */
    bool even;       /* cut into equal parts: a reduction has one order, whichever way it goes */
    bool baseline;   /* to compare with: AUTO does not choose it */
};

/* The ways that AUTO chooses among (all but baselines), of equal ones the first; ends with ALGO_AUTO. */
extern const enum coll_algo segment_algo_choices[];

/* The row of a way; not of ALGO_AUTO. */
const struct segment_algo *segment_algo(enum coll_algo a);

/* Are segments padded to equal parts? Not by AUTO. */
static inline bool segment_algo_pads(enum coll_algo a)
{
    return a != ALGO_AUTO && segment_algo(a)->even;
}

#endif
