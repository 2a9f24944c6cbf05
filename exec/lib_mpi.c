/* exec/lib_mpi.c - build/ballast-mpi.so: the transport between ranks on MPI. The only file that includes mpi.h.
 *
 * Messages larger than 2^30 bytes travel in parts, because MPI counts are int. Waiting is a loop of MPI_Testsome that
 * gives up when nothing moves for the watchdog's time: MPI itself would wait for ever for a rank that is gone.
 */
#include "exec/transport.h"

#include "core/mem.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PART_BYTES = 1 << 30 };

struct pending {
    MPI_Request request;
    bool done;
};
struct mpi {
    MPI_Comm comm;
    struct pending *list; /* owned: of the requests since the last wait */
    size_t n, cap;
    bool finalize;
};

static int fail(struct transport *t, int code, const char *what, struct err *e)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;

    MPI_Error_string(code, text, &n);
    return err_set(e, ERR_EXTERNAL, "rank %u: %s: %s", t->rank, what, text);
}

static int mpi_open(struct transport *t, struct err *e)
{
    struct mpi *m = MEM_NEW(struct mpi, 1);
    int started = 0, rank, size, provided;

    t->ctx = m;
    MPI_Initialized(&started);
    if (!started && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
        mem_free(m);
        return err_set(e, ERR_EXTERNAL, "MPI_Init failed; was this started by mpirun or srun?");
    }
    m->finalize = !started;
    MPI_Comm_dup(MPI_COMM_WORLD, &m->comm);
    MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(m->comm, &rank);
    MPI_Comm_size(m->comm, &size);
    t->rank = (uint32_t)rank;
    t->size = (uint32_t)size;
    return 0;
}

static void mpi_close(struct transport *t)
{
    struct mpi *m = t->ctx;

    MPI_Comm_free(&m->comm);
    if (m->finalize)
        MPI_Finalize();
    mem_free(m->list);
    mem_free(m);
}

static MPI_Request *add(struct mpi *m)
{
    m->list = mem_grow(m->list, &m->cap, m->n + 1, sizeof(*m->list));
    m->list[m->n] = (struct pending){.request = MPI_REQUEST_NULL};
    return &m->list[m->n++].request;
}

static int mpi_isend(struct transport *t, uint32_t to, uint32_t tag, const void *data, size_t n,
                     struct transport_request *r, struct err *e)
{
    struct mpi *m = t->ctx;
    size_t at = 0;

    r->active = true;
    do {
        size_t k = n - at < PART_BYTES ? n - at : PART_BYTES;
        int code = MPI_Isend((const char *)data + at, (int)k, MPI_BYTE, (int)to, (int)tag, m->comm,
                             add(m));

        if (code != MPI_SUCCESS)
            return fail(t, code, "MPI_Isend", e);
        at += k;
    } while (at < n);
    if (tag < TRANSPORT_CONTROL)
        t->n_sent += n;
    return 0;
}

static int mpi_irecv(struct transport *t, uint32_t from, uint32_t tag, void *data, size_t n,
                     struct transport_request *r, struct err *e)
{
    struct mpi *m = t->ctx;
    size_t at = 0;

    r->active = true;
    do {
        size_t k = n - at < PART_BYTES ? n - at : PART_BYTES;
        int code =
            MPI_Irecv((char *)data + at, (int)k, MPI_BYTE, (int)from, (int)tag, m->comm, add(m));

        if (code != MPI_SUCCESS)
            return fail(t, code, "MPI_Irecv", e);
        at += k;
    } while (at < n);
    if (tag < TRANSPORT_CONTROL)
        t->n_received += n;
    return 0;
}

static double now_s(void)
{
    struct timespec x;

    clock_gettime(CLOCK_MONOTONIC, &x);
    return (double)x.tv_sec + 1e-9 * (double)x.tv_nsec;
}

/* All that is pending, whoever asked: requests of one wait are the requests since the last. */
static int mpi_wait(struct transport *t, struct transport_request *r, size_t n, struct err *e)
{
    struct mpi *m = t->ctx;
    double moved = now_s();
    size_t first = 0;

    while (first < m->n) {
        int done = 0, code = MPI_Test(&m->list[first].request, &done, MPI_STATUS_IGNORE);

        if (code != MPI_SUCCESS)
            return fail(t, code, "a message failed", e);
        if (done) {
            first++;
            moved = now_s();
            continue;
        }
        if (now_s() - moved > t->watchdog_s)
            return err_set(e, ERR_EXTERNAL,
                           "rank %u: nothing moved for %.0f s; another rank is gone or stuck",
                           t->rank, t->watchdog_s);
        sched_yield(); /* more ranks than cores */
    }
    m->n = 0;
    for (size_t i = 0; i < n; i++)
        r[i].active = false;
    return 0;
}

static void mpi_abort(struct transport *t, int status)
{
    (void)t;
    MPI_Abort(MPI_COMM_WORLD, status);
    exit(status);
}

extern const struct transport_library transport_library;
const struct transport_library transport_library = {
    .name = "mpi",
    .open = mpi_open,
    .close = mpi_close,
    .isend = mpi_isend,
    .irecv = mpi_irecv,
    .wait = mpi_wait,
    .abort = mpi_abort,
};
