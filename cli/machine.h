/* cli/machine.h - what ballast-exec runs on: ranks, products, threads; and how a job of several ranks ends.
 *
 * Libraries beside the program are loaded when needed. Before the BLAS is loaded its threads are set to --threads (one:
 * a rank is one core, and bits depend on the count), and its kernels are chosen (exec/blas.h); what the user has set in
 * OPENBLAS_NUM_THREADS and OPENBLAS_CORETYPE stays. */
#ifndef BALLAST_CLI_MACHINE_H
#define BALLAST_CLI_MACHINE_H

#include "core/opts.h"
#include "core/strbuf.h"
#include "exec/backend.h"
#include "model/cluster/cluster.h"

/* --backend, --transport, --gemm, --threads, --shuffle, --clock, --watchdog, --start-limit */
extern const struct opt machine_rows[];
extern const size_t machine_n_rows;

struct machine {
    struct transport t;
    struct backend b;
    const struct kernel_gemm *gemm;
    const char *gemm_name; /* "BLAS (SkylakeX)" or "reference" */
    const char *
        gemm_core; /* whose kernels the BLAS chose for this processor; "": it does not say, or there is none */
    struct guard *guard;        /* owned; of several ranks on a device */
    bool open;                  /* the ranks know of each other */
    char doing[TRANSPORT_NOTE]; /* the operation at work */
    struct arena arena;
};

void machine_init(struct machine *m);
/* Collective. `command` is what the program was asked to do. Ranks that were started with other options, or found other
 * products or another backend, are refused (ERR_INVALID, all of them) before anything else passes between them. */
int machine_open(struct machine *m, const char *command, const struct opts *o, struct err *e);
/* Collective: more that has to be the same on all ranks, as agree_fact() has written it down. */
int machine_agree(struct machine *m, const struct strbuf *facts, struct err *e);
/* Says the error once for all ranks and ends every rank of the job. Returns the exit status when this is the only one. */
int machine_fail(struct machine *m, const struct err *e);
void machine_close(struct machine *m);
/* Where a prediction for this cluster is of another kind of device than this machine computes on: a sentence that says so, and how to
 * come by the right one, in the machine's arena; else NULL. */
const char *machine_note(struct machine *m, const struct cluster *c);
/* What this rank does now, for the line when it fails. */
void machine_doing(struct machine *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
