/* exec/transport.h - bytes between ranks: non-blocking point-to-point, and nothing else.
 *
 * One rank needs no transport (transport_self). More ranks load build/ballast-mpi.so, which exports
 * `transport_library`. Everything that moves goes through isend/irecv, so that the counters are what a step moved.
 * Ranks are those of the program. Matching is by (peer, tag), in order.
 */
#ifndef BALLAST_EXEC_TRANSPORT_H
#define BALLAST_EXEC_TRANSPORT_H

#include "core/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transport;

struct transport_request {
    uint64_t handle; /* the library's own */
    bool active;
};

/* What a transport library exports as `const struct transport_library transport_library`. */
struct transport_library {
    const char *name;
    /* Join the job that the launcher (mpirun, srun) started. Collective: every rank calls it once. */
    int (*open)(struct transport *t, struct err *e);
    void (*close)(struct transport *t);
    int (*isend)(struct transport *t, uint32_t to, uint32_t tag, const void *data, size_t n,
                 struct transport_request *r, struct err *e);
    int (*irecv)(struct transport *t, uint32_t from, uint32_t tag, void *data, size_t n,
                 struct transport_request *r, struct err *e);
    /* Progress until all n requests are done. ERR_EXTERNAL when nothing moves for watchdog_s, or the library fails. */
    int (*wait)(struct transport *t, struct transport_request *r, size_t n, struct err *e);
    /* End every rank of the job, now: one line of ours has been printed. Does not return. */
    void (*abort)(struct transport *t, int status);
    /* May be NULL. What this rank is about to do, for the line that another prints should this one die or get stuck. */
    void (*note)(struct transport *t, const char *doing);
    /* May be NULL (always true). Is this rank the first of its node that has something to say about the job's end? */
    bool (*claim)(struct transport *t);
};

struct transport {
    const struct transport_library *lib;
    uint32_t rank, size;
    void *ctx;                   /* owned by lib */
    void *handle;                /* of dlopen, or NULL */
    double watchdog_s;           /* default 60 */
    uint64_t n_sent, n_received; /* payload bytes so far */
};

/* Rank 0 of 1. */
extern const struct transport_library transport_self;

/* Open: the library at `path` (NULL: transport_self). ERR_EXTERNAL with one clear line when it cannot be loaded. */
int transport_open(struct transport *t, const char *path, struct err *e);
void transport_close(struct transport *t);
void transport_note(struct transport *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
bool transport_claim(struct transport *t);

/* Helpers on top: both ends of an exchange at once; every rank's n bytes to all (out: size x n); a barrier. They count
 * as traffic only through the *_uncounted forms' absence: control messages use tags >= TRANSPORT_CONTROL and are not
 * counted. */
enum { TRANSPORT_CONTROL = 1 << 20, TRANSPORT_NOTE = 112 };
int transport_all_gather_control(struct transport *t, const void *mine, size_t n, void *out,
                                 struct err *e);
int transport_barrier(struct transport *t, struct err *e);

#endif
