/* The layouts, one row each: what is cut, how, and when gradients are reduced. What a row makes the
 * step do is read off it in layouts/lower.c; docs/LAYOUTS.md describes each at length.
 *
 * Every tensor of PLACE_CHUNK is cut by rows into padded parts; with PLACE_FLAT a rank has an equal
 * slice of the concatenation of all tensors, whatever boundaries it cuts. With +owner each matrix
 * is whole on one rank, a unit's vectors on another, and the embedding and the head are cut by
 * rows.
 */
#include "layouts/layout.h"

/* What zero3 and its kin in groups have in common. */
#define CUTS_ALL                                                                                   \
    .strategy = STRATEGY_STOCK,                                                                    \
    .allowed = 1u << STRATEGY_STOCK | 1u << STRATEGY_GATHER | 1u << STRATEGY_GATHER_ONCE |         \
               1u << STRATEGY_ALLTOALL | 1u << STRATEGY_OWNER,                                     \
    .rule = PLACE_CHUNK, .cut = {[PARAM] = true, [GRAD] = true, [STATE] = true}

static const struct layout rows[] = {
    {.name = "ddp",
     .line = "everything on every rank; gradients all-reduced; every rank updates every matrix",
     .strategy = STRATEGY_REPLICATED,
     .allowed = 1u << STRATEGY_REPLICATED,
     .rule = PLACE_REPLICATED,
     .buckets = true},
    /* +gather: slices of states; matrices that boundaries cut (at most W-1) are gathered by their
     * holders. +owner: Megatron layer-wise, Canzona DP. */
    {.name = "zero1",
     .line = "parameters and gradients on every rank, states cut; updated parameters gathered",
     .strategy = STRATEGY_GATHER,
     .allowed = 1u << STRATEGY_GATHER | 1u << STRATEGY_OWNER,
     .rule = PLACE_FLAT,
     .groups = GROUPS_ELEMENTWISE,
     .cut = {[STATE] = true},
     .buckets = true},
    /* DeepSpeed also collects units that are smaller than a bucket, which is not modelled. */
    {.name = "zero2",
     .line = "zero1 with gradients cut as well, reduced in every micro-batch (DeepSpeed's stage 2)",
     .strategy = STRATEGY_GATHER,
     .allowed = 1u << STRATEGY_GATHER | 1u << STRATEGY_OWNER,
     .rule = PLACE_FLAT,
     .cut = {[GRAD] = true, [STATE] = true},
     .buckets = true},
    /* FSDP2; +owner is MatrixFSDP, +alltoall Dion and VeOmni. */
    {.name = "zero3",
     .line = "parameters, gradients and states cut; units gathered in forward and backward (FSDP2)",
     CUTS_ALL},
    /* The sum over the replicas has a stream of its own, as FSDP2 has: it runs beside the next
     * units' backward and reductions. FSDP2 does so where its caller sets requires_all_reduce for
     * the last micro-batch only. */
    {.name = "hsdp",
     .line = "zero3 inside groups (--shard-group), copies between them; shards all-reduced (FSDP2)",
     CUTS_ALL,
     .groups = GROUPS_NODE,
     .level_stream = STREAM_ALL_REDUCE},
    /* The sum follows its reduce-scatter on that stream (DeepSpeed's MiCS_Optimizer, at the
     * accumulation boundary). The paper's hierarchical gathers (arXiv 2205.00119, 3.3) are not
     * modelled: groups over several nodes gather on rings. */
    {.name = "mics",
     .line = "hsdp with the all-reduce behind the reduce-scatter, on one stream (DeepSpeed)",
     CUTS_ALL,
     .groups = GROUPS_NODE,
     .level_stream = STREAM_REDUCE},
    /* AMSP's independent factors (arXiv 2311.00257), Megatron's HFSDP: reduced over the parts of
     * the gradients in every micro-batch, over the rest of the states' in the last. */
    {.name = "mesh",
     .line = "parameters, gradients and states cut by nested factors of their own (--mesh; AMSP)",
     .strategy = STRATEGY_GATHER,
     .allowed = 1u << STRATEGY_GATHER,
     .rule = PLACE_CHUNK,
     .cut = {[PARAM] = true, [GRAD] = true, [STATE] = true},
     .nested = true,
     .level_stream = STREAM_ALL_REDUCE},
};

const struct layout *const layouts_all[] = {&rows[0], &rows[1], &rows[2], &rows[3],
                                            &rows[4], &rows[5], &rows[6], NULL};
