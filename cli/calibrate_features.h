/* cli/calibrate_features.h - what a measured time is a sum of, in the simulator's model: features whose coefficients are constants.
 *
 *   kernel      a tile work + a k0 tile area + kernel launches + bytes (attention: FLOPs) / the kernel's own rate
 *   collective  base calls + step steps + bytes / rate
 * They come from the simulator itself, on devices where one constant is 1 and the others are nothing.
 */
#ifndef BALLAST_CLI_CALIBRATE_FEATURES_H
#define BALLAST_CLI_CALIBRATE_FEATURES_H

#include "core/nonneg.h"
#include "model/cluster/cluster.h"
#include "model/program/program.h"

enum { X_WORK, X_AREA, X_LAUNCH, X_RATE /* + enum kernel: bytes or FLOPs */ };
enum { Y_BASE, Y_STEP, Y_BYTES };
enum { N_KERNEL = X_RATE + KERNEL_N, N_COLL = 3 };

/* A kernel alone, as the simulator has it; and whether that goes by its tiles, not by bytes. */
double calibrate_seconds(const struct device *d, const struct kernel_call *k);
bool calibrate_by_products(enum kernel k);
/* One node of ranks whose links cost nothing. */
void calibrate_unit_links(struct cluster *c, uint32_t ranks);
void calibrate_kernel_features(const struct kernel_call *k, uint32_t n_sm, double x[N_KERNEL]);
void calibrate_coll_features(const struct program *p, const struct op *o, const struct instance *i,
                             double x[N_COLL]);
/* Bytes (FLOPs) of all samples of kernels bound by `bound` (kernel_bound()) in a second of theirs, without launches. */
double calibrate_common_rate(const struct nonneg *f, char bound);

#endif
