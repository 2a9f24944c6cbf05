/* layouts/families.h - the rows of the layout table; one file a family. */
#ifndef BALLAST_LAYOUTS_FAMILIES_H
#define BALLAST_LAYOUTS_FAMILIES_H

#include "layouts/layout.h"

extern const struct layout layout_ddp; /* ddp.c */
/* Bytes that ddp all-reduces, at the unit that completes a bucket; [n_units] in arena. */
uint64_t *ddp_bucket_bytes(const struct plan *plan, struct arena *a);
extern const struct layout layout_zero1, layout_zero2; /* zero1.c: +gather, +owner */
extern const struct layout
    layout_zero3; /* zero3.c: zero3+stock, +gather, +gather-once, +alltoall, +owner */
/* A step of the plan's shard groups; what their copies sum at the end goes over stream `replicate`. */
int zero3_lower_groups(const struct plan *plan, enum stream replicate, struct arena *a,
                       struct program *p, struct err *e);
/* Bytes inside the groups. */
int zero3_formula(const struct plan *plan, uint64_t bytes[PHASE_N], struct err *e);
extern const struct layout layout_hsdp, layout_mics; /* hsdp.c */

/* What zero3 and its kin in groups have in common. */
#define LAYOUT_CUTS_ALL                                                                            \
    .strategy = STRATEGY_STOCK,                                                                    \
    .allowed = 1u << STRATEGY_STOCK | 1u << STRATEGY_GATHER | 1u << STRATEGY_GATHER_ONCE |         \
               1u << STRATEGY_ALLTOALL | 1u << STRATEGY_OWNER,                                     \
    .rule = PLACE_CHUNK, .shard_params = true, .shard_grads = true, .shard_states = true

#endif
