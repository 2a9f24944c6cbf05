/* exec/lib_mpi.c - build/ballast-mpi.so: the transport between ranks on MPI. The only file that includes mpi.h.
 *
 * Messages larger than 2^30 bytes travel in parts, because MPI counts are int. MPI itself would wait for ever for a rank
 * that is gone, so waiting is a loop of MPI_Test that gives up
 * - when a process of this node is gone, which it looks for four times a second;
 * - when no message of this rank and no operation of this node's ranks moved for the watchdog's time.
 * The ranks of a node share a page: the process, what it is doing and how far it got of each, and a flag that the first
 * one to speak about the job's end takes, so that there is one line (one a node) and not one a rank. A launcher that
 * saw a rank die ends the others with SIGTERM; the first of them says who died and where.
 */
#include "exec/transport.h"

#include "core/mem.h"

#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PART_BYTES = 1 << 30 };

/* A rank of this node, in shared memory. */
struct seat {
    int pid, rank;
    int closed;                 /* it left in good order */
    int claimed;                /* of the first seat: somebody has spoken */
    unsigned long long n_notes; /* moves with every operation */
    char doing[TRANSPORT_NOTE];
};

struct pending {
    MPI_Request request;
};
struct mpi {
    MPI_Comm comm, node;
    MPI_Win window;
    struct seat *seats; /* [n_seats], in the window; NULL: the ranks of this node cannot share */
    int n_seats, seat;
    bool see_pids;        /* processes of this node see each other */
    struct pending *list; /* owned: of the requests since the last wait */
    size_t n, cap;
    bool finalize;
};

static struct mpi *for_signal; /* a handler has no argument of ours */

static int fail(int code, const char *what, struct err *e)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;

    MPI_Error_string(code, text, &n);
    return err_set(e, ERR_EXTERNAL, "%s: %s", what, text);
}

/* ---- what the ranks of a node know of each other ---- */

static bool claim(struct mpi *m)
{
    return !m->seats || !__atomic_exchange_n(&m->seats[0].claimed, 1, __ATOMIC_SEQ_CST);
}

static bool mpi_claim(struct transport *t)
{
    return claim(t->ctx);
}

static void mpi_note(struct transport *t, const char *doing)
{
    struct mpi *m = t->ctx;
    struct seat *s;

    if (!m->seats)
        return;
    s = &m->seats[m->seat];
    memcpy(s->doing, doing, strlen(doing) + 1);
    __atomic_fetch_add(&s->n_notes, 1, __ATOMIC_RELAXED);
}

/* A process of this node that is gone without a word, or NULL. */
static const struct seat *find_dead(const struct mpi *m)
{
    for (int i = 0; m->seats && m->see_pids && i < m->n_seats; i++)
        if (!m->seats[i].closed && kill(m->seats[i].pid, 0) && errno == ESRCH)
            return &m->seats[i];
    return NULL;
}

/* Sum over the node, and the rank that is furthest behind. */
static unsigned long long progress(const struct mpi *m, const struct seat **last)
{
    unsigned long long sum = 0;

    *last = NULL;
    for (int i = 0; m->seats && i < m->n_seats; i++) {
        unsigned long long n = __atomic_load_n(&m->seats[i].n_notes, __ATOMIC_RELAXED);

        sum += n;
        if (!*last || n < (*last)->n_notes)
            *last = &m->seats[i];
    }
    return sum;
}

/* Text for write(), in a handler: no stdio. */
struct line {
    char s[400];
    size_t n;
};

static void put(struct line *l, const char *s)
{
    while (*s && l->n < sizeof(l->s))
        l->s[l->n++] = *s++;
}

static void put_int(struct line *l, int x)
{
    char d[16];
    int n = 15;

    d[n] = 0;
    do
        d[--n] = (char)('0' + x % 10);
    while ((x /= 10) > 0 && n > 0);
    put(l, d + n);
}

/* The launcher ends us: it saw a rank die, or somebody ended the job. */
static void on_term(int sig)
{
    struct mpi *m = for_signal;
    const struct seat *dead;
    struct line l = {.n = 0};
    ssize_t n = 0;

    if (m && m->seats && claim(m)) {
        dead = find_dead(m);
        put(&l, "error: rank ");
        put_int(&l, dead ? dead->rank : m->seats[m->seat].rank);
        put(&l, ": ");
        put(&l, dead ? dead->doing : m->seats[m->seat].doing);
        put(&l, dead ? ": its process died" : ": ended by signal ");
        if (!dead)
            put_int(&l, sig);
        put(&l, " [ERR_EXTERNAL]\n");
        n = write(STDERR_FILENO, l.s, l.n);
    }
    _exit(n < 0 ? 5 : 4);
}

/* Every rank of a node takes part; without a shared page each speaks for itself. */
static void sit_down(struct transport *t, struct mpi *m)
{
    struct sigaction act;
    void *base = NULL;
    int mine = 1, all = 0, unit;
    MPI_Aint size;

    m->window = MPI_WIN_NULL;
    if (MPI_Comm_split_type(m->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &m->node))
        return;
    MPI_Comm_rank(m->node, &m->seat);
    MPI_Comm_size(m->node, &m->n_seats);
    if (MPI_Win_allocate_shared(sizeof(struct seat), sizeof(struct seat), MPI_INFO_NULL, m->node,
                                &base, &m->window) ||
        MPI_Win_shared_query(m->window, 0, &size, &unit, &m->seats)) {
        m->seats = NULL;
        return;
    }
    memset(&m->seats[m->seat], 0, sizeof(struct seat));
    m->seats[m->seat].pid = (int)getpid();
    m->seats[m->seat].rank = (int)t->rank;
    snprintf(m->seats[m->seat].doing, TRANSPORT_NOTE, "start");
    MPI_Barrier(m->node);
    for (int i = 0; i < m->n_seats; i++)
        mine &= !kill(m->seats[i].pid, 0);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, m->node);
    m->see_pids = all;
    for_signal = m;
    memset(&act, 0, sizeof(act));
    act.sa_handler = on_term;
    sigaction(SIGTERM, &act, NULL);
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
    sit_down(t, m);
    return 0;
}

static void mpi_close(struct transport *t)
{
    struct mpi *m = t->ctx;

    if (m->seats) {
        m->seats[m->seat].closed = 1;
        signal(SIGTERM, SIG_DFL);
        for_signal = NULL;
        MPI_Barrier(m->node);
    }
    if (m->window != MPI_WIN_NULL)
        MPI_Win_free(&m->window);
    if (m->node != MPI_COMM_NULL)
        MPI_Comm_free(&m->node);
    MPI_Comm_free(&m->comm);
    if (m->finalize)
        MPI_Finalize();
    mem_free(m->list);
    mem_free(m);
}

/* ---- messages ---- */

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
            return fail(code, "MPI_Isend", e);
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
            return fail(code, "MPI_Irecv", e);
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

static int gone(const struct seat *s, struct err *e)
{
    return err_set(e, ERR_EXTERNAL, "the process of rank %d died; it was at %s", s->rank, s->doing);
}

/* Nothing moved for long. */
static int stuck(struct transport *t, const struct seat *last, struct err *e)
{
    struct mpi *m = t->ctx;

    if (last && last != &m->seats[m->seat])
        return err_set(e, ERR_EXTERNAL, "nothing moved for %g s; rank %d is furthest behind, at %s",
                       t->watchdog_s, last->rank, last->doing);
    return err_set(e, ERR_EXTERNAL, "nothing moved for %g s; another rank is gone or stuck",
                   t->watchdog_s);
}

/* All that is pending, whoever asked: requests of one wait are the requests since the last. */
static int mpi_wait(struct transport *t, struct transport_request *r, size_t n, struct err *e)
{
    struct mpi *m = t->ctx;
    const struct seat *last, *dead;
    double moved = now_s(), looked = moved;
    unsigned long long seen = progress(m, &last);
    size_t first = 0;

    while (first < m->n) {
        int done = 0, code = MPI_Test(&m->list[first].request, &done, MPI_STATUS_IGNORE);
        double now;

        if (code != MPI_SUCCESS)
            return fail(code, "a message failed", e);
        if (done) {
            first++;
            moved = now_s();
            continue;
        }
        now = now_s();
        if (now - looked > 0.25) {
            unsigned long long p = progress(m, &last);

            looked = now;
            if (p != seen)
                moved = now;
            seen = p;
            dead = find_dead(m);
            if (dead)
                return gone(dead, e);
        }
        if (now - moved > t->watchdog_s)
            return stuck(t, last, e);
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
    signal(SIGTERM, SIG_DFL);
    MPI_Abort(MPI_COMM_WORLD, status);
    _exit(status);
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
    .note = mpi_note,
    .claim = mpi_claim,
};
