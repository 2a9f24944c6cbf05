/* cli/backend.h - what ballast-exec runs on: ranks, products, threads; and how a job of several ranks ends.
 *
 * Libraries beside the program are loaded when needed. Before the BLAS is loaded its threads are set to --threads (one:
 * a rank is one core, and bits depend on the count) and, where it would pick kernels without AVX2 on a processor that has
 * it, its core type to Haswell; what the user has set in OPENBLAS_NUM_THREADS and OPENBLAS_CORETYPE stays. */
#ifndef BALLAST_CLI_BACKEND_H
#define BALLAST_CLI_BACKEND_H

#include "core/opts.h"
#include "exec/transport.h"
#include "kernels/kernels.h"

/* --backend, --transport, --gemm, --threads, --watchdog */
extern const struct opt backend_rows[];
extern const size_t backend_n_rows;

struct backend {
    struct transport t;
    const struct kernel_gemm *gemm;
    const char *gemm_name; /* "BLAS" or "reference" */
    void *gemm_handle;
    bool open;                  /* the ranks know of each other */
    char doing[TRANSPORT_NOTE]; /* the operation at work */
    struct arena arena;
};

void backend_init(struct backend *b);
int backend_open(struct backend *b, const struct opts *o, struct err *e);
/* Says the error once for all ranks and ends every rank of the job. Returns the exit status when this is the only one. */
int backend_fail(struct backend *b, const struct err *e);
void backend_close(struct backend *b);
/* What this rank does now, for the line when it fails. */
void backend_doing(struct backend *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
