#include "cli/machine.h"

#include "cli/programs.h"
#include "core/version.h"
#include "exec/agree.h"
#include "exec/blas.h"
#include "exec/near.h"
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

enum backend_choice { CHOICE_CPU, CHOICE_CUDA, CHOICE_AUTO };
enum transport_kind { TRANSPORT_AUTO, TRANSPORT_SELF, TRANSPORT_MPI };
enum gemm_kind { GEMM_AUTO, GEMM_BLAS, GEMM_REFERENCE };
static const char *const backends[] = {"cpu", "cuda", "auto", NULL};
static const char *const transports[] = {"auto", "self", "mpi", NULL};
static const char *const clocks[] = {"wall", "cpu", NULL};
static const char *const gemms[] = {"auto", "blas", "reference", NULL};

const struct opt machine_rows[] = {
    {.name = "backend",
     .type = OPT_CHOICE,
     .choices = backends,
     .dflt = "cpu",
     .help = "what computes; auto: cuda when ballast-cuda.so finds a GPU, else cpu"},
    {.name = "transport",
     .type = OPT_CHOICE,
     .choices = transports,
     .dflt = "auto",
     .help = "between ranks; auto: mpi when a launcher started several"},
    {.name = "gemm",
     .type = OPT_CHOICE,
     .choices = gemms,
     .dflt = "auto",
     .help = "products; auto: BLAS when it can be loaded, else our reference"},
    {.name = "threads",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "1",
     .min = 1,
     .max = 1024,
     .help = "of the BLAS, a rank; OPENBLAS_NUM_THREADS wins"},
    {.name = "shuffle",
     .type = OPT_COUNT,
     .meta = "SEED",
     .dflt = "0",
     .help = "cpu: drain streams in a random legal order, not in that of issue; 0: no"},
    {.name = "clock",
     .type = OPT_CHOICE,
     .choices = clocks,
     .dflt = "wall",
     .help = "of measured times; cpu: what a rank computed, where other programs run too"},
    {.name = "watchdog",
     .type = OPT_TIME,
     .dflt = "60s",
     .help = "give up when nothing moves for so long; 0: the default"},
    {.name = "start-limit",
     .type = OPT_TIME,
     .dflt = "300s",
     .lo = 0.1,
     .help = "give up when the ranks have not found each other for so long"},
};
const size_t machine_n_rows = sizeof(machine_rows) / sizeof(machine_rows[0]);

/* ---- the job's end ---- */

/* From inside an allocation, which knows no backend. */
static struct machine *running;

static void no_memory(size_t n, size_t size)
{
    struct err e;

    if (!running || !running->open)
        return;
    err_set(&e, ERR_EXTERNAL, "rank %u: %s: out of memory: %zu x %zu bytes", running->t.rank,
            running->doing, n, size);
    exit(machine_fail(running, &e));
}

/* A step frees and takes the same buffers again and again. Where the C library gives them back to the system in between,
 * every kernel that writes one first waits for its pages: SwiGLU took twice its time, a residual's backward four times. Kept,
 * as the caching allocators of GPU frameworks keep theirs. */
static void keep_freed_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

void machine_init(struct machine *m)
{
    keep_freed_memory();
    memset(m, 0, sizeof(*m));
    snprintf(m->doing, sizeof(m->doing), "start");
    arena_init(&m->arena);
    running = m;
    mem_on_failure(no_memory);
}

void machine_close(struct machine *m)
{
    backend_close(&m->b);
    guard_close(m->guard);
    if (m->open)
        transport_close(&m->t);
    mem_on_failure(NULL);
    running = NULL;
    arena_release(&m->arena);
}

void machine_doing(struct machine *m, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(m->doing, sizeof(m->doing), fmt, ap);
    va_end(ap);
    transport_note(&m->t, "%s", m->doing);
}

/* Set by the launcher; 0 for a program of its own. */
static long launched(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (getenv(names[i]))
            return atol(getenv(names[i]));
    return 0;
}

static bool several(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};

    return launched(sizes, sizeof(sizes) / sizeof(sizes[0])) > 1;
}

static long launched_rank(void)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};

    return launched(ranks, sizeof(ranks) / sizeof(ranks[0]));
}

/* Before the ranks know of each other there is no shared page: is this the first rank of its node to speak? A socket has a name
 * that only one process can take, and that goes with it: the launcher's process, of which the ranks of a node are children. */
static bool speaks_first(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int s;

    if (!several())
        return true;
    snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "ballast-exec of %ld", (long)getppid());
    s = socket(AF_UNIX, SOCK_DGRAM, 0); /* stays open until the process ends */
    return s < 0 || !bind(s, (struct sockaddr *)&name, sizeof(name)) || errno != EADDRINUSE;
}

int machine_fail(struct machine *m, const struct err *e)
{
    int status = err_exit_status(e->code);

    if (m->open) {
        if (transport_claim(&m->t))
            fprintf(stderr, "error: %s [ERR_%s]\n", e->msg, err_name(e->code));
        fflush(stderr);
        if (m->t.size > 1)
            m->t.lib->abort(&m->t, status);
        return status;
    }
    /* all may fail alike: the first one to speak keeps its name until the others have come, and then the launcher ends all */
    if (speaks_first())
        fprintf(stderr, "error: %s [ERR_%s]\n", e->msg, err_name(e->code));
    if (several())
        sleep(1);
    return status;
}

/* MPI waits for ever for a rank that does not come. Its thread is inside of it: nothing is tidied up. */
static void give_up_start(const char *what, double seconds)
{
    struct err e;

    err_set(&e, ERR_EXTERNAL,
            "rank %ld: start: %s did not return for %g s: a rank is stuck, was stopped, or never "
            "started",
            launched_rank(), what, seconds);
    machine_fail(running, &e);
    fflush(stderr);
    _exit(err_exit_status(e.code));
}

/* ---- libraries beside this program ---- */

/* Before MPI and any thread: the search forks. */
static void choose_blas(struct machine *m, const struct opts *o)
{
    if (opts_get(o, "gemm")->u64 == GEMM_REFERENCE)
        return;
    setenv("OPENBLAS_NUM_THREADS",
           arena_printf(&m->arena, "%u", (unsigned)opts_get(o, "threads")->u64), 0);
    blas_choose(programs_beside(&m->arena, "ballast-blas.so"));
}

/* auto does without one that is not there, and says so of one that is no good. */
static int open_gemm(struct machine *m, const struct opts *o, struct err *e)
{
    const char *path = programs_beside(&m->arena, "ballast-blas.so");
    uint64_t kind = opts_get(o, "gemm")->u64;
    struct blas blas;

    m->gemm = &kernel_gemm_reference;
    m->gemm_name = "reference";
    m->gemm_core = "";
    if (kind == GEMM_REFERENCE || (kind == GEMM_AUTO && access(path, F_OK)))
        return 0;
    if (!blas_open(&blas, path, e)) {
        m->gemm = blas.gemm;
        m->gemm_core = blas.core;
        m->gemm_name = *blas.core ? arena_printf(&m->arena, "BLAS (%s)", blas.core) : "BLAS";
        return 0;
    }
    if (kind == GEMM_BLAS)
        return -1;
    if (m->t.rank == 0)
        fprintf(stderr, "products: reference (%s)\n", e->msg);
    return 0;
}

static void stay_near(const char *bus_id)
{
    struct arena a;

    arena_init(&a);
    near_bind(programs_beside(&a, "ballast-hwloc.so"), bus_id);
    arena_release(&a);
}

/* Of the running machine, from whatever thread. */
static void give_up(const char *what, double seconds)
{
    struct err e;

    err_set(&e, ERR_EXTERNAL, "rank %u: %s: %s did not return for %g s", running->t.rank,
            running->doing, what, seconds);
    exit(machine_fail(running, &e));
}

/* auto takes the first that opens, all ranks the same one. */
static int open_backend(struct machine *m, const struct opts *o, struct err *e)
{
    enum backend_choice choice = (enum backend_choice)opts_get(o, "backend")->u64;
    bool alone = choice == CHOICE_CUDA || m->t.size == 1;
    const struct backend_options bo = {.transport = &m->t,
                                       .gemm = m->gemm,
                                       .stay_near = stay_near,
                                       .guard = m->guard,
                                       .shuffle = opts_get(o, "shuffle")->u64,
                                       .cpu_clock = opts_get(o, "clock")->u64 == 1};

    if (bo.cpu_clock && choice != CHOICE_CPU)
        return err_set(e, ERR_USAGE, "--clock cpu is of --backend cpu, not of %s",
                       opts_get(o, "backend")->text);
    if (bo.cpu_clock && opts_get(o, "threads")->u64 != 1)
        return err_set(e, ERR_USAGE, "--clock cpu counts one thread, and --threads is %llu",
                       (unsigned long long)opts_get(o, "threads")->u64);
    if (choice != CHOICE_CPU) {
        const char *path = programs_beside(&m->arena, "ballast-cuda.so");

        if (alone || !backend_agree(path, &bo, e)) {
            if (!backend_open(&m->b, path, &bo, e))
                return 0;
            /* others may have come further: no way back */
            if (choice == CHOICE_CUDA || !alone)
                return err_prefix(e, "--backend cuda");
        }
        if (m->t.rank == 0)
            fprintf(stderr, "backend: cpu (cuda: %s)\n", e->msg);
    }
    return backend_open(&m->b, NULL, &bo, e);
}

static int open_transport(struct machine *m, bool mpi, double limit_s, struct err *e)
{
    struct guard *g;
    int status;

    if (!mpi)
        return transport_open(&m->t, NULL, e);
    g = guard_open(limit_s, give_up_start);
    guard_enter(g, "MPI's start");
    status = transport_open(&m->t, programs_beside(&m->arena, "ballast-mpi.so"), e);
    guard_leave(g);
    guard_close(g);
    return status;
}

int machine_agree(struct machine *m, const struct strbuf *facts, struct err *e)
{
    return m->t.size > 1 ? agree_check(&m->t, facts, e) : 0;
}

/* What the ranks were asked for: every row of the tables, so that none can be forgotten. */
static int agree_on_options(struct machine *m, const char *command, const struct opts *o,
                            struct err *e)
{
    struct strbuf facts, value;
    int status;

    strbuf_init(&facts);
    strbuf_init(&value);
    agree_fact(&facts, "the version of ballast-exec", NULL, ballast_version);
    agree_fact(&facts, "the command", NULL, command);
    for (size_t i = 0; i < o->n; i++) {
        char name[72];

        snprintf(name, sizeof(name), "--%s", o->opt[i]->name);
        strbuf_clear(&value);
        opts_show(o, i, &value);
        agree_fact(&facts, name, NULL, value.s);
    }
    status = machine_agree(m, &facts, e);
    strbuf_release(&facts);
    strbuf_release(&value);
    return status;
}

/* What each rank made of `auto`, of the libraries beside its program and of its processor: products of another BLAS, of other
 * kernels or on more threads have other bits. */
static int agree_on_found(struct machine *m, struct err *e)
{
    bool blas = m->gemm != &kernel_gemm_reference;
    const char *threads = getenv("OPENBLAS_NUM_THREADS");
    struct strbuf facts;
    int status;

    strbuf_init(&facts);
    agree_fact(&facts, "the backend", NULL, m->b.lib->name);
    agree_fact(&facts, "the library of products", NULL, m->gemm_name);
    agree_fact(&facts, "OPENBLAS_NUM_THREADS", NULL, blas && threads ? threads : "not set");
    status = machine_agree(m, &facts, e);
    strbuf_release(&facts);
    return status;
}

int machine_open(struct machine *m, const char *command, const struct opts *o, struct err *e)
{
    uint64_t kind = opts_get(o, "transport")->u64;
    bool mpi = kind == TRANSPORT_MPI || (kind == TRANSPORT_AUTO && several());

    choose_blas(m, o);
    m->t.watchdog_s = opts_get(o, "watchdog")->d;
    if (open_transport(m, mpi, opts_get(o, "start-limit")->d, e))
        return -1;
    m->open = true;
    if (agree_on_options(m, command, o, e))
        return -1;
    if (m->t.size > 1 && opts_get(o, "backend")->u64 != CHOICE_CPU)
        m->guard = guard_open(m->t.watchdog_s, give_up);
    if (open_gemm(m, o, e) || open_backend(m, o, e))
        return -1;
    return agree_on_found(m, e);
}

/* What calibrate writes of cores has one SM. */
const char *machine_note(struct machine *m, const struct cluster *c)
{
    bool gpu = m->b.device.n_sm > 1, for_gpu = c->device.n_sm > 1;
    const char *run = m->t.size > 1
                          ? arena_printf(&m->arena, "mpirun -np %u ballast-exec", m->t.size)
                          : "ballast";

    if (gpu == for_gpu)
        return NULL;
    return arena_printf(&m->arena,
                        "the prediction is for %s %s (%s), and this was measured on %s; run `%s "
                        "calibrate -o machine.json` and give `--cluster machine.json`",
                        c->device.name, for_gpu ? "GPUs" : "cores", c->name, gpu ? "a GPU" : "CPUs",
                        run);
}
