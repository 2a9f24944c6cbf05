/* exec/blas.h - the BLAS beside the program: with which of its kernels, and whether these are right.
 *
 * OpenBLAS has kernels for each processor ("core types") and takes those of twenty years ago on one that it does not know: a fifth
 * of the speed. Some of its releases compute wrong products, or crash, with kernels that the processor could run. So where its own
 * choice is below what the processor's flags allow, faster ones are tried, the fastest first, each in a process of its own, on small
 * products beside a plain loop; the first that is right is taken. What the user has set in OPENBLAS_CORETYPE is taken as it is, and
 * refused when it is wrong.
 */
#ifndef BALLAST_EXEC_BLAS_H
#define BALLAST_EXEC_BLAS_H

#include "core/err.h"
#include "kernels/kernels.h"

struct blas {
    void *handle; /* of dlopen; stays loaded */
    const struct kernel_gemm *gemm;
    const char *core; /* the library's name of its kernels; "": it has none to tell */
};

/* Sets OPENBLAS_CORETYPE, which OpenBLAS reads while it is loaded: before the first blas_open(), and before threads and MPI, for it
 * forks. Takes about 30 ms. Does nothing when the variable is set or the library at `path` is not there. */
void blas_choose(const char *path);
/* Loads it. ERR_EXTERNAL with what is missing, or with the first product that is wrong. */
int blas_open(struct blas *b, const char *path, struct err *e);

/* ---- for tests ---- */

/* Products of several shapes, transposed or not, beside a plain loop in double. -1 and ERR_EXTERNAL with the first that is off by more
 * than rounding. */
int blas_check(const struct kernel_gemm *g, struct err *e);
/* Core types above `core` (what the library chose by itself) that a processor with these flags (words between spaces) can run, the
 * fastest first, NULL at the end. */
enum { BLAS_MAX_CORES = 4 };
void blas_faster(const char *core, const char *flags, const char *faster[BLAS_MAX_CORES]);

#endif
