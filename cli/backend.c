#include "cli/backend.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum backend_kind { BACKEND_CPU, BACKEND_CUDA, BACKEND_AUTO };
enum transport_kind { TRANSPORT_AUTO, TRANSPORT_SELF, TRANSPORT_MPI };
enum gemm_kind { GEMM_AUTO, GEMM_BLAS, GEMM_REFERENCE };
static const char *const backends[] = {"cpu", "cuda", "auto", NULL};
static const char *const transports[] = {"auto", "self", "mpi", NULL};
static const char *const gemms[] = {"auto", "blas", "reference", NULL};

const struct opt backend_rows[] = {
    {.name = "backend",
     .type = OPT_CHOICE,
     .choices = backends,
     .dflt = "cpu",
     .help = "what computes; auto: cpu in this version"},
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
    {.name = "watchdog",
     .type = OPT_TIME,
     .dflt = "60s",
     .help = "give up when nothing moves for so long"},
};
const size_t backend_n_rows = sizeof(backend_rows) / sizeof(backend_rows[0]);

/* ---- the job's end ---- */

/* From inside an allocation, which knows no backend. */
static struct backend *running;

static void no_memory(size_t n, size_t size)
{
    struct err e;

    if (!running || !running->open)
        return;
    err_set(&e, ERR_EXTERNAL, "rank %u: %s: out of memory: %zu x %zu bytes", running->t.rank,
            running->doing, n, size);
    exit(backend_fail(running, &e));
}

void backend_init(struct backend *b)
{
    memset(b, 0, sizeof(*b));
    snprintf(b->doing, sizeof(b->doing), "start");
    arena_init(&b->arena);
    running = b;
    mem_on_failure(no_memory);
}

void backend_close(struct backend *b)
{
    if (b->open)
        transport_close(&b->t);
    mem_on_failure(NULL);
    running = NULL;
    arena_release(&b->arena);
}

void backend_doing(struct backend *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(b->doing, sizeof(b->doing), fmt, ap);
    va_end(ap);
    transport_note(&b->t, "%s", b->doing);
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

int backend_fail(struct backend *b, const struct err *e)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    int status = err_exit_status(e->code);

    if (b->open) {
        if (transport_claim(&b->t))
            fprintf(stderr, "error: %s [ERR_%s]\n", e->msg, err_name(e->code));
        fflush(stderr);
        if (b->t.size > 1)
            b->t.lib->abort(&b->t, status);
        return status;
    }
    /* Before the ranks know of each other every one of them fails alike: the first one speaks, the others leave it the
     * time before the launcher ends all. */
    if (launched(ranks, sizeof(ranks) / sizeof(ranks[0])) == 0)
        fprintf(stderr, "error: %s [ERR_%s]\n", e->msg, err_name(e->code));
    else
        sleep(1);
    return status;
}

/* ---- libraries beside this program ---- */

static char *beside(struct arena *a, const char *file)
{
    char path[4096], *slash;
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (n < 0)
        return arena_strdup(a, file);
    path[n] = 0;
    slash = strrchr(path, '/');
    return arena_printf(a, "%.*s/%s", (int)(slash ? slash - path : 0), path, file);
}

/* Does the processor have AVX2, and the BLAS kernels that do not use it? It falls back to those of 20 years ago on
 * processors that it does not know: a factor of four. */
static bool slow_core(const char *core)
{
    static const char *const slow[] = {"Prescott", "Core2",  "Penryn",     "Dunnington", "Nehalem",
                                       "Atom",     "Athlon", "Opteron",    "Barcelona",  "Bobcat",
                                       "Generic",  "Katmai", "Coppermine", "Northwood",  "Banias"};
    char line[8192];
    bool avx2 = false;
    FILE *f;

    for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++) {
        if (strncmp(core, slow[i], strlen(slow[i])))
            continue;
        f = fopen("/proc/cpuinfo", "r");
        while (f && !avx2 && fgets(line, sizeof(line), f))
            avx2 = !strncmp(line, "flags", 5) && strstr(line, " avx2");
        if (f)
            fclose(f);
        return avx2;
    }
    return false;
}

static void *load_blas(const char *path)
{
    void *h = dlopen(path, RTLD_NOW);
    const char *(*core)(void) = NULL;

    if (!h || getenv("OPENBLAS_CORETYPE"))
        return h;
    *(void **)&core = dlsym(h, "blas_core");
    if (!core || !slow_core(core()))
        return h;
    /* it looks at the variable while it is loaded */
    dlclose(h);
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    return dlopen(path, RTLD_NOW);
}

static int open_gemm(struct backend *b, const struct opts *o, struct err *e)
{
    uint64_t kind = opts_get(o, "gemm")->u64;

    b->gemm = &kernel_gemm_reference;
    b->gemm_name = "reference";
    if (kind == GEMM_REFERENCE)
        return 0;
    setenv("OPENBLAS_NUM_THREADS",
           arena_printf(&b->arena, "%u", (unsigned)opts_get(o, "threads")->u64), 0);
    b->gemm_handle = load_blas(beside(&b->arena, "ballast-blas.so"));
    if (b->gemm_handle && dlsym(b->gemm_handle, "blas_library")) {
        b->gemm = dlsym(b->gemm_handle, "blas_library");
        b->gemm_name = "BLAS";
        return 0;
    }
    return kind == GEMM_BLAS ? err_set(e, ERR_EXTERNAL, "cannot load BLAS: %s", dlerror()) : 0;
}

int backend_open(struct backend *b, const struct opts *o, struct err *e)
{
    uint64_t kind = opts_get(o, "transport")->u64;
    bool mpi = kind == TRANSPORT_MPI || (kind == TRANSPORT_AUTO && several());

    if (opts_get(o, "backend")->u64 == BACKEND_CUDA)
        return err_set(e, ERR_EXTERNAL,
                       "--backend cuda: there is none in this version; --backend cpu runs here");
    b->t.watchdog_s = opts_get(o, "watchdog")->d;
    if (transport_open(&b->t, mpi ? beside(&b->arena, "ballast-mpi.so") : NULL, e))
        return -1;
    b->open = true;
    if (opts_get(o, "backend")->u64 == BACKEND_AUTO && b->t.rank == 0)
        fputs("backend: cpu\n", stderr);
    return open_gemm(b, o, e);
}
