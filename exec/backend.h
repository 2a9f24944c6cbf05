/* exec/backend.h - what a rank computes with and moves through: a table of functions on ordered queues.
 *
 * The walk (exec/run.c) issues; a backend does, now or later. Everything that touches a buffer is issued on a stream of the
 * program (enum stream); a stream does what it was given in that order, and only events order two streams. So nothing
 * that issues may look at a buffer: download() is the one way to the host, and it waits. Two backends read the table:
 *   cpu    exec/backend_cpu.c, part of the program: kernels/ and a BLAS, collectives over the transport. Each call is
 *          done at once, or, shuffled, when somebody waits, in a random order among those that streams and events
 *          allow: what a program forgets to wait for shows.
 *   others build/ballast-NAME.so, which exports `backend_library`.
 *
 * Errors: issuing never fails visibly. The first error of a backend is kept in b->err (b->failed); what comes after it is
 * dropped, and who issues looks after each operation.
 */
#ifndef BALLAST_EXEC_BACKEND_H
#define BALLAST_EXEC_BACKEND_H

#include "exec/collective.h"
#include "exec/guard.h"
#include "exec/transport.h"
#include "kernels/functions.h"
#include "model/program/program.h"

/* c (m,n) = alpha * op(a) op(b) + beta * c in fp32, stored in each operand's type; conventions of struct kernel_gemm. */
struct backend_gemm {
    bool ta, tb;
    uint64_t m, n, k;
    float alpha, beta;
    const void *a, *b;
    void *c;
    enum dtype a_type, b_type, c_type;
    uint64_t lda, ldb, ldc;
};

struct backend;
struct backend_options {
    struct transport *transport;    /* between ranks; the backend counts what it moves through it */
    const struct kernel_gemm *gemm; /* cpu: products */
    uint64_t shuffle;               /* cpu: 0: do each call at once; else the seed of the order */
    void (*stay_near)(
        const char *bus_id); /* NULL, or binds the process to the cores near a PCI device */
    bool cpu_clock;          /* cpu: seconds that this thread computed, not those that passed */
    struct guard *guard;     /* of calls that wait for other ranks, or NULL */
};

/* What a backend's library exports as `const struct backend_library backend_library`. All calls come from one thread. */
struct backend_library {
    const char *name;
    /* Could this rank open it, as far as it can tell alone? ERR_EXTERNAL says what is missing. */
    int (*usable)(const struct backend_options *o, struct err *e);
    /* ERR_EXTERNAL with one line that says what is missing. Collective. */
    int (*open)(struct backend *b, const struct backend_options *o, struct err *e);
    void (*close)(struct backend *b);

    /* Memory, in the order of stream s: usable by what is issued there from now on, free for others after what was issued
     * there before. Contents undefined. Through backend_alloc() and backend_free(), which count. */
    void *(*alloc)(struct backend *b, enum stream s, size_t n);
    void (*free)(struct backend *b, enum stream s, void *p);
    /* Most bytes that were taken on the device at a time, as it says itself; the backend's own included. */
    uint64_t (*device_peak)(struct backend *b);

    /* Copies. The host's side of an upload is read before it returns; a download waits for all of s. */
    void (*zero)(struct backend *b, enum stream s, void *p, size_t n);
    void (*copy)(struct backend *b, enum stream s, void *to, const void *from, size_t n);
    void (*upload)(struct backend *b, enum stream s, void *to, const void *from_host, size_t n);
    void (*download)(struct backend *b, enum stream s, void *to_host, const void *from, size_t n);

    /* Events: a mark behind all that was issued on s; what is issued on s from now on waits for a mark. Numbers count up
     * from 0 after each sync_and_forget. */
    uint32_t (*record)(struct backend *b, enum stream s);
    void (*wait)(struct backend *b, enum stream s, uint32_t event);
    /* Until all streams are empty. */
    void (*sync)(struct backend *b);
    /* Seconds of an event, after sync, since some instant that is the same for all events; and the end of all events. */
    double (*seconds)(struct backend *b, uint32_t event);
    /* Has it passed by now? After a failure too: who failed asks where. */
    bool (*passed)(struct backend *b, uint32_t event);
    void (*forget)(struct backend *b);

    void (*gemm)(struct backend *b, enum stream s, const struct backend_gemm *g);
    /* on->workspace_bytes says what the CPU's version would need; the backend brings its own. */
    void (*launch)(struct backend *b, enum stream s, enum kernel_function k,
                   const struct kernel_on *on, const void *args);
    /* All members issue the collectives of a group in the same order. Segments are read before it returns; tag and scratch
     * are the backend's. */
    void (*collective)(struct backend *b, enum stream s, const struct coll_group *g,
                       const struct coll_call *c);
};

/* What a rank computes on, filled in by open(). */
struct backend_device {
    char name[160];
    uint64_t memory_bytes;  /* of it, shared by the ranks that use it */
    uint64_t context_bytes; /* taken before anything is allocated; 0: look at the process */
    uint32_t n_sm;          /* 1: a core */
    bool overlaps;          /* streams run beside one another */
};

struct backend {
    const struct backend_library *lib;
    struct backend_device device;
    struct transport *t;
    bool cpu_clock;
    void *ctx;    /* owned by lib */
    void *handle; /* of dlopen, or NULL */
    bool failed;
    struct err err;              /* the first one */
    uint64_t n_sent, n_received; /* payload bytes of collectives so far */
    uint64_t bytes, peak;        /* of backend_alloc(), now and at most, in the order of issue */
    uint64_t own_bytes;          /* beside them, so far: workspace, and what collectives need */
};

extern const struct backend_library backend_cpu;

/* The library at `path` (NULL: backend_cpu). */
int backend_open(struct backend *b, const char *path, const struct backend_options *o,
                 struct err *e);
void backend_close(struct backend *b);
/* Collective: -1 on all ranks when the library at `path` is not usable on one of them, with that one's reason. */
int backend_agree(const char *path, const struct backend_options *o, struct err *e);
/* -1 with b's first error in e, else 0. */
int backend_status(const struct backend *b, struct err *e);
/* n bytes, and the same n when they go back; NULL goes back to nothing. */
void *backend_alloc(struct backend *b, enum stream s, size_t n);
void backend_free(struct backend *b, enum stream s, void *p, size_t n);
/* Seconds since some instant, by the clock that the backend was opened with. */
double backend_now_s(const struct backend *b);
/* Keeps the first error. */
void backend_fail(struct backend *b, const struct err *e);

#define BACKEND_LAUNCH(name, type)                                                                 \
    static inline void launch_##name(struct backend *b, enum stream s, const struct kernel_on *on, \
                                     const struct type *a)                                         \
    {                                                                                              \
        b->lib->launch(b, s, KERNEL_FN_##name, on, a);                                             \
    }
KERNEL_FUNCTIONS(BACKEND_LAUNCH)
#undef BACKEND_LAUNCH

#endif
