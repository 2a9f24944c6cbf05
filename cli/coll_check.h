/* cli/coll_check.h - do the numbers of one measured row of a collective agree with each other?
 *
 * nccl-tests prints algbw = size / time and busbw = algbw times a factor of the collective and the
 * number of ranks (call_bus_factor). A row whose bandwidths say something else was read by wrong
 * columns, is of another collective or of another number of ranks, or was mistyped. Until
 * version 2.13 algbw of a gather or a scatter was what busbw is. */
#ifndef BALLAST_CLI_COLL_CHECK_H
#define BALLAST_CLI_COLL_CHECK_H

#include "cli/nccl_line.h"
#include "sim/call.h"

enum { COLL_CHECK_WHY = 200 };

/* False and `why` where they contradict beyond the rounding of the printed digits. algbw, busbw: in
 * GB/s, NULL when not given. */
bool coll_rates_agree(enum coll_kind kind, uint32_t n_ranks, uint64_t n_bytes,
                      const struct nccl_number *time_us, const struct nccl_number *algbw,
                      const struct nccl_number *busbw, char why[COLL_CHECK_WHY]);
/* Is `n_bytes` so many elements of `type`, of all ranks or of one? A type that is not known may
 * have 1, 2, 4 or 8 bytes. */
bool coll_count_agrees(uint32_t n_ranks, uint64_t n_bytes, uint64_t count, const char *type,
                       char why[COLL_CHECK_WHY]);

#endif
